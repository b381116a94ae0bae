# SPDX-License-Identifier: Apache-2.0
"""What the rules about names of devices and about shared headers find, and what they leave alone."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

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


class SharedHeaders(unittest.TestCase):
    def findings(self, texts):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tidy, "ROOT", pathlib.Path(folder)):
            found = []
            for path, text in texts.items():
                kept = pathlib.Path(folder, path)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(text)
            tidy.check_shared_headers(map(pathlib.Path, texts), lambda path, *_: found.append(str(path)))
            return found

    def test_one_name_has_one_text(self):
        self.assertEqual(self.findings({"kernels/a/row.cuh": "one", "kernels/b/row.cuh": "two"}),
                         ["kernels/b/row.cuh"])

    def test_what_is_not_shared_is_left_alone(self):
        self.assertEqual(self.findings({"kernels/a/row.cuh": "one", "kernels/b/row.cuh": "one",
                                        "kernels/b/tile.cuh": "two", "bench/row.cuh": "three"}), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
