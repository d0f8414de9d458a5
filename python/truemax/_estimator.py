"""What the estimators share: parameters as options, training, the attributes that a fit leaves, saving."""
from __future__ import annotations

import difflib
import os
from typing import Any, Collection, Iterable

import numpy as np

from . import _data, _run
from ._index import TopKIndex
from ._model import Model
from ._progress import make_progress


class Trained:
    """A base of estimators whose parameters are options of the command line (see _parameters.py)."""

    _options: dict[str, tuple[str, str]]
    model_: Model
    history_: list[dict[str, Any]]
    trials_: list[dict[str, Any]]
    config_: dict[str, Any]
    n_iter_: int

    def _seed(self) -> int:
        state = self.random_state  # type: ignore[attr-defined]
        if state is None:
            return 1
        if isinstance(state, np.random.RandomState) or state is np.random:
            return int(state.randint(2**31 - 1))
        if isinstance(state, (bool, np.bool_)) or not isinstance(state, (int, np.integer)):
            raise TypeError(f"random_state is {state!r}; give a whole number, a RandomState or None")
        if state < 0:
            raise ValueError(f"random_state is {state}; give a number from 0 up")
        return int(state)

    def _threads(self) -> int:
        return _run.thread_count(self.n_jobs)  # type: ignore[attr-defined]

    def _option_values(self, of: str, skip: Iterable[str] = ()) -> dict[str, str]:
        """The options of one kind ('train' or 'rows') that are set, as texts."""
        values = {}
        for name, (option, kind) in self._options.items():
            value = getattr(self, name)
            if kind != of or name in skip or value is None:
                continue
            values[option] = _run.option_text(name, value)
        return values

    def _train_options(self, skip: Iterable[str] = ()) -> dict[str, str]:
        options = self._option_values("train", {"random_state", "n_jobs", *skip})
        options["seed"] = str(self._seed())
        if self._threads():
            options["threads"] = str(self._threads())
        return {**options, **self._memory_limit()}

    def _memory_limit(self) -> dict[str, str]:
        limit = self.memory_limit  # type: ignore[attr-defined]
        return {} if limit is None else {"memory-limit": _run.option_text("memory_limit", limit)}

    def _train(self, data: _data.Data, options: dict[str, str], valid: _data.Data | None = None,
               start: Model | None = None, callbacks: Any = None) -> None:
        """Trains and keeps the result. Then raises what stopped the run, if anything did."""
        _run.tell(data.about()["notes"])
        progress = make_progress(self.verbose)  # type: ignore[attr-defined]
        listeners = [] if callbacks is None else list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
        for listener in listeners:
            if not callable(listener):
                raise TypeError(f"callbacks has {listener!r}; give functions of one event")
        result, raise_what_stopped = _run.train(data, options.items(), valid=valid, start=start, callbacks=listeners,
                                                progress=progress)
        self._keep(result.model)
        self.history_, self.trials_ = result.history, result.trials
        self.config_ = {**result.about["config"], "solver": result.about["solver"]}
        self.n_iter_ = result.about["epochs"]
        self.n_steps_ = result.about["steps"]
        self.train_seconds_ = result.about["train_seconds"]
        self.interrupted_ = result.about["interrupted"]
        raise_what_stopped()
        if "unsolved" in result.about:
            _run.tell([result.about["unsolved"]])

    def _keep(self, model: Model) -> None:
        self.model_ = model

    def _require_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise _not_fitted()(f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate "
                                "arguments before using this estimator.")

    def _require_attribute(self, name: str) -> None:
        if not hasattr(self, "model_"):
            raise AttributeError(f"{type(self).__name__} has no {name} before fit")

    def _to_predict(self, X: Any) -> _data.Data:
        raise NotImplementedError

    def build_index(self, X: Any = None, *, recall: float = 0.99, top: int = 5, cells: int | None = None,
                    random_state: int = 1) -> TopKIndex:
        """An index of the classes, for `predict_topk(..., index=index)`: it finds the best classes of a row without
        scoring all of them.

        Parameters
        ----------
        X : rows like those to predict, as for predict_topk
            Some of them are searched exactly too, and tell how many cells a row must look into. None: the first rows
            of each predict_topk do.
        recall : the share of the best classes of a row that must be found
        top : which are the best: so many classes of each row
        cells : cells of similar classes; None: 16 sqrt(K)
        random_state : the same number gives the same index
        """
        self._require_fitted()
        options = {"recall": _run.option_text("recall", recall), "top": _run.option_text("top", top),
                   "seed": _run.option_text("random_state", random_state)}
        if cells is not None:
            options["cells"] = _run.option_text("cells", cells)
        if self._threads():
            options["threads"] = str(self._threads())
        return TopKIndex.build(self.model_, None if X is None else self._to_predict(X), options)

    def load_index(self, path: str | os.PathLike) -> TopKIndex:
        """An index of this model from a file, of `truemax index` or of its own `save`."""
        self._require_fitted()
        return TopKIndex.load(self.model_, path)

    def _best(self, data: _data.Data, k: int, index: TopKIndex | None) -> tuple[np.ndarray, np.ndarray]:
        if index is None:
            return self.model_.predict_top(data, k, self._threads())
        if not isinstance(index, TopKIndex):
            raise TypeError(f"index is {index!r}; give what build_index or load_index returns")
        return index.predict_top(self.model_, data, k, self._threads())

    def save(self, path: str | os.PathLike) -> None:
        """Writes the model file, the same as `truemax train` writes. An existing file is replaced."""
        self._require_fitted()
        self.model_.save(path)


def require_count(name: str, value: Any, most: int | None = None, of: str = "") -> int:
    """A whole number from 1 up, at most the `most` things `of` a kind."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {value!r}; give a whole number")
    if value < 1 or (most is not None and value > most):
        raise ValueError(f"{name} is {value}; give a number from 1 {'up' if most is None else f'to the {most} {of}'}")
    return int(value)


def close_to(name: str, names: Collection[str]) -> str:
    """A hint at a name of similar spelling, for the end of a message."""
    near = difflib.get_close_matches(name, names, 1) if len(names) <= 50_000 else []
    return f"; did you mean {near[0]!r}?" if near else ""


def _not_fitted() -> type[Exception]:
    try:
        from sklearn.exceptions import NotFittedError
        return NotFittedError
    except ImportError:
        class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
            """Raised if an estimator is used before fitting."""
        return NotFittedError
