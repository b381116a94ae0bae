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

_OPS = ("attention", "rope", "rms_norm", "swiglu", "cross_entropy", "linear_cross_entropy")  # in the order of a report
_EPSILONS = "variance_epsilon", "eps", "epsilon"  # the names that norms have for it
_PARTS = "gate_proj", "up_proj", "down_proj"  # of an MLP
_SHORT = torch.bfloat16, torch.float16
_ROTATE, _INTERFACES = "apply_rotary_pos_emb", "ALL_ATTENTION_FUNCTIONS"  # global names of an attention's module
_MASK, _WINDOW_MASK = "create_causal_mask", "create_sliding_window_causal_mask"  # and of a decoder's
_MASKING = "attention_mask", "position_ids", "cache", "past_key_values", "cache_position"  # what a decoder's masks depend on
_HEAD = "_tunectl_head"  # the method that a patched model calls in the place of its last layer


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


def patch(model: Any, skip_logits: bool) -> Any:
    """See tunectl.patch."""
    loss_owners = _loss_owners(model)
    chosen = [(module, new) for module in model.modules() if isinstance(new := _choose(module), type)]
    if skip_logits:
        chosen += [(owner, new) for owner in loss_owners if (new := _choose_model(owner)) is not None]
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
            if _own_class(module) is None:
                left[f"{type(module).__name__}: its logits exist in training: it changes them before the loss, or "
                     "skip_logits=False"] += 1
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
    elif _MASK in _names_of(own.forward):
        by_op = _attend_by_op(module)
        new, reason = _decoder(own, all(by_op)) if any(by_op) else None, ""
    else:
        return None
    if new is not None and "forward" in vars(module):
        return "something else has replaced its forward"
    return new or reason


def _subclass(made_by: tuple[Any, ...], forward: Callable[..., Any],
              runs: Callable[[Any], tuple[tuple[str, ...], str]], **more: Any) -> Any:
    """A layer's class with another forward. Its class methods that make models make them of the own class.

    made_by  the function of this module that returns the class, and its arguments: the layer's class, and others
    runs     of a layer: the ops that it runs as it is now, and why not others
    more     attributes of the class
    """
    own = made_by[1]
    makers = {name: getattr(own, name) for name in ("from_pretrained", "_from_config") if hasattr(own, name)}

    def __reduce_ex__(self: Any, protocol: Any) -> tuple[Any, ...]:
        return _remade, made_by, *own.__reduce_ex__(self, max(2, protocol))[2:]

    return type(own)(own.__name__, (own,), {
        "forward": forward, "__reduce_ex__": __reduce_ex__, "__doc__": own.__doc__, "__module__": own.__module__,
        "__qualname__": own.__qualname__, "_tunectl_own": own, "_tunectl_runs": staticmethod(runs), **makers, **more})


def _remade(made_by: Callable[..., Any], own: Any, *rest: Any) -> Any:
    """A patched layer of a pickle or a copy, which gets its state next."""
    new = made_by(own, *rest) or own
    return new.__new__(new)


@functools.lru_cache(maxsize=None)
def _norm(own: Any, epsilon: str, offset: int) -> Any:
    """epsilon  the attribute; offset  what is added to the weight"""
    def forward(self: Any, *given: Any, **named: Any) -> Any:
        weight = self.weight
        if named or given[0].dtype != weight.dtype:
            return own.forward(self, *given, **named)
        if not offset:
            return ops.rms_norm(given[0], weight, getattr(self, epsilon))
        # Like these models' own code in float32: the sum would be rounded.
        return ops.rms_norm(given[0].float(), weight.float() + offset, getattr(self, epsilon)).to(weight.dtype)

    return _subclass((_norm, own, epsilon, offset), forward, lambda module: (("rms_norm",), ""))


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


def _with_globals(function: Any, others: Mapping[str, Any], renamed: Mapping[str, str] = types.MappingProxyType({})) -> Any:
    """A copy of a function, and of the functions that it wraps, to which some global names mean something else, and in
    which some names are others."""
    known, closure, code = function.__globals__, function.__closure__, function.__code__
    if not others.keys().isdisjoint(code.co_names):
        known = {**known, **others}
        del known["__name__"]  # by which torch.compile would find the globals of the module
    if not renamed.keys().isdisjoint(code.co_names):
        code = code.replace(co_names=tuple([renamed.get(name, name) for name in code.co_names]))
    wrapped = getattr(function, "__wrapped__", None)
    inner = _with_globals(wrapped, others, renamed) if isinstance(wrapped, types.FunctionType) else None
    if inner is not None and closure:
        closure = tuple(types.CellType(inner) if cell.cell_contents is wrapped else cell for cell in closure)
    made = types.FunctionType(code, known, function.__name__, function.__defaults__, closure)
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
    is_causal, scale, window = named.get("is_causal"), named.get("scaling"), 0
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    if isinstance(attention_mask, _Window):
        window = attention_mask.size if attention_mask.size < key.shape[2] else 0
    if (attention_mask is not None and not (isinstance(attention_mask, _Window) and is_causal) or named.get("dropout")
            or any([_is_given(named.get(name)) for name in unknown])
            or query.shape[2] != key.shape[2] or query.shape[2] == 1 or query.shape[3] != value.shape[3]):
        if isinstance(attention_mask, _Window):
            attention_mask = attention_mask.mask()
        return own(module, query, key, value, attention_mask, **named)
    if scale == query.shape[3] ** -0.5:  # the default, of which there is a backward kernel
        scale = None
    if torch.is_autocast_enabled(query.device.type):
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    out = ops.attention(query, key, value, causal=bool(is_causal), scale=scale, window=window)
    return out.transpose(1, 2).contiguous(), None


