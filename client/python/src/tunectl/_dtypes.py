# SPDX-License-Identifier: Apache-2.0
"""The data types of buffers, as specs call them and as frameworks do, and the devices of frameworks."""
from __future__ import annotations

import re

DTYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "bool": 1, "i8": 1, "u8": 1, "i16": 2,
               "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
_DTYPES = {"float64": "f64", "double": "f64", "fp64": "f64", "float32": "f32", "float": "f32", "fp32": "f32",
           "float16": "f16", "half": "f16", "fp16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "bool_": "bool",
           "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32",
           "int64": "i64", "uint64": "u64"}


def dtype_name(dtype: object) -> str:
    """Of "bf16", "BF16", "half", torch.bfloat16 or numpy.float16."""
    if dtype is None or isinstance(dtype, str):
        name = dtype or ""
    else:
        name = getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2]
    known = name.lower()
    return known if known in DTYPE_BYTES else _DTYPES.get(known, name)


def device_name(device: object) -> str:
    """Of "cuda:1", 1, torch.device("cuda", 1), "CPU" or "NVIDIA H200"; None: ""."""
    if device is None:
        return ""
    name = f"cuda:{device}" if isinstance(device, int) and not isinstance(device, bool) else str(device)
    return name.lower() if re.fullmatch(r"cpu|cuda(:[0-9]+)?", name, re.IGNORECASE) else name
