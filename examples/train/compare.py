# SPDX-License-Identifier: Apache-2.0
"""Are two loss curves the same, but for noise?

    compare.py OURS.json THEIRS.json NUDGED.json...

Training is chaotic: a rounding of a weight grows. How far apart noise alone takes two runs is told by
runs of theirs that were nudged at the start (train.py --nudge). Ours may be as far from theirs as the
farthest of those, three times over, since three nudges do not show all. Exit code 1: it is farther.
"""
import json
import statistics
import sys

FACTOR = 3.0
FLOOR = 1e-5  # of the loss: what f32 cannot tell apart


def distance(one, other):
    """The mean difference of two curves, as a part of their loss."""
    return statistics.fmean(abs(a - b) / abs(b) for a, b in zip(one["losses"], other["losses"], strict=True))


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        print(f"{path} is not what train.py --out writes: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def are_the_same(apart, noise):
    return apart <= max(FACTOR * noise, FLOOR)


def main(paths):
    if len(paths) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    ours, theirs, *nudged = map(read, paths)
    noise = max(distance(one, theirs) for one in nudged)
    apart = distance(ours, theirs)
    print(f"{ours['ops']}: {ours['losses'][0]:.4f} to {ours['losses'][-1]:.4f}, {ours['step_ms_median']:.2f} ms a step")
    print(f"{theirs['ops']}: {theirs['losses'][0]:.4f} to {theirs['losses'][-1]:.4f}, "
          f"{theirs['step_ms_median']:.2f} ms a step; ours takes "
          f"{ours['step_ms_median'] / theirs['step_ms_median']:.3f} of that")
    print(f"apart by {apart:.2e} of the loss; noise alone: {noise:.2e}")
    for kernel, notes in ours["fallbacks"].items():
        print(f"{kernel} ran its fallback: {'; '.join(notes)}")
    same = are_the_same(apart, noise)
    print("the same curve" if same else "NOT the same curve")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
