"""Shared by the parts of bench/flagship.py: running the program, its logs, the data, the verdicts."""
import json
import os
import re
import subprocess
import sys
import time

from tables import show

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.abspath(os.environ.get("TRUEMAX_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data")))
# The paper's preprocessing.
PAPER = ["--labels", "first", "--max-features", "10000", "--max-rows", "100000", "--normalize", "l2"]
FILES = {"mnist": {"train": "train-images-idx3-ubyte.gz", "test": "t10k-images-idx3-ubyte.gz"}}
DIVERGED = 3  # exit code


class Missing(Exception):
    """Something that a part needs is missing: the part is reported as skipped."""


def data_file(name, part="train"):
    path = os.path.join(DATA, name, FILES.get(name, {}).get(part, f"{part}.txt.gz"))
    if not os.path.exists(path):
        raise Missing(f"no {name} at {path}; set TRUEMAX_DATA to the folder of the data sets")
    return path


def fail(message):
    print(f"flagship: error: {message}", file=sys.stderr)
    sys.exit(1)


class Outcome:
    """One run of `truemax train`."""

    def __init__(self, log, wall_seconds, diverged):
        self.log, self.wall_seconds, self.diverged = log, wall_seconds, diverged
        with open(log, encoding="utf-8") as lines:
            self.events = [json.loads(line) for line in lines]
        evaluations = [event for event in self.events if event["event"] == "evaluate"]
        self.last = evaluations[-1] if evaluations else {}
        # An automatic run logs what it chose, and how long that took.
        chosen = [event for event in self.events if event["event"] == "chosen"]
        self.config = (chosen or self.events)[-1 if chosen else 0]["config"]
        self.trial_seconds = chosen[-1].get("seconds", 0.0) if chosen else 0.0

    def loss(self, part):
        """The last log-loss, None if the run diverged."""
        return None if self.diverged else self.last.get(part, {}).get("log_loss")

    @property
    def train_seconds(self):
        """All training, including the search of automatic runs."""
        return self.last.get("train_seconds", 0.0)

    @property
    def fit_seconds(self):
        """The final fit only."""
        return self.train_seconds - self.trial_seconds

    @property
    def without_reading(self):
        """The whole process without reading the files."""
        return self.wall_seconds - self.events[0].get("read_seconds", 0.0)


class Program:
    """Runs truemax, one thread, no model kept, every log in a folder."""

    def __init__(self, path, logs, seed=1):
        if not os.access(path, os.X_OK):
            fail(f"no program at {path}; build it with ./dev build, or name it by --program")
        self.path, self.logs, self.seed = path, logs, seed
        os.makedirs(logs, exist_ok=True)

    def log_of(self, name):
        return os.path.join(self.logs, re.sub(r"[^\w.+-]", "_", name) + ".jsonl")

    def train(self, name, data, *options):
        """`name`: the name of the log."""
        log = self.log_of(name)
        command = [self.path, "train", data, *map(str, options), "--threads", "1", "--seed", str(self.seed), "--model", "none",
                   "--log", log, "--quiet"]
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall = time.monotonic() - begin
        if done.returncode not in (0, DIVERGED):
            fail(f"{' '.join(command)}\n{done.stderr.strip()}")
        return Outcome(log, wall, done.returncode == DIVERGED)


class Verdicts:
    """The promises, each met or missed."""

    def __init__(self):
        self.results = []

    def at_most(self, item, what, value, most):
        ok = value is not None and value <= most
        self.results.append({"item": item, "what": what, "value": value, "at_most": most, "ok": ok})

    def below(self, item, what, value, bound):
        ok = value is not None and value < bound
        self.results.append({"item": item, "what": what, "value": value, "below": bound, "ok": ok})

    def skipped(self, item, why):
        print(f"skipped: {why}", file=sys.stderr, flush=True)
        self.results.append({"item": item, "what": why, "ok": None})

    def show(self):
        rows = []
        for r in self.results:
            bound = f"<= {r['at_most']:.4g}" if "at_most" in r else f"< {r['below']:.4g}" if "below" in r else "-"
            value = "-" if r.get("value") is None else f"{r['value']:.4f}"
            rows.append((f"{r['item']} {r['what']}", value, bound, {True: "OK", False: "MISSED", None: "SKIPPED"}[r["ok"]]))
        show("Verdicts (the number is that of the item)", ("", "measured", "wanted", ""), rows)
        return all(r["ok"] is not False for r in self.results)


def number(value, digits=4):
    return "diverged" if value is None else f"{value:.{digits}f}"
