# SPDX-License-Identifier: Apache-2.0
"""Launches the artifacts of the CPU device in this process, by libtune-launch-cpu.so.

A kernel's shared object is opened from memory; the library runs its blocks as the daemon's worker
does, on a thread for each processor.
"""
from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import itertools
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _libtune, _strides
from ._artifact import Artifact, ArtifactError
from ._dtypes import DTYPE_BYTES
from ._program import ALIGNMENT, LaunchError, Layout, Slots

_LIBRARY = "libtune-launch-cpu.so"
_WHY_BYTES = 1024
_PARAMETER_BYTES = 128
_VECTOR_BYTES = 64  # the widest access of a processor that a binary may take for aligned


@functools.lru_cache(maxsize=1)
def _library() -> Any:
    places = _libtune.places(_LIBRARY, "TUNE_LAUNCH_LIBRARY")
    try:
        library = ctypes.CDLL(next((place for place in places[:-1] if os.path.exists(place)), places[-1]))
        library.tune_launch_cpu_abi.restype = ctypes.c_uint
        library.tune_launch_cpu_state_offset.restype = ctypes.c_long
        library.tune_launch_cpu_run.argtypes = [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p,
            ctypes.c_char_p, ctypes.c_size_t]
    except (OSError, AttributeError) as error:
        raise ArtifactError(f"the CPU device's launcher is not here (TUNE_LAUNCH_LIBRARY names it): "
                            f"{error}") from None
    return library


def _name_of(descriptor: int) -> str:
    """A path of an open file that the process has not used before, by any copy of this module: the loader takes a
    library for one that it has by its name, and the next file may get the same number."""
    number = int.from_bytes(os.urandom(8), "little") | 1 << 64
    dots = "".join("/." if number >> bit & 1 else "/" for bit in range(number.bit_length()))
    return f"/proc/self/fd{dots}/{descriptor}"


def _open(binary: bytes) -> Any:
    if b"__asan_init" in binary:  # its runtime ends a process that loads it late
        raise ArtifactError("it was compiled with TUNE_CPU_SANITIZE=1")
    try:
        with os.fdopen(os.memfd_create("kernel", os.MFD_CLOEXEC), "wb") as file:
            file.write(binary)
            file.flush()
            kernel = ctypes.CDLL(_name_of(file.fileno()))
    except OSError as error:
        raise ArtifactError(f"the kernel cannot be loaded: {error}") from None
    library = _library()
    try:
        abi = ctypes.c_uint.in_dll(kernel, "tune_cpu_abi").value
        if abi != library.tune_launch_cpu_abi():
            raise ArtifactError(f"the kernel is of version {abi} of the CPU device, the launcher of "
                                f"{library.tune_launch_cpu_abi()}")
        kernel.tune_cpu_bind.argtypes = [ctypes.c_long]
        kernel.tune_cpu_bind(library.tune_launch_cpu_state_offset())
    except (ValueError, AttributeError):
        raise ArtifactError("the binary is no kernel of the CPU device") from None
    return kernel


