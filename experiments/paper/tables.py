"""The paper's tables from what was run, each with the authors' values beside ours.

A table is {"id", "title", "note", "columns", "rows"}; a cell is text, a number, or {"text", "value"} where it sorts by
another thing than it shows. Real sets of the paper, twins and further real sets are never in one table.
"""
import csv
import os
import statistics

from . import authors, protocol, registry
from .files import file_hash
from .plan import SENSITIVITY, end_loss

KINDS = (("", "the paper's sets", lambda found: found.set.of_paper and not found.twin),
         ("-twins", "TWINS: generated sets in place of those that are not at hand", lambda found: found.twin),
         ("-further", "further real sets, not the paper's", lambda found: not found.set.of_paper))


def cell(value, digits=3, mark=""):
    if value is None:
        return {"text": mark or "-", "value": None}
    return {"text": f"{value:.{digits}g}{mark}" if abs(value) < 1e-3 or abs(value) >= 1e4 else
            f"{value:.{digits}f}{mark}", "value": value}


def power(step):
    """A step as the paper prints it."""
    return "-" if step is None else f"{step:g}"


def spread(values):
    """Mean and half the range over seeds, as text and number."""
    values = [value for value in values if value is not None]
    if not values:
        return {"text": "diverged", "value": None}
    mean = statistics.mean(values)
    text = f"{mean:.4f}" if mean < 1e4 else f"{mean:.3g}"
    if len(values) > 1:
        half = (max(values) - min(values)) / 2
        text += f" \u00b1 {half:.4f}" if mean < 1e4 else f" \u00b1 {half:.2g}"
    return {"text": text, "value": mean}


class Results:
    """What was run, looked up by what it is."""

    def __init__(self, plan, outcomes, chosen, times, optimum):
        self.plan, self.outcomes, self.chosen, self.times, self.optimum = plan, outcomes, chosen, times, optimum
        self.authors = authors.load()

    def run(self, found, method, seed, step=None, part="train", which=protocol.WRITTEN):
        if step is None:
            step = self.chosen.get((found.name, method.name))
        return self.outcomes.get((found.name, part, which, method.name, step, seed))

    def recorded_run(self, found, method, seed):
        step = self.authors["tuned"][found.set.name][method.name]["step"]
        return self.run(found, method, seed, step, "recorded", protocol.RECORDED)

    def longer_run(self, found, seed):
        step = self.authors["tuned"][found.set.name]["implicit"]["step"]
        return self.outcomes.get((found.name, "recorded", protocol.RECORDED, protocol.LONGER, step, seed))

    def ends(self, found, method):
        return [end_loss(self.run(found, method, seed)) for seed in self.plan.seeds]

    def mean_end(self, found, method):
        ends = [end for end in self.ends(found, method) if end is not None]
        return statistics.mean(ends) if ends else None

    def recorded_ends(self, found, method, doubled):
        """Final train values of each seed: the true log-loss, or the double softmax."""
        ends = []
        for seed in self.plan.seeds:
            run = self.recorded_run(found, method, seed)
            if run is None or run["diverged"]:
                ends.append(None)
            elif doubled:
                ends.append(run["double_softmax"][str(self.plan.epochs)]["double_softmax"])
            else:
                ends.append(end_loss(run))
        return ends

    def has_records(self, found):
        return found.set.of_paper and not found.twin and \
            self.recorded_run(found, protocol.BY_NAME["implicit"], self.plan.seeds[0]) is not None


def not_there(results):
    """The paper's sets that were not run, of which there are only the authors' values."""
    there = {found.set.name for found in results.plan.founds if not found.twin}
    return [registry.BY_NAME[name] for name in authors.ORDER if name not in there]


def table_1(results):
    made = []
    for suffix, words, chosen in KINDS:
        rows = []
        for found in filter(chosen, results.plan.founds):
            run = results.run(found, protocol.BY_NAME["implicit"], results.plan.seeds[0])
            if run is None:
                continue
            data, paper = run["data"], found.set.paper or (None,) * 3
            rows.append([found.title, *(paper[i] for i in range(3)), data["classes"], data["features"], data["rows"],
                         round(data["nonzeros"] / data["rows"], 1), found.set.recorded_rows or None,
                         registry.difference(found, data)])
        if not suffix:
            rows += [[one.title, *one.paper, None, None, None, None, one.recorded_rows, "not run"]
                     for one in not_there(results)]
        if rows:
            made.append({"id": f"table-1{suffix}", "title": f"Table 1, {words}", "rows": rows,
                         "columns": ["data set", "K paper", "D paper", "N paper", "K here", "D here", "N here",
                                     "non-zeros a row", "N in the authors' runs", "how it differs"],
                         "note": "D here is that of the file (MNIST has 784 pixels, of which number 779, counted from "
                                 "0, is the last in use)." if not suffix else ""})
    return made


