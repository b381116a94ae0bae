# SPDX-License-Identifier: Apache-2.0
"""Calls of a daemon for notebooks: submit sweeps, list jobs, read results as rows.

They need the `rpc` extra. Unlike look-ups they raise if the daemon does not answer or refuses: DaemonError,
with gRPC's `code`. `address` is the daemon's, by default TUNE_ADDRESS or the host's; `timeout` is in seconds.
"""
from __future__ import annotations

import contextlib
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Optional, Union

from . import _daemon, _kernel_folder, _progress, _rpc
from ._definition import Kernel, on_disk
from ._dtypes import dtype_name
from ._results import Jobs, Records, Rows, Sweep, Sweeps, Trials
from ._rpc import DaemonError

__all__ = ["DaemonError", "Rows", "Sweep", "cancel", "jobs", "records", "submit", "sweeps", "trials", "wait"]

_TIMEOUT_SECONDS = 10.0


def _connect(address: Optional[str], timeout: float) -> _rpc.Connection:
    return _rpc.Connection(address or _daemon.default_address(), timeout)


# A row of sweeps() or jobs(), a sweep's number, or "sweep:7" or "job:9", as the commands of tunectl take them.
Work = Union[Mapping[str, Any], int, str]


def _named(work: Work) -> tuple[str, int]:
    """Returns "job" or "sweep", and the number. TypeError, ValueError: the work has none of the forms of Work."""
    kind: str = "sweep"
    number: Any = work
    if isinstance(work, Mapping):
        kind, number = "job" if "kind" in work else "sweep", work.get("id")
    elif isinstance(work, str):
        words = re.fullmatch(r"(job|sweep)?[: ]?(\d+)", work)
        kind, number = (words[1] or "sweep", int(words[2])) if words else (kind, work)
    wanted = "give a row of sweeps() or jobs(), a sweep's number, 'sweep:7' or 'job:9'"
    if isinstance(number, str):
        raise ValueError(f"{work!r} names no sweep: {wanted}")
    try:
        return kind, operator.index(number)
    except TypeError:
        raise TypeError(f"{work!r} names no sweep: {wanted}") from None


def _sweep_id(daemon: _rpc.Connection, work: Work) -> int:
    """Returns the number of a sweep or of a job's sweep. DaemonError, NOT_FOUND: no such job, or it is no sweep."""
    kind, number = _named(work)
    if kind == "sweep":
        return number
    job = daemon.call("JobService", "GetJob", job_id=number, with_results=True)
    for sweep in _rpc.unpacked(job.results, "Sweep"):
        return int(sweep.id)
    raise DaemonError(f"job {number}, of {job.subject}, is no sweep", "NOT_FOUND")


def _job_id(daemon: _rpc.Connection, work: Work) -> int:
    """Returns the number of a job or of a sweep's job."""
    kind, number = _named(work)
    return number if kind == "job" else int(daemon.call("SweepService", "GetSweep", sweep_id=number).job_id)


def jobs(*, limit: int = 20, unfinished: bool = False, address: Optional[str] = None,
         timeout: float = _TIMEOUT_SECONDS) -> Jobs:
    """Lists jobs of every kind, newest first, as `tunectl job list` does."""
    with _connect(address, timeout) as daemon:
        answer = daemon.call("JobService", "ListJobs", limit=limit, unfinished=unfinished)
    return Jobs(_rpc.as_rows(answer.jobs))


def sweeps(*, limit: int = 20, address: Optional[str] = None,
           timeout: float = _TIMEOUT_SECONDS) -> Sweeps:
    """Lists sweeps with their results, newest first, as `tunectl sweep list` does."""
    with _connect(address, timeout) as daemon:
        answer = daemon.call("JobService", "ListJobs", limit=limit, kind="JOB_KIND_SWEEP", with_results=True)
        return Sweeps(map(Sweep, _rpc.as_rows(sweep for job in answer.jobs for sweep in _rpc.unpacked(job.results, "Sweep"))))


def trials(sweep: Work, *, address: Optional[str] = None, timeout: float = 60.0) -> Trials:
    """Returns all trials of a sweep: config, outcome, measurement. `to_frame()` has a column for each param.

    sweep  its row, its job's row, its number, "sweep:7" or "job:9"; `wait` and `cancel` take the same
    DaemonError with code NOT_FOUND: no such sweep.
    """
    with _connect(address, timeout) as daemon:
        sweep_id = _sweep_id(daemon, sweep)
        fixed = daemon.call("SweepService", "GetSweep", sweep_id=sweep_id).fixed_params
        return Trials(_rpc.as_rows(daemon.watch("SweepService", "ListTrials", sweep_id=sweep_id)), list(fixed))


def records(kernel: str = "", *, address: Optional[str] = None, timeout: float = _TIMEOUT_SECONDS) -> Records:
    """Lists the best known configs, of one kernel or of all, as `tunectl record list` does."""
    found: list[Any] = []
    with _connect(address, timeout) as daemon:
        while True:
            page = daemon.call("RecordService", "ListRecords", kernel_name=kernel, first=len(found))
            found.extend(page.records)
            if not page.left or not page.records:
                return Records(_rpc.as_rows(found))


