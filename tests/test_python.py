"""truemax.SoftmaxClassifier: scikit-learn's own checks, its place among scikit-learn's tools, what it promises."""
import copy
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import numpy as np
import pandas
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from support import PACKAGE, ROOT

import truemax
from truemax import SoftmaxClassifier

X, Y = load_digits(return_X_y=True)
IRIS = load_iris()
QUICK = {"method": "prox", "epochs": 5}  # no search


def rows_of_many_classes(rows=600, classes=40, features=60, seed=0):
    """Sparse rows: two features tell the class, some do not."""
    random = np.random.RandomState(seed)
    y = random.randint(classes, size=rows)
    x = sparse.lil_matrix((rows, features), dtype=np.float32)
    for i, k in enumerate(y):
        x[i, k] = 1
        x[i, (7 * k + 3) % features] = 1
        x[i, random.randint(features)] = 0.5
    return x.tocsr(), y


class ScikitLearn(unittest.TestCase):
    def test_passes_every_check_but_those_that_sgd_classifier_is_excused_from(self):
        excused = set(SGDClassifier()._more_tags()["_xfail_checks"])
        self.assertLessEqual(set(SoftmaxClassifier()._more_tags()["_xfail_checks"]), excused)
        count = 0
        for estimator, check in check_estimator(SoftmaxClassifier(), generate_only=True):
            count += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    check(estimator)
                except unittest.SkipTest as skipped:
                    self.assertIn("check_sample_weights_invariance", str(skipped))
        self.assertGreater(count, 45)

    def test_works_in_a_pipeline_with_tfidf_and_string_labels(self):
        texts = ["a red apple", "a green pear", "one red apple", "one green pear", "red apple pie", "pear tart"] * 5
        labels = ["apple", "pear"] * 15
        pipeline = make_pipeline(TfidfVectorizer(), SoftmaxClassifier()).fit(texts, labels)
        self.assertEqual(pipeline.predict(["red apple", "green pear"]).tolist(), ["apple", "pear"])

    def test_works_in_grid_search_cross_validation_and_calibration(self):
        x, y = X[:300], Y[:300]
        search = GridSearchCV(SoftmaxClassifier(**QUICK), {"ridge": [0.1, 10]}, cv=2, scoring="neg_log_loss").fit(x, y)
        self.assertIn(search.best_params_["ridge"], (0.1, 10))
        self.assertGreater(cross_val_score(SoftmaxClassifier(**QUICK), x, y, cv=2).min(), 0.7)
        self.assertEqual(cross_val_predict(SoftmaxClassifier(**QUICK), x, y, cv=2, method="predict_proba").shape,
                         (300, 10))
        calibrated = CalibratedClassifierCV(SoftmaxClassifier(**QUICK), cv=2).fit(x, y)
        self.assertGreater(calibrated.score(x, y), 0.8)

    def test_clone_keeps_parameters_and_pickle_keeps_the_model(self):
        model = SoftmaxClassifier(step=0.5, ridge=0.1, **QUICK).fit(X, Y)
        self.assertEqual(clone(model).get_params(), model.get_params())
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            self.assertTrue(np.array_equal(other.predict_proba(X), model.predict_proba(X)))

    def test_names_of_features_come_from_the_data_frame(self):
        frame = pandas.DataFrame(IRIS.data, columns=IRIS.feature_names)
        model = SoftmaxClassifier(**QUICK).fit(frame, IRIS.target_names[IRIS.target])
        self.assertEqual(model.feature_names_in_.tolist(), IRIS.feature_names)
        self.assertEqual(model.classes_.tolist(), sorted(IRIS.target_names))
        with self.assertRaisesRegex(ValueError, "feature names"):
            model.predict(frame[frame.columns[::-1]])


