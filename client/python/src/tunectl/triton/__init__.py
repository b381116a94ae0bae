# SPDX-License-Identifier: Apache-2.0
"""Triton's autotune, answered by the service: one import is all that a kernel changes.

    from tunectl.triton import autotune

    @autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=4), ...], key=["n"])
    @triton.jit
    def kernel(x, y, n, BLOCK: tl.constexpr): ...

A key that a snapshot has a record of is launched with the record's config. Of any other the first config
is launched, and the service is asked to tune it: nothing is tuned in this process. Where there is no
service Triton's own autotuner does what it always did. docs/triton-autotune.md is the guide.
"""
from __future__ import annotations

from ._autotuner import Autotuner, autotune
from ._service import NotTuned, flush

__all__ = ["Autotuner", "NotTuned", "autotune", "flush"]
