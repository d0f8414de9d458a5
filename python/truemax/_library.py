"""The shared library (include/truemax/c.h) through ctypes: finding it, calling it, its messages as exceptions.

ctypes releases the GIL while a call runs.
"""
from __future__ import annotations

import ctypes
import errno
import json
import os
import pathlib
import stat
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any, Iterable

from ._names import python_words

API_VERSION = 3  # of c.h that this file was written for

OK, BAD_INPUT, DIVERGED, NO_MEMORY, INTERNAL = 0, 2, 3, 4, 5
INT32, INT64, FLOAT32, FLOAT64 = 0, 1, 2, 3
FOR_EVALUATION, FOR_PREDICTION = 0, 1
PROBABILITY, LOG_PROBABILITY, SCORE = 0, 1, 2


class DivergenceError(ArithmeticError):
    """The method left the range of float64: give a smaller step, or a method that cannot diverge."""


class TruemaxError(RuntimeError):
    """A fault of truemax itself: please report it."""


class Option(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
CALLBACK = ctypes.CFUNCTYPE(c_int, c_char_p, c_void_p)


class Rows(ctypes.Structure):
    """tmx_rows."""

    _fields_ = [
        ("size", c_size_t), ("rows", c_uint64), ("columns", c_uint64),
        ("offsets", c_void_p), ("indices", c_void_p), ("values", c_void_p),
        ("offset_type", c_int), ("index_type", c_int), ("value_type", c_int),
        ("numbers", c_uint64), ("row_stride", c_int64), ("column_stride", c_int64),
        ("label_begin", c_void_p), ("label", c_void_p),
        ("names", POINTER(c_char_p)), ("name_count", c_uint64),
        ("name_counts", c_void_p), ("name_weights", c_void_p), ("weights", c_void_p),
        ("release", RELEASE), ("owner", c_void_p),
    ]


_handle, _text = c_void_p, POINTER(c_char_p)
_options = [POINTER(Option), c_size_t]
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "tmx_api_version": (c_int, []),
    "tmx_version": (c_char_p, []),
    "tmx_message": (c_char_p, []),
    "tmx_data_read": (c_int, [c_char_p, *_options, POINTER(_handle)]),
    "tmx_data_from_rows": (c_int, [POINTER(Rows), *_options, POINTER(_handle)]),
    "tmx_data_read_for": (c_int, [_handle, c_int, c_char_p, *_options, POINTER(_handle)]),
    "tmx_data_from_rows_for": (c_int, [_handle, c_int, POINTER(Rows), *_options, POINTER(_handle)]),
    "tmx_data_read_beside": (c_int, [_handle, c_char_p, *_options, POINTER(_handle)]),
    "tmx_data_from_rows_beside": (c_int, [_handle, POINTER(Rows), *_options, POINTER(_handle)]),
    "tmx_data_json": (c_int, [_handle, _text]),
    "tmx_data_free": (None, [_handle]),
    "tmx_run_create": (c_int, [_handle, _handle, _handle, *_options, POINTER(_handle)]),
    "tmx_run_plan": (c_int, [_handle, _text]),
    "tmx_run_train": (c_int, [_handle, CALLBACK, c_void_p]),
    "tmx_run_stop": (None, [_handle]),
    "tmx_run_json": (c_int, [_handle, _text]),
    "tmx_run_model": (c_int, [_handle, POINTER(_handle)]),
    "tmx_run_free": (None, [_handle]),
    "tmx_model_load": (c_int, [c_char_p, *_options, POINTER(_handle)]),
    "tmx_model_save": (c_int, [_handle, c_char_p]),
    "tmx_model_free": (None, [_handle]),
    "tmx_model_shape": (c_int, [_handle, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_uint64)]),
    "tmx_model_metadata": (c_int, [_handle, _text]),
    "tmx_model_tensor": (c_int, [_handle, c_char_p, POINTER(c_float), POINTER(c_uint64)]),
    "tmx_predict": (c_int, [_handle, _handle, c_int, c_size_t, POINTER(c_double), c_uint64]),
    "tmx_predict_top": (c_int, [_handle, _handle, c_uint64, c_size_t, POINTER(c_int32), POINTER(c_double), c_uint64]),
    "tmx_index_build": (c_int, [_handle, _handle, *_options, POINTER(_handle)]),
    "tmx_index_load": (c_int, [_handle, c_char_p, POINTER(_handle)]),
    "tmx_index_save": (c_int, [_handle, c_char_p]),
    "tmx_index_json": (c_int, [_handle, _text]),
    "tmx_index_free": (None, [_handle]),
    "tmx_index_predict_top": (c_int, [_handle, _handle, c_uint64, *_options, POINTER(c_int32), POINTER(c_double),
                                      POINTER(c_double), c_uint64, _text]),
    "tmx_evaluate": (c_int, [_handle, _handle, c_size_t, _text]),
    "tmx_ranks": (c_int, [_handle, _handle, c_size_t, POINTER(c_double), POINTER(c_uint64)]),
    "tmx_options_json": (c_int, [_text]),
}

