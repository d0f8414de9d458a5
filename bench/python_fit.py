"""SoftmaxClassifier().fit beside `truemax train` on the same rows: bits, time, memory.

    bench/python_fit.py [--sets bibtex,delicious,yso-finna-en] [--rounds 3] [-- OPTIONS of truemax train]

Rows are those of the file, first label, at most 100,000. Every fit and every run of the program is a process of its own,
in turns. Time: fit() as a whole, beside the training time that the program logs (trials and fit, without reading and
evaluation of its own). Memory: the growth of the resident set during fit(), beside the program's peak less what it holds
once it has read the file. Needs ./dev python.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from harness import DATA, ROOT
from tables import show

MOST_ROWS = 100000
LIMITS = {"seconds": 1.1, "memory": 1.2}
PROGRAM = os.environ.get("TRUEMAX", os.path.join(ROOT, "build", "release", "truemax"))
PACKAGE = os.environ.get("TRUEMAX_PACKAGE", os.path.join(ROOT, "build", "python"))

FIT = """
import json, sys, time
import numpy as np
from scipy import sparse
import truemax
from truemax import SoftmaxClassifier

folder, model, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
part = lambda name: np.load(f"{folder}/{name}.npy")
X = sparse.csr_matrix((part("value"), part("index"), part("begin")), shape=tuple(part("shape")))
y = part("label")
estimator = SoftmaxClassifier(**options)
SoftmaxClassifier(method="implicit", epochs=1).fit(np.eye(3), [0, 1, 2])  # imports and the library's own pages

def resident(what):
    with open("/proc/self/status") as file:
        return int(next(line for line in file if line.startswith(what)).split()[1])

before = resident("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak starts anew
began = time.perf_counter()
estimator.fit(X, y)
seconds = time.perf_counter() - began
print(json.dumps({"seconds": seconds, "trained": estimator.train_seconds_, "kB": resident("VmHWM") - before}))
estimator.save(model)
"""


def write_rows(path, folder):
    """The rows of an XMLRepository file as .npy arrays, first label, float32."""
    import gzip
    index, value, begin, label = [], [], [0], []
    with gzip.open(path, "rt") as file:
        features = int(file.readline().split()[1])
        for number, line in enumerate(file):
            if number == MOST_ROWS:
                break
            first, _, rest = line.rstrip("\n").partition(" ")
            if not first:
                continue
            label.append(int(first.split(",")[0]))
            for word in rest.split():
                feature, _, text = word.partition(":")
                index.append(int(feature))
                value.append(float(text))
            begin.append(len(index))
    for name, array in (("index", np.array(index, np.int32)), ("value", np.array(value, np.float32)),
                        ("begin", np.array(begin, np.int32)), ("label", np.array(label)),
                        ("shape", np.array([len(label), features]))):
        np.save(os.path.join(folder, name), array)


def run_python(folder, model, options):
    done = subprocess.run([sys.executable, "-c", FIT, folder, model, json.dumps(options)], check=True,
                          stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": PACKAGE})
    return json.loads(done.stdout.splitlines()[-1])


def run_program(path, model, words):
    """The program's own training time, and its peak less what it holds when the log begins."""
    log = model + ".jsonl"
    command = [PROGRAM, "train", path, "--max-rows", str(MOST_ROWS), "--model", model, "--log", log, "--quiet", *words]
    process = subprocess.Popen(command)
    held = peak = 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as file:
                text = file.read()
            now = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines() if line.startswith("Vm")}
            if not held and os.path.exists(log + ".part") and os.path.getsize(log + ".part"):
                held = now["VmRSS"]
            peak = max(peak, now.get("VmHWM", 0))
        except (OSError, ValueError):
            pass
        time.sleep(0.002)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    with open(log, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    return {"seconds": events[-1]["train_seconds"], "kB": peak - held, "peak": peak, "held": held}


def weights(path):
    """The bytes of all tensors; the metadata name the format of the data, which differs."""
    with open(path, "rb") as file:
        raw = file.read()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:8 + size])
    checks = json.loads(header.pop("__metadata__")["truemax"])["checksums"]
    return checks, raw[8 + size:]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sets", default="bibtex,delicious,yso-finna-en")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("options", nargs="*", help="options of `truemax train`, after --")
    given = arguments.parse_args()
    words = given.options
    options = {name.lstrip("-").replace("-", "_"): json.loads(value) if value[0].isdigit() else value
               for name, value in zip(words[::2], words[1::2])}
    if "--method" in words:
        words = [*words, "--intercept"]  # as fit_intercept=True; named methods have none on the command line
    rows, missed = [], []
    for name in given.sets.split(","):
        path = os.path.join(DATA, name, "train.txt.gz")
        if not os.path.exists(path):
            print(f"skipped: no {path}; set TRUEMAX_DATA")
            continue
        with tempfile.TemporaryDirectory() as folder:
            write_rows(path, folder)
            ours, theirs = os.path.join(folder, "p.safetensors"), os.path.join(folder, "c.safetensors")
            python, program = [], []
            for _ in range(given.rounds):
                python.append(run_python(folder, ours, options))
                program.append(run_program(path, theirs, words))
                if weights(ours) != weights(theirs):
                    sys.exit(f"{name}: fit and the program have different weights")
            best = {what: (min(r[what] for r in python), min(r[what] for r in program)) for what in ("seconds", "kB")}
            ratios = {"seconds": best["seconds"][0] / best["seconds"][1], "memory": best["kB"][0] / best["kB"][1]}
            rows.append([name, "same", *(f"{s:.3f}" for s in best["seconds"]), f"{ratios['seconds']:.3f}",
                         *(f"{k / 1024:.1f}" for k in best["kB"]), f"{ratios['memory']:.3f}"])
            missed += [f"{name}: {what} {ratios[what]:.3f}, limit {limit}" for what, limit in LIMITS.items()
                       if ratios[what] > limit]
    show("SoftmaxClassifier().fit beside truemax train, best of the rounds", ["data", "bits", "fit s", "program s", "ratio", "fit MiB", "program MiB", "ratio"], rows)
    for line in missed:
        print(f"missed: {line}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