class Probabilities(unittest.TestCase):
    def test_equal_those_of_numpy_in_float64(self):
        model = SoftmaxClassifier(**QUICK).fit(X, Y)
        scores = X @ model.coef_.astype(float).T + model.intercept_.astype(float)
        exact = np.exp(scores - scores.max(axis=1, keepdims=True))
        exact /= exact.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-9)
        np.testing.assert_allclose(model.predict_proba(X), exact, atol=1e-12)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), exact, atol=1e-12)
        self.assertAlmostEqual(model.log_loss(X, Y), log_loss(Y, exact), places=9)
        self.assertTrue(np.array_equal(model.predict(X), exact.argmax(axis=1)))

    def test_top_k_are_the_largest_of_all_classes(self):
        x, y = rows_of_many_classes()
        model = SoftmaxClassifier(**QUICK).fit(x, y)
        labels, probabilities = model.predict_topk(x, 7)
        everything = model.predict_proba(x)
        np.testing.assert_allclose(probabilities, -np.sort(-everything)[:, :7], rtol=1e-12)
        np.testing.assert_allclose(np.take_along_axis(everything, np.searchsorted(model.classes_, labels), 1),
                                   probabilities, rtol=1e-12)

    def test_labels_that_the_model_file_sorts_otherwise_keep_their_columns(self):
        # The file sorts numbers by value, NumPy sorts texts by their characters.
        names = np.array(["10", "9", "-3", "b", "a", "é", "2 words"])
        y = names[np.arange(210) % 7]
        x = (y[:, None] == names[None, :]).astype(float)
        model = SoftmaxClassifier(method="prox", epochs=20, step=10).fit(x, y)
        self.assertEqual(model.classes_.tolist(), sorted(names))
        self.assertTrue(np.array_equal(model.predict(x), y))
        self.assertTrue(np.array_equal(model.classes_[model.predict_proba(x).argmax(axis=1)], y))
        self.assertTrue(np.array_equal(model.classes_[(x @ model.coef_.T + model.intercept_).argmax(axis=1)], y))

    def test_of_two_classes_have_scikit_learns_shapes(self):
        y = np.where(Y > 4, "high", "low")
        model = SoftmaxClassifier(**QUICK).fit(X, y)
        self.assertEqual((model.coef_.shape, model.intercept_.shape), ((1, 64), (1,)))
        scores = model.decision_function(X)
        np.testing.assert_allclose(scores, X @ model.coef_[0].astype(float) + float(model.intercept_[0]), atol=1e-3)
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-scores)), atol=1e-12)

    def test_export_to_logistic_regression_gives_the_same_probabilities(self):
        for y in (Y, Y > 4):
            for hidden in (None, 8):
                model = SoftmaxClassifier(ridge=1, epochs=3, step=0.01, hidden=hidden).fit(X, y)
                other = model.to_logistic_regression()
                np.testing.assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-5)
                self.assertTrue(np.array_equal(other.predict(X), model.predict(X)))

    def test_export_to_torch_gives_the_same_scores(self):
        import torch
        model = SoftmaxClassifier(**QUICK).fit(X, Y)
        linear = torch.nn.Linear(64, 10)
        linear.load_state_dict(model.to_torch_state())
        with torch.no_grad():
            scores = linear(torch.tensor(X, dtype=torch.float32)).numpy()
        np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-3)

    def test_export_of_rows_that_are_scaled_is_refused(self):
        with self.assertRaisesRegex(ValueError, "normalize"):
            SoftmaxClassifier(normalize="l2", **QUICK).fit(X, Y).to_logistic_regression()


