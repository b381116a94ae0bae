#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of counters, ceilings and timing on one GPU.

    bench/studies/counters.py --bin build/release/bin --out counters.json [PART ...]

Parts, by default all:
  device calibration counters
  repeatability    medians of ten fresh processes
  placement        why these differ: fresh processes, and one that moves its buffers each time
  ceilings_twice   the whole suite twice
  ncu              our counters against Nsight Compute's, with its cache control and with our flush
  flush            a kernel that reads once, after no flush, after a memset and after our flush
  caches           what the ceiling kernels of L2 and L1 really do, by counters
  overhead         three clocks, with CUPTI in the process and without
  winners          what the counters say of winners: where the time goes that a kernel loses; only if it is named.
                   Of a list of problems, or of each --problem 'KERNEL DIM=N ... [dtype=TYPE]'
Needs Python's standard library, and our programs and launch_kernel in one folder. The file is
written after each part, so a run that is stopped keeps what it has. Parts that are in the file
already are not run again.
"""
import csv
import io
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Report, Service, config_text, flags_of, parser_for  # noqa: E402

KERNELS = [  # name, dims: about 5 us to 2 ms on an H200
    ("softmax", {"rows": 1024, "cols": 1024}),
    ("softmax", {"rows": 8192, "cols": 4096}),
    ("rope", {"seq": 4096}),
    ("softmax", {"rows": 131072, "cols": 4096}),
]

NCU_KERNELS = [("softmax", {"rows": 8192, "cols": 4096}), ("rope", {"seq": 4096}),
               ("attention", {"seq": 2048})]
# The counters of a profile that do not depend on the clock.
COMPARED = ("dram__bytes", "lts__t_bytes", "l1tex__t_bytes", "sm__sass_thread_inst", "sm__ops_path",
            "sm__inst_executed_pipe_tensor")
# Problems on which a kernel was behind a peer in docs/results, or behind its goal.
WINNERS = [
    "attention batch=32 heads=16 kv_heads=16 seq=512 head_dim=128 causal=1",
    "attention batch=16 heads=16 kv_heads=16 seq=1024 head_dim=128 causal=1",
    "attention batch=4 heads=48 kv_heads=48 seq=1024 head_dim=128 causal=1",
    "attention batch=1 heads=32 kv_heads=32 seq=16384 head_dim=64 causal=1",
    "attention batch=4 heads=48 kv_heads=48 seq=4096 head_dim=128 causal=1",
    "attention_backward batch=1 heads=16 kv_heads=16 seq=16384 head_dim=128 causal=1",
    "attention_backward batch=4 heads=32 kv_heads=32 seq=4096 head_dim=64 causal=0",
    "gemm m=2048 n=2048 k=2048",
    "gemm m=4096 n=4096 k=4096 dtype=e4m3",
    "gemm m=8192 n=8192 k=8192 dtype=e4m3",
    "rmsnorm rows=65536 cols=4096",
    "layernorm rows=65536 cols=4096",
    "softmax rows=1024 cols=262144",
]
# Tensor operations of a multiprocessor in a cycle, dense, by the start of the target's name.
TENSOR_RATES = {"sm_80": {"tensor_bf16": 2048, "tensor_f16": 2048},
                "sm_90": {"tensor_bf16": 4096, "tensor_f16": 4096, "tensor_f8": 8192}}
PARTS = ("device", "calibration", "counters", "repeatability", "placement", "ceilings_twice",
         "ncu", "flush", "caches", "overhead")


class Study:
    """Without a daemon of its own: each command starts the programs that it needs."""

    def __init__(self, service, report, limit_s=240, problems=(), budget="6s"):
        self.service, self.report, self.limit_s, self.problems, self.budget = service, report, limit_s, problems, budget

    def json(self, *arguments):
        return self.service.json(*arguments, "--json", timeout=self.limit_s)

    def launch_kernel(self, *arguments):
        done = subprocess.run([str(self.service.bin / "launch_kernel"), *map(str, arguments)], env=self.service.env,
                              capture_output=True, text=True, timeout=self.limit_s, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        return json.loads(done.stdout)

    def device(self):
        return self.service.about_device()

    def calibration(self):
        found = self.service.json("device", "calibrate", self.service.device, "--json", codes=None, timeout=self.limit_s)
        return {**found, "failed": [entry["name"] for entry in found.get("entries", []) if not entry.get("passed")]}

    def profile(self, kernel, dims, *more):
        return self.json("profile", kernel, *flags_of(dims), *more)["profiles"][0]

    def repeatability(self):
        """Medians of ten fresh processes."""
        figures = {}
        for kernel, dims in KERNELS:
            medians = [self.profile(kernel, dims, "--set", "flops")["measurement"]["latency_ns_median"]
                       for _ in range(10)]
            mean = statistics.mean(medians)
            limit = 0.005 if mean >= 1e5 else 0.015 if mean >= 1e4 else 0.03
            spread = statistics.stdev(medians) / mean
            figures[f"{kernel} {dims}"] = {"medians_ns": medians, "cv": spread, "limit": limit,
                                           "passed": spread <= limit}
        return figures

    def counters(self):
        """Declared against measured bytes, and everything else that is counted."""
        return {f"{kernel} {dims}": self.profile(kernel, dims, "--set", "all")
                for kernel, dims in KERNELS}

    def winners(self):
        """The counters of each problem's best config, after a sweep of its own, or of `tunectl best`."""
        for text in self.problems or WINNERS:
            self.report.measure(f"winner.{text}", lambda: self.winner(text))  # noqa: B023
        return {"budget": self.budget}

    def winner(self, text):
        kernel, *pairs = text.split()
        dims = dict(pair.split("=") for pair in pairs)
        on = ["--device", self.service.device] + (["--dtype", dims.pop("dtype")] if "dtype" in dims else [])
        if self.budget == "0":
            best = self.json("best", kernel, *flags_of(dims), *on)
        else:
            swept = self.json("sweep", kernel, *flags_of(dims), *on, "--budget", self.budget)
            if "best" not in swept.get("result", {}):
                raise ValueError(f"the sweep of {self.budget} found nothing: {swept.get('message') or swept.get('state')}")
            best = swept["result"]["best"]
        profile = self.profile(kernel, dims, *on, "--set", "all", "--config", config_text(best["config"]).replace(" ", ","))
        figure = said_by(profile, self.service.about_device())
        return {**figure, "profile": profile, "text": told(figure)}

    def ceilings_twice(self):
        sessions = []
        for _ in range(2):
            found = self.json("device", "ceilings", self.service.device, "--remeasure")
            sessions.append({c["name"]: c for c in found["ceilings"]})
        figures = {"ceilings": sessions[1], "difference": {}, "above_theory": []}
        for name, second in sessions[1].items():
            first = sessions[0].get(name)
            if first:
                figures["difference"][name] = second["value"] / first["value"] - 1
            if second.get("theoretical", 0) > 0 and second["value"] > 1.01 * second["theoretical"]:
                figures["above_theory"].append(name)
        return figures

    def placement(self):
        """Why medians differ: by the process, or by where its buffers lie?"""
        figures = {}
        for kernel, dims in KERNELS[2:]:
            flags = [f"{name}={value}" for name, value in dims.items()] + ["--launches=60"]
            within = [p["events_ns"] for p in
                      self.launch_kernel(kernel, *flags, "--placements=12")["placements"]]
            between = [self.launch_kernel(kernel, *flags)["placements"][0]["events_ns"]
                       for _ in range(8)]
            figures[f"{kernel} {dims}"] = {
                "one_process_ns": within, "one_process_cv": deviation(within),
                "processes_ns": between, "processes_cv": deviation(between)}
        return figures

    def ncu(self):
        """The counters of a profile, and ncu's of the same config, problem and preparation."""
        program = shutil.which("ncu") or "/usr/local/cuda/bin/ncu"
        if not pathlib.Path(program).exists():
            return {"skipped": "no ncu on this host"}
        figures = {"version": self.run(program, "--version").strip().splitlines()[-1:]}
        for kernel, dims in NCU_KERNELS:
            figures[f"{kernel} {dims}"] = self.against_ncu(program, kernel, dims)
        return figures

    def run(self, *command):
        """The standard output and error of another program."""
        return subprocess.run([str(part) for part in command], env=self.service.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=self.limit_s, check=False).stdout

    def against_ncu(self, program, kernel, dims):
        profile = self.profile(kernel, dims)
        ours = {c["name"]: c.get("value", 0) for c in profile["counters"]
                if c["name"].startswith(COMPARED)}
        bytes_of = [name for name in ours if "bytes" in name]
        others = [name for name in ours if name not in bytes_of]
        theirs, errors = {}, []
        # ncu empties the caches itself before each of its replays, or leaves them as our flush left
        # them. Bytes take one pass, so our flush precedes it and there is no other replay.
        for label, metrics, control in (("ncu", bytes_of, "all"), ("ncu_our_flush", bytes_of, "none"),
                                        ("ncu", others, "none")):
            if not metrics:
                continue
            text = self.run(
                program, "--clock-control", "none", "--cache-control", control, "--csv",
                "--print-units", "base", "--kernel-name", profile_entry(kernel), "--launch-count", "1",
                "--metrics", ",".join(metrics), self.service.bin / "launch_kernel", kernel,
                *[f"{name}={value}" for name, value in dims.items()],
                f"--config={config_text(profile['config'])}")
            found = read_ncu(text)
            theirs.setdefault(label, {}).update(found)
            if not found:
                errors.append(text[-1500:])
        rows = {}
        for name, value in ours.items():
            row = {"ours": value, **{label: metrics[name] for label, metrics in theirs.items()
                                     if name in metrics}}
            for label in theirs:
                if row.get(label):
                    row[f"ours_over_{label}"] = value / row[label]
            rows[name] = row
        figures = {"config": config_text(profile["config"]), "counters": rows, "errors": errors}
        for label in ("ncu", "ncu_our_flush"):
            # The tolerance is of reads and writes together. Where all output stays in the cache,
            # hardly anything is written.
            dram = sum(row.get(label, 0) for name, row in rows.items() if name.startswith("dram"))
            figures[f"bytes_within_3_percent_of_{label}"] = all(
                close(rows[n], label, 0.03, dram if n.startswith("dram") else None)
                for n in bytes_of)
        figures["operations_equal"] = all(close(rows[n], "ncu", 0) for n in others)
        return figures

    def flush(self):
        """The bytes that a kernel really reads and writes if it reads its input once."""
        timed = self.launch_kernel("read", "--launches=40")
        counted = self.launch_kernel("read", "--count")
        for row, counters in zip(timed, counted):
            row.update({k: v for k, v in counters.items() if k not in ("bytes", "flush")})
            row["read_share"] = counters.get("dram__bytes_read.sum", 0) / row["bytes"]
            row["written_share"] = counters.get("dram__bytes_write.sum", 0) / row["bytes"]
            row["cold"] = row["read_share"] >= 0.98 and row["written_share"] <= 0.02
        return {"rows": timed, "passed": all(r["cold"] for r in timed if r["flush"] == "clean")}

    def caches(self):
        """Does the ceiling of a cache measure that cache? Bytes at each level over the bytes loaded."""
        figures = {}
        for cache in ("l2", "l1"):
            rates = self.launch_kernel(cache)
            for row, counted in zip(rates, self.launch_kernel(cache, "--count")):
                counters = counted["counters"]
                for name, value in counters.items():
                    if name != "bytes":
                        row[f"{name} share"] = value / counters["bytes"]
            figures[cache] = rates
        figures["passed"] = (all(r["dram__bytes_read.sum share"] < 0.02 and
                                 r["lts__t_bytes.sum share"] > 0.97 for r in figures["l2"]) and
                             all(r["lts__t_bytes.sum share"] < 0.02 for r in figures["l1"]))
        return figures

    def overhead(self):
        """How CUPTI in the process changes the graph clock, and how the clocks agree."""
        runs = {"without": [], "with": []}
        for _ in range(3):
            runs["without"].append(self.launch_kernel("chain"))
            runs["with"].append(self.launch_kernel("chain", "--cupti"))
        rows = []
        for i, first in enumerate(runs["with"][0]):
            def middle(side, clock, at=i):
                return statistics.median(run[at][clock] for run in runs[side])
            row = {"rounds": first["rounds"], "blocks": first["blocks"],
                   "cupti_ns": middle("with", "cupti_ns"), "events_ns": middle("without", "events_ns"),
                   "graph_ns": middle("without", "graph_ns"),
                   "graph_with_cupti_ns": middle("with", "graph_ns")}
            row["m4"] = row["graph_with_cupti_ns"] / row["graph_ns"] - 1
            row["cupti_over_graph"] = row["cupti_ns"] / row["graph_ns"] - 1
            rows.append(row)
        long = [r for r in rows if r["graph_ns"] >= 20e3]
        return {"rows": rows, "passed": all(abs(r["m4"]) <= 0.01 for r in long)}


