# SPDX-License-Identifier: Apache-2.0
"""Who looks at the operators that a call makes: tracers, transforms, modes, profilers, kinds of tensors of their own.

A launch by pointer is invisible to all of them, so a call first asks here. `condition` is the quick question, an
expression that every call evaluates: does anybody follow? `why_not_ours` is the slow one, asked only after a yes: does
that follower need torch's own operations, which the fallback is made of? If it does not, the call goes through its
operator of torch.library, which the follower then sees.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Optional

from ._dtypes import dtype_name


def condition(torch: Any) -> tuple[str, dict[str, Any]]:
    """An expression, and its names: whether anyone follows operators.

    Torch's dispatcher costs as much as a launch, and a plain call has no need of it. With a torch that does not tell,
    every call counts as followed. Transforms of torch.func are no part of it: their tensors have no address, and a
    launch finds that out by itself. A call that records a gradient makes no launch of its own, so it asks
    `is_transformed`.
    """
    try:
        names = {"modes": torch._C._len_torch_dispatch_stack, "functions": torch._C._len_torch_function_stack,
                 "tracing": torch._C._get_tracing_state, "autocast": torch._C._is_any_autocast_enabled,
                 "dual": torch.autograd.forward_ad, "profiler": torch.autograd.profiler}
        torch.autograd.profiler._is_profiler_enabled, torch.autograd.forward_ad._current_level  # noqa: B018
        is_transformed(torch)
    except AttributeError:
        return "True", {}
    return ("modes() or functions() or tracing() is not None or autocast() or dual._current_level >= 0 "
            "or profiler._is_profiler_enabled"), names


def plain_types(torch: Any) -> frozenset[type]:
    """The types of tensors whose operations are torch's own."""
    return frozenset((torch.Tensor, torch.nn.Parameter))


def is_transformed(torch: Any) -> bool:
    """Whether a transform of torch.func is being run."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def has_proxy(torch: Any, values: Iterable[Any]) -> bool:
    """Whether torch.fx's symbolic_trace has something in the place of one of the values."""
    fx = getattr(torch, "fx", None)
    return fx is not None and any([isinstance(one, fx.Proxy) for one in values])


def why_not_ours(torch: Any, tensors: Sequence[Any], is_operator: bool) -> str:
    """Why the call needs torch's own operations; empty: an operator of torch.library will do.

    is_operator  the caller has asked for the operator by name, so that tracers and fake tensors are to see that
    """
    if is_transformed(torch):
        return "a transform of torch.func (vmap, grad, jvp, ...) follows the call, which needs PyTorch's own operations"
    if has_tangent(torch, tensors):
        return "an input has a tangent (forward-mode AD), which needs PyTorch's own operations"
    known = _known_kinds()
    for one in tensors:
        if type(one) not in plain_types(torch) and not isinstance(one, known):
            return f"an input is a {type(one).__name__}, a kind of tensor with operations of its own"
    if is_operator:
        return ""
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace records the call, so it records PyTorch's own operations"
    if _counts_flops():
        return "FlopCounterMode counts PyTorch's own operations"
    if any(isinstance(one, known) for one in tensors):
        return "its arrays are without memory: a FakeTensor, as torch.export and other tracers use them"
    return ""


def has_tangent(torch: Any, tensors: Sequence[Optional[Any]]) -> bool:
    """Whether forward-mode AD follows one of the tensors."""
    forward_ad = torch.autograd.forward_ad
    return forward_ad._current_level >= 0 and any(
        one is not None and forward_ad.unpack_dual(one).tangent is not None for one in tensors)


def _modes() -> Sequence[Any]:
    """The modes that see operators, the outermost first."""
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

    return _get_current_dispatch_mode_stack()  # type: ignore[no-any-return,unused-ignore]


def _counts_flops() -> bool:
    return any(type(mode).__module__ == "torch.utils.flop_counter" for mode in _modes())


def _known_kinds() -> tuple[type, ...]:
    """Kinds of tensors that compilers and tracers put into the place of others."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    return FakeTensor, FunctionalTensor


def autocast_state(torch: Any, device: str) -> Any:
    """What autocast does on a kind of device; None: nothing."""
    try:
        return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    except RuntimeError:  # such as "meta", which has none
        return None


def sees_operators(torch: Any) -> bool:
    """Whether a mode, a tracer or a profiler sees the operators of plain tensors. A mode of fake tensors refuses these."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return bool(not all(isinstance(mode, FakeTensorMode) for mode in _modes()) or torch._C._len_torch_function_stack()
                or torch._C._get_tracing_state() is not None or is_transformed(torch)
                or torch.autograd.profiler._is_profiler_enabled)


def why_not_under_autocast(torch: Any, fallback: Callable[..., Any], inputs: Sequence[Any],
                           scalars: Mapping[str, float], dtypes: Sequence[str]) -> str:
    """Why the kernel's outputs, of these dtypes, are not what the fallback gives under autocast; empty: they are.

    fallback  of inputs and scalars. It runs on fake tensors, which computes nothing
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():
            made = fallback([mode.from_tensor(one) for one in inputs], scalars)
    except Exception as error:
        return f"under autocast, where PyTorch cannot tell which dtypes the fallback gives: {error}"
    made = made if isinstance(made, (tuple, list)) else (made,)
    for one, dtype in zip(made, dtypes):
        if one is not None and dtype_name(one.dtype) != dtype:
            return f"under autocast, where the fallback gives {dtype_name(one.dtype)}, and the kernel {dtype}"
    return ""
