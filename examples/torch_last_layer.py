#!/usr/bin/python3
"""A small network whose last layer has 5,000 classes: truemax.torch.LinearSoftmax beside nn.Linear and CrossEntropyLoss, with
the same data and number of passes. LinearSoftmax looks at 1,024 drawn classes in a step, so that steps cost the same for any
number of them, and keeps an estimate of the loss for each row: it is told which rows it sees. --quick: 2,000 classes.
"""
import os
import sys
import time

import torch
from torch import nn

from truemax.torch import LinearSoftmax

QUICK = "--quick" in sys.argv or os.environ.get("TRUEMAX_QUICK") == "1"
CLASSES, ROWS, EPOCHS, BATCH, WIDTH = (2_000, 8_000, 4, 250, 64) if QUICK else (5_000, 40_000, 3, 500, 64)
RATE = 0.01 if QUICK else 0.006  # of Adam


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(32, 128), nn.ReLU(), nn.Linear(128, WIDTH))


def train(body, last, loss_of, parameters, x, y):
    optimizer = torch.optim.Adam(parameters)
    batches, start = [rows for _ in range(EPOCHS) for rows in torch.randperm(len(x)).split(BATCH)], time.time()
    for done, rows in enumerate(batches):
        rate = RATE * (1 - done / len(batches))  # falls to 0
        optimizer.param_groups[0]["lr"] = rate
        last.step = 2 * rate  # of LinearSoftmax: twice Adam's rate where not all classes are drawn
        optimizer.zero_grad()
        loss_of(body(x[rows]), y[rows], rows).backward()
        optimizer.step()
    return time.time() - start


torch.manual_seed(0)
centre = torch.randn(CLASSES, 32)
y, test_y = torch.randint(0, CLASSES, (ROWS,)), torch.randint(0, CLASSES, (2_000,))
x, test_x = (centre[labels] + 0.3 * torch.randn(len(labels), 32) for labels in (y, test_y))
print(f"{ROWS} rows, {CLASSES} classes, {EPOCHS} epochs; log-loss of guessing {torch.tensor(float(CLASSES)).log():.2f}\n")
print(f"{'last layer':<14} {'seconds':>8} {'test log-loss':>14} {'accuracy':>9}")

body, layer = network(), LinearSoftmax(WIDTH, CLASSES, num_rows=ROWS)
seconds = train(body, layer, layer, body.parameters(), x, y)  # the layer trains itself in backward()
hidden = body(test_x).detach()
right = (layer.topk(hidden, 1).indices[:, 0] == test_y).float().mean()
print(f"{'LinearSoftmax':<14} {seconds:8.1f} {layer.nll(hidden, test_y):14.3f} {right:9.3f}")

body, last, full = network(), nn.Linear(WIDTH, CLASSES), nn.CrossEntropyLoss()
seconds = train(body, last, lambda hidden, labels, rows: full(last(hidden), labels),
                [*body.parameters(), *last.parameters()], x, y)
scores = last(body(test_x)).detach()
right = (scores.argmax(1) == test_y).float().mean()
print(f"{'nn.Linear':<14} {seconds:8.1f} {full(scores, test_y):14.3f} {right:9.3f}")
