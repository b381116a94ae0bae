# SPDX-License-Identifier: Apache-2.0
"""The answer of a look-up."""
from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Optional, Union

from ._grid import NOTHING, Expectation

if TYPE_CHECKING:
    from ._kernel import Launch

Value = Union[bool, int, float, str]
Plan = Callable[[Mapping[str, Value]], "tuple[Launch, ...]"]  # of a config


class NoExactRecord(LookupError):
    """The caller asked for an exact record, and there is none. `answer` is what there is."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"no exact record: {answer.reason}")
        self.answer = answer


def _artifact_for(record: Optional[Mapping[str, Any]], config: Mapping[str, Value], dims: Mapping[str, int],
                  dtype: str) -> str:
    """A record's, if it is of this config for this very problem: that of another is of no use."""
    if record is None or dict(config) != record["config"]:
        return ""
    hard = record["hard"]
    return str(record.get("artifact", "")) if hard["dims"] == dict(dims) and hard["dtype"] == dtype else ""


def _restored(values: Mapping[str, Any]) -> Answer:
    launches = values["_plan"]
    answer = object.__new__(Answer)
    for name, value in {**values, "_config": MappingProxyType(values["_config"]),
                        "dims": MappingProxyType(values["dims"]), "_plan": lambda config: launches}.items():
        object.__setattr__(answer, name, value)
    return answer


class Answer(Mapping[str, Value]):
    """A config by the names of its params, and why it is the answer. Immutable.

    match     "exact", "bucketed", "nearest", "other_device", or "default": no record fits
    reason    one sentence: which field differed, and what was used instead
    kernel, device, target, dims, dtype    the question, with the defaults filled in
    driver    of the device; "" if it is not known
    launches  the launches of the config for this problem, in the order in which they run: each has `grid`,
              `block` and `cluster` (x, y, z) and `shared_bytes`; empty if only the compiler knows
    latency_ns, latency_ns_low, latency_ns_high    of the record: median and its 95 % interval, in
              nanoseconds; 0 for a default
    expectation    what the config is expected to lose against the best there would be, the band that nine of
              ten lie in, and what that rests on: `expectation.loss`, `.loss_low`, `.loss_high`, `.basis`
    confidence "confirmed", "tied" (others cannot be told from it), "noisy"; "" for a default
    record    the number of the record that answers; 0 for a default
    published_unix_ms    of the record; 0 for a default
    evidence  the digest of the record's measurement, "sha256:..."; "" for a default
    artifact  the digest of the binary's file, for this very problem; "" if none is kept
    snapshot  the digest of the snapshot that answered; "" without one
    source    where the snapshot came from: "file", "cache", "daemon", "bundled", "none"
    """

    __slots__ = ("_config", "match", "reason", "kernel", "device", "target", "dims", "dtype", "driver", "_plan",
                 "latency_ns", "latency_ns_low", "latency_ns_high", "confidence", "record",
                 "published_unix_ms", "evidence", "artifact", "expectation", "snapshot", "source")

    match: str
    reason: str
    kernel: str
    device: str
    target: str
    dims: Mapping[str, int]
    dtype: str
    driver: str
    latency_ns: float
    latency_ns_low: float
    latency_ns_high: float
    confidence: str
    record: int
    published_unix_ms: int
    evidence: str
    artifact: str
    expectation: Expectation
    snapshot: str
    source: str

    def __init__(self, config: Mapping[str, Value], match: str, reason: str, *, kernel: str,
                 device: str = "", target: str = "", dims: Optional[Mapping[str, int]] = None,
                 dtype: str = "", driver: str = "", plan: Optional[Plan] = None, record: Optional[Mapping[str, Any]] = None,
                 expectation: Expectation = NOTHING, snapshot: str = "", source: str = "none") -> None:
        measured = record["latency_ns"] if record is not None else {}
        for name, value in {
            "_config": MappingProxyType(dict(config)), "match": match, "reason": reason,
            "kernel": kernel, "device": device, "target": target,
            "dims": MappingProxyType(dict(dims or {})), "dtype": dtype, "driver": driver, "_plan": plan,
            "latency_ns": measured.get("median", 0.0), "latency_ns_low": measured.get("low", 0.0),
            "latency_ns_high": measured.get("high", 0.0),
            "confidence": record["confidence"] if record is not None else "",
            "record": record["id"] if record is not None else 0,
            "published_unix_ms": record["published_unix_ms"] if record is not None else 0,
            "evidence": record["evidence"] if record is not None else "",
            "artifact": _artifact_for(record, config, dims or {}, dtype),
            "expectation": expectation, "snapshot": snapshot, "source": source,
        }.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        """With the launches worked out: for another process, or a copy."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return _restored, ({**values, "_config": dict(self.config), "dims": dict(self.dims), "_plan": self.launches},)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an answer does not change")

    @property
    def config(self) -> Mapping[str, Value]:
        """The config alone; empty if the kernel is unknown."""
        return self._config  # type: ignore[attr-defined,no-any-return]

    @property
    def launches(self) -> tuple[Launch, ...]:
        """See the class; worked out when it is asked for."""
        plan: Optional[Plan] = self._plan  # type: ignore[attr-defined]
        return plan(self.config) if plan is not None and self.config else ()

    @property
    def age_seconds(self) -> Optional[float]:
        """Seconds since the record was published; None for a default."""
        if not self.published_unix_ms:
            return None
        return max(0.0, time.time() - self.published_unix_ms / 1000)

    def __getitem__(self, param: str) -> Value:
        try:
            return self.config[param]
        except KeyError:
            raise KeyError(f"{param}: the answer for {self.kernel} has "
                           f"{', '.join(self.config) or 'no params'} ({self.reason})") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.config)

    def __len__(self) -> int:
        return len(self.config)

    def __hash__(self) -> int:
        return hash((self.kernel, self.match, self.reason, self.snapshot))

    def __repr__(self) -> str:
        config = " ".join(f"{name}={value}" for name, value in self.config.items())
        match = self.match.replace("_", " ")  # a reason begins with it, unless it is a default's
        said = self.reason if self.reason.startswith(match) else f"{match}: {self.reason}"
        return f"<{self.kernel}: {config or 'no config'}; {said}>"
