# SPDX-License-Identifier: Apache-2.0
"""What studies with peers share: contenders by turns in one process, our config, peers that may be missing, the file.

Where the peers come from. PyTorch's own (cuBLAS, cuDNN, torch.compile) need nothing. The others are wheels of PyPI:

    pip install flash-attn-4 --pre          # FlashAttention 4, for sm_90 and sm_100
    pip install quack-kernels liger-kernel

FlashAttention 4 and QuACK are written in the CuTe DSL of `nvidia-cutlass-dsl`. With a driver and PyTorch of CUDA 13
they need its libraries for that: `pip install 'nvidia-cutlass-dsl[cu13]'`. Where the wheel of these is unpacked by
hand, on a host that can install nothing, its folder `dsl_packages` belongs on PYTHONPATH. CUTE_DSL_ARCH=sm_90a says
what to compile for. QuACK keeps what it compiled in QUACK_CACHE_DIR: it can be made elsewhere, without a GPU, by the
same Python and wheels. FlashInfer (`pip install flashinfer-python`) compiles by nvcc; where there is none, it loads
`data/aot/NAME/NAME.so` of its package. A peer that cannot be imported, refuses a shape, hangs or breaks the GPU's
context is a line of the report and ends nothing.
"""
import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

import torch

import our_kernel
import isolated_cases

FLUSH_BYTES = 256 << 20
HOLD_CYCLES = 1_000_000  # half a millisecond, in which the host enqueues what is timed
WARM_UP = 3
# The state in which L2 is left: lines equal to memory, after which `tunectl` measures, or lines
# that were written to. The latter go back to memory when a call's own take their place, at its
# cost: up to a tenth of a call of 200 us.
FLUSHES = {"reads": (lambda others: others.amax(), "L2 flushed by reads before each call"),
           "writes": (lambda others: others.zero_(), "L2 flushed by writes before each call")}
left_out = set()  # peers that nobody wants to see
PACKAGES = ("flash-attn-4", "quack-kernels", "liger-kernel", "flashinfer-python", "nvidia-cutlass-dsl", "triton")


def peers(makers):
    """Of {name: function that makes a call}: the calls, each run once, and why others are missing."""
    calls, missing = {}, {}
    for name, make in makers.items():
        if name in left_out:
            missing[name] = "left out"
            continue
        if isolated_cases.refused(name):
            missing[name] = isolated_cases.refused(name)
            continue
        with isolated_cases.trying(name):
            try:
                call = make()
                call()
                torch.cuda.synchronize()
                calls[name] = call
            except Exception as error:  # a peer that is not there is a finding, not the end of the run
                missing[name] = (f"{type(error).__name__}: {error}".splitlines() or ["?"])[0][:200]
                torch.cuda.synchronize()  # fails where the peer broke the context
    return calls, missing


