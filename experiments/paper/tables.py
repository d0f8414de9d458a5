"""The paper's tables from our runs, with the authors' values beside ours.

Real sets of the paper, twins and further real sets are never in one table.
"""
from . import authors, protocol, registry
from .files import file_hash
from .layout import cell, power, spread
from .results import error_of, mean_of

KINDS = (("", "the paper's sets", lambda found: found.set.of_paper and not found.twin),
         ("-twins", "TWINS: generated sets in place of those that are not at hand", lambda found: found.twin),
         ("-further", "further real sets, not the paper's", lambda found: not found.set.of_paper))


def by_kind(results, name, title, columns, row_of, note="", note_of_paper="", not_run=None, last=None):
    """One table for each kind of sets. row_of(found, whether it is the paper's): its row or None; not_run(set): the row
    of a set with only the authors' values; last(rows): one more row."""
    made = []
    for suffix, words, chosen in KINDS:
        rows = [row_of(found, not suffix) for found in results.plan.founds if chosen(found)]
        rows = [row for row in rows if row is not None]
        if rows and last:
            rows.append(last(rows))
        if not_run and not suffix:
            rows += [not_run(one) for one in results.not_run()]
        if rows:
            made.append({"id": name + suffix, "title": title.format(words), "columns": columns, "rows": rows,
                         "note": note + note_of_paper if not suffix else note})
    return made


def one_table(name, title, columns, rows, note):
    return [{"id": name, "title": title, "columns": columns, "rows": rows, "note": note}] if rows else []


def methods_as_columns(results, *more):
    return ["data set", *more, *(method.title for method in results.plan.methods)]


def printed(table, name, method):
    """The value in the paper's Table 2 or 3; None for other methods."""
    return table[name][authors.METHODS.index(method.name)] if method.of_paper else None


def bracketed(value, form):
    return {"text": "" if value is None else f"({form(value)})", "value": value}


def two_digits(value):
    return f"{value:.2f}"


def table_1(results):
    def row_of(found, of_paper):
        run = results.run(found, protocol.BY_NAME["implicit"], results.plan.seeds[0])
        if run is None:
            return None
        data = run["data"]
        return [found.title, *(found.set.paper or (None,) * 3), data["classes"], data["features"], data["rows"],
                round(data["nonzeros"] / data["rows"], 1), found.set.recorded_rows or None,
                registry.difference(found, data)]
    return by_kind(results, "table-1", "Table 1, {}",
                   ["data set", "K paper", "D paper", "N paper", "K here", "D here", "N here", "non-zeros a row",
                    "N in the authors' runs", "how it differs"], row_of,
                   note_of_paper="D here is that of the file (MNIST has 784 pixels, of which number 779, counted from "
                                 "0, is the last in use).",
                   not_run=lambda one: [one.title, *one.paper, *[None] * 4, one.recorded_rows, "not run"])


def table_2(results):
    def row_of(found, of_paper):
        row = [found.title]
        for method in results.plan.methods:
            ours = results.chosen.get((found.name, method.name))
            theirs = printed(authors.TABLE_2, found.set.name, method) if of_paper else None
            row.append({"text": power(ours) + (f" ({power(theirs)})" if theirs else ""), "value": ours})
        return row
    return by_kind(results, "table-2", "Table 2, chosen steps: {}", methods_as_columns(results), row_of,
                   "Step eta*N with the lowest true log-loss after 50 epochs on a tenth of the rows, judged on other "
                   "training rows. ",
                   "In brackets the paper's, which for OVE, NCE and IS was chosen by the double softmax and on sums "
                   "over batches of 100 rows (times 100 they compare with ours).",
                   lambda one: [f"{one.title}, authors only",
                                *(bracketed(printed(authors.TABLE_2, one.name, method), power)
                                  for method in results.plan.methods)])


