# SPDX-License-Identifier: Apache-2.0
"""Finds newer snapshots that answer a job's questions better, which the job takes when it suits it."""
from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from . import _client
from ._answer import Answer
from ._client import Client

_RANKS = {"exact": 0, "bucketed": 1, "nearest": 2, "other_device": 3, "default": 4}


class Better(NamedTuple):
    """A question of the job that a newer snapshot answers better."""

    before: Answer
    after: Answer


def _expected_loss(answer: Answer) -> float:
    return math.inf if answer.expectation.basis == "nothing" else answer.expectation.loss


def _is_better(before: Answer, after: Answer) -> bool:
    closer = _RANKS[after.match] - _RANKS[before.match]
    same = (after.record, after.evidence) == (before.record, before.evidence)
    if closer or same or dict(after) == dict(before):
        return closer < 0
    if after.match == "exact":
        return after.latency_ns < before.latency_ns
    return _expected_loss(after) <= _expected_loss(before)


def _ask_again(newer: Client, asked: Mapping[str, Any], before: Answer) -> Optional[Answer]:
    """None: the newer snapshot's spec has other dims, or other bounds."""
    question = dict(asked)
    if before.dims:  # what was filled in may be filled in otherwise by now
        question = {"kernel": before.kernel, "dtype": before.dtype, "device": before.device or None, **before.dims}
    try:
        return newer.best(**question)
    except ValueError:
        return None


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
        self._lock = threading.Lock()
        self._is_of_process = client is _client.of_process()
        # Guarded by _lock.
        self._client = client
        self._newest: Optional[Client] = None
        self._better: tuple[Better, ...] = ()
        threading.Thread(target=self._run, name="tunectl-watch", daemon=True).start()

    @property
    def better(self) -> tuple[Better, ...]:
        """The job's questions that the newest snapshot answers better; empty: none is known."""
        with self._lock:
            return self._better

    @property
    def digest(self) -> str:
        """The digest of the snapshot with the better answers, for rank 0 to hand to the others. "" without any."""
        with self._lock:
            return self._newest.digest if self._newest is not None and self._better else ""

    def take(self) -> bool:
        """Makes this process answer from the newest snapshot. Returns False if no answer is better.

        A tunectl.kernel keeps the snapshot and the binaries of its first call; make a new one to use newer ones.
        """
        with self._lock:
            if self._newest is None or not self._better:
                return False
            self._client = _client.use(self._newest)
            self._newest, self._better = None, ()
            return True

    def look(self) -> tuple[Better, ...]:
        """Looks now, and returns the better answers."""
        return self._look(0.0)

    def _look(self, fresh: float) -> tuple[Better, ...]:
        """fresh: as newer_than's."""
        with self._lock:
            self._follow()
            client, known = self._client, self._newest or self._client
        newer = client.newer_than(known.digest, fresh)
        if newer is None:
            return self.better
        better = []
        for asked, before in client.questions:
            after = _ask_again(newer, asked, before)
            if after is not None and _is_better(before, after):
                better.append(Better(before, after))
        with self._lock:
            if client is self._client:
                self._newest, self._better = newer, tuple(better)
        if better and self._tell is not None:
            self._tell(tuple(better))
        return tuple(better)

    def _follow(self) -> None:
        """What the process has opened since is what its questions are asked of."""
        opened = _client.of_process()
        if self._is_of_process and opened is not None and opened is not self._client:
            self._client = opened
            self._newest, self._better = None, ()

    def stop(self) -> None:
        self._stopped.set()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            try:
                self._look(self._every)
            except Exception as error:  # noqa: BLE001  a job's callback, say; the job goes on
                import logging

                logging.getLogger("tunectl").warning("watching for something better: %s", error)
