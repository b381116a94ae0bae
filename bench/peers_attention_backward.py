#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels/attention_backward by turns with its peers in one process, cold caches, one clock, and writes JSON.

For each shape `tunectl sweep` finds our config first. Peers: PyTorch's SDPA pinned to cuDNN and to FlashAttention 2,
and FlashAttention 4 where `flash_attn.cute` can be imported. All get the same inputs; O and its log-sum-exp are the
true ones. Every round takes each contender once, in a new order, after L2 was flushed and while the GPU is kept busy,
so that launching costs nobody anything; a time is the median of CUDA events. The gradients of two heads are compared
with f32 ones, in units of their deviation. Needs a CUDA GPU and PyTorch 2.5 or later.
"""
import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import beside

# batch, heads, kv_heads, seq, head_dim, causal: what matters most first.
SHAPES = [
    (4, 16, 16, 4096, 128, 0), (4, 16, 16, 4096, 128, 1), (2, 32, 8, 8192, 128, 1), (8, 16, 16, 1024, 64, 1),
    (1, 16, 16, 16384, 128, 0), (1, 16, 16, 16384, 128, 1), (4, 32, 32, 4096, 64, 1), (4, 32, 8, 4096, 128, 1),
    (16, 16, 16, 1024, 128, 0), (16, 16, 16, 1024, 128, 1),
]
NAMES = ("batch", "heads", "kv_heads", "seq", "head_dim", "causal")
FLUSH_BYTES = 256 << 20
HOLD_CYCLES = 1_000_000  # half a millisecond, in which the host enqueues what is timed
WARM_UP = 3


def gradients_of(out, inputs, dout):
    return lambda: torch.autograd.grad(out, inputs, dout, retain_graph=True)


def sdpa(backend, shape, inputs, dout):
    """A call that gives dQ, dK and dV."""
    _, heads, kv_heads, _, _, causal = shape
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(*leaves, is_causal=bool(causal), enable_gqa=heads != kv_heads)
    return gradients_of(out, leaves, dout)


def flash_attention_4(shape, inputs, dout):
    """The same; its layout has the sequence ahead of the heads."""
    from flash_attn.cute import flash_attn_func
    leaves = [tensor.transpose(1, 2).contiguous().requires_grad_() for tensor in inputs]
    out = flash_attn_func(*leaves, causal=bool(shape[5]))
    out = out[0] if isinstance(out, tuple) else out
    call = gradients_of(out, leaves, dout.transpose(1, 2).contiguous())
    call()
    return call


def contenders(shape, inputs, dout):
    """Peers by name: calls, or why one is missing."""
    makers = {"cudnn": lambda: sdpa(SDPBackend.CUDNN_ATTENTION, shape, inputs, dout),
              "flash2": lambda: sdpa(SDPBackend.FLASH_ATTENTION, shape, inputs, dout),
              "flash4": lambda: flash_attention_4(shape, inputs, dout)}
    calls, missing = {}, {}
    for name, make in makers.items():
        try:
            calls[name] = make()
        except Exception as error:  # a peer that is not there is a finding, not the end of the run
            missing[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return calls, missing


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
            error = ((part.float() - true).abs().max() / true.std()).item()
            worst[name] = max(worst.get(name, 0.0), error) if error == error else float("nan")
    return worst


def by_turns(calls, rounds):
    """Nanoseconds of each call in each round."""
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    times = {name: [] for name in calls}
    order = list(calls)
    for turn in range(rounds + WARM_UP):
        random.shuffle(order)
        for name in order:
            flush.zero_()
            torch.cuda._sleep(HOLD_CYCLES)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            calls[name]()
            end.record()
            end.synchronize()
            if turn >= WARM_UP:
                times[name].append(start.elapsed_time(end) * 1e6)
    return times


def summary(times, flops):
    low, middle, high = statistics.quantiles(times, n=4)
    return {"latency_ns_median": middle, "quartile_spread": (high - low) / middle, "samples": len(times),
            "flops_per_second": flops / middle * 1e9}


def sweep(arguments, dims):
    """Our best config of the shape, from a sweep of its own, and its outcomes."""
    flags = [part for name, size in dims.items() for part in (f"--{name}", str(size))]
    done = subprocess.run([arguments.tunectl, "sweep", arguments.spec, *flags, "--device", "cuda:0",
                           "--budget", arguments.budget, "--json"], capture_output=True, text=True, timeout=600,
                          check=False)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"the sweep gave {done.returncode}: {done.stderr[-600:]}")
    swept = json.loads(done.stdout)
    return swept["result"]["best"]["config"], swept["progress"].get("outcomes", {})


def measure(arguments, shape):
    batch, heads, kv_heads, seq, head_dim, causal = shape
    dims = {**dict(zip(NAMES, shape)), "deterministic": arguments.deterministic}
    config, outcomes = sweep(arguments, dims)
    torch.manual_seed(1)
    query, key = (batch, heads, seq, head_dim), (batch, kv_heads, seq, head_dim)
    inputs = [torch.randn(size, device="cuda").to(torch.bfloat16) for size in (query, key, key)]
    dout = torch.randn(query, device="cuda").to(torch.bfloat16)
    out, lse = forward(shape, inputs)
    ours = beside.Variant(arguments.tunectl, arguments.spec, dims, "bf16", config,
                          {**dict(zip("qkv", inputs)), "out": out, "dout": dout, "lse": lse})
    calls, missing = contenders(shape, inputs, dout)
    truths = {place: true_gradients(shape, inputs, out, lse, dout, *place)
              for place in {(0, 0), (batch - 1, kv_heads - 1)}}
    ours()
    errors = {"ours": errors_of([ours.tensors[name] for name in ("dq", "dk", "dv")], truths, shape)}
    for name, call in calls.items():
        results = call()
        errors[name] = errors_of([result.transpose(1, 2) if name == "flash4" else result for result in results],
                                 truths, shape)
    pairs = seq * (seq + 1) // 2 if causal else seq * seq
    times = by_turns({"ours": ours, **calls}, arguments.rounds)
    figure = {"dims": dims, "config": config, "outcomes": outcomes, "errors_over_deviation": errors,
              "missing": missing, "contenders": {
                  name: summary(taken, 10 * batch * heads * pairs * head_dim) for name, taken in times.items()}}
    medians = {name: one["latency_ns_median"] for name, one in figure["contenders"].items()}
    figure["speed_over"] = {name: medians[name] / medians["ours"] for name in medians if name != "ours"}
    return figure


def line(name, figure):
    if "error" in figure:
        return f"{name}: {figure['error']}"
    rates = ", ".join(f"{who} {one['flops_per_second'] / 1e12:.1f} (+-{one['quartile_spread'] * 50:.1f} %)"
                      for who, one in figure["contenders"].items())
    errors = "; ".join(f"{who} " + " ".join(f"{part} {error:.3f}" for part, error in one.items())
                       for who, one in figure["errors_over_deviation"].items())
    config = " ".join(f"{param}={value}" for param, value in figure["config"].items() if value not in (0, "0"))
    missing = "".join(f"\n  no {who}: {why}" for who, why in figure["missing"].items())
    return f"{name}: TFLOP/s {rates}\n  errors: {errors}\n  {config}{missing}"


def about():
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True, check=False).stdout.strip()
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                "nvrtc": beside.nvrtc_version()}
    try:
        versions["flash_attn_4"] = importlib.metadata.version("flash-attn-4")
    except importlib.metadata.PackageNotFoundError:
        pass
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "device": torch.cuda.get_device_name(), "driver": driver, **versions, "dtype": "bf16",
            "flops": "10 * batch * heads * pairs * head_dim; the causal mask leaves seq * (seq + 1) / 2 pairs",
            "clock": "CUDA events", "cache": "L2 flushed before each call"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tunectl", default=str(beside.ROOT / "build/release/bin/tunectl"))
    parser.add_argument("--spec", default="attention_backward", help="name in the catalogue, or path of the spec")
    parser.add_argument("--out", required=True)
    parser.add_argument("--budget", default="30s", help="of the sweep of each shape")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--deterministic", type=int, default=0, choices=(0, 1))
    parser.add_argument("shapes", nargs="*", help=",".join(NAMES).upper() + "; by default a list of ten")
    arguments = parser.parse_args()
    shapes = [tuple(map(int, text.split(","))) for text in arguments.shapes] or SHAPES
    out = pathlib.Path(arguments.out)
    torch.cuda.init()
    torch.empty(1, device="cuda")  # makes the context current, which ours is loaded into
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory(prefix="tune-attention-") as state:
        os.environ.update(TUNE_STATE_DIR=state, XDG_RUNTIME_DIR=state, NO_COLOR="1")
        figures = {}
        for shape in shapes:
            name = " ".join(f"{dim}={size}" for dim, size in zip(NAMES, shape))
            try:
                figures[name] = measure(arguments, shape)
            except Exception as error:  # the other shapes still count
                figures[name] = {"error": f"{type(error).__name__}: {error}"[:600]}
            torch.cuda.empty_cache()
            print(line(name, figures[name]), flush=True)
            out.write_text(json.dumps({**about(), "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
