"""A NumPy float64 program that reads only the model file and the data agrees with truemax to 1e-6.

Models are trained through the command line; `evaluate`, the last evaluation of the run log and `predict` are each
compared with the slow readers and sums of model_reader.py.
"""
import json
import unittest

import numpy as np

import model_reader
from support import ProgramTest, data_file, last_evaluation

TOLERANCE = 1e-6


class NumpyAgrees(ProgramTest):
    def assertMetrics(self, found, wanted, where):
        for name in ("log_loss", "error", "calibration_error"):
            self.assertAlmostEqual(found[name], wanted[name], delta=TOLERANCE, msg=f"{where}: {name}")
        # exp(log_loss) to a relative 1e-6, the error of the log-loss itself
        self.assertAlmostEqual(found["perplexity"] / wanted["perplexity"], 1, delta=TOLERANCE, msg=where)
        for k in ("1", "3", "5"):
            self.assertAlmostEqual(found["precision_at"][k], wanted["precision_at"][k], delta=TOLERANCE,
                                   msg=f"{where}: precision at {k}")
        for name in ("unseen", "rows_without_label", "rows_without_features"):
            self.assertEqual(found[name], wanted[name], f"{where}: {name}")

    def assertAgrees(self, reader, train, test, *options, max_rows=None):
        """Trains on `train` with the options; everything truemax reports on both files must agree with NumPy."""
        limit = [] if max_rows is None else ["--max-rows", max_rows]
        self.fine("train", train, "--test", test, "--model", "m.safetensors", "--log", "run.jsonl", "--seed", 1,
                  *limit, *options)
        model = model_reader.read_model(self.path("m.safetensors"))
        about, tensors = model
        train_rows = reader(train)[0][:max_rows]
        test_rows = reader(test)[0][:max_rows]
        self.check_model_file(model, train_rows)

        event = last_evaluation(self.path("run.jsonl"))
        for part, file, rows in (("train", train, train_rows), ("test", test, test_rows)):
            wanted = model_reader.evaluate(model, rows)
            for name in ("log_loss", "error"):
                self.assertAlmostEqual(event[part][name], wanted[name], delta=TOLERANCE,
                                       msg=f"run log, {part}: {name}")
            self.assertMetrics(self.metrics("m.safetensors", file, *limit), wanted, f"evaluate, {part}")
        self.assertEqual(event["test"]["unseen"], wanted["unseen"])
        self.check_predictions(model, test, test_rows, limit)
        return about, tensors

    def check_model_file(self, model, rows):
        """Shapes, class names in their order, and how often each class occurs."""
        about, tensors = model
        names = about["classes"]
        self.assertEqual(tensors["weight"].shape[0], len(names))
        self.assertTrue(np.isfinite(tensors["weight"]).all())
        self.assertGreater(np.count_nonzero(tensors["weight"]), 0)
        if "intercept" in tensors:
            self.assertEqual(tensors["intercept"].shape, (len(names),))
            self.assertGreater(np.count_nonzero(tensors["intercept"]), 0)
        counts = dict.fromkeys(names, 0.0)
        prepared, *_ = model_reader.prepare(rows, about["preprocessing"])
        for _, label, weight in model_reader.examples(prepared, about["preprocessing"]["labels"]):
            counts[label] += weight
        self.assertEqual(names, sorted(names, key=int), "classes that are numbers stand by value")
        np.testing.assert_allclose(about["class_counts"], [counts[name] for name in names], rtol=1e-6)

    def check_predictions(self, model, file, rows, limit):
        about, tensors = model
        names, K = about["classes"], len(about["classes"])
        steps = about["preprocessing"]
        limit_to = steps["max-features"]
        prepared = [model_reader.Row(row.labels, model_reader.keep_features(row, limit_to)) for row in rows]
        if steps["normalize"] == "l2":
            prepared = [model_reader.Row(row.labels, model_reader.unit_length(row.features)) for row in prepared]
        z = model_reader.scores(model, prepared)
        wanted = model_reader.softmax(z)
        number = {name: k for k, name in enumerate(names)}

        lines = self.fine("predict", "m.safetensors", file, "--top", K, "--json", *limit).stdout.splitlines()
        self.assertEqual(len(lines), len(rows))
        for i, line in enumerate(lines):
            said = json.loads(line)
            self.assertEqual(said["row"], i + 1)
            p = np.array(said["probabilities"])
            order = [number[name] for name in said["classes"]]
            self.assertEqual(sorted(order), list(range(K)), f"row {i + 1} names every class once")
            self.assertTrue(((p >= 0) & (p <= 1)).all(), f"row {i + 1}")
            self.assertLess(abs(p.sum() - 1), 1e-9, f"row {i + 1}")
            self.assertTrue((np.diff(p) <= 0).all(), f"row {i + 1}: probabilities fall")
            self.assertLess(np.abs(p - wanted[i, order]).max(), TOLERANCE, f"row {i + 1}")

        lines = self.fine("predict", "m.safetensors", file, "--top", 2, *limit).stdout.splitlines()
        self.assertEqual(len(lines), len(rows))
        for i, line in enumerate(lines):
            fields = line.split("\t")
            self.assertEqual(len(fields), 4, line)
            for name, p in zip(fields[::2], fields[1::2]):
                self.assertAlmostEqual(float(p), wanted[i, number[name]], delta=TOLERANCE, msg=f"row {i + 1}")


