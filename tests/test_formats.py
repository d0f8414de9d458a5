"""Data through the whole program: formats, preprocessing, prediction, the generator."""
import gzip
import json
import math
import os
import shutil
import subprocess
import sys
import unittest

import numpy as np

import model_reader
from support import PROGRAM, ProgramTest, events, last_evaluation, truemax


class Formats(ProgramTest):
    def trained(self, form, *options, name="train.txt", stdin=b"", read_as=None):
        self.fine("train", name, "--method", "implicit", "--step", 1, "--epochs", 3, "--seed", 1, "--model",
                  f"{form}.safetensors", "--log", "none", *options, stdin=stdin)
        return model_reader.read_model(self.path(f"{form}.safetensors"))

    def test_generated_trained_evaluated(self):
        """The same data in each format that can hold it gives the same model."""
        models = {}
        for form in ("xmlrepository", "libsvm", "lshtc", "fasttext"):
            with self.subTest(form):
                self.generate(f"{form}.txt", "--test", f"{form}-test.txt", "--test-rows", 50, form=form)
                models[form] = self.trained(form, "--format", form, name=f"{form}.txt")
                said = self.metrics(f"{form}.safetensors", f"{form}-test.txt", "--format", form)
                self.assertTrue(math.isfinite(said["log_loss"]))
                self.assertEqual(said["rows"] + said["unseen"] + said["rows_without_label"] +
                                 said["rows_without_features"], 50)
        weight = models["xmlrepository"][1]["weight"]
        for form in ("libsvm", "lshtc"):
            other = models[form][1]["weight"]
            D = min(weight.shape[1], other.shape[1])  # without a header D is the largest feature seen
            self.assertTrue(np.array_equal(weight[:, :D], other[:, :D]), form)
            self.assertEqual(np.count_nonzero(weight[:, D:]) + np.count_nonzero(other[:, D:]), 0)

    def test_formats_are_recognised(self):
        for form in ("xmlrepository", "libsvm", "fasttext"):
            with self.subTest(form):
                self.generate(f"{form}.txt", form=form)
                told = self.trained(form, "--format", form, name=f"{form}.txt")[1]["weight"]
                seen = self.trained(form, name=f"{form}.txt")[1]["weight"]
                self.assertTrue(np.array_equal(told, seen))

    def test_ambiguous_lshtc_is_read_as_libsvm_with_a_note(self):
        self.write("both.txt", "1 1:1 2:2\n2 2:1\n1 3:1\n")
        said = self.fine("train", "both.txt", "--method", "implicit", "--epochs", 1, "--model", "a.safetensors",
                         "--log", "none")
        self.assertRegex(said.stdout + said.stderr, "libsvm")
        self.assertRegex(said.stdout + said.stderr, "--format lshtc")
        self.assertEqual(model_reader.read_model(self.path("a.safetensors"))[1]["weight"].shape[1], 3)
        self.fine("train", "both.txt", "--method", "implicit", "--epochs", 1, "--model", "b.safetensors", "--log",
                  "none", "--format", "lshtc")
        self.assertEqual(model_reader.read_model(self.path("b.safetensors"))[1]["weight"].shape[1], 4)

    def test_lshtc_by_its_blanks_after_commas(self):
        self.write("train.txt", "12, 7, 3 0:1 4:2\n7, 3 1:1\n3 2:1.5\n")
        about, tensors = self.trained("lshtc")
        self.assertEqual(about["classes"], ["3", "7", "12"])
        self.assertEqual(tensors["weight"].shape, (3, 5))

    def test_libsvm_comments_qid_and_names(self):
        self.write("train.txt", "# made by hand\n-1 qid:3 1:0.5 3:1 # why not\nspam 2:1\n+7 1:1\n\n07 3:2\n1.0 2:1\n")
        about, tensors = self.trained("libsvm", "--format", "libsvm")
        self.assertEqual(set(about["classes"]), {"-1", "spam", "7", "1"})
        self.assertEqual(about["classes"], ["-1", "1", "7", "spam"])
        self.assertEqual(tensors["weight"].shape, (4, 3))

    def test_class_names_sort_by_value_then_by_bytes(self):
        self.write("train.txt", "10 1:1\n9 2:1\nb 1:1\na 2:1\n-3 1:1\nB 2:2\n100 1:2\n")
        about, _ = self.trained("libsvm", "--format", "libsvm")
        self.assertEqual(about["classes"], ["-3", "9", "10", "100", "B", "a", "b"])

    def test_fasttext_words_are_features(self):
        self.write("train.txt", "__label__pos good good film\n__label__neg bad film\n__label__pos fine film\n")
        about, tensors = self.trained("fasttext", "--normalize", "none")
        self.assertEqual(about["classes"], ["neg", "pos"])
        words = about["features"]["words"]
        self.assertEqual(set(words), {"good", "film", "bad", "fine"})
        self.assertEqual(words[0], "film", "the commonest word comes first")
        self.assertEqual(tensors["weight"].shape, (2, 4))
        self.write("test.txt", "good film unheard\n\n__label__neg bad bad\n")
        lines = self.fine("predict", "fasttext.safetensors", "test.txt", "--top", 2, "--json").stdout.splitlines()
        rows, _ = model_reader.read_fasttext(self.path("test.txt"), words)
        wanted = model_reader.softmax(model_reader.scores((about, tensors), rows))
        self.assertEqual(len(lines), 3)
        for i, line in enumerate(lines):
            said = json.loads(line)
            p = dict(zip(said["classes"], said["probabilities"]))
            for k, name in enumerate(about["classes"]):
                self.assertAlmostEqual(p[name], wanted[i, k], delta=1e-6)

    def test_npy(self):
        random = np.random.default_rng(1)
        y = random.integers(0, 4, 200)
        X = random.normal(size=(200, 6)) + np.eye(4, 6)[y] * 3
        for kind in ("<f4", "<f8", ">f8"):
            with self.subTest(kind):
                np.save(self.path("X.npy"), X.astype("<f4").astype(kind))
                np.save(self.path("y.npy"), y)
                _, tensors = self.trained("npy", name="X.npy")
                self.assertEqual(tensors["weight"].shape, (4, 6))
                self.assertLess(self.metrics("npy.safetensors", "X.npy")["error"], 0.2)
        np.save(self.path("X.npy"), np.asfortranarray(X.astype("<f4")))
        self.assertTrue(np.array_equal(self.trained("npy", name="X.npy")[1]["weight"], tensors["weight"]))
        shutil.move(self.path("y.npy"), self.path("answers.npy"))
        told = self.trained("npy", "--label-file", "answers.npy", name="X.npy")[1]["weight"]
        self.assertTrue(np.array_equal(told, tensors["weight"]))

    def test_standard_input_and_packed_files(self):
        """Standard input, gzip, gzip of several members, zstd: the same weights."""
        self.generate("train.txt")
        content = self.read("train.txt")
        wanted = self.trained("plain")[1]["weight"]
        packed = {"train.gz": gzip.compress(content),
                  "members.gz": gzip.compress(content[:777]) + gzip.compress(content[777:]),
                  "no-ending": gzip.compress(content)}
        if shutil.which("zstd"):
            packed["train.zst"] = subprocess.run(["zstd", "-c"], input=content, capture_output=True,
                                                 check=True).stdout
        else:
            print("skipped: zstd input, no zstd program here (package zstd)", file=sys.stderr)
        for name, data in packed.items():
            with self.subTest(name):
                self.write(name, data)
                self.assertTrue(np.array_equal(self.trained("packed", name=name)[1]["weight"], wanted))
                self.assertTrue(np.array_equal(self.trained("packed", name="-", stdin=data)[1]["weight"], wanted))
        with self.subTest("-"):
            self.assertTrue(np.array_equal(self.trained("packed", name="-", stdin=content)[1]["weight"], wanted))
            self.assertEqual(self.metrics("plain.safetensors", "-", stdin=content),
                             self.metrics("plain.safetensors", "train.txt"))
            self.assertEqual(self.fine("predict", "plain.safetensors", "-", stdin=content).stdout,
                             self.fine("predict", "plain.safetensors", "train.txt").stdout)

    def test_windows_line_ends_and_no_last_newline(self):
        self.generate("train.txt")
        content = self.read("train.txt")
        wanted = self.trained("plain")[1]["weight"]
        for case, data in (("crlf", content.replace(b"\n", b"\r\n")), ("no last newline", content.rstrip(b"\n"))):
            with self.subTest(case):
                self.write("other.txt", data)
                self.assertTrue(np.array_equal(self.trained("other", name="other.txt")[1]["weight"], wanted))


