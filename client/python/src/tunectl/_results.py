# SPDX-License-Identifier: Apache-2.0
"""Results of a daemon or of `tunectl --json`: plain dicts and lists by content, tables by look.

A `Sweep` or a `Comparison` is the dict of its message and prints as in a terminal. `Rows` are lists of such dicts;
`flat()` and `to_frame()` give them one column a figure, those of `tunectl trial list --csv` where that has them.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Optional, SupportsIndex, Union, overload

from . import _format
from ._comparison import Comparison
from ._view import Shown, View, frame_of

__all__ = ["Comparison", "Jobs", "Records", "Rows", "Sweep", "Sweeps", "Trials"]

Row = Mapping[str, Any]
_UNFINISHED = ("queued", "waiting", "running")
_TIES_SHOWN = 3
_ABOVE_ITS_PEAK = 1.05  # beyond the errors of both
# Fields of `tunectl --json` whose values are names of an enum, with its prefix.
_ENUMS = {"state": "JOB_STATE", "outcome": "OUTCOME", "clock": "CLOCK", "cache_mode": "CACHE_MODE", "bound": "BOUND",
          "ceiling_source": "CEILING_SOURCE", "default_standing": "DEFAULT_STANDING", "end": "SWEEP_END",
          "priority": "JOB_PRIORITY", "purpose": "TRIAL_PURPOSE"}
_CONFIGS = ("config", "best_config", "outcomes")  # whose keys are no fields


def of_json(message: Any) -> Any:
    """What `tunectl --json` prints, as the rows of a daemon are: enums in lower case without prefix, problems flat."""
    if isinstance(message, list):
        return [of_json(one) for one in message]
    if not isinstance(message, dict):
        return message
    row = {name: one if name in _CONFIGS else of_json(one) for name, one in message.items()}
    for name in _ENUMS.keys() & row.keys():
        row[name] = str(row[name]).removeprefix(f"{_ENUMS[name]}_").lower()
    if isinstance(row.get("problem"), dict) and isinstance(row["problem"].get("dims"), dict):
        row["problem"] = {**row["problem"]["dims"], "dtype": row["problem"].get("dtype", "")}
    return row


def state_of(sweep: Row) -> str:
    return "interrupted" if sweep.get("interrupted") else str(sweep["state"])


def best_latency(sweep: Row) -> float:
    """Of the result, else of the search so far; 0: there is none."""
    measured = (((sweep.get("result") or {}).get("best") or {}).get("measurement") or {}).get("latency_ns_median")
    return float(measured or (sweep.get("progress") or {}).get("best_latency_ns") or 0)


class Sweep(Shown, dict[str, Any]):
    """A sweep's row, a dict, which prints as `tunectl sweep` does.

    failures  why configs were not ok, by outcome: dicts with `outcome`, `count` and `examples`; empty: not known
    """

    failures: list[dict[str, Any]]

    def __init__(self, row: Row, failures: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(row)
        self.failures = [one for one in failures if one["outcome"] != "ok"]

    def _view(self) -> View:
        view = View()
        if why := self._why_none():
            view.heading(why)
            view.gap()
        view.heading(self["kernel_name"], f"  {_format.problem(self['problem'])}  on {self['device_name'] or self['device_id']} "
                                          f"({self['target']})")
        view.gap()
        result, progress = self.get("result"), self.get("progress") or {}
        if result:
            best = self._result_lines(result)
        elif self["state"] in _UNFINISHED:
            best = [("best", f"{_format.latency(best_latency(self))} so far" if best_latency(self) else "")]
        else:
            best = [("best", f"none: no config was {'ok' if progress.get('done') else 'tried'}")]
        outcomes = ", ".join(f"{count} {name}" for name, count in (progress.get("outcomes") or {}).items())
        view.lines([*best, *self._failure_lines(), ("outcomes", outcomes), ("tried", self._tried(progress)),
                    ("started", self._started()), ("state", self._state()), ("next", self._next())], bold="best")
        return view

    def _result_lines(self, result: Row) -> list[tuple[str, str]]:
        best, fixed = result["best"], self.get("fixed_params") or ()
        measurement, rounds = best["measurement"], result.get("confirm_rounds") or 0
        samples = _format.counted(measurement["sample_count"], "sample")
        if rounds:
            samples += f" in {_format.counted(rounds, 'fresh process', 'fresh processes')}"
        latency = (f"{_format.latency(measurement['latency_ns_median'])}  ({_format.interval(measurement, rounds)}, "
                   f"{samples}, {measurement['clock']} clock, {'warm' if measurement['cache_mode'] == 'warm' else 'cold'} cache)")
        noise = _format.too_noisy(measurement) if result.get("too_noisy") else ""
        return [("best", _format.config(best["config"], fixed)), ("", self._fixed_text(best["config"], fixed)),
                ("latency", latency), ("noise", noise), ("speed", self._speed(result)),
                ("default", self._default(result, fixed)), *self._tie_lines(result.get("ties") or [], fixed)]

    @staticmethod
    def _fixed_text(config: Row, fixed: Collection[str]) -> str:
        hidden = {name: one for name, one in config.items() if name in fixed}
        if not hidden or len(hidden) == len(config):
            return ""
        return f"with {_format.config(hidden)}, which have no other value here"

    @staticmethod
    def _speed(result: Row) -> str:
        measurement, ceiling = result["best"]["measurement"], result.get("ceiling") or 0
        parts = [_format.bandwidth(measurement["bytes_per_second"])] if measurement["bytes_per_second"] else []
        parts += [_format.flop_rate(measurement["flops_per_second"])] if measurement["flops_per_second"] else []
        share = measurement["peak_fraction"]
        if share and ceiling:
            roof = _format.bandwidth(ceiling) if result["bound"] == "memory" else _format.flop_rate(ceiling)
            parts.append(f"{_format.percent(share)} of the {result['ceiling_source']} {result['bound']} peak ({roof})")
            if share > _ABOVE_ITS_PEAK:
                parts[-1] += ", which was measured on a busy host: 'tunectl device ceilings' measures it again"
        return "   ".join(parts)

    @staticmethod
    def _default(result: Row, fixed: Collection[str]) -> str:
        trial, verdict = result.get("default_trial"), str(result.get("default_verdict") or "")
        if not trial or result.get("default_standing") == "same":
            return verdict if trial else ""
        return (f"{_format.latency(trial['measurement']['latency_ns_median'])}  {_format.config(trial['config'], fixed)}; "
                f"{verdict}")

    @staticmethod
    def _tie_lines(ties: list[Any], fixed: Collection[str]) -> list[tuple[str, str]]:
        lines = [("ties" if i == 0 else "", f"{_format.latency(tie['measurement']['latency_ns_median'])}  "
                                            f"{_format.config(tie['config'], fixed)}") for i, tie in enumerate(ties[:_TIES_SHOWN])]
        if len(ties) > _TIES_SHOWN:
            lines.append(("", f"and {len(ties) - _TIES_SHOWN} more"))
        if ties:
            lines.append(("", "cannot be told from the best by time; among such the one with fewer registers is the best, "
                              "then less shared memory, then the first by name"))
        return lines

    def _failure_lines(self) -> list[tuple[str, str]]:
        lines: list[tuple[str, str]] = []
        for one in self.failures:
            lines.append(("" if lines else "failed", f"{one['count']} {one['outcome']}"))
            for example in one["examples"][:1 if self.get("result") else None]:
                lines.append(("", f"{example['count']} like trial {example['trial_id']} ({_format.config(example['config'])}): "
                                  f"{_format.telling_line(example['message'])}"))
        return lines

    def _why_none(self) -> str:
        """Why the sweep has no result, in a line; "": it has one, or nobody knows."""
        if self.get("result") or self["state"] in _UNFINISHED:
            return ""
        if self["state"] == "failed":
            return _format.telling_line(self["message"])
        most = max(filter(lambda one: one["examples"], self.failures), key=lambda one: int(one["count"]), default=None)
        return f"{most['outcome']}: {_format.telling_line(most['examples'][0]['message'])}" if most else ""

    def _tried(self, progress: Row) -> str:
        done, space = progress.get("done") or 0, progress.get("space_size") or 0
        if not done and self["state"] in _UNFINISHED:
            return ""
        text = f"none of {space} configs"
        if done:
            text = f"{done} of {space} configs in {_format.duration(progress.get('elapsed_seconds') or 0)}"
        if progress.get("reused"):
            text += f", {progress['reused']} of them measured earlier"
        if progress.get("worker_restarts"):
            text += f", {_format.counted(progress['worker_restarts'], 'worker restart')}"
        return text + (f"; {self['end_message']}" if self.get("end_message") else "")

    def _started(self) -> str:
        start = self.get("warm_start")
        if not start:
            return ""
        return (f"from {_format.counted(start['observations'], 'observation')} of "
                f"{_format.counted(len(start['sources']), 'earlier source')}")

    def _state(self) -> str:
        state, message = state_of(self), self.get("message")
        return "" if state == "done" and not message else f"{state}: {message}" if message else state

    def _next(self) -> str:
        """The call to make next, in Python."""
        if self["state"] in _UNFINISHED:
            return f"tunectl.wait({self['id']}, progress=True)"
        if self["state"] == "cancelled":
            return "the same call again continues where this stopped"
        if not self.get("result"):
            return f"tunectl.trials({self['id']})" if (self.get("progress") or {}).get("done") else ""
        sizes = "".join(f", {name}={size}" for name, size in _format.dims(self["problem"]).items())
        device = f", device=\"{self['device_id']}\"" if self["device_id"] else ""
        return f"tunectl.best(\"{self['kernel_name']}\"{sizes}, dtype=\"{self['problem']['dtype']}\"{device})"


def _measured(measurement: Optional[Row], *names: str) -> dict[str, Any]:
    """Figures of a measurement by name; None: there is none."""
    return {name: (measurement or {}).get(name) if measurement else None for name in names}


def _beside(fixed: Row, more: Row) -> dict[str, Any]:
    """Dims or params as columns beside others; one whose name is taken has a `_` behind it."""
    return {**fixed, **{f"{name}_" if name in fixed else name: one for name, one in more.items()}}


class Rows(Shown, list[dict[str, Any]]):
    """Plain dicts, the newest first, which print as a table."""

    _TITLES: ClassVar[tuple[str, ...]] = ()
    _EMPTY: ClassVar[str] = "no rows"
    _COLUMNS: ClassVar[tuple[str, ...]] = ()  # of a frame without rows

    def _cells(self, row: Row) -> list[str]:
        """Of the printed table, under _TITLES."""
        raise NotImplementedError

    def _flat(self, row: Row) -> dict[str, Any]:
        raise NotImplementedError

    def _view(self) -> View:
        view = View()
        if self:
            view.table(self._TITLES, [self._cells(row) for row in self])
        else:
            view.note(self._EMPTY)
        return view

    @overload
    def __getitem__(self, at: SupportsIndex) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> Rows: ...

    def __getitem__(self, at: Union[SupportsIndex, slice]) -> Union[dict[str, Any], Rows]:
        """A row, or a part of the table."""
        if not isinstance(at, slice):
            return super().__getitem__(at)
        part = type(self)(super().__getitem__(at))
        part.__dict__.update(self.__dict__)
        return part

    def flat(self) -> list[dict[str, Any]]:
        """Returns dicts without dicts in them: a key a figure, dim or param, the same keys in each. None: it has no such."""
        rows = [self._flat(row) for row in self]
        names = _in_order(rows)
        return [{name: row.get(name) for name in names} for row in rows]

    def to_frame(self) -> Any:
        """Returns a DataFrame of `flat()`. ImportError: pandas is not installed."""
        return frame_of(self.flat(), self._COLUMNS)

    to_pandas = to_frame


def _in_order(rows: Iterable[Row]) -> list[str]:
    """The keys of all rows. A key that a later row has beyond the others' stands behind the one that it follows there."""
    names: list[str] = []
    for row in rows:
        if len(row) == len(names) and all(name in row for name in names):
            continue
        place = 0
        for name in row:
            if name not in names:
                names.insert(place, name)
            place = names.index(name) + 1
    return names


