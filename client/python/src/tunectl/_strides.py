# SPDX-License-Identifier: Apache-2.0
"""Arrays that are not contiguous: which strides a kernel takes, and what a launch works out of them.

The spec says which buffers are strided. A binary was compiled and measured for contiguous ones; of the values that it
gets at a launch, integer scalars and tensor maps may depend on strides, by expressions of the spec that the snapshot
has. `Strided` evaluates them for the arrays of a call. That is done once for arrays of the same strides: the result
is a launch of its own (_launch.py). All strides are in elements.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from ._arrays import Array
from ._dtypes import DTYPE_BYTES
from ._kernel import ExpressionError, Kernel, Problem

Strides = tuple[int, ...]


class Unfit(Exception):
    """Why a kernel does not take arrays of these strides: "x has a negative stride"."""


class Placed(NamedTuple):
    """What a launch of arrays of some strides has of its own.

    strides      of each array
    integers     values of integer scalars, by name
    tensor_maps  by name, dims and strides in bytes; None in the place of one that stays as it was compiled
    """

    strides: tuple[Strides, ...]
    integers: Mapping[str, int]
    tensor_maps: Mapping[str, tuple[Sequence[Optional[int]], Sequence[Optional[int]]]]


def contiguous(shape: Sequence[Any]) -> tuple[Any, ...]:
    strides, stride = [], 1
    for extent in reversed(shape):
        strides.append(stride)
        stride *= extent
    return tuple(reversed(strides))


def in_order_of(shape: Sequence[Any], strides: Sequence[Any]) -> tuple[Any, ...]:
    """The strides of a dense array whose axes lie in the order of these. Sizes may be symbols of a compiler."""
    outer = [axis for axis, extent in enumerate(shape[:-1]) if extent != 1]
    if (strides[-1] != 1 and shape[-1] != 1) or any(strides[axis] <= 0 for axis in outer):
        return contiguous(shape)
    made, stride = [1] * len(shape), shape[-1]
    for axis in sorted(outer, key=lambda i: strides[i]):
        made[axis] = stride
        stride *= shape[axis]
    for axis in reversed(range(len(shape) - 1)):  # as frameworks have them for axes of one element
        if shape[axis] == 1:
            made[axis] = made[axis + 1] * shape[axis + 1]
    return tuple(made)


def are_same(shape: Sequence[Any], one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether arrays of these strides have their elements in the same places."""
    return all(extent == 1 or left == right for extent, left, right in zip(shape, one, other))


def folds(shape: Sequence[int], strides: Sequence[int], last: int) -> bool:
    """Whether the axes up to that one are as one axis."""
    axes = [(shape[axis], strides[axis]) for axis in range(last + 1) if shape[axis] != 1]
    return all(step == extent * stride for (_, step), (extent, stride) in zip(axes, axes[1:]))


def of_output(arg: Mapping[str, Any], shape: Sequence[Any], inputs: Sequence[Mapping[str, Any]],
              shapes: Sequence[Sequence[Any]], strides: Sequence[Optional[Sequence[Any]]]) -> Optional[tuple[Any, ...]]:
    """The strides of a new output; None: it is contiguous. It lies like the first strided input that has its shape.

    shapes, strides  of the inputs; strides are None for one that is contiguous
    """
    if arg.get("strided"):
        for given, extents, steps in zip(inputs, shapes, strides):
            if given.get("strided") and tuple(extents) == tuple(shape):
                return in_order_of(shape, steps) if steps is not None else None
    return None


def of_outputs(signature: Any, shapes: Sequence[Sequence[Any]], tensors: Sequence[Any]) -> list[Optional[tuple[Any, ...]]]:
    """The same of all outputs of a kernel's signature, for inputs that are torch's tensors, with memory or without."""
    if not any(arg.get("strided") for arg in signature.outputs):
        return [None] * len(shapes)
    strides = [None if one.is_contiguous() else one.stride() for one in tensors]
    extents = [one.shape for one in tensors]
    return [of_output(arg, shape, signature.inputs, extents, strides) for arg, shape in zip(signature.outputs, shapes)]


