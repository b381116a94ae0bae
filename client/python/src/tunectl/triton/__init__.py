# SPDX-License-Identifier: Apache-2.0
"""Triton's autotune, answered by the service: one import is all that a kernel changes.

    from tunectl.triton import autotune

    @autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4), ...], key=["n"])
    @triton.jit
    def kernel(x, y, n, BLOCK: tl.constexpr): ...

A key with a record is launched with the record's config. Any other key is launched with the first config,
and the service is asked to tune it: nothing is tuned in this process. Without a service Triton's own
autotuner does its usual work. docs/triton-autotune.md is the guide.
"""
from __future__ import annotations

from ._autotuner import Autotuner, autotune
from ._service import NotTuned, flush

__all__ = ["Autotuner", "NotTuned", "autotune", "flush"]