def copy_of(count):
    """As many bytes, half of them read and half written."""
    source = torch.randint(0, 255, (count // 2,), device="cuda", dtype=torch.uint8)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def compiled(function):
    """What torch.compile makes of a function, tuned. Its gradients can be taken again and again."""
    import torch._functorch.config as config
    if hasattr(config, "donated_buffer"):
        config.donated_buffer = False  # buffers that a first backward would give away
    return torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)


def in_place(call):
    """Marks a call that writes over its own inputs."""
    call.is_in_place = True
    return call


def need(size, what):
    """Ends a maker where the GPU has less memory left."""
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    if size > free:
        raise MemoryError(f"{what} would take {size / 2 ** 30:.0f} GiB; {free / 2 ** 30:.0f} GiB are free")


def checked(makers, calls, check, unchecked=()):
    """Of each call: what `check` says of its result. What writes over its inputs is made once more, and gets new ones."""
    errors = {}
    for name, call in calls.items():
        if name not in unchecked:
            errors[name] = check((makers[name]() if getattr(call, "is_in_place", False) else call)())
    return errors


def error_of(result, truth, deviation=None):
    """The largest error, over the deviation of the true values."""
    error = (result.to(truth.dtype) - truth).abs().max()
    return (error / (truth.std() if deviation is None else deviation)).item()


def keep_worst(errors, name, error):
    """Of several parts of a result. What is no number stays."""
    errors[name] = max(errors.get(name, 0.0), error) if error == error else float("nan")


def by_turns(calls, rounds, flush="reads", hold=HOLD_CYCLES):
    """Nanoseconds of each call in each round. A round takes each call once, in a new order, after L2 was flushed and
    while the GPU is kept busy for `hold` cycles, so that launching costs nobody anything. `flush`: see FLUSHES."""
    others = torch.zeros(FLUSH_BYTES // 4, device="cuda")
    times = {name: [] for name in calls}
    order = list(calls)
    for turn in range(rounds + WARM_UP):
        random.shuffle(order)
        for name in order:
            FLUSHES[flush][0](others)
            torch.cuda._sleep(hold)
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            calls[name]()
            end.record()
            end.synchronize()
            if turn >= WARM_UP:
                times[name].append(start.elapsed_time(end) * 1e6)
    return times


def summary(times, work, unit):
    """`unit` is "flops_per_second" or "bytes_per_second", of that much work."""
    low, middle, high = statistics.quantiles(times, n=4)
    return {"latency_ns_median": middle, "quartile_spread": (high - low) / middle, "samples": len(times),
            unit: work / middle * 1e9}


def speed_over(contenders):
    """How much longer each peer takes than ours."""
    medians = {name: one["latency_ns_median"] for name, one in contenders.items()}
    return {name: median / medians["ours"] for name, median in medians.items() if name != "ours"}


def timed(arguments, calls, work, unit, hold=HOLD_CYCLES):
    """What a figure says of times: of each contender, and ours over each. `calls` has "ours"."""
    times = by_turns(calls, arguments.rounds, arguments.flush, hold)
    contenders = {name: summary(taken, work, unit) for name, taken in times.items()}
    return {"contenders": contenders, "speed_over": speed_over(contenders)}


def sweep(arguments, kernel, dims, dtype=""):
    """Our best config of the shape, from a sweep of its own or a record, and the sweep's outcomes. Of the dtype that
    the arguments name, where none is given."""
    flags = [part for name, size in dims.items() for part in (f"--{name}", str(size))]
    flags += ["--dtype", dtype or arguments.dtype]
    if arguments.records:
        done = subprocess.run([arguments.tunectl, "best", kernel, *flags, "--device", "cuda:0", "--require-exact", "--json"],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0:
            best = json.loads(done.stdout)
            return best["config"], {"no sweep": best["reason"]}
    done = subprocess.run([arguments.tunectl, "sweep", kernel, *flags, "--device", "cuda:0", "--budget",
                           arguments.budget, "--json"], capture_output=True, text=True, timeout=600, check=False)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"the sweep gave {done.returncode}: {done.stderr[-600:]}")
    swept = json.loads(done.stdout)
    return swept["result"]["best"]["config"], swept["progress"].get("outcomes", {})


def gradients_of(out, inputs, dout):
    return lambda: torch.autograd.grad(out, inputs, dout, retain_graph=True)


def rates(figure, unit, scale, precision):
    """"ours 4.21 (+-0.2 %), quack 4.10 (+-0.3 %)", and a line for each peer that is missing."""
    told = ", ".join(f"{who} {one[unit] / scale:.{precision}f} (+-{one['quartile_spread'] * 50:.1f} %)"
                     for who, one in figure["contenders"].items())
    return told, "".join(f"\n  no {who}: {why}" for who, why in figure.get("missing", {}).items())


def errors_text(errors):
    """Of errors by contender, or by contender and result."""
    def one(error):
        return " ".join(f"{part} {of:.2g}" for part, of in error.items()) if isinstance(error, dict) else f"{error:.2g}"
    return "; ".join(f"{who} {one(error)}" for who, error in errors.items())


def teller(unit, name, precision):
    """Of a figure with errors by contender: rates in 10^12 of the unit under that name, errors, the config."""
    def line(figure):
        told, missing = rates(figure, unit, 1e12, precision)
        errors = errors_text(figure["errors_over_deviation"])
        return f"{name} {told}\n  errors: {errors}\n  {config_text(figure)}{missing}"
    return line


def config_text(figure):
    return " ".join(f"{param}={value}" for param, value in figure["config"].items() if value not in (0, "0"))


def about(flush="reads", dtype="bf16"):
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                            capture_output=True, text=True, check=False).stdout.strip()
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(),
                "nvrtc": our_kernel.nvrtc_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            pass
    return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "device": torch.cuda.get_device_name(), "driver": driver, **versions, "dtype": dtype,
            "clock": "CUDA events", "cache": FLUSHES[flush][1]}


def parser_for(doc, budget, rounds, dtypes=("bf16", "f16")):
    """The flags that all studies take. The first of the dtypes is the default."""
    parser = argparse.ArgumentParser(description=doc + "\n" + __doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tunectl", default=str(our_kernel.ROOT / "build/release/bin/tunectl"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--budget", default=budget, help="of the sweep of each shape")
    parser.add_argument("--records", action="store_true", help="no sweep where a record is of this very problem")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--dtype", choices=dtypes, default=dtypes[0], help="of ours and of all peers (%(default)s)")
    parser.add_argument("--flush", choices=FLUSHES, default="reads", help="what L2 is emptied by before each call")
    parser.add_argument("--without", action="append", default=[], metavar="PEER", help="leaves a peer out; may be given again")
    parser.add_argument("--peer-seconds", type=float, default=90, metavar="S",
                        help="a peer whose first call takes longer is left out (%(default)g)")
    return parser


def run(arguments, shapes, measure, line, group=lambda name: "", **more):
    """Measures shape after shape, {name: shape}; tells each and writes all there is after each. A peer that hangs or
    breaks the context is left out of later shapes of its group."""
    if not shutil.which("nvidia-smi"):
        sys.exit("it needs a host with an NVIDIA GPU: nvidia-smi is not in the PATH")
    figures, said = {}, {}
    left_out.update(arguments.without)

    def measured(shape):
        torch.cuda.init()
        torch.empty(1, device="cuda")  # makes the context current, which ours is loaded into
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.compiler.reset()  # which compiles a function for a few shapes only, and runs it eagerly after
        sound = True
        try:
            figure = measure(arguments, shape)
        except Exception as error:  # the other shapes still count
            figure = {"error": f"{type(error).__name__}: {error}"[:600]}
            sound = is_sound()
        if sound:
            torch.cuda.empty_cache()
        return (about(arguments.flush, arguments.dtype), figure), sound

    def take(name, result, why):
        if result:
            said.update(result[0])
        figures[name] = result[1] if result else {"error": why}
        told = figures[name].get("error") or line(figures[name])
        print(f"{name}: {told}", flush=True)
        out.write_text(json.dumps({**said, **more, "figures": figures}, indent=1) + "\n")

    out = pathlib.Path(arguments.out)
    with tempfile.TemporaryDirectory(prefix="tune-peers-") as state:
        os.environ.setdefault("TUNE_STATE_DIR", state)
        os.environ.update(XDG_RUNTIME_DIR=state, NO_COLOR="1")
        isolated_cases.measure_all(shapes, measured, take, arguments.peer_seconds, group)


def is_sound():
    """Whether the context of this process can still be used."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True
