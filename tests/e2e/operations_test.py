# SPDX-License-Identifier: Apache-2.0
"""What an operator of a daemon uses: doctor, the file of settings, reload, drain and stop."""
import json
import pathlib
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import time
import unittest
import urllib.request

import tunectl_kit

START_SECONDS = 60


class Operations(tunectl_kit.Tunectl):
    def setUp(self):
        super().setUp()
        self.address = f"unix:{self.path}/d.sock"
        self.log = self.path / "log"
        self.config = self.path / "tunerd.toml"

    def tunerd(self, *arguments, expect=0):
        done = subprocess.run([str(tunectl_kit.BIN / "tunerd"), *map(str, arguments)], env=self.env,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, expect, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *arguments):
        """A daemon with the file of settings, which answers."""
        self.env["TUNE_ADDRESS"] = self.address
        with open(self.log, "ab") as log:
            daemon = subprocess.Popen([str(tunectl_kit.BIN / "tunerd"), "--config", str(self.config), *arguments],
                                      env=self.env, stdout=subprocess.DEVNULL, stderr=log)

        def stop():
            daemon.kill()
            daemon.wait()

        self.addCleanup(stop)
        self.await_true(lambda: subprocess.run(self.command("server", "status"), env=self.env, capture_output=True,
                                               check=False).returncode == 0, "tunerd does not answer")
        return daemon

    def await_true(self, condition, message, seconds=START_SECONDS):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(0.05)
        self.fail(f"{message}\n{self.log.read_text() if self.log.exists() else ''}")

    def checks(self, *flags, expect=0):
        """{name: its checks} of doctor."""
        named = {}
        for check in json.loads(self.run_tunectl(*flags, "doctor", "--json", expect=expect).stdout)["checks"]:
            named.setdefault(check["name"], []).append(check)
        return named


class Doctor(Operations):
    def test_without_a_daemon_and_a_gpu_it_checks_what_there_is(self):
        named = self.checks()
        for name in ("driver", "time", "daemon", "disk", "store", "device", "walls"):
            self.assertIn(name, named)
        self.assertIn("works in its own process", named["daemon"][0]["finding"])
        for checks in named.values():
            for check in checks:
                self.assertEqual("advice" in check, check["verdict"] != "CHECK_VERDICT_OK", check)
        text = self.run_tunectl("doctor").stdout
        self.assertRegex(text, r"\n\d+ checks: 0 failed, \d+ with a warning\n$")

    def test_a_daemon_is_checked_by_its_own_status(self):
        self.start_daemon()
        named = self.checks()
        self.assertRegex(named["daemon"][0]["finding"], r"^tunerd \S+, process \d+, at unix:")

    def test_a_daemon_that_hangs_costs_the_timeout_and_fails(self):
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(f"{self.path}/silent.sock")
            silent.listen()
            began = time.monotonic()
            done = self.run_tunectl("--address", f"unix:{self.path}/silent.sock", "doctor", "--timeout", 1, expect=1)
            self.assertLess(time.monotonic() - began, 10)
        self.assertRegex(done.stdout, r"FAIL daemon +no (answer within 1 s|daemon answers at)")
        self.assertRegex(done.stdout, r"(?m)^(ok  |warn|FAIL) driver")

    def test_a_state_folder_that_others_may_write_fails_with_what_to_do(self):
        state = self.path / "state"
        state.mkdir()
        state.chmod(0o777)
        done = self.run_tunectl("doctor", expect=1)
        self.assertIn("chmod go-w", done.stdout)


if __name__ == "__main__":
    unittest.main()
