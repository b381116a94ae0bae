# SPDX-License-Identifier: Apache-2.0
"""Kernels of the daemon and Python callables, measured by turns in one run.

The daemon has the device's turn and gives it to one after the other: to its own kernels, and to peers by
an order, which the peer's own process runs here and now. This process says all the while that it is alive.
"""
from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import importlib.util
import math
import multiprocessing
import pickle
import platform
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Optional, Union

from . import _daemon, _function_source, _peer, _rpc
from ._comparison import Comparison, WrongResults, is_wrong
from ._definition import Kernel
from ._dtypes import dtype_name
from ._peer_kinds import Gradient, Peer
from ._work import named, quoting

_ALIVE_SECONDS = 1.0
_PIECE_BYTES = 1 << 20
_CANCEL_SECONDS = 10.0
_KINDS = ("torch", "numpy", "buffers")
_PACKAGES = ("torch", "triton", "numpy", "transformer-engine", "flash-attn", "flash-attn-4", "flashinfer-python",
             "liger-kernel", "quack-kernels", "nvidia-cutlass-dsl")
PeerFunction = Union[Callable[..., Any], Peer, Gradient]


def _kind_of(arrays: Optional[str]) -> str:
    if arrays is None:
        return next(kind for kind in _KINDS if kind == "buffers" or importlib.util.find_spec(kind))
    if arrays not in _KINDS:
        raise ValueError(f"arrays is one of {', '.join(_KINDS)}, not '{arrays}'")
    return arrays


