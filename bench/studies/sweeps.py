#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures sweeps by the installed programs: their rate, what hostile variants cost them, and the winners of the catalogue.

    bench/studies/sweeps.py --bin build/release/bin --out h200.json [PART ...]

Parts: rate faults kernels memory (default: all). Each figure prints one line and is in the
JSON file from then on, so a run that is stopped loses nothing; with --go-on the next run leaves out
the shapes that the file has. memory sweeps the memory-bound kernels, --budget for each shape, what
matters most first. The file has device, driver, date, the
command, and medians with their intervals. Ratios are over the measured ceiling.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOFTMAX_SHAPES = [(131072, 4096), (524288, 1024), (32768, 16384), (8192, 65536), (2048, 262144)]
# Kernel, dims. First a shape of each kernel, then the ends of their ranges, then what lies between.
MEMORY_SHAPES = [
    ("rmsnorm", {"rows": 65536, "cols": 4096}),
    ("cross_entropy", {"rows": 8192, "cols": 131072}),
    ("softmax_backward", {"rows": 65536, "cols": 4096}),
    ("rmsnorm_backward", {"rows": 65536, "cols": 4096}),
    ("layernorm", {"rows": 65536, "cols": 4096}),
    ("swiglu", {"rows": 8192, "cols": 14336}),
    ("adamw", {"n": 1 << 28}),
    ("adamw_list", {}),
    ("layernorm_backward", {"rows": 65536, "cols": 4096}),
    ("qk_norm_rope", {"seq": 4096, "batch": 8}),
    ("qk_norm_rope_backward", {"seq": 4096, "batch": 8}),
    ("attention_decode", {"batch": 16, "seq": 8192}),
    ("swiglu_backward", {"rows": 8192, "cols": 14336}),
    ("rmsnorm", {"rows": 65536, "cols": 4096, "residual": 1}),
    ("cross_entropy", {"rows": 8192, "cols": 32768}),
    ("cross_entropy", {"rows": 4096, "cols": 262144}),
    ("rmsnorm", {"rows": 1024, "cols": 262144}),
    ("softmax_backward", {"rows": 1024, "cols": 262144}),
    ("rmsnorm_backward", {"rows": 8192, "cols": 32768}),
    ("rmsnorm_backward", {"rows": 131072, "cols": 1024}),
    ("softmax_backward", {"rows": 16384, "cols": 16384}),
    ("rmsnorm", {"rows": 131072, "cols": 1024}),
    ("rmsnorm", {"rows": 16384, "cols": 16384}),
    ("layernorm", {"rows": 8192, "cols": 32768}),
    ("cross_entropy", {"rows": 8192, "cols": 50257}),
    ("softmax_backward", {"rows": 131072, "cols": 1024}),
    ("softmax_backward", {"rows": 8192, "cols": 32768}),
    ("rmsnorm", {"rows": 8192, "cols": 32768}),
    ("rmsnorm_backward", {"rows": 16384, "cols": 16384}),
    ("rmsnorm_backward", {"rows": 1024, "cols": 262144}),
    ("layernorm", {"rows": 131072, "cols": 1024}),
    ("layernorm", {"rows": 16384, "cols": 16384}),
    ("layernorm", {"rows": 1024, "cols": 262144}),
    ("layernorm_backward", {"rows": 16384, "cols": 16384}),
    ("adamw", {"n": 1 << 28, "master": 1}),
    ("cross_entropy", {"rows": 8192, "cols": 131072, "gradient": 0}),
    ("rope", {"seq": 4096, "batch": 8, "kv_heads": 32, "backward": 1}),
]
ATTENTION_SHAPES = [(4, 16, 16, 4096, 128, 0), (4, 16, 16, 4096, 128, 1)]


