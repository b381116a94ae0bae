# SPDX-License-Identifier: Apache-2.0
"""The data types of buffers, as specs call them."""
from __future__ import annotations

DTYPE_BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "bool": 1, "i8": 1, "u8": 1, "i16": 2,
               "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
