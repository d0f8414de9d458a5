#!/usr/bin/python3
"""A model larger than one process may hold: 2,000,000 generated classes, W of 6 GB, on 4 ranks of 2 GB each.

Generates, trains, saves, evaluates (sampled) and predicts, each on 4 ranks whose address space is limited (RLIMIT_AS),
so that a rank that needs more fails. Prints the peak resident memory of every rank. Some rows of the result are
compared with NumPy on the saved file. Takes some minutes, 9 GB of memory and 13 GB of disk; ctest does not run it.

    tests/big_ranks.py [--folder DIR] [--classes 2000000] [--features 750] [--rows 2200000] [--ranks 4]
                       [--limit 2e9] [--split-model] [--keep]
"""
import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

from ranks_support import PROGRAM_OF_RANKS, mpirun
from support import PROGRAM


def as_rank(folder, limit, command):
    """One rank: runs the program under the limit and notes its peak."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        os.execv(command[0], command)
    _, status, usage = os.wait4(child, 0)
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    with open(os.path.join(folder, f"peak-{rank}"), "w", encoding="utf-8") as file:
        file.write(str(usage.ru_maxrss * 1024))
    return os.waitstatus_to_exitcode(status) & 0xFF


class Check:
    def __init__(self, options):
        self.options = options
        self.folder = options.folder
        self.rows = []

    def run(self, name, *arguments):
        """Runs truemax-mpi on limited ranks; what it said."""
        o = self.options
        words = [*mpirun(o.ranks), sys.executable, os.path.abspath(__file__), "--as-rank", self.folder,
                 str(int(o.limit)), PROGRAM_OF_RANKS, *map(str, arguments), "--memory-limit", str(int(o.limit))]
        begin = time.monotonic()
        result = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - begin
        if result.returncode != 0:
            sys.exit(f"{name} failed with {result.returncode}:\n{result.stdout}\n{result.stderr}")
        peaks = []
        for rank in range(o.ranks):
            path = os.path.join(self.folder, f"peak-{rank}")
            with open(path, encoding="utf-8") as file:
                peaks.append(int(file.read()))
            os.remove(path)
        print(f"{name:10} {seconds:7.1f} s   peak of each rank: " +
              ", ".join(f"{peak / 1e6:.0f} MB" for peak in peaks), flush=True)
        return result.stdout

    def all(self):
        o = self.options
        weights = o.classes * o.features * 4
        print(f"W: {o.classes:,} classes x {o.features} features = {weights / 1e9:.2f} GB; {o.ranks} ranks of "
              f"{o.limit / 1e9:.2f} GB", flush=True)
        subprocess.run([PROGRAM, "generate", "train.txt", "--rows", str(o.rows), "--classes", str(o.classes),
                        "--features", str(o.features), "--nonzeros", "3", "--skew", "0.3", "--test", "test.txt",
                        "--test-rows", "2000"], cwd=self.folder, check=True)
        said = self.run("train", "train", "train.txt", "--test", "test.txt", "--method", "prox", "--step", 1, "--epochs", 1,
                        "--no-eval-train", "--eval", "sampled", "--eval-rows", 500, "--model", "m.safetensors",
                        *(["--split-model"] if o.split_model else []))
        print("\n".join("  " + line for line in said.splitlines() if line.strip()))
        sampled = json.loads(self.run("evaluate", "evaluate", "m.safetensors", "test.txt", "--eval", "sampled",
                                      "--eval-rows", 500, "--json"))
        print(f"  log-loss {sampled['log_loss']:.4f} of the sampled rows; log K = {math.log(o.classes):.4f}")
        if not sampled["log_loss"] < math.log(o.classes):
            sys.exit("nothing was learnt")
        predicted = self.run("predict", "predict", "m.safetensors", "test.txt", "--top", 5, "--max-rows", 500)
        lines = [line.split("\t") for line in predicted.splitlines()]
        if len(lines) != 500:
            sys.exit(f"{len(lines)} rows were predicted")
        print("  first row: " + " ".join(lines[0]))
        self.compare(lines)

    def parts(self):
        """(names, weights) of each file of the model, mapped and not read."""
        path = os.path.join(self.folder, "m.safetensors")
        files = [path]
        if self.options.split_model:
            with open(path + ".index.json", encoding="utf-8") as file:
                found = json.load(file)["weight_map"]
            files = [os.path.join(self.folder, name) for name in dict.fromkeys(found.values())]
        for name in files:
            with open(name, "rb") as file:
                length = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(length))
            about = json.loads(header.pop("__metadata__")["truemax"])
            (tensor, place), = [(key, value) for key, value in header.items() if key.startswith("weight")]
            begin, _ = place["data_offsets"]
            yield about["classes"], np.memmap(name, "<f4", "r", 8 + length + begin, tuple(place["shape"]))

    def compare(self, lines, count=5):
        """The predictions of the first rows with NumPy, over all classes of the files."""
        rows = np.zeros((count, self.options.features), np.float64)
        with open(os.path.join(self.folder, "test.txt"), encoding="utf-8") as file:
            next(file)
            for row in rows:
                for pair in next(file).split()[1:]:
                    feature, value = pair.split(":")
                    row[int(feature)] = np.float32(value)
        names, scores = [], []
        for classes, weight in self.parts():
            names += classes
            for first in range(0, len(classes), 50000):
                scores.append(np.asarray(weight[first:first + 50000], np.float64) @ rows.T)
        scores = np.concatenate(scores)
        if len(names) != self.options.classes:
            sys.exit(f"the file has {len(names)} classes")
        highest = scores.max(axis=0)
        log_sum = highest + np.log(np.exp(scores - highest).sum(axis=0))
        number = {name: at for at, name in enumerate(names)}
        worst = 0
        for row, line in enumerate(lines[:count]):
            if scores[number[line[0]], row] < highest[row] - 1e-6:
                sys.exit(f"row {row}: {line[0]} is not the best class")
            for name, probability in zip(line[::2], line[1::2]):
                expected = math.exp(scores[number[name], row] - log_sum[row])
                worst = max(worst, abs(float(probability) / expected - 1))
        print(f"  NumPy on the saved file agrees to {worst:.1e} relative")
        if not worst < 1e-5:
            sys.exit("the predictions are not those of the file")


def main():
    if sys.argv[1:2] == ["--as-rank"]:
        return as_rank(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder")
    parser.add_argument("--classes", type=int, default=2000000)
    parser.add_argument("--features", type=int, default=750)
    parser.add_argument("--rows", type=int, default=2200000)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--limit", type=float, default=2e9, help="bytes of each rank")
    parser.add_argument("--split-model", action="store_true")
    parser.add_argument("--keep", action="store_true", help="leave the files")
    options = parser.parse_args()
    made = options.folder is None
    options.folder = os.path.abspath(options.folder or tempfile.mkdtemp(prefix="truemax-big-"))
    os.makedirs(options.folder, exist_ok=True)
    try:
        Check(options).all()
    finally:
        if made and not options.keep:
            shutil.rmtree(options.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
