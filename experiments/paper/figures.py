"""The paper's figures from our runs: as data for the page, and as SVG and PNG files.

A plot is {"id", "title", "x", "y", "log_x", "log_y", "lines"}; a line {"name", "group", "dashed", "points"}. Dashed
lines are the authors' records.
"""
import hashlib
import json
import os

from . import authors, page, protocol, registry
from .plan import SENSITIVITY, end_loss, judged_loss

COLOURS = page.colours()


def plot(name, title, x, y, lines, log_x=False, log_y=False):
    lines = [line for line in lines if line["points"]]
    return {"id": name, "title": title, "x": x, "y": y, "log_x": log_x, "log_y": log_y, "lines": lines}


def line(method, points, dashed=False, words=""):
    title = method.title + words
    return {"name": title + (", authors" if dashed else ""), "group": method.title, "dashed": dashed, "points": points}


def curve(run, value, x="epoch"):
    """[[x, value]] of a run's recordings; value: log_loss or error."""
    if run is None:
        return []
    return [[event[x], event["train"][value]] for event in run["evaluations"]]


def doubled(run):
    return [] if run is None else [
        [int(epoch), one["double_softmax"]]
        for epoch, one in sorted(run["double_softmax"].items(), key=lambda item: int(item[0]))]


def figure_1(results):
    """Log-loss, and error, against epochs: as recorded beside the records, then as written."""
    made, errors, written, written_errors = [], [], [], []
    seed = results.plan.seeds[0]
    by_name = {found.set.name: found for found in results.plan.founds if results.has_records(found)}
    for name in authors.ORDER:
        records, found = results.authors["tuned"][name], by_name.get(name)
        losses, wrong = [], []
        for method in protocol.PAPER_METHODS:
            theirs = records[method.name]["train"]
            losses.append(line(method, [[epoch, loss] for epoch, _, loss in theirs], True))
            wrong.append(line(method, [[epoch, error] for epoch, error, _ in theirs], True))
            if found:
                run = results.recorded_run(found, method, seed)
                losses.append(line(method, doubled(run) if method.biased_of_paper else curve(run, "log_loss")))
                wrong.append(line(method, curve(run, "error")))
        words = found.title if found else f"{registry.BY_NAME[name].title}, authors' records only"
        made.append(plot(f"figure-1-{name}", f"{words}: train log-loss as the authors measured it", "epoch", "log-loss",
                         losses))
        errors.append(plot(f"figure-1-error-{name}", f"{words}: train error", "epoch", "error", wrong))
    for found in results.plan.founds:
        runs = [(method, results.run(found, method, seed)) for method in results.plan.methods]
        written.append(plot(f"figure-1-written-{found.name}", f"{found.title}: true train log-loss", "epoch",
                            "log-loss", [line(method, curve(run, "log_loss")) for method, run in runs], log_y=True))
        written_errors.append(plot(f"figure-1-written-error-{found.name}", f"{found.title}: train error", "epoch",
                                   "error", [line(method, curve(run, "error")) for method, run in runs]))
    return made, errors, written, written_errors


def figure_2(results):
    """Sensitivity to the step: the end of every run by step, and the curves of each method."""
    ends, curves, searches, theirs = [], [], [], []
    seed = results.plan.seeds[0]
    for found in results.plan.founds:
        tenth = []
        for method in results.plan.methods:
            points = [[step, judged_loss(results.run(found, method, 1, step, "tenth"))]
                      for step in results.plan.steps(method)]
            tenth.append(line(method, [point for point in points if point[1] is not None]))
            records = results.authors["search"].get(found.set.name, {}).get(method.name, {}) if not found.twin else {}
            if not method.biased_of_paper:
                theirs_here = [[float(step), loss] for step, loss in records.items() if loss is not None]
                tenth.append(line(method, sorted(theirs_here), True))
        searches.append(plot(f"figure-2-tenth-{found.name}",
                             f"{found.title}, a tenth of the rows, judged on others: end by step", "step", "log-loss",
                             tenth, log_x=True, log_y=True))
        if found.name not in SENSITIVITY:
            continue
        whole = []
        for method in results.plan.methods:
            runs = [(step, results.run(found, method, seed, step)) for step in results.plan.steps(method)]
            whole.append(line(method, [[step, end_loss(run)] for step, run in runs if end_loss(run) is not None]))
            curves.append(by_steps(f"figure-2-{found.name}-{method.name}",
                                   f"{found.title}, {method.title}: train log-loss by step", runs))
        ends.append(plot(f"figure-2-{found.name}", f"{found.title}, all rows: end by step", "step", "log-loss", whole,
                         log_x=True, log_y=True))
    for method in protocol.PAPER_METHODS:
        steps = sorted(results.authors["eurlex_steps"].get(method.name, {}).items(), key=lambda item: float(item[0]))
        if steps:
            theirs.append(plot(f"figure-2-authors-{method.name}", f"Eurlex, {method.title}: authors' records by step",
                               "epoch", "log-loss",
                               [by_step(float(step), [[epoch, loss] for epoch, _, loss in points], True)
                                for step, points in steps], log_y=True))
    return ends, searches, curves, theirs


