# SPDX-License-Identifier: Apache-2.0
"""tunectl.patch: layers of a model of `transformers` run by tunectl.ops.

A layer that an op can run gets a class of its own, made from its class: the same parameters, hooks, name and
`isinstance`, another `forward`. No class, config or global name of transformers changes, so other models do not either,
and `unpatch` only has to give the classes back. A copy or a pickle of a patched model is patched.

Whether an op computes what a layer does is tried on small arrays, not read off its name: a norm that multiplies by
1 + weight, a gate that is not silu, a release of transformers that computes something else. Whatever the op cannot do
in a call (a mask, dropout, a window that masks, a cache that is longer than the queries) runs the layer's own code.
"""
from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, Optional, Union

import torch
import torch.nn.functional as F

from . import ops
from ._callable import TunedKernel

_OPS = ("attention", "rope", "rms_norm", "swiglu", "cross_entropy")  # in the order of a report
_EPSILONS = "variance_epsilon", "eps", "epsilon"  # the names that norms have for it
_PARTS = "gate_proj", "up_proj", "down_proj"  # of an MLP
_SHORT = torch.bfloat16, torch.float16
_ROTATE, _INTERFACES = "apply_rotary_pos_emb", "ALL_ATTENTION_FUNCTIONS"  # global names of an attention's module


@dataclasses.dataclass(frozen=True)
class Patched:
    """Which layers of a model tunectl.ops run.

    layers  their number by op
    left    why others keep their own code, a sentence a kind
    notes   why calls of those ops in this process ran PyTorch's own functions, as ops.why
    """

    layers: Mapping[str, int]
    left: tuple[str, ...]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        lines = [f"{name}: {count}" for name, count in self.layers.items()] or ["no layers are patched"]
        lines += [f"left: {reason}" for reason in self.left]
        return "\n".join([*lines, *[f"{len(self.notes)} notes on calls that ran PyTorch's own"] * bool(self.notes)])


def patch(model: Any) -> Any:
    """See tunectl.patch."""
    loss_owners = _loss_owners(model)
    chosen = [(module, new) for module in model.modules() if isinstance(new := _choose(module), type)]
    is_patched = any(_own_class(module) for module in model.modules())
    if not chosen and not loss_owners and not is_patched:
        left = "".join(f"\n  {reason}" for reason in patched(model).left)
        raise ValueError(f"{type(model).__name__} has no layer that tunectl.ops can run{':' if left else ''}{left}")
    for module, new in chosen:
        module.__class__ = new
    for owner in loss_owners:
        owner._loss_function = causal_lm_loss
    return model


def unpatch(model: Any) -> Any:
    """See tunectl.unpatch."""
    _check_is_model(model)
    for module in model.modules():
        own = _own_class(module)
        if own is not None:
            module.__class__ = own
        if vars(module).get("_loss_function") is causal_lm_loss:
            del module._loss_function
    return model


def patched(model: Any) -> Patched:
    """See tunectl.patched."""
    _check_is_model(model)
    counts: collections.Counter[str] = collections.Counter()
    left: collections.Counter[str] = collections.Counter()
    for module in model.modules():
        if vars(module).get("_loss_function") is causal_lm_loss:
            counts["cross_entropy"] += 1
        running: tuple[str, ...] = ()
        if _own_class(module) is not None:
            running, reason = type(module)._tunectl_runs(module)
        else:
            reason = _choose(module)
        counts.update(running)
        if reason and isinstance(reason, str):
            left[f"{type(module).__name__}: {reason}"] += 1
    layers = {name: counts[name] for name in _OPS if counts[name]}
    notes = [f"{name}: {note}" for name in layers for note in ops.why(getattr(ops, name))]
    return Patched(layers, tuple(f"{count} {reason}" for reason, count in left.items()), tuple(notes))


def _check_is_model(model: Any) -> Any:
    """Returns PreTrainedModel. A module that holds a model, as those of peft do, is as good."""
    kind: Any = getattr(sys.modules.get("transformers.modeling_utils"), "PreTrainedModel", None)
    modules = model.modules() if isinstance(model, torch.nn.Module) and kind is not None else ()
    if not any(isinstance(one, kind) for one in modules):
        raise TypeError(f"{type(model).__name__} is no model of transformers: give one, such as "
                        "AutoModelForCausalLM.from_pretrained(...) returns")
    return kind


