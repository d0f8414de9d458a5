"""Log-loss against the step: the paper's Figure 2 with more methods and larger steps, 50 epochs, decay 0.9.

`scent` and `importance` use the draw of `prox`, so that only the step differs; `implicit` and `umax` use those of the
paper, one class and five. The automatic step is what the default solver chooses for the training likelihood.
"""
import os

import step_plot
from flagship_runs import PAPER, ROOT, Missing, data_file, number
from tables import show

BLOCKS = ["--draw", "head-blocks", "--head", 64, "--classes-per-step", 32]
METHODS = {"prox": [*BLOCKS, "--rho", 1], "implicit": [], "umax": ["--classes-per-step", 5], "scent": [*BLOCKS, "--rho", 1],
           "importance": BLOCKS}
POWERS = range(-3, 6)  # powers of ten: the steps in the plot
AROUND = range(-1, 4)  # powers of ten times the automatic step, for the promise
MOST = 0.5
SETS = ["bibtex", "delicious"]
EPOCHS = ["--epochs", 50, "--decay", 0.9, "--eval-every", 0]


def automatic_step(program, options):
    """The step that the default solver chooses on bibtex."""
    if options.auto_step is not None:
        return options.auto_step
    run = program.train("robust-automatic", data_file("bibtex"), *PAPER, "--target", "train", "--seconds", 0.3)
    return run.config["step"]


def part(options, program, verdicts):
    results, logs, rows = {"grid": {}, "around": {}}, [], []
    sets = []
    for name in options.data or SETS:
        try:
            data_file(name)
            sets.append(name)
        except Missing as why:
            verdicts.skipped(4, str(why))
    for name in sets:
        for method, more in METHODS.items():
            runs = [program.train(f"robust-{name}-{method}-1e{p}", data_file(name), *PAPER, *EPOCHS, "--method", method, *more,
                                  "--step", f"1e{p}") for p in POWERS]
            logs += [run.log for run in runs]
            losses = [run.loss("train") for run in runs]
            results["grid"][f"{name} {method}"] = losses
            rows.append((f"{name} {method}", *(number(loss, 3) if loss is None or loss < 1e4 else ">= 1e4" for loss in losses)))
    if rows:
        show("Train log-loss by step, 50 epochs, decay 0.9", ("", *(f"1e{p}" for p in POWERS)), rows)
        # docs/ gets the plot only if it has all data sets.
        picture = os.path.join(ROOT, "docs" if sets == SETS else "build/bench", "step-robustness.svg")
        step_plot.draw(logs, picture, "Train log-loss after 50 epochs against the step")
        print(f"  drawn into {os.path.relpath(picture, ROOT)}")
    if "bibtex" in sets:
        step = automatic_step(program, options)
        results["automatic_step"] = step
        for p in AROUND:
            run = program.train(f"robust-around-1e{p}", data_file("bibtex"), *PAPER, *EPOCHS, "--method", "prox",
                                *METHODS["prox"], "--step", step * 10.0**p)
            results["around"][p] = run.loss("train")
            verdicts.below(4, f"train log-loss, bibtex, {step * 10.0**p:g} = 1e{p} times the automatic step", run.loss("train"),
                           MOST)
    return results
