# SPDX-License-Identifier: Apache-2.0
"""Short forms of bench/studies/endurance.py: faults of a daemon, ranks that agree, and what outlives kill -9."""
import logging
import os
import pathlib
import sys
import tempfile
import unittest

import kit
from daemon_kit import NEEDS_GRPC

sys.path.insert(0, str(kit.ROOT / "bench/studies"))

import endurance

SLACK = 0.25  # of a busy host
BUILD = pathlib.Path(os.environ["TUNE_BIN"]).parent


@NEEDS_GRPC
class Endurance(kit.PackageTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_what_was_acknowledged_outlives_kills(self):
        ledger, damaged, starts = endurance.kill_again_and_again(BUILD, self.folder / "state", 12, check_every=5)
        self.assertEqual((ledger.lost, ledger.false, damaged), ([], [], []))
        self.assertEqual(len(starts), 12)
        self.assertGreater(len(ledger.submitted), 5)
        self.assertGreater(len(ledger.published), 0)
        self.assertGreater(len(ledger.revoked), 5)

    def test_no_fault_of_a_daemon_stops_or_changes_a_job(self):
        logging.getLogger("tunectl").setLevel(logging.CRITICAL)
        rows = endurance.FaultTrials(BUILD, self.folder / "faults").run(rounds=2)
        self.assertIn("expired token", rows)
        for name, row in rows.items():
            with self.subTest(name):
                self.assertEqual((row["wrong"], row["exceptions"]), (0, []))
                self.assertLess(min(row["pinned"]), endurance.DEADLINE)
                self.assertLess(min(row["stale"]), endurance.DEADLINE + SLACK)

    def test_ranks_agree_while_others_publish_and_the_daemon_is_killed(self):
        results, swept, _ = endurance.RankTrials(BUILD, self.folder, ranks=128, nodes=4).run(6)
        self.assertGreater(swept, 0)
        for digest, seen in results:
            self.assertEqual({one for one, _ in seen}, {digest})
            self.assertEqual(len(seen), 1)
        self.assertGreater(len({digest for digest, _ in results}), 1, "what is newest changes meanwhile")


if __name__ == "__main__":
    unittest.main()
