#!/usr/bin/python3
"""Writes the results of items 4, 5 and 7 of ./dev bench as tables of a Markdown page:

    ./dev bench --markdown docs/performance.md        (measures, then updates the page)
    bench/markdown.py build/bench/bench.json docs/performance.md        (from an earlier run)

The page marks each table by a line `<!-- bench: NAME -->` before it and `<!-- bench: end -->` after it. The text
between is replaced; tables that were not measured stay as they are.
"""
import json
import re
import sys

NAMES = ("train", "test", "blas", "learnt")


class NoPlace(Exception):
    """A page without the marks for a table."""


def table(head, rows, words=(0, 1)):
    """Columns in `words` are left-aligned, the others right-aligned."""
    marks = ["---" if i in words else "---:" for i in range(len(head))]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |"
                     for row in (head, marks, *rows))


def number(value, digits):
    return "-" if value is None else f"{value:,.{digits}f}"


def train_table(found):
    """Item 4: the peers of a data set, starting with the one that truemax beats by least."""
    rows = []
    for one in found:
        told = [r for r in one.get("item_4", ()) if r["runs"]]
        name = one["data"]
        for r in sorted(told, key=lambda r: 0.0 if r["ratio"] is None else r["ratio"]):
            ours, bound = r["truemax"], r["lower_bound"]
            times = "slower" if ours is None else f"{'at least ' if bound else ''}{r['ratio']:,.1f}"
            rows.append((name, r["peer"], number(r["loss"], 4), f"{'over ' if bound else ''}{r['seconds']:.2f}",
                         "-" if ours is None else f"{ours['seconds']:.2f}", times, r["note"]))
            name = ""
    head = ("data", "other program", "its train log-loss", "its seconds", "truemax", "times", "its settings")
    return table(head, rows, (0, 1, 6)) if rows else None


def test_table(found):
    """Item 5: truemax with all defaults, then the peers by test log-loss."""
    rows = []
    for one in found:
        if "item_5" not in one:
            continue
        ours = one["item_5"]["truemax"]
        rows.append((one["data"], "truemax, all defaults", f"{ours['test']:.4f}", f"{ours['seconds']:.2f}"))
        with_model = [r for r in one["item_5"]["peers"] if r["best"]]
        rows += [("", r["peer"], f"{r['best']['test']:.4f}", f"{r['best']['seconds']:.2f}")
                 for r in sorted(with_model, key=lambda r: r["best"]["test"])]
    return table(("data", "program", "test log-loss", "seconds"), rows) if rows else None


def blas_table(said):
    rows = [(r["peer"], r["library"], number(r.get("gflops"), 0), r.get("threads", "-")) for r in said]
    return table(("program", "BLAS", "GFLOP/s of a product", "threads"), rows) if rows else None


def learnt_table(found):
    """Item 7: a data set a line."""
    rows = []
    for one in found:
        linear, learnt, plain = one["grids"]["linear"][0], one["grids"]["learnt"][0], one["plain"]
        rows.append((one["data"], f"{linear['test']:.3f}", f"{learnt['test']:.3f}", f"{plain['test']:.3f}",
                     f"{plain['hidden']} learnt" if plain["hidden"] else "linear", f"{plain['seconds']:.0f}",
                     f"{100 * (1 / one['ratio'] - 1):+.1f}%"))
    head = ("data", "linear, best of its grid", "learnt, best of its grid", "plain", "chosen", "its seconds",
            "above the better")
    return table(head, rows, (0, 4)) if rows else None


def tables(results):
    """{name: table} of what was measured."""
    found = {}
    if peers := results.get("item_4_5"):
        found.update(train=train_table(peers["data"]), test=test_table(peers["data"]), blas=blas_table(peers["blas"]))
    if learnt := results.get("item_7"):
        found["learnt"] = learnt_table(learnt)
    return {name: text for name, text in found.items() if text}


def place(name):
    return re.compile(rf"(<!-- bench: {name} -->\n).*?(<!-- bench: end -->)", re.S)


def check(path):
    """Raises NoPlace if the page has no marks for a table."""
    with open(path, encoding="utf-8") as file:
        page = file.read()
    for name in NAMES:
        if not place(name).search(page):
            raise NoPlace(f"{path} has no line '<!-- bench: {name} -->' with a line '<!-- bench: end -->' after it")
    return page


def renew(path, found):
    page = check(path)
    for name, text in found.items():
        page = place(name).sub(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page, count=1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        found = tables(json.load(file))
    if not found:
        sys.exit(f"markdown: error: {sys.argv[1]} has no results of items 4, 5 and 7")
    try:
        renew(sys.argv[2], found)
    except (NoPlace, OSError) as why:
        sys.exit(f"markdown: error: {why}")
    print(f"renewed: {', '.join(found)}")


if __name__ == "__main__":
    main()
