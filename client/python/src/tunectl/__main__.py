# SPDX-License-Identifier: Apache-2.0
"""python -m tunectl: the program tunectl."""
from ._programs import run

run("tunectl")
