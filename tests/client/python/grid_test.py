# SPDX-License-Identifier: Apache-2.0
"""The choice between tuned shapes, by the cases that the daemon's own test reads, and what answers say of it."""
import json
import unittest

import kit
import tunectl
from tunectl._grid import Grid
from tunectl._watch import Watch

CASES = json.loads((kit.ROOT / "tests/data/grid_cases.json").read_text())
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


class Choice(unittest.TestCase):
    def test_every_case(self):
        for case in CASES:
            known = Grid(case["grid"])
            for asked in case["questions"]:
                with self.subTest(asked):
                    config, expected = known.choose(dict(zip(case["axes"], asked["dims"])),
                                                    lambda one: one["NAME"] not in asked["refuse"])  # noqa: B023
                    self.assertEqual(config["NAME"], asked["config"])
                    self.assertAlmostEqual(expected.loss, asked["loss"], 9)
                    self.assertAlmostEqual(expected.loss_low, asked["loss_low"], 9)
                    self.assertAlmostEqual(expected.loss_high, asked["loss_high"], 9)


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
        answer = tunectl.best("scale", n=4096, device="NVIDIA H100")
        self.assertEqual(answer.match, "default", "an unknown device has no target")
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

    def test_a_newer_snapshot_that_answers_the_same_is_nothing_better(self):
        self.put(snapshot((kit.record(1, n=4096, config=SLOW),), ()))
        tunectl.open()
        tunectl.best("scale", n=4096, device=kit.H200)
        with tunectl.watch(every=3600) as watch:
            self.put(snapshot((kit.record(1, n=4096, config=SLOW), kit.record(2, n=64)), (), 8))
            self.assertEqual((watch.look(), watch.take()), ((), False))


if __name__ == "__main__":
    unittest.main()
