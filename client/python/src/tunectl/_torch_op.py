# SPDX-License-Identifier: Apache-2.0
"""Tuned kernels as operators of torch.library, and their gradients.

The look-up is inside the operator, so a graph that was compiled once holds for every shape, and for the fallback. Each
operator has a kernel of its own for autograd, so that a graph that holds it is as differentiable as the call that was
recorded: by the kernel's gradient, else by the fallback's operations.

A gradient is an autograd.Function around the launch. Where its backward pass is itself recorded (create_graph=True),
the gradient is the fallback's, worked out anew with a graph: a second derivative is exact, or an error, never dropped.
"""
from __future__ import annotations

import collections
import contextlib
import hashlib
import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from . import _arrays, _fold, _followed, _prepared, _strides, _unrolled
from ._dtypes import dtype_name
from ._kernel import HOST, Problem
from ._workload import Signature, signature_of

if TYPE_CHECKING:
    from ._backward import Backward
    from ._callable import TunedKernel

_names: collections.Counter[str] = collections.Counter()
_library: Any = None
_TANGENT = "a tensor has a tangent (forward-mode AD), which needs PyTorch's own operations"


def make(kernel: TunedKernel, dims: Mapping[str, int], scalars: tuple[str, ...]) -> Callable[..., Any]:
    """The operator of a kernel: of the inputs, folded if need be, and the values of the scalars. LookupError: no
    snapshot describes the kernel."""
    torch: Any = sys.modules["torch"]
    signature = signature_of(kernel._known())
    name = _name_of(kernel, dims, scalars)
    backward = kernel.backward() if kernel.gradient is None else None
    gradient = _Gradient(torch, kernel, backward, dims, scalars, name) if backward is not None else None
    operator = _define(torch, kernel, signature, dims, scalars, name, gradient)

    def call(*all_of: Any) -> Any:
        return _folded(kernel, dims, len(signature.inputs), all_of, operator)

    call.operator, call.gradient = operator, gradient  # type: ignore[attr-defined]
    return call


def function(kernel: TunedKernel, count: int, dims: Mapping[str, int], followed: Callable[..., Any], expression: str,
             names: Mapping[str, Any]) -> Callable[..., Any]:
    """`op()`'s function of tensors: launches plans as a plain call does, where nobody follows."""
    torch: Any = sys.modules["torch"]
    names = {**names, "compiling": torch.compiler.is_dynamo_compiling}
    return _unrolled.operator(kernel._plans, count, dims, followed, followed, f"compiling() or {expression}", names)


def in_graph(kernel: TunedKernel, dims: Mapping[str, int], scalars: tuple[str, ...], dtypes: Sequence[Any],
             named: Mapping[str, Any], is_transformed: bool) -> Callable[..., Any]:
    """A call of the kernel where torch.compile follows it: its operator, or the fallback, which then is compiled like
    the code around it, where there is no operator, a gradient is wanted that the operator does not give, or a transform
    of torch.func is compiled. It takes the inputs that are given, and the values of the scalars.

    dtypes  of the inputs that are given by position; None: in this place stands None
    named   the dtypes of those that are given by name
    """
    torch: Any = sys.modules["torch"]
    if kernel._kernel() is None or not kernel._kernel().args:  # type: ignore[union-attr]
        return _unknown_in_graph(kernel, scalars, dtypes, named)
    given = kernel._checked(dict.fromkeys(scalars, 1.0), dims)
    kernel._find_returned(kernel._known())
    places, dtype = _places(torch, kernel, dims, dtypes, named)
    fallback = kernel._fallback_of(dims, dtype)

    def whole(inputs: Any) -> tuple[Any, ...]:
        return tuple([inputs[place] if blank is None else inputs[0].new_empty(blank[0], dtype=blank[1])
                      for place, blank in places])

    def fall_back(*all_of: Any) -> Any:
        assert fallback is not None
        count = len(all_of) - len(given)
        return fallback(*whole(all_of[:count]), **dict(zip(scalars, all_of[count:])))

    if is_transformed and fallback is not None:
        kernel._note("a transform of torch.func is compiled with the call, which needs PyTorch's own operations")
        return fall_back
    through = kernel._through(dims, scalars).operator  # type: ignore[attr-defined]
    gives = _gives(kernel, dims, scalars)
    folding = kernel.folding(dtype, dims)

    def call(*all_of: Any) -> Any:
        count = len(all_of) - len(given)
        inputs, values = whole(all_of[:count]), all_of[count:]
        if gives is not None and torch.is_grad_enabled():
            for i, one in enumerate(inputs):
                if one.requires_grad and i not in gives:
                    if fallback is None:
                        raise LookupError(f"{kernel.name} gives no gradient of input {i}, and has no fallback=")
                    return fall_back(*all_of)
        folded = None
        if folding is not None and folding.is_needed([one.dim() for one in inputs]):
            folded = folding.fold([one.shape for one in inputs])
            inputs = tuple([one.reshape(shape) for one, shape in zip(inputs, folded.inputs)])
        results = through(*inputs, *values)
        if folded is not None:
            results = _fold.unfold(results, folded.lead, folded.outputs)
        if fallback is not None and torch._C._is_any_autocast_enabled():
            plain = fall_back(*all_of)  # of which nothing is left in the graph where its dtypes are the kernel's
            if not _have_same_dtypes(plain, results):
                return plain
        return results

    return call


