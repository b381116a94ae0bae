# SPDX-License-Identifier: Apache-2.0
"""Short forms of bench/endurance.py: what a daemon acknowledged outlives kill -9, and ranks agree meanwhile."""
import os
import pathlib
import sys
import tempfile
import unittest

import kit
from daemon_kit import NEEDS_GRPC

sys.path.insert(0, str(kit.ROOT / "bench"))

import endurance

BUILD = pathlib.Path(os.environ["TUNE_BIN"]).parent


@NEEDS_GRPC
class Endurance(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_what_was_acknowledged_outlives_kills(self):
        ledger, damaged, starts = endurance.kill_again_and_again(BUILD, self.folder / "state", 10, check_every=5)
        self.assertEqual((ledger.lost, damaged), ([], []))
        self.assertEqual(len(starts), 10)
        self.assertGreater(len(ledger.submitted), 5)

    def test_ranks_agree_while_others_publish_and_the_daemon_is_killed(self):
        results, published, _ = endurance.rank_trials(BUILD, self.folder, 2, ranks=128, nodes=4)
        self.assertGreater(published, 0)
        for digest, seen in results:
            self.assertEqual({one for one, _ in seen}, {digest})
            self.assertEqual(len(seen), 1)


if __name__ == "__main__":
    unittest.main()
