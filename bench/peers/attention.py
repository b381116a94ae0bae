# SPDX-License-Identifier: Apache-2.0
"""Peers of attention, its gradient and decoding. Tensors are [batch, heads, length, head_dim]; with `causal` the last
query sees all keys, the one before it all but the last, and so on."""
import dataclasses
import functools
import inspect

from frameworks import OWN, F, Peer, autograd, compiled, need, torch

SCORE_BYTES = 14  # of a score that PyTorch's own steps have in memory
UNUSED = "it reads all positions, of which the spec leaves some unused"


@dataclasses.dataclass(frozen=True)
class Mask:
    """Which keys a row sees: those up to its own, of these the last `window` if there is one, of its own sequence if
    `starts` has the first rows of packed sequences."""

    causal: bool
    window: int
    starts: object

    @classmethod
    def of(cls, causal, window, starts):
        return cls(bool(causal), window, starts if starts.numel() > 1 else None)

    def sees(self, row, key, shift, sequence=None):
        """Of tensors of positions. `shift`: of the row's position; `sequence`: of each position."""
        seen = key <= row + shift if self.causal else (key >= 0) & (row >= 0)
        if self.window:
            seen = seen & (key > row + shift - self.window)
        return seen if sequence is None else seen & (sequence[row] == sequence[key])

    def sequence(self):
        """Of each row; None if none are packed."""
        if self.starts is None:
            return None
        lengths = self.starts.diff()
        return torch.repeat_interleave(torch.arange(lengths.numel(), device=lengths.device), lengths)

    @property
    def flash_window(self):
        """FlashAttention's: the keys before a row's own and those after it, without bound by default."""
        return (self.window - 1, 0) if self.window else (None, None)

    def longest(self):
        return int(self.starts.diff().max())


def scores(q, k, mask):
    """Of one head, in f32."""
    found = q.float() @ k.float().t() * q.shape[-1] ** -0.5
    row, key = (torch.arange(size, device=q.device) for size in found.shape)
    return found.masked_fill_(~mask.sees(row[:, None], key[None], k.shape[0] - q.shape[0], mask.sequence()), float("-inf"))


