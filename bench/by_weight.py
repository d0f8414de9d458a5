#!/usr/bin/python3
"""Steps that differ by weight: CPU seconds of one core to the train log-loss of another program.

    python3 bench/by_weight.py [--data delicious,bibtex,mnist] [--seconds 6] [--program build/release/truemax]
    python3 bench/by_weight.py --peer scipy_lbfgs --data bibtex --seconds 12

`./dev bench` measures wall-clock time on all cores of a quiet machine. This measures the CPU time of one thread, which
other programs change little: PyTorch's Adam on dense rows with a rate that falls over its CPU seconds, or SciPy's
L-BFGS, and the least number of epochs from a ladder with which `truemax train --target train` gets to its log-loss, as
it is (adam, and lbfgs from 80 epochs on if rows are few) and with --rho 1, which keeps prox. Reading and evaluation, measured by a run of no epochs, are subtracted. Best of three runs.
"""
import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import sets
from harness import ROOT
from losses import log_loss
from tables import show

LADDER = (8, 10, 12, 15, 20, 25, 30, 40, 50, 65, 80, 90, 100, 115, 130, 160, 200)
NAMES = {"torch_dense_adam": "PyTorch's Adam", "scipy_lbfgs": "SciPy's L-BFGS"}
ROUNDS, MOST = 3, 2.0  # runs of a time; prox is given up at so many times the seconds of PyTorch


class CpuMarks:
    """The clock of a peer (peers/worker.py), in CPU seconds of this process."""

    def __init__(self, problem):
        self.problem, self.started, self.seconds = problem, None, 0.0

    def begin(self):
        self.started = time.process_time()

    def running(self):
        return self.seconds + (time.process_time() - self.started if self.started is not None else 0.0)

    def point(self, scores, note=None):
        self.seconds, self.started = self.running(), None
        took = self.seconds
        loss, _ = log_loss(self.problem.train_x, self.problem.train_y, scores, self.problem.K)
        print(json.dumps({"seconds": took, "loss": loss, "note": note}), flush=True)


def run_peer(module, folder, name, seconds):
    import blas
    program = importlib.import_module(f"peers.{module}")
    blas.faster_threads = lambda work, use=None, most=None: (use(1), 1)[1]
    settings = {**program.runs(name)[0], "seconds": seconds}
    problem = sets.Problem(folder)
    program.fit(problem, settings, CpuMarks(problem))


def truemax(program, problem, *words):
    """(CPU seconds of the whole process, train log-loss, method)"""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run([program, "train", problem.about["train"], *sets.PREPARE, "--threads", "1", "--model", "none",
                           "--log", "none", "--quiet", "--json", *map(str, words)], check=True, capture_output=True,
                          text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(said)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, found["train"]["log_loss"], found["method"]


def time_to(program, problem, loss, most, *words):
    """{"epochs", "seconds", "loss", "method"} of the shortest run of the ladder that gets there; None: none does."""
    around = min(truemax(program, problem, "--method", "exact", "--epochs", 0)[0] for _ in range(ROUNDS))
    for epochs in LADDER:
        run = ("--target", "train", "--epochs", epochs, *words)
        seconds, reached, method = truemax(program, problem, *run)
        if reached <= loss:
            best = min([seconds] + [truemax(program, problem, *run)[0] for _ in range(ROUNDS - 1)])
            return {"epochs": epochs, "seconds": best - around, "loss": reached, "method": method}
        if seconds - around > most:
            return None
    return None


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "run-peer":
        return run_peer(*sys.argv[2:5], float(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--peer", choices=list(NAMES), default="torch_dense_adam")
    parser.add_argument("--data", default="delicious,bibtex,mnist")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--program", default=os.path.join(ROOT, "build/release/truemax"))
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="truemax-by-weight-") as folder:
        for name in options.data.split(","):
            problem = sets.make(name, options.program, os.path.join(folder, name))
            said = subprocess.run([sys.executable, __file__, "run-peer", options.peer, problem.folder, name,
                                   str(options.seconds)],
                                  check=True, capture_output=True, text=True,
                                  env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}).stdout
            theirs = json.loads(said.splitlines()[-1])
            row = [problem.name, f"{theirs['loss']:.7g}", f"{theirs['seconds']:.2f}"]
            for words in ((), ("--rho", 1)):
                ours = time_to(options.program, problem, theirs["loss"], MOST * theirs["seconds"], *words)
                row += ["-", "-"] if ours is None else [f"{ours['seconds']:.2f} ({ours['method']}, {ours['epochs']})",
                                                        f"{theirs['seconds'] / ours['seconds']:.1f}"]
            rows.append(row)
            print(" ".join(row), file=sys.stderr, flush=True)
    show(f"CPU seconds of one core to the train log-loss of {NAMES[options.peer]}, and how many times fewer they are",
         ("", "log-loss", NAMES[options.peer], "truemax (epochs)", "times", "with --rho 1", "times"), rows, text=(0,))
    return 0


if __name__ == "__main__":
    sys.exit(main())
