# SPDX-License-Identifier: Apache-2.0
"""Figures and messages as people read them: those of client/report/format.cc, in Python."""
from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Mapping
from typing import Any

Fields = Mapping[str, Any]  # a message as a dict: a sweep's row, its measurement


def counted(count: int, one: str, many: str = "") -> str:
    """"1 trial", "2 trials"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def _short(value: float) -> str:
    """Three to four significant digits."""
    return f"{value:.{0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3}f}"


def latency(nanoseconds: float) -> str:
    """"35.20 us"."""
    if nanoseconds < 1e3:
        return f"{nanoseconds:.0f} ns"
    unit, name = (1e3, "us") if nanoseconds < 1e6 else (1e6, "ms") if nanoseconds < 1e9 else (1e9, "s")
    return f"{_short(nanoseconds / unit)} {name}"


def duration(seconds: float) -> str:
    """"9.5 s", "3 min 20 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole // 60 % 60} min"


def bandwidth(bytes_per_second: float) -> str:
    return f"{_short(bytes_per_second / 1e9)} GB/s"


def flop_rate(flops_per_second: float) -> str:
    if flops_per_second < 1e12:
        return f"{_short(flops_per_second / 1e9)} GFLOP/s"
    return f"{_short(flops_per_second / 1e12)} TFLOP/s"


def si(value: float, unit: str) -> str:
    """"3.81 TB/s"."""
    prefixes = ["", "k", "M", "G", "T", "P"]
    while value >= 1000 and len(prefixes) > 1:
        value, prefixes = value / 1000, prefixes[1:]
    return f"{value:.0f} {prefixes[0]}{unit}" if value >= 999.5 else f"{value:.3g} {prefixes[0]}{unit}"


def percent(fraction: float) -> str:
    return f"{fraction * 100:.1f} %" if fraction < 10 else f"{fraction:.0f} times"


def when(unix_ms: int) -> str:
    """"2026-01-31 17:45", local time."""
    return f"{datetime.datetime.fromtimestamp(unix_ms / 1e3):%Y-%m-%d %H:%M}" if unix_ms else "-"


def moment(unix_ms: int) -> datetime.datetime | None:
    """None: it has not come."""
    return datetime.datetime.fromtimestamp(unix_ms / 1e3, datetime.timezone.utc) if unix_ms else None


def value(one: Any) -> str:
    return repr(one).removesuffix(".0") if isinstance(one, float) else str(one)


def config(params: Fields, fixed: Collection[str] = ()) -> str:
    """"BLOCK_M=64 STAGES=2", without the params that have one possible value, unless all have."""
    shown = {name: one for name, one in params.items() if name not in fixed} or params
    return " ".join(f"{name}={value(one)}" for name, one in shown.items())


def dims(problem: Fields) -> dict[str, int]:
    """Those of a problem, without its dtype."""
    return {name: size for name, size in problem.items() if name != "dtype"}


def problem(sizes: Fields) -> str:
    """"rows=8192 cols=4096 bf16"."""
    return " ".join([*(f"{name}={size}" for name, size in dims(sizes).items()), str(sizes.get("dtype", ""))])


def telling_line(message: str) -> str:
    """The line of a compiler's log, or of another message, that says what is wrong: the first with an error."""
    lines = message.split("\n")
    found = next((line for line in lines if "error" in line), lines[0])
    which = re.match(r".*?_failed: ", lines[0])
    return found if found is lines[0] or which is None else which[0] + found


def interval(measurement: Fields, rounds: int | None) -> str:
    """Of a latency that was measured in so many rounds; None: their number is not known."""
    if rounds == 1:
        return "one round, so no interval"
    span = f"{latency(measurement['latency_ns_low'])} to {latency(measurement['latency_ns_high'])}"
    if rounds is None:
        return f"spread {span}"
    return f"its rounds are at {span}" if 1 < rounds < 6 else f"95 % interval {span}"


def too_noisy(measurement: Fields) -> str:
    width = measurement["latency_ns_high"] - measurement["latency_ns_low"]
    share = width / measurement["latency_ns_median"]
    return (f"the host was too noisy to tell how fast it is: the interval is {percent(share)}"
            f"{' of' if share < 10 else ''} the latency wide; sweep again when it is quiet")
