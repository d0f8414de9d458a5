#!/usr/bin/python3
"""Does the default solver keep its promises? One part for each of them:

  train     1. train log-loss in the training time of the paper's own best: Implicit SGD, 50 epochs, best step of
               10^-3 ... 10^3
  words     2. next word on wikitext2, and fb15k-237: the test log-loss of one epoch of exact softmax, in a part of its
               time
  lbfgs     3. test log-loss and time, compared with scikit-learn's L-BFGS
  robust    4. log-loss against the step, 50 epochs; draws docs/step-robustness.svg from the run logs
  classes   5. steps/s with 10^4 and with 10^6 classes, compared with a kernel that only touches the memory

usage: bench/flagship.py PART ... [--json FILE]          (all parts: all)

One thread, on one core. Contestants take turns, the best of --rounds counts. Prints tables and verdicts, and writes
JSON that includes the load of the machine. The exit code is 1 if a promise is missed; parts whose data are missing are
reported as skipped.
"""
import argparse
import json
import os
import subprocess
import sys

import flagship_lbfgs
import flagship_robust
import flagship_words
from flagship_runs import PAPER, ROOT, Missing, Program, Verdicts, data_file, fail, number
from tables import show

# Data set, highest train log-loss allowed.
TRAIN = (("bibtex", 0.02), ("delicious", 2.40), ("yso-finna-en", 0.45), ("mnist", 0.242))
LEAST_SECONDS = 0.15
TIMES_TOUCH = 1.25


def time_of_the_paper(program, name, rounds, flagship):
    """Implicit SGD and the flagship in turn. Returns the rows of the table and the results."""
    data = data_file(name)
    paper = ["--method", "implicit", "--epochs", 50, "--eval-every", 0]
    grid = {}
    for power in range(-3, 4):
        grid[power] = program.train(f"train-{name}-implicit-1e{power}", data, *PAPER, *paper, "--step", f"1e{power}")
    found = {power: run.loss("train") for power, run in grid.items()}
    best = min((power for power in found if found[power] is not None), key=lambda power: found[power])
    seconds, runs = grid[best].train_seconds, []
    for round_ in range(rounds):
        again = program.train(f"train-{name}-implicit-best", data, *PAPER, *paper, "--step", f"1e{best}")
        seconds = min(seconds, again.train_seconds)
        budget = max(LEAST_SECONDS, seconds)
        run = program.train(f"train-{name}-flagship-{round_}", data, *PAPER, *flagship, "--seconds", f"{budget:.4f}")
        runs.append({"budget": budget, "train_seconds": run.train_seconds, "loss": run.loss("train")})
    # A run with a longer budget than the final one does not count.
    budget = max(LEAST_SECONDS, seconds)
    if runs[-1]["budget"] > budget or runs[-1]["train_seconds"] > 1.05 * budget + 0.01:
        run = program.train(f"train-{name}-flagship-last", data, *PAPER, *flagship, "--seconds", f"{budget:.4f}")
        runs.append({"budget": budget, "train_seconds": run.train_seconds, "loss": run.loss("train")})
    fair = [run for run in runs if run["budget"] <= 1.0001 * budget and run["loss"] is not None]
    return {"data": name, "implicit": {"step": 10.0**best, "loss": found[best], "seconds": seconds, "grid": found},
            "budget": budget, "runs": runs, "loss": min((run["loss"] for run in fair), default=None)}


def part_train(options, program, verdicts):
    flagship = options.instead or ["--target", "train"]
    results, rows = [], []
    for name, most in TRAIN:
        if options.data and name not in options.data:
            continue
        try:
            result = time_of_the_paper(program, name, options.rounds, flagship)
        except Missing as why:
            verdicts.skipped(1, str(why))
            continue
        results.append(result)
        paper = result["implicit"]
        rows.append((name, f"{paper['step']:g}", number(paper["loss"]), f"{paper['seconds']:.3f}", f"{result['budget']:.3f}",
                     number(result["loss"]), " ".join(number(run["loss"]) for run in result["runs"])))
        verdicts.at_most(1, f"train log-loss, {name}", result["loss"], most)
    if rows:
        show(f"Train log-loss in the time of Implicit SGD (50 epochs, best step), best of {options.rounds} rounds in turn; "
             f"options: {' '.join(flagship)}",
             ("data", "step", "implicit", "seconds", "T", "flagship", "each round"), rows)
    return results


