# SPDX-License-Identifier: Apache-2.0
"""A kernel as a snapshot describes it: the args of its launch. libtune evaluates their shapes and dtypes."""
from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from ._answer import Value
from ._dtypes import DTYPE_BYTES

HOST = "cpu"  # the target of the CPU device
_STEP = 1_000_003  # a dim is moved by this to see which axes move with it

# Of the dims, the dtype, the target and an expression. ValueError: it cannot be evaluated.
Evaluate = Callable[[Mapping[str, int], str, str, str], Value]


class ExpressionError(Exception):
    """An expression of a spec that cannot be evaluated."""


class Problem(NamedTuple):
    dims: Mapping[str, int]
    dtype: str


class Kernel:
    """Immutable."""

    def __init__(self, facts: Mapping[str, Any], evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self.name: str = facts["name"]
        self.hash: str = facts["hash"]
        self.dims: tuple[str, ...] = tuple(dim["name"] for dim in facts["dims"])
        self._modes = {dim["name"] for dim in facts["dims"] if dim.get("values")}
        # Dims that a call need not name, and what it means then.
        self.optional: dict[str, int] = {dim["name"]: dim["default"] for dim in facts["dims"] if dim.get("optional")}
        # What a launch takes; empty in snapshots that older daemons wrote.
        self.args: list[Mapping[str, Any]] = [arg for arg in facts.get("args", []) if isinstance(arg, dict)]

    def _value(self, problem: Problem, target: str, text: str) -> Value:
        try:
            return self._evaluate(problem.dims, problem.dtype, target, text)
        except ValueError as error:
            raise ExpressionError(str(error)) from None

    def extent(self, text: str, problem: Problem, target: str) -> int:
        """Of an axis. ExpressionError; TypeError: it is no whole number."""
        return operator.index(self._value(problem, target, text))  # type: ignore[arg-type]

    def dim_of(self, text: str, told: Mapping[str, int], dtype: str, target: str) -> Optional[str]:
        """Which dim an axis of that extent is: its name; "1": it has one element; None: that is not told.

        told  dims, modes among them; "k if transpose_a == 1 else m" needs transpose_a
        """
        if text in self.dims:
            return text
        if any(word in self._modes and word not in told for word in re.findall(r"\w+", text)):
            return None
        dims = {name: told.get(name, 7919 + 104729 * i) for i, name in enumerate(self.dims)}
        value = self._extent_or_none(text, dims, dtype, target)
        moves = [name for name, size in dims.items() if size == value
                 and self._extent_or_none(text, {**dims, name: size + _STEP}, dtype, target) == size + _STEP]
        return moves[0] if len(moves) == 1 else "1" if value == 1 else None

    def _extent_or_none(self, text: str, dims: Mapping[str, int], dtype: str, target: str) -> Optional[int]:
        try:
            return self.extent(text, Problem(dims, dtype), target)
        except (ExpressionError, TypeError):
            return None

    def shape(self, arg: Mapping[str, Any], problem: Problem, target: str) -> tuple[int, ...]:
        """Of a buffer or symbol. ExpressionError."""
        return tuple(self.extent(text, problem, target) for text in arg["shape"])

    def uses(self, arg: Mapping[str, Any], problem: Problem, target: str) -> bool:
        """Whether a launch reads or writes a buffer. ExpressionError."""
        text = arg.get("used_if")
        return not text or bool(self._value(problem, target, text))

    def dtype(self, arg: Mapping[str, Any], problem: Problem, target: str) -> str:
        """Of a buffer or symbol. ExpressionError."""
        text = str(arg["dtype"])
        return text if text in DTYPE_BYTES else str(self._value(problem, target, text))


def whole_number(dim: str, value: Any) -> int:
    """TypeError names the dim."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"dim '{dim}' is a whole number, not {value!r}") from None
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"dim '{dim}' is a whole number of 64 bits, not {number}")
    return number
