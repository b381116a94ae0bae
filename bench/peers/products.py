# SPDX-License-Identifier: Apache-2.0
"""Peers of gemm: cuBLAS as PyTorch fuses it at best, QuACK, and what torch.compile makes of the same operations."""
import functools

from frameworks import F, Peer, compiled, torch

EPILOGUES = ("none", "bias", "gelu", "silu", "residual")


def operands(a, b, alpha, transpose_a, transpose_b):
    """A [m, k] and the weight [n, k] as they lie in memory; A is scaled, which is exact for powers of two."""
    scaled = a * alpha
    return scaled.t() if transpose_a else scaled, b if transpose_b else b.t()


def gelu(x):
    return F.gelu(x, approximate="tanh")


def fused(epilogue):
    """linear adds the bias in cuBLASLt's epilogue, addmm the residual by beta."""
    return {"none": lambda a, w, bias, residual: F.linear(a, w),
            "bias": lambda a, w, bias, residual: F.linear(a, w, bias),
            "gelu": lambda a, w, bias, residual: gelu(F.linear(a, w, bias)),
            "silu": lambda a, w, bias, residual: F.silu(F.linear(a, w, bias)),
            "residual": lambda a, w, bias, residual: torch.addmm(residual, a, w.t())}[epilogue]


def sequence(epilogue):
    """The product, and an operation of the framework for each step after it."""
    after = {"bias": lambda x, bias, residual: x + bias, "gelu": lambda x, bias, residual: gelu(x + bias),
             "silu": lambda x, bias, residual: F.silu(x + bias), "residual": lambda x, bias, residual: x + residual}
    return lambda a, w, bias, residual: after[epilogue](F.linear(a, w), bias, residual)


def lt_gelu(epilogue):
    return lambda a, w, bias, residual: torch._addmm_activation(bias, a, w.t(), use_gelu=True)


def quack(epilogue, tuned=False):
    """What its product has no epilogue for is the framework's, as a user would have it."""
    from quack.gemm_interface import gemm
    activation = {"gelu": gelu, "silu": F.silu}.get(epilogue, lambda x: x)

    def call(a, w, bias, residual):
        if epilogue == "residual":
            return gemm(a, w.t(), tuned=tuned) + residual
        return activation(gemm(a, w.t(), bias=None if epilogue == "none" else bias, tuned=tuned))
    return call


@functools.cache
def by_compile(epilogue):
    return compiled(fused(epilogue))


def _product(make, a, b, bias, residual, alpha, epilogue, transpose_a, transpose_b):
    return functools.partial(make(EPILOGUES[epilogue]), *operands(a, b, alpha, transpose_a, transpose_b), bias, residual)


def scaled_mm(a, b, a_scale, b_scale, alpha, fast_accum):
    scales = (a_scale * alpha).view(-1, 1), b_scale.view(1, -1)
    return lambda: torch._scaled_mm(a, b.t(), scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16,
                                    use_fast_accum=bool(fast_accum))


FP8 = {"scaled_mm": Peer(scaled_mm)}


def peers(epilogue):
    made = {"cublas": fused, "quack": quack, "compile": by_compile}
    if epilogue != "none":
        made["sequence"] = sequence
    if epilogue == "gelu":
        made["cublaslt_gelu"] = lt_gelu
    return {name: Peer(functools.partial(_product, make)) for name, make in made.items()}
