"""The data sets of the peers: the same rows for all, after the same preprocessing.

First label, features below 10,000, the first 100,000 rows, no empty rows, unit length: the rows that truemax uses with
PREPARE. A Problem is written to a folder as .npy files, from which each peer's process loads it. If losses over all
rows would take too long, they are over some of them (`Problem.judged`), the same for all.
"""
import gzip
import json
import os

import numpy as np
from scipy import sparse

from harness import DATA, output_of

PREPARE = ["--labels", "first", "--max-features", "10000", "--max-rows", "100000", "--normalize", "l2"]
MAX_ROWS, MAX_FEATURES = 100000, 10000
# Rows judged, of training and test; 0: all.
JUDGED = {"yso-finna-en": (5000, 5000)}
# For missing data sets: generated rows of their size.
STAND_INS = {
    "bibtex": (4880, 2515, 1836, 146, 68),
    "delicious": (12910, 3185, 500, 352, 18),
    "mnist": (60000, 10000, 780, 10, 150),
    "yso-finna-en": (100000, 10000, 10000, 15450, 10),
}


def read_text(path, most_rows):
    """Rows of an XMLRepository file: (labels as text, CSR, the raw lines, the header)."""
    with (gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")) as file:
        head = file.readline().split()
        labels, lines, begin, index, value = [], [], [0], [], []
        for line in file:
            if len(begin) > most_rows:
                break
            first, *words = line.rstrip("\n").split(" ")
            for word in words:
                if word:
                    number, _, text = word.partition(":")
                    if int(number) < MAX_FEATURES:
                        index.append(int(number))
                        value.append(float(text))
            begin.append(len(index))
            labels.append(first.split(",")[0])
            lines.append(line)
    shape = (len(labels), min(int(head[1]), MAX_FEATURES))
    return labels, sparse.csr_matrix((np.array(value), np.array(index, np.int32), np.array(begin)), shape), lines, head


def read_idx(path):
    def array(name):
        with gzip.open(name, "rb") as file:
            data = file.read()
        shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
        return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)

    pixels = array(path)
    labels = array(path.replace("images-idx3", "labels-idx1")).astype(str).tolist()
    return labels, sparse.csr_matrix(pixels.reshape(len(pixels), -1).astype(float)), None, None


def unit_rows(x):
    x.eliminate_zeros()
    length = np.sqrt(np.asarray(x.multiply(x).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags(1 / np.maximum(length, 1e-300)) @ x).astype(np.float32)


class Problem:
    """train_x, train_y, seen_x, seen_y (the training rows that are judged), test_x, test_y; labels are 0..K-1."""

    PARTS = ("train", "seen", "test")

    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "about.json"), encoding="utf-8") as file:
            self.about = json.load(file)
        self.name, self.K, self.D = self.about["name"], self.about["classes"], self.about["features"]
        for part in self.PARTS:
            value, index, begin, y = (np.load(os.path.join(folder, f"{part}_{what}.npy"))
                                      for what in ("value", "index", "begin", "label"))
            setattr(self, f"{part}_x", sparse.csr_matrix((value, index, begin), (len(y), self.D)))
            setattr(self, f"{part}_y", y)
        self.N = len(self.train_y)


def file_of(name, part):
    names = {"train": "train-images-idx3-ubyte.gz", "test": "t10k-images-idx3-ubyte.gz"} if name == "mnist" else {}
    return os.path.join(DATA, name, names.get(part, f"{part}.txt.gz"))


def make(name, program, folder, size=1.0):
    """Writes the problem to a folder, or generated rows of the same size, marked as such, if the data are missing or
    `size` is below 1. Returns the Problem."""
    os.makedirs(folder, exist_ok=True)
    shown, train_path, test_path = name, file_of(name, "train"), file_of(name, "test")
    if size < 1 or not (os.path.exists(train_path) and os.path.exists(test_path)):
        rows, test_rows, features, classes, nonzeros = STAND_INS[name]
        if size >= 1:
            print(f"no {name} at {train_path}: generated rows of its size stand in for it (set TRUEMAX_DATA)")
        shown = f"{name}-size (generated)" if size >= 1 else f"{name} x {size:g} (generated)"
        train_path, test_path = os.path.join(folder, "rows.txt"), os.path.join(folder, "more.txt")
        rows, test_rows, features, classes = (max(50, int(n * size)) if n > 50 else n
                                              for n in (rows, test_rows, features, classes))
        output_of([program, "generate", train_path, "--rows", rows, "--features", features, "--classes", classes,
                   "--nonzeros", min(nonzeros, features // 4), "--seed", 1, "--format", "xmlrepository", "--test",
                   test_path, "--test-rows", test_rows])
    read = read_idx if train_path.endswith("ubyte.gz") else lambda path: read_text(path, MAX_ROWS)
    parts = {}
    for part, path in (("train", train_path), ("test", test_path)):
        labels, x, lines, head = read(path)
        x = unit_rows(x)
        kept = np.array([bool(label) for label in labels]) & (np.diff(x.indptr) > 0)
        parts[part] = {"labels": labels, "x": x, "kept": kept, "lines": lines, "head": head}
    classes = sorted({parts["train"]["labels"][i] for i in np.flatnonzero(parts["train"]["kept"])}, key=int)
    number = {label: k for k, label in enumerate(classes)}
    parts["test"]["kept"] &= np.array([label in number for label in parts["test"]["labels"]])
    about = {"name": shown, "set": name, "classes": len(classes), "labels": classes,
             "features": parts["train"]["x"].shape[1], "train": train_path, "judged": {}}
    few = dict(zip(("seen", "test"), JUDGED.get(name, (0, 0))))
    for part in Problem.PARTS:
        source = parts["test" if part == "test" else "train"]
        rows = np.flatnonzero(source["kept"])
        at_most = few.get(part, 0)
        path = {"seen": train_path, "test": test_path}.get(part)
        if at_most and len(rows) > at_most:
            rows = rows[:at_most]
            path = os.path.join(folder, f"{part}.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{len(rows)} {' '.join(source['head'][1:])}\n")
                file.writelines(source["lines"][i] for i in rows)
        if path:
            about["judged"][part] = path
        x = source["x"][rows]
        for what, array in (("value", x.data), ("index", x.indices), ("begin", x.indptr),
                            ("label", np.array([number[source["labels"][i]] for i in rows]))):
            np.save(os.path.join(folder, f"{part}_{what}.npy"), array)
    with open(os.path.join(folder, "about.json"), "w", encoding="utf-8") as file:
        json.dump(about, file)
    return Problem(folder)
