#!/usr/bin/python3
"""--ridge means the same for any --rows-per-step: every method that takes several rows converges to the minimum of

    sum over rows of w_i loss_i(W) + mu/2 |W|^2

whether or not the last step of an epoch is short, with row weights and without. A step has all classes (--draw all), so
that each method has one loss, written out here, without sampling noise. Newton's method finds the minimum; for softmax it
must agree with scikit-learn (C = 1/mu, sample_weight), if that is installed.
"""
import os
import sys
import unittest

import numpy as np

from model_reader import read_model
from support import ProgramTest

ROWS, CLASSES, FEATURES, RIDGE = 300, 5, 3, 5.0
STEP_SIZES = (1, 50, 70, 299, 300)
# These runs have one thread, and the thread sanitizer slows them down 20 times: one step size is enough for it.
if "thread" in os.environ.get("TRUEMAX_SANITIZE", ""):
    STEP_SIZES = (70,)


def make_rows():
    """Points around five centres, a fifth of them with a wrong label."""
    random = np.random.default_rng(4)
    i = np.arange(ROWS)
    angle = 2 * np.pi * (i % CLASSES) / CLASSES
    x = np.stack([np.cos(angle), np.sin(angle), np.ones(ROWS)], 1)
    x[:, :2] += 0.4 * random.standard_normal((ROWS, 2))
    y = np.where(i % 5 == 0, i + i // 5, i) % CLASSES
    # Weights correlated with the label: the ridge of a class must not depend on them.
    weight = np.where(y == 0, 3.0, np.where(y == 1, 0.5, 1.0)) * np.where(i % 3 == 0, 1.25, 0.875)
    return x.astype(np.float32).astype(float), y, weight / weight.mean()


# ---- the losses of one row as functions of its scores: (loss [N], gradient in the scores [N][K]) ----
def softmax(z, y):
    at = np.arange(len(y))
    shifted = z - z.max(1, keepdims=True)
    p = np.exp(shifted) / np.exp(shifted).sum(1, keepdims=True)
    loss = np.log(np.exp(shifted).sum(1)) - shifted[at, y]
    p[at, y] -= 1
    return loss, p


def logistic(t):
    return 1 / (1 + np.exp(-t))


def one_vs_each(z, y):
    at = np.arange(len(y))
    gap = z - z[at, y][:, None]
    pull = logistic(gap)
    pull[at, y] = 0
    loss = np.logaddexp(0, gap).sum(1) - np.log(2)  # the label's own term
    pull[at, y] = -pull.sum(1)
    return loss, pull


def noise_contrast(z, y):
    """Every class is drawn once, so there is no correction by log q."""
    at = np.arange(len(y))
    sign = np.ones_like(z)
    sign[at, y] = -1
    return np.logaddexp(0, sign * z).sum(1), sign * logistic(sign * z)


def softplus_bound(z, y):
    """Minimum over u of u + log(1 + exp(-u)) + sum over the others of log(1 + exp(z_k - z_y - u))."""
    at = np.arange(len(y))
    gap = z - z[at, y][:, None]  # 0 for the label: the first logarithm
    low, high = np.full(len(y), -50.0), np.full(len(y), 50.0)
    for _ in range(100):
        u = (low + high) / 2
        falls = logistic(gap - u[:, None]).sum(1) > 1
        low, high = np.where(falls, u, low), np.where(falls, high, u)
    u = (low + high) / 2
    pull = logistic(gap - u[:, None])
    loss = u + np.logaddexp(0, gap - u[:, None]).sum(1)
    pull[at, y] = 0
    pull[at, y] = -pull.sum(1)
    return loss, pull


class Optimum:
    def __init__(self, loss, x, y, weight):
        self.loss, self.x, self.y, self.weight = loss, x, y, weight

    def value(self, w, mu):
        return self.weight @ self.loss(self.x @ w.T, self.y)[0] + mu / 2 * (w * w).sum()

    def gradient(self, w, mu):
        return (self.weight[:, None] * self.loss(self.x @ w.T, self.y)[1]).T @ self.x + mu * w

    def find(self, mu):
        """Newton's method; the Hessian by differences of the gradient. The objective is strongly convex."""
        w, shape = np.zeros(CLASSES * FEATURES), (CLASSES, FEATURES)
        gradient = lambda v: self.gradient(v.reshape(shape), mu).ravel()
        for _ in range(100):
            g = gradient(w)
            if np.linalg.norm(g) < 1e-7:
                return w.reshape(shape)
            h = np.stack([(gradient(w + 1e-5 * e) - gradient(w - 1e-5 * e)) / 2e-5 for e in np.eye(len(w))], 1)
            move, part = np.linalg.solve(h, g), 1.0
            while self.value((w - part * move).reshape(shape), mu) > self.value(w.reshape(shape), mu) + 1e-12:
                part /= 2
            w = w - part * move
        raise AssertionError("the oracle did not converge")

    def ridge_of(self, w):
        """The ridge that fits the gradient of the losses at w best."""
        return -(self.gradient(w, 0) * w).sum() / (w * w).sum()


# What a method minimises if every step has all classes; other methods do not take several rows.
LOSS = {"implicit": softmax, "scent": softmax, "umax": softmax, "vanilla": softmax, "raman": softmax,
        "composition": softmax, "sox": softmax, "importance": softmax, "exact": softmax,
        "adam": softmax,
        "lbfgs": softmax,
        "ove": one_vs_each, "nce": noise_contrast, "softplus": softplus_bound}


class RidgeAndRows(ProgramTest):
    def setUp(self):
        super().setUp()
        self.x, self.y, self.weight = make_rows()
        self.write("train.txt", "".join(
            f"{label} " + " ".join(f"{f + 1}:{value!r}" for f, value in enumerate(row)) + "\n"
            for label, row in zip(self.y, self.x.tolist())))
        self.write("weights.txt", "".join(f"{w!r}\n" for w in self.weight.tolist()))

    def train(self, method, n, weighted):
        epochs, step, fall = self.schedule(method, n)
        self.fine("train", "train.txt", "--method", method, "--draw", "all", "--ridge", RIDGE, "--rows-per-step", n,
                  "--normalize", "none", "--visit", "shuffle", "--epochs", epochs, "--step", step,
                  "--decay", fall ** (1 / epochs), *(("--running-rate", 1) if method == "composition" else ()),
                  "--eval-every", 0, "--threads", 1, "--model", "m.safetensors",
                  *(("--row-weights", "weights.txt") if weighted else ()))
        about, tensors = read_model(self.path("m.safetensors"))
        order = np.argsort([int(name) for name in about["classes"]])
        return tensors["weight"][order].astype(float)

    @staticmethod
    def schedule(method, n):
        """Epochs, the first step and its decrease, so that both noise and distance to the optimum are small. With one or
        two steps per epoch there is little noise but slow progress: u of a row moves by the step over n."""
        many = n >= 100
        fall = 0.05 if many else 0.001
        if method == "implicit":
            return {1: 1000, 50: 300, 70: 300}.get(n, 80), 3 * n, 0.001  # stable at any step
        if method == "vanilla":
            return (9000, 1, fall) if many else (4500, 0.01 * n, 0.01)  # larger steps diverge
        if method == "raman":
            return 3000, min(0.01 * n, 2), max(fall, 0.01)
        if method == "composition":  # the ridge on its smoothed weights is small compared with their rate
            return 3000, min(0.01 * n, 0.3), 0.05
        if method == "adam":  # its step is that of a score
            return 600, 0.1, 0.001
        if method in ("umax", "softplus"):
            return 4000, min(0.3 * n, 6), fall
        return (1000, 4, fall) if many else (400, 1, fall)

    def weights(self, weighted):
        return self.weight if weighted else np.ones(ROWS)

    def test_every_method_reaches_its_optimum_for_any_rows_per_step(self):
        table = self.fine("methods").stdout.split("\n\n")[0].splitlines()[2:]
        several = {line.split()[0] for line in table if line.split()[2] != "1"}
        self.assertEqual(several, set(LOSS), "a method has no loss here")
        for weighted in (False, True):
            optimum = {loss: Optimum(loss, self.x, self.y, self.weights(weighted)) for loss in set(LOSS.values())}
            best = {loss: of.find(RIDGE) for loss, of in optimum.items()}
            for method, loss in LOSS.items():
                for n in STEP_SIZES:
                    with self.subTest(method=method, n=n, weighted=weighted):
                        w = self.train(method, n, weighted)
                        ridge = optimum[loss].ridge_of(w)
                        off = np.abs(w - best[loss]).max() / np.abs(best[loss]).max()
                        print(f"{method} n = {n} weighted {weighted}: ridge {ridge:.3f}, off {off:.4f}", flush=True)
                        self.assertAlmostEqual(ridge, RIDGE, delta=0.02 * RIDGE)
                        self.assertLess(off, 0.01)

    def test_oracle_agrees_with_scikit_learn(self):
        try:
            from sklearn.linear_model import LogisticRegression
        except ImportError:
            print("skipped: scikit-learn is not installed; its optimum is not compared", file=sys.stderr, flush=True)
            self.skipTest("scikit-learn is not installed")
        for weighted in (False, True):
            fit = LogisticRegression(C=1 / RIDGE, fit_intercept=False, solver="newton-cg", tol=1e-10, max_iter=1000)
            fit.fit(self.x, self.y, sample_weight=self.weights(weighted))
            ours = Optimum(softmax, self.x, self.y, self.weights(weighted)).find(RIDGE)
            self.assertEqual(fit.coef_.shape, ours.shape)
            self.assertLess(np.abs(fit.coef_ - ours).max(), 1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
