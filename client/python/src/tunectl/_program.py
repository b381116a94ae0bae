# SPDX-License-Identifier: Apache-2.0
"""The arguments of a program's launches, in memory that is laid out once and filled at each call."""
from __future__ import annotations

import copy
import ctypes
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _fill
from ._artifact import Artifact, ArtifactError
from ._dtypes import DTYPE_BYTES
from ._strides import Placed

_SCALARS: dict[str, Any] = {"bool": ctypes.c_bool, "i8": ctypes.c_int8, "u8": ctypes.c_uint8, "i16": ctypes.c_int16, "u16": ctypes.c_uint16,
            "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64,
            "u64": ctypes.c_uint64}
_FLOATS = ("f64", "f32", "f16", "bf16")
# The alignment of buffers on the device, so that vector accesses of scratch are aligned, too.
ALIGNMENT = 256
_TENSOR_MAP_BYTES = 128
_SCRATCH_BYTES_MAX = 1 << 36


class LaunchError(RuntimeError):
    """A kernel that was launched failed."""


class Range(NamedTuple):
    slot: int  # of the pointer
    bytes: int


class StepLayout(NamedTuple):
    offsets: tuple[int, ...]  # of each arg's value
    sizes: tuple[int, ...]  # of each arg, in bytes
    zero: tuple[Range, ...]


def _float_bytes(name: str, value: float, dtype: str) -> bytes:
    try:
        if dtype == "f16":
            return struct.pack("<e", value)
        made = (ctypes.c_double if dtype == "f64" else ctypes.c_float)(value)
        if math.isinf(made.value) and not math.isinf(value):
            raise OverflowError
    except OverflowError:
        raise ValueError(f"{name}={value} is more than an {dtype} holds") from None
    return bytes(_fill.bfloat16_of(value)) if dtype == "bf16" else bytes(made)


def _float_of(data: bytes, dtype: str) -> float:
    form = {"f64": "<d", "f32": "<f", "f16": "<e", "bf16": "<f"}[dtype]
    value: float = struct.unpack(form, b"\0\0" + data if dtype == "bf16" else data)[0]
    return value


