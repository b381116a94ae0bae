# SPDX-License-Identifier: Apache-2.0
"""What a record's config was compiled to, and how to launch it: docs/artifacts.md describes the file.

libtune finds the file, only where nobody else can have put it, and checks its digest.
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

VERSION = 1

_STEP = {"entry": str, "unit": int, "grid": list, "block": list, "cluster": list, "shared_bytes": int,
         "cooperative": bool, "programmatic_dependent_launch": bool, "args": list, "zero": list}
_BUFFER = {"kind": str, "name": str, "dtype": str, "count": int, "role": str}
_ARG: dict[str, dict[str, Any]] = {
    "buffer": _BUFFER,
    "scalar": {"kind": str, "name": str, "dtype": str, "value": (bool, int, float)},
    "tensor_map": {"kind": str, "name": str, "buffer": str, "dims": list, "strides_bytes": list,
                   "box": list, "swizzle_bytes": int, "l2_promotion_bytes": int},
}


class ArtifactError(Exception):
    """An artifact that cannot be had, or bytes that are none."""


class Artifact(NamedTuple):
    digest: str
    facts: Mapping[str, Any]  # the first line of the file
    binaries: tuple[bytes, ...]  # one of each unit: a cubin, PTX, or a shared object


def _need(value: Any, fields: Mapping[str, Any], what: str) -> None:
    if not isinstance(value, dict):
        raise ArtifactError(f"{what} is no object")
    for name, kind in fields.items():
        if not isinstance(value.get(name), kind):
            raise ArtifactError(f"{what} has no usable '{name}'")


def _need_integers(values: list[Any], count: int | None, what: str) -> None:
    if count not in (None, len(values)) or not all(type(one) is int and one >= 0 for one in values):
        raise ArtifactError(f"{what} has no usable sizes")


def _check_step(step: Any, units: int) -> None:
    _need(step, _STEP, "a step")
    for name in ("grid", "block", "cluster"):
        _need_integers(step[name], 3, "a step")
    if not 0 <= step["unit"] < units:
        raise ArtifactError("a step is of a unit that is not there")
    for arg in step["args"]:
        kind = arg.get("kind") if isinstance(arg, dict) else None
        _need(arg, _ARG.get(str(kind), {"kind": type(None)}), "an arg")
        for name in ("dims", "strides_bytes", "box") if kind == "tensor_map" else ():
            _need_integers(arg[name], None, "a tensor map")
    for buffer in step["zero"]:
        _need(buffer, _BUFFER, "a buffer")


def missing_features(facts: Mapping[str, Any], here: frozenset[str]) -> list[str]:
    """Of a processor: what the binary may use, and it does not have."""
    wanted = facts.get("processor_features", [])
    return sorted(str(one) for one in wanted if one not in here) if isinstance(wanted, list) else ["?"]


def parse(data: bytes, digest: str) -> Artifact:
    """ArtifactError: damaged, or of another version."""
    line, newline, rest = data.partition(b"\n")
    try:
        facts = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"its first line is no JSON: {error}") from None
    _need(facts, {"format": str, "version": int, "kernel": str, "kernel_hash": str, "target": str,
                  "device": str, "dtype": str, "dims": dict, "config": dict, "steps": list,
                  "symbols": list, "binary_bytes": list}, "the artifact")
    if facts["format"] != "tunectl artifact" or facts["version"] != VERSION:
        raise ArtifactError(f"it is of version {facts['version']}, not {VERSION}")
    sizes = facts["binary_bytes"]
    _need_integers(sizes, None, "the artifact")
    if not newline or sum(sizes) != len(rest) or not facts["steps"]:
        raise ArtifactError("its parts do not fit its size")
    for step in facts["steps"]:
        _check_step(step, len(sizes))
    for symbol in facts["symbols"]:
        _need(symbol, {"variable": str, "unit": int, "buffer": dict}, "a symbol")
        _need(symbol["buffer"], _BUFFER, "a symbol")
        if not 0 <= symbol["unit"] < len(sizes):
            raise ArtifactError("a symbol is of a unit that is not there")
    binaries, at = [], 0
    for size in sizes:
        binaries.append(rest[at:at + size])
        at += size
    return Artifact(digest, facts, tuple(binaries))
