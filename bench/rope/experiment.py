#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The RoPE experiment: one function in CUDA, in Triton, in eager PyTorch and by torch.compile.

    bench/rope/experiment.py run --out docs/results/rope.json     needs a GPU, Triton and PyTorch
    bench/rope/experiment.py page docs/results/rope.json          writes docs/experiments/rope.md and its pictures

`run` tunes both kernels for the base shape, forward and backward. Then it goes over sequence length, heads (hidden
size) and batch, one at a time. At each point it measures PyTorch, then `tunectl compare rope rope_triton`, then
PyTorch again, all with a cold cache by CUPTI's clock. The file is written after each point.
"""
import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASE = {"seq": 4096, "batch": 8, "heads": 32, "kv_heads": 8, "head_dim": 128}
AXES = {"seq": [1024, 2048, 4096, 8192, 16384], "heads": [16, 32, 64], "batch": [1, 8, 16]}
OURS = {"rope": "CUDA", "rope_triton": "Triton"}
PEERS = {"eager": "eager PyTorch", "compile": "torch.compile"}


def points():
    """Problems without doubles, the base shape's first, backward beside forward."""
    seen = []
    for axis, values in {"seq": [BASE["seq"]], **AXES}.items():
        for value in values:
            # kv heads are a quarter of the heads, as in models of this kind.
            problem = {**BASE, axis: value, **({"kv_heads": value // 4} if axis == "heads" else {})}
            if problem not in seen:
                seen.append(problem)
    return [{**problem, "backward": way} for problem in seen for way in (0, 1)]


class Peers:
    """PyTorch in a process of its own, asked line by line."""

    def __init__(self, python):
        self.process = subprocess.Popen([python, str(pathlib.Path(__file__).with_name("peers.py"))], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.about = json.loads(self.process.stdout.readline() or '{"error": "PyTorch did not start"}')

    def ask(self, problem):
        if "error" in self.about:
            return {"error": self.about["error"]}
        self.process.stdin.write(json.dumps(problem) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline() or '{"error": "PyTorch ended"}')


class Service:
    """A daemon for the run, with a state of its own."""

    def __init__(self, folder, device):
        self.bin, self.device = pathlib.Path(folder).resolve(), device
        self.state = tempfile.TemporaryDirectory(prefix="tune-rope-")
        address = f"unix:{self.state.name}/tunerd.sock"
        self.env = {**os.environ, "TUNE_STATE_DIR": self.state.name, "XDG_RUNTIME_DIR": self.state.name}
        self.daemon = subprocess.Popen([str(self.bin / "tunerd"), "--listen", address], env=self.env,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.env["TUNE_ADDRESS"] = address
        for _ in range(100):
            if self.call("server", "status").get("version"):
                return
            time.sleep(0.1)
        raise RuntimeError("tunerd does not answer")

    def call(self, *arguments):
        done = subprocess.run([str(self.bin / "tunectl"), *map(str, arguments), "--json"], env=self.env,
                              capture_output=True, text=True, timeout=300, check=False)
        return json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.stderr[-1000:]}

    def on(self, verb, *arguments, problem):
        flags = [part for dim, value in problem.items() for part in (f"--{dim}", value)]
        return self.call(verb, *arguments, *flags, "--device", self.device)


def measured(compared):
    """What a page needs of a kernel of a comparison."""
    figures = compared.get("measurement", {})
    return {"latency_ns_median": figures.get("latency_ns_median"), "latency_ns_low": figures.get("latency_ns_low"),
            "latency_ns_high": figures.get("latency_ns_high"), "ratio": compared.get("ratio"),
            "ratio_low": compared.get("ratio_low"), "ratio_high": compared.get("ratio_high"),
            "outcome": compared.get("outcome"), "agreement": compared.get("agreement"),
            "config": compared.get("config"), "compiler": compared.get("compiler"), "kernels": 1}


def measure(service, peers, problem, rounds):
    before = peers.ask(problem)
    comparison = service.on("compare", *OURS, "--rounds", rounds, problem=problem)
    after = peers.ask(problem)
    row = {"problem": problem, "error": comparison.get("error")}
    for compared in comparison.get("problems", [{}])[0].get("kernels", []):
        row[compared["label"]] = measured(compared)
    if "problems" in comparison:
        row["work_bytes"] = comparison["problems"][0]["work_bytes"]
        row["ceiling_bytes_per_second"] = comparison["problems"][0]["ceiling"]
    for name in PEERS:
        legs = [leg[name] for leg in (before, after) if name in leg]
        if legs:
            row[name] = {**legs[0], "legs_ns": [leg["latency_ns_median"] for leg in legs]}
            row[name]["latency_ns_median"] = sum(row[name]["legs_ns"]) / len(legs)
        else:
            row[name] = {"error": before.get("error", "no answer")}
    return row


def run(arguments):
    service = Service(arguments.bin, arguments.device)
    peers = Peers(arguments.python)
    result = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "torch": peers.about, "base": BASE, "axes": AXES, "tuned": {}, "counted": {}, "rows": []}
    out = pathlib.Path(arguments.out)
    try:
        for way in (0, 1):
            for kernel in OURS:
                problem = {**BASE, "backward": way}
                sweep = service.on("sweep", kernel, "--budget", arguments.budget, problem=problem)
                result["tuned"][f"{kernel}.{way}"] = sweep.get("progress", {}).get("outcomes", sweep.get("error"))
                counted = service.on("profile", kernel, "--best", problem=problem)
                result["counted"][f"{kernel}.{way}"] = next(iter(counted.get("profiles", [])), counted)
        result["device"] = service.call("device", "show", arguments.device)
        for problem in points():
            result["rows"].append(measure(service, peers, problem, arguments.rounds))
            out.write_text(json.dumps(result, indent=1) + "\n")
            print(text(result["rows"][-1]), flush=True)
    finally:
        service.daemon.terminate()
        service.daemon.wait()


def text(row):
    name = " ".join(f"{dim}={value}" for dim, value in row["problem"].items())
    times = [f"{label} {row[key]['latency_ns_median'] / 1e3:.1f} us" if (row.get(key) or {}).get("latency_ns_median")
             else f"{label}: {str((row.get(key) or row).get('error'))[:200]}" for key, label in {**OURS, **PEERS}.items()]
    return f"{name}: {', '.join(times)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    runner = verbs.add_parser("run")
    runner.add_argument("--out", required=True)
    runner.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    runner.add_argument("--python", default=sys.executable, help="a Python with PyTorch")
    runner.add_argument("--device", default="cuda:0")
    runner.add_argument("--budget", default="10s", help="for each of the four sweeps")
    runner.add_argument("--rounds", type=int, default=3)
    writer = verbs.add_parser("page")
    writer.add_argument("results")
    writer.add_argument("--into", default=str(ROOT / "docs/experiments"))
    arguments = parser.parse_args()
    if arguments.verb == "run":
        return run(arguments)
    from page import write_page  # beside this file
    return write_page(json.loads(pathlib.Path(arguments.results).read_text()), pathlib.Path(arguments.into))


if __name__ == "__main__":
    main()
