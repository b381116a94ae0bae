# SPDX-License-Identifier: Apache-2.0
"""What the daemon fills a buffer with, bit by bit: a port of tuner/device/fill.h.

The same text works on numbers, on arrays of them where NumPy is there, and on tensors of PyTorch, so that a GPU
fills its own memory. Single precision is done in double precision and rounded after each step, which is exact
for `+ - * /` and the square root; a multiply-add is rounded to odd in between. Words of 32 bits are cut to them
after each shift, since tensors shift signed words. tests/data/fill_vectors.json holds all ports to the same bits.
"""
from __future__ import annotations

import ctypes
import math
import struct
from typing import Any, Optional

from ._dtypes import DTYPE_BYTES

NORMAL, UNIFORM, CONSTANT, IOTA = 1, 2, 3, 4
FLOATS = ("f64", "f32", "f16", "bf16", "e4m3")
_E4M3_MAX = 448.0
_FORMATS = {"f64": "d", "f32": "f", "f16": "e", "bf16": "H", "e4m3": "B", "bool": "B", "i8": "B",
            "u8": "B", "i16": "H", "u16": "H", "i32": "I", "u32": "I", "i64": "Q", "u64": "Q"}
_LOW32 = 0xFFFFFFFF
_PIECE = 1 << 18  # elements at a time
_TENSOR_PIECE = 1 << 24


def _numpy() -> Optional[Any]:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def fill_key(seed: int, name: str) -> int:
    """The key of one buffer."""
    mask = (1 << 64) - 1
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & mask
    value = (value + seed * 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


class _Numbers:
    """Arithmetic on one element."""

    @staticmethod
    def f32(value: float) -> float:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])

    def fma(self, a: float, b: float, c: float) -> float:
        product = a * b
        total = product + c
        part = total - product
        error = (product - (total - part)) + (c - part)
        (bits,) = struct.unpack("<q", struct.pack("<d", total))
        if error != 0.0 and bits & 1 == 0:
            bits += 1 if (error > 0) == (total > 0) else -1
        return self.f32(struct.unpack("<d", struct.pack("<q", bits))[0])

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> Any:
        return a if condition else b

    @staticmethod
    def frexp(value: float) -> tuple[float, int]:
        return math.frexp(value)

    @staticmethod
    def sqrt(value: float) -> float:
        return math.sqrt(value)

    @staticmethod
    def real(value: int) -> float:
        return float(value)

    @staticmethod
    def whole(value: int) -> int:
        return value

    @staticmethod
    def cut(value: float) -> int:
        return int(value)


class _Arrays:
    """The same on arrays of NumPy: numbers in f64 and i64, random words in u64."""

    def __init__(self, numpy: Any) -> None:
        self._np = numpy
        self.where = numpy.where
        self.frexp = numpy.frexp
        self.sqrt = numpy.sqrt

    def f32(self, value: Any) -> Any:
        return self._np.asarray(value).astype("<f4").astype("<f8")

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        np = self._np
        product = a * b
        total = product + c
        part = total - product
        error = (product - (total - part)) + (c - part)
        bits = np.asarray(total, "<f8").view("<i8")
        step = np.where((error > 0) == (total > 0), 1, -1)
        bits = bits + np.where((error != 0) & (bits & 1 == 0), step, 0)
        return self.f32(bits.view("<f8"))

    def real(self, value: Any) -> Any:
        return value.astype("<f8")

    def whole(self, value: Any) -> Any:
        return value.astype("<i8")

    def cut(self, value: Any) -> Any:
        return value.astype("<i8")


