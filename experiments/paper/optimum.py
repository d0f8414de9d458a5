"""How low the train log-loss can go on the small sets: exact softmax by Newton's method, written once as reference
values.

    python3 -m experiments.paper.optimum [--data DIR] [--minutes M] [--device cuda] [SET...]

writes experiments/paper/optimum.json: the log-loss; the gain promised by the next Newton step or made by the last 200
steps (roughly the distance to the infimum); the largest entry of the gradient; and how it ended. There is no ridge, as
in the paper. If some classes are perfectly separable the infimum is at infinite weights; each Newton step then removes
a fixed share of the remaining excess, so that the value converges although the weights do not.
"""
import argparse
import json
import os
import sys
import time

import numpy as np

from . import measure, registry
from .files import ROOT, file_hash

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimum.json")
GAP = 1e-6            # promised gain, in log-loss, at which it has converged
LOOSE, TIGHT = 0.05, 1e-3  # relative residual of a direction: along the way, and before it counts as converged
MANY = 200            # steps that together gain no more than that: it has converged too
MOST_PRODUCTS = 3000  # of the Hessian with a direction, for one Newton step


class Softmax:
    """The mean log-loss of W [D, K] on dense rows, its gradient, and products with its Hessian. In float64, with NumPy
    or, if a device is given, with PyTorch: the code below works with both."""

    def __init__(self, rows, labels, device=None):
        self.classes = sorted(set(labels))
        number = {name: k for k, name in enumerate(self.classes)}
        self.y = np.array([number[label] for label in labels])
        used = np.flatnonzero(np.asarray(abs(rows).sum(axis=0)).ravel())
        self.rows = rows[:, used].toarray()
        self.at, self.xp = np.arange(len(self.y)), np
        self.shape = (self.rows.shape[1], len(self.classes))
        if device:
            import torch
            self.xp = torch
            self.rows, self.at, self.y = (torch.from_numpy(one).to(device) for one in (self.rows, self.at, self.y))
            self.zeros = torch.zeros(self.shape, dtype=torch.float64, device=device)
        else:
            self.zeros = np.zeros(self.shape)

    def loss(self, weights):
        """Mean log-loss and the probabilities."""
        score = self.rows @ weights
        score -= self.xp.amax(score, axis=1, keepdims=True)
        own = score[self.at, self.y]
        score = self.xp.exp(score)
        total = score.sum(axis=1, keepdims=True)
        value = float((self.xp.log(total[:, 0]) - own).sum()) / len(self.y)
        score /= total
        return value, score

    def gradient(self, p):
        pull = 1 * p
        pull[self.at, self.y] -= 1
        return self.rows.T @ pull / len(self.y)

    def curvature(self, p):
        """The Hessian's diagonal."""
        return (self.rows**2).T @ (p * (1 - p)) / len(self.y)

    def product(self, p, direction):
        """The Hessian times a direction."""
        score = self.rows @ direction
        score -= self.xp.einsum("ik,ik->i", p, score)[:, None]
        score *= p
        return self.rows.T @ score / len(self.y)


def dot(a, b):
    return float((a * b).sum())


