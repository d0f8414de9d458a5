"""PyTorch with Adam on dense rows: see torch_dense_sgd.py."""
from peers import torch_dense_sgd
from peers.torch_dense_sgd import quick  # noqa: F401
from peers.torch_sgd import needs  # noqa: F401

WHAT = "PyTorch Adam, dense rows, falling rate"
MATRICES = "torch"
# Of 0.03 to 0.3 and 32 to 256 rows.
RATES = {"bibtex": ((0.3, 32), (0.03, 128)), "delicious": ((0.3, 128), (0.03, 256)), "mnist": ((0.3, 256), (0.03, 256))}


def runs(name):
    return torch_dense_sgd.runs(name, RATES)


def fit(problem, settings, marks):
    torch_dense_sgd.fit(problem, settings, marks, "adam")
