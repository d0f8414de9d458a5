"""LinearSoftmax on a CUDA card: kernels of libtruemax_cuda.so around three matrix products of PyTorch.

Everything runs on the caller's stream, over memory that is kept from step to step; nothing waits for the card. What
kernels find wrong with a batch they write to memory of the host, and the next call raises it.
"""
from __future__ import annotations

import contextlib
import ctypes
import math
import os
import pathlib
from ctypes import c_char_p, c_double, c_int, c_int64, c_uint32, c_uint64, c_void_p
from typing import Any, Iterator

import torch
from torch import Tensor

from . import _library as lib

SLOTS_AT_ONCE = 16
MOST_SLOTS = 1 << 24
PRODUCTS = ("bfloat16", "tf32", "float32")
_TYPES = {torch.float32: 0, torch.bfloat16: 1}
_DRAWS = {"uniform": 0, "counts": 1, "counted": 2}
_ALL = 3
_REDUCTIONS = {"none": 0, "sum": 1, "mean": 2}
_KEEP, _MOST_OF_COLUMN, _LARGEST = 0.999, 10, 1e15  # of layer/arrays.hpp

_NUMBERS = ("size classes features slots drawn rows u_rows recent_size splits draw x_type copy_type weight_type score_type "
            "dx_type reduction ignore_index x_stride weight_stride").split()
_POINTERS = ("weight bias moments columns u recent recent_count counters step cells probability x target index x_copy "
             "label_w drawn_w offset drawn_class label place label_score sum_p share new_u base rows_of shared_rows shared "
             "column_p p loss total_loss counted slot_of scalars scores label_gradient label_bias gradient column_sums direction rank "
             "dx gradient_in fault").split()


class Call(ctypes.Structure):
    """LayerCall of src/cuda/layer_call.hpp."""

    _fields_ = [*((name, c_int64) for name in _NUMBERS), ("rho", c_double), *((name, c_void_p) for name in _POINTERS)]


class Report(ctypes.Structure):
    """FaultReport of src/cuda/layer_call.hpp."""

    _fields_ = [("kind", c_int64), ("row", c_int64), ("number", c_int64), ("value", c_double)]


_SCALARS, _FAULTY = 80, 72  # bytes of CallScalars, and where `faulty` is
_STEPS = ("take", "estimate", "scale", "add_labels", "columns", "move")
_loaded: ctypes.CDLL | None = None


def path() -> str:
    """TRUEMAX_CUDA_LIBRARY, or beside libtruemax.so."""
    return os.environ.get("TRUEMAX_CUDA_LIBRARY") or str(pathlib.Path(lib.path()).resolve().parent /
                                                         "libtruemax_cuda.so")


def load() -> ctypes.CDLL:
    global _loaded
    if _loaded is None:
        try:
            found = ctypes.CDLL(path())
            for name in _STEPS:
                function = getattr(found, f"truemax_cuda_layer_{name}")
                function.restype, function.argtypes = c_int, [ctypes.POINTER(Call), c_void_p, c_uint32]
            found.truemax_cuda_layer_message.restype = c_char_p
            found.truemax_cuda_layer_message.argtypes = [c_int]
            found.truemax_cuda_layer_alias.restype = None
            found.truemax_cuda_layer_alias.argtypes = [c_void_p, c_uint64, c_void_p, c_void_p]
            found.truemax_cuda_layer_sizes.restype = None
            found.truemax_cuda_layer_sizes.argtypes = [c_void_p]
        except (OSError, AttributeError) as error:
            raise ImportError(f"{error}; for CUDA tensors build truemax with nvcc, or set TRUEMAX_CUDA_LIBRARY to the "
                              "path of libtruemax_cuda.so") from error
        sizes = (c_uint64 * 3)()
        found.truemax_cuda_layer_sizes(sizes)
        if tuple(sizes) != (ctypes.sizeof(Call), _SCALARS, _FAULTY):
            raise ImportError(f"{path()} is not the library of this package; install both from the same source")
        _loaded = found
    return _loaded


def emulated() -> bool:
    """Whether the library is that of the tests, which runs kernels on the CPU over the CPU's tensors."""
    given = os.environ.get("TRUEMAX_CUDA_LIBRARY")
    return bool(given) and hasattr(load(), "truemax_cuda_layer_emulated")


@contextlib.contextmanager
def precision(tf32: bool) -> Iterator[None]:
    """Products of float32 matrices in TF32, or in float32."""
    settings: Any = torch.backends.cuda.matmul
    name, wanted = "allow_tf32", tf32
    try:
        before = settings.allow_tf32
    except RuntimeError:  # set by the newer name of the same
        name, wanted = "fp32_precision", "tf32" if tf32 else "ieee"
        before = settings.fp32_precision
    if before == wanted:
        yield
        return
    setattr(settings, name, wanted)
    try:
        yield
    finally:
        setattr(settings, name, before)


