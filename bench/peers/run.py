#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures kernels of the catalogue by turns with their peers, by `tunectl.compare`, and writes rows of docs/results.

    bench/peers/run.py --list
    bench/peers/run.py --seconds 1500 --family gemm,attention --out rows.jsonl

A daemon of its own sweeps each problem before. The families take turns, so that a run that ends early has the first cases
of each. A row has our time with its interval, the peers' times, and their ratios to ours with intervals.
"""
import argparse
import contextlib
import datetime
import itertools
import json
import os
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import cases  # noqa: E402
import harness  # noqa: E402

import tunectl  # noqa: E402

SECONDS_MIN = 10  # that a case is begun with


def chosen(arguments):
    """(family, case) of what the flags name, by turns."""
    lists = []
    for family in arguments.family:
        lists.append([(family, case) for case in cases.FAMILIES[family]
                      if not arguments.case or arguments.case in f"{case.name} {case.subject}"])
    return [one for turn in itertools.zip_longest(*lists) for one in turn if one]


def sweep(service, case, budget):
    """Tunes all kernels of the case. A kernel that finds nothing takes part with its default."""
    if budget == "0":
        return
    for name in (case.kernel, *case.also):
        with contextlib.suppress(RuntimeError):
            service.sweep(name.rpartition("=")[2], case.dims, "--dtype", case.dtype, "--budget", budget)


def compare(arguments, case, arrays, seconds):
    """The figures at the case's size, and by label why a peer is missing or wrong. `arrays`: as of tunectl.compare."""
    peers = {name: peer for name, peer in case.peers.items() if name not in arguments.without}
    dim, sizes = case.sizes
    dims = {name: size for name, size in case.dims.items() if name != dim}
    row = tunectl.compare([case.kernel, *case.also], peers, dtype=case.dtype, device=arguments.device, sweep={dim: sizes},
                          rounds=arguments.rounds, leg_seconds=arguments.leg_seconds,
                          peer_seconds=arguments.peer_seconds, warm=arguments.warm, arrays=arrays, allow_wrong=True,
                          timeout=seconds, **dims)
    every = tunectl.figures(row)
    full = [one for one in every if all(one["problem"][dim] == size for dim, size in case.dims.items())]
    wrong = {}
    for one in every:
        if one["outcome"] != "ok":
            wrong[one["label"]] = one["message"]
        elif one["agreement"] == "wrong_result":
            wrong[one["label"]] = one["agreement_message"]
    return full, wrong


def row_of(run, case, figures, wrong):
    """A row of docs/results. Peers whose results are wrong have no time in it."""
    ours, others = figures[0], [one for one in figures[1:] if one["label"] not in wrong and one["time_ns"]]
    work = {"flop": ours["flops"]} if case.name in ("attention", "attention_backward", "gemm") \
        else {"bytes": ours["bytes"]}
    row = {"run": run, "metric": "time", "kernel": case.name, "subject": case.subject, "value": micro(ours["time_ns"]),
           "unit": "us", "low": micro(ours["time_low_ns"]), "high": micro(ours["time_high_ns"]), "n": ours["n"], **work,
           "against": {one["label"]: [micro(one["time_ns"])] for one in others},
           "ratios": {one["label"]: [round(one[key], 4) for key in ("ratio", "ratio_low", "ratio_high")]
                      for one in others if one["ratio"]},
           "config": harness.config_text(ours["config"] or {})}
    clocks = {one["label"]: one["clock"] for one in others if one["clock"] != ours["clock"]}
    return {**row, **({"clocks": clocks} if clocks else {}), **({"missing": wrong} if wrong else {})}


def micro(nanoseconds):
    return round(nanoseconds / 1e3, 3)


def run_row(run, arguments, figures, dtypes):
    """Describes a family's run; it stands above the family's rows."""
    versions = list(dict.fromkeys(part for one in figures for part in one["versions"].split(", ")))
    return {"run": run, "device": figures[0]["device"], "driver": figures[0]["driver"],
            "date": datetime.date.today().isoformat(), "versions": ", ".join(versions), "clock": figures[0]["clock"],
            "cache": "warm" if arguments.warm else "flushed by reads before each call",
            **({"dtype": dtypes.pop()} if len(dtypes) == 1 else {}), "source": "bench/peers/run.py"}


