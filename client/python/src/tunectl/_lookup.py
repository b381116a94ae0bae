# SPDX-License-Identifier: Apache-2.0
"""Which record answers for a problem: the rule of lookup, over one snapshot.

tests/data/lookup_cases.json holds cases that both must answer alike.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Optional

from ._reason import axis_position, bucket_of, explain, explain_missing

Record = Mapping[str, Any]
Accept = Callable[[Record], bool]
_Code = tuple[str, str]  # the kernel's hash, and the digest of the headers that it includes

# If the nearest record is refused, this many are asked about before the next kind of match.
_TRIED_MAX = 16


class Query(NamedTuple):
    kernel: str
    kernel_hash: str  # empty: the policy's, if there is one, else any
    dims: Mapping[str, int]  # in the spec's order
    dtype: str
    device: str
    target: str
    driver: str = ""  # that the device has; empty: not known


class Found(NamedTuple):
    match: str  # "exact", "bucketed", "nearest", "other_device"; "none": no record
    reason: str
    record: Optional[Record]


class _Axes(NamedTuple):
    """A problem as a place among others: which of them can be compared, and where it lies."""

    key: tuple[Any, ...]
    place: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


class KernelRecords:
    """The records of one kernel name."""

    def __init__(self, records: Iterable[Record], rules: Mapping[str, str],
                 kernel_hash: str = "", include_digest: str = "") -> None:
        self._rules = rules  # by dim: "exact", "bucketed", "ignored", "nearest"
        self._kernel_hash = kernel_hash
        # Of the headers in its include roots; empty: not known, and then those of a record do not count.
        self._include_digest = include_digest
        self._codes: set[_Code] = set()
        self._devices: set[str] = set()
        self._dtypes: dict[str, set[str]] = {}
        self._points: dict[tuple[Any, ...], list[tuple[tuple[float, ...], tuple[bool, int, int], Record]]]
        self._points = {}
        for record in records:
            hard = record["hard"]
            self._codes.add(self._code_of(hard))
            self._devices.add(hard["device"])
            self._dtypes.setdefault(hard["target"], set()).add(hard["dtype"])
            axes = self._locate(hard["dims"], hard["dtype"], hard["target"])
            # Cold caches before warm, then the newest.
            rank = (hard["cache_mode"] == "warm", -record["id"], -record.get("published_unix_ms", 0))
            self._points.setdefault(axes.key, []).append((axes.place, rank, record))

    def _locate(self, dims: Mapping[str, int], dtype: str, target: str) -> _Axes:
        same: list[int] = []
        place: list[float] = []
        low: list[float] = []
        high: list[float] = []
        for name in sorted(dims):
            value, rule = dims[name], self._rules.get(name, "nearest")
            if rule == "ignored":
                continue
            if rule == "exact":
                same.append(value)
                continue
            first, last = bucket_of(value) if rule == "bucketed" else (value, value)
            place.append(axis_position(value))
            low.append(axis_position(first))
            high.append(axis_position(last))
        key = (target, dtype, *sorted(dims), "|", *same)
        return _Axes(key, tuple(place), tuple(low), tuple(high))

    def _code_of(self, hard: Mapping[str, Any]) -> _Code:
        return hard["kernel_hash"], hard.get("include_digest", "") if self._include_digest else ""

    def _candidates(self, axes: _Axes, code: Optional[_Code],
                    device: Optional[str]) -> list[tuple[float, tuple[bool, int, int], Any, Record]]:
        """The best record of each place, the nearest first. None: whichever code, device."""
        best: dict[tuple[float, ...], tuple[tuple[bool, int, int], Record]] = {}
        for place, rank, record in self._points.get(axes.key, ()):
            hard = record["hard"]
            if code is not None and self._code_of(hard) != code:
                continue
            if device is not None and hard["device"] != device:
                continue
            if place not in best or rank < best[place][0]:
                best[place] = (rank, record)

        def distance(place: tuple[float, ...]) -> float:
            total = 0.0
            for here, there in zip(axes.place, place):
                total += abs(there - here)
            return total

        found = [(distance(place), rank, place, record) for place, (rank, record) in best.items()]
        return sorted(found, key=lambda one: one[:2])

    def _search(self, axes: _Axes, code: Optional[_Code], device: Optional[str], kinds: int,
                accept: Accept) -> tuple[str, Optional[Record], int]:
        """The first `kinds` of exact, bucketed, nearest. Also how many records were refused."""
        candidates = self._candidates(axes, code, device)
        everywhere = tuple(math.inf for _ in axes.place)
        boxes = (("exact", axes.place, axes.place), ("bucketed", axes.low, axes.high),
                 ("nearest", tuple(-one for one in everywhere), everywhere))
        refused = 0
        for match, low, high in boxes[:kinds]:
            inside = [record for _, _, place, record in candidates
                      if all(map(operator.le, low, place)) and all(map(operator.le, place, high))]
            for record in inside[:_TRIED_MAX]:
                if accept(record):
                    return match, record, refused
                refused += 1
        return "none", None, refused

    def _find(self, query: Query, wanted: str, accept: Accept) -> tuple[str, Optional[Record], int]:
        axes = self._locate(query.dims, query.dtype, query.target)
        code = (wanted, self._include_digest) if wanted else None
        # Where there is one code or device only, "any" is that one.
        same_code = code is None or self._codes == {code}
        match, record, refused = self._search(axes, code, query.device, 3, accept)
        if record is None and not same_code:
            _, record, more = self._search(axes, None, query.device, 3, accept)
            refused += more
            match = "nearest"  # the record of another source, or of other headers, is never better than near
        if record is not None or self._devices == {query.device}:
            return match if record is not None else "none", record, refused

        def elsewhere(record: Record) -> bool:
            return record["hard"]["device"] != query.device and accept(record)

        _, record, more = self._search(axes, code, None, 2, elsewhere)
        refused += more
        if record is None and not same_code:
            _, record, more = self._search(axes, None, None, 2, elsewhere)
            refused += more
        return "other_device" if record is not None else "none", record, refused

    def find(self, query: Query, accept: Accept = lambda record: True) -> Found:
        """Asks `accept` whether a record's config is valid for the problem, about a few dozen."""
        wanted = query.kernel_hash or self._kernel_hash
        match, record, refused = self._find(query, wanted, accept)
        if record is None:
            return Found("none", explain_missing(query, self._dtypes, self._rules, refused), None)
        return Found(match, explain(match, query, record, self._rules, wanted, self._include_digest), record)
