# SPDX-License-Identifier: Apache-2.0
"""libtune through ctypes: client/libtune/include/tune/tune.h. It has the rules; this has none.

`library()` finds and loads it once. `Snapshot` is a tune_client, `Watch` a tune_watch. A call that may work or wait
releases Python's lock; one that reads a field keeps it. A forked child may go on with all of it. A mistake of the
caller is a ValueError with the library's own words.
"""
from __future__ import annotations

import ctypes
import functools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional

from ._answer import Answer, Expectation, Launch, Neighbour, Value

NAME = "libtune.so.1"
_ABI_VERSION = 4  # what this file was written for; libraries only add to it
_OK, _INVALID_ARGUMENT, _NOT_FOUND, _RESOURCE_EXHAUSTED, _FAILED_PRECONDITION = 0, 3, 5, 8, 9
_BASES = ("nothing", "measured", "neighbours", "sibling")
_DEADLINE_MAX = 3600.0
_EVERY_MIN, _EVERY_MAX = 0.1, 86400.0

_Text, _Pointer, _Size = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t


class LibraryMissing(Exception):
    """libtune was not found, or is too old: its text says where it was looked for."""


class Unpinned(Exception):
    """TUNE_FAILED_PRECONDITION."""


class Struct(ctypes.Structure):
    """One that begins with its size."""

    def __init__(self, *fields: Any) -> None:
        super().__init__(ctypes.sizeof(self), *fields)


class _Options(Struct):
    _fields_ = [("size", ctypes.c_uint32), ("snapshot", _Text), ("address", _Text), ("deadline", ctypes.c_double),
                ("record_misses", ctypes.c_int), ("bundle", _Text)]


class _Dim(ctypes.Structure):
    _fields_ = [("name", _Text), ("value", ctypes.c_int64)]


class _Question(Struct):
    _fields_ = [("size", ctypes.c_uint32), ("kernel", _Text), ("dtype", _Text), ("device", _Text),
                ("dims", ctypes.POINTER(_Dim)), ("dim_count", _Size), ("require_exact", ctypes.c_int)]


class _Device(Struct):
    _fields_ = [("size", ctypes.c_uint32), ("id", _Text), ("name", _Text), ("target", _Text), ("driver", _Text),
                ("sm_count", ctypes.c_int64)]


class _Param(ctypes.Structure):
    _fields_ = [("name", _Text), ("kind", ctypes.c_int), ("integer", ctypes.c_int64), ("number", ctypes.c_double),
                ("text", _Text)]


class _Record(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int64), ("published_unix_ms", ctypes.c_int64), ("latency_ns", ctypes.c_double),
                ("latency_ns_low", ctypes.c_double), ("latency_ns_high", ctypes.c_double), ("confidence", _Text),
                ("evidence", _Text), ("artifact", _Text)]


class _Expectation(ctypes.Structure):
    _fields_ = [("basis", ctypes.c_int), ("loss", ctypes.c_double), ("loss_low", ctypes.c_double),
                ("loss_high", ctypes.c_double)]


class _Neighbour(Struct):
    _fields_ = [("size", ctypes.c_uint32), ("weight", ctypes.c_double), ("loss", ctypes.c_double), ("dim_count", _Size)]


class _Launch(Struct):
    _fields_ = [("size", ctypes.c_uint32), ("shared_bytes", ctypes.c_uint32), ("grid", ctypes.c_uint32 * 3),
                ("block", ctypes.c_uint32 * 3), ("cluster", ctypes.c_uint32 * 3)]


