#!/usr/bin/python3
"""What `./dev bench` runs: reading and training speed beside their yardsticks, on one core, in one run.

Reading    truemax against `wc -l` and sklearn.datasets.load_svmlight_file on the same generated libsvm file.
Training   Implicit SGD, one row and one class a step, against the same algorithm in NumPy/SciPy
           (reference_implicit.py: the pseudo-code line by line, and tuned as far as NumPy goes) and against a kernel
           that touches the same cache lines and does no arithmetic.

Correctness is checked first, then contestants take turns for several rounds and the best of each counts. Prints tables,
writes build/bench/bench.json; the exit code is 1 when a floor is missed or a check fails.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import reference_implicit
from tables import show

ROOT = reference_implicit.ROOT
DATA = os.environ.get("TRUEMAX_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data"))
# Where a real data set is not there: generated rows of the same size.
STAND_INS = {
    "bibtex": ["--rows", "4880", "--features", "1836", "--classes", "146", "--nonzeros", "68"],
    "delicious": ["--rows", "12910", "--features", "500", "--classes", "352", "--nonzeros", "18"],
}
STEP = {"bibtex": 10.0, "delicious": 0.01}
# Which of the two NumPy versions the floor of 50 stands against.
FLOOR_AGAINST = "line by line"
TIMES_NUMPY, SHARE_OF_TOUCH, TIMES_SKLEARN, REFERENCE_STEPS = 50.0, 0.5, 10.0, 10000.0


def output_of(command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


class Floors:
    """The ratios that are promised, each met or missed."""

    def __init__(self):
        self.results = []

    def require(self, what, value, floor):
        self.results.append({"what": what, "value": value, "floor": floor, "ok": value >= floor})

    def show(self):
        rows = [(r["what"], f"{r['value']:,.2f}", f"{r['floor']:,g}", "ok" if r["ok"] else "MISSED")
                for r in self.results]
        show("Floors", ("", "measured", "floor", ""), rows)
        return all(r["ok"] for r in self.results)


def fail(message):
    print(f"bench: error: {message}", file=sys.stderr)
    sys.exit(1)


# ---- reading ----
def check_reading(bench, path):
    """truemax and scikit-learn read the same matrix: as many rows and non-zeros, the same sum."""
    from sklearn.datasets import load_svmlight_file
    matrix, _ = load_svmlight_file(path)
    said = json.loads(output_of([bench, "read", path]))
    for name, wanted in (("bytes", os.path.getsize(path)), ("rows", matrix.shape[0]), ("nonzeros", matrix.nnz)):
        if said[name] != wanted:
            fail(f"{path}: truemax read {said[name]} {name}, there are {wanted}")
    if abs(said["sum"] - matrix.data.sum()) > 1e-6 * matrix.data.sum():
        fail(f"{path}: truemax's values add up to {said['sum']}, scikit-learn's to {matrix.data.sum()}")
    return matrix.shape[0]


def bench_reading(options, floors, folder):
    from sklearn.datasets import load_svmlight_file
    path = os.path.join(folder, "read.libsvm")
    output_of([options.program, "generate", path, "--rows", options.read_rows, "--features", 100000, "--classes", 1000,
               "--nonzeros", 60, "--seed", 1, "--format", "libsvm"])
    size = os.path.getsize(path)
    rows = check_reading(options.bench, path)
    best = {"wc -l": float("inf"), "truemax": float("inf"), "sklearn load_svmlight_file": float("inf")}

    def record(name, seconds):
        best[name] = min(best[name], seconds)

    for _ in range(options.rounds):
        begin = time.perf_counter()
        output_of(["wc", "-l", path])
        record("wc -l", time.perf_counter() - begin)
        record("truemax", json.loads(output_of([options.bench, "read", path]))["seconds"])
        begin = time.perf_counter()
        load_svmlight_file(path)
        record("sklearn load_svmlight_file", time.perf_counter() - begin)
    slowest = best["sklearn load_svmlight_file"]
    show(f"Reading a libsvm file of {size / 1e6:.0f} MB, {rows:,} rows (generated), one core, best of {options.rounds}",
         ("", "seconds", "MB/s", "times sklearn"),
         [(name, f"{s:.4f}", f"{size / 1e6 / s:,.0f}", f"{slowest / s:.1f}") for name, s in best.items()])
    floors.require("reading: times sklearn", slowest / best["truemax"], TIMES_SKLEARN)
    return {"file_bytes": size, "rows": rows, "seconds": best}


# ---- training ----
def find_data(options, name, folder):
    """The real data set, unzipped; else a generated one of its size. Returns (path, what it is)."""
    real = os.path.join(DATA, name, "train.txt.gz")
    if os.path.exists(real):
        return real, name
    print(f"no {name} at {real}: generated rows of the same size stand in for it (set TRUEMAX_DATA)")
    path = os.path.join(folder, f"{name}-size.txt")
    output_of([options.program, "generate", path, *STAND_INS[name], "--seed", 1, "--format", "xmlrepository"])
    return path, f"{name}-size (generated)"


def bench_training(options, floors, name, folder):
    path, shown = find_data(options, name, folder)
    agreement = reference_implicit.check(options.program, path, STEP[name])
    if not agreement["ok"]:
        fail(f"{shown}: truemax and the reference reach other losses: {json.dumps(agreement)}")
    problem = reference_implicit.Problem(path)
    best = {"implicit": 0.0, "touch": 0.0, "tuned": 0.0, "line by line": 0.0}
    for _ in range(options.rounds):
        for version, method in (("tuned", reference_implicit.train),
                                ("line by line", reference_implicit.train_line_by_line)):
            _, steps, seconds = method(problem, STEP[name], 0.9, 50, 1, options.seconds)
            best[version] = max(best[version], steps / seconds)
        said = json.loads(output_of([options.bench, "steps", path, f"step={STEP[name]}"]))
        best["implicit"] = max(best["implicit"], said["implicit_steps_per_second"])
        best["touch"] = max(best["touch"], said["touch_steps_per_second"])
    show(f"Implicit SGD on {shown} (N {problem.N:,}, D {problem.D:,}, K {problem.K}), one core, "
         f"best of {options.rounds}; losses agree (difference {agreement['difference']:+.4f}, "
         f"allowed {agreement['allowed']:.4f})",
         ("", "steps/s", "times line by line", "times tuned", "of touch-only"),
         [(label, f"{best[key]:,.0f}", f"{best[key] / best['line by line']:.1f}", f"{best[key] / best['tuned']:.1f}",
           f"{best[key] / best['touch']:.3f}")
          for key, label in (("line by line", "NumPy/SciPy, line by line"), ("tuned", "NumPy/SciPy, tuned"),
                             ("implicit", "truemax"), ("touch", "touch the same lines only"))])
    floors.require(f"{shown}: times NumPy, {FLOOR_AGAINST}", best["implicit"] / best[FLOOR_AGAINST], TIMES_NUMPY)
    floors.require(f"{shown}: share of touch-only", best["implicit"] / best["touch"], SHARE_OF_TOUCH)
    if name == "bibtex":
        floors.require(f"{shown}: NumPy, {FLOOR_AGAINST}, itself: steps/s", best[FLOOR_AGAINST], REFERENCE_STEPS)
    return {"data": shown, "steps_per_second": best, "agreement": agreement}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get("TRUEMAX", os.path.join(ROOT, "build/release/truemax")))
    parser.add_argument("--bench", default=os.path.join(ROOT, "build/bench/truemax_bench"))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn of the NumPy reference")
    parser.add_argument("--read-rows", type=int, default=60000, help="rows of the file to read (default 60000)")
    parser.add_argument("--core", type=int, help="the core to run on (default: the first allowed one)")
    parser.add_argument("--json", default=os.path.join(ROOT, "build/bench/bench.json"))
    options = parser.parse_args()
    for path in (options.program, options.bench):
        if not os.access(path, os.X_OK):
            fail(f"no program at {path}; ./dev bench builds it")
    core = min(os.sched_getaffinity(0)) if options.core is None else options.core
    os.sched_setaffinity(0, {core})  # inherited by every program started below
    # Libraries that would start threads of their own on that one core get in their own way.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"

    floors, results = Floors(), {"core": core}
    with tempfile.TemporaryDirectory(prefix="truemax-bench-") as folder:
        results["reading"] = bench_reading(options, floors, folder)
        results["training"] = [bench_training(options, floors, name, folder) for name in ("bibtex", "delicious")]
    met = floors.show()
    results["floors"] = floors.results
    os.makedirs(os.path.dirname(options.json), exist_ok=True)
    with open(options.json, "w") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    print(f"\nwritten to {options.json}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