def table_2(results):
    made = []
    for suffix, words, chosen in KINDS:
        rows = []
        for found in filter(chosen, results.plan.founds):
            row = [found.title]
            for method in results.plan.methods:
                ours = results.chosen.get((found.name, method.name))
                theirs = None
                if method.of_paper and not suffix:
                    theirs = authors.TABLE_2[found.set.name][authors.METHODS.index(method.name)]
                row.append({"text": power(ours) + (f" ({power(theirs)})" if theirs else ""), "value": ours})
            rows.append(row)
        if not suffix:
            for one in not_there(results):
                theirs = dict(zip(authors.METHODS, authors.TABLE_2[one.name]))
                rows.append([f"{one.title}, authors only",
                             *({"text": f"({power(theirs[m.name])})" if m.name in theirs else "", "value": None}
                               for m in results.plan.methods)])
        if rows:
            made.append({"id": f"table-2{suffix}", "title": f"Table 2, chosen steps: {words}", "rows": rows,
                         "columns": ["data set", *(method.title for method in results.plan.methods)],
                         "note": "Step eta*N with the lowest true log-loss after 50 epochs on a tenth of the rows, "
                                 "judged on other training rows"
                                 + ("; in brackets the paper's, which for OVE, NCE and IS was chosen by the double "
                                    "softmax and on sums over batches of 100 rows (times 100 they compare with ours)."
                                    if not suffix else ".")})
    return made


def recorded(results):
    rows = []
    for found in results.plan.founds:
        if not results.has_records(found):
            continue
        for method in protocol.PAPER_METHODS:
            if method not in results.plan.methods:
                continue
            theirs = results.authors["tuned"][found.set.name][method.name]
            measured = results.recorded_ends(found, method, method.biased_of_paper)
            true = results.recorded_ends(found, method, False)
            kept = [value for value in measured if value is not None]
            off = 100 * (statistics.mean(kept) / theirs["train"][-1][2] - 1) if kept else None
            runs = [results.recorded_run(found, method, seed) for seed in results.plan.seeds]
            errors = [run["evaluations"][-1]["train"]["error"] for run in runs if run and not run["diverged"]]
            lost = [str(run["seed"]) for run in runs if run and run["diverged"]]
            rows_here = next((run["data"]["rows"] for run in runs if run), None)
            rows.append([found.title, method.title, rows_here, found.set.recorded_rows, theirs["step"],
                         theirs["train"][-1][2], spread(measured),
                         {"text": "-" if off is None else f"{off:+.1f}%", "value": off},
                         spread(true), theirs["train"][-1][1], statistics.mean(errors) if errors else None,
                         ", ".join(lost) or "none"])
    return [{"id": "recorded", "title": "As recorded: the end of every run beside the authors' record", "rows": rows,
             "columns": ["data set", "method", "N", "N, authors", "step", "authors", "ours, measured as theirs",
                         "difference", "ours, true log-loss", "error, authors", "error, ours", "seeds that overflowed"],
             "note": "Train log-loss after 50 epochs, mean over the seeds that finish and half their range. For OVE, "
                     "NCE and IS the authors' number is the log-loss of softmax(softmax(z))."}] if rows else []


def measured_ends(runs, doubled, last):
    """(log-loss as the authors measured it, error): means over the runs that came through; (None, None): none did."""
    kept = [run for run in runs if run and not run["diverged"]]
    if not kept:
        return None, None
    losses = [run["double_softmax"][last]["double_softmax"] if doubled else end_loss(run) for run in kept]
    return statistics.mean(losses), statistics.mean(run["evaluations"][-1]["train"]["error"] for run in kept)


def variants(results):
    """As recorded with one thing changed."""
    rows = []
    for one in protocol.VARIANTS:
        for found in filter(results.has_records, results.plan.founds):
            for method in (protocol.BY_NAME[name] for name in one.methods):
                theirs = results.authors["tuned"][found.set.name][method.name]
                changed = [results.outcomes.get((found.name, "recorded", protocol.RECORDED, f"{method.name}-{one.name}",
                                                 theirs["step"], seed)) for seed in results.plan.seeds]
                if not any(changed):
                    continue
                runs = [results.recorded_run(found, method, seed) for seed in results.plan.seeds]
                ends = [measured_ends(some, method.biased_of_paper, str(results.plan.epochs))
                        for some in (runs, changed)]
                rows.append([one.words, found.title, method.title, theirs["train"][-1][2], cell(ends[0][0], 4),
                             cell(ends[1][0], 4), theirs["train"][-1][1], cell(ends[0][1], 4), cell(ends[1][1], 4)])
    return [{"id": "variants", "title": "As recorded, with one thing changed", "rows": rows,
             "columns": ["changed", "data set", "method", "authors", "as recorded", "changed", "error, authors",
                         "as recorded", "changed"],
             "note": "Train log-loss after 50 epochs as the authors measured it, and train error; means over the "
                     "seeds."}] if rows else []


