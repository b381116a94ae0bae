# SPDX-License-Identifier: Apache-2.0
"""The library as others get it: installed, found by CMake and pkg-config, asked by the two examples."""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import daemon_kit
import kit

BUILD = pathlib.Path(os.environ["TUNE_BIN"]).parent


def run(*words, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=240, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


class InstallTest(daemon_kit.DaemonTest):
    @classmethod
    def prepare(cls):
        cls.sweep(1000)
        cls.prefix = cls.home / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix, "--component", "library")
        # The program beside it; an install of everything brings it.
        (cls.prefix / "bin").mkdir()
        shutil.copy(BUILD / "bin/tune-fetch", cls.prefix / "bin")
        for example in ("c", "cpp"):
            build = cls.home / example
            run("cmake", "-S", kit.ROOT / "examples" / example, "-B", build, "-G", "Ninja",
                f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON",
                "-DCMAKE_C_FLAGS=-Wall -Wextra -Wpedantic", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Wpedantic")
            run("cmake", "--build", build)
        cls.c, cls.cpp, cls.job = (cls.home / path for path in ("c/tuned_config", "cpp/tuned_binary", "cpp/long_job"))

    def ask(self, program, *words, **more):
        return run(program, *words, env={**os.environ, **more})

    def test_from_the_folder_that_the_daemon_writes(self):
        said = self.ask(self.c, "saxpy", "n=1000")
        self.assertRegex(said, r"saxpy on cpu:.*: exact: this problem was tuned on cpu:")
        self.assertRegex(said, r"-DTHREADS=\d+")
        self.assertIn(f"snapshot {self.newest()} from file", said)

    def test_from_the_daemon_through_a_process_of_its_own(self):
        said = self.ask(self.c, "saxpy", "n=1000", TUNE_STATE_DIR=str(self.path / "none"))
        self.assertIn(f"snapshot {self.newest()} from daemon", said)
        binary = self.ask(self.cpp, "saxpy", "n=1000", TUNE_STATE_DIR=str(self.path / "none"))
        self.assertRegex(binary, r'(?s)exact: .* of a binary of \d+ bytes for cpu: grid \d+ 1 1, block')

    def test_what_is_missed_becomes_one_job_however_many_ranks_miss_it(self):
        ranks = [self.ask(self.c, "saxpy", "n=777", TUNE_RECORD_MISSES="1") for _ in range(2)]
        sweeps = {re.search(r"told: saxpy n=777: sweep (\d+), (?:already )?queued", said)[1] for said in ranks}
        jobs = json.loads(self.tunectl("job", "list", "--json").stdout)["jobs"]
        (job,) = [job for job in jobs if job["subject"].startswith("saxpy n=777 ")]
        self.assertEqual(({str(job["id"])}, job["priority"]), (sweeps, "JOB_PRIORITY_BACKGROUND"))
        self.assertNotIn("told", self.ask(self.c, "saxpy", "n=778"))

    def test_a_long_job_takes_what_is_tuned_meanwhile(self):
        with subprocess.Popen([self.job, "saxpy", "n", "1000", "779"], stdout=subprocess.PIPE, text=True) as job:
            first = [job.stdout.readline() for _ in range(3)]
            self.assertRegex("".join(first), r"snapshot .*\n  exact: .*\n  nearest on ")
            self.sweep(779)  # sooner than the background comes to it
            rest = job.communicate(timeout=120)[0]
        self.assertRegex(rest, r"better:\n  exact: .*\nsnapshot .*\n  exact: .*\n  exact: ")
        self.assertNotEqual(first[0], re.search("snapshot .*\n", rest)[0])

    def test_a_mistake_is_told(self):
        for program in (self.c, self.cpp):
            done = subprocess.run([program, "saxpy", "m=1"], capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("kernel 'saxpy' has no dim 'm'; its dims are n", done.stderr)

    def test_without_anybody_the_records_that_ship_answer(self):
        nowhere = {"TUNE_STATE_DIR": str(self.path / "none"), "TUNE_ADDRESS": f"unix:{self.path}/none.sock",
                   "TUNE_CACHE_DIR": str(self.path / "none")}
        shipped = b"".join(gzip.decompress(path.read_bytes())
                           for path in sorted((kit.ROOT / "kernels/records").glob("*.records.json.gz")))
        said = self.ask(self.c, "softmax", "rows=4096", "cols=1024", **nowhere)
        self.assertIn(f"snapshot {kit.digest_of(shipped)} from bundled", said)
        self.assertIn("softmax on ", said)

    def test_without_anything(self):
        nowhere = {"TUNE_STATE_DIR": str(self.path / "none"), "TUNE_ADDRESS": f"unix:{self.path}/none.sock"}
        bundled = self.prefix / "share/tunectl/records"
        self.addCleanup(bundled.rename(bundled.with_suffix(".kept")).rename, bundled)
        done = subprocess.run([self.c, "saxpy", "n=1000"], env={**os.environ, **nowhere}, capture_output=True, text=True,
                              check=False, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertIn("there is no snapshot", done.stdout)
        self.assertIn("note: no daemon answers", done.stderr)
        self.assertIn("no binary", self.ask(self.cpp, "saxpy", "n=1000", **nowhere))

    @unittest.skipUnless(shutil.which("pkg-config"), "there is no pkg-config")
    def test_pkg_config(self):
        flags = run("pkg-config", "--cflags", "--libs", "tune",
                    env={**os.environ, "PKG_CONFIG_PATH": str(self.prefix / "lib/pkgconfig")}).split()
        source = kit.ROOT / "examples/c/tuned_config.c"
        program = self.path / "by_hand"
        run("cc", "-std=c99", "-pedantic-errors", "-Werror", source, "-o", program, *flags,
            f"-Wl,-rpath,{self.prefix}/lib")
        self.assertIn("exact", self.ask(program, "saxpy", "n=1000"))

    def test_nothing_else_is_exported_and_little_is_needed(self):
        library = self.prefix / "lib/libtune.so"
        symbols = [line.split()[-1].partition("@")[0] for line in run("nm", "-D", "--defined-only", library).splitlines()]
        self.assertTrue(all(name.startswith("tune_") for name in symbols), symbols)
        declared = (self.prefix / "include/tune/tune.h").read_text()
        self.assertEqual([name for name in symbols if f"{name}(" not in declared], [], "declared")
        needed = run("ldd", library)
        for absent in ("grpc", "protobuf", "sqlite", "not found", "libcuda", "nvidia"):
            self.assertNotIn(absent, needed)
        for line in needed.splitlines():
            if "absl" in line:
                self.assertIn(str(self.prefix), line, "it travels beside the library")


if __name__ == "__main__":
    unittest.main()
