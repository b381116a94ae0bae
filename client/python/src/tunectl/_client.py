# SPDX-License-Identifier: Apache-2.0
"""Answers from one snapshot, which is found once and never changes afterwards."""
from __future__ import annotations

import contextlib
import contextvars
import functools
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from ._answer import Answer, NoExactRecord, Value

if TYPE_CHECKING:
    from ._artifact import Artifact
    from ._exact import Snapshot as ExactSnapshot
    from ._explain import Explanation
    from ._kernel import Kernel
    from ._libtune import Snapshot

DEADLINE_SECONDS = 0.25
_ANSWERS_MAX = 4096  # that are kept to be given again


class UnpinnedError(RuntimeError):
    """A job of several ranks named no snapshot: each rank might read another one."""


class Misses:
    """What a client's daemon is told that nobody has tuned, so that it tunes that in the background.

    A miss is answered at once with the best there is. However many ranks miss the same, one sweep is queued.
    """

    def __init__(self, snapshot: Union[Snapshot, ExactSnapshot]) -> None:
        self._snapshot = snapshot

    @property
    def notes(self) -> tuple[str, ...]:
        """What became of those that were told, a sentence each."""
        return self._snapshot.miss_notes

    def wait(self, seconds: float) -> bool:
        """Until all were told, for a test or the end of a short program; False: not in time."""
        return self._snapshot.wait_for_misses(seconds)


class Client:
    """A snapshot, and the answers that it gave. Thread-safe; a forked child goes on with it."""

    def __init__(self, snapshot: Union[Snapshot, ExactSnapshot], misses: bool = False) -> None:
        self._snapshot = snapshot
        self._misses = Misses(snapshot) if misses else None
        # By what was asked. A dict is safe among threads: at worst an answer is worked out twice.
        self._table: dict[Any, Answer] = {}
        self._kernels: dict[str, Optional[Kernel]] = {}
        self._unknown: set[str] = set()  # kernels that were asked for and told of

    @property
    def digest(self) -> str:
        """Of the snapshot, "sha256:..."; equal on all ranks that read the same. "" without one."""
        return self._snapshot.digest

    @property
    def number(self) -> int:
        """Grows with every publish of a daemon; 0 without a snapshot."""
        return self._snapshot.number

    @property
    def source(self) -> str:
        """Where the snapshot came from: "file", "cache", "daemon", "bundled", "none"."""
        return self._snapshot.source

    @property
    def notes(self) -> tuple[str, ...]:
        """What failed while the snapshot was looked for, a sentence each."""
        return self._snapshot.notes

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels that the snapshot knows."""
        return self._snapshot.kernels

    def vault(self, tuner: str) -> dict[str, str]:
        """The winners of another tuner, such as "helion", that the snapshot carries: values by key, newest first."""
        return self._snapshot.vault(tuner)

    def best(self, kernel: str, *, dtype: object = None, device: object = None,
             default: Optional[Mapping[str, Value]] = None, require_exact: bool = False,
             **dims: int) -> Answer:
        """See tunectl.best."""
        key = (kernel, dtype, device, *dims.items())
        answer = self._table.get(key)
        if answer is None:
            if len(self._table) >= _ANSWERS_MAX:
                self._table.clear()
            answer = self._table[key] = self._answer(kernel, dtype, device, dims)
            if not answer.dims and self.digest:
                self._tell_unknown(kernel)
        if answer.match != "exact":
            if require_exact:
                raise NoExactRecord(answer)
            if default is not None and answer.match == "default":
                why = answer.reason.partition("; the kernel's default")[0].partition("; some valid config")[0]
                return Answer(default, "default", f"{why}; the caller's default",
                              kernel=kernel, device=answer.device, target=answer.target,
                              dims=answer.dims, dtype=answer.dtype, snapshot=answer.snapshot,
                              source=answer.source)
        return answer

    @property
    def misses(self) -> Optional[Misses]:
        """What the daemon was told that nobody has tuned; None: nothing is told."""
        return self._misses

    def explain(self, kernel: str, *, most: int = 5, **question: Any) -> Explanation:
        """See tunectl.explain."""
        from . import _explain

        answer = self.best(kernel, **question)
        options = {name: question.pop(name, None) for name in ("dtype", "device", "default", "require_exact")}
        asked = _asked(options["dtype"], options["device"], question)
        return _explain.explanation(answer, self._snapshot.explain(kernel, *asked, most))

    def artifact(self, digest: str) -> Artifact:
        """Of an answer: what its config was compiled to. ArtifactError."""
        from . import _artifact

        try:
            return _artifact.parse(self._snapshot.artifact(digest), digest)
        except (LookupError, ValueError) as error:
            raise _artifact.ArtifactError(str(error)) from None

    def _kernel(self, name: str) -> Optional[Kernel]:
        """What the snapshot says of a kernel; None: it knows no such kernel."""
        if name not in self._kernels:
            from ._kernel import Kernel

            facts = self._snapshot.kernel(name)
            evaluate = functools.partial(self._snapshot.evaluate, name)
            self._kernels[name] = Kernel(facts, evaluate) if facts is not None else None
        return self._kernels[name]

    def best_many(self, questions: Iterable[Mapping[str, Any]]) -> list[Answer]:
        """See tunectl.best_many."""
        return [self.best(**_checked(question)) for question in questions]

    def _tell_unknown(self, kernel: str) -> None:
        """Once a kernel: a name that is mistyped would get defaults for ever."""
        if kernel in self._unknown or kernel in self.kernels:
            return
        self._unknown.add(kernel)
        import logging

        logging.getLogger("tunectl").warning(
            "no kernel '%s' is known, so its configs are defaults%s", kernel, self.did_you_mean(kernel)
            or f"; there is: {', '.join(self.kernels) or 'none'}")

    def did_you_mean(self, kernel: str) -> str:
        """The end of a sentence about an unknown kernel; empty if no name is like its."""
        import difflib

        near = difflib.get_close_matches(kernel, self.kernels, 1)
        return f"; did you mean '{near[0]}'?" if near else ""

    def _answer(self, kernel: str, dtype: object, device: object, dims: Mapping[str, int]) -> Answer:
        return self._snapshot.best(kernel, *_asked(dtype, device, dims))


def _asked(dtype: object, device: object, dims: Mapping[str, Any]) -> tuple[str, str, dict[str, int]]:
    """A question's parts as plain texts and numbers. TypeError: a dim is no whole number."""
    from ._device import asked_for
    from ._dtypes import dtype_name
    from ._kernel import whole_number

    return dtype_name(dtype), asked_for(device), {name: whole_number(name, value) for name, value in dims.items()}


