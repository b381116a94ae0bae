#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has clang check what GCC cannot: `lint.py BUILD threads` that guarded members are used under their mutex
(base/mutex.h), `lint.py BUILD tidy` what .clang-tidy names. BUILD is a built preset, such as build/release; more
arguments are sources or folders to check instead of all. Sources that the preset compiles as one are checked as one.

Prints clang's findings and exits 1 if there is one, 77 if clang is not installed. A source that had none is not
checked again until it, a header of this project that it includes, or the checks change (BUILD/lint has a stamp of each).
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PRODUCT = ("apps", "base", "client", "db", "lookup", "server", "tuner")
MUTEX = "base/mutex.h"
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
CHECKS = {
    "threads": ["clang++", "-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror"],
    "tidy": ["clang-tidy", "--quiet", "--warnings-as-errors=*"],
}


class Sources:
    """The text of files and what they include."""

    def __init__(self):
        self.texts = {}

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = path.read_bytes() if path.is_file() else None
        return self.texts[path]

    def includes(self, path):
        """The names that a file includes."""
        text = self.text(path)
        return INCLUDE.findall(text.decode(errors="replace")) if text is not None else []

    def closure(self, source, folders):
        """The source and all that it includes from the folders, sorted."""
        seen, left = {source}, [source]
        while left:
            for name in self.includes(left.pop()):
                for folder in folders:
                    path = folder / name
                    if path not in seen and self.text(path) is not None:
                        seen.add(path)
                        left.append(path)
        return sorted(seen)


class Unit:
    """A source with the flags that clang compiles it by."""

    def __init__(self, entry, sources):
        words = iter(shlex.split(entry["command"])[1:])
        self.directory = pathlib.Path(entry["directory"])
        self.source = (self.directory / entry["file"]).resolve()
        self.flags, self.precompiled = [], None
        for word in words:
            if word in ("-o", "-c"):
                next(words)
            elif word == "-include":  # of GCC's precompiled headers clang takes the text
                self.precompiled = str(self.directory / next(words))
            elif word.startswith(("-D", "-std=")):
                self.flags.append(word)
            elif word in ("-I", "-isystem"):
                self.flags += [word, next(words)]
            elif word.startswith("-I"):
                self.flags.append(word)
        folders = [pathlib.Path(flag.removeprefix("-I")) for flag in self.flags if flag.startswith(("-I", "/"))]
        folders = [folder for folder in folders if self.directory in folder.parents or ROOT in (folder, *folder.parents)]
        # Of a group, which CMake wrote into the build, each member is included by its whole path.
        self.members = ([pathlib.Path(name) for name in sources.includes(self.source)]
                        if self.source.name.startswith("unity_") else [self.source])
        self.files = sources.closure(self.source, folders)
        self.header_files = sources.closure(pathlib.Path(self.precompiled), folders) if self.precompiled else []

    def uses_mutex(self, sources):
        """Does it, or a header that it names, include base/mutex.h? Guarded members are private: no other source uses one."""
        named = [name for member in self.members for name in sources.includes(member)]
        return MUTEX in named or any(MUTEX in sources.includes(ROOT / name) for name in named)

    def is_below(self, paths):
        """Is a member of it at or below one of these paths?"""
        return any(str(member) == path or str(member).startswith(path.rstrip("/") + os.sep)
                   for member in self.members for path in paths)

    def digest(self, sources, files, salt):
        """What a result depends on; a system header is taken to change with clang's version alone."""
        state = hashlib.sha256((salt + " ".join(self.flags)).encode())
        for path in files:
            state.update(str(path).encode() + b"\0" + sources.text(path) + b"\0")
        return state.hexdigest()


def units_of(build, check, names, sources):
    """The units of the product that a check is about, at or below the named paths."""
    entries = json.loads((build / "compile_commands.json").read_text())
    named = [str((pathlib.Path.cwd() / name).resolve()) for name in names] or [str(ROOT / folder) for folder in PRODUCT]
    units = {}
    for entry in entries:
        unit = Unit(entry, sources)
        if unit.is_below(named) and (check != "threads" or unit.uses_mutex(sources)):
            units[unit.source] = unit
    return list(units.values())


def precompile(job):
    """Makes a unit's precompiled headers, in clang's form."""
    out, unit = job
    if not out.is_file():
        subprocess.run(["clang++", *unit.flags, "-w", "-x", "c++-header", unit.precompiled, "-o", str(out)],
                       cwd=unit.directory, check=False, capture_output=True)


def main(arguments):
    if len(arguments) < 2 or arguments[1] not in CHECKS:
        print(__doc__)
        return 2
    build, check = pathlib.Path(arguments[0]).resolve(), arguments[1]
    command = CHECKS[check]
    if shutil.which(command[0]) is None:
        print(f"{command[0]} is not installed")
        return 77
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
    salt = version + " ".join(command) + ((ROOT / ".clang-tidy").read_text() if check == "tidy" else "")
    stamps, headers = build / "lint" / check, build / "lint" / "headers"
    stamps.mkdir(parents=True, exist_ok=True)
    headers.mkdir(exist_ok=True)
    sources = Sources()
    units = units_of(build, check, arguments[2:], sources)
    due = []
    precompiled = {}
    for unit in units:
        stamp = stamps / unit.digest(sources, unit.files + unit.header_files, salt)
        if stamp.exists():
            continue
        header = headers / (unit.digest(sources, unit.header_files, version)[:16] + ".pch") if unit.precompiled else None
        due.append((unit, stamp, header))
        if header is not None:
            precompiled[header] = unit

    def run(job):
        unit, stamp, header = job
        flags = [*unit.flags, *(["-include-pch", str(header)] if header is not None and header.is_file() else [])]
        line = [*command, str(unit.source), *["--"] * (check == "tidy"), *flags]
        result = subprocess.run(line, cwd=unit.directory, capture_output=True, text=True, check=False)
        if result.returncode == 0:
            stamp.touch()
            return ""
        return (result.stdout + result.stderr).replace(str(ROOT) + os.sep, "") or f"{unit.source}: {command[0]} failed\n"

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(precompile, precompiled.items()))
        for found in pool.map(run, due):
            failed += found != ""
            print(found, end="", flush=True)
    print(f"{check}: {len(units)} sources, {len(due)} checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