class Trials(Rows):
    """Trials of one sweep. `flat()` has the columns of `tunectl trial list --csv`."""

    _TITLES = ("id", "purpose", "outcome", "median", "bandwidth", "compute", "regs", "config", "message")
    _EMPTY = "no trials"
    _BEFORE = ("id", "purpose", "outcome")
    _MEASURED = ("latency_ns_median", "latency_ns_low", "latency_ns_high", "latency_ns_min", "sample_count", "clock",
                 "bytes_per_second", "flops_per_second", "peak_fraction")
    _RESOURCES = ("registers", "spill_bytes", "static_shared_bytes", "dynamic_shared_bytes")
    _TELEMETRY = ("sm_clock_mhz", "power_mw")
    _SECONDS = ("compile_seconds", "evaluate_seconds")
    _COLUMNS = (*_BEFORE, *_MEASURED, *_RESOURCES, *_TELEMETRY, "relative_l2_error", *_SECONDS, "message")

    def __init__(self, rows: Iterable[dict[str, Any]] = (), fixed_params: Collection[str] = ()) -> None:
        super().__init__(rows)
        self._fixed = fixed_params

    def _cells(self, row: Row) -> list[str]:
        measured = row.get("measurement") if row["outcome"] == "ok" else None
        figures = ["-", "-", "-"]
        if measured:
            rates = ((measured["bytes_per_second"], _format.bandwidth), (measured["flops_per_second"], _format.flop_rate))
            figures = [_format.latency(measured["latency_ns_median"]), *(text(rate) if rate else "-" for rate, text in rates)]
        return [str(row["id"]), row["purpose"], row["outcome"], *figures, str((row.get("resources") or {}).get("registers", 0)),
                _format.config(row["config"], self._fixed), _format.telling_line(row["message"])]

    def _flat(self, row: Row) -> dict[str, Any]:
        before = {name: row[name] for name in self._BEFORE}
        after = {**_measured(row.get("measurement"), *self._MEASURED), **_measured(row.get("resources"), *self._RESOURCES),
                 **_measured(row.get("telemetry"), *self._TELEMETRY),
                 "relative_l2_error": row["error"]["relative_l2"] if row.get("error") else None,
                 **{name: row[name] for name in self._SECONDS}, "message": _format.telling_line(row["message"])}
        params = {f"{name}_" if name in after else name: one for name, one in row["config"].items()}
        return {**_beside(before, params), **after}


