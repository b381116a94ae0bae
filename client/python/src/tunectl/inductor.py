# SPDX-License-Identifier: Apache-2.0
"""Inductor's winners in snapshots: templates of matrix products under torch.compile(mode="max-autotune").

    import tunectl.inductor

    tunectl.inductor.install()      # `tunectl run` does so by itself

A problem that the process's snapshot knows is compiled with the recorded template alone, so Inductor benchmarks
nothing and all ranks compile the same. For any other problem Inductor chooses as always, and rank 0 stores its winner
in the daemon's vault, for a later snapshot. PyTorch 2.15 or later; docs/adoption.md has the rules.
"""
from __future__ import annotations

import functools
import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from torch._inductor.choices import register_inductor_choices
from torch._inductor.lookup_table.choices import LookupTableChoices

from ._vault import Vault

__all__ = ["Choices", "install"]

_log = logging.getLogger("tunectl")
_KEY_BYTES_MAX = 512
_vault = Vault("inductor")
_is_refused = False  # by the daemon, which is not asked again


@functools.lru_cache(maxsize=1)
def _pinned() -> dict[str, str]:
    """What the process's snapshot has. It stays, so that the keys of Inductor's own cache are true."""
    return _vault.pinned()


def _key(text: str) -> str:
    """A key as the vault takes it."""
    data = text.encode()
    return text if len(data) <= _KEY_BYTES_MAX else f"sha256:{hashlib.sha256(data).hexdigest()}"


def _configs(text: str) -> list[dict[str, Any]]:
    """Those of an entry. An entry that is malformed has none."""
    try:
        configs = json.loads(text)
    except ValueError:
        return []
    return [one for one in configs if isinstance(one, dict) and "template_id" in one] if isinstance(configs, list) else []


class Choices(LookupTableChoices):  # type: ignore[misc]
    """Inductor's choices, where a problem that the snapshot knows has one."""

    def uuid(self) -> str:
        told = json.dumps(sorted(_pinned().items()))
        return f"tunectl-{hashlib.sha256(told.encode()).hexdigest()}"

    def _get_lookup_table(self) -> Mapping[str, list[dict[str, Any]]]:
        return _Table(_pinned())


class _Table(Mapping[str, "list[dict[str, Any]]"]):
    """The entries by Inductor's keys."""

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> list[dict[str, Any]]:
        return _configs(self._entries[_key(key)])

    def __iter__(self) -> Any:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _entry(winner: Any, name: str) -> Optional[tuple[str, str]]:
    """The key and the value of a choice. None: it is of no template, or a device that has no table."""
    chosen = getattr(winner, "annotations", {}).get("ktc")
    if chosen is None:
        return None
    key = Choices().make_lookup_key(chosen.inputs, name, include_device=True)
    if key is None:
        return None
    # Inductor works the others out for each problem.
    params = {param: value for param, value in chosen.params.to_kwargs().items()
              if isinstance(value, (bool, int, float, str))}
    source = getattr(chosen.template, "src_hash", None)
    config = {"template_id": chosen.template.uid, **({"template_hash": source} if source else {}), **params}
    return _key(key), json.dumps([config], sort_keys=True)


def _save(timings: Mapping[Any, float], name: str, *rest: Any) -> None:
    """Stores the fastest of what Inductor has timed. Never raises: a compile goes on without."""
    global _is_refused
    try:
        timed = {choice: seconds for choice, seconds in timings.items() if math.isfinite(seconds)}
        if _is_refused or len(timed) < 2:
            return
        entry = _entry(min(timed, key=lambda choice: timed[choice]), name)
        if entry is not None:
            _vault.put(*entry)
    except Exception as error:
        _is_refused = True
        _log.warning("winners of Inductor are not stored: %s", error)


def install(parts: Sequence[str] = ("choices", "winners")) -> None:
    """Has Inductor choose by the snapshot, and stores its winners. `tunectl run` installs the parts one by one, when
    PyTorch imports what they stand on."""
    if "choices" in parts:
        register_inductor_choices("tunectl", Choices)
    if "winners" in parts:
        from torch._inductor.select_algorithm import add_feedback_saver, get_algorithm_selector_cache

        if _save not in get_algorithm_selector_cache().feedback_saver_fns:
            add_feedback_saver(_save)
