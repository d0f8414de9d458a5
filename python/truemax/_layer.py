"""The layer of include/truemax/c.h through ctypes: structures, signatures, and torch tensors as their pointers."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import Any

from . import _library as lib

DRAWS = {"uniform": 0, "counts": 1, "counted": 2}


class LayerOptions(ctypes.Structure):
    """tmx_layer_options."""

    _fields_ = [("size", c_size_t), ("classes", c_uint64), ("features", c_uint64), ("drawn", c_uint64),
                ("draw", c_int), ("counts", c_void_p), ("rho", c_double), ("threads", c_uint64)]


class LayerArrays(ctypes.Structure):
    """tmx_layer_arrays."""

    _fields_ = [("size", c_size_t), ("device", c_int32), ("stream", c_void_p), ("type", c_int),
                ("weight", c_void_p), ("weight_stride", c_int64), ("bias", c_void_p), ("moments", c_void_p),
                ("columns", c_void_p), ("u", c_void_p), ("rows", c_uint64), ("recent", c_void_p), ("recent_size", c_uint64),
                ("recent_count", c_void_p), ("seed", c_uint64), ("counters", c_void_p)]


class LayerBatch(ctypes.Structure):
    """tmx_layer_batch."""

    _fields_ = [("size", c_size_t), ("rows", c_uint64), ("x", c_void_p), ("x_stride", c_int64),
                ("target", c_void_p), ("ignore_index", c_int64), ("index", c_void_p)]


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "tmx_layer_create": (c_int, [POINTER(LayerOptions), POINTER(c_void_p)]),
    "tmx_layer_free": (None, [c_void_p]),
    "tmx_layer_forward": (c_int, [c_void_p, POINTER(LayerArrays), POINTER(LayerBatch), c_void_p, POINTER(c_void_p)]),
    "tmx_layer_backward": (c_int, [POINTER(LayerArrays), c_void_p, c_void_p, c_double, c_void_p, c_int64]),
    "tmx_pass_free": (None, [c_void_p]),
    "tmx_layer_nll": (c_int, [c_void_p, POINTER(LayerArrays), POINTER(LayerBatch), c_void_p]),
    "tmx_layer_top": (c_int, [c_void_p, POINTER(LayerArrays), POINTER(LayerBatch), c_uint64, c_void_p, c_void_p]),
}

_declared: ctypes.CDLL | None = None


def load() -> ctypes.CDLL:
    """The library with the types of the layer's functions."""
    global _declared
    library = lib.load()
    if _declared is not library:
        lib.declare(library, _SIGNATURES)
        _declared = library
    return library


class Layer(lib.Handle):
    """A tmx_layer."""

    free = "tmx_layer_free"


class Pass(lib.Handle):
    """A tmx_pass."""

    free = "tmx_pass_free"


def create(classes: int, features: int, drawn: int, draw: str, counts: Any, rho: float, threads: int) -> Layer:
    options = LayerOptions(size=ctypes.sizeof(LayerOptions), classes=classes, features=features, drawn=drawn,
                           draw=DRAWS[draw], counts=counts, rho=rho, threads=threads)
    return lib.made(Layer, load().tmx_layer_create, ctypes.byref(options))
