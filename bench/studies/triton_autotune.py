#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning a Triton matmul by the service and by Triton's own autotuner, and launching what was found.

    bench/studies/triton_autotune.py --bin build/release/bin --out triton-autotune.json

Three figures, of the kernel of docs/examples/triton_matmul in f16:
- configs a second, no binary in a cache: `tunectl sweep` of all 224 at a daemon that has swept a kernel before, and
  Triton's own autotuner on 48 of them. Beside it the ceiling: as many processes as the host has processors, which have
  imported Triton, compile the 224 and do nothing else;
- the winners of both on the same 48 configs, timed alike: by turns, CUDA events, L2 flushed;
- a key that has a record: the first result over that of a plain launch, by turns in fresh processes whose Triton
  has the binary in its cache, and the host time of a later launch over a plain one, by turns in one process.
Needs a CUDA GPU, Triton 3.5 or later, PyTorch, grpcio and protobuf. Tune nothing else on the GPU meanwhile.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Report, Service, parser_for, spread, use_messages_of  # noqa: E402

FOLDER = ROOT / "docs/examples/triton_matmul"
sys.path[:0] = [str(FOLDER)]
SIZE, SWEPT = 2048, 4096
FIRSTS, LAUNCHES, LEGS = 5, 50, 9


def space():
    """(constants, options) of the spec's 224 configs."""
    return [({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": group}, {"num_warps": warps, "num_stages": stages})
            for m in (64, 128, 256) for n in (64, 128, 256) for k in (32, 64, 128) for group in (4, 8)
            for warps in (4, 8) for stages in (2, 3, 4)
            if stages * k * (m + n) * 2 <= 229376 and m * n <= 4096 * warps]


def configs():
    """48 of them, spread over blocks and stages."""
    import triton
    return [triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, num_warps=warps, num_stages=stages)
            for m, n in ((64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128))
            for k in (32, 64) for warps in (4, 8) for stages in (3, 4)
            if stages * k * (m + n) * 2 <= 229376][:48]


def inputs(size):
    import torch
    torch.manual_seed(1)
    return [torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(3)]


def launcher(kernel, tensors, settings=None):
    """A call of either autotuner's kernel, or, with a config's settings, of Triton's own function."""
    import triton
    a, b, c = tensors
    m, n, k = a.shape[0], b.shape[1], a.shape[1]

    def grid(meta):
        return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)
    return lambda: kernel[grid](a, b, c, m, n, k, **(settings or {}))


def tuned_by(whose):
    import matmul
    if whose == "triton":
        import triton
        return triton.autotune(configs=configs(), key=["M", "N", "K"])(matmul.matmul)
    import tunectl.triton
    return tunectl.triton.autotune(configs=configs(), key=["M", "N", "K"], wait=whose == "wait" and 300)(matmul.matmul)


def seconds_of(call):
    import torch
    started = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - started


# ---- What runs in processes of its own --------------------------------------------------------------------------


def tune(whose):
    """{seconds, best} of one autotuner, its caches empty."""
    tensors = inputs(SIZE)
    kernel = tuned_by(whose)
    call = launcher(kernel, tensors)
    seconds = seconds_of(call)
    return {"seconds": seconds, "best": kernel.best_config.all_kwargs(), "configs": len(configs()),
            "sources": list(getattr(kernel, "sources", {}).values())}


def first(whose, settings):
    """Milliseconds to a first result, once the process has everything else."""
    import matmul
    tensors = inputs(SIZE)
    inputs(16)[0] @ inputs(16)[0]
    kernel = matmul.matmul if whose == "plain" else tuned_by(whose)
    return {"ms": seconds_of(launcher(kernel, tensors, settings if whose == "plain" else None)) * 1e3,
            "sources": list(getattr(kernel, "sources", {}).values())}


def launches(settings):
    """Host microseconds of a launch, plain and of a known key, by turns."""
    import matmul
    import torch
    tensors = inputs(SIZE)
    kinds = {"plain": launcher(matmul.matmul, tensors, settings), "known": launcher(tuned_by("hit"), tensors)}
    taken = {name: [] for name in kinds}
    for _ in range(LEGS):
        for name, call in kinds.items():
            torch.cuda.synchronize()
            for _ in range(20):
                call()
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in range(LAUNCHES):  # fewer than the driver's queue holds: nobody waits for the GPU
                call()
            taken[name].append((time.perf_counter() - started) / LAUNCHES * 1e6)
    return {name: statistics.median(times) for name, times in taken.items()}


def compile_one(config):
    import matmul
    import triton
    constants, options = config
    types = {"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    source = triton.compiler.ASTSource(matmul.matmul, {**types, **dict.fromkeys(constants, "constexpr")}, constants,
                                       {(i,): [["tt.divisibility", 16]] for i in range(len(types))})
    triton.compile(source, target=triton.backends.compiler.GPUTarget("cuda", 90, 32), options=options)


