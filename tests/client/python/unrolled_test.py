# SPDX-License-Identifier: Apache-2.0
"""Calls that are written out for the number of their arguments: which arrays they take, and who is called."""
import contextlib
import unittest

import kit  # noqa: F401  # puts the package on the path
from tunectl import _unrolled


class Tensor:
    def __init__(self, pointer, is_contiguous=True, shape=(2, 3)):
        self.pointer, self.contiguous = pointer, is_contiguous
        self.shape, self.dtype, self.device = shape, "f32", "cuda:1"

    def is_contiguous(self):
        return self.contiguous

    def data_ptr(self):
        return self.pointer


class Program:
    alignment, device = 16, 1

    def __init__(self):
        self.current, self.started = 1, []

    def device_now(self):
        return self.current

    @contextlib.contextmanager
    def made_current(self):
        before, self.current = self.current, 1
        yield
        self.current = before

    def launch(self, pointers, like):
        self.started.append((self.current, list(pointers), like))


class Launch(unittest.TestCase):
    def setUp(self):
        self.program, self.x, self.y = Program(), Tensor(0x100), Tensor(0x200)
        self.written = []

    def launch(self, inputs, makers, changed=()):
        return _unrolled.launch(self.program, inputs, makers, changed, self.written.append)

    def launch_into(self, inputs, outputs, changed=()):
        def refuse(at, other, *places):
            raise ValueError(f"{at} lies where {other} does")

        return _unrolled.launch_into(self.program, [24] * (inputs + outputs), outputs, changed, self.written.append, refuse)

    def test_one_new_output_is_given_by_itself_and_more_as_a_tuple(self):
        first, second = Tensor(0x300), Tensor(0x400)
        one = self.launch(2, [lambda: first])
        two = self.launch(2, [lambda: first, lambda: second])
        none = self.launch(2, [])
        self.assertIs(one(self.x, self.y), first)
        self.assertEqual(two(self.x, self.y), (first, second))
        self.assertIsNone(none(self.x, self.y))
        self.assertEqual([pointers for _, pointers, _ in self.program.started],
                         [[0x100, 0x200, 0x300], [0x100, 0x200, 0x300, 0x400], [0x100, 0x200]])
        self.assertIs(self.program.started[0][2], self.x)

    def test_given_outputs_are_given_back(self):
        out = Tensor(0x300)
        self.assertIs(self.launch_into(2, 1)(self.x, self.y, out), out)
        self.assertEqual(self.program.started[0][1], [0x100, 0x200, 0x300])

    def test_what_lies_badly_is_not_launched(self):
        def refuse():
            self.fail("an output was made for nothing")

        for bad in (Tensor(0x108), Tensor(0x300, is_contiguous=False)):
            self.assertIs(self.launch(2, [refuse])(self.x, bad), False)
            self.assertIs(self.launch(2, [refuse])(bad, self.x), False)
            self.assertIs(self.launch_into(2, 1)(self.x, self.y, bad), False)
        self.assertEqual(self.program.started, [])

    def test_others_are_asked_for_what_lies_badly(self):
        asked, bad = [], Tensor(0x300, is_contiguous=False)
        lie = _unrolled.Lie(otherwise=lambda *tensors: asked.append(tensors) or "otherwise")
        self.assertEqual(_unrolled.launch(self.program, 2, [], [], self.written.append, lie)(self.x, bad), "otherwise")
        self.assertEqual(asked, [(self.x, bad)])
        known = _unrolled.launch(self.program, 2, [], [], self.written.append, lie._replace(is_contiguous=False))
        self.assertIsNone(known(self.x, bad))
        self.assertEqual(self.program.started[0][1], [0x100, 0x300])

    def test_a_caller_may_give_and_get_a_part(self):
        outputs = [Tensor(0x300), Tensor(0x400)]  # the second holds what nobody gets
        form = _unrolled.Form(fixed={0: 0x900, 2: 0xA00}, results=[1], spare={0: 0, 2: 0x40})
        launch = _unrolled.launch(self.program, 4, [lambda: outputs[0], lambda: outputs[1]], [0, 3], self.written.append,
                                  form=form)
        self.assertIs(launch(self.x, self.y), outputs[0])
        self.assertEqual(self.program.started[0][1], [0x900, 0x100, 0xA00, 0x200, 0x400, 0x300, 0x440])
        self.assertEqual(self.written, [self.y])

    def test_tensors_among_each_others_elements_may_be_apart(self):
        places = []
        for answer, results in ((True, False), (False, self.y)):
            into = _unrolled.launch_into(self.program, [300, 300], 1, [], self.written.append,
                                         lambda *facts, answer=answer: places.append(facts) or answer)
            self.assertIs(into(self.x, self.y), results)
        self.assertEqual(places, [(1, 0, 0x200, 0x100)] * 2)

    def test_another_current_device_is_so_again_afterwards(self):
        self.program.current = 0
        made = []
        self.launch(1, [lambda: made.append(self.program.current) or self.y])(self.x)
        self.launch_into(1, 1)(self.x, self.y)
        self.assertEqual(([device for device, _, _ in self.program.started], made, self.program.current),
                         ([1, 1], [1], 0))

    def test_what_the_kernel_writes_to_is_told(self):
        out = Tensor(0x300)
        self.launch(2, [lambda: out], changed=[1])(self.x, self.y)
        self.launch_into(2, 1, changed=[0])(self.x, self.y, out)
        self.assertEqual(self.written, [self.y, self.x, out])

    def test_outputs_lie_apart_from_all_else(self):
        for at, why in ((0x110, "2 lies where 0 does"), (0xF0, "2 lies where 0 does"), (0x200, "2 lies where 1 does")):
            with self.assertRaisesRegex(ValueError, why):
                self.launch_into(2, 1)(self.x, self.y, Tensor(at))
        with self.assertRaisesRegex(ValueError, "2 lies where 1 does"):
            self.launch_into(1, 2)(self.x, Tensor(0x300), Tensor(0x310))
        self.launch_into(2, 1)(self.x, self.y, Tensor(0x120))
        self.assertEqual(len(self.program.started), 1)