def deviation(values):
    return statistics.stdev(values) / statistics.mean(values)


def close(row, label, tolerance, of=None):
    """Whether the two agree within a tolerance of their value, or of `of`."""
    return label in row and abs(row["ours"] - row[label]) <= tolerance * abs(of or row[label])


def said_by(profile, device):
    """What of a profile tells where its time goes. What was not counted is left out."""
    time_ns = profile["measurement"]["latency_ns_median"]
    ceilings = {ceiling["name"]: ceiling["value"] for ceiling in device.get("ceilings", [])}
    figure = {"time_ns": time_ns, "config": config_text(profile["config"])}
    if "dram_read_bytes" in profile:
        rate = (profile["dram_read_bytes"] + profile.get("dram_write_bytes", 0)) / time_ns * 1e9
        figure["dram_bytes_per_second"] = rate
        if ceilings.get("dram_copy"):
            figure["dram_over_copy"] = rate / ceilings["dram_copy"]
    rates = TENSOR_RATES.get(profile["target"][:5], {})
    cycles = time_ns / 1e9 * profile.get("sm_clock_hz", 0) * device.get("sm_count", 0)
    for name, flops in profile.get("flops", {}).items():
        if flops and name.startswith("tensor"):
            figure[f"{name}_flops_per_second"] = flops / time_ns * 1e9
            if cycles and name in rates:
                figure["tensor_utilisation"] = flops / (rates[name] * cycles)
    resources = profile.get("resources", {})
    for name in ("registers", "static_shared_bytes", "dynamic_shared_bytes", "spill_bytes"):
        if name in resources:
            figure[name] = resources[name]
    for name in ("occupancy", "issue_active", "l2_hit_rate", "reread_factor", "sm_clock_hz"):
        if name in profile:
            figure[name] = profile[name]
    if profile.get("stalls"):
        figure["stalls"] = {stall["reason"]: stall["share"] for stall in profile["stalls"][:4]}
    for name in ("message", "notes"):
        if profile.get(name):
            figure[name] = profile[name]
    return figure