_loaded: ctypes.CDLL | None = None


def path() -> str:
    """Where the library is: TRUEMAX_LIBRARY, or beside this file."""
    given = os.environ.get("TRUEMAX_LIBRARY")
    return given or str(pathlib.Path(__file__).resolve().parent / "libtruemax.so")


def load() -> ctypes.CDLL:
    """The library with the types of its functions."""
    global _loaded
    if _loaded is None:
        try:
            found = ctypes.CDLL(path())
        except OSError as error:
            raise ImportError(f"{error}; build the package with ./dev python, or set TRUEMAX_LIBRARY to the path "
                              "of libtruemax.so") from error
        try:
            declare(found, _SIGNATURES)
        except AttributeError as error:
            raise ImportError(f"{path()} is not the library of this package ({error}); build it with ./dev python, or set "
                              "TRUEMAX_LIBRARY to the path of libtruemax.so") from error
        if found.tmx_api_version() < API_VERSION:
            raise ImportError(f"{path()} has version {found.tmx_api_version()} of the C interface, and this package "
                              f"needs {API_VERSION}; install both from the same source")
        _loaded = found
    return _loaded


def declare(library: ctypes.CDLL, signatures: dict[str, tuple[Any, list[Any]]]) -> None:
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


def check(status: int) -> None:
    """Raises what a status stands for, with the library's message."""
    if status == OK:
        return
    message = load().tmx_message().decode("utf-8", "replace")
    message = python_words(message, {option["name"]: option["values"] for option in options()})
    if status == BAD_INPUT:
        raise ValueError(message)
    if status == DIVERGED:
        raise DivergenceError(python_words(message))
    if status == NO_MEMORY:
        raise MemoryError(python_words(message))
    raise TruemaxError(f"{message} (status {status})")


def text(value: str) -> bytes:
    """A text for the library, which ends texts at a zero byte."""
    encoded = str(value).encode("utf-8", "surrogateescape")
    if b"\0" in encoded:
        raise ValueError(f"{value!r} has a zero byte; leave it out")
    return encoded


def file_to_read(path: str | os.PathLike) -> bytes:
    """The name of a file that is there; else the OSError that open() would raise."""
    name = os.fsencode(path)
    if name != b"-" and stat.S_ISDIR(os.stat(path).st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    return name


def option_list(options: Iterable[tuple[str, str]]) -> tuple[Any, int]:
    """The two arguments of a call that takes options."""
    pairs = [(text(name), text(value)) for name, value in options]
    return (Option * len(pairs))(*pairs), len(pairs)


def kept_json(function: Any, *arguments: Any) -> Any:
    """The result of a call whose last argument receives JSON."""
    found = c_char_p()
    check(function(*arguments, byref(found)))
    return json.loads((found.value or b"null").decode("utf-8", "replace"))


class Handle:
    """Owns a handle of the library and frees it once."""

    free = ""

    def __init__(self, pointer: c_void_p) -> None:
        self.pointer: c_void_p | None = pointer

    def __del__(self) -> None:
        pointer, self.pointer = getattr(self, "pointer", None), None
        if pointer is not None and _loaded is not None:
            getattr(_loaded, self.free)(pointer)


def made(kind: type, function: Any, *arguments: Any) -> Any:
    """A handle from a call whose last argument receives it."""
    pointer = c_void_p()
    check(function(*arguments, byref(pointer)))
    return kind(pointer)


def version() -> str:
    return load().tmx_version().decode()


def options() -> list[dict[str, Any]]:
    """The descriptions of the command line's options."""
    return kept_json(load().tmx_options_json)
