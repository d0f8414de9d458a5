#!/usr/bin/python3
"""./dev torture: kills, faults, damaged files, random configurations and fuzzing, for as long as asked.

    ./dev torture [--seconds N] [--seed S]                 all parts; 1800 seconds
    ./dev torture --part kills --seed S --run I            one run again, as a failure says; its files stay
    ./dev torture --part faults --seed S --run I

Two lanes run side by side: kills and faults in one, soak, damaged files and fuzzing in the other. Each part has a
share of the time, and goes on until its share is over and its number is reached; numbers are for 1800 seconds and fall
with --seconds. A part that does not reach its number is reported as short, and fails a run of 1800 seconds or more.
Exit code 1 on any failure.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

import support
import torture_faults
import torture_kills
import torture_runs

FULL_SECONDS = 1800
SHORT_SECONDS = 600  # shorter runs do not fuzz
BUILD = os.path.dirname(support.PROGRAM)
FAULTS = os.path.join(BUILD, "libtruemax_faults.so")
# The number that 1800 seconds must reach, and the part's share of its lane.
Part = collections.namedtuple("Part", "name goal unit share lane")
PARTS = (Part("kills", 200, "kills", 0.6, 0), Part("faults", 100, "faults", 0.4, 0),
         Part("soak", 2000, "configurations", 0.45, 1), Part("corrupt", 100000, "damaged files", 0.25, 1),
         Part("fuzz", 1000000, "executions", 0.3, 1))


class Result:
    def __init__(self, part):
        self.part = part
        self.count = 0
        self.seconds = 0.0
        self.failures = []
        self.notes = []

    def fail(self, what, replay):
        self.failures.append(f"{what}\n      again: {replay}")
        say(f"FAILED {self.part.name}: {what}")


def say(text):
    print(text, flush=True)


def last_json(text):
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


class Torture:
    def __init__(self, seconds, seed, folder):
        self.seconds, self.seed, self.folder = seconds, seed, folder
        self.share = min(1.0, seconds / FULL_SECONDS)
        self.files = torture_runs.make_data(os.path.join(folder, "data"))
        self.results = {part.name: Result(part) for part in PARTS}

    def goal(self, part):
        return max(1, round(part.goal * self.share))

    def repeat(self, part, once):
        """Calls once(number) until the part's time is over and its goal reached, or twice its time is over."""
        result, number, start = self.results[part.name], 0, time.monotonic()
        limit, told = part.share * self.seconds, 0.0
        while True:
            now = time.monotonic() - start
            if now >= 2 * limit or (now >= limit and result.count >= self.goal(part)):
                break
            once(number, max(limit - now, 1.0))
            number += 1
            if now - told > 60:
                told = now
                say(f"{part.name}: {result.count} {part.unit}, {len(result.failures)} failures, {now:.0f} s")
        result.seconds = time.monotonic() - start

    def run_seed(self, number):
        return self.seed * 1000003 + number

    def kills(self, part):
        result = self.results[part.name]

        def once(number, _left):
            folder = os.path.join(self.folder, f"kills-{number}")
            count, problems = torture_kills.kills(self.run_seed(number), self.files, folder, FAULTS)
            result.count += count
            for problem in problems:
                result.fail(problem, f"./dev torture --part kills --seed {self.seed} --run {number}")
        self.repeat(part, once)

    def faults(self, part):
        result = self.results[part.name]

        def once(number, _left):
            folder = os.path.join(self.folder, f"faults-{number}")
            name = torture_faults.CASES[number % len(torture_faults.CASES)]
            note, problems = torture_faults.fault(self.run_seed(number), name, self.files, folder, FAULTS)
            if note is None:
                result.count += 1
            elif note not in result.notes:
                result.notes.append(note)
            for problem in problems:
                result.fail(problem, f"./dev torture --part faults --seed {self.seed} --run {number}")
        self.repeat(part, once)

    def soak(self, part):
        result = self.results[part.name]
        state = {"first": 0}

        def once(_number, left):
            words = [os.path.join(BUILD, "truemax_soak"), "--seed", str(self.seed), "--first", str(state["first"]),
                     "--seconds", str(min(left, 60))]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            counts = last_json(done.stdout)
            state["first"] = counts.get("next", state["first"] + 1)
            result.count += counts.get("configurations", 0)
            self.take_failures(result, done, " ".join(words))
        self.repeat(part, once)

    @staticmethod
    def take_failures(result, done, command):
        """Lines that say how to replay, or what the program said if it ended badly without one."""
        lines = [line for line in done.stdout.splitlines() if line.startswith("FAILED") or "replay: truemax_" in line]
        for line in lines:
            result.fail(line, command)
        if done.returncode != 0 and not lines:
            result.fail(f"exit code {done.returncode}: {(done.stdout + done.stderr)[-500:]}", command)

    def corrupt(self, part):
        result = self.results[part.name]
        program = os.path.join(BUILD, "truemax_corrupt")
        if not os.path.exists(program):
            result.fail("there is no truemax_corrupt: build it", "./dev torture")
            return
        good = self.good_files()

        def once(number, _left):
            words = [program, "--count", "5000", "--first", str(5000 * number), "--seed", str(self.seed), *good]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            counts = last_json(done.stdout)
            result.count += counts.get("damaged", 0)
            self.take_failures(result, done, " ".join(words))
        self.repeat(part, once)

    def good_files(self):
        """Models and checkpoints of every kind, to be damaged."""
        found = []
        kinds = [("few", ["--method", "prox", "--epochs", "2"]), ("few", ["--method", "umax", "--ridge", "1", "--intercept",
                                                                      "--epochs", "2"]),
                 ("few", ["--method", "scent", "--hidden", "4", "--rows-per-step", "8", "--epochs", "2"]),
                 ("text", ["--method", "scent", "--hidden", "4", "--format", "text", "--epochs", "1", "--layers", "1"]),
                 ("triples", ["--method", "scent", "--hidden", "4", "--format", "triples", "--epochs", "1"])]
        for number, options in enumerate(kinds):
            run = torture_runs.Run(number, self.files, os.path.join(self.folder, f"good-{number}"), options)
            run.truemax("--checkpoint", "run.ckpt", "--model", "m.safetensors", "--log", "none")
            found += [run.path("m.safetensors"), run.path("run.ckpt")]
        return found

    def fuzz(self, part):
        """Its share of ten million executions, which are counted over all runs; ./dev fuzz knows the total."""
        result = self.results[part.name]
        if self.seconds < SHORT_SECONDS:
            result.notes.append("left out of short runs: the test program.fuzz has its own")
            return
        least = 120  # so that every target does more than read its seeds

        def once(_number, left):
            words = [os.path.join(support.ROOT, "dev"), "fuzz", "--seconds", str(max(least, int(left))), "--jobs", "1"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=support.ROOT)
            total = re.search(r"^total\s+([\d,]+)", done.stdout, re.M)
            result.count += int(total[1].replace(",", "")) if total else 0
            if done.returncode != 0:
                result.fail(f"exit code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}", " ".join(words))
        self.repeat(part, once)

    def run(self, names):
        """All parts in two lanes."""
        def lane(number):
            for part in PARTS:
                if part.lane != number or part.name not in names:
                    continue
                try:
                    getattr(self, part.name)(part)
                except Exception as error:  # reported as a failure; the other lane goes on
                    self.results[part.name].fail(f"the harness failed: {error!r}", "./dev torture")
        lanes = [threading.Thread(target=lane, args=(number,)) for number in (0, 1)]
        for thread in lanes:
            thread.start()
        for thread in lanes:
            thread.join()

    def report(self, names):
        """Prints the table; True if all is well."""
        fine = True
        say(f"\n{'part':<9}{'count':>10}{'of':>10}  {'what':<16}{'failures':>9}{'seconds':>9}")
        for part in PARTS:
            if part.name not in names:
                continue
            result, goal = self.results[part.name], self.goal(part)
            left_out = part.name == "fuzz" and self.seconds < SHORT_SECONDS
            short = result.count < goal and not left_out
            say(f"{part.name:<9}{result.count:>10}{goal:>10}  {part.unit:<16}{len(result.failures):>9}"
                f"{result.seconds:>9.0f}{'  short' if short else ''}{''.join('  ' + note for note in result.notes)}")
            fine = fine and not result.failures and not (short and self.seconds >= FULL_SECONDS)
        for name in names:
            for failure in self.results[name].failures:
                say(f"FAILED {name}: {failure}")
        return fine