def _own_class(module: Any) -> Any:
    """The class that a patched layer had; None: the layer is not patched."""
    return vars(type(module)).get("_tunectl_own")


def _loss_owners(model: Any) -> list[Any]:
    """The models whose loss is the cross entropy of the next token, not yet by the op."""
    kind = _check_is_model(model)
    losses = getattr(sys.modules.get("transformers.loss.loss_utils"), "LOSS_MAPPING", {})
    wanted = losses.get("ForCausalLM")
    return [one for one in model.modules() if isinstance(one, kind) and "_loss_function" not in vars(one)
            and "loss_function" in _names_of(type(one).forward)
            and wanted is not None and losses.get(getattr(one, "loss_type", None)) is wanted]


def _choose(module: Any) -> Union[type, str, None]:
    """The class that a layer gets, or why it keeps its own. None: no op could be meant, or it has that class."""
    if _own_class(module) is not None:
        return None
    own: Any = type(module)
    parameters = dict(module.named_parameters(recurse=False))
    epsilon = next((name for name in _EPSILONS if isinstance(getattr(module, name, None), float)), None)
    new: Any
    if epsilon is not None and list(parameters) == ["weight"] and parameters["weight"].dim() == 1:
        offset = _offset_of(module, epsilon)
        new, reason = None if offset is None else _norm(own, epsilon, offset), "it is no RMS norm"
    elif all(callable(getattr(module, name, None)) for name in _PARTS):
        new, reason = _mlp(own) if _is_swiglu(module) else None, "it is no silu(gate) * up"
    elif {_ROTATE, _INTERFACES} & _names_of(own.forward):
        new, reason = _attention(own), "its attention is not by transformers' interface"
    else:
        return None
    if new is not None and "forward" in vars(module):
        return "something else has replaced its forward"
    return new or reason


def _subclass(made_by: tuple[Any, ...], forward: Callable[..., Any],
              runs: Callable[[Any], tuple[tuple[str, ...], str]]) -> Any:
    """A layer's class with another forward.

    made_by  the function of this module that returns the class, and its arguments: the layer's class, and others
    runs     of a layer: the ops that it runs as it is now, and why not others
    """
    own = made_by[1]

    def __reduce_ex__(self: Any, protocol: Any) -> tuple[Any, ...]:
        return _remade, made_by, *own.__reduce_ex__(self, max(2, protocol))[2:]

    return type(own)(own.__name__, (own,), {
        "forward": forward, "__reduce_ex__": __reduce_ex__, "__doc__": own.__doc__, "__module__": own.__module__,
        "__qualname__": own.__qualname__, "_tunectl_own": own, "_tunectl_runs": staticmethod(runs)})


def _remade(made_by: Callable[..., Any], own: Any, *rest: Any) -> Any:
    """A patched layer of a pickle or a copy, which gets its state next."""
    new = made_by(own, *rest) or own
    return new.__new__(new)


@functools.lru_cache(maxsize=None)
def _norm(own: Any, epsilon: str, offset: int) -> Any:
    """epsilon  the attribute; offset  what is added to the weight"""
    def forward(self: Any, *given: Any, **named: Any) -> Any:
        weight = self.weight
        if named or given[0].dtype != weight.dtype or offset and weight.dtype in _SHORT:
            return own.forward(self, *given, **named)
        return ops.rms_norm(given[0], weight + offset if offset else weight, getattr(self, epsilon))

    def runs(module: Any) -> tuple[tuple[str, ...], str]:
        if offset and module.weight.dtype in _SHORT:
            return (), f"{offset} + weight would be rounded to {module.weight.dtype}"
        return ("rms_norm",), ""

    return _subclass((_norm, own, epsilon, offset), forward, runs)


@functools.lru_cache(maxsize=None)
def _mlp(own: Any) -> Any:
    def forward(self: Any, x: Any) -> Any:
        return self.down_proj(ops.swiglu(self.gate_proj(x), self.up_proj(x)))

    return _subclass((_mlp, own), forward, lambda module: (("swiglu",), ""))


