# SPDX-License-Identifier: Apache-2.0
"""How many blocks a kernel's configs have at a problem: as tuner/transfer/launch_sizes.cc.

tests/data/launch_size_cases.json holds cases that both must answer alike.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from ._expression import Expression, ExpressionError
from ._waves import SIZE_MAX

_ENDLESS = 1 << 20  # multiprocessors
_WARPS, _WARPS_BY_DEFAULT, _WARP = "num_warps", 4, 32

Config = Mapping[str, Any]
Parse = Callable[[str], Expression]


class _Step(NamedTuple):
    when: Optional[Expression]
    grid: Sequence[Expression]
    block: Sequence[Expression]  # empty: the compiler decides it
    shared_bytes: Optional[Expression]

    def size(self, scope: Mapping[str, Any], config: Config) -> tuple[int, int, int]:
        blocks = _product(self.grid, scope)
        threads = _product(self.block, scope) if self.block else _threads_of_warps(config)
        return blocks, threads, _product([self.shared_bytes], scope) if self.shared_bytes else 0

    @property
    def names(self) -> set[str]:
        optional = [one for one in (self.when, self.shared_bytes) if one is not None]
        return {name for one in (*self.grid, *self.block, *optional) for name in one.names}


def _product(factors: Sequence[Expression], scope: Mapping[str, Any]) -> int:
    """ExpressionError where one is no number from 0 to SIZE_MAX, or all together are not."""
    product = 1
    for factor in factors:
        value = factor.evaluate(scope)
        if isinstance(value, (str, list)) or value != int(value) or not 0 <= value <= SIZE_MAX:
            raise ExpressionError(f"'{factor.text[:80]}' is no size")
        product *= int(value)
    if product > SIZE_MAX:
        raise ExpressionError("there is no launch of so many")
    return product


def _threads_of_warps(config: Config) -> int:
    warps = config.get(_WARPS)
    if type(warps) is int and 0 < warps <= _WARP:
        return warps * _WARP
    return _WARPS_BY_DEFAULT * _WARP


class LaunchSizes:
    """For one problem on one target. Configs that differ only in what launches do not depend on are worked out once."""

    def __init__(self, spec: Mapping[str, Any], scope: Mapping[str, Any], parse: Parse) -> None:
        """`scope` has the problem's dims, dtype and dtype_bytes, target and sm."""
        self._scope = {**scope, "sm_count": _ENDLESS}
        self._known: dict[tuple[Any, ...], int] = {}
        self._lets: list[tuple[str, Expression]] = []
        try:
            self._steps = [_Step(parse(step["when"]) if step["when"] else None, [*map(parse, step["grid"])],
                                 [*map(parse, step["block"])],
                                 parse(step["shared_bytes"]) if step["shared_bytes"] else None)
                           for step in spec["steps"]]
        except ExpressionError:
            self._steps = []
        if len(self._steps) == 1:  # there is nothing to choose among
            self._steps = [self._steps[0]._replace(block=[parse("1")], shared_bytes=None)]
        self._names = {name for step in self._steps for name in step.names}
        for name, text in reversed(spec["lets"]):  # one may use those before it
            if name in self._names:
                try:
                    value = parse(text)
                except ExpressionError:
                    continue
                self._names |= value.names
                self._lets.insert(0, (name, value))
        if not all(step.block for step in self._steps):
            self._names.add(_WARPS)

    def blocks(self, config: Config) -> int:
        """Of the launch that counts, on a device with multiprocessors without end; 0: not known."""
        used = [(name, value) for name, value in config.items() if name in self._names]
        key = tuple((type(value), value) for _, value in used)
        found = self._known.get(key)
        if found is None:
            try:
                found = self._evaluate(dict(used))
            except (ExpressionError, TypeError, ValueError, OverflowError):
                found = 0
            self._known[key] = found
        return found

    def _evaluate(self, config: Config) -> int:
        scope = {**self._scope, **config}
        for name, value in self._lets:
            try:
                scope[name] = value.evaluate(scope)
            except ExpressionError:
                pass  # an error only where it is used
        most, rank = 0, (0, 0.0)
        for step in self._steps:
            if step.when is not None and not step.when.evaluate(scope):
                continue
            blocks, threads, shared_bytes = step.size(scope, config)
            # The most shared memory, of equal ones the most threads in all.
            mine = (shared_bytes, float(blocks) * float(threads))
            if most == 0 or mine > rank:
                most, rank = blocks, mine
        return most