def one_run(part, seed, number):
    """A run again, with its files kept."""
    folder = tempfile.mkdtemp(prefix="truemax-torture-")
    torture = Torture(1, seed, folder)
    at = os.path.join(folder, part)
    if part == "kills":
        count, problems = torture_kills.kills(torture.run_seed(number), torture.files, at, FAULTS)
        say(f"{count} kills")
    else:
        name = torture_faults.CASES[number % len(torture_faults.CASES)]
        note, problems = torture_faults.fault(torture.run_seed(number), name, torture.files, at, FAULTS)
        say(note or name)
    for problem in problems:
        say(f"FAILED: {problem}")
    say(f"files: {folder}")
    return not problems


def main(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=FULL_SECONDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", action="append", choices=[part.name for part in PARTS])
    parser.add_argument("--run", type=int)
    arguments = parser.parse_args(words)
    for needed in (support.PROGRAM, FAULTS):
        if not os.path.exists(needed):
            say(f"torture: there is no {needed}; build it with: cmake --preset test && cmake --build --preset test")
            return 2
    if arguments.run is not None:
        return 0 if one_run((arguments.part or ["kills"])[0], arguments.seed, arguments.run) else 1
    names = arguments.part or [part.name for part in PARTS]
    with tempfile.TemporaryDirectory(prefix="truemax-torture-") as folder:
        torture = Torture(arguments.seconds, arguments.seed, folder)
        torture.run(names)
        return 0 if torture.report(names) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
