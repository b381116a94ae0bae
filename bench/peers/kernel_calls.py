#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What calling a tuned kernel from Python costs: tunectl.kernel and its operator on torch tensors.

    bench/peers/kernel_calls.py --bin build/release/bin --out kernel-calls.json

- The host's time of a call, of a kernel too small to hold the host up: a bare cuLaunchKernelEx by ctypes of the same
  binary, tunectl.kernel with and without out=, its operator, torch's own softmax and a kernel of Triton. By turns.
- The device's time of a launch through the operator over that of `tunectl bench` for the same config, for attention
  and rope: CUPTI's clock in both, caches left as the launch before left them, by turns.
A daemon of our own sweeps first. Needs a CUDA GPU, PyTorch, Triton, grpcio and protobuf.
"""
import argparse
import datetime
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "studies"))
import record_shapes  # noqa: E402

sys.path.insert(0, str(record_shapes.ROOT / "client/python/src"))
CALLS = 2000
SMALL = {"rows": 64, "cols": 1024}
LARGE = {"attention": {"batch": 4, "heads": 16, "kv_heads": 16, "seq": 4096, "head_dim": 128, "causal": 1},
         "rope": {"batch": 8, "heads": 32, "kv_heads": 8, "seq": 4096, "head_dim": 128}}


def sweep(service, kernel, dims, budget):
    flags = [part for dim, size in dims.items() for part in (f"--{dim}", size)]
    done = service("sweep", kernel, *flags, "--device", "cuda:0", "--dtype", "bf16", "--budget", budget)
    if done.returncode != 0:
        raise RuntimeError(f"{kernel}: {done.stderr.strip()[-600:]}")


def bare_launch(kernel):
    """The driver's call alone, as the kernel's last call left its arguments."""
    program = next(iter(kernel._programs.values()))
    (_, place, function, arguments, _), = program._local.calls.launches
    launch = program._launch_kernel
    return lambda: launch(place, function, arguments, None)


def triton_launch(torch, x, y):
    import triton
    import triton.language as tl

    @triton.jit
    def double(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, at < n) * 2, at < n)

    globals()["tl"] = tl  # where Triton looks names up
    n = x.numel()
    grid = (triton.cdiv(n, 1024),)
    return lambda: double[grid](x, y, n, BLOCK=1024)


def host_times(torch, tunectl, rounds):
    """Microseconds a call: median of the rounds, least and most."""
    kernel = tunectl.kernel("softmax", fallback=lambda x: torch.softmax(x, -1))
    x = torch.randn(SMALL["rows"], SMALL["cols"], device="cuda", dtype=torch.bfloat16)
    y = torch.empty_like(x)
    op = kernel.op()
    torch.testing.assert_close(kernel(x, out=y), torch.softmax(x, -1), atol=2e-2, rtol=2e-2)
    if kernel.notes:
        raise RuntimeError(f"nothing tuned is launched: {kernel.notes}")
    forms = {"bare cuLaunchKernelEx": bare_launch(kernel), "tunectl.kernel, out given": lambda: kernel(x, out=y),
             "tunectl.kernel, out made": lambda: kernel(x), "operator": lambda: op(x),
             "torch.softmax": lambda: torch.softmax(x, -1), "torch.empty_like": lambda: torch.empty_like(x),
             "triton": triton_launch(torch, x, y)}
    taken = {name: [] for name in forms}
    for _ in range(rounds + 1):
        for name, call in forms.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            taken[name].append((time.perf_counter() - began) / CALLS * 1e6)
    return {name: {"median": statistics.median(us[1:]), "least": min(us[1:]), "most": max(us[1:])}
            for name, us in taken.items()}


def inputs_of(torch, kernel, dims):
    def random(*shape):
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    if kernel == "attention":
        return [random(dims["batch"], heads, dims["seq"], dims["head_dim"])
                for heads in (dims["heads"], dims["kv_heads"], dims["kv_heads"])]
    angles = [torch.randn(dims["seq"], dims["head_dim"] // 2, device="cuda") for _ in range(2)]
    return [random(dims["seq"], dims["batch"], heads, dims["head_dim"])
            for heads in (dims["heads"], dims["kv_heads"])] + angles


def profiled_ns(torch, call, samples=100):
    """Median of the device's time of one call's kernels, as CUPTI has it."""
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(samples):
            call()
        torch.cuda.synchronize()
    spans = sorted((event.start_ns(), event.duration_ns()) for event in profile.profiler.kineto_results.events()
                   if "CUDA" in str(event.device_type()) and event.duration_ns() > 0)
    if len(spans) % samples:
        raise RuntimeError(f"{len(spans)} launches in {samples} calls")
    each = len(spans) // samples
    return statistics.median(sum(took for _, took in spans[i:i + each]) for i in range(0, len(spans), each))


def benched_ns(service, kernel, dims):
    flags = [part for dim, size in dims.items() for part in (f"--{dim}", size)]
    done = service("bench", kernel, *flags, "--device", "cuda:0", "--dtype", "bf16", "--warm", "--benchmark_format=json")
    if done.returncode != 0:
        raise RuntimeError(f"{kernel}: {done.stderr.strip()[-600:]}")
    run = json.loads(done.stdout)["benchmarks"][0]
    return run["real_time"] * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[run["time_unit"]]


def device_times(torch, tunectl, service, kernel, dims, rounds):
    modes = {"attention": {"causal": dims.get("causal")}, "rope": {"interleaved": 0, "backward": 0}}[kernel]
    tuned = tunectl.kernel(kernel, fallback=None, **modes)
    op, inputs = tuned.op(), inputs_of(torch, kernel, dims)
    tuned(*inputs)
    pairs = [(profiled_ns(torch, lambda: op(*inputs)), benched_ns(service, kernel, dims)) for _ in range(rounds)]
    ratios = [through / bench for through, bench in pairs]
    return {"dims": dims, "operator_ns": [through for through, _ in pairs], "bench_ns": [bench for _, bench in pairs],
            "operator_over_bench": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--bin", type=pathlib.Path, default=record_shapes.ROOT / "build/release/bin")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--budget", default="10s", help="of each sweep")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    import torch
    import triton
    state = tempfile.TemporaryDirectory(prefix="tune-")
    service = record_shapes.Service(arguments.bin, state.name)
    os.environ.update({name: service.env[name] for name in ("TUNE_STATE_DIR", "TUNE_ADDRESS", "XDG_RUNTIME_DIR")},
                      TUNE_CACHE_DIR=f"{state.name}/cache")
    try:
        for kernel, dims in {"softmax": SMALL, **LARGE}.items():
            sweep(service, kernel, dims, arguments.budget)
        import tunectl

        snapshot = service("snapshot", "pin")
        if snapshot.returncode != 0:
            raise RuntimeError(snapshot.stderr)
        tunectl.open()
        result = {
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "device": torch.cuda.get_device_name(), "torch": torch.__version__, "triton": triton.__version__,
            "python": sys.version.split()[0], "host_us_a_call": host_times(torch, tunectl, arguments.rounds)}
        bare = result["host_us_a_call"]["bare cuLaunchKernelEx"]["median"]
        result["host_us_over_bare"] = {name: one["median"] - bare for name, one in result["host_us_a_call"].items()}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
        result["launches"] = {}
        for kernel, dims in LARGE.items():
            result["launches"][kernel] = device_times(torch, tunectl, service, kernel, dims, arguments.rounds)
    finally:
        service.close()
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
