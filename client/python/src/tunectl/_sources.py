# SPDX-License-Identifier: Apache-2.0
"""Where a snapshot comes from, in this order, each tried at most once:

1. a file: what `snapshot` or TUNE_SNAPSHOT names, or the folder that the host's daemon writes;
2. the node's cache, which processes share;
3. the daemon, asked by a process of its own that is killed at the deadline;
4. what the package bundles.

Whatever fails on the way is remembered and told, never raised.
"""
from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable
from typing import NamedTuple, Optional

from ._snapshot import BYTES_MAX, Snapshot, SnapshotError, is_digest

# How long the processes of a node take what one of them has fetched for the newest, in seconds.
FRESH_SECONDS = 60.0
# Of a deadline: to end the process that asked, and to read what there is instead.
_RESERVE_SECONDS = 0.015
# What a node's cache keeps beyond a day.
_DAY_SECONDS = 86400.0
_SNAPSHOTS_MAX = 16
_HEADER_BYTES_MAX = 4096
_NAMED_MAX = 20  # snapshots, where one is not there


class Wish(NamedTuple):
    """Which snapshot is wanted."""

    digest: str = ""  # empty: the newest
    path: str = ""  # a file, or the number of one of the host's; not empty: this and no other

    @property
    def pinned(self) -> bool:
        return bool(self.digest or self.path)


class Fetched(NamedTuple):
    snapshot: Optional[Snapshot]
    source: str  # "file", "cache", "daemon", "bundled", "none"
    notes: tuple[str, ...]  # what failed on the way, a sentence each
    folder: str = ""  # that the snapshot's file lies in, where it is a file


def _is_start_of_digest(text: str) -> bool:
    return re.fullmatch("[0-9a-f]{6,64}", text) is not None and not text.isdigit()


def parse_wish(text: str) -> Wish:
    """Of "sha256:<hex>", "latest", "", a path or a number. ValueError for text that is none of them."""
    if text in ("", "latest"):
        return Wish()
    if is_digest(text):
        return Wish(digest=text)
    if text.startswith("sha256:") or _is_start_of_digest(text) and not os.path.exists(text):
        raise ValueError(f"'{text}' is no digest: sha256: and 64 hex digits in lower case, as `tunectl snapshot list` prints "
                         f"them; the start of one could be another snapshot's on another node")
    is_word = re.fullmatch("[A-Za-z_][A-Za-z0-9_-]*", text) is not None
    if is_word and not os.path.exists(text):
        raise ValueError(f"'{text}' names no snapshot: it is neither a file, a number, a digest (sha256:...) nor \"latest\"")
    return Wish(path=text)


def _home(variable: str, fallback: str) -> str:
    folder = os.environ.get(variable)
    if folder:
        return folder
    home = os.environ.get("HOME")
    return os.path.join(home, fallback) if home else ""


def state_folder() -> str:
    """The daemon's, by its own rule; empty: none."""
    folder = os.environ.get("TUNE_STATE_DIR")
    if folder:
        return folder
    state = os.environ.get("XDG_STATE_HOME")
    if state:
        return os.path.join(state, "tunectl")
    if os.geteuid() == 0:
        return "/var/lib/tunectl"
    home = os.environ.get("HOME")
    return os.path.join(home, ".local/state/tunectl") if home else ""


def snapshot_folder() -> str:
    """Where the daemon of this host writes snapshots; empty: nowhere."""
    folder = os.environ.get("TUNE_SNAPSHOT_DIR")
    state = state_folder()
    return folder or (os.path.join(state, "snapshots") if state else "")


def cache_folder() -> str:
    """Of this node and user; empty: none."""
    folder = os.environ.get("TUNE_CACHE_DIR")
    if folder:
        return folder
    cache = _home("XDG_CACHE_HOME", ".cache")
    return os.path.join(cache, "tunectl") if cache else ""


def default_address() -> str:
    """Where the host's daemon listens, by its own rule."""
    address = os.environ.get("TUNE_ADDRESS")
    if address:
        return address
    if os.getuid() == 0:
        return "unix:/run/tunerd/tunerd.sock"
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return f"unix:{runtime}/tunerd.sock"
    return f"unix:/tmp/tunerd-{os.getuid()}/tunerd.sock"


def read_file(path: str, bytes_max: int) -> bytes:
    """SnapshotError for what is no regular file of a sane size."""
    import stat

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise SnapshotError(f"{path} is no regular file")
            if status.st_size > bytes_max:
                raise SnapshotError(f"{path} has more than {bytes_max} bytes")
            return file.read(bytes_max + 1)
    except OSError as error:
        raise SnapshotError(f"{path}: {error.strerror}") from None