def extent_of(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The elements from the first to the last."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))


def runs_of(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
    """The elements that lie one behind the other, and the extents and strides of the axes that repeat them, the
    smallest stride first. Axes of one element, and those that repeat the same elements, are left out."""
    axes = sorted((stride, extent) for extent, stride in zip(shape, strides) if extent > 1 and stride)
    run = 1
    while axes and axes[0][0] == run:
        run *= axes.pop(0)[1]
    return run, [(extent, stride) for stride, extent in axes]


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may lie at one place."""
    if any(extent > 1 and stride <= 0 for extent, stride in zip(shape, strides)):
        return True
    run, axes = runs_of(shape, strides)
    for extent, stride in axes:
        if stride < run:
            return True
        run += (extent - 1) * stride
    return False


class Pattern(NamedTuple):
    """Where the bytes of an array lie: runs of `run` bytes, all at multiples of `step` from the first; 0: one run."""

    run: int
    step: int


def pattern_of(shape: Sequence[int], strides: Sequence[int], dtype: str) -> Pattern:
    run, axes = runs_of(shape, strides)
    return Pattern(run * DTYPE_BYTES[dtype], math.gcd(*[stride for _, stride in axes]) * DTYPE_BYTES[dtype])


def are_apart(one: Pattern, other: Pattern, distance: int) -> bool:
    """Whether two arrays whose extents meet have surely no byte in common, such as views of one projection.

    distance  in bytes, from the first byte of the one to that of the other
    """
    step = math.gcd(one.step, other.step)
    return step > 0 and one.run <= distance % step <= step - other.run


class Strided:
    """What a kernel, compiled for a problem, takes of strides.

    args    of the arrays of a call, inputs first
    shapes  that the kernel has of them
    """

    def __init__(self, kernel: Kernel, problem: Problem, target: str, args: Sequence[Mapping[str, Any]],
                 shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> None:
        self._kernel, self._problem, self._target = kernel, problem, target
        self._args, self._shapes, self._dtypes = args, shapes, dtypes
        self._inputs = [arg for arg in args if arg.get("role") != "output"]

    def place(self, seen: Sequence[Array], alignment: int) -> Placed:
        """Of the inputs, or of all arrays of a call. Unfit.

        alignment  in bytes, that the binary may rely on of the rows of contiguous arrays
        """
        strides = [self._fit(i, one, alignment) for i, one in enumerate(seen)]
        count = len(self._inputs)
        for arg, shape in zip(self._args[len(seen):], self._shapes[len(seen):]):
            found = of_output(arg, shape, self._inputs, self._shapes[:count],
                              [steps if not one.is_contiguous else None for steps, one in zip(strides, seen)])
            strides.append(found if found is not None else contiguous(shape))
        names = {f"{arg['name']}_stride_{axis}": stride for arg, steps in zip(self._args, strides)
                 if arg.get("strided") for axis, stride in enumerate(steps[:-1])}
        problem = self._problem._replace(dims={**self._problem.dims, **names})
        try:
            return Placed(tuple(strides), *self._values(problem))
        except (ExpressionError, TypeError) as error:
            raise Unfit(f"what the spec makes of its strides cannot be worked out: {error}") from None

    def _values(self, problem: Problem) -> tuple[dict[str, int], dict[str, Any]]:
        integers, maps = {}, {}

        def number(text: Optional[str]) -> Optional[int]:
            return None if text is None else self._kernel.extent(text, problem, self._target)

        for arg in self._kernel.args:
            if arg["kind"] == "scalar" and "value" in arg:
                integers[arg["name"]] = self._kernel.extent(arg["value"], problem, self._target)
            elif arg["kind"] == "tensor_map" and "strides" in arg:
                maps[arg["name"]] = ([number(text) for text in arg["dims"]], [number(text) for text in arg["strides"]])
        return integers, maps

    def _fit(self, at: int, one: Array, alignment: int) -> Strides:
        arg, shape, own = self._args[at], self._shapes[at], contiguous(self._shapes[at])
        if one.is_contiguous:
            return own
        name, size = arg["name"], DTYPE_BYTES[self._dtypes[at]]
        if not arg.get("strided") or one.strides is None or one.shape != shape:
            raise Unfit(f"{name} {one.trouble}")
        # An axis of one element is never stepped along: what its stride is does not matter.
        strides = tuple(stride if extent > 1 else mine for extent, stride, mine in zip(shape, one.strides, own))
        if strides[-1] != 1:
            raise Unfit(f"{name} is not contiguous along its last axis")
        for axis, (stride, mine) in enumerate(zip(strides[:-1], own)):
            step = math.gcd(mine * size, alignment)
            if stride < 0:
                raise Unfit(f"{name} has a negative stride along axis {axis}")
            if stride * size % step:
                raise Unfit(f"{name} has a stride of {stride * size} bytes along axis {axis}, which is no multiple of {step}")
        if arg["role"] != "input" and overlaps_itself(shape, strides):
            raise Unfit(f"{name} has elements that overlap, and the kernel writes to it")
        return strides
