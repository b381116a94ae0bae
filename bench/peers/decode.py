#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels/attention_decode by turns with its peers in one process, cold caches, one clock, and writes JSON.

For each shape `tunectl sweep` finds our config first. Peers: PyTorch's SDPA pinned to each of its backends (`math` is
the framework eager), `flex`: FlexAttention by torch.compile's max-autotune, which makes a Triton kernel for few
queries, FlashAttention 4, and FlashInfer's two forms (for tensor cores, and without them) where they can be imported.
Its plan is made before the time is taken. All get the same keys and values. Ours and FlashInfer read them by a table of
pages, the others from one piece: for these that is the easier case. `read` sums as many bytes. With --queries each
sequence has several new tokens, each of which sees the keys up to its own: FlashInfer's form for that is its prefill,
and SDPA has none, so that cuDNN gets the mask as a tensor and FlashAttention 2 a bias, which cost them.
A result is compared with an f32 one on one sequence. A rate is of the cache's bytes. Needs a CUDA GPU and PyTorch 2.5
or later.
"""
import functools

import torch

import contest
import our_kernel
from torch_attention import FRAMEWORK

# batch, heads, kv_heads, seq, head_dim: from one long sequence to many short ones.
SHAPES = [
    (1, 32, 8, 8192, 128), (1, 32, 8, 32768, 128), (1, 32, 8, 131072, 128), (1, 64, 8, 65536, 128),
    (16, 32, 8, 1024, 128), (16, 32, 8, 8192, 128), (16, 32, 8, 32768, 128), (64, 32, 8, 4096, 128),
    (128, 32, 8, 1024, 128), (128, 32, 8, 8192, 128), (16, 32, 32, 8192, 128), (32, 32, 4, 16384, 128),
]
NAMES = ("batch", "heads", "kv_heads", "seq", "head_dim")
PAGE = 64


class Case:
    """`q` [batch, queries, heads, head_dim]; `k`, `v` [batch, seq, kv_heads, head_dim], of which the pages are views."""

    def __init__(self, shape, queries, dtype):
        self.batch, self.heads, self.kv_heads, self.seq, self.head_dim = shape
        self.queries = queries
        torch.manual_seed(1)
        self.q = torch.randn(self.batch, queries, self.heads, self.head_dim, device="cuda", dtype=dtype)
        self.k, self.v = (torch.randn(self.batch, self.seq, self.kv_heads, self.head_dim, device="cuda", dtype=dtype)
                          for _ in range(2))
        self.pages = self.seq // PAGE

    def paged(self, cache):
        return cache.view(self.batch * self.pages, PAGE, self.kv_heads, self.head_dim)

    def ours(self):
        """Page p of sequence b lies at b * pages + p; the table is stored page by page, as the spec has it."""
        table = torch.arange(self.batch * self.pages, device="cuda", dtype=torch.int32)
        return {"q": self.q, "k": self.paged(self.k), "v": self.paged(self.v),
                "table": table.view(self.batch, self.pages).t().contiguous(),
                "unused": torch.zeros(self.batch, device="cuda", dtype=torch.int32)}

    @functools.cached_property
    def heads_first(self):
        """Queries, keys and values as a cache of PyTorch has them."""
        return [tensor.transpose(1, 2).contiguous() for tensor in (self.q, self.k, self.v)]

    def framework(self, make):
        """A call of PyTorch's attention."""
        attend = make(*self.heads_first, self.queries > 1)
        return lambda: attend().transpose(1, 2)

    def flash_attention_4(self):
        from flash_attn.cute import flash_attn_func

        def call():
            out = flash_attn_func(self.q, self.k, self.v, causal=self.queries > 1)
            return out[0] if isinstance(out, tuple) else out
        return call

    def flashinfer(self, tensor_cores):
        import flashinfer
        room = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        starts = torch.arange(self.batch + 1, device="cuda", dtype=torch.int32)
        plan = (starts * self.pages, torch.arange(self.batch * self.pages, device="cuda", dtype=torch.int32),
                torch.full((self.batch,), PAGE, device="cuda", dtype=torch.int32), self.heads, self.kv_heads,
                self.head_dim, PAGE)
        dtypes = {"q_data_type": self.q.dtype, "kv_data_type": self.k.dtype}
        if self.queries == 1:
            wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(room, "NHD", use_tensor_cores=tensor_cores)
            wrapper.plan(*plan, **dtypes)
        elif tensor_cores:
            wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(room, "NHD")
            wrapper.plan(starts * self.queries, *plan, causal=True, **dtypes)
        else:
            raise ValueError("it takes one query of each sequence")
        query, cache = self.q.view(-1, self.heads, self.head_dim), (self.paged(self.k), self.paged(self.v))
        return lambda: wrapper.run(query, cache).view(self.q.shape)

    def read(self):
        """What reading the cache takes a sum over it."""
        whole = self.k.view(-1).view(torch.int32), self.v.view(-1).view(torch.int32)
        return lambda: (whole[0].sum(dtype=torch.int32), whole[1].sum(dtype=torch.int32))

    def makers(self):
        own = {name: lambda make=make: self.framework(make) for name, make in FRAMEWORK.items()}
        return {**own, "flash4": self.flash_attention_4, "flashinfer": lambda: self.flashinfer(True),
                "flashinfer_cuda_cores": lambda: self.flashinfer(False), "read": self.read}

    def truth(self):
        """Of the first sequence, [queries, heads, head_dim]."""
        group = self.heads // self.kv_heads
        k, v = (cache[0].float().repeat_interleave(group, dim=1) for cache in (self.k, self.v))
        scores = torch.einsum("qhd,shd->qhs", self.q[0].float(), k) * self.head_dim ** -0.5
        hidden = torch.ones(self.queries, self.seq, device="cuda", dtype=torch.bool).triu(self.seq - self.queries + 1)
        return torch.einsum("qhs,shd->qhd", scores.masked_fill(hidden[:, None], float("-inf")).softmax(-1), v)


