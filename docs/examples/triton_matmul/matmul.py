# SPDX-License-Identifier: Apache-2.0
"""c = a @ b in Triton: row-major [M, K] by row-major [K, N], accumulated in f32.

Programs go through the blocks of c in groups of GROUP_M rows of blocks, so that neighbours share what
they read. M and N are any; K is masked.
"""
import triton
import triton.language as tl


@triton.jit
def block_of(pid, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr):
    columns = tl.cdiv(N, BLOCK_N)
    first = pid // (GROUP_M * columns) * GROUP_M
    rows = min(tl.cdiv(M, BLOCK_M) - first, GROUP_M)
    within = pid % (GROUP_M * columns)
    return first + within % rows, within // rows


@triton.jit
def matmul(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
           GROUP_M: tl.constexpr):
    block_row, block_column = block_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    row = block_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = block_column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    # Wrapped round instead of masked: what is read twice is not stored.
    a_at = a + (row % M)[:, None] * K + depth[None, :]
    b_at = b + depth[:, None] * N + (column % N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        a_part = tl.load(a_at, mask=depth[None, :] < K - start, other=0.0)
        b_part = tl.load(b_at, mask=depth[:, None] < K - start, other=0.0)
        total = tl.dot(a_part, b_part, total)
        a_at += BLOCK_K
        b_at += BLOCK_K * N
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row[:, None] * N + column[None, :], total.to(c.dtype.element_ty), mask=inside)
