#!/usr/bin/env python3
# Copyright tunectl authors. SPDX-License-Identifier: Apache-2.0
"""Writes the tables and the chart that quote docs/results/results.jsonl.

    tools/results.py --check    fails if a quoted figure differs from the table, or a link names no raw file
    tools/results.py --write    rewrites the blocks between the markers, and docs/images/figures.svg

A block is the text between <!-- results: SPEC --> and <!-- end -->. docs/results/README.md describes the rows and SPEC.
"""
import argparse
import html
import json
import math
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "docs/results/results.jsonl"
CHART = "docs/images/figures.svg"
BLOCK = re.compile(r"(<!-- results: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
RAW_LINK = re.compile(r"results/((?:recordings/)?[\w.-]+\.(?:jsonl|json|txt|md))\b")
NAMES = {"ours": "ours", "cudnn": "cuDNN", "cublas": "cuBLAS", "cublaslt_gelu": "cuBLASLt", "flash2": "FA 2", "flash4": "FA 4",
         "flashinfer": "FlashInfer", "quack": "QuACK", "liger": "Liger", "triton": "Triton", "compile": "`torch.compile`",
         "eager": "PyTorch's own functions", "scaled_mm": "PyTorch", "copy": "a copy", "read": "read", "best": "the best peer",
         "sequence": "the sequence", "torch_fused": "`torch.optim`, fused", "foreach": "`torch.optim`, foreach", "flex": "FlexAttention"}
FIRST = {"attention": "batch x heads x seq x head_dim", "attention_backward": "batch x heads x seq x head_dim",
         "attention_decode": "batch x keys", "gemm": "m x n x k"}
NO_PEERS = {"copy", "read", "sequence", "compile", "eager"}  # never "the best peer" of a product
SCALES = {"TFLOP/s": ("flop", 1e6), "TB/s": ("bytes", 1e6)}  # of work / us


class Table:
    def __init__(self, path):
        self.runs, self.rows = {}, []
        for number, line in enumerate(path.read_text().splitlines(), 1):
            row = json.loads(line)
            if "metric" not in row:
                self.runs[row["run"]] = row
            elif row["run"] not in self.runs or "value" not in row or "unit" not in row:
                raise SystemExit(f"{TABLE}:{number}: a row needs value, unit and a run that is defined above it")
            else:
                self.rows.append(row)

    def figures(self, kernel, runs, metric="time", has="", lacks=None):
        """By subject, in the order of the runs; a later run replaces an earlier one's subject."""
        for run in runs:
            if run not in self.runs:
                raise SystemExit(f"{TABLE} has no run {run}")
        found = {}
        for run in runs:
            for row in self.rows:
                if (row["run"], row.get("kernel"), row["metric"]) == (run, kernel, metric) and has in row["subject"] \
                        and (not lacks or lacks not in row["subject"]):
                    found[row["subject"]] = row
        return found

    def value(self, run, metric, subject, who=None):
        rows = [row for row in self.rows
                if (row["run"], row["metric"], row.get("who")) == (run, metric, who) and row["subject"].startswith(subject)]
        if len(rows) != 1:
            raise SystemExit(f"{TABLE} has {len(rows)} rows of {run}, {metric}, {subject}, {who}, not one")
        return rows[0]


def times(row, who):
    """Contender -> (median, spread). `who` is the one that the table is about."""
    every = {"ours": (row["value"], row.get("spread")), **row.get("against", {})}
    return {"ours": every.pop(who), **{("ours" if name == "ours" else name): value for name, value in every.items()}} \
        if who == "ours" else {"ours": every.pop(who), "base": every.pop("ours"), **every}


def over(row, peer, who="ours"):
    every = times(row, who)
    if peer == "best":
        peer = min((name for name in every if name not in NO_PEERS | {"ours", "base"}), key=lambda name: every[name][0])
    if who == "ours" and peer in row.get("ratios", {}):
        return row["ratios"][peer][0]  # round by round, which is more exact than a ratio of medians
    return every[peer][0] / every["ours"][0] if peer in every else None


def geometric_mean(values):
    values = [value for value in values if value]
    return math.exp(sum(map(math.log, values)) / len(values))


def number(value, unit):
    if unit == "TB/s":
        return f"{value:.2f}"
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def cell(row, kind, peer, who):
    every = times(row, who)
    if kind == "over":
        ratio = over(row, peer, who)
        return "none" if ratio is None else f"{ratio:.3f}" if ratio < 10 else f"{ratio:.1f}"
    if kind in SCALES:
        key, scale = SCALES[kind]
        return number(row[key] / every[peer][0] / scale, kind) if peer in every else ""
    if kind == "us":
        return f"{every[peer][0]:.1f} us" if peer in every else ""
    if kind == "spread":
        spreads = [spread for _, *given in every.values() for spread in given if spread is not None]
        return f"{max(spreads) * 100:.1f} %" if spreads else ""
    if kind == "interval":
        return f"{(row['high'] - row['low']) / row['value'] * 100:.1f} %"
    if kind == "copy":
        return f"{row['of_copy']:.3f}"
    return str(row.get(kind, ""))


def columns(parts):
    """[(heading, kind, contender)] of "TB/s ours cudnn", "over cudnn best", "spread", "config"."""
    for kind, *names in map(str.split, parts):
        for name in names or [None]:
            label = NAMES.get(name, "`" + str(name) + "`")
            heading = {"over": f"over {label}", "us": "median", "spread": "widest spread", "interval": "interval",
                       "copy": "of a copy"}.get(kind, f"{label}, {kind}" if kind in SCALES else kind)
            yield heading, kind, name


def markdown(headings, rows):
    return "".join("| " + " | ".join(row) + " |\n" for row in [headings, ["---"] * len(headings), *rows])


def kernel_table(table, spec):
    """KERNEL RUN,RUN [has=TEXT] [lacks=TEXT] [as=CONTENDER] | columns | ..."""
    head, *parts = [part.strip() for part in spec.split("|")]
    kernel, runs, *options = head.split()
    options = dict(option.split("=", 1) for option in options)
    who = options.pop("as", "ours")
    if who != "ours":
        NAMES["base"] = f"`{kernel}`"
    figures = table.figures(kernel, runs.split(","), **options)
    listed = list(columns(parts))
    return markdown([FIRST.get(kernel, "problem"), *(heading for heading, _, _ in listed)],
                    [[subject, *(cell(row, kind, name, who) for _, kind, name in listed)] for subject, row in figures.items()
                     if who in ("ours", *row.get("against", {}))])


def compile_table(table, _):
    before, now = ({row["kernel"]: row for row in table.rows if row["run"] == "compile-nvrtc-2026-11-" + day} for day in ("24", "25-b"))
    goal = {"attention": 90, "attention_backward": 90, "attention_decode": 90, "gemm": 90}
    return markdown(["kernel", "first, ms", "least", "most", "on a slower host, ms", "goal, ms"],
                    [[kernel, *(f"{row[key]:.0f}" for key in ("value", "low", "high")), f"{now[kernel]['value']:.0f}",
                      str(goal.get(kernel, 60))] for kernel, row in sorted(before.items(), key=lambda item: -item[1]["value"])])


def sources_table(table, _):
    made = {}
    for row in table.rows:
        script = table.runs[row["run"]]["source"]
        metrics, runs = made.setdefault(script, ({}, {}))
        metrics[row["metric"]] = runs[row["run"]] = True
    return markdown(["script", "metrics", "runs"],
                    [[f"`{script}`", "; ".join(metrics), str(len(runs))] for script, (metrics, runs) in sorted(made.items())])


def ratios(table):
    """(name, ratio, peer) of the chart and the README: geometric means over the shapes of each kernel."""
    def mean(kernel, runs, peer, lacks=None):
        return geometric_mean(over(row, peer) for row in table.figures(kernel, runs, lacks=lacks).values())
    h200 = "h200-2026-11-26-"
    forward = [h200 + "attention:the-same-configs-beside-flashattention-4"]
    backward = [h200 + "attention-backward", h200 + "attention-backward-b:seven-shapes-after-sweeps-of-6-seconds",
                h200 + "attention-backward-b:four-shapes"]
    products = [h200 + "gemm-b:twelve-shapes-beside-quack-and-triton"]
    return [("attention, 21 shapes", mean("attention", forward, "cudnn"), "cuDNN"),
            ("attention, 21 shapes", mean("attention", forward, "flash4"), "FlashAttention 4"),
            ("attention's gradient, 21 shapes", mean("attention_backward", backward, "cudnn"), "cuDNN"),
            ("attention's gradient, 21 shapes", mean("attention_backward", backward, "flash4"), "FlashAttention 4"),
            ("decode, 12 shapes", mean("attention_decode", [h200 + "decode"], "best"), "the best of cuDNN, FlashAttention 2 and 4"),
            ("gemm, 12 shapes", mean("gemm", products, "cublas"), "cuBLAS")]


def readme_table(table, _):
    rate = [table.value("h200-2026-11-22-f", "sweep rate", f"softmax 8192 x 4096, {state}") for state in ("cold", "warm")]
    lost = table.value("h200-2026-11-22-g", "good variants lost", "90 good variants")
    bias = table.value("trust-h200-2026-11-22", "bias of a winner", "winners of 50")
    alarms = table.value("gate-h200", "false alarms of the gate", "runs of unchanged")
    caught = [table.value("gate-h200", "slowdowns that the gate catches", f"kernels slowed by {size} %") for size in ("3", "2", "1.5")]
    step = {who: [table.value(run, "training step", "124 million", who)["value"]
                  for run in ("h200-2026-11-25-train-a", "h200-2026-11-25-train")] for who in ("tunectl-compile", "torch.compile")}
    steps = {who: " and ".join(f"{value:.1f} ms" for value in values) for who, values in step.items()}
    return markdown(["on H200s", "result", "compared with"], [
        ["variants of softmax 8192 x 4096, from request to stored record", f"{min(row['value'] for row in rate):.0f} a second",
         next(iter(rate[0]["against"].values())) + " by Kernel Tuner and Triton"],
        ["good variants lost beside one in ten that hangs, faults or lies", f"{lost['value']} of {lost['n']}", ""],
        [f"{bias['n']} winners, measured again", f"{-bias['value']:.2f} % faster than reported", ""],
        ["runs of the gate that fail with nothing changed", f"{alarms['value']} of {alarms['n']:,}", ""],
        ["kernels slowed by 1.5 to 3 % that the gate catches", f"{sum(row['value'] for row in caught)} of {sum(row['n'] for row in caught)}", ""],
        ["a training step of 124 million weights, two runs", steps["tunectl-compile"], steps["torch.compile"] + " by `torch.compile`"]])


def chart(table):
    """Bars of the ratios, with a line at 1: as fast as the peer."""
    bars, width, left, top, step, scale = ratios(table), 800, 250, 34, 26, 175
    one, height = left + scale, top + step * len(bars) + 8
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="13">',
           "<title>Rate of tuned kernels over that of peers, geometric means on H200s</title>",
           "<style>text{fill:#24292f}.n{fill:#57606a}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#8b949e}}</style>",
           '<text x="0" y="16" font-weight="bold">Rate of the tuned kernel; the line is the peer\'s</text>']
    for i, (name, ratio, peer) in enumerate(bars):
        y = top + i * step
        out += [f'<text x="0" y="{y + 14}">{html.escape(name)}</text>',
                f'<rect x="{left}" y="{y + 2}" width="{ratio * scale:.1f}" height="16" fill="{"#2f81f7" if ratio >= 1 else "#bf8700"}"/>',
                f'<text x="{left + max(ratio, 1) * scale + 8:.1f}" y="{y + 14}">{ratio:.3f} <tspan class="n">of {html.escape(peer)}</tspan></text>']
    out += [f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{top - 6}" y2="{height - 6}" stroke="#8b949e" stroke-dasharray="3 3"/>', "</svg>"]
    return "\n".join(out) + "\n"


WRITERS = {"compile times": compile_table, "scripts": sources_table, "readme": readme_table}


def render(table, text):
    def block(match):
        spec = match[2].strip()
        return match[1] + WRITERS.get(spec, kernel_table)(table, spec) + match[3]
    return BLOCK.sub(block, text)


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "kernels").glob("*/README.md"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="report blocks and the chart that differ, links without a file, and files without a link")
    mode.add_argument("--write", action="store_true", help="rewrite them")
    write = parser.parse_args().write
    table = Table(ROOT / TABLE)
    wrong, linked = [], set()
    for path, text in [(page, render(table, page.read_text())) for page in pages()] + [(ROOT / CHART, chart(table))]:
        name = path.relative_to(ROOT)
        if not path.exists() or path.read_text() != text:
            if write:
                path.write_text(text)
            else:
                wrong.append(f"{name}: differs from {TABLE}; run tools/results.py --write")
        for link in RAW_LINK.findall(text):
            linked.add(link)
            if not (ROOT / "docs/results" / link).exists():
                wrong.append(f"{name}: links docs/results/{link}, which is not there")
    linked |= {row["raw"] for row in table.rows if "raw" in row}
    for raw in sorted((ROOT / "docs/results").glob("*.*")):
        if raw.name not in linked | {"README.md", "results.jsonl"}:
            wrong.append(f"docs/results/{raw.name}: nothing quotes it")
    print("\n".join(wrong) if wrong else f"{len(table.rows)} rows; all quotes agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
