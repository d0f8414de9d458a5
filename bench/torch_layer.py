#!/usr/bin/python3
"""A training step of truemax.torch.LinearSoftmax at K = 10,000 and 1,000,000 classes, beside the memory's own ratio.

    bench/torch_layer.py [--rows 256] [--drawn 1024] [--features 64] [--rounds 30] [--threads 1]

A step is forward and backward of a batch of new rows with random targets. It must cost at most 3 times as much with a
hundred times the classes, and take no second array of the size of W. The memory's own ratio: as many random rows of a
matrix of that size are read and written back, without arithmetic. nn.Linear with CrossEntropyLoss and Adam is beside
it at the smaller K. Gradients are compared with exact softmax before anything is timed; contestants take turns and the
best of the rounds counts. Needs python3-torch; the package is that of build/python, or the sources with
build/release/libtruemax.so.
"""
import argparse
import os
import sys
import time

from harness import ROOT, best_of_turns, fail
from tables import show

FEW, MANY = 10_000, 1_000_000
MOST = 3  # times the cost of a step with FEW classes
STEPS = 5  # of a turn


def import_layer():
    folder = os.environ.get("TRUEMAX_PACKAGE") or os.path.join(ROOT, "build", "python")
    if not os.path.isfile(os.path.join(folder, "truemax", "torch.py")):
        folder = os.path.join(ROOT, "python")
        os.environ.setdefault("TRUEMAX_LIBRARY", os.path.join(ROOT, "build", "release", "libtruemax.so"))
    sys.path.insert(0, folder)
    try:
        import torch
        from truemax.torch import LinearSoftmax
    except ImportError as error:
        fail(f"{error}; install python3-torch, and build with ./dev build")
    return torch, LinearSoftmax


def memory(name):
    """VmRSS or VmHWM of this process in bytes."""
    with open("/proc/self/status", encoding="ascii") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith(name))


def check(torch, LinearSoftmax, options):
    """All classes drawn: the gradient of exact softmax in float64."""
    layer = LinearSoftmax(options.features, 500, drawn=500)
    x = torch.randn(100, options.features, requires_grad=True)
    target = torch.randint(500, (100,))
    wide = x.detach().double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        torch.nn.functional.linear(wide, layer.weight.double(), layer.bias.double()), target)
    loss.backward()
    layer(x, target).backward()
    wrong = (x.grad - wide.grad).abs().max() / wide.grad.abs().max()
    if not wrong < 1e-5:
        fail(f"the gradient differs from that of exact softmax by {wrong:.1e}")


class Steps:
    """Training steps of a layer on new rows."""

    def __init__(self, torch, make, classes, options):
        self.torch, self.classes, self.options = torch, classes, options
        self.train = make(classes)

    def turn(self):
        torch, n = self.torch, self.options.rows
        batches = [(torch.randn(n, self.options.features, requires_grad=True), torch.randint(self.classes, (n,)),
                    torch.randint(self.options.data_rows, (n,))) for _ in range(STEPS)]
        began = time.perf_counter()
        for batch in batches:
            self.train(*batch)
        return (time.perf_counter() - began) / STEPS


def moves(torch, weight, options):
    """Reads random rows of `weight` and writes them back, as many as a step touches."""
    count = min(options.drawn + options.rows, weight.shape[0])

    def turn():
        places = [torch.randint(weight.shape[0], (count,)) for _ in range(STEPS)]
        began = time.perf_counter()
        for place in places:
            weight.index_copy_(0, place, weight.index_select(0, place))
        return (time.perf_counter() - began) / STEPS
    return turn


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    for name, value in (("rows", 256), ("drawn", 1024), ("features", 64), ("rounds", 30), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    options.data_rows = 100_000
    torch, LinearSoftmax = import_layer()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    check(torch, LinearSoftmax, options)
    layers = {}

    def make(draw):
        def of(classes):
            layer = layers[draw, classes] = LinearSoftmax(options.features, classes, options.data_rows,
                                                          drawn=options.drawn, draw=draw, step=1e-4)
            return lambda x, target, index: layer(x, target, index).backward()
        return of

    def exact(classes):
        layer = torch.nn.Linear(options.features, classes)
        optimizer = torch.optim.Adam(layer.parameters())

        def train(x, target, index):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(x), target).backward()
            optimizer.step()
        return train
    contestants, growth = {}, {}
    for draw in ("uniform", "counted"):
        for classes in (FEW, MANY):
            steps = Steps(torch, make(draw), classes, options)
            before = memory("VmRSS")
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")  # VmHWM starts anew
            for _ in range(4):
                steps.turn()
            growth[draw, classes] = memory("VmHWM") - before
            contestants[draw, classes] = steps.turn
    for classes in (FEW, MANY):
        contestants["memory", classes] = moves(torch, layers["uniform", classes].weight, options)
    contestants["exact", FEW] = Steps(torch, exact, FEW, options).turn
    best = best_of_turns(contestants, options.rounds)
    size = 4 * MANY * options.features
    lines, missed = [], []
    words = {"uniform": "LinearSoftmax, uniform", "counted": "LinearSoftmax, counted",
             "memory": "the same rows of W read and written", "exact": "nn.Linear, CrossEntropyLoss, Adam"}
    for kind, name in words.items():
        few, many = best[kind, FEW], best.get((kind, MANY))
        ratio = many / few if many else None
        grown = growth.get((kind, MANY))
        lines.append([name, f"{1e3 * few:.3f}", f"{1e3 * many:.3f}" if many else "-", f"{ratio:.2f}" if many else "-",
                      f"{grown / 2**20:.1f} MB" if grown is not None else "-"])
        if grown is not None and ratio > MOST:
            missed.append(f"{name}: a step costs {ratio:.2f} times as much with {MANY:,} classes, more than {MOST}")
        if grown is not None and grown > size / 4:
            missed.append(f"{name}: steps took {grown / 2**20:.0f} MB, and W has {size / 2**20:.0f} MB")
    title = (f"{options.rows} rows, {options.drawn} drawn classes, D = {options.features}, {options.threads} threads, "
             f"torch {torch.__version__}; ms a step, best of {options.rounds} turns")
    show(title, ["", f"K = {FEW:,}", f"K = {MANY:,}", "ratio", "memory of steps"], lines)
    print(f"\nW has {size / 2**20:.0f} MB at K = {MANY:,}. 'memory of steps': the most that steps added to it.")
    if missed:
        fail("; ".join(missed))


if __name__ == "__main__":
    main()
