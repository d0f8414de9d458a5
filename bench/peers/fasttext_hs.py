"""fastText with the loss hs: see fasttext.py."""
from peers import fasttext
from peers.fasttext import needs  # noqa: F401

WHAT = "fastText hs"


def runs(name):
    return fasttext.runs(name, "hs")


def fit(problem, settings, marks):
    fasttext.fit(problem, settings, marks, "hs")
