#!/usr/bin/python3
"""Tables that compare methods on the real data sets (TRUEMAX_DATA), through the command line:

  alpha      U-max with the double sums alpha = 0, 0.5 and 1, each at its best step of 10^-3 ... 10^1
  implicit   Implicit SGD with 1 x 1, 1 x 5, 1 x 16 and 20 x 5 rows and classes per step: log-loss and training time
  ridge      exact SGD run to convergence with ridge 0.1, and scikit-learn's L-BFGS (C = 10) on the same objective

usage: bench/method_tables.py [alpha] [implicit] [ridge]     (all three without an argument)
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

import reference_implicit

ROOT = reference_implicit.ROOT
DATA = os.environ.get("TRUEMAX_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data"))
PROGRAM = os.environ.get("TRUEMAX", os.path.join(ROOT, "build/release/truemax"))


def data_file(name):
    path = os.path.join(DATA, name, "train.txt.gz")
    if not os.path.exists(path):
        sys.exit(f"no {name} at {path}; set TRUEMAX_DATA to the folder of the data sets")
    return path


def train(name, *arguments):
    """The last evaluation of a run, or None if it diverged; and the model's weights."""
    with tempfile.TemporaryDirectory(prefix="truemax-tables-") as folder:
        log, model = os.path.join(folder, "run.jsonl"), os.path.join(folder, "m.safetensors")
        command = [PROGRAM, "train", data_file(name), "--normalize", "l2", "--max-features", "10000", "--threads", "1",
                   "--eval-every", "0", "--quiet", "--model", model, "--log", log, *map(str, arguments)]
        code = subprocess.run(command, capture_output=True, text=True)
        if code.returncode == 3:
            return None, None
        if code.returncode != 0:
            sys.exit(code.stderr)
        with open(log) as lines:
            last = [event for event in map(json.loads, lines) if event["event"] == "evaluate"][-1]
        with open(model, "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            about = json.loads(file.read(size))["weight"]
            weights = np.frombuffer(file.read(about["data_offsets"][1]), np.float32, about["shape"][0] * about["shape"][1])
        return last, weights.astype(np.float64)


def table_of_alpha():
    print("\nU-max, 1 row x 5 classes, 50 epochs, train log-loss by step; * marks the best")
    steps = [10.0**power for power in range(-3, 2)]
    print(f"{'data':<10} {'alpha':>5} " + " ".join(f"{step:>10g}" for step in steps))
    for name in ("bibtex", "delicious"):
        for alpha in (0, 0.5, 1):
            losses = []
            for step in steps:
                last, _ = train(name, "--method", "umax", "--classes-per-step", 5, "--epochs", 50, "--step", step,
                                "--double-sum-alpha", alpha)
                losses.append(last["train"]["log_loss"] if last else float("inf"))
            best = min(losses)
            cells = [f"{loss:.4f}{'*' if loss == best else ' '}" if loss < 1e6 else "diverged " for loss in losses]
            print(f"{name:<10} {alpha:>5} " + " ".join(f"{cell:>10}" for cell in cells), flush=True)


def table_of_implicit():
    print("\nImplicit SGD on bibtex, 50 epochs: train log-loss by step, and seconds of training (one core)")
    steps = [10.0**power for power in range(-3, 4)]
    print(f"{'n x m':<7} " + " ".join(f"{step:>9g}" for step in steps) + f" {'seconds':>8}")
    for n, m in ((1, 1), (1, 5), (1, 16), (20, 5)):
        runs = [train("bibtex", "--method", "implicit", "--rows-per-step", n, "--classes-per-step", m, "--epochs", 50,
                      "--step", step)[0] for step in steps]
        seconds = sorted(run["train_seconds"] for run in runs)[len(runs) // 2]
        print(f"{n} x {m:<3} " + " ".join(f"{run['train']['log_loss']:>9.4f}" for run in runs) + f" {seconds:>8.2f}",
              flush=True)
    print("\nThe same, train log-loss against time: step 10, after so many epochs (seconds)")
    for n, m in ((1, 1), (1, 5), (1, 16), (20, 5)):
        cells = []
        for epochs in (5, 10, 20, 50):
            run = train("bibtex", "--method", "implicit", "--rows-per-step", n, "--classes-per-step", m, "--epochs", epochs,
                        "--step", 10 * (n if n > 1 else 1))[0]
            cells.append(f"{epochs}: {run['train']['log_loss']:.4f} ({run['train_seconds']:.2f} s)")
        print(f"{n} x {m:<3} " + "   ".join(cells), flush=True)


def table_of_ridge():
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression
    ridge = 0.1
    problem = reference_implicit.Problem(data_file("bibtex"))
    y = problem.y
    begin = np.cumsum([0] + [len(row) for row in problem.numbers])
    x = sparse.csr_matrix((np.concatenate(problem.values), np.concatenate(problem.numbers), begin), (problem.N, problem.D))
    peer = LogisticRegression(C=1 / ridge, fit_intercept=False, solver="lbfgs", max_iter=5000, tol=1e-6)
    peer.fit(x, y)
    score = x @ peer.coef_.T
    highest = score.max(axis=1)
    loss = np.mean(np.log(np.exp(score - highest[:, None]).sum(axis=1)) + highest - score[np.arange(len(y)), y])
    wanted = len(y) * loss + ridge / 2 * np.sum(peer.coef_**2)
    last, weights = train("bibtex", "--method", "exact", "--ridge", ridge, "--step", 3, "--decay", 0.985,
                          "--epochs", 500, "--visit", "shuffle")
    got = len(y) * last["train"]["log_loss"] + ridge / 2 * np.sum(weights**2)
    print(f"\nRidge {ridge} on bibtex: sum of losses + mu/2 |W|^2\n"
          f"{'':<22} {'train log-loss':>14} {'objective':>12}\n"
          f"{'scikit-learn L-BFGS':<22} {loss:>14.5f} {wanted:>12.3f}\n"
          f"{'truemax exact':<22} {last['train']['log_loss']:>14.5f} {got:>12.3f}\n"
          f"difference of the objectives: {100 * (got / wanted - 1):+.4f}%")
    return abs(got / wanted - 1) < 1e-3


def main():
    tables = {"alpha": table_of_alpha, "implicit": table_of_implicit, "ridge": table_of_ridge}
    chosen = sys.argv[1:] or list(tables)
    for name in chosen:
        if name not in tables:
            sys.exit(__doc__)
    return 0 if all(tables[name]() in (None, True) for name in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
