"""How low the train log-loss can go on the small sets: exact softmax by L-BFGS, written once as reference values.

    python3 -m experiments.paper.optimum [--data DIR] [--minutes M] [SET...]

writes experiments/paper/optimum.json: log-loss, largest entry of its gradient, iterations. There is no ridge, as in
the paper. Where classes can be told apart the infimum is at infinite weights: the value is then what so many
iterations reached, an upper bound that falls further.
"""
import argparse
import json
import os
import time

import numpy as np
from scipy.optimize import minimize

from . import measure, registry

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimum.json")


class Enough(Exception):
    pass


def optimum(rows, labels, minutes):
    classes = sorted(set(labels))
    number = {name: k for k, name in enumerate(classes)}
    y = np.array([number[label] for label in labels])
    used = np.flatnonzero(np.asarray(abs(rows).sum(axis=0)).ravel())
    rows = rows[:, used].tocsr()
    turned = rows.T.tocsr()
    at, count = np.arange(len(y)), len(y)
    begin, best, calls = time.monotonic(), {}, 0

    def loss(flat):
        nonlocal calls
        score = rows @ flat.reshape(rows.shape[1], len(classes))
        score -= score.max(axis=1, keepdims=True)
        own = score[at, y].copy()
        np.exp(score, out=score)
        total = score.sum(axis=1, keepdims=True)
        value = float(np.mean(np.log(total[:, 0]) - own))
        score /= total
        score[at, y] -= 1
        gradient = (turned @ score) / count
        calls += 1
        if not best or value < best["log_loss"]:
            best.update(log_loss=value, gradient=float(abs(gradient).max()))
        if time.monotonic() - begin > 60 * minutes:
            raise Enough
        return value * count, gradient.ravel() * count
    try:
        done = minimize(loss, np.zeros(rows.shape[1] * len(classes)), jac=True, method="L-BFGS-B",
                        options={"maxiter": 100000, "maxfun": 1000000, "maxcor": 30, "ftol": 0, "gtol": 1e-4})
        ended = str(done.message)
    except Enough:
        ended = f"after {minutes:g} minutes"
    return {**best, "evaluations": calls, "ended": ended, "rows": count, "classes": len(classes)}


def load():
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["bibtex", "delicious", "mnist"])
    parser.add_argument("--data", default=os.path.join(os.path.dirname(registry_root()), "shared", "data"))
    parser.add_argument("--minutes", type=float, default=30, help="at most so long for each")
    options = parser.parse_args()
    known = load() if os.path.exists(PATH) else {"command": "python3 -m experiments.paper.optimum"}
    for name in options.sets:
        found, why = registry.find(registry.BY_NAME[name], [options.data])
        if found is None:
            raise SystemExit(why)
        known[name] = optimum(*measure.read_rows(found.train, registry.MAX_FEATURES), options.minutes)
        print(name, known[name], flush=True)
        with open(PATH, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1)
            file.write("\n")


def registry_root():
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


if __name__ == "__main__":
    main()
