#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server in a folder of its own, for tests.

As a program it runs a command with the server's address in TUNE_TEST_POSTGRES, and exits with 77, which
ctest takes for skipped, if the host has no PostgreSQL:

    python3 tests/postgres.py build/release/tests/db/db_tests --gtest_filter='StoreTest.*'
"""

import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def find_programs():
    """The folder of the newest server's programs; None if there is none."""
    found = glob.glob("/usr/lib/postgresql/*/bin/postgres")
    if found:
        return os.path.dirname(max(found, key=lambda path: int(path.split("/")[4])))
    on_path = shutil.which("postgres")
    return on_path and os.path.dirname(on_path)


class Postgres:
    """Started by `with`; listens on a socket in its folder alone."""

    def __init__(self, durable=False):
        self.programs = find_programs()
        self.durable = durable
        self.folder = tempfile.mkdtemp(prefix="tune-pg-")
        self.url = f"postgresql:///postgres?host={self.folder}&user=tune"
        self.process = None
        # The server refuses to run as root.
        self.user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}

    def __enter__(self):
        if self.user:
            os.chown(self.folder, pwd.getpwnam("postgres").pw_uid, -1)
            os.chmod(self.folder, 0o755)
        subprocess.run([f"{self.programs}/initdb", "-D", f"{self.folder}/data", "-U", "tune", "-A", "trust",
                        "-N", "--locale=C.UTF-8", "-E", "UTF8"],
                       check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **self.user)
        self.start()
        return self

    def start(self):
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                [f"{self.programs}/postgres", "-D", f"{self.folder}/data", "-k", self.folder,
                 "-c", "listen_addresses=", "-c", f"fsync={'on' if self.durable else 'off'}"],
                stdout=log, stderr=log, cwd=self.folder, **self.user)
        deadline = time.monotonic() + 30
        while subprocess.run([f"{self.programs}/pg_isready", "-q", "-h", self.folder]).returncode != 0:
            if time.monotonic() > deadline or self.process.poll() is not None:
                with open(f"{self.folder}/log", encoding="utf-8") as log:
                    raise RuntimeError(f"PostgreSQL does not start: {log.read()}")
            time.sleep(0.05)

    def stop(self, how=signal.SIGINT):
        """SIGINT ends its sessions; SIGQUIT ends it at once, as a crash does."""
        self.process.send_signal(how)
        self.process.wait(30)

    def query(self, sql):
        """The rows of a query, as lists of texts."""
        ran = subprocess.run([f"{self.programs}/psql", "-XAtq", "-F", "\t", "-v", "ON_ERROR_STOP=1",
                              self.url, "-c", f"SET search_path TO tunectl; {sql}"],
                             check=True, capture_output=True, text=True)
        return [line.split("\t") for line in ran.stdout.splitlines()]

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    if find_programs() is None:
        print("skipped: PostgreSQL is not installed (Debian and Ubuntu: apt install postgresql)")
        sys.exit(77)
    with Postgres() as server:
        environment = {**os.environ, "TUNE_TEST_POSTGRES": server.url}
        code = subprocess.run(sys.argv[1:], env=environment).returncode
    sys.exit(code)


if __name__ == "__main__":
    main()
