# SPDX-License-Identifier: Apache-2.0
"""What an array tells of itself by DLPack alone, as JAX's does: https://dmlc.github.io/dlpack/latest/c_api.html.

The memory is the array's own, so it stays valid while the caller holds the array.
"""
from __future__ import annotations

import ctypes
import math
from typing import Any, NamedTuple, Optional

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
LEGACY_DEFAULT_STREAM = 1
IS_READ_ONLY, IS_COPIED = 1, 2
# By code and bits.
_DTYPES = {(0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64", (1, 8): "u8", (1, 16): "u16",
           (1, 32): "u32", (1, 64): "u64", (2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16",
           (6, 8): "bool", (10, 8): "e4m3"}


class Told(NamedTuple):
    shape: tuple[int, ...]
    dtype: str
    device: str
    address: int
    strides: Optional[tuple[int, ...]]  # in elements; None: dense
    is_writable: bool


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("axes", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_IS_VALID = ctypes.pythonapi.PyCapsule_IsValid
_IS_VALID.argtypes, _IS_VALID.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
_POINTER = ctypes.pythonapi.PyCapsule_GetPointer
_POINTER.argtypes, _POINTER.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p


def read(array: Any) -> Told:
    """Work on the array is done, or ordered before what the legacy default stream does next. TypeError: no kernel
    takes such an array."""
    kind, number = array.__dlpack_device__()
    on_gpu = int(kind) in (CUDA, CUDA_MANAGED)
    if not on_gpu and int(kind) not in (CPU, CUDA_HOST):
        raise TypeError(f"a kernel takes no array on DLPack's device {int(kind)}")
    capsule = _capsule_of(array, LEGACY_DEFAULT_STREAM if on_gpu else None)
    if _IS_VALID(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_POINTER(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise TypeError(f"a kernel takes no array by version {versioned.major} of DLPack")
        tensor, flags = versioned.tensor, versioned.flags
    else:  # it does not tell whether others may write to it
        tensor, flags = _Tensor.from_address(_POINTER(capsule, b"dltensor")), IS_READ_ONLY
    if flags & IS_COPIED:
        raise TypeError(f"a kernel takes no {type(array).__name__} that DLPack gives a copy of")
    dtype = _DTYPES.get((tensor.code, tensor.bits), f"DLPack's type {tensor.code} of {tensor.bits} bits")
    if tensor.lanes != 1:
        dtype = f"{dtype} by {tensor.lanes}"
    shape = tuple(tensor.shape[:tensor.axes])
    return Told(shape, dtype, f"cuda:{int(number)}" if on_gpu else "cpu", (tensor.data or 0) + tensor.byte_offset,
                _strides_of(shape, tensor), not flags & IS_READ_ONLY)


def _capsule_of(array: Any, stream: int | None) -> Any:
    more = {} if stream is None else {"stream": stream}
    try:
        return array.__dlpack__(max_version=(1, 0), copy=False, **more)
    except TypeError:  # older than version 1.0
        return array.__dlpack__(**more)


def _strides_of(shape: tuple[int, ...], tensor: _Tensor) -> Optional[tuple[int, ...]]:
    if not tensor.strides or math.prod(shape) == 0:
        return None
    strides, expected = tuple(tensor.strides[:tensor.axes]), 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1 and stride != expected:
            return strides
        expected *= extent
    return None