class _Window:
    """In the place of a mask: causal attention in which a row sees `size` keys. A layer that needs the mask makes it."""

    def __init__(self, size: int, make: Callable[[], Any]) -> None:
        self.size, self._make = size, make
        self._made: Any = None

    def mask(self) -> Any:
        if self._made is None:
            self._made = self._make()
        return self._made


def _is_causal_alone(named: Mapping[str, Any]) -> bool:
    """Whether a call of a function that makes masks is of attention by sdpa, and no cache has keys yet."""
    config, caches = named["config"], [named[name] for name in ("cache", "past_key_values") if named.get(name) is not None]
    dynamic: Any = getattr(sys.modules.get("transformers.cache_utils"), "DynamicCache", ())
    return (config._attn_implementation == "sdpa" and getattr(config, "is_causal", True)
            and all([type(one) is dynamic and one.get_seq_length() == 0 for one in caches]))


def _causal_mask(own: Any, *given: Any, **named: Any) -> Any:
    """create_causal_mask of transformers, of a decoder that was called without anything that masks: it finds that out by
    the positions, for which it waits for the GPU, and makes the mask under torch.compile."""
    known = {"config", "inputs_embeds", "input_embeds", *_MASKING}
    return None if not given and named.keys() <= known and _is_causal_alone(named) else own(*given, **named)


def _window_mask(own: Any, full: Any, *given: Any, **named: Any) -> Any:
    """create_sliding_window_causal_mask of transformers. Whether nothing but the window masks is what `full`, its
    create_causal_mask, finds out: it then gives no mask."""
    if given or not _is_causal_alone(named) or full(**named) is not None:
        return own(*given, **named)
    # A cache that is empty now is not when a layer makes the mask.
    caches = [name for name in ("cache", "past_key_values") if named.get(name) is not None]
    return _Window(named["config"].sliding_window, functools.partial(own, **{**named, **dict.fromkeys(caches)}))


@functools.lru_cache(maxsize=None)
def _decoder(own: Any, knows_windows: bool) -> Any:
    """A class whose forward makes no mask that attention by the op has no need of."""
    known, names = inspect.unwrap(own.forward).__globals__, _names_of(own.forward)

    def forward_with(full: Any, others: Mapping[str, Any]) -> Any:
        if knows_windows and _WINDOW_MASK in names:
            others = {**others, _WINDOW_MASK: functools.partial(_window_mask, known[_WINDOW_MASK], full)}
        return _with_globals(own.forward, others) if others else own.forward

    full = functools.partial(_causal_mask, known[_MASK])
    masked, plain = forward_with(known[_MASK], {}), forward_with(full, {_MASK: full})
    order = list(inspect.signature(own.forward).parameters)[1:]

    @functools.wraps(own.forward)
    def forward(self: Any, *given: Any, **named: Any) -> Any:
        for name, one in [*zip(order, given), *named.items()]:
            if name in _MASKING and one is not None:
                return masked(self, *given, **named)
        return plain(self, *given, **named)

    return _subclass((_decoder, own, knows_windows), forward, lambda module: ((), ""))


def _attend_by_op(decoder: Any) -> list[bool]:
    """Of each attention of a decoder whether it knows a _Window."""
    layers = [one for one in decoder.modules() if _own_class(one) or _INTERFACES in _names_of(type(one).forward)]
    chosen = [_own_class(one) and type(one) or _choose(one) for one in layers if one is not decoder]
    return [isinstance(one, type) for one in chosen]


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
    made = turn(*tokens, *_angles_of_tokens(cos, sin, batch))
    return tuple([one.view(batch, seq, one.shape[2], width).transpose(1, 2) for one in made])


def _angles_of_tokens(cos: Any, sin: Any, batch: int) -> Any:
    """Both as the kernel takes them. All layers of a step share them: they are kept at `cos`, with what they are of."""
    if torch.compiler.is_compiling() or type(cos) is not torch.Tensor or cos.is_inference() or sin.is_inference():
        return [_of_tokens(one, batch) for one in (cos, sin)]
    facts = sin, cos._version, sin._version, batch
    kept = getattr(cos, "_tunectl_angles", None)
    if kept is None or kept[0] is not sin or kept[1:4] != facts[1:]:
        kept = cos._tunectl_angles = (*facts, [_of_tokens(one, batch) for one in (cos, sin)])
    return kept[4]


def _of_tokens(one: Any, batch: int) -> Any:
    seq, half = one.shape[1], one.shape[2] // 2
    return one[..., :half].float().expand(batch, seq, half).reshape(batch * seq, half).contiguous()


