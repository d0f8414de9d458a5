"""PyTorch: an EmbeddingBag from features to classes (a linear softmax model), cross entropy, mini-batches, a fixed
learning rate. The settings give the length of its run; its curve has a point at each of `at` (seconds). One thread for
small batches, where it is faster, else all cores."""
import os

import numpy as np

from losses import linear

WHAT = "PyTorch SGD"
MATRICES = "torch"
SPARSE_ABOVE = 1e7  # weights; below, dense gradients and one thread are faster


def needs():
    try:
        import torch  # noqa: F401
    except ImportError:
        return "python3-torch"
    return ""


def runs(name):
    if name == "yso-finna-en":
        return [{"lr": 3000, "batch": 128, "at": [10, 20]}]
    rates = {"bibtex": (30, 300), "delicious": (30, 100), "mnist": (30, 100)}[name]
    return [{"lr": lr, "batch": 64 if name == "bibtex" else 128, "at": [1, 4]} for lr in rates]


def quick(settings, seconds):
    """Settings for a short run, to see that it works."""
    return {**settings, "at": [seconds]}


class Epoch:
    """The rows in a new order, as tensors: a batch is a slice."""

    def __init__(self, problem, permutation):
        import torch
        x = problem.train_x[permutation]
        self.begin = torch.from_numpy(x.indptr.astype(np.int64))
        self.index, self.value = torch.from_numpy(x.indices.astype(np.int64)), torch.from_numpy(x.data)
        self.label = torch.from_numpy(problem.train_y[permutation].astype(np.int64))

    def batch(self, begin, end):
        end = min(end, len(self.label))
        a, b = int(self.begin[begin]), int(self.begin[end])
        return self.index[a:b], self.begin[begin:end] - a, self.value[a:b], self.label[begin:end]


def fit(problem, settings, marks, method="sgd"):
    import torch
    is_sparse = problem.D * problem.K > SPARSE_ABOVE
    torch.set_num_threads(len(os.sched_getaffinity(0)) if is_sparse else 1)
    marks.begin()
    bag = torch.nn.EmbeddingBag.from_pretrained(torch.zeros(problem.D, problem.K), freeze=False, mode="sum",
                                                sparse=is_sparse)
    optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.SparseAdam if is_sparse else torch.optim.Adam}[method](
        list(bag.parameters()), lr=settings["lr"])
    order = np.random.default_rng(1)
    epoch, begin = None, problem.N  # the first batch opens an epoch
    for until in settings["at"]:
        while marks.running() < until:
            if begin >= problem.N:
                epoch, begin = Epoch(problem, order.permutation(problem.N)), 0
            features, offsets, values, labels = epoch.batch(begin, begin + settings["batch"])
            begin += settings["batch"]
            loss = torch.nn.functional.cross_entropy(bag(features, offsets, per_sample_weights=values), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        weights = bag.weight.detach().numpy()
        if not np.isfinite(weights).all():
            marks.say(failed="diverged")
            return
        marks.point(linear(weights))
        if until != settings["at"][-1]:
            marks.begin()
