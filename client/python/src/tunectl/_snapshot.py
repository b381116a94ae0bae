# SPDX-License-Identifier: Apache-2.0
"""A snapshot in memory: checked when it is read, never changed afterwards. docs/snapshots.md."""
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from ._grid import Grid, grids_of
from ._kernel import Kernel, Target, target_named
from ._lookup import KernelRecords, Record

VERSION = 1
BYTES_MAX = 256 << 20

_KERNEL = {"name": str, "hash": str, "on_host": bool, "targets": list, "dtypes": list, "dims": list,
           "params": list, "lets": list, "constraints": list, "steps": list}
_TARGET = {"is_host": bool, "sm": int, "sm_count": int, "max_threads_per_block": int,
           "max_shared_bytes": int}


class SnapshotError(Exception):
    """Bytes that are no snapshot, or not the one that was wanted."""


def digest_of(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def is_digest(text: str) -> bool:
    return re.fullmatch(r"sha256:[0-9a-f]{64}", text) is not None


def _need(value: Any, fields: Mapping[str, Any], what: str) -> None:
    if not isinstance(value, dict):
        raise SnapshotError(f"{what} is no object")
    for name, kind in fields.items():
        if not isinstance(value.get(name), kind):
            raise SnapshotError(f"{what} has no usable '{name}'")


def _is_record(record: Any) -> bool:
    """Has it what answers are made of? Written out, since there may be many."""
    try:
        hard, latency = record["hard"], record["latency_ns"]
        return (type(record["id"]) is int and type(record["kernel"]) is str
                and type(hard["kernel_hash"]) is str and type(hard["target"]) is str
                and type(hard["device"]) is str and type(hard["dtype"]) is str
                and type(hard["cache_mode"]) is str and type(hard["dims"]) is dict
                and type(hard.get("include_digest", "")) is str
                and type(record["config"]) is dict and type(record["confidence"]) is str
                and type(record["published_unix_ms"]) is int and type(record["evidence"]) is str
                and latency["low"] <= latency["median"] <= latency["high"]
                and {int}.issuperset(map(type, hard["dims"].values())))
    except (TypeError, KeyError):
        return False


# What a daemon writes one on a line, in this order, and how a line names its kernel.
_LISTS = {"kernels": re.compile(rb'\{"name":"([^"\\]+)",'),
          "records": re.compile(rb'\{"id":\d+,"kernel":"([^"\\]+)",'),
          "grids": re.compile(rb'\{"kernel":"([^"\\]+)",')}
_Lines = dict[str, list[bytes]]  # by kernel


def _lines_of(text: bytes, start: re.Pattern[bytes]) -> Optional[_Lines]:
    lines: _Lines = {}
    for line in text.split(b",\n") if text else ():
        named = start.match(line)
        if named is None:
            return None
        lines.setdefault(named[1].decode(errors="replace"), []).append(line)
    return lines


def _split(data: bytes) -> Optional[tuple[bytes, dict[str, _Lines]]]:
    """All but the lists, and the lines of those; None: it is not laid out so."""
    place = data.find(b',\n"kernels":[')
    head = data[:place] + b',"kernels":[],"records":[]}'
    lists: dict[str, _Lines] = {}
    for name, start in _LISTS.items():
        opening = b',\n"%s":[' % name.encode()
        if not data.startswith(opening, max(place, 0)):
            if name == "grids":  # files of older daemons have none
                break
            return None
        place += len(opening)
        end = data.find(b"]" if data.startswith(b"]", place) else b"\n]", place)
        lines = _lines_of(data[place + 1:end], start) if end >= 0 else None
        if lines is None:
            return None
        lists[name] = lines
        place = data.index(b"]", end) + 1
    return (head, lists) if data[place:] == b"}\n" else None


def _joined(files: Sequence[bytes]) -> tuple[bytes, dict[str, _Lines]]:
    """All but the lists of the first file, and the lines of all; of a kernel that several describe, the first's."""
    lists: dict[str, _Lines] = {name: {} for name in _LISTS}
    head = b""
    for file in files:
        split = _split(file)
        if split is None:
            raise SnapshotError("it is no snapshot as a daemon writes it")
        head = head or split[0]
        for name, of_kernels in split[1].items():
            for kernel, lines in of_kernels.items():
                there = lists[name].setdefault(kernel, [])
                there += lines if name != "kernels" or not there else []
    return head, lists


class Snapshot:
    """The records and kernels of one file. Where its digest tells that it is whole, as a daemon wrote it,
    what it says of a kernel is read when that is first asked for."""

    def __init__(self, data: bytes, wanted_digest: str = "", files: Sequence[bytes] = ()) -> None:
        """`files`: those that ship, of a device each, instead of `data`. They are one snapshot, whose digest is that of
        all their bytes, and are whole, as gzip's sums tell. SnapshotError: damaged, of another version, or not what
        `wanted_digest` names."""
        self.digest = digest_of(b"".join(files) or data)
        if wanted_digest and self.digest != wanted_digest:
            raise SnapshotError(f"its bytes are {self.digest}, not {wanted_digest}")
        split = _joined(files) if files else _split(data) if wanted_digest else None
        head, self._lists = split if split is not None else (data, {})
        try:
            parsed = json.loads(head)
        except (ValueError, RecursionError) as error:
            raise SnapshotError(f"it is no JSON: {error}") from None
        _need(parsed, {"format": str, "version": int, "number": int, "published_unix_ms": int,
                       "targets": dict, "kernels": list, "records": list}, "the snapshot")
        if parsed["format"] != "tunectl snapshot" or parsed["version"] != VERSION:
            raise SnapshotError(f"it is of version {parsed['version']}, not {VERSION}")
        self.number: int = parsed["number"]
        self.published_unix_ms: int = parsed["published_unix_ms"]
        for traits in parsed["targets"].values():
            _need(traits, _TARGET, "a target")
        self._targets: dict[str, dict[str, Any]] = {
            name: {field: traits[field] for field in _TARGET}
            for name, traits in parsed["targets"].items()}
        self._kernels: dict[str, Kernel] = {}
        for spec in parsed["kernels"]:
            self._add_kernel(spec)
        self._by_kernel: dict[str, list[Record]] = {}
        for record in parsed["records"]:
            if not _is_record(record):
                raise SnapshotError("a record lacks a field")
            self._by_kernel.setdefault(record["kernel"], []).append(record)
        self.record_count = len(parsed["records"]) + sum(map(len, self._lists.get("records", {}).values()))
        self._grids = grids_of(parsed.get("grids"))
        self._indices: dict[str, KernelRecords] = {}
        self._devices: Optional[dict[str, tuple[str, int]]] = None

    def _add_kernel(self, spec: Any) -> None:
        _need(spec, _KERNEL, "a kernel")
        self._kernels[spec["name"]] = Kernel(spec)

    def _read_lines(self, member: str, kernel: str) -> list[Any]:
        """What a list of the file has of a kernel. It was written so: what cannot be read is not there."""
        lines = self._lists.get(member, {}).get(kernel, [])
        try:
            return list(json.loads(b"[" + b",".join(lines) + b"]"))
        except (ValueError, RecursionError):
            return []

    def kernel(self, name: str) -> Optional[Kernel]:
        if name not in self._kernels:
            for spec in self._read_lines("kernels", name):
                try:
                    self._add_kernel(spec)
                except SnapshotError:
                    return None
        return self._kernels.get(name)

    @property
    def kernel_names(self) -> list[str]:
        return sorted({*self._kernels, *self._lists.get("kernels", {})})

    def target(self, name: str) -> Target:
        return target_named(name, self._targets)

    @property
    def host_target(self) -> str:
        """What the CPU device of any host compiles for."""
        return next((name for name, traits in self._targets.items() if traits["is_host"]), "cpu")

    def devices(self) -> dict[str, tuple[str, int]]:
        """Of each device that has records: its target and its newest record's number."""
        if self._devices is None:
            seen: dict[str, tuple[str, int]] = {}
            for kernel in {*self._by_kernel, *self._lists.get("records", {})}:
                for record in self.records_of(kernel):
                    hard = record["hard"]
                    if record["id"] > seen.get(hard["device"], ("", -1))[1]:
                        seen[hard["device"]] = (hard["target"], record["id"])
            self._devices = seen
        return self._devices

    def records_of(self, kernel: str) -> list[Record]:
        if kernel not in self._by_kernel:
            self._by_kernel[kernel] = [record for record in self._read_lines("records", kernel)
                                       if _is_record(record)]
        return self._by_kernel[kernel]

    def grids_of(self, kernel: str) -> list[Grid]:
        """The sweeps behind the records of a kernel, for problems between them."""
        if kernel not in self._grids:
            self._grids[kernel] = grids_of(self._read_lines("grids", kernel)).get(kernel, [])
        return self._grids[kernel]

    def records(self, kernel: str) -> KernelRecords:
        index = self._indices.get(kernel)
        if index is None:
            known = self.kernel(kernel)
            index = KernelRecords(self.records_of(kernel),
                                  known.rules if known is not None else {},
                                  known.hash if known is not None else "",
                                  known.include_digest if known is not None else "")
            self._indices[kernel] = index
        return index
