# SPDX-License-Identifier: Apache-2.0
"""Runs a user's script as the user does, with modules in the place of kernel_tuner and triton that take down what is
tuned and start nothing. The script runs with its user's rights; what it prints goes to the error output."""
import ast
import importlib.util
import os
import runpy
import sys
import traceback
import types


class Ended(BaseException):
    """What was wanted has been taken down."""


class Outcome:
    """`error`: how the script ended, "" if well."""

    def __init__(self):
        self.error = ""


def is_there(module):
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def package_of(path):
    """(folder above the package that a script lies in, the package's name); (its own folder, "") of a script in none."""
    folder, names = os.path.dirname(os.path.abspath(path)), []
    while os.path.isfile(os.path.join(folder, "__init__.py")) and os.path.dirname(folder) != folder:
        names.insert(0, os.path.basename(folder))
        folder = os.path.dirname(folder)
    return folder, ".".join(names)


def run_text(path, package, change):
    """Runs a script as `python -m` does, so that `from . import ...` finds its package. `change`: of its syntax tree."""
    with open(path, encoding="utf-8") as file:
        tree = change(ast.parse(file.read(), path))
    script = types.ModuleType("__main__")
    script.__file__, script.__package__ = path, package
    sys.modules["__main__"] = script
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), script.__dict__)


def run(path, arguments, stand_ins, change=None):
    """Runs the script with these modules in the place of others: {name: module}. `change`: what is made of its syntax tree
    before."""
    outcome = Outcome()
    sys.argv = [path, *arguments]
    top, package = package_of(path)
    sys.path[:] = [os.path.dirname(os.path.abspath(path)), *(p for p in sys.path if p)]
    if package:  # not its own folder, whose modules may have the names of Python's
        sys.path[0] = top
    sys.modules.update(stand_ins)
    os.environ.setdefault("MPLBACKEND", "Agg")
    printed = os.dup(1)
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        if change is None and not package:
            runpy.run_path(path, run_name="__main__")
        else:
            run_text(path, package, change or (lambda tree: tree))
    except Ended:
        pass
    except SystemExit as ended:
        outcome.error = f"it ended with {ended.code!r}" if ended.code not in (None, 0) else ""
    except BaseException as error:  # a script may raise anything
        place = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in place if frame.filename == path]
        outcome.error = f"line {lines[-1] if lines else 0}: {type(error).__name__}: {error}"
    finally:
        sys.stdout.flush()
        os.dup2(printed, 1)
        os.close(printed)
    return outcome
