#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three daemons and a PostgreSQL: jobs are submitted to all of them, and every few seconds a daemon is killed and
started again. Afterwards the store is asked what became of them. Exits with 1 if a job was lost or done twice, or a
config was tried twice.

    TUNE_BIN=build/release/bin python3 bench/studies/fleet.py --jobs 300 --kill-every 5
"""

import argparse
import json
import os
import pathlib
import random
import re
import statistics
import sys
import time
from datetime import datetime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/e2e"))
import fleet_kit  # noqa: E402

TAKEN_UP = re.compile(r"^(\S+ \S+) \w+ .*sweep (\d+) \(.*\) is taken up")
STARTED = re.compile(r"^(\S+ \S+) \w+ .*job \d+: sweep (\d+), .* on ")


def claim_to_start_ms(logs):
    """The times from each claim of a sweep to its start at the same host, in milliseconds."""
    times = []
    for log in logs:
        claimed = {}
        for line in log.splitlines():
            for pattern, is_claim in ((TAKEN_UP, True), (STARTED, False)):
                match = pattern.match(line)
                if not match:
                    continue
                at = datetime.fromisoformat(match[1])
                if is_claim:
                    claimed[match[2]] = at
                elif match[2] in claimed:
                    times.append((at - claimed.pop(match[2])).total_seconds() * 1000)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=300)
    parser.add_argument("--kill-every", type=float, default=5, metavar="SECONDS")
    parser.add_argument("--seconds", type=float, default=3600, help="give up after this time")
    options = parser.parse_args()
    random.seed(1)
    with fleet_kit.Fleet(os.environ["TUNE_BIN"]) as fleet:
        hosts = fleet.start("a", "b", "c")
        fleet.await_true(lambda: len(fleet.server.query("SELECT 1 FROM host WHERE devices <> '{}'")) == 3,
                         "the devices are not known")
        begin = time.monotonic()
        accepted, kills, next_kill = 0, 0, begin + options.kill_every
        while time.monotonic() - begin < options.seconds:
            if accepted < options.jobs:
                try:
                    random.choice(hosts).sweep(1024 + 64 * accepted, 3)
                    accepted += 1
                except AssertionError:
                    pass  # the host is down: the client is told so
            else:
                left = fleet.server.query("SELECT count(*) FROM job WHERE state IN (1, 2)")
                if left == [["0"]]:
                    break
                time.sleep(0.2)
            if time.monotonic() > next_kill:
                host = random.choice(hosts)
                host.kill()
                host.start(wait=False)
                kills += 1
                next_kill = time.monotonic() + options.kill_every
        seconds = time.monotonic() - begin
        rows = dict(fleet.server.query("SELECT state, count(*) FROM job GROUP BY state"))
        twice = fleet.server.query("SELECT sweep_id, config FROM trial WHERE purpose = 1 GROUP BY 1, 2 "
                                   "HAVING count(*) > 1")
        done_twice = fleet.server.query("SELECT sweep_id FROM record JOIN trial ON trial.id = trial_id GROUP BY 1 "
                                        "HAVING count(*) > 1")
        times = claim_to_start_ms([(host.state / "log").read_text() for host in hosts])
        print(json.dumps({"jobs": accepted, "done": int(rows.get("3", 0)), "by_state": rows, "kills": kills,
                          "seconds": round(seconds, 1), "configs_tried_twice": len(twice),
                          "sweeps_published_twice": len(done_twice), "claims": len(times),
                          "claim_to_start_ms_p50": round(statistics.median(times), 1) if times else None}, indent=1))
        # A submission whose answer was lost with its host is a job, too.
        good = int(rows.get("3", 0)) >= accepted and set(rows) == {"3"} and not twice and not done_twice
        sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
