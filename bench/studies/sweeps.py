#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures sweeps by the installed programs: their rate, what hostile variants cost them, and the winners of the catalogue.

    bench/studies/sweeps.py --bin build/release/bin --out h200.json [PART ...]

rate: variants a second from request to stored record, with a cold and a warm compile cache. faults: one variant in ten
faults, hangs or is wrong. winners: the rate of each kernel's best config at large problems, --budget for each. Parts and
problems that are in the file already are left out.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Report, Service, config_text, parser_for  # noqa: E402

# First a problem of each kernel, then the ends of their ranges.
WINNERS = [
    "softmax rows=131072 cols=4096", "softmax rows=2048 cols=262144", "rope seq=4096 batch=8 heads=32 kv_heads=32",
    "attention batch=4 heads=16 kv_heads=16 seq=4096 head_dim=128 causal=0",
    "attention batch=4 heads=16 kv_heads=16 seq=4096 head_dim=128 causal=1", "rmsnorm rows=65536 cols=4096",
    "cross_entropy rows=8192 cols=131072", "softmax_backward rows=65536 cols=4096", "rmsnorm_backward rows=65536 cols=4096",
    "layernorm rows=65536 cols=4096", "swiglu rows=8192 cols=14336", "adamw n=268435456", "adamw_list",
    "layernorm_backward rows=65536 cols=4096", "qk_norm_rope seq=4096 batch=8", "qk_norm_rope_backward seq=4096 batch=8",
    "attention_decode batch=16 seq=8192", "swiglu_backward rows=8192 cols=14336", "softmax rows=32768 cols=16384",
    "rmsnorm rows=65536 cols=4096 residual=1", "rmsnorm rows=1024 cols=262144", "softmax_backward rows=1024 cols=262144",
    "rmsnorm_backward rows=1024 cols=262144", "layernorm rows=1024 cols=262144", "cross_entropy rows=4096 cols=262144",
    "adamw n=268435456 master=1", "cross_entropy rows=8192 cols=131072 gradient=0",
    "rope seq=4096 batch=8 kv_heads=32 backward=1"]


def summary(sweep):
    """The figures of a sweep that pages quote."""
    progress, result = sweep.get("progress", {}), sweep.get("result")
    short = {"outcomes": progress.get("outcomes", {}), "done": int(progress.get("done", 0)),
             "elapsed_seconds": progress.get("elapsed_seconds"), "wall_seconds": sweep["wall_seconds"]}
    if result:
        best = result["best"]
        measured = {name: value for name, value in best["measurement"].items() if name != "samples_ns"}
        short |= {"config": config_text(best["config"]), "measurement": measured, "telemetry": best.get("telemetry", {}),
                  "speedup_over_default": result.get("speedup_over_default"), "ceiling": result.get("ceiling"),
                  "tie_count": len(result.get("ties", [])), "confirm_rounds": result.get("confirm_rounds")}
    return short


def rate(service, report, arguments):
    service.sweep(ROOT / "docs/examples/saxpy/saxpy.textproto")  # measures the ceilings once
    for name, flags in (("rate.cold_compile_cache", ()), ("rate.warm_compile_cache", ("--fresh",))):
        figure = summary(service.sweep("softmax", {"rows": 8192, "cols": 4096}, *flags))
        figure["variants_per_second"] = figure["done"] / figure["wall_seconds"]
        report.note(name, figure, f"{figure['variants_per_second']:.1f} variants/s, {figure['done']} variants in "
                    f"{figure['wall_seconds']:.2f} s; {figure['outcomes']}")


def faults(service, report, arguments):
    clean, hostile = (summary(service.sweep(ROOT / "bench/hostile/hostile.textproto", {"planted": planted}))
                      for planted in (0, 1))
    hangs, extra = int(hostile["outcomes"].get("timed_out", 0)), hostile["wall_seconds"] - clean["wall_seconds"]
    figure = {"clean": clean, "hostile": hostile, "hangs": hangs, "extra_seconds_per_hang": extra / hangs if hangs else None,
              "same_winner": clean.get("config") == hostile.get("config"),
              "good_variants_lost": int(clean["outcomes"]["ok"]) - int(hostile["outcomes"]["ok"])}
    report.note("faults", figure, f"lost {figure['good_variants_lost']} good variants, same winner {figure['same_winner']}, "
                f"{hostile['outcomes']}, {hangs} hangs, {extra:.1f} s more than without")


def winners(service, report, arguments):
    for text in WINNERS:
        kernel, *pairs = text.split()

        def measured(kernel=kernel, pairs=pairs):
            sweep = service.sweep(kernel, dict(pair.split("=") for pair in pairs), "--budget", arguments.budget, timeout=200)
            figure = summary(sweep)
            done = figure["measurement"]
            share = max(done.get(f"{unit}_per_second", 0) for unit in ("bytes", "flops")) / figure["ceiling"]
            return {**figure, "text": f"{done['latency_ns_median'] / 1e3:.1f} us, {share:.3f} of the ceiling; "
                    f"{figure['config']}"}
        report.measure(f"winner.{text}", measured)


PARTS = {"rate": rate, "faults": faults, "winners": winners}


def main():
    parser = parser_for(__doc__, PARTS)
    parser.add_argument("--budget", default="16s", help="of each sweep of `winners` (default %(default)s)")
    arguments = parser.parse_args()
    with Service(arguments.bin, arguments.device) as service:
        report = Report(arguments.out, device=service.about_device())
        for part in arguments.parts or PARTS:
            try:
                PARTS[part](service, report, arguments)
            except (RuntimeError, LookupError) as error:  # the other parts still count
                report.note(part, {"error": str(error)[-2000:]})


if __name__ == "__main__":
    main()