class _Logits:
    """In the place of a model's logits: its last layer and the layer's input. It has no arithmetic, so a model that goes
    on with its logits raises."""

    def __init__(self, hidden: Any, head: Any) -> None:
        self.hidden, self.head, self.device = hidden, head, hidden.device


def causal_lm_loss(logits: Any, labels: Any, vocab_size: int, num_items_in_batch: Any = None, ignore_index: int = -100,
                   shift_labels: Any = None, **_: Any) -> Any:
    """ForCausalLMLoss of transformers: the cross entropy of each token's logits and the next token."""
    if shift_labels is None:
        shift_labels = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    targets = shift_labels.reshape(-1).to(logits.device)
    if isinstance(logits, _Logits) and logits.head.out_features == vocab_size:
        hidden, head = logits.hidden, logits.head
        rows = hidden.reshape(-1, hidden.shape[-1])
        loss = functools.partial(ops.linear_cross_entropy, rows, head.weight, targets, linear_bias=head.bias)
    else:
        made = logits.head(logits.hidden) if isinstance(logits, _Logits) else logits
        loss = functools.partial(ops.cross_entropy, made.view(-1, vocab_size), targets)
    if num_items_in_batch is None:
        return loss(ignore_index=ignore_index)
    if torch.is_tensor(num_items_in_batch):
        num_items_in_batch = num_items_in_batch.to(logits.device)
    return loss(ignore_index=ignore_index, reduction="sum") / num_items_in_batch


def _choose_model(model: Any) -> Any:
    """The class of a model whose loss needs no logits; None: it keeps its own."""
    head = model.get_output_embeddings()
    name = next((name for name, one in model.named_children() if one is head), "")
    own: Any = type(model)
    if "forward" in vars(model) or _own_class(model) or name not in _names_of(own.forward):
        return None
    new = _causal_lm(own, name)
    return new if _gives_its_head_to_its_loss(new, model) else None


def _can_skip(head: Any) -> bool:
    """Whether a last layer is its weight and bias alone: no adapter, hook, quantized or distributed weight."""
    return (type(head) is torch.nn.Linear and type(head.weight) in (torch.nn.Parameter, torch.Tensor)
            and not head._forward_hooks and not head._forward_pre_hooks and not head._backward_hooks
            and not head._backward_pre_hooks and "forward" not in head.__dict__)


@functools.lru_cache(maxsize=None)
def _causal_lm(own: Any, name: str) -> Any:
    """A class whose forward makes no logits in training with labels. name: of the last layer"""
    without_logits = _with_globals(own.forward, {}, {name: _HEAD})

    @functools.wraps(own.forward)
    def forward(self: Any, *given: Any, skip_logits: Optional[bool] = None, **named: Any) -> Any:
        is_skipped = self.training if skip_logits is None else skip_logits
        if (not is_skipped or named.get("labels") is None or not _can_skip(getattr(self, name))
                or self.loss_function is not causal_lm_loss):
            return own.forward(self, *given, **named)
        made = without_logits(self, *given, **named)
        if isinstance(made, tuple):
            return tuple([one for one in made if not isinstance(one, _Logits)])
        return type(made)(**{key: one for key, one in made.items() if not isinstance(one, _Logits)})

    def runs(module: Any) -> tuple[tuple[str, ...], str]:
        can = _can_skip(getattr(module, name)) and module.loss_function is causal_lm_loss
        return (("linear_cross_entropy",), "") if can else ((), f"{name} is more than a linear layer, or its loss another")

    return _subclass((_causal_lm, own, name), forward, runs,
                     _tunectl_trial=without_logits, **{_HEAD: lambda self, hidden: _Logits(hidden, getattr(self, name))})


# Trials of layers on small arrays.

class _Outputs:
    """Outputs of a model without its last layer."""

    def __init__(self, hidden: Any) -> None:
        self.last_hidden_state = hidden

    def __getattr__(self, name: str) -> None:
        return None

    def __getitem__(self, index: int) -> Any:
        return self.last_hidden_state if index == 0 else None


def _gives_its_head_to_its_loss(new: Any, model: Any) -> bool:
    """Whether the forward of a class that `_causal_lm` made uses the logits for loss and result alone."""
    seen: list[Any] = []
    hidden, labels = _ramp(1, 2, 4), torch.zeros(1, 2, dtype=torch.long)
    other = new.__new__(new)
    stand_in = {name: lambda *_, **__: _Outputs(hidden) for name in (model.base_model_prefix,)}

    def loss(logits: Any, **_: Any) -> Any:
        seen.append(logits)
        return hidden.sum()

    vars(other).update(vars(model), _modules={**vars(model)["_modules"], **stand_in}, _loss_function=loss)
    try:
        made = new._tunectl_trial(other, input_ids=labels, labels=labels, return_dict=True)
        return len(seen) == 1 and isinstance(seen[0], _Logits) and made.logits is seen[0] and torch.equal(seen[0].hidden, hidden)
    except Exception:  # code that is not known may raise anything
        return False


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
