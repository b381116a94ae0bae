#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Figures of counters, ceilings and timing on one GPU: calibration, M1, M2, M3, ceilings twice, ncu.

    bench/counters_study.py --bin build/release/bin --out counters.json [--tests build/release/tests/device_cuda]

Needs Python's standard library and our programs. The file is written after each part, so that a run
that is stopped keeps what it has.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

KERNELS = [  # name, dims: about 5 us to 2 ms on an H200
    ("softmax", {"rows": 1024, "cols": 1024}),
    ("softmax", {"rows": 8192, "cols": 4096}),
    ("rope", {"seq": 4096}),
    ("softmax", {"rows": 131072, "cols": 4096}),
]


class Study:
    def __init__(self, bin_dir, out, limit_s):
        self.bin, self.out, self.limit_s = pathlib.Path(bin_dir), pathlib.Path(out), limit_s
        self.result = {"started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "parts": {}}
        self.state = tempfile.mkdtemp(prefix="counters-study-")
        self.env = dict(os.environ, TUNE_STATE_DIR=self.state)

    def run(self, program, *arguments):
        """(exit code, stdout, stderr) of one of our programs; -1 after the part's limit."""
        command = [str(program), *map(str, arguments)]
        try:
            done = subprocess.run(command, env=self.env, capture_output=True, text=True,
                                  timeout=self.limit_s, check=False)
            return done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            return -1, "", f"not done within {self.limit_s} s"

    def tunectl(self, *arguments):
        return self.run(self.bin / "tunectl", *arguments)

    def part(self, name, function):
        start = time.monotonic()
        try:
            figures = function()
        except (OSError, ValueError, KeyError, IndexError) as error:
            figures = {"error": repr(error)}
        figures["seconds"] = round(time.monotonic() - start, 1)
        self.result["parts"][name] = figures
        self.out.write_text(json.dumps(self.result, indent=1))
        print(name, json.dumps(figures)[:2000], flush=True)

    def device(self):
        code, text, error = self.tunectl("device", "show", "cuda:0", "--json")
        return json.loads(text) if code == 0 else {"error": error}

    def calibration(self):
        code, text, error = self.tunectl("device", "calibrate", "cuda:0", "--json")
        figures = {"exit": code, "stderr": error.strip()}
        if text.strip():
            entries = json.loads(text).get("entries", [])
            figures["entries"] = entries
            figures["failed"] = [e["name"] for e in entries if not e.get("passed")]
        return figures

    def profile(self, kernel, dims, *more):
        flags = [f"--{name}={value}" for name, value in dims.items()]
        code, text, error = self.tunectl("profile", kernel, *flags, "--json", *more)
        if code != 0:
            raise ValueError(error.strip())
        return json.loads(text.splitlines()[0])

    def repeatability(self):
        """M1: medians of ten fresh processes."""
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

    def ceilings_twice(self):
        sessions = []
        for _ in range(2):
            code, text, error = self.tunectl("device", "ceilings", "cuda:0", "--remeasure", "--json")
            if code != 0:
                return {"error": error.strip()}
            sessions.append({c["name"]: c for c in json.loads(text)["ceilings"]})
        figures = {"ceilings": sessions[1], "difference": {}, "above_theory": []}
        for name, second in sessions[1].items():
            first = sessions[0].get(name)
            if first:
                figures["difference"][name] = second["value"] / first["value"] - 1
            if second.get("theoretical", 0) > 0 and second["value"] > 1.01 * second["theoretical"]:
                figures["above_theory"].append(name)
        return figures

    def tests(self, folder):
        figures = {}
        for name in ("cuda_counting_gpu_test", "cuda_gpu_test"):
            program = pathlib.Path(folder) / name
            if program.exists():
                code, text, error = self.run(program)
                figures[name] = {"exit": code, "output": (text + error)[-8000:]}
        return figures

    def ncu(self):
        ncu = shutil.which("ncu")
        if ncu is None:
            return {"skipped": "no ncu on this host"}
        code, text, error = self.run(
            ncu, "--clock-control", "none", "--target-processes", "all", "--csv", "--metrics",
            "dram__bytes_read.sum,dram__bytes_write.sum,"
            "sm__sass_thread_inst_executed_op_ffma_pred_on.sum", "--launch-count", "40",
            self.bin / "tunectl", "profile", "softmax", "--rows=8192", "--cols=4096")
        return {"exit": code, "output": (text + error)[-8000:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--tests", default="", help="folder of the GPU tests")
    parser.add_argument("--limit", type=float, default=240, help="seconds of each program")
    parser.add_argument("--parts", default="", help="only these, comma separated")
    arguments = parser.parse_args()
    study = Study(arguments.bin, arguments.out, arguments.limit)
    parts = {"device": study.device, "calibration": study.calibration, "counters": study.counters,
             "repeatability": study.repeatability, "ceilings_twice": study.ceilings_twice,
             "ncu": study.ncu}
    if arguments.tests:
        parts["tests"] = lambda: study.tests(arguments.tests)
    wanted = [name for name in arguments.parts.split(",") if name] or list(parts)
    for name in wanted:
        study.part(name, parts[name])
    shutil.rmtree(study.state, ignore_errors=True)


if __name__ == "__main__":
    main()