def _load(path: str, digest: str) -> Snapshot:
    try:
        return Snapshot(read_file(path, BYTES_MAX), digest)
    except SnapshotError as error:
        text = str(error)
        raise SnapshotError(text if text.startswith(path) else f"{path}: {text}") from None


def _file_name(digest: str) -> str:
    return f"{digest.replace(':', '-')}.json"


def _from_folder(folder: str, wish: Wish) -> Snapshot:
    """Of the host's daemon."""
    digest = wish.digest
    if not digest:
        digest = read_file(os.path.join(folder, "latest"), 128).decode("ascii", "replace").strip()
        if not is_digest(digest):
            raise SnapshotError(f"{folder}/latest names no snapshot")
    return _load(os.path.join(folder, _file_name(digest)), digest)


def _numbers_in(folder: str) -> dict[int, list[str]]:
    """The digests of the host's snapshots, by their numbers."""
    import json

    numbers: dict[int, list[str]] = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return numbers
    for name in names:
        path, digest = os.path.join(folder, name), name.removesuffix(".json").replace("-", ":")
        try:
            if not is_digest(digest) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                header = json.loads(file.readline(_HEADER_BYTES_MAX).rstrip(b"\r\n,") + b"}")
            numbers.setdefault(int(header["number"]), []).append(digest)
        except (OSError, ValueError, TypeError, KeyError):
            continue
    return numbers


def _numbered(folder: str, number: int) -> Snapshot:
    """The host's snapshot of that number."""
    numbers = _numbers_in(folder)
    digests = numbers.get(number, [])
    if len(digests) == 1:
        return _from_folder(folder, Wish(digest=digests[0]))
    if digests:
        raise SnapshotError(f"{len(digests)} snapshots in {folder} have the number {number}; name one by its digest")
    there = ", ".join(map(str, sorted(numbers, reverse=True)[:_NAMED_MAX])) or "none"
    raise SnapshotError(f"snapshot {number} is not there: {folder or 'no folder'} has {there}; a digest (sha256:...) or a "
                        f"file's path names one, too")


def digest_in_folder(address: str) -> str:
    """Of the newest snapshot that the host's daemon wrote, without reading it; "": that is not known."""
    folder = snapshot_folder()
    if not folder or not _folder_is_of(address):
        return ""
    try:
        return read_file(os.path.join(folder, "latest"), 128).decode("ascii", "replace").strip()
    except SnapshotError:
        return ""


class NodeFolder:
    """Files that the processes of a user on a node share: written whole, checked when read."""

    def __init__(self, path: str, files_max: int) -> None:
        """`files_max`: of those that are named by their digest; older ones go when one is kept."""
        self._path = path  # empty: there is none
        self._files_max = files_max

    def _is_ours(self) -> bool:
        """Nobody else can have put a file there."""
        try:
            status = os.stat(self._path)
        except OSError:
            return False
        return status.st_uid in (os.geteuid(), 0) and not status.st_mode & 0o022

    def read(self, name: str, bytes_max: int) -> bytes:
        if not self._path or not self._is_ours():
            raise SnapshotError("there is no cache of our own")
        return read_file(os.path.join(self._path, name), bytes_max)

    def age(self, name: str) -> float:
        """Seconds since it was written."""
        return time.time() - os.stat(os.path.join(self._path, name)).st_mtime

    def keep(self, name: str, data: bytes) -> bool:
        """A folder that cannot be written to is none; nothing fails."""
        if not self._path:
            return False
        try:
            os.makedirs(self._path, mode=0o700, exist_ok=True)
            if not self._is_ours():
                return False
            self._write(os.path.join(self._path, name), data)
        except OSError:
            return False
        self._prune(name)
        return True

    def _prune(self, kept: str) -> None:
        """Removes what processes that died left unfinished, and all but the newest files. Nothing of the last day."""
        try:
            ages = {entry.name: time.time() - entry.stat(follow_symlinks=False).st_mtime
                    for entry in os.scandir(self._path)}
        except OSError:  # somebody else prunes
            return
        unfinished = [name for name in ages if re.search(r"\.\d+\.\d+$", name)]
        files = sorted((name for name in {*ages} - {*unfinished} if name.startswith("sha256-")), key=ages.__getitem__)
        for name in unfinished + files[self._files_max:]:
            if name == kept or ages[name] < _DAY_SECONDS:
                continue
            try:
                os.unlink(os.path.join(self._path, name))
            except OSError:
                pass

    @staticmethod
    def _write(path: str, data: bytes) -> None:
        fresh = f"{path}.{os.getpid()}.{time.monotonic_ns()}"
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(fresh, path)
        except OSError:
            try:
                os.unlink(fresh)
            except OSError:
                pass
            raise


