# SPDX-License-Identifier: Apache-2.0
"""Winners of other tuners: read from the process's snapshot, stored in the daemon's vault.

A job of several ranks, or with a pinned snapshot, reads the snapshot alone, so that all ranks read the same, and rank 0
alone stores. Another process also asks the daemon for what its snapshot lacks.
"""
from __future__ import annotations

from . import _client, _daemon
from ._ranks import is_bound, is_first_rank

_READ_SECONDS = 1.0
_STORE_SECONDS = 5.0


class Vault:
    """The entries of one tuner."""

    def __init__(self, tuner: str) -> None:
        self._tuner = tuner

    def pinned(self) -> dict[str, str]:
        """The entries of the process's snapshot, newest first."""
        try:
            return _client.current().vault(self._tuner)
        except _client.UnpinnedError:
            return {}  # each rank might read another snapshot

    def get(self, key: str) -> str | None:
        """The value of a key, or None. DaemonError: the daemon refuses."""
        value = self.pinned().get(key)
        return value if value is not None or is_bound() else self._live(key)

    def _live(self, key: str) -> str | None:
        """The daemon's own value, or None; a forked process asks no daemon. DaemonError."""
        if _client._is_forked:
            return None
        try:
            _daemon.find_listener(_daemon.default_address(), _READ_SECONDS)
        except _daemon.NoDaemon:
            return None
        from . import _rpc

        try:
            with _rpc.Connection(_daemon.default_address(), _READ_SECONDS) as daemon:
                return str(daemon.call("VaultService", "GetVaultEntry", tuner=self._tuner, key=key).value)
        except _rpc.DaemonError as error:
            if error.code == "NOT_FOUND":
                return None
            raise

    def put(self, key: str, value: str) -> None:
        """Stores a value of JSON for the next run. DaemonError: no daemon answers, or it refuses."""
        if not is_first_rank():
            return
        from . import _rpc

        with _rpc.Connection(_daemon.default_address(), _STORE_SECONDS) as daemon:
            daemon.call("VaultService", "PutVaultEntry", tuner=self._tuner, key=key, value=value)

    def values(self, most: int | None = None) -> list[str]:
        """The values that the snapshot has, newest first."""
        return [*self.pinned().values()][:most]
