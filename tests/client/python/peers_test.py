# SPDX-License-Identifier: Apache-2.0
"""bench/peers/run.py on the CPU device, whose rows tools/results.py reads."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import daemon_kit
import kit

sys.path.insert(0, str(kit.ROOT / "tools"))
import results  # noqa: E402


@daemon_kit.NEEDS_GRPC
@unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
class PeersTest(unittest.TestCase):
    def test_a_family_is_measured_on_any_host(self):
        with tempfile.TemporaryDirectory() as folder:
            out = f"{folder}/rows.jsonl"
            done = subprocess.run(
                [sys.executable, str(kit.ROOT / "bench/peers/run.py"), "--bin", str(daemon_kit.BIN), "--device", "cpu",
                 "--family", "numpy", "--seconds", "600", "--budget", "0", "--rounds", "3", "--run", "test", "--out", out],
                capture_output=True, text=True, timeout=700, check=False, env=os.environ)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(out, encoding="utf-8") as file:
                described, row = map(json.loads, file)
            table = results.Table(pathlib.Path(out))
        self.assertEqual((described["run"], described["source"], described["clock"]), ("test:numpy", "bench/peers/run.py", "host"))
        self.assertIn("numpy", described["versions"])
        self.assertEqual((row["kernel"], row["subject"], row["n"]), ("saxpy", "n=65536, f32", 3))
        self.assertEqual(set(row["ratios"]), {"numpy", "numpy_out"})
        self.assertNotIn("missing", row)
        self.assertGreater(results.over(table.rows[0], "numpy"), 0)


if __name__ == "__main__":
    unittest.main()
