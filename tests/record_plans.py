#!/usr/bin/python3
"""Records what a program decides about runs: tests/data/plans.jsonl, which the tests of that decision read.

    tests/record_plans.py PROGRAM [--out FILE]     runs all cases with PROGRAM, PROGRAM-mpi and the emulated card
                                                   beside it (libtruemax_emulated.so)
    tests/record_plans.py PROGRAM --data-only FOLDER     writes the data sets and models only
    tests/record_plans.py PROGRAM --case WORD [--out FILE]     only the cases whose names contain WORD

The first line has the training options of a run of a named method with nothing else given. Then comes a line for every
data set, with the command or function that makes it and its checksum, then one for every case:

    case, data    its name, and the data set
    options       as typed; switches are "on" or "off". --memory-limit and --threads are in "machine"
    machine       memory-limit, threads; ranks: 0 is truemax, 1 and more are those of truemax-mpi; card: a word of CARDS
    refused       the error, if there was one: before the plan, or after it, where the run began (then there is both);
    failed        the same of a run that diverged
    method, stream, device, start_model, memory     what the lines of these names said
    needed        the bytes of memory in the log's first line
    notes         those before the plan; end_notes: those after the run, if it ended
    start         training options in the log's first line, as asked and completed, if they differ from the first line
    chosen        the same of the event `chosen`, when trials had ended; its `why` is what was said of linear or learnt
                  features. Numbers that trials found (step, ridge) may differ in their last digits on other processors

A case that is stopped once its plan is known has "stopped": true, and nothing of what comes after the plan.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from plan_cases import CARDS, CASES, DATA

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, "tests", "data", "plans.jsonl")
LIMIT_SECONDS = 120
REFUSED = 2
NOTE = "truemax: note: "
OF_THE_END = r"the train log-loss is above|no step was taken|Newton's method (has not|ended)"
LINES = ("method", "stream", "device", "memory")


# Data sets that the program does not make. They have the same bytes everywhere: only random() is used.

class Dice:
    def __init__(self, seed):
        self.random = random.Random(seed).random

    def below(self, n):
        return int(self.random() * n)

    def number(self, low, high):
        return f"{low + self.random() * (high - low):.4g}"


def xml_rows(rows, features, classes):
    return f"{len(rows)} {features} {classes}\n" + "".join(f"{row}\n" for row in rows)


def dense(rows, features, classes, seed, low=0.1, high=1):
    """Every feature in every row; the class shows in the feature of its number."""
    dice, lines = Dice(seed), []
    for i in range(rows):
        label = i if i < classes else dice.below(classes)
        values = [f"{f}:{dice.number(high, 2 * high) if f == label % features else dice.number(low, high)}"
                  for f in range(features)]
        lines.append(f"{label} {' '.join(values)}")
    return xml_rows(lines, features, classes)


def one_column(rows, classes, seed, size):
    """A column of large values beside small ones."""
    dice, lines = Dice(seed), []
    for i in range(rows):
        label = i % classes
        lines.append(f"{label} 0:{dice.number(size / 2, size)} {1 + label}:1 {1 + classes + dice.below(90)}:1")
    return xml_rows(lines, classes + 91, classes)


def several_labels(rows, features, classes, seed):
    dice, lines = Dice(seed), []
    for i in range(rows):
        labels = sorted({i % classes, dice.below(classes), dice.below(classes)})
        values = sorted({label % features for label in labels} | {dice.below(features) for _ in range(4)})
        lines.append(f"{','.join(map(str, labels))} {' '.join(f'{f}:1' for f in values)}")
    return xml_rows(lines, features, classes)


def labelled_lines(lines):
    return "".join(f"__label__{i % 3} only{i % 3} here{i % 7}\n" for i in range(lines))


def empty_rows(rows, classes):
    return xml_rows([f"{i % classes}" + (f" {i % 7}:1" if i % 3 else "") for i in range(rows)], 7, classes)


def row_weights(rows, seed):
    dice = Dice(seed)
    return "".join(f"{dice.number(0, 30)}\n" for _ in range(rows))


def text(lines, words, seed):
    """Words that mostly follow from the word before them."""
    dice, last, out = Dice(seed), 1, []
    for _ in range(lines):
        line = []
        for _ in range(3 + dice.below(9)):
            last = (7 * last + 3) % words if dice.random() < 0.8 else dice.below(words)
            line.append(f"w{last}")
        out.append(" ".join(line) + "\n")
    return "".join(out)


def triples(count, entities, relations, seed):
    dice, out = Dice(seed), []
    for _ in range(count):
        head, relation = dice.below(entities), dice.below(relations)
        tail = dice.below(entities) if dice.random() < 0.2 else (head * (relation + 1) + relation) % entities
        out.append(f"e{head}\tr{relation}\te{tail}\n")
    return "".join(out)


GENERATORS = {made.__name__: made for made in (dense, one_column, several_labels, labelled_lines, empty_rows,
                                              row_weights, text, triples)}


def make(program, folder, name, how):
    """Makes one file of the folder, by words of a command or by a generator and its arguments."""
    if isinstance(how, list):
        done = subprocess.run([program, *how], cwd=folder, capture_output=True, text=True, timeout=LIMIT_SECONDS)
        if done.returncode != 0:
            raise SystemExit(f"record_plans: {' '.join(how)}\n{done.stderr}")
    else:
        generator, arguments = next(iter(how.items()))
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(GENERATORS[generator](**arguments))
    with open(os.path.join(folder, name), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def make_all(program, folder):
    return [{"data": name, "how": how, "sha256": make(program, folder, name, how)} for name, how in DATA.items()]


# Cases.

def options_of(words):
    """{option: text as typed}."""
    found, at = {}, 0
    while at < len(words):
        name = words[at]
        assert name.startswith("--") and name not in found, words
        at += 1
        if at < len(words) and not words[at].startswith("--"):
            found[name[2:]] = words[at]
            at += 1
        elif name.startswith("--no-"):
            found[name[5:]] = "off"
        else:
            found[name[2:]] = "on"
    return found


def environment_of(card, program):
    set_by_card = dict(CARDS[card])
    emulated = os.path.join(os.path.dirname(program), "libtruemax_emulated.so")
    set_by_card.setdefault("TRUEMAX_CUDA_LIBRARY", emulated)
    return {**os.environ, **set_by_card, "OMP_NUM_THREADS": "1"}


def command_of(case, program, log):
    ranks = case["machine"]["ranks"]
    before = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)] if ranks > 0 else []
    threads, limit = case["machine"]["threads"], case["machine"]["memory-limit"]
    return [*before, program + "-mpi" if ranks > 0 else program, "train", case["data"], *case["words"],
            "--memory-limit", limit, "--threads", str(threads), "--model", "none", "--log", log]


def read_log(log):
    """The events written so far. A log is FILE.part until its run ends."""
    for path in (log + ".part", log):
        try:
            with open(path, encoding="utf-8") as file:
                lines = file.read().split("\n")[:-1]
        except FileNotFoundError:
            continue
        return {event["event"]: event for event in map(json.loads, lines)}
    return {}


def run(case, program, folder, scratch):
    """What the program printed, the events of its log, and how it ended (None: it was stopped after its plan)."""
    log = os.path.join(scratch, case["case"] + ".jsonl")
    process = subprocess.Popen(command_of(case, program, log), cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1,
                               env=environment_of(case["machine"]["card"], program))
    printed = []
    try:
        for line in process.stdout:
            printed.append(line.rstrip("\n"))
            if case["stop"] and line.startswith("memory "):
                break
        else:
            process.wait(LIMIT_SECONDS)
            return printed, read_log(log), process.returncode
        until = time.monotonic() + LIMIT_SECONDS
        while "start" not in read_log(log) and time.monotonic() < until:
            time.sleep(0.01)
        found = {"start": read_log(log)["start"]}
        process.send_signal(signal.SIGINT)
        printed += [words for words in process.stdout.read().split("\n") if words.startswith(NOTE)]  # mpirun's are late
        process.wait(LIMIT_SECONDS)
        return printed, found, None
    finally:
        process.kill()
        process.stdout.close()


def clean(said, program, scratch):
    """Without paths of this machine."""
    said = said.replace(scratch + "/", "").replace(os.path.dirname(program) + "/", "")
    return said.replace(f"{program}-mpi", "truemax").replace(program, "truemax")


def differing(config, defaults):
    return {name: config[name] for name in defaults if config.get(name) != defaults[name]}


def record(case, program, folder, scratch, defaults):
    printed, log, code = run(case, program, folder, scratch)
    said = [clean(line, program, scratch) for line in printed]
    line = {"case": case["case"], "data": case["data"], "options": options_of(case["words"]),
            "machine": case["machine"]}
    errors = [words[len("truemax: error: "):] for words in said if words.startswith("truemax: error: ")]
    if len(errors) > 1 or (code in (None, 0)) != (not errors):
        line["wrong"] = f"{case['case']}: exit code {code}\n" + "\n".join(said)
    if errors:
        line["refused" if code == REFUSED else "failed"] = errors[0]
    plan = next((at for at, words in enumerate(said) if words.startswith("memory ")), len(said))
    for name in LINES:
        shown = [words for words in said[:plan + 1] if re.match(name + " +", words)]
        if shown:
            line[name] = re.sub(f"^{name} +", "", shown[0])
    of_start = [words for words in said[:plan + 1] if words.startswith("start ")]
    if of_start:
        line["start_model"] = re.sub("^start +", "", of_start[0])
    notes = [words[len(NOTE):] for words in said if words.startswith(NOTE)]
    line["notes"] = [words for words in notes if not re.match(OF_THE_END, words)]
    after = [words for words in notes if re.match(OF_THE_END, words)]
    if after and code is not None:
        line["end_notes"] = after
    if "start" in log:
        line["needed"] = log["start"]["memory"]["needed"]
        line["start"] = differing(log["start"]["config"], defaults)
    if "chosen" in log:
        line["chosen"] = differing(log["chosen"]["config"], defaults)
        why = [words for words in said if re.match("chosen .*(:|features)", words)]
        if len([words for words in said if words.startswith("chosen ")]) > 1:
            line["why"] = re.sub("^chosen +", "", why[0])
    if code is None:
        line["stopped"] = True
    return line


def default_options(program, folder, scratch):
    """The training options of a run of a named method without others: those from --method to the last of a method."""
    case = {"case": "defaults", "data": "plain.txt", "words": ["--method", "implicit"], "stop": False,
            "machine": {"memory-limit": "16G", "threads": 2, "ranks": 0, "card": "none"}}
    _, log, _ = run(case, program, folder, scratch)
    config = log["start"]["config"]
    names = list(config)
    return {name: config[name] for name in names[names.index("method"):names.index("model")]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--out", default=OUT)
    parser.add_argument("--data-only", metavar="FOLDER")
    parser.add_argument("--case", default="")
    asked = parser.parse_args()
    program = os.path.abspath(asked.program)
    if asked.data_only:
        os.makedirs(asked.data_only, exist_ok=True)
        make_all(program, asked.data_only)
        return
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="truemax-plans-") as folder, \
            tempfile.TemporaryDirectory(prefix="truemax-logs-") as scratch, \
            concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = make_all(program, folder)
        defaults = default_options(program, folder, scratch)
        cases = [case for case in CASES if asked.case in case["case"]]
        lines = list(pool.map(lambda case: record(case, program, folder, scratch, defaults), cases))
    for line in lines:
        if "wrong" in line:
            print("record_plans:", line["wrong"], file=sys.stderr)
    with open(asked.out, "w", encoding="ascii") as file:
        for line in ({"defaults": defaults}, *made, *lines):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")
    print(f"{len(lines)} cases, {sum('refused' in line for line in lines)} refused, {len(made)} data sets, "
          f"{os.path.getsize(asked.out)} bytes in {time.monotonic() - started:.0f} s")
    return 1 if any("wrong" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
