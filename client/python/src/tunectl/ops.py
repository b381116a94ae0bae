# SPDX-License-Identifier: Apache-2.0
"""PyTorch's functions, by tuned binaries where these sizes were tuned.

    from tunectl import ops

    y = ops.rms_norm(x, weight, eps=1e-6)
    z = ops.attention(q, k, v, causal=True)

Arguments, results, gradients and errors are those of the PyTorch functions that each docstring names. What was not
tuned, or what the kernel does not have, runs that very function; `why(ops.rms_norm)` lists the reasons. All work under
autograd and torch.compile, by the rule of docs/training-jobs.md, section 6.

Importing this imports torch.
"""
from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Optional

import torch
import torch.nn.functional as F

from ._callable import TunedKernel

__all__ = ["AdamW", "attention", "cross_entropy", "layer_norm", "linear", "rms_norm", "rope", "softmax", "swiglu", "why"]

_IGNORED = -100  # a target that cross_entropy's kernel leaves out
_ACTIVATIONS: Mapping[Optional[str], Callable[[Any], Any]] = {
    None: lambda x: x, "gelu": functools.partial(F.gelu, approximate="tanh"), "silu": F.silu}
_EPILOGUES = {None: 1, "gelu": 2, "silu": 3}  # of gemm, with a bias

_kernels: dict[str, list[TunedKernel]] = {}
_made_of = types.SimpleNamespace()  # attributes: of a dict a compiler would see what it held at the first call of a graph


def _once(make: Callable[..., TunedKernel]) -> Callable[..., TunedKernel]:
    """Makes a kernel once for each set of arguments. torch.compile runs the making and does not follow it."""
    names: dict[Any, str] = {}

    def name_of(*key: Any) -> str:
        name = names.get(key)
        if name is None:
            name = re.sub(r"\W", "_", f"{make.__name__} {key}")
            setattr(_made_of, name, make(*key))
            names[key] = name
        return name

    def kernel(*key: Any) -> TunedKernel:
        return getattr(_made_of, name_of(*key))  # type: ignore[no-any-return]

    name_of._dynamo_marked_constant = True  # type: ignore[attr-defined]  # by torch.compiler.assume_constant_result
    return kernel


def _made(user: str, kernel: TunedKernel) -> TunedKernel:
    _kernels.setdefault(user, []).append(kernel)
    return kernel


