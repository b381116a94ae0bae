# SPDX-License-Identifier: Apache-2.0
"""Sums of a matrix's columns, as a layer norm's backward pass needs them, in two launches: each program
of the first sums its share of the rows, the second sums these sums."""
import triton
import triton.language as tl


@triton.jit
def share_sums(x, sums, rows, columns, SHARES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = column[None, :] < columns
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(tl.program_id(1) * ROWS, rows, SHARES * ROWS):
        row = (start + tl.arange(0, ROWS))[:, None]
        total += tl.load(x + row * columns + column[None, :], mask=inside & (row < rows), other=0.0)
    tl.store(sums + tl.program_id(1) * columns + column, tl.sum(total, axis=0), mask=column < columns)


@triton.jit
def all_sums(sums, y, columns, SHARES: tl.constexpr, COLUMNS: tl.constexpr):
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    at = sums + tl.arange(0, SHARES)[:, None] * columns + column[None, :]
    parts = tl.load(at, mask=column[None, :] < columns, other=0.0)
    tl.store(y + column, tl.sum(parts, axis=0), mask=column < columns)
