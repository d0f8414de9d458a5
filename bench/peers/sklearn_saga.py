"""scikit-learn's LogisticRegression, multinomial, SAGA, in float32 (it takes both). The numbers of passes are given."""
import numpy as np

from peers import sklearn_lbfgs
from peers.sklearn_lbfgs import needs  # noqa: F401

WHAT = "scikit-learn saga"
MATRICES = "numpy"


def runs(name):
    if name == "yso-finna-en":
        return [{"C": 1e6, "max_iter": 1}]
    return [{"C": 1e6, "max_iter": 5}, {"C": 10, "max_iter": 20}, {"C": 1e6, "max_iter": 20},
            {"C": 1e6, "max_iter": 80}]


def fit(problem, settings, marks):
    sklearn_lbfgs.SOLVER, sklearn_lbfgs.DTYPE = "saga", np.float32
    sklearn_lbfgs.fit(problem, settings, marks)
