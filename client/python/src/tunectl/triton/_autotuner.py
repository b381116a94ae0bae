# SPDX-License-Identifier: Apache-2.0
"""triton.autotune with the service behind it. Once a key has a config, a launch is Triton's own plus a
look-up in a table."""
from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional, Union

from triton import knobs
from triton.runtime.autotuner import Autotuner as TritonAutotuner
from triton.runtime.autotuner import Heuristics, autotune as triton_autotune

from . import _service
from ._call import Call, Unsupported, block_of, is_descriptor, read_call
from ._identity import name_of, source_texts
from ._lower import lower, renamed
from ._spec import ENTRY, TOLERANCES, Choice, Table, write_spec
from ._writes import written_arguments

_log = logging.getLogger("tunectl")
_WAIT_SECONDS = 600.0
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
Key = tuple[Any, ...]
KeyOf = Callable[[Sequence[Any], Mapping[str, Any]], Key]


def _is_capturing() -> bool:
    """Is a CUDA graph being captured? Then nothing may be asked of a tensor or of the device."""
    torch: Any = sys.modules.get("torch")
    try:
        return bool(torch is not None and torch.cuda.is_current_stream_capturing())
    except Exception:
        return False


def _dtype_in(value: object) -> Any:
    """What Triton compiles another kernel for: of a descriptor, its tensor's dtype and how it is padded."""
    if is_descriptor(value):
        return value.base.dtype, getattr(value, "padding", None)  # type: ignore[attr-defined]
    return getattr(value, "dtype", None)


def _live_target() -> Any:
    from triton.runtime.driver import driver

    return driver.active.get_current_target()


class _Form(NamedTuple):
    """What of a launch is the config's."""

    constants: dict[str, Any]
    grid: tuple[int, ...]
    types: dict[str, str]  # of tensor descriptors
    blocks: dict[str, tuple[int, ...]]


class _Launch:
    """One call's arguments by name, for one config or for all."""

    def __init__(self, tuner: Autotuner, grid: Any, args: Sequence[Any],
                 kwargs: Mapping[str, Any]) -> None:
        self._function, self._grid = tuner.base, grid
        names = [param.name for param in tuner.base.params]
        self.given = {**dict(zip(names, args)), **kwargs}  # what Triton gives a pre_hook
        given = {name: value for name, value in self.given.items() if name not in ("grid", "warmup")}
        self.bound = {name: value for name, value in given.items() if name in names}
        self.options = {name: value for name, value in given.items() if name not in names}
        self._heuristics = tuner.heuristics

    def constants_of(self, config: Any) -> dict[str, Any]:
        """What the config and heuristics set of the function's parameters."""
        constants = dict(config.kwargs)
        for values in self._heuristics:
            for name, rule in values.items():
                constants[name] = rule({**self.bound, **constants})
        return constants

    def form_of(self, config: Any) -> _Form:
        """Runs the config's pre_hook, as before a launch of it."""
        if config.pre_hook is not None:
            config.pre_hook({**self.given, **config.all_kwargs()})
        constants = self.constants_of(config)
        descriptors = {name: block_of(name, value) for name, value in self.bound.items() if is_descriptor(value)}
        return _Form(constants, self.grid_of(constants), {name: one[0] for name, one in descriptors.items()},
                     {name: one[1] for name, one in descriptors.items()})

    def grid_of(self, constants: Mapping[str, Any]) -> tuple[int, ...]:
        grid = self._grid
        if callable(grid):
            defaults = {param.name: param.default for param in self._function.params if param.has_default}
            grid = grid({**defaults, **self.bound, **constants})
        extents = tuple(int(extent) for extent in (grid if isinstance(grid, (tuple, list)) else (grid,)))
        if not 1 <= len(extents) <= 3 or min(extents) < 1:
            raise Unsupported(f"the grid is {extents}")
        return extents


