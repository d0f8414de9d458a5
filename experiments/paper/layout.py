"""Formats cells and tables as text, CSV and Markdown.

A table is {"id", "title", "note", "columns", "rows"}; a cell is text, a number, or {"text", "value"} if it sorts by
something other than its text.
"""
import csv
import os
import statistics


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


def text(value):
    return "" if value is None else value["text"] if isinstance(value, dict) else \
        (f"{value:.5g}" if isinstance(value, float) else str(value))


def write_csv(tables, folder):
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):  # from another part of the experiments
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


def words_only(table):
    """Numbers of the columns that hold only text."""
    return [at for at in range(len(table["columns"])) if all(isinstance(row[at], str) for row in table["rows"])]