class _Turn:
    """A lock that a forked child finds free: another thread of its parent's may have held it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        _turns.add(self)


_turns: weakref.WeakSet[_Turn] = weakref.WeakSet()


def _after_fork() -> None:
    for turn in _turns:
        turn.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _address(kernel: Any, name: str) -> int:
    try:
        return ctypes.cast(getattr(kernel, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


def _check_parameters(kernel: Any, entry: str, sizes: Sequence[int]) -> None:
    place = _address(kernel, f"tune_cpu_parameters_{entry}")
    count = ctypes.c_uint.from_address(place).value if place else 0
    taken = [ctypes.c_uint.from_address(place + 4 + i * _PARAMETER_BYTES).value
             for i in range(count)] if count == len(sizes) else None
    if not place or taken != list(sizes):
        raise ArtifactError(f"kernel '{entry}' takes other parameters than its launch gives it")


def _aligned(size: int) -> tuple[Any, int]:
    """Memory, and where in it that many aligned bytes begin."""
    memory = ctypes.create_string_buffer(size + ALIGNMENT)
    return memory, -(-ctypes.addressof(memory) // ALIGNMENT) * ALIGNMENT


class _Runs(NamedTuple):
    """The bytes of an array: runs, and the counts and strides in bytes of the axes that repeat them."""

    bytes: int
    axes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, shape: Sequence[int], strides: Sequence[int], size: int) -> _Runs:
        run, axes = _strides.runs_of(shape, strides)
        return cls(run * size, tuple((count, stride * size) for count, stride in axes))

    def copy(self, target: int, source: int) -> None:
        for steps in itertools.product(*[range(0, count * stride, stride) for count, stride in self.axes]):
            offset = sum(steps)
            ctypes.memmove(target + offset, source + offset, self.bytes)


class _Buffer(NamedTuple):
    slot: int
    bytes: int  # from the first to the last
    is_written: bool  # by a launch
    runs: _Runs


class CpuProgram:
    """An artifact, loaded. Thread-safe. Arrays that are not aligned are copied there and back."""

    alignment = 1  # that it needs of arrays
    stride_alignment = _VECTOR_BYTES
    device, device_now, made_current = 0, int, contextlib.nullcontext  # there is no other

    def __init__(self, artifact: Artifact, buffers: Mapping[str, str]) -> None:
        """ArtifactError: it cannot be loaded here. `buffers`: as Layout's."""
        self._layout = Layout(artifact, buffers)
        if self._layout.tensor_maps:
            raise ArtifactError("the CPU device has no tensor maps")
        self._run = _library().tune_launch_cpu_run
        kernels = [_open(binary) for binary in artifact.binaries]
        self._steps = []
        for step, layout in zip(artifact.facts["steps"], self._layout.steps):
            kernel = kernels[step["unit"]]
            threads = _address(kernel, f"tune_cpu_threads_{step['entry']}")
            if not threads:
                raise ArtifactError(f"the binary has no kernel '{step['entry']}'")
            _check_parameters(kernel, step["entry"], layout.sizes)
            sizes = (ctypes.c_int64 * 6)(*step["grid"], *step["block"])
            self._steps.append((threads, _address(kernel, "tune_cpu_set_shared"), sizes,
                                step["shared_bytes"], layout.zero))
        self._symbols = []
        for symbol, slot in self._layout.symbols:
            place = _address(kernels[symbol["unit"]], symbol["variable"])
            if not place:
                raise ArtifactError(f"the binary has no symbol '{symbol['variable']}'")
            variable = ctypes.c_void_p.from_address(place).value or 0
            self._symbols.append((variable, slot, self._layout.bytes_of(symbol["buffer"]["name"])))
        self._buffers = [_Buffer(*one, _Runs(one[1], ())) for one in self._layout.caller_buffers()]
        self._local = threading.local()
        self._turn = _Turn()  # symbols are the program's, not a thread's

    def _make_slots(self) -> tuple[Slots, list[int], Any, Any]:
        slots = self._layout.make_slots()
        scratch, start = _aligned(self._layout.scratch_bytes)
        pointers = [start + offset for offset in self._layout.scratch_offsets]
        made = (slots, pointers, scratch, ctypes.create_string_buffer(_WHY_BYTES))
        self._local.slots = made
        return made

    def for_scalars(self) -> CpuProgram:
        """The same program, with arguments of its own, for calls that set floats before each launch."""
        other = copy.copy(self)
        other._local = threading.local()
        return other

    def for_strides(self, placed: _strides.Placed, facts: Mapping[str, tuple[tuple[int, ...], str]]) -> CpuProgram:
        """The same program for arrays of other strides. ValueError: an integer cannot have its value.

        facts  shape and dtype of each array, in the order of `placed.strides`
        """
        other = self.for_scalars()
        other._layout = self._layout.for_strides(placed)
        arrays = [(shape, strides, DTYPE_BYTES[dtype]) for (shape, dtype), strides in zip(facts.values(), placed.strides)]
        other._buffers = [one._replace(bytes=_strides.extent_of(shape, strides) * size, runs=_Runs.of(shape, strides, size))
                          for one, (shape, strides, size) in ((one, arrays[one.slot]) for one in self._buffers)]
        return other

    def for_floats(self, values: Mapping[str, float]) -> CpuProgram:
        """The same program, whose launches have these floats in place of the compiled ones. ValueError: as Layout.floats."""
        other = self.for_scalars()
        other._layout = self._layout.for_floats(values)
        return other

    def for_torch(self) -> CpuProgram:
        """The same: no framework has streams here."""
        return self

    def scalars(self) -> dict[str, float]:
        """The floats of its launches, with the values that it was compiled for."""
        return self._layout.compiled_floats()

    def set_scalars(self, values: Mapping[str, float]) -> None:
        """For this thread's next launch. ValueError: as Layout.floats."""
        slots = (getattr(self._local, "slots", None) or self._make_slots())[0]
        slots.put(self._layout.floats(values))

    def launch(self, pointers: Sequence[int], like: Any) -> None:
        """Runs to the end. LaunchError, with the launcher's words."""
        slots, scratch, _, why = getattr(self._local, "slots", None) or self._make_slots()
        pointers = [*pointers, *scratch]
        copies = self._align(pointers)
        self._layout.pack(slots.memory, 0, *pointers)
        with self._turn.lock:
            for variable, slot, size in self._symbols:
                ctypes.memmove(variable, pointers[slot], size)
            for (threads, set_shared, sizes, shared, zero), args in zip(self._steps, slots.arguments):
                for one in zero:
                    ctypes.memset(pointers[one.slot], 0, one.bytes)
                if self._run(threads, set_shared, sizes, shared, args, why, _WHY_BYTES):
                    raise LaunchError(why.value.decode(errors="replace"))
        for _, start, place, runs in copies:
            if place:
                runs.copy(place, start)

    def launch_among(self, pointers: Sequence[int], arrays: Sequence[Any]) -> None:
        """As launch."""
        self.launch(pointers, arrays[0])

    def _align(self, pointers: list[int]) -> list[tuple[Any, int, int, _Runs]]:
        """Replaces those that are not aligned. What is to be copied back, with its memory; to 0: nothing."""
        copies = []
        for slot, size, is_written, runs in self._buffers:
            place = pointers[slot]
            if place % _VECTOR_BYTES:
                memory, start = _aligned(size)
                runs.copy(start, place)
                copies.append((memory, start, place if is_written else 0, runs))
                pointers[slot] = start
        return copies
