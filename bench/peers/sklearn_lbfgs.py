"""scikit-learn's LogisticRegression, multinomial, L-BFGS. C = 10^6 without intercept for the training likelihood;
smaller C with intercept for test rows. Rows are sparse or dense, whichever makes the product with the weights faster;
SAGA's steps gain nothing from dense rows."""
import warnings

import numpy as np

from losses import linear
from peers.rows import faster_rows

WHAT = "scikit-learn lbfgs"
MATRICES = "numpy"
TRY_BELOW = 1e7  # weights
SOLVER, DTYPE = "lbfgs", np.float64


def needs():
    try:
        import sklearn.linear_model  # noqa: F401
    except ImportError:
        return "python3-sklearn"
    return ""


def runs(name):
    if name == "yso-finna-en":
        return [{"C": 1e6, "max_iter": 5}]
    return [{"C": 1e6, "max_iter": 20}, {"C": 10, "max_iter": 100, "intercept": True}, {"C": 1e6, "max_iter": 80},
            {"C": 1, "max_iter": 100, "intercept": True}, {"C": 1e6, "max_iter": 320}]


def fit(problem, settings, marks):
    from sklearn.linear_model import LogisticRegression
    warnings.filterwarnings("ignore")  # fits that stop at max_iter warn
    model = LogisticRegression(C=settings["C"], multi_class="multinomial", solver=SOLVER, tol=1e-9,
                               fit_intercept=settings.get("intercept", False), max_iter=settings["max_iter"])
    x, y, form = problem.train_x.astype(DTYPE), problem.train_y, None
    if SOLVER == "lbfgs" and problem.D * problem.K <= TRY_BELOW:
        weights = np.ones((problem.D, problem.K))
        x, form = faster_rows(problem, DTYPE, lambda x: lambda: x.T @ (x @ weights))
    marks.begin()
    model.fit(x, y)
    marks.stop()
    weights = np.ascontiguousarray(model.coef_.T.astype(np.float32))
    marks.point(linear(weights, model.intercept_.astype(np.float32)) if settings.get("intercept") else linear(weights),
                note=form)
