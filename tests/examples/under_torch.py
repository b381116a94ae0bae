# SPDX-License-Identifier: Apache-2.0
"""Runs a Python program under the Python that has PyTorch, or skips: under_torch.py PROGRAM [ARGUMENT...]"""
import os
import sys

python = os.environ.get("TUNE_TORCH_PYTHON")
if not python:
    print("skipped: it needs PyTorch; ./check torch installs that and runs it")
    sys.exit(77)
os.execv(python, [python, *sys.argv[1:]])
