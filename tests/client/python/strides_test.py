# SPDX-License-Identifier: Apache-2.0
"""Arrays that are not contiguous: which strides are taken, where outputs lie, and launches by a real daemon's binary."""
import contextlib
import importlib.util
import unittest

import kit
import tunectl
from kernel_kit import KernelTest
from tunectl import _arrays, _strides
from tunectl._kernel import Kernel, Problem

B, H, S, W = 2, 4, 8, 16


class Order(unittest.TestCase):
    def test_a_new_output_has_the_axes_of_the_input_in_their_order(self):
        for shape, strides, want in (
                ((2, 4, 8, 16), (512, 16, 64, 1), (512, 16, 64, 1)),  # [batch, seq, heads, width]
                ((2, 4, 8, 16), (1536, 16, 192, 1), (512, 16, 64, 1)),  # one of three in a projection
                ((2, 4, 8, 16), (512, 128, 16, 1), (512, 128, 16, 1)),
                ((1, 4, 8, 16), (7, 16, 64, 1), (64, 16, 64, 1)),  # an axis of one element lies anywhere
                ((2, 4, 8, 16), (0, 128, 16, 1), (512, 128, 16, 1)),  # expanded
                ((8, 16), (1, 8), (16, 1))):  # its last axis is not side by side
            self.assertEqual(_strides.in_order_of(shape, strides), want)

    def test_axes_that_are_as_one_fold(self):
        self.assertTrue(_strides.folds((2, 3, 8), (96, 32, 1), 1))  # rows of 32, of which 8 are taken
        self.assertFalse(_strides.folds((2, 3, 8), (8, 16, 1), 1))
        self.assertTrue(_strides.folds((2, 1, 8), (32, 5, 1), 1))

    def test_elements_at_one_place_are_found(self):
        self.assertFalse(_strides.overlaps_itself((2, 4, 8), (8, 16, 1)))
        self.assertTrue(_strides.overlaps_itself((2, 4, 8), (0, 8, 1)))
        self.assertTrue(_strides.overlaps_itself((4, 8), (7, 1)))

    def test_views_side_by_side_are_apart(self):
        third = _strides.pattern_of((2, 4, 8, 16), (1536, 16, 192, 1), "f32")
        self.assertEqual(third, (256, 768))
        for distance, apart in ((256, True), (512, True), (-256, True), (768, False), (128, False), (0, False)):
            self.assertEqual(_strides.are_apart(third, third, distance), apart, distance)
        whole = _strides.pattern_of((2, 4), (4, 1), "f32")
        self.assertFalse(_strides.are_apart(third, whole, 256 * 3))


