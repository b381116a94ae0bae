# SPDX-License-Identifier: Apache-2.0
"""The programs from Python: where they are looked for, `python -m tunectl`, and sweeps without a daemon."""
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import kit
import tunectl
from tunectl import _programs

BIN = pathlib.Path(os.environ["TUNE_BIN"])


class Programs(kit.PackageTest):
    def setUp(self):
        super().setUp()
        os.environ.pop("TUNE_ADDRESS", None)
        os.environ.update(TUNE_STATE_DIR=str(self.path / "state"), PYTHONPATH=str(kit.PACKAGE))

    def test_tune_bin_counts_before_the_path(self):
        shutil.copy(BIN / "tune-fetch", self.path)
        os.environ["PATH"] = f"{self.path}:{os.environ['PATH']}"
        self.assertEqual(tunectl.find_binary("tune-fetch"), str(BIN / "tune-fetch"))
        del os.environ["TUNE_BIN"]
        self.assertEqual(tunectl.find_binary("tune-fetch"), str(self.path / "tune-fetch"))

    def test_an_error_lists_the_places_and_what_is_wrong_there(self):
        script, plain = self.path / "one/tunerd", self.path / "two/tunerd"
        for path, text, mode in ((script, b"#!/bin/sh\n", 0o755), (plain, b"\x7fELF", 0o644)):
            path.parent.mkdir()
            path.write_bytes(text)
            path.chmod(mode)
        os.environ.update(TUNE_BIN=str(self.path), PATH=f"{script.parent}:relative:{plain.parent}")
        package = pathlib.Path(_programs.__file__).parent / "bin/tunerd"
        missing = "(no such file or directory)"
        why = (f"the program tunerd was not found. It was looked for at {self.path}/tunerd {missing}, {package} {missing}, "
               f"{script} (a script), {plain} (not executable).")
        with self.assertRaisesRegex(FileNotFoundError, "^" + why.replace("(", r"\(").replace(")", r"\)")):
            tunectl.find_binary("tunerd")

    @unittest.skipUnless(shutil.which("readelf"), "no readelf")
    def test_no_library_is_looked_for_in_the_working_directory(self):
        for path in BIN.iterdir():
            shown = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=False).stdout
            paths = [one for line in shown.splitlines() if "path" in line for one in line.split("[")[1].split("]")[0].split(":")]
            self.assertEqual([one for one in paths if not one.startswith(("/", "$ORIGIN"))], [], path)

    def test_the_module_is_the_program(self):
        version = subprocess.run([BIN / "tunectl", "--version"], capture_output=True, text=True, check=True).stdout
        done = subprocess.run([sys.executable, "-m", "tunectl", "--version"], capture_output=True, text=True, check=False)
        self.assertEqual((done.stdout, done.returncode), (version, 0), done.stderr)
        os.environ.update(TUNE_BIN=str(self.path), PATH="/nowhere")
        done = subprocess.run([sys.executable, "-m", "tunectl"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^error: the program tunectl was not found")

    def test_a_sweep_tunes_without_a_daemon_and_its_record_answers(self):
        row = tunectl.sweep("add", n=1000, device="cpu", budget=2, dtype="f32")
        self.assertEqual((row["state"], row["problem"]["n"], row["progress"]["done"]), ("done", 1000, 2))
        tuned = tunectl.best("add", n=1000, device="cpu", dtype="f32")
        self.assertEqual((tuned.match, dict(tuned)), ("exact", row["result"]["best"]["config"]))

    def test_a_kernel_that_is_defined_in_python_is_swept(self):
        def kernel(name, result):
            return tunectl.Kernel(
                name, source="\n".join([
                    f"__global__ void {name}(const float* x, float* y, int n) {{",
                    "  for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) y[i] = 2.0f * x[i];", "}",
                    f"__global__ void {name}_reference(const float* x, {result}* y, int n) {{",
                    "  for (int i = 0; i < n; ++i) y[i] = 2.0f * x[i];", "}"]),
                dims={"n": {"default_value": 1000, "min": 1}}, dtypes=["f32"], params={"THREADS": [128, 64]},
                args={"x": {"role": "input", "dtype": "f32", "shape": "n"}, "y": {"role": "output", "dtype": "f32", "shape": "n"},
                      "n": {"dtype": "i32", "value": "n"}},
                grid="ceil_div(n, THREADS)", block="THREADS",
                reference={"entry": f"{name}_reference", "grid": 1, "block": 1})

        row = tunectl.sweep(kernel("twice", "double"), n=1000, device="cpu", budget=2)
        self.assertEqual((row["kernel_name"], row["state"]), ("twice", "done"))
        self.assertIn("twice", repr(row))
        with self.assertRaisesRegex(tunectl.ProgramError, r"^bad\.cu:4: arg 2 'y' is a buffer of f64"):
            tunectl.sweep(kernel("bad", "float"), device="cpu")

    def test_a_sweep_that_fails_raises_in_the_words_of_the_program(self):
        with self.assertRaisesRegex(tunectl.ProgramError, "^(?!tunectl: )(?s:.*)softmax"):
            tunectl.sweep("softmx")
        with self.assertRaisesRegex(tunectl.ProgramError, "seqq"):
            tunectl.sweep("add", seqq=1)


if __name__ == "__main__":
    unittest.main()
