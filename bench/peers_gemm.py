#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels/gemm by turns with its peers in one process, cold caches, one clock, and writes JSON.

For each shape `tunectl sweep` finds our config first. Peers: cuBLAS through PyTorch (linear, addmm), cuBLASLt's fused
GELU, and with --compile what torch.compile's max-autotune makes. Every round takes each contender once, in a new
order, after L2 was flushed; a time is the median of CUDA events. Results are compared with each other.
Needs a GPU of sm_90 or later for the wgmma path, and PyTorch 2.5 or later.
"""
import argparse
import datetime
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

import torch
import torch.nn.functional as F

import beside

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
FLUSH_BYTES = 256 << 20


def contenders(shape, inputs, compiled):
    """Calls of the peers, by name. Each returns its result."""
    a, b, bias, residual = inputs
    epilogue = shape[3]
    plain = {
        "none": lambda: F.linear(a, b),
        "bias": lambda: F.linear(a, b, bias),
        "gelu": lambda: F.gelu(F.linear(a, b, bias), approximate="tanh"),
        "silu": lambda: F.silu(F.linear(a, b, bias)),
        "residual": lambda: torch.addmm(residual, a, b.t()),
    }[epilogue]
    calls = {"cublas": plain}
    if epilogue == "gelu":
        calls["cublaslt_gelu"] = lambda: torch._addmm_activation(bias, a, b.t(), use_gelu=True)
    if compiled:
        calls["compile"] = torch.compile(plain, mode="max-autotune-no-cudagraphs", dynamic=False)
    return calls


def by_turns(calls, rounds):
    """Nanoseconds of each call in each round."""
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    times = {name: [] for name in calls}
    order = list(calls)
    for turn in range(rounds + 3):
        random.shuffle(order)
        for name in order:
            flush.zero_()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            calls[name]()
            end.record()
            end.synchronize()
            if turn >= 3:  # the first rounds warm up
                times[name].append(start.elapsed_time(end) * 1e6)
    return times


def summary(times, flops):
    low, middle, high = statistics.quantiles(times, n=4)
    return {"latency_ns_median": middle, "quartile_spread": (high - low) / middle, "samples": len(times),
            "flops_per_second": flops / middle * 1e9}


def sweep(arguments, dims):
    """Our best config of the shape, from a sweep of its own."""
    flags = [part for name, size in dims.items() for part in (f"--{name}", str(size))]
    done = subprocess.run([arguments.tunectl, "sweep", arguments.spec, *flags, "--device", "cuda:0",
                           "--budget", arguments.budget, "--json"], capture_output=True, text=True, timeout=600,
                          check=False)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"the sweep gave {done.returncode}: {done.stderr[-600:]}")
    swept = json.loads(done.stdout)
    return swept["result"]["best"]["config"], swept["progress"].get("outcomes", {})


def in_f32(epilogue, a, b, bias, residual):
    """The result without any rounding to 16 bits."""
    torch.backends.cuda.matmul.allow_tf32 = False
    x = F.linear(a.float(), b.float())
    if epilogue == "residual":
        return x + residual.float()
    if epilogue != "none":
        x += bias.float()
    return {"gelu": lambda: F.gelu(x, approximate="tanh"), "silu": lambda: F.silu(x)}.get(epilogue, lambda: x)()


def error_of(result, truth):
    """The largest error, in units of what rounding to the type and the f32 sums explain. A peer that rounds before
    its activation, too, may be beyond it."""
    allowed = 4e-3 * truth.abs() + 1e-3
    return ((result.float() - truth).abs() / allowed).max().item()


def measure(arguments, shape):
    m, n, k, epilogue = shape
    dims = {"m": m, "n": n, "k": k, "epilogue": EPILOGUES[epilogue]}
    config, outcomes = sweep(arguments, dims)
    torch.manual_seed(1)
    a = torch.randn(m, k, device="cuda").to(torch.bfloat16)
    b = (torch.randn(n, k, device="cuda") * k ** -0.5).to(torch.bfloat16)
    bias = torch.randn(n, device="cuda").to(torch.bfloat16)
    residual = torch.randn((m, n) if epilogue == "residual" else (1, 1), device="cuda").to(torch.bfloat16)
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    ours = beside.Variant(arguments.tunectl, arguments.spec, dims, "bf16", config,
                          {"a": a, "b": b, "bias": bias, "residual": residual, "out": out}, {"alpha": 1.0})
    calls = contenders(shape, (a, b, bias, residual), arguments.compile)
    truth = in_f32(epilogue, a, b, bias, residual)
    errors = {name: error_of(call(), truth) for name, call in calls.items()}
    ours()
    errors["ours"] = error_of(out, truth)
    times = by_turns({"ours": ours, **calls}, arguments.rounds)
    figure = {"dims": dims, "config": config, "outcomes": outcomes, "errors_over_allowed": errors,
              "contenders": {name: summary(taken, 2 * m * n * k) for name, taken in times.items()}}
    medians = {name: one["latency_ns_median"] for name, one in figure["contenders"].items()}
    figure["best_peer"] = min((name for name in medians if name != "ours"), key=medians.get)
    figure["speed_over_best_peer"] = medians[figure["best_peer"]] / medians["ours"]
    return figure


def line(name, figure):
    if "error" in figure:
        return f"{name}: {figure['error']}"
    rates = ", ".join(f"{who} {one['flops_per_second'] / 1e12:.1f} (+-{one['quartile_spread'] * 50:.1f} %)"
                      for who, one in figure["contenders"].items())
    config = " ".join(f"{param}={value}" for param, value in figure["config"].items() if value not in (0, "0"))
    return (f"{name}: {figure['speed_over_best_peer']:.3f} of {figure['best_peer']}; TFLOP/s {rates}; "
            f"error {figure['errors_over_allowed']['ours']:.2f} of what is allowed; {config}")


def about():
    driver = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm", "--format=csv,noheader"],
                            capture_output=True, text=True, check=False).stdout.strip()
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "device": torch.cuda.get_device_name(), "driver": driver, "torch": torch.__version__,
            "cuda": torch.version.cuda, "nvrtc": beside.nvrtc_version(),
            "clock": "CUDA events", "cache": "L2 flushed before each launch"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tunectl", default=str(beside.ROOT / "build/release/bin/tunectl"))
    parser.add_argument("--spec", default="gemm", help="name in the catalogue, or path of the spec")
    parser.add_argument("--out", required=True)
    parser.add_argument("--budget", default="20s", help="of the sweep of each shape")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--compile", action="store_true", help="also torch.compile: minutes for each shape")
    parser.add_argument("shapes", nargs="*", help="M,N,K[,EPILOGUE]; by default those of docs/results")
    arguments = parser.parse_args()
    shapes = [(*map(int, text.split(",")[:3]), (text.split(",") + ["none"])[3]) for text in arguments.shapes] or SHAPES
    out = pathlib.Path(arguments.out)
    torch.cuda.init()
    torch.empty(1, device="cuda")  # makes the context current, which ours is loaded into
    with tempfile.TemporaryDirectory(prefix="tune-gemm-") as state:
        os.environ.setdefault("TUNE_STATE_DIR", state)
        os.environ.update(XDG_RUNTIME_DIR=state, NO_COLOR="1")
        figures = {}
        for shape in shapes:
            name = "x".join(map(str, shape[:3])) + f".{shape[3]}"
            try:
                figures[name] = measure(arguments, shape)
            except Exception as error:  # the other shapes still count
                figures[name] = {"error": f"{type(error).__name__}: {error}"[:600]}
            torch.cuda.empty_cache()
            print(line(name, figures[name]), flush=True)
            out.write_text(json.dumps({**about(), "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
