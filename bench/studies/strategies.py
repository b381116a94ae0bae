#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How good the strategies are on a folder of recorded spaces, by `tunectl strategy compare`.

    bench/studies/strategies.py --folder tests/data --bin build/release/bin --out study.json [PART ...]

sequential: one trial after the other. in_flight: 32 at a time. prior: each ordered pair of recordings of one kernel, the
first known while the second is searched. misleading: the same recording known with its latencies reversed. score: the
methodology score of Willemsen et al. (FGCS 2024).
"""
import csv
import gzip
import json
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness import Report, Service, parser_for  # noqa: E402


def reversed_copy(path, folder):
    """The recording with its latencies in the opposite order."""
    shutil.copy(path, folder / path.name)
    with gzip.open(path.with_suffix(".csv.gz"), "rt", newline="") as file:
        names, *rows = csv.reader(file)
    at = names.index("time_ms")
    timed = sorted((row for row in rows if row[at]), key=lambda row: float(row[at]))
    for row, value in zip(timed, [row[at] for row in reversed(timed)]):
        row[at] = value
    with gzip.open(folder / path.with_suffix(".csv.gz").name, "wt", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([names, *rows])
    return folder / path.name


class Study:
    def __init__(self, service, paths, seeds, strategies, scratch):
        self.service, self.paths, self.seeds, self.strategies, self.scratch = service, paths, seeds, strategies, scratch

    def compare(self, paths, *flags, strategies=""):
        names = self.strategies or strategies
        return self.service.json("strategy", "compare", "--replay", *paths, "--seeds", self.seeds, *flags,
                                 *(["--strategies", names] if names else []), "--json", timeout=36000)

    def with_prior(self, pairs):
        return {f"{known.stem} for {path.stem}": self.compare([path], "--prior", known, strategies="auto")
                for known, path in pairs}

    def sequential(self):
        return self.compare(self.paths)

    def in_flight(self):
        return self.compare(self.paths, "--in-flight", "32")

    def prior(self):
        kernels = {path: json.loads(path.read_text()).get("kernel", path.stem.split("-")[0]) for path in self.paths}
        return self.with_prior((known, path) for known in self.paths for path in self.paths
                               if known != path and kernels[known] == kernels[path])

    def misleading(self):
        return self.with_prior((reversed_copy(path, self.scratch), path) for path in self.paths)

    def score(self):
        return self.compare(self.paths, "--score")


PARTS = ("sequential", "in_flight", "prior", "misleading", "score")


def main():
    parser = parser_for(__doc__, PARTS, device="cpu")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="folder with NAME.json and NAME.csv.gz")
    parser.add_argument("--only", default="", metavar="TEXT", help="recordings with this in their name")
    parser.add_argument("--strategies", default="", help="names with commas between; default: all")
    parser.add_argument("--seeds", type=int, default=50, help="runs of each (default %(default)s)")
    arguments = parser.parse_args()
    paths = sorted(path for path in arguments.folder.glob("*.json")
                   if path.with_suffix(".csv.gz").exists() and arguments.only in path.stem)
    report = Report(arguments.out)
    with Service(arguments.bin, daemon=False) as service, tempfile.TemporaryDirectory() as scratch:
        study = Study(service, paths, arguments.seeds, arguments.strategies, pathlib.Path(scratch))
        for part in arguments.parts or PARTS:
            report.measure(part, getattr(study, part))


if __name__ == "__main__":
    main()
