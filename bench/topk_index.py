#!/usr/bin/python3
"""Top-k by an index beside exact search: rows/s, recall, time to build, memory as multiples of W.

    bench/topk_index.py PROGRAM [--classes 1000000] [--hidden 128] [--rows 100000] [--kinds groups,norms,random,trained]

Models of K classes x h numbers:
  groups   classes in groups of 100; a row is near a class
  norms    the same, and the lengths of classes differ: log-normal, deviation 0.2
  random   no groups at all, the hardest case
  trained  by truemax on generated rows: K classes, 4 K rows, K features of which a row has 10

Checks the index against exact search on rows of the data first. Then times both, interleaved, and takes the best of each:
the time of many rows less that of one row, which is what loading takes. Both use all cores and the program's own batches.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

TOP = 5
SCRIPT = os.path.abspath(__file__)


def write_model(path, weight, intercept):
    """A linear model, which scores dense rows as learnt features are scored."""
    classes, columns = weight.shape
    info = {"format_version": 1, "truemax_version": "0", "classes": [str(k) for k in range(classes)],
            "class_counts": [1.0] * classes, "method": "implicit", "options": {}, "data": {"format": "npy"},
            "preprocessing": {"labels": "first", "max-features": 0, "hash-features": "none", "normalize": "none"},
            "features": {"file_features": columns, "declared": True, "words": []}}
    at = 4 * weight.size
    header = {"__metadata__": {"truemax": json.dumps(info)},
              "weight": {"dtype": "F32", "shape": list(weight.shape), "data_offsets": [0, at]},
              "intercept": {"dtype": "F32", "shape": [classes], "data_offsets": [at, at + 4 * classes]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        weight.astype("<f4").tofile(file)
        intercept.astype("<f4").tofile(file)


def make(kind, classes, hidden, rows, program):
    """Writes m.safetensors; returns the name of the rows."""
    if kind == "trained":
        run(program, "generate", "train.txt", "--rows", 4 * classes, "--classes", classes, "--features", classes,
            "--nonzeros", 10, "--test", "rows.txt", "--test-rows", rows)
        run(program, "train", "train.txt", "--hidden", hidden, "--step", 0.008, "--ridge", 6, "--epochs", 4, "--model",
            "m.safetensors", "--log", "none", "--eval", "sampled", "--eval-rows", 300, "--eval-classes", 2000)
        return "rows.txt"
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((classes, hidden), dtype=np.float32)
    if kind == "random":
        weight = noise
    else:
        centres = rng.standard_normal((max(1, classes // 100), hidden), dtype=np.float32)
        weight = centres[rng.integers(0, len(centres), classes)] + 0.5 * noise
    weight *= 2 / np.sqrt(hidden) * rng.lognormal(0, 0.2 if kind == "norms" else 0.05, (classes, 1)).astype(np.float32)
    write_model("m.safetensors", weight, -0.5 * np.log(1 + 100 * rng.random(classes)))
    near = weight[rng.integers(0, classes, rows)]
    x = 12 * near / np.linalg.norm(near, axis=1, keepdims=True)
    np.save("rows.npy", (x + 3.6 / np.sqrt(hidden) * rng.standard_normal(x.shape)).astype(np.float32))
    return "rows.npy"


def run(program, *arguments, out=subprocess.DEVNULL):
    """Seconds, MB at most, standard error."""
    start = time.monotonic()
    process = subprocess.Popen([program, *map(str, arguments)], stdout=out, stderr=subprocess.PIPE, text=True)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"truemax {' '.join(map(str, arguments))}\n{said}")
    return time.monotonic() - start, usage.ru_maxrss * 1024, said


def predictions(program, rows, count, *more):
    with open("out.txt", "w+", encoding="utf-8") as out:
        _, _, said = run(program, "predict", "m.safetensors", rows, "--top", TOP, "--max-rows", count, *more, out=out)
        out.seek(0)
        lines = [line.rstrip("\n").split("\t") for line in out]
    return [dict(zip(line[::2], map(float, line[1::2]))) for line in lines], said


def check(program, rows, count):
    exact, _ = predictions(program, rows, count)
    found, _ = predictions(program, rows, count, "--index", "m.index")
    recall = np.mean([len(a.keys() & b.keys()) / TOP for a, b in zip(exact, found)])
    apart = [abs(np.log(b[k] / a[k])) for a, b in zip(exact, found) for k in a.keys() & b.keys() if a[k] > 1e-200]
    assert all(0 <= p <= 1 for row in found for p in row.values())
    return recall, np.median(apart), np.quantile(apart, 0.95)


def rate(program, rows, count, *more):
    few, _, _ = run(program, "predict", "m.safetensors", rows, "--top", TOP, "--max-rows", 1, *more)
    many, memory, _ = run(program, "predict", "m.safetensors", rows, "--top", TOP, "--max-rows", count, *more)
    return (count - 1) / max(many - few, 1e-9), memory


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("program")
    arguments.add_argument("--classes", type=int, default=1_000_000)
    arguments.add_argument("--hidden", type=int, default=128)
    arguments.add_argument("--rows", type=int, default=100_000)
    arguments.add_argument("--exact-rows", type=int, default=2048)
    arguments.add_argument("--times", type=int, default=3)
    arguments.add_argument("--recall", type=float, default=0.99)
    arguments.add_argument("--kinds", default="groups,norms,random")
    arguments.add_argument("--make", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    program = os.path.abspath(given.program)
    if given.make:
        print(make(given.make, given.classes, given.hidden, given.rows, program))
        return
    size = 4 * given.classes * given.hidden
    print(f"K = {given.classes}, h = {given.hidden}, top {TOP}, recall asked for {given.recall}, load "
          f"{os.getloadavg()[0]:.1f}, best of {given.times}\n")
    print("| model | cells of a row | recall | exact rows/s | index rows/s | ratio | build s | build memory / W | "
          "predict memory / W | log-probability off, median, 95% |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in given.kinds.split(","):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            # By another process: the system counts this one's memory as that of the programs it starts.
            rows = subprocess.run([sys.executable, SCRIPT, program, "--make", kind, "--classes", str(given.classes),
                                   "--hidden", str(given.hidden), "--rows", str(given.rows)], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.split()[-1]
            with open("index.json", "w+", encoding="utf-8") as out:
                seconds, build_memory, _ = run(program, "index", "m.safetensors", "--rows", rows, "--recall", given.recall,
                                               "--json", out=out)
                out.seek(0)
                about = json.load(out)
            recall, median, high = check(program, rows, min(1024, given.rows))
            exact, by_index, memory = [], [], 0
            for _ in range(given.times):
                exact.append(rate(program, rows, min(given.exact_rows, given.rows))[0])
                speed, memory = rate(program, rows, given.rows, "--index", "m.index")
                by_index.append(speed)
            print(f"| {kind} | {about['probes']} of {about['cells']} | {recall:.4f} | {max(exact):.0f} | "
                  f"{max(by_index):.0f} | {max(by_index) / max(exact):.1f} | {seconds:.0f} | {build_memory / size:.2f} | "
                  f"{memory / size:.2f} | {median:.2g}, {high:.2g} |", flush=True)
            os.chdir("/")


if __name__ == "__main__":
    main()