def product(a: Tensor, b: Tensor, out: Tensor) -> None:
    if a.dtype == out.dtype:
        torch.mm(a, b, out=out)
    else:
        torch.mm(a, b, out_dtype=out.dtype, out=out)


def gradient_product(p: Tensor, x: Tensor, out: Tensor) -> None:
    """p^T x, as one sum or as several over parts of the rows."""
    parts, rows = out.shape[0], p.shape[0]
    if parts == 1:
        return product(p.t(), x, out[0])
    a, b = p.view(parts, rows // parts, -1).transpose(1, 2), x.view(parts, rows // parts, -1)
    if a.dtype == out.dtype:
        torch.bmm(a, b, out=out)
    else:
        torch.bmm(a, b, out_dtype=out.dtype, out=out)


def pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None or tensor.numel() == 0 else tensor.data_ptr()


class Pass:
    """The memory of a batch between forward and backward."""

    def __init__(self, card: Card, rows: int, copies: torch.dtype, in_place: bool) -> None:
        def floats(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=card.device)
        slots, features = card.slots, card.features
        self.key = (rows, copies, in_place)
        self.x_copy, self.label_w = floats(rows, features, dtype=copies), floats(rows, features, dtype=copies)
        self.drawn_w, self.p = floats(slots, features, dtype=copies), floats(rows, slots, dtype=copies)
        self.by_row = floats(6, rows)
        self.by_row_whole = floats(4, rows, dtype=torch.int32)
        self.by_slot = floats(2, slots)
        self.drawn_class = floats(slots, dtype=torch.int32)
        self.counted = floats(2, dtype=torch.int32)
        self.held: Any = None  # tensors that kernels of this pass read
        call = self.call = Call(size=ctypes.sizeof(Call), classes=card.classes, features=features, slots=slots,
                                drawn=card.drawn, draw=card.draw, copy_type=_TYPES[copies], rho=card.rho,
                                slot_of=pointer(card.slot_of), scalars=pointer(card.scalars), step=pointer(card.step),
                                cells=pointer(card.cells), probability=pointer(card.probability),
                                column_sums=pointer(card.column_sums), direction=pointer(card.direction),
                                fault=pointer(card.fault))
        for name in ("x_copy", "label_w", "drawn_w", "p", "drawn_class", "counted"):
            setattr(call, name, pointer(getattr(self, name)))
        for number, name in enumerate(("label_score", "sum_p", "share", "new_u", "loss", "base")):
            setattr(call, name, self.by_row[number].data_ptr() if rows else None)
        for number, name in enumerate(("label", "place", "rows_of", "shared_rows")):
            setattr(call, name, self.by_row_whole[number].data_ptr() if rows else None)
        call.shared = self.counted[1:].data_ptr()
        call.offset, call.column_p = self.by_slot[0].data_ptr(), self.by_slot[1].data_ptr()


class Work:
    """Memory that one call at a time uses, for at most `rows` rows."""

    def __init__(self, card: Card, rows: int) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=card.device)
        self.rows = rows
        self.scores: Tensor | None = None
        self.label_gradient, self.label_bias = zeros(rows, card.features), zeros(rows)
        self.gradient = zeros(card.splits, card.slots, card.features)
        self.rank = zeros(rows, dtype=torch.int32)