def log_sums(q, k, mask):
    """The log-sum-exps, head by head."""
    group = q.shape[1] // k.shape[1]
    found = torch.empty(q.shape[:3], device=q.device, dtype=torch.float32)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            found[b, h] = scores(q[b, h], k[b, h // group], mask).logsumexp(-1)
    return found


def with_log_sums(returned, args):
    out = returned[0] if isinstance(returned, tuple) else returned
    mask = Mask.of(args["causal"], args["window"], args["starts"])
    return {"out": out, "lse": log_sums(args["q"], args["k"], mask)}


def with_log_sums_turned(returned, args):
    out = returned[0] if isinstance(returned, tuple) else returned
    return with_log_sums(out.view(args["q"].transpose(1, 2).shape).transpose(1, 2), args)


def sdpa(backend, q, k, v, mask):
    """A call of PyTorch's attention by one of its backends."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    pinned, rows, keys = getattr(SDPBackend, backend), q.shape[2], k.shape[2]
    if backend == "MATH":
        need(q.shape[0] * q.shape[1] * rows * keys * SCORE_BYTES, "the scores")
    bias, plain = None, not mask.window and mask.starts is None
    if not plain or mask.causal and rows != keys:
        if backend == "FLASH_ATTENTION" and plain:  # takes no mask, but a bias that stands for it
            from torch.nn.attention.bias import causal_lower_right
            bias = causal_lower_right(rows, keys)
        else:
            row, key = (torch.arange(size, device=q.device) for size in (rows, keys))
            bias = mask.sees(row[:, None], key[None], keys - rows, mask.sequence())

    def call(q=q, k=k, v=v):
        with sdpa_kernel(pinned):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=mask.causal and bias is None,
                                                  enable_gqa=q.shape[1] != k.shape[1])
    return call


def flex(q, k, v, mask):
    """FlexAttention, of which torch.compile makes and tunes a Triton kernel."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    rows, keys, sequence = q.shape[2], k.shape[2], mask.sequence()
    blocks = None
    if mask.causal or sequence is not None:
        blocks = create_block_mask(lambda b, h, row, key: mask.sees(row, key, keys - rows, sequence), None, None, rows, keys,
                                   device=q.device)
    attention, gqa = compiled(flex_attention), q.shape[1] != k.shape[1]
    return lambda q=q, k=k, v=v: attention(q, k, v, block_mask=blocks, enable_gqa=gqa)


def flash_attention_4(q, k, v, mask):
    """Its layout has the sequence ahead of the heads."""
    turned = [tensor.transpose(1, 2).contiguous() for tensor in (q, k, v)]
    return functools.partial(_flash_4_call(mask), *turned)


def _flash_4_call(mask):
    """The function of queries, keys and values that lie [batch, length, heads, head_dim]."""
    from flash_attn.cute import flash_attn_func, flash_attn_varlen_func
    more = {"causal": mask.causal and not mask.window, "window_size": mask.flash_window}
    if mask.starts is None:
        return functools.partial(flash_attn_func, **more)
    longest, starts = mask.longest(), {"cu_seqlens_q": mask.starts, "cu_seqlens_k": mask.starts}
    return lambda q, k, v: flash_attn_varlen_func(q[0], k[0], v[0], max_seqlen_q=longest, max_seqlen_k=longest, **starts,
                                                  **more)


def _forward(make, q, k, v, causal, window, starts):
    return make(q, k, v, Mask.of(causal, window, starts))


def _packed(q, k, v, mask):
    """PyTorch's own attention of packed sequences, [length, heads, head_dim]."""
    from torch.nn.attention.varlen import varlen_attn
    if mask.starts is None or mask.window:
        raise ValueError("it is for packed sequences without a window")
    taken, longest = inspect.signature(varlen_attn).parameters, mask.longest()
    causal = {"is_causal": mask.causal} if "is_causal" in taken else {"window_size": (-1, 0) if mask.causal else (-1, -1)}
    turned = [tensor[0].transpose(0, 1).contiguous() for tensor in (q, k, v)]
    return lambda q=turned[0], k=turned[1], v=turned[2]: varlen_attn(q, k, v, mask.starts, mask.starts, longest, longest,
                                                                     **causal)


def _packed_backward(q, k, v, dout, mask):
    made = _packed(q, k, v, mask)
    return autograd(made, dout[0].transpose(0, 1).contiguous(), *(one[0].transpose(0, 1).contiguous() for one in (q, k, v)))


def _backward(make, q, k, v, dout, causal, window, starts):
    return autograd(make(q, k, v, Mask.of(causal, window, starts)), dout, q, k, v)


def _own_backward(make, q, k, v, dout, causal, window, starts):
    """Of peers with a layout of their own."""
    return make(q, k, v, dout, Mask.of(causal, window, starts))


def _flash_attention_4_backward(q, k, v, dout, mask):
    attention = _flash_4_call(mask)

    def forward(*inputs):
        out = attention(*inputs)
        return out[0] if isinstance(out, tuple) else out
    turned = [tensor.transpose(1, 2).contiguous() for tensor in (q, k, v, dout)]
    return autograd(forward, turned[3].view(forward(*turned[:3]).shape), *turned[:3])


def heads_first(q, k, v, batch):
    """Queries, keys and values as a cache of PyTorch has them: the pages of a sequence lie one behind the other."""
    whole = [cache.flatten(1, 2) for cache in (k, v)]
    return [tensor.transpose(1, 2).contiguous() for tensor in (q, *whole)]


def _decode(make, q, k, v, batch, queries):
    return make(*heads_first(q, k, v, batch), Mask(queries > 1, 0, None))


def flash_attention_4_decode(q, k, v, batch, queries):
    from flash_attn.cute import flash_attn_func
    turned = [tensor.transpose(1, 2).contiguous() for tensor in heads_first(q, k, v, batch)]
    return lambda: flash_attn_func(*turned, causal=queries > 1)


def flashinfer(q, k, v, table, unused, batch, queries, heads, kv_heads, head_dim, page_size):
    """Its plan is made ahead of the call."""
    import flashinfer as library
    room = torch.empty(256 << 20, dtype=torch.uint8, device=q.device)
    starts = torch.arange(batch + 1, device=q.device, dtype=torch.int32)
    plan = (starts * table.shape[1], table.view(-1), page_size - unused, heads, kv_heads, head_dim,
            page_size)
    dtypes = {"q_data_type": q.dtype, "kv_data_type": k.dtype}
    if queries == 1:
        wrapper = library.BatchDecodeWithPagedKVCacheWrapper(room, "NHD", use_tensor_cores=True)
        wrapper.plan(*plan, **dtypes)
    else:
        wrapper = library.BatchPrefillWithPagedKVCacheWrapper(room, "NHD")
        wrapper.plan(starts * queries, *plan, causal=True, **dtypes)
    query, caches = q.view(-1, heads, head_dim), (k.flatten(0, 1), v.flatten(0, 1))
    return lambda: wrapper.run(query, caches, return_lse=True)


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
FORWARD = {"flash4": Peer(functools.partial(_forward, flash_attention_4), with_log_sums_turned),
           **{name: Peer(functools.partial(_forward, make), with_log_sums) for name, make in MAKERS.items()}}
BACKWARD = {"flash4": Peer(functools.partial(_own_backward, _flash_attention_4_backward), unchecked=OWN),
            **{name: Peer(functools.partial(_backward, make), unchecked=OWN) for name, make in MAKERS.items()}}
# What PyTorch has for packed sequences, and no mask of all pairs where one is slower by far.
MODES = {**{name: FORWARD[name] for name in ("flash4", "cudnn", "flash2", "flex")},
         "varlen": Peer(functools.partial(_forward, _packed), with_log_sums_turned)}
MODES_BACKWARD = {**{name: BACKWARD[name] for name in ("flash4", "cudnn", "flash2", "flex")},
                  "varlen": Peer(functools.partial(_own_backward, _packed_backward), unchecked=OWN)}
DECODE = {"flashinfer": Peer(flashinfer, of_flashinfer), "flash4": Peer(flash_attention_4_decode, unchecked=UNUSED),
          **{name: Peer(functools.partial(_decode, make), unchecked=UNUSED) for name, make in MAKERS.items()},
          "read": Peer(read, unchecked="it reads the cache, and computes nothing else")}