def table_3_recorded(results):
    rows = []
    for found in results.plan.founds:
        if not results.has_records(found):
            continue
        base = spread(results.recorded_ends(found, protocol.BY_NAME["implicit"], False))["value"]
        for words, doubled in (("as measured", True), ("true log-loss", False)):
            row = [found.title, words]
            for method in protocol.PAPER_METHODS:
                value = None
                if method in results.plan.methods:
                    value = spread(results.recorded_ends(found, method, doubled and method.biased_of_paper))["value"]
                theirs = authors.TABLE_3[found.set.name][authors.METHODS.index(method.name)]
                ours = None if value is None or base is None else value / base
                row.append({"text": ("-" if ours is None else f"{ours:.2f}") + (f" ({theirs:.2f})" if doubled else ""),
                            "value": ours})
            rows.append(row)
    for name in authors.ORDER:
        if not any(found.set.name == name and results.has_records(found) for found in results.plan.founds):
            rows.append([registry.BY_NAME[name].title, "authors only"] + [{"text": f"({value:.2f})", "value": value}
                                                  for value in authors.TABLE_3[name]])
    averages = [statistics.mean(column) for column in zip(*authors.TABLE_3.values())]
    rows.append(["average of the seven", "authors only", *({"text": f"({value:.2f})", "value": value}
                                                            for value in averages)])
    return [{"id": "table-3-recorded", "title": "Table 3 as recorded: log-loss after 50 epochs relative to Implicit",
             "columns": ["data set", "measured", *(method.title for method in protocol.PAPER_METHODS)], "rows": rows,
             "note": "In brackets the paper's Table 3. 'As measured': OVE, NCE and IS by the log-loss of "
                     "softmax(softmax(z)), as the authors recorded it; 'true log-loss': the same models, measured "
                     "properly."}]


def table_3(results):
    made = []
    for suffix, words, chosen in KINDS:
        founds = list(filter(chosen, results.plan.founds))
        relative, absolute, sums = [], [], {}
        for found in founds:
            base = results.mean_end(found, protocol.BY_NAME["implicit"])
            row, values = [found.title], [found.title]
            for method in results.plan.methods:
                skipped = results.plan.skipped.get((found.name, method.name))
                mean = results.mean_end(found, method)
                ratio = None if mean is None or not base else mean / base
                if ratio is not None:
                    sums.setdefault(method.name, []).append(ratio)
                theirs = ""
                if method.of_paper and not suffix:
                    theirs = f" ({authors.TABLE_3[found.set.name][authors.METHODS.index(method.name)]:.2f})"
                row.append({"text": skipped or ("overflow" if ratio is None else f"{ratio:.2f}") + theirs,
                            "value": ratio})
                values.append({"text": skipped, "value": None} if skipped else spread(results.ends(found, method)))
            relative.append(row)
            absolute.append(values)
        if not founds:
            continue
        relative.append(["average"] + [
            cell(statistics.mean(sums[m.name]) if len(sums.get(m.name, [])) == len(founds) else None, 2)
            for m in results.plan.methods])
        columns = ["data set", *(method.title for method in results.plan.methods)]
        made.append({"id": f"table-3{suffix}",
                     "title": f"Table 3 as written: true log-loss relative to Implicit, {words}",
                     "columns": columns, "rows": relative,
                     "note": "Train log-loss after 50 epochs, every method at the step chosen by its true log-loss"
                             + ("; in brackets the paper's table." if not suffix else ".")})
        made.append({"id": f"table-3-absolute{suffix}", "title": f"The same, train log-loss: {words}",
                     "columns": columns, "rows": absolute,
                     "note": "One seed." if len(results.plan.seeds) == 1 else
                     f"Mean over {len(results.plan.seeds)} seeds and half their range; one seed for runs of minutes."})
    return made


def best_end(results, found, method):
    """Where every step was run on all rows: the best of them and its log-loss; None where none came through."""
    ends = {step: end_loss(results.run(found, method, results.plan.seeds[0], step))
            for step in results.plan.steps(method)}
    ends = {step: end for step, end in ends.items() if end is not None}
    return min(ends.items(), key=lambda item: item[1]) if ends else (None, None)


