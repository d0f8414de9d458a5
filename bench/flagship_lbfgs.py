"""Test log-loss and time of `truemax train --encoder linear` and of scikit-learn's L-BFGS.

scikit-learn: LogisticRegression (multinomial, lbfgs) on the same rows, of unit length, first label only, for C of 3,
10, 30 and 100; its best test log-loss is the mark, the time is that of one fit at that C. Its rows are sparse or dense,
whichever is faster (20 iterations of each), and it uses OpenBLAS: with the reference BLAS nothing is judged. truemax:
`train TRAIN --test TEST` with the preprocessing options only. Its time is that of the whole process without reading:
search, validation, the final fit and evaluation.
"""
import os
import sys
import time
import warnings

import blas
from flagship_runs import PAPER, ROOT, Missing, data_file, number
from tables import show

CS = (3.0, 10.0, 30.0, 100.0)
# Data set, highest test log-loss allowed, the C for --quick.
SETS = (("bibtex", 2.63, 10.0), ("delicious", 3.87, 10.0))
SOONER, FIT_SOONER = 5, 20


def matrices(name):
    """Training and test rows for scikit-learn: (x, y) each; test rows with unseen labels are left out."""
    import numpy as np
    from scipy import sparse
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    import model_reader
    parts, known = [], None
    for part in ("train", "test"):
        raw, features = model_reader.read_xmlrepository(data_file(name, part))
        rows, *_ = model_reader.prepare(raw, {"max-features": 10000, "normalize": "l2"})
        labels = [row.labels[0] for row in rows]
        known = set(labels) if known is None else known
        rows = [row for row, label in zip(rows, labels) if label in known]
        begin = np.cumsum([0] + [len(row.features) for row in rows])
        index = np.concatenate([np.fromiter(row.features.keys(), np.int32) for row in rows])
        value = np.concatenate([np.fromiter(row.features.values(), float) for row in rows])
        parts.append((sparse.csr_matrix((value, index, begin), (len(rows), features)),
                      np.array([row.labels[0] for row in rows])))
    return parts


TRIED_ITERATIONS = 20


def in_the_faster_form(train, c):
    """(the training rows, sparse or dense; which of the two)."""
    x, y = train
    forms = {"sparse rows": x, "dense rows": x.toarray()}
    took = {name: fit((rows, y), None, c, TRIED_ITERATIONS)["seconds"] for name, rows in forms.items()}
    best = min(took, key=took.get)
    return (forms[best], y), best


def fit(train, test, c, iterations=2000):
    """One fit: {C, seconds, test log-loss (if there are test rows), iterations}."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    model = LogisticRegression(C=c, multi_class="multinomial", solver="lbfgs", max_iter=iterations)
    begin = time.perf_counter()
    model.fit(*train)
    seconds = time.perf_counter() - begin
    if test is None:
        return {"C": c, "seconds": seconds, "iterations": int(model.n_iter_[0])}
    x, y = test
    column = {label: k for k, label in enumerate(model.classes_)}
    scores = x @ model.coef_.T + model.intercept_
    highest = scores.max(axis=1)
    of_label = scores[np.arange(len(y)), [column[label] for label in y]]
    loss = float(np.mean(np.log(np.exp(scores - highest[:, None]).sum(axis=1)) + highest - of_label))
    return {"C": c, "seconds": seconds, "loss": loss, "iterations": int(model.n_iter_[0])}


def part(options, program, verdicts):
    results, rows = [], []
    try:
        import sklearn  # noqa: F401
    except ImportError:
        verdicts.skipped(3, "no scikit-learn; install python3-sklearn")
        return results
    warnings.filterwarnings("ignore")  # fits that stop at max_iter warn
    multiplies = blas.measure("numpy", 1)
    print(f"\nscikit-learn multiplies with {multiplies['library']} ({', '.join(multiplies['files'])}): "
          f"{multiplies['gflops']:.1f} GFLOP/s on one core")
    for line in blas.complaints(blas.alternatives()):
        print(line)
    if multiplies["library"] in (blas.REFERENCE, "none"):
        verdicts.skipped(3, f"scikit-learn is not at its best without OpenBLAS; install {blas.PACKAGE}")
        return results
    for name, most, quick_c in SETS:
        if options.data and name not in options.data:
            continue
        try:
            train, test = matrices(name)
        except Missing as why:
            verdicts.skipped(3, str(why))
            continue
        train, form = in_the_faster_form(train, quick_c)
        fits = [fit(train, test, c) for c in ((quick_c,) if options.quick else CS)]
        best = min(fits, key=lambda f: f["loss"])
        runs = []
        for round_ in range(options.rounds):  # in turns; L-BFGS is slow, so one more fit is enough
            if round_ == 1 and not options.quick:
                again = fit(train, test, best["C"])
                best["seconds"] = min(best["seconds"], again["seconds"])
            run = program.train(f"lbfgs-{name}-{round_}", data_file(name), "--test", data_file(name, "test"), *PAPER,
                                *(options.instead or ["--encoder", "linear"]))
            runs.append({"seconds": run.without_reading, "fit_seconds": run.fit_seconds, "loss": run.loss("test")})
        results.append({"data": name, "blas": multiplies, "form": form, "lbfgs": fits, "runs": runs})
        rows += [(f"{name}, L-BFGS, {form}, C = {f['C']:g}", f"{f['seconds']:.2f}", "", number(f["loss"])) for f in fits]
        mine = {"loss": max((run["loss"] for run in runs), key=lambda loss: float("inf") if loss is None else loss),
                "seconds": min(run["seconds"] for run in runs), "fit": min(run["fit_seconds"] for run in runs)}
        rows.append((f"{name}, truemax", f"{mine['seconds']:.2f}", f"{mine['fit']:.2f}", number(mine["loss"])))
        verdicts.at_most(3, f"test log-loss, {name}", mine["loss"], most)
        verdicts.at_most(3, f"seconds in all, {name}: a fifth of one fit", mine["seconds"], best["seconds"] / SOONER)
        verdicts.at_most(3, f"seconds of the final fit, {name}: a twentieth", mine["fit"], best["seconds"] / FIT_SOONER)
    if rows:
        show(f"Test log-loss beside scikit-learn's L-BFGS (its best C counts, truemax's worst of {options.rounds} runs)",
             ("", "seconds", "final fit", "test log-loss"), rows)
    return results