def recorded(results):
    rows = []
    for found in results.with_records():
        for method in protocol.PAPER_METHODS:
            if method not in results.plan.methods:
                continue
            theirs, runs = results.record(found, method), results.recorded_runs(found, method)
            measured = results.recorded_ends(found, method, method.biased_of_paper)
            mean = mean_of(measured)
            off = None if mean is None else 100 * (mean / theirs["train"][-1][2] - 1)
            lost = [str(run["seed"]) for run in runs if run and run["diverged"]]
            rows.append([found.title, method.title, next((run["data"]["rows"] for run in runs if run), None),
                         found.set.recorded_rows, theirs["step"], theirs["train"][-1][2], spread(measured),
                         {"text": "-" if off is None else f"{off:+.1f}%", "value": off},
                         spread(results.recorded_ends(found, method, False)), theirs["train"][-1][1],
                         mean_of(map(error_of, runs)), ", ".join(lost) or "none"])
    return one_table("recorded", "As recorded: the end of every run beside the authors' record",
                     ["data set", "method", "N", "N, authors", "step", "authors", "ours, measured as theirs",
                      "difference", "ours, true log-loss", "error, authors", "error, ours", "seeds that overflowed"],
                     rows, "Train log-loss after 50 epochs, mean over the seeds that finish and half their range. For "
                     "OVE, NCE and IS the authors' number is the log-loss of softmax(softmax(z)).")


def variants(results):
    """As recorded with one thing changed."""
    rows = []
    for one in protocol.VARIANTS:
        for found in results.with_records():
            for method in (protocol.BY_NAME[name] for name in one.methods):
                changed = results.recorded_runs(found, method, f"{method.name}-{one.name}")
                if not any(changed):
                    continue
                both = results.recorded_runs(found, method), changed
                _, error, loss = results.record(found, method)["train"][-1]
                rows.append([one.words, found.title, method.title, loss,
                             *(cell(mean_of(results.measured(run, method.biased_of_paper) for run in runs), 4)
                               for runs in both), error, *(cell(mean_of(map(error_of, runs)), 4) for runs in both)])
    return one_table("variants", "As recorded, with one thing changed",
                     ["changed", "data set", "method", "authors", "as recorded", "changed", "error, authors",
                      "as recorded", "changed"], rows,
                     "Train log-loss after 50 epochs as the authors measured it, and train error; means over the "
                     "seeds.")


def table_3_recorded(results):
    rows, there = [], results.with_records()
    for found in there:
        base = mean_of(results.recorded_ends(found, protocol.BY_NAME["implicit"], False))
        for words, doubled in (("as measured", True), ("true log-loss", False)):
            row = [found.title, words]
            for method in protocol.PAPER_METHODS:
                value = mean_of(results.recorded_ends(found, method, doubled and method.biased_of_paper))
                ours = None if value is None or base is None else value / base
                theirs = f" ({printed(authors.TABLE_3, found.set.name, method):.2f})" if doubled else ""
                row.append({"text": ("-" if ours is None else two_digits(ours)) + theirs, "value": ours})
            rows.append(row)
    for name in authors.ORDER:
        if name not in [found.set.name for found in there]:
            rows.append([registry.BY_NAME[name].title, "authors only",
                         *(bracketed(value, two_digits) for value in authors.TABLE_3[name])])
    rows.append(["average of the seven", "authors only",
                 *(bracketed(mean_of(column), two_digits) for column in zip(*authors.TABLE_3.values()))])
    return one_table("table-3-recorded", "Table 3 as recorded: log-loss after 50 epochs relative to Implicit",
                     ["data set", "measured", *(method.title for method in protocol.PAPER_METHODS)], rows,
                     "In brackets the paper's Table 3. 'As measured': OVE, NCE and IS by the log-loss of "
                     "softmax(softmax(z)), as the authors recorded it; 'true log-loss': the same models, measured "
                     "properly.")


