#!/usr/bin/env python3
"""Checks that two builds of truemax compute the same, by short runs of every method, draw and kind of step.

    bench/same_results.py OLD NEW

Prints a hash of each run's weights and how many runs differ; the exit code is 1 if one does. Only the tensors of the
model file are compared, not its metadata, which names the version. For changes that must not change results: build the
old commit beside the new one.
"""
import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile


def weights_hash(path):
    """Hash of all tensors of a safetensors file, without its metadata."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        total = hashlib.sha256()
        for name in sorted(key for key in header if key != "__metadata__"):
            begin, end = header[name]["data_offsets"]
            file.seek(start + begin)
            total.update(name.encode() + file.read(end - begin))
    return total.hexdigest()[:16]


def run(program, data, options, folder):
    """The hash of a run's weights, "diverged" or the first words of its error."""
    model = os.path.join(folder, "model.safetensors")
    for name in os.listdir(folder):
        if name.startswith("model"):
            os.unlink(os.path.join(folder, name))
    done = subprocess.run([program, "train", data, *options, "--model", model, "--log", "none", "--quiet"],
                          capture_output=True, text=True, check=False)
    if done.returncode == 2:
        return "refused"
    found = [name for name in os.listdir(folder) if name.startswith("model") and name.endswith(".safetensors")]
    code = "" if done.returncode == 0 else f" (exit code {done.returncode})"
    return weights_hash(os.path.join(folder, found[0])) + code if found else f"no model{code}"


METHODS = ["implicit", "prox", "scent", "umax", "vanilla", "raman", "composition", "sox", "ove", "nce", "importance",
           "bsgd", "softplus", "exact", "adam", "lbfgs"]
DRAWS = ["uniform", "uniform-skip", "all", "frequency", "blocks", "head-blocks", "active"]


def cases():
    """Options of every run: methods by draws, and methods by kinds of steps."""
    for method, draw in itertools.product(METHODS, DRAWS):
        yield ["--method", method, "--draw", draw, "--classes-per-step", "5"]
    kinds = [["--ridge", "0.5"], ["--ridge", "0.5", "--intercept"], ["--intercept"],
             ["--ridge", "0.5", "--intercept", "--ridge-intercept"], ["--rows-per-step", "7"],
             ["--rows-per-step", "7", "--ridge", "0.5", "--intercept"], ["--visit", "shuffle", "--schedule", "linear"],
             ["--valid-share", "0.2", "--patience", "1"], ["--step", "1000"], ["--step", "1e9"], ["--steps", "777"],
             ["--valid-share", "0.3", "--labels", "all", "--visit", "file"]]
    for method, kind, classes in itertools.product(METHODS, kinds, ("1", "16")):
        yield ["--method", method, "--classes-per-step", classes, *kind]
    for draw, kind in itertools.product(("blocks", "head-blocks"), kinds):
        for threads in ("1", "2"):
            yield ["--method", "prox", "--draw", draw, "--classes-per-step", "32", "--head", "16",
                   "--threads", threads, *kind]
    yield from (["--seed", seed] for seed in "123")
    yield ["--target", "train", "--epochs", "3"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--rows", default="900")
    told = parser.parse_args()
    differ = runs = 0
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.txt")
        subprocess.run([told.old, "generate", data, "--rows", told.rows, "--classes", "70", "--features", "120"],
                       check=True, stdout=subprocess.DEVNULL)
        for options in cases():
            if "--method" in options and "--step" not in options:
                options = [*options, "--step", "3"]
            if "--method" in options and "--steps" not in options:
                options = [*options, "--epochs", "2"]
            before, after = (run(program, data, options, folder) for program in (told.old, told.new))
            runs += 1
            differ += before != after
            mark = "" if before == after else f"  DIFFERS: {after}"
            print(f"{before:34} {' '.join(options)}{mark}", flush=True)
    print(f"{runs} runs, {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
