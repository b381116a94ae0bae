# SPDX-License-Identifier: Apache-2.0
"""Three daemons that share a PostgreSQL: jobs, hosts that die, records and cancelling across hosts, an outage."""
import os
import signal
import subprocess
import sys
import time
import unittest

import fleet_kit

JOBS = 9


class FleetTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if fleet_kit.find_programs() is None:
            print("skipped: PostgreSQL is not installed (Debian and Ubuntu: apt install postgresql)")
            sys.exit(77)
        cls.fleet = fleet_kit.Fleet(os.environ["TUNE_BIN"])
        cls.fleet.__enter__()
        cls.addClassCleanup(cls.fleet.__exit__)
        cls.a, cls.b, cls.c = cls.fleet.start("a", "b", "c")
        cls.fleet.await_true(lambda: len(cls.fleet.server.query("SELECT 1 FROM host WHERE devices <> '{}'")) == 3,
                             "the devices are not known")

    def query(self, sql):
        return self.fleet.server.query(sql)

    def await_done(self, seconds=200):
        self.fleet.await_true(lambda: self.query("SELECT count(*) FROM job WHERE state IN (1, 2)") == [["0"]],
                              "jobs are left", seconds=seconds)

    def test_1_each_job_is_done_once_though_a_host_dies(self):
        for i in range(JOBS):
            self.a.sweep(1024 + 64 * i)
        listed = self.b.json_of("job", "list", "--unfinished")["jobs"]
        self.assertGreater(len(listed), 0, "every host lists the jobs of all")
        self.fleet.await_true(lambda: self.query("SELECT 1 FROM job WHERE state = 2 AND lease <> 0 LIMIT 1"), "no job runs")
        self.b.kill()
        self.a.signal(signal.SIGSTOP)  # its lease is ended while it is paused
        time.sleep(9)
        self.a.signal(signal.SIGCONT)
        self.b.start()
        self.await_done()
        self.assertEqual(self.query("SELECT state, count(*) FROM job GROUP BY state"), [["3", str(JOBS)]])
        twice = self.query("SELECT sweep_id, config FROM trial WHERE purpose = 1 GROUP BY 1, 2 HAVING count(*) > 1")
        self.assertEqual(twice, [], "a config was tried twice")
        self.assertEqual(self.query("SELECT count(*) FROM record"), [[str(JOBS)]])

    def test_2_a_record_of_one_host_is_in_every_hosts_look_ups(self):
        self.c.sweep(77777)
        self.fleet.await_true(lambda: self.query("SELECT 1 FROM record JOIN trial ON trial.id = trial_id JOIN sweep ON "
                                                 "sweep.id = sweep_id WHERE sweep.dims LIKE '%77777%'"), "no record")
        begin = time.monotonic()
        for host in (self.a, self.b, self.c):
            self.fleet.await_true(lambda host=host: "77777" in host.tunectl("record", "list", "--json").stdout,
                                  f"{host.name} has not the record", host, seconds=20)
        self.assertLess(time.monotonic() - begin, 10, "2 s without the programs' own time on a busy machine")

    def test_3_a_a_job_of_another_host_is_followed_and_cancelled(self):
        self.a.sweep(500000, 100000, "--fresh")
        self.fleet.await_true(lambda: self.query("SELECT 1 FROM job WHERE state = 2"), "it does not run")
        [[job]] = self.query("SELECT id FROM job WHERE state = 2")
        other = next(host for host in (self.a, self.b) if
                     self.query(f"SELECT name FROM host JOIN job USING (lease) WHERE id = {job}") != [[host.name]])
        [listed] = other.json_of("job", "list", "--unfinished")["jobs"]
        self.assertRegex(listed["message"], "^in host [abc]$")
        with subprocess.Popen([str(self.fleet.bin / "tunectl"), "job", "watch", job], env=other.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as watch:
            cancelled = other.tunectl("job", "cancel", job)
            self.assertEqual(cancelled.returncode, 0, cancelled.stderr)
            said, _ = watch.communicate(timeout=30)
        self.assertIn("cancelled", said)
        self.assertEqual(self.query(f"SELECT state FROM job WHERE id = {job}"), [["4"]])

    def test_3_b_a_drained_hosts_jobs_go_on_elsewhere(self):
        drained = self.b.tunectl("fleet", "drain", "a")
        self.assertEqual(drained.returncode, 0, drained.stderr)
        hosts = {host["name"]: host for host in self.b.json_of("fleet", "list")["hosts"]}
        self.assertTrue(hosts["a"].get("drained"))
        self.assertIn("cpu", hosts["b"]["devices"])
        self.fleet.await_true(lambda: self.a.json_of("server", "status").get("draining"), "a does not drain")
        self.b.sweep(31 * 64)
        self.await_done()
        self.assertEqual(self.b.tunectl("fleet", "undrain", "a").returncode, 0)
        self.fleet.await_true(lambda: not self.a.json_of("server", "status").get("draining"), "a still drains")
        unknown = self.b.tunectl("fleet", "drain", "nobody")
        self.assertIn("tunectl fleet list", unknown.stderr)

    def test_4_an_outage_of_the_store_stops_submissions_and_not_look_ups(self):
        self.fleet.server.stop()
        refused = self.a.tunectl("sweep", fleet_kit.SAXPY, "--device", "cpu", "--n", 99, "--budget", 2, "--detach")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("PostgreSQL", refused.stderr)
        looked_up = self.a.tunectl("best", fleet_kit.SAXPY, "--device", "cpu", "--n", 77777)
        self.assertEqual(looked_up.returncode, 0, looked_up.stderr)
        self.fleet.server.start()
        self.a.sweep(4242)
        self.await_done()
        self.assertEqual(self.query("SELECT count(*) FROM job WHERE state = 5"), [["0"]])


if __name__ == "__main__":
    unittest.main(verbosity=2)