class Preprocessing(ProgramTest):
    def trained(self, *options, name="train.txt"):
        self.fine("train", name, "--method", "implicit", "--step", 1, "--epochs", 2, "--model", "m.safetensors",
                  "--log", "RUN.jsonl", *options)
        return model_reader.read_model(self.path("m.safetensors"))

    def start(self):
        return events(self.path("RUN.jsonl"))[0]["data"]

    def test_split_file(self):
        """One file, a split file of two columns for training, another for testing."""
        self.generate("all.txt", rows=60)
        content = self.read("all.txt").decode().splitlines()
        header, rows = content[0].split(), content[1:]
        chosen = {"train": [3, 1, 10, 20, 30, 44, 59, 60, 12, 13], "test": [2, 4, 6, 8, 5, 7, 9, 11, 14, 15]}
        for part, numbers in chosen.items():
            self.write(f"{part}.split", "".join(f"{61 - n} {n}\n" for n in numbers))
            self.write(f"{part}.txt", f"{len(numbers)} {header[1]} {header[2]}\n" +
                       "".join(rows[n - 1] + "\n" for n in numbers))
        wanted = self.trained("--test", "test.txt")
        event = last_evaluation(self.path("RUN.jsonl"))
        found = self.trained("--split", "train.split", "--split-column", 2, "--test", "all.txt", "--test-split",
                             "test.split", name="all.txt")
        self.assertEqual(found[0]["classes"], wanted[0]["classes"])
        self.assertTrue(np.array_equal(found[1]["weight"], wanted[1]["weight"]))
        self.assertEqual(last_evaluation(self.path("RUN.jsonl"))["test"], event["test"])
        self.assertEqual(self.metrics("m.safetensors", "all.txt", "--split", "test.split", "--split-column", 2),
                         self.metrics("m.safetensors", "test.txt"))

    def test_max_rows_counts_rows_of_the_file(self):
        """Before any are dropped: of the first four rows two are usable."""
        self.write("train.txt", "6 5 4\n0 0:1\n 1:1\n1 1:1\n2 \n3 2:1\n2 2:1\n")
        about, _ = self.trained("--max-rows", 4)
        self.assertEqual(about["classes"], ["0", "1"])
        self.assertEqual(self.start()["rows"], 2)
        about, _ = self.trained("--max-rows", 5)
        self.assertEqual(about["classes"], ["0", "1", "3"])

    def test_max_features_counts_from_zero(self):
        self.write("train.txt", "3 5 3\n0 0:1 2:1\n1 1:1 4:1\n2 3:1\n")
        about, tensors = self.trained("--max-features", 2)
        self.assertEqual(tensors["weight"].shape, (2, 2))
        self.assertEqual(about["classes"], ["0", "1"], "a row left without features is dropped")
        self.assertEqual(self.start()["nonzeros"], 2)

    def test_dropped_rows_are_counted_and_reported(self):
        self.write("train.txt", "6 5 4\n0 0:1\n 1:1\n1 1:1\n2 \n3 2:1\n 3:1\n")
        said = self.fine("train", "train.txt", "--method", "implicit", "--epochs", 1, "--model", "m.safetensors",
                         "--log", "none")
        self.assertRegex(said.stdout + said.stderr, r"2 (rows )?(without|with no|have no) (a )?label")
        self.assertRegex(said.stdout + said.stderr, r"1 (rows? )?(without|with no|have no|has no) (any )?feature")
        counted = self.metrics("m.safetensors", "train.txt")
        self.assertEqual((counted["rows"], counted["rows_without_label"], counted["rows_without_features"]), (3, 2, 1))

    def test_labels_first_and_all(self):
        self.write("train.txt", "3 5 6\n2,0 0:1\n1,2,5 1:1\n2 2:1\n")
        about, _ = self.trained("--labels", "first")
        self.assertEqual(about["classes"], ["1", "2"])
        self.assertEqual(about["class_counts"], [1, 2])
        about, _ = self.trained("--labels", "all")
        self.assertEqual(about["classes"], ["0", "1", "2", "5"])
        np.testing.assert_allclose(about["class_counts"], [1 / 2, 1 / 3, 1 / 2 + 1 / 3 + 1, 1 / 3], rtol=1e-6)

    def test_unseen_labels_are_counted_reported_and_left_out(self):
        self.write("train.txt", "4 5 6\n0 0:1\n1 1:1\n0 0:1\n1 1:1\n")
        self.write("test.txt", "4 5 6\n0 0:1\n5 0:1\n4,0 1:1\n1 1:1\n")
        self.write("seen.txt", "2 5 6\n0 0:1\n1 1:1\n")
        said = self.fine("train", "train.txt", "--test", "test.txt", "--method", "implicit", "--step", 1, "--epochs", 2,
                         "--model", "m.safetensors", "--log", "RUN.jsonl")
        self.assertRegex(said.stdout + said.stderr, r"(?i)\b2\b.*(unseen|never saw|not seen)|(unseen|never).*\b2\b")
        self.assertEqual(last_evaluation(self.path("RUN.jsonl"))["test"]["unseen"], 2)
        all_rows, seen = self.metrics("m.safetensors", "test.txt"), self.metrics("m.safetensors", "seen.txt")
        self.assertEqual((all_rows["unseen"], all_rows["rows"]), (2, 2))
        self.assertEqual((all_rows["log_loss"], all_rows["error"]), (seen["log_loss"], seen["error"]))
        text = self.fine("evaluate", "m.safetensors", "test.txt").stdout
        self.assertRegex(text, r"(?i)unseen.*\b2\b")

    def test_examples_are_not_called_rows(self):
        self.write("train.txt", "3 5 6\n0,1 0:1\n1 1:1\n0 0:1\n")
        self.write("test.txt", "3 5 6\n0,5 0:1\n5,4 0:1\n1 1:1\n")
        said = self.fine("train", "train.txt", "--test", "test.txt", "--labels", "all", "--epochs", 1, "--model", "none",
                         "--log", "none").stdout
        self.assertRegex(said, r"(?m)^train +4 examples of 3 rows, ")
        self.assertRegex(said, r"(?m)^test +2 examples of 3 rows, .*; 3 examples with a label unseen")
        self.assertIn("3 test examples with a label unseen in training: left out of log-loss and error, not of "
                      "precision", said)
        said = self.fine("train", "train.txt", "--test", "test.txt", "--epochs", 1, "--model", "none", "--log",
                         "none").stdout
        self.assertRegex(said, r"(?m)^train +3 rows, ")
        self.assertRegex(said, r"(?m)^test +2 rows, .*; 1 row with a label unseen")

    def test_features_of_any_size(self):
        """1e30 and 1e-30: with --normalize l2 the model equals that of 1; without, it stays finite or the run diverges."""
        template = "4 3 3\n0 0:{v} 1:{v}\n1 1:{v}\n2 2:{v}\n0 0:{v}\n"
        self.write("train.txt", template.format(v=1))
        wanted = self.trained("--normalize", "l2")[1]["weight"]
        for value in ("1e30", "1e-30", "3e38", "1e-38", "1e-44"):
            self.write("train.txt", template.format(v=value))
            with self.subTest(value=value, normalize="l2"):
                # 1e-44 is a float32 of three bits, but all values are equal, so the scaled row is exact
                np.testing.assert_allclose(self.trained("--normalize", "l2")[1]["weight"], wanted, rtol=1e-5, atol=1e-7)
            for method in ("implicit", "umax"):
                with self.subTest(value=value, normalize="none", method=method):
                    result = truemax("train", "train.txt", "--method", method, "--normalize", "none", "--epochs", 2,
                                     "--step", 1, "--model", "n.safetensors", "--log", "none", cwd=self.folder)
                    if result.returncode == 3:
                        self.assertRegex(result.stderr, r"(?m)^truemax: error: .*diverged.*--step")
                        continue
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertTrue(np.isfinite(model_reader.read_model(self.path("n.safetensors"))[1]["weight"]).all())


