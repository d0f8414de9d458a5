"""The page: tables and figures in reading order."""
from . import figures, page


def sections(results, tables, notes):
    by_id = {table["id"]: table for table in tables}

    def some(*starts):
        return [table for name, table in by_id.items()
                if any(name == start or name.startswith(start + "-") for start in starts)]
    recorded, errors, written, written_errors = figures.figure_1(results)
    ends, searches, curves, theirs = figures.figure_2(results)
    made = [
        {"title": "Data", "text": notes, "tables": some("table-1")},
        {"title": "As recorded", "text": [
            "The protocol of the authors' runs: rows in file order, the label skipped if it is drawn, their steps, "
            "batches of 100 rows for OVE, NCE and IS. Solid: ours, dashed: their records. For OVE, NCE and IS both are "
            "the log-loss of softmax(softmax(z)), which cannot fall below log(K - 1 + e) - 1."],
         "tables": [by_id[name] for name in ("recorded", "table-3-recorded", "variants") if name in by_id],
         "plots": recorded + errors},
        {"title": "As written: steps", "tables": some("table-2")},
        {"title": "As written: log-loss after 50 epochs", "text": [
            "Rows at random, every method at the step chosen on a tenth of the rows by the true log-loss on other "
            "training rows. All log-losses here are true ones."],
         "tables": [table for table in some("table-3", "best-steps") if table["id"] != "table-3-recorded"]},
        {"title": "Figure 1: log-loss and error against epochs", "plots": written + written_errors},
        {"title": "Figure 2: sensitivity to the step", "text": [
            "The paper shows Eurlex; this figure has all available sets, trained on all rows and on a tenth of them "
            "judged on others. Runs that overflowed have no point."],
         "tables": some("steps"),
         "plots": ends + searches + curves + theirs},
        {"title": "Figure 3: the two double sums", "text": ["U-max on the paper's double sum and on Raman's."],
         "tables": some("double-sums"), "plots": figures.figure_3(results)},
        {"title": "Figure 4 and Table 4: log-loss and error against time", "text": [
            "First as in the paper: the methods that draw five classes take equally long, so that their epochs measure "
            "time, and Implicit makes more epochs in it, by the ratio in the authors' Table 4. Then the runs as "
            "written against seconds of training on one core; dashed: the authors' records at the pace of their Table "
            "4."],
         "plots": figures.figure_4(results), "tables": some("table-4")},
        {"title": "Beyond the paper: distance to the optimum", "tables": some("optimum")},
    ]
    for section in made:
        section["plots"] = [plot for plot in section.get("plots", []) if plot["lines"]]  # none if nothing was run
    return [section for section in made if section.get("tables") or section["plots"] or section.get("text") is notes]


def write(path, results, tables, notes, part=""):
    """`part`: a description of the part of the experiments that was run; "": all."""
    made = sections(results, tables, notes)
    title = "The paper's experiments, reproduced and corrected" + (", a part" if part else "")
    groups = dict.fromkeys(line["group"] for section in made for plot in section["plots"] for line in plot["lines"])
    steps = sorted((group for group in groups if group.startswith("step ")), key=lambda group: float(group[5:]))
    others = [group for group in groups if group not in steps]
    page.write(path, {"title": title, "groups": [*others, *steps], "text": [
        *([f"This page covers only a part: {part}. `./dev paper` makes the full page."] if part else []),
        "Fagan and Iyengar, Unbiased scalable softmax optimization: every experiment with truemax, the authors' values "
        "beside ours. docs/paper.md discusses the results; experiments/paper has the code."], "sections": made})
    return [plot for section in made for plot in section.get("plots", [])]
