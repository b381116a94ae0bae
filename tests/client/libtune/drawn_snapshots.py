# SPDX-License-Identifier: Apache-2.0
"""Snapshots that are drawn at random, whose records and grids a daemon might have written."""
import json
import random

import kit

SEED = 20260
SPREAD = {
    **kit.KERNEL, "name": "spread", "on_host": False, "targets": ["sm_9*"],
    "dims": [{"name": name, "match": match, "default": 64, "on": [], "min": 0, "max": 1 << 40, "values": []}
             for name, match in (("a", "nearest"), ("b", "bucketed"), ("c", "exact"), ("d", "ignored"))],
    "params": [{"name": "TILE", "choices": [{"target": "*", "values": "[16, 32, 64.0, 128]", "default": "32 if small else 64"}]},
               {"name": "FAST", "choices": [{"target": "*", "values": "[True, False]", "default": "True"}]}],
    "lets": [["small", "a < 10"], ["work", "TILE * a"], ["half", "work / 2"], ["broken", "1 // (a - a)"]],
    "constraints": ["not FAST or half < 4096", "TILE <= b or b == 0"],
    "steps": [{"when": "FAST", "grid": ["ceil_div(a + 1, 16)", "1"], "block": ["int(TILE)"], "cluster": ["2"],
               "shared_bytes": ""},
              {"when": "not FAST", "grid": ["1"], "block": ["int(TILE)", "2"], "cluster": [], "shared_bytes": "TILE * 4"}],
}


def spread_record(draw, number):
    dims = {"a": draw.choice((0, 3, 64, 4096)), "b": draw.choice((0, 60, 64, 128)), "c": draw.choice((0, 1)),
            "d": draw.choice((1, 2, 3))}
    record = kit.record(number, device=draw.choice((kit.H200, "NVIDIA H100")), dtype=draw.choice(("bf16", "f32")),
                        config={"TILE": draw.choice((16, 32, 64.0, 128, 7)), "FAST": draw.random() < 0.5})
    record["kernel"] = "spread"
    record["hard"] |= {"dims": dims, "cache_mode": draw.choice(("cold", "warm")),
                       "kernel_hash": draw.choice((kit.KERNEL["hash"], "cd" * 32))}
    return record | {"artifact": f"sha256:{number:064x}"}


def spread_grid(draw):
    """Sweeps of drawn shapes, as a daemon writes them; some speak for no question."""
    configs = [{"TILE": tile, "FAST": fast} for tile in (16, 32, 64.0, 128, 7) for fast in (True, False)]
    shapes = [{"dims": [a, b], "loss_of_unknown": draw.choice((0, 500, 10000)),
               "losses": [[config, draw.choice((0, 0, 130, 900, 10000))]
                          for config in sorted(draw.sample(range(len(configs)), draw.randint(1, len(configs))))]}
              for a in (0, 3, 64) for b in (60, 128) if draw.random() < 0.7]
    return {"kernel": "spread", "kernel_hash": draw.choice((kit.KERNEL["hash"], "cd" * 32)),
            "target": kit.record(1)["hard"]["target"], "device": draw.choice((kit.H200, "NVIDIA H100")),
            "dtype": draw.choice(("bf16", "f32", "f64x")), "fixed": {"c": draw.choice((0, 1))},
            "axes": draw.choice((["a", "b"], ["a", "b"], ["b", "a"], ["a"])), "configs": configs, "shapes": shapes,
            "residuals": {"count": 3, "mean": draw.choice((-0.01, 0.0, 0.02)), "low": -0.01, "high": 0.07,
                          "nearest_octaves": draw.choice((0.1, 1.0, 4.0))}}


def with_waves(draw, grid):
    """The same on a device of multiprocessors, where more than nothing is known of blocks."""
    count = len(grid["configs"])
    grid |= {"multiprocessors": draw.choice((0, 4, 132)), "residents": [draw.randint(0, 3) for _ in range(count)]}
    for shape in grid["shapes"]:
        shape["blocks"] = [draw.choice((0, 1, 5, 132, 133, 1 << 33)) for _ in range(count)]
    damage = draw.choice(("none",) * 15 + ("residents", "blocks", "member", "size", "below"))  # then it says nothing
    if damage == "member":
        del grid["residents"]
    elif damage == "residents":
        grid["residents"].pop()
    elif damage == "blocks":
        grid["shapes"][-1:] = [{**shape, "blocks": shape["blocks"][1:]} for shape in grid["shapes"][-1:]]
    elif damage == "size":
        grid["residents"][0] = (1 << 40) + 1
    elif damage == "below":
        grid["residents"][0] = -1
    return grid


def with_grids(records, grids, kernel=SPREAD):
    text = kit.snapshot_bytes(records, kernels=(kernel,)).decode().rstrip()
    return (text[:-1] + f', "grids": {json.dumps(grids)}' + "}\n").encode()


def by_lines(records, grids, kernel=SPREAD):
    return kit.daemon_bytes(records, grids, kernels=(kernel,))


def spread_snapshot(draw, count, laid_out):
    """At most one record of each key, as a daemon writes them."""
    records = {}
    headers = random.Random(count + 1)
    kernel = {**SPREAD, "include_digest": "1" * 64} if headers.random() < 0.4 else SPREAD
    for number in range(1, count + 1):
        record = spread_record(draw, number)
        if headers.random() < 0.6:  # others are of a kernel without include roots, or of an older daemon
            record["hard"]["include_digest"] = headers.choice(("1" * 64, "2" * 64))
        records[str(record["hard"])] = record
    grids = [spread_grid(draw) for _ in range(draw.choice((0, 3, count // 8)))]
    waves = random.Random(count)
    return laid_out([*records.values()], [with_waves(waves, one) if waves.random() < 0.6 else one for one in grids],
                    kernel)
