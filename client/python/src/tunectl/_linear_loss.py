# SPDX-License-Identifier: Apache-2.0
"""The cross entropy of a linear layer's output without that output: its logits exist for one chunk of rows at a time.

One launch turns a chunk's logits into losses and, if a gradient is wanted, into the gradient of these logits, which two
products turn into the gradients of the layer's input and weight at once. The forward pass therefore leaves gradients of
the sizes of input and weight instead of logits, and the backward pass multiplies them by a number.

The backward pass runs the chunks again if the forward pass could not know the gradients: of losses that are not
summed, of f16, whose range needs the factor of a loss scaler first, and if it runs a second time (retain_graph=True).
Second derivatives are those of PyTorch's operations, with whole logits.

The weight's gradient is summed over chunks in float32, so it is rounded to the weight's dtype once, as by a whole product.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Optional

import torch
import torch.nn.functional as F

from . import _torch_op

_CHUNK_MIN = 1024  # rows below which a product would be slow
_NAME = "linear_cross_entropy"
# Losses of logits [rows, classes], targets [rows], slopes [rows] or None, and a smoothing; with slopes also the
# gradients of the logits. A target of -100 is ignored.
Losses = Callable[[Any, Any, Optional[Any], float], Any]


def chunk_of(rows: int, width: int, classes: int) -> int:
    """The rows of a chunk whose logits are about as large as the whole input: a power of two, at least 1024."""
    return max(_CHUNK_MIN, 1 << max(1, rows * width // classes).bit_length() - 1)


def plain(x: Any, weight: Any, bias: Optional[Any], targets: Any, smoothing: float) -> Any:
    """The losses of rows by PyTorch's operations."""
    logits = F.linear(x, weight, bias)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return F.cross_entropy(logits, targets, reduction="none", label_smoothing=smoothing)


@functools.lru_cache(maxsize=None)
def _multiplies_into_float32(device: str, dtype: Any) -> bool:
    """Whether a product of that dtype can be added to float32 without being rounded before."""
    total, one = (torch.zeros(16, 16, dtype=kind, device=device) for kind in (torch.float32, dtype))
    try:
        torch.addmm(total, one, one, out_dtype=torch.float32, out=total)
    except (NotImplementedError, RuntimeError, TypeError):
        return False
    return True


def _add_product(total: Any, left: Any, right: Any) -> None:
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    elif _multiplies_into_float32(total.device.type, left.dtype):
        torch.addmm(total, left, right, out_dtype=torch.float32, out=total)
    else:
        total += left @ right


class _Gradients:
    """Gradients of input, weight and bias, of those that are wanted. Chunks of rows are added one after the other."""

    def __init__(self, x: Any, weight: Any, wanted: Sequence[bool], chunk: int) -> None:
        self._x, self._weight = x, weight
        of_x, of_weight, of_bias = wanted
        summed = weight.dtype if chunk >= x.shape[0] else torch.float32
        self._of_x = torch.empty_like(x) if of_x else None
        self._of_weight = torch.zeros_like(weight, dtype=summed) if of_weight else None
        self._of_bias = weight.new_zeros(weight.shape[0], dtype=torch.float32) if of_bias else None

    def add(self, rows: slice, slopes: Any) -> None:
        """slopes  of the logits of these rows"""
        if self._of_x is not None:
            torch.mm(slopes, self._weight, out=self._of_x[rows])
        if self._of_weight is not None:
            _add_product(self._of_weight, slopes.t(), self._x[rows])
        if self._of_bias is not None:
            self._of_bias += slopes.sum(0, dtype=torch.float32)

    def made(self) -> tuple[Any, ...]:
        """Arrays without elements stand for those that are not wanted."""
        return tuple([self._weight.new_empty(0) if one is None else one.to(self._weight.dtype)
                      for one in (self._of_x, self._of_weight, self._of_bias)])


