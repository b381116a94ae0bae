# SPDX-License-Identifier: Apache-2.0
"""tunectl.kernel: a tuned binary as a function of arrays.

The first call with a shape looks the workload up, finds its artifact and prepares its launch: a plan. Further calls
with that shape take the plan out of a table. If there is none to launch, the plan is to run the fallback.

A call takes one of four ways. `__call__` of plain tensors that nobody follows runs a function that is written out for
their number (`_ready.py`), which launches the plan. Everything else comes to `_call`: what is followed by a
tracer, a mode or a transform goes on in `_follow`, all other calls in `_direct`. In a function that torch.compile
compiles, a call is what `_torch_op.in_graph` makes of it.
"""
from __future__ import annotations

import functools
import itertools
import math
import operator
import os
import re
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _arrays, _followed, _prepared, _ready, _scalars, _unrolled, _workload
from ._kernel import Kernel
from ._launch import Launch, as_result, check_written
from ._plan import DETERMINISTIC, FoldedLaunch, Planner, facts_of

if TYPE_CHECKING:
    from ._definition import Kernel as Definition

_FUNCTIONS_MAX = 4096

_NO_SCALARS: Mapping[str, float] = types.MappingProxyType({})
Gradient = Callable[..., Sequence[Any]]


def _is_compiling() -> bool:
    """Whether torch.compile follows a call; torch's own function once torch is there."""
    return False


_tensor: Any = ()  # torch's class of tensors once torch is there


def _notice_torch() -> None:
    global _is_compiling, _tensor
    torch: Any = sys.modules.get("torch")
    _tensor = getattr(torch, "Tensor", _tensor)
    compiler: Any = getattr(torch, "compiler", None)  # none while torch is being imported, or an old one
    _is_compiling = getattr(compiler, "is_dynamo_compiling", _is_compiling)