def part_classes(options, program, verdicts):
    del program
    if not os.access(options.bench, os.X_OK):
        fail(f"no program at {options.bench}; build it: cmake --preset bench && cmake --build --preset bench")
    done = subprocess.run([options.bench, "classes", f"rounds={max(5, options.rounds)}"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        fail(done.stderr.strip())
    result = json.loads(done.stdout)
    for setting, words in (("spread", "labels and blocks uniform"), ("skewed", "labels by Zipf's law, 64 classes always")):
        r = result[setting]
        rows = [(f"K = {r[size]['classes']:,}", f"{r[size]['prox_steps_per_second']:,.0f}",
                 f"{r[size]['touch_steps_per_second']:,.0f}") for size in ("few", "many")]
        rows.append(("ratio", f"{r['prox_ratio']:.3f}", f"{r['touch_ratio']:.3f}"))
        show(f"Steps/s against the number of classes, {r['blocks_per_step']} blocks a step: {words}",
             ("", "prox", "touch only"), rows)
        verdicts.at_most(5, f"ratio of prox over ratio of touching, {setting}", r["quotient"], TIMES_TOUCH)
    return result


PARTS = {"train": part_train, "words": flagship_words.part, "lbfgs": flagship_lbfgs.part, "robust": flagship_robust.part,
         "classes": part_classes}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "all"], metavar="PART")
    parser.add_argument("--program", default=os.environ.get("TRUEMAX", os.path.join(ROOT, "build/release/truemax")))
    parser.add_argument("--bench", default=os.path.join(ROOT, "build/release/truemax_bench"))
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant (default 3)")
    parser.add_argument("--data", action="append", help="only this data set (can be given several times)")
    parser.add_argument("--quick", action="store_true",
                        help="words: exact softmax on a part of the epoch, its time extrapolated; lbfgs: one C instead of four")
    parser.add_argument("--instead", type=str.split, metavar="'OPTIONS'",
                        help="options to train with instead of the default solver's, to try others")
    parser.add_argument("--exact-step", type=float, help="words: the step of exact softmax (default: the best on a part)")
    parser.add_argument("--words-rows", type=int, default=0, help="words: only the first so many rows of wikitext2 (default: all)")
    parser.add_argument("--auto-step", type=float, help="robust: the automatic step (default: as the solver chooses it)")
    parser.add_argument("--core", type=int, help="the core to run on (default: the first allowed one)")
    parser.add_argument("--logs", default=os.path.join(ROOT, "build/bench/flagship-logs"), help="where the run logs go")
    parser.add_argument("--json", default=os.path.join(ROOT, "build/bench/flagship.json"))
    options = parser.parse_args()
    if options.rounds < 1 or options.words_rows < 0:
        fail("--rounds takes a whole number from 1 up, --words-rows one from 0 up")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0)) if options.core is None else options.core})
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # must be set before NumPy is imported
        os.environ[name] = "1"
    program = Program(options.program, options.logs)
    verdicts, results = Verdicts(), {"load_before": os.getloadavg()}
    for name in PARTS if "all" in options.parts else options.parts:
        results[name] = PARTS[name](options, program, verdicts)
    kept = verdicts.show()
    results["verdicts"], results["load_after"] = verdicts.results, os.getloadavg()
    print(f"\nload of the machine: {results['load_before'][0]:.1f} before, {results['load_after'][0]:.1f} after"
          + (" (other programs were running: times are for shape only)" if results["load_before"][0] > 0.5 else ""))
    os.makedirs(os.path.dirname(os.path.abspath(options.json)), exist_ok=True)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    print(f"written to {options.json}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