class Sweeps(Rows):
    _TITLES = ("id", "state", "kernel", "problem", "device", "done", "best", "started")
    _EMPTY = "no sweeps yet"

    def _cells(self, row: Row) -> list[str]:
        progress, best = row.get("progress") or {}, best_latency(row)
        none = "none" if row["state"] == "done" and not row.get("result") else "-"
        return [str(row["id"]), state_of(row), row["kernel_name"], _format.problem(row["problem"]), row["device_id"],
                f"{progress.get('done', 0)}/{progress.get('planned', 0)}", _format.latency(best) if best else none,
                _format.when(row["created_unix_ms"])]

    def _flat(self, row: Row) -> dict[str, Any]:
        result, progress = row.get("result") or {}, row.get("progress") or {}
        best = result.get("best") or {}
        fixed = {"id": row["id"], "job_id": row["job_id"], "state": state_of(row), "kernel": row["kernel_name"],
                 "device_id": row["device_id"], "device": row["device_name"], "target": row["target"],
                 "strategy": row["strategy"], "done": progress.get("done"), "planned": progress.get("planned"),
                 **_measured(best.get("measurement"), "latency_ns_median", "latency_ns_low", "latency_ns_high"),
                 "speedup_over_default": result.get("speedup_over_default") or None,
                 "created": _format.moment(row["created_unix_ms"]), "finished": _format.moment(row["finished_unix_ms"]),
                 "message": row["message"]}
        return _beside(_beside(fixed, row["problem"]), best.get("config") or {})


