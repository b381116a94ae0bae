# SPDX-License-Identifier: Apache-2.0
"""A comparison as people read it: the table of `tunectl compare`, its verdicts and its notes."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import _format
from ._view import Shown, View, frame_of

Row = Mapping[str, Any]


def is_wrong(kernel: Row) -> bool:
    """Of a kernel or peer: its results are not the right ones."""
    return "wrong_result" in (kernel["outcome"], kernel["agreement"])


def _verdict(kernel: Row) -> str:
    """The fault in a word; empty if there is none."""
    if kernel["outcome"] != "ok":
        return str(kernel["outcome"])
    return {"ok": "", "wrong_result": "differs"}.get(kernel["agreement"], "not compared")


def _ratio(kernel: Row) -> str:
    if kernel["ratio"] <= 0:
        return ""
    span = f" [{kernel['ratio_low']:.3f}, {kernel['ratio_high']:.3f}]" if kernel["ratio_high"] > kernel["ratio_low"] else ""
    return f"{kernel['ratio']:.3f}{span}"


class Comparison(Shown, dict[str, Any]):
    """A comparison's row, a dict, which prints as `tunectl compare` does."""

    def measured(self) -> Iterator[tuple[Row, Row]]:
        """Each problem with each of its kernels and peers."""
        for problem in self["problems"]:
            for kernel in problem["kernels"]:
                yield problem, kernel

    def flat(self) -> list[dict[str, Any]]:
        """Returns a dict for each kernel and peer on each problem, with the columns of `tunectl compare --csv`."""
        figures = ("rounds", "median_ns", "low_ns", "high_ns", "ratio", "ratio_low", "ratio_high", "bytes_per_second",
                   "flops_per_second", "roof_share")
        rows = []
        for problem, kernel in self.measured():
            time = kernel["measurement"] or {}
            numbers = [kernel["rounds"], *(time.get(f"latency_ns_{name}") for name in ("median", "low", "high")),
                       *(kernel[name] for name in ("ratio", "ratio_low", "ratio_high")),
                       *(time.get(name) for name in ("bytes_per_second", "flops_per_second", "peak_fraction"))]
            rows.append({
                "comparison": self["id"], "device": self["device_name"], "target": self["target"], "driver": self["driver"],
                "dtype": problem["problem"]["dtype"], **_format.dims(problem["problem"]), "kernel": kernel["label"],
                "language": kernel["language"], "compiler": kernel["compiler"],
                "config": _format.config(kernel["config"] or {}), "outcome": kernel["outcome"],
                "agreement": kernel["agreement"],
                **{name: number or (0 if name == "rounds" else None) for name, number in zip(figures, numbers)}})
        return rows

    def to_frame(self) -> Any:
        """Returns a DataFrame of `flat()`. ImportError: pandas is not installed."""
        return frame_of(self.flat())

    def _view(self) -> View:
        view = View()
        view.heading(self["subject"])
        view.note(self._made_with())
        view.note({"done": "", "failed": f"failed: {self['message']}", "cancelled": "cancelled: the measurements so far"}.get(
            self["state"], "not finished"))
        view.gap()
        unit = self._unit()
        titles = ["kernel", "median", "ratio", "95 % interval", unit, "of roof", "config"]
        view.table([self["sweep_dim"], *titles] if self["sweep_dim"] else titles,
                   [self._cells(problem, kernel, unit) for problem, kernel in self.measured()])
        view.gap()
        for verdict in self["verdicts"]:
            view.heading(verdict)
        view.note(f"ratio: time over the first's, round by round; {self._roof()}")
        for note in dict.fromkeys(self._notes()):
            view.note(note)
        return view

    def _made_with(self) -> str:
        compilers = dict.fromkeys(kernel["compiler"] for _, kernel in self.measured() if kernel["compiler"])
        return (f"comparison {self['id']}, {self['rounds']} rounds by turns, "
                f"{'warm' if self['cache_mode'] == 'warm' else 'cold'} cache, on {self['device_name']} ({self['target']}), "
                f"driver {self['driver']}, {', '.join(compilers)}")

    def _unit(self) -> str:
        """What rates are counted in: the work that most problems are bound by."""
        compute = sum(1 if problem["bound"] == "compute" else -1 for problem in self["problems"])
        if compute > 0:
            return "FLOP/s"
        return "B/s" if all(problem["work_bytes"] > 0 for problem in self["problems"]) else "1/s"

    def _cells(self, problem: Row, kernel: Row, unit: str) -> list[str]:
        verdict, time = _verdict(kernel), kernel["measurement"]
        cells = [f"{kernel['label']} !{verdict}" if verdict else kernel["label"], "", "", "", "", "",
                 _format.config(kernel["config"] or {})]
        if kernel["rounds"] and time:
            work = {"FLOP/s": problem["work_flops"], "B/s": problem["work_bytes"]}.get(unit, 1)
            median, low, high = (time[f"latency_ns_{name}"] for name in ("median", "low", "high"))
            cells[1:6] = [_format.latency(median), _ratio(kernel), f"[{_format.latency(low)}, {_format.latency(high)}]",
                          _format.si(work / median * 1e9, unit) if median else "",
                          _format.percent(time["peak_fraction"]) if time["peak_fraction"] else ""]
        return [str(problem["problem"].get(self["sweep_dim"], "")), *cells] if self["sweep_dim"] else cells

    def _roof(self) -> str:
        problem = next(iter(self["problems"]), None)
        if problem is None or not problem["floor_ns"]:
            return ""
        unit = "FLOP/s" if problem["bound"] == "compute" else "B/s"
        return f"roof: {_format.si(problem['ceiling'], unit)} of {problem['bound']}, {problem['ceiling_source']}"

    def faults(self) -> Iterator[tuple[Row, str]]:
        """Each kernel or peer that is not ok, with a sentence that names it and says why."""
        for problem, kernel in self.measured():
            at = f" at {self['sweep_dim']}={problem['problem'][self['sweep_dim']]}" if self["sweep_dim"] else ""
            which = f"{kernel['label']}{at}"
            if kernel["outcome"] != "ok":
                yield kernel, f"{which}: {kernel['outcome']}: {kernel['message']}"
            elif kernel["agreement"] != "ok":
                how = "differ" if kernel["agreement"] == "wrong_result" else "were not compared"
                yield kernel, f"{which}: its results {how} {kernel['agreement_message']}"

    def _notes(self) -> Iterator[str]:
        yield from self["warnings"]
        yield from (fault for _, fault in self.faults())
        for _, kernel in self.measured():
            if kernel["config_source"]:
                yield f"{kernel['label']}: config: {kernel['config_source']}"
            for note in kernel["notes"]:
                yield f"{kernel['label']}: {note}"


class WrongResults(Exception):
    """Kernels or peers of a comparison whose results are not the right ones; `comparison` has what was measured."""

    def __init__(self, comparison: Comparison) -> None:
        found = [said for kernel, said in comparison.faults() if is_wrong(kernel)]
        super().__init__("\n".join([*found, "allow_wrong=True returns the comparison all the same"]))
        self.comparison = comparison

    def __reduce__(self) -> tuple[Any, ...]:
        return WrongResults, (self.comparison,)
