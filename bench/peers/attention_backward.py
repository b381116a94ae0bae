#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels/attention_backward by turns with its peers in one process, cold caches, one clock, and writes JSON.

For each shape `tunectl sweep` finds our config first. Peers: the gradients of PyTorch's SDPA pinned to each of its
backends (cuDNN, FlashAttention 2, the memory-efficient one, and `math`, which is the framework eager: it has all scores
in memory, and is left out where they do not fit), of FlashAttention 4 where `flash_attn.cute` can be imported, and of
`flex`: FlexAttention by torch.compile's max-autotune, which is the Triton form of attention. It tunes some 35 kernels
at each shape: with --peer-seconds 300 it has time for them. All get the same inputs; O and its log-sum-exp are the
true ones. The gradients of two heads are compared with f32 ones, in units of their deviation. Needs a CUDA GPU and
PyTorch 2.5 or later.
"""
import torch

import contest
import our_kernel
from torch_attention import FRAMEWORK

# batch, heads, kv_heads, seq, head_dim, causal. First those that have been followed since the first figures.
SHAPES = [
    (4, 16, 16, 4096, 128, 0), (4, 16, 16, 4096, 128, 1), (1, 16, 16, 16384, 128, 0), (2, 32, 8, 8192, 128, 1),
    (8, 16, 16, 1024, 64, 1),
    # 16384 tokens of 2048 columns, as FlashAttention's own figures have them.
    (32, 16, 16, 512, 128, 0), (32, 16, 16, 512, 128, 1), (16, 16, 16, 1024, 128, 0), (16, 16, 16, 1024, 128, 1),
    (8, 16, 16, 2048, 128, 1), (2, 16, 16, 8192, 128, 1), (1, 16, 16, 16384, 128, 1), (16, 32, 32, 1024, 64, 0),
    (4, 32, 32, 4096, 64, 0), (4, 32, 32, 4096, 64, 1), (1, 32, 32, 16384, 64, 1),
    # A sequence of a model with 64 heads of Q and 8 of K and V; a batch of one with 48.
    (1, 64, 8, 2048, 128, 1), (1, 64, 8, 8192, 128, 1), (1, 64, 8, 16384, 128, 1), (4, 48, 48, 1024, 128, 1),
    (4, 48, 48, 4096, 128, 1),
]
NAMES = ("batch", "heads", "kv_heads", "seq", "head_dim", "causal")


def gradients(make, shape, inputs, dout):
    """A call that gives dQ, dK and dV of the framework's attention."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    return contest.gradients_of(make(*leaves, bool(shape[5]))(), leaves, dout)


def flash_attention_4(shape, inputs, dout):
    """The same; its layout has the sequence ahead of the heads."""
    from flash_attn.cute import flash_attn_func
    leaves = [tensor.transpose(1, 2).contiguous().requires_grad_() for tensor in inputs]
    out = flash_attn_func(*leaves, causal=bool(shape[5]))
    out = out[0] if isinstance(out, tuple) else out
    return contest.gradients_of(out, leaves, dout.transpose(1, 2).contiguous())


def makers(shape, inputs, dout):
    own = {name: lambda make=make: gradients(make, shape, inputs, dout) for name, make in FRAMEWORK.items()}
    return {"flash4": lambda: flash_attention_4(shape, inputs, dout), **own}


def scores_of(q, k, causal):
    scores = q @ k.t() * q.shape[-1] ** -0.5
    if causal:
        scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu_(1), float("-inf"))
    return scores


