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
from typing import Any, Optional, Union

import torch
import torch.nn.functional as F

from . import _followed, _linear_loss
from ._callable import TunedKernel

__all__ = ["AdamW", "attention", "cross_entropy", "layer_norm", "linear", "linear_cross_entropy", "rms_norm", "rope",
           "softmax", "swiglu", "why"]

_IGNORED = -100  # a target that cross_entropy's kernel leaves out
_ACTIVATIONS: Mapping[Optional[str], Callable[[Any], Any]] = {
    None: lambda x: x, "gelu": functools.partial(F.gelu, approximate="tanh"), "silu": F.silu}
_EPILOGUES = {None: 1, "gelu": 2, "silu": 3}  # of gemm, with a bias

_is_compiling = torch.compiler.is_dynamo_compiling
_kernels: dict[str, list[TunedKernel]] = {}
_made_of = types.SimpleNamespace()  # attributes: of a dict a compiler would see what it held at the first call of a graph


def _once(make: Callable[..., TunedKernel]) -> Any:
    """A function that makes a kernel once for each set of arguments, which torch.compile runs and does not follow. Its
    `call` takes the arguments and tensors, which the kernel is called with, in the fewest steps."""
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

    def call(key: Any, *arrays: Any) -> Any:
        if not _is_compiling():
            name = names.get(key)
            ready = getattr(_made_of, name).ready.get(len(arrays)) if name is not None else None
            if ready is not None:
                return ready(*arrays)
        return kernel(*key)(*arrays)

    name_of._dynamo_marked_constant = True  # type: ignore[attr-defined]  # by torch.compiler.assume_constant_result
    kernel.call = call  # type: ignore[attr-defined]
    return kernel


def _made(user: str, kernel: TunedKernel) -> TunedKernel:
    _kernels.setdefault(user, []).append(kernel)
    return kernel


def _by_operator(kernel: TunedKernel) -> Callable[..., Any]:
    """The kernel as a gradient calls it: tracers that follow a backward pass see its operator, not the fallback's."""
    made: Optional[Callable[..., Any]] = None

    def call(*inputs: Any) -> Any:
        nonlocal made
        if made is None:
            try:
                made = kernel.op()
            except LookupError:  # no snapshot has it, which one that is opened later may
                return kernel(*inputs)
        return made(*inputs)

    return call


def why(function: Callable[..., Any]) -> tuple[str, ...]:
    """Returns why calls of a function of this module ran PyTorch's own, a sentence each."""
    return tuple(note for kernel in _kernels.get(function.__name__, ()) for note in kernel.notes)


def rms_norm(x: Any, weight: Optional[Any] = None, eps: float = 1e-6) -> Any:
    """torch.nn.functional.rms_norm over the last axis: x / sqrt(mean(x^2) + eps) * weight.

    x       [..., cols]
    weight  [cols]; without one PyTorch's own runs
    """
    if weight is None or weight.dtype != x.dtype or x.dim() < 2:
        return F.rms_norm(x, x.shape[-1:], weight, eps)
    return _rms_norm.call((eps,), x, weight)


@_once
def _rms_norm(eps: float) -> TunedKernel:
    def fallback(x: Any, *rest: Any, epsilon: float) -> Any:  # a residual, if a snapshot tells of it, and the weight
        weight = rest[-1]
        return F.rms_norm(x, weight.shape, weight, epsilon)

    return _made("rms_norm", TunedKernel("rmsnorm", fallback, None, {}, {"epsilon": eps}, "y"))


def layer_norm(x: Any, weight: Optional[Any] = None, bias: Optional[Any] = None, eps: float = 1e-5) -> Any:
    """torch.nn.functional.layer_norm over the last axis: (x - mean) / sqrt(var + eps) * weight + bias.

    x             [..., cols]
    weight, bias  [cols]; without both PyTorch's own runs
    """
    if weight is None or bias is None or weight.dtype != x.dtype or bias.dtype != x.dtype or x.dim() < 2:
        return F.layer_norm(x, x.shape[-1:], weight, bias, eps)
    return _layer_norm.call((eps,), x, weight, bias)


@_once
def _layer_norm(eps: float) -> TunedKernel:
    def fallback(x: Any, *rest: Any, epsilon: float) -> Any:
        weight, bias = rest[-2:]
        return F.layer_norm(x, weight.shape, weight, bias, epsilon)

    return _made("layer_norm", TunedKernel("layernorm", fallback, None, {}, {"epsilon": eps}, "y"))


