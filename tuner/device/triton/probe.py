# SPDX-License-Identifier: Apache-2.0
"""What a Python has of Triton, as one line of JSON, without importing it. Run outside the walls: it runs
nothing that was sent."""
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys


def ptxas_of(folder):
    """Path and release of each ptxas of the wheel."""
    found = []
    for name in ("ptxas", "ptxas-blackwell"):
        path = os.path.join(folder, "backends", "nvidia", "bin", name)
        if os.access(path, os.X_OK):
            text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10).stdout
            found.append({"path": path, "release": text.rsplit("release ", 1)[-1].split(",", 1)[0]})
    return found


def main():
    about = {"python": sys.version.split()[0], "executable": os.path.realpath(sys.executable)}
    about["program"] = sys.executable
    found = importlib.util.find_spec("triton")
    if found is not None and found.submodule_search_locations:
        folder = list(found.submodule_search_locations)[0]
        about["folder"] = os.path.realpath(folder)
        about["version"] = importlib.metadata.version("triton")
        about["ptxas"] = ptxas_of(about["folder"])
    paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix] + sys.path[1:]
    about["paths"] = sorted({os.path.realpath(path) for path in paths if path and os.path.exists(path)})
    print(json.dumps(about))


main()