class Bench:
    def __init__(self, arguments):
        self.bin = pathlib.Path(arguments.bin).resolve()
        self.device = arguments.device
        self.state = tempfile.TemporaryDirectory(prefix="tune-figures-")
        self.env = {**os.environ, "TUNE_STATE_DIR": self.state.name, "XDG_RUNTIME_DIR": self.state.name,
                    "NO_COLOR": "1"}
        self.env.pop("TUNE_ADDRESS", None)
        self.out = pathlib.Path(arguments.out)
        goes_on = arguments.go_on and self.out.exists()
        self.figures = json.loads(self.out.read_text())["figures"] if goes_on else {}
        self.budget = arguments.budget
        self.about_device = self.tunectl("device", "show", self.device, "--json")

    def tunectl(self, *arguments, check=True, timeout=580):
        command = [str(self.bin / "tunectl"), *map(str, arguments)]
        started = time.monotonic()
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=timeout,
                              check=False)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} gave {done.returncode}: {done.stderr[-2000:]}")
        value = json.loads(done.stdout) if done.stdout.strip().startswith("{") else {}
        value["wall_seconds"] = time.monotonic() - started
        return value

    def sweep(self, *arguments, **options):
        return self.tunectl("sweep", *arguments, "--device", self.device, "--json", **options)

    def note(self, name, figure, text):
        self.figures[name] = figure
        self.write()
        print(f"{name}: {text}", flush=True)

    def write(self):
        out = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
               "host": f"{os.cpu_count()} x {platform.processor() or platform.machine()}",
               "device": self.about_device, "figures": self.figures}
        beside = self.out.with_name(self.out.name + ".part")
        beside.write_text(json.dumps(out, indent=1) + "\n")
        beside.replace(self.out)


def summary(sweep):
    """What a figure quotes of a sweep."""
    progress = sweep.get("progress", {})
    short = {"outcomes": progress.get("outcomes", {}), "done": int(progress.get("done", 0)),
             "elapsed_seconds": progress.get("elapsed_seconds"), "wall_seconds": sweep["wall_seconds"],
             "worker_restarts": int(progress.get("worker_restarts", 0))}
    result = sweep.get("result")
    if result:
        best = result["best"]
        short["config"] = " ".join(f"{param}={value}" for param, value in best["config"].items())
        short["measurement"] = {k: v for k, v in best["measurement"].items() if k != "samples_ns"}
        short["telemetry"] = best.get("telemetry", {})
        short["speedup_over_default"] = result.get("speedup_over_default")
        short["ceiling"] = result.get("ceiling")
        short["tie_count"] = len(result.get("ties", []))
        short["confirm_rounds"] = result.get("confirm_rounds")
    return short


