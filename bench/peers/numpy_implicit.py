"""Implicit SGD in NumPy, as fast as NumPy allows (reference_implicit.train), with the paper's decay."""
import numpy as np

import reference_implicit
from losses import linear

WHAT = "NumPy Implicit SGD"
MATRICES = "numpy"


def needs():
    return ""


def runs(name):
    return {"bibtex": [{"step": 10, "epochs": 3}, {"step": 10, "epochs": 20}],
            "delicious": [{"step": 0.01, "epochs": 2}, {"step": 0.01, "epochs": 8}],
            "mnist": [{"step": 1, "epochs": 1}, {"step": 1, "epochs": 2}],
            "yso-finna-en": [{"step": 100, "epochs": 4}]}[name]


class Rows:
    """A problem in the form that reference_implicit takes."""

    def __init__(self, problem):
        x = problem.train_x
        self.N, self.K, self.D, self.y = problem.N, problem.K, problem.D, problem.train_y
        cut = x.indptr[1:-1]
        self.numbers = np.split(x.indices.astype(np.intp), cut)
        self.values = np.split(x.data.astype(float), cut)


def fit(problem, settings, marks):
    rows = Rows(problem)
    marks.begin()
    weights, _, _ = reference_implicit.train(rows, float(settings["step"]), 0.9, settings["epochs"], 1)
    marks.stop()
    marks.point(linear(np.ascontiguousarray(weights.T.astype(np.float32))))
