"""Targets of scikit-learn as labels of the library: one label a row, lists of labels, an indicator matrix."""
from __future__ import annotations

import numbers
import re
from typing import Any, Sequence

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ._data import Labels, require_sound


_LONG = 256  # NumPy gives all texts of an array the length of the longest; longer ones are kept as objects


class Target:
    """`rows[i]` is the row of the i-th label, `value[i]` the label. Without `rows` every row has one."""

    def __init__(self, value: np.ndarray, row_count: int, begin: np.ndarray | None = None) -> None:
        self.value, self.row_count, self.begin = value, row_count, begin

    @property
    def several(self) -> bool:
        return self.begin is not None

    @property
    def rows(self) -> np.ndarray:
        if self.begin is None:
            return np.arange(self.row_count)
        return np.repeat(np.arange(self.row_count), np.diff(self.begin.astype(np.int64)))

    def first(self) -> Target:
        """Only the first label of each row."""
        if self.begin is None:
            return self
        begin = self.begin.astype(np.int64)
        there = np.diff(begin) > 0
        value = self.value[begin[:-1][there]]
        if there.all():
            return Target(value, self.row_count)
        return Target(value, self.row_count, np.concatenate([[0], np.cumsum(there)]))

    def part(self, keep: np.ndarray) -> Target:
        """Only the rows for which `keep` holds."""
        begin = None
        if self.begin is not None:
            begin = np.concatenate([[0], np.cumsum(np.diff(self.begin.astype(np.int64))[keep])])
        return Target(self.value[keep[self.rows]], int(keep.sum()), begin)

    def labels(self, classes: np.ndarray) -> Labels:
        """As numbers of `classes`, which are sorted. Raises ValueError for labels that are not among them."""
        if len(classes) and len(self.value) and kind_of(classes) != kind_of(self.value):
            raise ValueError(f"y contains previously unseen labels: {np.unique(self.value)[:10].tolist()}; the classes "
                             f"are {kind_of(classes)}")
        number = np.searchsorted(classes, self.value) if len(classes) else np.zeros(len(self.value), dtype=int)
        number = np.minimum(number, max(len(classes) - 1, 0))
        known = classes[number] == self.value if len(classes) else np.zeros(len(self.value), dtype=bool)
        if not np.all(known):
            unknown = np.unique(self.value[~np.asarray(known, dtype=bool)])
            raise ValueError(f"y contains previously unseen labels: {unknown[:10].tolist()}")
        return Labels(number, names_of(classes), self.begin)


def kind_of(labels: np.ndarray) -> str:
    """Labels of different kinds cannot be compared."""
    return {"U": "texts", "O": "texts", "S": "bytes", "M": "times", "m": "times"}.get(labels.dtype.kind, "numbers")


def merged(*classes: np.ndarray) -> np.ndarray:
    """All classes, sorted. Numbers, booleans and texts do not mix: they would become other labels."""
    kinds = {"booleans" if some.dtype.kind == "b" else kind_of(some) for some in classes if len(some)}
    if len(kinds) > 1:
        raise ValueError(f"Mix of label input types: {' and '.join(sorted(kinds))}; give labels of the same kind as "
                         "before")
    return np.unique(np.concatenate(classes))


def names_of(classes: np.ndarray) -> list[str]:
    """Labels as the model file writes them: whole numbers without a point."""
    if classes.dtype.kind == "f":
        return [str(int(c)) if float(c).is_integer() else repr(float(c)) for c in classes]
    if classes.dtype.kind == "b":
        return [str(bool(c)) for c in classes]
    if classes.dtype.kind in "iu":
        return [str(int(c)) for c in classes]
    return [str(c) for c in classes]


def classes_of_names(names: Sequence[str]) -> np.ndarray:
    """Labels from the names of a model file: int64 if all are whole numbers, else texts."""
    if all(re.fullmatch("0|-?[1-9][0-9]{0,17}", name) for name in names):
        return np.array([int(name) for name in names], dtype=np.int64)
    return np.array(names, dtype=object if max(map(len, names), default=0) > _LONG else None)


def _is_missing(value: Any) -> bool:
    return (isinstance(value, numbers.Real) and value != value) or type(value).__name__ in ("NAType", "NaTType")


