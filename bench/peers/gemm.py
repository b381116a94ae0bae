#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels/gemm by turns with its peers in one process, cold caches, one clock, and writes JSON.

For each shape `tunectl sweep` finds our config first. Peers: cuBLAS as PyTorch fuses it at best (linear adds the bias
in cuBLASLt's epilogue, addmm the residual by beta, of a copy), cuBLASLt's fused GELU, and `sequence`: the product by
cuBLAS and the framework's operation for each step after it. `triton`: a product in Triton by the configs that its own
autotuner picks, and one operation of the framework after it. QuACK's default config where it can be imported, with
--quack-tuned the one that it tunes, and with --compile what torch.compile's max-autotune makes. With --layout A, B or
both lie transposed in memory, for all of them: peers get views. Results are compared with f32 ones. Needs a GPU of
sm_90 or later for the wgmma path, and PyTorch 2.5 or later.
"""
import torch
import torch.nn.functional as F

import contest
import our_kernel

LAYOUTS = ("nt", "nn", "tn", "tt")  # of A, [m, k] or with t [k, m], and of B, [k, n] or with t [n, k]
ROUNDING = {"bf16": 4e-3, "f16": 5e-4}  # of a result to the type, at most
EPILOGUES = {"none": 0, "bias": 1, "gelu": 2, "silu": 3, "residual": 4}
# m, n, k, epilogue: what matters most first.
SHAPES = [
    (8192, 8192, 8192, "none"),      # square
    (4096, 4096, 4096, "none"),
    (16384, 4096, 4096, "none"),     # tall
    (4096, 14336, 4096, "gelu"),     # wide, an MLP's first layer
    (16, 8192, 8192, "none"),        # skinny: decoding
    (1024, 1024, 16384, "none"),     # long in k
    (4096, 4096, 14336, "residual"),  # an MLP's second layer
    (2048, 2048, 2048, "none"),
    (128, 4096, 14336, "none"),
    (8192, 8192, 4096, "bias"),
    (4096, 14336, 4096, "silu"),
    (512, 512, 65536, "none"),
]


def quack(tuned, shape, a, b, bias, residual):
    """QuACK's product takes B as [k, n]; what it has no epilogue for is the framework's, as a user would have it."""
    from quack.gemm_interface import gemm
    epilogue = shape[3]
    activation = {"gelu": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu}.get(epilogue, lambda x: x)
    if epilogue == "residual":
        return lambda: gemm(a, b.t(), tuned=tuned) + residual
    return lambda: activation(gemm(a, b.t(), bias=None if epilogue == "none" else bias, tuned=tuned))


def triton(shape, a, b, bias, residual):
    """What comes after the product is one operation, which torch.compile makes of the framework's."""
    import triton_forms
    product = triton_forms.matmul(a, b.t())
    after = {"bias": lambda x: x + bias, "gelu": lambda x: F.gelu(x + bias, approximate="tanh"),
             "silu": lambda x: F.silu(x + bias), "residual": lambda x: x + residual}.get(shape[3])
    if not after:
        return product
    fused = contest.compiled(after)
    return lambda: fused(product())


def makers(shape, inputs, arguments):
    """Peers by name: each makes a call that returns its result. `b` is [n, k], the weight of a linear layer."""
    a, b, bias, residual = inputs
    epilogue = shape[3]
    plain = {
        "none": lambda: F.linear(a, b),
        "bias": lambda: F.linear(a, b, bias),
        "gelu": lambda: F.gelu(F.linear(a, b, bias), approximate="tanh"),
        "silu": lambda: F.silu(F.linear(a, b, bias)),
        "residual": lambda: torch.addmm(residual, a, b.t()),
    }[epilogue]
    sequence = {
        "bias": lambda: F.linear(a, b) + bias,
        "gelu": lambda: F.gelu(F.linear(a, b) + bias, approximate="tanh"),
        "silu": lambda: F.silu(F.linear(a, b) + bias),
        "residual": lambda: F.linear(a, b) + residual,
    }
    made = {"cublas": lambda: plain, "quack": lambda: quack(False, shape, *inputs),
            "triton": lambda: triton(shape, *inputs)}
    if epilogue in sequence:
        made["sequence"] = lambda: sequence[epilogue]
    if arguments.quack_tuned:
        made["quack_tuned"] = lambda: quack(True, shape, *inputs)
    if epilogue == "gelu":
        made["cublaslt_gelu"] = lambda: lambda: torch._addmm_activation(bias, a, b.t(), use_gelu=True)
    if arguments.compile:
        made["compile"] = lambda: contest.compiled(plain)
    return made


def in_f32(epilogue, a, b, bias, residual):
    """The result without any rounding to 16 bits."""
    torch.backends.cuda.matmul.allow_tf32 = False
    x = F.linear(a.float(), b.float())
    if epilogue == "residual":
        return x + residual.float()
    if epilogue != "none":
        x += bias.float()
    return {"gelu": lambda: F.gelu(x, approximate="tanh"), "silu": lambda: F.silu(x)}.get(epilogue, lambda: x)()


def error_of(result, truth, rounding):
    """The largest error, in units of what rounding to the type and the f32 sums explain. A peer that rounds before
    its activation, too, may be beyond it."""
    allowed = rounding * truth.abs() + 1e-3
    return ((result.float() - truth).abs() / allowed).max().item()


def operands(dims, dtype):
    """A and B as they lie in memory, for products of unit size."""
    m, n, k = dims["m"], dims["n"], dims["k"]
    a = torch.randn((k, m) if dims["transpose_a"] else (m, k), device="cuda").to(dtype)
    b = (torch.randn((n, k) if dims["transpose_b"] else (k, n), device="cuda") * k ** -0.5).to(dtype)
    return a, b


def measure(arguments, shape):
    m, n, k, epilogue = shape
    transpose_a, transpose_b = (int(letter == "t") for letter in arguments.layout)
    dims = {"m": m, "n": n, "k": k, "epilogue": EPILOGUES[epilogue], "transpose_a": transpose_a,
            "transpose_b": transpose_b}
    config, outcomes = contest.sweep(arguments, arguments.spec, dims)
    torch.manual_seed(1)
    a, b = operands(dims, our_kernel.TORCH_TYPES[arguments.dtype])
    bias = torch.randn(n, device="cuda").to(a.dtype)
    residual = torch.randn((m, n) if epilogue == "residual" else (1, 1), device="cuda").to(a.dtype)
    out = torch.empty(m, n, device="cuda", dtype=a.dtype)
    ours = our_kernel.Variant(arguments.tunectl, arguments.spec, dims, arguments.dtype, config,
                          {"a": a, "b": b, "bias": bias, "residual": residual, "out": out}, {"alpha": 1.0})
    inputs = (a.t() if transpose_a else a, b if transpose_b else b.t(), bias, residual)
    calls, missing = contest.peers(makers(shape, inputs, arguments))
    truth, rounding = in_f32(epilogue, *inputs), ROUNDING[arguments.dtype]
    errors = {name: error_of(call(), truth, rounding) for name, call in calls.items()}
    ours()
    errors["ours"] = error_of(out, truth, rounding)
    figure = {"dims": dims, "config": config, "outcomes": outcomes, "errors_over_allowed": errors, "missing": missing,
              **contest.timed(arguments, {"ours": ours, **calls}, 2 * m * n * k, "flops_per_second")}
    speeds = figure["speed_over"]
    figure["best_peer"] = min(speeds, key=speeds.get)
    figure["speed_over_best_peer"] = speeds[figure["best_peer"]]
    return figure


def line(figure):
    rates, missing = contest.rates(figure, "flops_per_second", 1e12, 1)
    error = figure["errors_over_allowed"]["ours"]
    sequence = "".join(f"{speed:.3f} of the sequence; " for who, speed in figure["speed_over"].items() if who == "sequence")
    return (f"{figure['speed_over_best_peer']:.3f} of {figure['best_peer']}; {sequence}TFLOP/s {rates}; "
            f"error {error:.2f} of what is allowed; {contest.config_text(figure)}{missing}")


def main():
    parser = contest.parser_for(__doc__, "20s", 40)
    parser.add_argument("--spec", default="gemm", help="name in the catalogue, or path of the spec")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0],
                        help="t: A lies as [k, m], B as [n, k]; n: A as [m, k], B as [k, n] (%(default)s)")
    parser.add_argument("--compile", action="store_true", help="also torch.compile: minutes for each shape")
    parser.add_argument("--quack-tuned", action="store_true", help="also QuACK as its autotuner has it: minutes for each shape")
    parser.add_argument("shapes", nargs="*", help="M,N,K[,EPILOGUE]; by default those of docs/results")
    arguments = parser.parse_args()
    shapes = [(*map(int, text.split(",")[:3]), (text.split(",") + ["none"])[3]) for text in arguments.shapes] or SHAPES
    contest.run(arguments, {"x".join(map(str, shape[:3])) + f".{shape[3]}": shape for shape in shapes}, measure, line,
              layout=arguments.layout)


if __name__ == "__main__":
    main()
