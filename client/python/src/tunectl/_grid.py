# SPDX-License-Identifier: Apache-2.0
"""The choice between tuned shapes, and what it is expected to lose: as tuner/transfer/shape_grid.cc.

tests/data/grid_cases.json holds cases that both must answer alike.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from ._reason import axis_position
from ._waves import SIZE_MAX, stretch

_LOSS_MAX = 10000  # losses are in ten-thousandths of the best latency
_UNKNOWN = 1 << 30
_DOUBT_OF_UNKNOWN = 0.05
_TRIED_MAX = 64
_NEIGHBOURS_MAX = 12
_SAME_OCTAVES = 0.5
_SIBLING_DOUBT = 2.0
_NOISY_LOSS = 0.2  # an interval that reaches so far says nothing

Config = Mapping[str, Any]
CountBlocks = Callable[[Config], int]  # that a config has at a problem; 0: not known


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

    def __str__(self) -> str:
        if self.basis == "nothing":
            return "unknown: nothing was measured that says anything"
        if self.basis == "measured" and self.loss_high > _NOISY_LOSS:
            return f"may lose up to {self.loss_high:.1%}: measured here, but the host was too noisy to tell"
        if self.basis == "measured":
            return f"loses nothing: measured here, to {self.loss_high:.1%}"
        count = len(self.neighbours)
        return (f"loses {self.loss:.1%} against the best there would be; nine of ten times {self.loss_low:.1%} to "
                f"{self.loss_high:.1%}; by {count} tuned shape{'' if count == 1 else 's'}"
                f"{' of another device' if self.basis == 'sibling' else ''}")

    def of_sibling(self) -> Expectation:
        """As much, but with more doubt."""
        return self._replace(basis="sibling", loss_low=self.loss_low / _SIBLING_DOUBT,
                             loss_high=self.loss_high * _SIBLING_DOUBT)


NOTHING = Expectation("nothing")


class _Shape(NamedTuple):
    dims: tuple[int, ...]
    place: tuple[float, ...]
    losses: Mapping[int, int]  # by the config's number; others are unknown
    loss_of_unknown: int
    stretch: Sequence[float]  # of each config, by its blocks; empty: not known


class _Weighed(NamedTuple):
    octaves: float
    weight: float
    shape: _Shape


class _Retold:
    """A neighbour's losses as they would be if its configs had the blocks that they have at the shape asked about."""

    def __init__(self, shape: _Shape, asked: Sequence[float]) -> None:
        self._shape = shape
        self._ratios = [here / there for here, there in zip(asked, shape.stretch)]
        self._best = min((self._latency(loss, config) for config, loss in shape.losses.items()), default=math.inf)
        self.losses = {config: self._loss(loss, config) for config, loss in shape.losses.items()}

    def _latency(self, loss: int, config: int) -> float:
        return (_LOSS_MAX + loss) * self._ratios[config] if self._ratios else float(_LOSS_MAX + loss)

    def _loss(self, loss: int, config: int) -> int:
        share = (self._latency(loss, config) / self._best - 1) * _LOSS_MAX
        return math.floor(min(max(share, 0.0), float(_LOSS_MAX)) + 0.5)

    def at_least(self, config: int) -> int:
        """What one loses that the sweep does not have."""
        return self._loss(self._shape.loss_of_unknown, config)