def softmax(x: Any, dim: int = -1) -> Any:
    """torch.softmax over the last axis; over another, PyTorch's own."""
    if dim not in (-1, x.dim() - 1) or x.dim() < 2:
        return torch.softmax(x, dim)
    return _softmax.call((), x)


@_once
def _softmax() -> TunedKernel:
    return _made("softmax", TunedKernel("softmax", lambda x: torch.softmax(x, -1), None, {}))


def swiglu(gate: Any, up: Any) -> Any:
    """silu(gate) * up, of arrays of one shape."""
    return _swiglu.call((), gate, up) if gate.dim() > 1 and gate.shape == up.shape else F.silu(gate) * up


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
    _check_reduction(reduction)
    targets = _ignoring(targets, ignore_index)
    rows = logits.reshape(-1, logits.shape[-1])
    losses = _cross_entropy(label_smoothing)(rows, targets.reshape(-1)).view(targets.shape)
    if reduction == "none":
        return losses
    total = losses.sum()
    return total if reduction == "sum" else total / (targets != _IGNORED).sum()


def _check_reduction(reduction: str) -> None:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction={reduction!r} is none of 'mean', 'sum' and 'none'")


def _ignoring(targets: Any, index: int) -> Any:
    """Targets whose ignored ones are those that the kernel leaves out."""
    return targets if index == _IGNORED else torch.where(targets == index, _IGNORED, targets)


@_once
def _cross_entropy(smoothing: float) -> TunedKernel:
    """The losses of rows. Their gradient is one more pass over the logits, so nothing of their size is kept."""
    scalars = {"smoothing": smoothing}
    backward = _by_operator(_made("cross_entropy", TunedKernel(
        "cross_entropy", _slopes_of_logits, None, {"gradient": 1}, scalars, "dlogits")))

    def gradient(inputs: Any, outputs: Any, slopes: Any, scalars: Any) -> Any:
        logits, targets, _ = inputs
        return backward(logits, targets, slopes[0].float().contiguous()), None, None

    return _made("cross_entropy", TunedKernel(
        "cross_entropy", _losses_of_logits, gradient, {"gradient": 0}, scalars, "loss"))


def _losses_of_logits(logits: Any, targets: Any, smoothing: float) -> Any:
    return F.cross_entropy(logits.float(), targets, reduction="none", label_smoothing=smoothing, ignore_index=_IGNORED)


def _slopes_of_logits(logits: Any, targets: Any, slopes: Any, smoothing: float) -> Any:
    """The gradient of logits by that of the losses, in operations that can be differentiated again."""
    kept = targets != _IGNORED
    hits = torch.where(kept, targets, 0)[:, None]
    found = torch.softmax(logits, -1, dtype=torch.float32) - smoothing / logits.shape[-1]
    found = found.scatter_add(-1, hits, found.new_full(hits.shape, smoothing - 1))
    return (found * torch.where(kept, slopes, 0)[:, None]).to(logits.dtype)


def linear_cross_entropy(input: Any, linear_weight: Any, target: Any, *, linear_bias: Optional[Any] = None,
                         weight: Optional[Any] = None, reduction: str = "mean", ignore_index: Optional[int] = None,
                         label_smoothing: float = 0.0, chunk: int = 0) -> Any:
    """torch.nn.functional.linear_cross_entropy: cross_entropy(linear(input, linear_weight, linear_bias), target).

    input          [..., in_features]
    linear_weight  [classes, in_features]
    target         [...], int64, as cross_entropy has it
    linear_bias    [classes]
    weight         [classes]; with it, and with probabilities as targets, all logits exist, by PyTorch's operations
    ignore_index   a target that is left out; None: -100
    chunk          rows whose logits exist at a time; 0: chosen by the sizes, at least 1024

    The loss is f32. Chunks launch cross_entropy of `chunk` rows with gradient=1, without gradients with gradient=0.
    Gradients of logits are worked out in the forward pass unless the reduction is "none" or the dtype f16.
    """
    _check_reduction(reduction)
    if chunk < 0:
        raise ValueError(f"chunk={chunk} is no number of rows")
    if torch.is_autocast_enabled(input.device.type) and input.dtype != torch.float64:
        dtype = torch.get_autocast_dtype(input.device.type)
        input, linear_weight = input.to(dtype), linear_weight.to(dtype)
        linear_bias = None if linear_bias is None else linear_bias.to(dtype)
    ignore_index = _IGNORED if ignore_index is None else ignore_index
    if _has_whole_logits(input, linear_weight, target, linear_bias, weight):
        logits = F.linear(input, linear_weight, linear_bias)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        classes = logits.shape[-1]
        targets = target.reshape(-1, classes) if target.is_floating_point() else target.reshape(-1)
        losses = F.cross_entropy(logits.reshape(-1, classes), targets, weight, ignore_index=ignore_index,
                                 reduction=reduction, label_smoothing=label_smoothing)
        return losses.view(logits.shape[:-1]) if reduction == "none" else losses
    target = _ignoring(target, ignore_index)
    rows, targets, slopes = input.reshape(-1, input.shape[-1]), target.reshape(-1), None
    if reduction != "none":
        slopes = torch.ones_like(targets, dtype=torch.float32)
        if reduction == "mean":
            slopes = slopes / (targets != _IGNORED).sum()
    made = _chunked_losses(rows, linear_weight, linear_bias, targets, slopes, label_smoothing, chunk)
    return made.view(target.shape) if reduction == "none" else made


