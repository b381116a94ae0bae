# SPDX-License-Identifier: Apache-2.0
"""Helion's winners in the daemon's vault and in snapshots:

    HELION_AUTOTUNE_CACHE=RemoteAutotuneCache HELION_REMOTE_CACHE_BACKEND=tunectl.helion.Cache python train.py

Helion asks `Cache` before it tunes a kernel, and hands it what it found. docs/adoption.md has the rules.
"""
from __future__ import annotations

from collections.abc import Iterable

from helion.autotuner.remote_cache import RemoteCacheBackend

from ._vault import Vault

__all__ = ["Cache"]


class Cache(RemoteCacheBackend):  # type: ignore[misc]
    """A cache backend for Helion. An exception of it is a warning there, and Helion uses its local cache."""

    def __init__(self) -> None:
        self._vault = Vault("helion")

    def get(self, key: str) -> str | None:
        return self._vault.get(key)

    def put(self, key: str, data: str) -> None:
        self._vault.put(key, data)

    def list(self, max_results: int | None = None) -> Iterable[str]:
        return self._vault.values(max_results)
