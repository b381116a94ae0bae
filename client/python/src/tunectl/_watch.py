# SPDX-License-Identifier: Apache-2.0
"""Finds newer snapshots that answer a job's questions better, which the job takes when it suits it."""
from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

from . import _client
from ._answer import Answer
from ._client import Client


class Better(NamedTuple):
    """A question of the job that a newer snapshot answers better."""

    before: Answer
    after: Answer


class Watch:
    """Looks for newer snapshots, in a thread of its own. The job's answers stay as they are until `take`.

        watch = tunectl.watch()
        ...
        if watch.better:                 # between two steps, say
            watch.take()                 # this process alone; or on every rank, at the same step:
            tunectl.open(watch.digest)   # with the digest of rank 0
    """

    def __init__(self, client: Client, every: float,
                 tell: Optional[Callable[[Sequence[Better]], Any]]) -> None:
        if isinstance(every, bool) or not isinstance(every, (int, float)) or not 0 < every < math.inf:
            raise ValueError(f"every={every!r}: the seconds between two looks, more than 0")
        if tell is not None and not callable(tell):
            raise TypeError(f"tell={tell!r} cannot be called")
        self._every = every
        self._tell = tell
        self._stopped = threading.Event()
        self._is_of_process = client is _client.of_process()
        self._better: tuple[Better, ...] = ()
        self._digest = ""
        self._lock = threading.Lock()
        # Guarded by _lock.
        self._client = client
        self._watch = client._snapshot.watch(every)  # None: without libtune nothing is found
        threading.Thread(target=self._run, name="tunectl-watch", daemon=True).start()

    @property
    def better(self) -> tuple[Better, ...]:
        """The job's questions that the newest snapshot answers better; empty: none is known."""
        return self._better

    @property
    def digest(self) -> str:
        """The digest of the snapshot with the better answers, for rank 0 to hand to the others. "" without any."""
        return self._digest

    def take(self) -> bool:
        """Makes this process answer from the newest snapshot. Returns False if no answer is better.

        A tunectl.kernel keeps the snapshot and the binaries of its first call; make a new one to use newer ones.
        """
        with self._lock:
            newest = self._watch.take() if self._watch is not None and self._better else None
            if newest is None:
                return False
            self._client = _client.use(Client(newest, self._client.misses is not None))
            self._better, self._digest = (), ""
            return True

    def look(self) -> tuple[Better, ...]:
        """Looks now, and returns the better answers."""
        return self._note(now=True)

    def _note(self, now: bool) -> tuple[Better, ...]:
        """What is better, having looked for it or by the last look of libtune's own thread. Tells what is new of it."""
        with self._lock:
            self._follow()
            if self._watch is None:
                return ()
            pairs = self._watch.look() if now else self._watch.poll()
            better, digest = tuple(Better(*pair) for pair in pairs), self._watch.digest
            is_new = (digest, len(better)) != (self._digest, len(self._better))
            self._better, self._digest = better, digest
        if better and is_new and self._tell is not None:
            self._tell(better)
        return better

    def _follow(self) -> None:
        """What the process has opened since is what its questions are asked of."""
        opened = _client.of_process()
        if self._is_of_process and opened is not None and opened is not self._client:
            self._client, self._watch = opened, opened._snapshot.watch(self._every)
            self._better, self._digest = (), ""

    def stop(self) -> None:
        self._stopped.set()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopped.wait(self._every / 4):  # libtune looks; this tells
            try:
                self._note(now=False)
            except Exception as error:  # noqa: BLE001  a job's callback, say; the job goes on
                import logging

                logging.getLogger("tunectl").warning("watching for something better: %s", error)
