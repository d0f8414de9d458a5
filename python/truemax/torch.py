"""The last layer of a PyTorch network with very many classes; a step costs the same for any number of them.

>>> layer = LinearSoftmax(in_features=64, num_classes=1_000_000, num_rows=len(dataset))
>>> loss = layer(encoder(batch), target, index)   # index: the place of each row in the dataset
>>> loss.backward()                               # gradients of the encoder; the layer itself has taken its step
>>> optimizer.step()                              # of the encoder's parameters
"""
from __future__ import annotations

import ctypes
import math
import numbers
import os
from typing import Any, Callable, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import _card, _exact, _layer
from . import _library as lib

__all__ = ["LinearSoftmax", "TopK"]

_FEW_STEP, _ALL_STEP = 0.002, 0.001  # the default step if some, and if all classes are drawn
_REDUCTIONS = ("mean", "sum", "none")
_LEAST_RECENT = 1 << 16  # labels that "counted" remembers; as many as classes if there are more
_MOST_SEED = (1 << 63) - 1
_LARGEST = 1e15  # numbers of x and weight


class TopK(NamedTuple):
    """The most probable classes of each row, most probable first."""

    values: Tensor  # log-probabilities [..., k]
    indices: Tensor  # classes [..., k]


class LinearSoftmax(nn.Module):
    r"""Softmax over ``x @ weight.T + bias`` with the negative log-likelihood as its loss, for very many classes.

    In training, all rows of a batch share `drawn` classes, drawn at random and weighted so that each class counts
    1 on average. ``backward`` returns the gradient of ``x`` only: ``weight``, ``bias`` and ``u`` are changed in it, by
    the layer's own step, and no gradient of the size of ``weight`` exists. Do not give them to an optimizer; they are
    buffers, so ``model.parameters()`` does not have them.

    For each row of the training data the layer keeps ``u``, its estimate of the row's log-loss, which makes the mean
    step that of the full softmax. Tell it which rows it sees by `index`. With ``index=None`` the estimate comes from
    the drawn classes of this step alone, as in sampled softmax. **That is biased**: training settles at another
    optimum than the full softmax, the closer the more classes are drawn. If all classes are drawn (``drawn >=
    num_classes``), losses and gradients are exact, with and without `index`.

    Parameters
    ----------
    in_features : int
        Size D of each row ``x``.
    num_classes : int
        Number K of classes.
    num_rows : int, optional
        Number N of rows of the training data: the values of `index` are below it. Without it, there is no `index`.
    bias : bool
        Whether each class has an intercept.
    step : float, optional
        The step size of ``weight`` and ``bias``, like Adam's ``lr``: give ``lr`` of the encoder's Adam if all classes
        are drawn, and twice as much if not, up to 0.006. The defaults, 0.001 and 0.002, go with Adam's default of
        0.001. The attribute ``step`` may be changed at any time, to let it fall as a schedule says. 0 freezes
        ``weight`` and ``bias``.
    drawn : int
        Number of classes drawn for each batch.
    draw : {"counted", "uniform"} or tensor of K class counts
        How classes are drawn: by how often they were targets in the last steps, all equally, or by given counts. One
        tenth of the draws by counts is uniform, so every class can be drawn.
    rho : float
        How fast ``u`` forgets earlier visits of a row; ``math.inf``: at once.
    reduction : {"mean", "sum", "none"}
        As in ``CrossEntropyLoss``.
    ignore_index : int
        Rows with this target have loss and gradient 0 and do not count in the mean.
    class_weight : tensor of K weights, optional
        As `weight` of ``CrossEntropyLoss``.
    seed : int, optional
        Of the drawn classes. By default it comes from torch's generator, so ``torch.manual_seed`` sets it.
    products : {"bfloat16", "tf32", "float32"}, optional
        How a CUDA card multiplies matrices. By default as PyTorch would for ``nn.Linear``: in bfloat16 under autocast
        and for ``x`` of 16 bits, else in float32 or TF32 as ``torch.backends.cuda.matmul`` says. Sums are float32.
    device, dtype
        Of ``weight``: float32, and on CUDA also bfloat16, rounded at random so that small steps count on average.

    Attributes
    ----------
    weight, bias : Tensor
        [K, D] and [K], as in ``nn.Linear``.
    u : Tensor
        [N]: the estimate of each row's log-loss, NaN for rows that have not been trained on.

    Notes
    -----
    - ``weight`` and ``bias`` are buffers, so ``requires_grad_(False)`` does not freeze them; ``step = 0`` does.
    - ``forward`` changes nothing; every ``backward`` is one step. So accumulating gradients over several batches gives
      the layer as many steps. A second ``backward`` through the same ``forward`` and ``create_graph=True`` are refused.
    - The step ignores a common factor of the gradient, such as the scale of AMP or the number of accumulated batches;
      the gradient of ``x`` has it. With ``reduction="none"``, rows count as much as the gradient that arrives at each;
      rows where it is 0 change nothing.
    - In ``eval()`` mode the loss is exact (as of `nll`), which takes time proportional to K, and nothing is trained.
      Under ``torch.no_grad()`` in training mode it is the estimate, and nothing is trained. What counts is the mode at
      ``forward``: ``eval()`` between ``forward`` and ``backward`` does not stop the step.
    - ``x`` may have any floating-point type; its gradient has the same. The loss is float32.
    - Without rows that count, the mean is 0, not NaN.
    - The state is O(K) and O(N) besides ``weight``, and all of it is in ``state_dict``: a resumed run continues with
      the same bits.
    """

    weight: Tensor
    bias: Tensor | None
    u: Tensor
    moments: Tensor
    columns: Tensor
    counters: Tensor
    recent: Tensor | None
    recent_count: Tensor | None
    class_counts: Tensor | None
    class_weight: Tensor | None

    def __init__(self, in_features: int, num_classes: int, num_rows: int | None = None, *, bias: bool = True,
                 step: float | None = None, drawn: int = 1024, draw: Any = "counted", rho: float = 0.1,
                 reduction: str = "mean", ignore_index: int = -100, class_weight: Any = None, seed: int | None = None,
                 products: str | None = None, device: Any = None, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.in_features = _whole("in_features", in_features, 1)
        self.num_classes = _whole("num_classes", num_classes, 1)
        self.num_rows = 0 if num_rows is None else _whole("num_rows", num_rows, 0)
        self.drawn = _whole("drawn", drawn, 1)
        few = self.drawn < self.num_classes
        self.step = (_FEW_STEP if few else _ALL_STEP) if step is None else _number("step", step)
        self.rho = _number("rho", rho)
        self.ignore_index = _whole("ignore_index", ignore_index, None)
        self.reduction = _reduction(reduction)
        self.products = _products(products)
        self._score_type = torch.bfloat16  # of products in bfloat16
        home = torch.device("cpu" if device is None else device)
        if home.type not in ("cpu", "cuda"):
            raise ValueError(f"device is {device}; give 'cpu' or 'cuda'")
        if home.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(f"device is {device}, and PyTorch finds no CUDA card; give 'cpu'")
        if dtype not in (None, torch.float32) and (dtype != torch.bfloat16 or home.type == "cpu" and not _emulated()):
            raise ValueError(f"dtype is {dtype}; weight is float32, or on CUDA bfloat16, and x may have any "
                             "floating-point type")
        classes = self.num_classes
        self.register_buffer("weight", torch.empty(classes, self.in_features, dtype=dtype or torch.float32, device=home))
        self.register_buffer("bias", _floats(classes) if bias else None)
        self.register_buffer("u", _floats(self.num_rows))
        self.register_buffer("moments", _floats(classes, 6))  # of the steps so far, by class
        self.register_buffer("columns", _floats(2, self.in_features))  # and by column
        self.register_buffer("counters", torch.zeros(3, dtype=torch.int64))  # steps, labels, seed
        self.draw = draw if isinstance(draw, str) else "counts"
        if self.draw not in _layer.DRAWS or isinstance(draw, str) and draw == "counts":
            raise ValueError(f"draw is {draw!r}; give 'counted', 'uniform' or a tensor of class counts")
        counted = self.draw == "counted"
        recent = max(classes, _LEAST_RECENT) if counted else 0
        self.register_buffer("recent", torch.zeros(recent, dtype=torch.int32) if counted else None)
        self.register_buffer("recent_count", torch.zeros(classes, dtype=torch.int32) if counted else None)
        self.register_buffer("class_counts",
                             _of_classes("draw", draw, classes, torch.float64) if self.draw == "counts" else None)
        self.register_buffer("class_weight", None if class_weight is None else
                             _of_classes("class_weight", class_weight, classes, torch.float32))
        if seed is not None and _whole("seed", seed, 0) > _MOST_SEED:
            raise ValueError(f"seed is {seed}; give a whole number of at most {_MOST_SEED}")
        self.counters[2] = torch.randint(1 << 62, ()) if seed is None else int(seed)
        self._native: tuple[Any, _layer.Layer] | None = None
        self._memory: _card.Card | None = None
        self._handle()  # refuses what cannot be used
        if home.type != "cpu":
            _card.load()
            self._native = None
            self.to(home)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Starts anew: ``weight`` and ``bias`` as in ``nn.Linear``, everything else without memory."""
        bound = 1 / math.sqrt(self.in_features)
        with torch.no_grad():
            self.weight.uniform_(-bound, bound)
            if self.bias is not None:
                self.bias.uniform_(-bound, bound)
            self.u.fill_(math.nan)
            self.moments.zero_()
            self.columns.zero_()
            self.counters[:2] = 0
            for counts in (self.recent, self.recent_count):
                if counts is not None:
                    counts.zero_()

    @property
    def step(self) -> float:
        return self._step

    @step.setter
    def step(self, step: float) -> None:
        self._step = step
        memory = self.__dict__.get("_memory")
        if memory is not None:
            memory.set_step(float(step))  # steps of a captured CUDA graph read it there

    def forward(self, x: Tensor, target: Tensor, index: Tensor | None = None) -> Tensor:
        """The loss of rows ``x`` [..., D] with classes ``target`` [...]; `index` [...] says which rows they are.

        In training it is an estimate, whose ``backward`` trains the layer. It is exact if all classes are drawn, and in
        ``eval()`` mode.
        """
        target = self._checked(x, target)
        index = self._checked_index(index, target)
        if not self.training:
            loss = _Exact.apply(x, self, target)
        elif self._on_card():
            # Without weights of classes, the reduction is a part of the kernels.
            reduction = "none" if self.class_weight is not None else self.reduction
            if torch.is_grad_enabled():
                loss = _CardStep.apply(x, self._anchor(), self, target, index, reduction)
            else:
                loss = self._card_forward(x, target, index, reduction)[0]
            return loss if reduction != "none" else self._reduced(loss, target, self.reduction)
        elif torch.is_grad_enabled():
            loss = _Step.apply(x, self._anchor(), self, target, index)
        else:
            loss = self._forward(x, target, index, False)[0]
        return self._reduced(loss, target, self.reduction)

    def nll(self, x: Tensor, target: Tensor, reduction: str | None = None) -> Tensor:
        """The exact log-loss over all classes; changes nothing and has no gradient. Time O(rows K D), little memory."""
        target = self._checked(x, target)
        with torch.no_grad():
            return self._reduced(self._nll(x, target), target,
                                 self.reduction if reduction is None else _reduction(reduction))

    def topk(self, x: Tensor, k: int = 1) -> TopK:
        """The `k` most probable classes of each row and their exact log-probabilities; of equals the lower class."""
        k = _whole("k", k, 1)
        if k > self.num_classes:
            raise ValueError(f"k is {k}; give at most the number of classes, {self.num_classes}")
        _require_rows(x, self.in_features, self.weight.device)
        rows = _rows(x)
        if self._on_card():
            self._require_usable(rows)
            found = _exact.top(self, rows, k)
            shape = (*x.shape[:-1], k)
            return TopK(found[0].reshape(shape), found[1].reshape(shape))
        values = torch.empty(rows.shape[0], k, dtype=torch.float64)
        indices = torch.empty(rows.shape[0], k, dtype=torch.int64)
        lib.check(_layer.load().tmx_layer_top(
            self._handle().pointer, self._arrays(), self._batch(rows), k, _pointer(indices), _pointer(values)))
        shape = (*x.shape[:-1], k)
        return TopK(values.to(torch.float32).reshape(shape), indices.reshape(shape))

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-probabilities of all classes, [..., K]; `topk` and `nll` need less memory."""
        _require_rows(x, self.in_features, self.weight.device)
        return functional.log_softmax(functional.linear(x.float(), self.weight.float(), self.bias), dim=-1)

    def linear_state(self) -> dict[str, Tensor]:
        """``weight`` and ``bias`` as a ``state_dict`` of ``nn.Linear(in_features, num_classes, bias)``; no copies."""
        return {"weight": self.weight} | ({} if self.bias is None else {"bias": self.bias})

    def load_linear(self, state: nn.Linear | dict[str, Tensor]) -> LinearSoftmax:
        """Starts anew from ``weight`` and ``bias`` of an ``nn.Linear`` or of its ``state_dict``."""
        given = state.state_dict() if isinstance(state, nn.Module) else dict(state)
        wanted = self.linear_state()
        if given.keys() != wanted.keys() or any(given[name].shape != wanted[name].shape for name in wanted):
            raise ValueError(f"the state has {_shapes(given)}, and the layer {_shapes(wanted)}; make the layer to "
                             "match")
        self.reset_parameters()
        with torch.no_grad():
            for name, tensor in wanted.items():
                tensor.copy_(given[name])
        return self

    def extra_repr(self) -> str:
        rows = f", num_rows={self.num_rows}" if self.num_rows else ""
        return (f"in_features={self.in_features}, num_classes={self.num_classes}{rows}, bias={self.bias is not None}, "
                f"step={self.step:g}, drawn={self.drawn}, draw={self.draw!r}, reduction={self.reduction!r}")

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> LinearSoftmax:
        # model.half() and model.to(float64) leave the layer in float32.
        def moved(tensor: Tensor) -> Tensor:
            out = fn(tensor)
            return out if out.dtype == tensor.dtype else tensor.to(out.device)
        self._memory = None
        return super()._apply(moved)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_native": None, "_memory": None}

    def check(self) -> None:
        """Waits for the card and raises what its kernels found wrong with earlier batches; nothing on the CPU."""
        if self._memory is not None:
            if not self._memory.emulated:
                torch.cuda.synchronize(self._memory.device)
            self._memory.raise_fault(self)

    def _on_card(self) -> bool:
        return self.weight.is_cuda or _emulated()

    def _anchor(self) -> Tensor:
        # An input that wants a gradient: x may come from frozen parameters, and the layer trains all the same.
        return torch.empty(0, requires_grad=True)

    def _card(self) -> _card.Card:
        if self._memory is None or self._memory.key != _card.key_of(self):
            self._check_buffers()
            self._memory = _card.Card(self)
            self._memory.set_step(float(self.step))
        return self._memory

    def _card_forward(self, x: Tensor, target: Tensor, index: Tensor | None,
                      reduction: str) -> tuple[Tensor, _card.Pass, str]:
        products = self.products or _card.default_products(x)
        rows = x.detach()
        if rows.dim() != 2:
            rows, target = rows.reshape(-1, x.shape[-1]), target.reshape(-1)
            index = None if index is None else index.reshape(-1)
        if rows.dtype not in (torch.float32, torch.bfloat16):
            rows = rows.to(torch.float32)
        if rows.stride(1) != 1 or rows.stride(0) < rows.shape[1]:
            rows = rows.contiguous()
        loss, part = self._card().forward(self, rows, target, index, reduction, products)
        return loss, part, products

    def _handle(self) -> _layer.Layer:
        """The library's part, which has memory and threads but no state; made again when it does not fit any more."""
        counts = self.class_counts
        key = (os.getpid(), self.drawn, self.rho, torch.get_num_threads(),
               None if counts is None else (counts.data_ptr(), counts._version))
        if self._native is not None and self._native[0][0] != key[0]:
            self._native[1].pointer = None  # of a process that was forked: its threads are not in this one
        if self._native is None or self._native[0] != key:
            self._native = (key, _layer.create(self.num_classes, self.in_features, self.drawn, self.draw,
                                               None if counts is None else counts.data_ptr(), self.rho,
                                               torch.get_num_threads()))
        return self._native[1]

    def _check_buffers(self) -> None:
        weight = self.weight
        on_card = self._on_card()
        classes, recent_size = self.num_classes, max(self.num_classes, _LEAST_RECENT)
        of_weight = weight.dtype if on_card and weight.dtype == torch.bfloat16 else torch.float32
        for name, shape, dtype in (("weight", (classes, self.in_features), of_weight),
                                   ("bias", (classes,), torch.float32), ("u", (self.num_rows,), torch.float32),
                                   ("moments", (classes, 6), torch.float32),
                                   ("columns", (2, self.in_features), torch.float32), ("counters", (3,), torch.int64),
                                   ("recent", (recent_size,), torch.int32), ("recent_count", (classes,), torch.int32)):
            buffer = self._buffers[name]
            if buffer is None:
                continue
            if buffer.device != weight.device or buffer.device.type not in ("cpu", "cuda"):
                raise ValueError(f"{name} is on {buffer.device}, and weight on {weight.device}; move the whole layer to "
                                 "the CPU or to one CUDA device")
            rows_fit = name == "weight" and buffer.dim() == 2 and buffer.stride(1) == 1 <= shape[1] <= buffer.stride(0)
            if buffer.shape != shape or buffer.dtype != dtype or not (rows_fit or buffer.is_contiguous()):
                raise ValueError(f"{name} is {buffer.dtype} with shape {tuple(buffer.shape)} and strides "
                                 f"{buffer.stride()}; it must be a contiguous {dtype} with shape {shape}")

    def _arrays(self) -> Any:
        self._check_buffers()
        weight = self.weight
        recent = self.recent
        return ctypes.byref(_layer.LayerArrays(
            size=ctypes.sizeof(_layer.LayerArrays), device=-1, stream=None, type=lib.FLOAT32,
            weight=weight.data_ptr(), weight_stride=4 * max(weight.stride(0), self.in_features),
            bias=_pointer(self.bias), moments=_pointer(self.moments), columns=_pointer(self.columns),
            u=_pointer(self.u), rows=self.num_rows,
            recent=_pointer(recent), recent_size=0 if recent is None else recent.numel(),
            recent_count=_pointer(self.recent_count), seed=int(self.counters[2]), counters=_pointer(self.counters)))

    def _batch(self, rows: Tensor, target: Tensor | None = None, index: Tensor | None = None) -> Any:
        return ctypes.byref(_layer.LayerBatch(
            size=ctypes.sizeof(_layer.LayerBatch), rows=rows.shape[0], x=_pointer(rows), x_stride=4 * self.in_features,
            target=_pointer(target), ignore_index=self.ignore_index, index=_pointer(index)))

    def _forward(self, x: Tensor, target: Tensor, index: Tensor | None,
                 keep: bool) -> tuple[Tensor, _layer.Pass | None]:
        rows = _rows(x)
        loss = _floats(rows.shape[0])
        native, arrays, batch = self._handle().pointer, self._arrays(), self._batch(rows, target, index)
        if keep:
            made = lib.made(_layer.Pass, _layer.load().tmx_layer_forward, native, arrays, batch, _pointer(loss))
            return loss, made
        lib.check(_layer.load().tmx_layer_forward(native, arrays, batch, _pointer(loss), None))
        return loss, None

    def _require_usable(self, rows: Tensor, target: Tensor | None = None) -> None:
        """Of exact losses on a card, which may wait for it; not while a CUDA graph is captured."""
        if rows.is_cuda and torch.cuda.is_current_stream_capturing():
            return
        finite = (rows.abs() <= _LARGEST).all() & (self.weight.abs() <= _LARGEST).all()
        if self.bias is not None:
            finite = finite & (self.bias.abs() <= _LARGEST).all()
        fits = torch.ones((), dtype=torch.bool, device=rows.device) if target is None else (
            (target == self.ignore_index) | (target >= 0) & (target < self.num_classes)).all()
        finite, fits = torch.stack((finite, fits)).tolist()
        if not fits:
            row = int(((target != self.ignore_index) & ((target < 0) | (target >= self.num_classes))).nonzero()[0])
            raise ValueError(f"target is {int(target[row])} in row {row}; give a class from 0 to {self.num_classes - 1}, "
                             f"or {self.ignore_index} to leave a row out")
        if not finite:
            raise ValueError(f"x or weight has a number that is not finite or above {_LARGEST:.0e}; scale x, or reset "
                             "the layer")

    def _nll(self, x: Tensor, target: Tensor) -> Tensor:
        rows = _rows(x)
        if self._on_card():
            target = target.reshape(-1)
            self._require_usable(rows, target)
            return _exact.losses(self, rows, target)
        loss = torch.empty(rows.shape[0], dtype=torch.float64)
        lib.check(_layer.load().tmx_layer_nll(
            self._handle().pointer, self._arrays(), self._batch(rows, target), _pointer(loss)))
        return loss

    def _reduced(self, loss: Tensor, target: Tensor, reduction: str) -> Tensor:
        counts = (target != self.ignore_index).reshape(-1)
        weight: Tensor = counts
        if self.class_weight is not None:
            weight = torch.where(counts, self.class_weight[target.reshape(-1).clamp(0, self.num_classes - 1)], 0.0)
            loss = loss * weight.to(loss.dtype)
        if reduction == "none":
            return loss.to(torch.float32).reshape(target.shape)
        total = loss.sum()
        if reduction == "mean" and loss.is_cuda:
            divisor = weight.sum()
            total = total / torch.where(divisor != 0, divisor, 1)
        elif reduction == "mean":
            divisor = weight.sum().item()
            total = total / (divisor if divisor != 0 else 1)
        return total.to(torch.float32)

    def _checked(self, x: Tensor, target: Tensor) -> Tensor:
        _require_rows(x, self.in_features, self.weight.device)
        return _numbers("target", target, x.shape[:-1], self.weight.device)

    def _checked_index(self, index: Tensor | None, target: Tensor) -> Tensor | None:
        if index is None:
            return None
        if self.num_rows == 0:
            raise ValueError("index was given, but the layer was made without num_rows; give it the number of rows of "
                             "the training data")
        return _numbers("index", index, target.shape, self.weight.device)


class _Step(torch.autograd.Function):
    """Losses of the rows; its backward gives the gradient of x and takes the step of the layer."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: LinearSoftmax, target: Tensor,  # type: ignore[override]
                index: Tensor | None) -> Tensor:
        loss, ctx.forward_pass = layer._forward(x, target, index, True)
        ctx.layer, ctx.x_like = layer, (x.shape, x.dtype)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        _refuse_second_derivatives()
        layer, (shape, dtype) = ctx.layer, ctx.x_like
        if ctx.forward_pass is None:
            raise RuntimeError("LinearSoftmax has taken the step of this forward already; call forward again before "
                               "another backward")
        gradient = gradient.to(torch.float32).contiguous()
        dx = _floats(gradient.shape[0], layer.in_features) if ctx.needs_input_grad[0] else None
        status = _layer.load().tmx_layer_backward(layer._arrays(), ctx.forward_pass.pointer, _pointer(gradient),
                                                  float(layer.step), _pointer(dx), 4 * layer.in_features)
        lib.check(status)
        ctx.forward_pass = None
        return None if dx is None else dx.reshape(shape).to(dtype), None, None, None, None


class _CardStep(torch.autograd.Function):
    """The same on a CUDA card; the losses of the rows, or their sum or mean."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, anchor: Tensor, layer: LinearSoftmax, target: Tensor,  # type: ignore[override]
                index: Tensor | None, reduction: str) -> Tensor:
        loss, ctx.part, ctx.products = layer._card_forward(x, target, index, reduction)
        ctx.layer, ctx.x_like, ctx.reduction, ctx.memory = layer, (x.shape, x.dtype), reduction, layer._memory
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        _refuse_second_derivatives()
        layer, (shape, dtype) = ctx.layer, ctx.x_like
        if ctx.part is None:
            raise RuntimeError("LinearSoftmax has taken the step of this forward already; call forward again before "
                               "another backward")
        if ctx.memory is not layer._memory:
            raise RuntimeError("LinearSoftmax was moved or changed between forward and backward; call forward again")
        if gradient.dtype != torch.float32 or not gradient.is_contiguous():
            gradient = gradient.to(torch.float32).contiguous()
        dx = ctx.memory.backward(layer, ctx.part, gradient, ctx.reduction, ctx.products,
                                 dtype if ctx.needs_input_grad[0] else None)
        ctx.part = None
        if dx is not None and (dx.shape != shape or dx.dtype != dtype):
            dx = dx.reshape(shape).to(dtype)
        return dx, None, None, None, None, None


