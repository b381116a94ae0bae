# SPDX-License-Identifier: Apache-2.0
"""An autotuned function under torch.compile, torch.export and triton_op.

PyTorch never launches the autotuner that it finds in traced code. It takes the configs, calls the function's
`early_config_prune` with the arguments of the traced call, and has Inductor compile and time what is left, in each
process anew. So the choice is made in an `early_config_prune` of ours: it applies the caller's pruning, and leaves
one config if the key has a record, or if this process must choose as others do.

Dynamo does not run that function but traces it, with symbols for tensors and sizes. The parts that it must not
trace are run while it traces: `comptime` reads a symbol's dtype or likely value, and a function marked by
`assume_constant_result` returns the choice. Neither installs a guard: a graph keeps its config when a record
appears later, and is not compiled again for each size. Called plainly, as by `wrap_triton`, it needs neither.
"""
from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import _service
from ._call import Unsupported, is_descriptor
from ._identity import stem_of
from ._spec import OPTIONS

if TYPE_CHECKING:
    from ._autotuner import Autotuner

_log = logging.getLogger("tunectl")
_TRACER = "torch._higher_order_ops.triton_kernel_wrap"
_FRAMES_MAX = 5  # from an attribute's getter to PyTorch
_ALL = -1  # no choice: Inductor times what pruning left


class _Unknown:
    """An argument that has no value before the launch."""

    def __init__(self, why: str) -> None:
        self.why = why


def older_trace() -> Optional[Mapping[str, Any]]:
    """The locals of PyTorch's `call_triton_kernel` if it is what reads an attribute of an autotuner, and is older than
    2.12. It has two defects where a function prunes: it forgets where a kernel came from once it has rewritten
    the launch, and then fails; and it fails at a second launch that has the same list of configs."""
    hopifier = getattr(sys.modules.get(_TRACER), "TritonHOPifier", None)
    if hopifier is None or hasattr(hopifier, "recreate_variable"):
        return None
    frame: Any = sys._getframe(1)
    for _ in range(_FRAMES_MAX):
        if frame is None:
            return None
        if frame.f_code.co_name == "call_triton_kernel":
            found: Mapping[str, Any] = frame.f_locals
            return found
        frame = frame.f_back
    return None


def can_prune(tuner: Autotuner) -> bool:
    """May PyTorch see a function that prunes, here and now?"""
    hopifier = getattr(sys.modules.get(_TRACER), "TritonHOPifier", None)
    if hopifier is None:
        return False
    trace = older_trace()
    if not hasattr(hopifier, "do_prune_configs"):  # before 2.7
        able = False
    elif trace is None:
        return True
    else:
        rewritten = tuner.heuristics or trace.get("special_kwargs") or set(OPTIONS) & set(tuner.arg_names)
        able = not rewritten and getattr(trace.get("variable"), "kernel_source", None) is not None
    if not able and tuner.must_agree():
        _service.warn_once(f"torch.compile times all configs of {tuner.base_fn.__name__} on each rank for itself: this "
                           "PyTorch lets no function prune there. PyTorch 2.12 does")
    return able


def make_pruner(tuner: Autotuner) -> Optional[Callable[..., Any]]:
    """The `early_config_prune` that PyTorch is to call. None: there is nothing to choose. REQUIRES: can_prune()"""
    if len(tuner.configs) < 2 or _is_better_alone(tuner):
        return None
    from torch._dynamo import assume_constant_result
    from torch._dynamo.comptime import comptime
    from torch._higher_order_ops.triton_kernel_wrap import TritonHOPifier
    from torch.compiler import is_dynamo_compiling

    prune_as_torch: Callable[..., Any] = TritonHOPifier.do_prune_configs
    early, model, most = (tuner.pruning.early_config_prune, tuner.pruning.perf_model, tuner.pruning.configs_top_k)
    names = tuple(dict.fromkeys([*tuner.arg_names, *tuner.keys]))
    seen: dict[str, Any] = {}  # Dynamo traces one function at a time

    def begin(context: Any) -> None:
        seen.clear()

    def note(context: Any) -> None:
        seen[context.get_local("name").as_python_constant()] = _value_in(context.get_local("value"))

    def choose_of_seen(*places: int) -> str:
        return str(choose(tuner, places, seen))

    chosen: Callable[..., str] = assume_constant_result(choose_of_seen)

    def prune(configs: Any, named_args: Any, **kwargs: Any) -> Any:
        left = early(configs, named_args, **kwargs) if early else configs
        if model:
            share = max(1, int(len(left) * most)) if isinstance(most, float) and most <= 1.0 else most
            left = prune_as_torch(None, None, model, share, left, named_args, kwargs)
        places = list(range(len(configs)))
        if early or model:
            places = [place for place, config in enumerate(configs) if any(config is other for other in left)]
            if len(places) < len(left):  # it made configs of its own
                places = [place for place, config in enumerate(configs) if any(config == other for other in left)]
        given = {**named_args, **kwargs}
        if is_dynamo_compiling():
            comptime(begin)
            for name in names:
                if name in given:
                    value = given[name]  # noqa: F841  # read by `note`
                    comptime(note)
            place = int(chosen(*places))
        else:
            place = choose(tuner, places, given)
        return left if place < 0 else [configs[place]]

    return prune


