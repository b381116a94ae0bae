# SPDX-License-Identifier: Apache-2.0
"""Calls to a daemon. Needs grpcio and protobuf, which `pip install 'tunectl[rpc]'` brings.

The messages are those of proto/tune/v1, described by one file that protoc writes when the package
is built. They live in a pool of their own, so that nobody else's messages are in the way, and any
protobuf from 4.21 on reads them.
"""
from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"this needs gRPC, and there is {error.msg.lower()}: pip install 'tunectl[rpc]'",
                              name=error.name) from None

from . import _daemon, _tls

_MESSAGE_BYTES_MAX = 64 << 20
_SECRET_BYTES_MAX = 64 << 10
_OPTIONS = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
]


class DaemonError(Exception):
    """A daemon that does not answer or refuses; `code` is gRPC's name, "UNAVAILABLE"."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


def failed(event: Any) -> DaemonError:
    """Of the last event of a job that is not done; None: there was none."""
    if event is None:
        return DaemonError("the job ended without a result")
    codes = {code.value[0]: code.name for code in grpc.StatusCode}
    return DaemonError(event.job.message or "the job was cancelled", codes.get(event.error_code or 1, "UNKNOWN"))


@functools.lru_cache(maxsize=1)
def _pool() -> Any:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tune.protoset")
    path = os.environ.get("TUNE_PROTO_SET", path)
    try:
        with open(path, "rb") as file:
            described = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    except OSError as error:
        raise DaemonError(f"the package was built without protoc, or away from proto/ of its repository, so it knows no messages "
                          f"({error}): 'pip install client/python[rpc]' in a whole clone, or set TUNE_PROTO_SET to a build's "
                          "python/tune.protoset") from None
    pool = descriptor_pool.DescriptorPool()
    for one in described.file:
        pool.AddSerializedFile(one.SerializeToString())
    return pool


@functools.lru_cache(maxsize=None)
def message(name: str) -> Any:
    """The class of "SubmitSweepRequest"."""
    descriptor = _pool().FindMessageTypeByName(f"tune.v1.{name}")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    factory: Any = message_factory.MessageFactory(_pool())  # protobuf 4.21
    return factory.GetPrototype(descriptor)


def unpacked(results: Iterable[Any], name: str) -> list[Any]:
    """The messages of a type, such as "Sweep", among the results of a job."""
    return [message(name).FromString(one.value) for one in results if one.type_url.endswith(f"/tune.v1.{name}")]


def enum_value(name: str, value: str) -> int:
    """Of "CacheMode", "CACHE_MODE_WARM"."""
    return int(_pool().FindEnumTypeByName(f"tune.v1.{name}").values_by_name[value].number)


def _read_file(variable: str) -> Optional[bytes]:
    path = os.environ.get(variable)
    if not path:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise DaemonError(f"{variable}: {path}: {error.strerror}") from None


def _read_secret(variable: str, path: str) -> bytes:
    """Of a file that nobody else may read: no others, and a group only where root gave it the file."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            state = os.fstat(file.fileno())
            others = 0o007 if state.st_uid == 0 else 0o077
            if state.st_uid not in (os.geteuid(), 0):
                raise DaemonError(f"{variable}: {path} holds a secret and belongs to user "
                                  f"{state.st_uid}, so it is not used", "PERMISSION_DENIED")
            if state.st_mode & others:
                raise DaemonError(f"{variable}: {path} holds a secret and mode "
                                  f"{state.st_mode & 0o7777:04o} lets others use it, so it is not "
                                  f"used: chmod 600 {path}", "PERMISSION_DENIED")
            return file.read(_SECRET_BYTES_MAX)
    except OSError as error:
        raise DaemonError(f"{variable}: {path}: {error.strerror}") from None


def _key() -> Optional[bytes]:
    path = os.environ.get("TUNE_TLS_KEY")
    return _read_secret("TUNE_TLS_KEY", path) if path else None


def _token() -> str:
    """Of TUNE_TOKEN_FILE, else TUNE_TOKEN, else, without a certificate, of ~/.config/tunectl/token."""
    path, token = os.environ.get("TUNE_TOKEN_FILE", ""), os.environ.get("TUNE_TOKEN", "")
    if not path and not token and not os.environ.get("TUNE_TLS_CERT"):
        folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
        own = os.path.join(folder, "tunectl", "token")
        path = own if os.path.exists(own) else ""
    if path:
        token = _read_secret("TUNE_TOKEN_FILE", path).decode("ascii", errors="replace")
    token = token.strip()
    if (path and not token) or not all("!" <= c <= "~" for c in token):
        raise DaemonError(f"{path or 'TUNE_TOKEN'} is no token: `tunectl token create` prints one")
    return token


