# SPDX-License-Identifier: Apache-2.0
"""A snapshot in memory: checked when it is read, never changed afterwards. docs/snapshots.md."""
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
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
                and type(record["config"]) is dict and type(record["confidence"]) is str
                and type(record["published_unix_ms"]) is int and type(record["evidence"]) is str
                and latency["low"] <= latency["median"] <= latency["high"]
                and {int}.issuperset(map(type, hard["dims"].values())))
    except (TypeError, KeyError):
        return False


_RECORDS_START = b',\n"records":[\n'
_RECORDS_END = b"\n]}\n"
_RECORD_START = re.compile(rb'\{"id":\d+,"kernel":"([^"\\]+)",')


def _split(data: bytes) -> Optional[tuple[bytes, dict[str, list[bytes]]]]:
    """All but the records, and the lines of those by kernel; None: it is not laid out so."""
    head, found, rest = data.partition(_RECORDS_START)
    if not found or not rest.endswith(_RECORDS_END):
        return None
    lines: dict[bytes, list[bytes]] = {}
    for line in rest[:-len(_RECORDS_END)].split(b",\n"):
        start = _RECORD_START.match(line)
        if start is None:
            return None
        lines.setdefault(start[1], []).append(line)
    return head + b',"records":[]}', {name.decode(errors="replace"): of for name, of in lines.items()}


class Snapshot:
    """The records and kernels of one file. Where its digest tells that it is whole, as a daemon wrote it,
    a kernel's records are read when they are first asked for."""

    def __init__(self, data: bytes, wanted_digest: str = "") -> None:
        """SnapshotError: damaged, of another version, or not what `wanted_digest` names."""
        self.digest = digest_of(data)
        if wanted_digest and self.digest != wanted_digest:
            raise SnapshotError(f"its bytes are {self.digest}, not {wanted_digest}")
        split = _split(data) if wanted_digest else None
        head, self._lines = split if split is not None else (data, {})
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
            _need(spec, _KERNEL, "a kernel")
            self._kernels[spec["name"]] = Kernel(spec)
        self._by_kernel: dict[str, list[Record]] = {}
        for record in parsed["records"]:
            if not _is_record(record):
                raise SnapshotError("a record lacks a field")
            self._by_kernel.setdefault(record["kernel"], []).append(record)
        self.record_count = len(parsed["records"]) + sum(map(len, self._lines.values()))
        self._grids = grids_of(parsed.get("grids"))
        self._indices: dict[str, KernelRecords] = {}

    def kernel(self, name: str) -> Optional[Kernel]:
        return self._kernels.get(name)

    @property
    def kernel_names(self) -> list[str]:
        return sorted(self._kernels)

    def target(self, name: str) -> Target:
        return target_named(name, self._targets)

    @property
    def host_target(self) -> str:
        """What the CPU device of any host compiles for."""
        return next((name for name, traits in self._targets.items() if traits["is_host"]), "cpu")

    def devices(self) -> dict[str, tuple[str, int]]:
        """Of each device that has records: its target and its newest record's number."""
        seen: dict[str, tuple[str, int]] = {}
        for kernel in {*list(self._by_kernel), *self._lines}:
            for record in self.records_of(kernel):
                hard = record["hard"]
                if record["id"] > seen.get(hard["device"], ("", 0))[1]:
                    seen[hard["device"]] = (hard["target"], record["id"])
        return seen

    def records_of(self, kernel: str) -> list[Record]:
        lines = self._lines.get(kernel)
        if lines is not None and kernel not in self._by_kernel:
            try:
                parsed = json.loads(b"[" + b",".join(lines) + b"]")
            except (ValueError, RecursionError):  # it was written so: then it has none
                parsed = []
            self._by_kernel[kernel] = [record for record in parsed if _is_record(record)]
        return self._by_kernel.get(kernel, [])

    def grids_of(self, kernel: str) -> list[Grid]:
        """The sweeps behind the records of a kernel, for problems between them."""
        return self._grids.get(kernel, [])

    def records(self, kernel: str) -> KernelRecords:
        index = self._indices.get(kernel)
        if index is None:
            known = self._kernels.get(kernel)
            index = KernelRecords(self.records_of(kernel),
                                  known.rules if known is not None else {},
                                  known.hash if known is not None else "")
            self._indices[kernel] = index
        return index
