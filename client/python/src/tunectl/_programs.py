# SPDX-License-Identifier: Apache-2.0
"""The programs that a wheel brings (tunectl, tunerd and what they start): where they are, and how Python runs them.

They lie in the package, so they are found wherever the package is: a virtual environment, `pip install --user`,
`pip install --target`, an overlay. A package without them uses those of TUNE_BIN or the PATH.
"""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Union

from ._definition import Kernel, on_disk
from ._dtypes import device_name, dtype_name
from ._results import Sweep, of_json

_ELF = b"\x7fELF"


class ProgramError(RuntimeError):
    """A program of tunectl failed; the text is its own."""


def _places(name: str) -> Iterator[str]:
    if os.environ.get("TUNE_BIN"):
        yield os.path.join(os.environ["TUNE_BIN"], name)
    yield os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        if os.path.isabs(folder):
            yield os.path.join(folder, name)


def _fault(path: str) -> str:
    """Returns why this is no program, or "". A wheel's scripts on the PATH are none: they look for the program."""
    try:
        with open(path, "rb") as file:
            if file.read(len(_ELF)) != _ELF:
                return "a script"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return "" if os.access(path, os.X_OK) else "not executable"


def find_binary(name: str = "tunectl") -> str:
    """Returns the path of a program: "tunectl", "tunerd", "tune-fetch" or a worker's.

    Looks in the folder that TUNE_BIN names, in the package and on the PATH.
    FileNotFoundError: none of them has it; the text lists the places.
    """
    looked = []
    for path in dict.fromkeys(_places(name)):
        fault = _fault(path)
        if not fault:
            return path
        looked.append(f"{path} ({fault})")
    raise FileNotFoundError(f"the program {name} was not found. It was looked for at {', '.join(looked)}. Install a wheel "
                            f"that brings it (tools/wheel.sh makes one), or name its folder with TUNE_BIN")


def environment() -> dict[str, str]:
    """Returns the environment of a program, whose workers look for NumPy and Triton in this virtual environment first."""
    variables = dict(os.environ)
    if sys.prefix != sys.base_prefix:
        variables.setdefault("VIRTUAL_ENV", sys.prefix)
    return variables


def run(name: str) -> None:
    """Replaces this process by a program, with the same arguments. Never returns."""
    try:
        program = find_binary(name)
    except FileNotFoundError as error:
        sys.exit(f"error: {error}")
    os.execve(program, [name, *sys.argv[1:]], environment())


def _output(arguments: Sequence[str]) -> str:
    """Returns the stdout of tunectl. Passes an interrupt on, and waits until the program has ended."""
    with subprocess.Popen([find_binary(), *arguments], env=environment(), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            out, errors = child.communicate()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            child.communicate()
            raise
    if child.returncode != 0:
        lines = [line for line in errors.splitlines() if not line.startswith("{")]  # the reason, for programs
        raise ProgramError("\n".join(lines).removeprefix("tunectl: ") or _message_of(out) or
                           f"tunectl ended with code {child.returncode}")
    return out


def _message_of(out: str) -> str:
    """Why the job failed that the program printed; empty: it printed none."""
    try:
        return str(json.loads(out).get("message", ""))
    except ValueError:
        return ""


def sweep(kernel: Union[str, Kernel], dtype: object, device: object, budget: object, strategy: str, seed: int,
          dims: Mapping[str, int]) -> Sweep:
    """See tunectl.sweep."""
    flags = {"dtype": dtype_name(dtype), "device": device_name(device), "budget": budget, "strategy": strategy,
             "seed": seed, **dims}
    words = [f"--{name}={value}" for name, value in flags.items() if value not in (None, "")]
    with on_disk(kernel) as spec:
        row = Sweep(of_json(json.loads(_output(["sweep", spec, "--json", *words]))))
    if not isinstance(kernel, str):
        kernel.learn_hash(row["kernel_hash"])
    return row
