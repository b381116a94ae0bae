# SPDX-License-Identifier: Apache-2.0
"""Tests lint.py on a project of one source: findings, none, and that only what changed is checked again."""
import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools"))
import lint  # noqa: E402

HEADER = """#pragma once
#include <vector>
#include "base/mutex.h"
class Queue {
 public:
  int Size();
 private:
  tune::Mutex mutex_;
  std::vector<int> items_ ABSL_GUARDED_BY(mutex_);
};
"""
UNLOCKED = '#include "server/queue.h"\nint Queue::Size() { return (int)items_.size(); }\n'
LOCKED = UNLOCKED.replace("{ ", "{ tune::MutexLock lock(mutex_); ")


@unittest.skipIf(shutil.which("clang++") is None, "no clang")
class Lint(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        for name in ("base", "server", "build"):
            (self.root / name).mkdir()
        shutil.copy(REPOSITORY / "base/mutex.h", self.root / "base")
        (self.root / "build/pch.hxx").write_text("#include <vector>\n")
        self.compile("server/queue.cc")
        self.write(LOCKED)
        mocked = mock.patch.object(lint, "ROOT", self.root)
        mocked.start()
        self.addCleanup(mocked.stop)

    def compile(self, file):
        command = f"c++ -I{self.root} -std=c++20 --param=gcc=1 -Winvalid-pch -include build/pch.hxx -o q.o -c {file}"
        (self.root / "build/compile_commands.json").write_text(json.dumps(
            [{"directory": str(self.root), "file": file, "command": command}]))

    def write(self, source, header=HEADER):
        (self.root / "server/queue.cc").write_text(source)
        (self.root / "server/queue.h").write_text(header)

    def lint(self, check="threads", *names):
        """(exit code, what was printed) of a check of all sources, or of the named ones."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = lint.main([str(self.root / "build"), check, *names])
        return code, out.getvalue()

    def test_a_guarded_member_used_without_its_mutex_is_a_finding_each_time(self):
        self.write(UNLOCKED)
        for _ in range(2):
            code, out = self.lint()
            self.assertEqual(code, 1, out)
            self.assertIn("server/queue.cc:2", out)
            self.assertIn("'items_' requires holding mutex 'mutex_'", out)

    def test_what_had_no_finding_is_checked_again_only_after_a_change(self):
        self.assertEqual(self.lint(), (0, "threads: 1 sources, 1 checked, 0 with findings\n"))
        self.assertEqual(self.lint(), (0, "threads: 1 sources, 0 checked, 0 with findings\n"))
        self.write(LOCKED, HEADER + "// A comment.\n")
        self.assertEqual(self.lint(), (0, "threads: 1 sources, 1 checked, 0 with findings\n"))

    def test_sources_that_are_compiled_as_one_are_checked_as_one(self):
        (self.root / "build/unity_0_cxx.cxx").write_text(f'#include "{self.root}/server/queue.cc"\n')
        self.compile("build/unity_0_cxx.cxx")
        self.write(UNLOCKED)
        for names in (), (str(self.root / "server"),), (str(self.root / "server/queue.cc"),):
            code, out = self.lint("threads", *names)
            self.assertEqual(code, 1, out)
            self.assertIn("server/queue.cc:2", out)
        self.assertEqual(self.lint("threads", str(self.root / "base")), (0, "threads: 0 sources, 0 checked, 0 with findings\n"))

    @unittest.skipIf(shutil.which("clang-tidy") is None, "no clang-tidy")
    def test_tidy_checks_what_the_file_of_checks_names(self):
        (self.root / ".clang-tidy").write_text(
            "Checks: '-*,bugprone-use-after-move'\nHeaderFilterRegex: '/server/.*[.](cc|h)$'\n")
        moved = "#include <string>\n#include <utility>\nstd::string Pass(std::string s) { std::string t = std::move(s); return MADE; }\n"
        self.write(moved.replace("MADE", "t + s"))
        code, out = self.lint("tidy")
        self.assertEqual(code, 1, out)
        self.assertIn("server/queue.cc:3", out)
        self.assertIn("bugprone-use-after-move", out)
        self.write(moved.replace("MADE", "t"))
        self.assertEqual(self.lint("tidy"), (0, "tidy: 1 sources, 1 checked, 0 with findings\n"))

    def test_a_source_that_does_not_compile_is_a_finding(self):
        self.write(LOCKED + "int x = y;\n")
        code, out = self.lint()
        self.assertEqual(code, 1)
        self.assertIn("undeclared identifier", out)

    def test_sources_without_a_mutex_are_left_out(self):
        self.write("int x;\n")
        self.assertEqual(self.lint(), (0, "threads: 0 sources, 0 checked, 0 with findings\n"))


if __name__ == "__main__":
    unittest.main()