def cancel(sweep: Work, *, address: Optional[str] = None,
           timeout: float = _TIMEOUT_SECONDS) -> dict[str, Any]:
    """Ends a sweep or a job of the caller's and returns its row at the end; its trials are kept."""
    kind, number = _named(sweep)
    with _connect(address, timeout) as daemon:
        job = daemon.call("JobService", "CancelJob", job_id=_job_id(daemon, sweep))
        if kind == "job":
            return _rpc.as_rows([job])[0]
        return Sweep(_rpc.as_rows([daemon.call("SweepService", "GetSweep", sweep_id=number)])[0])


def _source_of(spec: str) -> Any:
    """Reads a kernel's spec and the files that it names into a message."""
    text, files = _kernel_folder.read_kernel(spec)
    source = _rpc.message("KernelSource")(spec_name=os.path.basename(spec), spec_text=text)
    for name, data in files.items():
        source.files[name] = data
    return source


def named(kernel: Union[str, Kernel]) -> dict[str, Any]:
    """The fields of a request that say which kernel is meant."""
    with on_disk(kernel) as spec:
        return {"kernel_source": _source_of(spec)} if spec.endswith(".textproto") else {"kernel_name": spec}


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r}: a dim is a whole number, and submit has no such argument; a budget is "
                        f"trials= or seconds=") from None


@contextlib.contextmanager
def quoting(kernels: Iterable[Union[str, Kernel]]) -> Iterator[None]:
    """Where a daemon refuses a kernel that is defined in Python, the error has the line of its textproto, too."""
    try:
        yield
    except DaemonError as error:
        for kernel in kernels:
            place = None if isinstance(kernel, str) else re.search(rf"\b{kernel.name}\.textproto:(\d+)\b", str(error))
            lines = [] if isinstance(kernel, str) else kernel.textproto().splitlines()
            if place is not None and 0 < int(place[1]) <= len(lines):
                raise DaemonError(f"{error}\n{lines[int(place[1]) - 1]}", error.code) from None
        raise


def submit(kernel: Union[str, Kernel], *, dtype: object = None, device: str = "", trials: int = 0,
           seconds: float = 0.0, strategy: str = "", seed: int = 0, background: bool = False,
           idempotency_key: str = "", address: Optional[str] = None,
           timeout: float = _TIMEOUT_SECONDS, **dims: int) -> Sweep:
    """Submits a sweep and returns its row at once; `wait` follows it.

    kernel  a name of the catalogue, the path of a spec (.textproto), or a tunectl.Kernel
    trials, seconds  the budget; 0: no limit
    device  an id of `tunectl device list`; by default the daemon's first GPU, else its CPU
    background  let interactive jobs go first
    """
    request: dict[str, Any] = {
        "dims": {name: _whole(name, value) for name, value in dims.items()},
        "dtype": dtype_name(dtype), "device": device, "strategy": strategy, "seed": seed,
        "idempotency_key": idempotency_key, "budget": {"trials": trials, "seconds": seconds},
        "priority": "JOB_PRIORITY_BACKGROUND" if background else "JOB_PRIORITY_INTERACTIVE"}
    request.update(named(kernel))
    with _connect(address, timeout) as daemon, quoting([kernel]):
        sweep = daemon.call("SweepService", "SubmitSweep", **request)
    if isinstance(kernel, Kernel):
        kernel.learn_hash(sweep.kernel_hash)
    return Sweep(_rpc.as_rows([sweep])[0])


def wait(sweep: Work, *, timeout: float = 3600.0, address: Optional[str] = None,
         progress: Union[bool, Callable[[Sweep], None]] = False) -> Sweep:
    """Follows a sweep to its end and returns its row at the end, which prints as `tunectl sweep` does.

    progress  True: shows in a notebook a bar and a plot of the trials and the best so far, in a terminal a bar.
              A function: is called with the sweep's row, a few times a second at most
    DaemonError with code DEADLINE_EXCEEDED after `timeout` seconds: the sweep goes on.
    """
    last: dict[str, Any] = {}
    bar = _progress.Bar() if progress and not callable(progress) else None
    with _connect(address, timeout) as daemon:
        sweep_id = _sweep_id(daemon, sweep)
        for event in daemon.watch("JobService", "WatchJob", job_id=_job_id(daemon, sweep_id)):
            for one in _rpc.unpacked(event.results, "Sweep"):
                last = _rpc.as_rows([one])[0]
            if bar is not None:
                bar(last, _rpc.as_rows(_rpc.unpacked(event.results, "Trial")))
            elif callable(progress):
                progress(Sweep(last))
        if bar is not None and bar.lacks_trials(last):  # an event has few of them
            bar(last, _rpc.as_rows(daemon.watch("SweepService", "ListTrials", sweep_id=sweep_id, with_reused=True)))
        return Sweep(last, _failures(daemon, last))


def _failures(daemon: _rpc.Connection, sweep: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Why configs were not ok, by outcome. Without the report the result still has its outcomes."""
    if not sweep.get("progress") or all(name == "ok" for name in sweep["progress"]["outcomes"]):
        return []
    with contextlib.suppress(DaemonError):
        return _rpc.as_rows(daemon.call("ReportService", "GetSweepReport", sweep_id=sweep["id"]).outcomes)
    return []
