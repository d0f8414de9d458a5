#!/usr/bin/python3
"""Skip-gram on wikitext2: exact log-loss of the words around a word of held-out text, truemax beside fastText's negative
sampling.

    bench/skipgram.py PROGRAM --data FOLDER [--dim 100] [--threads 2] [--epochs 5] [--samplings 1,1e-4]

PROGRAM is truemax, FOLDER has wikitext2/wiki.{train,valid,test}.tokens.gz. Words are as truemax reads plain text
(docs/formats.md): the end of a line is <eos>, unknown words are <unk>, and neighbours run across line ends. The
log-loss is the mean of -log p(neighbour | word) over all words and all neighbours within five on either side, each pair
alike, with p a softmax over all words.

fastText trains skip-gram without n-grams of characters, with and without leaving frequent words out (-t 1e-4 is its
default, -t 1 leaves none out). Negative sampling learns log-odds against noise, which draws a word by the root of its
count, so three figures are shown: its scores z as they are, z + log(count)/2, and a z + b log(count) with a and b fitted
on validation text. truemax trains `--encoder skipgram`; one that does not have it is reported as not measured.
"""
import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter

import numpy as np
from scipy import optimize, sparse

from markdown import table
from peers import fasttext
from peers.worker import Failed

WINDOW = 5
CHUNK = 500  # distinct words scored at a time
FIT_TOKENS = 3000  # of the validation text, for a and b


def tokens_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [word for line in file for word in line.split() + ["<eos>"]]


def pairs_of(ids, kinds, window=WINDOW):
    """CSR [kinds, kinds]: how often a word (row) has another within the window."""
    ids = np.asarray(ids)
    centres, others = [], []
    for apart in range(1, min(window, len(ids) - 1) + 1):
        centres += [ids[:-apart], ids[apart:]]
        others += [ids[apart:], ids[:-apart]]
    counts = np.ones(sum(map(len, centres)))
    return sparse.coo_matrix((counts, (np.concatenate(centres), np.concatenate(others))), (kinds, kinds)).tocsr()


def log_loss(pairs, scores):
    """Mean of -log softmax over the pairs, in float64. scores: a function from the numbers of words to [n, kinds]."""
    words = np.flatnonzero(np.diff(pairs.indptr))
    total = 0.0
    for begin in range(0, len(words), CHUNK):
        some = words[begin:begin + CHUNK]
        z = np.asarray(scores(some), float)
        count = pairs[some]
        top = z.max(axis=1)
        log_sum = np.log(np.exp(z - top[:, None]).sum(axis=1)) + top
        total += np.asarray(count.sum(axis=1)).ravel() @ log_sum - count.multiply(z).sum()
    return total / pairs.sum()


class Text:
    """The words of the training text numbered by first occurrence, and the pairs of the others."""

    def __init__(self, files):
        self.train = tokens_of(files["train"])
        self.number = {}
        for word in self.train:
            self.number.setdefault(word, len(self.number))
        self.number.setdefault("<unk>", len(self.number))
        self.kinds = len(self.number)
        found = Counter(self.train)
        self.count = np.array([max(1, found[word]) for word in self.number], float)
        valid, test = (self.ids(tokens_of(files[part])) for part in ("valid", "test"))
        self.fit_pairs = pairs_of(valid[:FIT_TOKENS], self.kinds)
        self.pairs = pairs_of(test, self.kinds)

    def ids(self, tokens):
        unknown = self.number["<unk>"]
        return np.array([self.number.get(word, unknown) for word in tokens])


class Scores:
    """z_w = a u_w.v_c + b log(count_w) from the vectors of a model file of fastText."""

    def __init__(self, path, text):
        model = fasttext.Model(path)
        at = np.array([model.words.get(word, -1) for word in text.number])
        # A word that it does not know (<unk>, if the text has none) has no vector: all scores are equal.
        of = lambda matrix: np.where(at[:, None] >= 0, matrix[at], 0).astype(float)  # noqa: E731
        self.input, self.output, self.log_count = of(model.input), of(model.output), np.log(text.count)

    def __call__(self, a, b):
        return lambda words: a * (self.input[words] @ self.output.T) + b * self.log_count

    def fitted(self, pairs):
        """The a and b with the lowest log-loss on these pairs."""
        found = optimize.minimize(lambda ab: log_loss(pairs, self(*ab)), (1.0, 0.5), method="Nelder-Mead",
                                  options={"xatol": 1e-3, "fatol": 1e-5, "maxfev": 80})
        return tuple(found.x)


