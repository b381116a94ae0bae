# SPDX-License-Identifier: Apache-2.0
"""Rotary position embedding of q and k in one launch; every element is read once and written once.

Tensors are [seq, batch, heads, HEAD_DIM]: a token is `q_rows` heads in one piece of q, and `k_rows` in
one of k. A program has a tile of TOKENS tokens by HEADS heads, of q or of k.
"""
import triton
import triton.language as tl


@triton.jit
def load_pairs(at, mask, INTERLEAVED: tl.constexpr, HALF: tl.constexpr, PADDED: tl.constexpr):
    """Both elements of each pair, in f32."""
    pair = tl.arange(0, PADDED)[None, None, :]
    if INTERLEAVED:
        first, second = at + 2 * pair, at + 2 * pair + 1
    else:
        first, second = at + pair, at + HALF + pair
    inside = mask & (pair < HALF)
    return tl.load(first, mask=inside).to(tl.float32), tl.load(second, mask=inside).to(tl.float32)


@triton.jit
def store_pairs(at, a, b, mask, INTERLEAVED: tl.constexpr, HALF: tl.constexpr, PADDED: tl.constexpr,
                STORES: tl.constexpr):
    pair = tl.arange(0, PADDED)[None, None, :]
    if INTERLEAVED:
        first, second = at + 2 * pair, at + 2 * pair + 1
    else:
        first, second = at + pair, at + HALF + pair
    inside = mask & (pair < HALF)
    policy: tl.constexpr = "evict_first" if STORES == "streamed" else ""
    tl.store(first, a.to(at.dtype.element_ty), mask=inside, eviction_policy=policy)
    tl.store(second, b.to(at.dtype.element_ty), mask=inside, eviction_policy=policy)


@triton.jit
def rotate(source, result, token, head, rows, c, s, seq, HEAD_DIM: tl.constexpr, INTERLEAVED: tl.constexpr,
           PADDED: tl.constexpr, STORES: tl.constexpr):
    start = (token.to(tl.int64) * rows + head) * HEAD_DIM
    mask = (token < seq) & (head < rows)
    a, b = load_pairs(source + start, mask, INTERLEAVED, HEAD_DIM // 2, PADDED)
    store_pairs(result + start, a * c - b * s, b * c + a * s, mask, INTERLEAVED, HEAD_DIM // 2, PADDED, STORES)


@triton.jit
def rope(q, k, cosine, sine, q_out, k_out, seq, q_rows, k_rows, HEAD_DIM: tl.constexpr,
         INTERLEAVED: tl.constexpr, BACKWARD: tl.constexpr, PADDED: tl.constexpr, TOKENS: tl.constexpr,
         HEADS: tl.constexpr, STORES: tl.constexpr):
    HALF: tl.constexpr = HEAD_DIM // 2
    q_tiles = tl.cdiv(q_rows, HEADS)
    tiles = q_tiles + tl.cdiv(k_rows, HEADS)
    tile = tl.program_id(0) % tiles
    token = (tl.program_id(0) // tiles) * TOKENS + tl.arange(0, TOKENS)[:, None, None]
    pair = tl.arange(0, PADDED)[None, None, :]
    in_table = (token < seq) & (pair < HALF)
    c = tl.load(cosine + token * HALF + pair, mask=in_table)
    s = tl.load(sine + token * HALF + pair, mask=in_table)
    if BACKWARD:
        s = -s
    head = tl.arange(0, HEADS)[None, :, None]
    if tile < q_tiles:
        rotate(q, q_out, token, tile * HEADS + head, q_rows, c, s, seq, HEAD_DIM, INTERLEAVED, PADDED, STORES)
    else:
        rotate(k, k_out, token, (tile - q_tiles) * HEADS + head, k_rows, c, s, seq, HEAD_DIM, INTERLEAVED,
               PADDED, STORES)
