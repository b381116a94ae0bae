# SPDX-License-Identifier: Apache-2.0
"""Which devices this process has, by the names that records have. Imports no framework."""
from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Optional

_DRIVER_VERSION = "/proc/driver/nvidia/version"
_CPU_KEYS = ("model name", "Model", "Hardware")


class Device(NamedTuple):
    id: str  # "cuda:0", "cpu"
    name: str  # "NVIDIA H200", "cpu:AMD EPYC 9654"
    target: str  # "sm_90a", "cpu"; empty: not known
    sm_count: int = 0  # multiprocessors, or processors that this process may use; 0: not known
    driver: str = ""  # its version, of the CPU the system's; empty: not known


def target_of(major: int, minor: int) -> str:
    """What kernels are compiled for on a GPU of a compute capability."""
    return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


# As tuner/device_profile.cc has it: a word of a GPU's name, by what it is compiled for.
_MODELS = {"sm_70": ("V100",), "sm_75": ("T4",), "sm_80": ("A100", "A30", "A800"),
           "sm_86": ("A10", "A10G", "A40", "A6000", "3090"), "sm_89": ("L4", "L40", "L40S", "4090"),
           "sm_90a": ("H100", "H200", "H800", "H20", "GH200"), "sm_100a": ("B200", "GB200"),
           "sm_103a": ("B300", "GB300"), "sm_120a": ("5090",)}


def target_of_gpu(name: str) -> str:
    """Of a GPU that is known by its name alone; empty: it is not in the table."""
    for word in re.split("[ _-]", name.upper()):
        for target, models in _MODELS.items():
            if word in models:
                return target
    return ""


def _of_torch() -> Optional[list[Device]]:
    """The GPUs that PyTorch sees, where the job works on one already. To ask it sooner would initialise CUDA, after
    which a child that is forked has none."""
    torch: Any = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        if cuda is None or not cuda.is_initialized():
            return None
        current = cuda.current_device()
        order = [current, *(i for i in range(cuda.device_count()) if i != current)]
        return [Device(f"cuda:{i}", cuda.get_device_name(i),
                       target_of(*cuda.get_device_capability(i)),
                       cuda.get_device_properties(i).multi_processor_count, _driver()) for i in order]
    except Exception:  # a driver that is half there is as good as none
        return None


@functools.lru_cache(maxsize=1)
def _driver() -> str:
    """The version of NVIDIA's, without a library of it."""
    try:
        with open(_DRIVER_VERSION, encoding="utf-8", errors="replace") as file:
            found = re.search(r"\s(\d+(\.\d+)+)\s", file.readline())
    except OSError:
        return ""
    return found[1] if found else ""


def _visible(text: Optional[str], uuids: Sequence[str], parent_of: Callable[[str], Optional[int]]) -> list[Optional[int]]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order. None: a slice of a GPU (MIG) that cannot be found.

    parent_of  of the name of a slice: the GPU that it is a part of
    """
    if text is None:
        return list(range(len(uuids)))
    order: list[Optional[int]] = []
    for item in (part.strip() for part in text.split(",")):
        if item.isdigit() and int(item) < len(uuids):
            order.append(int(item))
            continue
        if item.upper().startswith("MIG-"):
            order.append(parent_of(item))
            continue
        named = [i for i, uuid in enumerate(uuids) if item and uuid.upper().startswith(item.upper())]
        if len(named) != 1:
            break  # CUDA stops at the first that it does not know
        order.append(named[0])
    return order


class _Nvml:
    """NVIDIA's management library, which tells of GPUs without making a CUDA context."""

    def __init__(self, library: Any) -> None:
        self._library = library
        self.devices: list[tuple[str, str]] = []  # name and target
        self.uuids: list[str] = []
        count = ctypes.c_uint()
        library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        for i in range(count.value):
            handle = ctypes.c_void_p()
            if library.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(handle)) == 0:
                self._add(handle)

    def _add(self, handle: ctypes.c_void_p) -> None:
        name, major, minor = ctypes.create_string_buffer(96), ctypes.c_int(), ctypes.c_int()
        self._library.nvmlDeviceGetName(handle, name, 96)
        self._library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
        self.devices.append((name.value.decode(errors="replace"),
                             target_of(major.value, minor.value) if major.value else ""))
        self.uuids.append(self._uuid(handle))

    def _uuid(self, handle: ctypes.c_void_p) -> str:
        uuid = ctypes.create_string_buffer(96)
        self._library.nvmlDeviceGetUUID(handle, uuid, 96)
        return uuid.value.decode(errors="replace")

    def parent_of(self, slice_name: str) -> Optional[int]:
        """The GPU of "MIG-<uuid>", or of the older "MIG-GPU-<uuid>/<instance>/<instance>"."""
        old = slice_name[len("MIG-"):].partition("/")[0]
        named = [i for i, uuid in enumerate(self.uuids) if uuid.upper() == old.upper()]
        if not named:
            handle, parent = ctypes.c_void_p(), ctypes.c_void_p()
            try:
                if (self._library.nvmlDeviceGetHandleByUUID(slice_name.encode(), ctypes.byref(handle)) == 0 and
                        self._library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle, ctypes.byref(parent)) == 0):
                    named = [i for i, uuid in enumerate(self.uuids) if uuid == self._uuid(parent)]
            except AttributeError:  # an older library
                pass
        if not named and len(set(self.devices)) == 1:
            return 0  # all are alike
        return named[0] if named else None


def _of_nvml() -> list[Device]:
    """The GPUs that the driver tells of, without making a CUDA context. A slice of a GPU is answered as the GPU."""
    if not os.path.exists(_DRIVER_VERSION):
        return []
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        if library.nvmlInit_v2() != 0:
            return []
    except (OSError, AttributeError):
        return []
    try:
        nvml = _Nvml(library)
        order = _visible(os.environ.get("CUDA_VISIBLE_DEVICES"), nvml.uuids, nvml.parent_of)
    finally:
        library.nvmlShutdown()
    return [Device(f"cuda:{place}", *(nvml.devices[i] if i is not None else ("MIG", "")), driver=_driver())
            for place, i in enumerate(order)]


@functools.lru_cache(maxsize=1)
def processor_features() -> frozenset[str]:
    """What instructions this processor has, as /proc/cpuinfo calls them."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() in ("flags", "Features"):
                    return frozenset(value.split())
    except OSError:
        pass
    return frozenset()


def _cpu() -> Device:
    import platform

    count, release = len(os.sched_getaffinity(0)), os.uname().release
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if colon and key.strip() in _CPU_KEYS and value.strip():
                    return Device("cpu", "cpu:" + " ".join(value.split()), "cpu", count, release)
    except OSError:
        pass
    return Device("cpu", "cpu:" + platform.machine(), "cpu", count, release)


@functools.lru_cache(maxsize=1)
def _without_torch() -> tuple[Device, ...]:
    return (*_of_nvml(), _cpu())


def local_devices() -> tuple[Device, ...]:
    """The first is what a job uses by default: a GPU before the CPU."""
    seen_by_torch = _of_torch()
    if seen_by_torch is None:
        return _without_torch()
    return (*seen_by_torch, _cpu())
