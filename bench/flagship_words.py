"""The test log-loss of one epoch of exact softmax, and how soon the default solver reaches it.

Next word on wikitext2 (experiments/next_word.py makes the rows) in a tenth of the time, fb15k-237 in a fifth. Exact
softmax gets the best step of a short grid on a part of the epoch, and a step that decreases to a hundredth over its
epoch, which suits it best. With --quick only a part of the epoch is run and its time extrapolated; the log-loss of the
epoch is then that of an earlier whole run, if there was one. --words-rows makes the whole comparison on fewer rows,
which says less: an epoch of exact softmax on all 2 million takes half an hour, and evaluating all training rows over
all classes some minutes.
"""
import json
import os
import sys

from flagship_runs import DATA, ROOT, Missing, data_file, number
from tables import show

sys.path.insert(0, os.path.join(ROOT, "experiments"))
import next_word  # noqa: E402

STEPS = (0.3, 1.0, 3.0)
# Shares of the epoch: tried for each step, and timed with --quick.
TRIED, TIMED = 0.03, 0.03
# Name, how much sooner than exact softmax.
SETS = (("wikitext2", 10), ("fb15k-237", 5))


def rows_of(name, most):
    """Training file, test file, options of all runs. `most`: rows of the training file; 0: all."""
    if name == "fb15k-237":
        return data_file(name), data_file(name, "test"), []  # exact softmax is better here without an intercept
    if not os.path.exists(os.path.join(DATA, name)):
        raise Missing(f"no {name} at {DATA}; set TRUEMAX_DATA to the folder of the data sets")
    folder = os.path.join(ROOT, "build/bench", f"next-word-{most}" if most else "next-word")
    paths = [os.path.join(folder, f"{part}.txt") for part in ("train", "test")]
    if not all(map(os.path.exists, paths)):
        next_word.make(DATA, folder, rows=most, test_rows=most)
    return *paths, ["--intercept"]


def count_rows(path):
    """From the header."""
    with next_word.open_text(path) as file:
        return int(file.readline().split()[0])


def exact_epoch(options, program, name, train, test, more):
    """One epoch of exact softmax: {step, seconds, loss, extrapolated}."""
    rows = count_rows(train)
    exact = [*more, "--method", "exact", "--visit", "shuffle", "--schedule", "linear", "--epochs", 1, "--eval-every", 0]

    def part(share, step):
        # All training rows are evaluated at the end: a cut file keeps that short.
        return program.train(f"words-{name}-exact-{step:g}-{share:g}", train, *exact, "--test", test, "--step", step,
                             "--max-rows", max(1, int(share * rows)))

    step, tried = options.exact_step, {}
    if step is None:
        tried = {s: part(TRIED, s).loss("test") for s in STEPS}
        step = min((s for s in tried if tried[s] is not None), key=lambda s: tried[s])
    epoch = f"words-{name}-{rows}-exact-epoch"
    kept = program.log_of(epoch)
    if options.quick:
        loss = None
        if os.path.exists(kept):
            with open(kept, encoding="utf-8") as lines:
                found = [event for event in map(json.loads, lines) if event["event"] == "evaluate"]
            loss = found[-1]["test"]["log_loss"] if found else None
        run = program.train(f"words-{name}-exact-timed", train, *exact, "--step", step, "--steps", int(TIMED * rows),
                            "--test", test)
        return {"step": step, "tried": tried, "seconds": run.train_seconds / TIMED, "loss": loss, "extrapolated": True}
    run = program.train(epoch, train, *exact, "--test", test, "--step", step)
    return {"step": step, "tried": tried, "seconds": run.train_seconds, "loss": run.loss("test"), "extrapolated": False}


def part(options, program, verdicts):
    results, rows = [], []
    for name, sooner in SETS:
        if options.data and name not in options.data:
            continue
        try:
            train, test, more = rows_of(name, options.words_rows)
        except Missing as why:
            verdicts.skipped(2, str(why))
            continue
        exact = exact_epoch(options, program, name, train, test, more)
        result = {"data": name, "exact": exact, "flagship": []}
        flagship = options.instead or ["--encoder", "linear"]
        # Without a limit, and for the seconds that it may take.
        for words, budget in (("default", []), ("default, --seconds", ["--seconds", f"{exact['seconds'] / sooner:.3f}"])):
            run = program.train(f"words-{name}-{words}", train, "--test", test, *more, *flagship, *budget)
            result["flagship"].append({"about": words, "seconds": run.train_seconds, "loss": run.loss("test")})
        results.append(result)
        count = f"{count_rows(train):,} rows"
        rows.append((f"{name}, {count}, exact, one epoch{', extrapolated' if exact['extrapolated'] else ''}", f"{exact['step']:g}",
                     f"{exact['seconds']:.2f}", number(exact["loss"]) if exact["loss"] is not None else "not run"))
        rows += [(f"{name}, {count}, {run['about']}", "-", f"{run['seconds']:.2f}", number(run["loss"]))
                 for run in result["flagship"]]
        if exact["loss"] is None:
            verdicts.skipped(2, f"{name}: no log-loss of a whole epoch of exact softmax; run without --quick once")
            continue
        as_it_is, in_time = result["flagship"]
        verdicts.at_most(2, f"test log-loss, {name}: exact's, with --seconds of 1/{sooner} of its time", in_time["loss"],
                         exact["loss"])
        verdicts.below(2, f"test log-loss, {name}: lower than exact's, as it is", as_it_is["loss"], exact["loss"])
        verdicts.at_most(2, f"seconds with its search, {name}: 1/{sooner} of exact's, as it is", as_it_is["seconds"],
                         exact["seconds"] / sooner)
    if rows:
        show("Test log-loss against training time", ("", "step", "seconds", "test log-loss"), rows)
    return results