def _is_better_alone(tuner: Autotuner) -> bool:
    """PyTorch forgets reset_to_zero and restore_value of a function that prunes, and would then time launches that
    write over each other. Where the function has no record at all, it is left as it is."""
    if not (tuner.reset_to_zero or tuner.restore_value) or tuner.pruning.early_config_prune or tuner.pruning.perf_model:
        return False
    try:
        return not tuner.must_agree() and not _service.has_record(stem_of(tuner.base))
    except Exception:
        return True


def _value_in(variable: Any) -> Any:
    """What Dynamo knows of a variable: a constant, a fake tensor or a symbol with its likely value."""
    try:
        return variable.as_python_constant() if variable.is_python_constant() else variable.as_fake()
    except Exception as error:
        return _Unknown(f"{type(error).__name__}: {error}")


def _likely(name: str, value: Any) -> Any:
    """A symbol's value in this call. Unsupported: there is none yet."""
    if isinstance(value, _Unknown):
        raise Unsupported(f"PyTorch does not tell what '{name}' is: {value.why}")
    if type(value).__name__ not in ("SymInt", "SymFloat", "SymBool"):
        return value
    if not value.node.has_hint():
        raise Unsupported(f"the value of '{name}' is not known before the launch")
    return value.node.hint


def choose(tuner: Autotuner, places: Sequence[int], given: Mapping[str, Any]) -> int:
    """The place among `tuner.configs` of the config to compile, out of those that pruning left; or _ALL. Never
    raises: a trace goes on as without the service."""
    name, source = "?", ""
    configs = [tuner.configs[place] for place in places]
    try:
        values = {name: _likely(name, value) for name, value in given.items()
                  if name in tuner.keys or hasattr(value, "dtype") or is_descriptor(value)}
        table, name = tuner.named_key((), values)
        config = tuner.recorded(table, name, configs)
        if config is not None:
            return _say(tuner, name, f"the record of {name}", places[configs.index(config)])
        source = f"there is no record of {name}"
    except Unsupported as reason:
        source = str(reason)
    except Exception as error:
        source = f"{type(error).__name__}: {error}"
    if not configs or not (tuner.must_agree() or tuner.reset_to_zero or tuner.restore_value):
        return _say(tuner, name, f"Inductor: {source}", _ALL)
    first = next((place for place, config in zip(places, configs) if _runs(tuner, config, given)), places[0])
    return _say(tuner, name, f"the first: {source}", first)


def _say(tuner: Autotuner, name: str, source: str, place: int) -> int:
    tuner.note(("torch.compile", name), source)
    _log.info("%s, compiled by PyTorch: %s", tuner.base_fn.__name__, source)
    if place == _ALL and "no record" in source and not _service.why_absent():
        _service.warn_once(f"torch.compile times all configs of {tuner.base_fn.__name__}: {source}. The service is "
                           "asked by launches outside of torch.compile alone; after one such launch the next "
                           "process has the record")
    return place


def _runs(tuner: Autotuner, config: Any, given: Mapping[str, Any]) -> bool:
    """Of arguments that are no memory yet."""
    from triton.runtime.jit import MockTensor

    try:
        values = {name: MockTensor(value.dtype) if hasattr(value, "dtype") else _likely(name, value)
                  for name, value in given.items()}
    except Unsupported:
        return True
    return tuner.can_run(config, (), {**values, "grid": (1, 1, 1)})
