#!/usr/bin/env python3
"""Compares the speed of two builds of truemax_bench: steps of the methods and evaluation.

    bench/same_speed.py OLD NEW --data FOLDER [--rounds 5] [--limit 0.03]

OLD and NEW are truemax_bench programs. They take turns, and the best of the rounds counts, so that a busy machine slows
both. Prints a Markdown table; the exit code is 1 if NEW is slower than OLD by more than the limit somewhere. Sets that are
not in FOLDER are skipped, and the table says so.
"""
import argparse
import json
import os
import subprocess
import sys

STEPS = {
    "implicit": ["method=implicit"],
    "umax": ["method=umax", "step=1"],
    "scent, 5 classes": ["method=scent", "classes_per_step=5", "step=1"],
    "prox, head-blocks": ["method=prox", "draw=head-blocks", "head=64", "classes_per_step=16", "step=1"],
}
EXACT = {"exact": ["method=exact", "step=1", "epochs=20"]}
MILLION = ["rows=200000", "classes=1000000", "features=300"]
FILES = {"bibtex": {**STEPS, **EXACT}, "delicious": {**STEPS, **EXACT}, "yso-finna-en": STEPS}


def run(program, kind, words):
    done = subprocess.run([program, kind, *words, "rounds=1"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} {kind} {' '.join(words)}: {done.stderr.strip() or 'exit code ' + str(done.returncode)}")
    return json.loads(done.stdout)["steps_per_second" if kind == "steps" else "evaluate_rows_per_second"]


def cases(folder):
    """(data, what, kind, words), or (data, reason) for a set that is not there."""
    for name, methods in FILES.items():
        path = os.path.join(folder, name, "train.txt.gz")
        if not os.path.exists(path):
            yield name, f"skipped: no {name}/train.txt.gz in --data"
            continue
        for method, words in methods.items():
            yield name, method, "steps", [path, *words, "check=0"]
        yield name, "evaluation", "evaluate", [path, "rows=20000", "epochs=1", "threads=1"]
    for method, words in STEPS.items():
        yield "K = 1,000,000", method, "steps", [*words, *MILLION]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--data", required=True, help="folder with bibtex, delicious and yso-finna-en")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=0.03, help="by how much NEW may be slower")
    parser.add_argument("--only", default="", help="only cases whose data or name contains this")
    options = parser.parse_args()
    slower = 0
    print("| data | what | old, 1,000/s | new, 1,000/s | time new/old |\n| --- | --- | ---: | ---: | ---: |")
    for name, what, *rest in cases(options.data):
        if options.only not in f"{name} {what}":
            continue
        if not rest:
            print(f"| {name} | {what} | | | |")
            continue
        best = [0.0, 0.0]
        for turn in range(options.rounds):
            for i in (0, 1) if turn % 2 == 0 else (1, 0):
                best[i] = max(best[i], run((options.old, options.new)[i], *rest))
        ratio = best[0] / best[1]
        slower += ratio > 1 + options.limit
        print(f"| {name} | {what} | {best[0] / 1e3:,.4g} | {best[1] / 1e3:,.4g} | {ratio:.3f} |", flush=True)
    print(f"\n{slower} slower by more than {options.limit:.0%}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