def _run(losses_of: Losses, x: Any, weight: Any, bias: Optional[Any], targets: Any, slopes: Optional[Any],
         smoothing: float, chunk: int, *wanted: bool) -> tuple[Any, ...]:
    """The losses of rows, or their sum with the slopes as factors, and the gradients of that sum."""
    rows = x.shape[0]
    chunk = chunk or chunk_of(rows, x.shape[1], weight.shape[0])
    losses = x.new_empty(rows, dtype=torch.float32)
    with torch.no_grad(), torch.autocast(x.device.type, enabled=False):
        gradients = _Gradients(x, weight, wanted, chunk)
        for start in range(0, rows, chunk):
            part = slice(start, start + chunk)
            logits = F.linear(x[part], weight, bias)
            if any(wanted):
                assert slopes is not None
                losses[part], logits = losses_of(logits, targets[part], slopes[part], smoothing)
                gradients.add(part, logits)
            else:
                losses[part] = losses_of(logits, targets[part], None, smoothing)
            del logits  # before the next one is made
        return losses if slopes is None else (losses * slopes).sum(), *gradients.made()


def _describe(x: Any, weight: Any, bias: Optional[Any], targets: Any, slopes: Optional[Any], smoothing: float, chunk: int,
              *wanted: bool) -> tuple[Any, ...]:
    """The results of `_run`, without elements."""
    losses = x.new_empty(() if slopes is not None else x.shape[:1], dtype=torch.float32)
    shapes = x.shape, weight.shape, weight.shape[:1]
    return losses, *[weight.new_empty(shape if is_wanted else 0) for shape, is_wanted in zip(shapes, wanted)]


class _Function(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(context: Any, operator: Any, x: Any, weight: Any, bias: Optional[Any], targets: Any, slopes: Optional[Any],
                smoothing: float, chunk: int) -> Any:
        context.wanted = context.needs_input_grad[1:4]
        is_known = slopes is not None and x.dtype != torch.float16
        losses, *gradients = operator(x, weight, bias, targets, slopes, smoothing, chunk,
                                      *(context.wanted if is_known else (False,) * 3))
        context.gradients = gradients if is_known else None
        context.operator, context.form = operator, (smoothing, chunk)
        context.save_for_backward(x, weight, bias, targets, slopes)
        return losses

    @staticmethod
    def backward(context: Any, slope: Any) -> Any:
        x, weight, bias, targets, slopes = context.saved_tensors
        found, context.gradients = context.gradients, None  # a second backward pass runs the chunks again
        if torch.is_grad_enabled():  # create_graph=True
            found = _again(context, slope)
        elif found is None:
            slopes = slope if slopes is None else slopes * slope
            _, *found = context.operator(x, weight, bias, targets, slopes.contiguous(), *context.form, *context.wanted)
        else:
            for one in found:
                one.mul_(slope)
        found = [one if is_wanted else None for one, is_wanted in zip(found, context.wanted)]
        return None, *found, None, None, None, None


def _again(context: Any, slope: Any) -> list[Any]:
    """Gradients with a graph, by PyTorch's operations."""
    x, weight, bias, targets, slopes = context.saved_tensors
    with torch.enable_grad():
        losses = plain(x, weight, bias, targets, context.form[0])
        losses = losses if slopes is None else (losses * slopes).sum()
        by = [one for one, is_wanted in zip((x, weight, bias), context.wanted) if is_wanted]
        found = iter(torch.autograd.grad(losses, by, slope, create_graph=True))
    return [next(found) if is_wanted else None for is_wanted in context.wanted]


def define(losses_of: Losses) -> Callable[..., Any]:
    """Returns the operator, as a function of x, weight, bias, targets, slopes, smoothing and chunk.

    It gives the losses of rows, or the sum of their products with the slopes. chunk: rows; 0: as `chunk_of`
    """
    _torch_op._own_library(torch).define(
        f"{_NAME}(Tensor x, Tensor weight, Tensor? bias, Tensor targets, Tensor? slopes, float smoothing, int chunk, "
        "bool of_x, bool of_weight, bool of_bias) -> (Tensor, Tensor, Tensor, Tensor)")

    def under_autograd(keys: Any, *all_of: Any) -> Any:
        given = all_of[:7]
        if not torch.is_grad_enabled() or not any(one is not None and one.requires_grad for one in given[:3]):
            return operator.redispatch(keys & torch._C._after_autograd_keyset, *all_of)
        return _Function.apply(operator, *given), *[given[1].new_empty(0) for _ in range(3)]

    operator = _torch_op._implement(torch, _NAME, functools.partial(_run, losses_of), _describe, under_autograd)

    def call(*given: Any) -> Any:
        return operator(*given, False, False, False)[0]

    return call