def rate(bench):
    """Variants a second from request to stored record, cold and warm compile cache, by a daemon."""
    address = f"unix:{bench.state.name}/tunerd.sock"
    daemon = subprocess.Popen([str(bench.bin / "tunerd"), "--listen", address], env=bench.env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bench.env["TUNE_ADDRESS"] = address
    try:
        for _ in range(100):
            if bench.tunectl("server", "status", "--json", check=False).get("version"):
                break
            time.sleep(0.1)
        measure_rate(bench)
    finally:
        daemon.terminate()
        daemon.wait()
        del bench.env["TUNE_ADDRESS"]


def measure_rate(bench):
    bench.sweep("--kernel", str(ROOT / "docs/examples/saxpy/saxpy.textproto"))  # measures the ceilings once
    shape = ("softmax", "--rows", "8192", "--cols", "4096")
    for name, flags in (("rate.cold_compile_cache", ()), ("rate.warm_compile_cache", ("--fresh",))):
        figure = summary(bench.sweep(*shape, *flags))
        figure["variants_per_second"] = figure["done"] / figure["wall_seconds"]
        bench.note(name, figure, f"{figure['variants_per_second']:.1f} variants/s, {figure['done']} variants "
                   f"in {figure['wall_seconds']:.2f} s; {figure['outcomes']}")


def faults(bench):
    """One variant in ten faults, hangs or is wrong."""
    spec = str(ROOT / "bench/hostile/hostile.textproto")
    clean = summary(bench.sweep("--kernel", spec, "--planted", "0"))
    hostile = summary(bench.sweep("--kernel", spec, "--planted", "1"))
    hangs = int(hostile["outcomes"].get("timed_out", 0))
    extra = hostile["wall_seconds"] - clean["wall_seconds"]
    figure = {"clean": clean, "hostile": hostile, "hangs": hangs,
              "extra_seconds_per_hang": extra / hangs if hangs else None,
              "same_winner": clean.get("config") == hostile.get("config"),
              "good_variants_lost": int(clean["outcomes"]["ok"]) - int(hostile["outcomes"]["ok"])}
    bench.note("faults", figure, f"lost {figure['good_variants_lost']} good variants, same winner "
               f"{figure['same_winner']}, {hostile['outcomes']}, {hangs} hangs, "
               f"{extra:.1f} s more than without")


def rates_of(sweep):
    """A summary with the achieved share of the ceiling made explicit."""
    figure = summary(sweep)
    figure["bytes_per_second"] = figure["measurement"].get("bytes_per_second", 0)
    figure["flops_per_second"] = figure["measurement"].get("flops_per_second", 0)
    return figure


def kernels(bench):
    """Softmax, rope and attention at a few large shapes."""
    for rows, cols in SOFTMAX_SHAPES:
        figure = rates_of(bench.sweep("softmax", "--rows", str(rows), "--cols", str(cols)))
        share = figure["bytes_per_second"] / figure["ceiling"]
        bench.note(f"softmax.{rows}x{cols}", figure, f"{figure['bytes_per_second'] / 1e9:.0f} GB/s, "
                   f"{share:.3f} of the copy rate; {figure['config']}")
    figure = rates_of(bench.sweep("rope", "--seq", "4096", "--batch", "8", "--heads", "32", "--kv_heads", "32"))
    bench.note("rope.4096x8x32x128", figure, f"{figure['bytes_per_second'] / 1e9:.0f} GB/s, "
               f"{figure['bytes_per_second'] / figure['ceiling']:.3f} of the copy rate; {figure['config']}")
    for batch, heads, kv_heads, seq, dim, causal in ATTENTION_SHAPES:
        figure = rates_of(bench.sweep(
            "attention", "--batch", str(batch), "--heads", str(heads), "--kv_heads", str(kv_heads), "--seq",
            str(seq), "--head_dim", str(dim), "--causal", str(causal)))
        bench.note(f"attention.b{batch}h{heads}s{seq}d{dim}c{causal}", figure,
                   f"{figure['flops_per_second'] / 1e12:.1f} TFLOP/s; {figure['config']}; "
                   f"{figure['outcomes']}")


def memory(bench):
    """The memory-bound kernels, as shares of the copy rate that was measured on the device."""
    for kernel, dims in MEMORY_SHAPES:
        name = f"memory.{kernel}." + ",".join(f"{dim}={size}" for dim, size in dims.items())
        if "bytes_per_second" in bench.figures.get(name, {}):
            continue
        flags = [part for dim, size in dims.items() for part in (f"--{dim}", size)]
        try:
            figure = rates_of(bench.sweep(kernel, *flags, "--budget", bench.budget, timeout=200))
        except (KeyError, RuntimeError, subprocess.TimeoutExpired) as error:  # the other shapes still count
            bench.note(name, {"error": str(error)[-2000:]}, f"failed: {str(error)[-600:]}")
            continue
        figure["copy_share"] = figure["bytes_per_second"] / figure["ceiling"]
        bench.note(name, figure, f"{figure['bytes_per_second'] / 1e9:.0f} GB/s, {figure['copy_share']:.3f} of the "
                   f"copy rate; {figure['config']}; {figure['outcomes']}, {figure['wall_seconds']:.0f} s")


PARTS = {"rate": rate, "faults": faults, "kernels": kernels, "memory": memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--budget", default="16s", help="for each shape of `memory`, as a sweep's --budget")
    parser.add_argument("--go-on", action="store_true", help="keep the figures that --out has already")
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    arguments = parser.parse_args()
    bench = Bench(arguments)
    for part in arguments.parts or PARTS:
        try:
            PARTS[part](bench)
        except Exception as error:  # the other parts still count
            bench.note(part, {"error": str(error)[-2000:]}, f"failed: {str(error)[-600:]}")
        # The first sweep has measured its ceilings.
        bench.about_device = bench.tunectl("device", "show", bench.device, "--json")
        bench.write()


if __name__ == "__main__":
    main()
