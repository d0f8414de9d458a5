"""LIBLINEAR, L2-regularised logistic regression (-s 0): one-vs-rest, with normalised probabilities. Its time is that of
the program minus that of the same program with a tolerance that ends it at once, so that reading the rows and writing
the model do not count."""
import os
import shutil

import numpy as np

import blas
from losses import linear, log_sigmoid
from peers.worker import started_program

WHAT = "LIBLINEAR -s 0"


def needs():
    return "" if shutil.which("liblinear-train") else "liblinear-tools"


def blas_files():
    return blas.files_of_program(shutil.which("liblinear-train"))


def runs(name):
    if name == "yso-finna-en":
        return [{"c": 1000, "e": 0.01}]
    if name != "bibtex":  # the default tolerance of 0.01 takes minutes there
        return [{"c": 10, "e": 0.1}, {"c": 1000, "e": 0.1}]
    return [{"c": 10, "e": 0.01}, {"c": 1000, "e": 0.01}, {"c": 1, "e": 0.01}, {"c": 100000, "e": 0.001}]


def write_rows(problem, path):
    x = problem.train_x
    with open(path, "w", encoding="utf-8") as file:
        for i, label in enumerate(problem.train_y):
            row = slice(x.indptr[i], x.indptr[i + 1])
            features = " ".join(f"{f + 1}:{v:.8g}" for f, v in zip(x.indices[row], x.data[row]))
            file.write(f"{label} {features}\n")


def read_model(path, features, classes):
    """Weights [features, classes], columns by label."""
    with open(path, encoding="utf-8") as file:
        head = {}
        for line in file:
            word, *rest = line.split()
            if word == "w":
                break
            head[word] = rest
        weights = np.array([line.split() for line in file], dtype=np.float64)
    out = np.full((features, classes), 0.0)
    labels = [int(label) for label in head["label"]]
    if len(labels) == 2:  # one column, for the first of the two labels
        weights = np.hstack([weights, -weights])
    out[:len(weights), labels] = weights
    return out


def fit(problem, settings, marks):
    rows, model = (os.path.join(problem.folder, name) for name in ("liblinear.txt", "liblinear.model"))
    if not os.path.exists(rows):
        write_rows(problem, rows + ".new")
        os.replace(rows + ".new", rows)
    command = ["liblinear-train", "-s", "0", "-c", str(settings["c"]), "-q"]
    marks.begin()
    seconds, memory = started_program([*command, "-e", str(settings["e"]), rows, model])
    marks.stop()
    weights = read_model(model, problem.D, problem.K)
    idle, _ = started_program([*command, "-e", "1e9", rows, model])
    of_row = linear(weights)
    marks.point(lambda x: log_sigmoid(of_row(x)), memory, seconds=max(1e-3, seconds - idle))
