# SPDX-License-Identifier: Apache-2.0
"""RoPE as people write it in PyTorch, timed on the device. Needs a CUDA GPU and PyTorch 2.5 or later.

Reads one request a line, {"seq", "batch", "heads", "kv_heads", "head_dim", "backward"}, and answers with one:
for eager and for torch.compile the median in nanoseconds and quartile spread, kernels of a call, and the largest
error against float64. The clock is CUPTI's, as ours: from the first kernel's start to the last one's end, with
L2 flushed before. Bytes of eager are what its operators read and write, counted as they run.
"""
import json
import statistics
import sys

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

FLUSH_BYTES = 256 << 20
SAMPLES = 15
VIEWS = ("view", "slice", "unsqueeze", "transpose", "expand", "detach", "alias", "t", "permute", "as_strided",
         "_unsafe_view", "squeeze", "select", "split")


class Bytes(TorchDispatchMode):
    """Counts what operators read and write; views move nothing."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.__name__.split(".")[0] not in VIEWS:
            for tensor in torch.utils._pytree.tree_leaves((args, kwargs, result)):
                if isinstance(tensor, torch.Tensor):
                    self.total += tensor.numel() * tensor.element_size()
        return result


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


def rope(q, k, cosine, sine):
    return q * cosine + rotate_half(q) * sine, k * cosine + rotate_half(k) * sine


def samples_of(call):
    """Nanoseconds of each call, and how many kernels it launches."""
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as run:
        for _ in range(SAMPLES):
            flush.zero_()
            call()
        torch.cuda.synchronize()
    work = sorted((event for event in run.events() if event.device_type == torch.autograd.DeviceType.CUDA),
                  key=lambda event: event.time_range.start)
    if not work:
        raise RuntimeError("the profiler saw no work of the device")
    calls = []
    for event in work:
        if event.name == work[0].name:  # the flush, whatever PyTorch makes it by
            calls.append([])
        else:
            calls[-1].append(event.time_range)
    calls = [ranges for ranges in calls if ranges]
    if len(calls) < SAMPLES // 2:
        raise RuntimeError(f"{len(calls)} of {SAMPLES} calls can be told from their flushes")
    times = [(max(r.end for r in ranges) - min(r.start for r in ranges)) * 1e3 for ranges in calls]
    return times, max(len(ranges) for ranges in calls)


def case(request):
    seq, batch, dim = request["seq"], request["batch"], request["head_dim"]
    options = {"device": "cuda", "dtype": torch.bfloat16}
    generator = torch.Generator(device="cuda").manual_seed(1)
    q, k, q_grad, k_grad = (torch.randn(seq, batch, request[heads], dim, generator=generator, **options)
                            for heads in ("heads", "kv_heads", "heads", "kv_heads"))
    angle = torch.arange(seq, device="cuda")[:, None] * 10000.0 ** (-torch.arange(0, dim, 2, device="cuda") / dim)
    table = [torch.cat((f(angle), f(angle)), dim=-1)[:, None, None, :].to(torch.bfloat16)
             for f in (torch.cos, torch.sin)]
    backward = bool(request["backward"])
    q.requires_grad_(backward)
    k.requires_grad_(backward)
    torch._dynamo.reset()
    forms = {"eager": rope, "compile": torch.compile(rope, mode="max-autotune-no-cudagraphs", dynamic=False)}
    answer = {}
    for name, form in forms.items():
        if backward:
            outputs = form(q, k, *table)
            call = lambda: torch.autograd.grad(outputs, (q, k), (q_grad, k_grad), retain_graph=True)
            wide = [tensor.double() for tensor in table]
            wide[1] = -wide[1]  # the rotation the other way
            sources = (q_grad, k_grad)
        else:
            call = lambda: form(q, k, *table)
            wide = [tensor.double() for tensor in table]
            sources = (q, k)
        error = 0.0
        for got, source in zip(call(), sources):
            part = source[:64].detach().double()
            right = part * wide[0][:64] + rotate_half(part) * wide[1][:64]
            error = max(error, float((got[:64].double() - right).abs().max()))
        times, kernels = samples_of(call)
        low, middle, high = statistics.quantiles(times, n=4)
        answer[name] = {"latency_ns_median": middle, "quartile_spread": (high - low) / middle, "samples": len(times),
                        "kernels": kernels, "error": error}
        if name == "eager":
            with Bytes() as counted:
                call()
            answer[name]["operator_bytes"] = counted.total
    return answer


def main():
    import torch._functorch.config
    torch._functorch.config.donated_buffer = False  # a graph is run backward many times here
    print(json.dumps({"torch": torch.__version__, "device": torch.cuda.get_device_name()}), flush=True)
    for line in sys.stdin:
        try:
            answer = case(json.loads(line))
        except Exception as error:  # a peer that fails is a finding, not the end of the run
            answer = {"error": f"{type(error).__name__}: {error}"[:500]}
        torch.cuda.empty_cache()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
