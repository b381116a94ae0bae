# SPDX-License-Identifier: Apache-2.0
"""Daemons that share a PostgreSQL of their own, for tests and studies. Needs TUNE_BIN."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from postgres import Postgres, find_programs  # noqa: E402, F401

SAXPY = str(ROOT / "docs/examples/saxpy/saxpy.textproto")
START_SECONDS = 90


class Host:
    """A daemon with a state folder and a socket of its own."""

    def __init__(self, fleet, name):
        self.fleet = fleet
        self.name = name
        self.state = fleet.path / name
        self.state.mkdir()
        self.address = f"unix:{self.state}/d.sock"
        self.env = {**os.environ, "TUNE_STATE_DIR": str(self.state), "XDG_RUNTIME_DIR": str(self.state),
                    "TUNE_ADDRESS": self.address, "NO_COLOR": "1"}
        self.process = None

    def start(self, wait=True):
        with open(self.state / "log", "ab") as log:
            self.process = subprocess.Popen(
                [str(self.fleet.bin / "tunerd"), "--listen", self.address, "--store", self.fleet.server.url,
                 "--host-name", self.name, "--compile-workers", "1", "--job-deaths", "1000"],
                env=self.env, stdout=subprocess.DEVNULL, stderr=log)
        if wait:
            self.fleet.await_true(lambda: self.tunectl("server", "status").returncode == 0,
                                  f"{self.name} does not answer", self)
        return self

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def tunectl(self, *arguments):
        return subprocess.run([str(self.fleet.bin / "tunectl"), *map(str, arguments)], env=self.env,
                              capture_output=True, text=True, timeout=240, check=False)

    def json_of(self, *arguments):
        done = self.tunectl(*arguments, "--json")
        if done.returncode != 0:
            raise AssertionError(f"{arguments} at {self.name}: {done.stderr}\n{self.log()}")
        return json.loads(done.stdout)

    def sweep(self, size, trials=3, *more):
        """Submits a sweep without following it."""
        done = self.tunectl("sweep", SAXPY, "--device", "cpu", "--n", size, "--budget", trials, "--detach",
                            *more)
        if done.returncode != 0:
            raise AssertionError(f"a sweep at {self.name}: {done.stderr}\n{self.log()}")

    def log(self):
        return "\n".join((self.state / "log").read_text().splitlines()[-40:])


class Fleet:
    """Started by `with`. Hosts are started by their names: fleet.start("a")."""

    def __init__(self, programs, durable=False):
        self.bin = pathlib.Path(programs)
        self.server = Postgres(durable)
        self.folder = tempfile.TemporaryDirectory(prefix="tune-fleet-")
        self.path = pathlib.Path(self.folder.name)
        self.hosts = {}

    def __enter__(self):
        self.server.__enter__()
        return self

    def start(self, *names):
        for name in names:
            self.hosts[name] = Host(self, name).start(wait=False)
        for name in names:
            host = self.hosts[name]
            self.await_true(lambda host=host: host.tunectl("server", "status").returncode == 0,
                            f"{name} does not answer", host)
        return [self.hosts[name] for name in names]

    def await_true(self, condition, message, host=None, seconds=START_SECONDS):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(0.1)
        logs = [one.log() for one in ([host] if host else self.hosts.values())]
        raise AssertionError(message + "\n" + "\n--\n".join(logs))

    def __exit__(self, *_):
        for host in self.hosts.values():
            if host.process.poll() is None:
                host.kill()
        self.server.__exit__()
        self.folder.cleanup()