class Fit(unittest.TestCase):
    """A kernel of x[rows, cols], strided, and y, which is not; the binary takes x's stride as an i32."""

    def setUp(self):
        args = [{"name": "x", "kind": "buffer", "role": "input", "shape": ["rows", "cols"], "dtype": "dtype", "strided": True},
                {"name": "y", "kind": "buffer", "role": "output", "shape": ["rows", "cols"], "dtype": "dtype", "strided": True},
                {"name": "n", "kind": "scalar"},
                {"name": "step", "kind": "scalar", "dtype": "i32", "value": "x_stride_0"},
                {"name": "map", "kind": "tensor_map", "dims": [None, None], "strides": ["x_stride_0 * 2"]}]
        facts = {"name": "k", "hash": "", "dims": [{"name": "rows"}, {"name": "cols"}], "args": args}
        self.kernel = Kernel(facts, lambda dims, dtype, target, text: eval(text, {}, dict(dims)))
        self.strided = _strides.Strided(self.kernel, Problem({"rows": 4, "cols": 32}, "bf16"), "sm_90a", args[:2],
                                        [(4, 32)] * 2, ["bf16"] * 2)

    def place(self, *strides, alignment=16):
        seen = [_arrays.Array((4, 32), "bf16", "cuda:0", 256, one is None, True, "" if one is None else "is not contiguous", one)
                for one in strides]
        return self.strided.place(seen, alignment)

    def test_what_a_launch_works_out(self):
        placed = self.place((96, 1))
        self.assertEqual(placed, (((96, 1), (32, 1)), {"step": 96}, {"map": ([None, None], [192])}))
        self.assertEqual(self.place((0, 1), (40, 1)).strides, ((0, 1), (40, 1)))

    def test_what_is_not_taken_says_why(self):
        for strides, why in (((1, 4), "x is not contiguous along its last axis"),
                             ((-32, 1), "x has a negative stride along axis 0"),
                             ((33, 1), "x has a stride of 66 bytes along axis 0, which is no multiple of 16")):
            with self.subTest(strides), self.assertRaisesRegex(_strides.Unfit, why):
                self.place(strides)
        with self.assertRaisesRegex(_strides.Unfit, "y has elements that overlap, and the kernel writes to it"):
            self.place(None, (16, 1))
        with self.assertRaisesRegex(_strides.Unfit, "no multiple of 64"):
            self.place((40, 1), alignment=64)


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Launches(KernelTest):
    @classmethod
    def prepare(cls):
        for name in ("product", "product_backward"):
            cls.sweep_kernel(kit.ROOT / f"tests/data/strided/{name}.textproto", batch=B, heads=H, seq=S, width=W)

    def setUp(self):
        super().setUp()
        self.product = tunectl.kernel("product", fallback=lambda x, z, factor=1.0: factor * x * z)

    def drawn(self, *order):
        """Of the axes batch, heads, seq, width, which lie in memory in this order."""
        import numpy

        sizes = (B, H, S, W)
        made = numpy.random.default_rng(1).uniform(-1, 1, [sizes[axis] for axis in order]).astype("f4")
        return made.transpose(*[order.index(axis) for axis in range(4)])

    @contextlib.contextmanager
    def notes(self, *texts):
        """What calls add to the notes."""
        before = len(self.product.notes)
        yield
        self.assertEqual(list(self.product.notes[before:]), list(texts))

    def check(self, x, z, factor=None, **more):
        import numpy

        made = self.product(x, z, scalars={"factor": factor} if factor else None, **more)
        numpy.testing.assert_allclose(made, (factor or 1) * x * z, rtol=1e-6)
        return made

    def test_views_are_launched_and_outputs_lie_like_the_first(self):
        plain, views = self.drawn(0, 1, 2, 3), self.drawn(0, 2, 1, 3)
        with self.notes():
            for _ in range(2):
                self.assertEqual(self.check(views, views).strides, views.strides)
                self.assertEqual(self.check(views, plain).strides, views.strides)
                self.assertEqual(self.check(plain, views).strides, plain.strides)
                self.assertEqual(self.check(views, plain, factor=3.0).strides, views.strides)
                self.check(plain, plain, factor=2.0)
                self.check(plain, plain)

    def test_one_projection_holds_inputs_and_outputs(self):
        import numpy

        whole = numpy.random.default_rng(2).uniform(-1, 1, (B, S, 4, H, W)).astype("f4")
        x, z, out, other = (whole[:, :, i].transpose(0, 2, 1, 3) for i in range(4))
        kept = other.copy()
        with self.notes():
            self.assertIs(self.check(x, z, out=out), out)
        numpy.testing.assert_array_equal(other, kept)
        self.assertFalse(numpy.array_equal(out, kept))
        with self.assertRaisesRegex(ValueError, "'y' lies where 'x' does"):
            self.product(x, z, out=x)
        shifted = whole[:, :, 2:4].reshape(B, S, -1)[:, :, 32:32 + H * W].reshape(B, S, H, W)
        self.check(x, z, out=shifted.transpose(0, 2, 1, 3))

    def test_expanded_inputs_are_read_and_not_written_to(self):
        import numpy

        plain = self.drawn(0, 1, 2, 3)
        wide = numpy.broadcast_to(plain[:1], plain.shape)
        with self.notes():
            self.assertEqual(self.check(wide, plain).strides, plain.strides)
        out = numpy.lib.stride_tricks.as_strided(plain.copy(), plain.shape, (0, *plain.strides[1:]))
        with self.notes("y has elements that overlap, and the kernel writes to it"):
            self.product(plain, plain, out=out)

    def test_what_the_binary_cannot_take_runs_the_fallback(self):
        import numpy

        plain = self.drawn(0, 1, 2, 3)
        for bad, why in ((self.drawn(0, 1, 3, 2), "x is not contiguous along its last axis"),
                         (plain[:, ::-1], "x has a negative stride along axis 1"),
                         (numpy.zeros((B, H, S, W + 1), "f4")[..., :W], "which is no multiple of 64")):
            before = len(self.product.notes)
            self.check(bad, plain)
            self.assertIn(why, "".join(self.product.notes[before:]))
        far = numpy.lib.stride_tricks.as_strided(plain, plain.shape, (1 << 34, *plain.strides[1:]))
        silent = tunectl.kernel("product", fallback=lambda x, z: plain)
        silent(far, plain)
        self.assertEqual(silent.notes, (f"x_stride_0 is {1 << 32} for these strides, which is more than an i32 holds",))


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Catalogue(KernelTest):
    @classmethod
    def prepare(cls):
        cls.sweep_kernel("rope", "--dtype", "f32", seq=8, batch=2, heads=4, kv_heads=2, head_dim=16)
        cls.sweep_kernel("softmax", "--dtype", "f32", rows=24, cols=32)

    def test_heads_lie_as_models_have_them(self):
        import numpy

        rope = tunectl.kernel("rope", fallback=None, interleaved=0, backward=0)
        draw = numpy.random.default_rng(3).standard_normal
        cosine, sine = (draw((8, 8)).astype("f4") for _ in range(2))

        def turned(x):
            c, s = (table[:, None, None, :] for table in (cosine, sine))
            return numpy.concatenate([x[..., :8] * c - x[..., 8:] * s, x[..., 8:] * c + x[..., :8] * s], -1)

        for axes in ((0, 1, 2), (1, 0, 2), (2, 1, 0), (1, 2, 0)):  # the places of seq, batch and heads in memory
            shapes = [[0] * 3, [0] * 3]
            for axis, sizes in zip(axes, ((8, 8), (2, 2), (4, 2))):
                shapes[0][axis], shapes[1][axis] = sizes
            q, k = (draw((*shape, 16)).astype("f4").transpose(*axes, 3) for shape in shapes)
            for made, given in zip(rope(q, k, cosine, sine), (q, k)):
                self.assertEqual(made.strides, given.strides)
                numpy.testing.assert_allclose(made, turned(given), rtol=1e-5, atol=1e-5)
        self.assertEqual(rope.notes, ())

    def test_rows_may_be_apart(self):
        import numpy

        def reference(x):
            exponents = numpy.exp(x - x.max(-1, keepdims=True))
            return exponents / exponents.sum(-1, keepdims=True)

        softmax = tunectl.kernel("softmax", fallback=reference)
        wide = numpy.random.default_rng(4).standard_normal((24, 80), "f4")
        for x in (wide[:, 16:48], wide.reshape(4, 6, 80)[..., :32], numpy.broadcast_to(wide[:1, :32], (24, 32))):
            made = softmax(x)
            self.assertTrue(made.flags.c_contiguous)
            numpy.testing.assert_allclose(made, reference(x), rtol=1e-5)
        self.assertEqual(softmax.notes, ())
        narrow = numpy.random.default_rng(4).standard_normal((24, 40), "f4")[:, :32]
        numpy.testing.assert_allclose(softmax(narrow), reference(narrow), rtol=1e-5)
        self.assertIn("x has a stride of 160 bytes along axis 0, which is no multiple of 64", softmax.notes[0])


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Attention(KernelTest):
    SIZES = {"batch": 2, "heads": 4, "kv_heads": 2, "seq": 40, "head_dim": 64}

    @classmethod
    def prepare(cls):
        spec = kit.ROOT / "kernels/attention_backward/attention_backward.textproto"
        cls.sweep_kernel(spec, "--dtype", "f16", **cls.SIZES)

    def test_gradients_of_views_are_those_of_copies(self):
        import numpy

        drawn = numpy.random.default_rng(1)

        def array(heads):
            return drawn.normal(0, 0.5, (2, 40, heads, 64)).astype("f2").transpose(0, 2, 1, 3)

        q, k, v, out, dout = (array(heads) for heads in (4, 2, 2, 4, 4))
        lse = drawn.uniform(5, 6, (2, 4, 40)).astype("f4")
        gradients = tunectl.kernel("attention_backward", fallback=None, causal=0, deterministic=0)
        made = gradients(q, k, v, out, dout, lse)
        want = gradients(*(numpy.ascontiguousarray(one) for one in (q, k, v, out, dout)), lse)
        for view, copy, like in zip(made, want, (q, k, v)):
            numpy.testing.assert_array_equal(view, copy)
            self.assertEqual((view.strides, copy.flags.c_contiguous), (like.strides, True))
        self.assertEqual(gradients.notes, ())


@unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
class Decode(KernelTest):
    """Two queries of each of three sequences, with 40 keys at most, in pages of 16."""

    SIZES = {"batch": 3, "queries": 2, "heads": 4, "kv_heads": 2, "seq": 40, "head_dim": 64, "page_size": 16}

    @classmethod
    def prepare(cls):
        spec = kit.ROOT / "kernels/attention_decode/attention_decode.textproto"
        for heads_first in (0, 1):
            cls.sweep_kernel(spec, "--dtype", "f16", heads_first=heads_first, **cls.SIZES)

    def setUp(self):
        super().setUp()
        import numpy

        self.drawn = numpy.random.default_rng(5)
        self.unused = numpy.array([0, 3, 25], "i4")
        self.decode = tunectl.kernel("attention_decode", fallback=None, seq=40)

    def array(self, *shape):
        return self.drawn.normal(0, 0.5, shape).astype("f2")

    def reference(self, q, k, v, table):
        """Outputs and log-sum-exps, in f32; of k and v [batch, pages, page_size, kv_heads, head_dim]."""
        import numpy

        out, lse = numpy.empty(q.shape, "f4"), numpy.empty(q.shape[:3], "f4")
        for b, query, head in numpy.ndindex(*q.shape[:3]):
            end = 40 - self.unused[b] - 1 + query
            places = numpy.divmod(table[b], 3)
            keys, values = (cache[..., head // 2, :][places].astype("f4").reshape(48, 64)[:end] for cache in (k, v))
            scores = keys @ q[b, query, head].astype("f4") / 8
            lse[b, query, head] = numpy.logaddexp.reduce(scores)
            out[b, query, head] = numpy.exp(scores - lse[b, query, head]) @ values
        return out, lse

    def check(self, q, k, v, table, heads_first=0):
        import numpy

        out, lse = self.decode(q, k, v, table, self.unused, heads_first=heads_first)
        order = (0, 1, 3, 2, 4) if heads_first else (0, 1, 2, 3, 4)
        wanted = self.reference(q, k.transpose(order), v.transpose(order), table)
        numpy.testing.assert_allclose(out, wanted[0], rtol=2e-3, atol=1e-3)
        numpy.testing.assert_allclose(lse, wanted[1], rtol=1e-4, atol=1e-4)
        self.assertEqual(self.decode.notes, ())
        return out

    def caches(self):
        """Keys and values as models have them, by name."""
        import numpy

        pages = [self.array(9, 16, 2, 64).reshape(3, 3, 16, 2, 64) for _ in range(2)]
        beside = self.array(9, 2, 16, 2, 64).reshape(3, 3, 2, 16, 2, 64)  # keys and values of a page side by side
        layers = self.array(4, 2, 9, 16, 2, 64)[1].reshape(2, 3, 3, 16, 2, 64)
        longer = [self.array(3, 80, 2, 64)[:, :48].reshape(3, 3, 16, 2, 64) for _ in range(2)]
        heads_ahead = [self.array(3, 2, 64, 64)[:, :, :48].reshape(3, 2, 3, 16, 64).transpose(0, 2, 3, 1, 4) for _ in range(2)]
        padded, shared = self.array(3, 3, 16, 2, 96)[..., :64], numpy.broadcast_to(pages[0][:1], pages[0].shape)
        return {"pages": pages, "beside": (beside[:, :, 0], beside[:, :, 1]), "layers": layers, "longer": longer,
                "heads_ahead": heads_ahead, "mixed": (longer[0], padded), "other": (padded, heads_ahead[1]),
                "shared": (shared, pages[1])}

    def test_queries_caches_and_tables_lie_as_models_have_them(self):
        plain, turned = self.array(3, 2, 4, 64), self.array(3, 4, 2, 64).transpose(0, 2, 1, 3)
        table = self.drawn.permutation(9).astype("i4").reshape(3, 3)
        wide = self.drawn.integers(0, 9, (3, 8), "i4")
        for name, (k, v) in self.caches().items():
            for q in (plain, turned, self.array(3, 2, 12, 64)[:, :, 4:8]):
                for pages in (table, wide[:, :3], wide[:1, :3].repeat(3, 0)):
                    with self.subTest(name):
                        like = turned if q is turned else plain
                        self.assertEqual(self.check(q, k, v, pages).strides, like.strides)

    def test_pages_of_either_order(self):
        table = self.drawn.permutation(9).astype("i4").reshape(3, 3)
        for k, v in self.caches().values():
            self.check(self.array(3, 2, 4, 64), k.transpose(0, 1, 3, 2, 4), v.transpose(0, 1, 3, 2, 4), table, heads_first=1)
        k, v = self.array(3, 3, 2, 16, 64), self.array(3, 3, 2, 16, 64)
        self.check(self.array(3, 2, 4, 64), k, v, table, heads_first=1)


if __name__ == "__main__":
    unittest.main()
