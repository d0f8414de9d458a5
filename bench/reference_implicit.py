#!/usr/bin/python3
"""Algorithm 1 of the paper (Implicit SGD, one row and one class per step) in plain NumPy and SciPy.

The reference of `./dev bench`, in two versions: `train_line_by_line` is the pseudo-code as printed, `train` the same
step made as fast as NumPy allows, so that beating it means something. Both use the paper's bracket, Brent's method on
the gradient in u and the Lambert-W function P. No ridge, so gamma_i = 1 / (2 |x_i|^2).

    reference_implicit.py FILE [--step 10] [--decay 0.9] [--epochs 3] [--seed 1] [--seconds S] [--line-by-line]
        prints {"steps":.., "seconds":.., "steps_per_second":.., "log_loss":..}
    reference_implicit.py FILE --check [--program build/release/truemax]
        both give the same weights from the same draws; truemax reaches the same train log-loss

FILE is XMLRepository text, gzipped or not; first label only, rows of unit length, as in the paper.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
from scipy.optimize import brentq
from scipy.special import lambertw
from scipy.special import wrightomega as lambert_of_exp  # P(exp(t)) from t: exp(t) itself would overflow

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import model_reader  # noqa: E402


class Problem:
    """N rows as (numbers, values) arrays of unit length, labels y [N] in 0..K-1, K classes, D features."""

    def __init__(self, path):
        raw, self.D = model_reader.read_xmlrepository(path)
        rows, *_ = model_reader.prepare(raw, {"max-features": 0, "normalize": "l2"})
        classes = sorted({row.labels[0] for row in rows}, key=int)
        number = {name: k for k, name in enumerate(classes)}
        self.N, self.K = len(rows), len(classes)
        self.y = np.array([number[row.labels[0]] for row in rows])
        self.numbers = [np.array(list(row.features.keys()), dtype=np.intp) for row in rows]
        self.values = [np.array(list(row.features.values())) for row in rows]


def draw_epoch(problem, random):
    """N steps: rows uniformly with replacement, for each a class uniformly from those other than its label."""
    i = random.integers(0, problem.N, problem.N)
    k = random.integers(0, problem.K - 1, problem.N)
    return i, k + (k >= problem.y[i])


def train_line_by_line(problem, step, decay, epochs, seed, seconds=math.inf):
    """Algorithm 1 as printed. Returns W [K, D], the steps done and the seconds they took; stops after `seconds`."""
    N, K = problem.N, problem.K
    W, u = np.full((K, problem.D), 0.0), np.zeros(N)  # full: touched before the clock starts
    gamma = np.array([1 / (2 * (x @ x)) for x in problem.values])
    random = np.random.default_rng(seed)

    def P(z):
        return lambertw(z).real

    done, begin = 0, time.perf_counter()
    for epoch in range(epochs):
        eta_N = step * decay**epoch
        for i, k in zip(*draw_epoch(problem, random)):
            number, x, y = problem.numbers[i], problem.values[i], problem.y[i]
            z = x @ (W[k, number] - W[y, number])

            def g(v):  # half the paper's
                a = P(eta_N * (K - 1) / gamma[i] * np.exp(z - v))
                return eta_N - eta_N * np.exp(-v) + (v - u[i]) - gamma[i] * a

            slope = g(u[i])
            if slope < 0:
                low, high = u[i], u[i] + P(eta_N * np.exp(eta_N - u[i]) * (1 + (K - 1) * np.exp(z))) - eta_N
            else:
                low = u[i] + P(eta_N * np.exp(eta_N - u[i]) * (1 + (K - 1) * np.exp(z - eta_N / gamma[i]))) - eta_N
                high = u[i]
            try:
                u[i] = brentq(g, low, high)
            except ValueError:  # the bound is the root, give or take its last digit
                u[i] = high if slope < 0 else low
            move = gamma[i] * P(eta_N * (K - 1) / gamma[i] * np.exp(z - u[i])) * x
            W[k, number] -= move
            W[y, number] += move
            done += 1
            if done % 1024 == 0 and time.perf_counter() - begin > seconds:
                return W, done, time.perf_counter() - begin
    return W, done, time.perf_counter() - begin


def train(problem, step, decay, epochs, seed, seconds=math.inf):
    """A fast version: W by class, one gather for score and update, math instead of NumPy for scalars, and logarithms
    instead of large exponentials. Returns the same."""
    N, K = problem.N, problem.K
    W = [np.full(problem.D, 0.0) for _ in range(K)]
    u = [0.0] * N
    gamma = [1.0 / (2.0 * float(x @ x)) for x in problem.values]
    labels, numbers, values = problem.y.tolist(), problem.numbers, problem.values
    random = np.random.default_rng(seed)
    exp, log, log1p = math.exp, math.log, math.log1p
    done, begin = 0, time.perf_counter()
    for epoch in range(epochs):
        eta_N = step * decay**epoch
        log_eta_N = log(eta_N)
        for i, k in zip(*(drawn.tolist() for drawn in draw_epoch(problem, random))):
            number, x, g_i, u_i = numbers[i], values[i], gamma[i], u[i]
            w_k, w_y = W[k], W[labels[i]]
            at_k, at_y = w_k[number], w_y[number]
            # log((K-1) exp(x.(w_k - w_y))), used in everything below
            d = log(K - 1) + float(x.dot(at_k - at_y))
            t = log_eta_N - log(g_i) + d

            def gradient(v):  # half the paper's g(u)
                return eta_N - eta_N * exp(-v) + (v - u_i) - g_i * lambert_of_exp(t - v)

            g = gradient(u_i)
            if g != 0.0:
                shift = d if g < 0 else d - eta_N / g_i
                softplus = max(shift, 0.0) + log1p(exp(-abs(shift)))  # log(1 + exp(shift))
                bound = u_i + lambert_of_exp(log_eta_N + eta_N - u_i + softplus) - eta_N
                try:
                    u_i = brentq(gradient, u_i, bound) if g < 0 else brentq(gradient, bound, u_i)
                except ValueError:  # the bound is the root, give or take its last digit
                    u_i = bound
                u[i] = u_i
            move = g_i * lambert_of_exp(t - u_i) * x
            w_k[number] = at_k - move
            w_y[number] = at_y + move
            done += 1
            if done % 1024 == 0 and time.perf_counter() - begin > seconds:
                break
        else:
            continue
        break
    taken = time.perf_counter() - begin  # before W is copied, which is slow for large W
    return np.array(W), done, taken


def log_loss(problem, W):
    """Exact mean log-loss over the rows."""
    losses = []
    for number, x, y in zip(problem.numbers, problem.values, problem.y):
        z = W[:, number] @ x
        top = z.max()
        losses.append(top + math.log(np.exp(z - top).sum()) - z[y])
    return math.fsum(losses) / problem.N


def truemax_log_loss(program, path, step, decay, epochs, seed):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "run.jsonl")
        subprocess.run(
            [program, "train", path, "--method", "implicit", "--step", repr(step), "--decay", repr(decay),
             "--epochs", str(epochs), "--eval-every", str(epochs), "--normalize", "l2", "--seed", str(seed),
             "--threads", "1", "--model", "none", "--log", log],
            check=True, stdout=subprocess.DEVNULL)
        with open(log) as file:
            events = [json.loads(line) for line in file]
    return [e for e in events if e["event"] == "evaluate"][-1]["train"]["log_loss"]


def check(program, path, step=10.0, decay=0.9, epochs=30, ours=4, theirs=8):
    """The two versions here draw the same numbers and must give the same weights. truemax draws others, so mean losses
    over several seeds are compared: they may differ by 4 standard errors of the difference (two-sided t with 10
    degrees of freedom: a false alarm once in 400; the seeds are fixed, so a given build always gives the same
    answer)."""
    problem = Problem(path)
    apart = np.abs(train(problem, step, decay, 1, 1)[0] - train_line_by_line(problem, step, decay, 1, 1)[0]).max()
    a = [log_loss(problem, train(problem, step, decay, epochs, seed)[0]) for seed in range(1, ours + 1)]
    b = [truemax_log_loss(program, path, step, decay, epochs, seed) for seed in range(1, theirs + 1)]
    pooled = math.sqrt(((ours - 1) * statistics.variance(a) + (theirs - 1) * statistics.variance(b)) /
                       (ours + theirs - 2))
    allowed = 4.0 * pooled * math.sqrt(1.0 / ours + 1.0 / theirs)
    difference = statistics.mean(a) - statistics.mean(b)
    return {"reference": a, "truemax": b, "difference": difference, "allowed": allowed,
            "line_by_line_apart": apart, "ok": bool(abs(difference) <= allowed and apart < 1e-6)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--step", type=float, default=10.0, help="eta*N (default 10)")
    parser.add_argument("--decay", type=float, default=0.9)
    parser.add_argument("--epochs", type=int, help="default 3, with --check 30")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this long")
    parser.add_argument("--line-by-line", action="store_true", help="the pseudo-code as printed")
    parser.add_argument("--check", action="store_true", help="compare the losses with truemax's")
    parser.add_argument("--program", default=os.environ.get("TRUEMAX", os.path.join(ROOT, "build/release/truemax")))
    options = parser.parse_args()
    if options.check:
        result = check(options.program, options.file, options.step, options.decay, options.epochs or 30)
        print(json.dumps(result))
        return 0 if result["ok"] else 1
    problem = Problem(options.file)
    method = train_line_by_line if options.line_by_line else train
    W, steps, seconds = method(problem, options.step, options.decay, options.epochs or 3, options.seed, options.seconds)
    print(json.dumps({"steps": steps, "seconds": seconds, "steps_per_second": steps / seconds,
                      "log_loss": log_loss(problem, W)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
