# SPDX-License-Identifier: Apache-2.0
"""What is left without libtune: a snapshot's file answers for the very problems that it has records of.

The file is the one that is named; else one of the folder TUNE_SNAPSHOT_DIR, by its digest, or the newest there; else
the package's. Nothing is chosen, no daemon is asked, and a device is known by its whole name or through PyTorch.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from ._answer import Answer, Expectation

_VERSION = 1


def _read(path: str, digest: str) -> tuple[str, dict[str, Any]]:
    """The digest, and what the file has. OSError, ValueError."""
    with open(path, "rb") as file:
        data = file.read()
    there = "sha256:" + hashlib.sha256(data).hexdigest()
    if digest and there != digest:
        raise ValueError(f"its bytes are {there}, not {digest}")
    parsed = json.loads(data)
    if not isinstance(parsed, dict) or parsed.get("version") != _VERSION:
        raise ValueError("it is no snapshot of this version")
    return there, parsed


class Snapshot:
    """As _libtune.Snapshot. Immutable."""

    def __init__(self, wanted: str, bundle: str, why: str) -> None:
        """why: what became of libtune. ValueError: what is wanted cannot be a digest."""
        self.digest, self.number, self.source, self._why = "", 0, "none", why
        self._kernels: dict[str, Mapping[str, Any]] = {}
        self._records: list[Mapping[str, Any]] = []
        notes = [why]
        for source, path, digest in self._places(wanted, bundle):
            try:
                self.digest, parsed = _read(path, digest)
                self._kernels = {one["name"]: one for one in parsed["kernels"]}
                self._records, self.number, self.source = parsed["records"], int(parsed["number"]), source
                break
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                self.digest = ""
                notes.append(f"{path}: {getattr(error, 'strerror', None) or error}")
        self.notes = tuple(notes)

    @staticmethod
    def _places(wanted: str, bundle: str) -> Iterator[tuple[str, str, str]]:
        folder, digest = os.environ.get("TUNE_SNAPSHOT_DIR", ""), wanted if wanted.startswith("sha256:") else ""
        if digest and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise ValueError(f"'{wanted}' is no digest: sha256: and 64 hex digits in lower case")
        if wanted and not digest and wanted != "latest":
            yield "file", wanted, ""
            return
        if folder and not digest:
            try:
                with open(os.path.join(folder, "latest"), encoding="ascii", errors="replace") as file:
                    newest = file.read(128).strip()
                yield "file", os.path.join(folder, newest.replace(":", "-") + ".json"), newest
            except OSError:
                pass
        elif folder:
            yield "file", os.path.join(folder, digest.replace(":", "-") + ".json"), digest
        yield "bundled", os.path.join(bundle, "snapshot.json"), digest

    @property
    def kernels(self) -> list[str]:
        return sorted(self._kernels)

    def best(self, kernel: str, dtype: str, device: str, dims: Mapping[str, int]) -> Answer:
        spec = self._kernels.get(kernel)
        facts: dict[str, Any] = {"kernel": kernel, "device": device, "snapshot": self.digest, "source": self.source}
        if spec is None:
            return Answer({}, "default", f"no snapshot that was read has a kernel '{kernel}': {'; '.join(self.notes)}", **facts)
        dtype = dtype or spec["dtypes"][0]
        # A default that depends on the target is not filled in.
        whole: dict[str, Any] = {}
        for dim in spec["dims"]:
            default = whole.get(dim.get("default_dim"), None if dim["on"] else dim["default"])
            whole[dim["name"]] = dims.get(dim["name"], default)
        there = [one for one in self._records if one["kernel"] == kernel and self._is_of(one, spec, device, dtype, whole)]
        if not there:
            return Answer({}, "default", f"no record of {kernel} is of this very problem on '{device}'; {self._why}",
                          dims={name: value for name, value in whole.items() if value is not None}, dtype=dtype, **facts)
        record = max(there, key=lambda one: (one["hard"]["cache_mode"] != "warm", one["id"], one["published_unix_ms"]))
        latency = record["latency_ns"]
        return Answer(record["config"], "exact", f"exact: this problem was tuned on {device}", dims=whole, dtype=dtype,
                      target=record["hard"]["target"], record=record["id"], published_unix_ms=record["published_unix_ms"],
                      latency_ns=latency["median"], latency_ns_low=latency["low"], latency_ns_high=latency["high"],
                      confidence=record["confidence"], evidence=record["evidence"], artifact=record.get("artifact", ""),
                      expectation=Expectation("measured", text="may lose: measured here, but the host was too noisy to tell"
                                              if record["confidence"] == "noisy" else "loses nothing: measured here"), **facts)

    @staticmethod
    def _is_of(record: Mapping[str, Any], spec: Mapping[str, Any], device: str, dtype: str, dims: Mapping[str, Any]) -> bool:
        hard, headers = record["hard"], spec.get("include_digest", "")
        return bool(hard["kernel_hash"] == spec["hash"] and hard["device"] == device and hard["dtype"] == dtype
                    and hard["dims"] == dims and (not headers or hard.get("include_digest", "") == headers))

    def explain(self, kernel: str, dtype: str, device: str, dims: Mapping[str, int], most: int) -> Any:
        answer = self.best(kernel, dtype, device, dims)
        return {"text": f"{answer!r}\nexpected: {answer.expectation}", "candidates": []}

    def kernel(self, name: str) -> Optional[Mapping[str, Any]]:
        """None: no binary is launched."""
        return None

    def vault(self, tuner: str) -> dict[str, str]:
        """None are read without libtune."""
        return {}

    def evaluate(self, kernel: str, dims: Mapping[str, int], dtype: str, target: str, expression: str) -> Any:
        raise ValueError(self._why)

    def artifact(self, digest: str) -> bytes:
        raise LookupError(self._why)

    def wait_for_misses(self, seconds: float) -> bool:
        return True

    @property
    def miss_notes(self) -> tuple[str, ...]:
        return (self._why,)

    def watch(self, every: float) -> None:
        """None: nothing better is found."""
        return None
