#!/usr/bin/python3
"""Row weights and class weights: what they mean in training and evaluation, and what is refused."""
import gzip
import math
import os
import re
import unittest

import numpy as np

from model_reader import prepare, read_model, read_xmlrepository, scores
from support import OUTPUT, ProgramTest, RefusalTest, events, truemax

DATA = "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n"
FIGURES = ("log_loss", "error", "calibration_error", "perplexity")


def lines(values):
    return "".join(f"{value!r}\n" for value in values)


def read_rows(path):
    """The header and the lines of an XMLRepository file."""
    with open(path, encoding="utf-8") as file:
        header, *rows = file.read().splitlines()
    return [int(word) for word in header.split()], rows


def frequencies(output):
    """The line on class frequencies that `truemax train` prints."""
    return re.search(r"(?m)^class frequencies +(.*)$", output)[1].split()


class Weights(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt")
        # Every third row gets further labels.
        self.rows = []
        for i, row in enumerate(read_rows(self.train)[1]):
            label, _, features = row.partition(" ")
            labels = dict.fromkeys([label] + ([str(i % 12), str(i // 12 % 12)] if i % 3 == 0 else []))
            self.rows.append(f"{','.join(labels)} {features}")
        self.write_rows("train.txt", self.rows)
        self.random = np.random.default_rng(1)

    def fit(self, name, *more, data="train.txt", visit="file", step=1):
        method = () if "--method" in more else ("--method", "implicit")
        return self.fine("train", data, *method, "--epochs", 3, "--step", step, "--visit", visit, "--threads", 1,
                         "--model", f"{name}.safetensors", "--log", f"{name}.jsonl", *more)

    def model(self, name):
        return read_model(self.path(f"{name}.safetensors"))

    def same_tensors(self, a, b):
        (_, one), (_, other) = self.model(a), self.model(b)
        self.assertEqual(set(one), set(other))
        for tensor in one:
            self.assertEqual(one[tensor].tobytes(), other[tensor].tobytes(), tensor)

    def write_rows(self, name, rows):
        (_, features, labels), _ = read_rows(self.train)
        return self.write(name, f"{len(rows)} {features} {labels}\n" + "".join(row + "\n" for row in rows))

    def same_figures(self, one, other):
        for figure in FIGURES:
            self.assertAlmostEqual(one[figure], other[figure], delta=1e-12 * max(1, abs(one[figure])), msg=figure)
        for k in one["precision_at"]:
            self.assertAlmostEqual(one["precision_at"][k], other["precision_at"][k], delta=1e-12, msg=k)

    def test_evaluation_counts_weight_two_as_two_rows(self):
        for labels in ("first", "all"):
            with self.subTest(labels):
                self.fit("m", "--labels", labels)
                times = self.random.integers(0, 4, len(self.rows))
                self.write("w.txt", lines(times.tolist()))
                self.write_rows("twice.txt", [row for row, n in zip(self.rows, times) for _ in range(n)])
                weighted = self.metrics("m.safetensors", "train.txt", "--row-weights", "w.txt")
                self.same_figures(weighted, self.metrics("m.safetensors", "twice.txt"))
                self.assertEqual(weighted["rows_of_weight_zero"], int((times == 0).sum()))

    def test_class_frequencies_count_weight_two_as_two_rows(self):
        times = self.random.integers(0, 4, len(self.rows))
        self.write("w.txt", lines(times.tolist()))
        self.write_rows("twice.txt", [row for row, n in zip(self.rows, times) for _ in range(n)])
        for labels in ("first", "all"):
            with self.subTest(labels):
                weighted = self.fit("w", "--row-weights", "w.txt", "--labels", labels)
                twice = self.fit("t", "--labels", labels, data="twice.txt")
                self.assertEqual(frequencies(weighted.stdout), frequencies(twice.stdout))
                (one, _), (other, _) = self.model("w"), self.model("t")
                self.assertEqual(one["classes"], other["classes"])
                np.testing.assert_allclose(one["class_counts"], other["class_counts"], rtol=1e-12)

    def test_weights_of_one_change_nothing(self):
        self.generate("test.txt", rows=100, seed=2)
        self.write("ones.txt", "1\n" * len(self.rows))
        self.write("test-ones.txt", "1.0\n" * 100)
        names = self.fit("names", "--labels", "all") and self.model("names")[0]["classes"]
        self.write("classes.txt", "".join(f"{name} 1\n" for name in names))
        for labels in ("first", "all"):
            for visit in ("random", "file"):
                with self.subTest(labels=labels, visit=visit):
                    more = ("--labels", labels, "--test", "test.txt")
                    self.fit("plain", *more, visit=visit)
                    weights = ("--row-weights", "ones.txt", "--test-row-weights", "test-ones.txt")
                    if labels == "all":  # the classes of first labels may be fewer
                        weights += ("--class-weights", "classes.txt")
                    self.fit("ones", *more, *weights, visit=visit)
                    self.same_tensors("plain", "ones")
                    self.assertEqual(self.model("plain")[0]["class_counts"], self.model("ones")[0]["class_counts"])
                    plain, ones = events(self.path("plain.jsonl"))[1], events(self.path("ones.jsonl"))[1]
                    self.assertEqual((plain["train"], plain["test"]), (ones["train"], ones["test"]))

    def test_weight_multiplies_the_step_of_its_row(self):
        self.write("half.txt", "0.5\n" * len(self.rows))
        for method in ("implicit", "umax"):
            with self.subTest(method):
                self.fit("one", "--method", method)
                self.fit("half", "--method", method, "--row-weights", "half.txt", step=2)
                self.same_tensors("one", "half")
        self.fit("two", "--method", method, step=2)
        self.assertFalse(np.array_equal(self.model("one")[1]["weight"], self.model("two")[1]["weight"]))

    def test_row_weights_of_a_class_act_as_its_class_weight(self):
        """Doubling the rows of a class by row weights or by its class weight gives the same steps."""
        first = [row.split()[0].split(",")[0] for row in self.rows]
        name = max(set(first), key=first.count)
        self.write("rows.txt", lines([2 if label == name else 1 for label in first]))
        self.write("classes.txt", f"{name} 2\n")
        self.fit("rows", "--row-weights", "rows.txt")
        self.fit("classes", "--class-weights", "classes.txt")
        self.same_tensors("rows", "classes")
        (rows, _), (classes, _) = self.model("rows"), self.model("classes")
        at = rows["classes"].index(name)
        self.assertEqual(rows["class_counts"][at], 2 * first.count(name), "counts of classes count row weights")
        self.assertEqual(classes["class_counts"][at], first.count(name), "and not class weights")

    def test_auto_does_not_depend_on_the_scale_of_weights(self):
        self.write("many.txt", "1024\n" * len(self.rows))
        for name, more in (("one", ()), ("many", ("--row-weights", "many.txt"))):
            self.fine("train", "train.txt", "--epochs", 2, "--visit", "file", "--model", f"{name}.safetensors", *more)
        self.same_tensors("one", "many")

    def test_balanced_is_the_formula(self):
        weight = self.random.uniform(0.5, 2, len(self.rows))
        self.write("w.txt", lines(weight.tolist()))
        first = [row.split()[0].split(",")[0] for row in self.rows]
        sums = {name: math.fsum(w for w, label in zip(weight, first) if label == name) for name in set(first)}
        total = math.fsum(weight)
        self.write("formula.txt", "".join(f"{k}\t{total / (len(sums) * s)!r}\n" for k, s in sums.items()))
        self.fit("balanced", "--row-weights", "w.txt", "--class-weights", "balanced")
        self.fit("formula", "--row-weights", "w.txt", "--class-weights", "formula.txt")
        (_, one), (_, other) = self.model("balanced"), self.model("formula")
        np.testing.assert_allclose(one["weight"], other["weight"], rtol=0, atol=1e-5)
        # The model keeps the counts, so evaluate gets the same weights for any rows.
        for name in ("balanced", "formula.txt"):
            figures = self.metrics("balanced.safetensors", "train.txt", "--row-weights", "w.txt", "--class-weights", name)
            trained = [e for e in events(self.path("balanced.jsonl")) if e["event"] == "evaluate"][-1]["train"]
            self.assertAlmostEqual(figures["log_loss"], trained["log_loss"], delta=1e-12)
            self.assertAlmostEqual(figures["error"], trained["error"], delta=1e-12)
        # Without row weights: N / (K n_k).
        plain = {k: len(first) / (len(sums) * first.count(k)) for k in sums}
        self.write("plain.txt", "".join(f"{k} {w!r}\n" for k, w in plain.items()))
        self.fit("p", "--class-weights", "balanced")
        self.fit("q", "--class-weights", "plain.txt")
        self.same_tensors("p", "q")
        # Balanced classes: every class has the same share, and the best constant model is log K.
        self.assertEqual(frequencies(self.fit("p", "--class-weights", "balanced").stdout)[2],
                         f"{math.log(len(sums)):.4f}")

    def test_weighted_metrics_agree_with_numpy(self):
        for labels in ("first", "all"):
            with self.subTest(labels):
                self.fit("m", "--labels", labels, "--normalize", "l2")
                model = self.model("m")
                names = model[0]["classes"]
                row_weight = np.maximum(0, self.random.uniform(-0.5, 3, len(self.rows)))
                class_weight = dict(zip(names, self.random.uniform(0.2, 5, len(names)).tolist()))
                np.save(self.path("w.npy"), row_weight)
                self.write("c.txt", "".join(f"{name} {w!r}\n" for name, w in class_weight.items()))
                said = self.metrics("m.safetensors", "train.txt", "--row-weights", "w.npy", "--class-weights", "c.txt")
                rows, _ = read_xmlrepository(self.train)
                kept = [(row, w) for row, w in zip(rows, row_weight) if w > 0 and row.labels and row.features]
                prepared, _, _ = prepare([row for row, _ in kept], model[0]["preprocessing"])
                z = scores(model, prepared)
                log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
                weights, losses, wrong = [], [], []
                hits = {k: [] for k in (1, 3, 5)}
                for i, (row, w) in enumerate(kept):
                    order = np.argsort(-z[i], kind="stable")
                    chosen = row.labels[:1] if labels == "first" else row.labels
                    for k in hits:
                        hits[k].append(w * len({names[c] for c in order[:k]} & set(row.labels)) / k)
                    for label in chosen:
                        if label in names:
                            weights.append(w / len(chosen) * class_weight[label])
                            losses.append(-log_p[i, names.index(label)])
                            wrong.append(float(names[order[0]] != label))
                total = math.fsum(weights)
                # l2 scales rows in float32
                self.assertAlmostEqual(said["log_loss"], np.dot(weights, losses) / total, delta=1e-6)
                self.assertAlmostEqual(said["error"], np.dot(weights, wrong) / total, delta=1e-9)
                for k, of in hits.items():
                    self.assertAlmostEqual(said["precision_at"][str(k)], math.fsum(of) / math.fsum(w for _, w in kept),
                                           delta=1e-12)

    def test_weighted_log_loss_agrees_with_numpy_to_the_last_digits(self):
        self.fit("m")
        model = self.model("m")
        weight = self.random.uniform(0.1, 4, len(self.rows))
        self.write("w.txt.gz", gzip.compress(lines(weight.tolist()).encode()))
        said = self.metrics("m.safetensors", "train.txt", "--row-weights", "w.txt.gz")
        rows, _ = read_xmlrepository(self.train)
        for row in rows:  # values are stored as float32
            row.features.update({f: float(np.float32(v)) for f, v in row.features.items()})
        prepared, _, _ = prepare(rows, model[0]["preprocessing"])
        self.assertEqual(len(prepared), len(weight))
        z = scores(model, prepared)
        loss = np.logaddexp.reduce(z, axis=1) - z[range(len(rows)), [model[0]["classes"].index(r.labels[0]) for r in rows]]
        self.assertAlmostEqual(said["log_loss"], np.average(loss, weights=weight), delta=1e-12)

    def test_array_and_packed_weight_files_give_the_same_weights(self):
        weight = self.random.uniform(0, 2, len(self.rows))
        self.write("w.txt", "# weights\n" + lines(weight.tolist()) + "\n\n")
        np.save(self.path("w.npy"), weight)
        self.write("w.npy.gz", gzip.compress(self.read("w.npy")))
        self.fit("text", "--row-weights", "w.txt")
        for name in ("w.npy", "w.npy.gz"):
            self.fit("array", "--row-weights", name)
            self.same_tensors("text", "array")
        self.fine("train", "train.txt", "--method", "implicit", "--epochs", 3, "--step", 1, "--visit", "file", "--row-weights", "-", "--model",
                  "array.safetensors", stdin=self.read("w.txt"))
        self.same_tensors("text", "array")

    def test_rows_of_weight_zero_are_counted_and_dropped(self):
        self.write("w.txt", "0\n0\n" + "1\n" * (len(self.rows) - 2))
        self.write_rows("rest.txt", self.rows[2:])
        result = self.fit("zero", "--row-weights", "w.txt", "--test", "train.txt", "--test-row-weights", "w.txt")
        self.assertEqual(result.stdout.count("; 2 rows of weight 0 dropped"), 2, result.stdout)
        self.fit("rest", data="rest.txt")
        self.same_tensors("zero", "rest")
        start, evaluation = events(self.path("zero.jsonl"))[:2]
        self.assertEqual(start["data"]["rows_of_weight_zero"], 2)
        self.assertEqual(start["test_data"]["rows_of_weight_zero"], 2)
        self.assertEqual(evaluation["test"]["rows_of_weight_zero"], 2)
        self.assertEqual(self.model("zero")[0]["data"]["rows_of_weight_zero"], 2)
        text = self.fine("evaluate", "zero.safetensors", "train.txt", "--row-weights", "w.txt").stdout
        self.assertRegex(text, r"(?m)^left out: weight 0 +2$")

    def test_class_weights_apply_to_test_data_too(self):
        self.generate("test.txt", rows=100, seed=2)
        weight = (self.random.integers(0, 9, 100) / 4).tolist()
        self.write("tw.txt", lines(weight))
        self.fit("m", "--test", "test.txt", "--class-weights", "balanced", "--test-row-weights", "tw.txt")
        in_run = [e for e in events(self.path("m.jsonl")) if e["event"] == "evaluate"][-1]["test"]
        later = self.metrics("m.safetensors", "test.txt", "--class-weights", "balanced", "--row-weights", "tw.txt")
        self.assertEqual(in_run, later)
        self.assertNotEqual(later["log_loss"], self.metrics("m.safetensors", "test.txt")["log_loss"])

    def test_split_keeps_the_weights_of_its_rows(self):
        weight = (self.random.integers(1, 9, len(self.rows)) / 4).tolist()
        self.write("w.txt", lines(weight))
        self.write("a.txt", "".join(f"{i}\n" for i in range(300, 0, -1)))
        self.write("b.txt", "".join(f"{i}\n" for i in range(301, 401)))
        self.fit("split", "--split", "a.txt", "--test-split", "b.txt", "--row-weights", "w.txt")
        self.write_rows("a-rows.txt", self.rows[299::-1])
        self.write_rows("b-rows.txt", self.rows[300:])
        self.write("wa.txt", lines(weight[299::-1]))
        self.write("wb.txt", lines(weight[300:]))
        self.fit("files", "--row-weights", "wa.txt", "--test", "b-rows.txt", "--test-row-weights", "wb.txt",
                 data="a-rows.txt")
        self.same_tensors("split", "files")
        one, other = (events(self.path(f"{name}.jsonl"))[1] for name in ("split", "files"))
        self.assertEqual((one["train"], one["test"]), (other["train"], other["test"]))
        self.fit("limited", "--row-weights", "w.txt", "--max-rows", 200)
        self.write_rows("c-rows.txt", self.rows[:200])
        self.write("wc.txt", lines(weight[:200]))
        self.fit("first", "--row-weights", "wc.txt", data="c-rows.txt")
        self.same_tensors("limited", "first")

    def test_weight_options_are_in_the_log_and_the_model(self):
        self.write("w.txt", "2\n" * len(self.rows))
        self.fit("m", "--row-weights", "w.txt", "--class-weights", "balanced")
        config = events(self.path("m.jsonl"))[0]["config"]
        self.assertEqual((config["row-weights"], config["class-weights"], config["test-row-weights"]),
                         ("w.txt", "balanced", ""))
        options = self.model("m")[0]["options"]
        self.assertEqual((options["row-weights"], options["class-weights"]), ("w.txt", "balanced"))
        self.fit("plain")
        self.assertNotIn("row-weights", self.model("plain")[0]["options"])
        self.assertIn("balanced", self.fine("inspect", "m.safetensors").stdout)

    def test_extreme_weights_leave_every_number_finite(self):
        self.write("w.txt", "".join(("1e15\n", "1e-15\n", "1\n")[i % 3] for i in range(len(self.rows))))
        for step in ("1e15", "1e-15"):
            result = truemax("train", "train.txt", "--method", "implicit", "--epochs", 2, "--step", step, "--row-weights", "w.txt", "--model",
                             "m.safetensors", "--log", "m.jsonl", cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(np.isfinite(self.model("m")[1]["weight"]).all())


class Refused(RefusalTest):
    def setUp(self):
        super().setUp()
        self.write("good.txt", DATA)
        self.write("w.txt", "1\n2\n3\n4\n")
        result = truemax("train", "good.txt", "--epochs", 1, "--model", "model.safetensors", "--log", "none",
                         cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)

    # Content, expected message.
    ROWS = (
        ("1\n2\n3\n", r"bad\.w:3: the file ends after 3 weights, but good\.txt has 4 rows; "),
        ("1\n2\n3\n4\n5\n", r"bad\.w:5: 5 weights, but good\.txt has only 4 rows; "),
        ("1\n-2\n3\n4\n", r"bad\.w:2: weight '-2' is negative; "),
        ("1\n2\nnan\n4\n", r"bad\.w:3: weight 'nan' is not finite; "),
        ("1\n2\ninf\n4\n", r"bad\.w:3: weight 'inf' is not finite; "),
        ("1\n2\n3\n1e999\n", r"bad\.w:4: weight '1e999' is out of the range"),
        ("1\ntwo\n3\n4\n", r"bad\.w:2: weight 'two' is not a number; "),
        ("1 2\n3\n4\n5\n", r"bad\.w:1: weight '1 2' is not a number; "),
        ("1\n\n2\n3\n4\n", r"bad\.w:2: empty line between weights; "),
        ("0\n0\n0\n0\n", r"bad\.w: all 4 rows have weight 0; "),
        ("1e16\n1\n1\n1\n", r"bad\.w:1: weight '1e16' is above 1e\+15"),
        ("1e-16\n1\n1\n1\n", r"bad\.w:1: weight '1e-16' is below 1e-15"),
        ("# nothing\n", r"bad\.w: contains no weights; "),
        ("", r"bad\.w"),
        (b"\x1f\x8b\x08\x00truncated", r"bad\.w"),
    )
    CLASSES = (
        ("0 1\nzebra 2\n", r"bad\.w:2: class 'zebra' is not in the training data; "),
        ("0 0\n", r"bad\.w:1: weight '0' of class '0'; "),
        ("0 -1\n", r"bad\.w:1: weight '-1' is negative; "),
        ("0 inf\n", r"bad\.w:1: weight 'inf' is not finite; "),
        ("0 heavy\n", r"bad\.w:1: weight 'heavy' is not a number; "),
        ("0 1\n1\n", r"bad\.w:2: only one word, '1'; "),
        ("0 1\n0 2\n", r"bad\.w:2: class '0' is named here and in line 1; "),
        ("\n", r"bad\.w: contains no weights; "),
        ("", r"bad\.w"),
    )

    def test_row_weights(self):
        for content, words in self.ROWS:
            with self.subTest(content):
                self.write("bad.w", content)
                self.refused(["train", "good.txt", "--row-weights", "bad.w", *OUTPUT], words)
                self.refused(["train", "good.txt", "--test", "good.txt", "--test-row-weights", "bad.w", *OUTPUT], words)
                self.refused(["evaluate", "model.safetensors", "good.txt", "--row-weights", "bad.w"], words)

    def test_arrays_of_row_weights(self):
        for array, words in ((np.ones(3), r"bad\.npy: the file ends after 3 weights, but good\.txt has 4 rows; "),
                             (np.ones((4, 1)), r"bad\.npy: weights of shape \(4, 1\); "),
                             (np.array([1, 2, -3.5, 4]), r"bad\.npy: row 3: weight -3.5 is negative; "),
                             (np.array([1, np.inf, 3, 4]), r"bad\.npy: row 2: weight inf is not finite; "),
                             (np.array(list("1234")), r"bad\.npy: weights are text; "),
                             (np.zeros(4), r"bad\.npy: all 4 rows have weight 0; ")):
            with self.subTest(words):
                np.save(self.path("bad.npy"), array)
                self.refused(["train", "good.txt", "--row-weights", "bad.npy", *OUTPUT], words)

    def test_class_weights(self):
        for content, words in self.CLASSES:
            with self.subTest(content):
                self.write("bad.w", content)
                self.refused(["train", "good.txt", "--class-weights", "bad.w", *OUTPUT], words)
                self.refused(["evaluate", "model.safetensors", "good.txt", "--class-weights", "bad.w"], words)

    def test_missing_files(self):
        for option in ("--row-weights", "--class-weights"):
            self.refused(["train", "good.txt", option, "none.w", *OUTPUT], r"none\.w")
            self.refused(["evaluate", "model.safetensors", "good.txt", option, "none.w"], r"none\.w")
            self.refused(["train", "good.txt", option, "", *OUTPUT], option)

    def test_weights_of_test_rows_without_test_rows(self):
        self.refused(["train", "good.txt", "--test-row-weights", "w.txt", *OUTPUT], "--test-row-weights", "--test FILE")

    def test_outputs_on_weights(self):
        self.write("c.txt", "0 2\n")
        for output, other in (("--model", "--log"), ("--log", "--model")):
            for name, options in (("w.txt", ("--row-weights", "w.txt")), ("c.txt", ("--class-weights", "c.txt")),
                                  ("w.txt", ("--test", "good.txt", "--test-row-weights", os.path.join(".", "w.txt")))):
                with self.subTest(output=output, options=options):
                    self.refused(["train", "good.txt", *options, output, name, other, "none"],
                                 f"{output} {re.escape(name)}: this is an input of the run; ")

    def test_standard_input_twice(self):
        for options in (("-", "--row-weights", "-"), ("-", "--class-weights", "-"),
                        ("good.txt", "--row-weights", "-", "--class-weights", "-")):
            self.refused(["train", *options, *OUTPUT], "standard input can be read only once; ", stdin=DATA.encode())
        self.refused(["evaluate", "model.safetensors", "-", "--row-weights", "-"], "standard input can be read only once; ",
                     stdin=DATA.encode())

    def test_predict_has_no_weights(self):
        self.refused(["predict", "model.safetensors", "good.txt", "--row-weights", "w.txt"], "row-weights")


if __name__ == "__main__":
    unittest.main()