def told(figure):
    parts = [f"{figure['time_ns'] / 1e3:.1f} us"]
    if "dram_bytes_per_second" in figure:
        parts.append(f"DRAM {figure['dram_bytes_per_second'] / 1e12:.2f} TB/s")
    parts += [f"{name} {100 * figure[key]:.0f} %" for name, key in (
        ("tensor cores", "tensor_utilisation"), ("occupancy", "occupancy"), ("issue", "issue_active"),
        ("L2 hits", "l2_hit_rate")) if key in figure]
    if "registers" in figure:
        parts.append(f"{figure['registers']} registers")
    parts += [f"{reason} {100 * share:.0f} %" for reason, share in figure.get("stalls", {}).items()]
    return ", ".join(parts + ([figure["message"]] if "message" in figure else []))


def profile_entry(kernel):
    spec = ROOT / "kernels" / kernel / f"{kernel}.textproto"
    return re.search(r'^entry: "(\w+)"', spec.read_text(), re.MULTILINE).group(1)


def read_ncu(text):
    """Metrics of ncu's CSV, with the ==PROF== lines and ours before it."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return {}
    found = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        try:
            found[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return found


def main():
    parser = parser_for(__doc__, (*PARTS, "winners"))
    parser.add_argument("--limit", type=float, default=240, help="seconds of each program (default %(default)g)")
    parser.add_argument("--problem", action="append", default=[], help="of winners; may be given several times")
    parser.add_argument("--budget", default="6s", help="of winners' sweeps; 0: the configs of `tunectl best` (default %(default)s)")
    arguments = parser.parse_args()
    with Service(arguments.bin, arguments.device, daemon=False) as service:
        report = Report(arguments.out)
        study = Study(service, report, arguments.limit, arguments.problem, arguments.budget)
        for name in arguments.parts or PARTS:
            report.measure(name, getattr(study, name), again=bool(arguments.parts))


if __name__ == "__main__":
    main()
