# SPDX-License-Identifier: Apache-2.0
"""From the arrays of a call to the workload that a record is of: the dims and the dtype."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._answer import Answer
from ._arrays import Array
from ._kernel import HOST, Kernel, Problem, whole_number


class Signature(NamedTuple):
    """The args of a kernel that a caller has to do with."""

    inputs: tuple[Mapping[str, Any], ...]  # those that he gives: inputs, inouts and symbols
    outputs: tuple[Mapping[str, Any], ...]


def signature_of(kernel: Kernel) -> Signature:
    taken = [arg for arg in kernel.args
             if arg["kind"] == "symbol" or (arg["kind"] == "buffer" and arg["role"] != "scratch")]
    return Signature(tuple(arg for arg in taken if arg.get("role") != "output"),
                     tuple(arg for arg in taken if arg.get("role") == "output"))


def usage(name: str, signature: Signature) -> str:
    """"rope(q[seq, heads], ...)"."""
    return f"{name}({', '.join(place_of(arg) for arg in signature.inputs)})"


def place_of(arg: Mapping[str, Any]) -> str:
    """"x[rows, cols]"."""
    return f"{arg['name']}[{', '.join(arg['shape'])}]"


def dims_of(kernel: Kernel, args: Sequence[Mapping[str, Any]], arrays: Sequence[Array],
            given: Mapping[str, int], dtype: str = "") -> dict[str, int]:
    """The dims by name. An axis that is a dim, in the modes of `given`, tells it; `given` tells the others.

    ValueError says what contradicts, or what is missing and how to give it.
    """
    dims = {name: whole_number(name, value) for name, value in given.items()}
    said = {name: "as it was given by name" for name in given}
    others = []  # arrays of other axes: views of as many elements, where the dims are told elsewhere
    for arg, array in zip(args, arrays):
        if len(array.shape) != len(arg["shape"]):
            count = "axis" if len(array.shape) == 1 else f"{len(array.shape)} axes"
            others.append(f"{arg['name']} has the {count} {list(array.shape)}, where "
                          f"[{', '.join(arg['shape'])}] was expected")
            continue
        for axis, extent in enumerate(arg["shape"]):
            text = kernel.dim_of(extent, given, dtype, HOST)
            if text is None or text == "1":
                continue
            if dims.setdefault(text, array.shape[axis]) != array.shape[axis]:
                raise ValueError(f"{kernel.name}: {arg['name']} has the axes {list(array.shape)}, where "
                                 f"[{', '.join(arg['shape'])}] was expected: {text} is {array.shape[axis]} by axis {axis} "
                                 f"of {arg['name']}, and {dims[text]} {said[text]}")
            said.setdefault(text, f"by axis {axis} of {arg['name']}")
    missing = [name for name in kernel.dims if name not in dims]
    if missing:
        wanted = ", ".join(f"{name}=..." for name in missing)
        why = "; ".join(others) or f"the shapes of {', '.join(map(place_of, args))} do not tell {', '.join(missing)}"
        flat = next((arg["name"] for arg, array in zip(args, arrays) if len(array.shape) < len(arg["shape"])), "")
        if flat:
            raise ValueError(f"{kernel.name}: {why}: give such an array, say {flat}.reshape(1, -1)")
        raise ValueError(f"{kernel.name}: {why}: give {'such an array, or ' if others else ''}{wanted} to tunectl.kernel "
                         f"or to the call")
    return dims


def dtype_of(kernel: Kernel, args: Sequence[Mapping[str, Any]], arrays: Sequence[Array]) -> str:
    """Of the arrays that have the problem's; "" where none has."""
    found = {array.dtype: arg["name"] for arg, array in zip(args, arrays) if arg["dtype"] == "dtype"}
    if len(found) > 1:
        raise ValueError(f"{kernel.name}: its arrays are to have one dtype, and have "
                         f"{', '.join(f'{dtype} ({name})' for dtype, name in found.items())}")
    return next(iter(found), "")


def why_not_taken(kernel: Kernel, arg: Mapping[str, Any], array: Array, answer: Answer,
                  target: str, has_outputs: bool) -> str:
    """Why an array is not what the kernel was compiled for; empty: it is. ValueError for a shape that contradicts the
    dims. has_outputs: the caller gives the outputs, too, so that their shape is no question."""
    problem = Problem(answer.dims, answer.dtype)
    if not kernel.uses(arg, problem, target):
        return ""
    shape = kernel.shape(arg, problem, target)
    is_view = has_outputs and len(array.shape) != len(shape) or _count(shape) == 1
    if _count(shape) != _count(array.shape) or not is_view and array.shape != shape:
        raise ValueError(f"{kernel.name}: {arg['name']} has the axes {list(array.shape)}, where "
                         f"[{', '.join(arg['shape'])}] was expected, which is {list(shape)}")
    wanted = kernel.dtype(arg, problem, target)
    if array.dtype != wanted:
        return f"{arg['name']} is {array.dtype}, and the kernel takes {wanted}"
    return ""


def _count(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
