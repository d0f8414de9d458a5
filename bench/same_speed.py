#!/usr/bin/env python3
"""Compares speed and memory of two builds of truemax: steps, training, evaluation, reading, start-up, peak memory.

    bench/same_speed.py OLD NEW --data FOLDER [--rounds 5] [--limit 0.03] [--only WORDS] [--processor]

OLD and NEW are truemax_bench programs; the programs truemax lie beside them. They take turns, and the best of the
rounds counts, so that a busy machine slows both; where NEW seems slower there are more rounds. Prints a Markdown
table; the exit code is 1 if NEW is slower or takes more memory than OLD by more than the limit somewhere. Sets that
are not in FOLDER are skipped, and the table says so.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

import same_data

# What is timed: of which data, by which function of a build and words, in which unit; less is better, unless `rate`.
Case = namedtuple("Case", "data what measure words unit rate floor", defaults=(False, 0))

# Steps of truemax_bench, in thousands a second.
STEPS = {
    "implicit": ["method=implicit"],
    "umax": ["method=umax", "step=1"],
    "scent, 5 classes": ["method=scent", "classes_per_step=5", "step=1"],
    "prox, head-blocks": ["method=prox", "draw=head-blocks", "head=64", "classes_per_step=16", "step=1"],
}
ALL_CLASSES = {"exact": ["method=exact", "step=1", "epochs=20"], "lbfgs": ["method=lbfgs", "epochs=20"]}
MILLION = ["rows=200000", "classes=1000000", "features=300"]
FILES = {"bibtex": {**STEPS, **ALL_CLASSES}, "delicious": {**STEPS, **ALL_CLASSES}, "yso-finna-en": STEPS}

# Training by the program, in seconds.
TRAINED = {
    "adam": "--method adam --step 0.05 --rows-per-step 32 --epochs 12",
    "group of 64": "--method prox --step 1 --group 64 --epochs 50 --draw head-blocks --classes-per-step 32",
    "two rows a step": "--method scent --step 0.3 --rows-per-step 2 --classes-per-step 5 --epochs 50 --ridge 0.5",
    "Newton's method": "--method prox --step 1 --epochs 0 --newton 4 --ridge 1 --max-features 200",
    "learnt features": "--hidden 64 --step 0.01 --ridge 0.2 --epochs 20",
    "search, linear": "--encoder linear --newton 0",
    "search, --target train": "--target train --epochs 80",
}
TEXT = os.path.join("wikitext2", "wiki.train.tokens.gz")
OF_TEXT = "--format text --max-rows 4000 --hidden 64 --layers 0 --no-tied --dropout 0 --step 0.01 --epochs 1"
OF_TRIPLES = "--format triples --hidden 64 --step 0.02 --ridge 0.05 --epochs 5"
MADE = {  # files, and the options that make them
    "tiny.txt": "--rows 100 --classes 10 --features 30",
    "made.txt": "--rows 20000 --classes 5000 --features 5000",
}
NOTHING = ["--model", "none", "--log", "none", "--threads", "1"]
PATIENCE = 5
AGAIN = 20  # a round of start-up has so many runs


def fail(words, done):
    sys.exit(f"{' '.join(words)}: {done.stderr.strip() or 'exit code ' + str(done.returncode)}")


def said(words):
    """What a program prints, as JSON."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else fail(words, done)


