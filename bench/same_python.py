#!/usr/bin/env python3
"""The cases of same_results.py for the Python package, run by the package that PYTHONPATH names.

    PYTHONPATH=FOLDER bench/same_python.py CASE...

Prints one line of JSON for each case: what it gives, weights and predictions as hashes.
"""
import hashlib
import json
import os
import sys
import tempfile
import warnings

import numpy as np

import same_cases
import same_data


def digest(*arrays):
    total = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update("\n".join(map(str, array.ravel())).encode() if array.dtype == object else array.tobytes())
    return total.hexdigest()[:16]


def rows(count=500, classes=12, features=40, seed=1):
    """Rows of their class's features and of noise, and their classes."""
    random = np.random.default_rng(seed)
    y = np.minimum(random.geometric(0.2, count) - 1, classes - 1)
    x = random.random((count, features)) * (random.random((count, features)) < 0.2)
    x[np.arange(count), 3 * y % features] += 1
    return x.astype(np.float32), y


def of_classifier(model, x, y):
    from truemax import SoftmaxClassifier
    assert isinstance(model, SoftmaxClassifier)
    labels, probabilities = model.predict_topk(x[:50], min(3, len(model.classes_)))
    return {"weights": digest(model.coef_, model.intercept_), "classes": digest(np.asarray(model.classes_)),
            "predictions": digest(model.predict_proba(x)), "top": digest(labels, probabilities),
            "log_loss": model.log_loss(x, y), **of_run(model)}


def of_run(model):
    """What the search chose and what the run was; no seconds."""
    trials = [{name: t.get(name) for name in ("about", "step", "ridge", "hidden", "log_loss")} for t in model.trials_]
    config = {name: value for name, value in model.config_.items() if name not in ("threads", "verbose")}
    return {"trials": trials, "config": config, "epochs": model.n_iter_, "steps": model.n_steps_}


def classifier(y_of=lambda y: y, x_of=lambda x: x, fit=None, **parameters):
    """A case that fits a classifier; `fit` has arguments of fit()."""
    def case():
        from truemax import SoftmaxClassifier
        x, y = rows()
        x, y = x_of(x), y_of(y)
        return of_classifier(SoftmaxClassifier(**parameters).fit(x, y, **(fit or {})), x, y)
    return case


def digits():
    from sklearn.datasets import load_digits
    from truemax import SoftmaxClassifier
    x, y = load_digits(return_X_y=True)
    return of_classifier(SoftmaxClassifier().fit(x[:600], y[:600]), x[600:], y[600:])


def partial():
    from truemax import SoftmaxClassifier
    x, y = rows()
    model = SoftmaxClassifier()
    for part in np.array_split(np.arange(len(y)), 4):
        model.partial_fit(x[part], y[part])
    return of_classifier(model, x, y)


def warm_start(**parameters):
    def case():
        from truemax import SoftmaxClassifier
        x, y = rows()
        model = SoftmaxClassifier(warm_start=True, **parameters)
        model.fit(x[y < 8], y[y < 8])
        return of_classifier(model.fit(x, y), x, y)  # four new classes
    return case


def sparse(x):
    from scipy.sparse import csr_matrix
    return csr_matrix(x)