def _unknown_in_graph(kernel: TunedKernel, scalars: tuple[str, ...], dtypes: Sequence[Any],
                      named: Mapping[str, Any]) -> Callable[..., Any]:
    """The fallback, of a kernel that no snapshot describes."""
    fallback, names = kernel.fallback, tuple(named)
    if fallback is None:
        kernel._known()
    kernel._note(f"no snapshot describes {kernel.name}: {kernel._why_unknown()}")
    gaps = [one is None for one in dtypes]

    def fall_back(*all_of: Any) -> Any:
        rest = list(all_of)
        inputs = [None if is_gap else rest.pop(0) for is_gap in gaps]
        return fallback(*inputs, **dict(zip((*names, *scalars), rest)))  # type: ignore[misc]

    return fall_back


def _places(torch: Any, kernel: TunedKernel, dims: Mapping[str, int], dtypes: Sequence[Any],
            named: Mapping[str, Any]) -> tuple[list[tuple[int, Any]], str]:
    """Of each input of a launch: its place among those that are given, or shape and dtype of its blank. And the
    problem's dtype, "" if it is not told."""
    taken = kernel._inputs(kernel._known())
    numbers = itertools.count()
    by_position = [None if one is None else _Given(next(numbers), one) for one in dtypes]
    by_name = {name: _Given(next(numbers), one) for name, one in named.items()}

    def blank(at: int, dtype: str) -> Any:
        own = getattr(torch, _arrays.dtype_in_full(taken.blank_dtype(at, dtype)))
        return (1,) * taken.rank(at), own

    whole = taken.whole(by_position, by_name, {**kernel.dims, **dims}, blank)
    given = [one if isinstance(one, _Given) else None for one in whole]
    return [(-1, one) if place is None else (place.place, None) for one, place in zip(whole, given)], taken.dtype_of(given)


class _Given(NamedTuple):
    """An input of a call that a compiler follows."""

    place: int
    dtype: Any


def _have_same_dtypes(left: Any, right: Any) -> bool:
    left = left if isinstance(left, (tuple, list)) else (left,)
    right = right if isinstance(right, (tuple, list)) else (right,)
    for one, other in zip(left, right):
        if one is not None and one.dtype != other.dtype:
            return False
    return True


def _dtype_of(kernel: TunedKernel, dtypes: Sequence[Any]) -> str:
    """The problem's, by the dtypes of the inputs."""
    args = signature_of(kernel._known()).inputs
    return next((dtype_name(dtype) for arg, dtype in zip(args, dtypes) if arg["dtype"] == "dtype"), "")


def _gives(kernel: TunedKernel, dims: Mapping[str, int], scalars: Sequence[str]) -> Optional[frozenset[int]]:
    """Of which inputs it gives gradients; None: of all, by gradient=."""
    if kernel.gradient is not None:
        return None
    backward = kernel.backward()
    if backward is None or backward.unknown_mode(dims) or backward.unknown_scalars(scalars):
        return frozenset()
    return backward.gives