def forward(shape, inputs):
    """O, rounded as a forward pass leaves it, and the log-sum-exps. Head by head, in f32."""
    q, k, v = inputs
    group = shape[1] // shape[2]
    out, lse = torch.empty_like(q), torch.empty(q.shape[:3], device="cuda", dtype=torch.float32)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            scores = scores_of(q[b, h].float(), k[b, h // group].float(), shape[5])
            lse[b, h] = scores.logsumexp(-1)
            out[b, h] = (scores - lse[b, h, :, None]).exp_() @ v[b, h // group].float()
    return out, lse


def true_gradients(shape, inputs, out, lse, dout, b, kv_head):
    """dQ of the heads that a head of K and V serves, and its dK and dV, in f32."""
    group = shape[1] // shape[2]
    k, v = inputs[1][b, kv_head].float(), inputs[2][b, kv_head].float()
    dq, dk, dv = [], torch.zeros_like(k), torch.zeros_like(v)
    for h in range(kv_head * group, (kv_head + 1) * group):
        q, slope = inputs[0][b, h].float(), dout[b, h].float()
        weights = (scores_of(q, k, shape[5]) - lse[b, h, :, None]).exp_()
        dv += weights.t() @ slope
        weights *= slope @ v.t() - (slope * out[b, h].float()).sum(-1, keepdim=True)
        dq.append(weights @ k * shape[4] ** -0.5)
        dk += weights.t() @ q * shape[4] ** -0.5
    return torch.stack(dq), dk, dv


def errors_of(results, truths, shape):
    """The largest error of each gradient over the deviation of the true one."""
    group = shape[1] // shape[2]
    worst = {}
    for (b, kv_head), truth in truths.items():
        parts = (results[0][b, kv_head * group:(kv_head + 1) * group], results[1][b, kv_head], results[2][b, kv_head])
        for name, part, true in zip(("dq", "dk", "dv"), parts, truth):
            contest.keep_worst(worst, name, contest.error_of(part, true))
    return worst


def measure(arguments, shape):
    batch, heads, kv_heads, seq, head_dim, causal = shape
    dims = {**dict(zip(NAMES, shape)), "deterministic": arguments.deterministic}
    config, outcomes = contest.sweep(arguments, arguments.spec, dims)
    torch.manual_seed(1)
    query, key = (batch, heads, seq, head_dim), (batch, kv_heads, seq, head_dim)
    dtype = our_kernel.TORCH_TYPES[arguments.dtype]
    inputs = [torch.randn(size, device="cuda").to(dtype) for size in (query, key, key)]
    dout = torch.randn(query, device="cuda").to(dtype)
    out, lse = forward(shape, inputs)
    ours = our_kernel.Variant(arguments.tunectl, arguments.spec, dims, arguments.dtype, config,
                          {**dict(zip("qkv", inputs)), "out": out, "dout": dout, "lse": lse})
    calls, missing = contest.peers(makers(shape, inputs, dout))
    truths = {place: true_gradients(shape, inputs, out, lse, dout, *place)
              for place in {(0, 0), (batch - 1, kv_heads - 1)}}
    ours()
    errors = {"ours": errors_of([ours.tensors[name] for name in ("dq", "dk", "dv")], truths, shape)}
    for name, call in calls.items():
        results = call()
        errors[name] = errors_of([result.transpose(1, 2) if name == "flash4" else result for result in results],
                                 truths, shape)
    pairs = seq * (seq + 1) // 2 if causal else seq * seq
    work = 10 * batch * heads * pairs * head_dim
    return {"dims": dims, "config": config, "outcomes": outcomes, "errors_over_deviation": errors,
            "missing": missing, **contest.timed(arguments, {"ours": ours, **calls}, work, "flops_per_second")}


def main():
    parser = contest.parser_for(__doc__, "30s", 30)
    parser.add_argument("--spec", default="attention_backward", help="name in the catalogue, or path of the spec")
    parser.add_argument("--deterministic", type=int, default=0, choices=(0, 1))
    parser.add_argument("shapes", nargs="*", help=",".join(NAMES).upper() + "; by default a list of 21")
    arguments = parser.parse_args()
    shapes = [tuple(map(int, text.split(","))) for text in arguments.shapes] or SHAPES
    contest.run(arguments, {" ".join(f"{dim}={size}" for dim, size in zip(NAMES, shape)): shape for shape in shapes},
              measure, contest.teller("flops_per_second", "TFLOP/s", 1),
              flops="10 * batch * heads * pairs * head_dim; the causal mask leaves seq * (seq + 1) / 2 pairs")


if __name__ == "__main__":
    main()