def several(y):
    return [sorted({int(k), int(k) // 2}) for k in y]


def saved():
    """Save, load, index."""
    import truemax
    x, y = rows()
    model = truemax.SoftmaxClassifier(method="prox", epochs=3, step=2).fit(x, y)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.safetensors")
        model.save(path)
        again = truemax.load(path)
        return {"predictions": digest(again.predict_proba(x)),
                "same": bool((again.predict(x) == model.predict(x)).all()),
                "figures": {k: v for k, v in again.evaluate(x, y).items() if "second" not in k}}


def events():
    """What callbacks are told, without seconds and without how often steps are reported."""
    from truemax import SoftmaxClassifier
    x, y = rows()
    seen = []
    SoftmaxClassifier(epochs=3).fit(x, y, callbacks=lambda event: seen.append(event) or False)
    kept = [e for e in seen if e["event"] in ("trial", "evaluate", "fit")]
    return {"events": [{k: v for k, v in e.items() if "second" not in k and k != "config"} for e in kept]}


def language(**parameters):
    def case():
        from truemax import LanguageModel
        text = same_data.made_text(300, 1)
        model = LanguageModel(**parameters).fit(text)
        goes_on = parameters.get("encoder") != "cbow"  # which needs words on both sides
        next_words = {"next": digest(model.predict_proba(["w1 w5", "w7"]))} if goes_on else {}
        return {"weights": digest(model.embedding_), **next_words,
                "log_loss": model.log_loss(same_data.made_text(50, 2)), "near": model.most_similar("w1", 3),
                **of_run(model)}
    return case


def links(**parameters):
    def case():
        from truemax import LinkPredictor
        triples = [line.split("\t") for line in same_data.made_triples(600, 1).splitlines()]
        model = LinkPredictor(**parameters).fit(triples)
        names, probabilities = model.predict_topk([("e1", "r1"), ("e2", "r0")], 3)
        return {"weights": digest(model.entity_vectors_, model.relation_vectors_), "top": digest(names, probabilities),
                "ranks": digest(model.ranks(triples[:50])), **of_run(model)}
    return case


DIVERGING = ("vanilla", "raman", "composition")  # with large steps
NAMED = {"method": "prox", "draw": "blocks", "classes_per_step": 16, "epochs": 3, "step": 2}
CASES = {
    "SoftmaxClassifier()": classifier(),
    "SoftmaxClassifier() of digits": digits,
    "SoftmaxClassifier() of sparse rows": classifier(x_of=sparse),
    "SoftmaxClassifier() of float64": classifier(x_of=lambda x: x.astype(np.float64)),
    "SoftmaxClassifier() of two classes": classifier(y_of=lambda y: np.where(y < 3, "no", "yes")),
    "SoftmaxClassifier() of several labels": classifier(y_of=several),
    "SoftmaxClassifier() with sample_weight": classifier(fit={"sample_weight": np.linspace(0, 3, 500)}),
    "newton=0": classifier(newton=0),
    "newton=20, ridge=1, ridge_by_spread": classifier(newton=20, ridge=1, epochs=0, ridge_by_spread=True),
    "ridge=0.1, epochs=5": classifier(ridge=0.1, epochs=5),
    "target=train": classifier(target="train", epochs=4),
    "class_weight=balanced, newton=0": classifier(class_weight="balanced", newton=0),
    "early_stopping": classifier(early_stopping=True, newton=0, epochs=8, n_iter_no_change=2),
    "hidden=8": classifier(hidden=8),
    "hidden=8, epochs=3, step, dropout": classifier(hidden=8, epochs=3, step=0.02, ridge=0.1, dropout=0.2),
    "encoder=bag, epochs=2": classifier(encoder="bag", epochs=2),
    "hash_features=16, normalize=l2": classifier(hash_features=16, normalize="l2", epochs=3),
    "random_state=7, n_jobs=1": classifier(random_state=7, n_jobs=1, newton=0),
    "steps=500": classifier(method="implicit", steps=500, step=1),
    "group=8": classifier(method="prox", epochs=3, group=8, step=1),
    **{f"method={name}": classifier(method=name, epochs=3, step=0.01 if name in DIVERGING else 0.5)
       for name in same_cases.METHODS},
    "prox, blocks": classifier(**NAMED),
    "prox, blocks, n_jobs=2, ridge": classifier(**NAMED, n_jobs=2, ridge=0.5),
    "partial_fit": partial,
    "warm_start": warm_start(newton=0),
    "warm_start of prox": warm_start(**NAMED),
    "warm_start of hidden": warm_start(hidden=8, epochs=2, step=0.02, ridge=0.1),
    "save and load": saved,
    "callbacks": events,
    "LanguageModel(hidden=8)": language(hidden=8),
    "LanguageModel, fixed": language(hidden=8, epochs=3, step=0.02, layers=1, tied=True, dropout=0.1),
    "LanguageModel, skipgram": language(encoder="skipgram", hidden=8, epochs=2),
    "LanguageModel, cbow": language(encoder="cbow", hidden=8, epochs=2, step=0.02, tied=False),
    "LinkPredictor(hidden=8)": links(hidden=8),
    "LinkPredictor, fixed": links(hidden=8, epochs=4, step=0.05, ridge=0.01),
    "refused: step=-1": classifier(step=-1),
    "refused: lbfgs with groups": classifier(method="lbfgs", group=4),
}


def main():
    warnings.simplefilter("ignore")
    for name in sys.argv[1:]:
        try:
            found = CASES[name]()
        except Exception as error:  # what is said is a result
            found = {"raised": f"{type(error).__name__}: {error}"}
        print(json.dumps({"case": name, **found}, default=str), flush=True)


if __name__ == "__main__":
    main()