def measure(arguments, shape):
    dims = {**dict(zip(NAMES, shape)), "queries": arguments.queries, "page_size": PAGE}
    config, outcomes = contest.sweep(arguments, arguments.spec, dims)
    case = Case(shape, arguments.queries, our_kernel.TORCH_TYPES[arguments.dtype])
    ours = our_kernel.Variant(arguments.tunectl, arguments.spec, dims, arguments.dtype, config, case.ours())
    makers = case.makers()
    calls, missing = contest.peers(makers)
    truth = case.truth()
    ours()
    errors = {"ours": contest.error_of(ours.tensors["out"][0], truth),
              **contest.checked(makers, calls, lambda result: contest.error_of(result[0], truth), unchecked=("read",))}
    work = 4 * case.batch * case.seq * case.kv_heads * case.head_dim
    return {"dims": dims, "config": config, "outcomes": outcomes, "errors_over_deviation": errors,
            "missing": missing, **contest.timed(arguments, {"ours": ours, **calls}, work, "bytes_per_second")}


def main():
    parser = contest.parser_for(__doc__, "10s", 30)
    parser.add_argument("--spec", default="attention_decode", help="name in the catalogue, or path of the spec")
    parser.add_argument("--queries", type=int, default=1, choices=range(1, 9), metavar="N",
                        help="new tokens of each sequence, 1 to 8 (%(default)s)")
    parser.add_argument("shapes", nargs="*", help=",".join(NAMES).upper() + "; by default a list of twelve")
    arguments = parser.parse_args()
    shapes = [tuple(map(int, text.split(","))) for text in arguments.shapes] or SHAPES
    for shape in shapes:
        if len(shape) != len(NAMES) or shape[3] % PAGE:
            parser.error(f"{shape}: {','.join(NAMES).upper()}, with SEQ a multiple of {PAGE}")
    contest.run(arguments, {" ".join(f"{dim}={size}" for dim, size in zip(NAMES, shape)): shape for shape in shapes},
              measure, contest.teller("bytes_per_second", "TB/s", 2), bytes="keys and values read once")


if __name__ == "__main__":
    main()