class _Exact(torch.autograd.Function):
    """Exact losses of the rows; its backward changes nothing."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: LinearSoftmax, target: Tensor) -> Tensor:  # type: ignore[override]
        loss = layer._nll(x, target)
        ctx.layer, ctx.x_like = layer, (x.shape, x.dtype)
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(_rows(x), target.reshape(-1), loss)
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        _refuse_second_derivatives()
        rows, target, loss = ctx.saved_tensors
        layer, (shape, dtype) = ctx.layer, ctx.x_like
        dx = _exact.gradient(layer, rows, target, loss)
        dx *= (gradient * (target != layer.ignore_index)).to(torch.float32)[:, None]
        return dx.reshape(shape).to(dtype), None, None


def _refuse_second_derivatives() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError("LinearSoftmax has no second derivatives, since its backward changes the weights; call "
                           "backward without create_graph=True")


def _pointer(tensor: Tensor | None) -> int | None:
    return None if tensor is None or tensor.numel() == 0 else tensor.data_ptr()


def _floats(*shape: int) -> Tensor:
    """Whatever the default type and device of torch are."""
    return torch.empty(shape, dtype=torch.float32, device="cpu")


def _rows(x: Tensor) -> Tensor:
    return x.detach().to(torch.float32).reshape(-1, x.shape[-1]).contiguous()


def _emulated() -> bool:
    return _card.emulated()


def _require_rows(x: Tensor, features: int, device: torch.device) -> None:
    if not isinstance(x, Tensor) or not x.is_floating_point():
        raise TypeError(f"x is {_kind(x)}; give a tensor of floating-point numbers")
    if x.dim() < 1 or x.shape[-1] != features:
        raise ValueError(f"x has shape {tuple(x.shape)}; its last dimension must be in_features, {features}")
    if x.device != device:
        raise ValueError(f"x is on {x.device}, and the layer on {device}; move one to the other")


def _numbers(name: str, given: Tensor, shape: torch.Size, device: torch.device) -> Tensor:
    """Whole numbers, one for each row, as the library reads them."""
    if not isinstance(given, Tensor) or given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise TypeError(f"{name} is {_kind(given)}; give a tensor of whole numbers (torch.int64)")
    if given.shape != shape:
        raise ValueError(f"{name} has shape {tuple(given.shape)}, and x without its last dimension "
                         f"{tuple(shape)}; give one number for each row")
    if given.device != device:
        raise ValueError(f"{name} is on {given.device}, and the layer on {device}; move one to the other")
    if given.dtype == torch.int64 and not given.requires_grad and given.is_contiguous():
        return given
    return given.detach().to(torch.int64).contiguous()


def _of_classes(name: str, given: Any, classes: int, dtype: torch.dtype) -> Tensor:
    out = torch.as_tensor(given).detach().to(device="cpu", dtype=dtype).clone().contiguous()
    if out.shape != (classes,):
        raise ValueError(f"{name} has shape {tuple(out.shape)}; give one number for each of the {classes} classes")
    if not bool((out >= 0).all()) or bool(out.isinf().any()):
        raise ValueError(f"{name} has a number that is negative or not finite; give finite numbers of at least 0")
    return out


def _whole(name: str, given: Any, least: int | None) -> int:
    if isinstance(given, bool) or not isinstance(given, numbers.Integral):
        raise TypeError(f"{name} is {given!r}; give a whole number")
    if least is not None and given < least:
        raise ValueError(f"{name} is {given}; give a whole number of at least {least}")
    return int(given)


def _number(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise TypeError(f"{name} is {given!r}; give a number")
    number = float(given)
    if not number >= 0 or name == "step" and math.isinf(number):
        raise ValueError(f"{name} is {given}; give a number of at least 0")
    return number


def _reduction(given: str) -> str:
    if given not in _REDUCTIONS:
        raise ValueError(f"reduction is {given!r}; give 'mean', 'sum' or 'none'")
    return given


def _products(given: str | None) -> str | None:
    if given is not None and given not in _card.PRODUCTS:
        raise ValueError(f"products is {given!r}; give 'bfloat16', 'tf32' or 'float32'")
    return given


def _kind(given: Any) -> str:
    return f"a tensor of {given.dtype}" if isinstance(given, Tensor) else f"{type(given).__name__}"


def _shapes(state: dict[str, Tensor]) -> str:
    return ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in state.items())
