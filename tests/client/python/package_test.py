# SPDX-License-Identifier: Apache-2.0
"""The wheel: built from a copy of its source, installed beside nothing else, and asked."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import kit

ASK = """import tunectl
tuned = tunectl.best("scale", n=4096, device="NVIDIA H200")
print(tunectl.__file__, tuned.match, tuned["THREADS"])
from tunectl import _launch_cuda, _libtune, _torch_op, triton
"""


@unittest.skipUnless(importlib.util.find_spec("setuptools"), "setuptools is not installed")
class Wheel(kit.PackageTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for part in ("client/python", "proto", "kernels/include", "kernels/records"):  # a build leaves files beside the source
            shutil.copytree(kit.ROOT / part, cls.folder / part, ignore=shutil.ignore_patterns("__pycache__", "build"))
        cls.bundle = cls.folder / "tuned.json"
        cls.bundle.write_bytes(kit.snapshot_bytes([kit.record(1)]))
        cls.wheel = cls.built("out")

    @classmethod
    def built(cls, out, **environ):
        shutil.rmtree(cls.folder / "client/python/build", ignore_errors=True)
        cls.pip("wheel", "--no-deps", "--no-build-isolation", "-w", cls.folder / out, cls.folder / "client/python",
                TUNE_BUNDLE=str(cls.bundle), **environ)
        (wheel,) = (cls.folder / out).iterdir()
        return wheel

    @staticmethod
    def pip(*arguments, **environ):
        done = subprocess.run([sys.executable, "-m", "pip", "-q", *map(str, arguments)], env={**os.environ, **environ},
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise AssertionError(f"pip {arguments}: {done.stdout}{done.stderr}")

    def test_without_a_build_it_is_pure_typed_and_needs_nothing(self):
        self.assertTrue(self.wheel.name.endswith("-py3-none-any.whl"), self.wheel.name)
        with zipfile.ZipFile(self.wheel) as archive:
            names = set(archive.namelist())
            (metadata,) = [archive.read(name).decode() for name in names if name.endswith("/METADATA")]
        source = {str(path.relative_to(kit.PACKAGE)) for path in kit.PACKAGE.rglob("*.py")}
        self.assertEqual(source - names, set())
        wanted = {"tunectl/py.typed", "tunectl/bundled/snapshot.json"}
        wanted |= {f"tunectl/include/{path.name}" for path in (kit.ROOT / "kernels/include").glob("*.cuh")}
        wanted |= {"tunectl/tune.protoset"} if shutil.which("protoc") else set()
        self.assertEqual(wanted - names, set())
        needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:")]
        self.assertTrue(all("extra ==" in line for line in needed), needed)
        self.assertIn("Requires-Python: >=3.9", metadata)
        with zipfile.ZipFile(self.wheel) as archive:
            (entries,) = [archive.read(name).decode() for name in names if name.endswith("/entry_points.txt")]
        for group in ("torch.backends", "vllm.general_plugins", "sglang.srt.plugins"):
            self.assertIn(f"[{group}]\ntunectl = tunectl_adopt:start\n", entries)

    def test_a_build_without_protoc_asks_pip_for_one(self):
        code = "from setuptools import build_meta; print(build_meta.get_requires_for_build_wheel())"
        for protoc, wanted in (("", ["grpcio-tools"]), ("/usr/bin/protoc", [])):
            done = subprocess.run([sys.executable, "-c", code], cwd=self.folder / "client/python", capture_output=True, text=True,
                                  env={**os.environ, "PATH": "/nowhere", "PROTOC": protoc}, check=True)
            self.assertEqual(done.stdout.splitlines()[-1], str(wanted), done.stderr)

    def ask(self, wheel, code, **environ):
        place = self.path / "site"
        self.pip("install", "--no-deps", "--no-index", "--target", place, wheel)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=self.path,
                              env={**os.environ, "PYTHONPATH": str(place), **environ})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_it_answers_where_it_is_installed(self):
        for environ in ({}, {"TUNE_LIBRARY": "/nowhere/libtune.so.1"}):
            self.assertEqual(self.ask(self.wheel, ASK, **environ), [str(self.path / "site/tunectl/__init__.py"), "exact", "128"])
            shutil.rmtree(self.path / "site")

    def test_a_wheel_of_a_build_brings_the_library(self):
        wheel = self.built("whole", TUNE_PREFIX=str(pathlib.Path(os.environ["TUNE_BIN"]).parent))
        self.assertRegex(wheel.name, "-py3-none-linux_[a-z0-9_]+.whl$")
        with zipfile.ZipFile(wheel) as archive:
            self.assertLessEqual({"tunectl/lib/libtune.so.1", "tunectl/bin/tune-fetch"}, set(archive.namelist()))
        code = ASK + "print(_libtune.library()._name, tunectl.best('scale', n=4097, device='NVIDIA H200').match)"
        self.assertEqual(self.ask(wheel, code, TUNE_BIN="", PATH="/usr/bin:/bin")[3:],
                         [str(self.path / "site/tunectl/lib/libtune.so.1"), "nearest"])

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
    def test_its_types_hold(self):
        package = self.folder / "client/python"
        done = subprocess.run([sys.executable, "-m", "mypy", "--cache-dir", self.path, "src/tunectl"], cwd=package,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
