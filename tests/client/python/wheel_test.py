# SPDX-License-Identifier: Apache-2.0
"""The wheel of tools/wheel.sh: in each layout in which pip installs, and on the oldest and the newest hosts that it
promises. A host is a chroot, which debootstrap makes once, in build/hosts."""
import functools
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import kit

HOSTS = {"bullseye": 11, "bookworm": 12, "trixie": 13}
MIRROR = "http://deb.debian.org/debian"
BYTES_MAX = 45_000_000
SECONDS_MAX = 60  # from an empty environment to a tuned softmax; of processors, if the host does other work, too
SOFTMAX = "venv/bin/tunectl sweep softmax --rows 64 --cols 512 --device cpu --budget 20"
TUNE_AND_LAUNCH = """import ctypes
import tunectl


class Array:  # a fresh host has no NumPy
    def __init__(self):
        self.values = (ctypes.c_float * (64 * 512))(*(i % 7 for i in range(64 * 512)))
        self.__array_interface__ = {"shape": (64, 512), "typestr": "<f4", "version": 3,
                                    "data": (ctypes.addressof(self.values), False)}


row = tunectl.sweep("softmax", rows=64, cols=512, dtype="f32", device="cpu", budget=3)
tuned = tunectl.best("softmax", rows=64, cols=512, dtype="f32", device="cpu")
print(row["state"], tuned.match, dict(tuned) == row["result"]["best"]["config"])
x, y = Array(), Array()
softmax = tunectl.kernel("softmax", fallback=None)
softmax(x, out=y)
print(round(sum(y.values[:512]), 3), round(sum(y.values[-512:]), 3), softmax.notes)
"""


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=1800, check=False, **more)