def ceiling():
    """What the host's processors compile in all, by Triton alone."""
    import multiprocessing

    import triton.compiler  # noqa: F401  before the processes are forked
    count = len(os.sched_getaffinity(0))
    with multiprocessing.get_context("fork").Pool(count) as pool:
        pool.map(compile_one, space()[:1] * count, chunksize=1)  # in Triton's cache at once
        started = time.perf_counter()
        pool.map(compile_one, space()[1:], chunksize=1)
        seconds = time.perf_counter() - started
    return {"processes": count, "configs": len(space()) - 1, "seconds": seconds,
            "configs_per_second": (len(space()) - 1) / seconds}


def winners(bests):
    """Both best configs on the same inputs, by the clock of `tunectl.compare`, by turns."""
    import matmul
    from tunectl._peer import Policy, Torch
    tensors, arrays = inputs(SIZE), Torch(on_gpu=True)
    calls, flush = {name: launcher(matmul.matmul, tensors, best) for name, best in bests.items()}, arrays.flush()
    taken = {name: [] for name in calls}
    for _ in range(LEGS):
        for name, call in calls.items():
            taken[name].append(statistics.median(arrays.samples(call, flush, Policy(20, 20, 1.0))[0]))
    return {name: {**spread(times), "flops_per_second": 2 * SIZE**3 / statistics.median(times) * 1e9}
            for name, times in taken.items()}


def about():
    import torch
    import triton
    return {"triton": triton.__version__, "torch": torch.__version__, "device": torch.cuda.get_device_name(), "dtype": "f16"}


PARTS = {"ceiling": ceiling, "tune": tune, "first": first, "launches": launches, "winners": winners, "about": about}


def apart(part, *arguments, env):
    """A part in a fresh process. RuntimeError has the end of its standard error."""
    done = subprocess.run([sys.executable, __file__, "--part", part, json.dumps(arguments)], env=env, text=True,
                          capture_output=True, timeout=400, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{part} {arguments}: {done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


# ---- The run ----------------------------------------------------------------------------------------------------


def sweep(service):
    """All 224 configs, from the request to the record."""
    swept = service.sweep(FOLDER / "matmul.textproto", dict.fromkeys("mnk", SWEPT), "--dtype", "f16", "--strategy", "random")
    outcomes = swept["progress"].get("outcomes", {})
    tried, seconds = sum(int(count) for count in outcomes.values()), swept["wall_seconds"]
    return {"configs": tried, "outcomes": outcomes, "seconds": seconds, "configs_per_second": tried / seconds,
            "spent": spent(service, swept)}


def spent(service, swept):
    """Seconds from the request to the first trial, to the last, to each round's end; and the sums of both kinds of work."""
    def trials(purpose):
        return service.json("trial", "list", "--sweep", swept["id"], "--purpose", purpose, "--json")["trials"]

    def since(trial):
        return (int(trial["finished_unix_ms"]) - int(swept["created_unix_ms"])) / 1e3
    search, confirm = trials("search"), trials("confirm")
    ends = sorted(map(since, search))
    return {"first_trial": ends[0], "half": ends[len(ends) // 2], "last_trial": ends[-1],
            "confirmed": max(map(since, confirm), default=None), "record": since(swept),
            "compiling": sum(trial.get("compile_seconds", 0) for trial in search),
            "running": sum(trial.get("evaluate_seconds", 0) for trial in search)}


def measure(service, report):
    def tuning(name):
        return {**service.env, "TRITON_CACHE_DIR": f"{service.state.name}/triton-{name}"}

    figures = report.figures
    report.about["about"] = apart("about", env=service.env)
    service.sweep("softmax_triton", {"rows": 1024}, "--budget", "40", codes=None)  # its ceilings are measured, its workers up
    swept, ceiling_found = sweep(service), apart("ceiling", env=tuning("ceiling"))
    report.note("ceiling", ceiling_found)
    report.note("sweep", {**swept, "of_ceiling": swept["configs_per_second"] / ceiling_found["configs_per_second"]})
    for whose, name in (("triton", "own"), ("wait", "ours")):
        tuned = apart("tune", whose, env=tuning(name))
        report.note(name, {**tuned, "configs_per_second": tuned["configs"] / tuned["seconds"]})
    bests = {name: figures[name]["best"] for name in ("own", "ours")}
    report.note("winners", apart("winners", bests, env=tuning("own")))
    known = tuning("known")
    apart("first", "hit", None, env=known)  # fills Triton's cache
    firsts = {"plain": [], "hit": []}
    for _ in range(FIRSTS):
        for whose, taken in firsts.items():
            taken.append(apart("first", whose, bests["ours"], env=known)["ms"])
    report.note("first_ms", {**firsts, "over_plain": statistics.median(firsts["hit"]) - statistics.median(firsts["plain"])})
    legs = [apart("launches", bests["ours"], env=known) for _ in range(3)]
    report.note("launch_us", {"legs": legs, "over_plain": statistics.median(one["known"] - one["plain"] for one in legs)})


def main():
    if sys.argv[1:2] == ["--part"]:  # one part of a run, in a process of its own
        print(json.dumps(PARTS[sys.argv[2]](*json.loads(sys.argv[3]))))
        return
    arguments = parser_for(__doc__).parse_args()
    use_messages_of(pathlib.Path(arguments.bin).resolve().parent)
    with Service(arguments.bin, arguments.device) as service:
        measure(service, Report(arguments.out))


if __name__ == "__main__":
    main()
