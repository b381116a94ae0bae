#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the peers of the catalogue's kernels with PyTorch, cold caches, and prints JSON.

Needs a CUDA GPU and PyTorch 2.5 or later. bench/figures.py runs it right before and after our
programs, so that both see the same machine. A time is the median of CUDA events round one launch.
L2 is flushed before each launch.
"""
import argparse
import json
import statistics
import sys

import torch

FLUSH_BYTES = 256 << 20


def median_ns(call, samples=30, warm_up=5):
    """Median in nanoseconds and spread (quartiles over median) of a call. Flushes L2 before each."""
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    for _ in range(warm_up):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(samples):
        flush.zero_()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) * 1e6)
    low, middle, high = statistics.quantiles(times, n=4)
    return {"latency_ns_median": middle, "quartile_spread": (high - low) / middle, "samples": samples}


def copy(bytes_each):
    source = torch.randn(bytes_each // 2, device="cuda").to(torch.bfloat16)
    target = torch.empty_like(source)
    result = median_ns(lambda: target.copy_(source))
    result["bytes_per_second"] = 2 * bytes_each / result["latency_ns_median"] * 1e9
    return result


def matmul(rows, cols, depth):
    a = torch.randn(rows, depth, device="cuda").to(torch.bfloat16)
    b = torch.randn(cols, depth, device="cuda").to(torch.bfloat16)
    result = median_ns(lambda: torch.nn.functional.linear(a, b))
    result["flops_per_second"] = 2 * rows * cols * depth / result["latency_ns_median"] * 1e9
    return result


def softmax(rows, cols):
    x = torch.randn(rows, cols, device="cuda").to(torch.bfloat16)
    compiled = torch.compile(lambda t: torch.softmax(t, dim=-1), mode="max-autotune-no-cudagraphs", dynamic=False)
    results = {}
    for name, call in (("eager", lambda: torch.softmax(x, dim=-1)), ("compile", lambda: compiled(x))):
        results[name] = median_ns(call)
        results[name]["bytes_per_second"] = 4 * rows * cols / results[name]["latency_ns_median"] * 1e9
    return results


def attention(batch, heads, kv_heads, seq, dim, causal):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    q = torch.randn(batch, heads, seq, dim, device="cuda").to(torch.bfloat16)
    k, v = (torch.randn(batch, kv_heads, seq, dim, device="cuda").to(torch.bfloat16) for _ in range(2))
    pairs = seq * (seq + 1) / 2 if causal else seq * seq
    flops = 4 * batch * heads * pairs * dim
    results = {}
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        with sdpa_kernel(backend):
            results[name] = median_ns(lambda: torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=bool(causal), enable_gqa=heads != kv_heads))
        results[name]["flops_per_second"] = flops / results[name]["latency_ns_median"] * 1e9
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=[],
                        help="copy:BYTES matmul:ROWS,COLS,DEPTH softmax:ROWS,COLS attention:B,H,KV,SEQ,DIM,CAUSAL")
    arguments = parser.parse_args()
    results = {"torch": torch.__version__, "device": torch.cuda.get_device_name()}
    kinds = {"copy": copy, "matmul": matmul, "softmax": softmax, "attention": attention}
    for case in arguments.cases:
        kind, _, sizes = case.partition(":")
        try:
            results[case] = kinds[kind](*(int(size) for size in sizes.split(",")))
        except Exception as error:  # a peer that fails is a finding, not the end of the run
            results[case] = {"error": f"{type(error).__name__}: {error}"[:300]}
        torch.cuda.empty_cache()
    json.dump(results, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