def why(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns why calls of a function of this module ran PyTorch's own, a sentence each."""
    return tuple(note for kernel in _kernels.get(function.__name__, ()) for note in kernel.notes)


def _unread(like: Any, *shape: int) -> Any:
    """What a kernel takes for an array that its mode does not read."""
    return like.new_empty(shape or (1, 1))


def rms_norm(x: Any, weight: Optional[Any] = None, eps: float = 1e-6) -> Any:
    """torch.nn.functional.rms_norm over the last axis: x / sqrt(mean(x^2) + eps) * weight.

    x       [..., cols]
    weight  [cols]; without one PyTorch's own runs
    """
    if weight is None or weight.dtype != x.dtype or x.dim() < 2:
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    return _rms_norm(eps)(x, _unread(x), weight)[0]


@_once
def _rms_norm(eps: float) -> TunedKernel:
    def fallback(x: Any, residual: Any, weight: Any, epsilon: float) -> Any:
        return F.rms_norm(x, weight.shape, weight, epsilon), None, None

    return _made("rms_norm", TunedKernel("rmsnorm", fallback, None, {"residual": 0}, {"epsilon": eps}))


def layer_norm(x: Any, weight: Optional[Any] = None, bias: Optional[Any] = None, eps: float = 1e-5) -> Any:
    """torch.nn.functional.layer_norm over the last axis: (x - mean) / sqrt(var + eps) * weight + bias.

    x             [..., cols]
    weight, bias  [cols]; without both PyTorch's own runs
    """
    if weight is None or bias is None or weight.dtype != x.dtype or bias.dtype != x.dtype or x.dim() < 2:
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    return _layer_norm(eps)(x, _unread(x), weight, bias)[0]


@_once
def _layer_norm(eps: float) -> TunedKernel:
    def fallback(x: Any, residual: Any, weight: Any, bias: Any, epsilon: float) -> Any:
        return F.layer_norm(x, weight.shape, weight, bias, epsilon), None, None, None

    return _made("layer_norm", TunedKernel("layernorm", fallback, None, {"residual": 0}, {"epsilon": eps}))


def softmax(x: Any, dim: int = -1) -> Any:
    """torch.softmax over the last axis; over another, PyTorch's own."""
    if dim not in (-1, x.dim() - 1) or x.dim() < 2:
        return torch.softmax(x, dim)
    return _softmax()(x)


@_once
def _softmax() -> TunedKernel:
    return _made("softmax", TunedKernel("softmax", lambda x: torch.softmax(x, -1), None, {}))


def swiglu(gate: Any, up: Any) -> Any:
    """silu(gate) * up, of arrays of one shape."""
    return _swiglu()(gate, up) if gate.dim() > 1 and gate.shape == up.shape else F.silu(gate) * up


@_once
def _swiglu() -> TunedKernel:
    return _made("swiglu", TunedKernel("swiglu", lambda gate, up: F.silu(gate) * up, None, {}))


def cross_entropy(logits: Any, targets: Any, *, ignore_index: int = -100, label_smoothing: float = 0.0,
                  reduction: str = "mean") -> Any:
    """torch.nn.functional.cross_entropy of class indices.

    logits   [..., classes]
    targets  [...], int64. A target that is neither a class nor ignore_index counts as ignored by the tuned kernel; it is
             an error of PyTorch's own
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction={reduction!r} is none of 'mean', 'sum' and 'none'")
    if ignore_index >= 0:
        targets = torch.where(targets == ignore_index, _IGNORED, targets)
    rows = logits.reshape(-1, logits.shape[-1])
    losses = _cross_entropy(label_smoothing)(rows, targets.reshape(-1), rows.new_empty(rows.shape[0], dtype=torch.float32))[0]
    losses = losses.view(targets.shape)
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / (targets != (_IGNORED if ignore_index >= 0 else ignore_index)).sum()


@_once
def _cross_entropy(smoothing: float) -> TunedKernel:
    """The losses of rows. Their gradient is one more pass over the logits, so nothing of their size is kept."""
    scalars = {"smoothing": smoothing}

    def fallback(logits: Any, targets: Any, slopes: Any, smoothing: float) -> Any:
        losses = F.cross_entropy(logits.float(), targets, reduction="none", label_smoothing=smoothing,
                                 ignore_index=_IGNORED)
        return losses, None, None

    def slopes_of_logits(logits: Any, targets: Any, slopes: Any, smoothing: float) -> Any:
        with torch.enable_grad():
            own = logits.detach().requires_grad_()
            losses = fallback(own, targets, None, smoothing)[0]
            return None, None, torch.autograd.grad(losses, own, slopes)[0]

    backward = _made("cross_entropy", TunedKernel("cross_entropy", slopes_of_logits, None, {"gradient": 1, "smoothing": 0}, scalars))

    def gradient(inputs: Any, outputs: Any, slopes: Any, scalars: Any) -> Any:
        logits, targets, _ = inputs
        return backward(logits, targets, slopes[0].float().contiguous())[2], None, None

    return _made("cross_entropy", TunedKernel("cross_entropy", fallback, gradient, {"gradient": 0, "smoothing": 0}, scalars))


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, scale: Optional[float] = None) -> Any:
    """torch.nn.functional.scaled_dot_product_attention without a mask or dropout.

    q      [batch, heads, seq, head_dim]
    k, v   [batch, kv_heads, keys, head_dim]; each of their heads serves heads / kv_heads of q's
    scale  of the scores before the softmax; by default head_dim ** -0.5
    """
    if q.dim() != 4 or k.shape[2] != q.shape[2]:  # the kernel has one length for both
        return _scaled_attention(q, k, v, causal, scale)
    return _attention(bool(causal), scale)(q, k, v)[0]


def _scaled_attention(q: Any, k: Any, v: Any, causal: bool, scale: Optional[float]) -> Any:
    grouped = {"enable_gqa": True} if q.shape[-3:-2] != k.shape[-3:-2] else {}
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, **grouped)


@_once
def _attention(causal: bool, scale: Optional[float]) -> TunedKernel:
    def fallback(q: Any, k: Any, v: Any, scale: Optional[float] = scale) -> Any:
        return _scaled_attention(q, k, v, causal, scale), None

    scalars = {} if scale is None else {"scale": scale}
    return _made("attention", TunedKernel("attention", fallback, None, {"causal": int(causal)}, scalars))


def rope(q: Any, k: Any, cos: Any, sin: Any, *, interleaved: bool = False) -> tuple[Any, Any]:
    """Rotary embeddings of queries and keys: each pair of elements is turned by its position's angle.

    q, k         [seq, batch, heads, head_dim] and [seq, batch, kv_heads, head_dim]
    cos, sin     [seq, head_dim / 2], f32
    interleaved  pairs are neighbours; by default element i and element i + head_dim / 2
    """
    return _rope(bool(interleaved))(q, k, cos, sin)  # type: ignore[no-any-return]


@_once
def _rope(interleaved: bool) -> TunedKernel:
    def turned(x: Any, cos: Any, sin: Any) -> Any:
        low, high = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, dim=-1)
        low, high = low.float(), high.float()
        cos, sin = cos[:, None, None, :], sin[:, None, None, :]
        pairs = low * cos - high * sin, high * cos + low * sin
        made = torch.stack(pairs, -1).flatten(-2) if interleaved else torch.cat(pairs, -1)
        return made.to(x.dtype)

    def fallback(q: Any, k: Any, cos: Any, sin: Any) -> Any:
        return turned(q, cos, sin), turned(k, cos, sin)

    return _made("rope", TunedKernel("rope", fallback, None, {"interleaved": int(interleaved), "backward": 0}))


def linear(x: Any, weight: Any, bias: Optional[Any] = None, activation: Optional[str] = None) -> Any:
    """activation(torch.nn.functional.linear(x, weight, bias)), in one launch.

    x           [..., k]
    weight      [n, k]
    bias        [n]
    activation  "gelu" (the form with tanh), "silu" or None
    """
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation={activation!r} is none of 'gelu', 'silu' and None")
    if bias is None and activation is not None:  # an epilogue of the kernel's has a bias
        return _ACTIVATIONS[activation](linear(x, weight))
    rows = x.reshape(-1, x.shape[-1])
    one = _unread(x, 1).float()
    given = bias if bias is not None else weight.new_empty(weight.shape[0])
    sizes = {"m": rows.shape[0], "n": weight.shape[0], "k": weight.shape[1]}
    made = _linear(activation, bias is not None)(rows, weight, given, _unread(x), one, one, **sizes)
    return made.view(*x.shape[:-1], weight.shape[0])


@_once
def _linear(activation: Optional[str], has_bias: bool) -> TunedKernel:
    finish = _ACTIVATIONS[activation]

    def fallback(a: Any, b: Any, bias: Any, residual: Any, a_scale: Any, b_scale: Any, alpha: float) -> Any:
        return finish(F.linear(a, b, bias if has_bias else None))

    def product(name: str, own: Callable[[Any, Any], Any], **modes: int) -> Callable[[Any, Any], Any]:
        kernel = _made("linear", TunedKernel("gemm", lambda a, b, *rest, alpha: own(a, b), None,
                                             {"epilogue": 0, "fast_accum": 0, **modes}, {"alpha": 1.0}))

        def multiply(a: Any, b: Any) -> Any:
            one = _unread(a, 1).float()
            k, m = a.shape if modes["transpose_a"] else a.shape[::-1]
            n = b.shape[1]
            return kernel(a, b, b.new_empty(n), _unread(a), one, one, m=m, n=n, k=k)

        return multiply

    times = product("x", lambda a, b: a @ b, transpose_a=0, transpose_b=0)
    turned_times = product("weight", lambda a, b: a.t() @ b, transpose_a=1, transpose_b=0)

    def gradient(inputs: Any, outputs: Any, slopes: Any, scalars: Any) -> Any:
        x, weight, bias = inputs[:3]
        slope = slopes[0]
        if activation is not None:  # through the activation, of what is worked out once more
            with torch.enable_grad():
                before = F.linear(x, weight, bias).detach().requires_grad_()
                slope = torch.autograd.grad(finish(before), before, slope)[0]
        slope = slope.contiguous()
        return times(slope, weight), turned_times(slope, x), slope.sum(0) if has_bias else None, None, None, None

    dims = {"epilogue": _EPILOGUES[activation] if has_bias else 0, "transpose_a": 0, "transpose_b": 1,
            "fast_accum": 0}
    return _made("linear", TunedKernel("gemm", fallback, gradient, dims, {"alpha": 1.0}))


class AdamW(torch.optim.AdamW):  # type: ignore[misc]
    """torch.optim.AdamW, whose step of each parameter is one launch where parameters of its size were tuned.

    Takes the arguments of torch.optim.AdamW. Its moments are f32. amsgrad, maximize, and a learning rate that is a tensor
    run PyTorch's own step.
    """

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        if any(group["amsgrad"] or group["maximize"] or torch.is_tensor(group["lr"]) for group in self.param_groups):
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._step_of(p, group)
        return loss

    def _step_of(self, p: Any, group: Mapping[str, Any]) -> None:
        if p.grad.is_sparse:
            raise RuntimeError("AdamW does not support sparse gradients")
        state = self.state[p]
        if not state:
            state["step"] = torch.tensor(0.0)
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(p, dtype=torch.float32)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        count = state["step"].item()
        arrays = [p, p.grad, state["exp_avg"], state["exp_avg_sq"]]
        scalars = {
            "rate": group["lr"], "decay": group["weight_decay"], "beta1": beta1, "beta2": beta2, "epsilon": group["eps"],
            "correction1": 1 / (1 - beta1 ** count), "correction2": 1 / (1 - beta2 ** count)}
        master = _unread(state["exp_avg"], 1)
        if all(one.is_contiguous() for one in arrays):
            p, g, m, v = [one.view(-1) for one in arrays]
            _adamw()(p, master, g, m, v, scalars=scalars)
        else:  # the kernel takes arrays in one piece
            p, g, m, v = arrays
            _step(p, master, g, m, v, **scalars)


def _step(p: Any, master: Any, g: Any, m: Any, v: Any, rate: float, decay: float, beta1: float, beta2: float,
          epsilon: float, correction1: float, correction2: float) -> None:
    """The step of adamw's kernel, by PyTorch's operations."""
    slope = g.float()
    m.lerp_(slope, 1 - beta1)
    v.mul_(beta2).addcmul_(slope, slope, value=1 - beta2)
    root = (v * correction2).sqrt_().add_(epsilon)
    p.copy_((p.float() * (1 - rate * decay)).addcdiv_(m, root, value=-rate * correction1))


@_once
def _adamw() -> TunedKernel:
    return _made("AdamW", TunedKernel("adamw", _step, None, {"master": 0}))