class NodeCache:
    """The snapshots of one daemon that processes of this node have fetched."""

    def __init__(self, folder: str, address: str) -> None:
        import hashlib

        self._folder = NodeFolder(os.path.join(folder, "snapshots") if folder else "", _SNAPSHOTS_MAX)
        self._latest = "latest-" + hashlib.sha256(address.encode()).hexdigest()[:16]

    def load(self, digest: str) -> Snapshot:
        return Snapshot(self._folder.read(_file_name(digest), BYTES_MAX), digest)

    def latest(self) -> tuple[str, float]:
        """The digest that the daemon last named as the newest, and how many seconds ago."""
        try:
            digest = self._folder.read(self._latest, 128).decode("ascii", "replace").strip()
            return (digest, self._folder.age(self._latest)) if is_digest(digest) else ("", 0.0)
        except (SnapshotError, OSError):
            return "", 0.0

    def keep(self, digest: str, data: bytes, newest: bool) -> None:
        if self._folder.keep(_file_name(digest), data) and newest:
            self._folder.keep(self._latest, digest.encode() + b"\n")


def _bundled_folder() -> str:
    """Of the package, else of the source tree that it is imported from."""
    package = os.path.dirname(os.path.abspath(__file__))
    bundled = os.path.join(package, "bundled")
    return bundled if os.path.isdir(bundled) else os.path.join(package, *[os.pardir] * 4, "kernels", "records")


def _bundled(wish: Wish) -> Snapshot:
    """A snapshot that the package was built with, else the records that ship."""
    folder = _bundled_folder()
    own = os.path.join(folder, "snapshot.json")
    if os.path.exists(own):
        return _load(own, wish.digest)
    import gzip
    import zlib

    try:
        paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".records.json.gz")]
        files = [gzip.decompress(read_file(path, BYTES_MAX)) for path in paths]
    except (OSError, EOFError, zlib.error) as error:
        raise SnapshotError(f"{folder}: {error}") from None
    if not files:
        raise SnapshotError("the package bundles no records")
    return Snapshot(b"", wish.digest, files)


def _folder_is_of(address: str) -> bool:
    """Does the daemon at an address write this host's snapshot folder? Not one of another host, nor,
    unless its folder is named, one of another address than the host's."""
    if not address.startswith("unix:"):
        return False
    named = any(os.environ.get(name) for name in ("TUNE_SNAPSHOT_DIR", "TUNE_STATE_DIR"))
    return named or (not os.environ.get("TUNE_ADDRESS") and address == default_address())


def _from_daemon(wish: Wish, address: str, cache: NodeCache, ends_at: float) -> Snapshot:
    """SnapshotError: nobody answers in time, or nobody that is trusted."""
    from . import _daemon

    data = _daemon.fetch(address, wish.digest, ends_at)
    snapshot = Snapshot(data, wish.digest)
    cache.keep(snapshot.digest, data, newest=not wish.digest)
    return snapshot


def _from_cache(wish: Wish, cache: NodeCache, age_max: float) -> Snapshot:
    digest, age = (wish.digest, 0.0) if wish.digest else cache.latest()
    if not digest or age > age_max:
        raise SnapshotError("the node's cache has nothing" + (" that is new" if digest else ""))
    return cache.load(digest)


def find(wish: Wish, address: str, cache_dir: str, deadline: float, ask_daemon: bool,
         fresh: float = FRESH_SECONDS) -> Fetched:
    """Waits no longer than `deadline` seconds for the daemon, and for nobody else."""
    ends_at = time.monotonic() + deadline - _RESERVE_SECONDS
    cache, folder = NodeCache(cache_dir, address), snapshot_folder()
    tries: list[tuple[str, Callable[[], Snapshot]]] = []
    number = int(wish.path) if re.fullmatch("[0-9]{1,18}", wish.path) and not os.path.exists(wish.path) else None
    if number is not None:
        tries.append(("file", lambda: _numbered(folder, number)))
    elif wish.path:
        tries.append(("file", lambda: _load(wish.path, "")))
    else:
        if folder and (wish.digest or _folder_is_of(address)):
            tries.append(("file", lambda: _from_folder(folder, wish)))
        tries.append(("cache", lambda: _from_cache(wish, cache, fresh)))
        if ask_daemon:
            tries.append(("daemon", lambda: _from_daemon(wish, address, cache, ends_at)))
        if not wish.digest:
            tries.append(("cache", lambda: _from_cache(wish, cache, math.inf)))
        tries.append(("bundled", lambda: _bundled(wish)))
    folders = {"file": os.path.dirname(os.path.abspath(wish.path)) if wish.path and number is None else folder,
               "bundled": _bundled_folder()}
    notes: list[str] = []
    for source, load in tries:
        try:
            return Fetched(load(), source, tuple(dict.fromkeys(notes)), folders.get(source, ""))
        except SnapshotError as error:
            notes.append(str(error))
    return Fetched(None, "none", tuple(dict.fromkeys(notes)))
