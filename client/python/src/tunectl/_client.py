# SPDX-License-Identifier: Apache-2.0
"""Answers from one snapshot, which is found once and never changes afterwards."""
from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional, Union

from ._answer import Answer, NoExactRecord, Value

if TYPE_CHECKING:
    from ._artifact import Artifact, ArtifactSource
    from ._explain import Explanation
    from ._misses import Misses
    from ._sources import Fetched

DEADLINE_SECONDS = 0.25
NEWER_SECONDS = 10.0  # nobody waits for what is newer
_ANSWERS_MAX = 4096  # that are kept to be given again


class UnpinnedError(RuntimeError):
    """A job of several ranks named no snapshot: each rank might read another one."""


class Client:
    """A snapshot, and the answers that it gave. Thread-safe; a forked child goes on with it."""

    def __init__(self, fetched: Fetched, artifacts: ArtifactSource, misses: Optional[Misses] = None,
                 address: str = "") -> None:
        self._misses = misses
        self._address = address
        self._snapshot = fetched.snapshot
        self._artifacts = artifacts
        self._source = fetched.source
        self._notes = fetched.notes
        # By what was asked. A dict is safe among threads: at worst an answer is worked out twice.
        self._table: dict[Any, Answer] = {}
        self._unknown: set[str] = set()  # kernels that were asked for and told of
        _clients.add(self)

    @property
    def digest(self) -> str:
        """Of the snapshot, "sha256:..."; equal on all ranks that read the same. "" without one."""
        return self._snapshot.digest if self._snapshot is not None else ""

    @property
    def number(self) -> int:
        """Grows with every publish of a daemon; 0 without a snapshot."""
        return self._snapshot.number if self._snapshot is not None else 0

    @property
    def source(self) -> str:
        """Where the snapshot came from: "file", "cache", "daemon", "bundled", "none"."""
        return self._source

    @property
    def notes(self) -> tuple[str, ...]:
        """What failed while the snapshot was looked for, a sentence each."""
        return self._notes

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels that the snapshot knows."""
        return self._snapshot.kernel_names if self._snapshot is not None else []

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
            if not answer.dims and self._snapshot is not None:
                self._tell_unknown(kernel)
            if self._misses is not None and answer.match != "exact":
                self._misses.add(answer)
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

    @property
    def questions(self) -> list[tuple[dict[str, Any], Answer]]:
        """What was asked so far, as best's arguments, each once, and what was answered."""
        return [({"kernel": kernel, "dtype": dtype, "device": device, **dict(dims)}, answer)
                for (kernel, dtype, device, *dims), answer in list(self._table.items())]

    def newer_than(self, digest: str, fresh: float = 0.0) -> Optional[Client]:
        """A client of the newest snapshot; None: that is `digest`, or nothing is found in time.

        What a process of this node was told by the daemon within `fresh` seconds will do.
        """
        from . import _sources

        if digest and _sources.digest_in_folder(self._address) == digest:
            return None
        newest = find("latest", NEWER_SECONDS, self._address, not _is_forked, record_misses=False, fresh=fresh)
        if newest.digest in ("", digest) or newest.source == "bundled":
            return None  # what the package brings is older than what anybody has tuned
        newest._misses = self._misses
        return newest

    def explain(self, kernel: str, *, most: int = 5, **question: Any) -> Explanation:
        """See tunectl.explain."""
        from . import _explain

        answer = self.best(kernel, **question)
        if self._snapshot is None:
            return _explain.Explanation(answer, ())
        return _explain.explain(self._snapshot, answer, most)

    def artifact(self, digest: str) -> Artifact:
        """Of an answer: what its config was compiled to. ArtifactError."""
        return self._artifacts.find(digest)

    def forget_daemon(self) -> None:
        """In a forked child: from here on, artifacts come from files, and nothing is told."""
        self._artifacts.ask_daemon = False
        if self._misses is not None:
            self._misses.forget_daemon()

    def best_many(self, questions: Iterable[Mapping[str, Any]]) -> list[Answer]:
        """See tunectl.best_many."""
        return [self.best(**_checked(question)) for question in questions]

    def _tell_unknown(self, kernel: str) -> None:
        """Once a kernel: a name that is mistyped would get defaults for ever."""
        if kernel in self._unknown or kernel in self.kernels:
            return
        self._unknown.add(kernel)
        import difflib
        import logging

        near = difflib.get_close_matches(kernel, self.kernels, 1)
        logging.getLogger("tunectl").warning(
            "no kernel '%s' is known, so its configs are defaults%s", kernel, f"; did you mean '{near[0]}'?" if near else
            f"; there is: {', '.join(self.kernels) or 'none'}")

    def _answer(self, kernel: str, dtype: object, device: object,
                dims: Mapping[str, int]) -> Answer:
        if self._snapshot is None:
            return Answer({}, "default", f"there is no snapshot: {'; '.join(self._notes)}",
                          kernel=kernel, source=self._source)
        from . import _resolve

        return _resolve.answer(self._snapshot, self._source, kernel, _resolve.dtype_name(dtype),
                               _resolve.device_name(device), dims)


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


def _world_size() -> int:
    text = os.environ.get("WORLD_SIZE", "")
    return int(text) if text.isdigit() else 1


def find(snapshot: Union[str, os.PathLike[str], None], deadline: float, address: Optional[str],
         ask_daemon: bool = True, record_misses: Optional[bool] = None, fresh: Optional[float] = None) -> Client:
    """See tunectl.open; fresh: as _sources.find's."""
    from . import _artifact, _sources

    wanted = os.environ.get("TUNE_SNAPSHOT", "") if snapshot is None else os.fspath(snapshot)
    wish = _sources.parse_wish(wanted)
    if not wish.pinned and wanted != "latest" and _world_size() > 1:
        raise UnpinnedError(
            f"this job has {_world_size()} ranks and names no snapshot, so they may read different "
            f"ones; start it with TUNE_SNAPSHOT=sha256:..., which `tunectl snapshot pin` prints, or "
            f"say TUNE_SNAPSHOT=latest if the ranks may differ")
    address, cache = address or _sources.default_address(), _sources.cache_folder()
    fetched = _sources.find(wish, address, cache, max(0.0, deadline), ask_daemon,
                            _sources.FRESH_SECONDS if fresh is None else min(fresh, _sources.FRESH_SECONDS))
    if fetched.snapshot is None or fetched.source == "bundled":
        bundled = "those that the package bundles" if fetched.snapshot is not None else "defaults"
        _warn_once(f"no snapshot was found, so configs are {bundled}: {'; '.join(fetched.notes)}")
    folder = os.path.join(fetched.folder, "artifacts") if fetched.folder else ""
    artifacts = _artifact.ArtifactSource(folder, cache, address, max(0.0, deadline), ask_daemon)
    misses = None
    wants_misses = record_misses if record_misses is not None else os.environ.get("TUNE_RECORD_MISSES") == "1"
    if wants_misses and ask_daemon:
        from ._misses import Misses

        misses = Misses(address)
    return Client(fetched, artifacts, misses, address)


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_lock = threading.Lock()
_process: Optional[Client] = None
_is_forked = False
_pinned: contextvars.ContextVar[Optional[Client]] = contextvars.ContextVar("tunectl", default=None)


def _after_fork() -> None:
    """A child answers from what its parent had opened, else from files. It asks no daemon."""
    global _lock, _is_forked
    _lock = threading.Lock()
    _is_forked = True
    for client in _clients:
        client.forget_daemon()


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
