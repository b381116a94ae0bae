# SPDX-License-Identifier: Apache-2.0
"""Softmax along the last dimension of a row-major [rows, COLS] matrix.

A row that CHUNK holds is read once. A longer one is read twice, in chunks: first for its maximum and
the sum, both carried along, then to be written.
"""
import triton
import triton.language as tl

# Above what exp() of a finite difference could meet: the maximum of nothing.
LOWEST = tl.constexpr(-3.402823466e38)


@triton.jit
def whole_rows(x, y, start, inside, COLS: tl.constexpr, CHUNK: tl.constexpr):
    col = tl.arange(0, CHUNK)[None, :]
    mask = inside & (col < COLS)
    value = tl.load(x + start + col, mask=mask, other=-float("inf")).to(tl.float32)
    value = tl.exp(value - tl.max(value, axis=1)[:, None])
    value = value / tl.sum(value, axis=1)[:, None]
    tl.store(y + start + col, value.to(y.dtype.element_ty), mask=mask)


@triton.jit
def chunked_rows(x, y, start, inside, COLS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr,
                 STAGES: tl.constexpr):
    largest = tl.full([ROWS], LOWEST, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    for at in tl.range(0, COLS, CHUNK, num_stages=STAGES):
        col = at + tl.arange(0, CHUNK)[None, :]
        value = tl.load(x + start + col, mask=inside & (col < COLS), other=-float("inf")).to(tl.float32)
        above = tl.maximum(largest, tl.max(value, axis=1))
        total = total * tl.exp(largest - above) + tl.sum(tl.exp(value - above[:, None]), axis=1)
        largest = above
    for at in tl.range(0, COLS, CHUNK, num_stages=STAGES):
        col = at + tl.arange(0, CHUNK)[None, :]
        mask = inside & (col < COLS)
        value = tl.load(x + start + col, mask=mask, other=-float("inf")).to(tl.float32)
        value = tl.exp(value - largest[:, None]) / total[:, None]
        tl.store(y + start + col, value.to(y.dtype.element_ty), mask=mask)


@triton.jit
def softmax(x, y, rows, COLS: tl.constexpr, CHUNK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr):
    # Once for most grids; a program of a smaller grid goes on to further rows.
    for first in tl.range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS, num_stages=STAGES):
        row = first + tl.arange(0, ROWS)[:, None]
        start = row.to(tl.int64) * COLS
        if CHUNK >= COLS:
            whole_rows(x, y, start, row < rows, COLS, CHUNK)
        else:
            chunked_rows(x, y, start, row < rows, COLS, CHUNK, ROWS, STAGES)
