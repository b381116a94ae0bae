# SPDX-License-Identifier: Apache-2.0
"""Inputs by name and left out, and the outputs that a call returns: in Python alone, and by a real daemon's binary."""
import importlib.util
import unittest

import kit  # noqa: F401  # puts the package on the path
import tunectl
from kernel_kit import KernelTest
from tunectl import _scalars
from tunectl._inputs import Inputs
from tunectl._kernel import Kernel

DIMS = [{"name": "rows"}, {"name": "cols"}, {"name": "residual", "default": 0, "optional": True},
        {"name": "deep", "default": 0, "optional": True}]


def norm(evaluate=lambda dims, dtype, target, text: eval(text, {}, {**dims, "dtype": dtype})):
    def buffer(name, shape, role="input", **more):
        return {"name": name, "kind": "buffer", "role": role, "shape": shape, "dtype": "dtype", **more}

    args = [buffer("x", ["rows", "cols"]), buffer("residual", ["1", "1"], used_if="residual == 1"),
            buffer("weight", ["cols"]), buffer("scale", ["1"], used_if="dtype == 'e4m3'"),
            buffer("y", ["rows", "cols"], "output"), buffer("rstd", ["rows"], "output"), {"name": "epsilon", "kind": "scalar"}]
    return Inputs(Kernel({"name": "norm", "hash": "", "dims": DIMS, "args": args}, evaluate))


class Array:
    def __init__(self, *shape, dtype="float32"):
        self.shape, self.dtype = shape, dtype


X, W, R = Array(4, 8), Array(8), Array(4, 8)


