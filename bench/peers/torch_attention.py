# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own attention, as the studies of attention have it among their peers.

Tensors are [batch, heads, length, head_dim]. Each of FRAMEWORK makes a call of q, k, v and `causal`. With `causal` the
last query sees all keys, the one before it all but the last, and so on.
"""
import functools

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import contest

# Bytes of a score that the framework's own steps hold at a time: it is f32 in all of them.
SCORE_BYTES, SCORE_BYTES_WITH_GRADIENTS = 14, 24


def mask_of(backend, rows, keys):
    """Where there are more keys than queries. FlashAttention takes no mask, but a bias of PyTorch that stands for it."""
    if backend == SDPBackend.FLASH_ATTENTION:
        from torch.nn.attention.bias import causal_lower_right
        return causal_lower_right(rows, keys)
    return torch.ones(rows, keys, device="cuda", dtype=torch.bool).tril(keys - rows)


def sdpa(backend, q, k, v, causal):
    """Scaled dot-product attention, pinned to a backend."""
    rows, keys = q.shape[2], k.shape[2]
    mask = mask_of(backend, rows, keys) if causal and rows != keys else None

    def call():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal and mask is None,
                                                  enable_gqa=q.shape[1] != k.shape[1])
    return call


def eager(q, k, v, causal):
    """SDPA as a sequence of the framework's operations, with all scores in memory."""
    scores = q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2]
    contest.need(scores * (SCORE_BYTES_WITH_GRADIENTS if q.requires_grad else SCORE_BYTES), "the scores")
    return sdpa(SDPBackend.MATH, q, k, v, causal)


def flex(q, k, v, causal):
    """FlexAttention, of which torch.compile makes and tunes a Triton kernel. Which blocks the mask leaves is found here,
    before time is taken."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    rows, keys = q.shape[2], k.shape[2]
    first = keys - rows
    mask = create_block_mask(lambda b, h, row, key: key <= row + first, None, None, rows, keys,
                             device=q.device) if causal else None
    attention = contest.compiled(flex_attention)
    return lambda: attention(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])


FRAMEWORK = {"cudnn": functools.partial(sdpa, SDPBackend.CUDNN_ATTENTION),
             "flash2": functools.partial(sdpa, SDPBackend.FLASH_ATTENTION),
             "efficient": functools.partial(sdpa, SDPBackend.EFFICIENT_ATTENTION), "flex": flex, "math": eager}
