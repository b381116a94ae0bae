# SPDX-License-Identifier: Apache-2.0
"""Arrays of any framework: their shape, dtype, device and address. Imports no framework.

Torch's tensors and what looks like them (data_ptr, shape, dtype, device, is_contiguous); what has
__array_interface__ (NumPy) or __cuda_array_interface__ (CuPy); ctypes' arrays; what has __dlpack__ (JAX).
"""
from __future__ import annotations

import ctypes
import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

from . import _dlpack
from ._dtypes import DTYPE_BYTES, dtype_name

_TYPESTR = {"f2": "f16", "f4": "f32", "f8": "f64", "b1": "bool", "i1": "i8", "u1": "u8", "i2": "i16",
            "u2": "u16", "i4": "i32", "u4": "u32", "i8": "i64", "u8": "u64"}
_CTYPES = {ctypes.c_float: "f32", ctypes.c_double: "f64", ctypes.c_bool: "bool", ctypes.c_int8: "i8",
           ctypes.c_uint8: "u8", ctypes.c_int16: "i16", ctypes.c_uint16: "u16", ctypes.c_int32: "i32",
           ctypes.c_uint32: "u32", ctypes.c_int64: "i64", ctypes.c_uint64: "u64"}
_NAMES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
          "bool": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32",
          "u32": "uint32", "i64": "int64", "u64": "uint64"}


class Array(NamedTuple):
    shape: tuple[int, ...]
    dtype: str  # "bf16"
    device: str  # "cuda:0", "cpu"
    address: int
    is_contiguous: bool  # and has memory that a kernel can read as it is
    is_writable: bool
    trouble: str = ""  # why `is_contiguous` is false: "is not contiguous"
    strides: Optional[tuple[int, ...]] = None  # in elements, of an array that is not contiguous and has no other trouble


