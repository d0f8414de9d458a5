"""Misuse of the Python package: known exceptions, never a crash, never a result that is not finite.

    tests/test_python_misuse.py              all tests
    tests/test_python_misuse.py --seed 17    one generated misuse

TRUEMAX_PACKAGE  the folder that holds the package (default: build/python of this repository)
"""
import copy
import faulthandler
import inspect
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.environ.get("TRUEMAX_PACKAGE", os.path.join(ROOT, "build", "python")))

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

import truemax
from truemax import DivergenceError, SoftmaxClassifier

MISUSES = 1000
METHODS = ("auto", "implicit", "prox", "scent", "umax", "vanilla", "raman", "composition", "sox", "ove", "nce", "importance",
           "softplus", "exact", "bsgd")
ALLOWED = (TypeError, ValueError, AttributeError, MemoryError, OverflowError, OSError, DivergenceError)

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(60, 5).astype(np.float32)
Y = np.arange(60) % 3
TEXTS = np.array(["a", "b", "c"])[Y]


def quick(**parameters):
    return SoftmaxClassifier(**{"method": "implicit", "epochs": 2, "step": 1.0, "n_jobs": 1, **parameters})


def with_value(value, dtype=None):
    x = X.astype(dtype or X.dtype)
    x[3, 2] = value
    return x


