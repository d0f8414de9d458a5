"""A trained model: its file, its tensors, its predictions."""
from __future__ import annotations

import os
import pathlib
import tempfile
from ctypes import POINTER, byref, c_double, c_float, c_int32, c_uint64
from typing import Any

import numpy as np

from . import _library as lib
from ._data import Data


def _as(array: np.ndarray, number: Any) -> Any:
    return array.ctypes.data_as(POINTER(number))


class Model(lib.Handle):
    """A model of the library. It pickles and copies as the bytes of its file."""

    free = "tmx_model_free"

    @classmethod
    def load(cls, path: str | os.PathLike) -> Model:
        index = os.fspath(path) + (b".index.json" if isinstance(os.fspath(path), bytes) else ".index.json")
        if not os.path.exists(path) and os.path.exists(index):
            path = index  # a set of files (--split-model)
        return lib.made(cls, lib.load().tmx_model_load, lib.file_to_read(path), *lib.option_list([]))

    def save(self, path: str | os.PathLike) -> None:
        name = os.fsencode(path)
        if b"\0" in name:
            raise ValueError("embedded null byte")  # as open() says
        try:
            lib.check(lib.load().tmx_model_save(self.pointer, name))
        except ValueError as error:
            raise OSError(str(error)) from None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Classes, features, and columns of `weight`."""
        numbers = [c_uint64() for _ in range(3)]
        lib.check(lib.load().tmx_model_shape(self.pointer, *map(byref, numbers)))
        return tuple(n.value for n in numbers)  # type: ignore[return-value]

    def metadata(self) -> dict[str, Any]:
        return lib.kept_json(lib.load().tmx_model_metadata, self.pointer)

    def tensor(self, name: str) -> np.ndarray | None:
        """A copy of a tensor of the model file, None if the model does not have it."""
        count, call = c_uint64(0), lib.load().tmx_model_tensor
        lib.check(call(self.pointer, name.encode(), None, byref(count)))
        if count.value == 0:
            return None
        numbers = np.empty(count.value, dtype=np.float32)
        lib.check(call(self.pointer, name.encode(), _as(numbers, c_float), byref(count)))
        return numbers if name == "intercept" else numbers.reshape(-1, self.shape[2])

    def kept_tensor(self, name: str) -> np.ndarray:
        """A tensor that the model has, copied once and kept beside it. Read-only."""
        kept = self.__dict__.setdefault("_tensors", {})
        if name not in kept:
            kept[name] = self.tensor(name)
            kept[name].flags.writeable = False
        return kept[name]

    def predict(self, data: Data, value: int, threads: int) -> np.ndarray:
        """[rows, classes], in the order of the model file."""
        out = np.empty((data.about()["rows"], self.shape[0]))
        lib.check(lib.load().tmx_predict(self.pointer, data.pointer, value, threads, _as(out, c_double), out.size))
        return out

    def predict_top(self, data: Data, top: int, threads: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the most probable classes [rows, top] and their probabilities."""
        shape = (data.about()["rows"], top)
        classes, probabilities = np.empty(shape, dtype=np.int32), np.empty(shape)
        lib.check(lib.load().tmx_predict_top(self.pointer, data.pointer, top, threads, _as(classes, c_int32),
                                             _as(probabilities, c_double), classes.size))
        return classes, probabilities

    def evaluate(self, data: Data, threads: int) -> dict[str, Any]:
        """The figures of `truemax evaluate --json`."""
        return lib.kept_json(lib.load().tmx_evaluate, self.pointer, data.pointer, threads)

    def ranks(self, data: Data, threads: int) -> np.ndarray:
        """Triples: the ranks of tail and head, [triples, 2]."""
        count, call = c_uint64(0), lib.load().tmx_ranks
        lib.check(call(self.pointer, data.pointer, threads, None, byref(count)))
        out = np.empty(count.value)
        lib.check(call(self.pointer, data.pointer, threads, _as(out, c_double), byref(count)))
        return out.reshape(-1, 2)

    def to_bytes(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.safetensors")
            self.save(path)
            return path.read_bytes()

    @classmethod
    def from_bytes(cls, content: bytes) -> Model:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.safetensors")
            path.write_bytes(content)
            return cls.load(path)

    def __reduce__(self) -> Any:
        return Model.from_bytes, (self.to_bytes(),)

    def __copy__(self) -> Model:
        return self

    def __deepcopy__(self, memo: Any) -> Model:
        return self  # a model never changes


def by_cosine(vectors: np.ndarray, asked: np.ndarray, k: int,
              leave_out: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The k rows of `vectors` nearest to the vector `asked` by cosine, nearest first, and the cosines. Rows of length
    zero have none; they and the row `leave_out` are not among them."""
    asked = asked.astype(np.float64)
    cosine = np.full(len(vectors), -2.0)
    for first in range(0, len(vectors), 1 << 16):  # as float64, a part at a time
        part = vectors[first:first + (1 << 16)].astype(np.float64)
        lengths = np.sqrt((part * part).sum(axis=1)) * np.linalg.norm(asked)
        some = lengths > 0
        cosine[first:first + len(part)][some] = np.clip((part @ asked)[some] / lengths[some], -1, 1)
    if leave_out is not None:
        cosine[leave_out] = -2
    k = min(k, int((cosine >= -1).sum()))
    if k == 0:
        return np.empty(0, dtype=int), np.empty(0)
    least = -np.partition(-cosine, k - 1)[k - 1]
    near = np.flatnonzero(cosine >= least)  # with all ties, so that the first of them are taken
    order = near[np.lexsort((near, -cosine[near]))][:k]
    return order, cosine[order]
