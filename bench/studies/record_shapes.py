#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records grids of shapes: whole sweeps of a kernel at many shapes, for bench/studies/shape_study and its test.

    bench/studies/record_shapes.py --bin build/release/bin --device cuda:0 --out bench/data/shapes [GRID ...]

Grids: softmax rope attention matmul (Triton; default: all). Each shape is an exhaustive sweep without a warm start,
written as a recording as soon as it is there. A daemon of our own keeps what was compiled for the next shape. Nothing
else may use the device meanwhile: what a recording has of noise, the study counts as loss.
"""
import argparse
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MATMUL = str(ROOT / "docs/examples/triton_matmul/matmul.textproto")


def product_of(**sizes):
    return [dict(zip(sizes, values)) for values in itertools.product(*sizes.values())]


GRIDS = {
    "softmax": ("softmax", product_of(rows=[2048, 8192, 32768], cols=[1024, 2048, 4096, 8192, 16384])),
    "rope": ("rope", product_of(seq=[1024, 2048, 4096, 8192], batch=[1, 4], heads=[16, 32], kv_heads=[8],
                                head_dim=[128])),
    "attention": ("attention", [{**one, "kv_heads": one["heads"], "head_dim": 128, "causal": 0}
                                for one in product_of(seq=[1024, 2048, 4096, 8192], batch=[1, 4], heads=[8, 16])
                                if one["seq"] * one["batch"] <= 16384]),
    "matmul": (MATMUL, product_of(m=[1024, 2048, 4096], n=[1024, 4096], k=[1024, 4096])),
}


class Service:
    """A daemon with a state of its own."""

    def __init__(self, folder, state):
        self.bin = folder
        self.env = {**os.environ, "TUNE_STATE_DIR": state, "XDG_RUNTIME_DIR": state, "NO_COLOR": "1"}
        address = f"unix:{state}/tunerd.sock"
        self.daemon = subprocess.Popen([str(folder / "tunerd"), "--listen", address, "--triton-python", sys.executable],
                                       env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.env["TUNE_ADDRESS"] = address
        for _ in range(200):
            if self("server", "status").returncode == 0:
                return
            time.sleep(0.1)
        raise RuntimeError("tunerd does not answer")

    def __call__(self, *arguments):
        return subprocess.run([str(self.bin / "tunectl"), *map(str, arguments)], env=self.env, capture_output=True,
                              text=True, timeout=900, check=False)

    def close(self):
        self.daemon.terminate()
        self.daemon.wait()


def record(service, kernel, dims, arguments, name):
    """One line on what was recorded. RuntimeError: the sweep has nothing."""
    started = time.perf_counter()
    flags = [part for dim, size in dims.items() for part in (f"--{dim}", size)]
    done = service("sweep", kernel, *flags, "--device", arguments.device, "--strategy", "exhaustive", "--no-warm-start",
                   "--json")
    if not done.stdout.startswith("{"):
        raise RuntimeError(done.stderr.strip()[-600:])
    sweep = json.loads(done.stdout)
    written = service("recording", "from-sweep", sweep["id"], str(pathlib.Path(arguments.out) / name))
    if written.returncode != 0:
        raise RuntimeError(written.stderr.strip()[-600:])
    outcomes = sweep["progress"].get("outcomes", {})
    return f"{name}: {outcomes} in {time.perf_counter() - started:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", required=True, help="folder of the recordings")
    parser.add_argument("--tag", default="h200", help="ends the names")
    parser.add_argument("grids", nargs="*", metavar="GRID")
    arguments = parser.parse_args()
    for grid in arguments.grids:
        if grid not in GRIDS:
            parser.error(f"'{grid}' is none of {', '.join(GRIDS)}")
    pathlib.Path(arguments.out).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tune-shapes-") as state:
        service = Service(pathlib.Path(arguments.bin).resolve(), state)
        try:
            for grid in arguments.grids or GRIDS:
                kernel, shapes = GRIDS[grid]
                for dims in shapes:
                    name = "-".join([grid, "x".join(str(size) for size in dims.values()), arguments.tag])
                    try:
                        print(record(service, kernel, dims, arguments, name), flush=True)
                    except RuntimeError as error:  # the other shapes still count
                        print(f"{name}: {error}", flush=True)
        finally:
            service.close()


if __name__ == "__main__":
    main()
