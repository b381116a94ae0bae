# SPDX-License-Identifier: Apache-2.0
"""One question, worked out: its device, its problem, the record that answers, or the safe default."""
from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Optional

from ._answer import Answer
from ._device import local_devices, target_of_gpu
from ._grid import NOTHING, Config, Expectation, Grid
from ._kernel import Kernel, Problem, Target
from ._lookup import Found, Query, Record
from ._reason import explain, has_headers
from ._snapshot import Snapshot

_DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3",
           "bool": "bool", "bool_": "bool", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32",
           "uint32": "u32", "int64": "i64", "uint64": "u64"}

_HOST = "cpu"  # the target and the family of the CPU device
_GPU_TARGET = "sm_90a"  # of a GPU that nothing tells of


def dtype_name(dtype: object) -> str:
    """Of "bf16", torch.bfloat16 or numpy.float16."""
    if dtype is None or isinstance(dtype, str):
        name = dtype or ""
    else:
        name = getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2]
    return _DTYPES.get(name, name)


def device_name(device: object) -> str:
    """Of "cuda:1", 1, torch.device("cuda", 1), "CPU" or "NVIDIA H200"; None: ""."""
    if device is None:
        return ""
    name = f"cuda:{device}" if isinstance(device, int) and not isinstance(device, bool) else str(device)
    return name.lower() if re.fullmatch(r"cpu|cuda(:[0-9]+)?", name, re.IGNORECASE) else name


class Place:
    """The device a question is about, by the rule of server/records/record_book.cc."""

    __slots__ = ("device", "target", "note", "launch_target", "driver")

    def __init__(self, device: str, target: Target, note: str = "", sm_count: int = 0, driver: str = "") -> None:
        self.device = device
        self.target = target
        self.note = note
        self.driver = driver  # empty: not known
        # Configs are valid by what all devices of the target have; a launch may fill this very device.
        self.launch_target = target._replace(sm_count=sm_count) if sm_count else target


def _place_of(asked: str, snapshot: Snapshot) -> Place:
    family = asked.partition(":")[0] if asked in ("cuda", "cpu") else asked
    for local in local_devices():
        if asked in ("", local.id, local.name) or local.id.partition(":")[0] == family:
            target = local.target or snapshot.devices().get(local.name, ("", 0))[0]
            return Place(local.name, snapshot.target(target), sm_count=local.sm_count, driver=local.driver)
    device, target, note = place_by_records(asked, snapshot.devices())
    return Place(device, snapshot.target(target), note)


def place_by_records(asked: str, seen: Mapping[str, tuple[str, int]]) -> tuple[str, str, str]:
    """The name, the target and a note of a device that is none of this host: what the records tell of it.

    `seen` has of each recorded device its target and its newest record's number. By the rule of
    lookup/place.h.
    """
    if asked in seen:
        return asked, seen[asked][0], ""
    kind = "cuda" if re.fullmatch(r"cuda(:[0-9]+)?", asked) else asked if asked in ("", _HOST) else None
    if kind is not None:
        fitting = _newest_first(kind, seen)
        if fitting:
            return fitting[0], seen[fitting[0]][0], (
                f"the device is taken to be {fitting[0]}" if len(fitting) > 1 else "")
    meant = _meant_by(asked, seen) if kind is None else None
    if meant:
        return meant, seen[meant][0], f"the device is taken to be {meant}"
    unknown = f"device '{asked}' is not known here"
    if asked.startswith(_HOST) or not asked:
        return asked, _HOST, unknown if kind is None else ""
    target = target_of_gpu(asked)
    if target:
        return asked, target, f"{unknown}, by its name it is of {target}"
    gpus = _newest_first("cuda", seen)
    target = seen[gpus[0]][0] if gpus else _GPU_TARGET
    return asked, target, f"{unknown}, it is taken for a GPU of {target}"


def _meant_by(asked: str, seen: Mapping[str, tuple[str, int]]) -> Optional[str]:
    """The one recorded GPU that is meant by words of its name without the maker's, such as "h200". With the maker's it
    is a name in full: of this device, where all words are the same."""
    def words_of(name: str) -> list[str]:
        return [word for word in re.split("[ _-]+", name.lower()) if word]

    words = words_of(asked)
    gpus = [name for name in seen if seen[name][0] != _HOST]
    meant = [name for name in gpus if words_of(name) == words] or [
        name for name in gpus if words and words_of(name)[:1] != words[:1] and set(words) <= set(words_of(name)[1:])]
    return meant[0] if len(meant) == 1 else None


def _newest_first(kind: str, seen: Mapping[str, tuple[str, int]]) -> list[str]:
    """The recorded devices of a kind; of any kind those that were measured here, GPUs before CPUs."""

    def fits(target: str, newest: int) -> bool:
        return (target == _HOST) == (kind == _HOST) if kind else newest != 0

    names = [name for name in sorted(seen) if fits(*seen[name])]
    return sorted(names, key=lambda name: (seen[name][0] != _HOST, seen[name][1]), reverse=True)