@functools.lru_cache(maxsize=None)
def _attention(own: Any) -> Any:
    """A class whose forward is own's code with other functions under the global names that it calls."""
    names = _names_of(own.forward)
    known = inspect.unwrap(own.forward).__globals__
    others: dict[str, Any] = {}
    if _ROTATE in names and _is_rotation(known.get(_ROTATE)):
        others[_ROTATE] = functools.partial(_rotated, known[_ROTATE])
    if _INTERFACES in names and "sdpa" in known.get(_INTERFACES, ()):
        others[_INTERFACES] = _Interfaces(known[_INTERFACES])
    if not others:
        return None
    can = tuple(op for op, name in (("attention", _INTERFACES), ("rope", _ROTATE)) if name in others)

    def runs(module: Any) -> tuple[tuple[str, ...], str]:
        setting = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if "attention" in can and setting != "sdpa":
            return can[1:], f"its attention is {setting!r}, see model.set_attn_implementation('sdpa')"
        missing = {"attention", "rope"} - set(can)
        return can, f"its {missing.pop()} is not as Llama's" if missing else ""

    return _subclass((_attention, own), _with_globals(own.forward, others), runs)


def _names_of(function: Any) -> set[str]:
    """The global names that a function uses, and those of the functions that it wraps."""
    if not isinstance(function, types.FunctionType):
        return set()
    return set(function.__code__.co_names) | _names_of(getattr(function, "__wrapped__", None))


