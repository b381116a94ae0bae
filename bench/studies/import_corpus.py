#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How much of other people's scripts `tunectl import` understands: imports the first kernel of every script below some
folders, and counts those that are ready, those with one and more things left to write, and those that are refused.

  bench/studies/import_corpus.py --tunectl build/quick/bin/tunectl FOLDER...

A "thing left" is a line that the import prints. A script is a Python file that calls tune_kernel, or has a function under
@triton.autotune or the like.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import tempfile

SCRIPT = re.compile(r"\btune_kernel\s*\(|^\s*@(\w+\.)*((\w+_)?autotune|libtuner)\b", re.M)
TIMEOUT_SECONDS = 120


def scripts(folder, most):
    found = []
    for path in sorted(pathlib.Path(folder).rglob("*.py")):
        try:
            if SCRIPT.search(path.read_text(encoding="utf-8")):
                found.append(path)
        except (OSError, UnicodeError):
            continue
    return found[:most] if most else found


def imported(tunectl, path):
    """(group, lines of what is left) of one script."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([tunectl, "import", str(path), "--folder", f"{folder}/made"], capture_output=True, text=True,
                              timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode:
        return "refused", [done.stderr.strip().split("\n")[-1]]
    left = [line.removeprefix("left to write: ") for line in done.stderr.split("\n") if line.startswith("left to write: ")]
    return {0: "ready", 1: "one left"}.get(len(left), "more left"), left


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folders", nargs="+", help="folders with scripts, such as clones of repositories")
    parser.add_argument("--tunectl", default="tunectl", help="program (default: the one in PATH)")
    parser.add_argument("--most", type=int, default=0, help="scripts of each folder, the first by name (default: all)")
    parser.add_argument("--verbose", action="store_true", help="print each script and what is left of it")
    arguments = parser.parse_args()
    total = collections.Counter()
    for folder in arguments.folders:
        groups = collections.Counter()
        for path in scripts(folder, arguments.most):
            group, left = imported(arguments.tunectl, path)
            groups[group] += 1
            if arguments.verbose:
                print(f"{group}: {path}", *left, sep="\n    ")
        total += groups
        print(f"{pathlib.Path(folder).name}: {dict(groups)}", flush=True)
    print(f"all {total.total()}: {dict(total)}")


if __name__ == "__main__":
    main()
