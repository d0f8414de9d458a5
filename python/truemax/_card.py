"""LinearSoftmax on a CUDA card: kernels of libtruemax_cuda.so around three matrix products of PyTorch.

On cards of compute capability 9.0, and for products in bfloat16, kernels of the library multiply too.

Everything runs on the caller's stream, over memory that is kept from step to step; nothing waits for the card. What
kernels find wrong with a batch they write to memory of the host, and the next call raises it.
"""
from __future__ import annotations

import contextlib
import ctypes
import math
import os
import pathlib
import weakref
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

_NUMBERS = ("size classes features slots drawn rows u_rows recent_size splits room keeps draw x_type copy_type "
            "weight_type score_type dx_type gradient_type reduction ignore_index x_stride weight_stride").split()
_POINTERS = ("weight bias moments columns u recent recent_count counters step cells probability x target index "
             "x_copy label_w drawn_w direction offset drawn_class label place label_score sum_p share new_u base "
             "rows_of rank label_gradient label_bias column_p p loss total_loss counted slot_of scalars draws "
             "scores gradient column_sums dx gradient_in fault").split()


class Call(ctypes.Structure):
    """LayerCall of src/cuda/layer_call.hpp."""

    _fields_ = [*((name, c_int64) for name in _NUMBERS), ("rho", c_double), *((name, c_void_p) for name in _POINTERS)]


class Report(ctypes.Structure):
    """FaultReport of src/cuda/layer_call.hpp."""

    _fields_ = [("kind", c_int64), ("row", c_int64), ("number", c_int64), ("value", c_double)]


_SCALARS, _FAULTY = 48, 44  # bytes of CallScalars, and where `faulty` is
_STEPS = ("take", "score", "estimate", "scale", "multiply", "move", "keep")
_NOT_HERE = -1  # of src/cuda/layer_products.hpp
_MOST_SHARED_DRAWS = 2048  # of Draws in src/cuda/layer_draw.hpp
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


def gradient_product(part: Pass, out: Tensor, splits: int) -> None:
    """p^T x, as one sum or as several over parts of the rows."""
    if splits == 1:
        return product(part.p_transposed, part.x_copy, out[0])
    rows = part.p.shape[0] // splits
    a, b = part.p.view(splits, rows, -1).transpose(1, 2), part.x_copy.view(splits, rows, -1)
    if a.dtype == out.dtype:
        torch.bmm(a, b, out=out)
    else:
        torch.bmm(a, b, out_dtype=out.dtype, out=out)


def pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None or tensor.numel() == 0 else tensor.data_ptr()


class Pass:
    """The memory of a batch between forward and backward."""

    def __init__(self, card: Card, rows: int, copies: torch.dtype, in_place: bool) -> None:
        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=card.device)
        slots, features = card.slots, card.features
        self.key = (rows, copies, in_place)
        self.x_copy, self.label_w = zeros(rows, features, dtype=copies), zeros(rows, features, dtype=copies)
        self.drawn_w, self.p = zeros(slots, features, dtype=copies), zeros(rows, slots, dtype=copies)
        self.drawn_w_transposed, self.p_transposed = self.drawn_w.t(), self.p.t()
        self.label_gradient, self.by_row = zeros(rows, features), zeros(7, rows)
        self.by_row_whole = zeros(4, rows, dtype=torch.int32)
        self.by_slot, self.direction = zeros(2, slots), zeros(2, features)
        self.drawn_class = zeros(slots, dtype=torch.int32)
        self.counted = zeros(1, dtype=torch.int32)
        self.held: Any = None  # tensors that kernels of this pass read
        self.work: Work | None = None
        self.scores = self.p
        call = self.call = Call(size=ctypes.sizeof(Call), classes=card.classes, features=features, slots=slots,
                                drawn=card.drawn, draw=card.draw, copy_type=_TYPES[copies], rho=card.rho, rows=rows,
                                slot_of=pointer(card.slot_of), scalars=pointer(card.scalars), step=pointer(card.step),
                                cells=pointer(card.cells), probability=pointer(card.probability),
                                draws=pointer(card.draws), column_sums=pointer(card.column_sums),
                                fault=pointer(card.fault))
        self.reference = ctypes.byref(call)
        for name in ("x_copy", "label_w", "drawn_w", "p", "drawn_class", "counted", "label_gradient", "direction"):
            setattr(call, name, pointer(getattr(self, name)))
        for number, name in enumerate(("label_score", "sum_p", "share", "new_u", "base", "label_bias", "loss")):
            setattr(call, name, self.by_row[number].data_ptr() if rows else None)
        self.loss = call.loss
        for number, name in enumerate(("label", "place", "rows_of", "rank")):
            setattr(call, name, self.by_row_whole[number].data_ptr() if rows else None)
        call.offset, call.column_p = self.by_slot[0].data_ptr(), self.by_slot[1].data_ptr()

    def use(self, card: Card, work: Work) -> None:
        """Takes the memory of a call from `work`."""
        if self.work is work:
            return
        rows, call = self.key[0], self.call
        self.work = work
        if not self.key[2]:
            self.scores = work.scores_for(card)[:rows]
        call.scores, call.score_type = pointer(self.scores), _TYPES[self.scores.dtype]
        call.gradient, call.room = pointer(work.gradient), 2 * work.gradient.shape[0]


