#!/usr/bin/python3
"""Every script of examples/ runs on little data, is short, and prints what it promises."""
import glob
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest

from support import PACKAGE, ROOT, skip

HANGS = 120  # seconds; a script takes a few
MOST_LINES = 59
NEEDS = {"next_word": "language", "link_prediction": "links", "torch_last_layer": "torch"}


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?", text)]


class Examples(unittest.TestCase):
    def run_quickly(self, name, *arguments):
        """The lines that the script prints."""
        module = NEEDS.get(name, "classifier")
        if not os.path.exists(os.path.join(PACKAGE, "truemax", f"{module}.py")):
            skip(f"no truemax.{module} at {PACKAGE}: ./dev python builds the package, or set TRUEMAX_PACKAGE")
        with open(self.path(name), encoding="utf-8") as file:
            for needed in set(re.findall(r"^(?:import|from) (\w+)", file.read(), re.M)) - {"truemax"}:
                if importlib.util.find_spec(needed) is None:
                    skip(f"no Python module {needed}")
        with tempfile.TemporaryDirectory(prefix="truemax-example-") as folder:
            done = subprocess.run([sys.executable, self.path(name), *arguments], cwd=folder, capture_output=True,
                                  text=True, timeout=HANGS,
                                  env={**os.environ, "PYTHONPATH": PACKAGE, "TRUEMAX_QUICK": "1", "TRUEMAX_DATA": ""})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def path(self, name):
        return os.path.join(ROOT, "examples", f"{name}.py")

    def test_each_is_short_and_has_a_test(self):
        names = sorted(os.path.basename(path).removesuffix(".py") for path in
                       glob.glob(os.path.join(ROOT, "examples", "*.py")))
        self.assertEqual(names, sorted(name.removeprefix("test_example_") for name in dir(self)
                                       if name.startswith("test_example_")))
        for name in names:
            with open(self.path(name), encoding="utf-8") as file:
                lines = file.read().splitlines()
            self.assertLessEqual(len(lines), MOST_LINES, name)
            self.assertTrue(lines[1].startswith('"""'), f"{name} does not say what it shows")
            self.assertTrue(any("--quick" in line for line in lines), name)

    def test_example_text_classification(self):
        said = self.run_quickly("text_classification")
        rows = {line.split()[0]: numbers(line) for line in said.splitlines() if "Classifier " in line}
        loss, accuracy, top = rows["SoftmaxClassifier"][1:]
        self.assertLess(loss, rows["SGDClassifier"][1])
        self.assertLess(loss, numbers(said.splitlines()[-1])[-1])
        self.assertLess(0.8, accuracy)
        self.assertLessEqual(accuracy, top)

    def test_example_choice_model(self):
        said = self.run_quickly("choice_model")
        for mode in ("bus", "car", "train"):
            row = numbers(re.search(rf"(?m)^{mode} .*", said)[0])
            self.assertEqual(len(row), 12)
            for estimate, error, true in zip(row[::3], row[1::3], row[2::3]):
                self.assertLess(abs(estimate - true), 4 * error)
        # At the maximum likelihood with constants, predicted shares are the observed ones; effects sum to 0.
        shares = {name: numbers(re.search(rf"(?m)^{name}(.*)", said)[1])
                  for name in ("observed shares", "predicted shares", "effect of income")}
        self.assertEqual(shares["observed shares"], shares["predicted shares"])
        self.assertAlmostEqual(sum(shares["effect of income"]), 0, delta=0.003)

    def test_example_next_word(self):
        said = self.run_quickly("next_word")
        model, grammar = numbers(re.search(r"perplexity.*", said)[0])
        self.assertLess(grammar * 0.97, model)  # of other sentences than those that were trained on
        self.assertLess(model, grammar * 1.1)
        self.assertRegex(said, r"the fox eats the +(bread|soup|cheese|apple|rice|cake) ")

    def test_example_link_prediction(self):
        said = self.run_quickly("link_prediction")
        found, by_chance = numbers(re.search(r"reciprocal rank.*?\)", said)[0])
        self.assertGreater(found, 10 * by_chance)
        self.assertRegex(said, r"nearest to father7: \w+")

    def test_example_torch_last_layer(self):
        said = self.run_quickly("torch_last_layer")
        rows = {line.split()[0]: numbers(line) for line in said.splitlines()[2:]}
        self.assertLess(abs(rows["LinearSoftmax"][2] - rows["nn.Linear"][2]), 0.05)  # accuracy
        self.assertLess(rows["LinearSoftmax"][1], 0.3 * numbers(said.splitlines()[0])[-1])

    def test_example_plots(self):
        with tempfile.TemporaryDirectory(prefix="truemax-plots-") as folder:
            self.run_quickly("plots", folder)
            for name in ("learning-curve", "step", "reliability", "class-size"):
                self.assertTrue(os.path.exists(os.path.join(ROOT, "docs", "python", f"{name}.svg")), name)
                self.assertGreater(os.path.getsize(os.path.join(folder, f"{name}.svg")), 5000)


if __name__ == "__main__":
    unittest.main()
