"""SoftmaxClassifier: a scikit-learn estimator on truemax's core."""
from __future__ import annotations

import copy
import numbers
import contextlib
import os
from typing import Any, Callable, Iterable, Iterator, Mapping

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from . import _data, _library as lib
from ._estimator import Trained
from ._index import TopKIndex
from ._model import Model
from ._parameters import CLASSIFIERPARAMETERS_DOC, ClassifierParameters
from ._names import python_words
from ._run import Plan, made, option_text, plan_of
from ._scikit_learn import validate_data
from ._targets import Target, classes_of_names, kind_of, merged, names_of, target_of

# With trials and early stopping but without epochs, a run ends here at the latest.
_MOST_EPOCHS = 64


class SoftmaxClassifier(Trained, ClassifierParameters, ClassifierMixin, BaseEstimator):
    classes_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: tuple[Any, Any] | None = None,
            callbacks: Callable[[dict], Any] | Iterable[Callable[[dict], Any]] | None = None) -> SoftmaxClassifier:
        """Trains on all rows.

        Parameters
        ----------
        X : array, SciPy sparse matrix or DataFrame of shape (n, d)
            float32 in CSR with sorted indices and no zeros is used where it is; anything else is converted once.
        y : array of n labels, or lists of labels, or an indicator matrix
        sample_weight : array of n weights from 0 up
        eval_set : (X, y)
            Rows to validate on, in place of validation_fraction of the training rows.
        callbacks : function, or several
            Each is called with every event of the run, a dict with "event" (docs/python.md lists them). A true result
            stops the run at the next step.
        """
        with _as_before_unless_trained(self):
            self._fit(X, y, sample_weight, eval_set, callbacks)
        return self

    def plan(self, X: Any, y: Any, sample_weight: Any = None, *, eval_set: tuple[Any, Any] | None = None) -> Plan:
        """What `fit` would do with the same arguments, and how long it would take, without doing it.

        Print it, or look into it: `plan["plan"]["options"]`, `plan["plan"]["seconds"]`, `plan["notes"]`.
        """
        other = copy.copy(self)  # fit() sets attributes from the rows
        data, valid, start, _ = other._to_fit(X, y, sample_weight, eval_set)
        options = other._fit_options(valid is not None)
        found = plan_of(made(data, options.items(), valid, start))
        found["notes"] = [*(python_words(note) for note in data.about()["notes"]), *found["notes"]]
        return found

    def _fit(self, X: Any, y: Any, sample_weight: Any, eval_set: Any, callbacks: Any) -> None:
        data, valid, start, rows = self._to_fit(X, y, sample_weight, eval_set)
        self._train(data, self._fit_options(valid is not None), valid, start, callbacks)
        self._rows_seen = rows

    def _to_fit(self, X: Any, y: Any, sample_weight: Any,
                eval_set: Any) -> tuple[_data.Data, _data.Data | None, Model | None, int]:
        """Rows to train on, rows to validate on, the model to start from, and the number of rows given."""
        target, X = self._validated(X, y, reset=True)
        weights = _weights_of(sample_weight, X)
        start = self.model_ if self.warm_start and hasattr(self, "model_") else None
        known = _Known.of(self) if start is not None else None
        classes = _classes_in(target, weights)
        if known is None:
            if len(classes) < 2:
                raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class")
        else:
            classes = merged(known.classes, classes)
        holds_out = self.early_stopping and eval_set is None and self._searches()
        held = self._held_out(target, weights) if holds_out else np.zeros(target.row_count, dtype=bool)
        rows = X if not holds_out else _data.some_rows(X, ~held)
        labels = target.part(~held).labels(classes) if holds_out else target_labels(target, classes, weights)
        data = _data.training_data(
            rows, labels, self._rows_options(target).items(), row_weights=_kept(weights, ~held, holds_out),
            name_weights=self._class_weights(classes, target, weights),
            name_counts=None if known is None else known.counts_of(classes))
        valid = None
        if eval_set is not None:
            valid = self._validation(data, classes, *_pair(eval_set))
        elif holds_out:
            valid = _data.beside(data, _data.some_rows(X, held), target.part(held).labels(classes),
                                 row_weights=_kept(weights, held, True))
        self._labels = classes
        return data, valid, start, target.row_count

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SoftmaxClassifier:
        """One pass over these rows, from the present model. Classes may be new in any call.

        A call costs a pass over the rows and over the weights (K x D), so give it many rows. Without `step`, steps
        fall with the number of rows seen. Nothing is tuned: the ridge is `ridge`, or 0.
        """
        first = not hasattr(self, "model_")
        target, X = self._validated(X, y, reset=first)
        weights = _weights_of(sample_weight, X)
        here = _classes_in(target, weights)
        known = None if first else _Known.of(self)
        everything = [here, *([] if known is None else [known.classes]),
                      *([] if classes is None else [np.unique(target_of(classes).value)])]
        every = merged(*everything)
        if len(every) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got {len(every)} class; name the "
                             "others in classes")
        counts = np.ones(len(every)) if known is None else np.maximum(known.counts_of(every), 1)
        data = _data.training_data(X, target_labels(target, every, weights), self._rows_options(target).items(),
                                   row_weights=weights, name_weights=self._class_weights(every, target, weights),
                                   name_counts=counts)
        seen = 0 if first else getattr(self, "_rows_seen", 0)
        options = self._train_options({"n_iter_no_change", "validation_fraction", "epochs", "steps", "seconds", "newton",
                                       "ridge_by_spread"})
        _without_evaluation(options)
        options["epochs"] = "1"
        options.setdefault("ridge", "0")
        if self.step is None:
            about = data.about()
            options["step"] = repr(float(about["first_step"] / np.sqrt(1 + seen / max(about["examples"], 1))))
        if self.hidden is None and first:
            options.setdefault("encoder", "linear")
        self._labels = every
        self._train(data, options, None, None if first else self.model_)
        self._rows_seen = seen + target.row_count
        return self

    # Rows and labels.

    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[Target, Any]:
        target = target_of(y)
        if self.labels == "first":
            target = target.first()
        X = self._checked(X, reset)
        if X.shape[0] != target.row_count:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {[X.shape[0], target.row_count]}")
        return target, X

    def _checked(self, X: Any, reset: bool) -> Any:
        if sparse.issparse(X) and X.format != "csr":  # that of CSR is checked by the library
            _data.require_sound(X)
        with np.errstate(over="ignore", invalid="ignore"):  # the sum of large numbers, with which NaN is looked for
            return validate_data(self, X, reset=reset, accept_sparse="csr", dtype=[np.float32, np.float64],
                                 accept_large_sparse=True)

    def _rows(self, X: Any, labels: Any = None, **weights: Any) -> _data.Data:
        """Rows for the model, from arrays or from a file in any format of the command line."""
        if isinstance(X, (str, os.PathLike)):
            purpose = lib.FOR_PREDICTION if labels is None else lib.FOR_EVALUATION
            return _data.read_for_model(self.model_, purpose, X, self._memory_limit().items())
        return _data.for_model(self.model_, X, labels, **weights)

    def _for_prediction(self, X: Any) -> _data.Data:
        check_is_fitted(self, "model_")
        return self._rows(X if isinstance(X, (str, os.PathLike)) else self._checked(X, reset=False))

    def _searches(self) -> bool:
        return self.method is None or self.method == "auto"

    def _held_out(self, target: Target, weights: np.ndarray | None) -> np.ndarray:
        """Which rows early stopping holds out. Every class keeps a row to train on."""
        share = self.validation_fraction
        if isinstance(share, (bool, np.bool_)) or not isinstance(share, numbers.Real):
            raise TypeError(f"validation_fraction is {share!r}; give a number above 0 and below 1")
        if not 0 < share < 1:
            raise ValueError(f"validation_fraction is {share!r}; give a number above 0 and below 1")
        free = np.ones(target.row_count, dtype=bool)
        rows = target.rows
        counts = np.ones(len(rows)) if weights is None else weights[rows]
        used = np.flatnonzero(counts > 0)
        _, firsts = np.unique(target.value[used], return_index=True)
        free[rows[used[firsts]]] = False
        candidates = np.random.RandomState(self._seed() % 2**32).permutation(np.flatnonzero(free))
        held = np.zeros(target.row_count, dtype=bool)
        held[candidates[:max(int(round(share * target.row_count)), 1)]] = True
        if not held.any():
            raise ValueError("early_stopping: every row is the only one of its class, so that none can be held out; "
                             "give eval_set, or early_stopping=False")
        return held

    def _validation(self, data: _data.Data, classes: np.ndarray, X: Any, y: Any) -> _data.Data:
        target, X = self._validated(X, y, reset=False)
        return _data.beside(data, X, target.labels(classes))

    # Options.

    def _rows_options(self, target: Target) -> dict[str, str]:
        options = self._option_values("rows")
        if target.several:
            options.setdefault("labels", "all")
        return {**options, **self._memory_limit()}

    def _fit_options(self, validated: bool) -> dict[str, str]:
        options = self._train_options({"n_iter_no_change", "validation_fraction"})
        _without_evaluation(options)
        if not validated and ((self._searches() and self.validation_fraction != 0.1) or self.early_stopping):
            options["valid-share"] = option_text("validation_fraction", self.validation_fraction)
        if self.early_stopping:
            options["patience"] = option_text("n_iter_no_change", self.n_iter_no_change)
            if self._searches():
                options.setdefault("epochs", str(_MOST_EPOCHS))
        return options

    def _class_weights(self, classes: np.ndarray, target: Target, weights: np.ndarray | None) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, Mapping):
            unknown = set(self.class_weight) - set(classes.tolist())
            if unknown:
                raise ValueError(f"The classes, {sorted(unknown, key=str)}, are not in class_weight's data; y has "
                                 f"{len(classes)} classes: {classes[:5].tolist()}, ...")
            return np.array([float(self.class_weight.get(c, 1.0)) for c in classes.tolist()])
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            value = target.value if weights is None else target.value[weights[target.rows] > 0]
            present = np.isin(classes, value)
            balanced = np.ones(len(classes))
            balanced[present] = compute_class_weight("balanced", classes=classes[present], y=value)
            return balanced
        raise ValueError(f"class_weight is {self.class_weight!r}; give a dict, 'balanced' or None")

    # The model.

    def _keep(self, model: Model) -> None:
        super()._keep(model)
        names = model.metadata()["classes"]
        place = {name: i for i, name in enumerate(names)}
        labels = self._labels
        del self._labels
        here = np.array([place.get(name, -1) for name in names_of(labels)])
        self.classes_ = labels[here >= 0]
        self._order = here[here >= 0]  # where a class is in the model file
        self._rank = np.argsort(self._order)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each row."""
        return self.predict_topk(X, 1)[0][:, 0]

    def _to_predict(self, X: Any) -> _data.Data:
        return self._for_prediction(X)

    def predict_topk(self, X: Any, k: int, *, index: TopKIndex | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable labels of each row, most probable first, and their probabilities: two arrays (n, k).

        Takes no memory for the other classes. With `index` (`build_index`), most of them are not even scored:
        `index.measured_` has the recall, `index.errors_` how exact the probabilities are.
        """
        data = self._for_prediction(X)
        if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)):
            raise TypeError(f"k is {k!r}; give a whole number")
        if not 1 <= k <= len(self.classes_):
            raise ValueError(f"k is {k}; give a number from 1 to the {len(self.classes_)} classes")
        numbers, probabilities = self._best(data, int(k), index)
        return self.classes_[self._rank[numbers]], probabilities

    def _all_classes(self, X: Any, value: int) -> np.ndarray:
        out = self.model_.predict(self._for_prediction(X), value, self._threads())
        if not np.array_equal(self._order, np.arange(out.shape[1])):
            for first in range(0, len(out), 1024):  # in place: N x K numbers are there only once
                out[first:first + 1024] = out[first:first + 1024, self._order]
        return out

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of all classes, (n, K), in the order of `classes_`. `predict_topk` takes less memory."""
        check_is_fitted(self, "model_")
        return self._all_classes(X, lib.PROBABILITY)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities; finite also where the probability itself is 0."""
        check_is_fitted(self, "model_")
        return self._all_classes(X, lib.LOG_PROBABILITY)

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of all classes, (n, K). Of two classes: the difference of the second to the first, (n,)."""
        check_is_fitted(self, "model_")
        scores = self._all_classes(X, lib.SCORE)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def evaluate(self, X: Any, y: Any = None, sample_weight: Any = None) -> dict[str, Any]:
        """Exact figures of these rows: log_loss, error, precision_at, calibration_error, perplexity, ...

        X may be the path of a file with labels; y is then left out.
        """
        check_is_fitted(self, "model_")
        if isinstance(X, (str, os.PathLike)):
            return self.model_.evaluate(self._rows(X, True), self._threads())
        target, X = self._validated(X, y, reset=False)
        data = self._rows(X, target.labels(self.classes_), row_weights=_weights_of(sample_weight, X))
        return self.model_.evaluate(data, self._threads())

    def log_loss(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The mean log-loss of these rows, in nats, exact over all classes."""
        return self.evaluate(X, y, sample_weight)["log_loss"]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose predicted label is right; with several labels a row, is one of them."""
        check_is_fitted(self, "model_")
        target = target_of(y)
        predicted = self.predict(X)
        check_consistent_length(predicted, range(target.row_count))
        if kind_of(predicted) != kind_of(target.value):
            raise ValueError(f"Mix of label input types: y has {kind_of(target.value)}, the classes are "
                             f"{kind_of(predicted)}")
        weights = _weights_of(sample_weight, predicted[:, np.newaxis])
        if weights is not None and not weights.any():
            raise ValueError("sample_weight is 0 for all rows; give at least one a weight above 0")
        right = np.zeros(target.row_count)
        right[target.rows[predicted[target.rows] == target.value]] = 1
        return float(np.average(right, weights=weights))

    @property
    def coef_(self) -> np.ndarray:
        """A copy of the weights: (K, D) of the features, or (K, hidden) of the learnt ones. Of two classes, as in
        scikit-learn, the difference of the second to the first: (1, D)."""
        self._require_attribute("coef_")
        weight = self.model_.tensor("weight")
        assert weight is not None
        weight = weight[self._order]
        return weight[1:] - weight[:1] if len(weight) == 2 else weight

    @property
    def intercept_(self) -> np.ndarray:
        """A copy of the intercepts, (K,); of two classes (1,). Zeros without fit_intercept."""
        self._require_attribute("intercept_")
        intercept = self.model_.tensor("intercept")
        intercept = np.zeros(self.model_.shape[0], dtype=np.float32) if intercept is None else intercept[self._order]
        return intercept[1:] - intercept[:1] if len(intercept) == 2 else intercept

    @property
    def embedding_(self) -> np.ndarray:
        """A copy of the vectors of the features, (D, hidden); only with learnt features."""
        self._require_attribute("embedding_")
        embedding = self.model_.tensor("embedding")
        if embedding is None:
            raise AttributeError("the model is linear and has no embedding_; give hidden to learn features")
        return embedding

    def _require_attribute(self, name: str) -> None:
        if not hasattr(self, "model_"):
            raise AttributeError(f"{type(self).__name__} has no {name} before fit")

    # Other libraries.

    def _linear(self, what: str) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self, "model_")
        done = self.model_.metadata()["preprocessing"]
        changed = [f"{name}={done[name]}" for name in ("normalize", "hash-features", "max-features")
                   if done.get(name) not in (None, 0, "none", "unlimited")]
        if changed:
            raise ValueError(f"the model changes rows before they meet the weights ({', '.join(changed)}), which {what} "
                             "cannot do; train without it")
        return self.coef_.astype(np.float64), self.intercept_.astype(np.float64)

    def to_logistic_regression(self) -> Any:
        """A fitted `sklearn.linear_model.LogisticRegression` with the same probabilities."""
        from sklearn.linear_model import LogisticRegression
        coef, intercept = self._linear("LogisticRegression")
        if self.model_.tensor("embedding") is not None:
            coef = coef @ self.embedding_.astype(np.float64).T  # linear in the features all the same
        other = LogisticRegression(fit_intercept=self.model_.tensor("intercept") is not None)
        other.classes_, other.coef_, other.intercept_ = self.classes_, coef, intercept
        other.n_features_in_ = self.n_features_in_
        other.n_iter_ = np.array([getattr(self, "n_iter_", 0)], dtype=np.int32)
        if hasattr(self, "feature_names_in_"):
            other.feature_names_in_ = self.feature_names_in_
        return other

    def to_torch_state(self) -> dict[str, Any]:
        """The `state_dict` of a `torch.nn.Linear(D, K)` whose outputs are the scores, in the order of `classes_`."""
        import torch
        self._linear("torch.nn.Linear")
        weight, intercept = self.model_.tensor("weight"), self.model_.tensor("intercept")
        assert weight is not None
        embedding = self.model_.tensor("embedding")
        if embedding is not None:
            weight = weight @ embedding.T
        state = {"weight": torch.from_numpy(np.ascontiguousarray(weight[self._order]))}
        if intercept is not None:
            state["bias"] = torch.from_numpy(np.ascontiguousarray(intercept[self._order]))
        return state

    @classmethod
    def _of_model(cls, model: Model) -> SoftmaxClassifier:
        """An estimator around a model from a file."""
        info = model.metadata()
        estimator = cls(fit_intercept=model.tensor("intercept") is not None,
                        hidden=model.shape[2] if model.tensor("embedding") is not None else None,
                        labels=info["preprocessing"]["labels"])
        estimator._labels = np.unique(classes_of_names(info["classes"]))
        estimator._keep(model)
        estimator.n_features_in_ = info["features"]["file_features"]
        estimator.config_ = info["options"]
        return estimator

    def __sklearn_tags__(self) -> Any:  # from scikit-learn 1.6 on
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        return {"_xfail_checks": {
            "check_sample_weights_invariance": "zero sample_weight is not equivalent to removing samples: the check also "
                                               "shuffles the rows, and steps visit them in another order"}}


def _without_evaluation(options: dict[str, str]) -> None:
    """fit() takes the time of training, not of a pass over all rows and classes at its end."""
    if "eval-every" not in options:
        options.setdefault("eval-train", "off")


@contextlib.contextmanager
def _as_before_unless_trained(estimator: SoftmaxClassifier) -> Iterator[None]:
    """If a fit is refused, the attributes of its rows are those of the present model again."""
    names = ("n_features_in_", "feature_names_in_")
    before = {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}
    model = getattr(estimator, "model_", None)
    try:
        yield
    except BaseException:
        if getattr(estimator, "model_", None) is model:
            for name in names:
                vars(estimator).pop(name, None)
            vars(estimator).update(before)
        raise


class _Known:
    """The classes of a fitted estimator, and how many examples each had."""

    def __init__(self, classes: np.ndarray, counts: np.ndarray) -> None:
        self.classes, self.counts = classes, counts

    @classmethod
    def of(cls, estimator: SoftmaxClassifier) -> _Known:
        counts = np.array(estimator.model_.metadata()["class_counts"], dtype=float)
        return cls(estimator.classes_, counts[estimator._order])

    def counts_of(self, classes: np.ndarray) -> np.ndarray:
        counts = np.zeros(len(classes))
        counts[np.searchsorted(classes, self.classes)] = np.maximum(self.counts, np.finfo(np.float32).tiny)
        return counts


def target_labels(target: Target, classes: np.ndarray, weights: np.ndarray | None) -> _data.Labels:
    """All rows. Labels of rows without weight are not classes; they get the first one, and the row is dropped."""
    if weights is None:
        return target.labels(classes)
    value = target.value.copy()
    value[weights[target.rows] == 0] = classes[0]
    return Target(value, target.row_count, target.begin).labels(classes)


def _classes_in(target: Target, weights: np.ndarray | None) -> np.ndarray:
    value = target.value if weights is None else target.value[weights[target.rows] > 0]
    return np.unique(value)


def _weights_of(sample_weight: Any, X: Any) -> np.ndarray | None:
    if sample_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if np.any(weights < 0):
        raise ValueError("Negative values in data passed to `sample_weight`")
    return weights


def _kept(weights: np.ndarray | None, keep: np.ndarray, some: bool) -> np.ndarray | None:
    return weights[keep] if weights is not None and some else weights


def _pair(eval_set: Any) -> tuple[Any, Any]:
    if isinstance(eval_set, (list, tuple)) and len(eval_set) == 1:
        eval_set = eval_set[0]  # a list of one pair, as other libraries take it
    if not isinstance(eval_set, (list, tuple)) or len(eval_set) != 2:
        raise ValueError("eval_set must be a pair (X, y)")
    return eval_set[0], eval_set[1]


SoftmaxClassifier.__doc__ = f"""Softmax (multinomial logit) with ten to millions of classes.

Finds linear or learnt features, step, ridge and epochs by short trials on held-out rows, then fits all rows: the same
as `truemax train`, with the same bits. Parameters that you set are kept. A step costs the same for any number of
classes, no step size gives NaN, and every log-loss is exact.

{CLASSIFIERPARAMETERS_DOC}
Attributes
----------
classes_ : array of the K labels, sorted
coef_, intercept_ : copies of the weights
embedding_ : copy of the vectors of the features, with hidden
n_features_in_, feature_names_in_
history_ : list of evaluations: epoch, steps, seconds, train_log_loss, valid_log_loss, ...
trials_ : list of the trials that chose step, ridge, epochs
config_ : dict of the options that were used
n_iter_ : epochs
model_ : the model in the library

Examples
--------
>>> from sklearn.datasets import load_digits
>>> from truemax import SoftmaxClassifier
>>> X, y = load_digits(return_X_y=True)
>>> model = SoftmaxClassifier().fit(X, y)
>>> labels, probabilities = model.predict_topk(X[:2], 3)
"""
