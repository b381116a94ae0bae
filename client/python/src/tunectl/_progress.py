# SPDX-License-Identifier: Apache-2.0
"""How far a sweep is: a bar in a notebook, a line that is written over in a terminal, else its last line alone."""
from __future__ import annotations

import html
import sys
from collections.abc import Mapping
from typing import Any, Optional

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


class Bar:
    """To be called with rows, the last of which has ended."""

    def __init__(self) -> None:
        self._display = _notebook()
        self._handle: Any = None

    def __call__(self, row: Mapping[str, Any]) -> None:
        if self._display is not None:
            self._show(row)
        elif sys.stderr.isatty():
            filled = round(_WIDTH * share_done(row))
            line = f"[{'#' * filled}{'.' * (_WIDTH - filled)}] {text_of(row)}"[:_LINE_MAX]
            sys.stderr.write(f"\r{line}\x1b[K" + ("" if row["state"] in _UNFINISHED else "\n"))
            sys.stderr.flush()
        elif row["state"] not in _UNFINISHED:
            print(text_of(row), file=sys.stderr)

    def _show(self, row: Mapping[str, Any]) -> None:
        assert self._display is not None
        shown = self._display.HTML(f'<progress max="1" value="{share_done(row):.3f}" style="width: 16em"></progress> '
                                   f"{html.escape(text_of(row))}")
        if self._handle is None:
            self._handle = self._display.display(shown, display_id=True)
        else:
            self._handle.update(shown)