def _checked(question: Any) -> Mapping[str, Any]:
    if isinstance(question, Mapping) and "kernel" in question:
        return question
    raise TypeError(f"{question!r} is no question: best_many takes a list of best's arguments by name, such as "
                    f"[{{'kernel': 'softmax', 'rows': 4096, 'dtype': 'bf16'}}]")


_warned: set[str] = set()


def _warn_once(text: str) -> None:
    """Logs a sentence once a process: each tuned kernel finds its snapshot anew."""
    import logging

    if text in _warned:
        return
    _warned.add(text)
    logging.getLogger("tunectl").warning("%s", text)


def bundled_folder() -> str:
    """The last source of answers: the package's own, else the records of its programs (a wheel has these once), else
    those of the source tree that it is imported from."""
    package = os.path.dirname(os.path.abspath(__file__))
    places = [os.path.join(package, "bundled"), os.path.join(package, "share", "tunectl", "records")]
    tree = os.path.join(package, *[os.pardir] * 4, "kernels", "records")
    return next(filter(os.path.isdir, places), tree)


def find(snapshot: Union[str, os.PathLike[str], None], deadline: float, address: Optional[str],
         ask_daemon: bool = True, record_misses: Optional[bool] = None) -> Client:
    """See tunectl.open."""
    from . import _exact, _libtune

    wanted = os.environ.get("TUNE_SNAPSHOT", "") if snapshot is None else os.fspath(snapshot)
    wants_misses = record_misses if record_misses is not None else os.environ.get("TUNE_RECORD_MISSES") == "1"
    tells, bundle = bool(wants_misses and ask_daemon), bundled_folder()
    found: Union[Snapshot, ExactSnapshot]
    try:
        found = _libtune.Snapshot.open(wanted, address, deadline if ask_daemon else None, tells, bundle)
    except _libtune.Unpinned as error:
        raise UnpinnedError(str(error)) from None
    except _libtune.LibraryMissing as error:
        if wanted == "" and os.environ.get("WORLD_SIZE", "1") not in ("", "1"):
            raise UnpinnedError("this job has several ranks and names no snapshot: TUNE_SNAPSHOT=sha256:... does") from None
        found = _exact.Snapshot(wanted, bundle, str(error))
        _warn_once(str(error))
    if found.source in ("none", "bundled"):
        instead = "those that the package bundles" if found.source == "bundled" else "defaults"
        _warn_once(f"no snapshot was found, so configs are {instead}: {'; '.join(found.notes)}")
    return Client(found, tells)


_lock = threading.Lock()
_process: Optional[Client] = None
_is_forked = False
_pinned: contextvars.ContextVar[Optional[Client]] = contextvars.ContextVar("tunectl", default=None)


def _after_fork() -> None:
    """A child answers from what its parent had opened, else from files. It asks no daemon."""
    global _lock, _is_forked
    _lock = threading.Lock()
    _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def current() -> Client:
    """What answers here: of the `pin` around, else of the process, which is opened now if need be."""
    client = _pinned.get()
    if client is not None:
        return client
    client = _process
    return client if client is not None else _open_once()


def _open_once() -> Client:
    global _process
    with _lock:
        if _process is None:
            _process = find(None, DEADLINE_SECONDS, None, ask_daemon=not _is_forked)
        return _process


def of_process() -> Optional[Client]:
    """What the process answers from, where no `pin` is around; None: nothing was opened."""
    return _process


def use(client: Client) -> Client:
    """Makes it what the whole process answers from."""
    global _process
    with _lock:
        _process = client
    return client


def open_client(snapshot: Union[str, os.PathLike[str], None], deadline: float, address: Optional[str],
                record_misses: Optional[bool] = None) -> Client:
    return find(snapshot, deadline, address, ask_daemon=not _is_forked, record_misses=record_misses)


@contextlib.contextmanager
def pin(snapshot: Union[str, os.PathLike[str], Client], *,
        deadline: float = DEADLINE_SECONDS) -> Iterator[Client]:
    """See tunectl.pin."""
    client = snapshot if isinstance(snapshot, Client) else open_client(snapshot, deadline, None)
    token = _pinned.set(client)
    try:
        yield client
    finally:
        _pinned.reset(token)
