"""Triples of Python as columns of names, as files, and as sets of known ones."""
from __future__ import annotations

import contextlib
import gzip
import os
import re
from typing import IO, Any, Iterable, Iterator, Sequence

import numpy as np

from . import _inputs

PARTS = ("head", "relation", "tail")
_INSTEAD = "give triples as a list of (head, relation, tail), an array with 3 columns or a DataFrame"
# Tabs and line ends separate names; the reader takes the others for a binary file.
_NOT_IN_NAMES = re.compile("[\0-\n\r\x0e-\x1f]")
_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")  # as Python writes numbers, and within int64


def is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


class Columns:
    """Columns of names: heads, relations and, unless there are none, tails. `whole`: of entities and of relations,
    whether the names are whole numbers."""

    def __init__(self, columns: list[list[str]], whole: tuple[bool, bool]) -> None:
        self.columns, self.whole = columns, whole

    def __len__(self) -> int:
        return len(self.columns[0])

    def write(self, file: IO[bytes]) -> None:
        for row in zip(*self.columns):
            file.write(("\t".join(row) + "\n").encode())


def columns_of(value: Any, argument: str, fewest: int = 3) -> Columns:
    """Reads triples or, with fewest=2, pairs of head and relation."""
    raw = _raw_columns(value, argument, fewest)
    if not len(raw[0]):
        raise ValueError(f"{argument} has no rows; give at least one")
    kinds = [_kind(column, f"{argument}: the {part}") for column, part in zip(raw, PARTS)]
    if len(raw) == 3 and kinds[0] != kinds[2]:
        raise TypeError(f"{argument}: heads and tails are of two kinds, texts and whole numbers; give one kind")
    names = [_named(column, f"{argument}: the {part}") for column, part in zip(raw, PARTS)]
    return Columns(names, (kinds[0], kinds[1]))


def _raw_columns(value: Any, argument: str, fewest: int) -> list[Sequence[Any]]:
    shape = "(head, relation, tail)" if fewest == 3 else "(head, relation)"
    if hasattr(value, "iloc") and getattr(value, "ndim", 1) == 2:  # a DataFrame
        if not fewest <= value.shape[1] <= 3:
            raise ValueError(f"{argument} has {value.shape[1]} columns; give {shape}")
        return [value.iloc[:, c].tolist() for c in range(value.shape[1])]
    if isinstance(value, np.ndarray):
        if value.ndim != 2 or not fewest <= value.shape[1] <= 3:
            raise ValueError(f"{argument} has the shape {value.shape}; give rows of {shape}")
        return [value[:, c].tolist() for c in range(value.shape[1])]
    if isinstance(value, (bytes, bytearray)) or not isinstance(value, Iterable):
        raise TypeError(f"{argument} is {type(value).__name__}; give rows of {shape}, or the path of a file")
    rows = list(value)
    if not rows:
        return [[]]
    if not all(issubclass(t, (list, tuple, np.ndarray)) for t in set(map(type, rows))):
        number, row = next((n, r) for n, r in enumerate(rows) if not isinstance(r, (list, tuple, np.ndarray)))
        raise TypeError(f"{argument}: row {number} is {row!r}; give rows of {shape}")
    width = len(rows[0])
    if not fewest <= width <= 3 or set(map(len, rows)) != {width}:
        number = next((n for n, r in enumerate(rows) if len(r) != width), 0)
        raise ValueError(f"{argument}: row {number} has {len(rows[number])} columns; give all rows as {shape}")
    return [_plain(column) for column in zip(*rows)]


def _plain(column: Sequence[Any]) -> Sequence[Any]:
    """NumPy's texts and numbers as those of Python."""
    if not any(issubclass(t, np.generic) for t in set(map(type, column))):
        return column
    return [value.item() if isinstance(value, np.generic) else value for value in column]


def _kind(column: Sequence[Any], what: str) -> bool:
    """Whether the names are whole numbers; they are texts otherwise."""
    types = set(map(type, column))
    if all(issubclass(t, str) for t in types):
        return False
    if all(issubclass(t, (int, np.integer)) and t is not bool for t in types):
        return True
    for number, value in enumerate(column):
        if not isinstance(value, (str, int, np.integer)) or isinstance(value, bool):
            raise TypeError(f"{what} of row {number} is {value!r}; give a text or a whole number")
    raise TypeError(f"{what} is a text in some rows and a whole number in others; give one kind")


def _named(column: Sequence[Any], what: str) -> list[str]:
    names = {value: name_of(value, what) for value in dict.fromkeys(column)}
    return [names[value] for value in column]