def _folded(kernel: TunedKernel, dims: Mapping[str, int], count: int, all_of: Sequence[Any],
            operator: Callable[..., Any]) -> Any:
    inputs, values = all_of[:count], all_of[count:]
    if len(inputs) == count:
        folding = kernel.folding(_dtype_of(kernel, [one.dtype for one in inputs]), dims)
        if folding is not None and folding.is_needed([one.dim() for one in inputs]):
            folded = folding.fold([one.shape for one in inputs])
            results = operator(*[one.reshape(shape) for one, shape in zip(inputs, folded.inputs)], *values)
            return _fold.unfold(results, folded.lead, folded.outputs)
    return operator(*all_of)


def _schema(signature: Signature, scalars: Sequence[str]) -> str:
    inputs = []
    for i, arg in enumerate(signature.inputs):
        mutated = f"({chr(ord('a') + i)}!)" if arg.get("role") == "inout" else ""
        inputs.append(f"Tensor{mutated} {arg['name']}")
    results = ", ".join(["Tensor"] * len(signature.outputs))
    return f"({', '.join([*inputs, *[f'float scalar_{name}' for name in scalars]])}) -> ({results})"


def _name_of(kernel: TunedKernel, dims: Mapping[str, int], scalars: Sequence[str]) -> str:
    """What the operator is. A compiler keeps graphs by such names from one process to the next, so another source, a
    fallback or a gradient of other code has another name; of the same there may be several, which are numbered."""
    known, backward = kernel._known(), kernel.backward() if kernel.gradient is None else None
    identity = (known.hash, backward.kernel._known().hash if backward is not None else "", _code_of(kernel.fallback),
                _code_of(kernel.gradient))
    digest = hashlib.sha256(repr(identity).encode()).hexdigest()[:8]
    parts = [kernel.name, *[f"{name}_{value}" for name, value in sorted({**kernel.dims, **dims}.items())], *scalars, digest]
    name = re.sub(r"\W", "_", "_".join(parts))
    _names[name] += 1
    return name if _names[name] == 1 else f"{name}_{_names[name]}"


def _code_of(function: Any) -> Any:
    """What tells functions of other code apart."""
    code = function if hasattr(function, "co_code") else getattr(function, "__code__", None)
    if code is None:
        return str(type(function))
    consts = [_code_of(one) if hasattr(one, "co_code") else one for one in code.co_consts]
    return code.co_code, consts, code.co_names, getattr(function, "__qualname__", "")


def _define(torch: Any, kernel: TunedKernel, signature: Signature, dims: Mapping[str, int],
            scalars: Sequence[str], name: str, gradient: Optional[_Gradient]) -> Any:
    count = len(signature.inputs)
    _own_library(torch).define(name + _schema(signature, scalars))

    def describe(*all_of: Any) -> Any:
        results = _shapes(torch, kernel, all_of[:count], dims)
        return results[0] if len(results) == 1 else results if results else None

    def run(*all_of: Any) -> Any:
        inputs = all_of[:count]
        results = kernel.without_gradient(inputs, dims, dict(zip(scalars, all_of[count:])))
        if not signature.outputs:
            return None
        made = results if isinstance(results, (tuple, list)) else (results,)
        if any(one is None for one in made):
            made = [_unknown(wanted) if one is None else one
                    for one, wanted in zip(made, _shapes(torch, kernel, inputs, dims))]
        # The outputs have the layout of `describe`, and none is an input: a fallback's may differ.
        strides = _strides.of_outputs(signature, [one.shape for one in made], inputs)
        made = [_laid(torch, one.clone() if any(one is other for other in inputs) else one, steps)
                for one, steps in zip(made, strides)]
        return made[0] if len(made) == 1 else tuple(made)

    function: Any = None

    def under_autograd(keys: Any, *all_of: Any) -> Any:
        nonlocal function
        inputs = all_of[:count]
        if _followed.has_tangent(torch, inputs):
            if kernel.fallback is None:
                raise _no_tangent(kernel.name)
            kernel._note(_TANGENT)
            return kernel._run_fallback(inputs, dict(zip(scalars, all_of[count:])), dims)
        if not torch.is_grad_enabled() or not any(one.requires_grad for one in inputs):
            return operator.redispatch(keys & torch._C._after_autograd_keyset, *all_of)
        gives = _gives(kernel, dims, scalars)
        missing = [i for i, one in enumerate(inputs) if one.requires_grad and gives is not None and i not in gives]
        if missing:
            if kernel.fallback is None:
                raise RuntimeError(f"{kernel.name} gives no gradient of input {missing[0]}: detach it, or give gradient= or "
                                   "fallback= to tunectl.kernel")
            kernel._note(f"input {missing[0]} needs a gradient that {kernel.name} does not give")
            return kernel._run_fallback(inputs, dict(zip(scalars, all_of[count:])), dims)
        if function is None:
            function = _function(torch, kernel, count, scalars, operator, gradient)
        return function.apply(None, *all_of)

    operator = _implement(torch, name, run, describe, under_autograd)
    return operator