def _require_one_kind(values: Any) -> None:
    """Numbers or texts, not both: NumPy would turn numbers into texts without a word."""
    kinds = set()
    for value in values:
        if _is_missing(value):
            raise ValueError("Input y contains NaN.")
        if isinstance(value, (str, bytes)):
            kinds.add("text")
        elif isinstance(value, (bool, np.bool_)):
            kinds.add("bool")
        elif isinstance(value, numbers.Number):
            kinds.add("number")
        else:
            kinds.add(type(value).__name__)
        if len(kinds) > 1:
            raise TypeError(f"y must be uniformly strings or numbers. Got {sorted(kinds)}")


def _no_nan(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
        raise ValueError("Input y contains NaN or infinity.")
    if values.dtype.kind in "cV":
        raise ValueError("y must be uniformly strings or numbers. Got complex or structured values")
    return values


def _flat(values: Any) -> np.ndarray:
    """One label a row."""
    if isinstance(values, (list, tuple)):
        _require_one_kind(values)
        if values and isinstance(values[0], str) and max(map(len, values)) > _LONG:
            values = np.array(values, dtype=object)
    values = _no_nan(column_or_1d(values, warn=True))
    if values.dtype == object:
        _require_one_kind(values)
        if len(values) and isinstance(values[0], str):
            values = values.astype(str) if max(map(len, values)) <= _LONG else values
    check_classification_targets(values)
    return values


def _is_indicator(y: Any) -> bool:
    return getattr(y, "ndim", 1) == 2 and y.shape[1] > 1


def _is_lists(y: Any) -> bool:
    if isinstance(y, np.ndarray) and (y.dtype != object or y.ndim != 1):
        return False
    if not hasattr(y, "__len__") or not hasattr(y, "__iter__") or isinstance(y, str):
        return False
    return any(isinstance(row, (list, tuple, set, frozenset, np.ndarray)) and np.ndim(row if not isinstance(
        row, (set, frozenset)) else list(row)) == 1 for row in y) and not _is_table(y)


def _is_table(y: Any) -> bool:
    """Rows of equal length that hold 0 and 1 only: an indicator matrix in lists, or a column."""
    try:
        table = np.asarray(y)
    except ValueError:
        return False
    return table.ndim == 2 and table.dtype.kind in "biuf" and (
        table.shape[1] == 1 or (table.shape[1] > 1 and bool(np.all((table == 0) | (table == 1)))))


def target_of(y: Any) -> Target:
    """Checks y as scikit-learn does, and reads it."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if hasattr(y, "to_numpy") and not isinstance(y, np.ndarray):
        of_pandas, y = getattr(y, "dtype", None), y.to_numpy()
        if y.dtype == object and of_pandas is not None and of_pandas != object:  # Int64, boolean, string, category
            y = _flat(y.tolist())
    if sparse.issparse(y):
        return _of_indicator(y)
    if _is_lists(y):
        return _of_lists(list(y))
    if isinstance(y, (list, tuple)) and _is_table(y) and np.asarray(y).shape[1] > 1:
        y = np.asarray(y)
    if _is_indicator(y):
        return _of_indicator(y)
    values = _flat(y)
    return Target(values, len(values))


def _of_lists(rows: list) -> Target:
    each = [list(row) if isinstance(row, (list, tuple, set, frozenset, np.ndarray)) else [row] for row in rows]
    each = [sorted(set(row)) if isinstance(source, (set, frozenset)) else row for row, source in zip(each, rows)]
    flat = [label for row in each for label in row]
    if not flat:
        raise ValueError("y has no labels at all; give at least one row a label")
    begin = np.concatenate([[0], np.cumsum([len(row) for row in each])])
    return Target(_flat(flat), len(rows), begin)


def _of_indicator(y: Any) -> Target:
    if sparse.issparse(y):
        require_sound(y)
    matrix = sparse.csr_matrix(y, copy=True)  # y itself is left as it is
    if matrix.dtype.kind not in "biuf" or not np.all((matrix.data == 0) | (matrix.data == 1)):
        raise ValueError("Unknown label type: y has two dimensions and is not an indicator matrix of 0 and 1; give one "
                         "label for each row, lists of labels, or such a matrix")
    matrix.eliminate_zeros()
    matrix.sort_indices()
    if matrix.nnz == 0:
        raise ValueError("y has no labels at all; give at least one row a label")
    return Target(matrix.indices.astype(np.int64), matrix.shape[0], matrix.indptr)
