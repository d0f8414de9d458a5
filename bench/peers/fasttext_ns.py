"""fastText with the loss ns: see fasttext.py."""
from peers import fasttext
from peers.fasttext import needs  # noqa: F401

WHAT = "fastText ns"


def runs(name):
    return fasttext.runs(name, "ns")


def fit(problem, settings, marks):
    fasttext.fit(problem, settings, marks, "ns")