def fasttext_rows(options, text, folder):
    if fasttext.needs():
        print("skipped: fastText is not installed (Debian: apt-get install fasttext)")
        return []
    # One line, so that its contexts run across line ends too; it breaks it every 1,024 words.
    path, rows = os.path.join(folder, "text.txt"), []
    with open(path, "w", encoding="utf-8") as file:
        file.write(" ".join(text.train))
    for sampling in options.samplings:
        model = os.path.join(folder, "skipgram")
        try:
            seconds, _ = fasttext.train(
                ["fasttext", "skipgram", "-input", path, "-output", model, "-minn", 0, "-maxn", 0, "-ws", WINDOW,
                 "-loss", "ns", "-minCount", 1, "-dim", options.dim, "-thread", options.threads, "-epoch", options.epochs,
                 "-lr", options.rate, "-t", sampling])
        except Failed as why:
            print(f"fastText, -t {sampling:g}: {why}")
            continue
        scores = Scores(f"{model}.bin", text)
        a, b = scores.fitted(text.fit_pairs)
        for way, (one, two) in (("z", (1, 0)), ("z + log(count)/2", (1, 0.5)),
                                (f"{a:.2f} z + {b:.2f} log(count)", (a, b))):
            rows.append(("fastText ns", f"-t {sampling:g}, {options.epochs} epochs", way,
                         f"{log_loss(text.pairs, scores(one, two)):.4f}", f"{seconds:.1f}"))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    return rows


def truemax_rows(options, files, folder):
    """`train` with its defaults, judged by `evaluate` on the test text."""
    model, log = os.path.join(folder, "m.safetensors"), os.path.join(folder, "run.jsonl")
    command = [options.program, "train", files["train"], "--format", "text", "--encoder", "skipgram", "--hidden", options.dim,
               "--threads", options.threads, "--valid", files["valid"], "--no-eval-train", "--model", model, "--log", log]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return [("truemax", "--encoder skipgram", f"not measured: {done.stderr.strip().splitlines()[-1]}", "-", "-")]
    said = subprocess.run([options.program, "evaluate", model, files["test"], "--format", "text", "--json"],
                          capture_output=True, text=True, check=True)
    with open(log, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    chosen = [event for event in events if event["event"] == "chosen"][-1]
    config = chosen["config"]
    return [("truemax", f"step {config['step']:g}, ridge {config['ridge']:.3g}, {config['epochs']} epochs",
             f"softmax; {chosen.get('seconds', 0):.1f} s of the time are trials", f"{json.loads(said.stdout)['log_loss']:.4f}",
             f"{events[-1]['train_seconds']:.1f}")]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--data", required=True)
    parser.add_argument("--dim", type=int, default=100, help="of the vectors, for both (default 100)")
    parser.add_argument("--threads", type=int, default=2, help="for both (default 2)")
    parser.add_argument("--epochs", type=int, default=5, help="of fastText (default 5, as is its own)")
    parser.add_argument("--rate", type=float, default=0.05, help="of fastText (default 0.05, as is its own)")
    parser.add_argument("--samplings", default="1,1e-4", type=lambda text: [float(word) for word in text.split(",")],
                        help="values of fastText's -t (default 1,1e-4)")
    options = parser.parse_args(arguments)
    files = {part: os.path.join(options.data, "wikitext2", f"wiki.{part}.tokens.gz") for part in ("train", "valid", "test")}
    for path in files.values():
        if not os.path.exists(path):
            print(f"skipped: no {path}")
            return
    load, begin = os.getloadavg()[0], time.monotonic()
    text = Text(files)
    frequencies = log_loss(text.pairs, lambda words: np.tile(np.log(text.count), (len(words), 1)))
    with tempfile.TemporaryDirectory(prefix="truemax-skipgram-") as folder:
        rows = fasttext_rows(options, text, folder) + truemax_rows(options, files, folder)
    print(f"wikitext2: {len(text.train):,} words of {text.kinds:,} kinds; {text.pairs.sum():,.0f} pairs of the test text; "
          f"dimension {options.dim}, {options.threads} threads\n")
    print(table(("program", "settings", "scores", "test log-loss", "seconds of training"),
                [("word frequencies", "", "log(count)", f"{frequencies:.4f}", "-"), *rows], (0, 1, 2)))
    print(f"\n{(time.monotonic() - begin) / 60:.1f} minutes; load of the machine {load:.1f} before")


if __name__ == "__main__":
    main()
