# SPDX-License-Identifier: Apache-2.0
"""Asks a daemon for a snapshot or an artifact, or tells it of misses, in a process of its own.

The job's process never imports gRPC for this: it would pay its import, could not fork safely
afterwards, and could not be sure to come back in time. A raw connection first tells a daemon that is
not there, not ours or not a daemon from one that is worth starting the process for.
"""
from __future__ import annotations

import os
import socket
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ._snapshot import BYTES_MAX, SnapshotError

_SETTINGS_FRAME = 4
_FRAME_HEADER_BYTES = 9
_PORT_MAX = 65535
# A program that connects to a name.
_CONNECT = """import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2]))).close()
except OSError as error:
    sys.exit(str(error))
"""
_USAGE_CODE = 2  # tune-fetch's, of words that it does not know
# The program that asks where there is no tune-fetch. It imports gRPC, which takes some tenths of a second.
_FETCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_fetch.py")


def socket_path(address: str) -> str:
    """Of "unix:/run/x.sock" and "unix:///run/x.sock"; empty for anything else."""
    if not address.startswith("unix:"):
        return ""
    path = address[len("unix:"):]
    return path[2:] if path.startswith("//") else path


def trusted_users() -> set[int]:
    """Whose files and sockets count as the daemon's: ours, root's, TUNE_DAEMON_USER's."""
    users = {os.geteuid(), 0}
    name = os.environ.get("TUNE_DAEMON_USER", "")
    if name.isdigit():
        users.add(int(name))
    elif name:
        import pwd

        try:
            users.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            raise SnapshotError(f"TUNE_DAEMON_USER: there is no user '{name}'") from None
    return users


def _check_peer(connection: socket.socket, path: str) -> None:
    """gRPC connects again by the path, so nobody else may be able to exchange the socket."""
    import struct

    trusted = trusted_users()
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", credentials)[1]
    if uid not in trusted:
        raise SnapshotError(f"the process that listens at {path} runs as user {uid}, not as us or "
                            f"root; if you trust it: TUNE_DAEMON_USER={uid}")
    folder = os.stat(os.path.dirname(path) or ".")
    others_may_write = folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX
    if folder.st_uid not in trusted or others_may_write:
        raise SnapshotError(f"others may exchange the socket {path}: its folder is not ours alone")


def _left(ends_at: float) -> float:
    left = ends_at - time.monotonic()
    if left <= 0:
        raise SnapshotError("no answer in time")
    return left


def connect(path: str) -> socket.socket:
    """A connection to the socket of somebody whom we trust. OSError, SnapshotError."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)  # a queue of connections that is full is an error
        connection.connect(path)
        _check_peer(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _probe_socket(address: str, path: str, ends_at: float) -> None:
    """Is there a daemon that greets? HTTP/2 servers send their settings first."""
    with connect(path) as connection:
        connection.settimeout(_left(ends_at))
        greeting = connection.recv(_FRAME_HEADER_BYTES)
        if len(greeting) < 4 or greeting[3] != _SETTINGS_FRAME:
            raise SnapshotError(f"what answers at {address} is no daemon")


def _family_of(host: str) -> Optional[socket.AddressFamily]:
    """Of an address in numbers; None of a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
            return family
        except (OSError, ValueError):
            continue
    return None