def _of_interface(array: Any, interface: Any, device: str) -> Array:
    shape = tuple(interface["shape"])
    name = dtype_name(getattr(array, "dtype", None))
    typestr = str(interface["typestr"])
    dtype = name if name in _NAMES else _TYPESTR.get(typestr[1:], name or typestr)
    data = interface.get("data")  # some give the bytes, or nothing
    address, is_readonly = data if isinstance(data, tuple) else (0, True)
    size = DTYPE_BYTES.get(dtype, 1)  # 1: it has a dtype that no kernel takes
    strides, dense, expected = interface.get("strides"), True, size
    trouble = "has another byte order" if typestr[0] == ">" else _kind_of(array)
    trouble = trouble or ("" if isinstance(data, tuple) else "does not tell where its elements are")
    if strides is not None:
        for extent, stride in zip(reversed(shape), reversed(strides)):
            dense = dense and (extent <= 1 or stride == expected)
            expected *= extent
    steps = None
    if not trouble and not dense and not any(stride % size for stride in strides):
        steps = tuple(stride // size for stride in strides)
    trouble = trouble or ("" if dense else "is not contiguous")
    return Array(shape, dtype, device, address, not trouble, not is_readonly, trouble, steps)


def _kind_of(array: Any) -> str:
    """A sentence's end about a subclass of NumPy's arrays, whose operators may differ from NumPy's; else empty."""
    numpy: Any = sys.modules.get("numpy")
    if type(array) is getattr(numpy, "ndarray", None) or not isinstance(array, getattr(numpy, "ndarray", ())):
        return ""
    is_plain = isinstance(array, numpy.memmap)
    return "" if is_plain else f"is a {type(array).__name__}, a kind of array with operations of its own"


def _of_tensor(tensor: Any) -> Array:
    trouble, address, strides = _trouble_of(tensor), 0, None
    if trouble in ("", "is not contiguous"):
        try:
            address = tensor.data_ptr()
            strides = tuple(tensor.stride()) if trouble and hasattr(tensor, "stride") else None
        except RuntimeError:  # a wrapper of another tensor
            trouble = "is without memory of its own"
    return Array(tuple(tensor.shape), dtype_name(tensor.dtype), str(tensor.device), address, not trouble, True, trouble,
                 strides)


def _trouble_of(tensor: Any) -> str:
    """Why a kernel cannot read the memory of torch's tensor as it is, or of what looks like one."""
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", ())
    if isinstance(tensor, fake):
        return "is without memory (a FakeTensor)"
    if str(tensor.device) == "meta":
        return "is without memory (on the device meta)"
    if str(getattr(tensor, "layout", "torch.strided")) != "torch.strided":
        return f"has the layout {tensor.layout}"
    if getattr(tensor, "is_neg", bool)():
        return "is a negated view whose memory has the other sign"
    if getattr(tensor, "is_conj", bool)():
        return "is a conjugated view whose memory has the other sign"
    return "" if tensor.is_contiguous() else "is not contiguous"


def describe(array: Any) -> Array:
    """TypeError: nothing that a kernel could take."""
    if hasattr(array, "data_ptr"):
        return _of_tensor(array)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is not None:
        device = getattr(getattr(array, "device", None), "id", 0)
        return _of_interface(array, interface, f"cuda:{device}")
    interface = getattr(array, "__array_interface__", None)
    if interface is not None:
        if isinstance(array, getattr(sys.modules.get("numpy.ma"), "MaskedArray", ())):
            raise TypeError("a kernel takes no masked array: give what .filled() makes of it")
        return _of_interface(array, interface, "cpu")
    if isinstance(array, ctypes.Array) and array._type_ in _CTYPES:
        return Array((array._length_,), _CTYPES[array._type_], "cpu", ctypes.addressof(array), True,
                     True)
    if hasattr(array, "__dlpack__") and hasattr(array, "__dlpack_device__"):
        told = _dlpack.read(array)
        trouble = "" if told.strides is None else "is not contiguous"
        return Array(told.shape, told.dtype, told.device, told.address, not trouble, told.is_writable, trouble,
                     told.strides)
    raise TypeError(f"a kernel takes tensors and arrays, not {type(array).__name__}")


def bytes_of(shape: Sequence[int], dtype: str) -> int:
    return math.prod(shape) * DTYPE_BYTES[dtype]


def count_of(array: Any) -> int:
    """Its elements."""
    return math.prod(array.shape) if hasattr(array, "shape") else math.prod(describe(array).shape)


def extent_of(array: Array) -> int:
    """Bytes from its address on that are its own: of an array that is not contiguous, only those of its first element.
    0: it has no memory."""
    count = math.prod(array.shape) if array.is_contiguous else min(1, math.prod(array.shape))
    return count * DTYPE_BYTES.get(array.dtype, 1) if array.address else 0


def dtype_in_full(dtype: str) -> str:
    """As frameworks call it: "bfloat16"."""
    return _NAMES.get(dtype, dtype)


def empty(like: Any, shape: Sequence[int], dtype: str, strides: Optional[Sequence[int]] = None) -> Any:
    """A new array of the framework and the device of another. TypeError: give the outputs.

    strides  of a dense array, in elements; None: contiguous
    """
    for kind in type(like).__mro__:
        module: Any = sys.modules.get(kind.__module__.partition(".")[0])
        dtype_of = getattr(module, dtype_in_full(dtype), None)
        if dtype_of is not None and hasattr(module, "empty"):
            more = {"device": like.device} if hasattr(like, "data_ptr") else {}
            if strides is None:
                return module.empty(tuple(shape), dtype=dtype_of, **more)
            axes = sorted(range(len(shape)), key=lambda axis: -strides[axis])
            made = module.empty(tuple(shape[axis] for axis in axes), dtype=dtype_of, **more)
            places = tuple(axes.index(axis) for axis in range(len(axes)))
            return made.permute(places) if hasattr(made, "permute") else made.transpose(places)
    raise TypeError(f"outputs are made for PyTorch, NumPy and CuPy; of {type(like).__name__} give "
                    f"them as out=")


def maker(shape: Sequence[int], dtype: str, device: str, strides: Sequence[int]) -> Callable[[], Any]:
    """What makes a new tensor of torch, dense and without its elements. On a GPU the device must be the current one.

    Uses what torch's own compiled code allocates with, where there is that: half the time of torch.empty.
    """
    torch: Any = sys.modules["torch"]
    kind, wanted = device.partition(":")[0], getattr(torch, dtype_in_full(dtype))
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    of_compiled = getattr(guards, f"_empty_strided_{kind}", None)
    if of_compiled is None:
        return functools.partial(torch.empty_strided, tuple(shape), tuple(strides), dtype=wanted, device=device)
    return functools.partial(of_compiled, tuple(shape), tuple(strides), wanted)


def reshaped(array: Any, shape: Sequence[Any]) -> Any:
    """The same elements with other axes; of memory that is contiguous a view. TypeError: the framework has none."""
    if not hasattr(array, "reshape"):
        raise TypeError(f"{type(array).__name__} has no reshape")
    return array.reshape(tuple(shape))


def copy(source: Any, target: Any) -> None:
    if hasattr(target, "copy_"):
        target.copy_(source)
    else:
        target[...] = source
