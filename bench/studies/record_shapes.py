#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records grids of shapes: whole sweeps of a kernel at many shapes, for bench/studies/shape_study and its test.

    bench/studies/record_shapes.py --bin build/release/bin --folder bench/data/shapes [GRID ...]

Each shape is an exhaustive sweep without a warm start, written as a recording as soon as it is there. Nothing else may use
the device meanwhile: noise of a recording is loss in the study.
"""
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import ROOT, Service, parser_for  # noqa: E402


def product_of(**sizes):
    return [dict(zip(sizes, values)) for values in itertools.product(*sizes.values())]


GRIDS = {
    "softmax": ("softmax", product_of(rows=[2048, 8192, 32768], cols=[1024, 2048, 4096, 8192, 16384])),
    "rope": ("rope", product_of(seq=[1024, 2048, 4096, 8192], batch=[1, 4], heads=[16, 32], kv_heads=[8],
                                head_dim=[128])),
    "attention": ("attention", [{**one, "kv_heads": one["heads"], "head_dim": 128, "causal": 0}
                                for one in product_of(seq=[1024, 2048, 4096, 8192], batch=[1, 4], heads=[8, 16])
                                if one["seq"] * one["batch"] <= 16384]),
    "matmul": (ROOT / "docs/examples/triton_matmul/matmul.textproto",
               product_of(m=[1024, 2048, 4096], n=[1024, 4096], k=[1024, 4096])),
}


def main():
    parser = parser_for(__doc__, GRIDS, out=False)
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="folder of the recordings")
    parser.add_argument("--tag", default="h200", help="ends the names (default %(default)s)")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with Service(arguments.bin, arguments.device) as service:
        for grid in arguments.parts or GRIDS:
            kernel, shapes = GRIDS[grid]
            for dims in shapes:
                name = "-".join([grid, "x".join(map(str, dims.values())), arguments.tag])
                try:
                    sweep = service.sweep(kernel, dims, "--strategy", "exhaustive", "--no-warm-start")
                    service.text("recording", "from-sweep", sweep["id"], arguments.folder / name)
                    print(f"{name}: {sweep['progress'].get('outcomes', {})} in {sweep['wall_seconds']:.1f} s", flush=True)
                except (RuntimeError, LookupError) as error:  # the other shapes still count
                    print(f"{name}: {error}", flush=True)


if __name__ == "__main__":
    main()
