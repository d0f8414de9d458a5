#!/usr/bin/python3
"""The figures of truemax.plot, drawn from generated rows: plots.py [FOLDER] [--quick]. `plots.py docs/python` draws those
of the documentation.

Classes have very different sizes, and some labels are wrong, so that no model can be sure of all rows.
"""
import os
import pathlib
import sys

import matplotlib
import numpy as np
from scipy import sparse

from truemax import SoftmaxClassifier, plot

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "truemax", "svg.fonttype": "none"})  # same file every time
QUICK = "--quick" in sys.argv or os.environ.get("TRUEMAX_QUICK") == "1"


def rows(n, seed, classes=200, features=600, words=8, wrong=0.1):
    """A row has words of its class and words of none. Class k has a share of about 1 / k."""
    random, share = np.random.default_rng(seed), 1 / np.arange(1, classes + 1)
    label = random.choice(classes, n, p=share / share.sum())
    own = (label[:, None] * 37 + random.integers(0, 12, (n, words // 2)) ** 2) % features
    column = np.hstack([own, random.integers(0, features, (n, words - words // 2))]).ravel()
    x = sparse.csr_matrix((np.ones(column.size, np.float32), column, np.arange(0, column.size + 1, words)),
                          shape=(n, features))
    x.sum_duplicates()
    return x, np.where(random.random(n) < wrong, random.choice(classes, n, p=share / share.sum()), label)


def draw(folder):
    x, y = rows(2000 if QUICK else 6000, 1)
    valid, test = [(a[known], b[known]) for a, b in (rows(2000, 2), rows(4000, 3)) for known in [np.isin(b, y)]]
    runs = {f"ridge {ridge}": SoftmaxClassifier(method="prox", step=0.3, ridge=ridge, epochs=20, eval_every=1).fit(
        x, y, eval_set=valid) for ridge in (0, 1)}
    losses = plot.step_losses(x, y, *test, methods=["prox", "scent", "importance", "vanilla"], draw="head-blocks",
                              head=32, classes_per_step=16, epochs=3 if QUICK else 10)
    model = SoftmaxClassifier(encoder="linear").fit(x, y)
    figures = {"learning-curve": plot.learning_curve(runs), "step": plot.step_sensitivity(losses),
               "reliability": plot.reliability_diagram(model, *test),
               "class-size": plot.accuracy_by_class_size(model, *test)}
    for name, ax in figures.items():
        ax.figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        print(folder / f"{name}.svg")
    table = plot.class_size_table(model, *test)
    print(f"accuracy {table['accuracy'][0]:.2f} on labels with {table['least'][0]} to {table['most'][0]} training rows, "
          f"{table['accuracy'][-1]:.2f} on those with {table['least'][-1]} or more")


if __name__ == "__main__":
    given = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    draw_to = pathlib.Path(given[0] if given else "plots")
    draw_to.mkdir(parents=True, exist_ok=True)
    draw(draw_to)
