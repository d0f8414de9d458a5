"""Linear softmax on one GPU: truemax beside PyTorch's exact softmax (SGD and Adam) on the same card and rows.

    python3 bench/gpu_linear.py yso-finna-en/train.txt.gz --program build/gpu/truemax [--seconds 10]

Prints the best train log-loss that PyTorch reaches in the given seconds, by optimiser and learning rate, and how much
sooner truemax is there. Needs a GPU, PyTorch, and truemax with libtruemax_cuda.so beside it (./dev gpu build).
"""
import argparse
import gzip
import json
import subprocess
import sys
import time

import numpy as np

# Steps for short runs and for long ones.
SHAPES = {
    "--head 0 --classes-per-step 16 --step 5": (0.005, 0.01, 0.02),
    "--head 0 --classes-per-step 48 --rivals 4 --step 60": (0.02, 0.03, 0.05, 0.07, 0.09, 0.095, 0.1, 0.2, 0.5, 1, 2),
}


def read(path, rows, features):
    """First label of each row, features below `features`, rows of unit length, classes by falling frequency."""
    begin, index, value, labels = [0], [], [], []
    with (gzip.open if path.endswith(".gz") else open)(path, "rt") as file:
        next(file)
        for number, line in enumerate(file):
            if number >= rows:
                break
            parts = line.split()
            if not parts or ":" in parts[0]:
                continue
            here = [(int(i), float(v)) for i, v in (p.split(":") for p in parts[1:]) if int(i) < features and float(v)]
            if not here:
                continue
            norm = sum(v * v for _, v in here) ** 0.5
            index += [i for i, _ in here]
            value += [v / norm for _, v in here]
            begin.append(len(index))
            labels.append(parts[0].split(",")[0])
    _, inverse, count = np.unique(labels, return_inverse=True, return_counts=True)
    rank = np.empty(len(count), np.int64)
    rank[np.argsort(-count, kind="stable")] = np.arange(len(count))
    return np.array(begin), np.array(index), np.array(value, np.float32), rank[inverse]


def peers(data, features, seconds, batch=1024):
    import torch
    device = "cuda"
    torch.backends.cuda.matmul.allow_tf32 = True
    begin, index, value, label = (torch.tensor(a, device=device) for a in data)
    rows, classes = len(label), int(label.max()) + 1

    def rows_of(pick):
        length = begin[pick + 1] - begin[pick]
        offset = torch.zeros(len(pick) + 1, dtype=torch.long, device=device)
        offset[1:] = length.cumsum(0)
        at = (torch.arange(int(offset[-1]), device=device) - torch.repeat_interleave(offset[:-1], length)
              + torch.repeat_interleave(begin[pick], length))
        return torch.sparse_csr_tensor(offset, index[at], value[at], size=(len(pick), features))

    @torch.no_grad()
    def loss_of(weight):
        total = 0.0
        for first in range(0, rows, 4096):
            pick = torch.arange(first, min(first + 4096, rows), device=device)
            total += torch.nn.functional.cross_entropy(rows_of(pick) @ weight, label[pick], reduction="sum").item()
        return total / rows

    for name, rates in (("SGD", (100.0, 300.0, 1000.0)), ("Adam", (0.03, 0.1, 0.3))):
        for rate in rates:
            weight = torch.zeros(features, classes, device=device)
            first = torch.zeros_like(weight) if name == "Adam" else None
            second = torch.zeros_like(weight) if name == "Adam" else None
            steps, used, curve, next_look = 0, 0.0, [], 0.25
            while used < seconds:
                torch.cuda.synchronize()
                start = time.time()
                order = torch.randperm(rows, device=device)
                for k in range(rows // batch):
                    pick = order[k * batch:(k + 1) * batch]
                    x = rows_of(pick)
                    p = torch.softmax(x @ weight, 1)
                    p[torch.arange(batch, device=device), label[pick]] -= 1
                    gradient = torch.sparse.mm(x.to_sparse_coo().t(), p / batch)
                    steps += 1
                    now = rate * max(0.01, 1 - used / seconds)
                    if name == "SGD":
                        weight.add_(gradient, alpha=-now)
                    else:
                        first.lerp_(gradient, 0.1)
                        second.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                        weight.addcdiv_(first / (1 - 0.9 ** steps), (second / (1 - 0.999 ** steps)).sqrt().add_(1e-8),
                                        value=-now)
                torch.cuda.synchronize()
                used += time.time() - start
                if used >= next_look or used >= seconds:
                    curve.append((used, loss_of(weight)))
                    next_look = used * 1.5
            yield name, rate, curve


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file")
    parser.add_argument("--program", required=True, help="truemax")
    parser.add_argument("--rows", type=int, default=100000)
    parser.add_argument("--features", type=int, default=10000)
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()

    def ours(seconds, shape):
        text = subprocess.run([options.program, "train", options.file, "--max-rows", str(options.rows), "--max-features",
                               str(options.features), "--normalize", "l2", "--device", "cuda", "--method", "prox",
                               "--visit", "shuffle", "--schedule", "linear", "--draw", "head-blocks", *shape.split(),
                               "--seconds", str(seconds), "--model", "none", "--log", "none", "--quiet", "--json"],
                              check=True, capture_output=True, text=True)
        run = json.loads(text.stdout)
        return run["train_seconds"], run["train"]["log_loss"], run["epochs"]

    curves = {}
    data = read(options.file, options.rows, options.features)
    for name, rate, curve in peers(data, options.features, options.seconds):
        lowest = min(curve, key=lambda point: point[1])
        print(f"PyTorch {name:4} {rate:<6g} best {lowest[1]:.4f} after {lowest[0]:.2f} s; "
              + " ".join(f"{t:.2f}s {loss:.3f}" for t, loss in curve), flush=True)
        curves[f"{name} {rate:g}"] = lowest
    runs = []
    for shape, all_seconds in SHAPES.items():
        for seconds in all_seconds:
            runs.append(ours(seconds, shape)[:2])
            print(f"truemax {shape}: {runs[-1][0]:.4f} s  {runs[-1][1]:.4f}", flush=True)
    for name, (seconds, loss) in sorted(curves.items(), key=lambda item: -item[1][1]):
        there = [s for s, ours_loss in runs if ours_loss <= loss]
        print(f"{loss:.4f}, the best of PyTorch {name}: "
              + (f"{seconds / min(there):.0f} times sooner" if there else "not reached"), flush=True)


if __name__ == "__main__":
    main()
