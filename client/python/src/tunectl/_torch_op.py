# SPDX-License-Identifier: Apache-2.0
"""Tuned kernels as operators of torch.library, which torch.compile takes as they are.

The look-up is inside the operator, so a graph that was compiled once holds for every shape, and for
the fallback. The gradient is an autograd.Function around it, entered only where one is needed.
"""
from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import _arrays, _unrolled
from ._kernel import Problem
from ._resolve import dtype_name
from ._workload import Signature, signature_of

if TYPE_CHECKING:
    from ._backward import Backward
    from ._callable import TunedKernel

_numbers = itertools.count()
_library: Any = None


def make(kernel: TunedKernel, backward: Optional[Backward],
         dims: Mapping[str, int]) -> Callable[..., Any]:
    """See TunedKernel.op."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        raise RuntimeError("import torch first: an operator is one of torch's")
    snapshot = kernel.client()._snapshot
    known = snapshot.kernel(kernel.name) if snapshot is not None else None
    if known is None or not known.args:
        raise LookupError(f"no snapshot describes {kernel.name}: {kernel.client().best(kernel.name).reason}")
    signature = signature_of(known)
    plain: Callable[..., Any] = _define(torch, kernel, signature, dims)
    if kernel.gradient is not None:
        return _with_gradient(torch, plain, kernel.gradient)
    if backward is None:
        return plain
    return _with_gradient(torch, plain, _define_backward(torch, backward, signature, dims), backward)


def in_graph(kernel: TunedKernel, dims: Mapping[str, int]) -> Callable[..., Any]:
    """A call of the kernel where torch.compile follows it: its operator, or the fallback, which then is compiled like
    the code around it, where there is no operator or a gradient is wanted that the operator does not give."""
    torch: Any = sys.modules["torch"]
    fallback = kernel.fallback
    try:
        operator = kernel.op(**dims)
    except LookupError as error:
        if fallback is None:
            raise
        kernel._note(str(error))
        return fallback
    backward = kernel.backward() if kernel.gradient is None else None
    if backward is not None and backward.unknown_mode(dims):
        backward = None
    gives_all, gives = kernel.gradient is not None, backward.gives if backward is not None else frozenset()

    def call(*inputs: Any) -> Any:
        if not gives_all and torch.is_grad_enabled():
            for i, one in enumerate(inputs):
                if one.requires_grad and i not in gives:
                    if fallback is None:
                        raise LookupError(f"{kernel.name} gives no gradient of input {i}, and has no fallback=")
                    return fallback(*inputs)
        return operator(*inputs)

    return call


def _schema(signature: Signature) -> str:
    inputs = []
    for i, arg in enumerate(signature.inputs):
        mutated = f"({chr(ord('a') + i)}!)" if arg.get("role") == "inout" else ""
        inputs.append(f"Tensor{mutated} {arg['name']}")
    results = ", ".join(["Tensor"] * len(signature.outputs))
    return f"({', '.join(inputs)}) -> ({results})"


def _define(torch: Any, kernel: TunedKernel, signature: Signature,
            dims: Mapping[str, int]) -> Callable[..., Any]:
    """The operator; where nobody but us would see its call, what it runs."""
    global _library
    if _library is None:
        _library = torch.library.Library("tunectl", "FRAGMENT")
    name = re.sub(r"\W", "_", f"{kernel.name}_{next(_numbers)}")
    _library.define(name + _schema(signature))

    def run(*inputs: Any) -> Any:
        return kernel.without_gradient(inputs, dims)

    def describe(*inputs: Any) -> Any:
        results = _shapes(torch, kernel, inputs, dims)
        return results[0] if len(results) == 1 else results if results else None

    operator = _implement(torch, name, run, describe)

    def without_plan(*inputs: Any) -> Any:
        if any(one.is_meta for one in inputs):  # which have no elements
            return operator(*inputs)
        return kernel.without_gradient(inputs, dims)

    return _unrolled.operator(kernel._plans, len(signature.inputs), dims, operator, without_plan, *_followed(torch))


def _followed(torch: Any) -> tuple[str, dict[str, Any]]:
    """An expression, and its names: whether anyone follows operators, as a compiler, a mode, a transform, a tracer or a
    profiler does.

    Torch's dispatcher costs as much as a launch, and a plain call has no need of it. Of a torch that does not tell,
    every call goes through it.
    """
    try:
        names = {"compiling": torch.compiler.is_dynamo_compiling, "modes": torch._C._len_torch_dispatch_stack,
                 "functions": torch._C._len_torch_function_stack, "tracing": torch._C._get_tracing_state,
                 "transform": torch._C._functorch.peek_interpreter_stack, "profiler": torch.autograd.profiler,
                 "plain": frozenset((torch.Tensor, torch.nn.Parameter))}
        torch.autograd.profiler._is_profiler_enabled  # noqa: B018
    except AttributeError:
        return "True", {}
    return ("compiling() or modes() or functions() or transform() is not None or tracing() is not None "
            "or profiler._is_profiler_enabled"), names


def _implement(torch: Any, name: str, run: Callable[..., Any], describe: Callable[..., Any]) -> Any:
    """The operator of a name that is defined. Autograd passes it by: its gradient is another function's."""
    for device in ("CPU", "CUDA"):
        _library.impl(name, run, device)
        _library.impl(name, torch.library.fallthrough_kernel, f"Autograd{device}")
    torch.library.register_fake(f"tunectl::{name}", describe, lib=_library)
    return getattr(torch.ops.tunectl, name).default


