#!/usr/bin/python3
"""A language model of a small generated text, and what it learnt: the next word, and which words are alike. Its perplexity
is exact, so it can be compared with that of the grammar the text comes from.

With wikitext2 at TRUEMAX_DATA/wikitext2 (train.txt, test.txt) it also learns from that. --quick: a shorter text.
"""
import math
import os
import pathlib
import sys

import numpy as np

from truemax import LanguageModel

QUICK = "--quick" in sys.argv or os.environ.get("TRUEMAX_QUICK") == "1"
NOUNS = {"person": "baker pilot nurse painter farmer singer".split(), "animal": "cat dog horse sparrow fox hen".split(),
         "food": "bread soup cheese apple rice cake".split(), "place": "kitchen garden market harbour barn attic".split()}
VERBS = [("person", "eats", "food"), ("person", "buys", "food"), ("person", "feeds", "animal"), ("animal", "eats", "food"),
         ("animal", "watches", "person"), ("person", "draws", "animal")]


def sentences(count, seed):
    """Lines of text, and their log-probability under the grammar."""
    random, lines, log_probability = np.random.default_rng(seed), [], 0.0
    verbs_of = {kind: sum(subject == kind for subject, _, _ in VERBS) for kind in NOUNS}
    for _ in range(count):
        subject, verb, other = VERBS[random.integers(len(VERBS))]
        words = ["the", random.choice(NOUNS[subject]), verb, "the", random.choice(NOUNS[other])]
        log_probability += math.log(verbs_of[subject] / len(VERBS) / 6) - math.log(verbs_of[subject]) - math.log(6)
        somewhere = random.random() < 0.5
        words += ["in", "the", random.choice(NOUNS["place"])] if somewhere else []
        log_probability += math.log(0.5) - (math.log(6) if somewhere else 0)
        lines.append(" ".join(words))
    return lines, log_probability


def main():
    lines, test = sentences(2_000 if QUICK else 20_000, 1)[0], sentences(2_000, 2)
    model = LanguageModel(context=4, hidden=32, epochs=5, step=0.01).fit(lines)
    words = sum(len(line.split()) + 1 for line in test[0])  # the end of a line is a word
    print(f"{len(lines)} sentences such as: {lines[0]}")
    print(f"perplexity of new sentences: {model.perplexity(test[0]):.3f}, under the grammar itself "
          f"{math.exp(-test[1] / words):.3f}\n")
    for start in ("the nurse feeds the", "the fox eats the", "the pilot draws the hen"):
        found, probabilities = model.predict_topk([start], 6)
        print(f"{start:<24} " + "  ".join(f"{word} {p:.2f}" for word, p in zip(found[0], probabilities[0])))
    print()
    for word in ("baker", "horse", "cheese", "attic"):
        print(f"{word:<8} is like " + ", ".join(f"{other} {c:.2f}" for other, c in model.most_similar(word, 4)))
    folder = pathlib.Path(os.environ.get("TRUEMAX_DATA", "")) / "wikitext2"
    if not QUICK and os.environ.get("TRUEMAX_DATA") and (folder / "train.txt").exists():
        large = LanguageModel(hidden=128, seconds=30).fit(folder / "train.txt")
        print(f"\nwikitext2, 30 seconds of training: perplexity {large.perplexity(folder / 'test.txt'):.1f}")


if __name__ == "__main__":
    main()