_P, _INT = _Pointer, ctypes.c_int
_FUNCTIONS: dict[str, tuple[Any, ...]] = {  # what is returned, then what is taken
    "abi_version": (ctypes.c_uint32,), "error": (_Text,), "open": (_INT, _P, _P), "close": (None, _P),
    "client_digest": (_Text, _P), "client_source": (_Text, _P), "client_number": (ctypes.c_int64, _P),
    "client_note": (_Text, _P, _Size), "client_kernel": (_Text, _P, _Size), "best": (_INT, _P, _P, _P),
    "answer_free": (None, _P), "explain_json": (_INT, _P, _P, _Size, _P), "kernel_json": (_INT, _P, _Text, _P),
    "evaluate": (_INT, _P, _P, _Text, _Text, _P), "local_device": (_INT, _Size, _P), "free": (None, _P),
    "answer_match_name": (_Text, _P), "answer_reason": (_Text, _P), "answer_kernel": (_Text, _P),
    "answer_device": (_Text, _P), "answer_target": (_Text, _P), "answer_driver": (_Text, _P),
    "answer_dtype": (_Text, _P), "answer_snapshot": (_Text, _P), "answer_source": (_Text, _P),
    "answer_expected": (_Text, _P), "answer_is_chosen": (_INT, _P), "answer_param": (_INT, _P, _Size, _P),
    "answer_dim": (_INT, _P, _Size, _P), "answer_launch": (_INT, _P, _Size, _P), "answer_record": (None, _P, _P),
    "answer_expectation": (None, _P, _P), "answer_neighbour": (_INT, _P, _Size, _P),
    "answer_neighbour_dim": (_INT, _P, _Size, _Size, _P), "artifact": (_INT, _P, _Text, _P, _P),
    "misses_wait": (_INT, _P, ctypes.c_double), "misses_note": (_Text, _P, _Size),
    "watch_open": (_INT, _P, ctypes.c_double, _P), "watch_close": (None, _P), "watch_poll": (_Size, _P),
    "watch_look": (_INT, _P, _P), "watch_digest": (_Text, _P), "watch_better": (_INT, _P, _Size, _P, _P),
    "watch_take": (_INT, _P, _P), "vault_json": (_INT, _P, _Text, _P)}# Those that work or wait.
_SLOW = {"open", "vault_json", "close", "best", "explain_json", "artifact", "misses_wait", "local_device", "watch_open",
         "watch_close", "watch_poll", "watch_look", "watch_take"}


def places(name: str = NAME, variable: str = "TUNE_LIBRARY") -> list[str]:
    """Where a library may be: the file that the variable names, and no other; else in the package, in the build or
    install of TUNE_BIN, in that of the tunectl of the PATH, and wherever the loader looks."""
    named = os.environ.get(variable)
    if named:
        return [named]
    found = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib", name)]
    programs, tunectl = os.environ.get("TUNE_BIN"), shutil.which("tunectl")
    if programs:
        found.append(os.path.normpath(os.path.join(programs, os.pardir, "lib", name)))
    if tunectl:
        found.append(os.path.normpath(os.path.join(os.path.realpath(tunectl), os.pardir, os.pardir, "lib", name)))
    return [*dict.fromkeys(found), name]


def _load(place: str) -> Any:
    if os.path.isabs(place) and not os.path.exists(place):
        raise OSError("no such file")
    loaded = ctypes.CDLL(place)
    version = loaded.tune_abi_version()
    if version < _ABI_VERSION:
        raise OSError(f"it has version {version} of the interface, and this package needs {_ABI_VERSION}")
    quick = ctypes.PyDLL(place)
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(loaded if name in _SLOW else quick, f"tune_{name}")
        function.restype, function.argtypes = result, arguments
        setattr(loaded, f"tune_{name}", function)
    return loaded


@functools.lru_cache(maxsize=1)
def library() -> Any:
    """LibraryMissing."""
    tried = []
    for place in places():
        try:
            return _load(place)
        except (OSError, AttributeError) as error:
            why = str(error).removeprefix(f"{place}: ")
            tried.append(f"{place} ({why})")
    raise LibraryMissing(f"libtune was not found, so only exact records answer. It was looked for at "
                         f"{', '.join(tried)}. Install it (cmake --install BUILD --component library), or name its file "
                         f"with TUNE_LIBRARY")


def _check(status: int) -> None:
    if status == _OK:
        return
    text = library().tune_error().decode(errors="replace")
    kinds: dict[int, type[Exception]] = {_INVALID_ARGUMENT: ValueError, _NOT_FOUND: LookupError,
                                         _RESOURCE_EXHAUSTED: MemoryError, _FAILED_PRECONDITION: Unpinned}
    raise kinds.get(status, RuntimeError)(text)


def _each(function: Callable[..., Any], pointer: Any, make: Callable[[], Any], *places: int) -> Iterator[Any]:
    """What a function fills by index, until there is no more."""
    index, one = 0, make()
    while function(pointer, *places, index, ctypes.byref(one)) == _OK:
        yield one
        index += 1


