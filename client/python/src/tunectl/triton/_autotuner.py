# SPDX-License-Identifier: Apache-2.0
"""triton.autotune with the service behind it. Once a key has a config, a launch is Triton's own plus a
look-up in a table."""
from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, Optional, Union

from triton import knobs
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner as TritonAutotuner
from triton.runtime.autotuner import Heuristics, autotune as _installed
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from .._ranks import is_bound, is_first_rank
from . import _compiled, _service
from ._call import Call, Unsupported, block_of, is_descriptor, is_tensor, read_call
from ._identity import name_of, source_texts
from ._lower import lower, options_of, renamed
from ._spec import ENTRY, OPTIONS, TOLERANCES, Choice, Table, write_spec
from ._writes import written_arguments

_log = logging.getLogger("tunectl")
triton_autotune: Any = inspect.unwrap(_installed)  # tunectl_adopt may have wrapped it
_WAIT_SECONDS = 600.0
# Triton's autotuner passes over a config that ends in these, and raises everything else.
CANNOT_RUN = (OutOfResources, CompileTimeAssertionFailure, PTXASError)
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

    constants: dict[str, Any]  # of the function's parameters
    options: dict[str, Any]  # of the compiler
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

    def form_of(self, config: Any) -> _Form:
        """Runs the config's pre_hook, as before a launch of it. Hooks and heuristics get what Triton gives them:
        every argument of the launch, the config's constexprs and its options."""
        given = {**self.given, **config.all_kwargs()}
        if config.pre_hook is not None:
            config.pre_hook(dict(given))
        its_own = dict.fromkeys(config.all_kwargs())
        for values in self._heuristics:
            for name, rule in values.items():
                given[name] = rule(dict(given))
                its_own[name] = None
        names = [param.name for param in self._function.params]
        constants = {name: given[name] for name in its_own if name in names}
        options = {name: given[name] for name in its_own if name not in names or name in OPTIONS}
        descriptors = {name: block_of(name, value) for name, value in self.bound.items() if is_descriptor(value)}
        return _Form(constants, options, self.grid_of(constants), {name: one[0] for name, one in descriptors.items()},
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


class Plan(NamedTuple):
    """How a key's first launch goes: by the first of these configs that runs; by Triton's own autotuner if there
    are none."""

    configs: Sequence[Any]
    source: str
    ask: Optional[Callable[[Any], None]] = None  # the service, once it is known which config ran


class Autotuner(TritonAutotuner):  # type: ignore[misc]
    """What @autotune makes. `best_config` is the last launch's, as with Triton's."""

    _pruner: Optional[Callable[..., Any]] = None

    def __init__(self, fn: Any, *, wait: Union[bool, float, None], seconds: float,
                 fill: Mapping[str, Any], tolerance: Mapping[str, tuple[float, float]],
                 values: Mapping[str, int], **of_triton: Any) -> None:
        self.pruning = SimpleNamespace()  # the caller's functions, see `prune_configs`
        super().__init__(fn, fn.arg_names, **of_triton)
        self.nargs: Any = None  # Triton's: what its pruning is given
        self.base: Any = fn
        self.heuristics: list[Mapping[str, Callable[..., Any]]] = []
        while isinstance(self.base, Heuristics):
            self.heuristics.append(self.base.values)
            self.base = self.base.fn
        self._refusal = self._why_not(of_triton)
        self._run = fn.run
        self._wait = _WAIT_SECONDS if wait is True else float(wait or 0)
        self._seconds = seconds
        self._fill = dict(fill)
        self._values = dict(values)
        self._tolerance = {**TOLERANCES, **tolerance}
        self._key_ofs: dict[tuple[Any, ...], KeyOf] = {}
        self._key_of: KeyOf = lambda args, kwargs: ()
        self._table: dict[Key, tuple[Any, dict[str, Any], Callable[..., Any]]] = {}
        self._unsendable: dict[str, str] = {}  # by a key's name: why
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
        return self._launch_first(key, args, kwargs)

    def _launch_first(self, key: Key, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        self.nargs = dict(zip(self.arg_names, args))
        configs = list(self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs)
        plan = self._choose(configs, args, kwargs)
        if not plan.configs:
            _log.info("%s is tuned by Triton itself: %s", self.base_fn.__name__, plan.source)
            made = super().run(*args, **kwargs)
            _service.put_off_sending()
            self._keep(key, self.best_config, f"Triton: {plan.source}")
            self._ask_for(plan, self.best_config)
            return made
        config, made = self._launch_one_of(plan.configs, args, kwargs)
        source = plan.source if config is plan.configs[0] else f"the first that runs, in place of {plan.source}"
        self.best_config, self.nargs = config, None
        if not _is_capturing():
            self._keep(key, config, source)
            self._tell_listeners(key, config, source)
        self._ask_for(plan, config)
        return made

    def _ask_for(self, plan: Plan, config: Any) -> None:
        """Asks the service, if the plan says so, now that `config` has run."""
        if plan.ask is not None:
            try:
                plan.ask(config)
            except Exception as error:
                self._say_once(error)

    def _launch_one_of(self, configs: Sequence[Any], args: Sequence[Any],
                       kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """(The first config that runs, what its launch returns). Where none does, what the first one raises, as
        Triton's autotuner does. ValueError: the launch names what configs set."""
        failures = []
        for config in configs:
            options = config.all_kwargs()
            twice = sorted(kwargs.keys() & options.keys())
            if twice:
                raise ValueError(f"{self.base_fn.__name__} is launched with {', '.join(twice)}, which its configs set, too: "
                                 "leave it out of the launch or of the configs")
            try:
                return config, self._runner(config)(*args, **kwargs, **options)
            except CANNOT_RUN as error:
                _log.info("%s with %s cannot run here: %s", self.base_fn.__name__, config, error)
                failures.append(error)
        raise failures[0]

    def _keep(self, key: Key, config: Any, source: str) -> None:
        self._table[key] = (config, config.all_kwargs(), self._runner(config))
        self.note(key, source)

    def note(self, key: Key, source: str) -> None:
        """Records where a key's config is from."""
        self.sources[key] = source

    def note_sent(self, name: str, why_not: str) -> bool:
        """Called once a key was handed to the service, or could not be: then `why_not` is not empty. Returns whether
        that was said."""
        return False

    def _tell_listeners(self, key: Key, config: Any, source: str) -> None:
        """What Triton says of a key that it found in its cache, without timings: none were made here."""
        if knobs.autotuning.print:
            print(f"Triton autotuning for function {self.base_fn.__name__},\nwith key as {key},\n"
                  f"best config selected: {config}; ({source})")
        listener = getattr(knobs.autotuning, "listener", None)  # Triton 3.8 or later has one
        if listener is not None and isinstance(self.base, JITFunction):
            try:
                listener(fn=self.base, key=key, best_config=config, configs_timings={}, duration=None, cache_hit=True)
            except Exception as error:
                _log.warning("a listener of Triton's autotuning failed: %s", error)

    def _say_once(self, error: Exception) -> str:
        """Of what went wrong between this function and the service; a job goes on without."""
        why = f"{type(error).__name__}: {error}"
        _service.warn_once(f"{self.base_fn.__name__} is not tuned by the service: {why}")
        return why

    def _runner(self, config: Any) -> Callable[..., Any]:
        """What launches with a config: its pre_hook is called first, with what Triton would give it."""
        if config.pre_hook is None:
            plain: Callable[..., Any] = self._run
            return plain

        def run(*args: Any, **kwargs: Any) -> Any:
            config.pre_hook({**dict(zip(self.arg_names, args)), **kwargs})
            return self._run(*args, **kwargs)

        return run

    # ---- Pruning --------------------------------------------------------------------------------

    def prune_configs(self, kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """By the caller's functions, and Triton's rules."""
        own = SimpleNamespace(configs=self.configs, nargs=self.nargs, **vars(self.pruning))
        pruned: Sequence[Any] = TritonAutotuner.prune_configs(own, kwargs)
        return pruned

    # torch.compile never launches this object: it calls the first of these, and times the configs that are left.
    @property
    def early_config_prune(self) -> Any:
        return self._compiled_pruner() or self.pruning.early_config_prune

    @early_config_prune.setter
    def early_config_prune(self, function: Any) -> None:
        self.pruning.early_config_prune, self._pruner = function, None

    @property
    def perf_model(self) -> Any:
        return None if self._compiled_pruner() else self.pruning.perf_model

    @perf_model.setter
    def perf_model(self, function: Any) -> None:
        self.pruning.perf_model, self._pruner = function, None

    @property
    def configs_top_k(self) -> Any:
        return self.pruning.configs_top_k

    @configs_top_k.setter
    def configs_top_k(self, most: Any) -> None:
        self.pruning.configs_top_k, self._pruner = most, None

    def _compiled_pruner(self) -> Optional[Callable[..., Any]]:
        if not hasattr(self, "sources") or not _compiled.can_prune(self):
            return None
        if self._pruner is None:
            self._pruner = _compiled.make_pruner(self)
        return self._pruner

    @property
    def configs(self) -> Any:
        return self._configs if _compiled.older_trace() is None else list(self._configs)

    @configs.setter
    def configs(self, configs: Any) -> None:
        self._configs = configs

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
        tensors = [name for name in self.keys if is_tensor(values.get(name))]
        if tensors:
            raise Unsupported(f"'{tensors[0]}' is in the key and a tensor: its elements would be the key")
        key: list[object] = [f"{name}={values[name]}" for name in self.keys if name in values]
        dtypes = {name: _dtype_in(values[name]) for name in self.arg_names if name in values}
        key += [f"{name}: {dtype}" for name, dtype in dtypes.items() if dtype and not isinstance(dtype, tuple)]
        return key + [f"{name}: descriptor of {dtype[0]}, padding {dtype[1]}"
                      for name, dtype in dtypes.items() if isinstance(dtype, tuple)]

    # ---- A key's first config -------------------------------------------------------------------

    def _why_not(self, of_triton: Mapping[str, Any]) -> str:
        """Why the service never tunes this function; empty if it may."""
        for name in ("pre_hook", "post_hook"):
            if of_triton.get(name) is not None:
                return (f"its {name} runs Python of this process round each launch that is timed; say what it does by "
                        "reset_to_zero, restore_value or each config's pre_hook")
        if any(getattr(config, "ir_override", None) for config in self.configs):
            return "ir_override names files of this process"
        return "" if isinstance(self.base, JITFunction) else f"it decorates a {type(self.base).__name__}"

    def recorded(self, table: Table, name: str, configs: Sequence[Any]) -> Any:
        """The config of the key's record; None: there is no record, or this call's pruning excludes its config."""
        record = _service.find_record(name)
        return None if record is None else table.find(configs, record)

    def named_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Table, str]:
        """(The configs as params, what the service calls the key). Unsupported: the service never tunes it."""
        if self._refusal:
            raise Unsupported(self._refusal)
        return Table(self.configs), name_of(self.base, self.configs, self._shared_key(args, kwargs))

    def must_agree(self) -> bool:
        """Must this process launch what others launch, and so time nothing?"""
        return is_bound()

    def _choose(self, configs: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Plan:
        """NotTuned: `wait` was given."""
        if len(configs) == 1:
            return Plan(configs, "it is the only one")
        bound = self.must_agree() or _is_capturing()
        try:
            return self._plan(configs, args, kwargs, bound)
        except _service.NotTuned:
            raise
        except Unsupported as reason:
            why = str(reason)
        except Exception as error:
            why = self._say_once(error)
        return Plan(configs, f"the first: {why}") if bound else Plan([], why)

    def _plan(self, configs: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any],
              bound: bool) -> Plan:
        table, name = self.named_key(args, kwargs)
        if name in self._unsendable:
            raise Unsupported(self._unsendable[name])
        config = self.recorded(table, name, configs)
        if config is not None:
            rest = [other for other in configs if other is not config]
            return Plan([config, *rest], f"the record of {name}")
        if _is_capturing():
            return Plan(configs, "the first: a graph is being captured")
        absent = _service.why_absent()
        if absent:
            return Plan(configs, f"the first: {absent}") if bound else Plan([], absent)
        return self._ask(name, table, configs, args, kwargs, bound)

    def _ask(self, name: str, table: Table, configs: Sequence[Any], args: Sequence[Any],
             kwargs: Mapping[str, Any], bound: bool) -> Plan:
        """Of a daemon that listens."""
        if bound and not is_first_rank():
            return Plan(configs, "the first: rank 0 asks for the sweep")
        try:
            target = _live_target()
        except Exception as error:  # Triton could not time anything, either
            return Plan(configs, f"the first: {self._say_once(error)}")
        make = self._maker(name, table, configs, _Launch(self, kwargs["grid"], args, kwargs), target)
        if self._wait > 0 and not bound:
            first = next((config for config in configs if self.can_run(config, args, kwargs)), configs[0])
            found = table.find(configs, _service.tune(make(first), self._seconds, self._wait))
            if found is None:
                raise _service.NotTuned(f"{name}: the sweep's best is none of the configs")
            return Plan([found], f"a sweep of {name}")
        return self.plan_untuned(name, configs, bound, lambda first: _service.queue_up(
            functools.partial(self._make, name, make, first), self._seconds, functools.partial(self.note_sent, name)))

    def plan_untuned(self, name: str, configs: Sequence[Any], bound: bool, ask: Callable[[Any], None]) -> Plan:
        """For a key that the service is asked to tune."""
        return Plan(configs, f"the first, until {name} is tuned", ask)

    def _make(self, name: str, make: Callable[[Any], _service.Kernel], first: Any) -> _service.Kernel:
        """In the background. What cannot be sent is never tuned by the service: the next launch asks Triton."""
        try:
            return make(first)
        except Exception as error:
            self._unsendable[name] = str(error)
            self._table.clear()
            raise

    def can_run(self, config: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Does a config compile, and fit this device? Nothing is launched. What cannot be told by that is left to
        the launch."""
        try:
            if config.pre_hook is not None:
                config.pre_hook({**dict(zip(self.arg_names, args)), **kwargs, **config.all_kwargs()})
            compiled = self.fn.run(*args, **{**kwargs, "warmup": True}, **config.all_kwargs())
            getattr(compiled, "_init_handles", lambda: None)()
        except CANNOT_RUN as error:
            _log.info("%s with %s cannot run here: %s", self.base_fn.__name__, config, error)
            return False
        except Exception:
            pass
        return True

    def _maker(self, name: str, table: Table, configs: Sequence[Any],
               launch: _Launch, target: Any) -> Callable[[Any], _service.Kernel]:
        """Reads all that it needs of the live arguments now. What it gives makes the texts; its argument is the
        config that the others are compared with."""
        forms = [launch.form_of(config) for config in configs]
        call = read_call(self.base.params, launch.bound, set(forms[0].constants), self._fill,
                         [*self.reset_to_zero], self._values)
        if target.backend != "cuda":
            raise Unsupported(f"the service has no devices of {target.backend}")
        for form in forms:
            self._check_options({**launch.options, **form.options}, form.options, target)

        def make(first: Any) -> _service.Kernel:
            texts = self._texts(call, configs, forms, launch.options, target)
            # `first`, which runs here, becomes the reference: a config that fails here may fail
            # there, too.
            order = sorted(range(len(configs)), key=lambda place: configs[place] is not first)
            choices = [Choice(table.params_of(configs[i]), texts[i], forms[i].grid, forms[i].blocks)
                       for i in order if texts[i]]
            if len(choices) < 2:
                raise Unsupported("fewer than two of the configs can be compiled")
            written = set[int]().union(*(written_arguments(text, call.arguments, target.arch)
                                         for text in dict.fromkeys(filter(None, texts))))
            function = self.base.fn
            spec, files = write_spec(name, f"{function.__module__}.{function.__qualname__}, of "
                                     "@tunectl.triton.autotune", call, choices, written, self._tolerance)
            return _service.Kernel(name, spec, files)

        return make

    @staticmethod
    def _check_options(options: Mapping[str, Any], of_config: Mapping[str, Any], target: Any) -> None:
        """Unsupported: the service would compile with other options than the launch."""
        plain = options_of({name: value for name, value in of_config.items() if name in OPTIONS}, target)
        given = options_of(options, target)
        others = [name for name, value in given.items() if plain.get(name) != value]
        if not given.get("enable_fp_fusion", True):
            others.append("enable_fp_fusion")
        if others:
            raise Unsupported(f"a config or the launch sets {', '.join(dict.fromkeys(others))}, which the service "
                              "does not compile with")

    def _texts(self, call: Call, configs: Sequence[Any], forms: Sequence[_Form],
               options: Mapping[str, Any], target: Any) -> list[str]:
        """The TTIR of each config; empty of one that Triton refuses, which it never wins with."""
        made: dict[str, str] = {}
        texts = []
        # The text does not depend on options of later compiler stages, unless the source asks for
        # them.
        asks = any(name in text for text in source_texts(self.base) for name in ("num_warps", "num_threads"))
        for config, form in zip(configs, forms):
            kind = repr((sorted(form.constants.items(), key=lambda item: item[0]), form.types))
            kind += repr(config.num_warps) if asks else ""
            if kind not in made:
                typed = call._replace(signature={**call.signature, **form.types})
                made[kind] = self._text(typed, form, options, target)
            texts.append(made[kind])
        return texts

    def _text(self, call: Call, form: _Form, of_launch: Mapping[str, Any], target: Any) -> str:
        try:
            text, _ = lower(self.base, call, form.constants, {**of_launch, **form.options}, target)
        except Exception as error:
            _log.info("%s with %s cannot be compiled: %s", self.base_fn.__name__, form.constants, error)
            return ""
        return renamed(text, ENTRY)


_VALUES_MAX = 1 << 20  # bytes of a tensor's contents that are sent


def autotune(configs: Sequence[Any], key: Sequence[str], prune_configs_by: Optional[Mapping[str, Any]] = None,
             reset_to_zero: Optional[Sequence[str]] = None, restore_value: Optional[Sequence[str]] = None,
             pre_hook: Optional[Callable[..., Any]] = None, post_hook: Optional[Callable[..., Any]] = None,
             warmup: Optional[int] = None, rep: Optional[int] = None, use_cuda_graph: bool = False,
             do_bench: Optional[Callable[..., Any]] = None, cache_results: bool = False, *,
             wait: Union[bool, float, None] = None, seconds: float = 0.0,
             fill: Optional[Mapping[str, Any]] = None,
             values: Union[Sequence[str], Mapping[str, int]] = (),
             tolerance: Optional[Mapping[str, tuple[float, float]]] = None) -> Any:
    """triton.autotune, answered by the service. Arguments of triton.autotune mean what they mean there.

    wait       seconds to wait for the sweep of a key that has no record (True: 600). By default nothing
               waits: the first config is launched, and the record is for the next run. A job of several
               ranks, or with a pinned snapshot, never waits.
    seconds    budget of a sweep; 0: all configs
    fill       what tensors hold when the service measures: {"x": (low, high)} for random numbers within,
               a number for that everywhere, "iota" for 0, 1, 2, ... By default random numbers of the
               live tensor's range. What reset_to_zero names is zero.
    values     names of integer tensors whose contents are sent, such as ["offsets", "expert_ids"]: other
               numbers would be other work for the kernel. A tensor of more than 1 MiB is not sent, and Triton
               itself tunes; {"offsets": 4 << 20} sets another limit, in bytes. They are those of the call that
               asks for the sweep
    tolerance  {"f16": (rtol, atol)}: how far a config's results may be from the first config's

    A config's pre_hook is called before each launch of it, and once when the work is sent, for the block
    shapes of tensor descriptors that it may set: what else it does, the service's own launches do without.

    A launch raises what Triton's autotuner would raise, and NotTuned if `wait` was given and the sweep failed or
    was not done in time. Whatever else goes wrong with the service is logged once, and Triton itself tunes. It
    also tunes a function with pre_hook, post_hook or a config with an ir_override.
    ValueError, from the decorator: `values` names no parameter of the function, or one that `fill` names, too.
    """
    limits = dict(values) if isinstance(values, Mapping) else dict.fromkeys(values, _VALUES_MAX)

    def decorate(fn: Any) -> Any:
        for name in limits:
            if name not in fn.arg_names or name in (fill or {}):
                raise ValueError(f"values names '{name}', which is " + (
                    "in fill, too" if name in fn.arg_names else f"no parameter; there are {', '.join(fn.arg_names)}"))
        standard = {"configs": configs, "key": key, "prune_configs_by": prune_configs_by,
                    "reset_to_zero": reset_to_zero, "restore_value": restore_value, "pre_hook": pre_hook,
                    "post_hook": post_hook, "warmup": warmup, "rep": rep, "use_cuda_graph": use_cuda_graph,
                    "do_bench": do_bench, "cache_results": cache_results}
        if knobs.runtime.interpret:
            return triton_autotune(**standard)(fn)
        return Autotuner(fn, wait=wait, seconds=seconds, fill=fill or {}, tolerance=tolerance or {},
                         values=limits, **standard)

    return decorate
