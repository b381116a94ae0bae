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


class Log(Operations):
    def test_json_lines_say_for_whom_and_on_what(self):
        self.config.write_text(f'listen = "{self.address}"\nlog-format = "json"\n')
        self.start()
        self.run_tunectl("sweep", tunectl_kit.SAXPY, "--n", 4096, "--device", "cpu", "--budget", 5)
        job = self.json_of("job", "list")["jobs"][0]
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        asked = next(line for line in lines if f"of {job['owner']} waits" in line["message"])
        self.assertEqual(asked["principal"], job["owner"])
        ran = next(line for line in lines if line.get("job") == job["id"])
        self.assertEqual((ran["device"], ran["principal"]), ("cpu", job["owner"]))


class Settings(Operations):
    def test_a_file_sets_what_flags_set_and_flags_come_first(self):
        self.config.write_text(f'# of this host\nlisten = ["{self.address}"]\nqueue = 17\nturn-seconds = 7\n'
                               'cache-bytes = "64MiB"\nanonymous-readers = true\n')
        self.start("--turn-seconds", "9")
        bounds = self.json_of("server", "status")["bounds"]
        self.assertEqual((bounds["unfinished_jobs"], bounds["turn_seconds"], bounds["cache_bytes"]), (17, 9, 64 << 20))

    def test_wrong_files_are_refused_with_the_place(self):
        cases = [("qeue = 3\n", "there is no setting 'qeue'; did you mean 'queue'?"),
                 ("queue = 0\n", "--queue"),
                 ("queue = 3\nlisten = 'unix:/x'\nqueue = 4\n", "queue is given twice"),
                 ("[limits]\nqueue = 3\n", "it has no sections, but [limits]"),
                 ('state-dir = "/a#b"\n', "a value cannot have a #"),
                 ("check-config = true\n", "check-config"),
                 ('log-level = "loud"\n', "unknown log level 'loud'"),
                 ('submit-group = "no-such-group"\n', "no-such-group"),
                 ('listen = "127.0.0.1:0"\n', "--tls-cert"),
                 ('tls-principal = "ci"\n', "it is NAME=ROLE"),
                 ('include-root = "x"\n', "include"),
                 ("x" * (2 << 20), "more than 1 MiB")]
        for text, why in cases:
            with self.subTest(text[:40]):
                self.config.write_text(text)
                done = subprocess.run([str(tunectl_kit.BIN / "tunerd"), "--config", str(self.config), "--check-config"],
                                      env=self.env, capture_output=True, text=True, timeout=60, check=False)
                self.assertIn(done.returncode, (1, 2), done)
                self.assertIn(why, done.stderr)
        self.assertIn("was not readable", self.tunerd("--config", self.path / "none.toml", expect=2).stderr)

    def test_check_config_starts_nothing(self):
        self.config.write_text(f'listen = "{self.address}"\nstate-dir = "{self.path}/untouched"\n')
        self.assertIn("in order", self.tunerd("--config", self.config, "--check-config").stdout)
        self.assertFalse((self.path / "untouched").exists())
        self.assertFalse((self.path / "d.sock").exists())

    def test_sighup_takes_what_is_safe_and_names_the_rest(self):
        self.config.write_text(f'listen = "{self.address}"\njobs-per-principal = 5\n')
        daemon = self.start()
        self.config.write_text(f'listen = "{self.address}"\njobs-per-principal = 6\nqueue = 99\nlog-level = "debug"\n')
        daemon.send_signal(signal.SIGHUP)
        bounds = lambda: self.json_of("server", "status")["bounds"]  # noqa: E731
        self.await_true(lambda: bounds()["jobs_per_principal"] == 6, "the quota is not taken")
        self.assertEqual(bounds()["unfinished_jobs"], 256)
        self.await_true(lambda: "changed by a restart only: queue" in self.log.read_text(), "queue is not named")
        self.config.write_text("jobs-per-principal = many\n")
        daemon.send_signal(signal.SIGHUP)
        self.await_true(lambda: "the settings stay as they are" in self.log.read_text(), "no error is logged")
        self.assertEqual(bounds()["jobs_per_principal"], 6)


