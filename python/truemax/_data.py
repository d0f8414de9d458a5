"""Rows and labels of Python as data of the library."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Iterable, Sequence

import numpy as np

from . import _library as lib

Options = Iterable[tuple[str, str]]


class Data(lib.Handle):
    """Rows in the library. Keeps the arrays alive that it reads in place."""

    free = "tmx_data_free"
    arrays: list[Any]

    def about(self) -> dict[str, Any]:
        """rows, examples, features, classes, nonzeros, in_place, notes, ..."""
        return lib.kept_json(lib.load().tmx_data_json, self.pointer)


class Labels:
    """Labels as numbers of names: one for each row, or several."""

    def __init__(self, number: np.ndarray, names: Sequence[str], begin: np.ndarray | None = None) -> None:
        self.number = np.ascontiguousarray(number, dtype=np.int32)
        self.names = list(names)
        self.begin = None if begin is None else np.ascontiguousarray(begin, dtype=np.uint64)


_FLOATS = {np.dtype(np.float32): lib.FLOAT32, np.dtype(np.float64): lib.FLOAT64}
_WHOLES = {np.dtype(np.int32): lib.INT32, np.dtype(np.int64): lib.INT64}


def _with_type(array: np.ndarray, types: dict[np.dtype, int], otherwise: type) -> np.ndarray:
    if array.dtype not in types or not array.dtype.isnative:
        array = array.astype(otherwise)
    return array


def _pointer(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


def rows_struct(x: Any, labels: Labels | None = None, *, row_weights: np.ndarray | None = None,
                name_weights: np.ndarray | None = None,
                name_counts: np.ndarray | None = None) -> tuple[lib.Rows, list[Any]]:
    """tmx_rows of a NumPy array or a SciPy CSR matrix, and what must stay alive with it."""
    rows = lib.Rows(size=ctypes.sizeof(lib.Rows))
    rows.rows, rows.columns = x.shape
    alive: list[Any] = [x]
    if hasattr(x, "indptr"):
        # Local names: other threads may give the matrix other arrays at any time.
        offsets = np.ascontiguousarray(_with_type(x.indptr, _WHOLES, np.int64))
        indices = np.ascontiguousarray(_with_type(x.indices, _WHOLES, np.int64))
        values = np.ascontiguousarray(_with_type(x.data, _FLOATS, np.float64))
        if len(offsets) != rows.rows + 1:
            raise ValueError(f"the CSR matrix has {rows.rows} rows and {len(offsets)} offsets; it must have one more "
                             "than rows")
        alive += [offsets, indices, values]
        rows.offsets, rows.indices, rows.values = _pointer(offsets), _pointer(indices), _pointer(values)
        rows.offset_type, rows.index_type = _WHOLES[offsets.dtype], _WHOLES[indices.dtype]
        rows.numbers = min(len(indices), len(values))
    else:
        values = _with_type(x, _FLOATS, np.float64)
        alive.append(values)
        rows.values = _pointer(values)
        rows.row_stride, rows.column_stride = values.strides
    rows.value_type = _FLOATS[values.dtype]
    if labels is not None:
        texts = [lib.text(name) for name in labels.names]
        names = (ctypes.c_char_p * max(len(texts), 1))(*texts)
        alive += [labels, names, texts]
        rows.label, rows.label_begin = _pointer(labels.number), _pointer(labels.begin)
        rows.names, rows.name_count = names, len(texts)
        _require_labels(labels, rows.rows)
    for field, array, length in (("weights", row_weights, rows.rows),
                                 ("name_weights", name_weights, rows.name_count),
                                 ("name_counts", name_counts, rows.name_count)):
        if array is None:
            continue
        array = np.array(array, dtype=np.float64)
        if array.shape != (length,):
            raise ValueError(f"{field} has the shape {array.shape}; give {length} numbers")
        alive.append(array)
        setattr(rows, field, _pointer(array))
    return rows, alive


def _require_labels(labels: Labels, rows: int) -> None:
    """The library takes the lengths of these arrays on trust."""
    if labels.begin is None:
        if len(labels.number) != rows:
            raise ValueError(f"there are {rows} rows and {len(labels.number)} labels; give one for each row")
    elif len(labels.begin) != rows + 1 or labels.begin[-1] > len(labels.number):
        raise ValueError("the offsets of the labels do not fit the rows")


def _data(function: Any, before: tuple, x: Any, labels: Labels | None, options: Options, weights: dict) -> Data:
    rows, alive = rows_struct(x, labels, **weights)
    data = lib.made(Data, function, *before, ctypes.byref(rows), *lib.option_list(options))
    # Values that were copied need not stay.
    data.arrays = alive if data.about()["in_place"] else []
    return data


def training_data(x: Any, labels: Labels, options: Options = (), **weights: Any) -> Data:
    return _data(lib.load().tmx_data_from_rows, (), x, labels, options, weights)


def beside(train: Data, x: Any, labels: Labels, **weights: Any) -> Data:
    """Rows to validate on."""
    return _data(lib.load().tmx_data_from_rows_beside, (train.pointer,), x, labels, (), weights)


def for_model(model: lib.Handle, x: Any, labels: Labels | None = None, **weights: Any) -> Data:
    """Rows to predict, or with labels to evaluate."""
    purpose = lib.FOR_PREDICTION if labels is None else lib.FOR_EVALUATION
    return _data(lib.load().tmx_data_from_rows_for, (model.pointer, purpose), x, labels, (), weights)


def read_training_data(path: str | os.PathLike, options: Options = ()) -> Data:
    return lib.made(Data, lib.load().tmx_data_read, lib.text(path), *lib.option_list(options))


def read_beside(train: Data, path: str | os.PathLike, options: Options = ()) -> Data:
    return lib.made(Data, lib.load().tmx_data_read_beside, train.pointer, lib.text(path), *lib.option_list(options))


def read_for_model(model: lib.Handle, purpose: int, path: str | os.PathLike, options: Options = ()) -> Data:
    return lib.made(Data, lib.load().tmx_data_read_for, model.pointer, purpose, lib.text(path),
                    *lib.option_list(options))
