"""fastText, supervised. It takes words, not values: a row is the list of its features, so values are lost. No n-grams.
The end of a line is a word too, which acts as an intercept. Its model has rank `dim`.
Probabilities are computed from the matrices of its model file as fastText does (checked against predict-prob): a
softmax; a product along the Huffman tree (hs), which sums to 1; a sigmoid for each class (ns), which does not and is
normalised. Its time runs from the end of reading the dictionary to the end of training."""
import os
import shutil
import struct
import subprocess
import time

import numpy as np
from scipy import sparse

from harness import Watched
from losses import log_sigmoid
from peers.worker import Failed

WHAT = "fastText softmax"
LOSS = "softmax"


def needs():
    return "" if shutil.which("fasttext") else "fasttext"


def runs(name, loss="softmax"):
    if name == "yso-finna-en":
        if loss == "softmax":
            return [{"dim": 16, "lr": 0.5, "epoch": 2}]
        return [{"dim": 64, "lr": 0.5, "epoch": 5}, {"dim": 64, "lr": 0.5, "epoch": 25}]
    if name == "mnist":
        return [{"dim": 16, "lr": 0.1, "epoch": 2}, {"dim": 16, "lr": 0.1, "epoch": 5}]
    return [{"dim": 64, "lr": 0.5, "epoch": 5}, {"dim": 64, "lr": 0.5, "epoch": 25},
            {"dim": 64, "lr": 0.5, "epoch": 100}]


class Model:
    """A model file of fastText."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.at = 0
        magic, _ = self.take("<2i")
        assert magic == 793712314, path
        args = self.take("<12i")
        self.loss = {1: "hs", 2: "ns", 3: "softmax"}[args[6]]
        self.take("<d")
        size, _, _ = self.take("<3i")
        _, pruned = self.take("<2q")
        self.words, self.labels, self.counts = {}, [], []
        for _ in range(size):
            end = self.data.index(b"\0", self.at)
            word = self.data[self.at:end].decode()
            self.at = end + 1
            count, kind = self.take("<qb")
            if kind == 0:
                self.words[word] = len(self.words)
            else:
                self.labels.append(word[len("__label__"):])
                self.counts.append(count)
        assert pruned <= 0, "a pruned dictionary"
        self.input = self.matrix()
        self.output = self.matrix()
        del self.data
        # Parents have higher numbers than their children.
        self.from_root = list(enumerate(self.tree()))[::-1] if self.loss == "hs" else []

    def take(self, layout):
        values = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return values

    def matrix(self):
        (quantized,) = self.take("<?")
        assert not quantized
        rows, columns = self.take("<2q")
        values = np.frombuffer(self.data, np.float32, rows * columns, self.at).reshape(rows, columns)
        self.at += values.nbytes
        return values

    def hidden(self, x):
        """The mean of the vectors of a row's words and of the end of its line."""
        place = np.full(x.shape[1], -1)
        for f in range(x.shape[1]):
            place[f] = self.words.get(f"f{f}", -1)
        at = place[x.indices]
        known = at >= 0
        row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))[known]
        ones = np.ones(len(row), np.float32)
        words = sparse.csr_matrix((ones, (row, at[known])), (x.shape[0], len(self.input)))
        total = words @ self.input + self.input[self.words["</s>"]]
        return total / (np.asarray(words.sum(axis=1)).ravel() + 1)[:, None]

    def tree(self):
        """The Huffman tree as fastText builds it, from the decreasing counts of the labels: the children (left, right)
        of each inner node; leaves come first, the root is last."""
        leaves = len(self.counts)
        count = self.counts + [10**15] * (leaves - 1)
        leaf, node, children = leaves - 1, leaves, []
        for i in range(leaves, 2 * leaves - 1):
            pair = []
            for _ in range(2):
                if leaf >= 0 and count[leaf] < count[node]:
                    pair.append(leaf)
                    leaf -= 1
                else:
                    pair.append(node)
                    node += 1
            count[i] = count[pair[0]] + count[pair[1]]
            children.append(pair)
        return children

    def outputs(self, x):
        """[rows, rows of the output matrix]: of labels in the order of `labels`, for hs of the inner nodes."""
        return self.hidden(x) @ self.output.T

    def scores(self, x, classes):
        """Logarithms of probabilities [rows, classes], columns by label; normalised only for hs."""
        z = self.outputs(x)
        if self.loss == "hs":
            leaves = len(self.labels)
            right = np.ascontiguousarray(log_sigmoid(z).T)
            left = right - z.T  # log(1 - sigmoid)
            of_node = np.zeros((2 * leaves - 1, x.shape[0]), np.float32)
            for i, (a, b) in self.from_root:
                of_node[a] = of_node[leaves + i] + left[i]
                of_node[b] = of_node[leaves + i] + right[i]
            z = of_node[:leaves].T
        elif self.loss == "ns":
            z = log_sigmoid(z)
        out = np.full((x.shape[0], classes), -np.inf, np.float32)
        out[:, [int(label) for label in self.labels]] = z
        return out


