"""Part of item 6: reading a libsvm file, compared with `wc -l` and scikit-learn's reader, on one core."""
import json
import os
import time

from harness import OneCore, best_of_turns, fail, output_of
from tables import show

TIMES_SKLEARN = 10.0


def check(bench, path):
    """truemax and scikit-learn read the same matrix: the same number of rows and non-zeros, and the same sum."""
    from sklearn.datasets import load_svmlight_file
    matrix, _ = load_svmlight_file(path)
    said = json.loads(output_of([bench.options.bench, "read", path]))
    for name, wanted in (("bytes", os.path.getsize(path)), ("rows", matrix.shape[0]), ("nonzeros", matrix.nnz)):
        if said[name] != wanted:
            fail(f"{path}: truemax read {said[name]} {name}, there are {wanted}")
    if abs(said["sum"] - matrix.data.sum()) > 1e-6 * matrix.data.sum():
        fail(f"{path}: truemax's values add up to {said['sum']}, scikit-learn's to {matrix.data.sum()}")
    return matrix.shape[0]


def run(bench):
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError:
        bench.floors.skip("reading: times sklearn", "install python3-sklearn")
        return None
    path = bench.path("read.libsvm")
    output_of([bench.options.program, "generate", path, "--rows", bench.options.read_rows, "--features", 100000,
               "--classes", 1000, "--nonzeros", 60, "--seed", 1, "--format", "libsvm"])
    size = os.path.getsize(path)

    def timed(action):
        begin = time.perf_counter()
        action()
        return time.perf_counter() - begin

    with OneCore(bench.options.core):
        rows = check(bench, path)
        best = best_of_turns({
            "wc -l": lambda: timed(lambda: output_of(["wc", "-l", path])),
            "truemax": lambda: json.loads(output_of([bench.options.bench, "read", path]))["seconds"],
            "sklearn load_svmlight_file": lambda: timed(lambda: load_svmlight_file(path))}, bench.options.rounds)
    two = json.loads(output_of([bench.options.bench, "read", path, "threads=2"]))["seconds"]
    slowest = best["sklearn load_svmlight_file"]
    table = [(name, f"{s:.4f}", f"{size / 1e6 / s:,.0f}", f"{slowest / s:.1f}") for name, s in best.items()]
    table.append(("truemax, two threads", f"{two:.4f}", f"{size / 1e6 / two:,.0f}", f"{slowest / two:.1f}"))
    show(f"Item 6: reading a libsvm file of {size / 1e6:.0f} MB, {rows:,} rows (generated), one core, best of "
         f"{bench.options.rounds}", ("", "seconds", "MB/s", "times sklearn"), table)
    bench.floors.require("item 6, reading: times sklearn", slowest / best["truemax"], TIMES_SKLEARN)
    bench.ratio(6, "reading: times sklearn", slowest / best["truemax"], f"{size / 1e6 / best['truemax']:,.0f} MB/s")
    return {"file_bytes": size, "rows": rows, "seconds": best, "two_threads_seconds": two}
