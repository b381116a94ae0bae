# SPDX-License-Identifier: Apache-2.0
"""A submitter that takes all it can get beside an innocent one: who has which turn, place and watch, whatever the
times are. `bench/hostile/shares.py` measures those. Run by ctest; needs TUNE_BIN."""
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/hostile"))
from shares import Shared  # noqa: E402

QUEUE = 8


class Shares(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = Shared(os.environ["TUNE_BIN"], "--queue", str(QUEUE), "--turn-seconds", "10", "--watchers", "16",
                            "--watchers-per-job", "4", "--compile-workers", "1")
        cls.addClassCleanup(cls.shared.__exit__)
        for name in ("greedy", "innocent"):
            cls.shared.add_submitter(name)

    def test_a_month_of_the_device_is_refused(self):
        refused = self.shared.sweep("greedy", "720h", "--detach")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("--job-seconds-per-principal", refused.stderr)

    def test_the_innocent_sweep_has_its_place_its_turn_and_its_watch(self):
        shared = self.shared
        why = shared.fill_queue("greedy")
        self.assertIn("are left, which are for others", why)
        greedy = shared.jobs_of("greedy")
        self.assertEqual(len(greedy), QUEUE // 2)
        shared.await_running("greedy")
        for job in greedy[:3]:
            for _ in range(6):
                shared.watch("greedy", job["id"])
        done = shared.sweep("innocent", 3)  # trials; follows its job to the end
        self.assertEqual(done.returncode, 0, done.stderr)
        started = [job for job in shared.jobs_of("greedy") if int(job.get("started_unix_ms", 0)) > 0]
        self.assertEqual([job["id"] for job in started], [greedy[0]["id"]], "no other of the greedy one's came first")
        status = shared.json_of(None, "server", "status")
        queues = {queue["name"]: queue for queue in status["principals"]}
        self.assertGreater(queues["greedy"].get("waiting_jobs", 0), 0)
        self.assertGreater(queues["innocent"].get("device_seconds", 0), 0)
        self.assertGreater(status["oldest_wait_seconds"], 0)
        self.end_all_of_the_greedy_one()

    def end_all_of_the_greedy_one(self):
        shared = self.shared
        refused = shared.tunectl("innocent", "job", "cancel", "--owner", "greedy")
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("greedy or an operator can cancel them", refused.stderr)
        cancelled = shared.tunectl("greedy", "job", "cancel", "--owner", "greedy")
        self.assertEqual(cancelled.returncode, 0, cancelled.stderr)
        self.assertEqual(len(cancelled.stdout.splitlines()), QUEUE // 2)
        shared.fill_queue("greedy")
        revoked = shared.tunectl(None, "token", "revoke", "greedy", "--with-jobs")
        self.assertEqual(revoked.returncode, 0, revoked.stderr)
        self.assertIn(f"{QUEUE // 2} jobs are cancelled", revoked.stdout)
        listed = shared.json_of(None, "job", "list", "--unfinished", "--owner", "greedy")
        self.assertEqual(listed.get("jobs", []), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
