# SPDX-License-Identifier: Apache-2.0
"""libtune asks a daemon, tells it what is missing and watches it as the Python package does."""
import json
import os
import random
import signal
import threading
import time
import types
import unittest

from parity_kit import ParityTest, kit, libtune, tunectl
from drawn_snapshots import SEED, by_lines, spread_snapshot


class OfADaemon(ParityTest):
    def test_a_daemon_that_hangs_costs_the_deadline(self):
        self.a_program("exec sleep 60")
        start = time.monotonic()
        client = libtune.Client(deadline=0.3)
        self.assertTrue(0.25 < time.monotonic() - start < 5)
        self.assertIn("no answer in time", " ".join(client.notes))
        start = time.monotonic()
        client = libtune.Client(deadline=-1)
        self.assertLess(time.monotonic() - start, 0.25, "no daemon is asked")

    def test_what_a_daemon_gives_is_checked_and_kept(self):
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "data").write_bytes(data)
        self.a_program(f"cat {self.path}/data")
        client = libtune.Client(deadline=20)
        self.assertEqual((client.source, client.digest), ("daemon", kit.digest_of(data)))
        os.environ["TUNE_FETCH"] = "/bin/false"
        self.assertEqual(libtune.Client(deadline=20).source, "cache", "for a minute")

    def test_a_daemon_that_says_something_else(self):
        other = "sha256:" + "1" * 64
        (self.path / "data").write_bytes(kit.snapshot_bytes([kit.record(1)]))
        for program, seconds, why in ((f"cat {self.path}/data", 20, "its bytes are"), ("exec yes", 0.3, "in time"),
                                      ("echo it is on fire >&2; exit 1", 20, "it is on fire")):
            with self.subTest(program):
                (self.path / "d.sock").unlink(missing_ok=True)
                self.a_program(program)
                client = libtune.Client(other, deadline=seconds)
                self.assertEqual(client.source, "none")
                self.assertIn(why, " ".join(client.notes))

    def misses_program(self, text='echo "sweep 7, queued"'):
        """Answers misses so; what it was told is in the files told.*, one a call."""
        self.put(kit.snapshot_bytes([kit.record(1)]))
        self.a_program(f'cat > "$(mktemp {self.path}/told.XXXXXX)"\n{text}')

    def told(self):
        return [json.loads(file.read_text())["questions"] for file in self.path.glob("told.*")]

    def miss(self, client, n, match="nearest"):
        self.assertEqual(client.best("scale", n=n, device=kit.H200).match, match)

    def test_a_miss_is_told_once_a_process(self):
        self.misses_program()
        start = time.monotonic()
        client, again = libtune.Client(record_misses=True), libtune.Client(record_misses=True)
        for n in (4096, 577, 577):
            self.miss(client, n, "exact" if n == 4096 else "nearest")
        self.miss(again, 577)
        client.best("unheard", n=1)
        self.assertLess(time.monotonic() - start, 1.5, "nobody waits for it")
        self.assertTrue(client.wait_for_misses(30))
        self.assertTrue(again.wait_for_misses(30))
        self.assertEqual(self.told(), [[{"kernel_name": "scale", "dims": {"n": 577, "mode": 0}, "dtype": "bf16",
                                         "device": kit.H200}]])
        for one in (client, again):
            self.assertEqual(one.miss_notes, ["scale n=577 mode=0: sweep 7, queued"])
        self.miss(client, 578)
        self.assertTrue(client.wait_for_misses(30))
        self.assertEqual(len(self.told()), 2)

    def test_misses_are_told_where_the_job_says_so(self):
        self.misses_program()
        for variable, wanted, tells in (("", None, False), ("1", None, True), ("1", False, False), ("0", True, True)):
            os.environ["TUNE_RECORD_MISSES"] = variable
            client = libtune.Client(record_misses=wanted)
            self.miss(client, 577)
            self.assertTrue(client.wait_for_misses(30))
            self.assertEqual(len(client.miss_notes), int(tells), (variable, wanted))
        client = libtune.Client(record_misses=True, deadline=-1)
        self.miss(client, 577)
        self.assertTrue(client.wait_for_misses(30))
        self.assertEqual(client.miss_notes, [], "no daemon is asked")
        os.environ["TUNE_RECORD_MISSES"] = "1"
        self.miss(libtune.Client(options_size=libtune.Options.record_misses.offset), 577)
        with self.assertRaisesRegex(libtune.Failed, "options have their size"):
            libtune.Client(options_size=8)

    def test_many_misses_are_told_in_batches(self):
        self.misses_program('for i in $(seq 100); do echo "already queued"; done')
        client = libtune.Client(record_misses=True)
        threads = [threading.Thread(target=lambda first=first: [self.miss(client, n) for n in range(first, first + 100)])
                   for first in (5000, 5050, 5100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(client.wait_for_misses(30))
        told = self.told()
        self.assertEqual([len(batch) for batch in told], [100, 100])
        self.assertEqual({one["dims"]["n"] for batch in told for one in batch}, {*range(5000, 5200)})
        self.assertEqual(len(client.miss_notes), 200)

    def test_whatever_goes_wrong_with_misses_is_a_note(self):
        for program, why in (("echo it is on fire >&2; exit 1", "1 misses were not told: .*it is on fire"),
                             ("echo a; echo b", "1 misses were not told: the answer has another count"),
                             ("exec yes", "1 misses were not told: .*no answer in time")):
            with self.subTest(program):
                (self.path / "d.sock").unlink(missing_ok=True)
                self.misses_program(program)
                client = libtune.Client(record_misses=True)
                self.miss(client, 577)
                self.assertTrue(client.wait_for_misses(30))
                self.assertRegex(client.miss_notes[0], why)
                client.close()
        os.environ["TUNE_FETCH"] = "/nonexistent"
        client = libtune.Client(record_misses=True)
        self.miss(client, 577)
        self.assertTrue(client.wait_for_misses(30))
        self.assertRegex(client.miss_notes[0], "cannot start /nonexistent")

    def test_closing_does_not_wait_for_a_daemon_that_hangs(self):
        self.misses_program("exec sleep 60")
        client = libtune.Client(record_misses=True)
        self.miss(client, 577)
        start = time.monotonic()
        self.assertFalse(client.wait_for_misses(0.5))
        client.close()
        self.assertLess(time.monotonic() - start, 10)
        client = libtune.Client(record_misses=True)
        self.miss(client, 578)
        start = time.monotonic()
        client.close()  # while it collects
        self.assertLess(time.monotonic() - start, 1.5)

    def test_a_forked_child_tells_nothing(self):
        self.misses_program()
        client = libtune.Client(record_misses=True)
        self.miss(client, 577)  # a thread collects
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            self.miss(client, 578)
            fine = client.wait_for_misses(10) and client.miss_notes == []
            client.close()
            os._exit(0 if fine else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(client.wait_for_misses(30))
        self.assertEqual([one["dims"]["n"] for (one,) in self.told()], [577])
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            own = libtune.Client(record_misses=True)  # of the child itself
            self.miss(own, 579)
            os._exit(0 if own.wait_for_misses(10) and len(own.miss_notes) == 1 else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    FAST, SLOW = {"THREADS": 128, "PATH": "mma"}, {"THREADS": 64, "PATH": "plain"}

    def test_a_job_is_told_of_something_better_and_takes_it_when_it_says_so(self):
        self.put(kit.daemon_bytes([kit.record(1, n=1024, config=self.SLOW)]))
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 3600)
        self.assertEqual((watch.look(), watch.take(), watch.digest), ([], None, ""), "nothing is newer")
        newest = self.put(kit.daemon_bytes([kit.record(1, n=1024, config=self.SLOW), kit.record(2, config=self.FAST)],
                                           number=8))
        self.assertEqual(watch.poll(), 0, "it looks in an hour")
        ((before, after),) = watch.look()
        self.assertEqual((before.match, after.match, after.config), ("nearest", "exact", self.FAST))
        self.assertEqual((watch.poll(), watch.digest), (1, newest))
        self.assertEqual(client.best("scale", n=4096, device=kit.H200).match, "nearest", "until it is taken")
        taken = watch.take()
        client.close()
        self.assertEqual((taken.digest, taken.number, taken.best("scale", n=4096, device=kit.H200).match),
                         (newest, 8, "exact"))
        self.assertEqual((watch.poll(), watch.digest, watch.look(), watch.take()), (0, "", [], None))
        third = {**kit.record(3, config=self.SLOW), "latency_ns": {"low": 1.0, "median": 2.0, "high": 3.0}}
        self.put(kit.daemon_bytes([third], number=9))
        ((before, after),) = watch.look()
        self.assertEqual((before.record, after.record), (2, 3), "it goes on for what was taken")

    def test_what_is_asked_after_something_newer_was_found_is_compared_too(self):
        self.put(kit.daemon_bytes([kit.record(1, n=1024, config=self.SLOW)]))
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 3600)
        self.put(kit.daemon_bytes([kit.record(1, n=1024, config=self.SLOW), kit.record(2, config=self.FAST),
                                   kit.record(3, n=8192, config=self.FAST)], number=8))
        self.assertEqual(len(watch.look()), 1)
        client.best("scale", n=8192, device=kit.H200)
        self.assertEqual(len(watch.look()), 2)

    def test_a_watch_looks_by_itself(self):
        self.put(kit.daemon_bytes([]))
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 0.1)
        client.close()
        self.put(kit.daemon_bytes([kit.record(1)], number=8))
        ends = time.monotonic() + 20
        while watch.poll() == 0 and time.monotonic() < ends:
            time.sleep(0.02)
        self.assertEqual(watch.take().best("scale", n=4096, device=kit.H200).match, "exact")
        for every in (-1, 0.01, 1e9, float("nan")):
            with self.assertRaisesRegex(libtune.Failed, "a watch looks every"):
                libtune.Watch(libtune.Client(), every)

    def test_better_is_what_python_calls_better(self):
        draw, told = random.Random(SEED), 0
        for count in (1, 5, 40, 40, 40):
            client, theirs = self.both(spread_snapshot(draw, count, by_lines))
            for _ in range(30):
                question = {"a": draw.choice((3, 64, 90, 4096)), "b": draw.choice((0, 63, 64, 100)),
                            "c": draw.choice((0, 1, 5)), "d": draw.choice((1, 7)),
                            "device": draw.choice((kit.H200, "NVIDIA H100", "cpu"))}
                client.best("spread", **question)
                tunectl.best("spread", **question)
            client.best("unheard", n=1)
            tunectl.best("unheard", n=1)
            watch = libtune.Watch(client, 3600)
            with tunectl.watch(every=3600) as their_watch:
                self.put(spread_snapshot(draw, count + 3, by_lines))
                ours, wanted = watch.look(), their_watch.look()

                def facts(pairs):
                    return sorted(str([(one.match, one.record, one.dims, one.device, one.latency_ns) for one in pair])
                                  for pair in pairs)

                self.assertEqual(facts(ours), facts([[types.SimpleNamespace(
                    match=one.match, record=one.record, dims=dict(one.dims), device=one.device,
                    latency_ns=one.latency_ns) for one in pair] for pair in wanted]))
                self.assertEqual(watch.digest, their_watch.digest)
                told += len(ours)
        self.assertGreater(told, 20)

    def test_a_watch_asks_the_daemon_and_closes_while_it_hangs(self):
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "data").write_bytes(data)
        self.a_program(f"cat {self.path}/data")
        client = libtune.Client(deadline=-1)
        self.assertEqual(client.best("scale", n=4096, device=kit.H200).match, "default")
        self.assertEqual(libtune.Watch(client, 3600).look(), [], "no daemon is asked")
        (self.path / "fetch").write_text("#!/bin/sh\nexit 1\n")
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 3600)
        os.environ["TUNE_FETCH"] = "/bin/false"  # is of the next client
        (self.path / "fetch").write_text(f"#!/bin/sh\ncat {self.path}/data\n")
        self.assertEqual([(before.match, after.match) for before, after in watch.look()], [("default", "exact")])
        taken = watch.take()
        self.assertEqual(taken.source, "daemon")
        taken.best("scale", n=4096, device=kit.H200)
        newer = {**kit.record(2, config=self.SLOW), "latency_ns": {"low": 1.0, "median": 2.0, "high": 3.0}}
        (self.path / "data").write_bytes(kit.snapshot_bytes([newer]))
        self.assertEqual(len(libtune.Watch(taken, 3600).look()), 1, "whatever the node's cache was told a moment ago")
        (self.path / "fetch").write_text("#!/bin/sh\nexec sleep 60\n")
        watch = libtune.Watch(client, 0.1)
        time.sleep(0.4)  # it asks
        start = time.monotonic()
        del watch
        self.assertLess(time.monotonic() - start, 5)

    def test_a_forked_child_watches_nothing(self):
        self.put(kit.daemon_bytes([]))
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 0.1)
        self.put(kit.daemon_bytes([kit.record(1)], number=8))
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            fine = watch.look() == [] and watch.poll() == 0 and watch.take() is None
            del watch
            client.close()
            os._exit(0 if fine else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(watch.look()), 1)


if __name__ == "__main__":
    unittest.main()
