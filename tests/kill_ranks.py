#!/usr/bin/python3
"""SIGKILL for random ranks of truemax-mpi at random times.

    tests/kill_ranks.py [--kills 50] [--seed 1] [--keep FOLDER]

Each run has 2 to 4 ranks and writes checkpoints. One rank is killed. Then
  - no process of the run is left after 10 s,
  - the message says that a rank died and what to type to continue,
  - the checkpoint is not older than the last one seen before, and continues the run on another number of ranks,
  - the run ends with a train log-loss within the spread of runs with other seeds that nobody killed.

TRUEMAX is the program, with truemax-mpi beside it. Exit status 77: MPI is missing.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ranks_support import PROGRAM_OF_RANKS, mpirun
from support import PROGRAM, events

MOST_RANKS = 4
LIMIT = 300  # seconds of a run that nobody kills


class Broken(Exception):
    pass


def require(holds, what):
    if not holds:
        raise Broken(what)


class Runs:
    def __init__(self, folder, epochs):
        self.folder, self.epochs = folder, epochs
        self.call(PROGRAM, "generate", "train.txt", "--rows", "8000", "--features", "500", "--classes", "1000",
                  "--nonzeros", "15", "--skew", "1", "--seed", "1")
        begin = time.monotonic()
        self.expected = {seed: self.whole(2, seed) for seed in (1, 2, 3, 4, 5)}
        self.seconds = (time.monotonic() - begin) / len(self.expected)  # of a run

    def call(self, *command):
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT)
        require(done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done

    def command(self, ranks, seed, name, *more):
        return [*mpirun(ranks), PROGRAM_OF_RANKS, "train", "train.txt", "--method", "prox", "--step", "0.1", "--group",
                "1024", "--seed", str(seed), "--epochs", str(self.epochs), "--eval-every", "0", "--threads", "1", "--model",
                f"{name}.safetensors", "--log", f"{name}.jsonl", *more]

    def loss(self, name):
        end = [e for e in events(os.path.join(self.folder, f"{name}.jsonl")) if e["event"] == "evaluate"][-1]
        require(end["epoch"] == self.epochs, f"{name} ended after epoch {end['epoch']} of {self.epochs}")
        return end["train"]["log_loss"]

    def whole(self, ranks, seed):
        """The train log-loss of a run that nobody kills."""
        for end in ("safetensors", "jsonl"):
            if os.path.exists(path := os.path.join(self.folder, f"whole.{end}")):
                os.remove(path)
        self.call(*self.command(ranks, seed, "whole"))
        return self.loss("whole")

    def processes(self, name):
        """Of the run of this name: (mpirun, ranks), found by what they were started with."""
        found, word = [], f"{name}.safetensors".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{pid}/stat") as file:
                    zombie = file.read().rsplit(")", 1)[1].split()[0] == "Z"
            except OSError:
                continue
            if word in words and not zombie:
                found.append((int(pid), words[0] == b"mpirun"))
        return [p for p, starter in found if starter], [p for p, starter in found if not starter]


def steps_saved(log):
    """The steps of the newest checkpoint that the log has announced. Its last line may not be whole."""
    if not os.path.exists(log):
        return 0  # the run has just ended
    with open(log, "rb") as file:
        lines = file.read().split(b"\n")[:-1]
    return max((event["steps"] for event in map(json.loads, lines) if event["event"] == "checkpoint"), default=0)


def kill_one(runs, chance, number):
    """One run, killed and continued. Returns (what was killed and when, the log-loss)."""
    name, expected = f"run{number}", runs.expected
    ranks, seed = chance.randint(2, MOST_RANKS), chance.choice(list(expected))
    checkpoint = os.path.join(runs.folder, f"{name}.checkpoint")
    saving = ["--checkpoint", checkpoint, "--checkpoint-every", "0.1s"]
    run = subprocess.Popen(runs.command(ranks, seed, name, *saving), cwd=runs.folder, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    try:
        log = os.path.join(runs.folder, f"{name}.jsonl.part")
        begin = time.monotonic()
        while not (os.path.exists(log) and os.path.getsize(log) > 0):
            require(run.poll() is None, f"it ended before it began: {run.stdout.read() if run.poll() is not None else ''}")
            require(time.monotonic() < begin + 60, "it does not begin")
            time.sleep(0.01)
        wait = chance.uniform(0, runs.seconds)
        time.sleep(wait)
        _, processes = runs.processes(name)
        if run.poll() is not None or len(processes) < ranks:
            return None  # it was quicker
        victim = chance.choice(sorted(processes))
        had, seen = os.path.exists(checkpoint), steps_saved(log)
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        try:
            said = run.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            raise Broken("mpirun still runs after 10 s") from None
        while any(runs.processes(name)):
            require(time.monotonic() < killed + 10, f"processes are left after 10 s: {runs.processes(name)}")
            time.sleep(0.05)
        gone = time.monotonic() - killed
    finally:
        run.kill()
        run.wait()
    if run.returncode == 0 or os.path.exists(os.path.join(runs.folder, f"{name}.jsonl")):
        return None  # it had just ended: the log has its name at the end
    require("signal 9" in said or "Killed" in said, f"nothing says that a rank was killed:\n{said}")
    require("--resume" in said, f"nothing says how to continue:\n{said}")
    require(os.path.exists(checkpoint) or not had, "the checkpoint is gone")
    others = chance.choice([r for r in range(1, MOST_RANKS + 1) if r != ranks])
    done = subprocess.run(runs.command(others, seed, name, *saving, "--resume"), cwd=runs.folder, capture_output=True,
                          text=True, timeout=LIMIT)
    require(done.returncode == 0, f"on {others} ranks it does not continue: {done.stdout}{done.stderr}")
    resumed = [e for e in events(os.path.join(runs.folder, f"{name}.jsonl")) if e["event"] == "resume"]
    require(len(resumed) == 1 or not had, "it began again instead of continuing")
    loss = runs.loss(name)
    steps = resumed[0]["steps"] if resumed else 0
    require(steps >= seen, f"it continued from step {steps}, but step {seen} was saved before the kill")
    low, high = min(expected.values()), max(expected.values())
    require(low - (high - low) <= loss <= high + (high - low),
            f"log-loss {loss:.5f}, other runs {low:.5f} to {high:.5f}")
    for path in os.listdir(runs.folder):
        if path.startswith(f"{name}."):
            os.remove(os.path.join(runs.folder, path))
    return (f"{ranks} ranks, one killed after {wait:.2f} s, all gone in {gone:.2f} s; {others} ranks go on from step "
            f"{steps}: log-loss {loss:.5f} (without a kill {expected[seed]:.5f})", abs(loss / expected[seed] - 1), gone)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--keep", help="work in this folder, and leave the files there")
    options = parser.parse_args()
    if "thread" in os.environ.get("TRUEMAX_SANITIZE", ""):
        print("skipped: Open MPI is not built for the thread sanitizer")
        return 77
    if shutil.which("mpirun") is None or not os.access(PROGRAM_OF_RANKS, os.X_OK):
        print(f"skipped: no mpirun, or no {PROGRAM_OF_RANKS}")
        return 77
    folder = options.keep or tempfile.mkdtemp()
    os.makedirs(folder, exist_ok=True)
    kills, apart, slowest = 0, 0.0, 0.0
    try:
        runs = Runs(folder, options.epochs)
        low, high = min(runs.expected.values()), max(runs.expected.values())
        print(f"{runs.epochs} epochs, {runs.seconds:.1f} s a run; log-loss of 5 seeds {low:.5f} to {high:.5f}", flush=True)
        chance, number = random.Random(options.seed), 0
        while kills < options.kills:
            number += 1
            require(number <= 3 * options.kills + 10, "most runs end before they can be killed: give more --epochs")
            if (done := kill_one(runs, chance, number)) is None:
                continue
            kills, apart, slowest = kills + 1, max(apart, done[1]), max(slowest, done[2])
            print(f"{kills:3}  {done[0]}", flush=True)
    except Broken as broken:
        print(f"kill {kills + 1} (--seed {options.seed}): {broken}", file=sys.stderr)
        return 1
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{kills} kills: no process left after {slowest:.1f} s, no checkpoint lost; log-loss at most {apart:.1e} from the "
          f"run that nobody killed, seeds are {high / low - 1:.1e} apart")
    return 0


if __name__ == "__main__":
    sys.exit(main())