class Training(unittest.TestCase):
    def test_every_kind_of_matrix_gives_the_same_model(self):
        dense = SoftmaxClassifier(**QUICK).fit(X, Y)
        for kind in (sparse.csr_matrix, sparse.csc_matrix, sparse.coo_matrix, sparse.lil_matrix, np.asfortranarray,
                     lambda x: x.astype(np.float32), lambda x: x.astype(np.int64), lambda x: x.tolist(),
                     lambda x: sparse.csr_matrix(x.astype(np.float32)), pandas.DataFrame):
            model = SoftmaxClassifier(**QUICK).fit(kind(X), Y)
            self.assertTrue(np.array_equal(model.coef_, dense.coef_))

    def test_float32_csr_is_read_in_place_and_stays_as_it_is(self):
        from truemax import _data
        x = sparse.csr_matrix(X, dtype=np.float32)
        before = x.copy()
        target = truemax.classifier.target_of(Y)
        data = _data.training_data(x, target.labels(np.unique(Y)))
        self.assertTrue(data.about()["in_place"])
        SoftmaxClassifier(**QUICK).fit(x, Y)
        self.assertEqual((x != before).nnz, 0)

    def test_weights_count_as_repeated_rows(self):
        weights = np.random.RandomState(0).randint(1, 3, size=len(Y))
        once = SoftmaxClassifier(method="exact", epochs=300, step=0.01).fit(X, Y, sample_weight=weights)
        twice = SoftmaxClassifier(method="exact", epochs=300, step=0.01).fit(
            np.repeat(X, weights, axis=0), np.repeat(Y, weights))
        self.assertAlmostEqual(once.log_loss(X, Y, weights), twice.log_loss(X, Y, weights), delta=0.02)
        self.assertAlmostEqual(once.log_loss(X, Y, weights),
                               log_loss(Y, once.predict_proba(X), sample_weight=weights), places=9)

    def test_balanced_classes_equal_the_weights_that_scikit_learn_computes(self):
        keep = (Y != 3) | (np.arange(len(Y)) % 10 == 0)
        x, y = X[keep], Y[keep]
        counts = np.bincount(y)
        balanced = SoftmaxClassifier(class_weight="balanced", **QUICK).fit(x, y)
        by_hand = SoftmaxClassifier(class_weight={k: len(y) / (10 * counts[k]) for k in range(10)}, **QUICK).fit(x, y)
        self.assertTrue(np.array_equal(balanced.coef_, by_hand.coef_))
        plain = SoftmaxClassifier(**QUICK).fit(x, y)
        self.assertGreater((balanced.predict(x) == 3).sum(), (plain.predict(x) == 3).sum() - 1)

    def test_rows_of_zeros_count_like_others(self):
        # A dummy-coded factor: its first level is a row of zeros.
        random = np.random.RandomState(0)
        level = random.randint(3, size=3000)
        y = (random.rand(3000) < np.array([0.9, 0.5, 0.2])[level]).astype(int)
        x = np.eye(3)[level][:, 1:]
        shares = [y[level == k].mean() for k in range(3)]
        for model, near in ((SoftmaxClassifier(ridge=0, newton=50), 1e-5), (SoftmaxClassifier(), 0.02)):
            found = model.fit(x, y).predict_proba(np.eye(3)[:, 1:])[:, 1]
            np.testing.assert_allclose(found, shares, atol=near)
        only_zeros = SoftmaxClassifier(**QUICK).fit(np.eye(3)[[0, 1, 2] * 10][:, 1:], ["none", "a", "b"] * 10)
        self.assertEqual(only_zeros.classes_.tolist(), ["a", "b", "none"])

    def test_a_fit_that_is_refused_leaves_the_estimator_as_it_was(self):
        model = SoftmaxClassifier(**QUICK).fit(X, Y)
        before = model.predict_proba(X)
        for x, y in ((X[:, :5], np.zeros(len(Y))), (X[:, :5], Y[:3])):
            with self.assertRaises(ValueError):
                model.fit(x, y)
            self.assertTrue(np.array_equal(model.predict_proba(X), before))
        with self.assertRaises(ValueError):
            model.set_params(step=-1).fit(pandas.DataFrame(X[:, :5]).add_prefix("f"), Y)
        self.assertTrue(np.array_equal(model.predict_proba(X), before))
        self.assertFalse(hasattr(model, "feature_names_in_"))

    def test_without_intercept_it_is_zero(self):
        self.assertFalse(SoftmaxClassifier(fit_intercept=False, **QUICK).fit(X, Y).intercept_.any())

    def test_the_same_seed_gives_the_same_bits_for_any_number_of_threads(self):
        one = SoftmaxClassifier(random_state=3, n_jobs=1).fit(X, Y)
        two = SoftmaxClassifier(random_state=3, n_jobs=2).fit(X, Y)
        self.assertTrue(np.array_equal(one.coef_, two.coef_))
        other = SoftmaxClassifier(random_state=np.random.RandomState(5), **QUICK).fit(X, Y)
        self.assertTrue(np.isfinite(other.coef_).all())

    def test_learnt_features_have_an_embedding(self):
        model = SoftmaxClassifier(hidden=16, epochs=5).fit(X, Y)
        self.assertEqual((model.embedding_.shape, model.coef_.shape), ((64, 16), (10, 16)))
        scores = X @ model.embedding_.astype(float) @ model.coef_.astype(float).T + model.intercept_
        np.testing.assert_allclose(model.decision_function(X), scores, rtol=1e-3, atol=1e-3)
        with self.assertRaises(AttributeError):
            SoftmaxClassifier(**QUICK).fit(X, Y).embedding_

    def test_history_has_the_evaluations_and_trials_the_search(self):
        model = SoftmaxClassifier(eval_every=1, method="prox", epochs=3).fit(X, Y, eval_set=(X[:100], Y[:100]))
        self.assertEqual([entry["epoch"] for entry in model.history_], [1, 2, 3])
        self.assertAlmostEqual(model.history_[-1]["train_log_loss"], model.log_loss(X, Y), places=9)
        self.assertAlmostEqual(model.history_[-1]["valid_log_loss"], model.log_loss(X[:100], Y[:100]), places=9)
        searched = SoftmaxClassifier().fit(X, Y)
        self.assertGreater(len(searched.trials_), 2)
        self.assertEqual(searched.config_["seed"], 1)

    def test_early_stopping_keeps_the_best_epoch(self):
        for method in ("auto", "prox"):
            model = SoftmaxClassifier(method=method, early_stopping=True, n_iter_no_change=2, validation_fraction=0.2,
                                      eval_every=1, epochs=40, step=1e3, ridge=0).fit(X, Y)
            losses = [entry["valid_log_loss"] for entry in model.history_]
            self.assertEqual(model.history_[-1].get("best"), True)
            self.assertAlmostEqual(losses[-1], min(losses), places=12)

    def test_warm_start_goes_on_from_the_last_model_and_takes_new_classes(self):
        first = Y < 8
        model = SoftmaxClassifier(warm_start=True, **QUICK).fit(X[first], Y[first])
        fresh = SoftmaxClassifier(method="prox", epochs=1, step=1e-9).fit(X, Y)
        model.set_params(epochs=1, step=1e-9).fit(X, Y)  # steps too small to move anything
        self.assertEqual(model.classes_.tolist(), list(range(10)))
        self.assertLess(model.log_loss(X[first], Y[first]), 0.6 * fresh.log_loss(X[first], Y[first]))

    def test_partial_fit_learns_from_batches_and_takes_new_classes(self):
        model = SoftmaxClassifier()
        for first in range(0, 1200, 200):
            y = Y[first:first + 200]
            keep = (y < 5) | (first >= 600)
            model.partial_fit(X[first:first + 200][keep], y[keep])
            self.assertEqual(len(model.classes_), 5 if first < 600 else 10)
        self.assertGreater(model.score(X[1200:], Y[1200:]), 0.8)
        named = SoftmaxClassifier().partial_fit(X[:5], Y[:5], classes=np.arange(12))
        self.assertEqual(named.predict_proba(X).shape, (len(X), 12))

    def test_several_labels_as_lists_sets_or_indicator_are_the_same(self):
        lists = [[k] if k % 2 else [k, (k + 1) % 10] for k in Y]
        indicator = np.zeros((len(Y), 10), dtype=int)
        for row, labels in enumerate(lists):
            indicator[row, labels] = 1
        models = [SoftmaxClassifier(**QUICK).fit(X, y) for y in (
            lists, [set(row) for row in lists], indicator, sparse.csr_matrix(indicator), indicator.tolist(),
            pandas.Series([sorted(row) for row in lists]))]
        wanted = SoftmaxClassifier(**QUICK).fit(X, [sorted(row) for row in lists])
        for model in models[1:]:
            self.assertTrue(np.array_equal(model.coef_, wanted.coef_))
        self.assertGreater(wanted.score(X, indicator), 0.85)
        probabilities = wanted.predict_log_proba(X)
        mean = -np.mean([np.mean(probabilities[row, labels]) for row, labels in enumerate(lists)])
        self.assertAlmostEqual(wanted.log_loss(X, lists), mean, places=9)
        once = SoftmaxClassifier(labels="first", **QUICK).fit(X, [sorted(row) for row in lists])
        first = SoftmaxClassifier(**QUICK).fit(X, [min(row) for row in lists])
        self.assertTrue(np.array_equal(once.coef_, first.coef_))
        # Labels that are nowhere the first are no classes, and do not count.
        other = [[k, 10] for k in Y]
        model = SoftmaxClassifier(labels="first", **QUICK).fit(X, other)
        self.assertEqual(model.log_loss(X, other), model.log_loss(X, Y))

    def test_a_method_that_diverges_says_so_and_leaves_the_last_good_model(self):
        # Only exact gradient steps may diverge.
        model = SoftmaxClassifier(method="vanilla", step=1e15, epochs=5)
        with self.assertRaisesRegex(truemax.DivergenceError, "step="):
            model.fit(X * 1e10, Y)
        self.assertTrue(np.isfinite(model.predict_proba(X)).all())


