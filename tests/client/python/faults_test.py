# SPDX-License-Identifier: Apache-2.0
"""Daemons that are dead, silent, slow or no daemons, files that are damaged, and forks: a job goes on."""
import contextlib
import gzip
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock

import kit
import tunectl
from tunectl import _client

DEADLINE = 0.25
# For what a busy test host adds, scheduling and starting a process; and the tries until it was idle enough.
SLACK = 0.25
TRIES = 8


def frame(kind, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, 0, 0, 0, 0, 0]) + payload


@contextlib.contextmanager
def listener(path, serve, backlog=8):
    """Calls serve(connection) for each connection; None: nobody accepts."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(backlog)
        held = []

        def loop():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                with contextlib.suppress(OSError):
                    serve(connection)

        if serve is not None:
            threading.Thread(target=loop, daemon=True).start()
        yield
        server.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()


def drip(connection):
    """Settings, then a byte now and then."""
    connection.sendall(frame(4))
    for byte in frame(6, b"12345678") * 100:
        connection.sendall(bytes([byte]))
        time.sleep(0.05)


class Faults(kit.PackageTest):
    def setUp(self):
        super().setUp()
        logging = __import__("logging")
        logging.getLogger("tunectl").setLevel(logging.CRITICAL)

    def open_in_time(self, within=DEADLINE + SLACK, **arguments):
        """What is opened, however often; once of a few times within the bound."""
        took = []
        while not took or took[-1] > within and len(took) < TRIES:
            began = time.monotonic()
            client = tunectl.open(deadline=DEADLINE, **arguments)
            took.append(time.monotonic() - began)
        self.assertLessEqual(took[-1], within)
        return client

    def test_no_daemon_of_whatever_kind_stops_a_job(self):
        path = str(self.path / "d.sock")
        dead = socket.socket(socket.AF_UNIX)
        self.addCleanup(dead.close)

        @contextlib.contextmanager
        def bound_only():
            dead.bind(path)
            yield

        kinds = {
            "missing": contextlib.nullcontext(),
            "bound, nobody listens": bound_only(),
            "nobody accepts": listener(path, None),
            "black hole": listener(path, lambda connection: None),
            "closes at once": listener(path, lambda connection: connection.close()),
            "garbage": listener(path, lambda connection: connection.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")),
            "greets, then silence": listener(path, lambda connection: connection.sendall(frame(4))),
            "greets, then garbage": listener(path, lambda connection: connection.sendall(frame(4) + b"x" * 99)),
            "greets, then goes away": listener(path, lambda connection: connection.sendall(frame(4) + frame(7, bytes(8)))),
            "drips": listener(path, drip),
        }
        for what, kind in kinds.items():
            with self.subTest(what), kind:
                at_once = what in ("missing", "bound, nobody listens", "garbage", "closes at once")
                client = self.open_in_time(within=DEADLINE if at_once else DEADLINE + SLACK)
                self.assertEqual((client.source, client.digest), ("none", ""))
                self.assertTrue(client.notes)
                answer = tunectl.best("scale", n=64, default={"THREADS": 32})
                self.assertEqual(dict(answer), {"THREADS": 32})
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def test_a_name_that_is_looked_up_for_ever_costs_the_deadline(self):
        os.environ["TUNE_ADDRESS"] = "tunerd.invalid:7777"
        with unittest.mock.patch("socket.getaddrinfo", side_effect=lambda *asked, **more: time.sleep(9)) as looked_up:
            client = self.open_in_time()
            self.assertFalse(looked_up.called, "it cannot be interrupted")
        self.assertTrue(client.notes)

    def test_an_address_in_numbers_is_tried_at_once(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"[::1]:{port}", "127.0.0.1:99999", "127.0.0.1"):
            os.environ["TUNE_ADDRESS"] = address
            self.assertRegex(" ".join(tunectl.open(deadline=20).notes), "Connection refused|is no address")

    def test_who_listens_at_a_name_is_found_out_by_a_process(self):
        from tunectl import _daemon

        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"localhost:{server.getsockname()[1]}"
            _daemon.find_listener(address, 20)
        with self.assertRaisesRegex(_daemon.NoDaemon, f"no daemon answers at {address}: .*refused"):
            _daemon.find_listener(address, 20)

    def test_a_pinned_snapshot_needs_no_daemon(self):
        digest = self.put(kit.snapshot_bytes([kit.record(1)]), newest=False)
        os.environ["TUNE_SNAPSHOT"] = digest
        with listener(str(self.path / "d.sock"), lambda connection: None):
            client = self.open_in_time(within=DEADLINE)
        self.assertEqual((client.digest, client.source), (digest, "file"))
        self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200).match, "exact")
        self.assertEqual(tunectl.digest(), digest)

    def test_a_pin_is_that_one_or_nothing(self):
        self.put(kit.snapshot_bytes([kit.record(1)]))
        client = self.open_in_time(snapshot="sha256:" + "1" * 64)
        self.assertEqual(client.digest, "", "not the newest instead")
        self.assertEqual(tunectl.best("scale").match, "default")
        client = self.open_in_time(snapshot=self.path / "no such file.json")
        self.assertEqual(client.digest, "")
        self.assertIn("No such file", client.notes[0])
        for wrong in ("sha256:12", "SHA256:abc", "foo", "newest", "12a", "-1", "latest "):
            with self.subTest(wrong), self.assertRaises(ValueError):
                tunectl.open(wrong)

    def test_what_is_missing_is_told_once_a_process(self):
        script = ("import tunectl, logging; logging.basicConfig(); "
                  "[tunectl.open(f'{name}.json') for name in ('gone', 'gone', 'other')]")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=self.path,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.stderr.count("no snapshot was found"), 2, done.stderr)

    def test_an_exported_file(self):
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "tuned.json").write_bytes(data)
        client = self.open_in_time(snapshot=self.path / "tuned.json")
        self.assertEqual(client.digest, kit.digest_of(data))
        os.environ["TUNE_SNAPSHOT"] = str(self.path / "tuned.json")
        client = self.open_in_time()
        self.assertEqual(client.digest, kit.digest_of(data))

    def test_a_damaged_file_is_a_miss(self):
        data = kit.snapshot_bytes([kit.record(1)])
        digest = self.put(data)
        file = self.path / "state/snapshots" / (digest.replace(":", "-") + ".json")
        changed = data.replace(b'"THREADS": 128', b'"THREADS": 129')
        self.assertNotEqual(changed, data)
        for what, spoil in (("changed", lambda: file.write_bytes(changed)),
                            ("cut", lambda: file.write_bytes(data[:100])),
                            ("empty", lambda: file.write_bytes(b"")),
                            ("a folder", lambda: (file.unlink(), file.mkdir())),
                            ("a pipe", lambda: (file.rmdir(), os.mkfifo(file))),
                            ("gone", file.unlink)):
            spoil()
            for snapshot in (digest, None):
                with self.subTest(what, snapshot=snapshot):
                    client = self.open_in_time(snapshot=snapshot)
                    self.assertEqual(client.digest, "")

    def test_the_nodes_cache(self):
        data = kit.snapshot_bytes([kit.record(1)])
        digest = kit.put_in_cache(data)
        folder = self.path / "cache/snapshots"
        for snapshot in (digest, None):
            client = self.open_in_time(snapshot=snapshot)
            self.assertEqual((client.digest, client.source), (digest, "cache"))
        latest = next(folder.glob("latest-*"))
        os.utime(latest, (1, 1))
        client = self.open_in_time()
        self.assertEqual((client.digest, client.source), (digest, "cache"), "old is better than nothing")
        self.assertTrue(any("no daemon answers" in note for note in client.notes), "but it asked first")
        folder.chmod(0o777)
        client = self.open_in_time(snapshot=digest)
        self.assertEqual(client.digest, "", "others may have written there")
        folder.chmod(0o700)
        next(folder.glob("sha256-*")).write_bytes(data[:-9])
        client = self.open_in_time(snapshot=digest)
        self.assertEqual(client.digest, "")

    def test_a_cache_that_cannot_be_written_is_none(self):
        (self.path / "cache").write_text("a file where the folder should be")
        (self.path / "data").write_bytes(kit.snapshot_bytes([kit.record(1)]))
        os.environ |= {"TUNE_ADDRESS": self.a_port(), "TUNE_FETCH": self.a_program(f"cat {self.path}/data")}
        self.assertEqual(tunectl.open(deadline=20).source, "daemon")

    def test_ranks_name_a_snapshot(self):
        digest = self.put(kit.snapshot_bytes([kit.record(1)]))
        os.environ["WORLD_SIZE"] = "8"
        with self.assertRaisesRegex(tunectl.UnpinnedError, "TUNE_SNAPSHOT"):
            tunectl.best("scale")
        self.assertEqual(tunectl.open("latest").digest, digest, "asked for by name")
        os.environ["TUNE_SNAPSHOT"] = digest
        self.assertEqual(tunectl.open().digest, digest)
        os.environ["WORLD_SIZE"] = "1"
        del os.environ["TUNE_SNAPSHOT"]
        self.assertEqual(tunectl.open().digest, digest)

    def test_a_pin_holds_inside_and_not_outside(self):
        old = self.put(kit.snapshot_bytes([kit.record(1)]))
        new = self.put(kit.snapshot_bytes([kit.record(2, config={"THREADS": 64, "PATH": "mma"})], number=8))
        tunectl.open()
        with tunectl.pin(old) as client:
            self.assertEqual((client.digest, tunectl.digest()), (old, old))
            self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200)["THREADS"], 128)
        self.assertEqual(tunectl.digest(), new)
        self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200)["THREADS"], 64)

    def test_what_is_open_stays_as_it_is(self):
        old = self.put(kit.snapshot_bytes([kit.record(1)]))
        tunectl.open()
        self.put(kit.snapshot_bytes([kit.record(2, config={"THREADS": 64, "PATH": "mma"})], number=8))
        self.assertEqual((tunectl.digest(), tunectl.best("scale", n=4096, device=kit.H200)["THREADS"]), (old, 128))

    def in_child(self, check):
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                os._exit(0 if check() else 1)
            os._exit(2)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)

    def test_a_forked_child_goes_on_with_what_is_open(self):
        digest = self.put(kit.snapshot_bytes([kit.record(1)]))
        tunectl.open()
        for file in (self.path / "state/snapshots").iterdir():
            file.unlink()
        self.in_child(lambda: tunectl.digest() == digest and
                      tunectl.best("scale", n=4096, device=kit.H200)["THREADS"] == 128)

    def test_a_forked_child_reads_files_and_asks_nobody(self):
        asked = threading.Event()
        with listener(str(self.path / "d.sock"), lambda connection: asked.set()):
            self.in_child(lambda: tunectl.best("scale", default={"T": 1})["T"] == 1)
            self.assertFalse(asked.is_set())
            digest = self.put(kit.snapshot_bytes([kit.record(1)]))
            self.in_child(lambda: tunectl.digest() == digest)
            self.assertFalse(asked.is_set())

    def test_a_fork_while_another_thread_opens_does_not_hang(self):
        with listener(str(self.path / "d.sock"), lambda connection: None):
            thread = threading.Thread(target=tunectl.digest)
            thread.start()
            time.sleep(0.05)
            self.in_child(lambda: tunectl.best("scale", default={"T": 1})["T"] == 1)
            thread.join()

    def test_locks_that_are_held_at_a_fork_do_not_hang_the_child(self):
        self.put(kit.snapshot_bytes([kit.record(1)]))
        client = tunectl.open(record_misses=True)
        kernel = tunectl.kernel("scale", fallback=lambda x: x)
        held, over = threading.Event(), threading.Event()

        def hold():
            with kernel._lock:
                held.set()
                over.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)

        def check():
            signal.alarm(20)
            missed = tunectl.best("scale", n=577, device=kit.H200).match == "nearest"
            kernel._note("a note")
            return missed and threading.active_count() == 1 and client.misses.wait(1) and \
                tunectl.open(record_misses=True).misses is None

        try:
            self.in_child(check)
        finally:
            over.set()
            thread.join()

    def a_port(self):
        """That takes connections and says nothing."""
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        return f"127.0.0.1:{server.getsockname()[1]}"

    def a_program(self, text, name="fetch"):
        """What asks a daemon: a shell script."""
        program = self.path / name
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        return str(program)

    def test_a_program_asks_the_daemon(self):
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "data").write_bytes(data)
        os.environ |= {"TUNE_ADDRESS": self.a_port(),
                       "TUNE_FETCH": self.a_program(f'printf "%s|" "$@" > {self.path}/told\ncat {self.path}/data')}
        client = tunectl.open(deadline=20)
        self.assertEqual((client.source, client.digest), ("daemon", kit.digest_of(data)), client.notes)
        what, digest, address, left, bytes_max, _ = (self.path / "told").read_text().split("|")
        self.assertEqual((what, digest, address), ("snapshot", "", os.environ["TUNE_ADDRESS"]))
        self.assertTrue(0 < int(left) <= 20000 and int(bytes_max) == 256 << 20)

    def test_a_program_that_cannot_ask(self):
        os.environ["TUNE_ADDRESS"] = self.a_port()
        for text, seconds, why in (("echo it is on fire >&2; exit 1", 20, "it is on fire"),
                                   ("exec sleep 60", 0.2, "in time"), ("exit 2", 20, "no answer")):
            with self.subTest(text):
                os.environ["TUNE_FETCH"] = self.a_program(text)
                self.assertIn(why, " ".join(tunectl.open(deadline=seconds).notes))
        os.environ["TUNE_FETCH"] = "/nonexistent"
        self.assertIn("cannot start /nonexistent", " ".join(tunectl.open(deadline=20).notes))

    def test_many_threads_open_once(self):
        self.put(kit.snapshot_bytes([kit.record(1)]))
        clients = []
        from tunectl._client import current

        threads = [threading.Thread(target=lambda: clients.append(current())) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(map(id, clients))), 1)

    def test_the_records_that_ship_are_one_snapshot(self):
        folder = self.path / "records"
        folder.mkdir()
        files = [kit.daemon_bytes([kit.record(0)]), kit.daemon_bytes([kit.record(0, device="NVIDIA H100", config={"THREADS": 256, "PATH": "mma"})])]
        for name, data in zip(("a", "b"), files, strict=True):
            (folder / f"{name}.records.json.gz").write_bytes(gzip.compress(data))
        (folder / "a.sweeps.json.gz").write_bytes(b"nobody reads it here")
        with unittest.mock.patch.object(_client, "bundled_folder", lambda: str(folder)):
            client = tunectl.open()
            self.assertEqual((client.source, client.digest), ("bundled", kit.digest_of(b"".join(files))))
            self.assertEqual(client.best("scale", n=4096, device=kit.H200).match, "exact")
            self.assertEqual(dict(client.best("scale", n=4096, device="NVIDIA H100")), {"THREADS": 256, "PATH": "mma"})
            for damaged in (gzip.compress(files[0])[:-9], gzip.compress(b"{}"), b"text"):
                (folder / "b.records.json.gz").write_bytes(damaged)
                self.assertEqual(tunectl.open().source, "none")

    def test_what_ships_is_read(self):
        with unittest.mock.patch.object(_client, "bundled_folder", lambda: str(kit.ROOT / "kernels/records")):
            client = tunectl.open()
            self.assertEqual(client.source, "bundled")
            for device in (kit.H200, "NVIDIA H100 80GB HBM3"):
                self.assertEqual(client.best("attention", seq=4096, device=device).match, "exact")

    def test_what_the_package_bundles_is_the_last_resort(self):
        package = self.path / "package/tunectl"
        shutil.copytree(kit.PACKAGE / "tunectl", package)
        (package / "bundled").mkdir(exist_ok=True)
        bundled = kit.snapshot_bytes([kit.record(1)])
        (package / "bundled/snapshot.json").write_bytes(bundled)

        def opened():
            code = "import tunectl; client = tunectl.open(); print(client.source, client.digest)"
            return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60,
                                  env={**os.environ, "PYTHONPATH": str(package.parent)}).stdout.split()

        self.assertEqual(opened(), ["bundled", kit.digest_of(bundled)])
        os.environ["TUNE_SNAPSHOT"] = "sha256:" + "2" * 64
        self.assertEqual(opened(), ["none"], "it is not the one that is pinned")
        del os.environ["TUNE_SNAPSHOT"]
        digest = self.put(kit.snapshot_bytes([kit.record(2)]))
        self.assertEqual(opened(), ["file", digest])

    def test_importing_imports_little(self):
        code = ("import sys; before = set(sys.modules); import tunectl; "
                "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
                "print(' '.join(sorted(new & {'grpc', 'google', 'numpy', 'torch', 'pandas', 'json', 'ast', "
                "'subprocess', 'asyncio', 'logging', 'ctypes'})))")
        done = subprocess.run([sys.executable, "-S", "-c", code], env={**os.environ, "PYTHONPATH": str(kit.PACKAGE)},
                              capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual(done.stdout.strip(), "")

    def test_strangers_daemons_are_asked_nothing(self):
        if os.geteuid() != 0:
            self.skipTest("needs another user")
        self.path.chmod(0o777)
        asked = threading.Event()
        os.seteuid(65534)  # who listens is who called listen()
        try:
            stranger = listener(str(self.path / "d.sock"), lambda connection: connection.recv(1) and asked.set())
            stranger.__enter__()
        finally:
            os.seteuid(0)
        self.addCleanup(stranger.__exit__, None, None, None)
        client = tunectl.open(deadline=20)
        self.assertRegex(" ".join(client.notes), "user 65534")
        self.assertFalse(asked.is_set())

    @unittest.skipUnless(importlib.util.find_spec("grpc"), "grpcio is not installed")
    def test_work_is_handed_to_no_stranger(self):
        from tunectl._rpc import DaemonError

        self.path.chmod(0o770)  # others of the group could put their own socket there
        greeted = threading.Event()

        def greet(connection):
            greeted.clear()
            connection.sendall(frame(4))
            if connection.recv(1):
                greeted.set()

        calls = (lambda: tunectl.submit("softmax"), tunectl.jobs, lambda: tunectl.wait({"id": 1}, timeout=5),
                 lambda: tunectl.compare(["softmax", "softmax_triton"], {}, timeout=5))
        with listener(str(self.path / "d.sock"), greet):
            for call in calls:
                with self.assertRaisesRegex(DaemonError, "others may exchange the socket") as caught:
                    call()
                self.assertEqual(caught.exception.code, "PERMISSION_DENIED")
                self.assertFalse(greeted.is_set(), "something was sent")
        (self.path / "d.sock").unlink()
        with self.assertRaisesRegex(DaemonError, "no daemon answers at unix:") as caught:
            tunectl.jobs()
        self.assertEqual(caught.exception.code, "UNAVAILABLE")


if __name__ == "__main__":
    unittest.main()
