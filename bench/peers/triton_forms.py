# SPDX-License-Identifier: Apache-2.0
"""Triton forms of kernels, as peers: each is launched from PyTorch with the config that Triton's own autotuner picks.

Softmax and rope are those of the catalogue. The product takes operands of any strides, in the order of blocks of
docs/examples/triton_matmul. A function makes a call, which gives its result.
"""
import sys

import our_kernel

sys.path[:0] = [str(our_kernel.ROOT / folder) for folder in
                ("kernels/softmax_triton", "kernels/rope_triton", "docs/examples/triton_matmul")]

import rope_triton  # noqa: E402
import softmax_triton  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from matmul import block_of  # noqa: E402

SHARED_BYTES = 98304  # that the catalogue's softmax has of shared memory for rows on their way
# Rows, columns and depth of a block, warps, stages: from square products to those of a few rows.
PRODUCTS = [(128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 128, 8, 3),
            (64, 256, 64, 4, 4), (128, 64, 64, 4, 4), (64, 128, 64, 4, 4), (64, 64, 128, 4, 4), (16, 128, 128, 4, 4),
            (16, 64, 256, 4, 3)]


@triton.jit
def strided_matmul(a, b, c, M, N, K, a_row, a_depth, b_depth, b_column, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
                   BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, EVEN_K: tl.constexpr):
    block_row, block_column = block_of(tl.program_id(0), M, N, BLOCK_M, BLOCK_N, GROUP_M)
    row = block_row * BLOCK_M + tl.arange(0, BLOCK_M)
    column = block_column * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    # Wrapped round instead of masked: what is read twice is not stored.
    a_at = a + (row % M).to(tl.int64)[:, None] * a_row + depth[None, :] * a_depth
    b_at = b + depth[:, None] * b_depth + (column % N).to(tl.int64)[None, :] * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        if EVEN_K:
            a_part, b_part = tl.load(a_at), tl.load(b_at)
        else:
            a_part = tl.load(a_at, mask=depth[None, :] < K - start, other=0.0)
            b_part = tl.load(b_at, mask=depth[:, None] < K - start, other=0.0)
        total = tl.dot(a_part, b_part, total)
        a_at += BLOCK_K * a_depth
        b_at += BLOCK_K * b_depth
    inside = (row[:, None] < M) & (column[None, :] < N)
    tl.store(c + row.to(tl.int64)[:, None] * N + column[None, :], total.to(c.dtype.element_ty), mask=inside)


def tuned(kernel, configs):
    """The kernel with the fastest of (constants, warps, stages)."""
    return triton.autotune([triton.Config(constants, num_warps=warps, num_stages=stages)
                            for constants, warps, stages in configs], key=[])(kernel)


def matmul(a, b):
    """[m, k] by [k, n], each stored by rows or by columns."""
    (m, k), n = a.shape, b.shape[1]
    configs = [({"BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": depth, "GROUP_M": 8, "EVEN_K": k % depth == 0},
                warps, stages) for rows, columns, depth, warps, stages in PRODUCTS]
    kernel = tuned(strided_matmul, configs)

    def grid(meta):
        return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)

    def call():
        c = torch.empty(m, n, device=a.device, dtype=a.dtype)
        kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride())
        return c
    return call


def softmax_configs(cols, itemsize):
    """Whole rows where they fit, and else pieces of them; 8 to 64 elements for a thread."""
    rows, whole = (8 if cols <= 512 else 1), triton.next_power_of_2(cols)
    fits = whole * rows * itemsize <= SHARED_BYTES
    found = []
    for chunk in [whole] if fits else [4096, 8192, 16384]:
        for warps in (1, 2, 4, 8, 16, 32):
            elements = chunk * rows // (32 * warps)
            if 8 <= elements <= 64 and (fits or elements in (16, 32)):
                found += [({"CHUNK": chunk, "ROWS": rows, "STAGES": stages}, warps, 3)
                          for stages in ((1,) if fits else (1, 2))]
    return found or [({"CHUNK": whole, "ROWS": rows, "STAGES": 1}, 1, 3)]


def softmax(x):
    rows, cols = x.shape
    kernel = tuned(softmax_triton.softmax, softmax_configs(cols, x.itemsize))

    def call():
        y = torch.empty_like(x)
        kernel[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](x, y, rows, COLS=cols)
        return y
    return call


def rope_configs(head_dim):
    padded = triton.next_power_of_2(head_dim // 2)
    return [({"HEADS": heads, "TOKENS": tokens, "PADDED": padded, "STORES": "cached"}, warps, 3)
            for heads, tokens in ((4, 1), (8, 1), (16, 1), (32, 1), (8, 2)) for warps in (1, 2, 4, 8)
            if 4 <= heads * tokens * padded // (32 * warps) <= 8] or [
                ({"HEADS": 8, "TOKENS": 1, "PADDED": padded, "STORES": "cached"}, 1, 3)]


def rope(q, k, cosine, sine, backward):
    """Of [seq, batch, heads, head_dim]; pairs are elements of the halves."""
    seq, batch, heads, head_dim = q.shape
    q_rows, k_rows = batch * heads, batch * k.shape[2]
    kernel = tuned(rope_triton.rope, rope_configs(head_dim))

    def grid(meta):
        tiles = triton.cdiv(q_rows, meta["HEADS"]) + triton.cdiv(k_rows, meta["HEADS"])
        return (triton.cdiv(seq, meta["TOKENS"]) * tiles,)

    def call():
        q_out, k_out = torch.empty_like(q), torch.empty_like(k)
        kernel[grid](q, k, cosine, sine, q_out, k_out, seq, q_rows, k_rows, HEAD_DIM=head_dim, INTERLEAVED=0,
                     BACKWARD=int(backward))
        return q_out, k_out
    return call