def _has_whole_logits(x: Any, weight: Any, targets: Any, bias: Optional[Any], class_weight: Optional[Any]) -> bool:
    """Whether a call is none that chunks can serve."""
    given = [one for one in (x, weight, bias) if one is not None]
    if (class_weight is not None or targets.dtype != torch.int64 or x.dim() == 0 or x.numel() == 0 or weight.dim() != 2
            or x.shape[:-1] != targets.shape or x.dtype not in (torch.float32, torch.bfloat16, torch.float16)
            or any([one.dtype != x.dtype or one.device != x.device for one in given]) or targets.device != x.device):
        return True
    if torch.compiler.is_dynamo_compiling():
        return False
    why = _followed.why_not_ours(torch, [*given, targets], False)
    if why:
        _chunk_losses(0.0, 0)._note(f"{why}; all logits exist at a time")
    return bool(why)


@_once
def _chunk_losses(smoothing: float, gradient: int) -> TunedKernel:
    def both(logits: Any, targets: Any, slopes: Any, smoothing: float) -> Any:
        return _losses_of_logits(logits, targets, smoothing), _slopes_of_logits(logits, targets, slopes, smoothing)

    fallback, returns = (both, ("loss", "dlogits")) if gradient else (_losses_of_logits, "loss")
    return _made("linear_cross_entropy", TunedKernel(
        "cross_entropy", fallback, None, {"gradient": gradient}, {"smoothing": smoothing}, returns))


def _losses_of_chunk(logits: Any, targets: Any, slopes: Optional[Any], smoothing: float) -> Any:
    if slopes is None:
        return _chunk_losses(smoothing, 0)(logits, targets)
    return _chunk_losses(smoothing, 1)(logits, targets, slopes)


_chunked_losses = _linear_loss.define(_losses_of_chunk)


def attention(q: Any, k: Any, v: Any, *, causal: Union[bool, str] = False, scale: Optional[float] = None,
              window: int = 0, softcap: float = 0.0, sinks: Optional[Any] = None, starts: Optional[Any] = None) -> Any:
    """torch.nn.functional.scaled_dot_product_attention without a mask or dropout, and what models have beside it.

    q        [batch, heads, seq, head_dim]
    k, v     [batch, kv_heads, keys, head_dim]; each of their heads serves heads / kv_heads of q's
    causal   True: row i sees the keys up to i. "lower_right": the last row sees all keys, the one before it all but one
    scale    of the scores before the softmax; by default head_dim ** -0.5
    window   the most keys that a causal row sees, its own and those before it; 0: all of them
    softcap  scores are softcap * tanh(score / softcap); 0: they are not capped
    sinks    [heads], f32: scores that take their part of the weights and have no value
    starts   [sequences + 1], i32: where the sequences begin that are packed along seq, and their sum; batch is 1

    Any strides that have the last axis in one piece.
    """
    if causal not in (True, False, "lower_right"):
        raise ValueError(f"causal={causal!r} is none of True, False and 'lower_right'")
    if window < 0 or window and not causal:
        raise ValueError(f"window={window} is no number of keys that a causal row sees")
    # The kernel's causal mask ends at the last key, and PyTorch's begins at the first.
    shape = q.shape
    if len(shape) != 4 or causal and k.shape[-2] != shape[-2] and (causal is True or k.shape[-2] < shape[-2]):
        return _plain_attention(q, k, v, sinks, starts, causal, scale, window, softcap)
    key = (causal, scale, window, softcap, sinks is not None)
    if starts is not None:
        return _attention(*key)(q, k, v, sinks, starts, sequences=starts.shape[0] - 1)
    return _attention.call(key, q, k, v) if sinks is None else _attention(*key)(q, k, v, sinks)