def _texts(function: Callable[..., Any], pointer: Any) -> Iterator[str]:
    index = 0
    while (text := function(pointer, index)) is not None:
        yield text.decode(errors="replace")
        index += 1


def _value(param: _Param) -> Value:
    values: tuple[Value, ...] = (bool(param.integer), param.integer, param.number, param.text.decode(errors="replace"))
    return values[int(param.kind) - 1]


def _expectation_of(answer: Any) -> Expectation:
    tune, known, neighbours = library(), _Expectation(), []
    tune.tune_answer_expectation(answer, ctypes.byref(known))
    for i, one in enumerate(_each(tune.tune_answer_neighbour, answer, _Neighbour)):
        dims = {dim.name.decode(): dim.value for dim in _each(tune.tune_answer_neighbour_dim, answer, _Dim, i)}
        neighbours.append(Neighbour(dims, one.weight, one.loss))
    return Expectation(_BASES[known.basis], known.loss, known.loss_low, known.loss_high, tuple(neighbours),
                       bool(tune.tune_answer_is_chosen(answer)), tune.tune_answer_expected(answer).decode())


def _read_answer(answer: Any) -> Answer:
    tune, record = library(), _Record()
    tune.tune_answer_record(answer, ctypes.byref(record))
    texts = {name: getattr(tune, f"tune_answer_{name}")(answer).decode(errors="replace")
             for name in ("reason", "kernel", "device", "target", "driver", "dtype", "snapshot", "source")}
    config = {one.name.decode(): _value(one) for one in _each(tune.tune_answer_param, answer, _Param)}
    launches = [Launch((*one.grid,), (*one.block,), (*one.cluster,), one.shared_bytes)
                for one in _each(tune.tune_answer_launch, answer, _Launch)]
    return Answer(config, tune.tune_answer_match_name(answer).decode(), **texts,
                  dims={one.name.decode(): one.value for one in _each(tune.tune_answer_dim, answer, _Dim)},
                  launches=tuple(launches), record=record.id, published_unix_ms=record.published_unix_ms,
                  latency_ns=record.latency_ns, latency_ns_low=record.latency_ns_low, latency_ns_high=record.latency_ns_high,
                  confidence=record.confidence.decode(), evidence=record.evidence.decode(),
                  artifact=record.artifact.decode(), expectation=_expectation_of(answer))


def _taken(answer: Any) -> Answer:
    try:
        return _read_answer(answer)
    finally:
        library().tune_answer_free(answer)


def devices() -> Iterator[tuple[str, str, str]]:
    """The id, the name and the target of each of this process's, the one that is used by default first."""
    index, one = 0, _Device()
    while library().tune_local_device(index, ctypes.byref(one)) == _OK:
        yield one.id.decode(), one.name.decode(errors="replace"), one.target.decode()
        index += 1


