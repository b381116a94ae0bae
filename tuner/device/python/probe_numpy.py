# SPDX-License-Identifier: Apache-2.0
"""What a Python has of NumPy, as one line of JSON, without importing it. Run outside the walls: it runs
nothing that was sent."""
import importlib.metadata
import importlib.util
import json
import os
import sys


def main():
    about = {"python": sys.version.split()[0], "executable": os.path.realpath(sys.executable)}
    about["program"] = sys.executable
    found = importlib.util.find_spec("numpy")
    if found is not None and found.submodule_search_locations:
        about["version"] = importlib.metadata.version("numpy")
    paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix] + sys.path[1:]
    about["paths"] = sorted({os.path.realpath(path) for path in paths if path and os.path.exists(path)})
    print(json.dumps(about))


main()
