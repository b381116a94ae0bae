# SPDX-License-Identifier: Apache-2.0
"""Launches the artifacts of GPUs in this process, by the driver that the framework has open already.

All that a launch needs is laid out when an artifact is loaded; a call writes the pointers and the
stream, and calls the driver.
"""
from __future__ import annotations

import copy
import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional

from . import _streams
from ._artifact import Artifact, ArtifactError
from ._program import LaunchError, Layout, Slots
from ._strides import Placed

_FUNCTION_MAX_DYNAMIC_SHARED_BYTES = 8
_FUNCTION_NON_PORTABLE_CLUSTER = 14
_LAUNCH_COOPERATIVE = 2
_LAUNCH_CLUSTER = 4
_LAUNCH_PROGRAMMATIC_SERIALIZATION = 6
_PORTABLE_CLUSTER = 8
_TENSOR_MAP_TYPES = {"bool": 0, "i8": 0, "u8": 0, "i16": 1, "u16": 1, "u32": 2, "i32": 3, "u64": 4, "i64": 5,
                     "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "e4m3": 0}
_EVENT_DISABLE_TIMING = 2
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
_TENSOR_MAP_BYTES = 128
_TENSOR_MAPS_KEPT = 1024
_ANY_PLACE = 1 << 32  # an address by which the driver is asked for a tensor map that nobody launches with


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint)]


@functools.lru_cache(maxsize=1)
def _driver() -> Any:
    """ArtifactError: there is none."""
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    calls = {
        "cuLaunchKernelEx": [pointer, pointer, pointer, pointer],
        "cuModuleLoadData": [pointer, ctypes.c_char_p],
        "cuModuleGetFunction": [pointer, pointer, ctypes.c_char_p],
        "cuModuleGetGlobal_v2": [pointer, pointer, pointer, ctypes.c_char_p],
        "cuFuncSetAttribute": [pointer, number, number],
        "cuOccupancyMaxActiveClusters": [pointer, pointer, pointer],
        "cuMemsetD8Async": [ctypes.c_uint64, ctypes.c_ubyte, size, pointer],
        "cuMemcpyDtoDAsync_v2": [ctypes.c_uint64, ctypes.c_uint64, size, pointer],
        "cuCtxGetCurrent": [pointer],
        "cuCtxSetCurrent": [pointer],
        "cuDevicePrimaryCtxRetain": [pointer, number],
        "cuTensorMapEncodeTiled": [pointer, number, ctypes.c_uint, pointer, pointer, pointer, pointer,
                                   pointer, number, number, number, number],
        "cuGetErrorName": [number, pointer],
    }
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        for name, types in calls.items():
            getattr(driver, name).argtypes = types
    except (OSError, AttributeError) as error:
        raise ArtifactError(f"there is no CUDA driver that could launch it: {error}") from None
    return driver


def _name_of(code: int) -> str:
    text = ctypes.c_char_p()
    _driver().cuGetErrorName(code, ctypes.byref(text))
    return (text.value or b"error %d" % code).decode()


def _load_check(code: int, what: str) -> None:
    if code:
        raise ArtifactError(f"{what}: {_name_of(code)}")


def _launch_check(code: int, what: str) -> None:
    if code:
        raise LaunchError(f"{what}: {_name_of(code)}")


def _config_of(step: Mapping[str, Any]) -> tuple[_Config, Any]:
    """With what must live as long as it."""
    attributes, count = _attributes_of(step)
    return _Config((ctypes.c_uint * 3)(*step["grid"]), (ctypes.c_uint * 3)(*step["block"]),
                   step["shared_bytes"], None, ctypes.addressof(attributes), count), attributes


def _attributes_of(step: Mapping[str, Any]) -> Any:
    found: list[tuple[int, list[int]]] = []
    if step["cluster"] != [1, 1, 1] or step.get("resident"):
        found.append((_LAUNCH_CLUSTER, step["cluster"]))
    if step["cooperative"]:
        found.append((_LAUNCH_COOPERATIVE, [1]))
    if step["programmatic_dependent_launch"]:
        found.append((_LAUNCH_PROGRAMMATIC_SERIALIZATION, [1]))
    attributes = (_Attribute * max(1, len(found)))()
    for attribute, (number, values) in zip(attributes, found):
        attribute.id = number
        for i, value in enumerate(values):
            attribute.value[i] = value
    return attributes, len(found)


