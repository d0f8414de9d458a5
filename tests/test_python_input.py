"""Input of the Python package: what is bad raises what scikit-learn raises, what is unusual gives a finite model."""
import os
import pathlib
import tempfile
import unittest
import warnings

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression

from python_support import RANDOM, TEXTS, X, Y, quick, raised, require_finite, with_value

import truemax
from truemax import DivergenceError, SoftmaxClassifier

METHODS = ("auto", "implicit", "prox", "scent", "umax", "vanilla", "raman", "composition", "sox", "ove", "nce",
           "importance", "softplus", "exact", "adam", "lbfgs", "bsgd")


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

    def test_rows_that_learnt_features_cannot_hold(self):
        learnt = {"method": "scent", "hidden": 4, "step": 0.5, "ridge": 0, "epochs": 20, "rows_per_step": 10}
        model = quick(**learnt).fit(X, Y)
        far = X.copy()
        far[3] = 3e38 * np.sign(model.embedding_[:, 0])
        for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            with self.subTest(name), self.assertRaisesRegex(ValueError, "^row 4.* leave float32"):
                getattr(model, name)(far)
        with self.assertRaisesRegex(ValueError, "^row 4.* leave float32"):
            model.predict_topk(far, 2)
        with self.assertRaisesRegex(ValueError, "^row 4.* leave float32"):
            model.evaluate(far, Y)
        with self.assertRaisesRegex(ValueError, "the validation rows: row 4 .* add up to 1.5e[+]39"):
            quick(**learnt).fit(X, Y, eval_set=(far, Y))
        linear = quick().fit(X, Y)
        self.assertTrue(np.isfinite(linear.predict_proba(far)).all())

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
        self.refused("a number", TypeError, "callbacks has 5", lambda: quick().fit(X, Y, callbacks=5))
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
            model = self.fine("rows of zeros", x, Y, SoftmaxClassifier())
            np.testing.assert_allclose(model.predict_proba(x[:1])[0], np.bincount(Y) / 60, atol=1e-4)
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


class Unsolved(unittest.TestCase):
    def test_a_fit_that_newton_does_not_finish_warns(self):
        with self.assertWarnsRegex(UserWarning, "not reached the optimum in 1 step; give more newton"):
            SoftmaxClassifier(method="prox", epochs=0, newton=1, ridge=0.01).fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            SoftmaxClassifier(method="prox", epochs=0, newton=100, ridge=0.01).fit(X, Y)


if __name__ == "__main__":
    unittest.main()