def _own_library(torch: Any) -> Any:
    global _library
    if _library is None:
        _library = torch.library.Library("tunectl", "FRAGMENT")
    return _library


def _laid(torch: Any, tensor: Any, strides: Optional[Sequence[int]]) -> Any:
    """The tensor, or a copy of these strides; None: contiguous."""
    if strides is None:
        return tensor.contiguous()
    if _strides.are_same(tensor.shape, tensor.stride(), strides):
        return tensor
    return _empty(torch, tensor.shape, strides, tensor.dtype, tensor.device).copy_(tensor)


def _empty(torch: Any, shape: Sequence[Any], strides: Optional[Sequence[Any]], dtype: Any, device: Any) -> Any:
    if strides is None:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _unknown(like: Any) -> Any:
    """For an output that the fallback does not give: an operator has no None."""
    return like.fill_(float("nan")) if like.dtype.is_floating_point else like.zero_()


def _implement(torch: Any, name: str, run: Callable[..., Any], describe: Callable[..., Any],
               under_autograd: Callable[..., Any]) -> Any:
    """The operator of a name that is defined."""
    for device in ("CPU", "CUDA"):
        _library.impl(name, run, device)
    _library.impl(name, under_autograd, "Autograd", with_keyset=True)
    torch.library.register_fake(f"tunectl::{name}", describe, lib=_library)
    return getattr(torch.ops.tunectl, name).default


def differentiable(kernel: TunedKernel, count: int, dims: Mapping[str, int], scalars: tuple[str, ...]) -> Any:
    """The autograd.Function of a call that nobody follows."""
    key = ("function", *sorted(dims.items()), scalars)
    with kernel._lock:
        if key not in kernel._ops:
            def launch(*all_of: Any) -> Any:
                return kernel.without_gradient(all_of[:count], dims, dict(zip(scalars, all_of[count:])))

            gradient = kernel._through(dims, scalars).gradient  # type: ignore[attr-defined]
            kernel._ops[key] = _function(sys.modules["torch"], kernel, count, scalars, launch, gradient)
        return kernel._ops[key]


