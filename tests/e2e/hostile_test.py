# SPDX-License-Identifier: Apache-2.0
"""Kernels that attack the host, swept on the CPU device: bench/hostile/README.md says what must
happen. Run by ctest; needs TUNE_BIN."""
import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/hostile"))
import ground as ground_module  # noqa: E402
import run  # noqa: E402


class Hostile(unittest.TestCase):
    def hold(self, group):
        with run.Ground(os.environ["TUNE_BIN"]) as ground:
            for act in run.CPU_GROUPS[group](ground):
                with self.subTest(act=f"{act.group}.{act.name}"):
                    self.assertTrue(act.held, f"{act.outcome}: {act.message}")
                    self.assertTrue(act.message, "an outcome says why")
            ground.read_peak()
            self.assertLess(ground.peak_bytes, ground_module.DAEMON_BYTES_MAX)
            self.assertTrue(ground.store_is_sound())
            self.assertEqual(ground.restarts, 0, "nothing had to be put right")


for name in run.CPU_GROUPS:
    setattr(Hostile, f"test_{name}", lambda self, group=name: self.hold(group))


class Lists(unittest.TestCase):
    def test_every_act_is_in_the_list_of_its_source_and_of_its_spec(self):
        for spec in sorted((ROOT / "bench/hostile/cpu").glob("*.textproto")):
            source = spec.with_suffix(".cu")
            if not source.exists():
                continue
            text = source.read_text()
            with self.subTest(spec=spec.name):
                listed = re.search(r"#define ACTS ((?:.*\\\n)*.*)", text)
                if listed is None:
                    continue
                acts = re.findall(r"\w+", listed.group(1).replace("\\\n", " "))
                self.assertEqual(run.names_of(spec), ["all", *acts])


if __name__ == "__main__":
    unittest.main(verbosity=2)
