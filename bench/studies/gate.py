#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Proves the gate's promises on the device it runs on. docs/gate.md quotes what it finds.

    bench/studies/gate.py --bin build/release/bin --out gate-h200.json [PART ...]

Parts, in this order (default: all):
  aa         every kernel of the catalogue, one revision against itself. Then 300 and 10 000 whole
             runs are drawn from the rounds: how many fail, and which bound that proves
  oracle     kernels with a knob: what each setting really costs, by many paired rounds
  blind      gate runs over kernels, some of them slower, drawn at random; needs oracle
  hundred    100 kernels of 100 us each: how long a gate takes
  identical  kernels that differ in their text alone: how long a gate takes
  retune     two heads: does the gate tell them apart? One is slower with the base's config and not
             with its own. The other is slower with both.
--draws 3:64,2:64,1.5:32,0:32 names slowdowns in percent, and how many of each. oracle looks for
exactly these slowdowns. blind draws so many of each, in an order that the seed decides.
--merge adds the rounds that aa found in other sessions' files.
Writes the JSON file after each part. Leaves out the parts that are in it, unless --again. A part
keeps to its time limit as well as it can tell beforehand. --limit-s gives all parts another limit.
"""
import argparse
import json
import math
import pathlib
import random
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Report, Service, parser_for  # noqa: E402

PARTS = {"aa": 240, "oracle": 240, "blind": 300, "hundred": 330, "identical": 90, "retune": 120}

SPEC = """name: "{name}"
summary: "a kernel whose cost has a knob"
source: "{name}.cu"
entry: "work"
dtypes: "f32"
dims {{ name: "n" default_value: {n} min: 1 on {{ target: "cpu" default_value: {cpu_n} }} }}
params {{ name: "THREADS" values: "[256]" default_value: "256" }}
params {{ name: "WAY" values: "{ways}" default_value: "1" }}
args {{ name: "x" buffer {{ dtype: "f32" shape: "n" role: ROLE_INPUT }} }}
args {{ name: "y" buffer {{ dtype: "f32" shape: "n" role: ROLE_OUTPUT }} }}
args {{ name: "n" scalar {{ dtype: "i64" value: "n" }} }}
launch {{ grid: "ceil_div(n, THREADS * 4)" block: "THREADS" }}
work {{ flops: "n" bytes: "8 * n" peak: "f32" }}
reference {{ entry: "work_reference" launch {{ grid: "ceil_div(n, 256)" block: "256" }} }}
tolerances {{ dtype: "f32" rtol: 1e-3 atol: 1e-4 }}
"""
# The compiler folds nothing at knob 0 that it would not fold at another setting. So a change of the
# knob changes nothing else.
SETTINGS = """#define KNOB (WAY == 1 ? {knob} : {knob2})
#define KNOB_AT_RUN_TIME (KNOB + (n == 12345))
#define SALT {salt}
#define ITERATIONS {iterations}
#define SCALE (1.0f + 1e-6f * SALT)
"""
HEAD = """#if TUNE_REFERENCE
extern "C" __global__ void work_reference(const float* x, double* y, long long n) {{
  const long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  if (i < n) y[i] = RESULT(static_cast<double>(x[i]));
}}
#else
extern "C" __global__ void __launch_bounds__(THREADS) work(const float* x, float* y, long long n) {{
  const long long first = blockIdx.x * static_cast<long long>(THREADS * 4) + threadIdx.x;
"""
# KNOB in a thousand blocks do their work twice.
COPY = SETTINGS + """#define RESULT(v) (SCALE * (v))
""" + HEAD + """  const volatile float* in = x;
  volatile float* out = y;
  const int passes = blockIdx.x % 1000 < KNOB_AT_RUN_TIME ? 2 : 1;
  for (int pass = 0; pass < passes; ++pass) {{
    float v[4];
    for (int item = 0; item < 4; ++item) {{
      const long long i = first + item * THREADS;
      v[item] = i < n ? in[i] : 0.0f;
    }}
    for (int item = 0; item < 4; ++item) {{
      const long long i = first + item * THREADS;
      if (i < n) out[i] = SCALE * v[item];
    }}
  }}
}}
#endif
"""
# KNOB in a thousand iterations more. The value has converged long before, so results do not change.
COMPUTE = SETTINGS + """#define RESULT(v) Iterate<ITERATIONS>(v)
template <int kCount, typename T>
static __device__ T Iterate(T v) {{
#pragma unroll 8
  for (int k = 0; k < kCount; ++k) v = v * static_cast<T>(0.5f) + static_cast<T>(SCALE);
  return v;
}}
""" + HEAD + """  for (int item = 0; item < 4; ++item) {{
    const long long i = first + item * THREADS;
    if (i < n) y[i] = Iterate<ITERATIONS + ITERATIONS * KNOB / 1000>(x[i]);
  }}
}}
#endif
"""
# KNOB in a thousand blocks read their input once more, from another place.
REREAD = SETTINGS + """#define RESULT(v) (SCALE * (v))
""" + HEAD + """  float extra = 0.0f;
  if (blockIdx.x % 1000 < KNOB_AT_RUN_TIME) {{
    const volatile float* in = x;
    for (int item = 0; item < 4; ++item) extra += in[(first + item * THREADS + n / 2) % n];
  }}
  for (int item = 0; item < 4; ++item) {{
    const long long i = first + item * THREADS;
    if (i < n) y[i] = SCALE * x[i] + (extra == 12345.678f ? 1.0f : 0.0f);
  }}
}}
#endif
"""
SOURCES = {"copy": COPY, "compute": COMPUTE, "reread": REREAD}
# Elements on a GPU and on the CPU; 80 to 130 us on an H200.
SIZES = {"copy": (64 << 20, 1 << 16), "compute": (2 << 20, 1 << 14), "reread": (32 << 20, 1 << 16)}
ITERATIONS = {"gpu": 1024, "host": 32}
DRAWS_OF_A_RUN = 48
QUIET_DEVIATION = 0.007  # of rounds; up to it the strictest promise holds
TARGETS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.10)


def clopper_pearson_high(hits, trials, confidence=0.95):
    """The exact upper bound of a proportion, by bisection of the binomial tail."""
    if hits >= trials:
        return 1.0

    def tail(p):  # P(at most `hits`)
        return sum(math.exp(math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
                            + k * math.log(p) + (trials - k) * math.log1p(-p))
                   for k in range(hits + 1))
    low, high = 1e-12, 1 - 1e-12
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > 1 - confidence else (low, middle)
    return high


class Study:
    def __init__(self, service, arguments):
        self.service = service
        self.quick, self.seed, self.draws, self.merge = arguments.quick, arguments.seed, arguments.draws, arguments.merge
        self.work = pathlib.Path(service.state.name) / "study"
        device = service.about_device()
        self.on_host = device["clock"] == "CLOCK_HOST"
        self.report = Report(arguments.out,
                             device={key: device.get(key) for key in ("id", "name", "driver", "compiler", "uuid")})
        self.figures = self.report.figures
        self.limit = self.started = 0

    def left(self):
        return self.limit - (time.monotonic() - self.started)

    def gate(self, base, head, *arguments):
        """A run, and how long it took from outside."""
        run = self.service.json("gate", "--base", base, "--head", head, "--device", self.service.device, "--json",
                                *self.leg(), *arguments, codes=(0, 5, 6))
        for kernel in run["kernels"]:
            if verdict(kernel) == "INVALID":
                print(f"{kernel['name']} is INVALID: {kernel.get('reason', '')[:500]}", flush=True)
        return run

    def leg(self):
        return ("--leg-seconds", "0.005") if self.quick else ()

    def write(self, folder, name, kind, knob=0, salt=0, n=None, iterations=None, knob2=None):
        """A kernel of SOURCES with its knob set, and with another setting for a second way if given."""
        gpu_n, cpu_n = SIZES[kind]
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.textproto").write_text(
            SPEC.format(name=name, n=n or gpu_n, cpu_n=n or cpu_n,
                        ways="[1]" if knob2 is None else "[1, 2]"))
        (place / f"{name}.cu").write_text(SOURCES[kind].format(
            knob=knob, knob2=knob2 or 0, salt=salt, iterations=iterations or ITERATIONS["host" if self.on_host else "gpu"]))

    def study(self, base, head, rounds_wanted, share=1.0):
        """As many rounds as fit in a share of the time left. A few tell how long one takes."""
        budget = self.left() * share
        probe = 4
        first = self.gate(base, head, "--study", str(probe), "--seed", str(self.seed))
        each = first["wall_seconds"] / probe
        rounds = int(min(rounds_wanted, (budget - first["wall_seconds"]) / each * 0.9))
        if rounds < 8:
            rounds = 8
        second = self.gate(base, head, "--study", str(rounds), "--seed", str(self.seed + 1))
        return first, second

    # Parts.

    def aa(self):
        kernels = ROOT / "kernels"
        extra = ("--kernels", "softmax") if self.quick else ()
        self_gate = self.gate

        def gate(base, head, *arguments):
            return self_gate(base, head, *arguments, *extra)
        self.gate = gate
        _, run = self.study(kernels, kernels, 40, share=0.9)
        self.gate = self_gate
        figure = {"run": summary(run), "kernels": [kernel_line(k) for k in run["kernels"]]}
        for runs in (300, 10000):
            drawn = self.service.json("gate", "resample", run["id"], "--runs", str(runs), "--seed",
                                 str(self.seed), "--json")
            figure[f"resampled_{runs}"] = drawn
            print(f"aa: {drawn.get('failed_runs', 0)} of {runs} drawn runs fail; "
                  f"at most {100 * drawn['failed_bound']:.3f} % do (95 %)", flush=True)
        for line in figure["kernels"]:
            print(f"aa: {line['name']}: {line['ns'] / 1e3:.1f} us, round sd "
                  f"{100 * line['deviation']:.3f} %, autocorrelation {line['autocorrelation']:.2f}, "
                  f"{line['rounds']} rounds", flush=True)
        figure["sessions"] = self.sessions(figure)
        return figure

    def sessions(self, figure):
        """This one and those of the files to merge: rounds of each, and all drawn runs together."""
        found = [{**self.report.about, "aa": figure}]
        for path in self.merge:
            other = json.loads(pathlib.Path(path).read_text())
            found.append({**other, **other.get("figures", other)})
        rows, rounds, runs, failed = [], 0, 0, 0
        for session in found:
            kernels = session["aa"]["kernels"]
            drawn = session["aa"]["resampled_10000"]
            rounds += sum(k["rounds"] for k in kernels)
            runs += int(drawn.get("runs", 10000))
            failed += int(drawn.get("failed_runs", 0))
            rows.append({"date": session["date"], "uuid": session["device"].get("uuid"),
                         "kernels": {k["name"]: {"rounds": k["rounds"], "deviation": k["deviation"],
                                                 "ratio": k["ratio"]} for k in kernels}})
        bound = clopper_pearson_high(failed, runs)
        print(f"aa: {len(rows)} sessions, {rounds} rounds, {failed} of {runs} drawn runs fail; at most "
              f"{100 * bound:.3f} % do (95 %)", flush=True)
        return {"each": rows, "rounds": rounds, "drawn_runs": runs, "failed_runs": failed,
                "failed_bound": bound}

    def slopes(self):
        """What a step of each kind's knob costs, and what having a knob costs, from two settings."""
        base, head = self.work / "oracle-base", self.work / "oracle-head"
        probed = (40, 200)
        for kind in SOURCES:
            for knob in probed:
                self.write(base, f"{kind}-{knob}", kind)
                self.write(head, f"{kind}-{knob}", kind, knob=knob)
        effect = {k["name"]: k.get("ratio", 1) - 1 for k in
                  self.gate(base, head, "--study", "12", "--seed", str(self.seed))["kernels"]}
        slopes = {}
        for kind in SOURCES:
            low, high = (effect[f"{kind}-{knob}"] for knob in probed)
            slope = max(1e-5, (high - low) / (probed[1] - probed[0]))
            slopes[kind] = {"step": slope, "offset": high - slope * probed[1]}
        return slopes

    def oracle(self):
        slopes = self.slopes()
        targets = [t for t in self.draws if t > 0] or TARGETS
        base, head = self.work / "oracle2-base", self.work / "oracle2-head"
        knobs = {}
        for kind in SOURCES:
            for target in targets if not self.quick else targets[-1:]:
                line = slopes[kind]
                knob = max(1, min(1000, round((target - line["offset"]) / line["step"])))
                name = f"{kind}-{round(1000 * target)}"
                knobs[name] = {"kind": kind, "knob": knob, "target": target}
                self.write(base, name, kind)
                self.write(head, name, kind, knob=knob)
        _, run = self.study(base, head, 200, share=0.9)
        for kernel in run["kernels"]:
            entry = knobs[kernel["name"]]
            if not kernel.get("rounds"):
                del knobs[kernel["name"]]
                continue
            entry.update(effect=kernel["ratio"] - 1, low=kernel["ratio_low"] - 1,
                         high=kernel["ratio_high"] - 1, deviation=kernel["deviation"],
                         rounds=kernel["rounds"], ns=kernel["base_ns"])
            print(f"oracle: {kernel['name']}: knob {entry['knob']}: {100 * entry['effect']:+.2f} % "
                  f"({100 * entry['low']:+.2f} to {100 * entry['high']:+.2f}), "
                  f"sd {100 * entry['deviation']:.2f} %", flush=True)
        return {"slopes": slopes, "settings": knobs, "run": summary(run)}

    def blind(self):
        chance = random.Random(self.seed)
        draws = []
        runs = []
        longest = 0.0
        for number, batch in enumerate(self.batches(chance)):
            if runs and self.left() < 1.15 * longest:
                print(f"blind: no time for batch {number} and those after it", flush=True)
                break
            base = self.work / f"blind-base-{number}"
            head = self.work / f"blind-head-{number}"
            secret = {}
            for i, (key, setting, changed) in enumerate(batch):
                name = f"k{i:02}"
                self.write(base, name, setting["kind"], salt=1)
                self.write(head, name, setting["kind"], salt=2,
                           knob=setting["knob"] if changed else 0)
                secret[name] = {"setting": key, "effect": setting["effect"] if changed else 0.0,
                                "changed": changed}
            run = self.gate(base, head, "--seed", str(chance.randrange(1 << 31)))
            longest = max(longest, run["wall_seconds"])
            runs.append(summary(run))
            for kernel in run["kernels"]:
                draws.append({**secret[kernel["name"]], "run": run["id"],
                              "verdict": verdict(kernel), "ratio": kernel.get("ratio", 1),
                              "deviation": kernel.get("deviation", 0),
                              "improved": kernel.get("improved", False)})
        return self.power(draws, runs)

    def batches(self, chance):
        """What each gate run is given: the settings drawn, and whether they are used."""
        settings = self.figures["oracle"]["settings"]
        if not self.draws:
            size = 4 if self.quick else 40
            while True:
                batch = []
                for _ in range(size):
                    key = chance.choice(list(settings))
                    batch.append((key, settings[key], chance.random() < 0.5))
                yield batch
                if self.quick:
                    return
        drawn = []
        for target, count in self.draws.items():
            fitting = [k for k, v in settings.items() if target in (0, v["target"])]
            for _ in range(count if not self.quick else min(count, 1)):
                key = chance.choice(fitting)
                drawn.append((key, settings[key], target > 0))
        chance.shuffle(drawn)
        count = -(-len(drawn) // DRAWS_OF_A_RUN)
        for first in range(count):
            yield drawn[first::count]

    def power(self, draws, runs):
        """The confusion table. Where there was an effect, any verdict but FAIL is a miss."""
        table = []
        edges = (-1.0, 0.0075, 0.0125, 0.0175, 0.025, 0.04, 0.075, 1.0)
        nulls = [d for d in draws if not d["changed"]]
        failed = sum(d["verdict"] == "FAIL" for d in nulls)
        table.append({"effect": "none", "draws": len(nulls), "failed": failed,
                      "failed_bound": clopper_pearson_high(failed, max(1, len(nulls)))})
        print(f"blind: {failed} of {len(nulls)} unchanged kernels fail", flush=True)
        for low, high in zip(edges, edges[1:]):
            inside = [d for d in draws if d["changed"] and low <= d["effect"] < high]
            missed = [d for d in inside if d["verdict"] != "FAIL"]
            verdicts = {}
            for d in inside:
                verdicts[d["verdict"]] = verdicts.get(d["verdict"], 0) + 1
            if not inside:
                continue
            name = f"{100 * low:.2f} to {100 * high:.2f} %" if low > 0 else f"below {100 * high:.2f} %"
            quiet = [d for d in inside if d["deviation"] <= QUIET_DEVIATION]
            line = {"effect": name, "draws": len(inside),
                    "caught": len(inside) - len(missed), "verdicts": verdicts,
                    "quiet_draws": len(quiet),
                    "quiet_caught": sum(d["verdict"] == "FAIL" for d in quiet),
                    "miss_bound": clopper_pearson_high(len(missed), len(inside)),
                    "missed": [d["setting"] for d in missed]}
            table.append(line)
            print(f"blind: {line['effect']}: {line['caught']} of {line['draws']} caught; with 95 % "
                  f"confidence at least {100 * (1 - line['miss_bound']):.1f} % are", flush=True)
        return {"table": table, "runs": runs, "draws": draws}

    def hundred(self):
        count = 4 if self.quick else 100
        sizes = {kind: list(SIZES[kind]) for kind in SOURCES}
        place = self.work / "hundred-probe"
        for kind in SOURCES:
            self.write(place, f"{kind}-probe", kind)
        probe = self.gate(place, place, "--study", "1")
        if not self.on_host:
            for kernel in probe["kernels"]:
                kind = kernel["name"].split("-")[0]
                if kernel.get("base_ns"):
                    sizes[kind][0] = max(1 << 16, int(sizes[kind][0] * 100e3 / kernel["base_ns"]))
        base, head = self.work / "hundred-base", self.work / "hundred-head"
        for i in range(count):
            kind = list(SOURCES)[i % len(SOURCES)]
            n = sizes[kind][1 if self.on_host else 0] + 1024 * i
            self.write(base, f"h{i:03}", kind, salt=10 * i + 1, n=n)
            self.write(head, f"h{i:03}", kind, salt=10 * i + 2, n=n)
        run = self.gate(base, head, "--seed", str(self.seed))
        times = sorted(k.get("base_ns", 0) for k in run["kernels"])
        figure = {"run": summary(run), "kernels": count, "ns_median": times[len(times) // 2],
                  "ns_least": times[0], "ns_most": times[-1]}
        print(f"hundred: {count} kernels of {figure['ns_median'] / 1e3:.0f} us in "
              f"{run['wall_seconds']:.0f} s: {run.get('verdicts')}", flush=True)
        return figure

    def identical(self):
        base, head = self.work / "identical-base", self.work / "identical-head"
        for folder in sorted((ROOT / "kernels").iterdir()):
            if not list(folder.glob("*.textproto")) or (self.quick and folder.name != "softmax"):
                continue
            for place in (base, head):
                shutil.copytree(folder, place / folder.name)
            for source in (head / folder.name).glob("*.cu"):
                source.write_text("// A comment that changes nothing.\n" + source.read_text())
        run = self.gate(base, head)
        count = len(run["kernels"])
        each = run["wall_seconds"] / count
        print(f"identical: {run.get('verdicts')} in {run['wall_seconds']:.1f} s, {each:.2f} s a kernel",
              flush=True)
        return {"run": summary(run), "kernels": count, "seconds_each": each}

    def retune(self):
        """Knobs of the two ways. The base's best is the second way, and the head's own is the first."""
        base, head = self.work / "retune-base", self.work / "retune-head"
        expected = {"recovers": True, "stays": False}
        for name, first in (("recovers", 0), ("stays", 150)):
            self.write(base, name, "compute", salt=1, knob=300, knob2=0)
            self.write(head, name, "compute", salt=2, knob=first, knob2=300)
        run = self.gate(base, head, "--retune", "2", "--seed", str(self.seed))
        figure = {"run": summary(run), "kernels": {}}
        for kernel in run["kernels"]:
            recovery = kernel.get("recovery")
            line = {"verdict": verdict(kernel), "ratio": kernel.get("ratio", 1),
                    "recovery": recovery and {"ratio": recovery.get("ratio", 1),
                                              "recovers": recovery.get("recovers", False)}}
            line["passed"] = (line["verdict"] == "FAIL" and recovery is not None and
                              line["recovery"]["recovers"] == expected[kernel["name"]])
            figure["kernels"][kernel["name"]] = line
            print(f"retune: {kernel['name']}: {line}", flush=True)
        figure["passed"] = all(line["passed"] for line in figure["kernels"].values())
        return figure


def parse_draws(text):
    """'3:64,0:32' as {0.03: 64, 0: 32}."""
    try:
        return {float(part.split(":")[0]) / 100: int(part.split(":")[1])
                for part in text.split(",") if part}
    except (IndexError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text} is not PERCENT:DRAWS,...") from error


def verdict(kernel):
    return kernel.get("verdict", "-").replace("GATE_VERDICT_", "")


def summary(run):
    short = {k: run.get(k) for k in ("id", "kind", "state", "device_name", "driver", "verdicts",
                                     "wall_seconds")}
    short["run_seconds"] = (int(run.get("finished_unix_ms", 0)) - int(run.get("started_unix_ms", 0))) / 1e3
    return short


def kernel_line(kernel):
    return {"name": kernel["name"], "ns": kernel.get("base_ns", 0),
            "ratio": kernel.get("ratio", 1), "deviation": kernel.get("deviation", 0),
            "autocorrelation": kernel.get("autocorrelation", 0), "rounds": kernel.get("rounds", 0),
            "invalid_rounds": kernel.get("invalid_rounds", 0),
            "log_ratios": [r.get("log_ratio", 0) for r in kernel.get("round_results", [])]}


def main():
    parser = parser_for(__doc__, PARTS)
    parser.add_argument("--limit-s", type=float, default=0, help="of each part")
    parser.add_argument("--seed", type=int, default=20261121)
    parser.add_argument("--draws", type=parse_draws, default={}, help="PERCENT:DRAWS,...")
    parser.add_argument("--merge", nargs="*", default=[], metavar="FILE", help="files of other sessions")
    parser.add_argument("--quick", action="store_true", help="a small try that proves nothing")
    parser.add_argument("--again", action="store_true", help="also the parts that the file has")
    arguments = parser.parse_args()
    passed = []
    with Service(arguments.bin, arguments.device) as service:
        study = Study(service, arguments)
        for part, limit in PARTS.items():
            if arguments.parts and part not in arguments.parts:
                continue
            study.limit, study.started = arguments.limit_s or limit, time.monotonic()
            passed.append(study.report.measure(part, getattr(study, part), arguments.again))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    raise SystemExit(main())
