#!/usr/bin/python3
"""A multinomial logit as an econometrician reads it: how people travel to work, by income, age and having a car, in a
generated survey with weights. With newton, SoftmaxClassifier ends at the maximum likelihood; standard errors come from the
Hessian there. --quick: fewer people.
"""
import os
import sys

import numpy as np
from scipy import stats

from truemax import SoftmaxClassifier

PEOPLE = 3_000 if "--quick" in sys.argv or os.environ.get("TRUEMAX_QUICK") == "1" else 20_000
MODES, NAMES = np.array(["bike", "bus", "car", "train"]), ["constant", "income", "age", "has car"]
TRUE = np.array([[1.0, -0.4, 0.1, -0.5], [-1.0, 0.6, 0.2, 2.0], [0.5, 0.3, 0.0, 0.3]])  # beside bike


def softmax(x, b):
    z = np.column_stack([np.zeros(len(x)), x @ b.T])
    return np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))


def derivatives(x, y, weight, b):
    """Log-likelihood, its gradient and minus its Hessian in the coefficients of all modes but the first."""
    p, (modes, d) = softmax(x, b), b.shape
    gradient = (weight[:, None] * (np.eye(modes + 1)[y] - p))[:, 1:].T @ x
    inner = weight[:, None, None] * (np.eye(modes) * p[:, 1:, None] - p[:, 1:, None] * p[:, None, 1:])
    hessian = np.einsum("nab,nc,nd->acbd", inner, x, x, optimize=True).reshape(modes * d, modes * d)
    return weight @ np.log(p[np.arange(len(y)), y]), gradient.ravel(), hessian


def maximum_likelihood(x, y, weight):
    model = SoftmaxClassifier(newton=50, ridge=0, fit_intercept=False).fit(x, MODES[y], sample_weight=weight)
    b = (model.coef_[1:] - model.coef_[:1]).astype(float)
    value, gradient, hessian = derivatives(x, y, weight, b)
    error = np.sqrt(np.diag(np.linalg.inv(hessian))).reshape(b.shape)
    distance = np.abs(np.linalg.solve(hessian, gradient).reshape(b.shape) / error).max()
    return b, error, value, distance


random = np.random.default_rng(1)
x = np.column_stack([np.ones(PEOPLE), random.normal(size=(PEOPLE, 2)), random.random(PEOPLE) < 0.6])
y = (np.log(softmax(x, TRUE)) + random.gumbel(size=(PEOPLE, len(MODES)))).argmax(axis=1)
weight = random.uniform(0.5, 1.5, PEOPLE)
b, error, full, distance = maximum_likelihood(x, y, weight)
print(f"{PEOPLE} people; the fit is {distance:.1e} standard errors from the maximum\n")
print("beside bike   " + "".join(f"{name:>23}" for name in NAMES) + "\n(standard error, true value)")
for mode, row, errors, true in zip(MODES[1:], b, error, TRUE):
    print(f"{mode:<14}" + "".join(f"{f'{c:.3f} ({e:.3f}, {t:.1f})':>23}" for c, e, t in zip(row, errors, true)))
constant, without_age = (maximum_likelihood(x[:, keep], y, weight)[2] for keep in ([0], [0, 1, 3]))
print(f"\nlog-likelihood {full:.1f}, with constants only {constant:.1f}: McFadden's R^2 {1 - full / constant:.3f}\n"
      f"likelihood ratio of age: {2 * (full - without_age):.1f}, p = {stats.chi2.sf(2 * (full - without_age), 3):.2g}")
p, richer = softmax(x, b), softmax(x + [0, 0.01, 0, 0], b)
for name, row in (("observed shares", weight @ np.eye(len(MODES))[y]), ("predicted shares", weight @ p),
                  ("effect of income", weight @ (richer - p) / 0.01)):
    print(f"{name:<18}" + "".join(f"{mode:>8} {value / weight.sum():6.3f}" for mode, value in zip(MODES, row)))