class _Calls:
    """What one thread's calls use."""

    def __init__(self, layout: Layout, steps: Sequence[Mapping[str, Any]], functions: Sequence[Any]) -> None:
        slots = layout.make_slots()
        self.slots = slots
        self.memory = slots.memory
        self.configs = []
        self.launches = []
        for step, function, args, plan in zip(steps, functions, slots.arguments, layout.steps):
            config, attributes = _config_of(step)
            self.configs.append((config, attributes))
            self.launches.append((config, ctypes.addressof(config), function.value,
                                  ctypes.addressof(args), plan.zero))


class CudaProgram:
    """An artifact, loaded on one device. Thread-safe."""

    alignment = 16  # that it needs of arrays: a wider access of a kernel is two of these
    stride_alignment = alignment

    def __init__(self, artifact: Artifact, buffers: Mapping[str, str], device: int) -> None:
        """ArtifactError: it cannot be loaded here. `buffers`: as Layout's."""
        self._layout = Layout(artifact, buffers)
        self._pack = self._layout.pack
        self.device = device
        self._driver = _driver()
        self._launch_kernel = self._driver.cuLaunchKernelEx
        self._local = threading.local()
        self._tensor_maps: dict[tuple[int, int], bytes] = {}
        self._stream_of: Any = None  # a function of the device: torch's, of a program that takes its tensors
        self.device_now: Callable[[], int] = functools.partial(int, device)
        self._of_torch: Optional[CudaProgram] = None
        self._context = ctypes.c_void_p()
        _load_check(self._driver.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device),
                    "cuDevicePrimaryCtxRetain")
        before = ctypes.c_void_p()
        self._driver.cuCtxGetCurrent(ctypes.byref(before))
        _load_check(self._driver.cuCtxSetCurrent(self._context), "cuCtxSetCurrent")
        try:
            self._load(artifact)
        finally:
            self._driver.cuCtxSetCurrent(before if before.value else self._context)

    def _load(self, artifact: Artifact) -> None:
        modules = []
        for binary in artifact.binaries:
            modules.append(ctypes.c_void_p())
            _load_check(self._driver.cuModuleLoadData(ctypes.byref(modules[-1]), binary),
                        "cuModuleLoadData")
        steps = artifact.facts["steps"]
        self._functions = [self._function(modules[step["unit"]], step) for step in steps]
        self._facts = [self._cut_to_resident(function, step) for function, step in zip(self._functions, steps)]
        self._symbols = []
        for symbol, slot in self._layout.symbols:
            place, size = ctypes.c_uint64(), ctypes.c_size_t()
            _load_check(self._driver.cuModuleGetGlobal_v2(
                ctypes.byref(place), ctypes.byref(size), modules[symbol["unit"]],
                symbol["variable"].encode()), f"symbol '{symbol['variable']}'")
            wanted = self._layout.bytes_of(symbol["buffer"]["name"])
            if size.value != wanted:
                raise ArtifactError(f"symbol '{symbol['variable']}' has {size.value} bytes, not {wanted}")
            self._symbols.append((place.value, slot, wanted))
        self._is_simple = (not (self._layout.scratch_bytes or self._symbols) and len(steps) == 1
                           and not self._layout.steps[0].zero)
        self._is_plain = not (self._layout.scratch_bytes or self._layout.tensor_maps or self._symbols)

    def _function(self, module: Any, step: Mapping[str, Any]) -> Any:
        function = ctypes.c_void_p()
        _load_check(self._driver.cuModuleGetFunction(ctypes.byref(function), module,
                                                     step["entry"].encode()), step["entry"])
        _load_check(self._driver.cuFuncSetAttribute(
            function, _FUNCTION_MAX_DYNAMIC_SHARED_BYTES, step["shared_bytes"]), "its shared memory")
        x, y, z = step["cluster"]
        if x * y * z > _PORTABLE_CLUSTER:
            _load_check(self._driver.cuFuncSetAttribute(function, _FUNCTION_NON_PORTABLE_CLUSTER, 1),
                        "its clusters")
        if hasattr(self._driver, "cuFuncLoad"):  # now, and not at a launch that is captured
            self._driver.cuFuncLoad(function)
        return function

    def _cut_to_resident(self, function: Any, step: Mapping[str, Any]) -> Mapping[str, Any]:
        """Blocks that walk over the work are no more than the device runs at the same time."""
        if not step.get("resident"):  # artifacts of older daemons do not say
            return step
        count = ctypes.c_int()
        config, _kept = _config_of(step)
        _load_check(self._driver.cuOccupancyMaxActiveClusters(ctypes.byref(count), function, ctypes.byref(config)),
                    "cuOccupancyMaxActiveClusters")
        most = max(1, count.value) * step["cluster"][0]
        return {**step, "grid": [min(step["grid"][0], most), *step["grid"][1:]]}

    def _make_calls(self) -> _Calls:
        current = ctypes.c_void_p()
        self._driver.cuCtxGetCurrent(ctypes.byref(current))
        if not current.value:  # a thread that has launched nothing yet
            _launch_check(self._driver.cuCtxSetCurrent(self._context), "cuCtxSetCurrent")
        self._local.calls = calls = _Calls(self._layout, self._facts, self._functions)
        return calls

    def for_torch(self) -> CudaProgram:
        """The same program for torch's tensors, on torch's current stream and device: torch may have come after it was
        loaded."""
        if self._of_torch is None:
            torch: Any = sys.modules["torch"]
            other = copy.copy(self)
            other._stream_of = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
                lambda device: torch.cuda.current_stream(device).cuda_stream)
            if torch.cuda.device_count() > 1:
                other.device_now = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
            other._of_torch = other
            if other._is_simple:
                other.launch = other._make_plain_launch()  # type: ignore[assignment,method-assign]
            self._of_torch = other
        return self._of_torch

    def made_current(self) -> Any:
        """A context in which the device is torch's current one."""
        return sys.modules["torch"].cuda.device(self.device)

    def for_scalars(self) -> CudaProgram:
        """The same program, with arguments of its own, for calls that set floats before each launch."""
        other = copy.copy(self)
        other._local = threading.local()
        other._of_torch = other if self._of_torch is self else None
        if other.__dict__.pop("launch", None) is not None:
            other.launch = other._make_plain_launch()  # type: ignore[assignment,method-assign]
        return other

    def for_strides(self, placed: Placed, facts: Mapping[str, tuple[tuple[int, ...], str]]) -> CudaProgram:
        """The same program for arrays of other strides. ValueError: an integer or a tensor map cannot have its value."""
        other = copy.copy(self)
        other._layout = self._layout.for_strides(placed)
        other._local, other._tensor_maps, other._of_torch = threading.local(), {}, None
        other.__dict__.pop("launch", None)
        for _, _, dtype, plan in other._layout.tensor_maps:
            try:
                self._encode(plan, dtype, _ANY_PLACE)
            except LaunchError as error:
                raise ValueError(f"its strides fit no {error}") from None
        return other

    def for_floats(self, values: Mapping[str, float]) -> CudaProgram:
        """The same program, whose launches have these floats in place of the compiled ones. ValueError: as Layout.floats."""
        other = self.for_scalars()
        other._layout, other._of_torch = self._layout.for_floats(values), None
        other.__dict__.pop("launch", None)
        return other

    def scalars(self) -> dict[str, float]:
        """The floats of its launches, with the values that it was compiled for."""
        return self._layout.compiled_floats()

    def set_scalars(self, values: Mapping[str, float]) -> None:
        """For this thread's next launch. ValueError: as Layout.floats."""
        calls = getattr(self._local, "calls", None) or self._make_calls()
        calls.slots.put(self._layout.floats(values))

    def launch(self, pointers: Sequence[int], like: Any) -> None:
        """On the current stream of the framework that `like` is an array of; returns at once. LaunchError. The device
        is the current one."""
        stream = self._stream_of(self.device) if self._stream_of is not None else _streams.stream_of(like, self.device)
        self._launch_on(stream, pointers, like)

    def launch_among(self, pointers: Sequence[int], arrays: Sequence[Any]) -> None:
        """As launch, for arrays that may be of several frameworks: after what the streams of all were given, and before
        what they are given next."""
        stream, *others = _streams.streams_of(arrays, self.device)
        for other in others:
            self._order(other, stream)
        self._launch_on(stream, pointers, arrays[0])
        for other in others:
            self._order(stream, other)

    def _order(self, before: int, after: int) -> None:
        """Has one stream wait for another."""
        event, driver, pointer = ctypes.c_void_p(), self._driver, ctypes.c_void_p
        _launch_check(driver.cuEventCreate(ctypes.byref(event), _EVENT_DISABLE_TIMING), "cuEventCreate")
        try:
            _launch_check(driver.cuEventRecord(event, pointer(before)), "cuEventRecord")
            _launch_check(driver.cuStreamWaitEvent(pointer(after), event, 0), "cuStreamWaitEvent")
        finally:
            driver.cuEventDestroy_v2(event)

    def _launch_on(self, stream: int, pointers: Sequence[int], like: Any) -> None:
        try:
            calls = self._local.calls
        except AttributeError:
            calls = self._make_calls()
        if self._is_plain:
            self._pack(calls.memory, 0, *pointers)
        else:
            scratch, pointers = self._prepare(calls, pointers, stream, like)  # scratch is kept until all is launched
        for config, place, function, args, zero in calls.launches:
            for one in zero:
                _launch_check(self._driver.cuMemsetD8Async(pointers[one.slot], 0, one.bytes, stream),
                              "cuMemsetD8Async")
            config.stream = stream
            code = self._launch_kernel(place, function, args, None)
            if code:
                _launch_check(code, "cuLaunchKernelEx")

    def _make_plain_launch(self) -> Callable[[Sequence[int], Any], None]:
        """`launch` for most programs: one kernel, of the caller's tensors alone. Its names are local, which is faster."""
        local, device, pack, has_tensor_maps = self._local, self.device, self._pack, bool(self._layout.tensor_maps)
        stream_of, launch_kernel = self._stream_of, self._launch_kernel

        def launch(pointers: Sequence[int], like: Any) -> None:
            try:
                calls = local.calls
            except AttributeError:
                calls = self._make_calls()
            (config, place, function, args, _), = calls.launches
            pack(calls.memory, 0, *pointers)
            if has_tensor_maps:
                self._put_tensor_maps(calls.slots, pointers)
            config.stream = stream_of(device)
            code = launch_kernel(place, function, args, None)
            if code:
                _launch_check(code, "cuLaunchKernelEx")

        return launch

    def _prepare(self, calls: _Calls, pointers: Sequence[int], stream: int,
                 like: Any) -> tuple[Any, Sequence[int]]:
        """The arguments of a launch that takes more than the caller's buffers. Its scratch, and all pointers."""
        scratch = None
        if self._layout.scratch_bytes:
            scratch, start = self._scratch(like)
            pointers = [*pointers, *(start + offset for offset in self._layout.scratch_offsets)]
        self._pack(calls.memory, 0, *pointers)
        if self._layout.tensor_maps:
            self._put_tensor_maps(calls.slots, pointers)
        if self._symbols:
            self._fill_symbols(pointers, stream)
        return scratch, pointers

    def _scratch(self, like: Any) -> tuple[Any, int]:
        """Of the framework's allocator, which reuses it in the order of the stream."""
        from . import _arrays

        scratch = _arrays.empty(like, (self._layout.scratch_bytes,), "u8")
        return scratch, _arrays.describe(scratch).address

    def _fill_symbols(self, pointers: Sequence[int], stream: int) -> None:
        for place, slot, size in self._symbols:
            _launch_check(self._driver.cuMemcpyDtoDAsync_v2(place, pointers[slot], size, stream),
                          "cuMemcpyDtoDAsync")

    def _put_tensor_maps(self, slots: Slots, pointers: Sequence[int]) -> None:
        known, place = self._tensor_maps, slots.bytes
        for offset, slot, dtype, plan in self._layout.tensor_maps:
            key = (offset, pointers[slot])
            value = known.get(key)
            if value is None:
                if len(known) >= _TENSOR_MAPS_KEPT:
                    known.clear()
                value = known[key] = self._encode(plan, dtype, pointers[slot])
            place[offset:offset + _TENSOR_MAP_BYTES] = value

    def _encode(self, plan: Mapping[str, Any], dtype: str, address: int) -> bytes:
        rank = len(plan["dims"])
        keeps = ctypes.create_string_buffer(_TENSOR_MAP_BYTES + 64)
        place = -(-ctypes.addressof(keeps) // 64) * 64
        strides = plan["strides_bytes"]
        _launch_check(self._driver.cuTensorMapEncodeTiled(
            place, _TENSOR_MAP_TYPES[dtype], rank, address, (ctypes.c_uint64 * rank)(*plan["dims"]),
            (ctypes.c_uint64 * max(1, len(strides)))(*strides), (ctypes.c_uint32 * rank)(*plan["box"]),
            (ctypes.c_uint32 * rank)(*([1] * rank)), 0, _SWIZZLES.get(plan["swizzle_bytes"], -1),
            _PROMOTIONS.get(plan["l2_promotion_bytes"], -1), int(plan.get("nan_padding", False))), f"tensor map '{plan['name']}'")
        return ctypes.string_at(place, _TENSOR_MAP_BYTES)

