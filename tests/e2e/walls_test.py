# SPDX-License-Identifier: Apache-2.0
"""A host without Landlock: no kernel runs unless the operator says so. Run by ctest; needs TUNE_BIN."""
import ctypes
import json
import os
import pathlib
import platform
import struct
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["TUNE_BIN"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
SAXPY = str(ROOT / "docs/examples/saxpy/saxpy.textproto")
SWEEP = ["sweep", "--kernel", SAXPY, "--device", "cpu", "--budget", "2"]
LANDLOCK_CREATE_RULESET = 444
ENOSYS = 38


def without_landlock():
    """Runs in the child before exec: the kernel now answers as one that has no Landlock would."""
    def statement(code, jump_true, jump_false, value):
        return struct.pack("HBBI", code, jump_true, jump_false, value)
    program = b"".join([
        statement(0x20, 0, 0, 0),                             # load the call's number
        statement(0x15, 0, 1, LANDLOCK_CREATE_RULESET),       # is it that one?
        statement(0x06, 0, 0, 0x00050000 | ENOSYS),           # then it does not exist
        statement(0x06, 0, 0, 0x7fff0000)])                   # all others are allowed
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, seccomp, with_filter = 38, 22, 2
    if libc.prctl(no_new_privileges, 1, 0, 0, 0) or libc.prctl(seccomp, with_filter, filter_):
        raise OSError(ctypes.get_errno(), "no filter")


@unittest.skipUnless(platform.machine() in ("x86_64", "aarch64"), "system calls have other numbers")
class Walls(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(prefix="tune-")
        self.addCleanup(directory.cleanup)
        self.address = f"unix:{directory.name}/d.sock"
        self.env = {**os.environ, "TUNE_STATE_DIR": f"{directory.name}/state", "NO_COLOR": "1",
                    "XDG_RUNTIME_DIR": directory.name, "TUNE_ADDRESS": self.address}

    def start_daemon(self, *flags, preexec_fn=None):
        daemon = subprocess.Popen([str(BIN / "tunerd"), "--listen", self.address, *flags],
                                  env=self.env, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, preexec_fn=preexec_fn)

        def stop():
            daemon.kill()
            daemon.wait()

        self.addCleanup(stop)
        for _ in range(200):
            if self.tunectl("server", "status").returncode == 0:
                return
            time.sleep(0.05)
        self.fail("tunerd does not answer")

    def tunectl(self, *arguments):
        return subprocess.run([str(BIN / "tunectl"), *arguments], env=self.env,
                              capture_output=True, text=True, timeout=240, check=False)

    def test_without_landlock_no_kernel_runs(self):
        self.start_daemon(preexec_fn=without_landlock)
        swept = self.tunectl(*SWEEP)
        self.assertNotEqual(swept.returncode, 0, swept.stdout)
        shown = self.tunectl("device", "show", "cpu").stdout
        self.assertIn("unavailable", shown)
        self.assertIn("MISSING files: it could read the daemon's files", shown)
        self.assertIn("--allow-weak-walls", shown)

    def test_the_operator_may_allow_it_and_status_keeps_saying_so(self):
        self.start_daemon("--allow-weak-walls", preexec_fn=without_landlock)
        swept = self.tunectl(*SWEEP)
        self.assertEqual(swept.returncode, 0, swept.stderr)
        status = json.loads(self.tunectl("server", "status", "--json").stdout)
        self.assertTrue(status["weak_walls_allowed"])
        self.assertIn("WEAK ONES ARE ALLOWED", self.tunectl("server", "status").stdout)
        self.assertIn("MISSING files", self.tunectl("server", "status").stdout)

    def test_with_everything_all_walls_stand(self):
        self.start_daemon()
        self.assertEqual(self.tunectl(*SWEEP).returncode, 0)
        status = json.loads(self.tunectl("server", "status", "--json").stdout)
        workers = {walls["worker"]: walls for walls in status["walls"]}
        self.assertLessEqual({"tune-compile-cpu", "tune-device-cpu"}, set(workers))
        for name in ("tune-compile-cpu", "tune-device-cpu"):
            for wall in workers[name]["walls"]:
                self.assertNotEqual(wall["state"], "WALL_STATE_MISSING", (name, wall))


if __name__ == "__main__":
    unittest.main()