def measure(arguments, service, out):
    """The number of cases that failed or were left out."""
    ends, told, failed = time.monotonic() + arguments.seconds, set(), 0
    harness.use_messages_of(service.bin.parent)
    os.environ.update({name: service.env[name] for name in ("TUNE_ADDRESS", "TUNE_STATE_DIR", "TUNE_CACHE_DIR")})
    arrays = "numpy" if service.about_device()["clock"] == "CLOCK_HOST" else "torch"
    for family, case in chosen(arguments):
        name, left = f"{family}: {case.name} {case.subject}", ends - time.monotonic()
        if left < SECONDS_MIN:
            print(f"{name}: no time left", flush=True)
            failed += 1
            continue
        try:
            sweep(service, case, arguments.budget)
            figures, wrong = compare(arguments, case, arrays, max(1.0, ends - time.monotonic()))
            if not figures or not figures[0]["time_ns"]:
                raise RuntimeError(figures[0]["message"] if figures else "the comparison ended before it was measured")
        except (RuntimeError, ValueError, tunectl.DaemonError) as error:  # the other cases still count
            print(f"{name}: {error}", flush=True)
            failed += 1
            continue
        run = f"{arguments.run}:{family}"
        rows = [] if run in told else [run_row(run, arguments, figures, {one.dtype for one in cases.FAMILIES[family]})]
        told.add(run)
        rows.append(row_of(run, case, figures, wrong))
        out.write("".join(json.dumps(row) + "\n" for row in rows))
        out.flush()
        ratios = ", ".join(f"{label} {ratio[0]:.3f}" for label, ratio in rows[-1]["ratios"].items())
        print(f"{name}: {rows[-1]['value']} us; times of ours: {ratios}"
              + "".join(f"\n  {label}: {why}" for label, why in wrong.items()), flush=True)
    return failed


def families(text):
    names = [name for name in text.split(",") if name]
    unknown = set(names) - set(cases.FAMILIES)
    if unknown:
        raise argparse.ArgumentTypeError(f"no family {', '.join(sorted(unknown))}; there is: {', '.join(cases.FAMILIES)}")
    return names


def main():
    parser = harness.parser_for(__doc__, out=False)
    parser.add_argument("--family", type=families, default=[name for name in cases.FAMILIES if name != cases.ANY_HOST],
                        metavar="NAME,...", help=f"of {', '.join(cases.FAMILIES)} (default: all but {cases.ANY_HOST})")
    parser.add_argument("--case", default="", metavar="TEXT", help="only cases with the text in their kernel or problem")
    parser.add_argument("--seconds", type=float, default=1500, help="for all cases together (default %(default)g)")
    parser.add_argument("--budget", default="10s", help="of each problem's sweep; 0: no sweep (default %(default)s)")
    parser.add_argument("--peer-seconds", type=float, default=90, help="of a peer's turn, its compilation included "
                        "(default %(default)g)")
    parser.add_argument("--rounds", type=int, default=5, help="of a comparison (default %(default)s)")
    parser.add_argument("--leg-seconds", type=float, default=0.05, help="kernel time of a turn (default %(default)g)")
    parser.add_argument("--warm", action="store_true", help="leave the caches as the launch before left them")
    parser.add_argument("--without", action="append", default=[], metavar="PEER", help="leave a peer out; repeatable")
    parser.add_argument("--run", default=f"run-{datetime.date.today().isoformat()}", help="name of the run in the rows")
    parser.add_argument("--out", default="peers.jsonl", help="file that rows are appended to (default %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the cases, and measure nothing")
    arguments = parser.parse_args()
    if arguments.list:
        for family, case in chosen(arguments):
            print(f"{family}: {case.name} {case.subject} {case.dtype}: {', '.join([*case.also, *case.peers])}")
        return 0
    with harness.Service(arguments.bin, arguments.device) as service, open(arguments.out, "a", encoding="utf-8") as out:
        return 1 if measure(arguments, service, out) else 0


if __name__ == "__main__":
    sys.exit(main())
