# SPDX-License-Identifier: Apache-2.0
"""A real daemon on the CPU device, for tests of the package. Needs TUNE_BIN."""
import importlib.util
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import kit

BIN = pathlib.Path(os.environ["TUNE_BIN"])
SAXPY = str(kit.ROOT / "docs/examples/saxpy/saxpy.textproto")
TIMEOUT_SECONDS = 240
HAS_GRPC = bool(importlib.util.find_spec("grpc") and importlib.util.find_spec("google.protobuf"))
NEEDS_GRPC = unittest.skipUnless(HAS_GRPC, "grpcio or protobuf is not installed")


class DaemonTest(kit.PackageTest):
    """One for all tests of a class, with a state of its own."""

    daemon = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        cls.addClassCleanup(folder.cleanup)
        cls.home = pathlib.Path(folder.name)
        cls.address = f"unix:{cls.home}/d.sock"
        cls.environ = {**os.environ, "TUNE_STATE_DIR": str(cls.home / "state"), "TUNE_ADDRESS": cls.address,
                       "XDG_RUNTIME_DIR": str(cls.home), "NO_COLOR": "1"}
        cls.addClassCleanup(lambda: cls.kill(signal.SIGKILL))
        cls.start()
        cls.prepare()

    @classmethod
    def prepare(cls):
        """What all its tests need, once."""

    @classmethod
    def start(cls, *flags):
        cls.daemon = subprocess.Popen([str(BIN / "tunerd"), *flags], env={**cls.environ, "TUNE_ADDRESS": cls.address},
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1200):  # a host that is busy takes half a minute
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(cls.home / "d.sock")) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("tunerd does not answer")

    @classmethod
    def kill(cls, how):
        if cls.daemon is not None:
            cls.daemon.send_signal(how)
            cls.daemon.wait(timeout=60)
            cls.daemon = None

    @classmethod
    def tunectl(cls, *arguments, ok=True, **more):
        done = subprocess.run([str(BIN / "tunectl"), *map(str, arguments)], env={**cls.environ, **more},
                              capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        if ok and done.returncode != 0:
            raise AssertionError(f"{arguments}: {done.stdout}{done.stderr}")
        return done

    @classmethod
    def sweep(cls, size, *flags):
        cls.tunectl("sweep", SAXPY, "--n", size, "--device", "cpu", "--budget", "2", *flags)

    @classmethod
    def snapshots(cls):
        return json.loads(cls.tunectl("snapshot", "list", "--json").stdout)["snapshots"]

    @classmethod
    def newest(cls):
        return next(one["digest"] for one in cls.snapshots() if one.get("newest"))

    def environment(self):
        return {"TUNE_STATE_DIR": str(self.home / "state"), "TUNE_ADDRESS": self.address,
                "TUNE_CACHE_DIR": str(self.path / "cache")}
