#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What calling a tuned kernel from Python costs: tunectl.kernel and its operator on torch tensors.

    bench/peers/kernel_calls.py --bin build/release/bin --out kernel-calls.json

host: the host's time of a call, of a kernel too small to hold the host up: a bare cuLaunchKernelEx by ctypes of the same
binary, tunectl.kernel with and without out=, its operator, torch's own softmax and a kernel of Triton, by turns. ops: the
same of tunectl.ops. device: the device's time of a launch through the operator over that of `tunectl bench` for the same
config, CUPTI's clock in both, warm caches, by turns. layouts: the device's time of tunectl.ops.attention and of its
gradient on views of [batch, seq, heads, head_dim] over that on contiguous arrays, by turns. A daemon of its own sweeps
first. Needs a CUDA GPU, PyTorch, Triton, grpcio and protobuf.
"""
import json
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import Report, Service, flags_of, parser_for, spread, use_messages_of  # noqa: E402

CALLS = 2000
SMALL = {"rows": 64, "cols": 1024}
LARGE = {"attention": {"batch": 4, "heads": 16, "kv_heads": 16, "seq": 4096, "head_dim": 128, "causal": 1},
         "rope": {"batch": 8, "heads": 32, "kv_heads": 8, "seq": 4096, "head_dim": 128}}
LAYOUTS = [{"batch": 4, "heads": 16, "kv_heads": 16, "seq": 4096, "head_dim": size, "causal": causal}
           for size, causal in ((128, 1), (128, 0), (64, 1))] \
    + [{"batch": 2, "heads": 32, "kv_heads": 8, "seq": 8192, "head_dim": 128, "causal": 1}]
SMALL_ATTENTION = {"batch": 1, "heads": 4, "kv_heads": 4, "seq": 128, "head_dim": 64, "causal": 1}


def bare_launch(kernel):
    """The driver's call alone, as the kernel's last call left its arguments."""
    program = next(iter(kernel._programs.values())).for_torch()
    (_, place, function, arguments, _), = program._local.calls.launches
    launch = program._launch_kernel
    return lambda: launch(place, function, arguments, None)


def triton_launch(x, y):
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
    """Microseconds a call, and those beyond a bare launch's."""
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
             "triton": triton_launch(x, y)}
    return timed(torch, forms, rounds)


def ops_times(torch, tunectl, rounds):
    """Of tunectl.ops on problems too small to hold the host up."""
    ops, functional = tunectl.ops, torch.nn.functional
    x, weight = (torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in ((64, 1024), (1024,)))
    q, k, v = inputs_of(torch, "attention", SMALL_ATTENTION)
    cases = {
        "rms_norm": (tunectl.kernel("rmsnorm", fallback=None, residual=0), {"x": x, "weight": weight},
                     lambda: ops.rms_norm(x, weight), lambda: functional.rms_norm(x, (1024,), weight, 1e-6)),
        "attention": (tunectl.kernel("attention", fallback=None, causal=1), {"q": q, "k": k, "v": v},
                      lambda: ops.attention(q, k, v, causal=True),
                      lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=True))}
    made = {}
    for name, (kernel, arrays, call, peer) in cases.items():
        kernel(**arrays)
        torch.testing.assert_close(call(), peer(), atol=2e-2, rtol=2e-2)
        if notes := ops.why(getattr(ops, name)):
            raise RuntimeError(f"nothing tuned is launched: {notes}")
        made[name] = timed(torch, {"bare cuLaunchKernelEx": bare_launch(kernel), "operator": call, "torch": peer,
                                   "triton": triton_launch(x, torch.empty_like(x))}, rounds)
    return made


def timed(torch, forms, rounds):
    taken = {name: [] for name in forms}
    for _ in range(rounds + 1):
        for name, call in forms.items():
            torch.cuda.synchronize()
            began = time.perf_counter()
            for _ in range(CALLS):
                call()
            taken[name].append((time.perf_counter() - began) / CALLS * 1e6)
    us = {name: spread(times[1:]) for name, times in taken.items()}
    bare = us["bare cuLaunchKernelEx"]["median"]
    return {"us_a_call": us, "us_over_bare": {name: one["median"] - bare for name, one in us.items()}}


