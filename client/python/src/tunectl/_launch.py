# SPDX-License-Identifier: Apache-2.0
"""A loaded program as a function of arrays of one shape, dtype and device: what a call of tunectl.kernel launches."""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from . import _arrays, _strides, _unrolled
from ._artifact import Artifact
from ._dtypes import DTYPE_BYTES
from ._program import ALIGNMENT

_STRIDES_MAX = 1024  # that a plan keeps launches of


class Launch:
    """A loaded program, for arrays of one shape, dtype and device.

    outputs  shape and dtype of each
    launch   of the inputs: the new outputs, as None, one, or a tuple; False: the arrays do not lie as the kernel needs
    into     of the inputs and the outputs: the same

    It launches on contiguous arrays. For others of a kernel that takes strides it makes a launch of their strides, which
    it keeps: `placed` tells what such a one has of its own.
    """

    def __init__(self, program: Any, outputs: Sequence[tuple[tuple[int, ...], str]], inputs: Sequence[_arrays.Array],
                 are_tensors: bool, args: Sequence[Mapping[str, Any]], strided: Optional[_strides.Strided] = None,
                 placed: Optional[_strides.Placed] = None) -> None:
        self.outputs = outputs
        self._made_of = (outputs, inputs, are_tensors, args, strided)
        self._strided, self._placed = strided, placed
        self._by_strides: dict[tuple[_strides.Strides, ...], Launch] = {}
        self._for_scalars: Optional[Launch] = None
        self._names = [arg["name"] for arg in args]
        self._is_strided = [bool(arg.get("strided")) for arg in args]
        self._facts = [*[(one.shape, one.dtype) for one in inputs], *outputs]
        strides = placed.strides if placed is not None else [_strides.contiguous(shape) for shape, _ in self._facts]
        self._sizes = [_strides.extent_of(shape, steps) * DTYPE_BYTES[dtype]
                       for (shape, dtype), steps in zip(self._facts, strides)]
        self._patterns = [_strides.pattern_of(shape, steps, dtype) for (shape, dtype), steps in zip(self._facts, strides)]
        changed = [i for i, arg in enumerate(args) if arg.get("role") == "inout"]
        self._written = [*changed, *range(len(inputs), len(args))]
        self._output_strides = list(strides[len(inputs):])
        if placed is not None:
            program = program.for_strides(placed, dict(zip(self._names, self._facts)))
        self.program = program
        if are_tensors:
            self.program = program = program.for_torch()
            self._changed, self._device, self._bump = changed, inputs[0].device, _bumper()
            self.launch = self.short({})
            lie = _unrolled.Lie("is_neg", placed is None, self._into_of_strides if strided is not None else None)
            self.into = _unrolled.launch_into(program, self._sizes, len(outputs), changed, self._bump, self._may_overlap, lie)
        else:
            self.launch, self.into = self._launch_any, self._launch_any_into

    def for_scalars(self) -> Launch:
        """The same for calls that set scalars. What an interrupted one leaves behind no other call sees."""
        if self._for_scalars is None:
            self._for_scalars = Launch(self.program.for_scalars(), *self._made_of, self._placed)
        return self._for_scalars

    def for_arrays(self, arrays: Sequence[Any]) -> Optional[Launch]:
        """The launch of arrays that lie as these do, inputs or all of a call; None: the kernel does not take them."""
        if self._strided is None or self._placed is not None:
            return self
        try:
            return self._of([_arrays.describe(one) for one in arrays])
        except _strides.Unfit:
            return None

    def fitted(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """The inputs of a call, with contiguous copies of those that the kernel does not take as they lie."""
        for made in (tensors, [one if self._is_strided[i] else one.contiguous() for i, one in enumerate(tensors)]):
            if self.why_not(made) == "":
                return made
        return [one.contiguous() for one in tensors]

    def takes(self, tensors: Sequence[Any]) -> bool:
        """Whether `why_not` says nothing of these inputs, quickly for strides that have a launch."""
        if tuple([one.stride() for one in tensors]) in self._by_strides and not any([one.is_neg() for one in tensors]):
            try:
                places = [one.data_ptr() for one in tensors]
            except RuntimeError:  # a wrapper of another tensor has no memory
                return False
            return not any([not place or place % self.program.alignment for place in places])
        return not self.why_not(tensors)

    def why_not(self, arrays: Sequence[Any]) -> str:
        """What is wrong with arrays that `launch` does not take, by the args' names; empty: nothing."""
        alignment = self.program.alignment
        seen = [_arrays.describe(one) for one in arrays]
        try:
            launch = self._of(seen)
        except _strides.Unfit as why:
            return str(why)
        for name, one in zip(self._names, seen):
            if one.address % alignment:
                return f"{name} is not aligned to {alignment} bytes"
            if not one.address:
                return f"{name} is without memory"
        return launch._why_mixed(seen)

    def _of(self, seen: Sequence[_arrays.Array]) -> Launch:
        """Of arrays that lie so. Unfit."""
        for name, one in zip(self._names, seen):
            if one.trouble and (one.strides is None or self._strided is None):
                raise _strides.Unfit(f"{name} {one.trouble}")
        if self._strided is None or all(one.is_contiguous for one in seen):
            return self
        key = tuple([one.strides or _strides.contiguous(one.shape) for one in seen])
        launch = self._by_strides.get(key)
        if launch is None:
            placed = self._strided.place(seen, self.program.stride_alignment)
            try:
                launch = Launch(self.program, *self._made_of, placed)
            except ValueError as error:  # an integer that its type does not hold, a tensor map that the driver refuses
                raise _strides.Unfit(str(error)) from None
            if len(self._by_strides) >= _STRIDES_MAX:
                self._by_strides.clear()
            self._by_strides[key] = launch
        return launch

    def short(self, blanks: Mapping[int, Any], results: Optional[Sequence[int]] = None,
              shapes: Optional[Sequence[tuple[int, ...]]] = None,
              otherwise: Optional[Callable[..., Any]] = None) -> Callable[..., Any]:
        """`launch` as a function of the tensors that a caller gives.

        blanks     the others, by their places; they are kept elsewhere
        results    the outputs that it returns, in this order; None: all
        shapes     that outputs get, of as many elements: the tensors are contiguous, too, with more axes than the kernel's
        otherwise  called with tensors that are not contiguous, if they have more axes; None: it returns False
        """
        facts = [(shape, dtype, steps) for (shape, dtype), steps in zip(self.outputs, self._output_strides)]
        if shapes is not None:
            facts = [(shape, dtype, _strides.contiguous(shape)) for shape, (_, dtype, _) in zip(shapes, facts)]
        elif self._strided is not None:
            otherwise = self._of_strides(blanks, results)
        spare, end = self._spare(results)
        facts = [one for i, one in enumerate(facts) if i not in spare] + ([((end,), "u8", (1,))] if spare else [])
        makers = [_arrays.maker(shape, dtype, self._device, steps) for shape, dtype, steps in facts]
        return _unrolled.launch(
            self.program, len(self._facts) - len(self.outputs), makers, self._changed, self._bump,
            _unrolled.Lie("is_neg", self._placed is None, otherwise),
            _unrolled.Form({i: one.data_ptr() for i, one in blanks.items()}, results, spare))

    def _spare(self, results: Optional[Sequence[int]]) -> tuple[dict[int, int], int]:
        """Where the outputs that nobody gets lie in one array, by their places, and its bytes."""
        found: dict[int, int] = {}
        end, sizes = 0, self._sizes[len(self._facts) - len(self.outputs):]
        for i, size in enumerate(sizes):
            if results is not None and i not in results:
                found[i] = end
                end += -(-size // ALIGNMENT) * ALIGNMENT
        return found, end

    def _of_strides(self, blanks: Mapping[int, Any], results: Optional[Sequence[int]]) -> Callable[..., Any]:
        """As `short`, of tensors of which one is not contiguous."""
        launches: dict[Any, Callable[..., Any]] = {}
        places = [i for i in range(len(self._facts) - len(self.outputs)) if i not in blanks]

        def launch(*given: Any) -> Any:
            key = tuple([one.stride() for one in given])
            known = launches.get(key)
            if known is None:
                whole = {**blanks, **dict(zip(places, given))}
                found = self.for_arrays([whole[i] for i in range(len(whole))])
                if found is None or found is self:  # what is contiguous here is a negated view
                    return False
                if len(launches) >= _STRIDES_MAX:
                    launches.clear()
                known = launches[key] = found.short(blanks, results)
            return known(*given)

        return launch

    def _into_of_strides(self, *tensors: Any) -> Any:
        """As `into`, of tensors of which one is not contiguous."""
        launch = self._by_strides.get(tuple([one.stride() for one in tensors])) or self.for_arrays(tensors)
        return False if launch is None or launch is self else launch.into(*tensors)  # a negated view may be contiguous

    def _launch_any(self, *inputs: Any) -> Any:
        launch = self.for_arrays(inputs)
        if launch is None:
            return False
        made = [_arrays.empty(inputs[0], shape, dtype, None if steps == _strides.contiguous(shape) else steps)
                for (shape, dtype), steps in zip(self.outputs, launch._output_strides)]
        return self.into(*inputs, *made)

    def _launch_any_into(self, *arrays: Any) -> Any:
        program = self.program
        if program.device_now() != program.device:
            with program.made_current():
                return self.into(*arrays)
        first_output = len(arrays) - len(self.outputs)
        seen = [_arrays.describe(array) for array in arrays]
        if not all(one.address and one.address % program.alignment == 0 for one in seen):
            return False
        try:
            launch = self if self._placed is not None else self._of(seen)
        except _strides.Unfit:
            return False
        check_written(self._names, seen, [_arrays.extent_of(one) for one in seen], self._written, first_output)
        if launch._why_mixed(seen):
            return False
        launch.program.launch_among([one.address for one in seen], arrays)
        return as_result(arrays[first_output:])

    def _may_overlap(self, at: int, other: int, place: int, other_place: int) -> bool:
        """Of an output whose extent meets another array's: whether their elements may. ValueError: they do."""
        if self._placed is None or place == other_place:
            _refuse_overlap(self._names[at], self._names[other])
        return not _strides.are_apart(self._patterns[at], self._patterns[other], other_place - place)

    def _why_mixed(self, seen: Sequence[_arrays.Array]) -> str:
        """What is wrong with outputs of a strided call among the elements of other arrays; empty: nothing."""
        if self._placed is None:
            return ""
        for at in range(len(self._facts) - len(self.outputs), len(seen)):
            for i, other in enumerate(seen[:at]):
                if _meet(seen, self._sizes, at, i) and self._may_overlap(at, i, seen[at].address, other.address):
                    return f"{self._names[at]} lies among the elements of {self._names[i]}"
        return ""


def check_written(names: Sequence[str], seen: Sequence[_arrays.Array], sizes: Sequence[int], written: Sequence[int],
                  first_output: int) -> None:
    """ValueError: an array that the kernel writes to is read-only, or an output overlaps another array.

    sizes  in bytes, of all; an array that is not contiguous overlaps another if its first element does
    """
    for at in written:
        if not seen[at].is_writable:
            raise ValueError(f"the kernel writes to '{names[at]}', which is read-only: give a writable array")
    for at in range(first_output, len(seen)):
        for i in range(at):
            if _meet(seen, sizes, at, i):
                _refuse_overlap(names[at], names[i])


def _meet(seen: Sequence[_arrays.Array], sizes: Sequence[int], at: int, i: int) -> bool:
    one, other = seen[at], seen[i]
    return (one.address < other.address + sizes[i] and other.address < one.address + sizes[at]
            and one.device == other.device)


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