def _check_listener(address: str) -> None:
    """DaemonError: nobody listens at a socket, or somebody whom nothing is sent to."""
    try:
        _daemon.connect(_daemon.socket_path(address)).close()
    except _daemon.NoDaemon as error:
        raise DaemonError(f"{address}: {error}", "PERMISSION_DENIED") from None
    except (OSError, ValueError) as error:
        raise DaemonError(f"no daemon answers at {address}: {error}", "UNAVAILABLE") from None


class Connection:
    """A channel that is closed at the end. Each call has a deadline, none waits for a daemon."""

    def __init__(self, address: str, seconds: float) -> None:
        """`seconds`: for all calls together. DaemonError: a stranger listens there, or nobody at a socket."""
        self._address = address
        self._ends_at = time.monotonic() + seconds
        if address.startswith("unix:"):
            _check_listener(address)
            self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        else:
            wrong = _tls.check_pair(os.environ.get("TUNE_TLS_CERT"), os.environ.get("TUNE_TLS_KEY"))
            if wrong:
                raise DaemonError(wrong, "INVALID_ARGUMENT")
            credentials = grpc.ssl_channel_credentials(
                root_certificates=_read_file("TUNE_TLS_CA"), private_key=_key(),
                certificate_chain=_read_file("TUNE_TLS_CERT"))
            if token := _token():
                credentials = grpc.composite_channel_credentials(
                    credentials, grpc.access_token_call_credentials(token))
            self._channel = grpc.secure_channel(address, credentials, options=_OPTIONS)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *unused: object) -> None:
        self._channel.close()

    def call(self, service: str, method: str, **fields: Any) -> Any:
        """call("JobService", "ListJobs", limit=20): the response."""
        _, request, response = self._described(service, method)
        send = self._channel.unary_unary(
            f"/tune.v1.{service}/{method}", request_serializer=request.SerializeToString,
            response_deserializer=response.FromString)
        return self._answered(lambda: send(request(**fields), timeout=self._left()))

    def watch(self, service: str, method: str, **fields: Any) -> Iterator[Any]:
        """The responses of a call that streams them."""
        _, request, response = self._described(service, method)
        send = self._channel.unary_stream(
            f"/tune.v1.{service}/{method}", request_serializer=request.SerializeToString,
            response_deserializer=response.FromString)
        answers = send(request(**fields), timeout=self._left())
        while True:
            one = self._answered(lambda: next(answers, None))
            if one is None:
                return
            yield one

    def _described(self, service: str, method: str) -> tuple[Any, Any, Any]:
        described = _pool().FindServiceByName(f"tune.v1.{service}").methods_by_name[method]
        return described, message(described.input_type.name), message(described.output_type.name)

    def _left(self) -> float:
        return max(0.001, self._ends_at - time.monotonic())

    def _answered(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except grpc.RpcError as error:
            code, details = error.code().name, error.details()
            if code == "UNAVAILABLE" and not self._address.startswith("unix:"):
                ca, certificate, key = (os.environ.get(f"TUNE_TLS_{name}", "") for name in ("CA", "CERT", "KEY"))
                details = _tls.why_not(self._address, ca, certificate, key, self._left()) or details
            raise DaemonError(f"{self._address}: {details or code}", code) from None


def as_rows(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Messages as plain dicts: every field by its proto name, enums in lower case without prefix."""
    return [_as_dict(one) for one in messages]


def _is_repeated(field: Any) -> bool:
    known = getattr(field, "is_repeated", None)  # from protobuf 6 on, which has no label from 7 on
    return bool(field.label == field.LABEL_REPEATED) if known is None else bool(known)


def _as_dict(one: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in one.DESCRIPTOR.fields:
        value = getattr(one, field.name)
        if _is_repeated(field):
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            row[field.name] = dict(value) if is_map else [_plain(field, item) for item in value]
        elif field.message_type is not None and not one.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _plain(field, value)
    return row


def _plain(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        prefix = "".join(f"_{c}" if c.isupper() else c.upper() for c in field.enum_type.name)[1:]
        name = names[value].name if value in names else str(value)
        return name.removeprefix(prefix.upper() + "_").lower()
    if field.message_type is None:
        return value
    if field.message_type.name in _NAMED:
        return _NAMED[field.message_type.name](value)
    return _as_dict(value)


def _config(config: Any) -> dict[str, Any]:
    return {entry.param: getattr(entry.value, entry.value.WhichOneof("kind") or "text")
            for entry in config.entries}


def _problem(problem: Any) -> dict[str, Any]:
    return {**{dim.name: dim.value for dim in problem.dims}, "dtype": problem.dtype}


def _any(one: Any) -> dict[str, Any]:
    name = one.type_url.rpartition(".")[2]
    return {"@type": name, **_as_dict(message(name).FromString(one.value))}


_NAMED = {"Any": _any, "Config": _config, "Problem": _problem}
