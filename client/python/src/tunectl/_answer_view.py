# SPDX-License-Identifier: Apache-2.0
"""An answer as `tunectl best` prints it, for notebooks."""
from __future__ import annotations

from . import _format
from ._answer import Answer, Launch
from ._view import View


def _launch(launch: Launch) -> str:
    """"grid 128x1x1, block 256x1x1, 4096 B shared"."""
    axes = [("grid", launch.grid), ("block", launch.block)]
    axes += [("cluster", launch.cluster)] if max(launch.cluster, default=1) > 1 else []
    parts = [f"{name} {'x'.join(map(str, sizes))}" for name, sizes in axes]
    return ", ".join([*parts, f"{launch.shared_bytes} B shared"] if launch.shared_bytes else parts)


def view_of(answer: Answer) -> View:
    view = View()
    view.heading(_format.config(answer.config) or "no config")
    match = answer.match.replace("_", " ")  # a reason begins with it, unless it is a default's
    facts = [("match", answer.reason if answer.reason.startswith(match) else f"{match}: {answer.reason}"),
             ("expected", str(answer.expectation)), *(("launch", _launch(launch)) for launch in answer.launches)]
    if answer.latency_ns:
        measured = {f"latency_ns_{name}": getattr(answer, f"latency_ns_{name}") for name in ("low", "high")}
        facts += [("asked", f"{_format.problem({**answer.dims, 'dtype': answer.dtype})}  on {answer.device} ({answer.target})"),
                  ("latency", f"{_format.latency(answer.latency_ns)}   ({_format.interval(measured, None)})"),
                  ("evidence", f"{f'record {answer.record}' if answer.record else 'shipped with tunectl'}, "
                               f"{_format.when(answer.published_unix_ms)}, driver {answer.driver}")]
    view.lines(facts)
    return view