class Jobs(Rows):
    _TITLES = ("id", "kind", "state", "subject", "device", "priority", "owner", "asked", "message")
    _EMPTY = "no jobs"

    def _cells(self, row: Row) -> list[str]:
        return [str(row["id"]), row["kind"], row["state"], row["subject"], row["device_id"], row["priority"], row["owner"] or "-",
                _format.when(row["created_unix_ms"]), row["message"].partition("\n")[0]]

    def _flat(self, row: Row) -> dict[str, Any]:
        moments = ("created", "started", "finished")
        fields = ("id", "kind", "state", "priority", "owner", "subject", "device_id", "message")
        return {**{name: row[name] for name in fields}, **{name: _format.moment(row[f"{name}_unix_ms"]) for name in moments}}


class Records(Rows):
    _TITLES = ("record", "kernel", "problem", "device", "latency", "config", "published")
    _EMPTY = "no records"

    def _cells(self, row: Row) -> list[str]:
        return [str(row["id"] or "shipped"), row["kernel_name"], _format.problem(row["problem"]), row["device_name"],
                _format.latency(row["measurement"]["latency_ns_median"]), _format.config(row["config"]),
                _format.when(row["published_unix_ms"])]

    def _flat(self, row: Row) -> dict[str, Any]:
        fixed = {"record": row["id"] or None, "kernel": row["kernel_name"], "device": row["device_name"], "target": row["target"],
                 "cache_mode": row["cache_mode"],
                 **_measured(row["measurement"], "latency_ns_median", "latency_ns_low", "latency_ns_high", "bytes_per_second",
                             "flops_per_second", "peak_fraction"),
                 "default_latency_ns": row["default_latency_ns"] or None, "sweep_id": row["sweep_id"] or None,
                 "driver": row["driver"], "compiler": row["compiler"], "published": _format.moment(row["published_unix_ms"])}
        return _beside(_beside(fixed, row["problem"]), row["config"])
