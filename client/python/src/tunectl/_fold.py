# SPDX-License-Identifier: Apache-2.0
"""Arrays of more axes than a kernel's args have: their leading axes are folded into the rows.

A kernel of args [rows, cols] takes x of [batch, seq, cols] as batch * seq rows, and gives its outputs with x's leading
axes. That is right only where the rows are one axis, the first, of all inputs and outputs that have it; everywhere
else the call is refused, with what to reshape. The axes are told apart by the spec's expressions: `Folding` works them
out once for a kernel and its modes, from the names alone, so that it holds for every size (and under a compiler, whose
sizes are symbols).
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from ._arrays import reshaped
from ._kernel import Kernel
from ._workload import Signature, place_of


class Folded(NamedTuple):
    lead: tuple[int, ...]  # the axes that are one in the kernel
    inputs: tuple[tuple[int, ...], ...]  # the shapes that the kernel takes
    outputs: tuple[bool, ...]  # of each output: is its first axis to be `lead` again?


class Folding:
    """How the args of a kernel fold, for modes and a dtype."""

    def __init__(self, kernel: Kernel, signature: Signature, modes: Mapping[str, int], dtype: str, target: str) -> None:
        self._name = kernel.name
        self._signature = signature
        self.ranks = tuple(len(arg["shape"]) for arg in signature.inputs)
        self.output_ranks = tuple(len(arg["shape"]) for arg in signature.outputs)
        # Which dim each axis is, as Kernel.dim_of has it.
        self._inputs, self._outputs = ([[kernel.dim_of(text, modes, dtype, target) for text in arg["shape"]] for arg in args]
                                       for args in signature)

    def is_needed(self, ranks: Sequence[int]) -> bool:
        """Whether one of the inputs, by their numbers of axes, has more than a matrix of the kernel."""
        for rank, own in zip(ranks, self.ranks):
            if rank > own >= 2:
                return True
        return False

    def fold(self, shapes: Sequence[Any]) -> Folded:
        """ValueError: it is not plain what the leading axes are."""
        first = next(i for i, shape in enumerate(shapes) if len(shape) > self.ranks[i] >= 2)
        row = self._inputs[first][0]
        lead = tuple(shapes[first][:len(shapes[first]) - self.ranks[first] + 1])
        rows = math.prod(lead)
        made = []
        for i, (shape, axes) in enumerate(zip(shapes, self._inputs)):
            excess = len(shape) - self.ranks[i]
            if row is None or row in axes[1:] or (excess > 0) != (axes[:1] == [row]) and not _is_one(axes) or (
                    excess > 0 and tuple(shape[:excess + 1]) != lead):
                self._refuse(shapes, first)
            made.append((rows, *shape[excess + 1:]) if excess > 0 else tuple(shape))
        for axes in self._outputs:
            if axes[:1] != [row] and not _is_one(axes) or row in axes[1:]:
                self._refuse(shapes, first)
        return Folded(lead, tuple(made), tuple(axes[:1] == [row] for axes in self._outputs))

    def output_shape(self, shape: Sequence[int], at: int, folded: Folded) -> tuple[int, ...]:
        """What the kernel takes of an array that a caller gives for an output."""
        lead = len(folded.lead)
        if folded.outputs[at] and len(shape) == self.output_ranks[at] - 1 + lead and tuple(shape[:lead]) == folded.lead:
            return (math.prod(folded.lead), *shape[lead:])
        return tuple(shape)

    def _refuse(self, shapes: Sequence[Any], first: int) -> None:
        arg = self._signature.inputs[first]
        raise ValueError(f"{self._name}: {arg['name']} has the {len(shapes[first])} axes {list(shapes[first])}, where "
                         f"{place_of(arg)} was expected, and which of them are one is not plain: give "
                         f"{arg['name']}.reshape(...) with {self.ranks[first]} axes, and the others to match")


def _is_one(axes: Sequence[Optional[str]]) -> bool:
    """An arg that is not used in this mode."""
    return all(axis == "1" for axis in axes)


def unfold(results: Any, lead: Sequence[Any], outputs: Sequence[bool]) -> Any:
    """The results of a folded call, None, one, or a tuple, with the axes that the caller's arrays have."""
    if results is None:
        return None
    made = results if isinstance(results, (tuple, list)) else (results,)
    whole = [reshaped(one, (*lead, *one.shape[1:])) if is_folded and one is not None else one
             for one, is_folded in zip(made, outputs)]
    return tuple(whole) if isinstance(results, (tuple, list)) else whole[0]