def newton_direction(problem, p, gradient, tolerance, radius, stop):
    """Steihaug's conjugate gradients on H d = -g, scaled by the Hessian's diagonal: until |residual| falls to
    `tolerance` of the gradient's, or d leaves the region |d| <= radius (in that scale). Returns d, what the quadratic
    model promises of it, whether it reached the border, and how many products with H it took."""
    diagonal = problem.curvature(p) + 1e-12
    direction, bent = 0 * gradient, 0 * gradient  # d and H d
    residual = -gradient
    scaled = residual / diagonal
    search = 1 * scaled
    size = dot(residual, scaled)
    enough = tolerance**2 * size

    def promise():
        return -dot(gradient, direction) - dot(direction, bent) / 2

    for count in range(MOST_PRODUCTS):
        if size <= enough or time.monotonic() > stop:
            return direction, promise(), False, count
        product = problem.product(p, search)
        bend = dot(search, product)
        length2, inner, outer = (dot(a, diagonal * b) for a, b in
                                 ((search, search), (direction, search), (direction, direction)))
        along = size / bend if bend > 0 else np.inf
        if not np.isfinite(along) or outer + 2 * along * inner + along**2 * length2 >= radius**2:
            along = (-inner + np.sqrt(inner**2 + length2 * (radius**2 - outer))) / length2
            direction += along * search
            bent += along * product
            return direction, promise(), True, count + 1
        direction += along * search
        bent += along * product
        residual -= along * product
        scaled = residual / diagonal
        before, size = size, dot(residual, scaled)
        search *= size / before
        search += scaled
    return direction, promise(), False, MOST_PRODUCTS


def optimum(rows, labels, minutes, say=lambda *_: None, device=None):
    """Newton's method in a trust region."""
    problem = Softmax(rows, labels, device)
    stop = time.monotonic() + 60 * minutes
    weights = problem.zeros
    value, p = problem.loss(weights)
    gradient = problem.gradient(p)
    radius, tolerance, steps, products, ended, values = 1.0, LOOSE, 0, 0, "", []
    while not ended:
        direction, promised, border, count = newton_direction(problem, p, gradient, tolerance, radius, stop)
        steps, products = steps + 1, products + count
        say(steps, products, value, promised, border, float(abs(gradient).max()))
        values.append(value)
        if time.monotonic() > stop:
            ended = f"after {minutes:g} minutes"
        elif promised <= GAP and not border and tolerance > TIGHT:
            tolerance = TIGHT  # a rough direction promises too little if the Hessian is nearly flat: computed again
        elif promised <= GAP and not border:
            ended = "converged: the next step promises less than the gap"
        elif len(values) > MANY and values[-MANY] - value <= GAP:
            ended, promised = f"converged: {MANY} steps gained less than the gap", values[-MANY] - value
        elif radius < 1e-12:
            ended = "no step lowers it"
        else:
            tried, p_tried = problem.loss(weights + direction)
            kept = (value - tried) / promised
            if kept < 0.25:
                radius /= 4
            elif kept > 0.75 and border:
                radius *= 2
            if kept > 1e-3:
                weights = weights + direction
                value, p = tried, p_tried
                gradient = problem.gradient(p)
    return {"log_loss": value, "gap": promised, "gradient": float(abs(gradient).max()), "newton_steps": steps,
            "hessian_products": products, "ended": ended, "rows": len(problem.y), "classes": len(problem.classes)}


def load():
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["bibtex", "delicious", "mnist"])
    parser.add_argument("--data", default=os.path.join(os.path.dirname(ROOT), "shared", "data"))
    parser.add_argument("--minutes", type=float, default=60, help="time limit for each set")
    parser.add_argument("--device", help="cuda: with PyTorch on a GPU; it takes minutes there and hours on two cores")
    parser.add_argument("--out", default=PATH, help="the file to write")
    options = parser.parse_args()
    known = {"command": "python3 -m experiments.paper.optimum"}
    if os.path.exists(options.out):
        with open(options.out, encoding="utf-8") as file:
            known = json.load(file)
    for name in options.sets:
        found, why = registry.find(registry.BY_NAME[name], [options.data])
        if found is None:
            raise SystemExit(why)
        known[name] = optimum(*measure.read_rows(found.train, registry.MAX_FEATURES), options.minutes,
                              lambda steps, products, value, promised, border, largest: print(
                                  f"{name}: step {steps}, {products} products, log-loss {value:.8f}, promised "
                                  f"{promised:.2g}{' at the border' if border else ''}, gradient {largest:.2g}",
                                  file=sys.stderr, flush=True), options.device)
        known[name]["train_sha256"] = file_hash(found.train)
        print(name, known[name], flush=True)
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
