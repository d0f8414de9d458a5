#!/usr/bin/python3
"""truemax.plot: the numbers of the figures."""
import json
import math
import os
import sys
import tempfile
import unittest

from support import skip

try:
    import matplotlib
    import numpy as np
    from scipy import sparse
    from truemax import SoftmaxClassifier, plot
except ImportError as error:
    def setUpModule():
        skip(f"{error}: ./dev python builds the package; Debian has python3-matplotlib and python3-sklearn")
else:
    matplotlib.use("Agg")


def rows(n, seed, classes=30, features=40):
    """Classes of very different sizes; half of the features of a row say its class."""
    random = np.random.default_rng(seed)
    share = 1 / np.arange(1, classes + 1)
    y = random.choice(classes, n, p=share / share.sum())
    x = random.random((n, features)).astype(np.float32)
    x[np.arange(n), y % features] += 1.5
    return x, y


class Figure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.x, cls.y = rows(600, 1)
        x, y = rows(800, 2)
        known = np.isin(y, cls.y)
        cls.test_x, cls.test_y = x[known], y[known]
        cls.model = SoftmaxClassifier(method="prox", step=0.3, epochs=6, eval_every=1).fit(
            cls.x, cls.y, eval_set=(cls.test_x, cls.test_y))

    def tearDown(self):
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")

    def drawn(self, ax):
        """The figure can be rendered; {label: points of the line}."""
        with tempfile.TemporaryFile() as file:
            ax.figure.savefig(file, format="svg")
        self.assertTrue(ax.get_xlabel() and ax.get_ylabel())
        return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


class LearningCurve(Figure):
    def test_contains_every_evaluation(self):
        for x, key in (("epochs", "epoch"), ("seconds", "seconds"), ("steps", "steps")):
            lines = self.drawn(plot.learning_curve(self.model, x=x))
            for rows_, name in (("train", "training"), ("valid", "validation")):
                np.testing.assert_array_equal(
                    lines[name], [[entry[key], entry[f"{rows_}_log_loss"]] for entry in self.model.history_])
                self.assertEqual(len(lines[name]), 6)

    def test_marks_the_model_that_early_stopping_kept(self):
        model = SoftmaxClassifier(method="prox", step=0.3, epochs=30, early_stopping=True, n_iter_no_change=2).fit(
            self.x, self.y)
        lines = self.drawn(plot.learning_curve(model))
        kept = [entry for entry in model.history_ if entry.get("best")]
        np.testing.assert_array_equal(lines["validation, model kept"], [[kept[0]["epoch"], kept[0]["valid_log_loss"]]])
        self.assertEqual(min(lines["validation"][:, 1]), kept[0]["valid_log_loss"])

    def test_takes_several_runs_and_their_names(self):
        other = SoftmaxClassifier(method="implicit", epochs=2, eval_every=1).fit(self.x, self.y)
        named = self.drawn(plot.learning_curve({"a": self.model, "b": other}))
        listed = self.drawn(plot.learning_curve([self.model, other.history_], labels=["a", "b"]))
        self.assertEqual(set(named), {"a, training", "a, validation", "b, training"})
        for label, points in named.items():
            np.testing.assert_array_equal(points, listed[label])
        self.assertEqual(set(self.drawn(plot.learning_curve([self.model, other]))),
                         {"prox, training", "prox, validation", "implicit, training"})

    def test_reads_a_log_of_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.jsonl")
            with open(path, "w", encoding="utf-8") as file:
                for epoch in (1, 2):
                    file.write(json.dumps({"event": "evaluate", "epoch": epoch, "steps": 10 * epoch, "train_seconds": 0.5,
                                           "train": {"log_loss": 1 / epoch}, "test": {"log_loss": 2 / epoch}}) + "\n")
                file.write('{"event":"end"}\n')
            lines = self.drawn(plot.learning_curve(path))
        np.testing.assert_array_equal(lines["training"], [[1, 1], [2, 0.5]])
        np.testing.assert_array_equal(lines["test"], [[1, 2], [2, 1]])

    def test_draws_into_given_axes(self):
        from matplotlib import pyplot
        ax = pyplot.subplots()[1]
        self.assertIs(plot.learning_curve(self.model, ax=ax), ax)

    def test_refuses_what_it_cannot_draw(self):
        for wrong, error in ((3, TypeError), ([], ValueError), ([3], TypeError)):
            with self.assertRaises(error):
                plot.learning_curve(wrong)
        with self.assertRaisesRegex(ValueError, "epochs"):
            plot.learning_curve(self.model, x="hours")
        with self.assertRaisesRegex(ValueError, "2 runs and 1 label"):
            plot.learning_curve([self.model, self.model], labels=["a"])


