"""Item 7: linear and learnt features, each at the best of a grid, and what the plain command makes of the choice.

Every point of a grid (three steps times three ridges) trains on nine tenths of the rows and stops early on the others.
The step of a run falls to its planned end, and with it the log-loss, often after it has risen: little patience would
stop most runs before they are any good, and a run that is stopped is not at its best. So the three points with the
lowest validation log-loss are fitted again on all rows, for half as many epochs as their best, as many and twice as
many. The lowest test log-loss of all these counts, which no one could choose without the test rows; the plain command
must be within 1% of the better of the two. If plain is the lowest of all, the grids were too coarse to judge it, and
the table says so.

On the large sets (PART) the grid sees only the first rows, with the same ridge per row; its two best points are then
fitted on all rows, for as many epochs and for half as many. They run only with --only 7, because they take half an
hour; `--jobs J` runs J commands at once, on two cores each.
"""
import concurrent.futures
import json
import math
import os
import queue
import subprocess

import sets
from harness import fail
from tables import show

HIDDEN = 256
WITHIN = 1.01
PATIENCE = 10
DIVERGED = 3  # exit code
# Of each data set: more options for all of its runs; steps, ridges and planned epochs, around what trials choose.
GRIDS = {
    "bibtex": ([], {"linear": ((0.04, 0.13, 0.4), (0.07, 0.22, 0.7), 8),
                    "learnt": ((0.004, 0.008, 0.016), (6, 19, 60), 20)}),
    "delicious": ([], {"linear": ((0.018, 0.054, 0.16), (1, 3, 9), 8),
                       "learnt": ((0.004, 0.008, 0.016), (6, 19, 60), 20)}),
    "mnist": (["--normalize", "l2"], {"linear": ((1, 3, 9), (0.03, 0.1, 0.3), 10),
                                      "learnt": ((0.002, 0.004, 0.008), (0.2, 0.6, 2), 20)}),
    "fb15k-237": ([], {"linear": ((0.5, 1.5, 4.5), (0.02, 0.063, 0.2), 4),
                       "learnt": ((0.002, 0.004, 0.008), (6, 19, 60), 10)}),
    "yso-finna-en": ([], {"linear": ((1, 3, 9), (0.03, 0.1, 0.3), 16),
                          "learnt": ((0.002, 0.004, 0.008), (2, 6, 19), 10)}),
}
PART = {"fb15k-237": 100000, "yso-finna-en": 100000}  # rows of the grid
SETS = tuple(GRIDS)


