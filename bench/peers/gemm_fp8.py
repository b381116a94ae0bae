#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels/gemm of e4m3 by turns with torch._scaled_mm in one process, cold caches, one clock, and writes JSON.

For each shape `tunectl sweep` finds our config first. Both scale rows of A and columns of B in f32 and give bf16; with
--fast-accum both let the tensor cores sum all of k. Results are compared with f32. Needs a GPU of sm_90, and PyTorch 2.7 or later.
"""
import torch

import contest
import our_kernel

# m, n, k: what matters most first.
SHAPES = [
    (8192, 8192, 8192),    # square
    (4096, 4096, 4096),
    (2048, 2048, 2048),
    (16384, 4096, 4096),   # tall
    (4096, 14336, 4096),   # wide, an MLP's first layer
    (4096, 4096, 14336),   # an MLP's second layer
    (16, 8192, 8192),      # skinny: decoding
    (128, 4096, 14336),
    (1024, 1024, 16384),   # long in k
]


def quantized(x):
    """Rows of e4m3, and the f32 that each is multiplied with."""
    scale = x.abs().amax(dim=1, keepdim=True).float() / 448
    return (x / scale).clamp(-448, 448).to(torch.float8_e4m3fn), scale


def in_f32(a, b, a_scale, b_scale):
    """The result without any rounding but that of the inputs."""
    torch.backends.cuda.matmul.allow_tf32 = False
    return ((a.float() * a_scale) @ (b.float() * b_scale).t()).float()


def error_of(result, truth, fast):
    """The largest error, in units of what the spec allows: results of unit size, bf16, the tensor cores' sums."""
    allowed = (3e-2 * truth.abs() + 6e-2) if fast else (4e-3 * truth.abs() + 1.5e-2)
    return ((result.float() - truth).abs() / allowed).max().item()


def measure(arguments, shape):
    m, n, k = shape
    dims = {"m": m, "n": n, "k": k, "fast_accum": int(arguments.fast_accum)}
    config, outcomes = contest.sweep(arguments, arguments.spec, dims)
    torch.manual_seed(1)
    a, a_scale = quantized(torch.randn(m, k, device="cuda"))
    b, b_scale = quantized(torch.randn(n, k, device="cuda") * k ** -0.5)
    bias, residual = (torch.zeros(size, device="cuda", dtype=torch.bfloat16) for size in (n, 1))
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    ours = our_kernel.Variant(arguments.tunectl, arguments.spec, dims, arguments.dtype, config,
                          {"a": a, "b": b, "bias": bias, "residual": residual, "a_scale": a_scale, "b_scale": b_scale,
                           "out": out}, {"alpha": 1.0})
    calls, missing = contest.peers({"scaled_mm": lambda: lambda: torch._scaled_mm(
        a, b.t(), scale_a=a_scale, scale_b=b_scale.t(), out_dtype=torch.bfloat16, use_fast_accum=arguments.fast_accum)})
    truth = in_f32(a, b, a_scale, b_scale)
    errors = {name: error_of(call(), truth, arguments.fast_accum) for name, call in calls.items()}
    ours()
    errors["ours"] = error_of(out, truth, arguments.fast_accum)
    del truth
    return {"dims": dims, "config": config, "outcomes": outcomes, "errors_over_allowed": errors, "missing": missing,
              **contest.timed(arguments, {"ours": ours, **calls}, 2 * m * n * k, "flops_per_second")}


def line(figure):
    rates, missing = contest.rates(figure, "flops_per_second", 1e12, 1)
    ratios = ", ".join(f"{ratio:.3f} of {name}" for name, ratio in figure["speed_over"].items())
    errors = ", ".join(f"{name} {error:.2f}" for name, error in figure["errors_over_allowed"].items())
    return f"{ratios}; TFLOP/s {rates}; errors over what is allowed: {errors}; {contest.config_text(figure)}{missing}"


def main():
    parser = contest.parser_for(__doc__, "20s", 40, ("e4m3",))
    parser.add_argument("--spec", default="gemm", help="name in the catalogue, or path of the spec")
    parser.add_argument("--fast-accum", action="store_true", help="sums of the tensor cores alone, of ours and of the peer")
    parser.add_argument("shapes", nargs="*", help="M,N,K; by default nine shapes")
    arguments = parser.parse_args()
    shapes = [tuple(map(int, text.split(","))) for text in arguments.shapes] or SHAPES
    contest.run(arguments, {"x".join(map(str, shape)): shape for shape in shapes}, measure, line)


if __name__ == "__main__":
    main()
