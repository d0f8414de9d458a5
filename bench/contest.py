"""Runs contestants: a peer in its own process with limits, truemax as a program."""
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import time

from harness import ROOT, Watched, fail, warm_memory
from sets import PREPARE

PEERS = ("sklearn_lbfgs", "sklearn_saga", "scipy_lbfgs", "liblinear", "fasttext", "fasttext_hs", "fasttext_ns",
         "torch_sgd", "torch_adam", "torch_dense_sgd", "torch_dense_adam", "numpy_implicit")
SECONDS, MEMORY = 120.0, 16 << 30  # of a peer on a data set
MANY_WEIGHTS, WARM_COPIES = 1e7, 6
# Limit for work around training (reading, judging), so that nothing can hang.
AROUND_SECONDS = 240.0


def module_of(peer):
    return importlib.import_module(f"peers.{peer}")


def warm_for(problem, copies=WARM_COPIES):
    """Called before every timed run on a problem with many weights, of peers and of truemax: touches memory for this
    many float32 copies of the weights."""
    if problem.D * problem.K > MANY_WEIGHTS:
        warm_memory(copies * 4 * problem.D * problem.K)


def run_peer(peer, folder, settings, seconds):
    """One run. Returns {"settings", "points": [...], "ended": "" or why it did not finish, "seconds", "blas"}: seconds
    of training as counted by the waiting side; the BLAS of the process as reported by worker.py."""
    command = [sys.executable, os.path.join(ROOT, "bench", "peers", "worker.py"), peer, folder, json.dumps(settings),
               str(MEMORY)]
    with open(os.path.join(folder, f"{peer}.err"), "w+", encoding="utf-8") as errors:
        # Matrix libraries would start threads even for small products: a peer that gains from threads sets
        # their number itself (blas.faster_threads).
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
                                   env={**os.environ, **one})
        points, ended, trained, on_since, matrices = [], "", 0.0, None, None
        begin, waiting = time.monotonic(), b""
        while True:
            now = time.monotonic()
            running = trained + (now - on_since if on_since is not None else 0.0)
            if on_since is not None and running > seconds:
                ended = f"did not finish in {seconds:.0f} s"
            elif now - begin - running > AROUND_SECONDS:
                ended = "did not finish reading or judging"
            if ended:
                os.killpg(process.pid, signal.SIGKILL)
                break
            readable, _, _ = select.select([process.stdout], [], [], 0.05)
            if not readable:
                continue
            part = os.read(process.stdout.fileno(), 65536)
            if not part:
                break
            *lines, waiting = (waiting + part).split(b"\n")
            for line in lines:
                said = json.loads(line)
                if said.get("clock") == "on":
                    on_since = time.monotonic()
                elif said.get("clock") == "off":
                    trained, on_since = trained + time.monotonic() - on_since, None
                elif "blas" in said:
                    matrices = said["blas"]
                elif "failed" in said:
                    ended = said["failed"]
                else:
                    points.append(said)
            if ended:
                os.killpg(process.pid, signal.SIGKILL)
                break
        code = process.wait()
        process.stdout.close()
        if on_since is not None:
            trained += time.monotonic() - on_since
        if not ended and code == -signal.SIGKILL:
            ended = "out of memory"
        elif not ended and code != 0:
            errors.seek(0)
            fail(f"{' '.join(command)} ended with {code}:\n{errors.read()[-3000:]}")
    return {"settings": settings, "points": points, "ended": ended, "seconds": trained, "blas": matrices}


class Truemax:
    """`truemax train` on a problem, and the time it takes to a log-loss. Runs `--target train --seconds T` once for
    each T."""

    FIRST, GROWTH, BISECTIONS = 0.02, 2.0, 2

    def __init__(self, program, problem):
        self.program, self.problem, self.runs = program, problem, {}

    def train(self, *words, model="none", seed=1):
        """One run: {"seconds": of training, the search too, "train", "test": log-losses on the rows judged, "wall",
        "memory", "read_seconds"}. If only some training rows are judged, they are evaluated as a test file."""
        log = os.path.join(self.problem.folder, "run.jsonl")
        command = [self.program, "train", self.problem.about["train"], *PREPARE, *map(str, words), "--seed", str(seed),
                   "--model", model, "--log", log, "--quiet"]
        errors = os.path.join(self.problem.folder, "truemax.err")
        with open(errors, "w+", encoding="utf-8") as file:
            begin = time.monotonic()
            watched = Watched(command, stdout=subprocess.DEVNULL, stderr=file)
            if watched.wait() != 0:
                file.seek(0)
                fail(f"{' '.join(command)} ended with {watched.process.returncode}: {file.read().strip()}")
        wall = time.monotonic() - begin
        with open(log, encoding="utf-8") as lines:
            events = [json.loads(line) for line in lines]
        last = [event for event in events if event["event"] == "evaluate"][-1]
        return {"seconds": last["train_seconds"], "wall": wall, "memory": watched.memory,
                "read_seconds": events[0]["read_seconds"], "steps": last.get("steps"),
                **{part: last[part]["log_loss"] for part in ("train", "test") if part in last}}

    @property
    def judges_all(self):
        return self.problem.about["judged"]["seen"] == self.problem.about["train"]

    def for_seconds(self, seconds, seed=1):
        """(seconds, train log-loss, memory) of a run of this many seconds; each is run once."""
        key = (seconds, seed)
        if key not in self.runs:
            warm_for(self.problem, copies=2)  # it holds one
            few = [] if self.judges_all else ["--test", self.problem.about["judged"]["seen"], "--no-eval-train"]
            run = self.train("--target", "train", "--seconds", f"{seconds:.4f}", *few, seed=seed)
            self.runs[key] = (run["seconds"], run["train" if self.judges_all else "test"], run["memory"])
        return self.runs[key]

    def known_time_to(self, loss):
        """An upper bound of that time from the runs so far: None if none got there."""
        return min((run[0] for run in self.runs.values() if run[1] <= loss), default=None)

    def median_of(self, seconds, seeds):
        runs = sorted((self.for_seconds(seconds, seed) for seed in range(1, seeds + 1)), key=lambda run: run[1])
        return runs[len(runs) // 2]

    def time_to(self, loss, most, seeds=3):
        """The least time whose median log-loss is at or below `loss`: (seconds, that loss), None above `most` seconds.
        Lengths grow by a factor until one run gets there, then the interval is bisected (in logarithms). The length
        found must hold for the median of several seeds, else it grows a little."""
        low, high = None, self.FIRST
        while self.for_seconds(high)[1] > loss:
            if high >= most:
                return None
            low, high = high, min(high * self.GROWTH, most)
        if low is not None:
            for _ in range(self.BISECTIONS):
                middle = (low * high) ** 0.5
                if self.for_seconds(middle)[1] <= loss:
                    high = middle
                else:
                    low = middle
        while True:
            found = self.median_of(high, seeds)
            if found[1] <= loss:
                return {"seconds": found[0], "loss": found[1], "memory": found[2]}
            if high >= most:
                return None
            high = min(1.25 * high, most)
