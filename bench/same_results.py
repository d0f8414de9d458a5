#!/usr/bin/env python3
"""Checks that two builds of truemax compute the same and decide the same, by some 1,400 short runs.

    bench/same_results.py OLD NEW [--quick] [--only WORDS] [--list]

OLD and NEW are truemax programs. What else a build has is found beside them: truemax-mpi, c_api, python/truemax, and
libtruemax_emulated.so, which stands in for a GPU. Kinds of cases that need what one of the builds lacks are skipped,
and that is said.

Prints, for each case, a hash of the weights and one of the decisions (notes, errors, trials, what was chosen) and of
all figures, then what differs; the exit code is 1 if something does. For changes that must not change results: build
the old commit beside the new one. same_cases.py has the cases, same_runs.py what is compared.
"""
import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec

import same_cases
import same_data
import same_runs
from same_runs import Build

try:
    import same_python
except ModuleNotFoundError:  # no NumPy
    same_python = None

# Cases that may differ: {name, as --list prints it, or a pattern such as "help: *": why}. They are run and printed.
EXPECTED = {
    "plain: train d.txt --rivals 2": "an option that has no effect here is said to have none",
    "resume*--newton 9*--epochs 6*": "--epochs has no effect on a run that Newton's method ends, and that is said now",
    "compare: *adam*": "notes on contenders are said",
    "tune: *--method adam*": "notes on trials are said",
}
QUICK = 11  # --quick takes every so many cases; a prime, so that no option of a table is left out
SHOWN = 5  # differences of a case
LOGGED = re.compile(r"\.(evaluate|end)\b")
NEEDED = {"card": ("libtruemax_emulated.so",), "ranks": ("truemax-mpi",), "C": ("c_api",),
          "python": ("python/truemax",)}


def c_case(build, _first):
    """The program tests/c_api.c trains and saves a model through the C library."""
    build.clear()
    done = subprocess.run([build.find("c_api"), "c.safetensors"], cwd=build.folder, capture_output=True, text=True,
                          check=False)
    path = os.path.join(build.folder, "c.safetensors")
    said = re.sub(r"\d+ events", "events", done.stdout + done.stderr)  # steps are reported now and then
    return [{"code": done.returncode, "printed": said,
             "weights": same_runs.weights_hash(path) if os.path.exists(path) else "no model"}]


