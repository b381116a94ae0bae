# SPDX-License-Identifier: Apache-2.0
"""How far a sweep is: a bar and a plot in a notebook, a line that is written over in a terminal, else its last line alone."""
from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Optional

from ._plot import Course

_WIDTH = 24
_LINE_MAX = 120
_UNFINISHED = ("queued", "waiting", "running")


def share_done(row: Mapping[str, Any]) -> float:
    """Of a sweep's row, from 0 to 1, by its budget of trials or of seconds."""
    if row["state"] not in _UNFINISHED:
        return 1.0
    progress = row.get("progress") or {}
    budget = row.get("budget") or {}
    planned, seconds = progress.get("planned") or 0, budget.get("seconds") or 0
    by_trials = progress.get("done", 0) / planned if planned else 0.0
    by_time = progress.get("elapsed_seconds", 0) / seconds if seconds else 0.0
    return float(min(1.0, max(by_trials, by_time)))


def text_of(row: Mapping[str, Any]) -> str:
    """Of a sweep's row: "sweep 7 of softmax: running, 120 configs, best 4.21 us". A sweep that has ended with a result
    shows that, which the record has: "latency 4.30 us (the best of the search alone: 4.21 us)"."""
    progress = row.get("progress") or {}
    text = f"sweep {row['id']} of {row['kernel_name']}: {row['state']}"
    if progress.get("done"):
        text += f", {progress['done']} configs"
    confirmed = ((row.get("result") or {}).get("best") or {}).get("measurement") or {}
    best = progress.get("best_latency_ns")
    if confirmed.get("latency_ns_median"):
        text += f", latency {confirmed['latency_ns_median'] / 1e3:.2f} us"
        text += f" (the best of the search alone: {best / 1e3:.2f} us)" if best else ""
    elif best:
        text += f", best {best / 1e3:.2f} us"
    if row.get("message"):
        text += f"; {row['message']}"
    return "".join(c if c.isprintable() else "?" for c in text)


def _notebook() -> Optional[Any]:
    """IPython.display, where what is displayed is seen by a browser."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython import display  # type: ignore[import-not-found,unused-ignore]

    return display


class _Picture:
    """A sweep as a notebook shows it while it runs: a bar, a line of text, and the plot of its trials."""

    def __init__(self, row: Mapping[str, Any], course: Course) -> None:
        self._row, self._course = row, course

    def __repr__(self) -> str:
        return text_of(self._row)

    def _repr_html_(self) -> str:
        return (f'<progress max="1" value="{share_done(self._row):.3f}" style="width: 16em"></progress> '
                f"{html.escape(text_of(self._row))}<div>{self._course.svg()}</div>")


class Bar:
    """To be called with rows, the last of which has ended, and the trials since the last call."""

    def __init__(self) -> None:
        self._display = _notebook()
        self._handle: Any = None
        self._course = Course()

    def __call__(self, row: Mapping[str, Any], trials: Iterable[Mapping[str, Any]] = ()) -> None:
        if self._display is not None:
            self._course.add(trials)
            self._show(_Picture(row, self._course))
        elif sys.stderr.isatty():
            filled = round(_WIDTH * share_done(row))
            line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {text_of(row)}"[:_LINE_MAX]
            sys.stderr.write(f"\r{line}\x1b[K" + ("" if row["state"] in _UNFINISHED else "\n"))
            sys.stderr.flush()
        elif row["state"] not in _UNFINISHED:
            print(text_of(row), file=sys.stderr)

    def lacks_trials(self, row: Mapping[str, Any]) -> bool:
        """Has the sweep more trials than the plot?"""
        return self._display is not None and len(self._course) < (row.get("progress") or {}).get("done", 0)

    def _show(self, picture: _Picture) -> None:
        assert self._display is not None
        if self._handle is None:
            self._handle = self._display.display(picture, display_id=True)
        else:
            self._handle.update(picture)
