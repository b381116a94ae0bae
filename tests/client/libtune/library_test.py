# SPDX-License-Identifier: Apache-2.0
"""Where libtune finds a snapshot, what it makes of damaged files, and what it asks a daemon, through the Python package."""
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import kit
import tunectl

FAST, SLOW = {"THREADS": 128, "PATH": "mma"}, {"THREADS": 64, "PATH": "plain"}


class LibraryTest(kit.PackageTest):
    def best(self, client, match, **dims):
        answer = client.best("scale", device=kit.H200, **{"n": 4096, **dims})
        self.assertEqual(answer.match, match, answer.reason)
        return answer

    def opened(self, data, *arguments, **options):
        self.put(data)
        return tunectl.open(*arguments, **options)

    def a_program(self, text):
        """In the place of what asks the daemon, and somebody who listens."""
        program = self.path / "fetch"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        os.environ["TUNE_FETCH"] = str(program)
        (self.path / "d.sock").unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.path / "d.sock"))
        listener.listen(64)

    def in_child(self, check):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            os._exit(0 if check() else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Files(LibraryTest):
    def test_what_the_default_breaks_is_said(self):
        for step, n, why in (({}, 4096, "the kernel's default"),
                             ({}, 64, "some valid config, since the kernel's default breaks 'THREADS <= n'"),
                             ({"block": ["THREADS * 8"]}, 4096,
                              "some valid config, since the kernel's default breaks a limit of its launch"),
                             ({"block": ["THREADS * 64"]}, 4096,
                              "the kernel's default breaks a limit of its launch, and no other config was found")):
            kernel = {**kit.KERNEL, "steps": [{**kit.KERNEL["steps"][0], **step}]}
            answer = self.best(self.opened(kit.snapshot_bytes([], kernels=[kernel])), "default", n=n)
            self.assertEqual(answer.reason.rpartition("; ")[2], why)

    def test_records_without_a_number_are_told_apart(self):
        client = self.opened(kit.daemon_bytes([{**kit.record(0, n=n), "evidence": f"sha256:{n:064x}"} for n in (64, 4096)]))
        for dims, answering in (({"n": 4096}, 1), ({"mode": 1}, 0)):
            text = str(client.explain("scale", device=kit.H200, **dims))
            self.assertEqual((text.count("\nshipped record: "), text.count("\nshipped record: answers")), (2, answering), text)

    def test_a_digest_that_cannot_be_one(self):
        digest = self.put(kit.snapshot_bytes([kit.record(1)]))
        for wrong in ("sha256:123", "d19aa4", digest[:15], digest.upper().replace("SHA", "sha"), digest + "0"):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "as `tunectl snapshot list` prints them"):
                tunectl.open(wrong)

    def test_a_snapshot_by_its_number(self):
        digests = {number: self.put(kit.daemon_bytes([kit.record(number)], number=number)) for number in (7, 12)}
        for n in (3, 4):
            self.put(kit.daemon_bytes([kit.record(9), kit.record(n)], number=9), newest=False)
        for wanted, notes in (("7", ()), ("12", ()), ("13", ("snapshot 13 is not there: .* has 12, 9, 7; a digest",)),
                              ("9", ("2 snapshots in .* have the number 9; name one by its digest",))):
            client = tunectl.open(wanted)
            self.assertEqual(client.digest, digests.get(int(wanted), ""))
            for note, pattern in zip(client.notes, notes, strict=True):
                self.assertRegex(note, pattern)

    def test_what_failed_twice_is_told_once(self):
        self.assertEqual(tunectl.open().notes.count("the node's cache has nothing"), 1)

    def test_a_measurement_in_noise_does_not_say_that_it_loses_nothing(self):
        for low, high, loss in ((900.0, 7800.0, "690.0%"), (500.0, 1013.0, "51.3%"), (900.0, 88900.0, "88 times")):
            noisy = {**kit.record(1), "latency_ns": {"median": 1000.0, "low": low, "high": high}, "confidence": "noisy"}
            answer = self.best(self.opened(kit.snapshot_bytes([noisy])), "exact")
            self.assertEqual((answer.confidence, str(answer.expectation)),
                             ("noisy", f"may lose up to {loss}: measured here, but the host was too noisy to tell"))

    def test_damaged_files_are_told_and_passed_over(self):
        good = kit.snapshot_bytes([kit.record(1)])
        spoiled = {
            "empty": b"", "no JSON": good[:-30], "another version": kit.snapshot_bytes(version=2),
            "another format": kit.snapshot_bytes(format="wisdom"), "a list": b"[]", "deep": b"[" * 100_000,
            "a record that is none": kit.snapshot_bytes(["x"]),
            "a record without a key": kit.snapshot_bytes([{**kit.record(1), "hard": {}}]),
            "a number that is text": kit.snapshot_bytes([{**kit.record(1), "id": "1"}]),
            "a number that is too big": kit.snapshot_bytes([{**kit.record(1), "id": 1 << 63}]),
            "a config with a list": kit.snapshot_bytes([{**kit.record(1), "config": {"THREADS": []}}]),
            "a kernel that is none": kit.snapshot_bytes(kernels=[{"name": "x"}]),
            "a kernel twice": kit.snapshot_bytes(kernels=[kit.KERNEL, kit.KERNEL]),
        }
        for what, data in spoiled.items():
            with self.subTest(what):
                path = self.path / "spoiled.json"
                path.write_bytes(data)
                client = tunectl.open(path)
                self.assertEqual((client.source, client.digest), ("none", ""))
                self.assertIn(str(path), client.notes[0])
        os.mkfifo(self.path / "pipe")
        self.assertIn("no regular file", tunectl.open(self.path / "pipe").notes[0])

    def test_expressions_that_cannot_be_read_leave_a_default_without_a_config(self):
        client = self.opened(kit.snapshot_bytes([], kernels=[{**kit.KERNEL, "constraints": ["THREADS <="]}]))
        answer = self.best(client, "default")
        self.assertEqual(dict(answer), {})
        self.assertIn("cannot be read here", answer.reason)

    def test_a_kernel_without_steps_has_exact_records_alone(self):
        client = self.opened(kit.snapshot_bytes([kit.record(1)], kernels=[{**kit.KERNEL, "steps": []}]))
        self.assertEqual(self.best(client, "exact").launches, ())
        self.assertIn("cannot be read here: steps: missing", self.best(client, "default", n=64).reason)

    def test_lines_that_cannot_be_read_are_not_there(self):
        """Of a file whose digest is right: a daemon of another version wrote it."""
        data = kit.daemon_bytes([kit.record(1), kit.record(2, n=64)], [{"kernel": "scale", "later": 1}])
        first = b'{"id":1,"kernel":"scale",'
        for what, before, after, match in (
                ("nothing", b"", b"", "exact"), ("a record that is no JSON", first, first + b'"x":,', "default"),
                ("a record without a key", b'"device":"NVIDIA H200","dtype":"bf16","dims":{"n":4096', b'"dims":{"n":4096', "nearest"),
                ("a number that is text", b'"published_unix_ms":1700000000001', b'"published_unix_ms":"1"', "nearest"),
                ("a latency outside its interval", b'"median":1500.0,"low":1490.0', b'"median":1500.0,"low":1501.0', "nearest"),
                ("fields in another order", first, b'{"id":1,"kernel":"scale","later":[1,{}],', "exact"),
                ("letters that are not ASCII", b"570.1", rb"570\u002e1 \u00fc " + "ü".encode(), "exact"),
                ("another exponent", b'"median":1500.0', b'"median":15E+2', "exact"),
                ("a kernel that is none", b'{"name":"scale","hash":', b'{"name":"scale","hush":', "default"),
                ("a kernel that is no JSON", b'{"name":"scale","hash":', b'{"name":"scale",hash:', "default"),
                ("a grid that is no JSON", b'{"kernel":"scale","later":1}', b'{"kernel":"scale",,}', "exact")):
            with self.subTest(what):
                self.assertIn(before, data)
                client = self.opened(data.replace(before, after, 1))
                self.assertEqual((client.source, client.kernels), ("file", ["scale"]))
                self.best(client, match)

    def test_a_file_that_is_laid_out_otherwise_is_read_whole(self):
        data = kit.daemon_bytes([kit.record(1), kit.record(2, n=64)])
        for what, before, after in (("no last line", b"}\n", b"}"), ("another member", b"]}\n", b'],"x":1}\n'),
                                    ("spaces", b'"grids":[', b'"grids": ['),
                                    ("an empty list on two lines", b'"grids":[]', b'"grids":[\n]')):
            with self.subTest(what):
                place = data.rindex(before)
                self.best(self.opened(data[:place] + after + data[place + len(before):]), "exact")

    def test_the_cache_is_bounded(self):
        cache = self.path / "cache/snapshots"
        cache.mkdir(parents=True, mode=0o700)
        day, now = 86400, time.time()
        files = {f"sha256-{i:064x}.json": now - 2 * day - i for i in range(20)}
        files |= {"sha256-young.json": now - 5, "sha256-a.json.12.3": now - 2 * day, "latest-b": now - 9 * day,
                  "sha256-b.json.12.4": now}
        for name, when in files.items():
            (cache / name).write_text("x")
            os.utime(cache / name, (when, when))
        (self.path / "data").write_bytes(kit.snapshot_bytes([kit.record(1)]))
        self.a_program(f"cat {self.path}/data")
        self.assertEqual(tunectl.open(deadline=20).source, "daemon")
        gone = {*files} - {entry.name for entry in cache.iterdir()}
        self.assertEqual(gone, {f"sha256-{i:064x}.json" for i in range(14, 20)} | {"sha256-a.json.12.3"})

    def test_artifacts_only_from_where_nobody_else_can_write(self):
        data = b'{"format": "tunectl artifact"}\n' + bytes(range(256))
        digest = kit.digest_of(data)
        artifact = self.opened(kit.snapshot_bytes([kit.record(1)]))._snapshot.artifact
        folder = self.path / "state/snapshots/artifacts"
        folder.mkdir(mode=0o755)
        file = folder / (digest.replace(":", "-") + ".artifact")
        file.write_bytes(data)
        os.chmod(file, 0o644)
        self.assertEqual(artifact(digest), data)
        os.chmod(file, 0o666)
        with self.assertRaisesRegex(LookupError, "others may write"):
            artifact(digest)
        os.chmod(file, 0o644)
        file.write_bytes(data[:-1])
        with self.assertRaisesRegex(LookupError, "its bytes are sha256:"):
            artifact(digest)

    def test_threads_and_forks(self):
        client = self.opened(kit.snapshot_bytes([kit.record(1)]))
        failures = []

        def ask(first):
            failures.extend(n for n in range(first, first + 300) if client.best("scale", n=n, device=kit.H200).dims["n"] != n)

        threads = [threading.Thread(target=ask, args=(1 + 100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for n in range(20):
            self.in_child(lambda n=n: client.best("scale", n=4096 + n, device=kit.H200).match in ("exact", "nearest"))
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class OfADaemon(LibraryTest):
    def test_what_a_daemon_gives_is_checked_and_kept(self):
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "data").write_bytes(data)
        self.a_program(f"cat {self.path}/data")
        client = tunectl.open(deadline=20)
        self.assertEqual((client.source, client.digest), ("daemon", kit.digest_of(data)))
        os.environ["TUNE_FETCH"] = "/bin/false"
        self.assertEqual(tunectl.open(deadline=20).source, "cache", "for a minute")

    def test_a_daemon_that_says_something_else(self):
        (self.path / "data").write_bytes(kit.snapshot_bytes([kit.record(1)]))
        for program, seconds, why in ((f"cat {self.path}/data", 20, "its bytes are"), ("exec yes", 0.3, "in time"),
                                      ("echo it is on fire >&2; exit 1", 20, "it is on fire")):
            with self.subTest(program):
                self.a_program(program)
                client = tunectl.open("sha256:" + "1" * 64, deadline=seconds)
                self.assertEqual(client.source, "none")
                self.assertIn(why, " ".join(client.notes))

    def test_a_daemon_that_did_not_give_an_artifact_rests(self):
        self.a_program(f"echo asked >> {self.path}/asked; exit 1")
        client = self.opened(kit.snapshot_bytes([kit.record(1)]), deadline=20)

        def seek(digit):
            with self.assertRaises(LookupError):
                client._snapshot.artifact("sha256:" + digit * 64)
            return True

        self.in_child(lambda: seek("1") and not (self.path / "asked").exists())
        seek("2")
        seek("3")
        self.assertEqual((self.path / "asked").read_text(), "asked\n")

    def misses_program(self, text='echo "sweep 7, queued"'):
        """Answers misses so; what it was told is in the files told.*, one a call."""
        self.put(kit.snapshot_bytes([kit.record(1)]))
        self.a_program(f'cat > "$(mktemp {self.path}/told.XXXXXX)"\n{text}')

    def told(self):
        return [json.loads(file.read_text())["questions"] for file in self.path.glob("told.*")]

    def test_a_miss_is_told_once_a_process(self):
        self.misses_program('while [ ! -e answered ]; do sleep 0.05; done; echo "sweep 7, queued"'.replace(
            "answered", f"{self.path}/answered"))
        client, again = tunectl.open(record_misses=True), tunectl.open(record_misses=True)
        self.best(client, "exact")
        for one in (client, client, again):
            self.best(one, "nearest", n=577)
        client.best("unheard", n=1)
        (self.path / "answered").touch()  # until here nobody has waited for the answer
        self.assertTrue(client.misses.wait(30) and again.misses.wait(30))
        self.assertEqual(self.told(), [[{"kernel_name": "scale", "dims": {"n": 577, "mode": 0}, "dtype": "bf16",
                                         "device": kit.H200}]])
        for one in (client, again):
            self.assertEqual(one.misses.notes, ("scale n=577 mode=0: sweep 7, queued",))
        self.best(client, "nearest", n=578)
        self.assertTrue(client.misses.wait(30))
        self.assertEqual(len(self.told()), 2)

    def test_misses_are_told_where_the_job_says_so(self):
        self.misses_program()
        for variable, wanted, tells in (("", None, False), ("1", None, True), ("1", False, False), ("0", True, True)):
            os.environ["TUNE_RECORD_MISSES"] = variable
            self.assertEqual(tunectl.open(record_misses=wanted).misses is not None, tells, (variable, wanted))

    def test_many_misses_are_told_in_batches(self):
        self.misses_program('for i in $(seq 100); do echo "already queued"; done')
        client = tunectl.open(record_misses=True)

        def miss(first):
            for n in range(first, first + 100):
                self.best(client, "nearest", n=n)

        threads = [threading.Thread(target=miss, args=(first,)) for first in (5000, 5050, 5100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(client.misses.wait(30))
        told = self.told()
        self.assertEqual([len(batch) for batch in told], [100, 100])
        self.assertEqual({one["dims"]["n"] for batch in told for one in batch}, {*range(5000, 5200)})
        self.assertEqual(len(client.misses.notes), 200)

    def test_whatever_goes_wrong_with_misses_is_a_note(self):
        for n, (program, why) in enumerate((("echo it is on fire >&2; exit 1", "1 misses were not told: .*it is on fire"),
                                            ("echo a; echo b", "1 misses were not told: the answer has another count"),
                                            ("exec yes", "1 misses were not told: .*printed more than"))):
            with self.subTest(program):
                self.misses_program(program)
                client = tunectl.open(record_misses=True)
                self.best(client, "nearest", n=577 + n)
                self.assertTrue(client.misses.wait(30))
                self.assertRegex(client.misses.notes[-1], why)
                tunectl.use(None)  # its thread is of nobody then

    def test_closing_does_not_wait_for_a_daemon_that_hangs(self):
        self.misses_program("exec sleep infinity")
        client = tunectl._client.open_client(None, 0.25, None, True)
        self.best(client, "nearest", n=577)
        self.assertFalse(client.misses.wait(0.5))
        del client

    def test_a_forked_child_tells_nothing(self):
        self.misses_program()
        client = tunectl.open(record_misses=True)
        self.best(client, "nearest", n=577)  # a thread collects

        def check():
            self.best(client, "nearest", n=578)
            return client.misses.wait(10) and client.misses.notes == ()

        self.in_child(check)
        self.assertTrue(client.misses.wait(30))
        self.assertEqual([one["dims"]["n"] for (one,) in self.told()], [577])

    def test_what_is_asked_after_something_newer_was_found_is_compared_too(self):
        client = self.opened(kit.daemon_bytes([kit.record(1, n=1024, config=SLOW)]))
        self.best(client, "nearest")
        with tunectl.watch(every=3600) as watch:
            self.put(kit.daemon_bytes([kit.record(1, n=1024, config=SLOW), kit.record(2, config=FAST),
                                       kit.record(3, n=8192, config=FAST)], number=8))
            self.assertEqual(len(watch.look()), 1)
            self.best(client, "nearest", n=8192)
            self.assertEqual(len(watch.look()), 2)

    def test_a_watch_looks_by_itself(self):
        self.best(self.opened(kit.daemon_bytes([])), "default")
        with tunectl.watch(every=0.1) as watch:
            self.put(kit.daemon_bytes([kit.record(1)], number=8))
            ends = time.monotonic() + 20
            while not watch.better and time.monotonic() < ends:
                time.sleep(0.02)
            self.assertTrue(watch.take())
        self.best(tunectl._client.current(), "exact")

    def test_a_watch_asks_the_daemon_and_closes_while_it_hangs(self):
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "data").write_bytes(data)
        self.a_program("exit 1")
        self.best(tunectl.open(), "default")
        os.environ["TUNE_FETCH"] = "/bin/false"  # is of the next client
        (self.path / "fetch").write_text(f"#!/bin/sh\ncat {self.path}/data\n")
        with tunectl.watch(every=3600) as watch:
            self.assertEqual([(one.before.match, one.after.match) for one in watch.look()], [("default", "exact")])
            self.assertTrue(watch.take())
            self.assertEqual(tunectl._client.current().source, "daemon")
            self.best(tunectl._client.current(), "exact")
            newer = {**kit.record(2, config=SLOW), "latency_ns": {"low": 1.0, "median": 2.0, "high": 3.0}}
            (self.path / "data").write_bytes(kit.snapshot_bytes([newer]))
            self.assertEqual(len(watch.look()), 1, "whatever the node's cache was told a moment ago")
        (self.path / "fetch").write_text("#!/bin/sh\nexec sleep infinity\n")
        hanging = tunectl._client.current()._snapshot.watch(0.1)
        time.sleep(0.4)  # it asks
        del hanging

    def test_a_forked_child_watches_nothing(self):
        self.best(self.opened(kit.daemon_bytes([])), "default")
        with tunectl.watch(every=0.1) as watch:
            self.put(kit.daemon_bytes([kit.record(1)], number=8))
            self.in_child(lambda: watch.look() == () and not watch.take())
            self.assertEqual(len(watch.look()), 1)


if __name__ == "__main__":
    unittest.main()
