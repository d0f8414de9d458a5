"""An index of a model's classes: the best of a row without scoring all of them."""
from __future__ import annotations

import os
import warnings
from ctypes import POINTER, c_double, c_int32
from typing import Any

import numpy as np

from . import _library as lib
from ._data import Data
from ._model import Model


class TopKIndex(lib.Handle):
    """Made by `build_index` or `load_index` of an estimator, for its `predict_topk`. It belongs to the model of that
    moment and keeps it alive; after another `fit`, build it again.

    Attributes
    ----------
    about_ : dict: classes, cells, bytes, probes (cells of a row), target; recall and recall_error if rows were given
    measured_ : dict, of the last predict_topk: recall, recall_error, recall_rows, probes, error_median, ...
    errors_ : array (n,), of the last predict_topk: half of the 95% interval of the logarithm of a row's probabilities
    """

    free = "tmx_index_free"
    model: Model
    measured_: dict[str, Any]
    errors_: np.ndarray

    @classmethod
    def build(cls, model: Model, rows: Data | None, options: dict[str, str]) -> TopKIndex:
        pointer = None if rows is None else rows.pointer
        made = lib.made(cls, lib.load().tmx_index_build, model.pointer, pointer, *lib.option_list(options.items()))
        made.model = model
        return made

    @classmethod
    def load(cls, model: Model, path: str | os.PathLike) -> TopKIndex:
        made = lib.made(cls, lib.load().tmx_index_load, model.pointer, lib.file_to_read(path))
        made.model = model
        return made

    def save(self, path: str | os.PathLike) -> None:
        """Writes the index, the same as `truemax index` writes. An older index is replaced, no other file."""
        try:
            lib.check(lib.load().tmx_index_save(self.pointer, os.fsencode(path)))
        except ValueError as error:
            raise OSError(str(error)) from None

    @property
    def about_(self) -> dict[str, Any]:
        return lib.kept_json(lib.load().tmx_index_json, self.pointer)

    def predict_top(self, model: Model, data: Data, top: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """As Model.predict_top."""
        if model is not self.model:
            raise ValueError("index was built for another model; build it again: index = model.build_index()")
        rows = data.about()["rows"]
        classes, probabilities = np.empty((rows, top), dtype=np.int32), np.empty((rows, top))
        errors = np.empty(rows)
        options = {"threads": str(threads)} if threads else {}
        self.measured_ = lib.kept_json(
            lib.load().tmx_index_predict_top, self.pointer, data.pointer, top, *lib.option_list(options.items()),
            classes.ctypes.data_as(POINTER(c_int32)), probabilities.ctypes.data_as(POINTER(c_double)),
            errors.ctypes.data_as(POINTER(c_double)), classes.size)
        self.errors_ = errors
        if self.measured_.pop("too_low"):
            warnings.warn(f"index: the recall on these rows is {self.measured_['recall']:.4f}, below the "
                          f"{self.measured_['target']:g} that was asked for; build it again with rows like these",
                          UserWarning, stacklevel=4)
        return classes, probabilities

    def __reduce__(self) -> Any:
        raise TypeError("an index does not pickle; save it, and load it with load_index of its model")