class Work:
    """Memory that one call at a time uses, for at most `rows` rows."""

    def __init__(self, card: Card, rows: int) -> None:
        self.rows = rows
        self.scores: Tensor | None = None
        parts = card.MOST_SPLITS if card.slots <= card.MOST_SLOTS_OF_SPLITS else card.splits
        self.gradient = torch.zeros(parts, card.slots, card.features, device=card.device)

    def scores_for(self, card: Card) -> Tensor:
        if self.scores is None:
            self.scores = torch.zeros(self.rows, card.slots, device=card.device)
        return self.scores


class Card:
    """The part of a layer that has memory on the card but no state."""

    MOST_SPARE = 4
    SPLITS, LEAST_OF_SPLIT = 2, 2048  # parts of the sum over rows in the product of gradients, and their least size
    # For few slots there is memory for more: twice as many in bfloat16 (src/cuda/layer_products.hpp).
    MOST_SPLITS, MOST_SLOTS_OF_SPLITS = 4, 4096

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
        words = 2 * self.drawn + (1 << max(5, (2 * self.drawn - 1).bit_length()))
        self.draws = None if self.complete or self.drawn <= _MOST_SHARED_DRAWS else torch.zeros(
            words, dtype=torch.int32, device=device)
        self.functions = {name: getattr(self.library, f"truemax_cuda_layer_{name}") for name in _STEPS}
        self.open: Any = None  # a weak reference to the Pass whose labels' weights were not copied
        self.captured: list[Any] = []  # that kernels of CUDA graphs write
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

    def stream(self) -> Any:
        return None if self.emulated else torch._C._cuda_getCurrentRawStream(self.device.index)

    def launch(self, name: str, part: Pass, stream: Any) -> bool:
        """Whether this card has the step."""
        if self.emulated or torch.cuda.current_device() == self.device.index:
            status = self.functions[name](part.reference, stream, self.processors)
        else:
            with torch.cuda.device(self.device):
                status = self.functions[name](part.reference, stream, self.processors)
        if status == _NOT_HERE:
            return False
        if status != 0:
            raise RuntimeError(f"CUDA: {self.library.truemax_cuda_layer_message(status).decode()}; "
                               "CUDA_LAUNCH_BLOCKING=1 shows where")
        return True

    def keep_captured(self, *memory: Any) -> None:
        """As long as there is this card, if a CUDA graph is being captured: its kernels will write there."""
        if not self.emulated and torch.cuda.is_current_stream_capturing():
            self.captured.extend(m for m in memory if not any(m is other for other in self.captured))

    def keep_open(self, done: Pass | None, stream: Any) -> None:
        """Before the weights change or another forward: copies weights of labels of a pass that waits for its backward.

        `done` is the pass that moves them."""
        part = None if self.open is None else self.open()
        self.open = None
        if part is None or part is done:
            return
        self.launch("keep", part, stream)
        part.call.keeps = 1
        self.keep_captured(part)

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
        part.use(self, work)
        loss = torch.empty(rows if reduction == "none" else (), dtype=torch.float32, device=self.device)
        call, weight = part.call, self.point_to(layer, part)
        call.u_rows, call.reduction, call.keeps = layer.num_rows, _REDUCTIONS[reduction], 0
        call.ignore_index, call.x_type, call.x_stride = layer.ignore_index, _TYPES[x.dtype], x.stride(0)
        call.weight_type, call.weight_stride = _TYPES[weight.dtype], max(weight.stride(0), self.features)
        call.x, call.target, call.index = x.data_ptr(), target.data_ptr(), None if index is None else index.data_ptr()
        part.held = (x, target, index)
        if reduction == "none":
            call.loss, call.total_loss = loss.data_ptr(), part.loss
        else:
            call.loss, call.total_loss = part.loss, loss.data_ptr()
        if rows == 0:
            return loss.zero_(), part
        self.keep_captured(part, work)
        stream = self.stream()
        if self.open is not None:
            self.keep_open(None, stream)
        self.launch("take", part, stream)
        if not self.launch("score", part, stream):
            with self.precise(products):
                product(part.x_copy, part.drawn_w_transposed, part.scores)
            self.launch("estimate", part, stream)
        self.open = weakref.ref(part)
        return loss, part

    def point_to(self, layer: Any, part: Pass) -> Tensor:
        """The layer's arrays, which may be others than at the last call; its weights."""
        call, buffers = part.call, layer._buffers
        weight, bias, u, recent = buffers["weight"], buffers["bias"], buffers["u"], buffers["recent"]
        call.weight, call.moments = weight.data_ptr(), buffers["moments"].data_ptr()
        call.columns, call.counters = buffers["columns"].data_ptr(), buffers["counters"].data_ptr()
        call.bias = None if bias is None else bias.data_ptr()
        call.u = pointer(u)
        if recent is None:
            call.recent = call.recent_count = None
            call.recent_size = 0
        else:
            call.recent, call.recent_size = recent.data_ptr(), recent.numel()
            call.recent_count = buffers["recent_count"].data_ptr()
        return weight

    def backward(self, layer: Any, part: Pass, gradient: Tensor, reduction: str, products: str,
                 x_dtype: torch.dtype | None) -> Tensor | None:
        """dx, if its type is given; moves the layer."""
        call, work = part.call, self.work
        assert work is not None
        rows = part.key[0]
        if call.u_rows != layer.num_rows or (call.bias is None) != (layer._buffers["bias"] is None):
            raise ValueError("the layer's buffers have other shapes than in forward; leave them between forward and "
                             "backward")
        self.set_step(layer.step)
        narrow = x_dtype == torch.bfloat16 and products == "bfloat16"
        dx = None if x_dtype is None else torch.empty(
            (rows, self.features), dtype=torch.bfloat16 if narrow else torch.float32, device=self.device)
        if rows == 0:
            return dx
        part.use(self, work)
        self.keep_captured(part, work)
        self.point_to(layer, part)
        call.gradient_in, call.dx_type = gradient.data_ptr(), 1 if narrow else 0
        call.dx = None if dx is None else dx.data_ptr()
        stream = self.stream()
        if reduction == "none":
            self.launch("scale", part, stream)
        if not self.launch("multiply", part, stream):
            even = rows % self.splits == 0 and rows >= self.LEAST_OF_SPLIT * self.splits
            splits, call.gradient_type = self.splits if even else 1, 0
            call.splits = splits
            with self.precise(products):
                gradient_product(part, work.gradient[:splits], splits)
                if dx is not None:
                    product(part.p, part.drawn_w, dx)
        if self.open is not None:
            self.keep_open(part, stream)
        self.launch("move", part, stream)
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
