# SPDX-License-Identifier: Apache-2.0
"""Adds what is made when the package is built: the messages' description, the headers that kernels share, and the
records that ship or a snapshot."""
import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE.parents[1] / "proto"
SHARED_HEADERS = HERE.parents[1] / "kernels/include"
RECORDS = HERE.parents[1] / "kernels/records"


def describe_messages(out):
    """By the protoc that the C++ side uses. Without one the package answers from files only."""
    protoc = os.environ.get("PROTOC") or shutil.which("protoc")
    files = sorted(PROTOS.glob("tune/v1/*.proto"))
    if not protoc or not files:
        print("tunectl: no protoc (apt-get install protobuf-compiler), so this build of the package "
              "asks no daemon: it answers from files", file=sys.stderr)
        return
    subprocess.run([protoc, f"--descriptor_set_out={out}", "--include_imports", f"-I{PROTOS}",
                    *map(str, files)], check=True)


class Build(build_py):
    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib) / "tunectl"
        package.mkdir(parents=True, exist_ok=True)
        describe_messages(package / "tune.protoset")
        for header in [*SHARED_HEADERS.glob("*.cuh"), *SHARED_HEADERS.glob("*.h")]:
            (package / "include").mkdir(exist_ok=True)
            shutil.copyfile(header, package / "include" / header.name)
        # Hosts that reach no daemon are answered from a snapshot (`tunectl snapshot export FILE`) or the shipped records.
        bundle = os.environ.get("TUNE_BUNDLE")
        (package / "bundled").mkdir(exist_ok=True)
        if bundle:
            shutil.copyfile(bundle, package / "bundled" / "snapshot.json")
        for path in () if bundle else RECORDS.glob("*.records.json.gz"):
            shutil.copyfile(path, package / "bundled" / path.name)


setup(cmdclass={"build_py": Build})
