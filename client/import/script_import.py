# SPDX-License-Identifier: Apache-2.0
"""Reads a script of another tuner, found out by what it calls, and prints one JSON object: the folder's
files, what is left to write before it sweeps, and what its author should know."""
import json
import os
import sys

import kernel_tuner
import kernel_tuner_run
import triton_script
from script_reader import Unreadable
from spec_text import marked


def line_of(error):
    """Of the script: what the innermost function that has a node was reading."""
    line, place = 0, error.__traceback__
    while place is not None:
        line = getattr(place.tb_frame.f_locals.get("node"), "lineno", line)
        place = place.tb_next
    return line


def ran(path, text, wanted, arguments):
    """What the script is seen to do when it runs."""
    if triton_script.is_triton(text):
        return triton_script.run(path, text, wanted, arguments)
    return kernel_tuner_run.run(path, wanted, arguments)


def main():
    sys.setrecursionlimit(20_000)
    path, wanted, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3:4]
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(1 << 20)
        if mode == ["--run"]:
            answer = ran(os.path.abspath(path), text, wanted, sys.argv[4:])
        elif triton_script.is_triton(text):
            answer = triton_script.run(path, text, wanted)
        else:
            answer = kernel_tuner.run(path, wanted)
        print(json.dumps(marked(answer)))
    except (Unreadable, OSError, UnicodeError, RecursionError) as error:
        print(json.dumps({"error": str(error) or "nested too deeply to follow"}))
    except Exception as error:  # what nobody has thought of
        print(json.dumps({"error": f"{path}:{line_of(error)}: this cannot be read, write it more plainly: "
                                   f"{type(error).__name__}: {error}"}))
