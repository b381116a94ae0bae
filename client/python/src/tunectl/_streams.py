# SPDX-License-Identifier: Apache-2.0
"""The CUDA stream that an array's framework works on now, by the array's kind. Imports no framework."""
from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

_DEFAULT = 0  # which the driver's other streams wait for


def stream_of(array: Any, device: int) -> int:
    """torch's and CuPy's current stream; of another array the stream that its __cuda_array_interface__ names, whose
    work the array may still depend on."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return int(torch.cuda.current_stream(device).cuda_stream)
    if type(array).__module__.partition(".")[0] == "cupy":
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    interface = getattr(array, "__cuda_array_interface__", None)
    stream = interface.get("stream") if interface is not None else None
    return _DEFAULT if stream is None else int(stream)


def streams_of(arrays: Sequence[Any], device: int) -> list[int]:
    """Each once, the first array's first. An array that names no stream asks for no order."""
    named = [one for one in arrays if _names_one(one)] or [arrays[0]]
    return list(dict.fromkeys(stream_of(one, device) for one in named))


def _names_one(array: Any) -> bool:
    interface = None if hasattr(array, "data_ptr") else getattr(array, "__cuda_array_interface__", None)
    return interface is None or interface.get("stream") is not None or type(array).__module__.partition(".")[0] == "cupy"
