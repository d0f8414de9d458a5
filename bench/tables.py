"""Tables in plain text."""


def show(title, head, rows, text=(0,)):
    """Prints an aligned table; the columns in `text` are left-aligned (-1: the last), the others right-aligned."""
    left = {column % len(head) for column in text}
    widths = [max(len(str(row[i])) for row in [head, *rows]) for i in range(len(head))]
    print(f"\n{title}")
    for row in [head, *rows]:
        cells = [str(cell).ljust(w) if i in left else str(cell).rjust(w)
                 for i, (cell, w) in enumerate(zip(row, widths))]
        print("  " + "  ".join(cells).rstrip(), flush=True)
