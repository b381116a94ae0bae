# SPDX-License-Identifier: Apache-2.0
"""Where a daemon listens, and whether work may be handed to whoever does: before gRPC is imported for it."""
from __future__ import annotations

import os
import socket
import stat
import sys
import time
from typing import Optional

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


class NoDaemon(Exception):
    """Nobody listens at an address, or somebody who is not trusted."""


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


def socket_path(address: str) -> str:
    """Of "unix:/run/x.sock" and "unix:///run/x.sock"; empty for anything else."""
    if not address.startswith("unix:"):
        return ""
    path = address[len("unix:"):]
    return path[2:] if path.startswith("//") else path


def _trusted_users() -> set[int]:
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
            raise NoDaemon(f"TUNE_DAEMON_USER: there is no user '{name}'") from None
    return users


def _check_peer(connection: socket.socket, path: str) -> None:
    """gRPC connects again by the path, so nobody else may be able to exchange the socket."""
    import struct

    trusted = _trusted_users()
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    uid = struct.unpack("3i", credentials)[1]
    if uid not in trusted:
        raise NoDaemon(f"the process that listens at {path} runs as user {uid}, not as us or "
                            f"root; if you trust it: TUNE_DAEMON_USER={uid}")
    folder = os.stat(os.path.dirname(path) or ".")
    others_may_write = folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX
    if folder.st_uid not in trusted or others_may_write:
        raise NoDaemon(f"others may exchange the socket {path}: its folder is not ours alone")


def _left(ends_at: float) -> float:
    left = ends_at - time.monotonic()
    if left <= 0:
        raise NoDaemon("no answer in time")
    return left


def connect(path: str) -> socket.socket:
    """A connection to the socket of somebody whom we trust. OSError, NoDaemon."""
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
            raise NoDaemon(f"what answers at {address} is no daemon")


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
        raise NoDaemon(f"'{address}' is no address: unix:/path or host:port")
    host = host.strip("[]")
    family = _family_of(host)
    if family is None:
        return False
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_left(ends_at))
        connection.connect((host, int(port)))
    return True


def _probe(address: str, ends_at: float) -> bool:
    """NoDaemon: nobody is there. False: that cannot be told within this process."""
    path = socket_path(address)
    try:
        if path:
            _probe_socket(address, path, ends_at)
            return True
        return _probe_port(address, ends_at)
    except (OSError, ValueError) as error:
        raise NoDaemon(f"no daemon answers at {address}: {error}") from None


def find_listener(address: str, seconds: float) -> None:
    """NoDaemon: nobody listens there, or it takes longer than that to tell."""
    if _probe(address, time.monotonic() + seconds):
        return
    import subprocess

    host, _, port = address.rpartition(":")
    try:
        done = subprocess.run([sys.executable, "-I", "-S", "-c", _CONNECT, host, port], timeout=seconds,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoDaemon(f"no daemon answers at {address}: {error}") from None
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise NoDaemon(f"no daemon answers at {address}: {said[:300]}")
