# SPDX-License-Identifier: Apache-2.0
"""What it costs that the blocks of a launch come in waves: as tuner/transfer/waves.cc.

tests/data/grid_cases.json holds cases that both must answer alike.
"""
from __future__ import annotations

SIZE_MAX = 1 << 40  # of a launch
_BLOCKS_OF_A_WAVE = 0.5


def stretch(blocks: int, residents: int, multiprocessors: int) -> float:
    """How long a launch takes, over what it would take if its work were spread evenly and without waves."""
    if blocks <= 0 or residents <= 0 or multiprocessors <= 0:
        return 1.0
    most = -(-blocks // multiprocessors)  # of the busiest multiprocessor
    waves = -(-most // residents)
    return (most + _BLOCKS_OF_A_WAVE * waves) * multiprocessors / blocks