def _with_globals(function: Any, others: Mapping[str, Any]) -> Any:
    """A copy of a function, and of the functions that it wraps, to which some global names mean something else."""
    known, closure = function.__globals__, function.__closure__
    if not others.keys().isdisjoint(function.__code__.co_names):
        known = {**known, **others}
        del known["__name__"]  # by which torch.compile would find the globals of the module
    wrapped = getattr(function, "__wrapped__", None)
    inner = _with_globals(wrapped, others) if isinstance(wrapped, types.FunctionType) else None
    if inner is not None and closure:
        closure = tuple(types.CellType(inner) if cell.cell_contents is wrapped else cell for cell in closure)
    made = types.FunctionType(function.__code__, known, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__, made.__qualname__, made.__doc__ = function.__module__, function.__qualname__, function.__doc__
    made.__annotations__ = function.__annotations__
    vars(made).update(vars(function), **({"__wrapped__": inner} if inner is not None else {}))
    return made


class _Interfaces:
    """ALL_ATTENTION_FUNCTIONS of transformers with another function for "sdpa"."""

    def __init__(self, own: Any) -> None:
        self._own = own
        # Arguments that a later sdpa may have and ops.attention has not; these two it takes among its keywords.
        named = [name for name, one in inspect.signature(own["sdpa"]).parameters.items() if one.kind != one.VAR_KEYWORD]
        self._unknown = (*(set(named[5:]) - {"dropout", "scaling", "is_causal"}), "softcap", "output_attentions")

    def get_interface(self, name: str, default: Any) -> Any:
        return self._replaced(name, self._own.get_interface(name, default))

    def __getitem__(self, name: str) -> Any:  # before release 5
        return self._replaced(name, self._own[name])

    def _replaced(self, name: str, own: Any) -> Any:
        return functools.partial(_attended, own, self._unknown) if name == "sdpa" else own


def _is_given(value: Any) -> bool:
    return value is not None and value is not False


def _attended(own: Any, unknown: tuple[str, ...], module: Any, query: Any, key: Any, value: Any, attention_mask: Any,
              **named: Any) -> Any:
    """sdpa_attention_forward of transformers. Without a mask it is causal, or full, whatever window a layer has."""
    if (attention_mask is not None or named.get("dropout") or any([_is_given(named.get(name)) for name in unknown])
            or query.shape[2] != key.shape[2] or query.shape[2] == 1 or query.shape[3] != value.shape[3]):
        return own(module, query, key, value, attention_mask, **named)
    is_causal, scale = named.get("is_causal"), named.get("scaling")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if scale == query.shape[3] ** -0.5:  # the default, of which there is a backward kernel
        scale = None
    if torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    out = ops.attention(query, key, value, causal=bool(is_causal), scale=scale)
    return out.transpose(1, 2).contiguous(), None


def _turned(q: Any, k: Any, cos: Any, sin: Any) -> tuple[Any, Any]:
    """The rotary embedding as transformers computes it, of arrays as the kernel takes them."""
    cos, sin = (torch.cat((one, one), -1)[:, None, None].to(q.dtype) for one in (cos, sin))
    low_high = (one.chunk(2, -1) for one in (q, k))
    halves = [torch.cat((-high, low), -1) for low, high in low_high]
    return q * cos + halves[0] * sin, k * cos + halves[1] * sin


_ROPE = ops._made("rope", TunedKernel("rope", _turned, None, {"interleaved": 0, "backward": 0}))


def _rotated(own: Any, q: Any, k: Any, cos: Any, sin: Any, *rest: Any, turn: Any = _ROPE, **named: Any) -> Any:
    """apply_rotary_pos_emb of transformers, of q and k [batch, heads, seq, head_dim] that are views of
    [batch, seq, heads, head_dim]: to the kernel all tokens are one sequence, so that these views are in one piece."""
    if (rest or named or q.dim() != 4 or k.dim() != 4 or cos.dim() != 3 or cos.requires_grad
            or (q.shape[0], *q.shape[2:]) != (k.shape[0], *k.shape[2:]) or q.shape[2:] != cos.shape[1:]
            or cos.shape[0] not in (1, q.shape[0]) or cos.shape != sin.shape or q.shape[3] % 2
            or not q.dtype == k.dtype == cos.dtype == sin.dtype):
        return own(q, k, cos, sin, *rest, **named)
    batch, _, seq, width = q.shape
    tokens = [one.transpose(1, 2).reshape(batch * seq, 1, one.shape[1], width) for one in (q, k)]
    angles = [one[..., :width // 2].float().expand(batch, seq, width // 2).reshape(batch * seq, width // 2).contiguous()
              for one in (cos, sin)]
    made = turn(*tokens, *angles)
    return tuple([one.view(batch, seq, one.shape[2], width).transpose(1, 2) for one in made])


def causal_lm_loss(logits: Any, labels: Any, vocab_size: int, num_items_in_batch: Any = None, ignore_index: int = -100,
                   shift_labels: Any = None, **_: Any) -> Any:
    """ForCausalLMLoss of transformers: the cross entropy of each token's logits and the next token."""
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    targets = shift_labels.reshape(-1).to(logits.device)
    logits = logits.view(-1, vocab_size)
    if num_items_in_batch is None:
        return ops.cross_entropy(logits, targets, ignore_index=ignore_index)
    if torch.is_tensor(num_items_in_batch):
        num_items_in_batch = num_items_in_batch.to(logits.device)
    return ops.cross_entropy(logits, targets, ignore_index=ignore_index, reduction="sum") / num_items_in_batch


# Trials of layers on small arrays.

def _ramp(*shape: int, start: float = -1.0, end: float = 2.0) -> Any:
    count = functools.reduce(lambda a, b: a * b, shape)
    return torch.linspace(start, end, count, dtype=torch.float32, device="cpu").reshape(shape)


def _result(module: Any, x: Any, parameters: Mapping[str, Any], parts: Mapping[str, Any]) -> Any:
    """What the code of a layer makes of x with other parameters and parts. None: it needs more than these."""
    kind: Any = type(module)
    other = kind.__new__(kind)
    vars(other).update(vars(module), _parameters=dict(parameters), _modules={**vars(module)["_modules"], **parts})
    try:
        with torch.no_grad():
            return kind.forward(other, x)
    except Exception:  # code that is not known may raise anything
        return None


def _is_same(one: Any, other: Any) -> bool:
    return bool(torch.is_tensor(one) and one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-5))


def _offset_of(module: Any, epsilon: str) -> Optional[int]:
    """What an RMS norm adds to its weight. None: the module is none."""
    value = getattr(module, epsilon)
    x, weight = _ramp(2, 3, 4) * (value ** 0.5 or 1.0), _ramp(4, start=0.5)
    result = _result(module, x, {"weight": weight}, {})
    return next((offset for offset in (0, 1) if _is_same(result, F.rms_norm(x, (4,), weight + offset, value))), None)


def _is_swiglu(module: Any) -> bool:
    parts = dict(zip(_PARTS, (lambda x: 2 * x - 0.5, lambda x: x + 1, lambda x: 3 * x)))
    x = _ramp(2, 3, 4)
    return _is_same(_result(module, x, {}, parts), 3 * (F.silu(2 * x - 0.5) * (x + 1)))


def _is_rotation(function: Any) -> bool:
    q, k, angles = _ramp(2, 3, 5, 4), _ramp(2, 1, 5, 4), _ramp(2, 5, 2)
    cos, sin = (torch.cat((one, one), -1) for one in (angles.cos(), angles.sin()))
    try:
        results = function(q, k, cos, sin)
    except Exception:  # a function of that name may take anything
        return False
    return all(map(_is_same, results, _rotated(None, q, k, cos, sin, turn=_turned)))
