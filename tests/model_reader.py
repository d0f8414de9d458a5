"""Slow and obvious readers: a model file, the data formats, the paper's preprocessing, the metrics.

Nothing here uses truemax's code. The tests compare the program with these, so every function prefers a plain loop
over a clever one; numbers are float64 throughout.
"""
import gzip
import json
import math
import struct
from collections import namedtuple

import numpy as np


# ---- the ten-line reader of docs/model-file.md ----
def read_model(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        payload = file.read()
    about = json.loads(header.pop("__metadata__")["truemax"])
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(payload[begin:end], {"F32": "<f4"}[entry["dtype"]]).reshape(entry["shape"])
    return about, tensors


# ---- data: a list of rows, each with its labels (text, in file order) and its features {0-based number: value} ----
Row = namedtuple("Row", "labels features")


def open_text(path):
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rt") if zipped else open(path, encoding="utf-8")


def parse_features(tokens, base):
    features = {}
    for token in tokens:
        number, value = token.split(":")
        features[int(number) - base] = float(value)
    return features


def read_xmlrepository(path):
    """Header `N D L`, then `l1,l2 f:v f:v`; a row without labels starts with a blank."""
    with open_text(path) as file:
        count, features, _ = (int(word) for word in next(file).split())
        rows = []
        for line in file:
            labels, _, rest = line.rstrip("\n").partition(" ")
            rows.append(Row([label for label in labels.split(",") if label], parse_features(rest.split(), 0)))
    assert len(rows) == count, (path, len(rows), count)
    return rows, features


def read_libsvm(path):
    """`label f:v f:v # comment`, features from 1, labels of any kind; D is the largest feature number."""
    rows = []
    with open_text(path) as file:
        for line in file:
            words = line.split("#")[0].split()
            if not words:
                continue
            labels = [] if ":" in words[0] else words.pop(0).split(",")
            rows.append(Row(labels, parse_features([w for w in words if not w.startswith("qid:")], 1)))
    return rows, 1 + max((max(row.features, default=-1) for row in rows), default=-1)


def read_lshtc(path):
    """`l1, l2, l3 f:v f:v`, no header, features from 0."""
    rows = []
    with open_text(path) as file:
        for line in file:
            words = line.replace(",", " ").split()
            labels = [w for w in words if ":" not in w]
            rows.append(Row(labels, parse_features(words[len(labels):], 0)))
    return rows, 1 + max((max(row.features, default=-1) for row in rows), default=-1)


def read_fasttext(path, words):
    """`__label__a word word`; a value is how often the word occurs; words not in `words` are left out."""
    number = {word: i for i, word in enumerate(words)}
    rows = []
    with open_text(path) as file:
        for line in file:
            labels, features = [], {}
            for token in line.split():
                if token.startswith("__label__"):
                    labels.append(token[len("__label__"):])
                elif token in number:
                    features[number[token]] = features.get(number[token], 0.0) + 1.0
            rows.append(Row(labels, features))
    return rows, len(words)


def read_idx_array(path):
    with (gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")) as file:
        data = file.read()
    zero, kind, dimensions = struct.unpack(">HBB", data[:4])
    assert (zero, kind) == (0, 8), path  # unsigned bytes
    shape = struct.unpack(f">{dimensions}I", data[4:4 + 4 * dimensions])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_idx(images_path):
    """An MNIST pair; the labels are beside the images under the usual name. Zero pixels are not features."""
    images = read_idx_array(images_path)
    labels = read_idx_array(images_path.replace("images-idx3", "labels-idx1"))
    pixels = images.reshape(len(images), -1)
    rows = []
    for x, y in zip(pixels, labels):
        numbers = np.flatnonzero(x)
        rows.append(Row([str(y)], dict(zip(numbers.tolist(), x[numbers].astype(float).tolist()))))
    return rows, pixels.shape[1]


# ---- the paper's preprocessing ----
def keep_features(row, limit):
    return {f: v for f, v in row.features.items() if limit == 0 or f < limit}


def unit_length(features):
    length = math.sqrt(math.fsum(v * v for v in features.values()))
    return {f: v / length for f, v in features.items()} if length > 0 else features


def prepare(rows, preprocessing):
    """Preprocessed rows, and how many were dropped: (rows, without_label, without_features).

    A row with neither label nor features counts as one without label.
    """
    kept, without_label, without_features = [], 0, 0
    for row in rows:
        features = {f: v for f, v in keep_features(row, preprocessing["max-features"]).items() if v != 0}
        if not row.labels:
            without_label += 1
        elif not features:
            without_features += 1
        else:
            kept.append(Row(row.labels, unit_length(features) if preprocessing["normalize"] == "l2" else features))
    return kept, without_label, without_features


# ---- what a model predicts, in float64 ----
def scores(model, rows):
    """Z [rows, K]: x.w_k (+ intercept), rows already prepared."""
    _, tensors = model
    weight = tensors["weight"].astype(float)
    z = np.empty((len(rows), len(weight)))
    for i, row in enumerate(rows):
        numbers = np.fromiter(row.features.keys(), int, len(row.features))
        values = np.fromiter(row.features.values(), float, len(row.features))
        known = numbers < weight.shape[1]
        z[i] = weight[:, numbers[known]] @ values[known]
    if "intercept" in tensors:
        z += tensors["intercept"].astype(float)
    return z


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def examples(rows, rule):
    """(row, label, weight) for each training or test example of the prepared rows."""
    for i, row in enumerate(rows):
        chosen = row.labels[:1] if rule == "first" else row.labels
        for label in chosen:
            yield i, label, 1.0 / len(chosen)


def evaluate(model, raw_rows, top=(1, 3, 5), bins=15):
    """The metrics of `truemax evaluate --json`, from the model file and the rows of a data file alone."""
    about, _ = model
    rows, without_label, without_features = prepare(raw_rows, about["preprocessing"])
    number = {name: k for k, name in enumerate(about["classes"])}
    z = scores(model, rows)
    shifted = z - z.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    # A tie goes to the lowest row of the model file; a stable sort of the negated scores keeps that order.
    ranked = np.argsort(-z, axis=1, kind="stable")[:, :max(top)]

    losses, wrong, confidence, weights, unseen = [], [], [], [], 0
    for i, label, w in examples(rows, about["preprocessing"]["labels"]):
        if label not in number:
            unseen += 1
            continue
        best = ranked[i, 0]
        losses.append(-log_p[i, number[label]])
        wrong.append(float(best != number[label]))
        confidence.append(math.exp(log_p[i, best]))
        weights.append(w)
    total = math.fsum(weights)
    log_loss = math.fsum(w * loss for w, loss in zip(weights, losses)) / total

    calibration = 0.0
    for b in range(bins):
        inside = [j for j, c in enumerate(confidence) if min(int(c * bins), bins - 1) == b]
        gap = math.fsum(weights[j] * (1.0 - wrong[j] - confidence[j]) for j in inside)
        calibration += abs(gap) / total

    names = about["classes"]
    hits = {}
    for k in top:
        found = [len({names[c] for c in ranked[i, :k]} & set(row.labels)) / k for i, row in enumerate(rows)]
        hits[str(k)] = math.fsum(found) / len(rows)
    return {
        "log_loss": log_loss,
        "error": math.fsum(w * e for w, e in zip(weights, wrong)) / total,
        "perplexity": math.exp(log_loss),
        "calibration_error": calibration,
        "precision_at": hits,
        "unseen": unseen,
        "rows_without_label": without_label,
        "rows_without_features": without_features,
    }


# ---- n-grams of fastText text, as docs/formats.md describes them ----
def xxh64(data, seed=0):
    """XXH64 of bytes, by the specification."""
    mask = (1 << 64) - 1
    p1, p2, p3, p4, p5 = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579,
                          2870177450012600261)

    def rotated(x, r):
        return ((x << r) | (x >> (64 - r))) & mask

    def rounded(acc, lane):
        return rotated((acc + lane * p2) & mask, 31) * p1 & mask

    at = 0
    if len(data) >= 32:
        acc = [(seed + p1 + p2) & mask, (seed + p2) & mask, seed, (seed - p1) & mask]
        while at + 32 <= len(data):
            acc = [rounded(a, lane) for a, lane in zip(acc, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotated(a, r) for a, r in zip(acc, (1, 7, 12, 18))) & mask
        for a in acc:
            h = ((h ^ rounded(0, a)) * p1 + p4) & mask
    else:
        h = (seed + p5) & mask
    h = (h + len(data)) & mask
    while at + 8 <= len(data):
        h = (rotated(h ^ rounded(0, struct.unpack_from("<Q", data, at)[0]), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= len(data):
        h = (rotated(h ^ (struct.unpack_from("<I", data, at)[0] * p1 & mask), 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        h = rotated(h ^ (byte * p5 & mask), 11) * p1 & mask
    h = (h ^ (h >> 33)) * p2 & mask
    h = (h ^ (h >> 29)) * p3 & mask
    return h ^ (h >> 32)


def character_ngrams(word, low, high):
    marked = f"<{word}>"
    found = []
    for i in range(len(marked)):
        for n in range(low, high + 1):
            is_mark = n == 1 and i in (0, len(marked) - 1)
            if i + n <= len(marked) and not is_mark:
                found.append(marked[i:i + n])
    return found


def ngrams(words, preprocessing):
    """The n-grams of a line, each as often as it occurs."""
    found = [" ".join(words[i:i + n]) for n in range(2, preprocessing["word-ngrams"] + 1)
             for i in range(len(words) - n + 1)]
    if preprocessing["char-ngrams"] != "none":
        low, high = map(int, preprocessing["char-ngrams"].split("-"))
        found += [gram for word in words for gram in character_ngrams(word, low, high)]
    return found


def read_fasttext_ngrams(path, about):
    """Rows of fastText text for a model with n-grams, and how many words and n-grams it does not know."""
    preprocessing = about["preprocessing"]
    number = {word: i for i, word in enumerate(about["features"]["words"])}
    feature = {bucket: len(number) + i for i, bucket in enumerate(np.cumsum(about["features"].get("buckets", [])).tolist())}
    rows, unknown_words, unknown_ngrams = [], 0, 0
    with open_text(path) as file:
        for line in file:
            features = {}
            words = [token for token in line.split() if not token.startswith("__label__")]
            labels = [token[len("__label__"):] for token in line.split() if token.startswith("__label__")]
            for word in words:
                if word in number:
                    features[number[word]] = features.get(number[word], 0.0) + 1.0
                else:
                    unknown_words += 1
            for gram in ngrams(words, preprocessing):
                f = feature.get(xxh64(gram.encode()) % preprocessing["ngram-buckets"])
                if f is None:
                    unknown_ngrams += 1
                else:
                    features[f] = features.get(f, 0.0) + 1.0
            rows.append(Row(labels, features))
    return rows, unknown_words, unknown_ngrams
