#!/usr/bin/python3
"""truemax beside Debian's fastText, supervised, on the first rows of yso-finna-en: test log-loss and seconds.

    bench/fasttext.py PROGRAM --data FOLDER [--dim 100] [--threads 2] [--keep FOLDER]

PROGRAM is truemax, FOLDER has yso-finna-en/{train,test}.txt.gz. Both programs read the same two files of words, with
one label a row (the first, as truemax takes it) and without TF-IDF values, which fastText cannot take. Test rows whose
label or whose words all are missing from the training rows are left out for both.

fastText runs with softmax for 5 epochs (a quarter of an hour a rate on two cores) and with hs and ns for 5 and 25, each with
the learning rates given. Its log-loss is computed from its model file: a softmax; the product along the Huffman tree
(hs); a softmax over the outputs of ns, as they are or corrected for how often its noise has each class, whichever is
better. truemax, with as many learnt features, climbs a ladder of runs that take longer and longer, at a fixed ridge
and at the steps of STEPS; and it runs once with only --hidden given, search included. Seconds are of training alone:
of fastText from the end of reading the dictionary to its last word, of truemax its train_seconds.

Runs that decide a ratio are repeated and the best counts, unless they take longer than two minutes. With --keep, the
files stay there, and a later call uses the models of fastText and their times again. The exit code is 1 if truemax
takes more than a tenth of fastText's time to its best test log-loss.
"""
import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
from scipy import sparse

from harness import fail
from losses import log_loss
from markdown import table
from peers import fasttext
from peers.worker import Failed

NAME, RIDGE = "yso-finna-en", 6
LADDER = (1, 2, 3, 4, 5, 6, 8, 10, 14, 20)
STEPS = (0.004, 0.008)  # of truemax, tried at every rung
TENTH = 10.0
LONG_SECONDS = 120.0  # longer runs are not repeated


def rows_of(path, most):
    """The first labels and the features of the first rows of an XMLRepository file; most = 0: of all."""
    with gzip.open(path, "rt") as file:
        file.readline()
        for number, line in enumerate(file):
            if most and number >= most:
                return
            labels, *words = line.rstrip("\n").split(" ")
            yield labels.split(",")[0], [int(word.partition(":")[0]) for word in words if word]


class Words:
    """The same rows for both programs: the files of words, and the judged rows as a matrix of ones with labels 0..K-1."""

    def __init__(self, data, folder, rows, test_rows):
        self.files = {part: os.path.join(folder, f"{part}.txt") for part in ("train", "test")}
        train = [row for row in rows_of(os.path.join(data, NAME, "train.txt.gz"), rows) if row[0] and row[1]]
        number = {label: k for k, label in enumerate(sorted({label for label, _ in train}, key=int))}
        seen = {feature for _, features in train for feature in features}
        test, self.unseen, self.empty = [], 0, 0
        for label, features in rows_of(os.path.join(data, NAME, "test.txt.gz"), 0):
            if test_rows and len(test) == test_rows:
                break
            if label not in number:
                self.unseen += 1
            elif not seen.intersection(features):
                self.empty += 1
            else:
                test.append((label, features))
        for part, found in (("train", train), ("test", test)):
            with open(self.files[part], "w", encoding="utf-8") as file:
                for label, features in found:
                    file.write(f"__label__{label} {' '.join(f'f{f}' for f in features)}\n")
        self.number, self.K, self.N, self.D = number, len(number), len(train), len(seen)
        self.y = np.array([number[label] for label, _ in test])
        begin = np.cumsum([0] + [len(features) for _, features in test])
        index = np.array([f for _, features in test for f in features], np.int32)
        self.x = sparse.csr_matrix((np.ones(len(index)), index, begin), (len(test), max([*seen, *index]) + 1))


def scores_of(model, classes):
    """{how: a function from rows to logarithms of probabilities, up to a constant of the row} of a model of fastText."""
    if model.loss != "ns":
        return {"": lambda x: model.scores(x, classes).astype(float)}
    # The outputs of ns are log-odds against noise, which has a class as often as the root of its count.
    noise = 0.5 * np.log(np.array(model.counts, float))

    def softmax(x, add):
        out = np.full((x.shape[0], classes), -np.inf)
        out[:, [int(label) for label in model.labels]] = model.outputs(x).astype(float) + add
        return out
    return {"outputs": lambda x: softmax(x, 0.0), "outputs and noise": lambda x: softmax(x, noise)}