class _Tensors:
    """The same on tensors of PyTorch: numbers in f64, i64 for all else."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.where = torch.where
        self.frexp = torch.frexp
        self.sqrt = torch.sqrt

    def f32(self, value: Any) -> Any:
        if not isinstance(value, self._torch.Tensor):
            return _Numbers.f32(value)
        return value.to(self._torch.float32).to(self._torch.float64)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        torch = self._torch
        product = a * b
        total = product + c
        part = total - product
        error = (product - (total - part)) + (c - part)
        bits = total.view(torch.int64)
        step = torch.where((error > 0) == (total > 0), 1, -1)
        bits = bits + torch.where((error != 0) & (bits & 1 == 0), step, 0)
        return self.f32(bits.view(torch.float64))

    def real(self, value: Any) -> Any:
        return value.to(self._torch.float64)

    def whole(self, value: Any) -> Any:
        return value

    def cut(self, value: Any) -> Any:
        return value.to(self._torch.int64)


def _philox(key: int, counter: Any) -> tuple[Any, Any]:
    low = counter & _LOW32
    high = ((counter >> 32) & _LOW32) ^ (key >> 32)
    round_key = key & _LOW32
    for _ in range(10):
        product = low * 0xD256D193
        low = ((product >> 32) & _LOW32) ^ round_key ^ high
        high = product & _LOW32
        round_key = (round_key + 0x9E3779B9) & _LOW32
    return low, high


def _horner(ops: Any, at: Any, *terms: tuple[float, float]) -> Any:
    """Coefficients as quotients in single precision, the highest first."""
    values = [ops.f32(over / under) for over, under in terms]
    total = values[0]
    for value in values[1:]:
        total = ops.fma(total, at, value)
    return total


def _minus_log(ops: Any, n: Any) -> Any:
    fraction, exponent = ops.frexp(ops.real(n))
    small = fraction < 0.75
    m = ops.where(small, 2.0 * fraction, fraction)
    exponent = ops.where(small, exponent - 1, exponent)
    s = ops.f32(ops.f32(m - 1.0) / ops.f32(m + 1.0))
    series = _horner(ops, ops.f32(s * s), (2, 9), (2, 7), (2, 5), (2, 3), (2, 1))
    return ops.fma((24 - exponent) * 1.0, ops.f32(0.693147181), -ops.f32(series * s))


def _gauss(ops: Any, key: int, index: Any) -> Any:
    first, second = _philox(key, index >> 1)
    radius = ops.f32(ops.sqrt(ops.f32(2.0 * _minus_log(ops, ops.whole(first >> 8) + 1))))
    rest = ops.whole((second >> 6) & 0xFFFFFF) - 0x800000
    a = ops.f32(ops.real(rest) * (float.fromhex("0x1.921fb6p+0") * 2.0**-24))
    a2 = ops.f32(a * a)
    sine = ops.f32(_horner(ops, a2, (1, 362880), (-1, 5040), (1, 120), (-1, 6), (1, 1)) * a)
    cosine = _horner(ops, a2, (1, 40320), (-1, 720), (1, 24), (-1, 2), (1, 1))
    quadrant = ops.whole((second >> 30) & 3)
    odd = ops.whole(index & 1) != 0
    swap = (quadrant & 1 != 0) != odd
    negate = ops.where(odd, quadrant >= 2, (quadrant == 1) | (quadrant == 2))
    value = ops.where(swap, sine, cosine)
    return ops.f32(radius * ops.where(negate, -value, value))


def _words(key: int, index: Any, ops: Any) -> Any:
    first, second = _philox(key, index >> 1)
    return ops.where(index & 1 != 0, second, first)


def _float_at(ops: Any, kind: int, low: float, high: float, key: int, index: Any) -> Any:
    if kind == NORMAL:
        return ops.fma(_gauss(ops, key, index), 1.0 if high == 0.0 else high, low)
    if kind == UNIFORM:
        unit = ops.real(ops.whole(_words(key, index, ops) >> 8)) * 2.0**-24
        value = ops.fma(unit, ops.f32(high - low) if high > low else 1.0, low)
        return ops.where(value >= high, low, value) if high > low else value
    whole = ops.whole(index)
    return whole * 0.0 + low if kind == CONSTANT else ops.f32(ops.real(whole))


def _integer_at(ops: Any, kind: int, low: int, high: int, key: int, index: Any) -> Any:
    if kind == NORMAL:
        return ops.cut(_float_at(ops, kind, ops.f32(float(low)), ops.f32(float(high)), key, index))
    if kind == UNIFORM:
        span = min(high - low if high > low else 1, 1 << 32)
        return low + ops.whole(((_words(key, index, ops) * span) >> 32) & _LOW32)
    return ops.whole(index) * 0 + low if kind == CONSTANT else ops.whole(index)


def _bfloat16(bits: Any) -> Any:
    """Of an f32's bits, rounded to nearest even."""
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF


def bfloat16_of(value: float) -> bytes:
    """Of a number, little endian; infinity of what is too large."""
    (bits,) = struct.unpack("<I", bytes(ctypes.c_float(value)))
    return struct.pack("<H", _bfloat16(bits))


def _e4m3(bits: int) -> int:
    """Of an f32's bits, rounded to nearest even; what is too large becomes the largest number, 448."""
    sign, size = (bits >> 24) & 0x80, bits & 0x7FFFFFFF
    if size >= 0x43E00000:
        return sign | (0x7F if size > 0x7F800000 else 0x7E)
    if size < 0x3C800000:  # subnormal: of the unit 2^-9
        return sign | round(float(struct.unpack("<f", struct.pack("<I", size))[0]) * 512)
    return sign | (size + 0x7FFFF + ((size >> 20) & 1) - 0x3C000000) >> 20


