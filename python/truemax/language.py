"""LanguageModel: the next word, or vectors of words, from plain text."""
from __future__ import annotations

import math
import os
import re
import warnings
from typing import Any, Callable, Iterable

import numpy as np

from . import _data, _inputs, _library as lib
from ._base import BaseEstimator
from ._estimator import Trained, close_to, require_count
from ._index import TopKIndex
from ._model import Model, by_cosine
from ._parameters import TEXTPARAMETERS_DOC, TextParameters
from ._run import option_text

_ENCODERS = ("context", "cbow", "skipgram")
_BLANKS = re.compile("[ \t-\r]+")  # what separates words


class LanguageModel(Trained, TextParameters, BaseEstimator):
    vocabulary_: dict[str, int]

    def fit(self, text: Any, y: None = None, *, eval_text: Any = None,
            callbacks: Callable[[dict], Any] | Iterable[Callable[[dict], Any]] | None = None) -> LanguageModel:
        """Trains on a text.

        Parameters
        ----------
        text : path of a file, or lines of text
            A path is a `pathlib.Path`, or a str that names an existing file; it may be packed with gzip or zstd. Lines
            are a list or another iterable of str, or one str with line breaks. Words are separated by blanks, and the
            end of a line is the word `<eos>`.
        y : None
            The words themselves are what is predicted.
        eval_text : path of a file, or lines of text
            A text to validate on, in place of validation_fraction of the training text.
        callbacks : function, or several
            Each is called with every event of the run, a dict with "event" (docs/python.md lists them). A true result
            stops the run at the next step.
        """
        if y is not None:
            raise TypeError("y is given, but the words of the text are what is predicted; leave it out, and name "
                            "eval_text")
        options = self._fit_options(eval_text is not None)
        with _inputs.text_file(text, "text") as path:
            data = _data.read_training_data(path, self._reading_options().items())
        valid = None
        if eval_text is not None:
            with _inputs.text_file(eval_text, "eval_text") as path:
                valid = _data.read_beside(data, path, self._memory_limit().items())
        self._train(data, options, valid, None, callbacks)
        return self

    def _reading_options(self) -> dict[str, str]:
        options = {"format": "text", **self._option_values("rows"), **self._memory_limit()}
        if self.encoder is not None:
            options["encoder"] = self.encoder
        if self._threads():
            options["threads"] = str(self._threads())
        return options

    def _fit_options(self, validated: bool) -> dict[str, str]:
        if self.encoder is not None and self.encoder not in _ENCODERS:
            raise ValueError(f"encoder is {self.encoder!r}; give one of {', '.join(map(repr, _ENCODERS))}")
        options = self._train_options({"validation_fraction"})
        if not validated and self.validation_fraction != 0.1:
            options["valid-share"] = option_text("validation_fraction", self.validation_fraction)
        return options

    def _keep(self, model: Model) -> None:
        super()._keep(model)
        info = model.metadata()
        self.vocabulary_ = {word: row for row, word in enumerate(info["features"]["words"])}
        self._classes = np.array(info["classes"], dtype=object)  # in the order of the model file
        self._encoder = info["features"]["encoder"]

    # Evaluation.

    def evaluate(self, text: Any) -> dict[str, Any]:
        """Exact figures of a text (as for `fit`): log_loss, perplexity, error, precision_at, unk_words, ...

        Words that training never saw are scored as `<unk>`. With encoder 'skipgram', the examples are pairs of a word
        and a word near it.
        """
        self._require_fitted()
        with _inputs.text_file(text, "text") as path:
            data = _data.read_for_model(self.model_, lib.FOR_EVALUATION, path, self._memory_limit().items())
        figures = self.model_.evaluate(data, self._threads())
        if 2 * figures["unk_words"] > figures["rows"]:
            warnings.warn(f"{figures['unk_words']} of {figures['rows']} words are unknown to the model and were scored "
                          "as <unk>; is this a text in the language of the training text?", UserWarning, stacklevel=2)
        return figures

    def log_loss(self, text: Any) -> float:
        """The mean log-loss of the words of a text, in nats, exact over the vocabulary."""
        return self.evaluate(text)["log_loss"]

    def perplexity(self, text: Any) -> float:
        """exp(log_loss)."""
        found = self.evaluate(text)["perplexity"]
        return math.inf if found is None else found

    def score(self, text: Any, y: None = None) -> float:
        """The mean log-probability of a word of a text: -log_loss. Higher is better."""
        return -self.log_loss(text)

    # Prediction.

    def _prompts(self, contexts: Any) -> _data.Data:
        self._require_fitted()
        if self._encoder == "cbow":
            raise ValueError("encoder is 'cbow', which knows a word by those on both sides and cannot go on after a "
                             "line; train with encoder='context', or use most_similar")
        if not isinstance(contexts, (str, os.PathLike)) and isinstance(contexts, Iterable):
            contexts = list(contexts)
        with _inputs.text_file(contexts, "contexts") as path:
            data = _data.read_for_model(self.model_, lib.FOR_PREDICTION, path, self._memory_limit().items())
        if isinstance(contexts, list):
            words = [word for line in contexts for word in _BLANKS.split(line) if word]
            unknown = sum(word not in self.vocabulary_ for word in words)
            if unknown:
                warnings.warn(f"{unknown} words not seen in training were read as <unk>", UserWarning, stacklevel=3)
        return data

    def predict(self, contexts: Any) -> np.ndarray:
        """The most probable next word after each line."""
        return self.predict_topk(contexts, 1)[0][:, 0]

    def _to_predict(self, X: Any) -> _data.Data:
        return self._prompts(X)

    def predict_topk(self, contexts: Any, k: int, *, index: TopKIndex | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable next words after each line, most probable first, and their probabilities: two arrays
        (n, k). The end of the line is the word `<eos>`.

        `contexts` is a list of str, or the path of a file. Each line is the beginning of a text; an empty one is a
        beginning without words. With encoder 'skipgram', these are the words near the last word of each line. With
        `index` (`build_index`), not all words are scored.
        """
        data = self._prompts(contexts)
        k = require_count("k", k, len(self._classes), "words")
        numbers, probabilities = self._best(data, k, index)
        return self._classes[numbers], probabilities

    def predict_proba(self, contexts: Any) -> np.ndarray:
        """Probabilities of all words after each line, (n, K), in the order of `vocabulary_`. `predict_topk` takes less
        memory."""
        data = self._prompts(contexts)
        out = self.model_.predict(data, lib.PROBABILITY, self._threads())
        place = {word: number for number, word in enumerate(self._classes)}
        order = np.array([place[word] for word in self.vocabulary_])
        for first in range(0, len(out), 1024):  # in place: n x K numbers are there only once
            out[first:first + 1024] = out[first:first + 1024, order]
        return out

    # Vectors.

    def __contains__(self, word: Any) -> bool:
        return word in getattr(self, "vocabulary_", ())

    def _row(self, word: Any) -> int:
        self._require_fitted()
        if not isinstance(word, str):
            raise TypeError(f"word is {type(word).__name__}; give a str")
        if word not in self.vocabulary_:
            raise KeyError(f"{word!r} is not a word of the model{close_to(word, self.vocabulary_)}")
        return self.vocabulary_[word]

    def vector(self, word: str) -> np.ndarray:
        """A copy of the vector of a word: its row of `embedding_`. Raises KeyError for unknown words."""
        row = self._row(word)
        return self.model_.kept_tensor("embedding")[row].copy()

    def most_similar(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """The k words whose vectors are nearest by cosine, nearest first, and their cosines, as `truemax nearest`
        lists them. Fewer if there are not as many."""
        row, k = self._row(word), require_count("k", k)
        vectors = self.model_.kept_tensor("embedding")
        if not np.any(vectors[row]):
            raise ValueError(f"the vector of {word!r} is zero and has no direction; give another word, or train longer")
        words = list(self.vocabulary_)
        return [(words[i], float(cosine)) for i, cosine in zip(*by_cosine(vectors, vectors[row], k, leave_out=row))]

    @property
    def embedding_(self) -> np.ndarray:
        """A copy of the vectors of the words, (K, hidden), in the order of `vocabulary_`."""
        self._require_attribute("embedding_")
        embedding = self.model_.tensor("embedding")
        assert embedding is not None
        return embedding

    @classmethod
    def _of_model(cls, model: Model) -> LanguageModel:
        """An estimator around a model from a file."""
        info = model.metadata()
        features, options = info["features"], info["options"]
        estimator = cls(encoder=features["encoder"], context=features["context"], hidden=model.shape[2],
                        layers=features.get("layers", 0), tied=options.get("tied"),
                        min_count=info["preprocessing"].get("min-count"))
        estimator._keep(model)
        estimator.config_ = options
        return estimator


LanguageModel.__doc__ = f"""Predicts the next word of a text, or learns vectors of words.

Log-loss and perplexity are exact: those of the softmax over the vocabulary.

Finds layers, tying, dropout, step and epochs by short trials on held-out pieces of the text, then fits all of it: the
same as `truemax train --format text`, with the same bits. Parameters that you set are kept.

{TEXTPARAMETERS_DOC}
Attributes
----------
vocabulary_ : dict from a word to its row of embedding_, by falling count; with `<eos>` and `<unk>`
embedding_ : copy of the vectors of the words
history_ : list of evaluations: epoch, steps, seconds, train_log_loss, valid_perplexity, ...
trials_ : list of the trials that chose parameters
config_ : dict of the options that were used
n_iter_ : epochs
model_ : the model in the library

Examples
--------
>>> from truemax import LanguageModel
>>> lines = ["the cat sat on the mat", "the dog sat on the rug"] * 50
>>> model = LanguageModel(hidden=16, epochs=20).fit(lines)
>>> words, probabilities = model.predict_topk(["the cat sat"], 3)
>>> model.perplexity(["the dog sat on the mat"])  # doctest: +SKIP
>>> model.most_similar("cat", 2)  # doctest: +SKIP
"""