class Predict(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt")
        self.fine("train", self.train, "--method", "implicit", "--step", 1, "--epochs", 3, "--model", "m.safetensors",
                  "--log", "none")

    def test_rows_without_labels(self):
        """Labels do not matter; every row of the file gets a line."""
        lines = self.read("train.txt").decode().splitlines()
        self.write("bare.txt", "\n".join([lines[0]] + [" " + line.split(" ", 1)[1] for line in lines[1:]]) + "\n")
        self.assertEqual(self.fine("predict", "m.safetensors", "bare.txt").stdout,
                         self.fine("predict", "m.safetensors", "train.txt").stdout)

    def test_predict_ignores_a_neighbouring_label_file(self):
        np.save(self.path("X.npy"), np.eye(4))
        np.save(self.path("y.npy"), np.array([0, 1, 2, 1]))
        self.fine("train", "X.npy", "--epochs", 1, "--model", "d.safetensors", "--log", "none")
        np.save(self.path("y.npy"), np.array([0, 1]))
        self.assertEqual(len(self.fine("predict", "d.safetensors", "X.npy").stdout.splitlines()), 4)

    def test_top(self):
        """At most this many classes, and no more than the model has."""
        self.assertEqual(len(self.fine("predict", "m.safetensors", "train.txt").stdout.splitlines()), 400)
        K = len(model_reader.read_model(self.path("m.safetensors"))[0]["classes"])
        for top, shown in ((1, 1), (3, 3), (K, K), (10**6, K)):
            lines = self.fine("predict", "m.safetensors", "train.txt", "--top", top).stdout.splitlines()
            self.assertTrue(all(len(line.split("\t")) == 2 * shown for line in lines))

    def test_row_without_features_gets_a_prediction(self):
        self.write("rows.txt", "3 60 12\n1 0:1\n2 \n3 1:1\n")
        lines = [json.loads(line) for line in
                 self.fine("predict", "m.safetensors", "rows.txt", "--top", 12, "--json").stdout.splitlines()]
        self.assertEqual([line["row"] for line in lines], [1, 2, 3])
        for p in lines[1]["probabilities"]:
            self.assertAlmostEqual(p, 1 / len(lines[1]["probabilities"]), delta=1e-9)

    def test_memory_does_not_grow_with_the_rows(self):
        """Rows are streamed: 100 times the rows take about the same memory, where N x K doubles would be 240 MB."""
        if "thread" in os.environ.get("TRUEMAX_SANITIZE", ""):
            self.skipTest("the thread sanitizer keeps several times the memory that is used: nothing to measure")
        self.generate("few.txt", rows=1000, classes=300)
        self.generate("many.txt", rows=100000, classes=300)
        self.fine("train", "few.txt", "--method", "implicit", "--epochs", 1, "--model", "m.safetensors",
                  "--log", "none")
        most = {}
        for name in ("few.txt", "many.txt"):
            process = subprocess.Popen([PROGRAM, "predict", "m.safetensors", name, "--top", "1"], cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(process.returncode, 0)
            most[name] = usage.ru_maxrss * 1024
        self.assertLess(most["many.txt"] - most["few.txt"], 60e6)

    def test_output_to_a_closed_pipe_ends_quietly(self):
        process = subprocess.Popen(f"'{PROGRAM}' predict m.safetensors train.txt --top 12 | head -n 1",
                                   shell=True, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        output, errors = process.communicate(timeout=60)
        self.assertEqual(len(output.splitlines()), 1)
        self.assertEqual(errors, b"")


class Inspect(ProgramTest):
    def test_text_and_json(self):
        train = self.generate("train.txt")
        self.fine("train", train, "--method", "umax", "--classes-per-step", 3, "--step", "0.1", "--epochs", 2,
                  "--model", "m.safetensors", "--log", "none")
        text = self.fine("inspect", "m.safetensors").stdout
        for word in ("umax", "60"):
            self.assertIn(word, text)
        said = json.loads(self.fine("inspect", "m.safetensors", "--json").stdout)
        about, _ = model_reader.read_model(self.path("m.safetensors"))
        for key in ("format_version", "method", "preprocessing", "classes", "options", "data"):
            self.assertEqual(said[key], about[key], key)
        self.assertEqual(about["method"], "umax")
        self.assertEqual(set(about["preprocessing"]), {"labels", "max-features", "hash-features", "word-ngrams", "char-ngrams",
                                                       "ngram-buckets", "normalize", "context", "min-count"})
        self.assertEqual(about["options"]["classes-per-step"], 3)


class Generate(ProgramTest):
    def test_sizes_and_seed(self):
        path = self.generate("a.txt", rows=123, features=45, classes=6, nonzeros=7)
        rows, features = model_reader.read_xmlrepository(path)
        self.assertEqual((len(rows), features), (123, 45))
        self.assertTrue(all(0 <= int(label) < 6 for row in rows for label in row.labels))
        average = np.mean([len(row.features) for row in rows])
        self.assertLess(abs(average - 7), 2.5)
        again = self.read("a.txt")
        self.generate("a.txt", rows=123, features=45, classes=6, nonzeros=7)
        self.assertEqual(self.read("a.txt"), again)
        self.generate("a.txt", rows=123, features=45, classes=6, nonzeros=7, seed=2)
        self.assertNotEqual(self.read("a.txt"), again)

    def test_standard_output_has_only_the_rows(self):
        wanted = self.read(os.path.basename(self.generate("a.txt", "--test", "t.txt", "--test-rows", 5)))
        test = self.read("t.txt")
        options = ["--rows", 400, "--features", 60, "--classes", 12, "--nonzeros", 8, "--test-rows", 5]
        for arguments, rows in ((["-", "--test", "t.txt"], wanted), (["a.txt", "--test", "-"], test)):
            result = self.fine("generate", *arguments, *options)
            self.assertEqual(result.stdout.encode(), rows)
            self.assertEqual(len(result.stderr.splitlines()), 2, result.stderr)

    def test_skew_and_separability_do_what_they_say(self):
        def largest(skew):
            path = self.generate("s.txt", "--skew", skew, rows=3000, classes=50)
            labels = [row.labels[0] for row in model_reader.read_xmlrepository(path)[0] if row.labels]
            return max(labels.count(label) for label in set(labels)) / len(labels)

        self.assertLess(largest(0), 0.06)
        self.assertGreater(largest(1.5), 0.2)
        errors = []
        for separability in (0, 0.5, 1):
            self.generate("s.txt", "--separability", separability, "--skew", 0, rows=3000, classes=10, features=200,
                          nonzeros=10)
            self.fine("train", "s.txt", "--method", "implicit", "--step", 1, "--epochs", 10, "--normalize", "l2",
                      "--model", "m.safetensors", "--log", "none")
            errors.append(self.metrics("m.safetensors", "s.txt")["error"])
        self.assertGreater(errors[0], errors[1])
        self.assertGreater(errors[1], errors[2])


if __name__ == "__main__":
    unittest.main(verbosity=2)
