#!/usr/bin/python3
"""SoftmaxClassifier.plan(), and notes: Python, the C interface and the command line say the same of the same runs."""
import json
import re
import unittest
import warnings

import numpy as np

from support import ProgramTest, truemax as program

from truemax import SoftmaxClassifier
from truemax import _data, _run
from truemax import _library as lib
from truemax._names import python_words
from test_python_bits import read_rows

# Options by their names on the command line.
RUNS = (
    {},
    {"target": "train"},
    {"method": "prox", "epochs": 1, "delta": 3, "sox-rate": 0.5},
    {"method": "adam", "epochs": 1},
    {"method": "lbfgs", "epochs": 2, "step": 1, "decay": 0.5, "draw": "blocks"},
    {"method": "prox", "epochs": 1, "classes-per-step": 500},
    {"method": "prox", "epochs": 1, "group": 400},
    {"method": "exact", "epochs": 1, "classes-per-step": 7},
    {"method": "prox", "epochs": 1, "schedule": "linear", "decay": 0.5},
    {"epochs": 1, "memory-limit": "25M"},
    {"hidden": 64, "epochs": 1, "step": 0.01, "ridge": 1, "memory-limit": "25500K"},
)


def typed(options):
    words = []
    for name, value in options.items():
        words += [f"--{name}", str(value)]
    return words


class Notes(ProgramTest):
    def setUp(self):
        super().setUp()
        self.fine("generate", "a.txt", "--rows", 600, "--features", 300, "--classes", 150, "--seed", 3)
        x, self.y, _ = read_rows(self.path("a.txt"))
        self.x = x * np.float32(0.01)  # short rows
        with open(self.path("short.txt"), "w", encoding="ascii") as file:
            file.write("600 300 150\n")
            for r in range(600):
                row = self.x[r]
                file.write(f"{self.y[r]} " + " ".join(f"{i}:{float(v)!r}" for i, v in zip(row.indices, row.data)) + "\n")

    def of_command_line(self, options):
        result = program("plan", "short.txt", *typed(options), "--intercept", "--format", "xmlrepository", "--json",
                         cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        notes = json.loads(result.stdout)["notes"]
        self.assertEqual(result.stderr, "".join(f"truemax: note: {note}\n" for note in notes))
        return notes

    def test_the_same_everywhere(self):
        seen = set()
        for options in RUNS:
            with self.subTest(options):
                said = self.of_command_line(options)
                seen.update(re.sub(r"[\d.]+", "0", note) for note in said)
                # The C interface, on the file.
                data = _data.read_training_data(self.path("short.txt"), [("format", "xmlrepository")])
                words = [(name, str(value)) for name, value in options.items()] + [("intercept", "on")]
                run = _run.made(data, words, None, None)
                about = lib.kept_json(lib.load().tmx_run_plan, run.pointer)
                self.assertEqual(data.about()["notes"] + about["notes"], said)
                # Python, on the arrays.
                model = SoftmaxClassifier(**{name.replace("-", "_"): value for name, value in options.items()})
                expected = [python_words(note) for note in said]
                self.assertEqual(model.plan(self.x, self.y)["notes"], expected)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    model.fit(self.x, self.y)
                warned = [str(one.message) for one in caught if issubclass(one.category, UserWarning)]
                self.assertEqual(warned[:len(expected)], expected)
        self.assertGreater(len(seen), 8, seen)


class Plan(ProgramTest):
    def setUp(self):
        super().setUp()
        self.fine("generate", "a.txt", "--rows", 400, "--features", 60, "--classes", 12)
        self.x, self.y, _ = read_rows(self.path("a.txt"))

    def test_prints_what_the_command_line_prints(self):
        plan = SoftmaxClassifier(n_jobs=2, memory_limit="16G").plan(self.x, self.y)
        printed = self.fine("plan", "a.txt", "--threads", 2, "--memory-limit", "16G").stdout.split("\n", 1)[1]
        here = [line for line in str(plan).splitlines() if not re.match("memory|seconds", line)]
        there = [line for line in printed.splitlines() if not re.match("memory|seconds", line)]
        self.assertEqual(here, [python_words(line) for line in there])

    def test_fit_does_it(self):
        model = SoftmaxClassifier()
        plan = model.plan(self.x, self.y)
        self.assertFalse(hasattr(model, "n_features_in_"))
        self.assertFalse(hasattr(model, "model_"))
        model.fit(self.x, self.y)
        self.assertEqual(plan["plan"]["solver"], "newton")
        self.assertEqual(model.config_["solver"], "newton")
        for name in ("newton", "epochs", "intercept", "draw"):
            self.assertEqual(plan["plan"]["options"][name], model.config_[name])

    def test_takes_what_fit_takes(self):
        model = SoftmaxClassifier(method="prox", epochs=3)
        weights = np.linspace(0.5, 2, len(self.y))
        plan = model.plan(self.x, self.y, weights, eval_set=(self.x[:50], self.y[:50]))
        self.assertIn("3 epochs", str(plan))
        with self.assertRaisesRegex(ValueError, "rows_per_step=2"):
            SoftmaxClassifier(method="prox", rows_per_step=2).plan(self.x, self.y)


if __name__ == "__main__":
    unittest.main()
