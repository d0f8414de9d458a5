#!/usr/bin/python3
"""Writes tests/data/plan_facts.jsonl: what the data sets of tests/data/plans.jsonl are, as `truemax plan --json` says,
for the test of the table of plans (src/train/plan_table_test.cpp), which has no data.

    tests/plan_facts.py PROGRAM [--out FILE]

A line for every data set and way of reading it that the cases have: "data" and "reading" (options as typed), then
"problem", and "start" with the shape of the model of --init. "refused": the rows cannot be read so.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

from plan_cases import CASES
from record_plans import environment_of, make_all, options_of

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "tests", "data", "plan_facts.jsonl")
# Options that the rows depend on, besides the data set. --encoder is one of plain text only.
READING = ("format", "labels", "row-weights", "class-weights", "normalize", "hash-features", "max-features", "max-rows",
           "context", "min-count", "test", "test-label-file", "valid", "init", "stream", "stream-window")
WORDS = ("context", "cbow", "skipgram")


def reading_of(case):
    options = options_of(case["words"])
    reading = {name: value for name, value in options.items() if name in READING}
    if options.get("encoder") in WORDS and (options.get("format") == "text" or case["data"] == "text.cache"):
        reading["encoder"] = options["encoder"]
    return reading


def words_of(options):
    words = []
    for name, value in options.items():
        words += [f"--{name}"] if value == "on" else [f"--no-{name}"] if value == "off" else [f"--{name}", value]
    return words


def facts(program, folder, data, reading):
    # Without trials and limits, so that nothing but reading can be refused.
    words = ["plan", data, *words_of(reading), "--memory-limit", "16G", "--threads", "2", "--json"]
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env=environment_of("none", program), timeout=120)
    line = {"data": data, "reading": reading}
    if done.returncode != 0:
        line["refused"] = done.stderr.removeprefix("truemax: error: ").strip()
        return line
    said = json.loads(done.stdout)
    line["problem"] = said["problem"]
    if "start" in said:
        line["start"] = said["start"]
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--out", default=OUT)
    asked = parser.parse_args()
    program = os.path.abspath(asked.program)
    ways = []
    for case in CASES:
        way = (case["data"], reading_of(case))
        if way not in ways:
            ways.append(way)
    with tempfile.TemporaryDirectory(prefix="truemax-facts-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        make_all(program, folder)
        lines = list(pool.map(lambda way: facts(program, folder, *way), ways))
    with open(asked.out, "w", encoding="ascii") as file:
        for line in lines:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    print(f"{len(lines)} ways of reading, {sum('refused' in line for line in lines)} refused, "
          f"{os.path.getsize(asked.out)} bytes")


if __name__ == "__main__":
    sys.exit(main())