class StepSensitivity(Figure):
    def test_draws_the_losses_and_marks_those_beyond_the_limit(self):
        results = {"one": {0.1: 1.0, 1.0: 0.5, 10.0: 80.0}, "two": {0.1: 2.0, 1.0: math.inf, 10.0: math.nan}}
        ax = plot.step_sensitivity(results, limit=10)
        lines = self.drawn(ax)
        np.testing.assert_array_equal(lines["one"], [[0.1, 1], [1, 0.5], [10, math.nan]])
        np.testing.assert_array_equal(lines["two"][0], [0.1, 2])
        self.assertEqual(sorted(mark.xy[0] for mark in ax.texts if mark.get_text() == "×"), [1, 10, 10])
        self.assertEqual((ax.get_xscale(), ax.get_yscale()), ("log", "log"))

    def test_trains_each_method_at_each_step(self):
        arguments = (self.x, self.y, self.test_x, self.test_y)
        found = plot.step_losses(*arguments, methods=["prox", "vanilla"], steps=[0.1, 1e9], epochs=2)
        one = SoftmaxClassifier(method="prox", step=0.1, epochs=2).fit(self.x, self.y)
        self.assertEqual(found["prox"][0.1], one.log_loss(self.test_x, self.test_y))
        self.assertTrue(math.isfinite(found["prox"][1e9]))
        self.assertEqual(found["vanilla"][1e9], math.inf)
        lines = self.drawn(plot.step_sensitivity(None, *arguments, methods=["prox"], steps=[0.1, 1], epochs=2))
        self.assertEqual(lines["prox"][0, 1], found["prox"][0.1])

    def test_refuses_what_it_cannot_draw(self):
        with self.assertRaisesRegex(ValueError, "give results"):
            plot.step_sensitivity()
        with self.assertRaisesRegex(ValueError, "smaller steps"):
            plot.step_sensitivity({"one": {1.0: math.inf}})
        with self.assertRaisesRegex(TypeError, "epochs"):
            plot.step_sensitivity({"one": {1.0: 1.0}}, epochs=3)


class Reliability(Figure):
    def test_error_is_that_of_evaluate(self):
        weight = np.random.default_rng(3).random(len(self.test_y)) * (np.arange(len(self.test_y)) % 5 > 0)
        for given in (None, weight):
            found = plot.calibration(self.model, self.test_x, self.test_y, given)
            shown = self.model.evaluate(self.test_x, self.test_y, given)
            self.assertAlmostEqual(found["calibration_error"], shown["calibration_error"], delta=1e-12)
            self.assertEqual(found["count"].sum(), shown["rows"])

    def test_error_of_several_labels_is_that_of_evaluate(self):
        labels = [sorted({int(a), int(b)}) for a, b in zip(self.y, np.roll(self.y, 1))]
        for which in ("all", "first"):
            model = SoftmaxClassifier(method="prox", step=0.3, epochs=3, labels=which).fit(self.x, labels)
            # A label that is never the first of a row is no class of a model that learns only these.
            known = [row for row, of_row in enumerate(labels) if np.isin(of_row, model.classes_).all()]
            arguments = self.x[known], [labels[row] for row in known]
            found, shown = plot.calibration(model, *arguments), model.evaluate(*arguments)
            self.assertAlmostEqual(found["calibration_error"], shown["calibration_error"], delta=1e-12)
            self.assertEqual(found["count"].sum(), len(known))

    def test_takes_probabilities_and_hits(self):
        labels, probability = self.model.predict_topk(self.test_x, 1)
        hit = labels[:, 0] == self.test_y
        one, other = plot.calibration(self.model, self.test_x, self.test_y), plot.calibration(probability[:, 0], hit)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
        self.assertEqual(plot.calibration([1.0, 1.0, 0.0], [1, 0, 0], bins=2)["accuracy"].tolist(), [0, 0.5])

    def test_draws_the_bins(self):
        found = plot.calibration(self.model, self.test_x, self.test_y)
        ax = plot.reliability_diagram(self.model, self.test_x, self.test_y)
        there = found["count"] > 0
        np.testing.assert_array_equal(self.drawn(ax)["mean probability"],
                                      np.column_stack([found["probability"][there], found["accuracy"][there]]))
        self.assertIn(f"{found['calibration_error']:.4f}", ax.get_legend().get_title().get_text())
        self.assertEqual(sum(bar.get_height() for bar in ax.child_axes[0].patches), len(self.test_y))

    def test_never_asks_for_all_classes(self):
        class Narrow(SoftmaxClassifier):
            def predict_proba(self, X):
                raise AssertionError("N x K")
        model = Narrow(method="prox", epochs=1).fit(self.x, self.y)
        plot.reliability_diagram(model, self.test_x, self.test_y)
        plot.accuracy_by_class_size(model, self.test_x, self.test_y)

    def test_refuses_what_is_no_probability(self):
        for probability, hit in (([0.5, 2], [0, 1]), ([0.5], [0, 1]), ([0.5, math.nan], [0, 1])):
            with self.assertRaises(ValueError):
                plot.calibration(probability, hit)
        with self.assertRaisesRegex(ValueError, "bins"):
            plot.calibration([0.5], [1], bins=0)