class Layout:
    """Where each arg's value lies: pointers first, the caller's before those of scratch.

    buffers  the caller's: their dtypes by name, in the order of a call
    """

    def __init__(self, artifact: Artifact, buffers: Mapping[str, str]) -> None:
        self._places: dict[str, int] = {name: slot for slot, name in enumerate(buffers)}
        self._caller_count = len(buffers)
        self._bytes: dict[str, int] = {}
        self._dtypes = dict(buffers)
        self._written: set[str] = set()
        self.scratch_bytes = 0
        self.scratch_offsets: list[int] = []
        steps = artifact.facts["steps"]
        self.symbols = [(symbol, self._add_buffer(symbol["buffer"]))
                        for symbol in artifact.facts["symbols"]]
        for step in steps:
            for arg in (*step["args"], *step["zero"]):
                if arg["kind"] == "buffer":
                    self._add_buffer(arg)
        self.pointer_count = len(self._places)
        self._end = 8 * self.pointer_count
        self.constants: list[tuple[int, bytes]] = []
        self._scalars: dict[str, list[tuple[int, str]]] = {}  # of the floats: which constants, and their types
        self._integers: dict[str, list[tuple[int, str]]] = {}  # of the others
        self.tensor_maps: list[tuple[int, int, str, Mapping[str, Any]]] = []
        self.steps = [self._step(step) for step in steps]
        self.pack = struct.Struct(f"{self.pointer_count}Q").pack_into

    def bytes_of(self, name: str) -> int:
        return self._bytes[name]

    def caller_buffers(self) -> list[tuple[int, int, bool]]:
        """Slot, bytes, and whether a launch writes to it, of those that the caller gives and a launch takes."""
        return [(self._places[name], self._bytes[name], name in self._written)
                for name in self._dtypes if name in self._bytes and self._places[name] < self._caller_count]

    def _add_buffer(self, buffer: Mapping[str, Any]) -> int:
        name, size = buffer["name"], DTYPE_BYTES.get(buffer["dtype"], 0)
        if not size or not 0 <= buffer["count"] <= _SCRATCH_BYTES_MAX // size:
            raise ArtifactError(f"buffer '{name}' has no usable size")
        self._bytes[name] = buffer["count"] * size
        self._dtypes[name] = buffer["dtype"]
        if buffer["role"] != "input":
            self._written.add(name)
        if name not in self._places:
            if buffer["role"] != "scratch":
                raise ArtifactError(f"buffer '{name}' is none of the kernel's args")
            self._places[name] = len(self._places)
            self.scratch_offsets.append(self.scratch_bytes)
            self.scratch_bytes += -(-self._bytes[name] // ALIGNMENT) * ALIGNMENT
        return self._places[name]

    def _step(self, step: Mapping[str, Any]) -> StepLayout:
        offsets, sizes = [], []
        for arg in step["args"]:
            if arg["kind"] == "buffer":
                offsets.append(8 * self._places[arg["name"]])
                sizes.append(8)
            elif arg["kind"] == "scalar":
                offsets.append(self._add_constant(arg))
                sizes.append(len(self.constants[-1][1]))
            else:
                offsets.append(self._add_tensor_map(arg))
                sizes.append(_TENSOR_MAP_BYTES)
        zero = tuple(Range(self._places[one["name"]], self._bytes[one["name"]])
                     for one in step["zero"])
        return StepLayout(tuple(offsets), tuple(sizes), zero)

    def _add_constant(self, arg: Mapping[str, Any]) -> int:
        dtype, value = arg["dtype"], arg["value"]
        if dtype in _FLOATS:
            self._scalars.setdefault(arg["name"], []).append((len(self.constants), dtype))
            data = _float_bytes(arg["name"], float(value), dtype)
        elif dtype in _SCALARS:
            self._integers.setdefault(arg["name"], []).append((len(self.constants), dtype))
            data = bytes(_SCALARS[dtype](int(value)))
        else:
            raise ArtifactError(f"scalar '{arg['name']}' has no usable dtype")
        self.constants.append((self._end, data))
        self._end += 8
        return self.constants[-1][0]

    def floats(self, values: Mapping[str, float]) -> list[tuple[int, bytes]]:
        """All constants that are floats, those of `values` in place of the compiled ones. ValueError: what is none of
        them. Integers are sizes, which a binary relies on."""
        unknown = [name for name in values if name not in self._scalars]
        if unknown:
            raise ValueError(f"'{unknown[0]}' is no scalar that a call can set; those are "
                             f"{', '.join(self._scalars) or 'none'}")
        found = []
        for name, places in self._scalars.items():
            for at, dtype in places:
                offset, compiled = self.constants[at]
                found.append((offset, _float_bytes(name, values[name], dtype) if name in values else compiled))
        return found

    def for_floats(self, values: Mapping[str, float]) -> Layout:
        """The same arguments with these floats in place of the compiled ones. ValueError: as `floats`."""
        other = copy.copy(self)
        own = dict(self.floats(values))
        other.constants = [(offset, own.get(offset, data)) for offset, data in self.constants]
        return other

    def for_strides(self, placed: Placed) -> Layout:
        """The same arguments with other integers and tensor maps. ValueError: an integer that its type does not hold."""
        other = copy.copy(self)
        other.constants = list(self.constants)
        for name, value in placed.integers.items():
            for at, dtype in self._integers.get(name, ()):
                data = _SCALARS[dtype](value)
                if data.value != value:
                    raise ValueError(f"{name} is {value} for these strides, which is more than an {dtype} holds")
                other.constants[at] = (self.constants[at][0], bytes(data))
        other.tensor_maps = [(*one[:3], _with_strides(one[3], placed)) for one in self.tensor_maps]
        return other

    def compiled_floats(self) -> dict[str, float]:
        """The scalars that are floats, with the values of the measurement."""
        found = {}
        for name, places in self._scalars.items():
            at, dtype = places[0]
            found[name] = _float_of(self.constants[at][1], dtype)
        return found

    def _add_tensor_map(self, arg: Mapping[str, Any]) -> int:
        place = self._places.get(arg["buffer"])
        if place is None:
            raise ArtifactError(f"tensor map '{arg['name']}' is of no buffer of a step")
        offset = -(-self._end // 64) * 64
        self.tensor_maps.append((offset, place, self._dtypes[arg["buffer"]], arg))
        self._end = offset + _TENSOR_MAP_BYTES
        return offset

    def make_slots(self) -> Slots:
        return Slots(self, self._end)


def _with_strides(arg: Mapping[str, Any], placed: Placed) -> Mapping[str, Any]:
    """A tensor map's facts."""
    if arg["name"] not in placed.tensor_maps:
        return arg
    dims, strides = placed.tensor_maps[arg["name"]]
    return {**arg, "dims": [own if new is None else new for own, new in zip(arg["dims"], dims)],
            "strides_bytes": [own if new is None else new for own, new in zip(arg["strides_bytes"], strides)]}


class Slots:
    """The memory of one thread's calls."""

    def __init__(self, layout: Layout, size: int) -> None:
        self._keeps = ctypes.create_string_buffer(size + 64)
        self.address = -(-ctypes.addressof(self._keeps) // 64) * 64
        self.memory = (ctypes.c_char * size).from_address(self.address)
        self.bytes = memoryview(self.memory).cast("B")
        self.put(layout.constants)
        # The driver takes an array of the addresses of the values.
        self.arguments = [
            (ctypes.c_void_p * max(1, len(step.offsets)))(*(self.address + at for at in step.offsets))
            for step in layout.steps]

    def put(self, constants: Sequence[tuple[int, bytes]]) -> None:
        for offset, value in constants:
            ctypes.memmove(self.address + offset, value, len(value))
