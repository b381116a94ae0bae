# SPDX-License-Identifier: Apache-2.0
"""What a launch asks of the service: is the key tuned, and if not, please tune it.

Asking reads the process's snapshot. Work is handed over by one thread in the background, which makes the
texts, submits them and forgets them; only `wait` follows a sweep to its end.
"""
from __future__ import annotations

import atexit
import hashlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .. import _client, _daemon, _device
from .._ranks import is_bound

_log = logging.getLogger("tunectl")
_PROBE_SECONDS = 0.25
_ATTEMPTS_MAX = 8  # sweeps of a kernel that leave no record
_SUBMIT_SECONDS = 10.0
_EXIT_SECONDS = 10.0  # how long a process that ends waits for what it has not handed over yet
_CALM_SECONDS = 10.0  # nothing is handed over so soon after Triton has timed something in this process


class NotTuned(RuntimeError):
    """`wait` was asked for, and the sweep failed or was not done in time."""


class Kernel(NamedTuple):
    """A kernel to submit."""

    name: str
    spec: str
    files: dict[str, bytes]


# The daemon's names for kernels that this process has submitted: a submitter's begin with its name
# space.
_names: dict[str, str] = {}
# By key: the attempt that this process has come to, since earlier ones left no record.
_attempts: dict[str, int] = {}
_warned: set[str] = set()


def _name_in(kernels: Sequence[str], name: str) -> Optional[str]:
    """What a snapshot calls a kernel of ours. Another's of the same name is of the same source, by its digest."""
    if name in kernels:
        return name
    others = [known for known in kernels if known.endswith(f"/{name}")]
    if not is_bound() and _names.get(name) in others:  # other ranks have not submitted it
        return _names[name]
    return others[0] if len(others) == 1 else None


def find_record(name: str) -> Optional[Mapping[str, Any]]:
    """The config of the exact record of a kernel on this process's device, or None."""
    try:
        client = _client.current()
    except _client.UnpinnedError as error:
        warn_once(f"Triton kernels are launched without records: {error}")
        return None
    known = _name_in(client.kernels, name)
    if known is None:
        return None
    try:
        answer = client.best(known)
    except ValueError:  # a stranger's, with dims
        return None
    return answer.config if answer.match == "exact" else None


def has_record(stem: str) -> bool:
    """Does this process's snapshot know any key of the function whose names begin so?"""
    try:
        kernels = _client.current().kernels
    except _client.UnpinnedError:
        return False
    return any(known.rpartition("/")[2].startswith(stem) for known in kernels)


def warn_once(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        _log.warning("%s", text)


def why_absent() -> str:
    """Why nothing can be submitted; empty: a daemon listens. Takes little longer than 0.25 s."""
    import importlib.util

    if _client._is_forked:
        return "a forked process asks no daemon"
    try:
        _daemon.find_listener(_daemon.default_address(), _PROBE_SECONDS)
    except _daemon.NoDaemon as error:
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


def device_name() -> str:
    """Of the device that records are looked up for."""
    return _device.local_devices()[0].name


def _key_of(name: str, device: str, seconds: float) -> str:
    """The idempotency key of a sweep's first attempt: a function that is edited has another name."""
    import triton

    told = "\0".join((device, triton.__version__, repr(float(seconds))))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    return f"triton-{name}-{digest}"


def _left_no_record(daemon: Any, row: Mapping[str, Any]) -> bool:
    """Has a sweep ended in vain?"""
    if row["state"] != "done":
        return row["state"] in ("failed", "cancelled")
    return not daemon.call("RecordService", "ListRecords", kernel_name=row["kernel_name"]).records


def submit(kernel: Kernel, seconds: float, background: bool, device: str) -> dict[str, Any]:
    """The sweep as a row. Two submissions of the same kernel are the same sweep; one that ended without a
    record is repeated, once by each process. DaemonError."""
    from .. import _rpc

    source = _rpc.message("KernelSource")(spec_name=f"{kernel.name}.textproto", spec_text=kernel.spec,
                                          files=kernel.files)
    key = _key_of(kernel.name, device, seconds)
    with _rpc.Connection(_daemon.default_address(), _SUBMIT_SECONDS) as daemon:
        _check_version(daemon)
        for attempt in range(_attempts.get(key, _ATTEMPTS_MAX - 1) + 1):
            sweep = daemon.call(
                "SweepService", "SubmitSweep", kernel_source=source, budget={"seconds": seconds},
                strategy="" if seconds else "exhaustive",
                idempotency_key=f"{key}-{attempt}" if attempt else key,
                priority="JOB_PRIORITY_BACKGROUND" if background else "JOB_PRIORITY_INTERACTIVE")
            row = _rpc.as_rows([sweep])[0]
            if not _left_no_record(daemon, row):
                break
    _names[kernel.name] = row["kernel_name"]
    if attempt:
        _attempts[key] = attempt
    return row


def tune(kernel: Kernel, seconds: float, patience: float) -> Mapping[str, Any]:
    """The config that a sweep found. NotTuned: it failed, or `patience` seconds passed."""
    from .. import _work
    from .._rpc import DaemonError

    try:
        sweep = _work.wait(submit(kernel, seconds, False, device_name()), timeout=patience)
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
        self._is_ending = threading.Event()
        self.calm_at = 0.0
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
        self._is_ending.set()
        with self._changed:
            return self._changed.wait_for(lambda: self._left == 0, timeout=seconds)

    def _wait_for_calm(self) -> None:
        while time.monotonic() < self.calm_at and not self._is_ending.wait(self.calm_at - time.monotonic()):
            pass

    def _serve(self) -> None:
        while True:
            order = self._orders.get()
            self._wait_for_calm()
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


def put_off_sending() -> None:
    """Triton has just timed configs here, and may do so again soon: a sweep on the same GPU would disturb that."""
    _hand.calm_at = time.monotonic() + _CALM_SECONDS


def queue_up(make: Callable[[], Kernel], seconds: float, told: Callable[[str], bool]) -> None:
    """Makes a kernel and submits it as background work, in the background. Calls `told` then, with an empty text or why
    there is no sweep, which is logged unless `told` returns true."""
    device = device_name()  # the launching thread's

    def order() -> None:
        try:
            kernel = make()
            sweep = submit(kernel, seconds, True, device)
        except Exception as error:
            if told(str(error)):
                return
            raise
        failed = sweep["state"] in ("failed", "cancelled")
        why_not = f"sweep {sweep['id']} {sweep['state']}: {sweep['message']}" if failed else ""
        if not told(why_not) and failed:
            _log.warning("%s is not tuned: %s", kernel.name, why_not)
        elif not failed:
            _log.info("%s is tuned by sweep %s", kernel.name, sweep["id"])

    _hand.give(order)


def flush(timeout: float = 60.0) -> bool:
    """Waits until all that was queued is at the daemon. False after `timeout` seconds."""
    return _hand.finish(timeout)
