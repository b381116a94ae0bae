# SPDX-License-Identifier: Apache-2.0
"""What the tests of the Python package share: snapshots made by hand, and folders of their own."""
import copy
import hashlib
import json
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "client/python/src"
sys.path.insert(0, str(PACKAGE))

H200 = "NVIDIA H200"
# Where the build is; all else of the environment is the test's own.
KEPT = ("TUNE_BIN", "TUNE_LIBRARY", "TUNE_PROTO_SET", "TUNE_LAUNCH_LIBRARY")
TARGETS = {
    "cpu": {"is_host": True, "sm": 0, "sm_count": 1, "max_threads_per_block": 1024, "max_shared_bytes": 1 << 20},
    "sm_90a": {"is_host": False, "sm": 90, "sm_count": 132, "max_threads_per_block": 1024,
               "max_shared_bytes": 232448},
}
KERNEL = {
    "name": "scale", "hash": "ab" * 32, "on_host": True, "targets": [], "dtypes": ["bf16", "f32"],
    "dims": [
        {"name": "n", "match": "nearest", "default": 4096, "on": [["cpu", 64]], "min": 1, "max": 1 << 40,
         "values": []},
        {"name": "mode", "match": "exact", "default": 0, "on": [], "min": 0, "max": 1 << 40, "values": [0, 1]},
    ],
    "params": [
        {"name": "THREADS", "choices": [{"target": "*", "values": "pow2(32, 1024)", "default": "256"}]},
        {"name": "PATH", "choices": [{"target": "cpu", "values": "['plain']", "default": "'plain'"},
                                     {"target": "*", "values": "['plain', 'mma']", "default": "'mma'"}]},
    ],
    "lets": [["bytes", "THREADS * 16"]],
    "constraints": ["THREADS <= n", "PATH != 'mma' or bytes <= 16384"],
    "steps": [{"when": "", "grid": ["ceil_div(n, THREADS)"], "block": ["THREADS"], "cluster": [],
               "shared_bytes": "bytes"}],
}


def record(number, n=4096, mode=0, device=H200, target="sm_90a", dtype="bf16", config=None, **hard):
    return {
        "id": number, "kernel": "scale",
        "hard": {"kernel_hash": KERNEL["hash"], "target": target, "device": device, "dtype": dtype,
                 "dims": {"n": n, "mode": mode}, "cache_mode": "cold", **hard},
        "soft": {"driver": "570.1", "compiler": "NVRTC 13.0"},
        "config": config or {"THREADS": 128, "PATH": "mma"}, "confidence": "confirmed",
        "latency_ns": {"median": 1500.0, "low": 1490.0, "high": 1520.0}, "default_latency_ns": 1800.0,
        "published_unix_ms": 1_700_000_000_000 + number, "binary_sha256": "", "evidence": f"sha256:{number:064x}",
    }


def snapshot_bytes(records=(), number=7, kernels=(KERNEL,), **fields):
    """As the daemon writes them, a header line first."""
    header = {"format": "tunectl snapshot", "version": 1, "number": number,
              "published_unix_ms": 1_700_000_000_000, "record_count": len(records), **fields}
    rest = {"targets": TARGETS, "kernels": list(kernels), "records": list(records)}
    return (json.dumps(header)[:-1] + ",\n" + json.dumps(copy.deepcopy(rest))[1:] + "\n").encode()


def daemon_bytes(records=(), grids=(), **fields):
    """The same, laid out as the daemon does: compact, each kernel, record and grid on a line."""
    whole = {**json.loads(snapshot_bytes(records, **fields)), "grids": list(grids)}
    compact = {"separators": (",", ":"), "ensure_ascii": False}
    lists = {name: whole.pop(name) for name in ("kernels", "records", "grids")}
    targets = whole.pop("targets")
    text = f'{json.dumps(whole, **compact)[:-1]},\n"targets":{json.dumps(targets, **compact)}'
    for name, members in lists.items():
        lines = ",".join("\n" + json.dumps(one, **compact) for one in members)
        text += f',\n"{name}":[{lines}' + ("\n]" if lines else "]")
    return (text + "}\n").encode()


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def put_in_cache(data, address=None):
    """Into the node's cache, as the newest of a daemon. Returns the digest."""
    folder = pathlib.Path(os.environ["TUNE_CACHE_DIR"]) / "snapshots"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / (digest_of(data).replace(":", "-") + ".json")).write_bytes(data)
    of_daemon = hashlib.sha256((address or os.environ["TUNE_ADDRESS"]).encode()).hexdigest()[:16]
    (folder / f"latest-{of_daemon}").write_text(digest_of(data) + "\n")
    return digest_of(data)


class PackageTest(unittest.TestCase):
    """A process state, a folder and an environment of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        kept = dict(os.environ)

        def restore():
            os.environ.clear()
            os.environ.update(kept)

        self.addCleanup(restore)
        for name in [*os.environ]:
            if name.startswith("TUNE_") and name not in KEPT or name == "WORLD_SIZE":
                del os.environ[name]
        os.environ.update(self.environment())
        from tunectl import _client

        # What the package brings answers nobody here: the tests say what there is.
        patched = unittest.mock.patch.object(_client, "bundled_folder", lambda: str(self.path / "no bundle"))
        patched.start()
        self.addCleanup(patched.stop)

        _client._process = None

    def environment(self):
        return {"TUNE_STATE_DIR": str(self.path / "state"), "TUNE_CACHE_DIR": str(self.path / "cache"),
                "TUNE_ADDRESS": f"unix:{self.path}/d.sock"}

    def put(self, data, folder=None, newest=True):
        """Into the folder where the host's daemon writes. Returns the digest."""
        folder = pathlib.Path(folder or self.path / "state/snapshots")
        folder.mkdir(parents=True, exist_ok=True)
        digest = digest_of(data)
        (folder / (digest.replace(":", "-") + ".json")).write_bytes(data)
        if newest:
            (folder / "latest").write_text(digest + "\n")
        return digest
