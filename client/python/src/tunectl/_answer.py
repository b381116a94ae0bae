# SPDX-License-Identifier: Apache-2.0
"""The answer of a look-up."""
from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Union

Value = Union[bool, int, float, str]


class NoExactRecord(LookupError):
    """The caller asked for an exact record, and there is none. `answer` is what there is."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"no exact record: {answer.reason}")
        self.answer = answer


class Launch(NamedTuple):
    """The geometry of one launch."""

    grid: tuple[int, int, int]  # blocks in x, y, z
    block: tuple[int, int, int]  # threads
    cluster: tuple[int, int, int]  # blocks
    shared_bytes: int  # dynamic shared memory


class Neighbour(NamedTuple):
    """A tuned shape that speaks for the config of an answer."""

    dims: Mapping[str, int]  # those that may differ
    weight: float  # all are 1 together
    loss: float  # of the config there, as a share


class Expectation(NamedTuple):
    """What a config is expected to lose against the best there would be. Shares: 0.02 is 2 % slower."""

    basis: str  # "measured", "neighbours", "sibling"; "nothing": nothing was measured that says anything
    loss: float = 0.0
    loss_low: float = 0.0  # nine of ten lie between
    loss_high: float = 0.0
    neighbours: tuple[Neighbour, ...] = ()  # the one with the most weight first
    chosen_between: bool = False  # the config was chosen from their whole sweeps
    text: str = "unknown: nothing was measured that says anything"

    def __str__(self) -> str:
        return self.text


NOTHING = Expectation("nothing")


def _restored(values: dict[str, Any]) -> Answer:
    return Answer(**values)


class Answer(Mapping[str, Value]):
    """A config by the names of its params, and why it is the answer. Immutable.

    match     "exact", "bucketed", "nearest", "other_device", or "default": no record fits
    reason    one sentence: which field differed, and what was used instead
    kernel, device, target, dims, dtype    the question, with the defaults filled in
    driver    of the device; "" if it is not known
    launches  the launches of the config for this problem, in the order in which they run: each has `grid`,
              `block` and `cluster` (x, y, z) and `shared_bytes`; empty if only the compiler knows
    latency_ns, latency_ns_low, latency_ns_high    of the record, in nanoseconds: median, and the 95 % interval of
              its rounds, or of fewer than six their range; 0 for a default
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

    __slots__ = ("_config", "match", "reason", "kernel", "device", "target", "dims", "dtype", "driver", "launches",
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
    launches: tuple[Launch, ...]
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

    def __init__(self, config: Mapping[str, Value], match: str, reason: str, kernel: str, *, device: str = "",
                 target: str = "", dims: Mapping[str, int] = MappingProxyType({}), dtype: str = "", driver: str = "",
                 launches: tuple[Launch, ...] = (), latency_ns: float = 0.0, latency_ns_low: float = 0.0,
                 latency_ns_high: float = 0.0, confidence: str = "", record: int = 0, published_unix_ms: int = 0,
                 evidence: str = "", artifact: str = "", expectation: Expectation = NOTHING, snapshot: str = "",
                 source: str = "none") -> None:
        values = locals()
        for name in self.__slots__[1:]:
            object.__setattr__(self, name, values[name])
        object.__setattr__(self, "_config", MappingProxyType(dict(config)))
        object.__setattr__(self, "dims", MappingProxyType(dict(dims)))

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, or a copy."""
        values = {name: getattr(self, name) for name in self.__slots__[1:]}
        return _restored, ({**values, "config": dict(self.config), "dims": dict(self.dims)},)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an answer does not change")

    @property
    def config(self) -> Mapping[str, Value]:
        """The config alone; empty if the kernel is unknown."""
        return self._config  # type: ignore[attr-defined,no-any-return]

    @property
    def age_seconds(self) -> float | None:
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

    def _repr_html_(self) -> str:
        """As `tunectl best` prints it."""
        from . import _answer_view

        return _answer_view.view_of(self).html()
