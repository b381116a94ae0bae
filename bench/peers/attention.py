#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels/attention by turns with its peers in one process, cold caches, one clock, and writes JSON.

For each shape `tunectl sweep` finds our config first. Peers: PyTorch's SDPA pinned to each of its backends (cuDNN,
FlashAttention 2, the memory-efficient one, and `math`, which is the framework eager: it has all scores in memory, and
is left out where they do not fit), FlashAttention 4 where `flash_attn.cute` can be imported, and `flex`: FlexAttention
by torch.compile's max-autotune, which is the Triton form of attention. It tunes seven kernels at each shape, within
--peer-seconds. All get the same inputs, with the sequence behind the heads but for FlashAttention 4, whose layout has
it ahead of them. The results of two heads are compared with f32 ones, in units of their deviation. Needs a CUDA GPU
and PyTorch 2.5 or later.
"""
import torch

import contest
import our_kernel
from torch_attention import FRAMEWORK
from attention_backward import NAMES, SHAPES, scores_of


def flash_attention_4(shape, inputs):
    from flash_attn.cute import flash_attn_func
    turned = [tensor.transpose(1, 2).contiguous() for tensor in inputs]

    def call():
        out = flash_attn_func(*turned, causal=bool(shape[5]))
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)
    return call


def makers(shape, inputs):
    own = {name: lambda make=make: make(*inputs, bool(shape[5])) for name, make in FRAMEWORK.items()}
    return {"flash4": lambda: flash_attention_4(shape, inputs), **own}


def truth_of(shape, inputs, b, h):
    """One head in f32."""
    group = shape[1] // shape[2]
    scores = scores_of(inputs[0][b, h].float(), inputs[1][b, h // group].float(), shape[5])
    return scores.softmax(-1) @ inputs[2][b, h // group].float()


def measure(arguments, shape):
    batch, heads, kv_heads, seq, head_dim, causal = shape
    dims = dict(zip(NAMES, shape))
    config, outcomes = contest.sweep(arguments, arguments.spec, dims)
    torch.manual_seed(1)
    inputs = [torch.randn(batch, count, seq, head_dim, device="cuda").to(our_kernel.TORCH_TYPES[arguments.dtype])
              for count in (heads, kv_heads, kv_heads)]
    ours = our_kernel.Variant(arguments.tunectl, arguments.spec, dims, arguments.dtype, config,
                          dict(zip("qkv", inputs)))
    calls, missing = contest.peers(makers(shape, inputs))
    ours()
    results = {"ours": ours.tensors["out"], **{name: call() for name, call in calls.items()}}
    errors = {}
    for b, h in {(0, 0), (batch - 1, heads - 1)}:
        truth = truth_of(shape, inputs, b, h)
        for name, result in results.items():
            contest.keep_worst(errors, name, contest.error_of(result[b, h], truth))
    pairs = seq * (seq + 1) // 2 if causal else seq * seq
    return {"dims": dims, "config": config, "outcomes": outcomes, "errors_over_deviation": errors,
            "missing": missing, **contest.timed(arguments, {"ours": ours, **calls}, 4 * batch * heads * pairs * head_dim,
                                                "flops_per_second")}


def main():
    parser = contest.parser_for(__doc__, "30s", 30)
    parser.add_argument("--spec", default="attention", help="name in the catalogue, or path of the spec")
    parser.add_argument("shapes", nargs="*", help=",".join(NAMES).upper() + "; by default a list of 21")
    arguments = parser.parse_args()
    shapes = [tuple(map(int, text.split(","))) for text in arguments.shapes] or SHAPES
    contest.run(arguments, {" ".join(f"{dim}={size}" for dim, size in zip(NAMES, shape)): shape for shape in shapes},
              measure, contest.teller("flops_per_second", "TFLOP/s", 1),
              flops="4 * batch * heads * pairs * head_dim; the causal mask leaves seq * (seq + 1) / 2 pairs")


if __name__ == "__main__":
    main()
