# SPDX-License-Identifier: Apache-2.0
"""Writes the RoPE experiment's page and pictures from its figures."""
import math

LINES = (("rope", "CUDA", "#1f6feb"), ("rope_triton", "Triton", "#d29922"), ("compile", "torch.compile", "#2da44e"),
         ("eager", "eager PyTorch", "#cf222e"))
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 64, 32, 150, 48
AXES = {"seq": "sequence length", "heads": "heads of 128 (kv heads: a quarter)", "batch": "batch"}


def latency(row, key):
    return (row.get(key) or {}).get("latency_ns_median")


def rate(row, key):
    """Bytes that the function must move, over the time it took."""
    time = latency(row, key)
    return row["work_bytes"] / time if time and "work_bytes" in row else None  # GB/s


def along(result, axis, backward):
    """The rows that differ from the base shape in this dim alone, by its size."""
    def belongs(problem):
        fixed = {dim: size for dim, size in result["base"].items()
                 if dim != axis and not (axis == "heads" and dim == "kv_heads")}
        return problem["backward"] == backward and all(problem[dim] == size for dim, size in fixed.items())
    rows = [row for row in result["rows"] if belongs(row["problem"]) and "work_bytes" in row]
    return sorted(rows, key=lambda row: row["problem"][axis])


def picture(rows, axis, title):
    sizes = [row["problem"][axis] for row in rows]
    roof = max(row["ceiling_bytes_per_second"] for row in rows) / 1e9
    top = math.ceil(max([roof] + [rate(row, key) or 0 for row in rows for key, _, _ in LINES]) / 500) * 500
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])
    x = lambda size: LEFT + (math.log2(size) - low) / max(high - low, 1e-9) * (WIDTH - LEFT - RIGHT)
    y = lambda value: HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
             f'font-size="12"><rect width="100%" height="100%" fill="#ffffff"/>',
             f'<text x="{LEFT}" y="18" font-weight="bold">{title}</text>']
    for value in range(0, top + 1, 1000):
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#d8dee4"/>'
                     f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    for size in sizes:
        parts.append(f'<text x="{x(size):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{size}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">{AXES[axis]}</text>'
                 f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">GB/s</text>')
    parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(roof):.1f}" y2="{y(roof):.1f}" stroke="#57606a" '
                 f'stroke-dasharray="5 4"/>')
    labels = [(roof, "copy", "#57606a")]
    for key, label, colour in LINES:
        found = [(x(row["problem"][axis]), y(rate(row, key)), rate(row, key)) for row in rows if rate(row, key)]
        if not found:
            continue
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _ in found)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py, _ in found]
        labels.append((found[-1][2], label, colour))
    at = HEIGHT
    for value, label, colour in sorted(labels):  # upwards, none over another
        at = min(y(value) + 4, at - 14)
        parts.append(f'<text x="{WIDTH - RIGHT + 8}" y="{at:.1f}" fill="{colour}">{label}</text>')
    return "\n".join(parts) + "\n</svg>\n"


def spread(figure):
    """Half of the interval of ours, of the distance between a peer's two legs, in percent of the time."""
    if figure.get("latency_ns_high"):
        width = figure["latency_ns_high"] - figure["latency_ns_low"]
    else:
        width = max(figure["legs_ns"]) - min(figure["legs_ns"])
    return 50 * width / figure["latency_ns_median"]


def cell(row, key):
    if not latency(row, key):
        return "failed"
    return f"{latency(row, key) / 1e3:.1f} ± {spread(row[key]):.1f} %"


def ratio(row, key):
    """How many times as long as CUDA's kernel it takes."""
    return f"{latency(row, key) / latency(row, 'rope'):.3f}" if latency(row, key) and latency(row, "rope") else "-"


