# SPDX-License-Identifier: Apache-2.0
"""This process among those of its job."""
from __future__ import annotations

import os


def is_bound() -> bool:
    """Must this process answer as others do? It is one of several, or a snapshot is pinned."""
    pinned = os.environ.get("TUNE_SNAPSHOT", "")
    return os.environ.get("WORLD_SIZE", "1") not in ("", "1") or pinned not in ("", "latest")


def is_first_rank() -> bool:
    return os.environ.get("RANK", "0") in ("", "0")