def by_step(step, points, dashed=False, words=""):
    return {"name": f"step {step:g}{words}{', authors' if dashed else ''}", "group": f"step {step:g}", "dashed": dashed,
            "points": points}


def by_steps(name, title, runs):
    """The curves of one method; none if only the end was recorded."""
    curves = [(step, curve(run, "log_loss")) for step, run in runs]
    lines = [by_step(step, points) for step, points in curves if len(points) > 1]
    return plot(name, title, "epoch", "log-loss", lines if len(lines) > 1 else [], log_y=True)


def figure_3(results):
    """The two double sums: U-max on the paper's and on Raman's, by step."""
    made = []
    sums = ((protocol.BY_NAME["umax"], "the paper's sum"), (protocol.UMAX_RAMAN, "Raman's sum"))
    for found in results.plan.founds:
        if found.name not in SENSITIVITY:
            continue
        ends = []
        for method, words in sums:
            runs = [(step, results.run(found, method, results.plan.seeds[0], step))
                    for step in results.plan.steps(method)]
            made.append(by_steps(f"figure-3-{found.name}-{method.name}", f"{found.title}: U-max on {words}, by step",
                                 runs))
            ends.append({"name": words, "group": words, "dashed": False,
                         "points": [[step, end_loss(run)] for step, run in runs if end_loss(run) is not None]})
        made.append(plot(f"figure-3-{found.name}", f"{found.title}: U-max on the two double sums, end by step", "step",
                         "log-loss", ends, log_x=True, log_y=True))
    ends = []
    for name, words in (("umax", "the paper's sum"), ("umax_raman", "Raman's sum")):
        steps = sorted(results.authors["eurlex_steps"][name].items(), key=lambda item: float(item[0]))
        made.append(plot(f"figure-3-authors-{name}", f"Eurlex: U-max on {words}, authors' records by step", "epoch",
                         "log-loss", [by_step(float(step), [[epoch, loss] for epoch, _, loss in points], True)
                                      for step, points in steps], log_y=True))
        ends.append({"name": words + ", authors", "group": words, "dashed": True,
                     "points": [[float(step), points[-1][2]] for step, points in steps]})
    made.append(plot("figure-3-authors", "Eurlex: the two double sums, end by step, authors' records", "step",
                     "log-loss", ends, log_x=True, log_y=True))
    return made


def figure_4(results):
    """Against time. First as in the paper: epochs of the 1 x 5 methods, which take equally long, and Implicit for the
    same time, by the ratio in the authors' Table 4; then log-loss and error of the runs as written against our
    seconds."""
    return [*figure_4_recorded(results), *(figure_4_written(results) if results.chosen else ())]


def figure_4_recorded(results):
    made, seed = [], results.plan.seeds[0]
    by_name = {found.set.name: found for found in results.plan.founds if results.has_records(found)}
    for name in authors.ORDER:
        records, found = results.authors["tuned"][name], by_name.get(name)
        ratio = authors.TABLE_4[name][1] / authors.TABLE_4[name][0]
        lines = []
        for method in protocol.PAPER_METHODS:
            implicit = method.name == "implicit"
            theirs = results.authors["longer"][name] if implicit else records[method.name]["train"]
            lines.append(line(method, [[epoch / (ratio if implicit else 1), loss] for epoch, _, loss in theirs], True))
            if found is None:
                continue
            run = results.recorded_run(found, method, seed)
            points = doubled(run) if method.biased_of_paper else curve(run, "log_loss")
            if implicit:
                points = [[epoch / ratio, loss] for epoch, loss in
                          curve(results.recorded_run(found, method, seed, protocol.LONGER), "log_loss")]
            lines.append(line(method, points))
        words = found.title if found else f"{registry.BY_NAME[name].title}, authors' records only"
        made.append(plot(f"figure-4-{name}", f"{words}: train log-loss as the authors measured it, against time",
                         "time, in epochs of the 1 x 5 methods", "log-loss", lines))
    return made


