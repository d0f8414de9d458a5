"""PyTorch in its fastest form for dense or few rows: the rows are one dense matrix, a batch is a product with W, cross
entropy, a learning rate that decreases linearly to a hundredth over the run. One run for each length in seconds,
because the schedule depends on it. Threads: one or all cores, whichever is faster for the batches (the trials are not
timed)."""
import numpy as np

import blas
from losses import linear
from peers.rows import is_dense
from peers.torch_sgd import needs  # noqa: F401
from peers.worker import Failed

WHAT = "PyTorch SGD, dense rows, falling rate"
MATRICES = "torch"
LEAST = 0.01  # of the learning rate, at the end
# Learning rate and batch that reached the lowest train log-loss in 3 s, of 3 to 300 and 32 or 128 rows; the second is
# for the rows not seen.
RATES = {"bibtex": ((300, 32), (30, 32)), "delicious": ((300, 32), (30, 128)), "mnist": ((100, 32), (30, 128))}


def runs(name, rates=None):
    """None if the rows do not fit as a dense matrix."""
    if name == "yso-finna-en":
        return []
    (fast, fast_batch), (mild, mild_batch) = (rates or RATES)[name]
    return [{"lr": fast, "batch": fast_batch, "seconds": 6}, {"lr": mild, "batch": mild_batch, "seconds": 1},
            {"lr": fast, "batch": fast_batch, "seconds": 3}, {"lr": fast, "batch": fast_batch, "seconds": 1}]


def quick(settings, seconds):
    return {**settings, "seconds": seconds}


def fit(problem, settings, marks, method="sgd"):
    import torch
    if not is_dense(problem):
        raise Failed("the rows do not fit as a dense matrix")

    def use(count):
        torch.set_num_threads(count)
        blas.use_threads(count)

    x, y = torch.from_numpy(problem.train_x.toarray()), torch.from_numpy(problem.train_y.astype(np.int64))
    batch, seconds = settings["batch"], settings["seconds"]

    def trainer():
        """Weights, and a function that takes a step on rows at a learning rate."""
        w = torch.zeros(problem.D, problem.K, requires_grad=True)
        optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[method]([w], lr=settings["lr"])

        def step(rows, rate):
            optimizer.param_groups[0]["lr"] = rate
            loss = torch.nn.functional.cross_entropy(x[rows] @ w, y[rows])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        return w, step

    _, try_step = trainer()
    threads = blas.faster_threads(lambda: [try_step(torch.arange(i, i + batch) % problem.N, 1e-9) for i in range(20)],
                                  use)
    order = torch.Generator().manual_seed(1)
    marks.begin()
    w, step = trainer()
    begin = problem.N  # the first batch opens an epoch
    while (gone := marks.running()) < seconds:
        if begin >= problem.N:
            permutation, begin = torch.randperm(problem.N, generator=order), 0
        step(permutation[begin:begin + batch], settings["lr"] * max(LEAST, 1 - gone / seconds))
        begin += batch
    weights = w.detach().numpy()
    if not np.isfinite(weights).all():
        raise Failed("diverged")
    marks.point(linear(weights), note=f"{threads} thread{'s' if threads > 1 else ''}")
