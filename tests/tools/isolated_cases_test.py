# SPDX-License-Identifier: Apache-2.0
"""A study goes on when what it measures hangs, dies or breaks its process."""
import os
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/peers"))
import isolated_cases  # noqa: E402


def tried(name, act):
    """What a case that tries this by that name gives: why it was refused, or "tried"."""
    why = isolated_cases.refused(name)
    if why:
        return why
    with isolated_cases.trying(name):
        act()
    return "tried"


def fail():
    raise RuntimeError("the context is broken")


def measured(cases, seconds=60.0, measure=lambda case: (case(), True), **more):
    taken = {}
    isolated_cases.measure_all(cases, measure, lambda name, result, why: taken.update({name: (result, why)}), seconds, **more)
    return taken


class Guarded(unittest.TestCase):
    def test_all_is_taken_in_one_process(self):
        taken = measured({"a": os.getpid, "b": os.getpid})
        self.assertEqual(list(taken), ["a", "b"])
        self.assertEqual(taken["a"], taken["b"])
        self.assertNotEqual(taken["a"][0], os.getpid())

    def test_what_hangs_is_left_out_from_then_on(self):
        taken = measured({"a": lambda: tried("slow", lambda: time.sleep(3600)), "b": lambda: isolated_cases.refused("slow")},
                         seconds=0.5)
        why = "its first call was not over after 0.5 s"
        self.assertEqual(taken, {"a": (why, None), "b": (why, None)})

    def test_what_ends_the_process_is_left_out(self):
        why = "the process that measures ended with exit code {}"
        taken = measured({"a": lambda: tried("bad", lambda: os._exit(7)), "b": lambda: tried("good", lambda: None)})
        self.assertEqual(taken, {"a": (why.format(7), None), "b": ("tried", None)})
        taken = measured({"a": lambda: tried("bad", fail)})
        self.assertEqual(taken, {"a": ("RuntimeError: the context is broken", None)})

    def test_other_groups_try_it_again(self):
        cases = {"x 1": lambda: tried("bad", lambda: os._exit(7)), "x 2": lambda: tried("bad", lambda: None),
                 "y 1": lambda: tried("bad", lambda: None)}
        taken = measured(cases, group=lambda name: name.split()[0])
        self.assertIn("exit code 7", taken["x 2"][0])
        self.assertEqual(taken["y 1"], ("tried", None))

    def test_a_case_that_dies_is_told_and_not_tried_again(self):
        taken = measured({"a": lambda: os._exit(3), "b": lambda: "fine"})
        self.assertEqual(taken, {"a": (None, "the process that measures ended with exit code 3"), "b": ("fine", None)})

    def test_a_process_that_is_not_sound_is_replaced(self):
        taken = measured({"a": os.getpid, "b": os.getpid}, measure=lambda case: (case(), False))
        self.assertNotEqual(taken["a"], taken["b"])


if __name__ == "__main__":
    unittest.main()
