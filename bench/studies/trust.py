#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Can the figures that sweeps report be believed? On a GPU, or on the CPU device.

    bench/studies/trust.py --bin build/release/bin --out trust.json [--device cpu] [PART ...]

Parts, by default all:
  planted  variants and specs that lie (bench/studies/planted). Each must end as what it is, and the honest
           one must be believed
  roofs    sweeps of the shipped kernels: no trial may be above 1.03 of its roof
  winner   searches of a few trials, each with another seed. Their winners are measured again,
           independently, in fresh processes
Needs Python's standard library and our programs. The file is written after each part.
"""
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Report, Service, config_text, flags_of, outcome, parser_for  # noqa: E402

PLANTED = ROOT / "bench/studies/planted/planted.textproto"
PLANTED_SWEEP = (PLANTED, "--no-warm-start", "--budget", "1000")  # all of it
PARTS = ("planted", "roofs", "winner")

WRONG = {"wrong_result"}
# How each lie of planted.cu ends. The last outcome of a config counts. So the measurement that
# confirms a winner overrules the search.
LIES = {"honest": {"ok"}, "skips": WRONG, "once": WRONG, "past_end": WRONG, "input": WRONG,
        "narrow": WRONG, "one_off": WRONG, "peeks": {"above_roof"}}
# On the CPU every timed launch writes to poisoned outputs. A variant that peeks finds poison, and
# so it does its work.
LIES_CPU = {**LIES, "peeks": {"ok"}}
# Name and dims of specs that make an honest kernel end above the roof: it does not do the work that
# they declare.
CLAIMS = [("operations_not_done", {"flops_each": 100000}), ("input_in_cache", {"period": 1 << 20})]

# The last member is true for a kernel that writes less than four L2. Up to one L2 leaves the cache
# after the kernel has ended, so its share of the roof may be above 1. A share that cannot be believed
# is above_roof all the same.
SHIPPED = [("softmax", {"rows": 8192, "cols": 4096}, True),
           ("softmax", {"rows": 131072, "cols": 4096}, False), ("rope", {"seq": 4096}, False),
           ("attention", {"seq": 2048}, False), ("attention", {"seq": 4096}, False)]
SHIPPED_CPU = [("softmax", {"rows": 64, "cols": 512}, True), ("rope", {"seq": 16}, True)]

# Shapes of 10 to 160 us.
SEARCHED = [("softmax", {"rows": 4096, "cols": 2048}), ("softmax", {"rows": 8192, "cols": 4096}),
            ("softmax", {"rows": 16384, "cols": 4096}), ("rope", {"seq": 1024}),
            ("rope", {"seq": 4096})]
SEARCHED_CPU = [("softmax", {"rows": 256, "cols": 512}), ("rope", {"seq": 32})]
SAMPLES = 40  # as many as a confirming round takes


class Study:
    def __init__(self, service, arguments):
        self.service = service
        self.searches = arguments.searches
        self.budget = arguments.budget
        self.limit_s = arguments.limit_s
        self.on_host = service.about_device()["clock"] == "CLOCK_HOST"

    def sweep(self, *arguments):
        """The sweep, even if none of its configs was ok."""
        return self.service.sweep(arguments[0], None, *arguments[1:], codes=(0, 4))

    def trials(self, sweep):
        return self.service.json("trial", "list", "--sweep", sweep["id"], "--json")["trials"]

    # Parts.

    def planted(self):
        """Every lie by its name, and every claim: how it ended, and how it ought to have."""
        sweep = self.sweep(*PLANTED_SWEEP)
        ended = {f"LIE={lie}": ("not tried", "") for lie in LIES}
        for trial in self.trials(sweep):
            config = config_text(trial["config"])
            ended.pop(config.split()[0], None)
            ended[config] = (outcome(trial), trial.get("message", ""))
        cases = []
        for config, (what, message) in sorted(ended.items()):
            lie = config.split()[0].removeprefix("LIE=")
            expected = (LIES_CPU if self.on_host else LIES)[lie]
            cases.append({"config": config, "outcome": what, "expected": sorted(expected),
                          "passed": what in expected, "message": message[:200]})
        winner = config_text(sweep["result"]["best"]["config"]) if sweep.get("result") else ""
        honest = winner.startswith(("LIE=honest", "LIE=peeks") if self.on_host else "LIE=honest")
        # A CPU's cache may well hold the whole input. Then there is no roof to be above.
        for name, dims in CLAIMS[:1] if self.on_host else CLAIMS:
            claim = self.sweep(*PLANTED_SWEEP, *flags_of(dims))
            seen = {config_text(t["config"]): outcome(t) for t in self.trials(claim)}
            for config, what in sorted(seen.items()):
                if config.startswith("LIE=honest"):
                    cases.append({"config": f"{name}: {config}", "outcome": what,
                                  "expected": ["above_roof"], "passed": what == "above_roof"})
            if claim.get("result"):
                cases.append({"config": f"{name}: a winner", "outcome": "published",
                              "expected": ["none"], "passed": False})
        missed = [c for c in cases if not c["passed"]]
        print(f"planted: {len(cases) - len(missed)} of {len(cases)} as they should; winner "
              f"{winner}; missed {[(c['config'], c['outcome']) for c in missed]}", flush=True)
        return {"cases": cases, "missed": len(missed), "winner": winner, "winner_honest": honest,
                "passed": not missed and honest}

    def roofs(self):
        rows = []
        for kernel, dims, debt in SHIPPED_CPU if self.on_host else SHIPPED:
            budget = ("--budget", "12") if self.on_host else ()
            trials = self.trials(self.sweep(kernel, *flags_of(dims), *budget))
            shares = [t["measurement"].get("peak_fraction", 0) for t in trials
                      if outcome(t) in ("ok", "above_roof") and "measurement" in t]
            above = sum(outcome(t) == "above_roof" for t in trials)
            rows.append({"problem": f"{kernel} {dims}", "trials": len(trials), "above_roof": above,
                         "most": max(shares, default=0), "write_back_debt": debt,
                         "above_103": sum(share > 1.03 for share in shares)})
            print(f"roofs: {rows[-1]}", flush=True)
        return {"rows": rows, "passed": not any(
            r["above_roof"] or (r["above_103"] and not r["write_back_debt"]) for r in rows)}

    def winner(self):
        started = time.monotonic()
        searched = SEARCHED_CPU if self.on_host else SEARCHED
        searches = []
        for i in range(self.searches):
            if time.monotonic() - started > 0.65 * self.limit_s:
                break  # the rest of the time is for measuring again
            kernel, dims = searched[i % len(searched)]
            sweep = self.sweep(kernel, *flags_of(dims), "--strategy", "random", "--budget",
                               self.budget, "--seed", 1000 + i, "--fresh", "--no-warm-start")
            best = sweep["result"]["best"]
            searches.append({"problem": f"{kernel} {dims}", "config": config_text(best["config"]),
                             "reported_ns": best["measurement"]["latency_ns_median"],
                             "search_best_ns": sweep["progress"].get("best_latency_ns", 0)})
        search_seconds = time.monotonic() - started
        again = {}
        for kernel, dims in searched:
            configs = sorted({s["config"] for s in searches if s["problem"] == f"{kernel} {dims}"})
            again.update({(f"{kernel} {dims}", c): ns for c, ns in
                          self.measure_again(kernel, dims, configs, started, searched).items()})
        return judge_winners(searches, again, search_seconds)

    def measure_again(self, kernel, dims, configs, started, searched):
        """Median of each config over as many fresh processes as the time left allows."""
        if not configs:
            return {}
        first = time.monotonic()
        medians = self.bench(kernel, dims, configs, 2)
        each = (time.monotonic() - first) / 2
        left = (self.limit_s - (first - started)) / (len(searched) - searched.index((kernel, dims)))
        more = max(2, min(18, int((left - 2 * each) / each)))
        for config, values in self.bench(kernel, dims, configs, more).items():
            medians[config] += values
        return medians

    def bench(self, kernel, dims, configs, processes):
        wanted = [part for config in configs for part in ("--config", config)]
        done = self.service.json("bench", kernel, *flags_of(dims), "--device", self.service.device, *wanted,
                            "--samples", SAMPLES, f"--benchmark_repetitions={processes}",
                            "--benchmark_format=json", "--benchmark_enable_random_interleaving=true")
        medians = {config: [] for config in configs}
        for row in done["benchmarks"]:
            if row.get("run_type") == "iteration" and not row.get("error_occurred"):
                medians[row["label"]].append(1e3 * row["median_us"])
        return medians


def judge_winners(searches, again, search_seconds):
    """Reported over true, less one, for each search. The mean is the bias."""
    for search in searches:
        processes = again.get((search["problem"], search["config"]), [])
        if len(processes) < 2:
            continue
        search["again_ns"] = statistics.median(processes)
        search["again_processes"] = len(processes)
        search["bias"] = search["reported_ns"] / search["again_ns"] - 1
        if search["search_best_ns"]:
            search["search_bias"] = search["search_best_ns"] / search["again_ns"] - 1
    biases = [s["bias"] for s in searches if "bias" in s]
    mean = statistics.mean(biases)
    error = statistics.stdev(biases) / len(biases) ** 0.5 if len(biases) > 1 else 0
    figure = {"searches": len(biases), "bias_mean": mean, "bias_standard_error": error,
              "bias_least": min(biases), "bias_most": max(biases),
              "distinct_winners": len(again), "search_seconds": search_seconds,
              "passed": abs(mean) <= 0.005, "each": searches}
    print(f"winner: {len(biases)} searches, reported over measured again {100 * mean:+.3f} % "
          f"(standard error {100 * error:.3f} %, {100 * min(biases):+.2f} to "
          f"{100 * max(biases):+.2f} %)", flush=True)
    return figure


def main():
    parser = parser_for(__doc__, PARTS)
    parser.add_argument("--searches", type=int, default=50, help="of the part winner (default %(default)s)")
    parser.add_argument("--budget", type=int, default=12, help="trials of a search (default %(default)s)")
    parser.add_argument("--limit-s", type=float, default=280, help="seconds of the part winner (default %(default)g)")
    arguments = parser.parse_args()
    with Service(arguments.bin, arguments.device) as service:
        device = service.about_device()
        report = Report(arguments.out, device={key: device.get(key) for key in ("id", "name", "driver", "compiler", "uuid")})
        study = Study(service, arguments)
        passed = [report.measure(part, getattr(study, part), again=True) for part in arguments.parts or PARTS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
