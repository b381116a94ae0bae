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
        self._is_forked = False

    def add(self, answer: Answer) -> None:
        """Each problem once, and only of kernels that the snapshot knows."""
        if not answer.dims or self._is_forked:
            return
        key = (answer.kernel, answer.dtype, answer.device, *answer.dims.items())
        with self._changed:
            if key in self._known or len(self._known) >= _KEPT_MAX:
                return
            self._known.add(key)
            self._waiting.append({"kernel_name": answer.kernel, "dims": dict(answer.dims),
                                  "dtype": answer.dtype, "device": answer.device})
            if not self._telling:
                self._start()

    def _start(self) -> None:
        """Under the lock."""
        try:
            threading.Thread(target=self._tell_all, name="tunectl-misses", daemon=True).start()
            self._telling = True
        except RuntimeError as error:  # a process that ends, or has too many
            self._notes.append(f"misses wait for the next: {error}")

    def forget_daemon(self) -> None:
        """In a forked child: nothing is told, and whoever held the lock is not there to give it back."""
        self._changed = threading.Condition()
        self._waiting, self._telling, self._is_forked = [], False, True

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
        try:
            from . import _daemon

            told = _daemon.record_misses(self._address, batch, time.monotonic() + _DEADLINE_SECONDS)
            return [f"{one['kernel_name']} {' '.join(f'{name}={value}' for name, value in one['dims'].items())}: {note}"
                    for one, note in zip(batch, told)]
        except Exception as error:  # noqa: BLE001  whatever it is, the next are told
            return [f"{len(batch)} misses were not told: {error}"]
