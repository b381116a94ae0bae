# SPDX-License-Identifier: Apache-2.0
"""What answers say of the choice between tuned shapes, and a watch for something better."""
import json
import os
import unittest
import unittest.mock

import kit
import tunectl
from tunectl import _client
from tunectl._watch import Watch

FAST, SLOW = {"THREADS": 64, "PATH": "mma"}, {"THREADS": 128, "PATH": "mma"}


def grid(device=kit.H200, **shapes):
    """Of shapes n1024=[[config, loss], ...]."""
    return {"kernel": "scale", "kernel_hash": kit.KERNEL["hash"], "target": "sm_90a", "device": device,
            "dtype": "bf16", "fixed": {"mode": 0}, "axes": ["n"], "configs": [FAST, SLOW],
            "shapes": [{"dims": [int(n[1:])], "loss_of_unknown": 0, "losses": losses}
                       for n, losses in shapes.items()],
            "residuals": {"count": 2, "mean": 0.01, "low": -0.01, "high": 0.05, "nearest_octaves": 2.0}}


def snapshot(records, grids, number=7):
    text = kit.snapshot_bytes(records, number).decode().rstrip()
    return (text[:-1] + ', "grids": ' + json.dumps(grids) + "}\n").encode()


class Answers(kit.PackageTest):
    RECORDS = (kit.record(1, n=1024, config=SLOW), kit.record(2, n=16384, config=SLOW))

    def open(self, *grids, records=RECORDS):
        self.put(snapshot(records, grids))
        return tunectl.open()

    def test_a_problem_between_shapes_gets_what_is_good_at_both(self):
        self.open(grid(n1024=[[1, 0], [0, 40]], n16384=[[0, 0], [1, 900]]))
        answer = tunectl.best("scale", n=4096, device=kit.H200)
        self.assertEqual((answer.match, dict(answer)), ("nearest", FAST))
        self.assertTrue(answer.reason.endswith("; its config is chosen from the sweeps of 2 shapes"), answer.reason)
        self.assertEqual(answer.expectation.basis, "neighbours")
        self.assertAlmostEqual(answer.expectation.loss, 0.002 + 0.01)
        self.assertAlmostEqual(answer.expectation.loss_high, 0.002 + 0.05)
        self.assertEqual([dict(one.dims) for one in answer.expectation.neighbours], [{"n": 1024}, {"n": 16384}])
        self.assertEqual(answer.artifact, "", "the record's is of another config")
        self.assertIn("weight 50%, loses 0.4% there", str(tunectl.explain("scale", n=4096, device=kit.H200)))

    def test_a_tuned_problem_is_its_records(self):
        self.open(grid(n1024=[[0, 0], [1, 900]]))
        answer = tunectl.best("scale", n=1024, device=kit.H200)
        self.assertEqual((answer.match, dict(answer)), ("exact", SLOW))
        self.assertEqual((answer.expectation.basis, answer.expectation.loss), ("measured", 0))

    def test_a_sibling_answers_where_the_device_has_nothing(self):
        self.open(grid(n1024=[[1, 0], [0, 40]], n16384=[[0, 0], [1, 900]]))
        self.assertEqual(tunectl.best("scale", n=4096, device="NVIDIA B300").match, "default", "of another target")
        answer = tunectl.best("scale", n=4096, device="NVIDIA H100")
        self.assertEqual((answer.match, dict(answer)), ("other_device", FAST), "by its name it is of the H200's")
        self.open(grid(n1024=[[1, 0], [0, 40]], n16384=[[0, 0], [1, 900]]),
                  records=(*self.RECORDS, kit.record(3, device="NVIDIA H100", dtype="f32")))
        answer = tunectl.best("scale", n=4096, device="NVIDIA H100")
        self.assertEqual((answer.match, dict(answer)), ("other_device", FAST), answer.reason)
        self.assertEqual(answer.expectation.basis, "sibling")
        self.assertAlmostEqual(answer.expectation.loss_high, 2 * (0.002 + 0.05))

    def test_another_mode_has_nothing_to_do_with_it(self):
        self.open(grid(n1024=[[1, 0]], n16384=[[0, 0]]))
        answer = tunectl.best("scale", n=4096, mode=1, device=kit.H200)
        self.assertEqual((answer.match, answer.expectation.basis), ("default", "nothing"))

    def test_a_config_that_is_not_valid_there_is_not_chosen(self):
        self.open(grid(n1024=[[1, 0], [0, 40]], n16384=[[1, 0], [0, 10]]))
        self.assertEqual(dict(tunectl.best("scale", n=100, device=kit.H200)), FAST, "128 threads are more than n")

    def test_grids_that_are_none_and_none_at_all(self):
        self.open({"kernel": "scale"}, 17, grid(n1024=[[9, 0]]))
        self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200).expectation.basis, "nothing")
        self.put(kit.snapshot_bytes(self.RECORDS))
        tunectl.open()
        self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200).match, "nearest")


