"""Exact losses and best classes by PyTorch's own operations, over slices of classes: for CUDA tensors."""
from __future__ import annotations

import contextlib
import math
from typing import Any, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from . import _card

_CHUNK_CLASSES = 4096  # of an exact gradient at a time
_MOST_SCORES = 1 << 26  # that exist at a time
_MOST_ROWS = 4096


def _scores(layer: Any, rows: Tensor) -> Iterator[tuple[int, Tensor]]:
    """The first class of each slice, and the scores of its classes."""
    width = max(_CHUNK_CLASSES, _MOST_SCORES // max(rows.shape[0], 1))
    for first in range(0, layer.num_classes, width):
        weight = layer.weight[first:first + width].float()
        bias = None if layer.bias is None else layer.bias[first:first + width]
        yield first, functional.linear(rows, weight, bias)


def _label_scores(layer: Any, rows: Tensor, label: Tensor) -> Tensor:
    score = (rows.double() * layer.weight[label].double()).sum(1)
    return score if layer.bias is None else score + layer.bias[label]


def losses(layer: Any, rows: Tensor, target: Tensor) -> Tensor:
    """In float64; 0 for rows that are ignored."""
    parts = [_losses(layer, rows[first:first + _MOST_ROWS], target[first:first + _MOST_ROWS])
             for first in range(0, rows.shape[0], _MOST_ROWS)]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64, device=rows.device)


def _losses(layer: Any, rows: Tensor, target: Tensor) -> Tensor:
    counts = target != layer.ignore_index
    label = torch.where(counts, target, torch.zeros_like(target))
    of_label = _label_scores(layer, rows, label)
    log_sum = torch.full_like(of_label, -math.inf)
    with torch.autocast(rows.device.type, enabled=False), _card.precision(False):
        for first, z in _scores(layer, rows):
            z -= of_label.float()[:, None]
            # The label itself is the 1 of softplus.
            here = (label - first).clamp(0, z.shape[1] - 1)[:, None]
            own = (label >= first) & (label < first + z.shape[1])
            never = torch.full_like(z[:, :1], -math.inf)
            z.scatter_(1, here, torch.where(own[:, None], never, z.gather(1, here)))
            log_sum = torch.logaddexp(log_sum, torch.logsumexp(z, 1).double())
    return torch.where(counts, functional.softplus(log_sum, threshold=700), torch.zeros_like(log_sum))


def gradient(layer: Any, rows: Tensor, target: Tensor, loss: Tensor) -> Tensor:
    """Of each row's loss in its x."""
    label = torch.where(target != layer.ignore_index, target, torch.zeros_like(target))
    log_norm = loss + _label_scores(layer, rows, label)
    dx = -layer.weight[label].float()
    context = _card.precision(False) if rows.is_cuda else contextlib.nullcontext()
    with torch.autocast(rows.device.type, enabled=False), context:
        for first in range(0, layer.num_classes, _CHUNK_CLASSES):
            some = layer.weight[first:first + _CHUNK_CLASSES].float()
            z = functional.linear(rows, some, None if layer.bias is None else layer.bias[first:first + _CHUNK_CLASSES])
            dx += (z - log_norm[:, None]).exp().to(torch.float32) @ some
    return dx


def top(layer: Any, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities and classes [rows, k], most probable first; of equal scores the lower class first."""
    parts = [_top(layer, rows[first:first + _MOST_ROWS], k) for first in range(0, rows.shape[0], _MOST_ROWS)]
    if not parts:
        empty = torch.zeros(0, k, device=rows.device)
        return empty, empty.to(torch.int64)
    return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])


def _top(layer: Any, rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    log_sum = torch.full((rows.shape[0],), -math.inf, dtype=torch.float64, device=rows.device)
    best = torch.zeros(rows.shape[0], 0, dtype=torch.int64, device=rows.device)
    low = (1 << 32) - 1
    with torch.autocast(rows.device.type, enabled=False), _card.precision(False):
        for first, z in _scores(layer, rows):
            log_sum = torch.logaddexp(log_sum, torch.logsumexp(z, 1).double())
            # Score and class in one whole number: its order is that of the scores, then of falling classes.
            bits = z.contiguous().view(torch.int32)
            order = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(torch.int64)
            classes = torch.arange(first, first + z.shape[1], device=rows.device)
            keys = torch.cat((best, (order << 32) | (low - classes)), 1)
            best = keys.topk(min(k, keys.shape[1]), 1).values
    order = (best >> 32).to(torch.int32)
    score = torch.where(order < 0, order ^ 0x7FFFFFFF, order).view(torch.float32)
    return (score.double() - log_sum[:, None]).clamp(max=0).float(), low - (best & low)