class Runner:
    """Runs commands, several at a time if asked to, each then on two cores of its own."""

    def __init__(self, bench):
        self.bench, self.jobs = bench, bench.options.jobs
        cores = sorted(os.sched_getaffinity(0))
        self.places = queue.SimpleQueue()
        for job in range(self.jobs):
            self.places.put(cores[2 * job:2 * job + 2] if self.jobs > 1 else None)
        self.numbers = iter(range(10**9))

    def all(self, runs):
        """The results of functions without arguments, in their order."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(lambda run: run(), runs))

    def train(self, problem, *words):
        """{"test", "valid": log-losses, "epochs": of the model, "seconds", "hidden", "config"}; None if it diverged."""
        place, log = self.places.get(), self.bench.path(f"learnt-{next(self.numbers)}.jsonl")
        command = [self.bench.options.program, "train", problem["train"], "--test", problem["test"], *problem["more"],
                   "--no-eval-train", "--model", "none", "--log", log, "--quiet", *words]
        if place:
            command = ["taskset", "-c", ",".join(map(str, place)), *command, "--threads", 2]
        try:
            done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
        finally:
            self.places.put(place)
        if done.returncode == DIVERGED:
            return None
        if done.returncode != 0:
            fail(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
        with open(log, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        last = [event for event in events if event["event"] == "evaluate"][-1]
        config = [event for event in events if event["event"] == "chosen"][-1]["config"]
        return {"test": last["test"]["log_loss"], "valid": last.get("valid", {}).get("log_loss"),
                "epochs": last["epoch"], "seconds": events[-1]["train_seconds"], "rows": events[0]["data"]["rows"],
                "hidden": 0 if config["hidden"] == "none" else config["hidden"],
                "config": {what: config[what] for what in ("step", "ridge", "epochs")}}


def problem_of(bench, name):
    """The files of a data set, or None if they are missing. --quick has generated rows."""
    more = GRIDS[name][0]
    if bench.options.size < 1:
        generated = name if name in sets.STAND_INS else "bibtex"
        found = sets.make(generated, bench.options.program, bench.path(f"learnt-{name}"), bench.options.size)
        shown = found.name if generated == name else f"{name}: {found.name}"
        return {"name": shown, "train": found.about["train"], "test": found.about["judged"]["test"], "more": more}
    train, test = sets.file_of(name, "train"), sets.file_of(name, "test")
    for path in (train, test):
        if not os.path.exists(path):
            bench.floors.skip(f"item 7, {name}", f"not at {path}; set TRUEMAX_DATA")
            return None
    return {"name": name, "train": train, "test": test, "more": more}


def words_of_model(model, step, ridge, epochs):
    return ["--encoder", "linear"] * (model == "linear") + ["--hidden", HIDDEN] * (model == "learnt") + [
        "--step", step, "--ridge", ridge, "--epochs", epochs]


def grid_of(bench, name, model):
    """(steps, ridges, epochs); --quick: one point."""
    steps, ridges, epochs = GRIDS[name][1][model]
    return (steps[1:2], ridges[1:2], 2) if bench.options.quick else (steps, ridges, epochs)


def best_of_grid(bench, runner, problem, name, model, rows):
    """All runs of a grid, the one with the lowest test log-loss first. rows: of the training data."""
    steps, ridges, epochs = grid_of(bench, name, model)
    part = min(rows, PART.get(name, rows))

    def run(step, ridge, epochs, early):
        more = ["--valid-share", 0.1, "--patience", PATIENCE] if early else []
        if early and part < rows:
            more += ["--max-rows", part]
        found = runner.train(problem, *words_of_model(model, step, ridge * part / rows if early else ridge, epochs), *more)
        bench.say(f"{problem['name']}: {model}, step {step:g}, ridge {ridge:g}, "
                  + (f"diverged in {epochs} epochs" if found is None else f"epoch {found['epochs']} of {epochs}: "
                     f"{found['test']:.4f} in {found['seconds']:.1f} s"))
        return found and {**found, "step": step, "ridge": ridge, "planned": epochs, "early": early}

    found = runner.all([lambda s=step, r=ridge: run(s, r, epochs, True) for step in steps for ridge in ridges])
    found = sorted((run for run in found if run and math.isfinite(run["valid"])), key=lambda run: run["valid"])
    points, lengths = (3, (0.5, 1, 2)) if part == rows else (2, (0.5, 1))
    again = [(one["step"], one["ridge"], max(1, math.ceil(one["epochs"] * times)), False)
             for one in found[:points] for times in lengths]
    if part < rows:
        found = []  # of a part of the rows: not to be compared
    found += [one for one in runner.all([lambda a=a: run(*a) for a in again]) if one]
    return sorted(found, key=lambda run: run["test"])


def words_of(run):
    return f"step {run['step']:.3g}, ridge {run['ridge']:.3g}, " + (
        f"epoch {run['epochs']} of {run['planned']}" if run["early"] else f"{run['planned']} epochs")


def at_edge(bench, name, model, run):
    """Whether a point lies at the edge of its grid, so that a wider one might have a better."""
    steps, ridges, _ = grid_of(bench, name, model)
    return any(len(values) > 1 and not values[0] < run[what] < values[-1]
               for what, values in (("step", steps), ("ridge", ridges)))


def run(bench):
    runner, results, rows = Runner(bench), [], []
    for name in bench.options.learnt_sets:
        problem = problem_of(bench, name)
        if problem is None:
            continue
        plain = runner.train(problem, *(["--seconds", 1] if bench.options.quick else []))
        bench.say(f"{problem['name']}: plain: {plain['test']:.4f} in {plain['seconds']:.1f} s")
        grids = {model: best_of_grid(bench, runner, problem, name, model, plain["rows"]) for model in ("linear", "learnt")}
        if not all(grids.values()):
            bench.floors.broken(f"item 7, {problem['name']}", "every run of a grid diverged")
            continue
        best = {model: runs[0] for model, runs in grids.items()}
        better = min(best, key=lambda model: best[model]["test"])
        ratio = best[better]["test"] / plain["test"]
        edges = [model for model in best if at_edge(bench, name, model, best[model])]
        results.append({"data": problem["name"], "set": name, "part": PART.get(name, plain["rows"]) < plain["rows"],
                        "plain": plain, "grids": grids, "better": better, "ratio": ratio,
                        "edges": edges})
        rows.append((problem["name"], f"{best['linear']['test']:.4f}", words_of(best["linear"]),
                     f"{best['learnt']['test']:.4f}", words_of(best["learnt"]), f"{plain['test']:.4f}",
                     f"{plain['hidden']} learnt" if plain["hidden"] else "linear", f"{plain['seconds']:.1f}",
                     f"{100 * (1 / ratio - 1):+.2f}%", "NO" if ratio * WITHIN < 1 else "yes" if ratio <= 1 else "yes, below both",
                     ", ".join(edges) or "-"))
        bench.floors.require(f"item 7, {problem['name']}: best test log-loss of the grids ({better}) over plain's", ratio,
                             1 / WITHIN)
        bench.ratio(7, f"{problem['name']}: test log-loss, the better grid ({better}) over plain", ratio)
    if rows:
        jobs = f"; {runner.jobs} commands at a time, two cores each" if runner.jobs > 1 else ""
        show(f"Item 7: test log-loss, linear and {HIDDEN} learnt features at the best of their grids, and plain{jobs}",
             ("", "linear", "at", "learnt", "at", "plain", "chosen", "seconds", "plain above the better", "within 1%",
              "best at the edge of its grid"), rows, text=(0, 2, 4, 6, -1))
        parts = [f"{result['data']} the first {PART[result['set']]:,} rows" for result in results if result["part"]]
        if parts:
            print("The grid saw only a part of some sets: " + ", ".join(parts) + "; its two best points were then fitted on "
                  "all rows.")
    return results
