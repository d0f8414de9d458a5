"""Predictions of one or a few rows at a time from Python, as a service would ask for them: rows a second.

    bench/few_rows.py [--classes 20000] [--features 10000] [--seconds 2]

A linear model of made rows with ten features each. The first call makes what all later ones use, and is not timed; the
classes of a row must be those of one call for all rows. Needs ./dev python, or TRUEMAX_PACKAGE=build/release/python.
"""
import argparse
import os
import sys
import time

import numpy as np
from scipy import sparse

from harness import ROOT
from tables import show

sys.path.insert(0, os.environ.get("TRUEMAX_PACKAGE", os.path.join(ROOT, "build", "python")))
from truemax import SoftmaxClassifier  # pylint: disable=wrong-import-position


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--classes", type=int, default=20000)
    parser.add_argument("--features", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    rows, each = max(2 * options.classes, 4096), 10
    index = random.integers(0, options.features, rows * each)
    x = sparse.csr_matrix((np.ones(rows * each, np.float32), index, np.arange(0, rows * each + 1, each)),
                          shape=(rows, options.features))
    x.sum_duplicates()
    y = np.concatenate([np.arange(options.classes), random.integers(0, options.classes, rows - options.classes)])
    model = SoftmaxClassifier(method="prox", epochs=2, step=1).fit(x, y)
    expected, lines, wrong = model.predict(x[:2048]), [], 0
    for count in (1, 16, 256):
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < options.seconds:
            first = done % 2048
            wrong += int(np.sum(model.predict(x[first:first + count]) != expected[first:first + count]))
            done += count
        lines.append((count, f"{done / (time.perf_counter() - start):,.0f}"))
    show(f"K = {options.classes}, D = {options.features}", ("rows in a call", "rows/s"), lines)
    if wrong:
        sys.exit(f"{wrong} rows have other classes than in one call for all")


if __name__ == "__main__":
    main()
