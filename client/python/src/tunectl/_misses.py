# SPDX-License-Identifier: Apache-2.0
"""What a job asked for and nobody had tuned, told to the daemon, which tunes it in the background.

A miss is answered at once with the best there is; telling waits for nobody: a thread of its own collects for a
moment and has another process tell. However many ranks miss the same, one sweep is queued.
"""
from __future__ import annotations

import threading
import time
from typing import Any

from ._answer import Answer
from ._snapshot import SnapshotError

_COLLECT_SECONDS = 2.0
_DEADLINE_SECONDS = 30.0
_AT_ONCE = 100
_KEPT_MAX = 10000


class Misses:
    """Of one client. Thread-safe."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._changed = threading.Condition()
        # Guarded by _changed.
        self._known: set[tuple[Any, ...]] = set()
        self._waiting: list[dict[str, Any]] = []
        self._telling = False
        self._notes: list[str] = []

    def add(self, answer: Answer) -> None:
        """Each problem once, and only of kernels that the snapshot knows."""
        if not answer.dims:
            return
        key = (answer.kernel, answer.dtype, answer.device, *answer.dims.items())
        with self._changed:
            if key in self._known or len(self._known) >= _KEPT_MAX:
                return
            self._known.add(key)
            self._waiting.append({"kernel_name": answer.kernel, "dims": dict(answer.dims),
                                  "dtype": answer.dtype, "device": answer.device})
            if not self._telling:
                self._telling = True
                threading.Thread(target=self._tell_all, name="tunectl-misses", daemon=True).start()

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of those that were told, a sentence each."""
        with self._changed:
            return tuple(self._notes)

    def wait(self, seconds: float) -> bool:
        """Until all were told, for a test or the end of a short program; False: not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._telling, seconds)

    def _tell_all(self) -> None:
        time.sleep(_COLLECT_SECONDS)
        while True:
            with self._changed:
                batch, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
                if not batch:
                    self._telling = False
                    self._changed.notify_all()
                    return
            notes = self._tell(batch)
            with self._changed:
                self._notes += notes

    def _tell(self, batch: list[dict[str, Any]]) -> list[str]:
        from . import _daemon

        try:
            told = _daemon.record_misses(self._address, batch, time.monotonic() + _DEADLINE_SECONDS)
        except SnapshotError as error:
            return [f"{len(batch)} misses were not told: {error}"]
        return [f"{one['kernel_name']} {' '.join(f'{name}={value}' for name, value in one['dims'].items())}: {note}"
                for one, note in zip(batch, told)]
