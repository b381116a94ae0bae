# SPDX-License-Identifier: Apache-2.0
"""Which arrays a call of tunectl.kernel gives, by position or by name, and which its mode does not read.

A spec says of a buffer where it is read (`used_if`), and of a dim that a call may leave it out (`optional`). A launch has
all args, so an array that is left out is one of a single element there, a blank.
"""
from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from . import _arrays
from ._dtypes import dtype_name
from ._kernel import HOST, ExpressionError, Kernel, Problem
from ._scalars import names_of
from ._workload import Signature, signature_of, usage


class Named(NamedTuple):
    """What a call gives by name."""

    arrays: Mapping[str, Any]
    scalars: Mapping[str, Any]
    dims: Mapping[str, Any]


class Inputs:
    """The inputs of a kernel that a snapshot describes."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._signature: Signature = signature_of(kernel)
        self.names = [arg["name"] for arg in self._signature.inputs]
        self.outputs = [arg["name"] for arg in self._signature.outputs]
        self.scalars = frozenset(names_of(kernel) or ()) - frozenset(kernel.dims)
        self._conditional = [(i, arg) for i, arg in enumerate(self._signature.inputs) if arg.get("used_if")]
        self._of_problem = [i for i, arg in enumerate(self._signature.inputs) if arg["dtype"] == "dtype"]
        self._unused: dict[Any, frozenset[int]] = {}
        self._blanks: dict[Any, Any] = {}
        # By the form of a call: for each input of a launch its place among those that are given, or the blank.
        self._fills: dict[Any, tuple[Any, ...]] = {}

    def sort(self, named: Mapping[str, Any]) -> Named:
        """TypeError: the kernel has nothing of a name."""
        kinds: tuple[dict[str, Any], ...] = ({}, {}, {})
        for name, value in named.items():
            is_array = len(getattr(value, "shape", ())) > 0  # a number of NumPy's has a shape without axes
            if is_array and name not in self.names:
                raise TypeError(f"{self._kernel.name} has no input '{name}'; its inputs are {', '.join(self.names)}")
            if is_array or name in self.names and (value is None or name not in self._kernel.dims):
                kinds[0][name] = value
                if name in self._kernel.optional and value is not None:
                    kinds[2][name] = 1  # a mode that is called as what it reads
            elif name in self.scalars:
                kinds[1][name] = value
            else:
                kinds[2][name] = value
        return Named(*kinds)

    def dtype_of(self, inputs: Sequence[Any]) -> str:
        """The problem's; "" if no input tells it."""
        one = next((inputs[at] for at in self._of_problem if at < len(inputs) and inputs[at] is not None), None)
        if one is None:
            return ""
        return dtype_name(one.dtype) if hasattr(one, "dtype") else _arrays.describe(one).dtype

    def unused(self, modes: Mapping[str, int], dtype: str) -> frozenset[int]:
        """Which inputs the kernel does not read. One whose condition depends on more than these is read.

        modes  the dims that a call and its kernel name
        """
        if not self._conditional:
            return frozenset()
        key = (dtype, *modes.items())
        if key not in self._unused:
            problem = Problem({**self._kernel.optional, **modes}, dtype)
            self._unused[key] = frozenset(i for i, arg in self._conditional if not self._is_used(arg, problem))
        return self._unused[key]

    def _is_used(self, arg: Mapping[str, Any], problem: Problem) -> bool:
        try:
            return self._kernel.uses(arg, problem, HOST)
        except (ExpressionError, TypeError):
            return True

    def whole(self, inputs: Sequence[Any], arrays: Mapping[str, Any], modes: Mapping[str, int],
              blank: Callable[[int, str], Any], dtype: Optional[str] = None) -> tuple[Any, ...]:
        """All inputs of a launch. Those by position are the first ones, or just those that the mode reads. TypeError:
        one is given twice. ValueError: one that is read is left out.

        blank  makes that of a place, of a problem's dtype
        dtype  the problem's; by default that of the inputs
        """
        if len(inputs) > len(self.names):
            return tuple(inputs)  # refused where the plan is made
        made = [*inputs, *[None] * (len(self.names) - len(inputs))]
        if dtype is None:
            dtype = self.dtype_of([arrays.get(name, one) for name, one in zip(self.names, made)])
        unused = self.unused(modes, dtype)
        read = [i for i, name in enumerate(self.names) if i not in unused and name not in arrays]
        if len(read) == len(inputs) and not any(one is None for one in inputs):
            made = [None] * len(self.names)
            for i, one in zip(read, inputs):
                made[i] = one
        for name, one in arrays.items():
            at = self.names.index(name)
            if made[at] is not None:
                raise TypeError(f"{self._kernel.name}: {name} is given twice")
            made[at] = one
        missing = [i for i, one in enumerate(made) if one is None]
        needed = [self.names[i] for i in missing if i not in unused]
        if needed:
            count = len(self.names) - len(unused)
            raise ValueError(f"{usage(self._kernel.name, self._signature)} takes {count} array{'s' * (count != 1)}, and the call "
                             f"leaves out {', '.join(needed)}")
        for i in missing:
            made[i] = blank(i, dtype)
        return tuple(made)

    def blank(self, at: int, like: Any, dtype: str) -> Any:
        """An array of one element, of the framework and on the device of another."""
        torch: Any = sys.modules.get("torch")
        is_tensor = torch is not None and isinstance(like, torch.Tensor)
        key = (at, dtype, like.device if is_tensor else None)
        found = self._blanks.get(key) if is_tensor and type(like) is torch.Tensor else None
        if found is not None:
            return found
        own, ones = self.blank_dtype(at, dtype), (1,) * len(self._signature.inputs[at]["shape"])
        if not is_tensor:
            return _arrays.empty(like, ones, own)
        if type(like) is not torch.Tensor:  # a tracer's, which wants its own
            return like.new_empty(ones, dtype=getattr(torch, _arrays.dtype_in_full(own)))
        with torch.inference_mode(False):
            found = torch.empty(ones, dtype=getattr(torch, _arrays.dtype_in_full(own)), device=like.device)
        if type(found) is torch.Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(found):
            self._blanks[key] = found  # one of a mode, such as FakeTensorMode's, is that mode's alone
        return found

    def keep_fill(self, given: Sequence[Any], whole: Sequence[Any]) -> None:
        """Spares further calls like this one the search for what they leave out."""
        if any(one is None for one in given) or len(set(map(id, given))) != len(given) or len(given) == len(whole):
            return
        places = [next((i for i, one in enumerate(given) if one is entry), None) for entry in whole]
        kept = set(map(id, self._blanks.values()))
        if all(place is not None or id(entry) in kept for place, entry in zip(places, whole)):
            self._fills[_form_of(given)] = tuple(entry if place is None else place for place, entry in zip(places, whole))

    def filled(self, given: Sequence[Any]) -> Optional[list[Any]]:
        """All inputs of a call like one of `keep_fill`; None: there was none."""
        fill = self._fills.get(_form_of(given)) if self._fills and given else None
        return None if fill is None else [given[one] if type(one) is int else one for one in fill]

    def blank_dtype(self, at: int, dtype: str) -> str:
        return self._kernel.dtype(self._signature.inputs[at], Problem({}, dtype), HOST)

    def rank(self, at: int) -> int:
        return len(self._signature.inputs[at]["shape"])

    def check_told(self, inputs: Sequence[Any], modes: Mapping[str, int]) -> None:
        """ValueError: an array is given that is not read, since nothing says the mode that reads it."""
        for i in self.unused(modes, self.dtype_of(inputs)):
            words = re.findall(r"\w+", self._signature.inputs[i]["used_if"])
            silent = [word for word in words if word in self._kernel.optional and word not in modes]
            if silent and i < len(inputs) and _arrays.count_of(inputs[i]) > 1:
                raise ValueError(f"{self._kernel.name}: {self.names[i]} is given, and is read only if "
                                 f"{self._signature.inputs[i]['used_if']}: name {silent[0]}= in the call, or in tunectl.kernel")

    def fallback(self, fallback: Callable[..., Any], unused: Collection[int],
                 returns: Optional[Sequence[int]]) -> Callable[..., Any]:
        """The fallback as a function of all inputs of a launch that gives all outputs, with None for those that the
        caller does not name. It gets None for an input that is not read; those at the end that it has no parameters for
        are left out."""
        if not unused and returns is None:
            return fallback
        count = len(self.names)
        read = [i not in unused for i in range(count)]
        taken = max([i + 1 for i in range(count) if read[i]] + [min(count, _positions(fallback, names_of(self._kernel) or ()))])

        def adapted(*inputs: Any, **scalars: Any) -> Any:
            given = [one if read[i] else None for i, one in enumerate(inputs[:taken])]
            results = fallback(*given, **scalars)
            return results if returns is None else self.whole_results(results, returns)

        return adapted

    def whole_results(self, results: Any, returns: Sequence[int]) -> Any:
        """What a fallback gives, which are these outputs, as all outputs."""
        made = results if isinstance(results, (tuple, list)) else (results,)
        check_returned(self._kernel.name, len(made), len(returns))
        whole: list[Any] = [None] * len(self.outputs)
        for at, one in zip(returns, made):
            whole[at] = one
        return whole[0] if len(whole) == 1 else tuple(whole)


def check_returned(name: str, count: int, wanted: int) -> None:
    """ValueError: the fallback gives more or fewer results than `returns` names."""
    if count != wanted:
        raise ValueError(f"{name}: the fallback gives {count} results, and returns= names {wanted}: it is to return these alone")


def _form_of(given: Sequence[Any]) -> Any:
    first = given[0]
    return len(given), type(first), getattr(first, "device", None), getattr(first, "dtype", None)


def _positions(function: Callable[..., Any], scalars: Collection[str]) -> int:
    """How many inputs it takes by position. Scalars come by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a function in C
        return 0
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return sys.maxsize
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) and one.name not in scalars for one in parameters)
