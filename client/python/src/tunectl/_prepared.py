# SPDX-License-Identifier: Apache-2.0
"""Calls that record gradients, once more: what the first call of a kind found out, so that further ones only launch.

A kind is the shapes, dtypes, devices, strides and needs of the inputs (`key_of`). The first call plans its launch, and
the first backward pass its own; both are kept in a `Prepared`, which the autograd.Function of `_torch_op` gets.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._launch import Launch
    from ._plan import FoldedLaunch


def key_of(is_deterministic: bool, inputs: Sequence[Any]) -> Any:
    """The kind of a call. is_deterministic: torch wants the same bits each time"""
    facts = (is_deterministic, *[(one.shape, one.dtype, one.device, one.requires_grad) for one in inputs])
    if all([one.is_contiguous() and not one.is_neg() for one in inputs]):
        return facts
    return (*facts, *[(one.stride(), one.is_neg()) for one in inputs])


class Prepared:
    """The launches of one kind of call.

    function  the autograd.Function
    launch    of the inputs; False: they do not lie as the kernel needs them
    backward  of saved tensors and gradients: the results of its backward pass, or None if these do not lie so; None: no
              backward pass has been prepared yet
    """

    def __init__(self, function: Any, plan: Launch, folded: Optional[FoldedLaunch] = None,
                 launch: Optional[Callable[..., Any]] = None) -> None:
        """
        folded  of arrays with more axes, of which the plan's launch takes views
        launch  of these arrays; None: the plan's
        """
        self.function, self.launch = function, launch or plan.launch
        self.backward: Optional[Callable[..., Any]] = None
        self._plan, self._folded = plan, folded
        self.is_folded = folded is not None

    def folded(self, folded: FoldedLaunch, launch: Callable[..., Any]) -> Prepared:
        """The same of arrays with more axes."""
        return Prepared(self.function, self._plan, folded, launch)

    def views(self, given: Sequence[Any], made: Sequence[Any], gradients: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Inputs, outputs and their gradients with the axes of the launch."""
        if self._folded is None:
            return given, made, gradients
        shapes = [shape for shape, _ in self._plan.outputs]
        return viewed(given, self._folded.shapes), viewed(made, shapes), viewed(gradients, shapes)


def launch_of_views(plan: Launch, shapes: Sequence[Any], results: Sequence[Any]) -> Callable[..., Any]:
    """A launch of arrays whose views have these shapes, and whose results get others."""
    def launch_views(*arrays: Any) -> Any:  # one is not contiguous
        found = plan.launch(*viewed(arrays, shapes))
        if found is False:
            return False
        return tuple(viewed(found if isinstance(found, tuple) else (found,), results))

    return plan.short({}, None, results, launch_views)


def viewed(arrays: Sequence[Any], shapes: Sequence[Any]) -> list[Any]:
    return [one if one is None or shape is None or one.shape == shape else one.reshape(shape)
            for one, shape in zip(arrays, shapes)]


def stand_in(facts: Any, gradient: Optional[Any], gradients: Sequence[Any]) -> Any:
    """In the place of an input whose elements no gradient depends on, which is not saved: any array of its shape and
    dtype, best one that is there, such as the gradient of the output that is shaped alike."""
    shape, dtype = facts
    if gradient is not None and gradient.shape == shape and gradient.dtype == dtype:
        return gradient.detach()
    return next(one for one in gradients if one is not None).new_zeros((), dtype=dtype).expand(shape)
