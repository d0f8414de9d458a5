"""Writes the results into docs/paper.md: the text between its marks is the output of `./dev paper --docs`."""
import os
import re
import shutil

from .files import ROOT
from .layout import markdown

PAGE = os.path.join(ROOT, "docs", "paper.md")
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.S)
PICTURE = re.compile(r"!\[[^\]]*\]\(paper/([^)]+)\.svg\)")


def refresh(tables, figures_folder, page=PAGE):
    """Every block `<!-- table: ID -->` gets that table, every picture paper/ID.svg that figure."""
    by_id = {table["id"]: table for table in tables}
    with open(page, encoding="utf-8") as file:
        text = file.read()

    def block(match):
        if match[2] not in by_id:
            return match[0]  # not in this part of the experiments
        return f"{match[1]}{markdown(by_id[match[2]])}\n{match[3]}"
    with open(page, "w", encoding="utf-8") as file:
        file.write(BLOCK.sub(block, text))
    folder = os.path.join(os.path.dirname(page), "paper")
    os.makedirs(folder, exist_ok=True)
    for name in PICTURE.findall(text):
        source = os.path.join(figures_folder, name + ".svg")
        if os.path.exists(source):
            shutil.copyfile(source, os.path.join(folder, name + ".svg"))
