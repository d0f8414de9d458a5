"""Table 4: the time of 50 epochs of Implicit SGD (1 x 1) and of vanilla SGD (1 x 5, 1 x 1), in truemax and in NumPy.

All are timed on some steps and scaled to 50 epochs: the methods in turn, nothing else running, the best of the
repeats. The NumPy versions are those of the paper's setting: Algorithm 1 with Brent's method
(bench/reference_implicit.py) and the gradient steps of the double sum, rows and classes gathered by index.
"""
import json
import math
import os
import subprocess
import sys
import time
import types

import numpy as np

from . import measure, protocol, registry
from .files import BENCH, file_hash

sys.path.insert(0, BENCH)
import reference_implicit  # noqa: E402

STEPS, NUMPY_STEPS, REPEATS = 400_000, 20_000, 3
METHODS = {"implicit": protocol.BY_NAME["implicit"], "vanilla": protocol.BY_NAME["vanilla"],
           "vanilla-1": protocol.Method("vanilla-1", "Vanilla 1x1", "vanilla", 1, 1)}
STEP = 1e-7  # vanilla does not overflow at this step; the time does not depend on the step size


def truemax_seconds(program, found, method, steps, folder):
    log = os.path.join(folder, "timing.jsonl")
    judged = ["--test", found.test, "--no-eval-train"] if found.test else []
    command = [program, "train", found.train, *registry.cut(found),
               *protocol.arguments(METHODS[method], protocol.WRITTEN, STEP, 1), "--steps", str(steps),
               "--eval-every", "0", "--threads", "1", "--model", "none", "--log", log, "--quiet", *judged]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(log, encoding="utf-8") as file:
        end = [json.loads(line) for line in file][-1]
    os.unlink(log)
    return end["train_seconds"] / end["steps"]


def problem_of(found):
    """As reference_implicit.Problem, with at most as many rows as steps."""
    limits = (registry.MAX_FEATURES, registry.MAX_ROWS) if found.set.cut_features else (1 << 60,)
    rows, labels = measure.read_rows(found.train, *limits)
    names = {name: k for k, name in enumerate(sorted(set(labels)))}
    rows = rows[:NUMPY_STEPS]
    pieces = [(rows.indices[a:b].astype(np.intp), rows.data[a:b]) for a, b in zip(rows.indptr, rows.indptr[1:])]
    return types.SimpleNamespace(N=rows.shape[0], K=len(names), D=rows.shape[1],
                                 y=np.array([names[label] for label in labels[:NUMPY_STEPS]]),
                                 numbers=[piece[0] for piece in pieces], values=[piece[1] for piece in pieces])


def numpy_vanilla(problem, step, epochs, seed, m=5):
    """SGD on the double sum, one row and m classes per step. Returns the steps done and their seconds."""
    random = np.random.default_rng(seed)
    W, u = np.full((problem.K, problem.D), 0.0), np.zeros(problem.N)  # full: touched before the clock starts
    weight = (problem.K - 1) / m
    done, begin = 0, time.perf_counter()
    for epoch in range(epochs):
        eta_N = step * protocol.DECAY**epoch
        for i in random.integers(0, problem.N, problem.N):
            number, x, y = problem.numbers[i], problem.values[i], problem.y[i]
            k = random.integers(0, problem.K - 1, m)
            k += k >= y
            classes = np.append(k, y)
            at = W[classes[:, None], number]
            z = at @ x
            pull = weight * np.exp(z[:m] - z[m] - u[i])
            total = pull.sum()
            move = eta_N * np.append(-pull, total)
            W[classes[:, None], number] = at + move[:, None] * x
            u[i] = max(0.0, u[i] - eta_N * (1 - math.exp(-u[i]) - total))
            done += 1
    return done, time.perf_counter() - begin


def time_set(program, found, folder):
    rows = registry.shape(found, [found.train], os.path.join(os.path.dirname(folder), "data"))["rows"]
    whole = protocol.EPOCHS * rows
    steps = min(STEPS, whole)
    best = dict.fromkeys(METHODS, math.inf)
    for _ in range(REPEATS):
        for method in best:
            best[method] = min(best[method], truemax_seconds(program, found, method, steps, folder))
    problem = problem_of(found)
    epochs = max(1, -(-NUMPY_STEPS // problem.N))
    numpy = dict.fromkeys(METHODS, math.inf)
    for _ in range(REPEATS):
        _, done, seconds = reference_implicit.train(problem, 0.1, protocol.DECAY, epochs, 1)
        numpy["implicit"] = min(numpy["implicit"], seconds / done)
        for name in ("vanilla", "vanilla-1"):
            done, seconds = numpy_vanilla(problem, STEP, epochs, 1, METHODS[name].classes)
            numpy[name] = min(numpy[name], seconds / done)
    return {"rows": rows, "steps_timed": steps, "truemax": {name: value * whole for name, value in best.items()},
            "numpy": {name: value * whole for name, value in numpy.items()}}


def all_sets(program, founds, out):
    """{set: seconds of 50 epochs}; timings of the same program, data and code are reused."""
    folder = os.path.join(out, "timing")
    os.makedirs(folder, exist_ok=True)
    times = {}
    for found in founds:
        known_by = "-".join(file_hash(path)[:8] for path in (program, found.train, __file__,
                                                                  reference_implicit.__file__))
        path = os.path.join(folder, f"{found.name}-{known_by}.json")
        if not os.path.exists(path):
            print(f"  timing {found.title}", file=sys.stderr, flush=True)
            made = time_set(program, found, folder)
            with open(path + ".part", "w", encoding="utf-8") as file:
                json.dump(made, file)
            os.replace(path + ".part", path)
        with open(path, encoding="utf-8") as file:
            times[found.name] = json.load(file)
    return times