def output(*words, **more):
    done = run(*words, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


def processor_seconds():
    """Returns the time that the ended child processes used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@functools.lru_cache(maxsize=1)
def the_wheel():
    return pathlib.Path(output(kit.ROOT / "tools/wheel.sh").splitlines()[-1])


class WheelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.wheel = the_wheel()
        self.environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.path), "TUNE_STATE_DIR": str(self.path / "state")}


class Content(WheelTest):
    def test_it_is_small_and_promises_what_auditwheel_finds(self):
        self.assertLessEqual(self.wheel.stat().st_size, BYTES_MAX)
        self.assertRegex(self.wheel.name, r"^tunectl-[\d.]+-py3-none-manylinux_2_(1\d|2[0-8])_x86_64\.whl$")

    def test_its_programs_need_glibc_alone_and_its_library_exports_nothing_else(self):
        with zipfile.ZipFile(self.wheel) as archive:
            archive.extractall(self.path)
        package = self.path / "tunectl"
        programs = {path.name for path in (package / "bin").iterdir()}
        self.assertLessEqual({"tunectl", "tunerd", "tune-fetch", "tune-compile-cpu", "tune-device-cpu"}, programs)
        self.assertTrue((package / "tune.protoset").exists())
        records = {path.name for path in package.rglob("*.records.json.gz")}
        self.assertEqual(records, {path.name for path in (kit.ROOT / "kernels/records").glob("*.records.json.gz")})
        self.assertEqual(len(list(package.rglob("*.records.json.gz"))), len(records), "they are there twice")
        known = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d|ld-linux-x86-64\.so\.2")
        libraries = {"libtune.so.1": "tune_", "libtune-launch-cpu.so": "tune_launch_cpu_"}
        self.assertEqual({path.name for path in (package / "lib").iterdir()}, set(libraries))
        for path in (*(package / "bin").iterdir(), *(package / "lib").iterdir()):
            needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", path))
            self.assertEqual([name for name in needed if not known.fullmatch(name)], [], path)
        for name, prefix in libraries.items():
            symbols = [line.split()[-1].partition("@")[0]
                       for line in output("nm", "-D", "--defined-only", package / "lib" / name).splitlines()]
            self.assertEqual([symbol for symbol in symbols if not symbol.startswith(prefix)], [], name)


class Layouts(WheelTest):
    """Each way to install, and from each the program, the module and the look-up."""

    def pip(self, python, *words, **environ):
        output(python, "-m", "pip", "-q", "install", "--disable-pip-version-check", "--no-index", *words, self.wheel,
               env={**self.environ, **environ})

    def check(self, python, scripts, package, **environ):
        environ = {**self.environ, **environ}
        for words in ((scripts / "tunectl",), (python, "-m", "tunectl"), (scripts / "tunerd",)):
            self.assertRegex(output(*words, "--version", env=environ), r"^\d+\.\d+\.\d+$")
        code = "import tunectl; print(tunectl.find_binary('tune-device-cpu')); tunectl.best('softmax', rows=1, cols=8)"
        done = run(python, "-c", code, env=environ)
        self.assertEqual((done.stdout.strip(), done.returncode), (str(package / "bin/tune-device-cpu"), 0), done.stderr)
        self.assertIn("no snapshot was found, so configs are those that the package bundles", done.stderr)

    def make_environment(self, name, *words):
        output(sys.executable, "-m", "venv", *words, self.path / name)
        return self.path / name / "bin/python3", self.path / name / "bin"

    @staticmethod
    def site(folder):
        return next(folder.glob("lib/python3*/site-packages")) / "tunectl"

    def test_in_a_virtual_environment(self):
        python, scripts = self.make_environment("venv")
        self.pip(python)
        self.check(python, scripts, self.site(self.path / "venv"))

    def test_in_a_target_folder_that_only_pythonpath_names(self):
        target = self.path / "target"
        self.pip(sys.executable, "--target", target)
        self.check(sys.executable, target / "bin", target / "tunectl", PYTHONPATH=str(target))
        self.assertRegex(output(target / "bin/tunectl", "--version", env=self.environ), r"^\d")

    def test_for_a_user(self):
        base = self.path / "base"
        user = {"PYTHONUSERBASE": str(base), "PIP_BREAK_SYSTEM_PACKAGES": "1"}
        interpreter = getattr(sys, "_base_executable", sys.executable)
        self.pip(interpreter, "--user", **user)
        self.check(interpreter, base / "bin", self.site(base), **user)

    def test_in_an_overlay_of_another_environment(self):
        below, _ = self.make_environment("below")
        self.pip(below)
        python, scripts = self.make_environment("above", "--without-pip")
        above = next((self.path / "above").glob("lib/python3*/site-packages"))
        (above / "below.pth").write_text(f"{self.site(self.path / 'below').parent}\n")
        self.assertFalse((scripts / "tunectl").exists())
        self.check(python, self.path / "below/bin", self.site(self.path / "below"))

    def test_what_is_missing_is_told_with_the_places(self):
        python, scripts = self.make_environment("venv")
        self.pip(python)
        bin_folder = self.site(self.path / "venv") / "bin"
        (bin_folder / "tunerd").chmod(0o644)
        (bin_folder / "tunectl").unlink()
        for name, why in (("tunectl", "no such file or directory"), ("tunerd", "not executable")):
            done = run(scripts / name, env={**self.environ, "PATH": f"{scripts}:/usr/bin"})
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, rf"^error: the program {name} was not found\. It was looked for at "
                                          rf"{re.escape(str(bin_folder))}/{name} \({why}\), "
                                          rf"{re.escape(str(scripts))}/{name} \(a script\), /usr/bin/{name} ")


def host(name):
    """A Debian with Python, without a compiler; SkipTest if none can be made here."""
    place = kit.ROOT / "build/hosts" / name
    if not (place / ".made").exists():
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            raise unittest.SkipTest("a host is made by root and debootstrap")
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(exist_ok=True)
        made = run("debootstrap", "--variant=minbase", "--include=python3,python3-venv,g++", name, place, MIRROR)
        if made.returncode != 0:
            raise unittest.SkipTest(f"debootstrap makes no {name} here: {made.stdout[-500:]}{made.stderr[-500:]}")
        (place / ".made").touch()
    return place


class Hosts(WheelTest):
    def enter(self, place, command, **environ):
        mounts = f"mount -t proc proc {place}/proc && mount --rbind /dev {place}/dev && exec chroot {place} sh -c \"$1\""
        return run("unshare", "--mount", "--pid", "--fork", "sh", "-c", mounts, "sh", command,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/tmp", "TUNE_STATE_DIR": "/tmp/state", **environ})

    def on(self, name):
        place = host(name)
        probe = self.enter(place, "true")
        if probe.returncode != 0:
            self.skipTest(f"no chroot here: {probe.stderr}")
        shutil.rmtree(place / "tmp", ignore_errors=True)
        (place / "tmp").mkdir(mode=0o1777)
        shutil.copy(self.wheel, place / "tmp")
        started, used = time.monotonic(), processor_seconds()
        done = self.enter(place, "cd /tmp && python3 -m venv venv && venv/bin/pip -q install --no-index ./*.whl && "
                                 f"venv/bin/tunectl --version && {SOFTMAX}")
        seconds, used = time.monotonic() - started, processor_seconds() - used
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?s)^\d+\.\d+\.\d+\n.*softmax .*best .*latency .*tried +20 of 20 configs")
        print(f"{name}: {seconds:.1f} s from an empty environment to a tuned softmax, {used:.1f} s of processors",
              file=sys.stderr)
        self.assertLess(min(seconds, used), SECONDS_MAX)

        (place / "tmp/tune.py").write_text(TUNE_AND_LAUNCH)
        done = self.enter(place, "cd /tmp && venv/bin/python3 tune.py", TUNE_STATE_DIR="/tmp/other")
        self.assertEqual(done.stdout.split("\n"), ["done exact True", "1.0 1.0 ()", ""], done.stderr)
        done = self.enter(place, f"cd /tmp && PATH=/nowhere {SOFTMAX}", TUNE_STATE_DIR="/tmp/third")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the CPU device needs a C++20 compiler", done.stdout)
        self.assertIn("apt-get install g++", done.stdout)


for suite, number in HOSTS.items():
    setattr(Hosts, f"test_on_debian_{number}", functools.partialmethod(Hosts.on, suite))


if __name__ == "__main__":
    unittest.main()
