#!/usr/bin/env python3
"""Plain train, which chooses between linear and learnt features, beside each of the two, by the log-loss on rows that none
has seen.

    bench/learnt.py PROGRAM --data FOLDER [--hidden 256] [--sets bibtex,delicious,mnist,fb15k-237,yso-finna-en]

PROGRAM is truemax. For every set, `truemax train` with `--encoder linear`, with `--hidden H` and with neither trains on its
training file and is judged on its test file. Prints a Markdown table. A set that is not in FOLDER is skipped, and the table
says so.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

FILES = {
    "bibtex": ("train.txt.gz", "test.txt.gz", []),
    "delicious": ("train.txt.gz", "test.txt.gz", []),
    "mnist": ("train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz", ["--normalize", "l2"]),
    "fb15k-237": ("train.txt.gz", "test.txt.gz", []),
    "yso-finna-en": ("train.txt.gz", "test.txt.gz", []),
}


def run(program, train, test, more):
    """Test log-loss, seconds of search and fit, seconds of the whole command, learnt features of a row."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        done = subprocess.run([program, "train", train, "--test", test, "--no-eval-train", "--json", "--model", "none",
                               "--log", os.path.join(folder, "run.jsonl"), *more],
                              capture_output=True, text=True, check=False)
        whole = time.monotonic() - start
        if done.returncode != 0:
            sys.exit(f"{program} train {train} {' '.join(more)}: {done.stderr.strip()}")
        with open(os.path.join(folder, "run.jsonl"), encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
    last = [event for event in events if event["event"] == "evaluate"][-1]
    hidden = json.loads(done.stdout)["hidden"]
    return last["test"]["log_loss"], events[-1]["train_seconds"], whole, hidden


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--data", required=True)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--sets", default=",".join(FILES))
    options = parser.parse_args()
    print("| data | linear, test log-loss | seconds | learnt, test log-loss | seconds | plain, test log-loss | seconds "
          "| command | chosen |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for name in options.sets.split(","):
        train, test, more = FILES[name]
        train, test = (os.path.join(options.data, name, file) for file in (train, test))
        if not os.path.exists(train):
            print(f"| {name} | skipped: no {train} | | | | | | | |", flush=True)
            continue
        columns = []
        for way in (["--encoder", "linear"], ["--hidden", str(options.hidden)], []):
            loss, seconds, whole, hidden = run(options.program, train, test, [*more, *way])
            columns += [f"{loss:.3f}", f"{seconds:.1f}"]
        columns += [f"{whole:.1f}", f"{hidden} learnt" if hidden > 0 else "linear"]
        print(f"| {name} | {' | '.join(columns)} |", flush=True)


if __name__ == "__main__":
    main()