@_once
def _attention(causal: Union[bool, str], scale: Optional[float], window: int, softcap: float, has_sinks: bool) -> TunedKernel:
    given_scale = scale

    def fallback(q: Any, k: Any, v: Any, sinks: Any = None, starts: Any = None, *, scale: Optional[float] = given_scale,
                 cap: float = 0.0) -> Any:
        return _plain_attention(q, k, v, sinks, starts, causal, scale, window, softcap)

    scalars = {**({} if scale is None else {"scale": scale}), **({"cap": softcap} if softcap else {})}
    modes = {"causal": int(bool(causal)), "window": window, "softcap": int(softcap != 0), "sinks": int(has_sinks)}
    return _made("attention", TunedKernel("attention", fallback, None, modes, scalars, "out"))


def _plain_attention(q: Any, k: Any, v: Any, sinks: Optional[Any], starts: Optional[Any], causal: Union[bool, str],
                     scale: Optional[float], window: int, softcap: float) -> Any:
    """Attention by PyTorch's operations."""
    is_plain = not window and starts is None and (causal != "lower_right" or k.shape[-2] == q.shape[-2])
    visible = None if is_plain else _visible(q, k, starts, causal, window)
    if not softcap and sinks is None:
        grouped = {"enable_gqa": True} if q.shape[-3:-2] != k.shape[-3:-2] else {}
        return F.scaled_dot_product_attention(q, k, v, visible, is_causal=is_plain and bool(causal), scale=scale, **grouped)
    if visible is None and causal:
        visible = _visible(q, k, None, causal, 0)
    each = q.shape[-3] // k.shape[-3]
    scores = q.float() @ k.float().repeat_interleave(each, -3).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    if sinks is not None:
        column = sinks.float()[:, None, None].expand(*scores.shape[:-1], 1)
        scores = torch.cat((scores, column), -1)
    weights = scores.softmax(-1)[..., :k.shape[-2]]
    return (weights @ v.float().repeat_interleave(each, -3)).to(q.dtype)


def _visible(q: Any, k: Any, starts: Optional[Any], causal: Union[bool, str], window: int) -> Any:
    """[seq, keys]: whether a row sees a key."""
    rows = torch.arange(q.shape[-2], device=q.device)[:, None]
    keys = torch.arange(k.shape[-2], device=q.device)[None]
    visible = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
    if starts is not None:
        visible &= torch.bucketize(rows, starts, right=True) == torch.bucketize(keys, starts, right=True)
    if causal:
        last = rows + (k.shape[-2] - q.shape[-2] if causal == "lower_right" else 0)
        visible &= keys <= last
        if window:
            visible &= keys > last - window
    return visible


def rope(q: Any, k: Any, cos: Any, sin: Any, *, interleaved: bool = False) -> tuple[Any, Any]:
    """Rotary embeddings of queries and keys: each pair of elements is turned by its position's angle.

    q, k         [seq, batch, heads, head_dim] and [seq, batch, kv_heads, head_dim]
    cos, sin     [seq, head_dim / 2], f32
    interleaved  pairs are neighbours; by default element i and element i + head_dim / 2
    """
    return _rope.call((bool(interleaved),), q, k, cos, sin)  # type: ignore[no-any-return]


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

    return _made("rope", TunedKernel("rope", fallback, None, {"interleaved": int(interleaved)}))


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
    made = _linear(activation, bias is not None)(rows, weight, bias)
    return made.view(*x.shape[:-1], weight.shape[0])


@_once
def _linear(activation: Optional[str], has_bias: bool) -> TunedKernel:
    finish = _ACTIVATIONS[activation]

    def fallback(a: Any, b: Any, bias: Any = None, *, alpha: float) -> Any:
        return finish(F.linear(a, b, bias))

    def product(name: str, own: Callable[[Any, Any], Any], **modes: int) -> Callable[[Any, Any], Any]:
        return _by_operator(_made("linear", TunedKernel(
            "gemm", lambda a, b, *, alpha: own(a, b), None, modes, {"alpha": 1.0})))

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

    dims = {"epilogue": _EPILOGUES[activation] if has_bias else 0, "transpose_a": 0, "transpose_b": 1}
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
        if all(one.is_contiguous() for one in arrays):
            p, g, m, v = [one.view(-1) for one in arrays]
            _adamw()(p, g, m, v, scalars=scalars)
        else:  # the kernel takes arrays in one piece
            p, g, m, v = arrays
            _step(p, None, g, m, v, **scalars)


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
    return _made("AdamW", TunedKernel("adamw", _step, None, {}))
