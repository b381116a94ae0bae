# SPDX-License-Identifier: Apache-2.0
"""c = a @ b in Triton through tensor descriptors that the host makes: [m, k] by [n, k], transposed."""
import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    columns = tl.cdiv(n, BLOCK_N)
    row = tl.program_id(0) // columns * BLOCK_M
    column = tl.program_id(0) % columns * BLOCK_N
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k, BLOCK_K):
        total = tl.dot(a.load([row, start]), b.load([column, start]).T, total)
    c.store([row, column], total.to(c.dtype))