class ClassSizes(Figure):
    def test_bins_hold_every_row_once_and_agree_with_evaluate(self):
        for x in (self.test_x, sparse.csr_matrix(self.test_x)):
            table = plot.class_size_table(self.model, x, self.test_y)
            whole = self.model.evaluate(self.test_x, self.test_y)
            self.assertEqual(table["rows"].sum(), len(self.test_y))
            self.assertEqual(table["classes"].sum(), len(np.unique(self.test_y)))
            share = table["rows"] / table["rows"].sum()
            self.assertAlmostEqual(share @ table["accuracy"], 1 - whole["error"])
            self.assertAlmostEqual(share @ table["log_loss"], whole["log_loss"])

    def test_counts_are_those_of_the_training_rows(self):
        names, counts = np.unique(self.y, return_counts=True)
        by_model = plot.class_size_table(self.model, self.test_x, self.test_y)
        for given in (dict(zip(names.tolist(), counts)), counts):
            table = plot.class_size_table(self.model, self.test_x, self.test_y, given)
            for name in table:
                np.testing.assert_array_equal(table[name], by_model[name])
        for least, most, classes in zip(by_model["least"], by_model["most"], by_model["classes"]):
            self.assertEqual(classes, np.isin(names[(counts >= least) & (counts <= most)], self.test_y).sum())

    def test_labels_that_training_never_saw_are_a_bin_of_their_own(self):
        y = self.test_y.copy()
        y[:7] = 999
        table = plot.class_size_table(self.model, self.test_x, y)
        self.assertEqual((table["least"][0], table["rows"][0], table["accuracy"][0]), (0, 7, 0))
        self.assertTrue(math.isnan(table["log_loss"][0]))
        plot.accuracy_by_class_size(self.model, self.test_x, y, measure="log_loss")

    def test_draws_the_table(self):
        table = plot.class_size_table(self.model, self.test_x, self.test_y)
        for measure in ("accuracy", "log_loss"):
            ax = plot.accuracy_by_class_size(self.model, self.test_x, self.test_y, measure=measure)
            self.drawn(ax)
            np.testing.assert_allclose([bar.get_height() for bar in ax.patches], table[measure])
        with self.assertRaisesRegex(ValueError, "log_loss"):
            plot.accuracy_by_class_size(self.model, self.test_x, self.test_y, measure="f1")
        with self.assertRaisesRegex(ValueError, "train_counts"):
            plot.accuracy_by_class_size(self.model, self.test_x, self.test_y, [1, 2])


class History(Figure):
    def test_has_the_precision_of_every_evaluation(self):
        shown = self.model.evaluate(self.test_x, self.test_y)
        for k in (1, 3, 5):
            self.assertAlmostEqual(self.model.history_[-1][f"valid_precision_at_{k}"], shown["precision_at"][str(k)])


if __name__ == "__main__":
    unittest.main()
