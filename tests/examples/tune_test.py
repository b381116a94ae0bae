# SPDX-License-Identifier: Apache-2.0
"""examples/train/tune.py, with a tunectl that ends as it is told to."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TUNE = pathlib.Path(__file__).resolve().parents[2] / "examples/train/tune.py"


class TuneTest(unittest.TestCase):
    def run_tune(self, code_of_rope):
        """Its exit code, what it says, and what was swept."""
        with tempfile.TemporaryDirectory(prefix="tune-") as folder:
            program, swept = pathlib.Path(folder) / "tunectl", pathlib.Path(folder) / "swept"
            program.write_text(f'#!/bin/sh\necho "$2" >> {swept}\nif [ "$2" = rope ]; then exit {code_of_rope}; fi\n')
            program.chmod(0o755)
            done = subprocess.run([sys.executable, TUNE, "--size", "tiny", "--tunectl", program], capture_output=True,
                                  text=True, timeout=60, check=False)
            return done.returncode, done.stderr, swept.read_text().split()

    def test_a_kernel_without_a_config_is_told_of_and_the_others_are_tuned(self):
        code, said, swept = self.run_tune(0)
        self.assertEqual((code, said, len(swept)), (0, "", 8))
        for wanted in (1, 4):
            code, said, again = self.run_tune(wanted)
            self.assertEqual((code, again), (4, swept))
            self.assertIn("no config was found for rope: ", said)

    def test_what_stops_every_sweep_is_told(self):
        code, said, swept = self.run_tune(3)
        self.assertEqual((code, swept[-1], swept.count("rope")), (3, "rope", 1))
        self.assertIn("rope: tunectl ended with 3, so nothing more is tuned", said)


if __name__ == "__main__":
    unittest.main()
