# SPDX-License-Identifier: Apache-2.0
"""The cases of each family: a kernel, a problem and its peers. Of a family what matters most comes first.

`check` is a smaller size of one dim, on which peers are held against the kernel's reference if their outputs at full
size are more than a daemon takes. `also` are further kernels of the catalogue that take part, "label=kernel".
"""
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import attention
import elementwise
import numpy_forms
import products
import rows
from frameworks import ROOT

ANY_HOST = "numpy"  # the family that needs no GPU
SAXPY = str(ROOT / "docs/examples/saxpy/saxpy.textproto")

LARGE_BYTES = 96 << 20  # of outputs, half of what a daemon takes of a peer


@dataclasses.dataclass(frozen=True)
class Case:
    kernel: str
    dims: Mapping[str, int]
    peers: Mapping[str, object]
    dtype: str = "bf16"
    check: tuple = ()
    also: Sequence[str] = ()

    @property
    def sizes(self):
        """Of the dim of `check`: the smaller one first, if the outputs at full size are large."""
        dim, size = self.check or (next(iter(self.dims)), 0)
        is_small = size >= self.dims[dim] or not size or output_bytes(self) < LARGE_BYTES
        return dim, [self.dims[dim]] if is_small else [size, self.dims[dim]]

    @property
    def name(self):
        """The kernel's, which may be the path of a spec."""
        return pathlib.Path(self.kernel).stem

    @property
    def subject(self):
        """As the tables of docs/results name the problem."""
        return SUBJECTS.get(self.kernel, _plain_subject)(self)


def output_bytes(case):
    """An estimate; the least is of one output with the dtype's elements."""
    sizes, width = case.dims, 4 if case.dtype == "f32" else 2
    if "head_dim" in sizes:
        heads = sizes["heads"] + (0 if case.kernel.startswith("attention") else sizes["kv_heads"])
        return sizes["batch"] * sizes.get("queries", sizes["seq"]) * heads * sizes["head_dim"] * width
    if case.kernel.startswith("adamw"):
        return LARGE_BYTES
    return sizes.get("rows", sizes.get("m", 1)) * sizes.get("cols", sizes.get("n", 1)) * width


def table(kernel, names, sizes, peers, **more):
    """A case for each row of sizes, "4 16 16 4096"."""
    return [Case(kernel, dict(zip(names.split(), map(int, line.split()))), peers, **more) for line in sizes]


def _plain_subject(case):
    text = " ".join(f"{dim}={size}" for dim, size in case.dims.items())
    return text + (f", {case.dtype}" if case.dtype != "bf16" else "")


def _attention_subject(case):
    sizes = case.dims
    groups = f" of {sizes['kv_heads']}" if sizes["kv_heads"] != sizes["heads"] else ""
    keys = f" of {sizes['keys']}" if sizes.get("keys", sizes["seq"]) != sizes["seq"] else ""
    modes = [", causal" if sizes["causal"] else "", f", window {sizes['window']}" if sizes.get("window") else "",
             f", {sizes['sequences']} sequences" if sizes.get("sequences") else ""]
    return f"{sizes['batch']} x {sizes['heads']} heads{groups} x {sizes['seq']}{keys} x {sizes['head_dim']}" + "".join(modes)


def _decode_subject(case):
    sizes = case.dims
    more = f", {sizes['queries']} queries" if sizes["queries"] > 1 else ""
    return f"{sizes['batch']} x {sizes['seq']}, {sizes['heads']} and {sizes['kv_heads']} heads{more}"


def _gemm_subject(case):
    sizes, epilogue = case.dims, products.EPILOGUES[case.dims.get("epilogue", 0)]
    parts = [f"{sizes['m']} x {sizes['n']} x {sizes['k']}", "" if epilogue == "none" else epilogue,
             "" if case.dtype == "bf16" else case.dtype, "fast" if sizes.get("fast_accum") else ""]
    return ", ".join(part for part in parts if part)