def table_3(results):
    def skipped(found, method):
        return results.plan.skipped.get((found.name, method.name))

    def relative(found, of_paper):
        base, row = results.mean_end(found, protocol.BY_NAME["implicit"]), [found.title]
        for method in results.plan.methods:
            mean = results.mean_end(found, method)
            ratio = None if mean is None or not base else mean / base
            theirs = printed(authors.TABLE_3, found.set.name, method) if of_paper else None
            row.append({"text": skipped(found, method) or ("overflow" if ratio is None else two_digits(ratio))
                        + (f" ({theirs:.2f})" if theirs else ""), "value": ratio})
        return row

    def average(rows):
        columns = [[one["value"] for one in column] for column in list(zip(*rows))[1:]]
        return ["average", *(cell(None if None in column else mean_of(column), 2) for column in columns)]

    def absolute(found, _):
        return [found.title, *({"text": skipped(found, method), "value": None} if skipped(found, method)
                               else spread(results.ends(found, method)) for method in results.plan.methods)]
    columns, seeds = methods_as_columns(results), len(results.plan.seeds)
    return [*by_kind(results, "table-3", "Table 3 as written: true log-loss relative to Implicit, {}", columns,
                     relative, "Train log-loss after 50 epochs, every method at the step chosen by its true log-loss. ",
                     "In brackets the paper's table.", last=average),
            *by_kind(results, "table-3-absolute", "The same, train log-loss: {}", columns, absolute,
                     "One seed." if seeds == 1 else
                     f"Mean over {seeds} seeds and half their range; one seed for runs of minutes.")]


def best_steps(results):
    """For sets where every step was run on all rows: each method at its best step, relative to Implicit and
    absolute."""
    def relative(found, _):
        base = results.best_end(found, protocol.BY_NAME["implicit"])[1]
        if found not in results.with_all_steps() or not base:
            return None
        ends = [results.best_end(found, method)[1] for method in results.plan.methods]
        return [found.title, *(cell(None if end is None else end / base, 2) for end in ends)]

    def absolute(found, _):
        if found not in results.with_all_steps():
            return None
        row = [found.title]
        for method in results.plan.methods:
            step, end = results.best_end(found, method)
            row.append(cell(None, mark=results.plan.skipped.get((found.name, method.name), "")) if end is None else
                       {"text": f"{end:.4f} ({power(step)})", "value": end})
        return row
    columns = methods_as_columns(results)
    return [*by_kind(results, "best-steps-relative",
                     "Table 3 at the best step of each method, relative to Implicit: {}", columns, relative,
                     "True train log-loss after 50 epochs; one seed."),
            *by_kind(results, "best-steps", "Every method at its best step on all rows: {}", columns, absolute,
                     "True train log-loss after 50 epochs, in brackets the step; one seed. Table 2 has the steps that "
                     "were chosen on a tenth of the rows.")]


def steps_in_numbers(results):
    """Figure 2 in numbers, for the paper's methods and prox."""
    methods = [*protocol.PAPER_METHODS, protocol.BY_NAME["prox"]]
    steps = sorted({step for method in methods for step in results.plan.steps(method)})
    rows = []
    for found in results.with_all_steps():
        for method in methods:
            ends, row = results.end_by_step(found, method), [found.title, method.title]
            for step in steps:
                end = ends.get(step)
                row.append({"text": "" if step not in ends else "overflow" if end is None else
                            f"{end:.3f}" if end < 1000 else f"{end:.3g}", "value": end})
            rows.append(row)
    return one_table("steps", "Figure 2 in numbers: train log-loss after 50 epochs by step",
                     ["data set", "method", *(power(step) for step in steps)], rows, "All rows, one seed.")


