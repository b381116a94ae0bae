# SPDX-License-Identifier: Apache-2.0
"""Functions of programs that nobody edited: tunectl_adopt gives them here when Triton's own `autotune` decorates them.

They differ from those of @tunectl.triton.autotune in one point. A key without a record is tuned by Triton itself, as
without the service, which gets the work once that is done. So a run is never slower than its kernels were before.
With TUNE_ADOPT=no-tuning nothing is timed in the process: such a key is launched with its first config.
"""
from __future__ import annotations

import inspect
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from triton import knobs

from .._ranks import is_first_rank
from ._autotuner import Autotuner, Key, Plan
from ._spec import Table

_LINE_BYTES_MAX = 2000
_LINES_MAX = 4000  # of a process
_RANK_0_ASKS = "there is no record, and rank 0 asks for it"
_ANSWERED, _SENT, _LEFT = "answered", "sent", "left"


class _Notes:
    """The fate of each key, as lines of JSON in a file of this process, which `tunectl run` reads at the end.

    Written at once, so that a process that is killed has told all. Never raises."""

    def __init__(self) -> None:
        self._pid, self._lines = 0, 0

    def add(self, **fields: object) -> None:
        folder = os.environ.get("TUNE_ADOPT_NOTES")
        try:
            if self._pid != os.getpid():
                self._pid, self._lines = os.getpid(), 0
            self._lines += 1
            line = json.dumps({name: value[:300] if isinstance(value, str) else value for name, value in fields.items()})
            if not folder or self._lines > _LINES_MAX or len(line) > _LINE_BYTES_MAX:
                return
            file = os.open(os.path.join(folder, f"{self._pid}.jsonl"),
                           os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, line.encode() + b"\n")
            finally:
                os.close(file)
        except Exception:
            pass


_notes = _Notes()


def _may_tune() -> bool:
    return os.environ.get("TUNE_ADOPT") != "no-tuning"


class Adopted(Autotuner):
    """A function that Triton's @autotune decorates in a program that was adopted."""

    _name = ""  # the service's, of the key that is looked at

    def must_agree(self) -> bool:
        return not _may_tune()

    def named_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Table, str]:
        self._name = ""
        table, self._name = super().named_key(args, kwargs)
        return table, self._name

    def _launch_first(self, key: Key, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        self._name, begun = "", time.monotonic()
        made = super()._launch_first(key, args, kwargs)
        if key in self._table:
            self.cache.setdefault(self._triton_key(args, kwargs), self.best_config)
        _notes.add(rank=os.environ.get("RANK", ""), first_launch_seconds=round(time.monotonic() - begun, 3))
        return made

    def _triton_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The key by Triton's rule, under which programs look into `cache`."""
        values = {name: value for name, value in {**dict(zip(self.arg_names, args)), **kwargs}.items()
                  if name in self.arg_names}
        return (*(values[name] for name in self.keys if name in values),
                *(str(value.dtype) for value in values.values() if hasattr(value, "dtype")))

    def _ask(self, name: str, table: Table, configs: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any],
             bound: bool) -> Plan:
        if not bound and not is_first_rank():
            return Plan([], _RANK_0_ASKS)
        return super()._ask(name, table, configs, args, kwargs, bound)

    def plan_untuned(self, name: str, configs: Sequence[Any], bound: bool, ask: Callable[[Any], None]) -> Plan:
        if bound:
            return super().plan_untuned(name, configs, bound, ask)
        return Plan([], f"there is no record of {name}", ask)

    def note(self, key: Key, source: str) -> None:
        """Records it for `tunectl run` as well."""
        super().note(key, source)
        state = _ANSWERED if source.startswith("the record of") else _LEFT
        self._add_note(self._name or repr(key), state, "" if _RANK_0_ASKS in source else source)

    def note_sent(self, name: str, why_not: str) -> bool:
        self._add_note(name, _LEFT if why_not else _SENT, f"the service did not take it: {why_not}" if why_not else "")
        return bool(os.environ.get("TUNE_ADOPT_NOTES"))

    def _add_note(self, key: str, state: str, why: str) -> None:
        _notes.add(function=f"{self.base_fn.__module__}.{self.base_fn.__qualname__}", key=key, state=state, why=why)


def adopt(fn: Any, autotune: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Optional[Adopted]:
    """Decorates a function as `autotune(*args, **kwargs)` would. Returns None if there is no choice to make."""
    given = inspect.signature(autotune).bind(*args, **kwargs)
    given.apply_defaults()
    if len(given.arguments["configs"]) < 2 or knobs.runtime.interpret:
        return None
    return Adopted(fn, wait=None, seconds=0.0, fill={}, tolerance={}, values={}, **given.arguments)


_notes.add(process=sys.argv[0] if sys.argv else "", version=sys.version.partition(" ")[0])