class Operator(unittest.TestCase):
    def setUp(self):
        self.x, self.plans, self.is_followed = Tensor(0x100), {}, False

    def call(self, dims, *tensors):
        names = {"asked": lambda: self.is_followed, "plain": frozenset((Tensor,))}
        return _unrolled.operator(self.plans, len(tensors), dims, lambda *_: "operator", lambda *_: "without plan",
                                  "asked()", names)(*tensors)

    def plan(self, results):
        return type("Plan", (), {"launch": staticmethod(lambda *_: results)})()

    def test_the_plan_of_dims_and_tensors_is_launched(self):
        facts = ((2, 3), "f32", "cuda:1")
        self.plans[(("causal", 1), 0, facts, facts)] = self.plan("launched")
        self.assertEqual(self.call({"causal": 1}, self.x, Tensor(0x200)), "launched")
        self.assertEqual(self.call({"causal": 0}, self.x, Tensor(0x200)), "without plan")
        self.assertEqual(self.call({"causal": 1}, self.x), "without plan")

    def test_whoever_follows_sees_the_operator(self):
        class Kind(Tensor):
            pass

        self.plans[(0, ((2, 3), "f32", "cuda:1"))] = self.plan("launched")
        self.assertEqual(self.call({}, Kind(0x100)), "operator")
        self.is_followed = True
        self.assertEqual(self.call({}, self.x), "operator")

    def test_without_a_launch_another_is_asked(self):
        key = (0, ((2, 3), "f32", "cuda:1"))
        for results, said in ((self.plan(False), "without plan"), (None, "without plan"), (self.plan(None), None)):
            self.plans[key] = results
            self.assertEqual(self.call({}, self.x), said)


if __name__ == "__main__":
    unittest.main()
