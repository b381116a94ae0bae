# SPDX-License-Identifier: Apache-2.0
"""A kernel as a snapshot describes it: the args of its launch. libtune evaluates their shapes and dtypes."""
from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ._answer import Value
from ._dtypes import DTYPE_BYTES

HOST = "cpu"  # the target of the CPU device

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

    def shape(self, arg: Mapping[str, Any], problem: Problem, target: str) -> tuple[int, ...]:
        """Of a buffer or symbol. ExpressionError."""
        return tuple(self.extent(text, problem, target) for text in arg["shape"])

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