class TunedKernel(Planner):
    """See tunectl.kernel. Thread-safe."""

    def __init__(self, name: str, fallback: Optional[Callable[..., Any]],
                 gradient: Optional[Gradient], dims: Mapping[str, int],
                 scalars: Optional[Mapping[str, float]] = None,
                 returns: Union[str, Sequence[str], None] = None, definition: Optional[Definition] = None) -> None:
        if not isinstance(scalars, (Mapping, type(None))):
            raise TypeError(f"scalars= is a mapping, such as {{'rate': 1e-3}}, not {scalars!r}")
        super().__init__(name, fallback, gradient, dims, scalars or {}, definition)
        self.returns = (returns,) if isinstance(returns, str) else None if returns is None else tuple(returns)
        self.returned: Optional[tuple[int, ...]] = None  # which outputs these are, once a snapshot tells
        self._fallbacks: dict[Any, Callable[..., Any]] = {}
        self.ready: dict[int, Callable[..., Any]] = {}  # by the number of inputs that a caller gives
        self._quick: dict[tuple[int, int], Callable[..., Any]] = {}  # by the numbers of inputs and outputs of a launch
        self._functions: dict[Any, Any] = {}  # autograd's, of inputs that need gradients
        self._autocast: dict[Any, str] = {}
        self._ops: dict[Any, Any] = {}
        self._forms = types.SimpleNamespace()  # what a compiler has in its graph for a call
        self._args: Optional[tuple[list[str], list[int]]] = None  # their names, and which inputs it changes
        self._place = str(next(_numbers))  # a text: a compiler may take a number for one that varies
        _kernels[self._place] = self
        _notice_torch()

    def __reduce__(self) -> tuple[Any, ...]:
        """As it was made: a copy, in a module that is copied or saved, looks up and loads by itself."""
        return TunedKernel, (self.name, self.fallback, self.gradient, self.dims, self.scalars, self.returns, self.definition)

    def __repr__(self) -> str:
        dims = "".join(f", {name}={value}" for name, value in self.dims.items())
        return f"<tunectl.kernel {self.name}{dims}; {len(self._notes)} notes>"

    @property
    def notes(self) -> tuple[str, ...]:
        """Why calls ran the fallback, a sentence each; empty: all launched what was tuned."""
        return tuple(self._notes)

    def __call__(self, *inputs: Any, out: Any = None, scalars: Optional[Mapping[str, float]] = None,
                 **named: Any) -> Any:
        """Launches on the inputs and returns the outputs: None, one, or a tuple; or those that `returns` names.

        inputs   in the spec's order: all, with None for one that the mode does not read, or just those that it reads
        out      arrays to write to, one or a sequence; by default new ones
        scalars  of this call, beside those of tunectl.kernel
        named    inputs, scalars, and dims that neither shapes nor tunectl.kernel tell, by their names. A dim that the
                 spec calls optional is its default where nobody names it

        Arrays with more axes than a kernel's [rows, cols] have their leading axes folded into the rows, and the
        outputs get them back. ValueError: shapes that contradict each other, a dim that nothing tells or that the
        kernel does not have, outputs that overlap inputs, an array that the kernel writes to and that is read-only,
        or a scalar that is none of the kernel's or that the call must give. On a GPU it returns at once, as
        frameworks do: the launch is on the current stream of the arrays' framework.
        """
        if _is_compiling():
            results = self._in_graph(inputs, out, scalars, named)
            return results if out is not None else self.selected(results)
        if out is None and scalars is None and not named:
            ready = self.ready.get(len(inputs))
            if ready is not None:
                return ready(*inputs)
        outputs = () if out is None else _outputs_of(out)
        results = self.all_outputs(inputs, outputs, scalars, named)
        return results if outputs else self.selected(results)

    def all_outputs(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Optional[Mapping[str, float]],
                    named: Mapping[str, Any]) -> Any:
        """What a call gives, without regard to `returns`."""
        if scalars is None and not named:
            quick = self._quick.get((len(inputs), len(outputs)))
            if quick is not None:
                return quick(*inputs, *outputs)
            whole = self.whole_of(inputs)
            quick = self._quick.get((len(whole), len(outputs))) if whole is not None else None
            if quick is not None:
                return quick(*whole, *outputs)  # type: ignore[misc]  # there is one where there is a function for it
        dims = named
        if named and not self._are_dims(named):
            if _followed.has_proxy(sys.modules.get("torch"), (*inputs, *named.values())):
                return self._record(inputs, outputs, {**(scalars or {}), **named})
            kernel = self._kernel()
            if kernel is None or not kernel.args:
                return self._call_unknown(inputs, outputs, scalars, named)
            arrays, more, dims = self._inputs(kernel).sort(named)
            twice = [name for name in more if scalars and name in scalars]
            if twice:
                raise TypeError(f"{self.name}: {', '.join(twice)} is given twice, by name and in scalars=")
            scalars = {**(scalars or {}), **more}
            if arrays:
                inputs = self._whole(kernel, inputs, arrays, dims)
        return self._call(inputs, outputs, {**self.scalars, **(scalars or {})}, dims)

    def _are_dims(self, named: Mapping[str, Any]) -> bool:
        """Whether all that a call names are dims: integers, which none of the kernel's scalars is."""
        if not all([type(value) is int for value in named.values()]):
            return False
        kernel = self._kernel()
        known = self._inputs(kernel).scalars if kernel is not None and kernel.args else _scalars.measured(self.name)
        return known.isdisjoint(named)

    def selected(self, results: Any) -> Any:
        """Of all outputs those that the caller names."""
        if self.returned is None:
            return results
        made = results if isinstance(results, tuple) else (results,)
        return made[self.returned[0]] if len(self.returned) == 1 else tuple([made[i] for i in self.returned])

    def whole_of(self, given: Sequence[Any]) -> Optional[Sequence[Any]]:
        """All inputs of the launch of a call like an earlier one; None: there was none."""
        if self._taken is None or len(given) == len(self._taken.names):
            return given
        return self._taken.filled(given)

    def _call_unknown(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Optional[Mapping[str, float]],
                      named: Mapping[str, Any]) -> Any:
        """A call with names where no snapshot has the kernel: its fallback's, which gets inputs and scalars by name."""
        arrays = {name: one for name, one in named.items() if hasattr(one, "shape")}
        floats = _scalars.measured(self.name)
        numbers = {name: one for name, one in named.items() if isinstance(one, float) or name in floats}
        self._note(self._why_unknown())
        if self.fallback is None:
            raise LookupError(f"{self.name} has nothing to launch and no fallback=: {self._why_unknown()}")
        return _given(self.name, self.fallback(*inputs, **arrays, **self.scalars, **(scalars or {}), **numbers), outputs)

    def _whole(self, kernel: Kernel, inputs: tuple[Any, ...], arrays: Mapping[str, Any],
               dims: Mapping[str, int]) -> tuple[Any, ...]:
        """All inputs of a launch, with blanks for those that are left out."""
        taken = self._inputs(kernel)
        like = next((one for one in (*inputs, *arrays.values()) if one is not None), None)
        return taken.whole(inputs, arrays, {**self.dims, **dims}, lambda at, dtype: taken.blank(at, like, dtype))

    def _fallback_of(self, dims: Mapping[str, int], dtype: str) -> Optional[Callable[..., Any]]:
        """The fallback as a function of all inputs of a launch, giving all outputs."""
        kernel = self._kernel()
        if self.fallback is None or kernel is None or not kernel.args:
            return self.fallback
        key = (dtype, *dims.items())
        if key not in self._fallbacks:
            taken = self._inputs(kernel)
            self._fallbacks[key] = taken.fallback(self.fallback, taken.unused({**self.dims, **dims}, dtype), self.returned)
        return self._fallbacks[key]

    def _dtype_of(self, inputs: Sequence[Any]) -> str:
        kernel = self._kernel()
        return self._inputs(kernel).dtype_of(inputs) if kernel is not None and kernel.args else ""

    def _run_fallback(self, inputs: Sequence[Any], scalars: Mapping[str, float], dims: Mapping[str, int]) -> Any:
        """Its results as a launch's: all outputs, None for one that it does not give. It is not None."""
        fallback = self._fallback_of(dims, self._dtype_of(inputs))
        assert fallback is not None
        return fallback(*inputs, **scalars)

    def _in_graph(self, inputs: tuple[Any, ...], out: Any, scalars: Optional[Mapping[str, float]],
                  named: Mapping[str, Any]) -> Any:
        """What torch.compile follows. It holds the form of a call as a constant of its graph."""
        given = {**self.scalars, **(scalars or {})}
        floats = _scalars.measured(self.name)
        dims, arrays = [], []
        for name, value in named.items():
            if isinstance(value, _tensor):
                arrays.append((name, value))
            elif isinstance(value, float) or name in floats:
                given[name] = value
            else:
                dims.append((name, operator.index(value)))
        every = [one for one in inputs if one is not None] + [one for _, one in arrays]
        form = _know_form(self._place, tuple(dims), tuple(given),
                          tuple([None if one is None else one.dtype for one in inputs]),
                          tuple([(name, one.dtype) for name, one in arrays]))
        results = getattr(self._forms, form)(*every, *given.values())
        return results if out is None else _given(self.name, results, _outputs_of(out))

    def _call(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Mapping[str, Any],
              dims: Mapping[str, int], is_operator: bool = False) -> Any:
        """Any call that torch.compile does not follow. is_operator: it is one of `op()`'s function."""
        if _followed.has_proxy(sys.modules.get("torch"), inputs):
            return self._record(inputs, outputs, {**scalars, **dims})
        kernel, given = self._kernel(), inputs
        if kernel is not None and kernel.args:
            self._find_returned(kernel)
            if len(inputs) < len(self._inputs(kernel).names) or any([one is None for one in inputs]):
                inputs = self._whole(kernel, inputs, {}, dims)
                is_plain = not dims and scalars == self.scalars and not is_operator
                quick = self._quick.get((len(inputs), len(outputs))) if is_plain else None
                if quick is not None:
                    self._inputs(kernel).keep_fill(given, inputs)
                    return quick(*inputs, *outputs)
        values = self._checked(scalars, dims)
        torch: Any = sys.modules.get("torch")
        tensor = getattr(torch, "Tensor", ())
        tensors = [one for one in inputs + outputs if isinstance(one, tensor)]
        if tensors:
            _notice_torch()
            self._write_out(torch, len(given), len(inputs), len(outputs))
            if (_is_followed(torch) or _followed.is_transformed(torch)
                    or not all(type(one) in _followed.plain_types(torch) for one in tensors)
                    or is_operator and any(one.is_meta for one in tensors)):
                return self._follow(torch, inputs, outputs, values, dims, is_operator, tensors)
        return self._direct(inputs, outputs, values, dims)

    def _record(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """A call that torch.fx.symbolic_trace records, as the fallback's operations. TypeError: there is none."""
        if self.fallback is None or outputs:
            raise TypeError(f"{self.name}: torch.fx.symbolic_trace has proxies in the place of tensors, and no kernel runs on "
                            "them: " + ("leave out=, which cannot be recorded, away" if outputs else "give tunectl.kernel a fallback=, "
                                        "whose operations are then recorded, or make the call a leaf (torch.fx.wrap)"))
        self._note("torch.fx.symbolic_trace records the call, so it records PyTorch's own operations")
        kernel, given = self._kernel(), {**self.scalars, **named}
        if kernel is None or not kernel.args:
            floats = _scalars.measured(self.name)
            return self.fallback(*inputs, **{name: one for name, one in given.items() if type(one) is not int or name in floats})
        self._find_returned(kernel)
        taken = self._inputs(kernel)
        arrays = {name: one for name, one in given.items() if name in taken.names and type(one) is not int}
        numbers = {name: one for name, one in given.items() if name not in arrays}
        modes = {**self.dims, **{name: one for name, one in numbers.items() if name not in taken.scalars},
                 **{name: 1 for name, one in arrays.items() if name in kernel.optional and one is not None}}
        whole = taken.whole(inputs, arrays, modes, lambda at, dtype: None, "")  # a proxy has no dtype
        return taken.fallback(self.fallback, taken.unused(modes, ""), self.returned)(
            *whole, **{name: one for name, one in numbers.items() if name in taken.scalars})

    def _find_returned(self, kernel: Kernel) -> None:
        """ValueError: `returns` names none of its outputs."""
        if self.returns is None or self.returned is not None:
            return
        names = self._inputs(kernel).outputs
        for name in self.returns:
            if name not in names:
                raise ValueError(f"{self.name} has no output '{name}'; its outputs are {', '.join(names) or 'none'}")
        self.returned = tuple([names.index(name) for name in self.returns])

    def _write_out(self, torch: Any, given: int, count: int, outputs: int) -> None:
        """Has further calls of so many tensors run a function of their own, where they all have one form."""
        if not given or self.can_be_deterministic():
            return
        if not outputs and given not in self.ready:
            self.ready[given] = _ready.Ready(self, given).call
        if (count, outputs) in self._quick:
            return

        def slowly(*arrays: Any) -> Any:
            return self._call(arrays[:count], arrays[count:], self.scalars, {})

        self._quick[count, outputs] = _unrolled.operator(
            self._plans, count + outputs, {}, slowly, slowly, *_ready.names_of(torch, slowly if outputs else self.with_gradient),
            outputs)

    def with_gradient(self, *inputs: Any) -> Any:
        """A call of plain tensors, one of which needs a gradient. Only a transform of torch.func may follow it."""
        prepared = self._functions.get(_prepared.key_of(_wants_determinism(), inputs))
        if prepared is None or _followed.is_transformed(sys.modules["torch"]):
            return self._call(inputs, (), self.scalars, {})
        return prepared.function.apply(prepared, *inputs, *self.scalars.values())

    def _checked(self, scalars: Mapping[str, Any], dims: Mapping[str, int]) -> Mapping[str, float]:
        if not scalars and not _scalars.needs_any(self.name):
            return _NO_SCALARS
        return _scalars.check(self.name, self._kernel(), scalars, {**self.dims, **dims})

    def _follow(self, torch: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Mapping[str, float],
                dims: Mapping[str, int], is_operator: bool, tensors: Sequence[Any]) -> Any:
        """A call that somebody follows: by the fallback, whose operations all of them know, else by its operator."""
        why = _followed.why_not_ours(torch, tensors, is_operator)
        if why and self.fallback is not None:
            return self._fall_back(why, inputs, outputs, scalars, dims, is_followed=True)
        why = "" if why else self._why_not_under_autocast(torch, inputs, scalars, dims)
        if why:
            return self._fall_back(why, inputs, outputs, scalars, dims, is_followed=True)
        if not _followed.sees_operators(torch) and all(
                type(one) in _followed.plain_types(torch) and not one.is_meta for one in tensors):
            return self._direct(inputs, outputs, scalars, dims)
        self._check_written(inputs, outputs)
        try:
            call = self._through(dims, tuple(scalars))
        except LookupError as error:
            if self.fallback is None:
                raise
            return self._fall_back(str(error), inputs, outputs, scalars, dims, is_followed=True)
        return _given(self.name, call(*inputs, *scalars.values()), outputs)

    def _direct(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Mapping[str, float],
                dims: Mapping[str, int]) -> Any:
        """A call that nobody follows."""
        if self.can_be_deterministic() and _wants_determinism():
            dims = {**dims, DETERMINISTIC: 1}
        plan, why = self.plan_of(inputs, outputs, dims), ""
        if isinstance(plan, FoldedLaunch):
            results = plan.call(inputs, outputs, scalars or None, dims)
            if results is not False:
                self._prepare_folded(plan, inputs, outputs, scalars, dims)
                return results
            why = self._why_not_folded(inputs + outputs)
        elif plan is not None:
            if self._wants_gradient(inputs):
                return self._differentiable(inputs, outputs, scalars, dims, plan)
            self._refuse_gradient(outputs)
            results = _launched(plan, inputs, outputs, _NO_SCALARS if scalars == self.scalars else scalars)
            if results is not False:
                return results
            why = plan.why_not(inputs + outputs)
        return self._fall_back(why, inputs, outputs, scalars, dims)

    def without_gradient(self, inputs: tuple[Any, ...], dims: Mapping[str, int],
                         scalars: Mapping[str, float] = _NO_SCALARS) -> Any:
        """The outputs, which nothing is recorded of: what an operator of torch.library runs."""
        if self.can_be_deterministic() and _wants_determinism():
            dims = {**dims, DETERMINISTIC: 1}
        plan, why = self.plan_of(inputs, (), dims), ""
        if plan is not None:
            results = _launched(plan, inputs, (), _NO_SCALARS if scalars == self.scalars else scalars)
            if results is not False:
                return results
            why = plan.why_not(inputs)
        with sys.modules["torch"].no_grad():
            return self._fall_back(why, inputs, (), scalars, dims)

    def _refuse_gradient(self, outputs: tuple[Any, ...]) -> None:
        if outputs and self._wants_gradient(outputs):
            raise ValueError(f"{self.name}: a tensor that needs a gradient cannot be out=: leave out= out, or call "
                             "under torch.no_grad()")

    @staticmethod
    def _wants_gradient(inputs: Sequence[Any]) -> bool:
        for one in inputs:
            if getattr(one, "requires_grad", False):
                return bool(sys.modules["torch"].is_grad_enabled()) if "torch" in sys.modules else False
        return False

    def _differentiable(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Mapping[str, float],
                        dims: Mapping[str, int], plan: Launch) -> Any:
        why = "inputs that need gradients, and out=" if outputs else plan.why_not(inputs)
        why = why or self._why_no_gradient(inputs, plan.outputs, dims, scalars)
        if why:
            return self._fall_back(why, inputs, outputs, scalars, dims)
        from . import _torch_op

        function, prepared = _torch_op.differentiable(self, len(inputs), dims, tuple(scalars)), None
        if scalars == self.scalars and not dims:
            prepared = _prepared.Prepared(function, plan)
            self._keep_prepared(inputs, prepared)
        return function.apply(prepared, *inputs, *scalars.values())

    def _keep_prepared(self, inputs: Sequence[Any], prepared: Any) -> None:
        if len(self._functions) >= _FUNCTIONS_MAX:
            self._functions.clear()
        self._functions[_prepared.key_of(_wants_determinism(), inputs)] = prepared

    def _prepare_folded(self, plan: FoldedLaunch, inputs: Sequence[Any], outputs: Sequence[Any],
                        scalars: Mapping[str, float], dims: Mapping[str, int]) -> None:
        """Has further calls like this one, which records a gradient, launch in one step."""
        if outputs or dims or scalars != self.scalars or not self._wants_gradient(inputs) or not all(
                [one.is_contiguous() for one in inputs]):
            return
        views = [one if shape is None else one.view(shape) for one, shape in zip(inputs, plan.shapes)]
        prepared, launch = self._functions.get(_prepared.key_of(_wants_determinism(), views)), plan.short({})
        if prepared is not None and launch is not None:
            self._keep_prepared(inputs, prepared.folded(plan, launch))

    def _why_no_gradient(self, inputs: Sequence[Any], outputs: Sequence[tuple[tuple[int, ...], str]],
                         dims: Mapping[str, int], scalars: Mapping[str, float]) -> str:
        """Why nothing tuned, nor gradient=, gives all gradients that are wanted; empty: something does.

        ValueError: gradient= does not take the scalars of the call.
        """
        if self.gradient is not None:
            if scalars and not _takes_scalars(self.gradient):
                raise ValueError(f"{self.name}: gradient= does not know the scalars of a call: give it a parameter "
                                 "scalars, leave scalars= out, or call under torch.no_grad()")
            return ""
        backward = self.backward()
        if backward is None:
            return f"inputs that need gradients, no gradient= was given, and the snapshot has no {self.name}_backward"
        return backward.why_not_tuned(inputs, outputs, dims, scalars)

    def op(self, *, scalars: Optional[Mapping[str, float]] = None, **dims: int) -> Callable[..., Any]:
        """The kernel as a function of torch tensors that makes its outputs and that whoever follows operators sees:
        as an operator of torch.library, with its gradient.

        scalars  beside those of tunectl.kernel

        RuntimeError: torch is not imported. LookupError: no snapshot describes the kernel.
        """
        torch: Any = sys.modules.get("torch")
        if torch is None:
            raise RuntimeError("import torch first: an operator is one of torch's")
        given = self._checked({**self.scalars, **(scalars or {})}, dims)
        self._through(dims, tuple(given))

        def followed(*inputs: Any) -> Any:
            if _is_compiling():
                return self._in_graph(inputs, None, given, dims)
            return self._call(inputs, (), given, dims, is_operator=True)

        from . import _torch_op

        count = len(_workload.signature_of(self._known()).inputs)
        names = _ready.names_of(torch, followed if dims else self.with_gradient)
        if given != self.scalars or self.can_be_deterministic():
            names = "True", {}
        whole = _torch_op.function(self, count, dims, followed, *names)

        def call(*inputs: Any) -> Any:
            results = whole(*inputs) if len(inputs) == count else followed(*inputs)
            return results if self.returned is None else self.selected(results)

        return call

    def _through(self, dims: Mapping[str, int], scalars: tuple[str, ...]) -> Callable[..., Any]:
        """A call by the operator of torch.library: of the inputs, and the values of these scalars. LookupError: none."""
        key = (*sorted(dims.items()), scalars)
        with self._lock:
            if key not in self._ops:
                from . import _torch_op

                self._ops[key] = _torch_op.make(self, dims, scalars)
            return self._ops[key]  # type: ignore[no-any-return]

    def _fall_back(self, why: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Mapping[str, float],
                   dims: Mapping[str, int], is_followed: bool = False) -> Any:
        """The fallback's results. LookupError: there is none.

        why          this call runs it; empty: it has no plan, which has a note
        is_followed  somebody follows the call, whose results are not checked
        """
        if why:
            self._note(why)
        self._check_written(inputs, outputs)
        if self.fallback is None:
            raise LookupError(f"{self.name} has nothing to launch and no fallback=: "
                              f"{why or self.why_no_plan(inputs, outputs, dims)}")
        results = self._run_fallback(inputs, scalars, dims)
        if outputs or is_followed:
            return _given(self.name, results, outputs)
        wanted = self.results_of(inputs, dims)
        return _check_results(self.name, results, wanted) if wanted else results

    def _check_written(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        """As a launch does, for a call that makes none. ValueError."""
        if self._args is None:
            kernel = self._kernel()
            args = _workload.signature_of(kernel) if kernel is not None else _workload.Signature((), ())
            self._args = ([arg["name"] for arg in args.inputs + args.outputs],
                          [i for i, arg in enumerate(args.inputs) if arg.get("role") == "inout"])
        names, changed = self._args
        if not outputs and not changed:
            return
        self._refuse_gradient(outputs)
        count = len(inputs)
        if len(names) != count + len(outputs):
            names = [*(names[:count] if len(names) > count else [f"input {i}" for i in range(count)]),
                     *[f"array {i} of out=" for i in range(len(outputs))]]
        seen = [_arrays.describe(one) for one in inputs + outputs]
        sizes = [_arrays.extent_of(one) for one in seen]
        written = [i for i in (*changed, *range(count, len(seen))) if i < len(seen)]
        check_written(names, seen, sizes, written, count)

    def _why_not_folded(self, arrays: Sequence[Any]) -> str:
        trouble = next((one.trouble for one in map(_arrays.describe, arrays) if one.trouble), "is not contiguous")
        return f"an array of more axes than the kernel's {trouble}"

    def _why_not_under_autocast(self, torch: Any, inputs: tuple[Any, ...], scalars: Mapping[str, float],
                                dims: Mapping[str, int]) -> str:
        """Autocast changes the dtypes of PyTorch's operations, and so what the fallback gives; empty: not here."""
        first = next((one for one in inputs if isinstance(one, torch.Tensor)), None)
        state = _followed.autocast_state(torch, first.device.type) if first is not None else None
        if state is None or self.fallback is None or not all(type(one) in _followed.plain_types(torch) for one in inputs):
            return ""
        plan = self.plan_of(inputs, (), dims)
        if not isinstance(plan, Launch):
            return ""  # there is another reason, or it is asked again of the folded arrays
        key = (state, *dims.items(), *scalars, *map(facts_of, inputs))
        if key not in self._autocast:
            wanted = [dtype for _, dtype in plan.outputs]
            fallback = functools.partial(self._run_fallback, dims=dims)
            self._autocast[key] = _followed.why_not_under_autocast(torch, fallback, inputs, scalars, wanted)
        return self._autocast[key]

_kernels: weakref.WeakValueDictionary[str, TunedKernel] = weakref.WeakValueDictionary()
_numbers = itertools.count()
_asked: Optional[Callable[[], bool]] = None


def _is_followed(torch: Any) -> bool:
    global _asked
    if _asked is None:
        _asked = _unrolled.condition(*_followed.condition(torch))
    return _asked()


def _after_fork() -> None:
    """A lock that another thread of the parent's held is nobody's."""
    for kernel in _kernels.values():
        kernel._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _know_form(place: str, dims: tuple[tuple[str, int], ...], scalars: tuple[str, ...], dtypes: tuple[Any, ...],
               named: tuple[tuple[str, Any], ...]) -> str:
    """Makes the form for a graph of the kernel in that place, and names it. A compiler runs this and does not follow
    it. Forms are attributes: of a dict a compiler would see what it held at the first call of a graph."""
    from . import _torch_op

    kernel = _kernels[place]
    torch: Any = sys.modules["torch"]
    transformed = _followed.is_transformed(torch) or torch.autograd.forward_ad._current_level >= 0
    form = re.sub(r"\W", "_", " ".join(["of", *[f"{name}={value}" for name, value in dims], *scalars, *map(str, dtypes), *map(str, named),
                                        "transformed" if transformed else ""]))
    if not hasattr(kernel._forms, form):
        setattr(kernel._forms, form, _torch_op.in_graph(kernel, dict(dims), scalars, dtypes, dict(named), transformed))
    return form


_know_form._dynamo_marked_constant = True  # type: ignore[attr-defined]  # by torch.compiler.assume_constant_result


def _outputs_of(out: Any) -> tuple[Any, ...]:
    return () if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)


def _launched(plan: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Mapping[str, float]) -> Any:
    if scalars:
        plan = plan.for_arrays(inputs + outputs)
        if plan is None:
            return False
        plan = plan.for_scalars()
        plan.program.set_scalars(scalars)
    return plan.into(*inputs, *outputs) if outputs else plan.launch(*inputs)


def _takes_scalars(gradient: Gradient) -> bool:
    import inspect

    try:
        return "scalars" in inspect.signature(gradient).parameters
    except (TypeError, ValueError):  # of a function in C
        return False


def _wants_determinism() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.are_deterministic_algorithms_enabled())