def _size(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= SIZE_MAX:
        raise ValueError("a size is a whole number")
    return value


class Grid:
    """One kernel's sweeps on one device, in one dtype. Immutable."""

    def __init__(self, parsed: Mapping[str, Any]) -> None:
        """KeyError, TypeError, ValueError: it is no grid."""
        self.kernel_hash: str = parsed["kernel_hash"]
        self.target: str = parsed["target"]
        self.device: str = parsed["device"]
        self.dtype: str = parsed["dtype"]
        self.fixed: Mapping[str, int] = dict(parsed["fixed"])
        self.axes: Sequence[str] = list(parsed["axes"])
        self.configs: Sequence[Config] = list(parsed["configs"])
        # Not in snapshots of older daemons, nor of devices without multiprocessors.
        self._multiprocessors = _size(parsed.get("multiprocessors", 0))
        self._residents = self._sizes(parsed, "residents")
        self._shapes = [self._shape(shape) for shape in parsed["shapes"]]
        residuals = parsed["residuals"]
        self._mean = float(residuals["mean"])
        self._low = min(float(residuals["low"]), self._mean)
        self._high = max(float(residuals["high"]), self._mean)
        self._usual_octaves = max(float(residuals["nearest_octaves"]), _SAME_OCTAVES)

    def _shape(self, parsed: Mapping[str, Any]) -> _Shape:
        dims = tuple(int(value) for value in parsed["dims"])
        losses = {int(config): int(loss) for config, loss in parsed["losses"]}
        if len(dims) != len(self.axes) or any(not 0 <= config < len(self.configs) for config in losses):
            raise ValueError("a shape does not fit its grid")
        return _Shape(dims, tuple(map(axis_position, dims)), losses, int(parsed["loss_of_unknown"]),
                      self._stretch(self._sizes(parsed, "blocks")))

    def _sizes(self, parsed: Mapping[str, Any], name: str) -> list[int]:
        """One for each config; none where there are no multiprocessors."""
        sizes = [_size(one) for one in parsed[name]] if self._multiprocessors > 0 else []
        if len(sizes) != (len(self.configs) if self._multiprocessors > 0 else 0):
            raise ValueError(f"{name} do not fit their grid")
        return sizes

    def _stretch(self, blocks: Iterable[int]) -> list[float]:
        return [stretch(one, residents, self._multiprocessors) for one, residents in zip(blocks, self._residents)]

    def _retell(self, neighbours: Sequence[_Weighed], blocks_of: Optional[CountBlocks]) -> list[_Retold]:
        asked = self._stretch(map(blocks_of, self.configs)) if blocks_of is not None else []
        return [_Retold(one.shape, asked) for one in neighbours]

    @property
    def shape_count(self) -> int:
        return len(self._shapes)

    def nearest_dims(self, dims: Mapping[str, int]) -> tuple[int, ...]:
        return self._neighbours(dims)[0].shape.dims

    def fits(self, dims: Mapping[str, int], dtype: str, target: str, ignored: Iterable[str]) -> bool:
        """May the grid speak for a problem of these dims?"""
        names = set(dims) - set(ignored)
        return (self.target == target and self.dtype == dtype and names == {*self.fixed, *self.axes}
                and all(dims[name] == value for name, value in self.fixed.items()) and bool(self._shapes))

    def choose(self, dims: Mapping[str, int], accept: Callable[[Config], bool],
               blocks_of: Optional[CountBlocks] = None) -> Optional[tuple[Config, Expectation]]:
        """The config with the least expected loss of those that `accept` takes."""
        neighbours = self._neighbours(dims)
        retold = self._retell(neighbours, blocks_of)
        ranked = []
        for config in range(len(self.configs)):
            loss = self._predict(neighbours, retold, config)
            if loss is not None:
                nearest = retold[0].losses.get(config, _UNKNOWN)
                ranked.append((math.floor(loss * 1e7 + 0.5), nearest, config, loss))
        ranked.sort()
        for _, _, config, loss in ranked[:_TRIED_MAX]:
            if accept(self.configs[config]):
                return self.configs[config], self._expectation(neighbours, config, loss, True)
        return None

    def expect(self, dims: Mapping[str, int], config: Config,
               blocks_of: Optional[CountBlocks] = None) -> Expectation:
        """What one config is expected to lose."""
        neighbours = self._neighbours(dims)
        for number, known in enumerate(self.configs):
            if known == config:
                loss = self._predict(neighbours, self._retell(neighbours, blocks_of), number)
                if loss is not None:
                    return self._expectation(neighbours, number, loss, False)
        return NOTHING

    def _neighbours(self, dims: Mapping[str, int]) -> list[_Weighed]:
        place = [axis_position(dims[axis]) for axis in self.axes]
        far = []
        for shape in self._shapes:
            octaves = 0.0
            for here, there in zip(place, shape.place):
                octaves += abs(here - there)
            far.append((octaves, shape))
        far.sort(key=lambda one: one[0])
        near = [max(octaves, _SAME_OCTAVES) for octaves, _ in far[:_NEIGHBOURS_MAX]]
        weights = [1 / (octaves * math.sqrt(octaves)) for octaves in near]
        total = 0.0
        for weight in weights:
            total += weight
        return [_Weighed(octaves, weight / total, shape) for (octaves, shape), weight in zip(far, weights)]

    @staticmethod
    def _predict(neighbours: Sequence[_Weighed], retold: Sequence[_Retold], config: int) -> Optional[float]:
        known, loss = 0.0, 0.0
        for (_, weight, _), told in zip(neighbours, retold):
            there = told.losses.get(config)
            if there is not None:
                known += weight
                loss += weight * (there / _LOSS_MAX)
        if known == 0:
            return None
        elsewhere = loss / known + _DOUBT_OF_UNKNOWN
        for (_, weight, _), told in zip(neighbours, retold):
            if config not in told.losses:
                loss += weight * max(elsewhere, told.at_least(config) / _LOSS_MAX)
        return loss

    def _expectation(self, neighbours: Sequence[_Weighed], config: int, loss: float,
                     chosen_between: bool) -> Expectation:
        # Farther from the grid than its shapes are from each other, it errs in proportion.
        farther = max(1.0, neighbours[0].octaves / self._usual_octaves)
        said = tuple(Neighbour(dict(zip(self.axes, shape.dims)), weight,
                               shape.losses.get(config, shape.loss_of_unknown) / _LOSS_MAX)
                     for _, weight, shape in neighbours)
        return Expectation("neighbours", max(0.0, loss + self._mean * farther),
                           max(0.0, loss + self._low * farther), max(0.0, loss + self._high * farther),
                           said, chosen_between)


def grids_of(parsed: Any) -> dict[str, list[Grid]]:
    """By kernel; what is no grid is left out. Snapshots of older daemons have none."""
    grids: dict[str, list[Grid]] = {}
    for one in parsed if isinstance(parsed, list) else []:
        try:
            grids.setdefault(str(one["kernel"]), []).append(Grid(one))
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
    return grids
