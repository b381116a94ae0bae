# SPDX-License-Identifier: Apache-2.0
"""Lies planted in a kernel and in its spec do not pass, on the CPU device. Run by ctest; needs
TUNE_BIN."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Planted(unittest.TestCase):
    def test_every_lie_is_told_from_the_honest_kernel(self):
        with tempfile.TemporaryDirectory(prefix="tune-") as folder:
            out = pathlib.Path(folder) / "trust.json"
            done = subprocess.run(
                [sys.executable, str(ROOT / "bench/studies/trust.py"), "--bin", os.environ["TUNE_BIN"],
                 "--device", "cpu", "--out", str(out), "planted"],
                capture_output=True, text=True, timeout=560, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            figure = json.loads(out.read_text())["figures"]["planted"]
            self.assertEqual(figure["missed"], 0)
            tried = {case["config"].split()[0] for case in figure["cases"]}
            self.assertLessEqual({"LIE=skips", "LIE=once", "LIE=past_end", "LIE=input",
                                  "LIE=narrow", "LIE=one_off"}, tried)


if __name__ == "__main__":
    unittest.main()