def figure_4_written(results):
    made, seed = [], results.plan.seeds[0]
    for value, words, name in (("log_loss", "true train log-loss", "figure-4-written"),
                               ("error", "train error", "figure-4-written-error")):
        for found in results.plan.founds:
            lines = []
            for method in results.plan.methods:
                lines.append(line(method, curve(results.run(found, method, seed), value, "train_seconds")))
                comparable = value == "error" or not method.biased_of_paper  # theirs are not true log-losses
                if method.of_paper and comparable and found.set.of_paper and not found.twin:
                    seconds = authors.TABLE_4[found.set.name][0 if method.name == "implicit" else 1] / protocol.EPOCHS
                    theirs = results.authors["tuned"][found.set.name][method.name]["train"]
                    lines.append(line(method, [[epoch * seconds, loss if value == "log_loss" else error]
                                               for epoch, error, loss in theirs], True))
            made.append(plot(f"{name}-{found.name}", f"{found.title}: {words} against seconds of training", "seconds",
                             value.replace("_", "-"), lines, log_x=True, log_y=value == "log_loss"))
    return made


def write_files(plots, folder):
    """Writes every plot as SVG and PNG; files made from the same numbers by the same code are kept."""
    colours = colours_of(plots)
    os.makedirs(folder, exist_ok=True)
    kept = os.path.join(folder, "made-of.json")
    before = {}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            before = json.load(file)
    with open(__file__, "rb") as file:
        code = file.read()
    made = {}
    for one in plots:
        told = json.dumps([one, [colours[each["group"]] for each in one["lines"]]]).encode()
        made[one["id"]] = hashlib.sha256(code + told).hexdigest()
        stem = os.path.join(folder, one["id"])
        there = os.path.exists(stem + ".svg") and os.path.exists(stem + ".png")
        if not there or before.get(one["id"]) != made[one["id"]]:
            draw(one, colours, stem)
    for name in os.listdir(folder):  # from another part of the experiments
        if name.endswith((".svg", ".png")) and name[:-4] not in made:
            os.unlink(os.path.join(folder, name))
    with open(kept + ".part", "w", encoding="utf-8") as file:
        json.dump(made, file, indent=1)
    os.replace(kept + ".part", kept)


def colours_of(plots):
    """{group: colour}, the same in all plots; groups in one plot have different colours as long as there are enough."""
    groups = [[each["group"] for each in one["lines"]] for one in plots]
    number = {}
    for group in dict.fromkeys(sum(groups, [])):
        taken = {number.get(other) for here in groups if group in here for other in here}
        number[group] = next(at for at in range(len(taken) + 1) if at not in taken)
    return {group: COLOURS[at % len(COLOURS)] for group, at in number.items()}


def draw(one, colours, stem):
    import matplotlib  # imported here: it takes a second, and most calls draw nothing
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "truemax"  # the same bytes from the same numbers
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(6.4, 4.2))
    for each in one["lines"]:
        axes.plot(*zip(*each["points"]), color=colours[each["group"]], label=each["name"],
                  linestyle="--" if each["dashed"] else "-", marker=None if each["dashed"] else "o", markersize=3,
                  linewidth=1.3)
    axes.set(title=one["title"], xlabel=one["x"], ylabel=one["y"])
    axes.title.set_fontsize(9)
    if one["log_x"]:
        axes.set_xscale("log")
    if one["log_y"]:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if one["lines"]:
        axes.legend(fontsize=6, ncol=2)
    figure.tight_layout()
    figure.savefig(stem + ".svg", metadata={"Date": None})
    figure.savefig(stem + ".png", dpi=110)
    pyplot.close(figure)
