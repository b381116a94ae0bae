# SPDX-License-Identifier: Apache-2.0
"""Times of the Python package, each beside its bound: `python3 bench/studies/python_client.py [--records N]`.

Processor times, best of several repeats, on whatever host this is. Exits 1 if a bound is not held.
"""
import argparse
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client/python/src"), str(ROOT / "tests/client/python")]


def best_of(repeats, run):
    return min(run() for _ in range(repeats))


def timed(action):
    began = time.process_time()  # other programs of the host do not count
    action()
    return time.process_time() - began


def import_seconds():
    """Beyond a bare interpreter's start: what a job pays."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "client/python/src")}
    code = "import time; t = time.process_time(); import tunectl; print(time.process_time() - t)"
    return float(subprocess.run([sys.executable, "-c", code], env=environ, check=True, capture_output=True,
                                text=True).stdout)


def snapshot(records_count):
    """Its bytes, with records of the kernel `scale`."""
    import kit

    return kit.daemon_bytes([kit.record(i + 1, n=64 * (i + 1)) for i in range(records_count)])


def measure(records_count):
    """Name, seconds, bound of each figure."""
    import kit
    import tunectl
    from tunectl import _snapshot, _sources

    logging.getLogger("tunectl").setLevel(logging.CRITICAL)
    folder = tempfile.TemporaryDirectory(prefix="tune-")
    os.environ.update({"TUNE_STATE_DIR": f"{folder.name}/state", "TUNE_CACHE_DIR": f"{folder.name}/cache",
                       "TUNE_ADDRESS": f"unix:{folder.name}/none.sock"})
    data = snapshot(records_count)
    digest = kit.digest_of(data)
    _sources.NodeCache(f"{folder.name}/cache", "").keep(digest, data, newest=False)
    tunectl.open(digest)
    question = {"n": 4096, "mode": 0, "device": kit.H200}

    def hits():
        for _ in range(10_000):
            tunectl.best("scale", **question)

    def misses():
        client = tunectl.open(digest)
        client.best("scale", **question)
        return timed(lambda: [client.best("scale", n=n, device=kit.H200) for n in range(1001, 1101)]) / 100

    return [
        ("import tunectl", best_of(7, import_seconds), 50e-3),
        (f"parse {records_count} records", best_of(7, lambda: timed(lambda: _snapshot.Snapshot(data).records("scale"))), 10e-3),
        ("start from the node cache", best_of(7, lambda: timed(lambda: tunectl.open(digest))), 5e-3),
        ("look-up that was asked before", best_of(7, lambda: timed(hits)) / 10_000, 2e-6),
        ("look-up of a new problem", best_of(3, misses), 5e-3),
        ("start without a daemon", best_of(7, lambda: timed(tunectl.open)), 50e-3),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1000)
    rows = measure(parser.parse_args().records)
    late = [name for name, seconds, bound in rows if seconds > bound]
    for name, seconds, bound in rows:
        print(f"{name:32} {seconds * 1e6:12.1f} us   bound {bound * 1e6:10.1f} us{'   LATE' if name in late else ''}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
