"""Misuse of the Python package never ends the interpreter: arrays that change during a fit, and generated misuses.

    tests/test_python_misuse.py              all tests
    tests/test_python_misuse.py --seed 17    one generated misuse

Bad input by name: test_python_input.py.
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

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import clone

from python_support import TEXTS, X, Y, quick, raised, require_finite, with_value

import truemax
from truemax import DivergenceError, SoftmaxClassifier

MISUSES = 1000
ALLOWED = (TypeError, ValueError, AttributeError, MemoryError, OverflowError, OSError, DivergenceError)


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