def table(result, axis, backward):
    head = [AXES[axis].split(" (")[0], *[label for _, label, _ in LINES], *[f"{label} / CUDA" for _, label, _ in LINES[1:]], "copy share"]
    lines = ["| " + " | ".join(head) + " |", "| --- " * len(head) + "|"]
    for row in along(result, axis, backward):
        share = rate(row, "rope") * 1e9 / row["ceiling_bytes_per_second"] if rate(row, "rope") else 0
        cells = [str(row["problem"][axis]), *[cell(row, key) for key, _, _ in LINES],
                 *[ratio(row, key) for key, _, _ in LINES[1:]], f"{share:.3f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def saved(result):
    """Bytes and time of the base shape, whole function and operator by operator."""
    lines = ["| | must move | counted, CUDA | counted, Triton | eager's operators | kernels of eager, compiled | time saved over eager |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for way, name in ((0, "forward"), (1, "backward")):
        row = next(r for r in along(result, "seq", way) if r["problem"]["seq"] == result["base"]["seq"])
        eager, compiled = row.get("eager", {}), row.get("compile", {})
        gain = f"{(latency(row, 'eager') - latency(row, 'rope')) / 1e3:.0f} us" if latency(row, "eager") else "-"
        operators = f"{eager['operator_bytes'] / 1e6:.0f} MB" if "operator_bytes" in eager else "-"
        counted = [dram_bytes(result["counted"].get(f"{kernel}.{way}", {})) for kernel in ("rope", "rope_triton")]
        lines.append(f"| {name} | {row['work_bytes'] / 1e6:.0f} MB | {counted[0]} | {counted[1]} | {operators} | "
                     f"{eager.get('kernels', '-')}, {compiled.get('kernels', '-')} | {gain} |")
    return "\n".join(lines)


def dram_bytes(counted):
    moved = float(counted.get("dram_read_bytes", 0)) + float(counted.get("dram_write_bytes", 0))
    return f"{moved / 1e6:.0f} MB" if moved else "not counted"


def write_page(result, folder):
    folder.mkdir(parents=True, exist_ok=True)
    device = result.get("device", {})
    base = ", ".join(f"{dim} {size}" for dim, size in result["base"].items())
    compilers = {row[kernel]["compiler"] for row in result["rows"] for kernel in ("rope", "rope_triton") if kernel in row}
    errors = [row[peer]["error"] for row in result["rows"] for peer in ("eager", "compile")
              if isinstance((row.get(peer) or {}).get("error"), float)]
    agree = all(row[k]["outcome"] == row[k]["agreement"] == "OUTCOME_OK"
                for row in result["rows"] for k in ("rope", "rope_triton") if k in row)
    page = [INTRODUCTION.format(
        device=result["torch"].get("device", "?"), driver=device.get("device", device).get("driver", "?"),
        torch=result["torch"].get("torch", "?"), compilers=", ".join(sorted(compilers)), date=result["date"][:10],
        base=base, error=max(errors, default=math.nan),
        agree="All results of both kernels agreed with their reference and with each other." if agree
        else "Some results did not agree: see the file.")]
    page.append("## What fusing saves\n\n" + saved(result) + "\n\n" + COUNTED)
    for way, name in ((0, "Forward"), (1, "Backward")):
        page.append(f"## {name}\n")
        for axis in AXES:
            rows = along(result, axis, way)
            if not rows:
                continue
            file = f"rope-{name.lower()}-{axis}.svg"
            (folder / file).write_text(picture(rows, axis, f"RoPE {name.lower()}, bf16: rate over {AXES[axis]}"))
            page.append(f"![{name}: rate over {AXES[axis]}]({file})\n\n" + table(result, axis, way) + "\n")
    (folder / "rope.md").write_text("\n".join(page))


INTRODUCTION = """# One function in four forms: RoPE

Rotary position embedding of q and k in bf16, forward and backward: our kernel in CUDA C++ (`kernels/rope`), our kernel in Triton
(`kernels/rope_triton`), the usual lines of PyTorch run eagerly, and the same lines through `torch.compile` (max-autotune).

```
$ bench/rope/experiment.py run --out rope.json
$ bench/rope/experiment.py page rope.json
```

{device}, driver {driver}, PyTorch {torch}, {compilers}; {date}. Base shape: {base}. Both kernels were tuned for it, forward and
backward; other shapes took the config that `tunectl best` names for them. Times are microseconds. The cache is cold, the clock is CUPTI's, from the
first kernel's start to the last one's end. PyTorch was measured before and after ours at each point: ± is half of the
distance of these two, and half of the 95 % interval of ours. {agree} PyTorch was checked against float64: it computes in bf16,
and is off by {error:.3g} at most.
"""

COUNTED = """Must move: each element read once and written once. Counted: what the card's counters say went between its memory and L2. Eager's
operators: what each reads and writes, added up as they run.
"""