def _define_backward(torch: Any, backward: Backward, signature: Signature,
                     dims: Mapping[str, int]) -> Callable[..., Any]:
    """An operator that takes inputs, outputs and gradients, and gives the gradient of each input."""
    assert _library is not None
    inputs, outputs = len(signature.inputs), len(signature.outputs)
    plain = (torch.Tensor, torch.nn.Parameter)
    tensors = [f"Tensor i{i}" for i in range(inputs)] + [f"Tensor o{i}" for i in range(outputs)]
    tensors += [f"Tensor? g{i}" for i in range(outputs)]
    name = re.sub(r"\W", "_", f"{backward.kernel.name}_{next(_numbers)}")
    _library.define(f"{name}({', '.join(tensors)}) -> ({', '.join(['Tensor'] * inputs)})")

    def work_out(given: Any, made: Any, gradients: Any) -> tuple[Any, ...]:
        if not torch.is_grad_enabled():
            return backward(given, made, gradients, dims)
        with torch.no_grad():
            return backward(given, made, gradients, dims)

    def run(*all_of: Any) -> Any:
        found = work_out(all_of[:inputs], all_of[inputs:inputs + outputs], all_of[inputs + outputs:])
        made = [torch.empty(0) if one is None else one for one in found]
        return made[0] if inputs == 1 else tuple(made)

    def describe(*all_of: Any) -> Any:
        made = [torch.empty_like(one) if i in backward.gives else torch.empty(0)
                for i, one in enumerate(all_of[:inputs])]
        return made[0] if inputs == 1 else tuple(made)

    op = _implement(torch, name, run, describe)
    is_followed = _unrolled.condition(*_followed(torch))

    def gradient(given: Any, made: Any, gradients: Any) -> Any:
        if not is_followed() and all(type(one) in plain for one in given):
            return work_out(given, made, gradients)
        found = op(*given, *made, *gradients)
        found = found if isinstance(found, (tuple, list)) else (found,)
        return tuple(one if i in backward.gives else None for i, one in enumerate(found))

    return gradient


def _shapes(torch: Any, kernel: TunedKernel, inputs: Sequence[Any], dims: Mapping[str, int]) -> Any:
    """The outputs without their elements. An axis that is a dim stays symbolic."""
    snapshot = kernel.client()._snapshot
    assert snapshot is not None
    known = snapshot.kernel(kernel.name)
    assert known is not None
    signature = signature_of(known)
    seen: dict[str, Any] = {**kernel.dims, **dims}
    for arg, one in zip(signature.inputs, inputs):
        if len(arg["shape"]) == one.dim():
            seen |= {text: one.shape[axis] for axis, text in enumerate(arg["shape"])
                     if text in known.rules and text not in seen}
    dtype = next((one.dtype for arg, one in zip(signature.inputs, inputs) if arg["dtype"] == "dtype"),
                 None)
    target = snapshot.target(snapshot.host_target)
    results = []
    for arg in signature.outputs:
        shape = [seen[text] if text in seen else
                 known.shape({"shape": [text]}, Problem({name: int(value) for name, value in seen.items()},
                                                        ""), target)[0] for text in arg["shape"]]
        problem = Problem({name: int(value) for name, value in seen.items() if isinstance(value, int)},
                          dtype_name(dtype))
        wanted = getattr(torch, _arrays.dtype_in_full(known.dtype(arg, problem, target)))
        results.append(torch.empty(shape, dtype=wanted, device=inputs[0].device))
    return tuple(results)


def _with_gradient(torch: Any, plain: Any, gradient: Callable[..., Any],
                   backward_kernel: Optional[Backward] = None) -> Callable[..., Any]:
    constant = backward_kernel.not_differentiable if backward_kernel is not None else ()

    class Differentiable(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(context: Any, *inputs: Any) -> Any:
            results = plain(*inputs)
            outputs = results if isinstance(results, tuple) else (results,)
            context.count = len(inputs)
            context.save_for_backward(*inputs, *outputs)
            if backward_kernel is not None:
                context.set_materialize_grads(False)
            if constant:  # torch.compile takes no call that marks nothing
                context.mark_non_differentiable(*[outputs[i] for i in constant])
            return results

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            saved = context.saved_tensors
            dense = tuple(one.contiguous() if one is not None else None for one in gradients)
            return tuple(gradient(saved[:context.count], saved[context.count:], dense))

    def call(*inputs: Any) -> Any:
        if torch.is_grad_enabled() and any(one.requires_grad for one in inputs):
            if backward_kernel is not None:
                for i, one in enumerate(inputs):
                    if one.requires_grad and i not in backward_kernel.gives:
                        raise RuntimeError(f"{backward_kernel.kernel.name} gives no gradient of input {i}: detach it, "
                                           f"or give gradient= to tunectl.kernel")
            return Differentiable.apply(*inputs)
        return plain(*inputs)

    return call