def _versions() -> str:
    """Of what peers are made of. The CUDA that torch was built with is in its version."""
    versions = [f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return ", ".join(versions)[:512]


def _entry(kernel: Union[str, Kernel], default: bool) -> dict[str, Any]:
    """Of "softmax", "my/softmax.textproto", "label=either", or a kernel that is defined in Python."""
    label, _, name = kernel.rpartition("=") if isinstance(kernel, str) else ("", "", kernel)
    return {"label": label, "default_config": default, **named(name)}


def _sizes(sweep: Optional[Mapping[str, Iterable[int]]]) -> dict[str, Any]:
    if not sweep:
        return {}
    if len(sweep) != 1:
        raise ValueError("sweep is one dim with its values: {'seq': [512, 1024]}")
    (dim, values), = sweep.items()
    return {"sweep_dim": dim, "sweep_values": [int(value) for value in values]}


def _check_peers(peers: Mapping[str, PeerFunction]) -> None:
    for label, peer in peers.items():
        try:
            pickle.dumps(peer)
        except Exception as error:
            raise ValueError(f"peer '{label}' runs in processes of its own, so it is a function at the top of "
                             f"a module or notebook, or a functools.partial of one: {error}") from None


def _importable(peer: PeerFunction, function: Callable[[Any], Any]) -> PeerFunction:
    """The peer with its functions made importable."""
    if isinstance(peer, Peer):
        return dataclasses.replace(peer, prepare=function(peer.prepare), outputs=peer.outputs and function(peer.outputs))
    if isinstance(peer, Gradient):
        return dataclasses.replace(peer, forward=function(peer.forward))
    if isinstance(peer, functools.partial):
        return functools.partial(function(peer.func), *peer.args, **peer.keywords)
    made: PeerFunction = function(peer)
    return made


def _order(told: Any) -> dict[str, Any]:
    """As plain values, which a child process takes."""
    args = []
    for arg in told.args:
        one: dict[str, Any] = {"name": arg.name, "dtype": arg.dtype}
        if arg.HasField("scalar"):
            one["scalar"] = getattr(arg.scalar, arg.scalar.WhichOneof("kind"))
        else:
            has_elements = bool(arg.elements) or not arg.fill_kind
            one |= {"shape": list(arg.shape), "role": arg.role, "kind": arg.fill_kind, "low": arg.fill_low,
                    "high": arg.fill_high, "key": arg.fill_key,
                    "elements": bytes(arg.elements) if has_elements else None}
        args.append(one)
    warm = _rpc.enum_value("CacheMode", "CACHE_MODE_WARM")
    return {"args": args, "dims": {dim.name: dim.value for dim in told.problem.dims},
            "dtype": told.problem.dtype, "seed": told.seed, "target": told.target,
            "device_uuid": told.device_uuid, "cold": told.cache_mode != warm, "check": told.check,
            "samples_min": told.samples_min, "samples_max": told.samples_max,
            "kernel_seconds": told.kernel_seconds}


class _Apart:
    """A peer's process, which waits between its turns. A fresh one takes the place of one that was lost."""

    def __init__(self, peer: PeerFunction, kind: str) -> None:
        self._peer = peer
        self._kind = kind
        self._child: Any = None
        self._pipe: Any = None

    def turn(self, order: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """What the process answers; it is killed at its deadline."""
        ends_at = time.monotonic() + seconds
        try:
            if self._child is None:
                self._start()
                if not self._pipe.poll(seconds):
                    return self._late(f"its process had not imported it within {seconds:.0f} s")
                self._pipe.recv()
            if self._send(order, ends_at - time.monotonic()) and self._pipe.poll(max(0.0, ends_at - time.monotonic())):
                answer: dict[str, Any] = self._pipe.recv()
                return answer
            return self._late(f"it was not done within {seconds:.0f} s")
        except (EOFError, OSError):
            self._child.join(10)
            code = self._child.exitcode
            self.close()
            return _peer.lost(f"its process ended with exit code {code}", late=False)

    def _late(self, why: str) -> dict[str, Any]:
        self.close()
        return _peer.lost(why, late=True)

    def _send(self, order: Mapping[str, Any], seconds: float) -> bool:
        """False: the process did not take all of it in time, and is killed."""
        failed: list[Exception] = []

        def send() -> None:
            try:
                self._pipe.send(order)
            except Exception as error:
                failed.append(error)

        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        sender.join(max(0.0, seconds))
        if sender.is_alive():
            self._child.kill()  # which ends the sending
            sender.join()
            return False
        if failed:
            raise failed[0]
        return True

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._child = context.Process(target=_peer.serve, args=(self._peer, self._kind, theirs), daemon=True)
        self._child.start()
        theirs.close()

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._pipe.close()
        self._child = self._pipe = None


class _Turns:
    """Answers the orders of one comparison."""

    def __init__(self, daemon: _rpc.Connection, peers: Mapping[str, PeerFunction], kind: str,
                 seconds: float) -> None:
        self._daemon = daemon
        self._seconds = seconds or math.inf
        self.unchecked: dict[str, str] = {}  # labels of peers that are timed alone, and why
        self._peers = {label: _Apart(peer, kind) for label, peer in peers.items()}

    def close(self) -> None:
        for peer in self._peers.values():
            peer.close()

    def take(self, told: Any) -> None:
        who = {"job_id": told.job_id, "lease": told.lease, "number": told.number}
        over = threading.Event()
        alive = threading.Thread(target=self._say_alive, args=(who, over), daemon=True)
        alive.start()
        try:
            order = _order(told)
            answer = self._peers[told.label].turn(order, min(told.seconds_max - 5, self._seconds))
            outputs, unchecked = answer.pop("outputs"), answer.pop("unchecked")
            if unchecked:
                self.unchecked[told.label] = unchecked
            for name, elements in outputs.items():
                for begin in range(0, len(elements), _PIECE_BYTES):
                    self._say(who, piece={"buffer": name, "elements": elements[begin:begin + _PIECE_BYTES]})
            self._say(who, report=answer)
        except _rpc.DaemonError as error:
            # The job is over, or the outputs are too large and the peer leaves: the comparison says why.
            if error.code not in ("NOT_FOUND", "RESOURCE_EXHAUSTED"):
                raise
        finally:
            over.set()
            alive.join()

    def _say(self, who: Mapping[str, Any], **what: Any) -> None:
        self._daemon.call("CompareService", "AnswerPeer", **who, **what)

    def _say_alive(self, who: Mapping[str, Any], over: threading.Event) -> None:
        while not over.wait(_ALIVE_SECONDS):
            try:
                self._say(who, alive=True)
            except _rpc.DaemonError:
                return  # whoever follows the comparison hears why


def _cancel(address: str, job_id: int) -> None:
    """With a deadline of its own: that of the comparison may have passed."""
    with contextlib.suppress(_rpc.DaemonError), _rpc.Connection(address, _CANCEL_SECONDS) as daemon:
        daemon.call("JobService", "CancelJob", job_id=job_id)


def _follow(daemon: _rpc.Connection, job_id: int, turns: _Turns, progress: Optional[Callable[[str], None]]) -> int:
    """The comparison's number, once the job is done. DaemonError: it failed or was cancelled."""
    comparison_id, told = 0, ""
    last: Any = None
    for event in daemon.watch("JobService", "WatchJob", job_id=job_id):
        last = event
        for comparison in _rpc.unpacked(event.results, "Comparison"):
            comparison_id = int(comparison.id)
        if progress is not None and event.job.message not in ("", told) and not event.job.finished_unix_ms:
            told = event.job.message
            progress(told)
        orders = _rpc.unpacked(event.results, "PeerOrder")
        if orders and not event.job.finished_unix_ms:
            turns.take(orders[-1])
    if last is None or last.job.state != _rpc.enum_value("JobState", "JOB_STATE_DONE"):
        raise _rpc.failed(last)
    return comparison_id


def compare(kernels: Union[str, Kernel, Iterable[Union[str, Kernel]]], peers: Mapping[str, PeerFunction], *,
            dtype: object = None, device: str = "", sweep: Optional[Mapping[str, Iterable[int]]] = None,
            rounds: int = 0, leg_seconds: float = 0.0, peer_seconds: float = 0.0, warm: bool = False,
            default: bool = False, seed: int = 0, arrays: Optional[str] = None, allow_wrong: bool = False,
            address: Optional[str] = None, timeout: float = 3600.0,
            progress: Optional[Callable[[str], None]] = None, **dims: int) -> Comparison:
    """See tunectl.compare."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):  # it would wait for the device that its parent has
        raise RuntimeError('the process of a peer ran this script again, up to tunectl.compare: put the call under '
                           'if __name__ == "__main__":')
    kind = _kind_of(arrays)
    names = [kernels] if isinstance(kernels, (str, Kernel)) else list(kernels)
    if len(names) == 1 and not peers:
        raise ValueError("there is nothing to compare: give a second kernel, or a peer")
    entries = [_entry(name, default) for name in names]
    entries += [{"label": label, "peer": {"language": f"Python, {kind}", "versions": _versions()}}
                for label in peers]
    request = {"entries": entries, "dims": {name: int(value) for name, value in dims.items()},
               "dtype": dtype_name(dtype), "device": device, "rounds": rounds, "leg_seconds": leg_seconds,
               "seed": seed, "cache_mode": "CACHE_MODE_WARM" if warm else "CACHE_MODE_COLD", **_sizes(sweep)}
    where = address or _daemon.default_address()
    with contextlib.ExitStack() as stack:
        function = stack.enter_context(_function_source.importable())
        peers = {label: _importable(peer, function) for label, peer in peers.items()}
        _check_peers(peers)
        daemon = stack.enter_context(_rpc.Connection(where, timeout))
        turns = stack.enter_context(contextlib.closing(_Turns(daemon, peers, kind, peer_seconds)))
        with quoting(names):
            job = daemon.call("CompareService", "SubmitComparison", **request)
        try:
            comparison_id = _follow(daemon, job.id, turns, progress)
        except BaseException:
            _cancel(where, job.id)
            raise
        last = daemon.call("CompareService", "GetComparison", comparison_id=comparison_id)
    comparison = _with_reasons(Comparison(_rpc.as_rows([last])[0]), turns.unchecked)
    if not allow_wrong and any(is_wrong(kernel) for _, kernel in comparison.measured()):
        raise WrongResults(comparison)
    return comparison


def _with_reasons(row: Comparison, unchecked: Mapping[str, str]) -> Comparison:
    """The row with the reasons of peers that sent no outputs, which the daemon was not told."""
    for problem in row["problems"]:
        for kernel in problem["kernels"]:
            if kernel["agreement"] == "invalid_config" and kernel["label"] in unchecked:
                kernel["agreement_message"] = unchecked[kernel["label"]]
    return row


def figures(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """See tunectl.figures."""
    found = []
    for problem in row["problems"]:
        for kernel in problem["kernels"]:
            time = kernel.get("measurement") or {}
            found.append({
                "problem": dict(problem["problem"]), "label": kernel["label"], "kernel": kernel["kernel_name"],
                "outcome": kernel["outcome"], "message": kernel["message"], "agreement": kernel["agreement"],
                "agreement_message": kernel["agreement_message"], "n": kernel["rounds"],
                "time_ns": time.get("latency_ns_median"), "time_low_ns": time.get("latency_ns_low"),
                "time_high_ns": time.get("latency_ns_high"), "ratio": kernel["ratio"] or None,
                "ratio_low": kernel["ratio_low"] or None, "ratio_high": kernel["ratio_high"] or None,
                "config": kernel.get("config"), "clock": time.get("clock"),
                "cache_mode": row["cache_mode"], "bytes": problem["work_bytes"], "flops": problem["work_flops"],
                "device": row["device_name"], "driver": row["driver"], "versions": kernel["compiler"]})
    return found