def name_of(value: Any, what: str) -> str:
    """The name of an entity or a relation as the model file writes it."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (str, int, np.integer)):
        raise TypeError(f"{what} is {value!r}; give a text or a whole number")
    if not isinstance(value, str):
        return str(int(value))
    if not value:
        raise ValueError(f"{what} is empty; give every one a name")
    if bad := _NOT_IN_NAMES.search(value):
        raise ValueError(f"{what} {value!r} has the character {bad[0]!r}, which names cannot have; replace it")
    _inputs.in_utf8(value, f"{what} {value!r}")
    return str(value)


def values_of_names(names: Sequence[str], whole: bool | None = None) -> np.ndarray:
    """Names of a model file as int64 or as texts. `whole`: whether they were numbers; None if only the names can
    tell."""
    if whole is not False and all(_WHOLE.fullmatch(name) for name in names):
        return np.array([int(name) for name in names], dtype=np.int64)
    return np.array(names, dtype=object)


@contextlib.contextmanager
def triples_file(triples: Any, argument: str, fewest: int = 3) -> Iterator[str]:
    """A file of triples: the one that is named, or a temporary one. Takes Columns and Known too."""
    if is_path(triples):
        yield _inputs.path_of(triples, argument, _INSTEAD)
        return
    if not isinstance(triples, (Columns, Known)):
        _inputs.require_order(triples, argument)
        triples = columns_of(triples, argument, fewest)
    with _inputs.temporary_file(triples.write, argument) as path:
        yield path


class Known:
    """Distinct triples, three numbers each."""

    def __init__(self, triples: Columns) -> None:
        heads, relations, tails = triples.columns
        self._entities = list(dict.fromkeys([*heads, *tails]))
        self._relations = list(dict.fromkeys(relations))
        entity = {name: i for i, name in enumerate(self._entities)}
        relation = {name: i for i, name in enumerate(self._relations)}
        rows = np.empty((len(heads), 3), dtype=np.int32)
        for c, (column, place) in enumerate(((heads, entity), (relations, relation), (tails, entity))):
            rows[:, c] = [place[name] for name in column]
        self._rows = np.unique(rows, axis=0)

    def rows(self) -> Iterator[tuple[str, str, str]]:
        entity, relation = self._entities, self._relations
        return ((entity[h], relation[r], entity[t]) for h, r, t in self._rows.tolist())

    def write(self, file: IO[bytes]) -> None:
        for row in self.rows():
            file.write(("\t".join(row) + "\n").encode())


def rows_of_file(path: str, fewest: int = 3) -> Iterator[tuple[str, ...]]:
    """The triples, or with fewest=2 pairs, of a file, which may be packed with gzip."""
    with open(path, "rb") as file:
        begin = file.read(4)
    if begin == b"\x28\xb5\x2f\xfd":
        raise ValueError(f"{path} is packed with zstd, which Python cannot read here; unpack it, or {_INSTEAD}")
    with gzip.open(path) if begin[:2] == b"\x1f\x8b" else open(path, "rb") as lines:
        for number, line in enumerate(lines, 1):
            line = line[:-1] if line.endswith(b"\n") else line
            line = line[:-1] if line.endswith(b"\r") else line
            if not line:
                continue
            row = tuple(line.decode("utf-8").split("\t"))
            if not fewest <= len(row) <= 3:
                raise ValueError(f"{path}:{number}: {len(row)} columns where a triple has 3; write head, relation and "
                                 "tail, separated by tabs")
            yield row


def known_sources(known: Any) -> list[str | Known]:
    """What `known` stands for: triples, the path of a file, or a list of several of these."""
    if known is None:
        return []
    if is_path(known):
        return [_inputs.path_of(known, "known", _INSTEAD)]
    if isinstance(known, (list, tuple)):
        if known and all(is_path(item) or _has_rows(item) for item in known):
            return [source for item in known for source in known_sources(item)]
    if hasattr(known, "__len__") and len(known) == 0:
        return []
    if isinstance(known, (set, frozenset)):
        known = sorted(known, key=str)  # triples that are only looked up need no order
    return [Known(columns_of(known, "known"))]


def _has_rows(item: Any) -> bool:
    """A set of triples, not one triple."""
    if getattr(item, "ndim", 1) == 2 or isinstance(item, (set, frozenset)):
        return True
    return isinstance(item, (list, tuple)) and all(isinstance(row, (list, tuple, np.ndarray)) for row in item)