def answer(snapshot: Snapshot, source: str, name: str, dtype: str, device: str,
           dims: Mapping[str, int]) -> Answer:
    """ValueError: no such dim or dtype, or a value that is out of its bounds."""
    facts: dict[str, Any] = {"kernel": name, "snapshot": snapshot.digest, "source": source}
    kernel = snapshot.kernel(name)
    if kernel is None:
        return Answer({}, "default", f"the snapshot has no kernel '{name}'; it has "
                                     f"{', '.join(snapshot.kernel_names) or 'none'}", **facts)
    place = _place_of(device, snapshot)
    facts |= {"device": place.device, "target": place.target.name}
    why_not = kernel.why_not_on(place.target)
    if why_not:
        return Answer({}, "default", why_not, **facts)
    return _look_up(snapshot, kernel, place, dtype, dims, facts)


def _look_up(snapshot: Snapshot, kernel: Kernel, place: Place, dtype: str, dims: Mapping[str, int],
             facts: dict[str, Any]) -> Answer:
    problem = kernel.problem(dims, dtype, place.target)
    facts |= {"dims": problem.dims, "dtype": problem.dtype, "driver": place.driver,
              "plan": functools.partial(kernel.launches, problem, place.launch_target)}

    def is_valid(record: Record) -> bool:
        hard = record["hard"]
        same = (hard["kernel_hash"] == kernel.hash and hard["dims"] == problem.dims
                and hard["dtype"] == problem.dtype)
        return same or kernel.is_valid(problem, place.target, record["config"])

    query = Query(kernel.name, "", problem.dims, problem.dtype, place.device, place.target.name, place.driver)
    found = snapshot.records(kernel.name).find(query, is_valid)
    found, chosen, expectation = _ask_grids(snapshot, kernel, problem, place, query, found)
    reason = found.reason + (f"; {place.note}" if place.note else "")
    if found.record is not None:
        config = chosen if chosen is not None else found.record["config"]
        return Answer(config, found.match, reason, record=found.record, expectation=expectation, **facts)
    safe, what = kernel.safe_config(problem, place.target)
    return Answer(safe or {}, "default", f"{reason}; {what}", **facts)


def _ask_grids(snapshot: Snapshot, kernel: Kernel, problem: Problem, place: Place, query: Query,
               found: Found) -> tuple[Found, Optional[Config], Expectation]:
    """What the sweeps of other shapes say. Where nobody tuned the problem, nor its bucket, they choose the config.

    By the rule of server/records/record_book.cc.
    """
    record = found.record
    if found.match == "exact" and record is not None:
        latency = record["latency_ns"]
        noise = latency["high"] / latency["median"] - 1 if latency["median"] > 0 else 0.0
        return found, None, Expectation("measured", loss_high=max(0.0, noise))
    ignored = [name for name, rule in kernel.rules.items() if rule == "ignored"]
    grids = [grid for grid in snapshot.grids_of(kernel.name) if grid.kernel_hash == kernel.hash
             and grid.fits(problem.dims, problem.dtype, place.target.name, ignored)]
    blocks_of = kernel.blocks_of(problem, place.target)
    if found.match in ("bucketed", "other_device") and record is not None:
        device = record["hard"]["device"]
        expectation = next((grid.expect(problem.dims, record["config"], blocks_of) for grid in grids
                            if grid.device == device), NOTHING)
        elsewhere = found.match == "other_device" and expectation.basis != "nothing"
        return found, None, expectation.of_sibling() if elsewhere else expectation
    # The device itself, else its siblings, the one with the most shapes first.
    grids.sort(key=lambda grid: grid.device)
    grids.sort(key=lambda grid: (grid.device == place.device, grid.shape_count), reverse=True)
    for grid in grids:
        choice = grid.choose(problem.dims, lambda config: kernel.is_valid(problem, place.target, config), blocks_of)
        if choice is None:
            continue
        config, expectation = choice
        if grid.device != place.device:
            if record is not None:
                break  # of another source, but of this device
            expectation = expectation.of_sibling()
        if record is None:
            found = _found_by(grid, snapshot, kernel, query, expectation)
            if found.record is None:
                break
        count = len(expectation.neighbours)
        chosen_from = f"; its config is chosen from the sweeps of {count} shapes" if count > 1 else ""
        return found._replace(reason=found.reason + chosen_from), config, expectation
    return found, None, NOTHING


def _found_by(grid: Grid, snapshot: Snapshot, kernel: Kernel, query: Query, expectation: Expectation) -> Found:
    """The record of the grid's nearest shape, where the look-up itself found none."""
    nearest = expectation.neighbours[0].dims
    of_shape = [record for record in snapshot.records_of(kernel.name)
                if record["hard"]["device"] == grid.device and record["hard"]["dtype"] == grid.dtype
                and record["hard"]["kernel_hash"] == grid.kernel_hash and has_headers(kernel.include_digest, record["hard"])
                and record["hard"]["target"] == grid.target and record["hard"]["cache_mode"] == "cold"
                and all(record["hard"]["dims"].get(name) == value
                        for name, value in {**grid.fixed, **nearest}.items())]
    if not of_shape:
        return Found("none", "the snapshot lacks the records of its grids", None)
    record = max(of_shape, key=lambda one: int(one["id"]))
    match = "nearest" if grid.device == query.device else "other_device"
    return Found(match, explain(match, query, record, kernel.rules, kernel.hash, kernel.include_digest), record)
