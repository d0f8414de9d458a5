#!/usr/bin/python3
"""Training on several threads: the same bytes for any number of threads; lock-free runs are marked."""
import os
import unittest

from support import ProgramTest, events, skip, truemax


class Threads(ProgramTest):
    def setUp(self):
        super().setUp()
        self.generate("a.txt", "--skew", 0.3, rows=6000, features=400, classes=900)

    def run_with(self, name, *options, draw=("--draw", "blocks")):
        self.fine("train", "a.txt", "--method", "prox", *draw, "--classes-per-step", 16, "--epochs", 3, "--step", 10,
                  "--model", f"{name}.safetensors", "--log", f"{name}.jsonl", *options)
        return self.read(f"{name}.safetensors")

    def loss(self, name):
        return [e for e in events(self.path(f"{name}.jsonl")) if e["event"] == "evaluate"][-1]["train"]["log_loss"]

    def test_model_file_does_not_depend_on_threads(self):
        for number, options in enumerate(((), ("--ridge", 1), ("--intercept", "--visit", "shuffle"))):
            with self.subTest(options=options):
                one = self.run_with(f"one{number}", "--threads", 1, *options)
                for threads in (2, 5):
                    self.assertEqual(one, self.run_with(f"{threads}{number}", "--threads", threads, *options), threads)

    def test_groups_with_a_head_do_not_depend_on_threads(self):
        head = "--draw", "head-blocks", "--head", 16, "--group", 64
        for number, options in enumerate(((), ("--ridge", 1, "--intercept"))):
            with self.subTest(options=options):
                one = self.run_with(f"one{number}", "--threads", 1, *options, draw=head)
                self.assertEqual(one, self.run_with(f"two{number}", "--threads", 2, *options, draw=head))

    def test_lock_free_comes_close_and_cannot_be_replayed(self):
        if "thread" in os.environ.get("TRUEMAX_SANITIZE", ""):
            skip("lock-free steps race on purpose, and the thread sanitizer says so")
        for ridge in ((), ("--ridge", 1)):
            self.run_with("ordered", "--threads", 2, *ridge)
            self.run_with("free", "--threads", 2, "--lock-free", *ridge)
            self.assertAlmostEqual(self.loss("free") / self.loss("ordered"), 1, delta=0.03)
        result = truemax("train", "a.txt", "--replay", "free.jsonl", "--model", "none", cwd=self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn("lock-free", result.stderr)

    def test_lock_free_learnt_features_come_close(self):
        if "thread" in os.environ.get("TRUEMAX_SANITIZE", ""):
            skip("lock-free steps race on purpose, and the thread sanitizer says so")
        losses = []
        for name, more in (("o", ()), ("f", ("--lock-free",))):
            result = truemax("train", "a.txt", "--hidden", 16, "--epochs", 10, "--step", 0.02, "--ridge", 1, "--threads", 2,
                             "--model", "none", "--log", f"{name}.jsonl", *more, cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            losses.append(self.loss(name))
        self.assertAlmostEqual(losses[1] / losses[0], 1, delta=0.03)

    def test_unsupported_lock_free_runs_are_refused(self):
        for advice, options in (
                ("--draw blocks", ("--method", "implicit")),
                ("--ridge 0", ("--method", "implicit", "--draw", "blocks", "--ridge", 1)),
                ("--draw blocks", ("--method", "prox", "--draw", "uniform")),
                ("--method prox", ("--method", "umax", "--draw", "blocks", "--rows-per-step", 4)),
                ("--rows-per-step 1", ("--method", "implicit", "--rows-per-step", 4))):
            with self.subTest(options=options):
                result = truemax("train", "a.txt", "--lock-free", "--model", "none", "--log", "none", *options,
                                 cwd=self.folder)
                self.assertEqual(result.returncode, 2)
                self.assertIn(advice, result.stderr)


if __name__ == "__main__":
    unittest.main()