class Snapshot:
    """A snapshot that was found once, and what it answers."""

    def __init__(self, pointer: Any) -> None:
        tune = library()
        self._pointer, self._close = pointer, tune.tune_close
        self.digest: str = tune.tune_client_digest(pointer).decode()
        self.source: str = tune.tune_client_source(pointer).decode()
        self.number: int = tune.tune_client_number(pointer)
        self.notes = tuple(_texts(tune.tune_client_note, pointer))

    @classmethod
    def open(cls, snapshot: str, address: Optional[str], deadline: Optional[float], record_misses: bool,
             bundle: str) -> Snapshot:
        """deadline: seconds; None: no daemon is asked. ValueError, Unpinned, LibraryMissing."""
        tune, pointer = library(), _Pointer()
        options = _Options(os.fsencode(snapshot), address.encode() if address else None,
                           -1.0 if deadline is None else min(max(deadline, 1e-9), _DEADLINE_MAX),
                           1 if record_misses else -1, os.fsencode(bundle))
        _check(tune.tune_open(ctypes.byref(options), ctypes.byref(pointer)))
        return cls(pointer)

    def __del__(self) -> None:
        if hasattr(self, "_close"):
            self._close(self._pointer)

    @property
    def kernels(self) -> list[str]:
        return list(_texts(library().tune_client_kernel, self._pointer))

    @staticmethod
    def _question(kernel: str, dtype: str, device: str, dims: Mapping[str, int]) -> _Question:
        array = (_Dim * max(1, len(dims)))(*[_Dim(name.encode(), value) for name, value in dims.items()])
        return _Question(kernel.encode(), dtype.encode() or None, device.encode() or None, array, len(dims), 0)

    def best(self, kernel: str, dtype: str, device: str, dims: Mapping[str, int]) -> Answer:
        """ValueError: no such dim or dtype, or a value that is out of its bounds."""
        question, answer = self._question(kernel, dtype, device, dims), _Pointer()
        _check(library().tune_best(self._pointer, ctypes.byref(question), ctypes.byref(answer)))
        return _taken(answer)

    def _json(self, function: Callable[..., int], *arguments: Any) -> Any:
        text = _Pointer()
        _check(function(self._pointer, *arguments, ctypes.byref(text)))
        try:
            return json.loads(ctypes.string_at(text))
        finally:
            library().tune_free(text)

    def explain(self, kernel: str, dtype: str, device: str, dims: Mapping[str, int], most: int) -> Any:
        """{"text": ..., "candidates": [...]}"""
        question = self._question(kernel, dtype, device, dims)
        return self._json(library().tune_explain_json, ctypes.byref(question), max(0, most))

    def kernel(self, name: str) -> Optional[Mapping[str, Any]]:
        """What the snapshot's file says of a kernel; None: it knows no such kernel."""
        try:
            known: Mapping[str, Any] = self._json(library().tune_kernel_json, name.encode())
            return known
        except LookupError:
            return None

    def vault(self, tuner: str) -> dict[str, str]:
        """The entries of another tuner, newest first."""
        return dict(self._json(library().tune_vault_json, tuner.encode()))

    def evaluate(self, kernel: str, dims: Mapping[str, int], dtype: str, target: str, expression: str) -> Value:
        """ValueError: it cannot be evaluated."""
        question, value = self._question(kernel, dtype, "", dims), _Param()
        _check(library().tune_evaluate(self._pointer, ctypes.byref(question), target.encode(), expression.encode(),
                                       ctypes.byref(value)))
        return _value(value)

    def artifact(self, digest: str) -> bytes:
        """LookupError: it is nowhere to be had. ValueError: no artifact is called so."""
        data, size = _Pointer(), _Size()
        _check(library().tune_artifact(self._pointer, digest.encode(), ctypes.byref(data), ctypes.byref(size)))
        try:
            return ctypes.string_at(data, size.value)
        finally:
            library().tune_free(data)

    def wait_for_misses(self, seconds: float) -> bool:
        return bool(library().tune_misses_wait(self._pointer, min(max(seconds, 0.0), _DEADLINE_MAX)) == _OK)

    @property
    def miss_notes(self) -> tuple[str, ...]:
        return tuple(_texts(library().tune_misses_note, self._pointer))

    def watch(self, every: float) -> Watch:
        return Watch(self._pointer, every)


class Watch:
    """A tune_watch, which is used by one thread at a time."""

    def __init__(self, snapshot: Any, every: float) -> None:
        self._pointer, tune = _Pointer(), library()
        _check(tune.tune_watch_open(snapshot, min(max(every, _EVERY_MIN), _EVERY_MAX), ctypes.byref(self._pointer)))
        self._close = tune.tune_watch_close

    def __del__(self) -> None:
        if hasattr(self, "_close"):
            self._close(self._pointer)

    def poll(self) -> tuple[tuple[Answer, Answer], ...]:
        """What is known to be better: answers, before and after."""
        tune, pairs = library(), []
        before, after = _Pointer(), _Pointer()
        for i in range(tune.tune_watch_poll(self._pointer)):
            if tune.tune_watch_better(self._pointer, i, ctypes.byref(before), ctypes.byref(after)) == _OK:
                pairs.append((_taken(before), _taken(after)))
        return tuple(pairs)

    def look(self) -> tuple[tuple[Answer, Answer], ...]:
        """The same, having looked now."""
        _check(library().tune_watch_look(self._pointer, None))
        return self.poll()

    @property
    def digest(self) -> str:
        return str(library().tune_watch_digest(self._pointer).decode())

    def take(self) -> Optional[Snapshot]:
        """The newest; None: nothing is better."""
        newest = _Pointer()
        status = library().tune_watch_take(self._pointer, ctypes.byref(newest))
        if status == _NOT_FOUND:
            return None
        _check(status)
        return Snapshot(newest)
