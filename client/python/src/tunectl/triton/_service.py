# SPDX-License-Identifier: Apache-2.0
"""What a launch asks of the service: is the key tuned, and if not, please tune it.

Asking reads the process's snapshot. Work is handed over by one thread in the background, which makes the
texts, submits them and forgets them; only `wait` follows a sweep to its end.
"""
from __future__ import annotations

import atexit
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Optional

from .. import _client, _daemon, _sources
from .._snapshot import SnapshotError

_log = logging.getLogger("tunectl")
_PROBE_SECONDS = 0.25
_SUBMIT_SECONDS = 10.0
_EXIT_SECONDS = 10.0  # how long a process that ends waits for what it has not handed over yet


class NotTuned(RuntimeError):
    """`wait` was asked for, and the sweep failed or was not done in time."""


class Kernel(NamedTuple):
    """A kernel to submit."""

    name: str
    spec: str
    files: dict[str, bytes]


def find_record(name: str) -> Optional[Mapping[str, Any]]:
    """The config of the exact record of a kernel on this process's device, or None."""
    client = _client.current()
    if name not in client.kernels:
        return None
    answer = client.best(name)
    return answer.config if answer.match == "exact" else None


def is_bound() -> bool:
    """Must this process answer as others do? It is one of several, or a snapshot is pinned."""
    pinned = os.environ.get("TUNE_SNAPSHOT", "")
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1") or pinned not in ("", "latest")


def is_first_rank() -> bool:
    return os.environ.get("RANK", "0") in ("", "0")


def why_absent() -> str:
    """Why nothing can be submitted; empty: a daemon listens. Takes no longer than 0.25 s."""
    import importlib.util

    if _client._is_forked:
        return "a forked process asks no daemon"
    try:
        _daemon._probe(_sources.default_address(), time.monotonic() + _PROBE_SECONDS)
    except SnapshotError as error:
        return str(error)
    if importlib.util.find_spec("grpc") is None or importlib.util.find_spec("google.protobuf") is None:
        return "gRPC is not installed: pip install 'tunectl[rpc]'"
    return ""


def _check_version(daemon: Any) -> None:
    """Texts of one version of Triton are for compilers of the same. DaemonError; silent where the daemon
    tells no version, as before its first device is known."""
    import triton

    from .._rpc import DaemonError

    for device in daemon.call("DeviceService", "ListDevices").devices:
        for compiler in device.compilers:
            version = compiler.version.partition(",")[0]
            if compiler.language == "TTIR" and version not in ("", f"Triton {triton.__version__}"):
                raise DaemonError(f"the daemon has {version}, this process Triton {triton.__version__}: "
                                  f"tunerd --triton-python {sys.executable}", "FAILED_PRECONDITION")


def submit(kernel: Kernel, seconds: float, background: bool) -> dict[str, Any]:
    """The sweep as a row. Two submissions of the same kernel are the same sweep. DaemonError."""
    from .. import _rpc

    source = _rpc.message("KernelSource")(spec_name=f"{kernel.name}.textproto", spec_text=kernel.spec,
                                          files=kernel.files)
    with _rpc.Connection(_sources.default_address(), _SUBMIT_SECONDS) as daemon:
        _check_version(daemon)
        sweep = daemon.call(
            "SweepService", "SubmitSweep", kernel_source=source, budget={"seconds": seconds},
            strategy="" if seconds else "exhaustive",
            idempotency_key=f"triton-{kernel.name}",
            priority="JOB_PRIORITY_BACKGROUND" if background else "JOB_PRIORITY_INTERACTIVE")
    return _rpc.as_rows([sweep])[0]


def tune(kernel: Kernel, seconds: float, patience: float) -> Mapping[str, Any]:
    """The config that a sweep found. NotTuned: it failed, or `patience` seconds passed."""
    from .. import _work
    from .._rpc import DaemonError

    try:
        sweep = _work.wait(submit(kernel, seconds, background=False), timeout=patience)
    except DaemonError as error:
        raise NotTuned(f"{kernel.name}: {error}") from None
    best = (sweep.get("result") or {}).get("best") or {}
    config = best.get("config")
    if not config:
        raise NotTuned(f"{kernel.name}: sweep {sweep['id']} ended without a config: {sweep['message']}")
    return dict(config)


class _Hand:
    """The thread that hands work over, started by the first."""

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._left = 0
        self._changed = threading.Condition()
        self._thread: Optional[threading.Thread] = None

    def give(self, order: Callable[[], None]) -> None:
        with self._changed:
            self._left += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="tunectl-triton", daemon=True)
                self._thread.start()
                atexit.register(self.finish, _EXIT_SECONDS)
        self._orders.put(order)

    def finish(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._left == 0, timeout=seconds)

    def _serve(self) -> None:
        while True:
            order = self._orders.get()
            try:
                order()
            except Exception as error:  # a job goes on without
                _log.warning("a Triton kernel could not be handed to the service: %s", error)
            with self._changed:
                self._left -= 1
                self._changed.notify_all()


_hand = _Hand()


def _after_fork() -> None:
    """A child has no thread of its parent's."""
    global _hand
    _hand = _Hand()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def queue_up(make: Callable[[], Kernel], seconds: float) -> None:
    """Makes a kernel and submits it as background work, in the background."""

    def order() -> None:
        kernel = make()
        sweep = submit(kernel, seconds, background=True)
        _log.info("%s is tuned by sweep %s", kernel.name, sweep["id"])

    _hand.give(order)


def flush(timeout: float = 60.0) -> bool:
    """Waits until all that was queued is at the daemon. False after `timeout` seconds."""
    return _hand.finish(timeout)
