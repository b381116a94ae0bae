# SPDX-License-Identifier: Apache-2.0
"""Where dims lie, and the sentence that comes with an answer: as lookup/reason.cc."""
from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any


def axis_position(value: int) -> float:
    """Log2, carried on below 1 so that different values stay different."""
    return math.log2(value) if value >= 1 else float(value) - 1


def bucket_of(value: int) -> tuple[int, int]:
    """The values that count as the same when bucketed, both inclusive."""
    if value <= 1:
        return value, value
    high = 1 << (value - 1).bit_length()
    return high // 2 + 1, min(high, 2**63 - 1)


def _describe(name: str, asked: int, there: int, bucketed: bool) -> str:
    text = f"{name} is {asked} and the record's {there}"
    low, high = bucket_of(asked)
    if bucketed and low <= there <= high:
        return f"{text} (both in {low} to {high})"
    factor = 2 ** abs(axis_position(asked) - axis_position(there))
    return text if factor < 1.005 else f"{text} (a factor of {factor:.3g})"


def driver_of(record: Mapping[str, Any]) -> str:
    """That it was measured with; empty: not known."""
    soft = record.get("soft")
    driver = soft.get("driver") if isinstance(soft, dict) else None
    return driver if isinstance(driver, str) else ""


def has_headers(include_digest: str, hard: Mapping[str, Any]) -> bool:
    """Was a record's code compiled with these headers? True where they are not known."""
    return not include_digest or bool(hard.get("include_digest", "") == include_digest)


def _opening(match: str, query: Any, hard: Mapping[str, Any]) -> str:
    device = hard["device"]
    if match == "exact":
        return f"exact: this problem was tuned on {device}"
    if match == "bucketed":
        return f"bucketed: on {device}"
    if match == "nearest":
        return f"nearest on {device}"
    return f"other device: asked for {query.device}, tuned on {device} (both {hard['target']})"


def explain(match: str, query: Any, record: Mapping[str, Any], rules: Mapping[str, str],
            wanted_hash: str, include_digest: str = "") -> str:
    """Why this record: which fields differ, both values, and how far apart they are."""
    hard = record["hard"]
    differences: list[str] = []
    ignored: list[str] = []
    distance = 0.0
    for name, asked in query.dims.items():
        there = hard["dims"].get(name, asked)
        if there == asked:
            continue
        rule = rules.get(name, "nearest")
        if rule == "ignored":
            ignored.append(f"{name} ({asked}, the record's {there})")
            continue
        differences.append(_describe(name, asked, there, rule == "bucketed"))
        distance += abs(axis_position(asked) - axis_position(there))
    reason = _opening(match, query, hard)
    if differences:
        reason += ": " + ", ".join(differences)
        if len(differences) > 1:
            reason += f", a factor of {2 ** distance:.3g} in all"
    elif match == "nearest":
        reason += ": the same problem"
    if ignored:
        reason += f"; {', '.join(ignored)} does not matter to this kernel"
    if wanted_hash and wanted_hash != hard["kernel_hash"]:
        reason += (f"; the kernel's source differs: tuned {hard['kernel_hash'][:12]}, "
                   f"asked for {wanted_hash[:12]}")
    elif not has_headers(include_digest, hard):
        tuned = hard.get("include_digest", "")
        reason += (f"; the headers of its include roots differ: tuned {tuned[:12] or 'with others'}, "
                   f"here are {include_digest[:12]}")
    there = driver_of(record)
    if match != "other_device" and query.driver and there and there != query.driver:
        reason += f"; other driver: measured with {there}, here is {query.driver}"
    if hard["cache_mode"] == "warm":
        reason += "; measured with warm caches"
    if record["id"] == 0:
        day = datetime.datetime.fromtimestamp(record["published_unix_ms"] / 1e3, datetime.timezone.utc)
        reason += f"; a record that came with tunectl, of {day:%Y-%m-%d}"
    return reason


def explain_missing(query: Any, dtypes_by_target: Mapping[str, set[str]], rules: Mapping[str, str],
                    refused: int) -> str:
    """Why no record answers."""
    name = query.kernel
    if not dtypes_by_target:
        return f"no record of {name}"
    dtypes = dtypes_by_target.get(query.target)
    if dtypes is None:
        return (f"no record of {name} for {query.target}, only for "
                f"{', '.join(sorted(dtypes_by_target))}")
    if query.dtype not in dtypes:
        return f"no record of {name} in {query.dtype}, only in {', '.join(sorted(dtypes))}"
    if refused:
        return f"the configs of the nearest records of {name} are not valid for this problem"
    exact = [f"{dim}={value}" for dim, value in query.dims.items() if rules.get(dim) == "exact"]
    return (f"no record of {name} in {query.dtype} on {query.device}{' with ' if exact else ''}{' '.join(exact)}"
            f", nor of this problem on another device")