class Callbacks(unittest.TestCase):
    def test_see_every_event_and_stop_the_run(self):
        events = []

        def stop_at_two(event):
            events.append(event["event"])
            return event["event"] == "evaluate" and event["epoch"] == 2

        model = SoftmaxClassifier(method="prox", epochs=50, eval_every=1).fit(X, Y, callbacks=stop_at_two)
        self.assertEqual(model.n_iter_, 2)
        self.assertTrue(model.interrupted_)
        self.assertEqual(events.count("evaluate"), 2)

    def test_an_exception_comes_out_of_fit_and_leaves_a_usable_estimator(self):
        def fail(event):
            if event["event"] == "evaluate":
                raise KeyError("mine")

        model = SoftmaxClassifier(method="prox", epochs=50, eval_every=1)
        with self.assertRaisesRegex(KeyError, "mine"):
            model.fit(X, Y, callbacks=[fail])
        self.assertEqual(model.n_iter_, 1)
        self.assertGreater(model.score(X, Y), 0.5)

    def test_keyboard_interrupt_stops_at_a_step_and_leaves_a_usable_estimator(self):
        program = """
import sys, threading, os, signal
import numpy as np
from truemax import SoftmaxClassifier
x, y = np.eye(64)[np.arange(6400) % 64], np.arange(6400) % 64
model = SoftmaxClassifier(method="prox", epochs=10**8)
def started(event):
    if event["event"] == "step":
        os.kill(os.getpid(), signal.SIGINT)
try:
    model.fit(x, y, callbacks=started)
except KeyboardInterrupt:
    print("interrupted", np.isfinite(model.predict_proba(x)).all(), model.interrupted_)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PYTHONPATH": PACKAGE}, check=False)
        self.assertEqual(done.stdout.splitlines(), ["interrupted True True", "True"], done.stderr)
        self.assertEqual(done.stderr, "")

    def test_the_gil_is_free_while_a_run_trains(self):
        ticks, done = [], threading.Event()

        def tick():
            while not done.is_set():
                ticks.append(0)
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        try:
            seen = []
            SoftmaxClassifier(method="prox", epochs=10**8).fit(
                X, Y, callbacks=lambda event: event["event"] == "step" and (seen.append(len(ticks)) or len(seen) > 4))
        finally:
            done.set()
            thread.join()
        self.assertGreater(seen[-1], seen[0] + 20)


class Files(unittest.TestCase):
    def test_load_gives_the_estimator_back(self):
        with tempfile.TemporaryDirectory() as folder:
            for y in (Y, IRIS.target_names[Y % 3], Y > 4):
                path = os.path.join(folder, "model.safetensors")
                model = SoftmaxClassifier(**QUICK).fit(X, y)
                model.save(path)
                loaded = truemax.load(path)
                self.assertEqual(loaded.classes_.tolist(), [str(c) if y.dtype == bool else c for c in model.classes_])
                self.assertTrue(np.array_equal(loaded.predict_proba(X), model.predict_proba(X)))
                again = os.path.join(folder, "again.safetensors")
                loaded.save(again)
                with open(path, "rb") as one, open(again, "rb") as two:
                    self.assertEqual(one.read(), two.read())

    def test_a_missing_or_damaged_file_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            with self.assertRaisesRegex(FileNotFoundError, "model.safetensors"):
                truemax.load(path)
            with open(path, "wb") as file:
                file.write(b"nonsense")
            with self.assertRaisesRegex(ValueError, "model.safetensors"):
                truemax.load(path)

    def test_unfitted_estimators_say_so(self):
        for call in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            with self.assertRaises(NotFittedError):
                getattr(SoftmaxClassifier(), call)(X)
        with self.assertRaises(NotFittedError):
            SoftmaxClassifier().save("model.safetensors")
        with self.assertRaises(AttributeError):
            SoftmaxClassifier().coef_


class Generated(unittest.TestCase):
    def test_parameters_and_stubs_are_up_to_date(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "python", "generate.py"), "--check"],
                              capture_output=True, text=True, check=False,
                              env={**os.environ, "TRUEMAX_LIBRARY": os.path.join(PACKAGE, "truemax", "libtruemax.so")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_parameter_has_its_words_and_its_range(self):
        words = SoftmaxClassifier.__doc__
        for name in SoftmaxClassifier().get_params():
            self.assertRegex(words, rf"(?m)^{name} : ")
        self.assertIn("Takes a number from 0 to 1e15 or 'auto'", words)
        self.assertNotIn("--", words.replace("----------", "").replace("--------", ""))

    def test_stubs_agree_with_the_package(self):
        modules = [f"truemax.{name}" for name in ("classifier", "files", "language", "links")]
        with tempfile.TemporaryDirectory() as folder:
            config = os.path.join(folder, "mypy.ini")
            with open(config, "w", encoding="utf-8") as file:
                file.write("[mypy]\nignore_missing_imports = True\n")  # scikit-learn has no stubs
            done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "--mypy-config-file", config, *modules],
                                  capture_output=True, text=True, check=False, cwd=folder,
                                  env={**os.environ, "MYPYPATH": PACKAGE, "PYTHONPATH": PACKAGE})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Progress(unittest.TestCase):
    def shown(self, verbose, terminal):
        import io
        out = io.StringIO()
        out.isatty = lambda: terminal
        saved = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = out
        try:
            SoftmaxClassifier(verbose=verbose, eval_every=1, **QUICK).fit(X, Y)
        finally:
            sys.stdout, sys.stderr = saved
        return out.getvalue()

    def test_is_quiet_in_pipes_and_one_line_on_a_terminal(self):
        self.assertEqual(self.shown(None, terminal=False), "")
        self.assertEqual(self.shown(0, terminal=True), "")
        line = self.shown(None, terminal=True)
        self.assertRegex(line, "log-loss")
        self.assertNotIn("\n", line)
        self.assertRegex(self.shown(1, terminal=False), r"(?m)^\[truemax\] epoch 1  log-loss train 0\.\d{4}$")


if __name__ == "__main__":
    unittest.main()
