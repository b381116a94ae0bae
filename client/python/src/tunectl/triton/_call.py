# SPDX-License-Identifier: Apache-2.0
"""A launch as Triton's compiler sees it: the type of each argument and what may be assumed of it, by the
rules of Triton's own launcher. And what the service must know to make inputs like the launch's."""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Optional, Union

from .._fill import FLOATS

ALIGNMENT = 16  # what Triton assumes of a pointer or an integer, or nothing
_PIECE_ELEMENTS = 1 << 24  # compared at once

# A tensor's dtype, by torch's name: the service's name and Triton's.
_DTYPES = {"float64": ("f64", "fp64"), "float32": ("f32", "fp32"), "float16": ("f16", "fp16"),
           "bfloat16": ("bf16", "bf16"), "float8_e4m3fn": ("e4m3", "fp8e4nv"),
           "int8": ("i8", "i8"), "uint8": ("u8", "u8"), "int32": ("i32", "i32"), "uint32": ("u32", "u32"),
           "int64": ("i64", "i64")}
_SCALARS = {"i32": "i32", "u32": "u32", "i64": "i64", "fp32": "f32", "f32": "f32", "fp64": "f64"}


class Unsupported(Exception):
    """The service cannot run this launch; the sentence says what of it."""


class Fill(NamedTuple):
    kind: str  # as tune.v1.Fill.Kind
    low: float
    high: float


class Buffer(NamedTuple):
    name: str
    dtype: str
    elements: int  # from the first to the last that the tensor reaches
    fill: Fill
    contents: bytes = b""  # used instead of `fill`: the live elements


