"""report.html: the page of `truemax report` (src/report/page.html) filled with the tables and plots of the paper."""
import json
import os
import re

from .files import ROOT

TEMPLATE = os.path.join(ROOT, "src", "report", "page.html")


def write(path, data):
    with open(TEMPLATE, encoding="utf-8") as file:
        template = file.read()
    assert template.count("/*DATA*/") == 1
    # "<" would let a text end the script element that holds the data.
    text = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    with open(path, "w", encoding="utf-8") as file:
        file.write(template.replace("/*DATA*/", text))


def colours():
    """The colours of the page, for the figures that are files."""
    with open(TEMPLATE, encoding="utf-8") as file:
        return json.loads(re.search(r"const colours = (\[.*?\]);", file.read())[1])