def _given(name: str, results: Any, outputs: tuple[Any, ...]) -> Any:
    """The results, in the outputs where there are any. ValueError: they do not fit."""
    if not outputs:
        return results
    made = results if isinstance(results, (tuple, list)) else (results,)
    if len(made) != len(outputs):
        raise ValueError(f"{name}: out= has {len(outputs)} arrays, and the fallback gives {len(made)}")
    for i, (source, target) in enumerate(zip(made, outputs)):
        if source is None:
            raise ValueError(f"{name}: the fallback gives None for array {i} of out=")
        given, wanted = getattr(source, "shape", None), getattr(target, "shape", None)
        if given is not None and wanted is not None and tuple(given) != tuple(wanted):
            if math.prod(given) != math.prod(wanted):
                raise ValueError(f"{name}: array {i} of out= has the axes {list(wanted)}, and the fallback gives "
                                 f"{list(given)}")
            source = _arrays.reshaped(source, wanted)
        _arrays.copy(source, target)
    return as_result(outputs)


def _check_results(name: str, results: Any, wanted: Sequence[tuple[tuple[int, ...], str]]) -> Any:
    """The fallback's results, as a launch returns its own. ValueError: they have another number, shape or dtype."""
    made = results if isinstance(results, (tuple, list)) else (results,)
    if len(made) != len(wanted):
        raise ValueError(f"{name} has {len(wanted)} outputs, and the fallback gives {len(made)}: return None for one that it "
                         "does not compute, or name those that it gives in returns=")
    torch: Any = sys.modules.get("torch")
    is_cast = torch is not None and torch._C._is_any_autocast_enabled()
    for i, (one, (shape, dtype)) in enumerate(zip(made, wanted)):
        try:
            given = _arrays.describe(one)
        except TypeError:  # None, or nothing that a kernel could give
            continue
        if given.shape != shape and not math.prod(given.shape) == math.prod(shape) == 1:
            raise ValueError(f"{name}: output {i} has the axes {list(shape)}, and the fallback gives {list(given.shape)}")
        if given.dtype != dtype and not is_cast:
            raise ValueError(f"{name}: output {i} is {dtype}, and the fallback gives {given.dtype}")
    return as_result(made)
