# SPDX-License-Identifier: Apache-2.0
"""Reads a script of another tuner, found out by what it calls, and prints one JSON object: the folder's
files, what is left to write before it sweeps, and what its author should know."""
import json
import sys

import kernel_tuner
import triton_script
from script_reader import Unreadable


def main():
    sys.setrecursionlimit(20_000)
    path, wanted = sys.argv[1], int(sys.argv[2])
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(1 << 20)
        if triton_script.is_triton(text):
            answer = triton_script.run(path, text, wanted)
        else:
            answer = kernel_tuner.run(path, wanted)
        print(json.dumps(answer))
    except (Unreadable, OSError, UnicodeError, RecursionError) as error:
        print(json.dumps({"error": str(error) or "nested too deeply to follow"}))
