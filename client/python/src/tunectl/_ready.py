# SPDX-License-Identifier: Apache-2.0
"""Calls that nobody follows and that record no gradient, once more: straight from the caller's tensors to a launch.

A call may leave inputs out, give arrays of more axes, and return some of the outputs. The first call of a kind (how many
tensors, their shapes, dtypes and devices) works that out and launches all inputs of its kernel. `Ready` then keeps a
launch of the caller's tensors alone, of which blanks and the outputs' shapes are constants.
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import _followed, _unrolled
from ._plan import facts_of

if TYPE_CHECKING:
    from ._callable import TunedKernel

_LAUNCHES_MAX = 4096


class _Plan(NamedTuple):
    """As _unrolled.operator takes one."""

    launch: Callable[..., Any]


class Ready:
    """Calls of a kernel with so many tensors by position, and nothing else. `call` returns what the kernel's call does."""

    def __init__(self, kernel: TunedKernel, count: int) -> None:
        self._kernel = kernel
        self._launches: dict[Any, _Plan] = {}
        names = names_of(sys.modules["torch"], self._with_gradient)
        self.call = _unrolled.operator(self._launches, count, {}, self._call_whole, self._call_first, *names)

    def _call_whole(self, *given: Any) -> Any:
        return self._kernel.selected(self._kernel.all_outputs(given, (), None, {}))

    def _call_first(self, *given: Any) -> Any:
        """Keeps the launch, if there was one, for further calls."""
        results, key = self._call_whole(*given), (0, *map(facts_of, given))
        if key not in self._launches:
            launch = self._launch_of(given)
            if launch is not None:
                if len(self._launches) >= _LAUNCHES_MAX:
                    self._launches.clear()
                self._launches[key] = _Plan(launch)
        return results

    def _launch_of(self, given: Sequence[Any]) -> Optional[Callable[..., Any]]:
        whole = self._kernel.whole_of(given)
        plan = self._kernel.known_plan(whole) if whole is not None else None
        if plan is None or whole is None:
            return None
        blanks = {i: one for i, one in enumerate(whole) if not any([one is other for other in given])}
        places = [i for i in range(len(whole)) if i not in blanks]
        if len(places) != len(given) or not all([whole[i] is one for i, one in zip(places, given)]):
            return None
        return plan.short(blanks, self._kernel.returned)  # type: ignore[no-any-return]

    def _with_gradient(self, *given: Any) -> Any:
        whole = self._kernel.whole_of(given)
        if whole is None:
            return self._call_whole(*given)
        return self._kernel.selected(self._kernel.with_gradient(*whole))


def names_of(torch: Any, with_gradient: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """What a call that is written out asks, as _unrolled.operator takes it."""
    expression, names = _followed.condition(torch)
    if not names:
        return expression, names
    return expression, {**names, "plain": _followed.plain_types(torch), "grad": torch.is_grad_enabled,
                        "with_gradient": with_gradient}