class Names(unittest.TestCase):
    def whole(self, inputs, arrays=None, modes=None):
        return norm().whole(inputs, arrays or {}, modes or {}, lambda at, dtype: (at, dtype))

    def test_what_the_mode_does_not_read_is_a_blank(self):
        self.assertEqual(self.whole((X,), {"weight": W}), (X, (1, "f32"), W, (3, "f32")))
        self.assertEqual(self.whole((X, None, W)), (X, (1, "f32"), W, (3, "f32")))
        self.assertEqual(self.whole((X, R, W), {}, {"residual": 1}), (X, R, W, (3, "f32")))

    def test_just_what_the_mode_reads_may_be_given_by_position(self):
        self.assertEqual(self.whole((X, W)), (X, (1, "f32"), W, (3, "f32")))
        self.assertEqual(self.whole((X, W), {"residual": R}, {"residual": 1}), (X, R, W, (3, "f32")))
        self.assertEqual(self.whole((X, R, W), {}, {"residual": 1}), (X, R, W, (3, "f32")))

    def test_what_the_mode_reads_is_asked_for(self):
        for arguments, why in (((((X, None, W)), {}, {"residual": 1}), r"norm\(x\[rows, cols\], .*\) takes 3 arrays, and the call leaves out residual"),
                               ((((X,)), {}, {}), "takes 2 arrays, and the call leaves out weight"),
                               ((((Array(4, 8, dtype="float8_e4m3fn"), None, W)), {}, {}), "takes 3 arrays, and the call leaves out scale")):
            with self.subTest(why), self.assertRaisesRegex(ValueError, why):
                self.whole(*arguments)
        with self.assertRaisesRegex(TypeError, "norm: weight is given twice"):
            self.whole((X, R, W), {"weight": W})

    def test_names_are_arrays_scalars_and_dims(self):
        self.assertEqual(norm().sort({"weight": W, "epsilon": 1e-5, "deep": 1}), ({"weight": W}, {"epsilon": 1e-5}, {"deep": 1}))
        self.assertEqual(norm().sort({"epsilon": 1}), ({}, {"epsilon": 1}, {}))
        self.assertEqual(norm().sort({"residual": R}), ({"residual": R}, {}, {"residual": 1}))
        self.assertEqual(norm().sort({"residual": 0}), ({}, {}, {"residual": 0}))
        self.assertEqual(norm().sort({"residual": None}), ({"residual": None}, {}, {}))
        number = Array()  # as NumPy's numbers are
        self.assertEqual(norm().sort({"epsilon": number, "deep": number, "residual": number}),
                         ({}, {"epsilon": number}, {"deep": number, "residual": number}))
        with self.assertRaisesRegex(TypeError, "norm has no input 'wait'; its inputs are x, residual, weight, scale"):
            norm().sort({"wait": W})

    def test_an_array_of_a_mode_that_nobody_names_is_refused(self):
        with self.assertRaisesRegex(ValueError, "norm: residual is given, and is read only if residual == 1: name residual="):
            norm().check_told((X, R, W), {})
        for arrays, modes in (((X, R, W), {"residual": 0}), ((X, R, W), {"residual": 1}), ((X, Array(1, 1), W), {})):
            norm().check_told(arrays, modes)

    def test_a_shape_that_depends_on_a_mode_tells_its_dim(self):
        dims = [{"name": "m"}, {"name": "k"}, {"name": "turned", "values": [0, 1]}]
        kernel = Kernel({"name": "g", "hash": "", "dims": dims}, lambda dims, dtype, target, text: eval(text, {}, dict(dims)))
        text = "k if turned == 1 else m"
        for told, want in (({"turned": 1}, "k"), ({"turned": 0}, "m"), ({}, None)):
            self.assertEqual(kernel.dim_of(text, told, "f32", "cpu"), want)
        for text, want in (("m", "m"), ("m if turned else 1", "1"), ("m + k", None), ("m * 2", None)):
            self.assertEqual(kernel.dim_of(text, {"turned": 0}, "f32", "cpu"), want)

    def test_scalars_of_a_mode_that_is_off_are_not_missed(self):
        self.assertEqual(_scalars.unread("attention", {"softcap": 0}), {"cap"})
        self.assertEqual(_scalars.unread("attention", {"softcap": 1}), set())
        with self.assertRaisesRegex(ValueError, "attention: the call leaves out cap"):
            _scalars.check("attention", None, {}, {"softcap": 1})
        self.assertEqual(_scalars.check("attention", None, {}, {"softcap": 0}), {})

    def test_a_condition_that_cannot_be_worked_out_holds(self):
        def fail(*_):
            raise ValueError("no")

        self.assertEqual(norm(fail).unused({}, "f32"), frozenset())

    def test_the_fallback_gets_what_is_read(self):
        every = (X, Array(1, 1), W, Array(1))
        unused = norm().unused({}, "f32")
        for function, want in ((lambda x, residual, weight: (x, residual, weight), (X, None, W)),
                               (lambda x, residual, weight, *, epsilon=1: (x, residual, weight), (X, None, W)),
                               (lambda x, residual, weight, epsilon=1: (x, residual, weight), (X, None, W)),
                               (lambda x, residual, weight, scale: (x, residual, weight, scale), (X, None, W, None)),
                               (lambda *all_of: all_of, (X, None, W, None))):
            self.assertEqual(norm().fallback(function, unused, None)(*every), want)
        self.assertEqual(norm().fallback(lambda *_: "rstd", unused, (1,))(*every), (None, "rstd"))


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Calls(KernelTest):
    @classmethod
    def prepare(cls):
        cls.sweep_kernel("rmsnorm", "--dtype", "f32", rows=48, cols=128, residual=0)
        cls.sweep_kernel("rmsnorm", "--dtype", "f32", rows=48, cols=128, residual=1)

    def setUp(self):
        super().setUp()
        import numpy

        draw = numpy.random.default_rng(1)
        self.x, self.r = (draw.standard_normal((48, 128)).astype("f4") for _ in range(2))
        self.w = draw.standard_normal(128).astype("f4")

    @staticmethod
    def norm(x, residual, weight, epsilon):
        x = x if residual is None else x + residual
        return x / ((x * x).mean(-1, keepdims=True) + epsilon) ** 0.5 * weight

    def close(self, left, right):
        import numpy

        numpy.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)

    def test_tuned_and_not(self):
        kernel = tunectl.kernel("rmsnorm", fallback=self.norm, returns="y", scalars={"epsilon": 1e-2})
        for rows in (48, 40):
            x, r = self.x[:rows], self.r[:rows]
            want = self.norm(x, None, self.w, 1e-2)
            self.close(kernel(x, weight=self.w), want)
            self.close(kernel(x, None, self.w), want)
            self.close(kernel(weight=self.w, x=x), want)
            self.close(kernel(x, weight=self.w, epsilon=3.0), self.norm(x, None, self.w, 3.0))
            self.close(kernel(x, self.w, epsilon=3), self.norm(x, None, self.w, 3.0))
            with self.assertRaisesRegex(TypeError, "epsilon is given twice, by name and in scalars="):
                kernel(x, self.w, epsilon=3.0, scalars={"epsilon": 2.0})
            self.close(kernel(x, weight=self.w, residual=r), self.norm(x, r, self.w, 1e-2))
            self.close(kernel(x, r, self.w, residual=1), self.norm(x, r, self.w, 1e-2))
            with self.assertRaisesRegex(ValueError, "residual is given, and is read only if residual == 1"):
                kernel(x, r, self.w)
            with self.assertRaisesRegex(ValueError, "takes 2 arrays, and the call leaves out weight"):
                kernel(x)
        self.assertEqual(len(kernel.notes), 2, kernel.notes)  # of 40 rows, with and without a residual
        deep = kernel(self.x.reshape(2, 24, 128), weight=self.w)
        self.assertEqual(deep.shape, (2, 24, 128))

    def test_outputs_by_name(self):
        both = tunectl.kernel("rmsnorm", fallback=lambda x, residual, w: (1, 2), returns=("rstd", "y"))
        rstd, y = both(self.x, weight=self.w)
        self.assertEqual((rstd.shape, y.shape), ((48,), (48, 128)))
        self.assertEqual(both.notes, ())
        for name, results in (("sum", (1, 2, 3)), (("y", "rstd"), (1,))):
            partly = tunectl.kernel("rmsnorm", fallback=lambda x, residual, w, r=results: r, returns=name)
            with self.assertRaisesRegex(ValueError, rf"the fallback gives {len(results)} results, and returns= names"):
                partly(self.x[:40], weight=self.w)
        with self.assertRaisesRegex(ValueError, "rmsnorm has no output 'z'; its outputs are y, sum, rstd"):
            tunectl.kernel("rmsnorm", fallback=None, returns="z")(self.x, weight=self.w)

    def test_a_scalar_that_calls_must_give_may_be_an_integer(self):
        import numpy

        kernel = tunectl.kernel("gemm", fallback=lambda a, b, alpha: alpha * a @ b.T, transpose_a=0, transpose_b=1)
        a = numpy.ones((32, 64), "f4")
        self.assertEqual(kernel(a, a, alpha=2)[0, 0], 128)
        with self.assertRaisesRegex(ValueError, "leaves out alpha"):
            kernel(a, a)

    def test_without_a_snapshot_of_it(self):
        unknown = tunectl.kernel("no_such_kernel", fallback=lambda x, w, scale: (x, w, scale), returns="y")
        self.assertEqual(unknown("x", w=self.w, scale=2.0)[::2], ("x", 2.0))


if __name__ == "__main__":
    unittest.main()
