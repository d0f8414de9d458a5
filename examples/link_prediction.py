#!/usr/bin/python3
"""Completes a knowledge graph: generated families, in which a tenth of the facts is left out. LinkPredictor ranks all
people for each missing one; the ranks are filtered, as in the literature. --quick: fewer families.
"""
import os
import sys

import numpy as np

from truemax import LinkPredictor

QUICK = "--quick" in sys.argv or os.environ.get("TRUEMAX_QUICK") == "1"


def family(number, random):
    """Facts of one family: two parents, their children, and where all of them live."""
    father, mother = f"father{number}", f"mother{number}"
    children = [f"child{number}.{i}" for i in range(random.integers(2, 5))]
    town = f"town{random.integers(20)}"
    facts = [(father, "married to", mother), (mother, "married to", father)]
    for child in children:
        facts += [(father, "parent of", child), (mother, "parent of", child), (child, "child of", father),
                  (child, "child of", mother)]
        facts += [(child, "sibling of", other) for other in children if other != child]
    facts += [(person, "lives in", town) for person in (father, mother, *children)]
    return facts + [(town, "lies in", f"country{sum(map(ord, town)) % 4}")]


def main():
    random = np.random.default_rng(1)
    facts = sorted({fact for number in range(60 if QUICK else 300) for fact in family(number, random)})
    facts = [facts[i] for i in random.permutation(len(facts))]
    test, train = facts[:len(facts) // 10], facts[len(facts) // 10:]
    model = LinkPredictor(hidden=64, step=0.01, ridge=0.01, epochs=60 if QUICK else 100).fit(train)
    people = len(model.entities_)
    print(f"{len(train)} facts about {people} people and places; {len(test)} were left out\n")

    figures = model.evaluate(test)
    print(f"mean reciprocal rank {figures['mrr']:.3f} (at random {np.mean(1 / np.arange(1, people + 1)):.3f}), "
          f"the right answer first {figures['hits_at_1']:.0%}, among ten {figures['hits_at_10']:.0%}")
    ranks = model.ranks(test)
    relations = np.array([relation for _, relation, _ in test])
    for relation in np.unique(relations):
        of_relation = 1 / ranks[relations == relation]
        print(f"  {relation:<12} tail {of_relation[:, 0].mean():.3f}, head {of_relation[:, 1].mean():.3f}")

    asked = [fact for fact in test if fact[1] in ("lives in", "sibling of")][:4]
    print("\nmissing facts, and the most probable answers that are not known yet:")
    found, probabilities = model.predict_topk([fact[:2] for fact in asked], 3, only_new=True)
    for fact, names, p in zip(asked, found, probabilities):
        print(f"  {fact[0]} {fact[1]} {fact[2]}:  " + ", ".join(f"{name} {share:.2f}" for name, share in zip(names, p)))
    print("\nnearest to father7:", ", ".join(name for name, _ in model.most_similar("father7", 5)))


if __name__ == "__main__":
    main()