def double_sums(results):
    """U-max on Raman's double sum over U-max on the paper's, by step."""
    sums = protocol.BY_NAME["umax"], protocol.UMAX_RAMAN
    steps = results.plan.steps(sums[0])

    def row_of(title, ours, raman):
        row = [title]
        for step in steps:
            a, b = raman.get(step), ours.get(step)
            row.append(cell(None) if a is None or b is None else
                       {"text": f"{a / b:.2f} ({a:.4g} / {b:.4g})", "value": a / b})
        return row
    rows = [row_of(found.title, *(results.end_by_step(found, one) for one in sums))
            for found in results.with_all_steps()]
    rows.append(row_of("Eurlex, authors", *({float(step): points[-1][2] for step, points in
                                             results.authors["eurlex_steps"][name].items()}
                                            for name in ("umax", "umax_raman"))))
    return one_table("double-sums", "U-max on Raman's double sum over U-max on the paper's: train log-loss after 50 "
                     "epochs by step", ["data set", *(f"step {power(step)}" for step in steps)], rows,
                     "Above 1 the paper's double sum is the better one; the log-losses in brackets, Raman's first.")


def table_4(results):
    def authors_of(name):
        implicit, others = authors.TABLE_4[name]
        return [implicit, others, cell(others / implicit, 2)]

    def row_of(found, of_paper):
        times = results.times.get(found.name)
        if times is None:
            return None
        ours, numpy = times["truemax"], times["numpy"]
        return [found.title, *(authors_of(found.set.name) if of_paper else [None] * 3),
                cell(numpy["implicit"], 1), cell(numpy["vanilla"], 1), cell(numpy["vanilla"] / numpy["implicit"], 2),
                cell(ours["implicit"], 2), cell(ours["vanilla"], 2), cell(ours["vanilla"] / ours["implicit"], 2),
                cell(numpy["implicit"] / ours["implicit"], 0),
                *(cell(one["implicit"] / one["vanilla-1"], 2) for one in (numpy, ours))]
    return by_kind(results, "table-4", "Table 4, seconds for 50 epochs: {}",
                   ["data set", "authors: Implicit 1x1", "authors: 1x5 methods", "ratio", "NumPy here: Implicit 1x1",
                    "NumPy here: vanilla 1x5", "ratio", "truemax: Implicit 1x1", "truemax: vanilla 1x5", "ratio",
                    "NumPy / truemax, Implicit", "NumPy: Implicit / vanilla 1x1", "truemax: Implicit / vanilla 1x1"],
                   row_of, "One core. NumPy is timed on 20,000 steps, truemax on up to 400,000, and both are scaled to "
                   "50 epochs.", not_run=lambda one: [f"{one.title}, authors only", *authors_of(one.name), *[None] * 9])


def distance(results):
    rows = []
    for found in results.plan.founds:
        best = results.optimum.get(found.name)
        if best is None or file_hash(found.train) != best["train_sha256"]:
            continue  # else the values belong to other rows
        for words, end_of in (("chosen", results.mean_end), ("best", lambda *one: results.best_end(*one)[1])):
            ends = [end_of(found, method) for method in results.plan.methods]
            rows.append([found.title, words, cell(best["log_loss"], 4), cell(best["gap"], 1),
                         *(cell(None if end is None else end - best["log_loss"], 4) for end in ends)])
    return one_table("optimum", "Distance to the optimum: train log-loss after 50 epochs less the lowest there is",
                     methods_as_columns(results, "step", "optimum", "gained"), rows,
                     "Optimum: Newton's method on the exact softmax likelihood without ridge; 'gained': by its last "
                     "200 steps, or promised by the next one (experiments/paper/optimum.json, written by python3 -m "
                     "experiments.paper.optimum). Chosen: on a tenth of the rows (Table 2), mean over the seeds; best: "
                     "of all steps on all rows, one seed.")


def all_tables(results):
    """The tables of what was run; those of the runs as written only if these were made."""
    first = [*recorded(results), *table_3_recorded(results), *variants(results)]
    if not results.chosen:
        return first
    return [*table_1(results), *table_2(results), *first, *table_3(results), *best_steps(results),
            *steps_in_numbers(results), *double_sums(results), *table_4(results), *distance(results)]
