# SPDX-License-Identifier: Apache-2.0
"""Tuned binaries as functions: swept by a real daemon on the CPU device, launched in this process."""
import copy
import ctypes
import importlib.util
import json
import os
import pickle
import signal
import tempfile
import threading
import unittest

import kit
import tunectl
from kernel_kit import KernelTest, Tensor, drawn, saxpy_of

EXAMPLES = kit.ROOT / "docs/examples"


class Launches(KernelTest):
    def test_a_swept_kernel_is_a_function(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        for n in (1000, 4096, 1000):
            self.check_saxpy(saxpy, n)
        self.assertEqual(saxpy.notes, ())
        self.assertEqual(self.said, [])

    def test_scalars_of_a_call(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        x, y = drawn(4096), drawn(4096, seed=2)
        out = Tensor(4096)
        halved = copy.copy(tunectl.kernel("saxpy", fallback=None, scalars={"a": 0.5}))
        for kernel, scalars, factor in ((saxpy, {"a": 4.0}, 4), (saxpy, {"a": -1}, -1), (saxpy, None, 2.5),
                                        (halved, None, 0.5), (halved, {"a": 3}, 3), (halved, {}, 0.5)):
            kernel(x, y, out=out, scalars=scalars)
            self.assert_close(out.values, [factor * a + b for a, b in zip(x.values, y.values)])
        fallen = tunectl.kernel("saxpy", fallback=lambda x, y, **scalars: scalars)
        for wrong, why in (({"n": 1}, "'n' is no scalar that a call can set; those are a$"),  # a size
                           ({"rate": 1}, "'rate' is no scalar that a call can set; its scalars are a, n$"),
                           ({"a": "fast"}, "a='fast' is no number"), ({"a": True}, "a=True is no number"),
                           ({"a": None}, "a=None is no number"), ({"a": 10**400}, "is no number that a float holds"),
                           ({"a": 1e300}, r"a=1e\+300 is more than an f32 holds")):
            with self.subTest(wrong=wrong), self.assertRaisesRegex(ValueError, why):
                saxpy(x, y, out=out, scalars=wrong)
        with self.assertRaisesRegex(ValueError, "'rate' is no scalar"):
            fallen(drawn(10), drawn(10), scalars={"rate": 1})
        with self.assertRaisesRegex(TypeError, "scalars= is a mapping"):
            tunectl.kernel("saxpy", fallback=None, scalars=3.0)
        self.check_saxpy(saxpy, 4096)
        plan = next(iter(saxpy._plans.values()))
        plan.for_scalars().program.set_scalars({"a": 9})  # and there a call is interrupted
        self.check_saxpy(saxpy, 4096)
        other = tunectl.kernel("saxpy", fallback=lambda x, y, a: f"{a} {len(x.values)}")
        self.assertEqual(other(drawn(10), drawn(10), scalars={"a": 7.0}), "7.0 10")

    def test_a_number_for_gradient_is_a_dim(self):
        loss = tunectl.kernel("cross_entropy", fallback=None, gradient=1)
        self.assertEqual((loss.dims, loss.gradient), ({"gradient": 1}, None))
        with self.assertRaisesRegex(TypeError, "gradient= is a function, or a whole number"):
            tunectl.kernel("cross_entropy", fallback=None, gradient=1.0)

    def test_no_file_stays_open(self):
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None), 4096)
        before = set(os.listdir("/proc/self/fd"))
        for n in (4096, 1000, 4096):  # a file's number may be that of the last one
            self.check_saxpy(tunectl.kernel("saxpy", fallback=None), n)
        self.assertEqual(set(os.listdir("/proc/self/fd")), before)

    def test_arrays_of_any_kind(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        x, y, out = (ctypes.c_float * 4096)(*[1.5] * 4096), (ctypes.c_float * 4096)(), (ctypes.c_float * 4096)()
        aligned = [ctypes.addressof(one) % 16 == 0 for one in (x, y, out)]
        if not all(aligned):
            self.skipTest("ctypes did not align its arrays")
        saxpy(x, y, out=out)
        self.assertEqual(set(out), {3.75})
        with self.assertRaisesRegex(TypeError, "not list"):
            saxpy([1.0], [2.0])
        with self.assertRaisesRegex(TypeError, "give them behind|outputs are made"):
            saxpy(x, y)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_numpy(self):
        import numpy

        saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: 2.5 * x + y)
        x = numpy.linspace(-1, 1, 4096, dtype=numpy.float32)
        out = saxpy(x, x)
        self.assertEqual((type(out), out.shape, out.dtype), (numpy.ndarray, (4096,), numpy.float32))
        numpy.testing.assert_allclose(out, 3.5 * x, rtol=1e-6)
        self.assertEqual(saxpy.notes, ())
        strided = numpy.zeros(8192, dtype=numpy.float32)[::2]
        numpy.testing.assert_allclose(saxpy(strided, x), x)
        self.assertIn("not contiguous", saxpy.notes[0])

    def test_a_fork_beside_another_threads_launches(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        self.check_saxpy(saxpy, 4096)
        over = threading.Event()

        def launch():
            x, y, out = drawn(4096), drawn(4096, seed=2), Tensor(4096)
            while not over.is_set():
                saxpy(x, y, out=out)

        thread = threading.Thread(target=launch)
        thread.start()
        try:
            for _ in range(12):  # most of these meet a launch
                child = os.fork()
                if child == 0:
                    signal.alarm(20)  # ends one that waits for a thread of its parent's
                    try:
                        self.check_saxpy(saxpy, 4096)
                        os._exit(0)
                    except BaseException:
                        os._exit(1)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
        finally:
            over.set()
            thread.join()

    def test_several_outputs_and_modes_by_name(self):
        self.sweep_kernel("rope", "--dtype", "f32", seq=8, batch=1, heads=2, kv_heads=1, head_dim=16)
        rope = tunectl.kernel("rope", fallback=None, interleaved=0, backward=0)
        q, k = drawn(8, 1, 2, 16), drawn(8, 1, 1, 16, seed=2)
        cosine, sine = drawn(8, 8, seed=3), drawn(8, 8, seed=4)
        q_out, k_out = Tensor(8, 1, 2, 16), Tensor(8, 1, 1, 16)
        rope(q, k, cosine, sine, out=(q_out, k_out))
        for source, target, heads in ((q, q_out, 2), (k, k_out, 1)):
            want = [0.0] * len(source.values)
            for row in range(8 * heads):
                for i in range(8):
                    c, s = cosine.values[row // heads * 8 + i], sine.values[row // heads * 8 + i]
                    a, b = source.values[row * 16 + i], source.values[row * 16 + i + 8]
                    want[row * 16 + i], want[row * 16 + i + 8] = a * c - b * s, b * c + a * s
            self.assert_close(target.values, want)

    def test_steps_scratch_and_zeroing(self):
        self.sweep_kernel(EXAMPLES / "steps/split_sum.textproto", rows=3, cols=5000)
        x, y = drawn(3, 5000), Tensor(3)
        split_sum = tunectl.kernel("split-sum", fallback=None)
        for _ in range(3):  # what is zeroed must be so each time
            split_sum(x, out=y)
            self.assert_close(y.values, [sum(x.values[row * 5000:(row + 1) * 5000]) for row in range(3)], 1e-3)

    def test_symbols_are_inputs(self):
        self.sweep_kernel(EXAMPLES / "convolve/convolve.textproto", "--dtype", "f32", n=3000)
        convolve = tunectl.kernel("convolve", fallback=None)
        x, y = drawn(3000), Tensor(3000)
        for middle in (1.0, 2.0):
            taps = Tensor(9, values=[0, 0, 0, 0, middle, 0, 0, 0, 1])
            convolve(taps, x, out=y)
            values = [*x.values, 0, 0, 0, 0]
            self.assert_close(y.values, [middle * values[i] + values[i + 4] for i in range(3000)])

    def test_threads_and_forked_children(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        faults = []

        def work(seed):
            try:
                for i in range(20):
                    self.check_saxpy(saxpy, seed=100 * seed + i)
            except BaseException as fault:  # told below
                faults.append(fault)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(faults, [])
        child = os.fork()
        if child == 0:
            try:
                self.check_saxpy(saxpy)
                os._exit(0)
            except BaseException:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Mistakes(KernelTest):
    def test_a_dim_that_nothing_tells_is_asked_for(self):
        loss = tunectl.kernel("cross_entropy", fallback=None)
        with self.assertRaisesRegex(ValueError, r"give gradient=\.\.\. to tunectl.kernel"):
            loss(drawn(8, 16), Tensor(8, dtype="torch.int64"), drawn(8))

    def test_shapes_that_contradict_each_other(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        with self.assertRaisesRegex(ValueError, r"saxpy: y has the axes \[4096\], where \[n\] was expected: n is 4096 by axis 0 of y, and 1000 by axis 0 of x"):
            saxpy(Tensor(1000), Tensor(4096))
        with self.assertRaisesRegex(ValueError, r"saxpy\(x\[n\], y\[n\]\) takes 2 arrays"):
            saxpy(Tensor(1000))
        with self.assertRaisesRegex(ValueError, r"out has the axes \[10, 10\], where \[n\] was expected, which is \[1000\]"):
            saxpy(Tensor(1000), Tensor(1000), out=Tensor(10, 10))
        with self.assertRaisesRegex(ValueError, "n is 1000 by axis 0 of x, and 7 as it was given by name"):
            saxpy(Tensor(1000), Tensor(1000), n=7)

    def test_arrays_of_another_rank_and_dims_that_are_no_numbers(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        with self.assertRaisesRegex(ValueError, r"x has the 2 axes \[10, 10\], where \[n\] was expected; y has the 2 axes "
                                                r"\[10, 10\], .*: give such an array, or n=\.\.\. to"):
            saxpy(Tensor(10, 10), Tensor(10, 10))
        with self.assertRaisesRegex(ValueError, r"x has the axis \[1024\].*: give such an array, say x\.reshape\(1, -1\)"):
            tunectl.kernel("softmax", fallback=None)(Tensor(1024))
        out = Tensor(1000)
        self.assertIs(saxpy(Tensor(1000), Tensor(10, 100), out=out), out, "as many elements, told by x")
        for ask in (lambda: saxpy(Tensor(1000), Tensor(1000), n="x"), lambda: tunectl.best("saxpy", n="x")):
            with self.assertRaisesRegex(TypeError, "dim 'n' is a whole number, not 'x'"):
                ask()


    def test_outputs_that_overlap_inputs(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        x, y = drawn(4096), drawn(4096, seed=2)
        with self.assertRaisesRegex(ValueError, "'out' lies where 'y' does: give another as out="):
            saxpy(x, y, out=y)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_arrays_that_cannot_be_written_to_or_are_masked(self):
        import numpy

        saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: 2.5 * x + y)
        x, out = numpy.ones(4096, numpy.float32), numpy.zeros(4096, numpy.float32)
        out.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "writes to 'out', which is read-only: give a writable array"):
            saxpy(x, x, out=out)
        with self.assertRaisesRegex(TypeError, "takes no masked array"):
            saxpy(numpy.ma.array(x, mask=True), x)
        self.assertEqual(saxpy(x[:0], x[:0]).shape, (0,))
        self.assertIn("arrays without elements", saxpy.notes)

    def test_a_copy_is_as_it_was_made(self):
        saxpy = tunectl.kernel("saxpy", fallback=saxpy_of, n=4096)
        self.check_saxpy(saxpy, 4096)
        for copied in (copy.deepcopy(saxpy), pickle.loads(pickle.dumps(saxpy))):
            self.assertEqual((copied.name, copied.fallback, copied.dims), ("saxpy", saxpy_of, {"n": 4096}))
            self.check_saxpy(copied, 4096)


class Rules(KernelTest):
    """A call means the same with a record of its sizes and without one."""

    TUNED, UNTUNED = 4096, 5000

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_a_dtype_or_size_that_the_kernel_lacks_runs_the_fallback(self):
        import numpy

        called = []
        softmax = tunectl.kernel("softmax", fallback=lambda x: called.append(x) or x)
        for what, why in ((numpy.zeros((4, 8), numpy.float64), "not written for 'f64'"),
                          (numpy.zeros((4, 8), numpy.int32), "not written for 'i32'"),
                          (numpy.zeros((4, 8), numpy.complex64), "not written for"),
                          (numpy.zeros((1, 262145), numpy.float32), "dim 'cols' goes from 1 to 262144, not 262145")):
            with self.subTest(why):
                self.assertIs(softmax(what), what)
                self.assertIn(why, softmax.notes[-1])
                with self.assertRaisesRegex(LookupError, "no fallback="):
                    tunectl.kernel("softmax", fallback=None)(what)
        saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: "mixed")
        self.assertEqual(saxpy(numpy.zeros(4096, numpy.float32), numpy.zeros(4096, numpy.float64)), "mixed")

    def test_names_that_are_no_dims_are_mistakes(self):
        for n in (self.TUNED, self.UNTUNED):
            for make in (lambda: tunectl.kernel("saxpy", fallback=saxpy_of, rows=1)(drawn(n), drawn(n)),
                         lambda: tunectl.kernel("saxpy", fallback=saxpy_of)(drawn(n), drawn(n), rows=1)):
                with self.assertRaisesRegex(ValueError, "kernel 'saxpy' has no dim 'rows'; its dims are n"):
                    make()

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_leading_axes_are_rows(self):
        import numpy

        def reference(x):
            made = numpy.exp(x - x.max(-1, keepdims=True))
            return made / made.sum(-1, keepdims=True)

        self.sweep_kernel("softmax", "--dtype", "f32", rows=24, cols=32)
        tunectl.open()
        softmax = tunectl.kernel("softmax", fallback=reference)
        for rows, is_tuned in ((24, True), (12, False)):
            for shape in ((rows, 32), (4, rows // 4, 32), (2, 2, rows // 4, 32), (1, rows, 32)):
                x = numpy.random.default_rng(1).standard_normal(shape, numpy.float32)
                for dims in ({}, {"rows": rows, "cols": 32}):
                    with self.subTest(shape=shape, dims=dims):
                        made = softmax(x, **dims)
                        self.assertEqual((made.shape, made.dtype), (shape, numpy.float32))
                        numpy.testing.assert_allclose(made, reference(x), rtol=1e-5)
                        out = numpy.empty(shape, numpy.float32)
                        self.assertIs(softmax(x, out=out, **dims), out)
                        numpy.testing.assert_allclose(out, reference(x), rtol=1e-5)
            self.assertEqual(softmax.notes == (), is_tuned, softmax.notes)
        x = numpy.random.default_rng(1).standard_normal((4, 6, 32), numpy.float32).swapaxes(0, 1)
        numpy.testing.assert_allclose(softmax(x), reference(x), rtol=1e-5)
        self.assertIn("more axes than the kernel's is not contiguous", softmax.notes[-1])
        with self.assertRaisesRegex(ValueError, "rows is 24 by axis 0 of x, and 7 as it was given by name"):
            softmax(numpy.zeros((4, 6, 32), numpy.float32), rows=7)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_axes_that_are_not_plainly_rows_are_refused(self):
        import numpy

        def zeros(*shape):
            return numpy.zeros(shape, numpy.float32)

        norm = tunectl.kernel("rmsnorm_backward", fallback=lambda *all: None)  # dweight is a sum over all rows
        loss = tunectl.kernel("cross_entropy", fallback=lambda *all: None, gradient=0, smoothing=0)
        product = tunectl.kernel("gemm", fallback=lambda *all: None, transpose_a=1, transpose_b=1, epilogue=0, fast_accum=0,
                                 scalars={"alpha": 1})
        for call in (lambda: norm(zeros(2, 3, 8), zeros(8), zeros(2, 3, 8), zeros(2, 3)),
                     lambda: loss(zeros(2, 3, 8), numpy.zeros(6, numpy.int64), zeros(6)),
                     lambda: product(zeros(2, 3, 8).astype(numpy.float16), zeros(4, 6).astype(numpy.float16),
                                     zeros(4).astype(numpy.float16), zeros(1, 1).astype(numpy.float16), zeros(1), zeros(1))):
            with self.assertRaisesRegex(ValueError, r"axes .* and which of them are one is not plain: give .*\.reshape"):
                call()
        rope = tunectl.kernel("rope", fallback=lambda *all: None, interleaved=0, backward=0)
        with self.assertRaisesRegex(ValueError, "q has the 5 axes"):
            rope(zeros(2, 8, 1, 2, 16), zeros(2, 8, 1, 1, 16), zeros(8, 8), zeros(8, 8))

    def test_scalars_that_the_call_must_give(self):
        zeros = [Tensor(n) for n in (8, 1, 8, 8, 8)]
        for scalars, missing in (({}, "rate, decay, beta1"), ({"rate": 1e-3, "decay": 0.1, "beta1": 0.9, "beta2": 0.95,
                                                              "correction1": 1, "correction2": 1}, "epsilon")):
            for made in (tunectl.kernel("adamw", fallback=lambda *all, **more: None, master=0, scalars=scalars),
                         tunectl.kernel("adamw", fallback=None, master=0, scalars=scalars)):
                with self.assertRaisesRegex(ValueError, f"adamw: the call leaves out {missing}.*give scalars="):
                    made(*zeros)
        half = [Tensor(*shape) for shape in ((8, 8), (8, 8), (8,), (1, 1), (1,), (1,))]
        os.environ.update(TUNE_STATE_DIR=str(self.path / "none"), TUNE_ADDRESS=f"unix:{self.path}/none.sock")
        tunectl.open()
        with self.assertRaisesRegex(ValueError, "gemm: the call leaves out alpha"):
            tunectl.kernel("gemm", fallback=lambda *all: "product", m=8, k=8)(*half)
        self.assertEqual(tunectl.kernel("gemm", fallback=lambda *all, alpha: alpha, m=8, k=8)(*half, scalars={"alpha": 2}), 2)

    def test_the_specs_scalars_are_told(self):
        self.check_saxpy(tunectl.kernel("saxpy", fallback=saxpy_of), 4096)
        self.assertEqual([line for line in self.said if "the spec's a=2.5" in line], self.said)
        self.assertEqual(len(self.said), 1)
        self.said.clear()
        given = tunectl.kernel("saxpy", fallback=lambda x, y, a: saxpy_of(x, y), scalars={"a": 2.5})
        self.check_saxpy(given, 4096)
        self.assertEqual(self.said, [])

    def test_outputs_are_filled_by_what_fits_alone(self):
        x = drawn(self.UNTUNED)
        for fallback, why in ((lambda x, y: (), "out= has 1 arrays, and the fallback gives 0"),
                              (lambda x, y: (saxpy_of(x, y), x), "out= has 1 arrays, and the fallback gives 2"),
                              (lambda x, y: None, "gives None for array 0"),
                              (lambda x, y: Tensor(1), r"has the axes \[5000\], and the fallback gives \[1\]")):
            with self.subTest(why), self.assertRaisesRegex(ValueError, why):
                tunectl.kernel("saxpy", fallback=fallback)(x, x, out=Tensor(self.UNTUNED))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_what_a_fallback_gives_has_the_kernels_shapes_and_dtypes(self):
        import numpy

        x = numpy.ones(self.UNTUNED, numpy.float32)
        for fallback, why in ((lambda x, y: (x, y, x), "saxpy has 1 outputs, and the fallback gives 3"),
                              (lambda x, y: x[None], r"output 0 has the axes \[5000\], and the fallback gives \[1, 5000\]"),
                              (lambda x, y: x[:7], r"output 0 has the axes \[5000\], and the fallback gives \[7\]"),
                              (lambda x, y: x.astype(numpy.float64), "output 0 is f32, and the fallback gives f64")):
            with self.subTest(why), self.assertRaisesRegex(ValueError, why):
                tunectl.kernel("saxpy", fallback=fallback)(x, x)
        self.assertIs(tunectl.kernel("saxpy", fallback=lambda x, y: (x,))(x, x), x)
        self.assertIsNone(tunectl.kernel("saxpy", fallback=lambda x, y: None)(x, x))
        rows = numpy.ones((2, 3, 5), numpy.float32)
        self.assertIs(tunectl.kernel("softmax", fallback=lambda x: x)(rows).base, rows)
        with self.assertRaisesRegex(ValueError, r"output 0 has the axes \[2, 3, 5\], and the fallback gives \[6, 5\]"):
            softmax = tunectl.kernel("softmax", fallback=lambda x: x.reshape(6, 5))
            softmax(rows.swapaxes(0, 1).copy().swapaxes(0, 1))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_arrays_to_write_to(self):
        import numpy

        for n in (self.TUNED, self.UNTUNED):
            saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: 2.5 * x + y)
            x, both = numpy.ones(n, numpy.float32), numpy.zeros(2 * n, numpy.float32)
            fixed = numpy.zeros(n, numpy.float32)
            fixed.flags.writeable = False
            for y, out, why in ((x, x, "'out' lies where 'x' does: give another as out="),
                                (both[:n], both[n - 1:-1], "'out' lies where 'y' does: give another as out="),
                                (x, fixed, "the kernel writes to 'out', which is read-only: give a writable array")):
                with self.subTest(why, n=n), self.assertRaisesRegex(ValueError, why):
                    saxpy(x, y, out=out)
            numpy.testing.assert_allclose(saxpy(both[:n], x, out=both[n:]), 1)
            numpy.testing.assert_allclose(saxpy(both[::2], x, out=both[1::2]), 2.5 * both[::2] + 1)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_arrays_of_another_kind_run_the_fallback(self):
        import numpy

        for n in (self.TUNED, self.UNTUNED):
            matrix = numpy.ones((1, n), numpy.float32).view(numpy.matrix)
            saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: 2.5 * x + y, n=n)
            made = saxpy(matrix, matrix, out=numpy.zeros((1, n), numpy.float32))
            self.assertEqual(made[0, 0], 3.5)
        rows = numpy.ones((2, 8), numpy.float32).view(numpy.matrix)
        self.assertIs(type(tunectl.kernel("softmax", fallback=lambda x: x)(rows)), numpy.matrix)
        tuned = tunectl.kernel("saxpy", fallback=lambda x, y: x)
        kind = numpy.ones(self.TUNED, numpy.float32).view(type("Kind", (numpy.ndarray,), {}))
        self.assertIs(tuned(kind, kind), kind)
        self.assertIn("x is a Kind, a kind of array with operations of its own", tuned.notes[0])
        with tempfile.TemporaryFile() as file:
            mapped = numpy.memmap(file, numpy.float32, "w+", shape=(self.TUNED,))
            self.assertIs(type(tunectl.kernel("saxpy", fallback=None)(mapped, mapped)), numpy.ndarray)

    def test_a_binary_of_another_source_is_not_launched(self):
        exported = self.path / "away/tuned.json"
        exported.parent.mkdir()
        self.tunectl("snapshot", "export", exported, "--artifacts")
        whole = exported.read_text()
        for device in (None, "cpu:Some Other Processor"):
            told = json.loads(whole)
            for kernel in told["kernels"]:
                if kernel["name"] == "saxpy":
                    kernel["hash"] = "f" * 64
            for record in told["records"]:
                if record["kernel"] == "saxpy" and device:
                    record["hard"]["device"] = device
            exported.write_text(json.dumps(told))
            tunectl.open(exported)
            called = []
            saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: called.append(1) or saxpy_of(x, y))
            self.check_saxpy(saxpy, 4096)
            self.assertEqual((len(called), len(saxpy.notes)), (1, 1), saxpy.notes)
        self.assertRegex(saxpy.notes[0], "another source|source differs|no binary")

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_a_note_says_what_is_wrong_with_an_array(self):
        import numpy

        x = numpy.ones(4096, numpy.float32)
        for bad, why in ((numpy.ones(8192, numpy.float32)[::2], "x is not contiguous"),
                         (x.astype(">f4"), "x has another byte order|not written|x is >f4")):
            saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: x)
            self.assertIs(saxpy(bad, x), bad)
            self.assertRegex(saxpy.notes[0], why)
            self.assertEqual(len(saxpy.notes), 1)


class Alignment(KernelTest):
    def test_arrays_that_are_not_aligned_are_copied(self):
        add = tunectl.kernel("wide", fallback=None)
        x, y = drawn(1024).values, drawn(1024, seed=2).values
        for shift in (0, 4, 16, 32, 48):
            for out_shift in (0, 4, 32):
                with self.subTest(shift=shift, out=out_shift):
                    inputs = [Tensor(1024, values=values, shift=shift) for values in (x, y)]
                    out = Tensor(1024, shift=out_shift)
                    add(*inputs, out=out)
                    self.assert_close(out.values, [a + b for a, b in zip(x, y)])
                    self.assertEqual([list(one.values) for one in inputs], [list(x), list(y)], "what is read stays")

if __name__ == "__main__":
    unittest.main()