def finished(words):
    """What a program used."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return usage if process.returncode == 0 else sys.exit(f"{' '.join(words)}: exit code {process.returncode}")


def program(bench):
    return os.path.join(os.path.dirname(os.path.abspath(bench)), "truemax")


def steps(bench, words):
    return said([bench, "steps", *words, "rounds=1"])["steps_per_second"] / 1e3


def evaluation(bench, words):
    return said([bench, "evaluate", *words, "rounds=1"])["evaluate_rows_per_second"] / 1e3


def reading(bench, words):
    return said([bench, "read", *words])["seconds"]


def training(bench, words):
    return said([program(bench), "train", *words, *NOTHING, "--json"])["train_seconds"]


def start_up(bench, words):
    """Milliseconds from start to end."""
    best = float("inf")
    for _ in range(AGAIN):
        start = time.perf_counter()
        finished([program(bench), *words])
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def processor(bench, words):
    """Milliseconds of processor time of a run, which other programs on the machine hardly change."""
    best = float("inf")
    for _ in range(AGAIN):
        usage = finished([program(bench), *words])
        best = min(best, usage.ru_utime + usage.ru_stime)
    return best * 1e3


def processor_of_training(bench, words):
    """Seconds of processor time of a whole run, with reading and evaluation."""
    usage = finished([program(bench), "train", *words, *NOTHING, "--quiet"])
    return usage.ru_utime + usage.ru_stime


def memory(bench, words):
    """The most MB that a run has taken. Linux counts what Python has when it starts it, some 15 MB; runs here take
    more."""
    return finished([program(bench), "train", *words, *NOTHING, "--quiet"]).ru_maxrss / 1024


def cases_of_files(folder):
    """Cases of the sets in a folder; (data, reason) for a set that is not there."""
    for name, methods in FILES.items():
        path = os.path.join(folder, name, "train.txt.gz")
        if not os.path.exists(path):
            yield name, f"skipped: no {name}/train.txt.gz in --data"
            continue
        for method, words in methods.items():
            yield Case(name, method, steps, [path, *words, "check=0"], "1,000/s", True)
        yield Case(name, "evaluation", evaluation, [path, "rows=20000", "epochs=1", "threads=1"], "1,000/s", True)
        yield Case(name, "reading", reading, [path], "s")
        if methods is STEPS:
            continue
        for what, options in TRAINED.items():
            yield Case(name, what, training, [path, *options.split()], "s")
    text = os.path.join(folder, TEXT)
    if os.path.exists(text):
        yield Case("wikitext2", "learnt features", training, [text, *OF_TEXT.split()], "s")
    else:
        yield "wikitext2", f"skipped: no {TEXT} in --data"


def cases_of_made(folder):
    """Cases of generated rows."""
    tiny, made = (os.path.join(folder, name) for name in MADE)
    triples = os.path.join(folder, "triples.tsv")
    with open(triples, "w", encoding="utf-8") as file:
        file.write(same_data.made_triples(20000, 1))
    yield Case("20,000 triples", "learnt features", training, [triples, *OF_TRIPLES.split()], "s")
    for method, words in STEPS.items():
        yield Case("K = 1,000,000", method, steps, [*words, *MILLION], "1,000/s", True)
    for what, words in {"--version": ["--version"], "train --help": ["train", "--help"],
                        "one epoch of 100 rows": ["train", tiny, "--method", "prox", "--epochs", "1", *NOTHING],
                        "search on 100 rows": ["train", tiny, *NOTHING]}.items():
        yield Case("start-up", what, start_up, words, "ms", floor=0.5)
        yield Case("start-up", f"{what}, processor time", processor, words, "ms", floor=0.5)
    for what, options in {"prox": "--method prox --epochs 1", "prox, blocks": "--method prox --draw blocks --epochs 1",
                          "search": "--encoder linear --epochs 1", "learnt features": "--hidden 64 --epochs 1",
                          "adam": "--method adam --rows-per-step 5000 --epochs 1"}.items():
        yield Case("K = D = 5,000", f"memory of {what}", memory, [made, *options.split()], "MB", floor=0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--data", required=True, help="folder with bibtex, delicious, yso-finna-en and wikitext2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=0.03, help="by how much NEW may be slower")
    parser.add_argument("--processor", action="store_true",
                        help="count the processor time of training, not its seconds: for a machine that is busy")
    parser.add_argument("--only", default="", help="only cases whose data or name contains this")
    options = parser.parse_args()
    for bench in (options.old, options.new):
        if not os.path.exists(program(bench)):
            sys.exit(f"no truemax beside {bench}: build it there")
    slower = 0
    print("| data | what | unit | old | new | time or memory, new/old |\n| --- | --- | --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, words in MADE.items():
            subprocess.run([program(options.old), "generate", os.path.join(folder, name), *words.split()], check=True,
                           stdout=subprocess.DEVNULL)
        for case in [*cases_of_files(options.data), *cases_of_made(folder)]:
            if options.only not in f"{case[0]} {case[1]}":
                continue
            if not isinstance(case, Case):
                print(f"| {case[0]} | {case[1]} | | | | |")
                continue
            if options.processor and case.measure is training:
                case = case._replace(measure=processor_of_training)
            old, new, ratio, worse = best_of(case, (options.old, options.new), options.rounds, options.limit)
            slower += worse
            print(f"| {case.data} | {case.what} | {case.unit} | {old:,.4g} | {new:,.4g} | {ratio:.3f} |", flush=True)
    print(f"\n{slower} slower, or of more memory, by more than {options.limit:.0%}")
    return 1 if slower else 0


def best_of(case, programs, rounds, limit):
    """What the old and the new program need at best, the ratio, and whether it is above the limit. The programs take
    turns. Before a ratio counts as above, there are up to PATIENCE times as many rounds: a busy machine makes few runs
    slow, and the best of both only falls."""
    found = ([], [])
    for turn in range(PATIENCE * rounds):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            found[i].append(case.measure(programs[i], case.words))
        old, new = (max(values) if case.rate else min(values) for values in found)
        ratio = old / new if case.rate else new / old
        worse = ratio > 1 + limit and abs(new - old) > case.floor
        if turn + 1 >= rounds and not worse:
            break
    return old, new, ratio, worse


if __name__ == "__main__":
    sys.exit(main())
