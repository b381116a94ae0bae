# SPDX-License-Identifier: Apache-2.0
"""Runs first in each Python process of `tunectl run`, which puts this folder first on PYTHONPATH.

Calls tunectl_adopt.start, takes the folder off the path and runs the user's own sitecustomize, if there is one, which
then is the module of this name. An error in that is the user's: Python prints it as always.
"""
import os
import sys


def _start(root: str) -> None:
    sys.path.insert(0, root)
    try:
        import tunectl_adopt

        tunectl_adopt.start()
    except Exception:  # an old Python, or one without a standard library
        pass
    finally:
        sys.path.remove(root)


def _run_the_next() -> None:
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401  # another file: ours is off the path
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


_folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _folder]
_start(os.path.dirname(os.path.dirname(_folder)))
_run_the_next()