def _function(torch: Any, kernel: TunedKernel, count: int, scalars: Sequence[str], launch: Callable[..., Any],
              by_kernel: Optional[_Gradient]) -> Any:
    """An autograd.Function around a launch of inputs and values of scalars, which follow a `Prepared` or None.

    by_kernel  None where gradient= is given
    """
    constant = by_kernel.backward.not_differentiable if by_kernel is not None else ()
    unread = by_kernel.backward.unread if by_kernel is not None else ()
    is_followed = _unrolled.condition(*_followed.condition(torch))

    class Differentiable(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, prepared: Optional[_prepared.Prepared], *all_of: Any) -> Any:
            results = False if prepared is None else prepared.launch(*all_of[:count])
            if results is False:
                results = launch(*all_of)
            outputs = results if isinstance(results, tuple) else (results,)
            context.prepared = prepared
            context.scalars = dict(zip(scalars, all_of[count:]))
            context.autocast = torch._C._is_any_autocast_enabled() and _followed.autocast_state(torch, all_of[0].device.type)
            given = list(all_of[:count])
            for i in unread:
                given[i] = None
            context.unread = [(all_of[i].shape, all_of[i].dtype) for i in unread]
            context.save_for_backward(*given, *outputs)
            context.device = all_of[0].device.type
            if by_kernel is not None:
                context.versions = [one._version if one is not None else 0 for one in outputs]
                context.set_materialize_grads(False)
            silent = [outputs[i] for i in constant if outputs[i] is not None]  # a fallback may leave one out
            if silent:
                context.mark_non_differentiable(*silent)
            return results

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            try:
                saved = context.saved_tensors
            except RuntimeError:  # one was written to after the call, which matters if it is read
                saved = by_kernel and by_kernel.read_alone(context, count, gradients)
                if not saved:
                    raise
            prepared = context.prepared
            if prepared is not None and prepared.backward is not None and not torch.is_grad_enabled() and not is_followed():
                quick = prepared.backward(saved, gradients)
                if quick is not None:
                    return quick
            given, made = list(saved[:count]), saved[count:]
            for i, facts in zip(unread, context.unread):
                given[i] = _prepared.stand_in(facts, gradients[i] if i < len(gradients) else None, gradients)
            shapes = [one.shape if one is not None else () for one in given]
            whole = (*saved[:count], *made, *gradients)
            if prepared is not None:
                given, made, gradients = prepared.views(given, made, gradients)
            if kernel.gradient is not None:
                more = {"scalars": context.scalars} if scalars else {}
                dense = tuple(one.contiguous() if one is not None else None for one in gradients)
                found = kernel.gradient(given, made, dense, **more)
            else:
                assert by_kernel is not None
                with _under(torch, context.device, context.autocast):
                    found = by_kernel(given, made, gradients, context.scalars, context.needs_input_grad[1:count + 1])
                if prepared is not None and prepared.backward is None and not torch.is_grad_enabled() and not is_followed():
                    prepared.backward = by_kernel.prepared(given, made, gradients, context.scalars, whole, shapes)
            if prepared is not None and prepared.is_folded:
                found = _prepared.viewed(found, shapes)
            return (None, *found, *[None] * len(scalars))

    return Differentiable


def _under(torch: Any, device: str, autocast: Any) -> Any:
    """The autocast that the forward pass was under, for what the fallback works out of it."""
    if not autocast and not torch._C._is_any_autocast_enabled():
        return contextlib.nullcontext()
    return torch.autocast(device, dtype=autocast or None, enabled=bool(autocast))


