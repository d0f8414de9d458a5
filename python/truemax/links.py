"""LinkPredictor: the missing end of a triple (head, relation, tail)."""
from __future__ import annotations

import contextlib
import math
import warnings
from typing import Any, Callable, Iterable, Literal

import numpy as np

from . import _data, _inputs, _library as lib, _triples
from ._base import BaseEstimator
from ._estimator import Trained, close_to, require_count
from ._index import TopKIndex
from ._model import Model, by_cosine
from ._parameters import TRIPLEPARAMETERS_DOC, TripleParameters
from ._run import option_text

_INVERSE = "^-1"  # after the name of a relation, as in `truemax nearest`


class LinkPredictor(Trained, TripleParameters, BaseEstimator):
    entities_: np.ndarray
    relations_: np.ndarray

    def fit(self, triples: Any, y: None = None, *, eval_triples: Any = None,
            callbacks: Callable[[dict], Any] | Iterable[Callable[[dict], Any]] | None = None) -> LinkPredictor:
        """Trains on triples.

        Parameters
        ----------
        triples : array (n, 3), list of (head, relation, tail), DataFrame with 3 columns, or path of a file
            Names are texts or whole numbers. A file has head, relation and tail on each line, separated by tabs. The
            triples are kept as known ones for `ranks`, `evaluate` and `predict_topk`; of a file, only its path.
        y : None
            Heads and tails are what is predicted.
        eval_triples : as triples
            Triples to validate on, in place of validation_fraction of the training triples. They are kept as known too.
        callbacks : function, or several
            Each is called with every event of the run, a dict with "event" (docs/python.md lists them). A true result
            stops the run at the next step.
        """
        if y is not None:
            raise TypeError("y is given, but heads and tails are what is predicted; leave it out, and name "
                            "eval_triples")
        options = self._train_options({"validation_fraction"})
        if eval_triples is None and self.validation_fraction != 0.1:
            options["valid-share"] = option_text("validation_fraction", self.validation_fraction)
        triples = _read(triples, "triples")
        with _triples.triples_file(triples, "triples") as path:
            data = _data.read_training_data(path, self._reading_options().items())
        valid = None
        if eval_triples is not None:
            eval_triples = _read(eval_triples, "eval_triples")
            with _triples.triples_file(eval_triples, "eval_triples") as path:
                valid = _data.read_beside(data, path, self._memory_limit().items())
        self._given = triples, eval_triples
        try:
            self._train(data, options, valid, None, callbacks)
        finally:
            del self._given
        return self

    def _reading_options(self) -> dict[str, str]:
        options = {"format": "triples", **self._memory_limit()}
        if self._threads():
            options["threads"] = str(self._threads())
        return options

    def _keep(self, model: Model) -> None:
        super()._keep(model)
        triples, validation = getattr(self, "_given", (None, None))
        self._known = [source if isinstance(source, str) else _triples.Known(source)
                       for source in (triples, validation) if source is not None]
        whole = triples.whole if isinstance(triples, _triples.Columns) else (None, None)
        info = model.metadata()
        # Rows of the embedding: entities by falling count, ties in the order of `classes`.
        order = np.argsort(-np.array(info["class_counts"]), kind="stable")
        self._classes = _triples.values_of_names(info["classes"], whole[0])  # in the order of the model file
        self._order = order
        names = [info["classes"][number] for number in order]
        relations = info["features"]["relations"]
        rows = [*names, *relations, *(name + _INVERSE for name in relations)]
        # A name that is several of these is an entity, else a relation.
        self._rows = {name: row for row, name in reversed(list(enumerate(rows)))}
        self.entities_ = self._classes[order]
        self.relations_ = _triples.values_of_names(relations, whole[1])

    # Evaluation.

    def _data_of(self, triples: Any, sources: list[Any]) -> _data.Data:
        with contextlib.ExitStack() as stack:
            path = stack.enter_context(_triples.triples_file(triples, "triples"))
            filters = [stack.enter_context(_triples.triples_file(source, "known")) for source in sources]
            options = [*self._memory_limit().items(), *(("filter", name) for name in filters)]
            data = _data.read_for_model(self.model_, lib.FOR_EVALUATION, path, options)
        return data

    def _sources(self, known: Any) -> list[Any]:
        self._require_fitted()
        sources = [*self._known, *_triples.known_sources(known)]
        if not sources:
            warnings.warn("the training triples are not known, because a model file has none, so they count as wrong "
                          "answers; give them as known", UserWarning, stacklevel=3)
        return sources

    def _figures(self, triples: Any, sources: list[Any]) -> dict[str, Any]:
        return self.model_.evaluate(self._data_of(triples, sources), self._threads())

    def evaluate(self, triples: Any, known: Any = None) -> dict[str, Any]:
        """Exact figures of triples: log_loss and perplexity of the tails, mrr and hits_at_1, _3, _10 of tails and
        heads, ...

        Ranks are filtered: other true answers do not count as rivals. True are the triples evaluated, those of `fit`
        and those of `known`: triples, the path of a file, or a list of several of these. A model from a file does not
        know the triples of its training; give them as `known`.

        Triples with a name that training never saw are left out of the log-loss, and counted as `unseen`; they are
        ranked.
        """
        return self._figures(triples, self._sources(known))

    def log_loss(self, triples: Any) -> float:
        """The mean log-loss of the tails, in nats, exact over all entities."""
        self._require_fitted()
        return self._figures(triples, [])["log_loss"]

    def perplexity(self, triples: Any) -> float:
        """exp(log_loss)."""
        loss = self.log_loss(triples)
        return math.exp(loss) if loss < 709 else math.inf

    def ranks(self, triples: Any, known: Any = None) -> np.ndarray:
        """The filtered ranks of tail and head of each triple, (n, 2). Ties share the mean of their ranks. `known` is
        that of `evaluate`."""
        data = self._data_of(triples, self._sources(known))
        return self.model_.ranks(data, self._threads())

    def mrr(self, triples: Any, known: Any = None) -> float:
        """The mean reciprocal rank of tails and heads. `known` is that of `evaluate`."""
        return self._figures(triples, self._sources(known))["mrr"]

    def score(self, triples: Any, y: None = None) -> float:
        """`mrr`. Higher is better."""
        return self.mrr(triples)

    # Prediction.

    def _pairs(self, pairs: Any) -> tuple[_data.Data, Any]:
        self._require_fitted()
        if not _triples.is_path(pairs):
            _inputs.require_order(pairs, "pairs")
            pairs = _triples.columns_of(pairs, "pairs", fewest=2)
        with _triples.triples_file(pairs, "pairs", fewest=2) as path:
            data = _data.read_for_model(self.model_, lib.FOR_PREDICTION, path, self._memory_limit().items())
        about = data.about()
        if unknown := about["rows"] - about["nonzeros"] // 2:
            warnings.warn(f"{unknown} of {about['rows']} pairs have a head or relation not seen in training; all tails "
                          "are equally probable there", UserWarning, stacklevel=3)
        return data, pairs

    def predict(self, pairs: Any) -> np.ndarray:
        """The most probable tail of each (head, relation)."""
        return self.predict_topk(pairs, 1)[0][:, 0]

    def _to_predict(self, X: Any) -> _data.Data:
        return self._pairs(X)[0]

    def predict_topk(self, pairs: Any, k: int, *, only_new: bool = False, known: Any = None,
                     index: TopKIndex | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable tails of each (head, relation), most probable first, and their probabilities: two arrays
        (n, k).

        `pairs` is an array (n, 2), a list, a DataFrame or the path of a file; a third column is ignored. With
        only_new=True, tails of the triples of `fit` and of `known` (as for `evaluate`) are left out; probabilities stay
        those among all entities. With `index` (`build_index`), not all entities are scored.
        """
        data, pairs = self._pairs(pairs)
        k = require_count("k", k, len(self._classes), "entities")
        if not only_new:
            if known is not None:
                raise ValueError("known: it names tails to leave out; add only_new=True")
            numbers, probabilities = self._best(data, k, index)
            return self._classes[numbers], probabilities
        left_out = self._tails_of(pairs, self._sources(known))
        most = min(k + max(map(len, left_out)), len(self._classes))
        numbers, probabilities = self._best(data, most, index)
        kept = np.empty((len(numbers), k), dtype=np.int64)
        for row, out in enumerate(left_out):
            places = np.flatnonzero(~np.isin(numbers[row], list(out)))
            if len(places) < k:
                raise ValueError(f"k is {k}, but row {row} of pairs has only {len(places)} tails that are not known; "
                                 "give a smaller k")
            kept[row] = places[:k]
        return (self._classes[np.take_along_axis(numbers, kept, axis=1)],
                np.take_along_axis(probabilities, kept, axis=1))

    def _tails_of(self, pairs: Any, sources: list[Any]) -> list[set[int]]:
        """Of each pair, the known tails as numbers in the order of the model file."""
        if isinstance(pairs, _triples.Columns):
            asked = list(zip(pairs.columns[0], pairs.columns[1]))
        else:
            rows = _triples.rows_of_file(_inputs.path_of(pairs, "pairs", "give pairs as a list"), fewest=2)
            asked = [(row[0], row[1]) for row in rows]
        place = {str(name): number for number, name in enumerate(self._classes)}
        tails: dict[tuple[str, str], set[int]] = {pair: set() for pair in asked}
        for source in sources:
            for head, relation, tail in _triples.rows_of_file(source) if isinstance(source, str) else source.rows():
                if (head, relation) in tails and tail in place:
                    tails[head, relation].add(place[tail])  # type: ignore[index]
        return [tails[pair] for pair in asked]

    def predict_proba(self, pairs: Any) -> np.ndarray:
        """Probabilities of all tails of each (head, relation), (n, K), in the order of `entities_`. `predict_topk`
        takes less memory."""
        data, _ = self._pairs(pairs)
        out = self.model_.predict(data, lib.PROBABILITY, self._threads())
        for first in range(0, len(out), 1024):  # in place: n x K numbers are there only once
            out[first:first + 1024] = out[first:first + 1024, self._order]
        return out

    # Vectors.

    def _row(self, name: Any) -> int:
        """Of the embedding."""
        self._require_fitted()
        text = _triples.name_of(name, "name")
        if text not in self._rows:
            raise KeyError(f"{name!r} is not an entity or a relation of the model{close_to(text, self._rows)}")
        return self._rows[text]

    def vector(self, name: Any) -> np.ndarray:
        """A copy of the vector of an entity, a relation, or the inverse of one ('lies in^-1'): hidden/2 complex
        numbers. Raises KeyError for unknown names."""
        row = self._row(name)
        return self._complex(slice(row, row + 1))[0]

    def most_similar(self, name: Any, k: int = 10, *,
                     among: Literal["entities", "relations", "all"] = "entities") -> list[tuple[Any, float]]:
        """The k entities whose vectors are nearest by cosine, nearest first, and their cosines. Fewer if there are not
        as many.

        `among`: entities; relations, with their inverses as 'name^-1'; or all of them, as `truemax nearest` does.
        """
        row, k = self._row(name), require_count("k", k)
        vectors = self.model_.kept_tensor("embedding")
        if not np.any(vectors[row]):
            raise ValueError(f"the vector of {name!r} is zero and has no direction; give another name, or train longer")
        inverse = [f"{relation}{_INVERSE}" for relation in self.relations_]
        names = [*self.entities_.tolist(), *self.relations_.tolist(), *inverse]
        count = len(self.entities_)
        parts = {"entities": (0, count), "relations": (count, len(names)), "all": (0, len(names))}
        if among not in parts:
            raise ValueError(f"among is {among!r}; give one of {', '.join(map(repr, parts))}")
        first, last = parts[among]
        leave_out = row - first if first <= row < last else None
        found = by_cosine(vectors[first:last], vectors[row], k, leave_out=leave_out)
        return [(names[first + i], float(cosine)) for i, cosine in zip(*found)]

    def _complex(self, rows: slice) -> np.ndarray:
        numbers = self.model_.kept_tensor("embedding")[rows]
        half = numbers.shape[1] // 2
        out = np.empty((len(numbers), half), dtype=np.complex64)
        out.real, out.imag = numbers[:, :half], numbers[:, half:]
        return out

    @property
    def entity_vectors_(self) -> np.ndarray:
        """A copy of the vectors of `entities_`, complex, (K, hidden/2). The score of a triple is
        `(head * relation * tail.conj()).real.sum()`."""
        self._require_attribute("entity_vectors_")
        return self._complex(slice(0, len(self.entities_)))

    @property
    def relation_vectors_(self) -> np.ndarray:
        """A copy of the vectors of `relations_`, complex, (R, hidden/2)."""
        self._require_attribute("relation_vectors_")
        return self._complex(slice(len(self.entities_), len(self.entities_) + len(self.relations_)))

    @property
    def inverse_relation_vectors_(self) -> np.ndarray:
        """A copy of the vectors of the inverse relations, which predict heads from tails, complex, (R, hidden/2)."""
        self._require_attribute("inverse_relation_vectors_")
        return self._complex(slice(len(self.entities_) + len(self.relations_), None))

    @classmethod
    def _of_model(cls, model: Model) -> LinkPredictor:
        """An estimator around a model from a file."""
        estimator = cls(hidden=model.shape[2])
        estimator._keep(model)
        estimator.config_ = model.metadata()["options"]
        return estimator


def _read(triples: Any, argument: str) -> Any:
    """The path of a file, or columns."""
    if _triples.is_path(triples):
        return _inputs.path_of(triples, argument, "give triples as rows of (head, relation, tail)")
    _inputs.require_order(triples, argument)
    return _triples.columns_of(triples, argument)


LinkPredictor.__doc__ = f"""Predicts the links of a knowledge graph: the tail of (head, relation), and the head.

ComplEx with reciprocal relations and the N3 penalty, under the softmax over all entities. Finds ridge, step and epochs
by short trials on held-out triples, then fits all of them: the same as `truemax train --format triples`, with the same
bits. Parameters that you set are kept.

{TRIPLEPARAMETERS_DOC}
Attributes
----------
entities_ : array of the K names that are heads or tails, by falling count
relations_ : array of the R names of relations, by falling count
entity_vectors_, relation_vectors_, inverse_relation_vectors_ : copies of the vectors, complex
history_ : list of evaluations: epoch, steps, seconds, train_log_loss, valid_log_loss, ...
trials_ : list of the trials that chose step, ridge, epochs
config_ : dict of the options that were used
n_iter_ : epochs
model_ : the model in the library

Examples
--------
>>> from truemax import LinkPredictor
>>> triples = [("Berlin", "capital of", "Germany"), ("Paris", "capital of", "France"), ("Berlin", "lies in", "Germany")]
>>> model = LinkPredictor(hidden=16, ridge=0.01, step=0.01, epochs=50).fit(triples)
>>> tails, probabilities = model.predict_topk([("Paris", "lies in")], 2)
"""