class OnGeneratedData(NumpyAgrees):
    SIZES = dict(rows=600, features=90, classes=37, nonzeros=9)

    def pair(self, form="xmlrepository"):
        """Train and test file; some rows have no label, no feature, or an unseen label."""
        train = self.generate("train.txt", "--test", "test.txt", "--test-rows", 300, "--skew", "1.2", form=form,
                              **self.SIZES)
        return train, self.path("test.txt")

    def spoil(self, path, labels):
        with open(path) as file:
            header, *lines = file.read().splitlines()
        count, features, _ = header.split()
        lines[3] = " " + lines[3].split(" ", 1)[1]
        lines[5] = lines[5].split(" ", 1)[0] + " "
        lines[7] = f"{labels - 1} " + lines[7].split(" ", 1)[1]
        lines[8] = f"{labels - 1},{labels - 2}," + lines[8]
        lines[9] = lines[9].split(" ", 1)[0].split(",")[0] + f",{labels - 1} " + lines[9].split(" ", 1)[1]
        with open(path, "w") as file:
            file.write("\n".join([f"{count} {features} {labels}", *lines]) + "\n")

    def test_implicit(self):
        self.assertAgrees(model_reader.read_xmlrepository, *self.pair(), "--method", "implicit", "--step", 1,
                          "--epochs", 4, "--normalize", "l2")

    def test_umax_with_intercept(self):
        _, tensors = self.assertAgrees(model_reader.read_xmlrepository, *self.pair(), "--method", "umax",
                                       "--classes-per-step", 5, "--step", "0.1", "--epochs", 4, "--normalize", "l2",
                                       "--intercept")
        self.assertIn("intercept", tensors)

    def test_rows_without_label_or_feature_and_unseen_labels(self):
        train, test = self.pair()
        self.spoil(test, 100)
        self.assertAgrees(model_reader.read_xmlrepository, train, test, "--method", "implicit", "--step", 1,
                          "--epochs", 2, "--normalize", "l2")
        said = self.metrics("m.safetensors", test)
        self.assertEqual(said["unseen"], 2)
        self.assertEqual((said["rows_without_label"], said["rows_without_features"]), (1, 1))

    def test_all_labels_of_a_row(self):
        train, test = self.pair()
        self.spoil(test, 100)
        for path in (train, test):
            with open(path) as file:
                header, *lines = file.read().splitlines()
            # every second row gets the first label of the row before it as a second label
            for i in range(11, len(lines), 2):
                other = lines[i - 1].split(" ", 1)[0].split(",")[0]
                own, rest = lines[i].split(" ", 1)
                if other not in own.split(","):
                    lines[i] = f"{own},{other} {rest}"
            with open(path, "w") as file:
                file.write("\n".join([header, *lines]) + "\n")
        about, _ = self.assertAgrees(model_reader.read_xmlrepository, train, test, "--method", "implicit", "--step", 1,
                                     "--epochs", 2, "--normalize", "l2", "--labels", "all")
        self.assertEqual(about["preprocessing"]["labels"], "all")

    def test_libsvm_as_it_is(self):
        """No scaling; features below a limit only."""
        self.assertAgrees(model_reader.read_libsvm, *self.pair("libsvm"), "--method", "implicit", "--step", "0.1",
                          "--epochs", 3, "--normalize", "none", "--max-features", 50, "--format", "libsvm")

    def test_fewer_classes_than_the_k_of_precision(self):
        train = self.generate("train.txt", classes=3, rows=200)
        test = self.generate("test.txt", classes=3, rows=100, seed=2)
        self.assertAgrees(model_reader.read_xmlrepository, train, test, "--method", "implicit", "--step", 1,
                          "--epochs", 2)

    def test_equal_scores_go_to_the_first_class_by_name(self):
        """Rows with only unseen features score 0 for every class; the commonest class is not the first."""
        train = self.write("train.txt", "6 4 12\n10 0:1\n2 1:1\n10 0:1\n10 1:1\n9 0:1\n9 1:1\n")
        test = self.write("test.txt", "4 4 12\n2 3:1\n2 2:1\n10 2:1 3:1\n10 0:1\n")
        self.assertAgrees(model_reader.read_xmlrepository, train, test, "--method", "implicit", "--step", 1,
                          "--epochs", 3)
        lines = self.fine("predict", "m.safetensors", test, "--top", 3, "--json").stdout.splitlines()
        for line in lines[:3]:
            self.assertEqual(json.loads(line)["classes"], ["2", "9", "10"])



class OnRealData(NumpyAgrees):
    PAPER = ("--normalize", "l2", "--max-features", 10000)

    def test_bibtex(self):
        train, test = data_file("bibtex", "train.txt.gz"), data_file("bibtex", "test.txt.gz")
        for more in ((), ("--intercept",), ("--labels", "all")):
            with self.subTest(options=more):
                self.assertAgrees(model_reader.read_xmlrepository, train, test, "--method", "implicit", "--step", 10,
                                  "--epochs", 5, *self.PAPER, *more)

    def test_delicious(self):
        train, test = data_file("delicious", "train.txt.gz"), data_file("delicious", "test.txt.gz")
        for more in ((), ("--labels", "all", "--intercept")):
            with self.subTest(options=more):
                self.assertAgrees(model_reader.read_xmlrepository, train, test, "--method", "umax",
                                  "--classes-per-step", 5, "--step", "0.01", "--epochs", 3, *self.PAPER, *more)

    def test_mnist(self):
        train = data_file("mnist", "train-images-idx3-ubyte.gz")
        test = data_file("mnist", "t10k-images-idx3-ubyte.gz")
        self.assertAgrees(model_reader.read_idx, train, test, "--method", "implicit", "--step", "0.1", "--epochs", 3,
                          *self.PAPER, max_rows=4000)


if __name__ == "__main__":
    unittest.main(verbosity=2)