class _Gradient:
    """Gradients by the backward kernel: a function of inputs, outputs, gradients, scalars and which inputs need one, that
    gives the gradient of each input. Its operator, for those who follow, has a name made of the forward's."""

    def __init__(self, torch: Any, kernel: TunedKernel, backward: Backward, dims: Mapping[str, int], scalars: Sequence[str],
                 name: str) -> None:
        signature = signature_of(kernel._known())
        self.backward = backward
        self._torch, self._kernel, self._dims, self._scalars = torch, kernel, dims, scalars
        self._inputs, self._outputs = len(signature.inputs), len(signature.outputs)
        self._is_followed = _unrolled.condition(*_followed.condition(torch))
        self._plain = _followed.plain_types(torch) | {type(None)}
        self._operator = self._define(f"{name}_gradient")

    def __call__(self, given: Any, made: Any, gradients: Any, values: Mapping[str, float], needs: Sequence[bool]) -> Any:
        if self._torch.is_grad_enabled() or _followed.has_tangent(self._torch, (*given, *gradients)):
            return self._again(given, made, gradients, values, needs)
        if not (self._is_followed() and _followed.sees_operators(self._torch)) and all(
                type(one) in self._plain for one in given):
            return self._work_out(given, made, gradients, values)
        if any(one is None for one in given):  # as read_alone has it
            return self._work_out(given, made, gradients, values)
        found = self._operator(*given, *made, *gradients, *values.values())
        found = found if isinstance(found, (tuple, list)) else (found,)
        return tuple(one if i in self.backward.gives else None for i, one in enumerate(found))

    def read_alone(self, context: Any, count: int, gradients: Sequence[Any]) -> list[Any]:
        """The saved tensors that the backward kernel reads, with None for the others; empty: more than these is read, or
        one of these was written to after the call."""
        torch = self._torch
        try:
            if (torch.is_grad_enabled() or _followed.has_tangent(torch, gradients) or _followed.is_transformed(torch)
                    or torch._C._len_torch_dispatch_stack() or torch._C._len_torch_function_stack()
                    or torch._C._get_tracing_state() is not None):
                return []
            raw, places = context._raw_saved_tensors, self.backward.places
            read = {i if what == "input" else count + i for what, i in places if what != "gradient"}
            saved: list[Any] = [None] * len(raw)
            for i in read:
                saved[i] = raw[i].unpack() if i < count else raw[i].data
        except (AttributeError, RuntimeError):  # an old torch has no unpack
            return []
        is_old = any(saved[count + i] is None or saved[count + i]._version != context.versions[i]
                     for what, i in places if what == "output")
        is_missing = any(gradients[i] is None for what, i in places if what == "gradient")
        return [] if is_old or is_missing else saved

    def prepared(self, given: Any, made: Any, gradients: Any, values: Mapping[str, float], whole: Sequence[Any],
                 shapes: Sequence[Any]) -> Optional[Callable[..., Any]]:
        """A function of saved tensors and gradients like these that gives the results of `backward`, or None if they do
        not lie so. None: there is no one launch for them.

        whole   inputs, outputs and gradients as they are saved and given, of which the others are views
        shapes  of the inputs' gradients
        """
        plan = self.backward.plan_of(given, made, gradients, self._dims, values)
        if plan is None:
            return None
        start = {"input": 0, "output": self._inputs, "gradient": self._inputs + self._outputs}
        views, places = (*given, *made, *gradients), [start[what] + i for what, i in self.backward.places]
        results, launch = self.backward.results, plan.launch
        if any([views[i].shape != whole[i].shape for i in places]):
            launch = _prepared.launch_of_views(plan, [views[i].shape for i in places], [shapes[i] for i in results])
        blank = [None] * (1 + self._inputs + len(self._scalars))
        is_deterministic, asked = self.backward.is_deterministic(), self.backward.is_deterministic

        def quick(saved: Sequence[Any], gradients: Sequence[Any]) -> Optional[tuple[Any, ...]]:
            every = (*saved, *gradients)
            arrays = [every[i] for i in places]
            if any([one is None for one in arrays]) or asked() != is_deterministic:
                return None
            found = launch(*arrays)
            if found is False:
                return None
            made = blank.copy()
            for i, one in zip(results, found if isinstance(found, tuple) else (found,)):
                made[1 + i] = one
            return tuple(made)

        return quick

    def _work_out(self, given: Any, made: Any, gradients: Any, values: Mapping[str, float]) -> tuple[Any, ...]:
        with self._torch.no_grad():
            return self.backward(given, made, gradients, self._dims, values)

    def _again(self, given: Any, made: Any, gradients: Any, values: Mapping[str, float],
               needs: Sequence[bool]) -> tuple[Any, ...]:
        """A gradient that is differentiated again, by a graph or by tangents: the fallback's, or with an error in the place
        of its graph. RuntimeError: a tangent, and no fallback."""
        has_tangent = _followed.has_tangent(self._torch, (*given, *gradients))
        if self._kernel.fallback is not None:
            self._kernel._note(_TANGENT if has_tangent else "a gradient that is differentiated again (create_graph=True)")
            return self.backward.differentiable(given, gradients, self._dims, values, needs)
        if has_tangent:
            raise _no_tangent(self._kernel.name)
        found = self._work_out(given, made, gradients, values)
        return _not_twice(self._torch, self._kernel.name, found, self._sources(given, gradients))

    def _sources(self, given: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        """The tensors that a gradient is a function of: those that the backward kernel reads, and all inputs if it reads an
        output, which is made of them."""
        places = self.backward.places
        if any(what == "output" for what, _ in places):
            return [*given, *gradients]
        return [gradients[i] if what == "gradient" else given[i] for what, i in places]

    def _define(self, name: str) -> Any:
        """An operator that takes inputs, outputs, gradients and scalars, and gives the gradient of each input, of no
        elements where there is none."""
        torch, inputs, outputs = self._torch, self._inputs, self._outputs
        tensors = [f"Tensor i{i}" for i in range(inputs)] + [f"Tensor? o{i}" for i in range(outputs)]
        tensors += [f"Tensor? g{i}" for i in range(outputs)] + [f"float scalar_{name}" for name in self._scalars]
        _own_library(torch).define(f"{name}({', '.join(tensors)}) -> ({', '.join(['Tensor'] * inputs)})")

        def parts(all_of: Sequence[Any]) -> tuple[Any, Any, Any, dict[str, float]]:
            end = inputs + outputs
            return (all_of[:inputs], all_of[inputs:end], all_of[end:end + outputs],
                    dict(zip(self._scalars, all_of[end + outputs:])))

        def whole(found: Sequence[Any]) -> Any:
            made = [torch.empty(0) if one is None else one for one in found]
            return made[0] if inputs == 1 else tuple(made)

        def run(*all_of: Any) -> Any:
            given, made, gradients, values = parts(all_of)
            strides = self.backward.strides(given, made, gradients)
            found = self._work_out(given, made, gradients, values)
            return whole([None if one is None else _laid(torch, one, steps) for one, steps in zip(found, strides)])

        def describe(*all_of: Any) -> Any:
            given, made, gradients, _ = parts(all_of)
            strides = self.backward.strides(given, made, gradients)
            return whole([_empty(torch, one.shape, steps, one.dtype, one.device) if i in self.backward.gives else None
                          for i, (one, steps) in enumerate(zip(given, strides))])

        def under_autograd(keys: Any, *all_of: Any) -> Any:
            given, made, gradients, values = parts(all_of)
            is_recorded = torch.is_grad_enabled() and any(
                one is not None and one.requires_grad for one in (*given, *gradients))
            if not is_recorded and not _followed.has_tangent(torch, (*given, *gradients)):
                return operator.redispatch(keys & torch._C._after_autograd_keyset, *all_of)
            return whole(self._again(given, made, gradients, values, [i in self.backward.gives for i in range(inputs)]))

        operator = _implement(torch, name, run, describe, under_autograd)
        return operator


def _no_tangent(name: str) -> RuntimeError:
    return RuntimeError(f"{name} has no forward-mode derivative: give fallback= of PyTorch's operations to tunectl.kernel")


def _not_twice(torch: Any, name: str, found: Sequence[Any], of: Sequence[Any]) -> tuple[Any, ...]:
    """The gradients, with an error in their graph: to drop a second derivative would be wrong in silence.

    of  the tensors that they are functions of: who differentiates by one of these, or by what it was made of, gets the error
    """
    sources = [one for one in of if one is not None and one.requires_grad]
    some = [one for one in found if one is not None]
    error = torch._C._functions.DelayedError(
        f"{name} has no second derivative: give fallback=, or gradient= of PyTorch's operations, to tunectl.kernel".encode(),
        len(some) + len(sources))
    marked = iter(error(*[one.detach() for one in some], *sources))
    return tuple(None if one is None else next(marked) for one in found)


def _shapes(torch: Any, kernel: TunedKernel, inputs: Sequence[Any], dims: Mapping[str, int]) -> Any:
    """The outputs without their elements. An axis that is a dim stays symbolic."""
    known = kernel._known()
    signature = signature_of(known)
    told = {name: value for name, value in {**known.optional, **kernel.dims, **dims}.items() if name in known.dims}
    dtype = next((one.dtype for arg, one in zip(signature.inputs, inputs) if arg["dtype"] == "dtype"), None)
    name = dtype_name(dtype) if dtype is not None else ""
    unused, seen = kernel._inputs(known).unused(told, name), dict(told)
    for i, (arg, one) in enumerate(zip(signature.inputs, inputs)):
        if i not in unused and len(arg["shape"]) == one.dim():
            axes = [known.dim_of(text, told, name, HOST) for text in arg["shape"]]
            seen |= {axis: size for axis, size in zip(axes, one.shape) if axis in known.dims and axis not in seen}
    results = []
    for arg in signature.outputs:
        shape = [seen[text] if text in seen else
                 known.extent(text, Problem({name: int(value) for name, value in seen.items()}, ""), HOST)
                 for text in arg["shape"]]
        problem = Problem({name: int(value) for name, value in seen.items() if isinstance(value, int)},
                          dtype_name(dtype))
        wanted = getattr(torch, _arrays.dtype_in_full(known.dtype(arg, problem, HOST)))
        results.append((shape, wanted))
    strides = _strides.of_outputs(signature, [shape for shape, _ in results], inputs)
    return tuple([_empty(torch, shape, steps, wanted, inputs[0].device) for (shape, wanted), steps in zip(results, strides)])