def best_steps(results):
    """Where every step was run on all rows: each method at its best."""
    made = []
    for suffix, words, chosen in KINDS:
        rows = []
        for found in filter(chosen, results.plan.founds):
            if found.name not in SENSITIVITY:
                continue
            row = [found.title]
            for method in results.plan.methods:
                step, end = best_end(results, found, method)
                skipped = results.plan.skipped.get((found.name, method.name), "")
                row.append({"text": f"{end:.4f} ({power(step)})", "value": end} if end else cell(None, mark=skipped))
            rows.append(row)
        if rows:
            made.append({"id": f"best-steps{suffix}", "title": f"Every method at its best step on all rows: {words}",
                         "columns": ["data set", *(method.title for method in results.plan.methods)], "rows": rows,
                         "note": "True train log-loss after 50 epochs, in brackets the step; one seed. Table 2 has the "
                                 "steps that were chosen on a tenth of the rows."})
    return made


def best_relative(results):
    """Table 3 as it should have been: each method at its best step, over Implicit at its own."""
    made = []
    for suffix, words, chosen in KINDS:
        rows = []
        for found in filter(chosen, results.plan.founds):
            base = best_end(results, found, protocol.BY_NAME["implicit"])[1]
            if found.name not in SENSITIVITY or not base:
                continue
            ends = [best_end(results, found, method)[1] for method in results.plan.methods]
            rows.append([found.title, *(cell(end and end / base, 2) for end in ends)])
        if rows:
            made.append({"id": f"best-steps-relative{suffix}", "rows": rows,
                         "title": f"Table 3 at the best step of each method, relative to Implicit: {words}",
                         "columns": ["data set", *(method.title for method in results.plan.methods)],
                         "note": "True train log-loss after 50 epochs; one seed."})
    return made


def steps_in_numbers(results):
    """Figure 2 in numbers, for the paper's methods and prox."""
    methods = [protocol.BY_NAME[name] for name in ("ove", "nce", "is", "vanilla", "umax", "implicit", "prox")]
    steps = sorted({step for method in methods for step in results.plan.steps(method)})
    rows = []
    for found in results.plan.founds:
        if found.name not in SENSITIVITY:
            continue
        for method in methods:
            row = [found.title, method.title]
            for step in steps:
                run = results.run(found, method, results.plan.seeds[0], step)
                end = end_loss(run)
                row.append({"text": "" if run is None else "overflow" if end is None else
                            f"{end:.3f}" if end < 1000 else f"{end:.3g}", "value": end})
            rows.append(row)
    return [{"id": "steps", "rows": rows, "columns": ["data set", "method", *(power(step) for step in steps)],
             "title": "Figure 2 in numbers: train log-loss after 50 epochs by step", "note": "All rows, one seed."}] \
        if rows else []


def double_sums(results):
    """U-max on Raman's double sum over U-max on the paper's, by step."""
    sums = protocol.BY_NAME["umax"], protocol.UMAX_RAMAN
    steps = results.plan.steps(sums[0])
    rows = []
    for found in results.plan.founds:
        if found.name not in SENSITIVITY:
            continue
        ends = [{step: end_loss(results.run(found, method, results.plan.seeds[0], step)) for step in steps}
                for method in sums]
        rows.append([found.title, *(ratio_of(ends[1][step], ends[0][step]) for step in steps)])
    theirs = [{float(step): points[-1][2] for step, points in results.authors["eurlex_steps"][name].items()}
              for name in ("umax", "umax_raman")]
    rows.append(["Eurlex, authors", *(ratio_of(theirs[1].get(step), theirs[0].get(step)) for step in steps)])
    return [{"id": "double-sums", "rows": rows, "columns": ["data set", *(f"step {power(step)}" for step in steps)],
             "title": "U-max on Raman's double sum over U-max on the paper's: train log-loss after 50 epochs by step",
             "note": "Above 1 the paper's double sum is the better one; the log-losses in brackets, Raman's first."}]


def ratio_of(raman, ours):
    if raman is None or ours is None:
        return cell(None)
    return {"text": f"{raman / ours:.2f} ({raman:.4g} / {ours:.4g})", "value": raman / ours}


