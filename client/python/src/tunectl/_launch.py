# SPDX-License-Identifier: Apache-2.0
"""A loaded program as a function of arrays of one shape, dtype and device: what a call of tunectl.kernel launches."""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from . import _arrays, _unrolled
from ._artifact import Artifact


class Launch:
    """A loaded program, for arrays of one shape, dtype and device.

    outputs  shape and dtype of each
    launch   of the inputs: the new outputs, as None, one, or a tuple; False: the arrays do not lie as the kernel needs
    into     of the inputs and the outputs: the same
    """

    def __init__(self, program: Any, outputs: Sequence[tuple[tuple[int, ...], str]], inputs: Sequence[_arrays.Array],
                 are_tensors: bool, args: Sequence[Mapping[str, Any]]) -> None:
        self.outputs = outputs
        self.program = program
        self._made_of = (outputs, inputs, are_tensors, args)
        self._for_scalars: Optional[Launch] = None
        self._names = [arg["name"] for arg in args]
        facts = [*[(one.shape, one.dtype) for one in inputs], *outputs]
        self._sizes = [_arrays.bytes_of(shape, dtype) for shape, dtype in facts]
        changed = [i for i, arg in enumerate(args) if arg.get("role") == "inout"]
        self._written = [*changed, *range(len(inputs), len(args))]
        if are_tensors:
            self.program = program = program.for_torch()
            makers = [_arrays.maker(shape, dtype, inputs[0].device) for shape, dtype in outputs]
            bump = _bumper()
            self.launch = _unrolled.launch(program, len(inputs), makers, changed, bump, "is_neg")
            self.into = _unrolled.launch_into(program, self._sizes, len(outputs), changed, bump, self._refuse_overlap, "is_neg")
        else:
            self.launch, self.into = self._launch_any, self._launch_any_into

    def for_scalars(self) -> Launch:
        """The same for calls that set scalars. What an interrupted one leaves behind no other call sees."""
        if self._for_scalars is None:
            self._for_scalars = Launch(self.program.for_scalars(), *self._made_of)
        return self._for_scalars

    def why_not(self, arrays: Sequence[Any]) -> str:
        """What is wrong with arrays that `launch` does not take, by the args' names; empty: nothing."""
        alignment = self.program.alignment
        for name, one in zip(self._names, map(_arrays.describe, arrays)):
            trouble = one.trouble
            if not trouble and one.address % alignment:
                trouble = f"is not aligned to {alignment} bytes"
            if not trouble and not one.address:
                trouble = "is without memory"
            if trouble:
                return f"{name} {trouble}"
        return ""

    def _launch_any(self, *inputs: Any) -> Any:
        return self.into(*inputs, *[_arrays.empty(inputs[0], shape, dtype) for shape, dtype in self.outputs])

    def _launch_any_into(self, *arrays: Any) -> Any:
        program = self.program
        if program.device_now() != program.device:
            with program.made_current():
                return self.into(*arrays)
        first_output = len(arrays) - len(self.outputs)
        seen = [_arrays.describe(array) for array in arrays]
        if not all(one.is_contiguous and one.address and one.address % program.alignment == 0 for one in seen):
            return False
        check_written(self._names, seen, self._sizes, self._written, first_output)
        program.launch_among([one.address for one in seen], arrays)
        return as_result(arrays[first_output:])

    def _refuse_overlap(self, at: int, other: int) -> None:
        _refuse_overlap(self._names[at], self._names[other])


def check_written(names: Sequence[str], seen: Sequence[_arrays.Array], sizes: Sequence[int], written: Sequence[int],
                  first_output: int) -> None:
    """ValueError: an array that the kernel writes to is read-only, or an output overlaps another array.

    sizes  in bytes, of all
    """
    for at in written:
        if not seen[at].is_writable:
            raise ValueError(f"the kernel writes to '{names[at]}', which is read-only: give a writable array")
    for at in range(first_output, len(seen)):
        one = seen[at]
        for i, other in enumerate(seen[:at]):
            if (one.address < other.address + sizes[i] and other.address < one.address + sizes[at]
                    and one.device == other.device):
                _refuse_overlap(names[at], names[i])


def _refuse_overlap(name: str, other: str) -> None:
    raise ValueError(f"'{name}' lies where '{other}' does: give another as out=")


def as_result(arrays: Sequence[Any]) -> Any:
    """None, one, or a tuple."""
    return arrays[0] if len(arrays) == 1 else tuple(arrays) or None


def load(artifact: Artifact, buffers: Mapping[str, str], device: str, on_host: bool) -> Any:
    """ArtifactError: it cannot be loaded here."""
    if on_host:
        from ._launch_cpu import CpuProgram

        return CpuProgram(artifact, buffers)
    from ._launch_cuda import CudaProgram

    return CudaProgram(artifact, buffers, int(device.rpartition(":")[2] or 0))


def _bumper() -> Callable[[Any], None]:
    """What tells autograd that a tensor was written to: what it has kept of it is no more."""
    increment = getattr(sys.modules["torch"].autograd.graph, "increment_version", None)
    if increment is None:  # an old torch
        return lambda tensor: None

    def bump(tensor: Any) -> None:
        if not tensor.is_inference():  # those have no version
            increment(tensor)
    return bump
