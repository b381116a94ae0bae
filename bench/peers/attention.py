# SPDX-License-Identifier: Apache-2.0
"""Peers of attention, its gradient and decoding. Tensors are [batch, heads, length, head_dim]; with `causal` the last
query sees all keys, the one before it all but the last, and so on."""
import functools

from frameworks import OWN, F, Peer, autograd, compiled, need, torch

SCORE_BYTES = 14  # of a score that PyTorch's own steps have in memory
UNUSED = "it reads all positions, of which the spec leaves some unused"


def scores(q, k, causal):
    """Of one head, in f32."""
    found = q.float() @ k.float().t() * q.shape[-1] ** -0.5
    if causal:
        found.masked_fill_(torch.ones_like(found, dtype=torch.bool).triu_(1 + k.shape[0] - q.shape[0]), float("-inf"))
    return found


def log_sums(q, k, causal):
    """The log-sum-exps, head by head."""
    group = q.shape[1] // k.shape[1]
    found = torch.empty(q.shape[:3], device=q.device, dtype=torch.float32)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            found[b, h] = scores(q[b, h], k[b, h // group], causal).logsumexp(-1)
    return found


def with_log_sums(returned, args):
    return {"out": returned, "lse": log_sums(args["q"], args["k"], args["causal"])}


def with_log_sums_turned(returned, args):
    out = returned[0] if isinstance(returned, tuple) else returned
    return with_log_sums(out.transpose(1, 2), args)


def sdpa(backend, q, k, v, causal):
    """A call of PyTorch's attention by one of its backends."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    pinned, rows, keys = getattr(SDPBackend, backend), q.shape[2], k.shape[2]
    if backend == "MATH":
        need(q.shape[0] * q.shape[1] * rows * keys * SCORE_BYTES, "the scores")
    mask = None
    if causal and rows != keys:
        if backend == "FLASH_ATTENTION":  # takes no mask, but a bias that stands for it
            from torch.nn.attention.bias import causal_lower_right
            mask = causal_lower_right(rows, keys)
        else:
            mask = torch.ones(rows, keys, device=q.device, dtype=torch.bool).tril(keys - rows)

    def call(q=q, k=k, v=v):
        with sdpa_kernel(pinned):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=bool(causal) and mask is None,
                                                  enable_gqa=q.shape[1] != k.shape[1])
    return call


def flex(q, k, v, causal):
    """FlexAttention, of which torch.compile makes and tunes a Triton kernel."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    rows, keys = q.shape[2], k.shape[2]
    mask = create_block_mask(lambda b, h, row, key: key <= row + keys - rows, None, None, rows, keys,
                             device=q.device) if causal else None
    attention, gqa = compiled(flex_attention), q.shape[1] != k.shape[1]
    return lambda q=q, k=k, v=v: attention(q, k, v, block_mask=mask, enable_gqa=gqa)


def flash_attention_4(q, k, v, causal):
    """Its layout has the sequence ahead of the heads."""
    from flash_attn.cute import flash_attn_func
    turned = [tensor.transpose(1, 2).contiguous() for tensor in (q, k, v)]
    return lambda: flash_attn_func(*turned, causal=bool(causal))


def _backward(make, q, k, v, dout, causal):
    return autograd(make(q, k, v, causal), dout, q, k, v)


def _flash_attention_4_backward(q, k, v, dout, causal):
    from flash_attn.cute import flash_attn_func

    def forward(*inputs):
        out = flash_attn_func(*inputs, causal=bool(causal))
        return out[0] if isinstance(out, tuple) else out
    turned = [tensor.transpose(1, 2).contiguous() for tensor in (q, k, v, dout)]
    return autograd(forward, turned[3], *turned[:3])


def heads_first(q, k, v, batch):
    """Queries, keys and values as a cache of PyTorch has them: page p of sequence b lies at p * batch + b."""
    whole = [cache.view(-1, batch, *cache.shape[1:]).transpose(0, 1).flatten(1, 2) for cache in (k, v)]
    return [tensor.transpose(1, 2).contiguous() for tensor in (q, *whole)]


def _decode(make, q, k, v, batch, queries):
    return make(*heads_first(q, k, v, batch), queries > 1)


def flash_attention_4_decode(q, k, v, batch, queries):
    from flash_attn.cute import flash_attn_func
    turned = [tensor.transpose(1, 2).contiguous() for tensor in heads_first(q, k, v, batch)]
    return lambda: flash_attn_func(*turned, causal=queries > 1)


def flashinfer(q, k, v, table, unused, batch, queries, heads, kv_heads, head_dim, page_size):
    """Its plan is made ahead of the call."""
    import flashinfer as library
    room = torch.empty(256 << 20, dtype=torch.uint8, device=q.device)
    starts = torch.arange(batch + 1, device=q.device, dtype=torch.int32)
    plan = (starts * table.shape[0], table.t().contiguous().view(-1), page_size - unused, heads, kv_heads, head_dim,
            page_size)
    dtypes = {"q_data_type": q.dtype, "kv_data_type": k.dtype}
    if queries == 1:
        wrapper = library.BatchDecodeWithPagedKVCacheWrapper(room, "NHD", use_tensor_cores=True)
        wrapper.plan(*plan, **dtypes)
    else:
        wrapper = library.BatchPrefillWithPagedKVCacheWrapper(room, "NHD")
        wrapper.plan(starts * queries, *plan, causal=True, **dtypes)
    query = q.view(-1, heads, head_dim)
    return lambda: wrapper.run(query, (k, v), return_lse=True)


def of_flashinfer(returned, args):
    """Its log-sum-exps are to the base of 2."""
    out, lse = returned
    return {"out": out.view(args["q"].shape), "lse": lse.view(args["q"].shape[:3]) * 0.6931471805599453}


def read(k, v):
    """Sums over the cache, which read it once."""
    whole = k.view(-1).view(torch.int32), v.view(-1).view(torch.int32)
    return lambda: [one.sum(dtype=torch.int32) for one in whole]


BACKENDS = {"cudnn": "CUDNN_ATTENTION", "flash2": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}
MAKERS = {**{name: functools.partial(sdpa, backend) for name, backend in BACKENDS.items()}, "flex": flex}
FORWARD = {"flash4": Peer(flash_attention_4, with_log_sums_turned),
           **{name: Peer(make, with_log_sums) for name, make in MAKERS.items()}}
BACKWARD = {"flash4": Peer(_flash_attention_4_backward, unchecked=OWN),
            **{name: Peer(functools.partial(_backward, make), unchecked=OWN) for name, make in MAKERS.items()}}
DECODE = {"flashinfer": Peer(flashinfer, of_flashinfer), "flash4": Peer(flash_attention_4_decode, unchecked=UNUSED),
          **{name: Peer(functools.partial(_decode, make), unchecked=UNUSED) for name, make in MAKERS.items()},
          "read": Peer(read, unchecked="it reads the cache, and computes nothing else")}