def table_4(results):
    made = []
    for suffix, words, chosen in KINDS:
        rows = []
        for found in filter(chosen, results.plan.founds):
            times = results.times.get(found.name)
            if times is None:
                continue
            theirs = authors.TABLE_4[found.set.name] if not suffix else (None, None)
            ours, numpy = times["truemax"], times["numpy"]
            rows.append([found.title, theirs[0], theirs[1], cell(theirs[1] / theirs[0], 2) if theirs[0] else None,
                         cell(numpy["implicit"], 1), cell(numpy["vanilla"], 1),
                         cell(numpy["vanilla"] / numpy["implicit"], 2), cell(ours["implicit"], 2),
                         cell(ours["vanilla"], 2), cell(ours["vanilla"] / ours["implicit"], 2),
                         cell(numpy["implicit"] / ours["implicit"], 0),
                         *(cell(one["implicit"] / one["vanilla-1"], 2) for one in (numpy, ours))])
        if not suffix:
            for one in not_there(results):
                theirs = authors.TABLE_4[one.name]
                rows.append([f"{one.title}, authors only", *theirs, cell(theirs[1] / theirs[0], 2), *[None] * 9])
        if rows:
            made.append({"id": f"table-4{suffix}", "title": f"Table 4, seconds for 50 epochs: {words}", "rows": rows,
                         "columns": ["data set", "authors: Implicit 1x1", "authors: 1x5 methods", "ratio",
                                     "NumPy here: Implicit 1x1", "NumPy here: vanilla 1x5", "ratio",
                                     "truemax: Implicit 1x1", "truemax: vanilla 1x5", "ratio",
                                     "NumPy / truemax, Implicit", "NumPy: Implicit / vanilla 1x1",
                                     "truemax: Implicit / vanilla 1x1"],
                         "note": "One core. NumPy is timed on 20,000 steps, truemax on up to 400,000, and both are "
                                 "scaled to 50 epochs."})
    return made


def distance(results):
    rows = []
    for found in results.plan.founds:
        best = results.optimum.get(found.name)
        if best is None or file_hash(found.train) != best["train_sha256"]:
            continue  # or the values are those of other rows
        for words, end_of in (("chosen", results.mean_end), ("best", lambda *one: best_end(results, *one)[1])):
            ends = [end_of(found, method) for method in results.plan.methods]
            rows.append([found.title, words, cell(best["log_loss"], 4), cell(best["gap"], 1),
                         *(cell(None if end is None else end - best["log_loss"], 4) for end in ends)])
    return [{"id": "optimum", "rows": rows,
             "title": "Distance to the optimum: train log-loss after 50 epochs less the lowest there is",
             "columns": ["data set", "step", "optimum", "gained", *(method.title for method in results.plan.methods)],
             "note": "Optimum: Newton's method on the exact softmax likelihood without ridge; 'gained': by its last "
                     "200 steps, or promised by the next one (experiments/paper/optimum.json, written by python3 -m "
                     "experiments.paper.optimum). Chosen: on a tenth of the rows (Table 2), mean over the seeds; best: "
                     "of all steps on all rows, one seed."}] if rows else []


def all_tables(results):
    """Of what was run: without the runs as written there is nothing to say on them."""
    first = [*recorded(results), *table_3_recorded(results), *variants(results)]
    if not results.chosen:
        return first
    return [*table_1(results), *table_2(results), *first, *table_3(results), *best_relative(results),
            *best_steps(results), *steps_in_numbers(results), *double_sums(results), *table_4(results),
            *distance(results)]


def text(value):
    return "" if value is None else value["text"] if isinstance(value, dict) else \
        (f"{value:.5g}" if isinstance(value, float) else str(value))


def write_csv(tables, folder):
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):  # of another part of the experiments
        if name.endswith(".csv"):
            os.unlink(os.path.join(folder, name))
    for table in tables:
        with open(os.path.join(folder, table["id"] + ".csv"), "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file)
            out.writerow(table["columns"])
            out.writerows([text(value) for value in row] for row in table["rows"])


def markdown(table):
    lines = ["| " + " | ".join(table["columns"]) + " |", "| " + " | ".join("---" for _ in table["columns"]) + " |"]
    return "\n".join(lines + ["| " + " | ".join(text(value) for value in row) + " |" for row in table["rows"]])


def plain(table):
    """In columns that line up; numbers to the right."""
    cells = [table["columns"], *([text(value) for value in row] for row in table["rows"])]
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    left = [all(not isinstance(row[at], (int, float, dict)) for row in table["rows"]) for at in range(len(widths))]

    def line(row):
        return "  ".join(one.ljust(width) if to_left else one.rjust(width)
                         for one, width, to_left in zip(row, widths, left)).rstrip()
    return "\n".join([line(cells[0]), "  ".join("-" * width for width in widths), *map(line, cells[1:])])