class Python:
    """Runs the cases of the Python package of a build in one process, since its imports take longer than they do."""

    def __init__(self, names):
        self.names = names
        self.found = {}  # {program: {name: outcome}}

    def outcomes(self, build):
        package = os.path.dirname(build.find("python/truemax"))
        library = build.find("libtruemax.so")
        environment = {**build.environment(), "PYTHONPATH": package, **({"TRUEMAX_LIBRARY": library}
                                                                        if library else {})}
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "same_python.py")
        done = subprocess.run([sys.executable, here, *self.names], cwd=build.folder, env=environment,
                              capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            print(f"{package}: exit code {done.returncode}: {done.stderr.strip()[-500:]}", file=sys.stderr)
        return {outcome["case"]: outcome for outcome in map(json.loads, done.stdout.splitlines())}

    def case(self, name):
        def run(build, _first):
            if build.folder not in self.found:
                self.found[build.folder] = self.outcomes(build)
            return [self.found[build.folder].get(name, {"raised": "no result", "folder": build.folder})]
        return run


def all_cases(only, quick):
    """(kind, name, function of a build and the old build) of every case that was asked for."""
    table = {kind: list(dict.fromkeys(" ".join(text.split()) for text in texts)) for kind,
             texts in same_cases.cases().items()}
    table["C"] = ["c_api"]
    table["python"] = list(same_python.CASES) if same_python else ["all"]
    number, chosen = 0, []
    for kind, texts in table.items():
        for i, text in enumerate(texts):
            number += 1
            if only in f"{kind}: {text}" and (not quick or number % QUICK == 0 or i == 0):
                chosen.append((kind, text))
    python = Python([text for kind, text in chosen if kind == "python"])
    for kind, text in chosen:
        if kind == "C":
            yield kind, text, c_case
        elif kind == "python":
            yield kind, text, python.case(text)
        else:
            yield kind, text, lambda build, first, text=text: same_runs.run(text, build, first)


def differences(old, new, at=""):
    """What differs, as lines. Options that a search chose count if both know them, and NEW may log more of an
    evaluation and of the end."""
    if isinstance(old, dict) and isinstance(new, dict):
        if at.endswith("config"):
            keys = [key for key in old if key in new]
        else:
            keys = old if LOGGED.search(at) else {**old, **new}
        for key in keys:
            yield from differences(old.get(key), new.get(key), f"{at}.{key}" if at else key)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{at}: {len(old)} -> {len(new)} of them"
        for i, (a, b) in enumerate(zip(old, new)):
            yield from differences(a, b, f"{at}[{i}]")
    elif old != new:
        yield f"{at}: {old} -> {new}"


def refused_resume(text, old, new):
    """The sentence if NEW refuses what OLD had saved, else None: it may, if it says which option and what to do."""
    words = same_runs.commands(text)
    if words[0][0] != "old" or "--resume" not in words[-1] or new[-1].get("code") != 2 or old[-1].get("code") != 0:
        return None
    said = [line for line in new[-1]["said"] if line.startswith("truemax: error:")]
    return next((s for s in said if re.search(r"--(resume|checkpoint)", s) and re.search(r"; \S|: give ", s)), None)


def summary(outcomes):
    """Two hashes: of the last weights, and of everything else."""
    weights = next((o.get("weights", "raised") for o in reversed(outcomes) if "weights" in o or "raised" in o), "")
    return weights, same_runs.hash_of(outcomes)


class Count:
    def __init__(self):
        self.cases = self.differ = self.expected = self.stops = self.stopped = 0
        self.skipped = set()  # kinds

    def print(self, seconds):
        if self.stops:
            print(f"Ctrl-C stopped {self.stopped} of {self.stops} runs; the others had ended before")
        if self.skipped:
            print(f"skipped, see above: {', '.join(sorted(self.skipped))}")
        print(f"{self.cases} cases in {seconds:.0f} s, {self.expected} may differ, {self.differ} differ")


def compare(kind, text, function, builds, count):
    """Runs a case with both builds and prints what came of it."""
    try:
        old, new = (function(build, builds[0]) for build in builds)
    except same_runs.TooLong as error:  # of no use as a case, also if both take so long
        old, new = [], [{"error": str(error)}]
    for outcomes in (old, new):
        for outcome in outcomes:
            if "stopped" in outcome:
                count.stops += 1
                count.stopped += outcome.pop("stopped")
    name = f"{kind}: {text}"
    lines = list(differences(old, new))
    notes = []
    if lines and kind.startswith("resume") and (sentence := refused_resume(text, old, new)):
        notes, lines = [f"  refused by NEW, which is fine: {sentence}"], []
    reason = next((why for pattern, why in EXPECTED.items() if name == pattern or fnmatch.fnmatchcase(name, pattern)),
                  None)
    count.cases += 1
    count.differ += bool(lines) and reason is None
    count.expected += bool(lines) and reason is not None
    weights, decision = summary(old)
    print(f"{weights[:16]:16} {decision} {name}")
    if lines:
        print(f"  may differ: {reason}" if reason else "  DIFFERS")
    for line in notes + [f"    {line}"[:400] for line in lines[:SHOWN]]:
        print(line)
    if len(lines) > SHOWN:
        print(f"    and {len(lines) - SHOWN} more")
    sys.stdout.flush()


def missing(kind, builds):
    """What a kind of cases needs and is not there, or None."""
    for build in builds:
        for need in NEEDED.get(kind, ()):
            if not build.find(need):
                return f"{need} beside {build.program}"
    if kind == "ranks" and not shutil.which("mpirun"):
        return "mpirun"
    if kind == "python":
        lacks = [name for name in ("numpy", "scipy", "sklearn") if not find_spec(name)]
        return f"{', '.join(lacks)} for {sys.executable}" if lacks else None
    return None


def make_folders(programs, rows, work):
    """The data, and a build in its own folder for each program, with links to the data."""
    data = os.path.join(work, "data")
    os.mkdir(data)
    same_data.make_data(os.path.abspath(programs[0]), data, rows)
    builds = []
    for name, program in zip(("a", "b"), programs):
        folder = os.path.join(work, name)
        os.mkdir(folder)
        for file in os.listdir(data):
            os.symlink(os.path.join(data, file), os.path.join(folder, file))
        builds.append(Build(program, folder))
    return builds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", nargs="?")
    parser.add_argument("new", nargs="?")
    parser.add_argument("--rows", default="900", help="rows of most runs")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--quick", action="store_true", help="a tenth of the cases, of every kind")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    told = parser.parse_args()
    chosen = list(all_cases(told.only, told.quick))
    if told.list:
        print("\n".join(f"{kind}: {text}" for kind, text, _ in chosen))
        return 0
    if not chosen:
        parser.error(f"no case has {told.only!r} in its name; --list prints the names")
    if not told.new:
        parser.error("give OLD and NEW, two truemax programs")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets jobs in the background ignore it
    count, began = Count(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="same-results-", dir="/dev/shm" if os.access("/dev/shm",
                                                                                         os.W_OK) else None) as work:
        builds = make_folders((told.old, told.new), told.rows, work)
        for kind, text, function in chosen:
            if kind not in count.skipped and (lacks := missing(kind, builds)):
                print(f"{kind}: skipped: no {lacks}", flush=True)
                count.skipped.add(kind)
            if kind not in count.skipped:
                compare(kind, text, function, builds, count)
    count.print(time.monotonic() - began)
    return 1 if count.differ else 0


if __name__ == "__main__":
    sys.exit(main())