class Autotuner(TritonAutotuner):  # type: ignore[misc]
    """What @autotune makes. `best_config` is the last launch's, as with Triton's."""

    def __init__(self, fn: Any, *, wait: Union[bool, float, None], seconds: float,
                 fill: Mapping[str, Any], tolerance: Mapping[str, tuple[float, float]],
                 **of_triton: Any) -> None:
        super().__init__(fn, fn.arg_names, **of_triton)
        self.nargs: Any = None  # Triton's: what its pruning is given
        self.base: Any = fn
        self.heuristics: list[Mapping[str, Callable[..., Any]]] = []
        while isinstance(self.base, Heuristics):
            self.heuristics.append(self.base.values)
            self.base = self.base.fn
        self._run = fn.run
        self._wait = _WAIT_SECONDS if wait is True else float(wait or 0)
        self._seconds = seconds
        self._fill = dict(fill)
        self._tolerance = {**TOLERANCES, **tolerance}
        self._key_ofs: dict[tuple[Any, ...], KeyOf] = {}
        self._key_of: KeyOf = lambda args, kwargs: ()
        self._table: dict[Key, tuple[Any, dict[str, Any], Callable[..., Any]]] = {}
        self.sources: dict[Key, str] = {}  # of each key: where its config is from

    # ---- Launching ------------------------------------------------------------------------------

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def launch(*args: Any, **kwargs: Any) -> Any:
            try:
                self.best_config, settings, run = self._table[self._key_of(args, kwargs)]
            except (LookupError, AttributeError):
                return self._launch_seldom(args, {**kwargs, "grid": grid, "warmup": False})
            return run(*args, grid=grid, warmup=False, **kwargs, **settings)

        return launch

    def run(self, *args: Any, **kwargs: Any) -> Any:
        return self._launch_seldom(args, kwargs)

    def _launch_seldom(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A launch whose key is new, or whose arguments come in another way than the last one's."""
        plain = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
        values = (*args, *plain.values())
        form = (len(args), *plain, *(is_descriptor(value) or hasattr(value, "dtype") for value in values))
        key_of = self._key_ofs.get(form)
        if key_of is None:
            key_of = self._key_ofs[form] = self._make_key_of(args, plain)
        self._key_of, key = key_of, key_of(args, plain)
        found = self._table.get(key)
        if found is not None:
            self.best_config = found[0]
            return found[2](*args, **kwargs, **found[1])
        return self._launch_first(key, args, kwargs, plain)

    def _launch_first(self, key: Key, args: Sequence[Any], kwargs: dict[str, Any],
                      plain: dict[str, Any]) -> Any:
        self.nargs = dict(zip(self.arg_names, args))
        configs = list(self.prune_configs(plain)) if len(self.configs) > 1 else list(self.configs)
        config, source = self._choose(configs, args, kwargs)
        if config is None:
            _log.info("%s is tuned by Triton itself: %s", self.base.fn.__name__, source)
            made = super().run(*args, **kwargs)
            self._keep(key, self.best_config, f"Triton: {source}")
            return made
        if not _is_capturing():
            self._keep(key, config, source)
        self.best_config, self.nargs = config, None
        return self._runner(config)(*args, **kwargs, **config.all_kwargs())

    def _keep(self, key: Key, config: Any, source: str) -> None:
        self._table[key] = (config, config.all_kwargs(), self._runner(config))
        self.sources[key] = source

    def _runner(self, config: Any) -> Callable[..., Any]:
        """What launches with a config: its pre_hook is called first, with what Triton would give it."""
        if config.pre_hook is None:
            plain: Callable[..., Any] = self._run
            return plain

        def run(*args: Any, **kwargs: Any) -> Any:
            config.pre_hook({**dict(zip(self.arg_names, args)), **kwargs})
            return self._run(*args, **kwargs)

        return run

    # ---- Keys -----------------------------------------------------------------------------------

    def _make_key_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> KeyOf:
        """By Triton's rule: the values of the key's arguments, and the dtype of every tensor; of descriptors
        too, which Triton's rule passes over. Made for calls that give their arguments in this way: of others
        it raises, or is another key."""
        places = {name: f"args[{i}]" for i, name in enumerate(self.arg_names[:len(args)])}
        places.update((name, f"kwargs[{name!r}]") for name in kwargs if name in self.arg_names)
        values = {**dict(zip(self.arg_names, args)), **kwargs}
        parts = ["len(args)", "len(kwargs)"]
        parts += [places[name] for name in self.keys if name in places]
        for name in self.arg_names:
            if name in places and (values[name] is None or is_descriptor(values[name])):
                parts.append(f"_dtype_in({places[name]})")  # what is None may be a tensor another time
            elif name in places and hasattr(values[name], "dtype"):
                parts.append(f"{places[name]}.dtype")
        made: KeyOf = eval(f"lambda args, kwargs: ({', '.join(parts)},)")  # names and places only
        return made

    def _shared_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[object]:
        """The same for every way to give the arguments: what records are found by."""
        values = {**dict(zip(self.arg_names, args)), **kwargs}
        key: list[object] = [f"{name}={values[name]}" for name in self.keys if name in values]
        dtypes = {name: _dtype_in(values[name]) for name in self.arg_names if name in values}
        key += [f"{name}: {dtype}" for name, dtype in dtypes.items() if dtype and not isinstance(dtype, tuple)]
        return key + [f"{name}: descriptor of {dtype[0]}, padding {dtype[1]}"
                      for name, dtype in dtypes.items() if isinstance(dtype, tuple)]

    # ---- A key's first config -------------------------------------------------------------------

    def _choose(self, configs: Sequence[Any], args: Sequence[Any],
                kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        """(Config, where it is from), or (None, why Triton itself should tune)."""
        if len(configs) == 1:
            return configs[0], "it is the only one"
        bound = _service.is_bound() or _is_capturing()
        try:
            table = Table(self.configs)
            name = name_of(self.base, self.configs, self._shared_key(args, kwargs))
            record = _service.find_record(name)
            config = table.find(self.configs, record) if record is not None else None
            if config is not None:
                return config, f"the record of {name}"
            if _is_capturing():
                return configs[0], "the first: a graph is being captured"
            absent = _service.why_absent()
            if absent:
                return (configs[0], f"the first: {absent}") if bound else (None, absent)
            return self._ask(name, table, configs, args, kwargs, bound)
        except Unsupported as reason:
            return (configs[0], f"the first: {reason}") if bound else (None, str(reason))

    def _ask(self, name: str, table: Table, configs: Sequence[Any], args: Sequence[Any],
             kwargs: Mapping[str, Any], bound: bool) -> tuple[Any, str]:
        """Of a daemon that listens."""
        if bound and not _service.is_first_rank():
            return configs[0], "the first: rank 0 asks for the sweep"
        launch = _Launch(self, kwargs["grid"], args, kwargs)
        make = self._maker(name, table, configs, launch)
        if self._wait > 0 and not bound:
            found = table.find(configs, _service.tune(make(), self._seconds, self._wait))
            if found is None:
                raise _service.NotTuned(f"{name}: the sweep's best is none of the configs")
            return found, f"a sweep of {name}"
        _service.queue_up(make, self._seconds)
        return configs[0], f"the first, until {name} is tuned"

    def _maker(self, name: str, table: Table, configs: Sequence[Any],
               launch: _Launch) -> Callable[[], _service.Kernel]:
        """Reads all that it needs of the live arguments now. What it gives makes the texts."""
        forms = [launch.form_of(config) for config in configs]
        call = read_call(self.base.params, launch.bound, set(forms[0].constants), self._fill,
                         [*self.reset_to_zero])
        target = _live_target()
        if target.backend != "cuda":
            raise Unsupported(f"the service has no devices of {target.backend}")

        def make() -> _service.Kernel:
            texts = self._texts(call, configs, forms, launch.options, target)
            choices = [Choice(table.params_of(config), text, form.grid, form.blocks)
                       for config, text, form in zip(configs, texts, forms) if text]
            if len(choices) < 2:
                raise Unsupported("fewer than two of the configs can be compiled")
            written = set[int]().union(*(written_arguments(text, call.arguments, target.arch)
                                         for text in dict.fromkeys(filter(None, texts))))
            function = self.base.fn
            spec, files = write_spec(name, f"{function.__module__}.{function.__qualname__}, of "
                                     "@tunectl.triton.autotune", call, choices, written, self._tolerance)
            return _service.Kernel(name, spec, files)

        return make

    def _texts(self, call: Call, configs: Sequence[Any], forms: Sequence[_Form],
               options: Mapping[str, Any], target: Any) -> list[str]:
        """The TTIR of each config; empty of one that Triton refuses, which it never wins with."""
        made: dict[str, str] = {}
        texts = []
        # What only the compiler's later stages know of is in no text, unless the source asks for it.
        asks = any(name in text for text in source_texts(self.base) for name in ("num_warps", "num_threads"))
        for config, form in zip(configs, forms):
            kind = repr((sorted(form.constants.items(), key=lambda item: item[0]), form.types))
            kind += repr(config.num_warps) if asks else ""
            if kind not in made:
                settings = {**options, **{name: getattr(config, name, None) for name in _OPTIONS}}
                settings = {name: value for name, value in settings.items() if value is not None}
                typed = call._replace(signature={**call.signature, **form.types})
                made[kind] = self._text(typed, form.constants, settings, target)
            texts.append(made[kind])
        return texts

    def _text(self, call: Call, constants: Mapping[str, Any], options: Mapping[str, Any],
              target: Any) -> str:
        from triton.compiler.errors import CompilationError

        try:
            text, parsed = lower(self.base, call, constants, options, target)
        except CompilationError as error:
            _log.info("%s with %s cannot be compiled: %s", self.base.fn.__name__, dict(constants), error)
            return ""
        if not parsed.get("enable_fp_fusion", True):
            raise Unsupported("enable_fp_fusion is off")
        return renamed(text, ENTRY)


_HOOKS = ("{0} runs Python of this process round each launch that is timed, and the service times them. Say what "
          "it does by reset_to_zero, restore_value or each config's pre_hook, or keep triton.autotune for '{1}'")


def autotune(configs: Sequence[Any], key: Sequence[str], prune_configs_by: Optional[Mapping[str, Any]] = None,
             reset_to_zero: Optional[Sequence[str]] = None, restore_value: Optional[Sequence[str]] = None,
             pre_hook: Optional[Callable[..., Any]] = None, post_hook: Optional[Callable[..., Any]] = None, *,
             wait: Union[bool, float, None] = None, seconds: float = 0.0,
             fill: Optional[Mapping[str, Any]] = None,
             tolerance: Optional[Mapping[str, tuple[float, float]]] = None, **of_triton: Any) -> Any:
    """triton.autotune, answered by the service. Arguments of triton.autotune mean what they mean there.

    wait       seconds to wait for the sweep of a key that has no record (True: 600). By default nothing
               waits: the first config is launched, and the record is for the next run. A job of several
               ranks, or with a pinned snapshot, never waits.
    seconds    budget of a sweep; 0: all configs
    fill       what tensors hold when the service measures: {"x": (low, high)} for random numbers within,
               a number for that everywhere, "iota" for 0, 1, 2, ... By default random numbers of the
               live tensor's range. What reset_to_zero names is zero.
    tolerance  {"f16": (rtol, atol)}: how far a config's results may be from the first config's

    A config's pre_hook is called before each launch of it, and once when the work is sent, for the block
    shapes of tensor descriptors that it may set: what else it does, the service's own launches do without.

    ValueError: pre_hook, post_hook, or a config with an ir_override. NotTuned, from a launch: `wait` was
    given, and the sweep failed or was not done in time.
    """
    def decorate(fn: Any) -> Any:
        name = getattr(fn, "__name__", None) or getattr(getattr(fn, "fn", None), "__name__", "?")
        for what, hook in (("pre_hook", pre_hook), ("post_hook", post_hook)):
            if hook is not None:
                raise ValueError(_HOOKS.format(what, name))
        if any(getattr(config, "ir_override", None) for config in configs):
            raise ValueError(f"ir_override names files of this process; keep triton.autotune for '{name}'")
        standard = {"configs": configs, "key": key, "prune_configs_by": prune_configs_by,
                    "reset_to_zero": reset_to_zero, "restore_value": restore_value, **of_triton}
        if knobs.runtime.interpret:
            return triton_autotune(**standard)(fn)
        return Autotuner(fn, wait=wait, seconds=seconds, fill=fill or {}, tolerance=tolerance or {},
                         **standard)

    return decorate
