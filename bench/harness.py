"""Shared by the parts of bench/bench.py: paths, running programs, turns, floors, the clock."""
import json
import os
import subprocess
import sys
import time

import blas
from tables import show

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.abspath(os.environ.get("TRUEMAX_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data")))
USAGE = 2  # exit code: unknown command


def fail(message):
    print(f"bench: error: {message}", file=sys.stderr)
    sys.exit(1)


def output_of(command):
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def best_of_turns(contestants, rounds):
    """{name: best seconds}: all contestants take a turn in every round, so that a busy moment of the machine affects
    them all. A contestant is a function that returns the seconds it took."""
    best = {name: float("inf") for name in contestants}
    for _ in range(rounds):
        for name, turn in contestants.items():
            best[name] = min(best[name], turn())
    return best


class Floors:
    """The promised ratios, each met or missed, and what could not be measured."""

    def __init__(self, judged=True):
        self.results, self.judged = [], judged

    def require(self, what, value, floor):
        if self.judged:
            ok = value is not None and value >= floor
            self.results.append({"what": what, "value": value, "floor": floor, "ok": ok})

    def require_of_threads(self, what, value, floor, threads=2):
        """For a ratio to one thread: more than the number of threads means a busy machine, not a measurement."""
        if value > 1.1 * threads:
            self.skip(what, f"measured {value:.2f}: more than {threads} threads can give, the machine is busy")
        else:
            self.require(what, value, floor)

    def skip(self, what, why):
        print(f"skipped: {what}: {why}", flush=True)
        self.results.append({"what": what, "why": why, "ok": None})

    def broken(self, what, why):
        print(f"failed: {what}: {why}", flush=True)
        self.results.append({"what": what, "why": why, "ok": False})

    def show(self):
        """Prints them; true if none is missed."""
        words = {True: "ok", False: "MISSED", None: "NOT MEASURED"}
        rows = [(r["what"], "-" if r.get("value") is None else f"{r['value']:,.2f}",
                 f"{r['floor']:,g}" if "floor" in r else "-", words[r["ok"]], r.get("why", "")) for r in self.results]
        if rows:
            show("Floors", ("", "measured", "floor", "", ""), rows, text=(0, 3, 4))
        return all(r["ok"] is not False for r in self.results)


class Bench:
    """One run of the benchmark: its options, its folder for files, its results so far."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.floors, self.ratios = Floors(not options.quick), []
        self.evaluations = {}  # output of truemax_bench evaluate by data set: two items need it
        self.begin = time.monotonic()

    @property
    def seconds(self):
        return time.monotonic() - self.begin

    def ratio(self, item, what, value, note=""):
        """Adds a line to the last table."""
        self.ratios.append({"item": item, "what": what, "ratio": value, "note": note})

    def say(self, what):
        """Prints progress."""
        print(f"[{self.seconds:5.0f} s] {what}", file=sys.stderr, flush=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def bench_json(self, what, *words):
        """The output of `truemax_bench WORDS`; None if it fails: it then counts as a missed floor, or as not measured
        if this truemax_bench has no such command."""
        done = subprocess.run([self.options.bench, *map(str, words)], check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
        why = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if done.returncode == USAGE:
            self.floors.skip(what, f"this truemax_bench cannot {words[0]}")
        else:
            self.floors.broken(what, why)
        return None


class Watched:
    """A running program and its peak memory. wait4 cannot be used: it includes the memory of the parent before exec."""

    EVERY = 0.01  # seconds

    def __init__(self, command, **streams):
        self.process = subprocess.Popen([str(word) for word in command], **streams)
        self.memory = 0

    def look(self):
        try:
            with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
                peaks = [1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM")]
            self.memory = max(self.memory, *peaks, 0)
        except OSError:
            pass  # it has ended

    def wait(self):
        """Its exit code."""
        while self.process.poll() is None:
            self.look()
            time.sleep(self.EVERY)
        return self.process.returncode


def own_memory():
    """The peak memory of this process, in bytes."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def warm_memory(size):
    """Touches this many bytes, at most half of what is free, and frees them. On a virtual machine the first touch of
    memory that the host has not yet provided can take seconds per gigabyte; no contestant should pay for that."""
    import numpy as np
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    np.empty(min(size, free // 2), np.uint8)[::4096] = 1


class OneCore:
    """Everything started inside runs on one core, and libraries start no threads."""

    NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")

    def __init__(self, core=None):
        self.core = core

    def __enter__(self):
        self.before = os.sched_getaffinity(0)
        self.environment = {name: os.environ.get(name) for name in self.NAMES}
        os.sched_setaffinity(0, {min(self.before) if self.core is None else self.core})
        for name in self.NAMES:
            os.environ[name] = "1"
        blas.use_threads(1)  # NumPy in this process has already read the environment
        return self

    def __exit__(self, *_):
        os.sched_setaffinity(0, self.before)
        blas.use_threads(len(self.before))
        for name, value in self.environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