SUBJECTS = {"attention": _attention_subject, "attention_backward": _attention_subject,
            "attention_decode": _decode_subject, "gemm": _gemm_subject}

ATTENTION_DIMS = "batch heads kv_heads seq head_dim causal"
ATTENTION = [
    # Those that have been followed since the first figures.
    "4 16 16 4096 128 0", "4 16 16 4096 128 1", "1 16 16 16384 128 0", "2 32 8 8192 128 1", "8 16 16 1024 64 1",
    # 16384 tokens of 2048 columns, as FlashAttention's own figures have them.
    "32 16 16 512 128 0", "32 16 16 512 128 1", "16 16 16 1024 128 0", "16 16 16 1024 128 1", "8 16 16 2048 128 1",
    "2 16 16 8192 128 1", "1 16 16 16384 128 1", "16 32 32 1024 64 0", "4 32 32 4096 64 0", "4 32 32 4096 64 1",
    "1 32 32 16384 64 1",
    # A sequence of a model with 64 heads of Q and 8 of K and V; a batch of one with 48.
    "1 64 8 2048 128 1", "1 64 8 8192 128 1", "1 64 8 16384 128 1", "4 48 48 1024 128 1", "4 48 48 4096 128 1"]
# Keys of another length, odd ones, windows, packed sequences, other head dims.
MODE_DIMS = "batch heads kv_heads seq keys head_dim causal window sequences"
MODES = [
    "1 16 16 16384 16384 128 1 0 16", "4 16 16 4096 4096 192 1 0 0", "2 32 8 8192 8192 128 1 1024 0", "4 16 16 4096 4096 96 1 0 0",
    "4 16 16 4096 4096 256 1 0 0", "1 32 8 16384 16384 128 1 0 64", "4 16 16 4096 4096 96 0 0 0", "4 16 16 4096 4096 192 0 0 0",
    "4 16 16 4096 4096 256 0 0 0", "1 64 8 16384 16384 64 1 128 0", "1 16 16 16384 16384 64 1 0 16", "4 16 16 2048 8192 128 1 0 0",
    "4 16 16 3000 3000 128 1 0 0", "4 16 16 3000 3000 128 0 0 0", "1 48 8 12288 12288 128 1 0 0", "1 16 16 16384 16384 128 0 0 16"]
# From one long sequence to many short ones.
DECODE = ["1 1 32 8 8192 128", "1 1 32 8 32768 128", "1 1 32 8 131072 128", "1 1 64 8 65536 128", "16 1 32 8 1024 128",
          "16 1 32 8 8192 128", "16 1 32 8 32768 128", "64 1 32 8 4096 128", "128 1 32 8 1024 128", "128 1 32 8 8192 128",
          "16 1 32 32 8192 128", "32 1 32 4 16384 128", "16 4 32 8 8192 128"]
# Square, tall, an MLP's first layer, decoding, long in k, an MLP's second layer.
GEMM = ["8192 8192 8192 0", "4096 4096 4096 0", "16384 4096 4096 0", "4096 14336 4096 2", "16 8192 8192 0",
        "1024 1024 16384 0", "4096 4096 14336 4", "2048 2048 2048 0", "128 4096 14336 0", "8192 8192 4096 1",
        "4096 14336 4096 3", "512 512 65536 0"]
FP8 = ["8192 8192 8192 0 1 0", "4096 4096 4096 0 1 0", "2048 2048 2048 0 1 0", "16384 4096 4096 0 1 0",
       "4096 14336 4096 0 1 0", "4096 4096 14336 0 1 0", "16 8192 8192 0 1 0", "8192 8192 8192 0 1 1"]
ROWS = ["65536 4096", "1024 262144", "131072 1024", "16384 16384", "4096 65536", "8192 32768"]
LOSS = ["8192 32768", "8192 131072", "4096 262144"]
RESIDUAL = [f"{size} 1" for size in ROWS]