def inputs_of(torch, kernel, dims):
    def random(*shape):
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    if kernel == "attention":
        return [random(dims["batch"], heads, dims["seq"], dims["head_dim"])
                for heads in (dims["heads"], dims["kv_heads"], dims["kv_heads"])]
    angles = [torch.randn(dims["seq"], dims["head_dim"] // 2, device="cuda") for _ in range(2)]
    return [random(dims["seq"], dims["batch"], heads, dims["head_dim"]) for heads in (dims["heads"], dims["kv_heads"])] + angles


def profiled_ns(arrays, call):
    """Median of the device's time of one call, by the clock of `tunectl.compare`."""
    from tunectl._peer import Policy

    samples, _ = arrays.samples(call, lambda: None, Policy(20, 100, 1.0))
    return statistics.median(samples)


def benched_ns(service, kernel, dims):
    run = service.json("bench", kernel, *flags_of(dims), "--device", service.device, "--dtype", "bf16", "--warm",
                       "--benchmark_format=json")["benchmarks"][0]
    return run["real_time"] * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[run["time_unit"]]


def layout_times(torch, ops, dims, rounds):
    """Nanoseconds of attention, forward and backward, by layout; and views over contiguous arrays, turn by turn."""
    from tunectl._peer import Torch

    arrays, calls = Torch(on_gpu=True), {}
    for layout in ("contiguous", "views"):
        q, k, v = (one if layout == "contiguous" else one.transpose(1, 2).contiguous().transpose(1, 2)
                   for one in inputs_of(torch, "attention", dims))
        leaves = [one.detach().requires_grad_() for one in (q, k, v)]
        out = ops.attention(*leaves, causal=bool(dims["causal"]))
        dout = torch.randn_like(out)
        calls[layout] = {
            "forward": lambda q=q, k=k, v=v: ops.attention(q, k, v, causal=bool(dims["causal"])),
            "backward": lambda out=out, dout=dout, leaves=leaves: torch.autograd.grad(out, leaves, dout, retain_graph=True)}
    made = {}
    for part in ("forward", "backward"):
        turns = []
        for index in range(rounds):
            names = ("contiguous", "views") if index % 2 else ("views", "contiguous")
            turns.append({name: profiled_ns(arrays, calls[name][part]) for name in names})
        made[part] = {"ns": turns, "views_over_contiguous": spread([turn["views"] / turn["contiguous"] for turn in turns])}
    if notes := ops.why(ops.attention):
        raise RuntimeError(f"nothing tuned is launched: {notes}")
    return {"dims": dims, **made}


def device_times(torch, tunectl, service, kernel, rounds):
    from tunectl._peer import Torch

    dims = LARGE[kernel]
    modes = {"attention": {"causal": dims.get("causal")}, "rope": {"interleaved": 0, "backward": 0}}[kernel]
    tuned = tunectl.kernel(kernel, fallback=None, **modes)
    op, inputs, arrays = tuned.op(), inputs_of(torch, kernel, dims), Torch(on_gpu=True)
    tuned(*inputs)
    pairs = [(profiled_ns(arrays, lambda: op(*inputs)), benched_ns(service, kernel, dims)) for _ in range(rounds)]
    return {"dims": dims, "operator_ns": [through for through, _ in pairs], "bench_ns": [bench for _, bench in pairs],
            "operator_over_bench": spread([through / bench for through, bench in pairs])}


def main():
    parser = parser_for(__doc__)
    parser.add_argument("--budget", default="10s", help="of each sweep (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each figure (default %(default)s)")
    arguments = parser.parse_args()
    import torch
    import triton
    report = Report(arguments.out, device=torch.cuda.get_device_name(), torch=torch.__version__, triton=triton.__version__,
                    python=sys.version.split()[0])
    with Service(arguments.bin, arguments.device) as service:
        use_messages_of(service.bin.parent)
        os.environ.update({name: service.env[name] for name in ("TUNE_STATE_DIR", "TUNE_ADDRESS", "XDG_RUNTIME_DIR",
                                                                "TUNE_CACHE_DIR")})
        swept = [("softmax", SMALL), *LARGE.items(), ("rmsnorm", {**SMALL, "residual": 0}), ("attention", SMALL_ATTENTION)]
        swept += [(kernel, dims) for dims in LAYOUTS for kernel in ("attention", "attention_backward")]
        for kernel, dims in swept:
            service.sweep(kernel, dims, "--dtype", "bf16", "--budget", arguments.budget)
        import tunectl
        import tunectl.ops

        service.text("snapshot", "pin")
        tunectl.open()
        report.measure("host", lambda: host_times(torch, tunectl, arguments.rounds))
        report.measure("ops", lambda: ops_times(torch, tunectl, arguments.rounds))
        for index, dims in enumerate(LAYOUTS):
            report.measure(f"layouts.{index}", lambda: layout_times(torch, tunectl.ops, dims,  # noqa: B023
                                                                    arguments.rounds))
        for kernel in LARGE:
            report.measure(f"device.{kernel}", lambda: device_times(torch, tunectl, service, kernel,  # noqa: B023
                                                                    arguments.rounds))
    print(json.dumps(report.figures, indent=1))


if __name__ == "__main__":
    main()
