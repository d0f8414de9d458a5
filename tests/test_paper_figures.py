"""SLOW. The paper's figures: mean train log-loss of three seeds after 50 epochs, with the project's command contract.

Runs on the real data sets if they are there (TRUEMAX_DATA) and prints a table of the results.
"""
import concurrent.futures
import os
import statistics
import sys
import unittest

from support import ProgramTest, data_file, last_evaluation

SEEDS = (1, 2, 3)
# Data set, method, classes per step, step (eta*N), range of the mean.
FIGURES = (
    ("bibtex", "implicit", 1, "10", 0.28, 0.39),
    ("bibtex", "umax", 5, "0.1", 1.34, 1.54),
    ("delicious", "implicit", 1, "0.01", 3.17, 3.25),
    ("delicious", "umax", 5, "0.01", 3.27, 3.35),
    ("mnist", "implicit", 1, "0.1", 0.285, 0.302),
)
FILES = {"mnist": ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz")}


class PaperFigures(ProgramTest):
    rows = []

    @classmethod
    def tearDownClass(cls):
        print(f"\n{'data':<10} {'method':<9} {'classes':>7} {'step':>6}  {'train log-loss of each seed':<30} "
              f"{'mean':>8}  {'range':<15} {'test':>7}")
        for line in cls.rows:
            print(line)

    def run_seed(self, data, method, classes, step, seed):
        train, test = (data_file(data, name) for name in FILES.get(data, ("train.txt.gz", "test.txt.gz")))
        log = f"{seed}.jsonl"
        self.fine("train", train, "--test", test, "--method", method, "--step", step, "--decay", "0.9", "--epochs", 50,
                  "--classes-per-step", classes, "--rows-per-step", 1, "--draw", "uniform", "--visit", "random",
                  "--labels", "first", "--max-features", 10000, "--max-rows", 100000, "--normalize", "l2", "--seed",
                  seed, "--threads", 1, "--eval-every", 10, "--model", f"{seed}.safetensors", "--log", log)
        event = last_evaluation(self.path(log))
        self.assertEqual(event["epoch"], 50)
        return event

    def check(self, data, method, classes, step, low, high):
        data_file(data)  # skips here, before the threads
        with concurrent.futures.ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
            found = list(pool.map(lambda seed: self.run_seed(data, method, classes, step, seed), SEEDS))
        losses = [event["train"]["log_loss"] for event in found]
        mean = statistics.mean(losses)
        test = statistics.mean(event["test"]["log_loss"] for event in found)
        verdict = "ok" if low <= mean <= high else "OUTSIDE"
        self.rows.append(f"{data:<10} {method:<9} {classes:>7} {step:>6}  {' '.join(f'{v:9.4f}' for v in losses):<30} "
                         f"{mean:>8.4f}  [{low}, {high}]{'':<{max(0, 11 - len(f'{low}{high}'))}} {test:>7.4f}  {verdict}")
        self.assertTrue(low <= mean <= high, f"mean train log-loss {mean} of {losses}, wanted [{low}, {high}]")

    def test_bibtex_implicit(self):
        self.check(*FIGURES[0])

    def test_bibtex_umax(self):
        self.check(*FIGURES[1])

    def test_delicious_implicit(self):
        self.check(*FIGURES[2])

    def test_delicious_umax(self):
        self.check(*FIGURES[3])

    def test_mnist_implicit(self):
        self.check(*FIGURES[4])


if __name__ == "__main__":
    outcome = unittest.main(verbosity=2, exit=False).result
    # 77 tells ctest "skipped": only if a data set is missing and nothing that ran failed.
    sys.exit(1 if not outcome.wasSuccessful() else 77 if outcome.skipped else 0)