def by_rows(kernel, peers, sizes=ROWS, names="rows cols", **more):
    return table(kernel, names, sizes, peers, check=("rows", 128), **more)


FAMILIES = {
    "attention": table("attention", ATTENTION_DIMS, ATTENTION, attention.FORWARD, check=("seq", 512)),
    "attention_backward": table("attention_backward", ATTENTION_DIMS, ATTENTION, attention.BACKWARD),  # none is checked
    "attention_modes": table("attention", MODE_DIMS, MODES, attention.MODES, check=("batch", 1)),
    "attention_modes_backward": table("attention_backward", MODE_DIMS, MODES, attention.MODES_BACKWARD),
    "decode": table("attention_decode", "batch queries heads kv_heads seq head_dim", DECODE, attention.DECODE),
    "gemm": [case for line in GEMM for case in table("gemm", "m n k epilogue", [line], products.peers(
        products.EPILOGUES[int(line.split()[3])]), check=("m", 256))],
    "gemm_layouts": [case for layout in ("0 0", "1 0", "1 1") for line in GEMM[:5] for case in table(
        "gemm", "m n k epilogue transpose_a transpose_b", [f"{line} {layout}"], products.peers(
            products.EPILOGUES[int(line.split()[3])]), check=("m", 256))],
    "gemm_fp8": table("gemm", "m n k transpose_a transpose_b fast_accum", FP8, products.FP8, dtype="e4m3", check=("m", 256)),
    "softmax": by_rows("softmax", rows.SOFTMAX, also=("triton=softmax_triton",))
    + by_rows("softmax_backward", rows.SOFTMAX_BACKWARD),
    "norms": by_rows("rmsnorm", rows.RMSNORM) + by_rows("rmsnorm_backward", rows.RMSNORM_BACKWARD)
    + by_rows("layernorm", rows.LAYERNORM_ALONE) + by_rows("layernorm_backward", rows.LAYERNORM_BACKWARD)
    + by_rows("rmsnorm", rows.RMSNORM, RESIDUAL, "rows cols residual")
    + by_rows("layernorm", rows.LAYERNORM, RESIDUAL, "rows cols residual"),
    "cross_entropy": by_rows("cross_entropy", rows.LOSS, LOSS)
    + by_rows("cross_entropy", rows.LOSS_ALONE, [f"{size} 0" for size in LOSS], "rows cols gradient"),
    "swiglu": by_rows("swiglu", elementwise.SWIGLU, ["8192 14336"])
    + by_rows("swiglu_backward", elementwise.SWIGLU_BACKWARD, ["8192 14336"]),
    "adamw": [Case("adamw", {"n": 1 << 27}, elementwise.ADAMW, "f32", ("n", 1 << 20))] + [
        Case("adamw_list", {"layers": 8, "hidden": 2048, "kv": 512, "ffn": 8192}, peers, dtype, ("hidden", 64))
        for dtype, peers in (("bf16", elementwise.ADAMW_LIST), ("f32", elementwise.ADAMW_LIST_F32))],
    "rope": table("rope", "seq batch heads kv_heads head_dim backward", ["4096 8 32 8 128 0"], elementwise.ROPE,
                  check=("seq", 128), also=("triton=rope_triton",))
    + table("rope", "seq batch heads kv_heads head_dim backward", ["4096 8 32 8 128 1"], elementwise.ROPE_BACKWARD,
            check=("seq", 128), also=("triton=rope_triton",))
    + table("qk_norm_rope", "seq batch heads kv_heads head_dim", ["4096 8 32 8 128"], elementwise.QK_NORM_ROPE,
            check=("seq", 128))
    + table("qk_norm_rope_backward", "seq batch heads kv_heads head_dim", ["4096 8 32 8 128"],
            elementwise.QK_NORM_ROPE_BACKWARD, check=("seq", 128)),
    ANY_HOST: table(SAXPY, "n", ["65536"], numpy_forms.SAXPY, dtype="f32", check=("n", 1000)),
}
