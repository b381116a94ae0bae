# SPDX-License-Identifier: Apache-2.0
"""Runs the programs as a user would: what the tests of `tunectl` share. Needs TUNE_BIN."""
import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["TUNE_BIN"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
SAXPY = str(ROOT / "docs/examples/saxpy/saxpy.textproto")
TIMEOUT_SECONDS = 240


class Tunectl(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="tune-")
        self.addCleanup(self.dir.cleanup)
        self.path = pathlib.Path(self.dir.name)
        self.env = {**os.environ, "TUNE_STATE_DIR": str(self.path / "state"),
                    "XDG_RUNTIME_DIR": str(self.path), "NO_COLOR": "1"}
        self.env.pop("TUNE_ADDRESS", None)

    def command(self, *arguments):
        # Never the host's own daemon: embedded unless a test sets the address.
        return [str(BIN / "tunectl"), *map(str, arguments)]

    def run_tunectl(self, *arguments, expect=0):
        done = subprocess.run(self.command(*arguments), env=self.env, capture_output=True, text=True,
                              timeout=TIMEOUT_SECONDS, check=False)
        self.assertEqual(done.returncode, expect,
                         f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        return done

    def json_of(self, *arguments):
        return json.loads(self.run_tunectl(*arguments, "--json").stdout)

    def start_daemon(self):
        address = f"unix:{self.path}/d.sock"
        self.env["TUNE_ADDRESS"] = address
        daemon = subprocess.Popen([str(BIN / "tunerd"), "--listen", address], env=self.env,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def stop():
            daemon.kill()
            daemon.wait()

        self.addCleanup(stop)
        for _ in range(100):
            if subprocess.run(self.command("server", "status"), env=self.env, capture_output=True,
                              check=False).returncode == 0:
                return daemon
            time.sleep(0.05)
        self.fail("tunerd does not answer")
