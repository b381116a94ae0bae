# SPDX-License-Identifier: Apache-2.0
"""The course of a sweep as a picture: a point for each trial and the line of the best so far, as SVG, without matplotlib."""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from . import _format

_WIDTH, _HEIGHT = 560, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 12, 14, 34
_POINTS_MAX = 1500
_TICKS = 4
_LINE, _POINT = "#2f7ed8", "#8fb4de"  # legible on white and on black


class Course:
    """The trials of a search in the order in which they came."""

    def __init__(self) -> None:
        self._times: dict[int, float] = {}  # nanoseconds by trial; 0: it was not ok

    def add(self, trials: Iterable[Mapping[str, Any]]) -> None:
        """Trials that it has already, or that are none of the search, are left out."""
        for trial in trials:
            if trial["purpose"] != "confirm":
                ok = trial["outcome"] == "ok" and trial["measurement"]
                self._times.setdefault(trial["id"], trial["measurement"]["latency_ns_median"] if ok else 0.0)

    def __len__(self) -> int:
        return len(self._times)

    def _numbered(self) -> list[tuple[int, float]]:
        """Numbers, from 1, and times."""
        return list(enumerate((self._times[trial] for trial in sorted(self._times)), 1))

    def best(self) -> list[tuple[int, float]]:
        """The number of each trial that was the best so far, and its time."""
        found: list[tuple[int, float]] = []
        for number, time in self._numbered():
            if time and (not found or time < found[-1][1]):
                found.append((number, time))
        return found

    def svg(self) -> str:
        """"" as long as no trial was ok."""
        best, count = self.best(), len(self._times)
        if not best:
            return ""
        shown = [(number, time) for number, time in self._numbered() if time]
        shown = shown[::math.ceil(len(shown) / _POINTS_MAX)]
        low, high = best[-1][1], max(max(time for _, time in shown), best[0][1], best[-1][1] * 1.1)

        def x(number: float) -> float:
            return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (number - 1) / max(count - 1, 1)

        def y(time: float) -> float:
            return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - math.log(time / low) / math.log(high / low))

        points = "".join(f'<circle cx="{x(number):.1f}" cy="{y(time):.1f}" r="2"/>' for number, time in shown)
        steps = f"M{x(best[0][0]):.1f},{y(best[0][1]):.1f}" + "".join(
            f"H{x(number):.1f}V{y(time):.1f}" for number, time in best[1:]) + f"H{x(count):.1f}"
        return (f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" font-size="11" '
                f'font-family="sans-serif" fill="currentColor" style="max-width: 100%">'
                f'<title>Best so far over trials: {_format.latency(low)} after {count}</title>{_axes(count, low, high, x, y)}'
                f'<g fill="{_POINT}">{points}</g><path d="{steps}" fill="none" stroke="{_LINE}" stroke-width="2"/></svg>')


def _axes(count: int, low: float, high: float, x: Any, y: Any) -> str:
    """Lines at round times of a logarithmic scale, and the numbers of the first and the last trial."""
    floor = _HEIGHT - _BOTTOM
    parts = []
    for i in range(_TICKS):
        time = low * (high / low) ** (i / (_TICKS - 1))
        parts.append(f'<path d="M{_LEFT},{y(time):.1f}H{_WIDTH - _RIGHT}" stroke="currentColor" opacity="0.15"/>'
                     f'<text x="{_LEFT - 6}" y="{y(time) + 4:.1f}" text-anchor="end">{_format.latency(time)}</text>')
    ends = {1: "start", count: "end"} if count > 1 else {1: "start"}
    parts += [f'<text x="{x(number):.1f}" y="{floor + 15}" text-anchor="{anchor}">{number}</text>'
              for number, anchor in ends.items()]
    parts.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{floor + 28}" text-anchor="middle">'
                 f'trials; the line is the best so far</text>')
    return "".join(parts)