class Watching(kit.PackageTest):
    def test_a_watch_that_could_not_look_or_tell(self):
        self.put(snapshot((kit.record(1),), ()))
        for every in (0, -1, float("nan"), float("inf"), True, "1"):
            with self.subTest(every), self.assertRaisesRegex(ValueError, "the seconds between two looks, more than 0"):
                tunectl.watch(every=every)
        with self.assertRaisesRegex(TypeError, "tell=3 cannot be called"):
            tunectl.watch(tell=3)

    def test_a_job_is_told_of_something_better_and_takes_it_when_it_says_so(self):
        self.put(snapshot((kit.record(1, n=1024, config=SLOW),), ()))
        first = tunectl.open()
        before = tunectl.best("scale", n=4096, device=kit.H200)
        told = []
        with tunectl.watch(every=3600, tell=told.append) as watch:
            self.assertIsInstance(watch, Watch)
            self.assertEqual(watch.look(), (), "nothing is newer")
            self.assertFalse(watch.take())
            self.put(snapshot((kit.record(1, n=1024, config=SLOW), kit.record(2, n=4096, config=FAST)), (), 8))
            (better,) = watch.look()
            self.assertEqual((better.before.match, better.after.match), ("nearest", "exact"))
            self.assertEqual((watch.better, told), ((better,), [(better,)]))
            self.assertIs(tunectl.best("scale", n=4096, device=kit.H200), before, "until it is taken")
            self.assertNotEqual(watch.digest, first.digest)
            taken = watch.digest
            self.assertTrue(watch.take())
            self.assertEqual(tunectl.digest(), taken)
            self.assertEqual(dict(tunectl.best("scale", n=4096, device=kit.H200)), FAST)
            self.assertEqual((watch.better, watch.digest), ((), ""))

    def test_a_watch_follows_what_the_process_opens(self):
        self.put(snapshot((kit.record(1, n=1024, config=SLOW),), ()))
        with tunectl.watch(every=3600) as watch:
            tunectl.open()
            self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200).match, "nearest")
            self.put(snapshot((kit.record(1, n=1024, config=SLOW), kit.record(2, n=4096, config=FAST)), (), 8))
            self.assertEqual([one.after.match for one in watch.look()], ["exact"])
            self.assertTrue(watch.take())
            self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200).match, "exact")

    def test_a_newer_snapshot_that_answers_the_same_is_nothing_better(self):
        self.put(snapshot((kit.record(1, n=4096, config=SLOW),), ()))
        tunectl.open()
        tunectl.best("scale", n=4096, device=kit.H200)
        with tunectl.watch(every=3600) as watch:
            self.put(snapshot((kit.record(1, n=4096, config=SLOW), kit.record(2, n=64)), (), 8))
            self.assertEqual((watch.look(), watch.take()), ((), False))

    def test_a_job_that_began_without_a_snapshot_finds_the_first(self):
        client = tunectl.open()
        self.assertEqual((client.digest, tunectl.best("scale", n=4096, device=kit.H200).match), ("", "default"))
        with tunectl.watch(every=3600) as watch:
            digest = kit.put_in_cache(kit.snapshot_bytes([kit.record(1)]))
            self.assertEqual([one.after.match for one in watch.look()], ["exact"])
            self.assertEqual(watch.digest, digest)

    def test_what_the_package_brings_is_not_newer_than_what_a_job_has(self):
        bundled = self.path / "bundled/snapshot.json"
        bundled.parent.mkdir()
        bundled.write_bytes(kit.snapshot_bytes([kit.record(0, config=FAST)]))
        pinned = self.path / "pinned.json"
        pinned.write_bytes(kit.snapshot_bytes([kit.record(1, n=1024)]))
        os.environ["TUNE_SNAPSHOT"] = str(pinned)
        with unittest.mock.patch.object(_client, "bundled_folder", lambda: str(bundled.parent)):
            self.assertEqual(tunectl.open("latest").source, "bundled")
            tunectl.open()
            self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200).match, "nearest")
            with tunectl.watch(every=3600) as watch:
                self.assertEqual(watch.look(), ())

    def look(self, records, newer, question=None, kernels=(kit.KERNEL,), newer_kernels=(kit.KERNEL,)):
        """What of two questions is better in a newer snapshot."""
        self.put(kit.snapshot_bytes(records, kernels=kernels))
        tunectl.open()
        tunectl.best("scale", n=4096, device=kit.H200)
        if question:
            tunectl.best(**question)
        with tunectl.watch(every=3600) as watch:
            self.put(kit.snapshot_bytes(newer, number=8, kernels=newer_kernels))
            return [(one.before.kernel, one.before.match, one.after.match) for one in watch.look()]

    def test_a_newer_record_of_the_same_problem_is_better_if_it_is_faster(self):
        latency = {"low": 1.0, "high": 9e9}
        for median, better in ((1400.0, [("scale", "exact", "exact")]), (1600.0, [])):
            newer = {**kit.record(2, config=FAST), "latency_ns": {**latency, "median": median}}
            self.assertEqual(self.look([kit.record(1, config=SLOW)], [newer]), better)
        nearest = self.look([kit.record(1, n=1024, config=SLOW)], [kit.record(2, n=2048, config=FAST)])
        self.assertEqual(nearest, [("scale", "nearest", "nearest")], "nothing is known of either's loss")

    def test_a_nearest_config_that_is_expected_to_lose_more_is_not_better(self):
        for loss, better in ((900, 0), (0, 1)):
            self.put(snapshot((kit.record(1, n=1024, config=SLOW),), (grid(n1024=[[1, 0]], n16384=[[1, 0]]),)))
            tunectl.open()
            before = tunectl.best("scale", n=4096, device=kit.H200)
            with tunectl.watch(every=3600) as watch:
                newer = grid(n1024=[[0, 0], [1, 9000]], n16384=[[0, loss], [1, 0]])
                self.put(snapshot((kit.record(2, n=1024, config=FAST),), (newer,), 8))
                self.assertEqual((dict(before), len(watch.look())), (SLOW, better))

    def test_a_spec_that_has_changed_does_not_end_the_look(self):
        other = {**kit.KERNEL, "name": "other"}
        renamed = {**other, "dims": [{**kit.KERNEL["dims"][0], "name": "rows"}]}
        found = self.look([], [kit.record(2, config=FAST)], {"kernel": "other", "n": 64, "device": kit.H200},
                          (other, kit.KERNEL), (renamed, kit.KERNEL))
        self.assertEqual(found, [("scale", "default", "exact")])

    def test_a_kernel_that_was_not_there_is_asked_for_as_before(self):
        tuned = {**kit.record(2, n=64, config=FAST), "kernel": "other"}
        found = self.look([kit.record(1)], [kit.record(1), tuned], {"kernel": "other", "n": 64, "device": kit.H200},
                          newer_kernels=({**kit.KERNEL, "name": "other"}, kit.KERNEL))
        self.assertEqual(found, [("other", "default", "exact")])


if __name__ == "__main__":
    unittest.main()
