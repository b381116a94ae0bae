# SPDX-License-Identifier: Apache-2.0
"""What the rule about names of devices finds, and what it leaves alone."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import tidy  # noqa: E402


def found(line, path="server/a.cc"):
    return tidy.compares_devices(pathlib.Path(path), line)


class DeviceNames(unittest.TestCase):
    def test_comparisons_are_found(self):
        for line in ('if (target == "cpu") {', 'return "cpu" != id;', 'id == std::string("cpu")',
                     'absl::ConsumePrefix(&id, "cuda:")', 'absl::StartsWith(target, "sm_")',
                     'target.starts_with("sm_9")', 'if (id == "cuda:0") return;'):
            self.assertTrue(found(line), line)
        for line in ('cpu = self.device == "cpu"', "if device != 'cpu':", 'target.startswith("sm_")',
                     'if device in ("cpu",):'):
            self.assertTrue(found(line, "bench/study.py"), line)

    def test_other_uses_are_not(self):
        for line in ('profile.family = "cpu";', 'scope.Set("sm_count", 4);', '// == "cpu"',
                     'Run({"device", "cuda:0"});', 'message == "cpu time"'):
            self.assertFalse(found(line), line)
        self.assertFalse(found('tunectl("device", "show", "cuda:0")  # == "cpu"', "bench/study.py"))

    def test_a_device_may_know_its_own_name(self):
        for path in ("tuner/device_profile.cc", "tuner/device/cuda/ptx_module.cc",
                     "tests/server/a_test.cc"):
            self.assertFalse(found('target == "cpu"', path), path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
