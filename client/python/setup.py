# SPDX-License-Identifier: Apache-2.0
"""Adds what is made when the package is built: the messages' description, the headers that kernels share, the records
that ship or a snapshot, and libtune of the build or install that TUNE_PREFIX names. With TUNE_PROGRAMS=1 the programs
of that install come, too, and commands that run them (tools/wheel.sh)."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # an old setuptools
    from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE.parents[1] / "proto"
SHARED_HEADERS = HERE.parents[1] / "kernels/include"
RECORDS = HERE.parents[1] / "kernels/records"
PROTOC = os.environ.get("PROTOC") or shutil.which("protoc")
PREFIX = os.environ.get("TUNE_PREFIX")
PROGRAMS = os.environ.get("TUNE_PROGRAMS") == "1"


def describe_messages(out):
    """By the protoc that the C++ side uses, else grpcio-tools'. Without one the package answers from files only."""
    protoc = [PROTOC] if PROTOC else [sys.executable, "-m", "grpc_tools.protoc"]
    files = sorted(PROTOS.glob("tune/v1/*.proto"))
    if not files or not (PROTOC or importlib.util.find_spec("grpc_tools")):
        why = "no protoc (apt-get install protobuf-compiler)" if files else f"no {PROTOS}"
        print(f"tunectl: {why}, so this build of the package asks no daemon: it answers from files", file=sys.stderr)
        return
    subprocess.run([*protoc, f"--descriptor_set_out={out}", "--include_imports", f"-I{PROTOS}",
                    *map(str, files)], check=True)


def bring_library(package, prefix):
    """Copies libtune, the CPU device's launcher, absl's libraries if they lie beside these, and the program that asks a
    daemon for libtune; with PROGRAMS all programs, and the records that these look for."""
    libraries = ("libtune.so.1", "libtune-launch-cpu.so", "libabsl_*.so.*")
    for folder, patterns in (("lib", libraries), ("bin", ("*",) if PROGRAMS else ("tune-fetch",)),
                             ("share/tunectl/records", ("*",) if PROGRAMS else ())):
        for path in (file for pattern in patterns for file in (prefix / folder).glob(pattern)):
            (package / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, package / folder / path.name)
    if not (package / "lib/libtune.so.1").exists():
        sys.exit(f"tunectl: TUNE_PREFIX={prefix} has no lib/libtune.so.1")


class Build(build_py):
    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "tunectl"
        package.mkdir(parents=True, exist_ok=True)
        describe_messages(package / "tune.protoset")
        for header in [*SHARED_HEADERS.glob("*.cuh"), *SHARED_HEADERS.glob("*.h")]:
            (package / "include").mkdir(exist_ok=True)
            shutil.copyfile(header, package / "include" / header.name)
        # Hosts that reach no daemon are answered from a snapshot (`tunectl snapshot export FILE`) or the shipped records,
        # which programs bring themselves.
        bundle = os.environ.get("TUNE_BUNDLE")
        if bundle or not PROGRAMS:
            (package / "bundled").mkdir(exist_ok=True)
        if bundle:
            shutil.copyfile(bundle, package / "bundled" / "snapshot.json")
        elif not PROGRAMS:
            for path in RECORDS.glob("*.records.json.gz"):
                shutil.copyfile(path, package / "bundled" / path.name)
        if PREFIX:
            bring_library(package, pathlib.Path(PREFIX))


class Parts(Distribution):
    def has_ext_modules(self):
        return bool(PREFIX)


class Wheel(bdist_wheel):
    """Of this platform if libtune is in it; any Python will do."""

    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Parts,
      setup_requires=["grpcio-tools"] if PROTOS.exists() and not PROTOC else [],  # pip has them for the build alone
      scripts=["scripts/tunectl", "scripts/tunerd"] if PROGRAMS else [])
