# SPDX-License-Identifier: Apache-2.0
"""The daemon's page, looked at in a headless browser while a sweep runs. Run by ctest; needs TUNE_BIN.

With PAGE_SCREENSHOTS=DIR it leaves pictures there for people: light, dark, phone.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest
import urllib.error
import urllib.request

from tunectl_kit import BIN, SAXPY, Tunectl

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)


class Page(Tunectl):
    def start_daemon_with_page(self):
        address = f"unix:{self.path}/d.sock"
        self.env["TUNE_ADDRESS"] = address
        daemon = subprocess.Popen([str(BIN / "tunerd"), "--listen", address, "--web", "127.0.0.1:0"],
                                  env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def stop():
            daemon.terminate()
            self.assertEqual(daemon.wait(timeout=30), 0)

        self.addCleanup(stop)
        for _ in range(200):
            status = subprocess.run(self.command("server", "status", "--json"), env=self.env,
                                    capture_output=True, text=True, check=False)
            if status.returncode == 0:
                return json.loads(status.stdout)["web_url"]
            time.sleep(0.05)
        self.fail("tunerd does not answer")

    def get(self, url):
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.read().decode()

    def browse(self, url, *flags):
        if BROWSER is None:
            self.skipTest("no headless browser; tools/packages-check.txt names one")
        done = subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--hide-scrollbars", "--enable-logging=stderr", *flags, url],
            capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for line in done.stderr.splitlines():
            self.assertNotIn("CONSOLE", line)  # a fault of the script, or of the policy
        return done.stdout

    def pictures(self, name, url):
        target = pathlib.Path(os.environ.get("PAGE_SCREENSHOTS", self.path))
        target.mkdir(parents=True, exist_ok=True)
        for look, flags in (("light", ["--window-size=1280,1600"]),
                            ("dark", ["--window-size=1280,1600",
                                      "--blink-settings=preferredColorScheme=0"]),
                            ("phone", ["--window-size=420,1600"])):
            picture = target / f"{name}-{look}.png"
            self.browse(url, *flags, "--timeout=20000", f"--screenshot={picture}")
            self.assertGreater(picture.stat().st_size, 10_000, "an empty page")

    def test_a_sweep_is_seen_while_it_runs_and_afterwards(self):
        web = self.start_daemon_with_page()
        sweep = subprocess.Popen(
            self.command("sweep", "--kernel", SAXPY, "--device", "cpu", "--n", "4194304", "--budget",
                         "25s", "--strategy", "random", "--json"),
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(sweep.kill)
        first = sweep.stderr.readline()
        self.assertRegex(first, rf"^page: {web}/jobs/\d+$")
        job = first.split()[1]
        for _ in range(200):
            page = self.get(job)  # goes on to the sweep's
            if re.search(r"<dt>trials</dt><dd>[1-9]", page):
                break
            time.sleep(0.1)
        self.assertIn('data-live="/live/jobs/', page)
        # The numbers in the browser are newer than those that the page came with.
        dom = self.browse(job, "--timeout=20000", "--dump-dom")
        self.assertIn("trials in the order of the search", dom.lower())
        self.assertIn('data-ready="true"', dom)
        self.assertNotIn("data-errors", dom)
        self.pictures("running", job)
        self.pictures("now", web)

        out, err = sweep.communicate(timeout=200)
        self.assertEqual(sweep.returncode, 0, err)
        self.assertEqual(err.splitlines()[-1], first.strip())
        done = json.loads(out)
        ended = f"{web}/sweeps/{done['id']}"
        dom = self.browse(ended, "--timeout=20000", "--dump-dom")
        self.assertIn("saxpy", dom)
        self.assertNotIn("data-live", dom)
        self.pictures("sweep", ended)

    def test_no_page_without_the_flag_and_no_foreign_address(self):
        self.start_daemon()
        self.assertFalse(self.json_of("server", "status").get("web_url"))
        done = subprocess.run([str(BIN / "tunerd"), "--listen", f"unix:{self.path}/e.sock",
                               "--state-dir", str(self.path / "e"), "--web", "0.0.0.0:0"],
                              env=self.env, capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ssh -L", done.stderr)


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    del Tunectl  # its cases are not this file's
    unittest.main(verbosity=2)