def _probe_port(address: str, ends_at: float) -> bool:
    """False of a name: looking it up can take as long as it likes, so only a process that can be killed does."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > _PORT_MAX:
        raise SnapshotError(f"'{address}' is no address: unix:/path or host:port")
    host = host.strip("[]")
    family = _family_of(host)
    if family is None:
        return False
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_left(ends_at))
        connection.connect((host, int(port)))
    return True


def _probe(address: str, ends_at: float) -> bool:
    """SnapshotError: nobody is there. False: that cannot be told within this process."""
    path = socket_path(address)
    try:
        if path:
            _probe_socket(address, path, ends_at)
            return True
        return _probe_port(address, ends_at)
    except (OSError, ValueError) as error:
        raise SnapshotError(f"no daemon answers at {address}: {error}") from None


def find_listener(address: str, seconds: float) -> None:
    """SnapshotError: nobody listens there, or it takes longer than that to tell."""
    if _probe(address, time.monotonic() + seconds):
        return
    import subprocess

    host, _, port = address.rpartition(":")
    try:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", _CONNECT, host, port], timeout=seconds,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SnapshotError(f"no daemon answers at {address}: {error}") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise SnapshotError(f"no daemon answers at {address}: {said[:300]}")


def fetch(address: str, digest: str, ends_at: float) -> bytes:
    """The snapshot's file; of an empty digest the newest. SnapshotError: there is none in time."""
    return _ask(address, "snapshot", digest, ends_at, BYTES_MAX)


def fetch_artifact(address: str, digest: str, ends_at: float, bytes_max: int) -> bytes:
    """An artifact's file. SnapshotError: there is none in time."""
    return _ask(address, "artifact", digest, ends_at, bytes_max)


def record_misses(address: str, questions: Sequence[Mapping[str, Any]], ends_at: float) -> list[str]:
    """What became of each question that no record answers. SnapshotError: nobody was told."""
    told = _ask(address, "misses", "", ends_at, BYTES_MAX, questions)
    return told.decode(errors="replace").removesuffix("\n").split("\n")


def _program() -> tuple[str, bool]:
    """What asks without a Python of its own: TUNE_FETCH's, which is meant, else tune-fetch of the PATH."""
    named = os.environ.get("TUNE_FETCH", "")
    if named:
        return named, True
    for folder in os.get_exec_path():
        path = os.path.join(folder, "tune-fetch")
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path, False
    return "", False


def _ask(address: str, what: str, digest: str, ends_at: float, bytes_max: int,
         questions: Sequence[Mapping[str, Any]] = ()) -> bytes:
    _probe(address, ends_at)
    import json

    program, is_named = _program()
    if program:
        told = json.dumps({"questions": list(questions)}) if questions else ""
        milliseconds = max(1, int(_left(ends_at) * 1e3))
        words = [program, what, digest, address, str(milliseconds), str(bytes_max)]
        code, data, said = _run(words, told, address, ends_at)
        if is_named or code != _USAGE_CODE:  # else of another version
            return _checked(code, data, said, address)
    folders = [one for one in sys.path if isinstance(one, str)]  # a pathlib.Path is ignored by imports, too
    order = {"path": folders, "address": address, "what": what, "digest": digest, "seconds": _left(ends_at),
             "bytes_max": bytes_max, "questions": list(questions)}
    hint = "; with tune-fetch on the PATH no Python has to start for it"
    return _checked(*_run([sys.executable, "-I", _FETCH], json.dumps(order), address, ends_at, hint), address)


def _run(words: list[str], told: str, address: str, ends_at: float, hint: str = "") -> tuple[int, bytes, str]:
    """The exit code of a program that is killed at the deadline, its output and its complaints."""
    import subprocess

    try:
        program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except (OSError, ValueError) as error:
        raise SnapshotError(f"{address}: cannot start {words[0]}, which asks the daemon: {error}") from None
    with program:
        try:
            data, said = program.communicate(told.encode(), timeout=_left(ends_at))
        except (subprocess.TimeoutExpired, SnapshotError):
            program.kill()
            raise SnapshotError(f"{address} does not answer in time{hint}") from None
        except BaseException:  # an interrupt, say
            program.kill()
            raise
    return program.returncode, data, said.decode(errors="replace")


def _checked(code: int, data: bytes, said: str, address: str) -> bytes:
    if code == 0:
        return data
    lines = said.strip().splitlines()
    last = lines[-1].removeprefix(f"{address}: ") if lines else "no answer"
    raise SnapshotError(f"{address}: {last[:300]}")