def raised(action):
    """What an action raises, None if nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", DataConversionWarning)
        try:
            action()
        except Exception as error:
            return error
    return None


def require_finite(probabilities):
    assert np.all(np.isfinite(probabilities)), "probabilities are not finite"
    assert np.allclose(probabilities.sum(axis=1), 1, atol=1e-6), "probabilities do not sum to 1"


class BadInput(unittest.TestCase):
    """The type of the exception is that of scikit-learn, and the message names what was found."""

    def refused(self, case, kind, words, action, scikit_learn=None):
        with self.subTest(case), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("error", FutureWarning)
            error = raised(action)
            self.assertIsInstance(error, kind, f"{case}: {error!r}")
            self.assertRegex(str(error), words)
            self.assertNotRegex(str(error), "--|truemax help", "options of the command line")
            if scikit_learn is not None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    theirs = raised(scikit_learn)
                if theirs is not None:
                    self.assertIsInstance(error, tuple(t for t in (TypeError, ValueError) if isinstance(theirs, t)),
                                          f"scikit-learn: {theirs!r}")

    def fit_refused(self, case, kind, words, x, y, **more):
        self.refused(case, kind, words, lambda: quick().fit(x, y, **more),
                     lambda: LogisticRegression(max_iter=3).fit(x, y, **more))
        self.refused(f"{case}, auto", kind, words, lambda: SoftmaxClassifier().fit(x, y, **more))
        self.refused(f"{case}, partial_fit", kind, words, lambda: quick().partial_fit(x, y, **more))

    def test_rows(self):
        boxes = np.empty((60, 1), dtype=object)
        boxes[:, 0] = [{}] * 60
        for case, kind, words, x in (
                ("NaN", ValueError, "NaN", with_value(np.nan)),
                ("infinity", ValueError, "infinity", with_value(np.inf)),
                ("too large for float32", ValueError, r"1e\+300|1e300", with_value(1e300, np.float64)),
                ("NaN in CSR", ValueError, "NaN", sparse.csr_matrix(with_value(np.nan))),
                ("one dimension", ValueError, "Expected 2D array, got 1D", X[:, 0]),
                ("three dimensions", ValueError, "dim 3", X[:, :, None]),
                ("no rows", ValueError, "0 sample", X[:0]),
                ("no columns", ValueError, "0 feature", X[:, :0]),
                ("ragged", ValueError, "inhomogeneous|sequence", [[1, 2], [3]] * 30),
                ("texts", ValueError, "could not convert string", np.array([["a", "b"]] * 60, dtype=object)),
                ("objects", TypeError, "dict", boxes),
                ("None among numbers", ValueError, "NaN", np.array([[1, None]] * 60, dtype=object)),
                ("complex", ValueError, "Complex", X.astype(complex)),
                ("None", ValueError, "2D array", None),
                ("a number", ValueError, "2D array", 3),
                ("a text", ValueError, "could not convert", "abc"),
                ("a column of texts", ValueError, "could not convert",
                 pd.DataFrame({"a": ["x", "y", "z"] * 20, "b": 1.0})),
                ("NA in a column", ValueError, "NaN|NA", pd.DataFrame({"a": pd.array([1, None, 2] * 20, dtype="Int64")})),
        ):
            self.fit_refused(case, kind, words, x, Y[:0] if case == "no rows" else Y)

    def test_labels(self):
        self.fit_refused("fewer than rows", ValueError, r"\[60, 59\]", X, Y[:-1])
        objects = [object()] * 60
        for case, kind, words, y in (
                ("None", ValueError, "None", None),
                ("NaN", ValueError, "NaN", np.where(Y == 0, np.nan, Y)),
                ("infinity", ValueError, "inf", np.where(Y == 0, np.inf, Y)),
                ("continuous", ValueError, "continuous", Y + 0.5),
                ("one class", ValueError, "class", Y * 0),
                ("texts and numbers, list", TypeError, "number.*text", ["a", 1, 2] * 20),
                ("texts and numbers, objects", TypeError, "number.*text", np.array(["a", 1, 2] * 20, dtype=object)),
                ("None among texts", TypeError, "None", np.array(["a", None, "c"] * 20, dtype=object)),
                ("NaN among texts", ValueError, "NaN", np.array(["a", np.nan, "c"] * 20, dtype=object)),
                ("NA among numbers", ValueError, "NaN", pd.Series([1, 2, None] * 20, dtype="Int64")),
                ("missing category", ValueError, "NaN", pd.Series(["a", "b", None] * 20, dtype="category")),
                ("complex", ValueError, "Complex", Y.astype(complex)),
                ("three dimensions", ValueError, "dim 3", Y[:, None, None]),
                ("a number", ValueError, "1d array", 1),
                ("a text", ValueError, "1d array", "abc"),
                ("a dict", ValueError, "1d array", {1: 2}),
                ("objects", ValueError, "unknown", objects),
                ("structured", ValueError, "structured", np.zeros(60, dtype=[("a", int)])),
                ("two columns", ValueError, "two dimensions", np.c_[Y, Y]),
                ("negative indicators", ValueError, "indicator", -np.eye(3)[Y]),
                ("lists without a label", ValueError, "no labels", [[]] * 60),
                ("lists of texts and numbers", TypeError, "number.*text", [["a"], [1, 2]] * 30),
                ("lists of lists of lists", ValueError, "label|array|dim", [[[1]], [[2], [3]]] * 30),
                ("lists of None", ValueError, "label", [[None], [None, None]] * 30),
        ):
            if case.startswith(("two", "negative", "lists")):  # scikit-learn has no such targets
                self.refused(case, kind, words, lambda y=y: quick().fit(X, y))
            else:
                self.fit_refused(case, kind, words, X, y)

    def test_sample_weight(self):
        ones = np.ones(60)
        for case, kind, words, weight in (
                ("NaN", ValueError, "NaN", ones * np.nan), ("infinity", ValueError, "infinity", ones * np.inf),
                ("negative", ValueError, "[Nn]egative", -ones), ("one negative", ValueError, "[Nn]egative",
                                                                np.r_[-1, ones[1:]]),
                ("too few", ValueError, r"\(59,\)", ones[1:]), ("two columns", ValueError, "1D", np.ones((60, 2))),
                ("texts", ValueError, "could not convert", np.array(["a"] * 60)),
                ("None", ValueError, "NaN", np.array([None] * 60)), ("all 0", ValueError, "class", ones * 0),
                ("too large", ValueError, r"1e\+300", ones * 1e300)):
            self.fit_refused(case, kind, words, X, Y, sample_weight=weight)
            if case not in ("all 0", "too large"):
                model = quick().fit(X, Y)
                self.refused(f"{case}, evaluate", kind, words, lambda: model.evaluate(X, Y, sample_weight=weight))
                self.refused(f"{case}, score", kind, words, lambda: model.score(X, Y, sample_weight=weight))
        model = quick().fit(X, Y)
        self.refused("all 0, score", ValueError, "0 for all rows", lambda: model.score(X, Y, np.zeros(60)))
        self.refused("all 0, evaluate", ValueError, "weight 0", lambda: model.evaluate(X, Y, np.zeros(60)))

    def test_class_weight(self):
        for case, weight, words in (("unknown class", {9: 1}, r"\[9\]"), ("negative", {0: -1}, "-1"),
                                    ("NaN", {0: np.nan}, "nan"), ("zero", {0: 0}, "'0' is 0"),
                                    ("a word", "x", "'x'"), ("a list", [1, 2, 3], "list|dict")):
            self.refused(case, ValueError, words, lambda w=weight: quick(class_weight=w).fit(X, Y))
        self.assertIsNone(raised(lambda: quick(class_weight="balanced").fit(X, Y, sample_weight=(Y != 2) * 1.0)))

    def test_labels_of_a_fitted_model(self):
        model = quick().fit(X, Y)
        for name in ("evaluate", "log_loss"):
            method = getattr(model, name)
            self.refused(f"{name}, unknown", ValueError, r"unseen labels: \[5, 6, 7\]", lambda: method(X, Y + 5))
            self.refused(f"{name}, texts", ValueError, "unseen labels", lambda: method(X, TEXTS))
            self.refused(f"{name}, lists", ValueError, r"unseen labels: \[9\]", lambda: method(X, [[0, 9]] * 60))
        for name in ("evaluate", "log_loss", "score"):
            method = getattr(model, name)
            self.refused(f"{name}, None", ValueError, "None", lambda: method(X, None))
            self.refused(f"{name}, too few", ValueError, r"60, 5\]", lambda: method(X, Y[:5]))
            self.refused(f"{name}, too many lists", ValueError, r"60, 70\]", lambda: method(X, [[0, 2]] * 70))
            self.refused(f"{name}, mixed", TypeError, "number.*text", lambda: method(X, ["a", 1, 2] * 20))
        self.refused("score, texts", ValueError, "Mix of label", lambda: model.score(X, TEXTS))
        self.refused("partial_fit, texts", ValueError, "Mix of label", lambda: clone(model).partial_fit(X, Y).partial_fit(
            X, TEXTS))
        self.refused("partial_fit, classes", ValueError, "Mix of label",
                     lambda: quick().partial_fit(X, Y, classes=["a", "b"]))
        self.refused("warm_start, texts", ValueError, "Mix of label",
                     lambda: quick(warm_start=True).fit(X, Y).fit(X, TEXTS))
        self.refused("eval_set", ValueError, r"unseen labels: \[3\]", lambda: quick().fit(X, Y, eval_set=(X, Y + 1)))

    def test_other_features(self):
        model = quick().fit(X, Y)
        theirs = LogisticRegression().fit(X, Y)
        for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            self.refused(name, ValueError, "4 features.*5 features", lambda: getattr(model, name)(X[:, :4]),
                         lambda: getattr(theirs, name)(X[:, :4]))
            self.refused(f"{name}, no rows", ValueError, "0 sample", lambda: getattr(model, name)(X[:0]),
                         lambda: getattr(theirs, name)(X[:0]))
        self.refused("partial_fit", ValueError, "4 features.*5", lambda: quick().partial_fit(X, Y).partial_fit(X[:, :4], Y))
        self.refused("warm_start", ValueError, "5 features", lambda: quick(warm_start=True).fit(X, Y).fit(X[:, :4], Y))
        self.refused("names", ValueError, "feature names", lambda: quick().fit(pd.DataFrame(X, columns=list("abcde")), Y)
                     .predict(pd.DataFrame(X, columns=list("abcdf"))))

    def test_before_fit(self):
        new = quick()
        for name, action in {
                "predict": lambda: new.predict(X), "predict_proba": lambda: new.predict_proba(X),
                "predict_log_proba": lambda: new.predict_log_proba(X), "predict_topk": lambda: new.predict_topk(X, 1),
                "decision_function": lambda: new.decision_function(X), "evaluate": lambda: new.evaluate(X, Y),
                "log_loss": lambda: new.log_loss(X, Y), "score": lambda: new.score(X, Y), "save": lambda: new.save("m"),
                "to_logistic_regression": lambda: new.to_logistic_regression()}.items():
            self.refused(name, NotFittedError, "not fitted", action)
        for name in ("coef_", "intercept_", "embedding_", "classes_", "model_"):
            self.assertFalse(hasattr(new, name), name)

    def test_parameters_are_named_in_messages(self):
        for name, value, words in (("step", -1, "^step is -1; give a number"), ("step", "fast", "^step is 'fast'; give"),
                                   ("step", True, "^step is True; give a number"), ("epochs", 1.5, "^epochs is 1.5; give"),
                                   ("fit_intercept", 2, "^fit_intercept is 2; give True or False"),
                                   ("method", "sgd", "^method is 'sgd'; give one of auto, implicit"),
                                   ("n_jobs", 5000, "^n_jobs is 5000; give"), ("random_state", -1, "random_state is -1"),
                                   ("hidden", 4, "hidden"), ("ridge", "auto", "^ridge='auto': only method='auto'"),
                                   ("dropout", 0.5, "^dropout: .* add hidden=256"),
                                   ("row_state", True, "^row_state: .* add hidden=256"),
                                   ("epochs", "unlimited", "give a number, or add seconds, steps or n_iter_no_change"),
                                   ("rows_per_step", float("nan"), "^rows_per_step is nan; give")):
            self.refused(f"{name}={value!r}", ValueError, words, lambda: quick(**{name: value}).fit(X, Y))
        for name, value in (("step", []), ("method", object()), ("random_state", 1.5), ("n_jobs", "two"),
                            ("epochs", 1j), ("hidden", (1, 2))):
            self.refused(f"{name}={value!r}", TypeError, f"^{name} is", lambda: quick(**{name: value}).fit(X, Y))
        for value in (-1, 2.5, float("nan"), float("inf"), "x"):
            self.refused(f"n_iter_no_change={value}", ValueError, "^n_iter_no_change is",
                         lambda: quick(early_stopping=True, n_iter_no_change=value).fit(X, Y))
            self.refused(f"validation_fraction={value}", (TypeError, ValueError), "^validation_fraction is",
                         lambda: SoftmaxClassifier(early_stopping=True, validation_fraction=value).fit(X, Y))
        self.refused("unknown", TypeError, "foo", lambda: SoftmaxClassifier(foo=1))
        self.refused("set_params", ValueError, "foo", lambda: quick().set_params(foo=1))

    def test_files(self):
        model = quick().fit(X, Y)
        with tempfile.TemporaryDirectory() as folder:
            broken = os.path.join(folder, "broken")
            pathlib.Path(broken).write_bytes(b"\x08\0\0\0\0\0\0\0{}      ")
            for case, kind, path in (("absent", FileNotFoundError, os.path.join(folder, "absent")),
                                     ("folder", IsADirectoryError, folder), ("number", TypeError, 5),
                                     ("None", TypeError, None), ("zero byte", ValueError, "a\0b"),
                                     ("empty name", FileNotFoundError, ""), ("broken", ValueError, broken)):
                self.refused(f"load, {case}", kind, ".", lambda p=path: truemax.load(p))
            for case, kind, path in (("no folder", OSError, os.path.join(folder, "no", "m")), ("folder", OSError, folder),
                                     ("number", TypeError, 5), ("None", TypeError, None), ("empty name", OSError, ""),
                                     ("zero byte", ValueError, "a\0b")):
                self.refused(f"save, {case}", kind, ".", lambda p=path: model.save(p))
            self.refused("predict", FileNotFoundError, "absent", lambda: model.predict(os.path.join(folder, "absent")))
            for name in ("--5", "\u00b2", "\u0663", "1_000", "-0", "007", " 1", "", "a\nb", "\U0001f600", "\"", "x" * 10**4):
                with self.subTest(name=name[:20]):
                    model = quick().fit(X, np.array([name, "1", "2"])[Y])
                    model.save(broken)
                    self.assertEqual(truemax.load(broken).classes_.tolist(), model.classes_.tolist())

    def test_corrupt_sparse_matrices(self):
        """SciPy would write out of bounds."""
        for format in ("csr", "csc", "bsr", "coo"):
            for name, value in (("indices", 2**30), ("indices", -1), ("indptr", 2**29), ("indptr", -2**29)):
                x, y = (sparse.csr_matrix(a).asformat(format) for a in (X, np.eye(3)[Y]))
                for matrix in (x, y):
                    at = (slice(None) if format == "bsr" else slice(1, -1))
                    if format == "coo":
                        name = {"indices": "col", "indptr": "row"}.get(name, name)
                    array = getattr(matrix, name).copy()
                    array[at] = value
                    setattr(matrix, name, array)
                for case, action in {"fit": lambda: quick().fit(x, Y), "predict": lambda: quick().fit(X, Y).predict(x),
                                     "y": lambda: quick().fit(X, y),
                                     "early_stopping": lambda: SoftmaxClassifier(early_stopping=True).fit(x, Y)}.items():
                    self.refused(f"{format} {name} {value} {case}", ValueError, "row|column|offset|ind|label", action)

    def test_callbacks(self):
        self.refused("a number", TypeError, "int", lambda: quick().fit(X, Y, callbacks=5))
        self.refused("numbers", TypeError, "callbacks has 5", lambda: quick().fit(X, Y, callbacks=[5]))
        self.refused("not a truth value", ValueError, "ambiguous", lambda: quick().fit(X, Y, callbacks=lambda e: X))

        def fails(event):
            raise KeyError(event["event"])
        with self.assertRaises(KeyError):
            quick().fit(X, Y, callbacks=fails)

    def test_a_target_is_left_as_it_is(self):
        y = sparse.csr_matrix(np.eye(3)[Y])
        y.data[0] = 0
        before = y.copy()
        quick().fit(X, y)
        self.assertEqual(y.nnz, before.nnz)
        np.testing.assert_array_equal(y.data, before.data)


class Legal(unittest.TestCase):
    """Unusual input that means something gives a finite model."""

    def fine(self, case, x, y=Y, model=None, **more):
        with self.subTest(case), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", DataConversionWarning)
            model = (model or quick()).fit(x, y, **more)
            require_finite(model.predict_proba(x))
            self.assertTrue(np.isfinite(model.coef_).all())
            self.assertTrue(np.isfinite(model.predict_log_proba(x)).all())
            return model

    def same(self, case, x, like=X):
        """The form of X does not change the model."""
        model = self.fine(case, x)
        with self.subTest(case):
            np.testing.assert_array_equal(model.coef_, quick().fit(like, Y).coef_)

    def test_forms_of_rows(self):
        wide = np.zeros((120, 10), dtype=np.float32)
        wide[::2, ::2] = X
        locked = X.copy()
        locked.flags.writeable = False
        with tempfile.TemporaryDirectory() as folder:
            mapped = np.memmap(os.path.join(folder, "x"), dtype=np.float32, mode="w+", shape=X.shape)
            mapped[:] = X
            self.same("memmap", mapped)
            del mapped
        for case, x in (("Fortran order", np.asfortranarray(X)), ("strides", wide[::2, ::2]),
                        ("negative strides", np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]), ("read-only", locked),
                        ("big-endian", X.astype(">f4")), ("float64", X.astype(np.float64)),
                        ("big-endian float64", X.astype(">f8")), ("objects", X.astype(object)), ("list", X.tolist()),
                        ("DataFrame", pd.DataFrame(X))):
            self.same(case, x)
        for case, x in (("float16", X.astype(np.float16)), ("integers", (X * 3).astype(int)), ("bool", X > 0),
                        ("uint8", (X > 0).astype(np.uint8)), ("longdouble", X.astype(np.longdouble)),
                        ("nullable", pd.DataFrame({"a": pd.array([1, 2, 3] * 20, dtype="Int64"), "b": X[:, 0]})),
                        ("categories of numbers", pd.DataFrame({"a": pd.Categorical([1, 2, 3] * 20), "b": X[:, 0]})),
                        ("sparse columns", pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X * (X > 0)))),
                        ("big-endian int", (X * 3).astype(">i4"))):
            self.fine(case, x)

    def test_sparse_forms(self):
        dense = X * (X > 0)
        csr = sparse.csr_matrix(dense)
        for name in ("csc", "coo", "lil", "bsr", "dia", "dok", "csr"):
            self.same(name, csr.asformat(name), dense)
        self.same("csr_array", sparse.csr_array(dense), dense)
        large = csr.copy()
        large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
        self.same("int64 indices", large, dense)
        doubles = sparse.csr_matrix((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), csr.indptr * 2),
                                    shape=csr.shape)
        self.same("duplicates", doubles, dense)
        turned = csr.copy()
        for first, end in zip(turned.indptr, turned.indptr[1:]):
            turned.indices[first:end] = turned.indices[first:end][::-1].copy()
            turned.data[first:end] = turned.data[first:end][::-1].copy()
        turned.has_sorted_indices = False
        self.same("unsorted", turned, dense)
        full = sparse.csr_matrix(np.ones_like(dense))
        full.data = dense.ravel().copy()
        self.same("explicit zeros", full, dense)
        self.same("big-endian", sparse.csr_matrix((csr.data.astype(">f4"), csr.indices, csr.indptr), csr.shape), dense)

    def test_forms_of_labels(self):
        error = raised(lambda: quick().fit(X, ["y" * 10**6, "b", "c"] * 20))
        self.assertIsInstance(error, ValueError)
        self.assertRegex(str(error), "label has 1000000 bytes")
        for case, y in (("bool", Y == 1), ("float", Y.astype(float)), ("texts", TEXTS), ("objects", TEXTS.astype(object)),
                        ("bytes", TEXTS.astype("S")), ("Series", pd.Series(TEXTS)), ("tuple", tuple(TEXTS.tolist())),
                        ("categories", pd.Series(TEXTS, dtype="category")), ("column", Y[:, None]),
                        ("string", pd.Series(TEXTS, dtype="string")), ("Int64", pd.Series(Y, dtype="Int64")),
                        ("DataFrame", pd.DataFrame({"y": Y})), ("times", pd.Series(pd.to_datetime(Y, unit="D"))),
                        ("uint64", np.array([2**63, 1, 2**64 - 1], dtype=np.uint64)[Y]), ("negative", -Y),
                        ("int8", Y.astype(np.int8)), ("big-endian", Y.astype(">i8")), ("indicator", np.eye(3)[Y]),
                        ("sparse indicator", sparse.csc_matrix(np.eye(3)[Y])), ("lists", [[0, 1], [2], []] * 20),
                        ("sets", [{"a", "b"}, {"c"}, set()] * 20), ("arrays", [np.array([1, 2]), np.array([3])] * 30),
                        ("odd texts", np.array([" ", "\n\t\"'\\", "\U0001f600"])[Y]), ("empty text", np.array(["", "a"])[Y % 2])):
            self.fine(case, X, y)
        self.assertEqual(len(self.fine("long texts", X, np.array(["x" * 60000, "y" * 300, ""], dtype=object)[Y]).classes_), 3)

    def test_shapes(self):
        self.fine("as many classes as rows", X, np.arange(60))
        self.fine("one feature", X[:, :1])
        self.fine("more features than rows", RANDOM.randn(3, 10000), [0, 1, 2])
        self.fine("two rows", X[:2], [0, 1])
        self.fine("equal columns", np.repeat(X[:, :1], 7, axis=1))
        self.fine("constant columns", np.c_[X, np.ones(60), np.full(60, 1e6)])
        for x in (np.zeros((60, 4)), sparse.csr_matrix((60, 4), dtype=np.float32)):
            self.assertRegex(str(raised(lambda: quick().fit(x, Y))), "60 no feature")
        for shape in (X[:6], X[:, :1]):
            self.fine("auto", shape, Y[:len(shape)], SoftmaxClassifier())
        self.fine("auto, as many classes as rows", X, np.arange(60), SoftmaxClassifier())

    def test_extreme_numbers(self):
        for method in METHODS:
            for step in (1e-15, 1e-5, 1e5, 1e15):
                self.finite_or_diverged(X, method=method, step=step, epochs=1)
            for scale in (1e38, 1e-38, 1e19, 1e-45):
                big = np.clip(X, -3, 3) * np.float64(scale)
                self.finite_or_diverged(big.astype(np.float32), method=method, step=None, epochs=1)

    def finite_or_diverged(self, x, **parameters):
        with self.subTest(**parameters, x=float(x[0, 0])), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            if parameters["method"] == "auto":
                parameters["epochs"] = None
            model = quick(**parameters)
            try:
                model.fit(x, Y)
            except DivergenceError as error:
                self.assertNotRegex(str(error), "--")
                self.assertTrue(hasattr(model, "model_"), "the last good model is kept")
            require_finite(model.predict_proba(x))
            self.assertTrue(np.isfinite(model.coef_).all())


def garbage(array, value):
    """Overwrites an array in place."""
    with np.errstate(all="ignore"):
        array[...] = value if array.dtype.kind == "f" else 2**30 if value == value else -1


CHANGES = {
    "NaN": lambda x: x.data.fill(np.nan),
    "infinity": lambda x: x.data.fill(np.inf),
    "huge": lambda x: x.data.fill(3e38),
    "zeros": lambda x: x.data.fill(0),
    "indices": lambda x: garbage(x.indices, np.nan),
    "large indices": lambda x: garbage(x.indices, 1.0),
    "offsets": lambda x: garbage(x.indptr, np.nan),
    "large offsets": lambda x: garbage(x.indptr, 1.0),
    "everything": lambda x: [garbage(a, np.nan) for a in (x.data, x.indices, x.indptr)],
    "resize": lambda x: x.resize((2, 2)),
    "other arrays": lambda x: (setattr(x, "data", np.empty(0, np.float32)), setattr(x, "indices", np.empty(0, np.int32))),
    "sum_duplicates": lambda x: (setattr(x, "has_canonical_format", False), x.sum_duplicates()),
    "resize of an array": lambda x: raised(lambda: x.data.resize(1)),
}
SETTINGS = ({}, {"method": "implicit", "epochs": 30, "eval_every": 1}, {"method": "prox", "epochs": 30, "eval_every": 1},
            {"method": "exact", "epochs": 20, "eval_every": 1, "step": 1.0},
            {"hidden": 4, "epochs": 20, "eval_every": 1, "step": 0.1, "ridge": 0})


class ChangedDuringAFit(unittest.TestCase):
    """Arrays that change while a model is trained on them: a finite model, or ValueError or DivergenceError."""

    @staticmethod
    def rows():
        random = np.random.RandomState(1)
        x = sparse.random(400, 30, density=0.3, format="csr", dtype=np.float32, random_state=random)
        x.data += np.float32(0.1)
        return x, random.randint(0, 7, 400)

    def finite_or_refused(self, x, y, action, parameters):
        model = SoftmaxClassifier(n_jobs=2, **parameters)
        try:
            action(model, x, y)
        except (ValueError, DivergenceError):
            return
        good, _ = self.rows()
        require_finite(model.predict_proba(good))
        self.assertTrue(np.isfinite(model.coef_).all())

    def test_from_a_callback(self):
        for parameters in SETTINGS:
            for name, change in CHANGES.items():
                with self.subTest(name, **parameters):
                    x, y = self.rows()
                    self.finite_or_refused(x, y, lambda m, x, y: m.fit(x, y, callbacks=lambda event: change(x) and None),
                                           parameters)

    def test_a_change_is_reported(self):
        x, y = self.rows()
        error = raised(lambda: SoftmaxClassifier(method="implicit", epochs=30, eval_every=1).fit(
            x, y, callbacks=lambda event: x.data.fill(np.nan)))
        self.assertIsInstance(error, ValueError)
        self.assertRegex(str(error), "values changed while a model was trained")

    def test_from_another_thread(self):
        for parameters in SETTINGS[:2] + SETTINGS[-1:]:
            for name, change in CHANGES.items():
                with self.subTest(name, **parameters):
                    for repeat in range(4):
                        x, y = self.rows()
                        other = threading.Timer(0.004 * repeat, lambda: raised(lambda: change(x)))
                        other.start()
                        self.finite_or_refused(x, y, lambda m, x, y: m.fit(x, y), parameters)
                        other.join()
                    # Rows that keep changing, for a model that is there.
                    x, y = self.rows()
                    model = SoftmaxClassifier(method="implicit", epochs=1, n_jobs=2).fit(x, y)
                    other = threading.Timer(0.002, lambda: raised(lambda: change(x)))
                    other.start()
                    for _ in range(5):
                        error = raised(lambda: model.predict_topk(x, 2))
                        self.assertIsInstance(error, (ValueError, type(None)))
                    other.join()

    def test_rows_that_nobody_else_holds(self):
        x, y = self.rows()
        held = [x]
        del x
        model = SoftmaxClassifier(method="implicit", epochs=5, eval_every=1)
        model.fit(held[0], y, callbacks=lambda event: held.clear())
        self.assertTrue(np.isfinite(model.coef_).all())

    def test_dense_arrays(self):
        for change in (lambda x: x.fill(np.nan), lambda x: setattr(x, "shape", (x.size, 1)),
                       lambda x: raised(lambda: x.resize(3))):
            for dtype in (np.float32, np.float64):
                x, y = self.rows()
                x = x.toarray().astype(dtype)
                self.finite_or_refused(x, y, lambda m, x, y: m.fit(x, y, callbacks=lambda event: change(x) and None), {})


# Generated misuses.

def odd_values(random):
    """Values of wrong type or range, for any parameter."""
    return [-1, 0, 1, 2, 0.5, 1.5, -0.0, float("nan"), float("inf"), 10**30, 2**63, -2**63, 1e-320, 1e300, "x", "", "auto",
            "on", "none", "a\0b", "\u00e9\n", "\ud800", b"a", True, False, None, [], {}, (1, 2), object(), object, 1j,
            np.array([1, 2]), np.float32(0.5), np.int8(3), np.nan, np.bool_(True), pd.NA, lambda: 1, X, "prox", "blocks",
            random.randn(), int(random.randint(-5, 5))]


def odd_rows(random):
    return [X, X, X, X[:, :4], X[:1], X[:0], X[:, :0], X[:, 0], X[None], with_value(np.nan), with_value(-np.inf),
            with_value(1e300, np.float64), with_value(3e38), sparse.csr_matrix(X), sparse.csc_matrix(X),
            sparse.csr_matrix(with_value(np.nan)), sparse.csr_matrix((60, 5)), X.astype(object), X.astype(complex),
            X.astype(str), X.astype("S"), None, 3, "absent", pathlib.Path("absent"), [], [[]], [[1, 2], [3]], {}, {"a": 1},
            pd.DataFrame(X), pd.DataFrame({"a": ["x"] * 60}), pd.DataFrame(), np.zeros((60, 5), dtype="V4"), object(),
            np.ma.masked_array(X, X > 0), broken_sparse(random, X), X.tolist(), (x for x in X), np.array("a"), X[::-1],
            np.zeros((60, 5), "M8[s]"), random.randn(60, 5), random.randn(60, 5) * 1e30, X * 0, (X * 3).astype(np.int64)]


def odd_labels(random):
    return [Y, Y, Y, TEXTS, Y + 7, Y[:5], Y == 0, Y.astype(float), Y + 0.5, Y * np.nan, None, "abc", 3, [], [[]] * 60, [[0, 1]] * 60,
            [[0], [1, 2], []] * 20, [["a"], ["b", "c"], []] * 20, [[0], ["a"]] * 30, [{1}, {2}, {3}] * 20, ["a", 1, None] * 20,
            [None] * 60, [object()] * 60, np.eye(3)[Y], np.eye(9)[Y], broken_sparse(random, np.eye(3)[Y]), sparse.csr_matrix(np.eye(3)[Y]), np.c_[Y, Y], Y[:, None],
            Y.astype(complex), TEXTS.astype("S"), TEXTS.astype(object), pd.Series(TEXTS, dtype="category"), Y * 0,
            pd.Series([1, None, 2] * 20), pd.Series([1, None, 2] * 20, dtype="Int64"), np.arange(60), {1: 2}, X,
            ["x" * 70000, "y"] * 30, ["a\0", "b"] * 30, ["\ud800", "b"] * 30, [2**70, 1] * 30, np.zeros(60, [("a", int)]),
            pd.Series(pd.to_datetime(Y)), [np.nan, "a"] * 30, random.randint(0, 4, 60), random.randint(0, 2, 60).astype(bool)]


def odd_weights(random):
    return [None, None, None, np.ones(60), np.zeros(60), -np.ones(60), np.full(60, np.nan), np.ones(5), np.ones((60, 2)), 2.0,
            "a", ["a"] * 60, [None] * 60, np.full(60, 1e300), np.full(60, 1e-300), random.rand(60), (Y == 0) * 1.0, object(),
            Y == 1, np.r_[np.inf, np.ones(59)], np.ones(60) * 1j]


def broken_sparse(random, of):
    """A sparse matrix whose arrays do not belong together."""
    x = sparse.csr_matrix(of).asformat(("csr", "csr", "csc", "coo", "bsr")[random.randint(5)])
    names = ("data", "row", "col") if x.format == "coo" else ("data", "indices", "indptr")
    name = names[random.randint(3)]
    array = getattr(x, name).copy()
    if random.randint(2):
        array[random.randint(len(array))] = (-1, 7, 2**30)[random.randint(3)]
    else:
        array = array[:random.randint(len(array))]
    setattr(x, name, array)
    return x


class Misuse:
    """One random misuse of the public interface; the seed decides everything."""

    def __init__(self, seed, folder):
        self.random = np.random.RandomState(seed)
        self.folder = folder

    def any(self, values):
        return values[self.random.randint(len(values))]

    def estimator(self):
        names = list(inspect.signature(SoftmaxClassifier).parameters)
        parameters = {self.any(names): self.any(odd_values(self.random)) for _ in range(self.random.randint(3))}
        base = {"method": "implicit", "epochs": 1, "n_jobs": 1}
        if self.random.randint(8) == 0:
            base = {"early_stopping": True, "steps": 50, "n_jobs": 1}
        elif self.random.randint(8) == 0:
            base = {"hidden": 3, "steps": 5, "step": 0.1, "ridge": 0, "n_jobs": 1}
        limit = {"steps": 20} if parameters.get("epochs", 1) != 1 and "epochs" in base else {}
        parameters.pop("verbose", None)
        return SoftmaxClassifier(**{**base, **limit, **parameters})

    def fitted(self):
        """A good one with odd parameters set afterwards, sometimes."""
        model = quick(step=float(10.0 ** self.random.randint(-3, 3))).fit(X, self.any([Y, TEXTS, [[0, 1], [2]] * 30]))
        if self.random.randint(3) == 0:
            name = self.any(["n_jobs", "memory_limit", "random_state", "warm_start", "class_weight", "early_stopping", "step"])
            model.set_params(**{name: self.any(odd_values(self.random))})
        return model

    def run(self):
        kind = self.random.randint(10)
        if kind < 3:
            self.fit(self.estimator())
        elif kind < 4:
            model = self.fitted()
            model.set_params(warm_start=self.any([True, False]))
            self.fit(model)
        elif kind < 8:
            self.use(self.fitted())
        elif kind < 9:
            self.use(self.estimator())
        else:
            self.files(self.fitted())

    def fit(self, model):
        x, y, weight = (self.any(f(self.random)) for f in (odd_rows, odd_labels, odd_weights))
        if self.random.randint(2):
            x, y = self.any([(x, Y), (X, y)])
        more = {}
        if self.random.randint(4) == 0:
            more["eval_set"] = self.any([(x, y), (X, Y), 3, (), (X,), [(X, Y)], (None, None), "ab", (X[:0], Y[:0])])
        if self.random.randint(4) == 0:
            more["callbacks"] = self.any([5, [], [5], lambda e: 1, lambda: 1, lambda e: None, print_nothing, "a",
                                          [lambda e: 0] * 3, lambda e: model.set_params(n_jobs=2) and None])
        if self.random.randint(2):
            model.fit(x, y, weight, **more)
        else:
            model.partial_fit(x, y, classes=self.any([None, None, Y, TEXTS, [0, 1, 2, 9], [], "ab", 3, [None], [np.nan, 1]]),
                              sample_weight=weight)
        self.check(model)

    def use(self, model):
        for _ in range(3):
            name = self.any(["predict", "predict_proba", "predict_log_proba", "decision_function", "predict_topk", "evaluate",
                             "log_loss", "score", "coef_", "intercept_", "embedding_", "to_logistic_regression", "set_params",
                             "pickle", "clone", "copy", "get_params", "repr"])
            self.tried(lambda: self.call(model, name))

    def call(self, model, name):
        x, y, weight = (self.any(f(self.random)) for f in (odd_rows, odd_labels, odd_weights))
        if name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            found = getattr(model, name)(x)
            if name == "predict_proba":
                require_finite(found)
        elif name == "predict_topk":
            model.predict_topk(x, self.any(odd_values(self.random)))
        elif name in ("evaluate", "log_loss", "score"):
            found = getattr(model, name)(self.any([x, X]), y, weight)
            assert name == "evaluate" or np.isfinite(found)
        elif name in ("coef_", "intercept_", "embedding_"):
            assert np.isfinite(getattr(model, name)).all()
        elif name == "to_logistic_regression":
            require_finite(model.to_logistic_regression().predict_proba(X))
        elif name == "set_params":
            model.set_params(**{self.any(["step", "foo", "model_", "n_jobs", "", "step__x"]): self.any(odd_values(self.random))})
        elif name == "pickle":
            content = bytearray(pickle.dumps(model))
            self.check(pickle.loads(bytes(content)))
        else:
            {"clone": clone, "copy": copy.deepcopy, "get_params": lambda m: m.get_params(), "repr": repr}[name](model)

    def files(self, model):
        path = os.path.join(self.folder, "model")
        odd = [path, pathlib.Path(path), "", self.folder, os.path.join(self.folder, "no", "m"), 5, None, b"", ["a"], "a\0b",
               object(), "\ud800", os.fsencode(path)]
        self.tried(lambda: model.save(self.any(odd)))
        self.tried(lambda: truemax.load(self.any(odd)))
        model.save(path)
        content = bytearray(pathlib.Path(path).read_bytes())
        for _ in range(self.random.randint(4)):
            content[self.random.randint(len(content))] = self.random.randint(256)
        if self.random.randint(2):
            del content[self.random.randint(len(content)):]
        pathlib.Path(path).write_bytes(content)
        loaded = truemax.load(path)
        loaded.predict_topk(X, 1)
        loaded.predict(path)

    def tried(self, action):
        try:
            action()
        except ALLOWED as error:
            require_known(error)

    def check(self, model):
        if hasattr(model, "model_"):
            model.set_params(n_jobs=1)
            if model.n_features_in_ == 5:
                require_finite(model.predict_proba(X))


def print_nothing(event):
    event.clear()


def require_known(error):
    if isinstance(error, truemax.TruemaxError) or type(error).__name__ == "ArgumentError":
        raise AssertionError(f"{type(error).__name__} gets out: {error}") from error
    if " --" in str(error) or "truemax help" in str(error):
        raise AssertionError(f"a message speaks of the command line: {error}") from error


def misuse(seed):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            Misuse(seed, folder).run()
            return "success"
        except ALLOWED as error:
            require_known(error)
            return type(error).__name__


def child(first, last):
    """Prints each seed before it runs, so that the parent knows the one that ended the interpreter."""
    faulthandler.enable()
    for seed in range(first, last):
        print(seed, end=" ", flush=True)
        print(misuse(seed), flush=True)


class Generated(unittest.TestCase):
    def test_misuse_never_ends_the_interpreter(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([sys.executable, os.path.abspath(__file__), "--seeds", "0", str(MISUSES)], cwd=folder,
                                 capture_output=True, text=True, timeout=600)
            left = os.listdir(folder)
        lines = run.stdout.splitlines()
        last = lines[-1].split()[0] if lines else "0"
        self.assertEqual(run.returncode, 0, f"python3 tests/test_python_misuse.py --seed {last}\n{run.stderr[-4000:]}")
        results = [line.split()[1] for line in lines]
        self.assertEqual(len(results), MISUSES)
        self.assertGreater(results.count("ValueError"), MISUSES // 5)
        self.assertGreater(results.count("success"), MISUSES // 10, "some of it must be right to get past the first checks")
        self.assertEqual(left, [], "files were left")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--seed"]:
        faulthandler.enable()
        print(misuse(int(sys.argv[2])))
    elif sys.argv[1:2] == ["--seeds"]:
        child(int(sys.argv[2]), int(sys.argv[3]))
    else:
        unittest.main()
