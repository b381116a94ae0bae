# SPDX-License-Identifier: Apache-2.0
"""Runs a user's script as the user does, with modules in the place of kernel_tuner and triton that take down what is
tuned and start nothing. The script runs with its user's rights; what it prints goes to the error output."""
import importlib.util
import os
import runpy
import sys
import traceback


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


def run(path, arguments, stand_ins):
    """Runs the script with these modules in the place of others: {name: module}."""
    outcome = Outcome()
    sys.argv = [path, *arguments]
    sys.path[:] = [os.path.dirname(os.path.abspath(path)), *(p for p in sys.path if p)]
    sys.modules.update(stand_ins)
    os.environ.setdefault("MPLBACKEND", "Agg")
    printed = os.dup(1)
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        runpy.run_path(path, run_name="__main__")
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
