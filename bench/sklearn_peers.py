"""SoftmaxClassifier() beside scikit-learn's LogisticRegression and SGDClassifier, each as it comes.

LogisticRegression has max_iter=300 and is shown with C = 1, 10 and 100; SGDClassifier has loss="log_loss". All are
fitted on the same arrays and judged by one function in float64: the mean of -log p(label) over the test rows whose label
the training rows have. Targets, on every data set: the test log-loss is at most 1% above the lowest of the others; and
above 100 classes the fit takes at most a tenth of the time of the one with that log-loss. Ends with 1 if one is missed.

Fits that take less than two seconds are repeated in turns, and the shortest time counts. The whole run takes about
half an hour, nearly all of it LogisticRegression; --quick takes seconds and judges log-losses only.
"""
import argparse
import os
import sys
import tempfile
import time
import warnings

import numpy as np
from scipy import sparse

from harness import DATA, ROOT, fail, output_of
from sets import read_text
from tables import show

PROGRAM = os.path.abspath(os.environ.get("TRUEMAX", os.path.join(ROOT, "build", "release", "truemax")))
NEAR, MANY_CLASSES, TIMES = 1.01, 100, 10
SHORT, TURNS = 2.0, 3
OWN = "SoftmaxClassifier()"


def split_digits(most_rows):
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    x, y = load_digits(return_X_y=True)
    x, test_x, y, test_y = train_test_split(x, y, test_size=0.25, random_state=0)
    return x[:most_rows], y[:most_rows], test_x, test_y


def rows_of(path):
    """Rows that have a label: CSR, and the first label of each."""
    labels, x, _, _ = read_text(path, 10**9)
    keep = np.flatnonzero([label != "" for label in labels])
    return x[keep], np.array(labels)[keep].astype(int)


def stored(name):
    parts = []
    for part in ("train", "test"):
        path = os.path.join(DATA, name, part + ".txt.gz")
        if not os.path.exists(path):
            print(f"skipped: {name}: {path} is not there; set TRUEMAX_DATA to the folder of the data sets", flush=True)
            return None
        parts.append(rows_of(path))
    (x, y), (test_x, test_y) = parts
    width = max(x.shape[1], test_x.shape[1])
    x.resize(x.shape[0], width)
    test_x.resize(test_x.shape[0], width)
    return x, y, test_x, test_y


def generated(rows, test_rows, classes, features):
    with tempfile.TemporaryDirectory() as folder:
        train, test = os.path.join(folder, "train.txt"), os.path.join(folder, "test.txt")
        output_of([PROGRAM, "generate", train, "--test", test, "--rows", rows, "--test-rows", test_rows, "--classes", classes,
                   "--features", features])
        x, y = rows_of(train)
        test_x, test_y = rows_of(test)
    return x, y, test_x, test_y


def data_sets(quick):
    if quick:
        return {"digits, 300 rows": lambda: split_digits(300),
                "30 generated classes": lambda: generated(600, 500, 30, 100)}
    return {"digits": lambda: split_digits(10**9),
            "bibtex": lambda: stored("bibtex"),
            "delicious": lambda: stored("delicious"),
            "5000 generated classes": lambda: generated(10000, 2000, 5000, 1000)}


def methods():
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from truemax import SoftmaxClassifier
    return {OWN: SoftmaxClassifier,
            **{f"LogisticRegression, C={c}": lambda c=c: LogisticRegression(C=c, max_iter=300) for c in (1, 10, 100)},
            "SGDClassifier": lambda: SGDClassifier(loss="log_loss", random_state=0)}


def fit(make, x, y):
    """A fitted model and its seconds."""
    model = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LogisticRegression stops at max_iter
        start = time.perf_counter()
        model.fit(x, y)
        return model, time.perf_counter() - start


def log_loss(name, model, x, y):
    """Test log-loss; None if the model gives no probabilities. Ends the program if they are no distribution."""
    total, at = 0.0, np.searchsorted(model.classes_, y)
    for begin in range(0, len(y), 500):
        with np.errstate(all="ignore"):
            p = np.asarray(model.predict_proba(x[begin:begin + 500]), dtype=np.float64)
        if not np.isfinite(p).all():
            return None
        if p.shape[1] != len(model.classes_) or not np.allclose(p.sum(axis=1), 1, atol=1e-5):
            fail(f"{name}: the probabilities of a row do not sum to 1")
        of_label = p[np.arange(len(p)), at[begin:begin + 500]]
        total -= np.log(np.maximum(of_label, np.finfo(np.float64).tiny)).sum()
    return total / len(y)


def compare(title, x, y, test_x, test_y):
    """Prints the table of a data set; returns the targets that were missed."""
    known = np.flatnonzero(np.isin(test_y, y))
    if len(known) < len(test_y):
        print(f"{title}: {len(test_y) - len(known)} test rows with labels that no training row has are left out", flush=True)
    test_x, test_y = test_x[known], test_y[known]
    classes = np.unique(y)
    losses, seconds = {}, {}
    for turn in range(TURNS):
        for name, make in methods().items():
            if turn > 0 and seconds[name] > SHORT:
                continue
            model, took = fit(make, x, y)
            seconds[name] = min(took, seconds.get(name, took))
            if turn > 0:
                continue
            if not np.array_equal(model.classes_, classes) or model.n_features_in_ != x.shape[1]:
                fail(f"{title}: {name} has other classes or features than the training rows")
            losses[name] = log_loss(name, model, test_x, test_y)
    others = {name: loss for name, loss in losses.items() if name != OWN and loss is not None}
    best = min(others, key=others.get)
    own = losses[OWN]
    rows = [[name, "not a number" if loss is None else f"{loss:.4f}", f"{seconds[name]:.2f}",
             "-" if loss is None else f"{loss / others[best]:.3f}", f"{seconds[name] / seconds[best]:.3f}"]
            for name, loss in losses.items()]
    show(f"{title}: {x.shape[0]} training and {len(test_y)} test rows, {x.shape[1]} features, {len(classes)} classes",
         ["method", "test log-loss", "seconds", "of the best log-loss", "of its seconds"], rows)
    missed = []
    if own is None or own > NEAR * others[best]:
        missed.append(f"{title}: test log-loss {own} is more than {NEAR} times {others[best]:.4f} of {best}")
    if len(classes) > MANY_CLASSES and TIMES * seconds[OWN] > seconds[best]:
        missed.append(f"{title}: {seconds[OWN]:.2f} s is more than a {TIMES}th of {seconds[best]:.2f} s of {best}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small data, log-losses only")
    parser.add_argument("--only", help="data sets whose name has this in it")
    options = parser.parse_args()
    sys.path.insert(0, os.path.join(ROOT, "build", "python"))
    try:
        import truemax  # noqa: F401
    except ImportError as error:
        fail(f"the Python package is not there ({error}); run ./dev python")
    missed = []
    for title, read in data_sets(options.quick).items():
        if options.only and options.only not in title:
            continue
        data = read()
        if data is None:
            continue
        x, y, test_x, test_y = data
        if sparse.issparse(x):
            x, test_x = sparse.csr_matrix(x), sparse.csr_matrix(test_x)
        missed += compare(title, x, y, test_x, test_y)
    print()
    for line in missed:
        print("missed: " + line)
    if not missed:
        print("all targets met")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
