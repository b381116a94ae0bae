# SPDX-License-Identifier: Apache-2.0
"""Which devices this process has: PyTorch's GPUs, if the job works on one already, else those that libtune finds."""
from __future__ import annotations

import functools
import re
import sys
from typing import Any, NamedTuple, Optional

from ._dtypes import device_name


class Device(NamedTuple):
    id: str  # "cuda:0", "cpu"
    name: str  # "NVIDIA H200", "cpu:AMD EPYC 9654"
    target: str = ""  # "sm_90a", "cpu"; empty: not known


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
        return [Device(f"cuda:{i}", cuda.get_device_name(i)) for i in order]
    except Exception:  # a driver that is half there is as good as none
        return None


def local_devices() -> tuple[Device, ...]:
    """The first is what a job uses by default: a GPU before the CPU. LibraryMissing."""
    from . import _libtune

    found = [Device(*one) for one in _libtune.devices()]
    of_torch = _of_torch()
    return tuple(found if of_torch is None else [*of_torch, *found[-1:]])  # the CPU is the last


def asked_for(device: object) -> str:
    """The name of a device as libtune is asked for it: what torch numbers is told by its name, since CUDA may number
    otherwise than the driver does."""
    name = device_name(device)
    if re.fullmatch(r"(cuda(:[0-9]+)?)?", name):
        for one in _of_torch() or ():
            if name in ("", "cuda", one.id):
                return one.name
    return name


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
