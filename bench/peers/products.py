# SPDX-License-Identifier: Apache-2.0
"""Peers of gemm: cuBLAS as PyTorch fuses it at best, QuACK, and what torch.compile makes of the same operations."""
import functools

from frameworks import F, Peer, compiled, torch

EPILOGUES = ("none", "bias", "gelu", "silu", "residual")


def operands(a, b, transpose_a, transpose_b):
    """A [m, k] and the transposed weight [k, n] as they lie in memory."""
    return a.t() if transpose_a else a, b.t() if transpose_b else b


def gelu(x):
    return F.gelu(x, approximate="tanh")


def product(a, w, alpha, beta=0, added=None):
    """alpha stays a float: A scaled in bf16 would be rounded."""
    return torch.addmm(a[:1, :1] if added is None else added, a, w, beta=beta, alpha=alpha)


def fused(epilogue):
    """addmm adds a bias in cuBLASLt's epilogue, and a residual by beta."""
    activation = {"gelu": gelu, "silu": F.silu}.get(epilogue, lambda x: x)
    if epilogue == "none":
        return lambda a, w, bias, residual, alpha: product(a, w, alpha)
    return lambda a, w, bias, residual, alpha: activation(
        product(a, w, alpha, 1, residual if epilogue == "residual" else bias))


def sequence(epilogue):
    """The product, and an operation of the framework for each step after it."""
    after = {"bias": lambda x, bias, residual: x + bias, "gelu": lambda x, bias, residual: gelu(x + bias),
             "silu": lambda x, bias, residual: F.silu(x + bias), "residual": lambda x, bias, residual: x + residual}
    return lambda a, w, bias, residual, alpha: after[epilogue](product(a, w, alpha), bias, residual)


def lt_gelu(epilogue):
    return lambda a, w, bias, residual, alpha: torch._addmm_activation(bias, a, w, alpha=alpha, use_gelu=True)


def quack(epilogue, tuned=False):
    """What its product has no epilogue for is the framework's, as a user would have it."""
    from quack.gemm_interface import gemm
    activation = {"gelu": gelu, "silu": F.silu}.get(epilogue, lambda x: x)

    def call(a, w, bias, residual, alpha):
        if epilogue == "residual":
            return gemm(a, w, alpha=alpha, tuned=tuned) + residual
        return activation(gemm(a, w, alpha=alpha, bias=None if epilogue == "none" else bias, tuned=tuned))
    return call


@functools.cache
def by_compile(epilogue):
    return compiled(fused(epilogue))


def _product(make, a, b, bias, residual, alpha, epilogue, transpose_a, transpose_b):
    return functools.partial(make(EPILOGUES[epilogue]), *operands(a, b, transpose_a, transpose_b), bias, residual, alpha)


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
