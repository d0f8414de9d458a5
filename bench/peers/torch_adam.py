"""PyTorch with Adam (SparseAdam for many weights): see torch_sgd.py."""
from peers import torch_sgd
from peers.torch_sgd import needs, quick  # noqa: F401

WHAT = "PyTorch Adam"
MATRICES = "torch"


def runs(name):
    if name == "yso-finna-en":
        return [{"lr": 0.1, "batch": 128, "at": [10, 20]}]
    rates = {"bibtex": (0.03, 0.3), "delicious": (0.03, 0.1), "mnist": (0.03, 0.1)}[name]
    return [{"lr": lr, "batch": 64 if name == "bibtex" else 128, "at": [1, 4]} for lr in rates]


def fit(problem, settings, marks):
    torch_sgd.fit(problem, settings, marks, "adam")