class Metrics(Operations):
    TABLE_ROW = re.compile(r"^\| `(tunerd_\w+)` \| (\w+) \|", re.M)

    def scrape(self):
        """{family: type}, and the text."""
        port = re.findall(r"metrics at http://127.0.0.1:(\d+)/metrics", self.log.read_text())[-1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
            self.assertTrue(page.headers["Content-Type"].startswith("text/plain; version=0.0.4"))
            text = page.read().decode()
        return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)), text

    def test_every_figure_is_served_documented_and_on_the_dashboard(self):
        self.config.write_text(f'listen = "{self.address}"\nmetrics = "127.0.0.1:0"\n')
        self.start()
        self.run_tunectl("sweep", tunectl_kit.SAXPY, "--n", 4096, "--device", "cpu", "--budget", 5)
        families, text = self.scrape()
        documented = dict(self.TABLE_ROW.findall((tunectl_kit.ROOT / "docs/operations.md").read_text()))
        without = {"tunerd_certificate_expiry_time_seconds"}  # this daemon has no certificate
        self.assertEqual(families, {name: kind for name, kind in documented.items() if name not in without})
        for name, kind in families.items():
            self.assertEqual(name.endswith("_total"), kind == "counter", name)
        self.assertRegex(text, r'tunerd_trials_total\{outcome="ok"\} [1-9]')
        self.assertRegex(text, r'tunerd_jobs_ended_total\{kind="sweep",state="done"\} 1')
        self.assertRegex(text, r'tunerd_device_time_seconds_total\{device="cpu",principal="[^"]+"\} [0-9.]*[1-9]')
        self.assertRegex(text, r'tunerd_rpc_calls_total\{code="OK",method="/tune.v1.SweepService/SubmitSweep"\} 1')
        self.assertRegex(text, r"tunerd_store_write_duration_seconds_count [1-9]")
        dashboard = (tunectl_kit.ROOT / "docker/grafana-dashboard.json").read_text()
        shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"tunerd_\w+", dashboard)}
        self.assertEqual(shown, set(documented))
        json.loads(dashboard)

    def test_only_the_loopback_serves_them(self):
        for address in ("0.0.0.0:9464", "example.org:9464", "127.0.0.1", "127.0.0.1:70000"):
            done = self.tunerd("--metrics", address, "--check-config", expect=1)
            self.assertIn("a port of the loopback", done.stderr)

    def test_a_taken_port_keeps_the_daemon_from_starting(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = self.tunerd("--listen", self.address, "--metrics", "127.0.0.1:%d" % taken.getsockname()[1],
                               expect=1)
        self.assertIn("cannot be listened at: Address already in use", done.stderr)

    def test_a_client_that_sends_nothing_delays_no_scrape_and_no_stop(self):
        self.config.write_text(f'listen = "{self.address}"\nmetrics = "127.0.0.1:0"\n')
        daemon = self.start()
        port = int(re.findall(r"metrics at http://127.0.0.1:(\d+)", self.log.read_text())[-1])
        with socket.create_connection(("127.0.0.1", port)):
            self.scrape()
            daemon.terminate()
            self.assertEqual(daemon.wait(timeout=20), 0)


class Store(Operations):
    def records(self):
        return self.json_of("record", "list")["records"]

    def backup(self):
        return pathlib.Path(self.json_of("store", "backup")["path"])

    def test_a_backup_made_during_a_sweep_restores_to_what_was_there(self):
        self.run_tunectl("sweep", tunectl_kit.SAXPY, "--n", 4096, "--device", "cpu", "--budget", 5)
        records = self.records()
        self.config.write_text(f'listen = "{self.address}"\n')
        daemon = self.start()
        self.run_tunectl("sweep", tunectl_kit.SAXPY, "--n", 1 << 16, "--device", "cpu", "--budget", "60s", "--detach")
        backup = self.backup()
        self.assertEqual(backup.parent, self.path / "state/backups")
        self.assertEqual(stat.S_IMODE(backup.stat().st_mode) & 0o077, 0)
        self.assertIn("is whole", self.run_tunectl("store", "check").stdout)
        del self.env["TUNE_ADDRESS"]
        refused = self.run_tunectl("store", "restore", backup, expect=1)
        self.assertIn("tunerd", refused.stderr)
        daemon.terminate()
        daemon.wait(timeout=60)
        (self.path / "state/tune.db").write_bytes(b"lost")
        (self.path / "state/tune.db-wal").unlink(missing_ok=True)
        restored = self.run_tunectl("store", "restore", backup).stdout
        kept = pathlib.Path(re.search(r"the store before is (\S+)", restored)[1])
        self.assertEqual(kept.read_bytes(), b"lost")
        self.assertEqual(self.records(), records)
        self.assertEqual(len(self.json_of("job", "list")["jobs"]), 2)
        self.run_tunectl("store", "check")

    def test_what_is_no_backup_of_this_program_is_refused_and_changes_nothing(self):
        self.run_tunectl("sweep", tunectl_kit.SAXPY, "--n", 4096, "--device", "cpu", "--budget", 5)
        records = self.records()
        backup = self.backup()
        whole = backup.read_bytes()
        cut, foreign, newer = self.path / "cut.db", self.path / "foreign.db", self.path / "newer.db"
        cut.write_bytes(whole[:len(whole) // 2])
        with sqlite3.connect(foreign) as database:
            database.execute("CREATE TABLE other (id)")
        newer.write_bytes(whole)
        with sqlite3.connect(newer) as database:
            database.execute("PRAGMA user_version = 999")
        for file, why in ((cut, "damaged|malformed|no backup of a store"), (foreign, "no backup of a store"), (newer, "schema version 999"),
                          (self.path / "none.db", "there is no file")):
            done = subprocess.run(self.command("store", "restore", file), env=self.env, capture_output=True,
                                  text=True, timeout=60, check=False)
            self.assertNotEqual(done.returncode, 0, file)
            self.assertRegex(done.stderr, why)
        self.assertEqual(self.records(), records)

    def test_old_backups_go(self):
        first, *later = [self.backup() for _ in range(3)]
        kept = self.json_of("store", "backup", "--keep", 2)
        self.assertEqual(kept["removed"], [str(first), str(later[0])])
        self.assertEqual(len(list(first.parent.iterdir())), 2)


class Ends(Operations):
    def setUp(self):
        super().setUp()
        self.config.write_text(f'listen = "{self.address}"\n')

    def job(self, identifier):
        return next(job for job in self.json_of("job", "list")["jobs"] if job["id"] == identifier)

    def sweep(self):
        """A sweep that runs for long. Returns its job."""
        self.run_tunectl("sweep", tunectl_kit.SAXPY, "--n", 1 << 16, "--device", "cpu", "--budget", "60s", "--detach")
        job = self.json_of("job", "list")["jobs"][0]["id"]
        self.await_true(lambda: self.job(job)["state"] == "JOB_STATE_RUNNING", "the sweep does not start")
        return job

    def test_a_drained_daemon_answers_takes_no_jobs_and_goes_on_after_undo(self):
        self.start()
        job = self.sweep()
        self.assertIn("drained", self.run_tunectl("server", "drain").stdout)
        self.assertTrue(self.json_of("server", "status")["draining"])
        self.assertEqual(self.job(job)["state"], "JOB_STATE_QUEUED")
        refused = self.run_tunectl("device", "ceilings", "cpu", expect=3)
        self.assertIn("server drain --undo", refused.stderr)
        self.run_tunectl("kernel", "list")
        self.run_tunectl("server", "drain", "--undo")
        self.await_true(lambda: self.job(job)["state"] == "JOB_STATE_RUNNING", "the sweep does not go on")

    def test_stop_ends_the_daemon_and_the_sweep_goes_on_at_the_next_start(self):
        daemon = self.start()
        job = self.sweep()
        self.assertIn(f"process {daemon.pid}", self.run_tunectl("server", "stop").stdout)
        self.assertEqual(daemon.wait(timeout=30), 0)
        self.start()
        self.await_true(lambda: self.job(job)["state"] == "JOB_STATE_RUNNING", "the sweep is not taken up")

    def test_sigterm_leaves_a_job_its_time_and_no_more(self):
        self.config.write_text(f'listen = "{self.address}"\ndrain-seconds = 120\n')
        daemon = self.start()
        self.run_tunectl("device", "ceilings", "cpu", "--processes", 1, "--detach")
        job = self.json_of("job", "list")["jobs"][0]["id"]
        self.await_true(lambda: self.job(job)["state"] == "JOB_STATE_RUNNING", "the job does not start")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(timeout=120), 0)
        self.start()
        self.assertEqual(self.job(job)["state"], "JOB_STATE_DONE")

    def test_without_a_daemon_there_is_nothing_to_stop(self):
        for verb in ("stop", "drain"):
            self.assertIn("no daemon answers", self.run_tunectl("server", verb, expect=3).stderr)


if __name__ == "__main__":
    unittest.main()