class Card:
    """The part of a layer that has memory on the card but no state."""

    MOST_SPARE = 4
    SPLITS = 1  # parts of the sum over rows in the product of gradients

    def __init__(self, layer: Any) -> None:
        device = self.device = layer.weight.device
        self.library = load()
        self.emulated = device.type != "cuda"
        self.processors = 2 if self.emulated else torch.cuda.get_device_properties(device).multi_processor_count
        self.key = key_of(layer)
        self.classes, self.features = layer.num_classes, layer.in_features
        self.drawn = min(layer.drawn, layer.num_classes)
        self.complete = layer.drawn >= layer.num_classes
        self.draw = _ALL if self.complete else _DRAWS[layer.draw]
        self.rho = layer.rho
        self.slots = -(-self.drawn // SLOTS_AT_ONCE) * SLOTS_AT_ONCE
        self.slot_of = torch.zeros(self.classes, dtype=torch.int64, device=device)
        self.scalars = torch.zeros(_SCALARS, dtype=torch.uint8, device=device)
        self.column_sums = torch.zeros(2, self.features, device=device)
        self.direction = torch.zeros(2, self.features, device=device)
        self.step = torch.zeros(1, dtype=torch.float64, device=device)
        self.step_there = 0.0
        self.fault = torch.zeros(ctypes.sizeof(Report), dtype=torch.uint8, pin_memory=not self.emulated)
        self.report = Report.from_address(self.fault.data_ptr())
        self.cells = self.probability = None
        if self.draw == _DRAWS["counts"]:
            counts = layer.class_counts.cpu().contiguous()
            cells = torch.zeros(self.classes, 2, dtype=torch.int64)
            probability = torch.zeros(self.classes, dtype=torch.float64)
            self.library.truemax_cuda_layer_alias(counts.data_ptr(), self.classes, probability.data_ptr(),
                                                  cells.data_ptr())
            self.cells, self.probability = cells.to(device), probability.to(device)
        self.splits = self.SPLITS
        # Sums over columns go beside the products, which do not fill the card.
        self.side = None if self.emulated else torch.cuda.Stream(device, priority=-1)
        self.events = [] if self.emulated else [torch.cuda.Event() for _ in range(3)]
        self.work: Work | None = None
        self.spare: list[Pass] = []

    def set_step(self, step: float) -> None:
        if step == self.step_there:
            return
        growth = 2.1 * _MOST_OF_COLUMN * step * math.sqrt(self.features / (1 - _KEEP)) if step >= 0 else math.nan
        if not 0 <= step < math.inf:
            raise ValueError(f"step is {step}; give a finite number of at least 0")
        if not growth <= _LARGEST:
            raise lib.DivergenceError(f"a step of {step:.3g} could take weights beyond {_LARGEST:.0e}; use a smaller "
                                      "step")
        self.step.fill_(step)
        self.step_there = step

    def pass_for(self, rows: int, copies: torch.dtype, in_place: bool) -> Pass:
        """One that is free, or a new one."""
        for number, spare in enumerate(self.spare):
            if spare.key == (rows, copies, in_place):
                return self.spare.pop(number)
        return Pass(self, rows, copies, in_place)

    def recycle(self, done: Pass) -> None:
        done.held = None
        self.spare.append(done)
        if len(self.spare) > self.MOST_SPARE:
            self.spare.pop(0)

    def work_for(self, rows: int) -> Work:
        if self.work is None or self.work.rows < rows:
            self.work = Work(self, rows)
        return self.work

    def launch(self, name: str, call: Call, on: Any = None) -> None:
        stream = None if self.emulated else (on or torch.cuda.current_stream(self.device)).cuda_stream
        status = getattr(self.library, f"truemax_cuda_layer_{name}")(ctypes.byref(call), stream, self.processors)
        if status != 0:
            raise RuntimeError(f"CUDA: {self.library.truemax_cuda_layer_message(status).decode()}; "
                               "CUDA_LAUNCH_BLOCKING=1 shows where")

    def raise_fault(self, layer: Any) -> None:
        """What a kernel has found wrong since the last time."""
        report = self.report
        kind = report.kind
        if kind == 0:
            return
        row, number, value = report.row, report.number, report.value
        report.kind = 0
        self.scalars[_FAULTY:_FAULTY + 4].zero_()
        after = "(an earlier batch: such rows were left out)"
        if kind == 1:
            raise ValueError(f"target is {number} in row {row} {after}; give a class from 0 to {self.classes - 1}, or "
                             f"{layer.ignore_index} to leave a row out")
        if kind == 2:
            raise ValueError(f"index is {number} in row {row} {after}; the layer has {layer.num_rows} rows, numbered "
                             "from 0")
        if kind == 3:
            what = "not finite; it must be finite" if math.isinf(value) else f"{value:.3g}; scale it to at most 1e+15"
            raise ValueError(f"x in row {row} {after} is {what}")
        if kind == 4:
            if math.isinf(value):
                raise ValueError(f"the weights of class {number} are not finite; reset them")
            raise lib.DivergenceError(f"the weights of class {number} have grown to {value:.3g}; reset them, and train "
                                      "with a smaller step")
        if kind == 5:
            raise ValueError("the gradient of the loss was not finite in an earlier batch, which took no step; it must "
                             "be finite")
        raise ValueError("the ring of recent labels does not fit its counts; load both from one state_dict, or call "
                         "reset_parameters")

    def forward(self, layer: Any, x: Tensor, target: Tensor, index: Tensor | None, reduction: str,
                products: str) -> tuple[Tensor, Pass]:
        """Losses of the rows, or with another reduction than "none" one number."""
        self.raise_fault(layer)
        rows = x.shape[0]
        if self.slots + rows > MOST_SLOTS:
            raise ValueError(f"{rows} rows and {self.drawn} drawn classes are too many; give at most "
                             f"{MOST_SLOTS - self.slots} rows at a time")
        copies = torch.bfloat16 if products == "bfloat16" else torch.float32
        in_place = copies == torch.float32 or layer._score_type == torch.bfloat16
        part, work = self.pass_for(rows, copies, in_place), self.work_for(rows)
        scores = part.p
        if not in_place:
            if work.scores is None or work.scores.shape[0] < rows:
                work.scores = torch.zeros(work.rows, self.slots, device=self.device)
            scores = work.scores[:rows]
        loss = torch.empty(rows if reduction == "none" else (), dtype=torch.float32, device=self.device)
        call, weight = part.call, layer.weight
        call.rows, call.u_rows, call.reduction = rows, layer.num_rows, _REDUCTIONS[reduction]
        call.ignore_index, call.x_type, call.x_stride = layer.ignore_index, _TYPES[x.dtype], x.stride(0)
        call.weight_type, call.weight_stride = _TYPES[weight.dtype], max(weight.stride(0), self.features)
        call.score_type = _TYPES[scores.dtype]
        for name in ("weight", "bias", "moments", "columns", "u", "recent", "recent_count", "counters"):
            setattr(call, name, pointer(layer._buffers[name]))
        call.recent_size = 0 if layer.recent is None else layer.recent.numel()
        call.x, call.target, call.index = pointer(x), pointer(target), pointer(index)
        part.held = (x, target, index)
        if reduction == "none":
            call.loss, call.total_loss = pointer(loss), part.by_row[4].data_ptr() if rows else None
        else:
            call.loss, call.total_loss = part.by_row[4].data_ptr() if rows else None, loss.data_ptr()
        call.scores, call.dx, call.gradient_in = pointer(scores), None, None
        call.label_gradient, call.label_bias = pointer(work.label_gradient), pointer(work.label_bias)
        call.gradient, call.rank = pointer(work.gradient), pointer(work.rank)
        if rows == 0:
            return loss.zero_(), part
        self.launch("take", call)
        with self.precise(products):
            product(part.x_copy, part.drawn_w.t(), scores)
        self.launch("estimate", call)
        return loss, part

    def backward(self, layer: Any, part: Pass, gradient: Tensor, reduction: str, products: str,
                 x_dtype: torch.dtype | None) -> Tensor | None:
        """dx, if its type is given; moves the layer."""
        call, work = part.call, self.work
        assert work is not None
        rows = part.key[0]
        if call.u_rows != layer.num_rows or (call.bias is None) != (layer.bias is None):
            raise ValueError("the layer's buffers have other shapes than in forward; leave them between forward and "
                             "backward")
        self.set_step(float(layer.step))
        narrow = x_dtype == torch.bfloat16 and products == "bfloat16"
        dx = None if x_dtype is None else torch.empty(
            rows, self.features, dtype=torch.bfloat16 if narrow else torch.float32, device=self.device)
        if rows == 0:
            return dx
        for name in ("weight", "bias", "moments", "columns", "u", "recent", "recent_count", "counters"):
            setattr(call, name, pointer(layer._buffers[name]))
        call.label_gradient, call.label_bias = pointer(work.label_gradient), pointer(work.label_bias)
        call.gradient, call.rank = pointer(work.gradient), pointer(work.rank)
        call.gradient_in, call.dx, call.dx_type = gradient.data_ptr(), pointer(dx), 1 if narrow else 0
        if reduction == "none":
            self.launch("scale", call)
        splits = call.splits = self.splits if rows % self.splits == 0 else 1
        gradients = work.gradient[:splits]
        side, main = self.side, None if self.side is None else torch.cuda.current_stream(self.device)
        with self.precise(products):
            if side is not None:
                self.events[0].record(main)
                side.wait_event(self.events[0])
            self.launch("add_labels", call, side)
            gradient_product(part.p, part.x_copy, gradients)
            if side is not None:
                self.events[1].record(main)
                side.wait_event(self.events[1])
            self.launch("columns", call, side)
            if dx is not None:
                product(part.p, part.drawn_w, dx)
            if side is not None:
                self.events[2].record(side)
                main.wait_event(self.events[2])
        self.launch("move", call)
        self.recycle(part)
        return dx

    def precise(self, products: str) -> Any:
        """The context of products in float32."""
        if products == "bfloat16" or self.emulated:
            return contextlib.nullcontext()
        return precision(products == "tf32")


def key_of(layer: Any) -> tuple[Any, ...]:
    """What a Card depends on."""
    counts = layer.class_counts
    return (layer.weight.device, layer.drawn, layer.rho, os.getpid(),
            None if counts is None else (counts.data_ptr(), counts._version))


def default_products(x: Tensor) -> str:
    """What PyTorch would take for nn.Linear."""
    if x.dtype in (torch.bfloat16, torch.float16) or torch.is_autocast_enabled():
        return "bfloat16"
    settings: Any = torch.backends.cuda.matmul
    try:
        return "tf32" if settings.allow_tf32 else "float32"
    except RuntimeError:
        return "tf32" if settings.fp32_precision == "tf32" else "float32"
