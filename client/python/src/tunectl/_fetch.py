# SPDX-License-Identifier: Apache-2.0
"""A program: reads what is wanted from stdin, asks the daemon, writes the file to stdout.

The job's process starts it and kills it at the deadline (_daemon.py), so all that gRPC does happens
here.
"""
from __future__ import annotations

import json
import os
import sys


def main() -> int:
    order = json.load(sys.stdin)
    sys.path[:] = order["path"]
    try:
        from tunectl import _rpc
    except ImportError as error:
        print(f"neither gRPC (pip install 'tunectl[rpc]': {error}) nor tune-fetch is installed", file=sys.stderr)
        return 1
    try:
        with _rpc.Connection(order["address"], order["seconds"]) as daemon:
            if order["what"] == "misses":
                notes = daemon.record_misses(order["questions"])
                data = "".join(note.replace("\n", " ") + "\n" for note in notes).encode()
            else:
                read = daemon.read_artifact if order["what"] == "artifact" else daemon.read_snapshot
                data = read(order["digest"], order["bytes_max"])
    except _rpc.DaemonError as error:
        print(error, file=sys.stderr)
        return 1
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # gRPC's threads have nothing left to do