def e4m3_of(np: Any, single: Any) -> Any:
    """The bits of an array of f32, as `_e4m3`."""
    bits = np.ascontiguousarray(single, "<f4").view("<u4").astype("<i8")
    size = bits & 0x7FFFFFFF
    finite = (size + 0x7FFFF + ((size >> 20) & 1) - 0x3C000000) >> 20
    small = np.minimum(size, 0x3C800000).astype("<u4").view("<f4").astype("<f8")
    finite = np.where(size < 0x3C800000, np.rint(small * 512.0).astype("<i8"), finite)
    large = np.where(size > 0x7F800000, 0x7F, 0x7E)
    return ((bits >> 24) & 0x80 | np.where(size >= 0x43E00000, large, finite)).astype("<u1")


def e4m3_values(np: Any) -> Any:
    """The f32 that each of the 256 stands for."""
    bits = np.arange(256, dtype="<u4")
    size = bits & 0x7F
    values = (size << 20).astype("<u4").view("<f4") * np.float32(2.0**120)
    values = np.where(size == 0x7F, np.float32("nan"), values)
    return np.where(bits >= 0x80, -values, values).astype("<f4")


def _with_numpy(np: Any, dtype: str, count: int, kind: int, low: float, high: float, key: int) -> bytes:
    ops, pieces = _Arrays(np), []
    for begin in range(0, count, _PIECE):
        index = np.arange(begin, min(count, begin + _PIECE), dtype="<u8")
        if dtype not in FLOATS:
            values = np.asarray(_integer_at(ops, kind, int(low), int(high), key, index))
            values = values != 0 if dtype == "bool" else values
            pieces.append(values.astype("<i8").view("<u8").astype(f"<u{DTYPE_BYTES[dtype]}").tobytes())
            continue
        single = np.asarray(_float_at(ops, kind, ops.f32(low).item(), ops.f32(high).item(), key, index))
        single = single.astype("<f4")
        if dtype == "bf16":
            pieces.append(_bfloat16(single.view("<u4").astype("<u8")).astype("<u2").tobytes())
        elif dtype == "e4m3":
            pieces.append(e4m3_of(np, single).tobytes())
        else:
            pieces.append(single.astype(f"<f{DTYPE_BYTES[dtype]}").tobytes())
    return b"".join(pieces)


def _one_by_one(dtype: str, count: int, kind: int, low: float, high: float, key: int) -> bytes:
    ops, values = _Numbers(), []
    mask = (1 << 8 * DTYPE_BYTES[dtype]) - 1
    single_low, single_high = ops.f32(low), ops.f32(high)
    for index in range(count):
        if dtype not in FLOATS:
            value = _integer_at(ops, kind, int(low), int(high), key, index)
            values.append(int(value != 0) if dtype == "bool" else value & mask)
            continue
        value = _float_at(ops, kind, single_low, single_high, key, index)
        narrow = {"bf16": _bfloat16, "e4m3": _e4m3}.get(dtype)
        values.append(narrow(struct.unpack("<I", struct.pack("<f", value))[0]) if narrow else value)
    return struct.pack(f"<{count}{_FORMATS[dtype]}", *values)


def elements(dtype: str, count: int, kind: int, low: float, high: float, name: str, seed: int,
             numpy: Optional[Any] = None) -> bytes:
    """Elements of a buffer, little endian.

    dtype  "f32", "bf16", ...; count: of elements; kind, low, high: of the fill; name: of the key
    numpy  the module; by default what can be imported. Without it an element takes some 20 us.
    """
    key = fill_key(seed, name)
    numpy = numpy or _numpy()
    if numpy is None:
        return _one_by_one(dtype, count, kind, low, high, key)
    return _with_numpy(numpy, dtype, count, kind, low, high, key)


def fill_tensor(torch: Any, flat: Any, dtype: str, kind: int, low: float, high: float, name: str, seed: int) -> None:
    """As `elements`, into a tensor of one dimension, where it is. Its type is dtype's; the signed one for u16, u32 and u64."""
    ops, key = _Tensors(torch), fill_key(seed, name)
    for begin in range(0, flat.numel(), _TENSOR_PIECE):
        end = min(flat.numel(), begin + _TENSOR_PIECE)
        index = torch.arange(begin, end, dtype=torch.int64, device=flat.device)
        if dtype in FLOATS:
            values = _float_at(ops, kind, ops.f32(low), ops.f32(high), key, index).to(torch.float32)
            if dtype == "e4m3":  # PyTorch makes NaN of what is too large
                values = values.clamp(-_E4M3_MAX, _E4M3_MAX)
        else:
            values = _integer_at(ops, kind, int(low), int(high), key, index)
        flat[begin:end] = values.to(flat.dtype)