def write_rows(x, labels, path):
    with open(path, "w", encoding="utf-8") as file:
        for i, label in enumerate(labels):
            words = " ".join(f"f{f}" for f in x.indices[x.indptr[i]:x.indptr[i + 1]])
            file.write(f"__label__{label} {words}\n")


def train(command):
    """Seconds between the dictionary and the end of training, from its output, and peak bytes."""
    watched = Watched(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    begin = end = None
    said = b""
    while True:
        part = os.read(watched.process.stderr.fileno(), 65536)
        if not part:
            break
        watched.look()
        said = said[-200:] + part
        if begin is None and b"Number of labels" in said:
            begin = time.perf_counter()
        if b"100.0%" in said:
            end = time.perf_counter()
    watched.process.stderr.close()
    if watched.wait() != 0:
        last = said[-200:].decode(errors="replace")
        raise Failed("diverged" if "NaN" in last else f"out of memory: {last}" if "alloc" in last
                     else f"fasttext ended with {watched.process.returncode}: {last}")
    return end - begin, watched.memory


def check(model, path, problem):
    """Checks the scores computed here against fastText's own on some rows. It adds 1e-5 inside logarithms, and for ns
    takes the sigmoid from a table of 512 values over [-8, 8], whose error is at most a quarter of the step."""
    allowed = 1e-3 + (16 / 512 / 4 if model.loss == "ns" else 0)
    rows = os.path.join(problem.folder, "fasttext-few.txt")
    x = problem.test_x[:20]
    write_rows(x, problem.test_y[:20], rows)
    said = subprocess.run(["fasttext", "predict-prob", path, rows, "1"], check=True, capture_output=True,
                          text=True).stdout
    z = model.scores(x, problem.K).astype(float)
    if model.loss == "softmax":
        z -= np.logaddexp.reduce(z, axis=1)[:, None]
    for i, line in enumerate(said.splitlines()):
        label, p = line.split()
        ours = np.exp(z[i, int(label[len("__label__"):])])
        if abs(ours - float(p)) > allowed:
            raise ValueError(f"row {i}: fastText says {p} for {label}, its matrices say {ours}")


def fit(problem, settings, marks, loss="softmax"):
    rows = os.path.join(problem.folder, "fasttext.txt")
    if not os.path.exists(rows):
        write_rows(problem.train_x, problem.train_y, rows + ".new")
        os.replace(rows + ".new", rows)
    model = os.path.join(problem.folder, "fasttext-model")
    command = ["fasttext", "supervised", "-input", rows, "-output", model, "-loss", loss, "-minCount", "1",
               "-wordNgrams", "1", "-minn", "0", "-maxn", "0", "-thread", str(len(os.sched_getaffinity(0)))]
    for name, value in settings.items():
        command += [f"-{name}", str(value)]
    marks.begin()
    seconds, memory = train(command)
    marks.stop()
    read = Model(model + ".bin")
    check(read, model + ".bin", problem)
    marks.point(lambda x: read.scores(x, problem.K), memory, seconds=seconds)
