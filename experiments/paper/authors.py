"""The paper's and the authors' values, from authors.json beside this file.

authors.json holds the values shown beside our runs: Tables 2 to 4 as printed, and of the authors' published experiment
records (absolute values) the curves of the tuned runs of 50 epochs, those of Implicit with more epochs (Figure 4), and
the ends of the learning-rate searches. It was written by

    python3 -m experiments.paper.authors RECORDS.json
"""
import json
import os
import sys

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "authors.json")
SOURCE = ("F. Fagan and G. Iyengar, Unbiased scalable softmax optimization, Tables 2 to 4; curves: the authors' public "
          "experiment records. train: [epoch counted from 1, error, log-loss]; for ove, nce and is the log-loss is "
          "that of softmax(softmax(z)). Steps are eta*N.")
ORDER = ("mnist", "bibtex", "delicious", "eurlex", "amazoncat", "wiki10", "wikismall")
METHODS = ("ove", "nce", "is", "vanilla", "umax", "implicit")
TABLE_2 = {"mnist": (1e1, 1e1, 1e1, 1e-2, 1e1, 1e-1), "bibtex": (1e2, 1e2, 1e2, 1e-2, 1e-1, 1e1),
           "delicious": (1e1, 1e3, 1e3, 1e-3, 1e-2, 1e-2), "eurlex": (1e-1, 1e2, 1e2, 1e-3, 1e-1, 1e1),
           "amazoncat": (1e1, 1e3, 1e3, 1e-5, 1e-2, 1e-3), "wiki10": (1e-2, 1e3, 1e2, 1e-4, 1e-2, 1e0),
           "wikismall": (1e3, 1e3, 1e3, 1e-4, 1e-3, 1e-3)}
TABLE_3 = {"mnist": (5.25, 5.55, 5.26, 1.31, 1.40, 1.00), "bibtex": (12.65, 12.65, 12.48, 6.61, 4.25, 1.00),
           "delicious": (1.77, 1.78, 1.76, 1.16, 1.03, 1.00), "eurlex": (4.65, 4.59, 4.58, 2.58, 1.50, 1.00),
           "amazoncat": (2.01, 2.03, 2.00, 1.39, 0.93, 1.00), "wiki10": (3.68, 3.72, 3.64, 3.13, 1.24, 1.00),
           "wikismall": (1.33, 1.33, 1.33, 1.13, 1.01, 1.00)}
TABLE_4 = {"mnist": (1283, 2494), "bibtex": (144, 197), "delicious": (287, 325), "eurlex": (427, 903),
           "amazoncat": (24392, 42816), "wiki10": (783, 1223), "wikismall": (6407, 8470)}


def transcribe(records):
    """The part of the records that is shown, four digits."""
    def digits(value):
        return None if value is None else float(f"{value:.5g}")  # none if a run overflowed

    def curve(one, every=2):
        points = list(zip(one["epoch"], one["train"]))
        kept = points[::-1][::every][::-1]
        return [[epoch + 1, digits(error), digits(loss)] for epoch, (error, loss) in kept]
    out = {"source": SOURCE, "tuned": {}, "search": {}, "eurlex_steps": {}, "longer": {}}
    for name in ORDER:
        out["tuned"][name] = {method: {"step": one["lr"], "train": curve(one),
                                       "test_end": [digits(value) for value in one["test"][-1]]}
                              for method, one in records["tuned_50_epochs"][name].items()}
    for name, methods in records["learning_rate_search_10_percent"].items():
        out["search"][name] = {}
        for method, steps in methods.items():
            ends = {}
            for step, one in steps.items():
                train = one["train"] if isinstance(one, dict) else one
                last = train[-1] if isinstance(train[-1], list) else train
                ends[step] = digits(last[1])
            out["search"][name][method] = ends
    for method, steps in records["eurlex_learning_rates"].items():
        out["eurlex_steps"][method] = {step: curve(one, 5) for step, one in steps.items()
                                       if 1e-4 <= float(step) <= 1e4}
    out["longer"] = {name: curve(records["longer_runs"][name]["implicit"], 1) for name in ORDER}
    return out


def load():
    with open(PATH, encoding="utf-8") as file:
        return json.load(file)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        found = transcribe(json.load(file))
    with open(PATH, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(f'"{key}": {json.dumps(value, separators=(",", ":"))}'
                                      for key, value in found.items()) + "\n}\n")
