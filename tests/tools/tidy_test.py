# SPDX-License-Identifier: Apache-2.0
"""Tests tidy's rules about names of devices and openings of comments: hits and exceptions."""
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


class Mutexes(unittest.TestCase):
    def test_a_mutex_that_clang_does_not_check_is_found_in_product_code(self):
        def found_in(path, line="  std::mutex mutex_;"):
            return tidy.has_unchecked_mutex(pathlib.Path(path), line)
        self.assertTrue(found_in("server/a.h"))
        self.assertTrue(found_in("db/a.cc", "std::shared_mutex m;"))
        for path in ("base/mutex.h", "client/libtune/answer_table.h", "tests/server/a_test.cc", "server/a.md"):
            self.assertFalse(found_in(path), path)
        self.assertFalse(found_in("server/a.h", "  Mutex mutex_;  // not std::mutex"))


class Openings(unittest.TestCase):
    def places(self, texts):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tidy, "ROOT", pathlib.Path(folder)):
            for path, text in texts.items():
                kept = pathlib.Path(folder, path)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(text)
            return [(str(path), number) for path, number in tidy.banned_openings(map(pathlib.Path, texts))]

    def test_comment_lines_without_a_subject_are_counted(self):
        self.assertEqual(self.places({
            "base/a.h": "int a;\n  // What it is.\n/// Of the file.\n",
            "db/a.sql": "-- Those of a job.\n",
            "proto/a.proto": "// The same.\n",
            "server/CMakeLists.txt": "# Nothing else.\n",
            "kernels/a/a.cu": "// What it computes.\n",
            "client/a.py": "# One more.\n"}),
            [("base/a.h", 2), ("base/a.h", 3), ("db/a.sql", 1), ("proto/a.proto", 1),
             ("server/CMakeLists.txt", 1), ("kernels/a/a.cu", 1), ("client/a.py", 1)])

    def test_other_lines_and_folders_are_not(self):
        self.assertEqual(self.places({
            "base/a.h": "// Whatever happens.\n// Offsets. What follows is code.\nint x;  // Of a line.\n",
            "tests/a.cc": "// One test.\n",
            "client/a.md": "# What it is\n"}), [])

    def test_more_than_the_number_are_reported(self):
        for most, findings in ((1, 0), (0, 1)):
            reported = []
            with mock.patch.object(tidy, "BANNED_OPENINGS_MAX", most), \
                    mock.patch.object(tidy, "banned_openings", lambda files: [("base/a.h", 1)]):
                tidy.check_openings([], lambda *finding: reported.append(finding))
            self.assertEqual(len(reported), findings)


if __name__ == "__main__":
    unittest.main(verbosity=2)
