# SPDX-License-Identifier: Apache-2.0
"""One question, worked out: its device, its problem, the record that answers, or the safe default."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._answer import Answer
from ._device import local_devices
from ._kernel import Kernel, Target
from ._lookup import Query, Record
from ._snapshot import Snapshot

_DTYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8",
           "uint8": "u8", "int32": "i32", "uint32": "u32", "int64": "i64"}


def dtype_name(dtype: object) -> str:
    """Of "bf16", torch.bfloat16 or numpy.float16."""
    if dtype is None or isinstance(dtype, str):
        name = dtype or ""
    else:
        name = getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2]
    return _DTYPES.get(name, name)


class Place:
    """The device a question is about, by the rule of server/records/record_book.cc."""

    __slots__ = ("device", "target", "note")

    def __init__(self, device: str, target: Target, note: str = "") -> None:
        self.device = device
        self.target = target
        self.note = note


def _place_of(asked: str, snapshot: Snapshot) -> Place:
    seen = snapshot.devices()
    family = asked.partition(":")[0] if asked in ("cuda", "cpu") else asked
    for local in local_devices():
        if asked in ("", local.id, local.name) or local.id.partition(":")[0] == family:
            target = seen.get(local.name, (local.target, 0))[0] or local.target
            return Place(local.name, snapshot.target(target))
    # Not a device of this host: the records tell, a GPU's before a CPU's, the newest first.
    fitting = []
    for name, (target_name, newest) in seen.items():
        traits = snapshot.target(target_name)
        kind = "cpu" if traits.is_host else "cuda"
        if asked in ("", name) or asked.startswith(kind):
            fitting.append(((not traits.is_host, newest), name, traits))
    if fitting:
        _, name, traits = max(fitting, key=lambda one: one[0])
        note = f"the device is taken to be {name}" if len(fitting) > 1 else ""
        return Place(name, traits, note)
    note = f"device '{asked}' is not known here" if asked and family != snapshot.host_target else ""
    return Place(asked, snapshot.target(snapshot.host_target), note)


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
    facts |= {"dims": problem.dims, "dtype": problem.dtype}

    def is_valid(record: Record) -> bool:
        hard = record["hard"]
        same = (hard["kernel_hash"] == kernel.hash and hard["dims"] == problem.dims
                and hard["dtype"] == problem.dtype)
        return same or kernel.is_valid(problem, place.target, record["config"])

    found = snapshot.records(kernel.name).find(
        Query(kernel.name, "", problem.dims, problem.dtype, place.device, place.target.name),
        is_valid)
    reason = found.reason + (f"; {place.note}" if place.note else "")
    if found.record is not None:
        return Answer(found.record["config"], found.match, reason, record=found.record, **facts)
    config, what = kernel.safe_config(problem, place.target)
    return Answer(config or {}, "default", f"{reason}; {what}", **facts)