class Contest:
    def __init__(self, options, words, folder):
        self.options, self.words, self.folder = options, words, folder
        self.runs = {}  # of truemax: (epochs, step) -> result

    def say(self, what):
        print(f"[{time.strftime('%H:%M:%S')}] {what}", file=sys.stderr, flush=True)

    def train_fasttext(self, loss, rate, epochs):
        """Trains, or takes the model that is there: its path and {"seconds", "whole", "load"}."""
        name = os.path.join(self.folder, f"{loss}-lr{rate:g}-epoch{epochs}-dim{self.options.dim}")
        if os.path.exists(f"{name}.json"):
            with open(f"{name}.json", encoding="utf-8") as file:
                return f"{name}.bin", json.load(file)
        return f"{name}.bin", self.time_fasttext(name, loss, rate, epochs)

    def time_fasttext(self, name, loss, rate, epochs):
        self.say(f"fastText {loss}, rate {rate:g}, {epochs} epochs")
        begin = time.monotonic()
        seconds, _ = fasttext.train(
            ["fasttext", "supervised", "-input", self.words.files["train"], "-output", name, "-loss", loss, "-lr", rate,
             "-epoch", epochs, "-dim", self.options.dim, "-thread", self.options.threads, "-minCount", 1,
             "-wordNgrams", 1, "-minn", 0, "-maxn", 0])
        took = {"seconds": seconds, "whole": time.monotonic() - begin, "load": os.getloadavg()[0]}
        with open(f"{name}.json", "w", encoding="utf-8") as file:
            json.dump(took, file)
        return took

    def judge_fasttext(self, path):
        """The lowest test log-loss of the ways to score, and that way."""
        model = fasttext.Model(path)
        model.labels = [self.words.number[label] for label in model.labels]
        found = {how: log_loss(self.words.x, self.words.y, scores, self.words.K)
                 for how, scores in scores_of(model, self.words.K).items()}
        if model.loss == "hs" and abs(found[""][1] - 1) > 1e-3:
            fail(f"{path}: the probabilities of the tree sum to {found[''][1]}")
        how = min(found, key=lambda one: found[one][0])
        return found[how][0], how

    def fasttext_runs(self):
        found = []
        for loss in self.options.losses:
            rates = self.options.softmax_rates if loss == "softmax" else self.options.rates
            for epochs in (5,) if loss == "softmax" else self.options.epochs:
                for rate in rates:
                    try:
                        path, took = self.train_fasttext(loss, rate, epochs)
                    except Failed as why:
                        print(f"fastText {loss}, rate {rate:g}, {epochs} epochs: {why}\n", flush=True)
                        continue
                    test, how = self.judge_fasttext(path)
                    self.say(f"log-loss {test:.4f} after {took['seconds']:.1f} s")
                    found.append({"loss": loss, "rate": rate, "epochs": epochs, "test": test, "how": how, **took})
        return found

    def repeat_fasttext(self, run):
        """The best time of several runs of the same settings."""
        if run["seconds"] > LONG_SECONDS:
            return
        for _ in range(self.options.repeats - 1):
            name = os.path.join(self.folder, "again")
            took = self.time_fasttext(name, run["loss"], run["rate"], run["epochs"])
            if took["seconds"] < run["seconds"]:
                run.update(took)

    def train_truemax(self, *more):
        log = os.path.join(self.folder, "run.jsonl")
        command = [self.options.program, "train", self.words.files["train"], "--test", self.words.files["test"],
                   "--format", "fasttext", "--hidden", self.options.dim, "--threads", self.options.threads,
                   "--no-eval-train", "--model", "none", "--log", log, *more]
        self.say("truemax " + " ".join(map(str, more)))
        if os.path.exists(log):
            os.remove(log)
        begin = time.monotonic()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        whole = time.monotonic() - begin
        if done.returncode != 0:
            fail(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
        with open(log, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        test = [event for event in events if event["event"] == "evaluate"][-1]["test"]
        if test["rows"] != len(self.words.y):
            fail(f"truemax judged {test['rows']} rows instead of {len(self.words.y)}")
        return {"test": test["log_loss"], "seconds": events[-1]["train_seconds"], "whole": whole,
                "load": os.getloadavg()[0],
                "config": [event for event in events if event["event"] == "chosen"][-1]["config"]}

    def rung(self, epochs, step):
        return self.train_truemax("--epochs", epochs, "--step", step, "--ridge", RIDGE)

    def climb(self, lowest):
        """Runs of more and more epochs until one is at or below the lowest log-loss of fastText."""
        for epochs in LADDER:
            for step in STEPS:
                self.runs[epochs, step] = self.rung(epochs, step)
            if min(self.runs[epochs, step]["test"] for step in STEPS) <= lowest:
                return

    def first_below(self, loss):
        """The run of the ladder that took least of those at or below a log-loss, None if there is none."""
        return min((key for key, run in self.runs.items() if run["test"] <= loss),
                   key=lambda key: self.runs[key]["seconds"], default=None)

    def repeat_truemax(self, key):
        for _ in range(self.options.repeats - 1):
            again = self.rung(*key)
            self.runs[key]["seconds"] = min(self.runs[key]["seconds"], again["seconds"])
            self.runs[key]["whole"] = min(self.runs[key]["whole"], again["whole"])


def numbers(text):
    return [float(word) for word in text.split(",")]


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--data", required=True)
    parser.add_argument("--rows", type=int, default=100000, help="training rows (default 100000)")
    parser.add_argument("--test-rows", type=int, default=20000, help="test rows judged, 0: all (default 20000)")
    parser.add_argument("--dim", type=int, default=100, help="of the vectors, for both (default 100)")
    parser.add_argument("--threads", type=int, default=2, help="for both (default 2)")
    parser.add_argument("--losses", default="hs,ns,softmax", help="of fastText (default hs,ns,softmax)")
    parser.add_argument("--rates", type=numbers, default="0.1,0.5,1", help="of hs and ns (default 0.1,0.5,1)")
    parser.add_argument("--softmax-rates", type=numbers, default="0.5", help="of softmax (default 0.5)")
    parser.add_argument("--epochs", type=lambda text: [int(word) for word in text.split(",")], default="5,25",
                        help="of hs and ns (default 5,25)")
    parser.add_argument("--repeats", type=int, default=3, help="of the runs whose time is judged (default 3)")
    parser.add_argument("--no-search", action="store_true", help="leave the run of truemax with its search out")
    parser.add_argument("--keep", metavar="FOLDER", help="where the files stay; fastText's runs there are not repeated")
    options = parser.parse_args(arguments)
    options.losses = options.losses.split(",")
    for loss in options.losses:
        if loss not in ("hs", "ns", "softmax"):
            fail(f"there is no loss '{loss}'; there are hs, ns, softmax")
    if options.repeats < 1:
        fail("--repeats takes a whole number from 1 up")
    return options


def load_of(run):
    return f"{run['load']:.1f}" if "load" in run else "-"


def show_runs(contest, runs, searched):
    rows = []
    for run in sorted(runs, key=lambda run: run["test"]):
        key = contest.first_below(run["test"])
        ours = contest.runs[key] if key else None
        rows.append((f"fastText {run['loss']}" + (f", {run['how']}" if run["how"] else ""), f"rate {run['rate']:g}",
                     run["epochs"], f"{run['test']:.4f}", f"{run['seconds']:.1f}", f"{run['whole']:.1f}", load_of(run),
                     f"{ours['seconds']:.2f}" if ours else "-",
                     f"{run['seconds'] / ours['seconds']:.1f}" if ours else "not reached"))
    for (epochs, step), run in contest.runs.items():
        rows.append(("truemax", f"step {step:g}, ridge {RIDGE}", epochs, f"{run['test']:.4f}", f"{run['seconds']:.2f}",
                     f"{run['whole']:.1f}", load_of(run), "", ""))
    if searched:
        config = searched["config"]
        rows.append(("truemax, search included", f"step {config['step']:g}, ridge {config['ridge']:.3g}", config["epochs"],
                     f"{searched['test']:.4f}", f"{searched['seconds']:.1f}", f"{searched['whole']:.1f}",
                     load_of(searched), "", ""))
    print(table(("program", "settings", "epochs", "test log-loss", "seconds of training", "whole command", "load",
                 "truemax, seconds to this log-loss", "times faster"), rows), flush=True)


def main(arguments=None):
    options = options_of(arguments)
    if fasttext.needs():
        print("skipped: fastText is not installed (Debian: apt-get install fasttext)")
        return 0
    for part in ("train", "test"):
        path = os.path.join(options.data, NAME, f"{part}.txt.gz")
        if not os.path.exists(path):
            print(f"skipped: no {path}")
            return 0
    with tempfile.TemporaryDirectory(prefix="truemax-fasttext-") as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        words = Words(options.data, folder, options.rows, options.test_rows)
        contest = Contest(options, words, folder)
        print(f"{NAME}: {words.N:,} training rows, {words.D:,} words, {words.K:,} classes, dimension {options.dim}, "
              f"{options.threads} threads; {len(words.y):,} test rows judged, {words.unseen:,} before them left out for a "
              f"label and {words.empty:,} for words that training never saw\n", flush=True)
        runs = contest.fasttext_runs()
        best = min(runs, key=lambda run: run["test"])
        contest.repeat_fasttext(best)
        contest.climb(best["test"])
        for key in {contest.first_below(run["test"]) for run in runs} - {None}:
            contest.repeat_truemax(key)
        searched = None if options.no_search else contest.train_truemax()
    show_runs(contest, runs, searched)
    key = contest.first_below(best["test"])
    met = key is not None and TENTH * contest.runs[key]["seconds"] <= best["seconds"]
    print(f"\nfastText's best test log-loss is {best['test']:.4f} ({best['loss']}, {best['seconds']:.1f} s); truemax "
          + ("does not reach it" if key is None else
             f"is at {contest.runs[key]['test']:.4f} after {contest.runs[key]['seconds']:.2f} s, "
             f"{best['seconds'] / contest.runs[key]['seconds']:.1f} times faster")
          + f" (promised: {TENTH:g}): {'kept' if met else 'MISSED'}")
    print(f"Rates tried for softmax: {', '.join(f'{rate:g}' for rate in options.softmax_rates)}; for hs and ns: "
          f"{', '.join(f'{rate:g}' for rate in options.rates)}. \"load\" is that of the machine at the end of a run: above "
          f"{options.threads}, other programs were running, and times are for shape only.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
