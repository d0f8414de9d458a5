#!/usr/bin/env python3
"""Data larger than memory: converts and trains on a generated text file under a limit on the address space.

    tests/big_stream.py [--gigabytes 4] [--limit-gb 2] [--folder FOLDER] [--epochs 1]

Generates the text (4 GB by default), converts it and trains with --stream, both under `ulimit -v` (2 GB), then
trains the same text in memory without a limit. Prints seconds, memory and both test log-losses; fails unless the
streamed one is within 2% of the other. With --folder, files are kept there and its text is used again. Not run by
ctest: it takes a quarter of an hour on two idle cores, and 7 GB of disk.
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from support import PROGRAM  # noqa: E402

BYTES_PER_ROW = 451  # of 40 features with six digits


def run(words, folder, limit=0):
    """Runs the program; seconds, the largest resident size in MB, and what it printed."""
    def limited():
        if limit > 0:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print("$", "ulimit -v", limit >> 10, ";" if limit else "", "truemax", *words, flush=True)
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen([PROGRAM, *map(str, words)], cwd=folder, stdout=out, preexec_fn=limited)
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        said = out.read()
    if status != 0:
        sys.exit(f"truemax {words[0]} failed with status {status}\n{said}")
    seconds = time.monotonic() - started
    print(said + f"  {seconds:.0f} s, {usage.ru_maxrss >> 10} MB resident at most\n", flush=True)
    return seconds, usage.ru_maxrss >> 10, said


def test_loss(folder, log):
    with open(os.path.join(folder, log), encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    return [event for event in events if event["event"] == "evaluate"][-1]["test"]["log_loss"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--limit-gb", type=float, default=2)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--epochs", type=int, default=1)
    options = parser.parse_args()
    rows = int(options.gigabytes * 2**30 / BYTES_PER_ROW)
    limit = int(options.limit_gb * 2**30)
    with tempfile.TemporaryDirectory(prefix="truemax-big-") as own:
        folder = options.folder or own
        if not os.path.exists(os.path.join(folder, "big.txt")):
            run(["generate", "big.txt", "--rows", rows, "--features", 20000, "--classes", 1000, "--nonzeros", 40,
                 "--separability", 0.3, "--test", "test.txt", "--test-rows", 20000], folder)
        size = os.path.getsize(os.path.join(folder, "big.txt"))
        print(f"{size / 2**30:.2f} GB of text\n", flush=True)
        # One class a step, the default, has more noise: two orders of the same rows would differ by more.
        how = ["--method", "prox", "--draw", "head-blocks", "--classes-per-step", 32, "--step", 3, "--schedule", "linear",
               "--visit", "shuffle", "--epochs", options.epochs, "--no-eval-train", "--test", "test.txt", "--normalize", "l2"]
        convert, _, _ = run(["convert", "big.txt", "big.cache"], folder, limit)
        cache = os.path.getsize(os.path.join(folder, "big.cache"))
        stream, _, _ = run(["train", "big.cache", "--stream", *how, "--model", "s.safetensors", "--log", "s.jsonl"],
                           folder, limit)
        memory, _, _ = run(["train", "big.txt", *how, "--model", "m.safetensors", "--log", "m.jsonl"], folder)
        streamed, in_memory = test_loss(folder, "s.jsonl"), test_loss(folder, "m.jsonl")
    print(f"text {size / 2**30:.2f} GB, cache {cache / 2**30:.2f} GB, limit {options.limit_gb:g} GB")
    print(f"convert {convert:.0f} s ({size / 2**20 / convert:.0f} MB/s of text), --stream {stream:.0f} s, "
          f"in memory {memory:.0f} s")
    print(f"test log-loss: --stream {streamed:.5f}, in memory {in_memory:.5f}, ratio {streamed / in_memory:.4f}")
    if size < options.gigabytes * 1e9 or not abs(streamed / in_memory - 1) < 0.02:
        sys.exit("not within 2%, or the text is too small")


if __name__ == "__main__":
    main()
