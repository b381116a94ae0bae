# SPDX-License-Identifier: Apache-2.0
"""From the arrays of a call to the workload that a record is of: the dims and the dtype."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._answer import Answer
from ._arrays import Array
from ._kernel import Kernel, Problem, Target


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
    return f"{name}({', '.join(_place(arg) for arg in signature.inputs)})"


def _place(arg: Mapping[str, Any]) -> str:
    return f"{arg['name']}[{', '.join(arg['shape'])}]"


def dims_of(kernel: Kernel, args: Sequence[Mapping[str, Any]], arrays: Sequence[Array],
            given: Mapping[str, int]) -> dict[str, int]:
    """The dims by name. An axis of a shape that is a dim by itself tells it; `given` tells the others.

    ValueError says what contradicts, or what is missing and how to give it.
    """
    dims = dict(given)
    said = {name: "given by name" for name in given}
    for arg, array in zip(args, arrays):
        if len(array.shape) != len(arg["shape"]):
            continue  # another view of as many elements
        for axis, text in enumerate(arg["shape"]):
            if text not in kernel.rules:
                continue
            here = f"axis {axis} of {arg['name']}"
            if dims.setdefault(text, array.shape[axis]) != array.shape[axis]:
                raise ValueError(f"{kernel.name}: {text} is {array.shape[axis]} by {here} and "
                                 f"{dims[text]} by {said[text]}")
            said.setdefault(text, here)
    missing = [name for name in kernel.rules if name not in dims]
    if missing:
        wanted = ", ".join(f"{name}=..." for name in missing)
        raise ValueError(f"{kernel.name}: the shapes of {', '.join(map(_place, args))} do not tell "
                         f"{', '.join(missing)}: give {wanted} to tunectl.kernel or to the call")
    return dims


def dtype_of(kernel: Kernel, args: Sequence[Mapping[str, Any]], arrays: Sequence[Array]) -> str:
    """Of the arrays that have the problem's; "" where none has."""
    found = {array.dtype: arg["name"] for arg, array in zip(args, arrays) if arg["dtype"] == "dtype"}
    if len(found) > 1:
        raise ValueError(f"{kernel.name}: its arrays are to have one dtype, and have "
                         f"{', '.join(f'{dtype} ({name})' for dtype, name in found.items())}")
    return next(iter(found), "")


def why_not_taken(kernel: Kernel, arg: Mapping[str, Any], array: Array, answer: Answer,
                  target: Target) -> str:
    """Why an array is not what the kernel was compiled for; empty: it is. ValueError for a shape that
    contradicts the dims."""
    problem = Problem(dict(answer.dims), answer.dtype)
    shape = kernel.shape(arg, problem, target)
    if _count(shape) != _count(array.shape):
        raise ValueError(f"{kernel.name}: {arg['name']} has shape {list(array.shape)}, and "
                         f"[{', '.join(arg['shape'])}] is {list(shape)}")
    wanted = kernel.dtype(arg, problem, target)
    if array.dtype != wanted:
        return f"{arg['name']} is {array.dtype}, and the kernel takes {wanted}"
    return ""


def _count(shape: Sequence[int]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count
