"""Every method of `truemax methods`, in every shape of step it takes, with ridge and without, through the command line.

On the real data sets if there are any (TRUEMAX_DATA), else on generated rows; also results of single methods on real data.
"""
import math
import os
import re
import unittest

from support import ProgramTest, data_file, events, last_evaluation, truemax

SHAPES = ((1, 1), (1, 5), (20, 5))
# A step at which the method is stable on rows of unit length.
STEP = {"vanilla": 1e-3, "raman": 1e-2, "composition": 1e-3}


class Methods(ProgramTest):
    def names(self):
        """The methods, the most rows their steps take, and which can diverge."""
        table, words = self.fine("methods").stdout.split("\n\n")[:2]
        most_rows = {}
        for line in table.splitlines()[2:]:
            name, _, rows = line.split()[:3]
            most_rows[name] = math.inf if rows == "any" else int(rows)
        self.assertEqual(list(most_rows), [line.split()[0] for line in words.splitlines()[2:]])
        return most_rows, {line.split()[0] for line in words.splitlines() if "can diverge" in line}

    def train(self, path, method, n, m, ridge, *more, epochs=2):
        return truemax("train", path, "--method", method, "--rows-per-step", n, "--classes-per-step", m, "--ridge", ridge,
                       "--normalize", "l2", "--max-features", 10000, "--epochs", epochs, "--threads", 1, "--model",
                       "m.safetensors", "--log", "run.jsonl", *more, cwd=self.folder)

    def check_all(self, path, steps):
        most_rows, can_diverge = self.names()
        for method in most_rows:
            for n, m in SHAPES:
                if n > most_rows[method]:
                    result = self.train(path, method, n, m, 0)
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertRegex(result.stderr, rf"--rows-per-step {n}: the method {method} takes.*give --rows-per-step")
                    continue
                for ridge in (0, 0.1):
                    with self.subTest(method=method, n=n, m=m, ridge=ridge):
                        for name in ("m.safetensors", "run.jsonl"):  # a run that diverges would not replace them
                            if os.path.exists(self.path(name)):
                                os.remove(self.path(name))
                        result = self.train(path, method, n, m, ridge, "--step", steps.get(method, 1))
                        if method in can_diverge and result.returncode == 3:
                            self.assertRegex(result.stderr, rf"{method} diverged at step \d+ of epoch \d+.*Try --step")
                        else:
                            self.assertEqual(result.returncode, 0, result.stderr)
                            loss = last_evaluation(self.path("run.jsonl"))["train"]["log_loss"]
                            self.assertTrue(0 <= loss < 1e6, loss)
                        self.assertEqual(events(self.path("run.jsonl"))[0]["config"]["ridge"], ridge)

    def test_on_generated_rows(self):
        self.generate("train.txt", rows=600)
        self.check_all("train.txt", STEP)

    def test_on_bibtex(self):
        self.check_all(data_file("bibtex", "train.txt.gz"), STEP)

    def test_on_delicious(self):
        self.check_all(data_file("delicious", "train.txt.gz"), STEP)

    def test_every_draw(self):
        """In the table, and better than the class frequencies on skewed rows, for one row and for several."""
        self.generate("train.txt", rows=2000, classes=100)
        lines = self.fine("methods").stdout.split("\n\n")[2].splitlines()[2:]
        names = [line.split()[0] for line in lines]
        self.assertEqual(names, ["uniform", "uniform-skip", "all", "frequency", "blocks", "head-blocks", "active"])
        for draw in names:
            for n in (1, 10):
                if draw == "active" and n > 1:
                    continue
                with self.subTest(draw=draw, n=n):
                    result = self.train("train.txt", "implicit", n, 5, 0.1, "--draw", draw, "--step", 3 * n,
                                        epochs=20)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assertNotIn("above that of the class frequencies", result.stderr)
                    self.assertEqual(events(self.path("run.jsonl"))[0]["config"]["draw"], draw)

    def test_diverging_vanilla_keeps_the_last_good_model(self):
        self.generate("train.txt", rows=600)
        result = self.train("train.txt", "vanilla", 1, 5, 0, "--step", 1e4)
        self.assertEqual(result.returncode, 3, result.stderr)
        step = float(re.search(r"Try --step ([0-9.e+-]+)", result.stderr).group(1))
        self.assertLess(step, 1e4)
        self.fine("evaluate", "m.safetensors", "train.txt")

    def test_help_names_the_biased_methods(self):
        table = self.fine("methods").stdout
        biased = [line.split()[0] for line in table.split("\n\n")[0].splitlines()[2:] if line.split()[1] == "yes"]
        self.assertEqual(biased, ["sox", "ove", "nce", "importance", "softplus"])
        self.assertIn("softmax: sox, ove, nce, importance, softplus, bsgd.", self.fine("options").stdout)


class Figures(ProgramTest):
    """Train log-loss on real data."""

    def loss(self, data, *arguments, files=("train.txt.gz",)):
        self.fine("train", data_file(data, files[0]), "--normalize", "l2", "--max-features", 10000, "--max-rows", 100000,
                  "--eval-every", 0, "--model", "m.safetensors", "--log", "run.jsonl", *arguments)
        return last_evaluation(self.path("run.jsonl"))["train"]["log_loss"]

    def test_vanilla_on_mnist(self):
        loss = self.loss("mnist", "--method", "vanilla", "--step", 0.01, "--classes-per-step", 5, "--epochs", 50,
                         files=("train-images-idx3-ubyte.gz",))
        print(f"vanilla 1x5, step 0.01, 50 epochs on mnist: {loss:.4f}")
        self.assertTrue(0.37 <= loss <= 0.40, loss)

    def test_importance_on_bibtex(self):
        loss = self.loss("bibtex", "--method", "importance", "--step", 10, "--classes-per-step", 5, "--epochs", 50)
        print(f"importance 1x5, step 10, 50 epochs on bibtex: {loss:.4f}")
        self.assertTrue(0.10 <= loss <= 0.17, loss)

    def test_exact_on_bibtex(self):
        loss = self.loss("bibtex", "--method", "exact", "--step", 10, "--epochs", 10)
        print(f"exact, step 10, 10 epochs on bibtex: {loss:.4f}")
        self.assertLessEqual(loss, 0.03)


if __name__ == "__main__":
    unittest.main(verbosity=2)