class Descriptor(NamedTuple):
    """A tensor descriptor of the host. Its block is a config's: a pre_hook may set it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nan_padding: bool
    fill: Fill


class Scalar(NamedTuple):
    name: str
    dtype: str
    value: float


class Call(NamedTuple):
    """What is the same for every config."""

    signature: dict[str, str]  # of each parameter but the configs' own
    constants: dict[str, Any]
    attributes: dict[tuple[int, ...], list[list[Any]]]
    arguments: list[Any]  # Buffer, Descriptor or Scalar, in the order of the parameters


def is_tensor(value: object) -> bool:
    return hasattr(value, "data_ptr") and hasattr(value, "dtype")


def is_descriptor(value: object) -> bool:
    return hasattr(value, "base") and hasattr(value, "block_shape")


def block_of(name: str, descriptor: Any) -> tuple[str, tuple[int, ...]]:
    """(Triton's type, block) of a descriptor as it is now."""
    block = tuple(int(extent) for extent in descriptor.block_shape)
    return f"tensordesc<{_dtype_of(name, descriptor.base)[1]}[{', '.join(map(str, block))}]>", block


def _dtype_of(name: str, tensor: Any) -> tuple[str, str]:
    text = str(tensor.dtype).rpartition(".")[2]
    if text not in _DTYPES:
        raise Unsupported(f"'{name}' is a tensor of {text}, which the service has no buffers of")
    return _DTYPES[text]


def _count_of(tensor: Any) -> int:
    """Elements of the memory from the first to the last that the tensor reaches."""
    last = 0
    for size, stride in zip(tensor.shape, tensor.stride()):
        if size == 0:
            return 0
        if stride < 0:
            raise Unsupported("a tensor has a negative stride")
        last += (int(size) - 1) * int(stride)
    return last + 1


def _range_of(tensor: Any) -> Optional[tuple[float, float]]:
    """Smallest and largest element; None where the tensor cannot say, or it is not finite."""
    try:
        low, high = (float(one.item()) for one in tensor.aminmax())
    except (AttributeError, NotImplementedError, RuntimeError, TypeError):
        return None
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _rises(name: str, flat: Any, count: int, strictly: bool) -> bool:
    """Compared where the tensor is, piece by piece. Unsupported: it cannot be compared."""
    try:
        for start in range(0, count - 1, _PIECE_ELEMENTS):
            end = min(start + _PIECE_ELEMENTS, count - 1)
            left, right = flat[start:end], flat[start + 1:end + 1]
            if not bool(((right > left) if strictly else (right >= left)).all()):
                return False
    except (NotImplementedError, RuntimeError) as error:
        raise Unsupported(f"'{name}' may hold offsets, and cannot be read: {error}; say "
                          f"fill={{'{name}': ...}}") from None
    return True


def _integers_like(name: str, tensor: Any, low: float, high: float) -> Fill:
    """Numbers within the same bounds. What holds a rising sequence is told, not guessed."""
    if low == high:
        return Fill("CONSTANT", low, 0)
    count, flat = math.prod(tensor.shape), tensor.flatten()
    if not _rises(name, flat, count, strictly=False):
        return Fill("UNIFORM", low, high + 1)
    is_dense = _count_of(tensor) == count
    if is_dense and (low, high) == (0, count - 1) and _rises(name, flat, count, strictly=True):
        return Fill("IOTA", 0, 0)
    raise Unsupported(f"'{name}' holds integers in rising order, as offsets are; random ones in their place "
                      f"would be wrong; say fill={{'{name}': ...}}")


def fill_like(name: str, tensor: Any, dtype: str) -> Fill:
    """Numbers of the live ones' range: roots, logarithms and indices stay what they are."""
    is_float = dtype in FLOATS
    bounds = _range_of(tensor)
    if bounds is None:
        return Fill("NORMAL", 0, 1) if is_float else Fill("UNIFORM", 0, 1)
    low, high = bounds
    if not is_float:
        return _integers_like(name, tensor, low, high)
    if low == high:  # nothing was written yet, as a rule
        return Fill("NORMAL", 0, 1) if low == 0 else Fill("CONSTANT", low, 0)
    if low >= 0 or high <= 0:
        return Fill("UNIFORM", low, high)
    return Fill("NORMAL", 0, max(abs(low), abs(high)) / 4)


def _given_fill(wanted: Any) -> Fill:
    """Of (low, high), a number for all elements, or "iota"."""
    if wanted == "iota":
        return Fill("IOTA", 0, 0)
    if isinstance(wanted, (int, float)):
        return Fill("CONSTANT", float(wanted), 0)
    low, high = wanted
    return Fill("UNIFORM", float(low), float(high))


def contents_of(name: str, tensor: Any, dtype: str, count: int, most: int) -> bytes:
    """The memory of `count` elements as it is now."""
    if dtype in FLOATS:
        raise Unsupported(f"values names '{name}', a tensor of {tensor.dtype}; only integers are sent as they are")
    size = count * int(tensor.dtype.itemsize)
    if size > most:
        raise Unsupported(f"the contents of '{name}' have {size} bytes; values sends at most {most}: give "
                          f"values={{'{name}': {size}}}")
    try:
        return bytes(tensor.as_strided((count,), (1,)).cpu().numpy().tobytes())
    except (AttributeError, NotImplementedError, RuntimeError, TypeError) as error:
        raise Unsupported(f"the contents of '{name}' cannot be read: {error}") from None


def _integer_type(value: int) -> str:
    if -(2**31) <= value < 2**31:
        return "i32"
    if -(2**63) <= value < 2**63:
        return "i64"
    raise Unsupported(f"the integer {value} has more than 64 bits with its sign")


def _plain_number(name: str, value: Any) -> Union[int, float]:
    """Of a number that may be an enum's or NumPy's."""
    if isinstance(value, int):
        return int(value)
    plain = float(value)
    if math.isnan(plain):
        raise Unsupported(f"'{name}' is not a number (NaN), which no spec can say")
    return plain


class _Reader:
    def __init__(self, fills: Mapping[str, Any], zeroed: Sequence[str], values: Mapping[str, int]) -> None:
        self._fills = fills
        self._zeroed = zeroed
        self._values = values
        self.call = Call({}, {}, {}, [])

    def constant(self, name: str, value: object) -> None:
        self.call.signature[name] = "constexpr"
        self.call.constants[name] = value

    def take(self, place: int, param: Any, value: Any) -> None:
        if param.is_constexpr or value is None or callable(value) or isinstance(value, str):
            self.constant(param.name, value)
        elif is_tensor(value):
            self._tensor(place, param, value)
        elif is_descriptor(value):
            self._descriptor(param.name, value)
        elif isinstance(value, bool):
            raise Unsupported(f"'{param.name}' is a bool that is no tl.constexpr")
        elif isinstance(value, (int, float)):
            self._scalar(place, param, value)
        else:
            raise Unsupported(f"'{param.name}' is a {type(value).__name__}, which is neither a tensor nor "
                              "a number")

    def _align(self, place: int, param: Any, is_aligned: bool) -> None:
        hinted = not param.do_not_specialize
        hinted = hinted and not getattr(param, "do_not_specialize_on_alignment", False)
        if is_aligned and hinted:
            self.call.attributes[(place,)] = [["tt.divisibility", ALIGNMENT]]

    def _tensor(self, place: int, param: Any, tensor: Any) -> None:
        name = param.name
        dtype, triton_dtype = _dtype_of(name, tensor)
        count = _count_of(tensor)
        if count == 0:
            raise Unsupported(f"'{name}' has no elements")
        self.call.signature[name] = f"*{triton_dtype}"
        self._align(place, param, tensor.data_ptr() % ALIGNMENT == 0)
        if name in self._values and name not in self._zeroed:
            contents = contents_of(name, tensor, dtype, count, self._values[name])
            self.call.arguments.append(Buffer(name, dtype, count, Fill("CONSTANT", 0, 0), contents))
            return
        self.call.arguments.append(Buffer(name, dtype, count, self._fill(name, tensor, dtype)))

    def _descriptor(self, name: str, descriptor: Any) -> None:
        if hasattr(descriptor, "layout"):
            raise Unsupported(f"'{name}' is a tensor descriptor of Gluon")
        dtype, _ = _dtype_of(name, descriptor.base)
        shape = tuple(int(extent) for extent in descriptor.shape)
        dense = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
        if [int(stride) for stride in descriptor.strides] != dense:
            raise Unsupported(f"'{name}' is a tensor descriptor with gaps between its rows (strides "
                              f"{list(descriptor.strides)}); the service makes them of whole buffers alone")
        if getattr(descriptor, "round_f32_to_tf32", False):
            raise Unsupported(f"'{name}' is a tensor descriptor that rounds to tf32")
        self.call.signature[name] = block_of(name, descriptor)[0]
        self.call.arguments.append(Descriptor(name, dtype, shape, descriptor.padding == "nan",
                                              self._fill(name, descriptor.base, dtype)))

    def _fill(self, name: str, tensor: Any, dtype: str) -> Fill:
        if name in self._zeroed:
            return Fill("CONSTANT", 0, 0)
        if name in self._fills:
            return _given_fill(self._fills[name])
        return fill_like(name, tensor, dtype)

    def _scalar(self, place: int, param: Any, given: Any) -> None:
        name, declared = param.name, getattr(param, "annotation_type", "")
        value = _plain_number(name, given)
        if isinstance(value, int) and value == 1 and not param.do_not_specialize and not declared:
            self.constant(name, 1)
            return
        kind = declared or (_integer_type(value) if isinstance(value, int) else "fp32")
        if kind not in _SCALARS:
            raise Unsupported(f"'{name}' is a scalar of {kind}")
        if isinstance(value, float) and not kind.startswith(("f", "fp")):
            raise Unsupported(f"'{name}' is the number {value} and declared as {kind}")
        if math.isinf(value) and kind == "fp64":
            raise Unsupported(f"'{name}' is infinite, which no spec can say of a double")
        self.call.signature[name] = kind
        if isinstance(value, int):
            self._align(place, param, value % ALIGNMENT == 0)
        self.call.arguments.append(Scalar(name, _SCALARS[kind], value))


def read_call(params: Sequence[Any], bound: Mapping[str, Any], tuned: set[str],
              fills: Mapping[str, Any], zeroed: Sequence[str], values: Mapping[str, int] = MappingProxyType({})) -> Call:
    """Of a launch's arguments by name. `tuned`: the parameters that configs set. `values`: tensors whose contents
    are sent, and the most bytes of each. Unsupported."""
    reader = _Reader(fills, zeroed, values)
    for place, param in enumerate(params):
        if param.name in tuned:
            reader.call.signature[param.name] = "constexpr"
        elif param.name in bound:
            reader.take(place, param, bound[param.name])
        elif param.has_default:
            reader.take(place, param, param.default)
        else:
            raise Unsupported(f"the launch gives no '{param.name}'")
    return reader.call
