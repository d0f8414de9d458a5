"""Figures of runs and models: learning curves, the effect of the step, calibration, rare and frequent classes.

Every function draws into `ax`, or into a new figure, and returns the Axes. `step_losses`, `calibration` and
`class_size_table` return the numbers of a figure without drawing it. matplotlib is imported when something is drawn.
"""
from __future__ import annotations

import json
import math
import os
from typing import Any, Iterable, Mapping, Sequence

import numpy as np

from ._library import DivergenceError
from ._run import flat_evaluation

# Okabe and Ito's colours, which the colour-blind can tell apart.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A7A7A", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X", "*"]
BINS = 15  # of the calibration error that evaluate() reports
_GREY = "#6B6B6B"


def _axes(ax: Any, size: tuple[float, float] = (6.4, 4.0)) -> Any:
    """`ax` or a new one, in the style of this module. No global setting of matplotlib is changed."""
    if ax is None:
        from matplotlib import pyplot
        figure = pyplot.figure(figsize=size, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
        ax = figure.add_subplot()
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(_GREY)
    ax.tick_params(colors=_GREY, labelcolor="#333333")
    ax.grid(True, color="#E4E4E4", linewidth=0.8)
    ax.set_axisbelow(True)
    return ax


# Learning curves.

def _history(run: Any) -> list[dict[str, Any]]:
    """Evaluations of an estimator, of a log that the command line wrote, or as they are."""
    if hasattr(run, "history_"):
        return list(run.history_)
    if isinstance(run, (str, os.PathLike)):
        with open(run, encoding="utf-8") as file:
            events = [json.loads(line) for line in file if line.strip()]
        return [flat_evaluation(event) for event in events if event.get("event") == "evaluate"]
    if isinstance(run, (list, tuple)) and all(isinstance(entry, Mapping) for entry in run):
        return [dict(entry) for entry in run]
    raise TypeError(f"{run!r} has no history_; give a fitted estimator, the path of a run log, or a history_")


def _named_runs(runs: Any, labels: Sequence[str] | None) -> list[tuple[str, list[dict[str, Any]]]]:
    if isinstance(runs, Mapping):
        return [(str(name), _history(run)) for name, run in runs.items()]
    single = hasattr(runs, "history_") or isinstance(runs, (str, os.PathLike)) or (
        isinstance(runs, (list, tuple)) and len(runs) > 0 and all(isinstance(entry, Mapping) for entry in runs))
    several = [runs] if single else list(runs)
    if labels is None:
        labels = [""] if len(several) == 1 else [_run_name(run, i) for i, run in enumerate(several)]
    if len(labels) != len(several):
        raise ValueError(f"there are {len(several)} runs and {len(labels)} labels; give one label for each run")
    return [(str(name), _history(run)) for name, run in zip(labels, several)]


def _run_name(run: Any, number: int) -> str:
    if isinstance(run, (str, os.PathLike)):
        return os.path.basename(os.fspath(run))
    config = getattr(run, "config_", {})
    return str("newton" if config.get("solver") == "newton" else config.get("method", f"run {number + 1}"))


_ROWS = {"train": ("--", "training"), "valid": ("-", "validation"), "test": (":", "test")}
_TIMES = {"epochs": ("epoch", "epochs"), "seconds": ("seconds", "seconds of training"), "steps": ("steps", "steps")}


def learning_curve(runs: Any, labels: Sequence[str] | None = None, *, x: str = "epochs", ax: Any = None) -> Any:
    """Log-loss of the evaluations of one or several runs.

    Parameters
    ----------
    runs : a fitted estimator, the path of a run log (JSON lines), a `history_`; or several, as a list or {label: run}
        Runs are evaluated if you give `eval_every=1`, `eval_set` or `early_stopping=True`.
    labels : names of several runs
    x : 'epochs', 'seconds' or 'steps'
    """
    if x not in _TIMES:
        raise ValueError(f"x is {x!r}; give one of {', '.join(map(repr, _TIMES))}")
    key, words = _TIMES[x]
    named = _named_runs(runs, labels)
    if not any(f"{rows}_log_loss" in entry for _, run in named for entry in run for rows in _ROWS):
        raise ValueError("there is no evaluation to draw; fit with eval_every=1")
    ax = _axes(ax)
    kinds = [rows for rows in _ROWS if any(f"{rows}_log_loss" in entry for _, run in named for entry in run)]
    for number, (name, history) in enumerate(named):
        for place, rows in enumerate(kinds):
            field = f"{rows}_log_loss"
            # The kept model's evaluation is a repetition; it is a point of its own.
            line = [(entry[key], entry[field]) for entry in history if field in entry and not entry.get("best")]
            kept = [(entry[key], entry[field]) for entry in history if field in entry and entry.get("best")]
            colour = COLOURS[(number if len(named) > 1 else place) % len(COLOURS)]
            style, meaning = _ROWS[rows]
            label = ", ".join(filter(None, [name, meaning]))
            if line:
                ax.plot(*zip(*line), style, color=colour, label=label, linewidth=1.8,
                        marker="o" if len(line) <= 20 else None, markersize=3.5)
            if kept:
                ax.plot(*zip(*kept), linestyle="none", marker="D", markersize=7, markerfacecolor="white",
                        markeredgecolor=colour, markeredgewidth=1.8, zorder=3, label=f"{label}, model kept")
    ax.set_xlabel(words)
    ax.set_ylabel("log-loss (nats)")
    if x != "seconds":
        from matplotlib.ticker import MaxNLocator
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    ax.legend(frameon=False)
    return ax


# The step.

def step_losses(X: Any, y: Any, X_test: Any, y_test: Any, *, methods: Iterable[str] = ("prox", "implicit", "umax"),
                steps: Iterable[float] = tuple(10.0**p for p in range(-3, 4)), epochs: int = 10,
                **parameters: Any) -> dict[str, dict[float, float]]:
    """Test log-loss of `SoftmaxClassifier(method=..., step=...)` for each method and step; infinite if it diverged.

    `parameters` are those of SoftmaxClassifier.
    """
    from .classifier import SoftmaxClassifier
    found: dict[str, dict[float, float]] = {}
    steps = [float(step) for step in steps]
    for method in methods:
        found[method] = {}
        for step in steps:
            try:
                model = SoftmaxClassifier(method=method, step=step, epochs=epochs, **parameters).fit(X, y)
                found[method][step] = model.log_loss(X_test, y_test)
            except DivergenceError:
                found[method][step] = math.inf
    return found


def step_sensitivity(results: Mapping[str, Mapping[float, float]] | None = None, X: Any = None, y: Any = None,
                     X_test: Any = None, y_test: Any = None, *, limit: float | None = None, ax: Any = None,
                     **parameters: Any) -> Any:
    """Log-loss against the step, both logarithmic.

    Parameters
    ----------
    results : {method: {step: log-loss}}, as from `step_losses`; or None, and X, y, X_test, y_test to train on
    limit : larger losses, and runs that diverged, are crosses at the upper edge; default: 30 times the smallest loss
    parameters : those of `step_losses`: methods, steps, epochs and parameters of SoftmaxClassifier
    """
    if results is None:
        if any(part is None for part in (X, y, X_test, y_test)):
            raise ValueError("give results, or X, y, X_test and y_test to train on")
        results = step_losses(X, y, X_test, y_test, **parameters)
    elif parameters:
        raise TypeError(f"results are given, so {', '.join(parameters)} would have no effect; leave them out")
    losses = [loss for of_step in results.values() for loss in of_step.values() if math.isfinite(loss)]
    if not losses:
        raise ValueError("no run has a finite log-loss; give smaller steps")
    if limit is None:
        limit = 30 * min(losses)
    shown = [loss for loss in losses if loss <= limit]
    low, top = min(shown, default=limit), max(shown, default=limit)
    ax = _axes(ax)
    for number, (method, of_step) in enumerate(results.items()):
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        steps = sorted(of_step)
        ax.plot(steps, [of_step[s] if of_step[s] <= limit else math.nan for s in steps], color=colour, marker=marker,
                markersize=5, linewidth=1.8, label=method)
        beyond = [s for s in steps if not of_step[s] <= limit]
        ax.plot(beyond, [math.nan] * len(beyond))  # the axis reaches there
        # Methods that fail at the same step stand side by side.
        aside = (number - (len(results) - 1) / 2) * 8
        for step in beyond:
            ax.annotate("×", (step, 1), (aside, -2), xycoords=ax.get_xaxis_transform(), textcoords="offset points",
                        ha="center", va="top", color=colour, fontsize=13, fontweight="bold")
    ax.set_xscale("log")
    ax.set_yscale("log")
    if len(shown) < sum(map(len, results.values())):
        ax.set_ylim(top=top * max(top / low, 1.5) ** 0.15)  # room for the crosses
        ax.annotate(f"×: diverged, or a log-loss above {limit:.3g}", (1, 1.02), xycoords="axes fraction", ha="right",
                    va="bottom", color=_GREY, fontsize="small")
    ax.set_xlabel("step (eta·N)")
    ax.set_ylabel("log-loss (nats)")
    _plain_log_ticks(ax.yaxis, low, top)
    if len(shown) < sum(map(len, results.values())):  # beside the crosses
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    else:
        ax.legend(frameon=False)
    return ax


def _plain_log_ticks(axis: Any, low: float, high: float) -> None:
    """0.2, 0.5, 1 instead of powers of ten, where the axis spans few of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
    if high / low < 100:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low > 3 else tuple(range(1, 10))))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


# Calibration.

def calibration(model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, bins: int = BINS) -> dict[str, Any]:
    """How often the most probable label is right, in bins of its probability.

    Parameters
    ----------
    model, X, y : a fitted classifier, rows and labels; or
    model, X : the probability of each row's predicted label, and whether it is right

    Returns
    -------
    dict with calibration_error, the mean distance of probability and accuracy (of 15 bins: that of `evaluate`), and
    arrays of the bins: edges, count (of rows), probability and accuracy (means, NaN in empty bins).
    """
    if hasattr(model, "predict_topk"):
        probability, hit, weight, rows = _hits(model, X, y, sample_weight)
    else:
        probability, hit = np.asarray(model, dtype=float), np.asarray(X, dtype=float)
        if y is not None:
            raise TypeError("give an estimator, X and y, or probabilities and hits")
        if probability.ndim != 1 or probability.shape != hit.shape:
            raise ValueError(f"probabilities have the shape {probability.shape} and hits {hit.shape}; give one of each a "
                             "row")
        if not np.all((probability >= 0) & (probability <= 1)):
            raise ValueError("a probability is below 0, above 1 or NaN")
        weight = np.ones(len(hit)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        rows = np.arange(len(hit))
    if isinstance(bins, (bool, np.bool_)) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ValueError(f"bins is {bins!r}; give a whole number from 1 up")
    place = np.minimum((probability * bins).astype(int), bins - 1)
    total = np.bincount(place, weight, bins)
    confident, right = (np.bincount(place, weight * value, bins) for value in (probability, hit))
    used = weight > 0
    first = np.unique(rows[used], return_index=True)[1]  # a row with several labels counts once
    with np.errstate(invalid="ignore", divide="ignore"):
        return {"calibration_error": float(np.abs(right - confident).sum() / total.sum()),
                "edges": np.linspace(0, 1, bins + 1), "count": np.bincount(place[used][first], minlength=bins),
                "probability": confident / total, "accuracy": right / total}


def _hits(model: Any, X: Any, y: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of every label of every row: the probability of the row's predicted label, whether it is this one, the label's
    weight and the row."""
    target = _target(model, y)
    predicted, probability = model.predict_topk(X, 1)
    if len(predicted) != target.row_count:
        raise ValueError(f"X has {len(predicted)} rows and y {target.row_count}")
    rows = target.rows
    weight = np.ones(target.row_count) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    labels = np.bincount(rows, minlength=target.row_count)
    return probability[rows, 0], predicted[rows, 0] == target.value, weight[rows] / labels[rows], rows


def _target(model: Any, y: Any) -> Any:
    """y as the model counts it: all labels of a row, or the first one."""
    from ._targets import Target, target_of
    target = target_of(y)
    if target.several and model.model_.metadata()["preprocessing"].get("labels") == "first":
        begin = target.begin.astype(np.int64)
        has = np.flatnonzero(np.diff(begin))
        lowest = np.array([target.value[begin[row]:begin[row + 1]].min() for row in has])
        target = Target(lowest, target.row_count, np.concatenate([[0], np.cumsum(np.diff(begin) > 0)]))
    return target


def reliability_diagram(model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, bins: int = BINS,
                        ax: Any = None) -> Any:
    """Accuracy against the probability of the most probable label, with the calibration error and the rows of each bin.

    Takes a fitted classifier, rows and labels, or probabilities and hits, as `calibration` does. It uses
    `predict_topk`, so that memory does not grow with the number of classes.
    """
    found = calibration(model, X, y, sample_weight, bins=bins)
    ax = _axes(ax, (4.8, 5.2))
    left, width, there = found["edges"][:-1], 1 / bins, found["count"] > 0
    ax.bar(left[there], found["accuracy"][there], width, align="edge", color=COLOURS[5], edgecolor="white",
           linewidth=0.8, label="accuracy of a bin")
    ax.plot([0, 1], [0, 1], color=_GREY, linestyle="--", linewidth=1.2, label="perfectly calibrated")
    ax.plot(found["probability"][there], found["accuracy"][there], linestyle="none", marker="o", markersize=4.5,
            color=COLOURS[0], label="mean probability")
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("probability of the predicted label")
    ax.set_ylabel("share of rows that have it")
    ax.legend(loc="upper left", framealpha=0.85, edgecolor="none", title=f"calibration error {found['calibration_error']:.4f}",
              alignment="left")
    counts = ax.inset_axes([0, 1.03, 1, 0.18])
    counts.bar(left[there], found["count"][there], width, align="edge", color="#BDBDBD", edgecolor="white",
               linewidth=0.8)
    counts.set_xlim(0, 1)
    counts.set_xticks([])
    counts.set_yticks([0, int(found["count"].max())])
    counts.set_yticklabels(["0", f"{int(found['count'].max()):,}"])
    counts.set_ylabel("rows")
    counts.tick_params(colors=_GREY, labelcolor="#333333")
    for side in ("top", "right", "left"):
        counts.spines[side].set_visible(False)
    counts.spines["bottom"].set_color(_GREY)
    return ax


# Rare and frequent classes.

def _train_counts(model: Any, counts: Any) -> np.ndarray:
    """Training examples of each of `classes_`."""
    if counts is None:
        counts = np.array(model.model_.metadata()["class_counts"], dtype=float)[model._order]
    elif isinstance(counts, Mapping):
        counts = np.array([counts.get(label, 0) for label in model.classes_.tolist()], dtype=float)
    counts = np.asarray(counts, dtype=float)
    if counts.shape != model.classes_.shape:
        raise ValueError(f"train_counts has the shape {counts.shape}; give {len(model.classes_)} numbers in the order of "
                         "classes_, or {label: count}")
    return counts


def class_size_table(model: Any, X: Any, y: Any, train_counts: Any = None) -> dict[str, np.ndarray]:
    """Results in bins of how many training examples the label of a row has: 1, 2-3, 4-7, 8-15, ...

    Returns
    -------
    dict of arrays, one entry a bin: least and most (training examples), classes (of the rows), rows, accuracy, log_loss
    (exact; NaN for labels that training never saw). A row with several labels counts once for each.
    """
    target = _target(model, y)
    counts = _train_counts(model, train_counts)
    at = np.minimum(np.searchsorted(model.classes_, target.value), len(counts) - 1)
    known = model.classes_[at] == target.value
    size = np.where(known, np.maximum(np.round(counts[at]), 1), 0).astype(np.int64)
    power = np.where(size > 0, np.floor(np.log2(np.maximum(size, 1))), -1).astype(int)
    predicted = model.predict_topk(X, 1)[0][:, 0][target.rows]
    right = predicted == target.value
    bins = np.unique(power)
    take = X.iloc if hasattr(X, "iloc") else X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
    table: dict[str, list] = {name: [] for name in ("least", "most", "classes", "rows", "accuracy", "log_loss")}
    for bin_ in bins:
        here = power == bin_
        table["least"].append(2**bin_ if bin_ >= 0 else 0)
        table["most"].append(2**(bin_ + 1) - 1 if bin_ >= 0 else 0)
        table["classes"].append(len(np.unique(target.value[here])))
        table["rows"].append(int(here.sum()))
        table["accuracy"].append(right[here].mean())
        table["log_loss"].append(model.log_loss(take[target.rows[here]], target.value[here]) if bin_ >= 0 else math.nan)
    return {name: np.array(values) for name, values in table.items()}


def accuracy_by_class_size(model: Any, X: Any, y: Any, train_counts: Any = None, *, measure: str = "accuracy",
                           ax: Any = None) -> Any:
    """Accuracy or log-loss of rows, by the number of training examples of their label.

    Parameters
    ----------
    model, X, y : a fitted classifier, rows and labels
    train_counts : {label: examples}, or numbers in the order of `classes_`; default: those of the model
    measure : 'accuracy' or 'log_loss'
    """
    if measure not in ("accuracy", "log_loss"):
        raise ValueError(f"measure is {measure!r}; give 'accuracy' or 'log_loss'")
    table = class_size_table(model, X, y, train_counts)
    place, values = np.arange(len(table["rows"])), table[measure]
    ax = _axes(ax)
    ax.grid(False, axis="x")
    bars = ax.bar(place, np.nan_to_num(values), 0.8, color=COLOURS[0 if measure == "accuracy" else 1])
    ax.bar_label(bars, ["" if math.isnan(v) else f"{v:.2f}" for v in values], padding=2, fontsize="small",
                 color="#333333")
    ax.set_xticks(place)  # only where a bin begins: ranges would run into each other in a narrow figure
    ax.set_xticklabels([f"{least}\n{rows:,}" for least, rows in zip(table["least"], table["rows"])], fontsize="small")
    ax.set_xlabel("training examples of the label, from (below: rows judged)")
    ax.set_ylabel("accuracy" if measure == "accuracy" else "log-loss (nats)")
    if measure == "accuracy":
        ax.set_ylim(0, 1.05)
    else:
        ax.margins(y=0.1)
    return ax
