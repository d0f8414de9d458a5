"""SoftmaxClassifier and the command line give the same bits on the same rows, and read each other's models."""
import gzip
import unittest

import numpy as np
from scipy import sparse

from support import ProgramTest, data_file

import truemax
from truemax import SoftmaxClassifier


def read_rows(path, most=None):
    """An XMLRepository file: CSR in float32, first labels, lists of labels. Slow and obvious."""
    index, value, begin, first, every = [], [], [0], [], []
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")) as file:
        features = int(file.readline().split()[1])
        for number, line in enumerate(file):
            if number == most:
                break
            labels, _, rest = line.rstrip("\n").partition(" ")
            if not labels:
                continue
            every.append([int(label) for label in labels.split(",")])
            first.append(every[-1][0])
            for word in rest.split():
                feature, _, text = word.partition(":")
                index.append(int(feature))
                value.append(float(text))
            begin.append(len(index))
    return sparse.csr_matrix((np.array(value, np.float32), index, begin), shape=(len(first), features)), first, every


def tensors(path):
    """The bytes of all tensors; the metadata name the format of the data, which differs."""
    with open(path, "rb") as file:
        raw = file.read()
    size = int.from_bytes(raw[:8], "little")
    return raw[8 + size:]


class SameBits(ProgramTest):
    def compare(self, path, options, words, several=False, most=None):
        x, first, every = read_rows(path, most)
        model = SoftmaxClassifier(**options).fit(x, every if several else first)
        model.save(self.path("python.safetensors"))
        limit = ["--max-rows", str(most)] if most else []
        self.fine("train", path, "--model", "program.safetensors", "--log", "none", "--quiet", *words, *limit)
        self.assertEqual(tensors(self.path("python.safetensors")), tensors(self.path("program.safetensors")), words)
        loaded = truemax.load(self.path("program.safetensors"))
        self.assertTrue(np.array_equal(loaded.predict_proba(x[:50]), model.predict_proba(x[:50])))
        return x, first, model

    def made(self):
        return self.generate("made.txt", rows=1500, classes=60, features=200)

    def test_of_generated_rows_for_many_options(self):
        path = self.made()
        for options, words in (
                ({}, []),
                ({"ridge": 0.5, "random_state": 7}, ["--ridge", "0.5", "--seed", "7"]),
                ({"hidden": 8, "epochs": 3}, ["--hidden", "8", "--epochs", "3"]),
                ({"method": "implicit", "step": 3, "epochs": 4}, ["--method", "implicit", "--step", "3", "--epochs", "4",
                                                                  "--intercept"]),
                ({"method": "umax", "epochs": 2, "fit_intercept": False}, ["--method", "umax", "--epochs", "2"]),
                ({"target": "train", "epochs": 4, "fit_intercept": False}, ["--target", "train", "--epochs", "4"]),
                ({"normalize": "l2", "epochs": 2}, ["--normalize", "l2", "--epochs", "2"]),
                ({"hash_features": 64, "epochs": 2}, ["--hash-features", "64", "--epochs", "2"]),
                ({"class_weight": "balanced", "epochs": 2}, ["--class-weights", "balanced", "--epochs", "2"]),
                ({"method": "prox", "early_stopping": True, "epochs": 9, "eval_every": 1, "n_iter_no_change": 2},
                 ["--method", "prox", "--intercept", "--epochs", "9", "--eval-every", "1", "--patience", "2",
                  "--valid-share", "0.1"])):
            with self.subTest(options):
                self.compare(path, options, words)

    def test_of_bibtex_and_delicious(self):
        for name in ("bibtex", "delicious"):
            path = data_file(name, "train.txt.gz")
            for several in (False, True):
                with self.subTest(name, several=several):
                    self.compare(path, {"ridge": 1, "epochs": 3}, ["--ridge", "1", "--epochs", "3",
                                                                   "--labels", "all" if several else "first"],
                                 several=several, most=2000)

    def test_figures_of_evaluate_are_the_same(self):
        path = self.made()
        x, first, model = self.compare(path, {"epochs": 2}, ["--epochs", "2"])
        figures = self.metrics("program.safetensors", path)
        ours = model.evaluate(x, first)
        for name in ("log_loss", "error", "calibration_error", "precision_at"):
            self.assertEqual(ours[name], figures[name])
        self.assertEqual(model.evaluate(path)["log_loss"], ours["log_loss"])
        labels, probabilities = model.predict_topk(path, 3)
        again = model.predict_topk(x, 3)
        self.assertTrue(np.array_equal(labels, again[0]) and np.array_equal(probabilities, again[1]))

    def test_the_program_reads_models_of_python(self):
        path = self.made()
        x, first, _ = read_rows(path)
        model = SoftmaxClassifier(method="prox", epochs=2).fit(x, first)
        model.save(self.path("python.safetensors"))
        self.assertEqual(self.metrics("python.safetensors", path)["log_loss"], model.log_loss(x, first))


if __name__ == "__main__":
    unittest.main()
