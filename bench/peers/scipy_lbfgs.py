"""SciPy's L-BFGS on the softmax log-likelihood, written as matrix products: X @ W, a log-sum-exp, X.T @ (P - Y). Rows
are dense (BLAS) or CSR, whichever is faster. Products are in float32, which is twice as fast; sums of losses and L-BFGS
itself are in float64. `ridge`: adds mu/2 |W|^2 to the sum of the row losses, as in truemax. The curve of a fit has
points after 20, 40, 80, ... iterations and at its end."""
import numpy as np

from losses import linear
from peers.rows import faster_rows

WHAT = "SciPy L-BFGS, matrix products"
MATRICES = "numpy"
GROUP_BYTES = 64e6  # of scores at once
CORRECTIONS, FIRST_POINT = 10, 20
TRY_BELOW = 1e7  # weights: above, an evaluation takes a minute


def needs():
    try:
        import scipy.optimize  # noqa: F401
    except ImportError:
        return "python3-scipy"
    return ""


def runs(name):
    if name == "yso-finna-en":
        return [{"ridge": 0, "seconds": 120}]
    return [{"ridge": 0, "seconds": 8}, {"ridge": 1, "seconds": 3}, {"ridge": 0.1, "seconds": 3}]


def quick(settings, seconds):
    """Settings for a short run, to see that it works."""
    return {**settings, "seconds": seconds}


class Over(Exception):
    """The time is up."""


class Objective:
    """Mean loss and its gradient with respect to W [D, K]."""

    def __init__(self, x, y, classes, ridge, dtype):
        self.x, self.y, self.K, self.ridge = x, y, classes, ridge
        self.dense, self.dtype = isinstance(x, np.ndarray), dtype
        self.group = max(1, int(GROUP_BYTES / (np.dtype(dtype).itemsize * classes)))
        self.turned = None if self.dense else x.T.tocsr()
        if not self.dense and self.group < len(y):  # X.T of each group of rows, made once
            self.turned = [x[i:i + self.group].T.tocsr() for i in range(0, len(y), self.group)]

    def __call__(self, flat):
        n = len(self.y)
        w = flat.reshape(-1, self.K).astype(self.dtype)
        gradient, loss = np.zeros(w.shape, self.dtype), 0.0
        for number, begin in enumerate(range(0, n, self.group)):
            x, y = self.x[begin:begin + self.group], self.y[begin:begin + self.group]
            z = x @ w
            rows = np.arange(len(y))
            z -= z.max(axis=1, keepdims=True)
            of_label = z[rows, y].astype(float)
            np.exp(z, out=z)
            total = z.sum(axis=1, keepdims=True)
            loss += float(np.log(total.astype(float)).sum() - of_label.sum())
            z /= total
            z[rows, y] -= 1
            turned = x.T if self.dense else self.turned[number] if isinstance(self.turned, list) else self.turned
            gradient += turned @ z
        whole = gradient.astype(float).ravel() / n + self.ridge / n * flat
        return loss / n + 0.5 * self.ridge / n * float(flat @ flat), whole


def fit(problem, settings, marks):
    from scipy.optimize import minimize
    start = np.zeros(problem.D * problem.K)

    def objective_of(x):
        return Objective(x, problem.train_y, problem.K, settings["ridge"], np.float32)

    if problem.D * problem.K > TRY_BELOW:
        x, form = problem.train_x, "sparse rows, 1 thread"
    else:
        x, form = faster_rows(problem, np.float32, lambda x: lambda of=objective_of(x): of(start))
    objective = objective_of(x)
    marks.begin()
    # SciPy allocates this much after the first gradient: fail before wasting a minute on that.
    np.empty((2 * CORRECTIONS + 5) * len(start))
    done, next_point = 0, FIRST_POINT

    def point(w):
        marks.point(linear(w.reshape(problem.D, problem.K).astype(np.float32)), note=f"{done} iterations, {form}")

    def after(w):
        nonlocal done, next_point
        done += 1
        over = marks.running() >= settings["seconds"]
        if over or done >= next_point:
            point(w)
            next_point *= 2
            if over:
                raise Over
            marks.begin()

    try:
        end = minimize(objective, start, jac=True, method="L-BFGS-B", callback=after,
                       options={"maxiter": 10**6, "maxfun": 10**7, "maxcor": CORRECTIONS, "ftol": 0, "gtol": 0})
        point(end.x)  # no smaller value in float32
    except Over:
        pass
