"""The log-loss that the authors recorded for OVE, NCE and IS, measured from a model file and its data.

Their records passed softmax probabilities where logits were expected, so that they hold the log-loss of
softmax(softmax(z)): log(sum_k exp(p_k)) - p_y with p = softmax(z). It is between log(K) - 1 and log(K) + 1 for any
model, and is measured here so that our runs can be compared with the records. The true log-loss is measured too, as a
check against the program's own.
"""
import functools
import gzip
import itertools
import json

import numpy as np
from scipy import sparse

CELLS = 4_000_000  # scores held at a time


def read_model(path):
    """Weights [K, D] and the names of the classes in row order."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        payload = file.read()
    info = json.loads(header.pop("__metadata__")["truemax"])
    begin, end = header["weight"]["data_offsets"]
    weights = np.frombuffer(payload[begin:end], "<f4").reshape(header["weight"]["shape"])
    assert "intercept" not in header, "the paper's models have no intercept"
    return weights, info["classes"]


def unit_rows(rows):
    """Every row of a CSR matrix divided by its Euclidean length."""
    length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sparse.diags(1 / length) @ rows


def read_idx(images_path):
    """MNIST's pair of files: X [N, 784] as CSR, labels as text."""
    def array(path):
        with gzip.open(path, "rb") as file:
            data = file.read()
        dimensions = data[3]
        shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
        return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    images = array(images_path)
    labels = array(images_path.replace("images-idx3", "labels-idx1"))
    return sparse.csr_matrix(images.reshape(len(images), -1).astype(np.float64)), [str(y) for y in labels]


def read_text(path, max_features, max_rows=None):
    """XMLRepository text: X [N, D] as CSR, first labels as text; rows without a label or a feature are left out, and
    those after the first `max_rows`."""
    labels, begin, number, value = [], [0], [], []
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        features = min(int(next(file).split()[1]), max_features)
        for line in itertools.islice(file, max_rows):
            names, _, rest = line.partition(" ")
            pairs = [pair.split(":") for pair in rest.split()]
            pairs = [(int(f), float(v)) for f, v in pairs if int(f) < features]
            if not names or not any(v for _, v in pairs):
                continue
            labels.append(names.split(",")[0])
            number += [f for f, _ in pairs]
            value += [v for _, v in pairs]
            begin.append(len(number))
    return sparse.csr_matrix((value, number, begin), (len(labels), features)), labels


@functools.lru_cache(maxsize=4)  # the same rows are measured after every fifth epoch
def read_rows(path, max_features, max_rows=None):
    """X [N, D] as CSR with rows of unit length, labels as text. The result is shared and must not be changed."""
    rows, labels = read_idx(path) if "idx3" in path else read_text(path, max_features, max_rows)
    return unit_rows(rows), labels


def losses(weights, classes, rows, labels):
    """{"double_softmax", "log_loss", "error"}: means over the rows whose label is a class of the model."""
    number = {name: k for k, name in enumerate(classes)}
    known = np.array([label in number for label in labels])
    rows, y = rows[known], np.array([number[label] for label in labels if label in number])
    rows = rows[:, :weights.shape[1]].astype(np.float32).astype(np.float64)  # as the program rounds them
    turned = np.ascontiguousarray(weights.T.astype(np.float64))
    chunk = max(1, CELLS // len(classes))
    double = single = wrong = 0.0
    for first in range(0, len(y), chunk):
        score, label = rows[first:first + chunk] @ turned, y[first:first + chunk]
        at = np.arange(len(label))
        top = score.max(axis=1)
        wrong += np.count_nonzero(score[at, label] < top)
        own = score[at, label] - top
        p = np.exp(score - top[:, None])
        total = p.sum(axis=1)
        single += float(np.sum(np.log(total) - own))
        p /= total[:, None]
        double += float(np.sum(np.log(np.exp(p).sum(axis=1)) - p[at, label]))
    return {"double_softmax": double / len(y), "log_loss": single / len(y), "error": wrong / len(y)}


def measure(model_path, data_path, max_features=10000, max_rows=None):
    return losses(*read_model(model_path), *read_rows(data_path, max_features, max_rows))
