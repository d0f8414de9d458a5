#!/usr/bin/python3
"""Classifies short documents into 2,000 topics: TfidfVectorizer and SoftmaxClassifier in a Pipeline, beside scikit-learn's
SGDClassifier, which trains one model for each class, on the same rows. SoftmaxClassifier finds step, ridge and epochs itself;
nothing is tuned by hand. --quick: 300 topics.
"""
import os
import sys
import time

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

from truemax import SoftmaxClassifier

QUICK = "--quick" in sys.argv or os.environ.get("TRUEMAX_QUICK") == "1"
TOPICS, TRAIN, TEST = (300, 3_000, 500) if QUICK else (2_000, 10_000, 2_000)


def documents(count, words_of_topic, share, random):
    """A document has a dozen words: two of three from its topic, the others from anywhere."""
    topic = random.choice(len(words_of_topic), count, p=share)
    anywhere = words_of_topic[random.integers(0, len(words_of_topic), (count, 12)), random.integers(0, 20, (count, 12))]
    own = words_of_topic[topic[:, None], np.minimum(random.geometric(0.2, (count, 12)) - 1, 19)]
    word = np.where(random.random((count, 12)) < 2 / 3, own, anywhere)
    return [" ".join(f"w{number}" for number in row) for row in word], np.array([f"topic{t}" for t in topic])


def top5(classes, probability, y):
    best = np.argpartition(-probability, 4, axis=1)[:, :5]
    return np.mean([label in classes[row] for label, row in zip(y, best)])


def main():
    random = np.random.default_rng(1)
    words_of_topic = random.integers(0, TOPICS * 2, (TOPICS, 20))
    share = 1 / np.arange(1, TOPICS + 1) ** 0.7  # a few large topics, many small ones
    x, y = documents(TRAIN, words_of_topic, share / share.sum(), random)
    test_x, test_y = documents(TEST, words_of_topic, share / share.sum(), random)
    known = np.isin(test_y, y)
    test_x, test_y = [document for document, seen in zip(test_x, known) if seen], test_y[known]
    print(f"{TRAIN} documents of {len(set(y))} topics; the rarest has {np.unique(y, return_counts=True)[1].min()}\n")

    print(f"{'classifier':<18} {'seconds':>7} {'log-loss':>8} {'accuracy':>8} {'in top 5':>8}")
    for classifier in (SoftmaxClassifier(encoder="linear"), SGDClassifier(loss="log_loss", max_iter=3, tol=None)):
        model = make_pipeline(TfidfVectorizer(), classifier)
        start = time.time()
        model.fit(x, y)
        seconds, probability = time.time() - start, model.predict_proba(test_x)
        right = probability[np.arange(len(test_y)), np.searchsorted(model.classes_, test_y)]
        print(f"{type(classifier).__name__:<18} {seconds:7.1f} {-np.log(np.maximum(right, 1e-15)).mean():8.3f} "
              f"{model.score(test_x, test_y):8.3f} {top5(model.classes_, probability, test_y):8.3f}")
    print("\nThe log-loss is that of the probabilities; a model that knows only the topics' shares has "
          f"{-np.mean([np.log(np.mean(y == label)) for label in test_y]):.3f}.")


if __name__ == "__main__":
    main()
