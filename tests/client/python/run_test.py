# SPDX-License-Identifier: Apache-2.0
"""`tunectl run` is the program that it runs, for whoever started it; and its hook costs a process next to nothing."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import kit

BIN = pathlib.Path(os.environ["TUNE_BIN"])
SITE = kit.PACKAGE / "tunectl/_site"
SELF = """import os, sys, sitecustomize
print(sitecustomize.__file__, os.environ.get("TUNE_ADOPT"), [entry for entry in sys.path if "_site" in entry])"""


class RunTest(kit.PackageTest):
    def setUp(self):
        super().setUp()
        os.environ.pop("TUNE_ADDRESS")
        os.environ.update(TMPDIR=str(self.path), NO_COLOR="1")

    def start(self, *program, flags=(), **more):
        return subprocess.Popen([BIN / "tunectl", "run", *flags, "--", *program], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def run_program(self, *program, flags=(), ok=True, **more):
        process = self.start(*program, flags=flags, stdin=subprocess.PIPE)
        out, errors = process.communicate(more.get("input"), timeout=60)
        if ok:
            self.assertEqual(process.returncode, 0, errors)
        return process.returncode, out, errors

    def python(self, code, *arguments, **more):
        return self.run_program(sys.executable, "-c", code, *arguments, **more)

    # ---- The program's own end ------------------------------------------------------------------

    def test_words_files_and_exit_code_are_the_programs_own(self):
        words = ["--json", "-x", "--", "[1,2]", "--snapshot", "run", ""]
        code = "import sys; print(sys.argv[1:], sys.stdin.read()); print('error', file=sys.stderr); sys.exit(77)"
        done = self.python(code, *words, input="typed", ok=False)
        self.assertEqual(done[:2], (77, f"{words} typed\n"))
        self.assertRegex(done[2], "error\n$")
        self.assertEqual(self.run_program("true")[1], "")

    def test_a_program_without_flags_needs_no_dashes(self):
        done = subprocess.run([BIN / "tunectl", "run", "echo", "a"], capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(done.stdout, "a\n")

    def test_a_signal_that_ends_the_program_ends_tunectl(self):
        for how in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
            with self.subTest(how):
                code, *_ = self.python(f"import os, signal; os.kill(os.getpid(), {int(how)})", ok=False)
                self.assertEqual(code, -how)

    def test_signals_reach_the_program_once(self):
        code = """import signal, sys, time
seen = []
for one in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
    signal.signal(one, lambda number, frame: seen.append(number))
print("ready", flush=True)
while signal.SIGTERM not in seen:
    time.sleep(0.01)
print(seen)
sys.exit(9)"""
        process = self.start(sys.executable, "-c", code)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for one in (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            process.send_signal(one)
            time.sleep(0.1)
        out, _ = process.communicate(timeout=60)
        sent = [signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGTERM]
        self.assertEqual((process.returncode, out), (9, f"{[int(one) for one in sent]}\n"))

    def test_a_program_dies_with_tunectl(self):
        process = self.start(sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)")
        program = int(process.stdout.readline())
        process.kill()
        process.communicate(timeout=60)
        for _ in range(200):
            state = pathlib.Path(f"/proc/{program}/stat")
            if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.05)
        self.fail("it lives on")

    def test_a_program_that_is_not_there_and_none_at_all(self):
        code, _, errors = self.run_program("no-such-program", ok=False)
        self.assertEqual(code, 127)
        self.assertIn("tunectl run: cannot run 'no-such-program': No such file or directory", errors)
        code, _, errors = self.run_program(ok=False)
        self.assertEqual(code, 2)
        self.assertIn("no program is named; write it after --", errors)

    def test_a_snapshot_that_is_named_and_not_there_is_an_error_before_the_start(self):
        code, out, errors = self.run_program("echo", "started", flags=("--snapshot", "12345678"), ok=False)
        self.assertEqual((code, out), (2, ""), errors)
        self.assertIn("12345678", errors)

    def test_nothing_is_left_behind_and_the_summary_is_a_file(self):
        self.run_program("sh", "-c", "exit 3", flags=("--summary", str(self.path / "summary.json")), ok=False)
        summary = json.loads((self.path / "summary.json").read_text())
        self.assertEqual((summary["exit_code"], summary["processes"], summary["keys"]), (3, 0, []))
        self.assertEqual([path.name for path in self.path.iterdir() if path.name.startswith("tunectl-run")], [])

    # ---- The hook -------------------------------------------------------------------------------

    def test_the_users_own_sitecustomize_runs_and_is_the_module(self):
        (self.path / "sitecustomize.py").write_text("print('mine')\n")
        os.environ["PYTHONPATH"] = str(self.path)
        self.assertEqual(self.python(SELF)[1], f"mine\n{self.path}/sitecustomize.py 1 []\n")
        (self.path / "sitecustomize.py").write_text("import no_such_module\n")
        _, _, errors = self.python("pass")
        plain = subprocess.run([sys.executable, "-c", "pass"], capture_output=True, text=True, check=True)
        self.assertTrue(plain.stderr and errors.endswith(plain.stderr), errors)

    def test_children_of_the_program_have_the_hook(self):
        code = ("import subprocess, sys; subprocess.run(['sh', '-c', sys.argv[1]], check=True)")
        child = f"{sys.executable} -c 'import sys; print(type(sys.meta_path[0]).__module__)'"
        self.assertEqual(self.python(code, child)[1], "tunectl_adopt\n")

    def test_a_process_that_imports_no_triton_imports_nothing_of_ours(self):
        code = "import sys; print(sorted(name for name in sys.modules if 'tunectl' in name))"
        self.assertEqual(self.python(code)[1], "['tunectl_adopt']\n")

    def test_the_entry_point_is_inert_unless_it_is_asked_for(self):
        code = ("import sys, time; begun = time.perf_counter_ns(); import tunectl_adopt; tunectl_adopt.start()\n"
                "took = time.perf_counter_ns() - begun; begun = time.perf_counter_ns(); tunectl_adopt.start()\n"
                "print([type(finder).__name__ for finder in sys.meta_path].count('_Finder'), "
                "'typing' in sys.modules or 'json' in sys.modules, time.perf_counter_ns() - begun)")
        for asked, found in (("", 0), ("0", 0), ("1", 1)):
            command = [sys.executable, "-S", "-c", code]
            done = subprocess.run(command, capture_output=True, text=True, check=True,
                                  env={**os.environ, "TUNE_ADOPT": asked, "PYTHONPATH": str(kit.PACKAGE)})
            count, heavy, nanoseconds = done.stdout.split()
            self.assertEqual((int(count), heavy), (found, "False"))
            self.assertLess(int(nanoseconds), 1_000_000, "a second call takes microseconds")

    def test_an_import_of_triton_that_fails_fails_as_it_would(self):
        (self.path / "triton.py").write_text("raise ValueError('broken')\n")
        os.environ["PYTHONPATH"] = str(self.path)
        _, out, _ = self.python("import importlib.util\nprint(importlib.util.find_spec('triton').origin)\n"
                                "try:\n    import triton\nexcept ValueError as error:\n    print(error)")
        self.assertEqual(out, f"{self.path}/triton.py\nbroken\n")
        (self.path / "triton.py").write_text("autotune = None\nfrom_here = __spec__.loader\n")
        _, out, errors = self.python("import triton; print(type(triton.__loader__).__name__, triton.autotune)")
        self.assertEqual(out, "SourceFileLoader None\n", errors)


if __name__ == "__main__":
    unittest.main()
