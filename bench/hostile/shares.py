#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long an innocent sweep takes beside a submitter that takes all it can get.

    bench/hostile/shares.py --bin DIR/bin [--seconds 20] [--turn-seconds 5] [--out FILE.json]

A daemon of its own, with TLS on the loopback interface, has two submitters. The greedy one fills the queue with long
sweeps and watches every job as often as it is let. Then the innocent one runs a sweep of `--seconds`, as it did alone
before. Fair shares let it take 1.5 times as long as alone, and its first turn. Prints JSON; exit code 1: it took longer.
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RATIO_MAX = 1.5
START_SECONDS = 180
WATCHES = 12  # that the greedy one tries to open on each of a few jobs


class Shared:
    """A daemon that knows its clients by tokens. `flags` are those of tunerd."""

    def __init__(self, bin_dir, *flags):
        self.bin = pathlib.Path(bin_dir).resolve()
        self.folder = tempfile.TemporaryDirectory(prefix="tune-shares-")
        self.path = pathlib.Path(self.folder.name)
        self.watches = []
        self.daemon = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.env = {**os.environ, "TUNE_STATE_DIR": str(self.path / "state"), "XDG_RUNTIME_DIR": str(self.path),
                    "TUNE_ADDRESS": f"unix:{self.path}/d.sock", "NO_COLOR": "1"}
        self.make_certificate()
        self.make_kernel()
        try:
            self.start(flags)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for watch in self.watches:
            watch.kill()
            watch.wait()
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()
        self.folder.cleanup()

    def make_certificate(self):
        for arguments in (
                ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "ca.key",
                 "-out", "ca.pem", "-days", "3", "-subj", "/CN=ca"),
                ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "d.key",
                 "-out", "d.csr", "-subj", "/CN=localhost"),
                ("x509", "-req", "-in", "d.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "d.pem",
                 "-days", "3", "-extfile", "names")):
            (self.path / "names").write_text("subjectAltName=DNS:localhost")
            subprocess.run(["openssl", *arguments], cwd=self.path, capture_output=True, check=True)

    def make_kernel(self):
        """The innocent kernel with a space that nobody searches to its end."""
        spec = (HERE / "innocent.textproto").read_text()
        (self.path / "innocent.textproto").write_text(
            spec.replace('values: "[128]"', 'values: "range(1, 1025)"'))
        (self.path / "innocent.cu").write_text((HERE / "innocent.cu").read_text())

    def start(self, flags):
        self.daemon = subprocess.Popen(
            [self.bin / "tunerd", "--listen", self.env["TUNE_ADDRESS"], "--listen", f"127.0.0.1:{self.port}",
             "--tls-cert", self.path / "d.pem", "--tls-key", self.path / "d.key", "--tls-ca", self.path / "ca.pem",
             *flags],
            env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + START_SECONDS
        while self.tunectl(None, "server", "status").returncode != 0:
            if time.monotonic() > end or self.daemon.poll() is not None:
                raise RuntimeError("tunerd does not answer")
            time.sleep(0.1)

    def environment_of(self, who):
        """None is the operator, at the socket."""
        if who is None:
            return self.env
        return {**self.env, "TUNE_ADDRESS": f"localhost:{self.port}", "TUNE_TLS_CA": str(self.path / "ca.pem"),
                "TUNE_TOKEN_FILE": str(self.path / f"{who}.token")}

    def command(self, *arguments):
        return [str(self.bin / "tunectl"), *map(str, arguments)]

    def tunectl(self, who, *arguments, timeout=600):
        return subprocess.run(self.command(*arguments), env=self.environment_of(who), capture_output=True, text=True,
                              timeout=timeout, check=False)

    def json_of(self, who, *arguments):
        done = self.tunectl(who, *arguments, "--json")
        if done.returncode != 0:
            raise RuntimeError(f"{arguments}: {done.stderr}")
        return json.loads(done.stdout)

    def add_submitter(self, name):
        made = self.tunectl(None, "token", "create", name, "--role", "submitter", "--out", self.path / f"{name}.token")
        if made.returncode != 0:
            raise RuntimeError(made.stderr)

    def sweep(self, who, budget, *flags):
        """`budget` as tunectl has it: "20s", or a number of trials."""
        return self.tunectl(who, "sweep", self.path / "innocent.textproto", "--device", "cpu", "--budget", budget,
                            "--strategy", "random", "--fresh", *flags)

    def jobs_of(self, owner):
        """Oldest first."""
        jobs = self.json_of(None, "job", "list", "--owner", owner, "--limit", 1000)["jobs"]
        return sorted(jobs, key=lambda job: int(job["id"]))

    def fill_queue(self, who):
        """Submits sweeps of half an hour until one is refused. Returns why."""
        for _ in range(1000):
            done = self.sweep(who, "30min", "--detach")
            # On a busy host a connection may take too long: that is no refusal.
            if done.returncode != 0 and "no daemon answers" not in done.stderr:
                return done.stderr
        raise RuntimeError(f"{who} was never refused: {done.stderr}")

    def await_running(self, owner, patience=300):
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if any(job["state"] == "JOB_STATE_RUNNING" for job in self.jobs_of(owner)):
                return
            time.sleep(0.2)
        raise RuntimeError(f"no job of {owner} runs")

    def watch(self, who, job_id):
        self.watches.append(subprocess.Popen(self.command("job", "watch", job_id), env=self.environment_of(who),
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def watches_left(self):
        return sum(watch.poll() is None for watch in self.watches)


def measure(bin_dir, seconds, turn_seconds):
    with Shared(bin_dir, "--turn-seconds", str(turn_seconds), "--watchers", "32", "--watchers-per-job", "8") as shared:
        for name in ("greedy", "innocent"):
            shared.add_submitter(name)
        shared.sweep("innocent", 1)  # trial: compiles the reference, which both runs then find
        begin = time.monotonic()
        alone_end = shared.sweep("innocent", f"{seconds}s")
        alone = time.monotonic() - begin
        why_no_more = shared.fill_queue("greedy")
        shared.await_running("greedy")
        time.sleep(2 * turn_seconds)
        greedy = shared.jobs_of("greedy")
        for job in greedy[:4]:
            for _ in range(WATCHES):
                shared.watch("greedy", job["id"])
        begin = time.monotonic()
        beside_end = shared.sweep("innocent", f"{seconds}s")
        beside = time.monotonic() - begin
        started = [job for job in shared.jobs_of("greedy") if int(job.get("started_unix_ms", 0)) > 0]
        return {"alone_seconds": round(alone, 2), "beside_seconds": round(beside, 2),
                "ratio": round(beside / alone, 3), "greedy_jobs": len(greedy), "greedy_started": len(started),
                "greedy_watches": shared.watches_left(), "refusal": why_no_more.strip(),
                "both_done": alone_end.returncode == 0 and beside_end.returncode == 0,
                "beside_output": beside_end.stderr[-400:]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--bin", required=True, help="folder of tunerd and tunectl")
    parser.add_argument("--seconds", type=float, default=20, help="budget of the innocent sweep (default 20)")
    parser.add_argument("--turn-seconds", type=int, default=5, help="of tunerd (default 5)")
    parser.add_argument("--out", help="write the JSON to this file too")
    arguments = parser.parse_args()
    result = measure(arguments.bin, arguments.seconds, arguments.turn_seconds)
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.out:
        pathlib.Path(arguments.out).write_text(text + "\n")
    return 0 if result["both_done"] and result["ratio"] <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
