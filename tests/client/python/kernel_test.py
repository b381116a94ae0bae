# SPDX-License-Identifier: Apache-2.0
"""Tuned binaries as functions: swept by a real daemon on the CPU device, launched in this process."""
import copy
import ctypes
import importlib.util
import json
import os
import pickle
import shutil
import signal
import sys
import threading
import unittest

import kit
import tunectl
from daemon_kit import NEEDS_GRPC, SAXPY
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
        other = tunectl.kernel("saxpy", fallback=lambda x, y, a: (a, len(x.values)))
        self.assertEqual(other(drawn(10), drawn(10), scalars={"a": 7.0}), (7.0, 10))

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
        rope = tunectl.kernel("rope", fallback=None)
        arrays = (drawn(8, 1, 2, 16), drawn(8, 1, 1, 16), drawn(8, 8), drawn(8, 8))
        with self.assertRaisesRegex(ValueError, r"give interleaved=\.\.\., backward=\.\.\. to tunectl.kernel"):
            rope(*arrays)

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


class Fallbacks(KernelTest):
    def assert_falls_back(self, why, n=4096, **tensor):
        calls = []

        def fallback(x, y):
            calls.append(1)
            return saxpy_of(x, y)

        saxpy = tunectl.kernel("saxpy", fallback=fallback)
        x, y, out = Tensor(n, values=[1] * n, **tensor), drawn(n), Tensor(n)
        for _ in range(3):
            saxpy(x, y, out=out)
        self.assert_close(out.values, saxpy_of(x, y).values)
        self.assertEqual(len(calls), 3)
        self.assertEqual(len(saxpy.notes), 1, saxpy.notes)
        self.assertRegex(saxpy.notes[0], why)
        self.assertEqual(len([line for line in self.said if "fallback" in line]), 1, self.said)
        with self.assertRaisesRegex(LookupError, "no fallback="):
            tunectl.kernel("saxpy", fallback=None)(x, y, out=out)

    def artifacts(self):
        return sorted((self.home / "state/snapshots/artifacts").iterdir())

    def test_sizes_that_were_not_tuned(self):
        self.assert_falls_back("no binary for n=5000 f32: nearest on", n=5000)

    def test_another_dtype(self):
        self.assert_falls_back("x is f16, and the kernel takes f32", dtype="torch.float16")

    def test_a_host_without_anything(self):
        os.environ["TUNE_STATE_DIR"] = str(self.path / "none")
        os.environ["TUNE_ADDRESS"] = f"unix:{self.path}/none.sock"
        self.assert_falls_back("there is no snapshot")

    def test_a_host_without_the_launcher(self):
        from tunectl import _launch_cpu

        os.environ["TUNE_LAUNCH_LIBRARY"] = str(self.path / "none.so")
        _launch_cpu._library.cache_clear()
        self.addCleanup(_launch_cpu._library.cache_clear)
        self.assert_falls_back("the CPU device's launcher is not here")

    def copied_state(self):
        """The daemon's files as another host has them: there is no daemon."""
        shutil.copytree(self.home / "state/snapshots", self.path / "copy")
        os.environ["TUNE_SNAPSHOT_DIR"] = str(self.path / "copy")
        os.environ["TUNE_ADDRESS"] = f"unix:{self.path}/none.sock"
        return self.path / "copy/artifacts"

    def test_an_artifact_that_is_gone_damaged_or_cut(self):
        folder = self.copied_state()
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))
        for what, damage in (("are sha256", lambda data: data[:-1] + b"x"), ("are sha256", lambda data: data[:100]),
                             ("are sha256", lambda data: b""), ("No such file", None)):
            with self.subTest(what):
                for file in folder.iterdir():
                    if damage is None:
                        file.unlink()
                    else:
                        file.write_bytes(damage(file.read_bytes()))
                self.said.clear()
                self.assert_falls_back(what)

    def test_a_folder_that_others_may_write_is_not_trusted(self):
        folder = self.copied_state()
        folder.chmod(0o777)
        self.assert_falls_back("others may write")

    def test_what_is_no_artifact_does_no_harm(self):
        from tunectl import _artifact

        data = self.artifacts()[0].read_bytes()
        line, _, rest = data.partition(b"\n")
        facts = json.loads(line)
        step = facts["steps"][0]
        for change in ({"version": 2}, {"steps": []}, {"steps": [7]}, {"binary_bytes": [1]}, {"binary_bytes": "x"},
                       {"steps": [{**step, "unit": 9}]}, {"steps": [{**step, "grid": [1, 1]}]},
                       {"steps": [{**step, "grid": [-1, 1, 1]}]}, {"steps": [{**step, "args": [{"kind": "x"}]}]},
                       {"steps": [{**step, "args": [[]]}]}, {"symbols": [{}]}, {"dims": None}, {"format": "x"}):
            with self.subTest(change):
                bad = json.dumps({**facts, **change}).encode() + b"\n" + rest
                with self.assertRaises(_artifact.ArtifactError):
                    _artifact.parse(bad, kit.digest_of(bad))
        for bad in (b"", b"\n", b"{}\n", b"[]\n", rest):
            with self.assertRaises(_artifact.ArtifactError):
                _artifact.parse(bad, kit.digest_of(bad))


class Transport(KernelTest):
    def test_a_record_names_its_artifact(self):
        answer = tunectl.best("saxpy", n=4096, device="cpu")
        file = self.home / "state/snapshots/artifacts" / (answer.artifact.replace(":", "-") + ".artifact")
        data = file.read_bytes()
        self.assertEqual(kit.digest_of(data), answer.artifact)
        facts = json.loads(data.partition(b"\n")[0])
        self.assertEqual((facts["kernel"], facts["dims"], facts["config"]), ("saxpy", {"n": 4096}, dict(answer)))
        threads = int(facts["config"]["THREADS"])
        self.assertEqual(facts["steps"][0]["block"], [threads, 1, 1])
        self.assertEqual([arg["name"] for arg in facts["steps"][0]["args"]], ["x", "y", "out", "a", "n"])
        self.assertEqual(file.stat().st_mode & 0o777, 0o644)

    @NEEDS_GRPC
    def test_a_host_without_the_files_asks_the_daemon(self):
        os.environ["TUNE_STATE_DIR"] = str(self.path / "elsewhere")
        tunectl.open(deadline=30)
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))
        self.assertEqual(len(list((self.path / "cache/artifacts").iterdir())), 1)
        os.environ["TUNE_ADDRESS"] = f"unix:{self.path}/none.sock"
        os.environ["TUNE_SNAPSHOT"] = tunectl.digest()
        tunectl.open(deadline=0)
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))
        self.assertNotIn("grpc", sys.modules)

    def test_a_host_that_reaches_no_daemon(self):
        exported = self.path / "away/tuned.json"
        exported.parent.mkdir()
        self.tunectl("snapshot", "export", exported, "--artifacts")
        self.assertGreaterEqual(len(list((self.path / "away/artifacts").iterdir())), 2)
        os.environ.update(TUNE_STATE_DIR=str(self.path / "none"), TUNE_ADDRESS=f"unix:{self.path}/none.sock",
                          TUNE_SNAPSHOT=str(exported))
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))

    def test_an_import_brings_what_lies_beside(self):
        exported = self.path / "away/tuned.json"
        exported.parent.mkdir()
        done = self.tunectl("snapshot", "export", exported, "--artifacts")
        self.assertRegex(done.stderr, r"with \d+ of the \d+ artifacts that its records name")
        none = self.tunectl("snapshot", "export", exported, "--artifacts", "--kernel", "nobody")
        self.assertIn("without artifacts: none of its records names one", none.stderr)
        kept = self.home / "state/snapshots/artifacts"
        names = sorted(file.name for file in kept.iterdir())
        for file in kept.iterdir():
            file.unlink()
        beside = sorted(file.name for file in (self.path / "away/artifacts").iterdir())
        done = self.tunectl("snapshot", "import", exported)
        self.assertRegex(done.stderr, rf"with {len(beside)} of the \d+ artifacts that it names")
        self.assertEqual(sorted(file.name for file in kept.iterdir()), beside)
        self.assertLessEqual(set(beside), set(names))
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))

        damaged = self.path / "away/artifacts" / beside[0]
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-1] + b"x")
        done = self.tunectl("snapshot", "import", exported, ok=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("this is no artifact of version 1: its bytes are", done.stderr)
        self.assertEqual((kept / beside[0]).read_bytes(), whole, "what is there stays")

    def as_of_another_processor(self, change):
        """The daemon's files as if another processor had written them. `change`: of an artifact's facts."""
        copy = self.path / "another"
        shutil.copytree(self.home / "state/snapshots", copy)
        snapshot = json.loads((copy / (self.newest().replace(":", "-") + ".json")).read_bytes())
        for record in snapshot["records"]:
            record["hard"]["device"] = "cpu:Another"
            file = copy / "artifacts" / (record.get("artifact", "").replace(":", "-") + ".artifact")
            if file.exists():
                line, _, binaries = file.read_bytes().partition(b"\n")
                facts = {**json.loads(line), "device": "cpu:Another"}
                change(facts)
                data = json.dumps(facts).encode() + b"\n" + binaries
                record["artifact"] = kit.digest_of(data)
                (copy / "artifacts" / (record["artifact"].replace(":", "-") + ".artifact")).write_bytes(data)
        (self.path / "another.json").write_text(json.dumps(snapshot))
        shutil.move(copy / "artifacts", self.path / "artifacts")
        os.environ.update(TUNE_SNAPSHOT=str(self.path / "another.json"), TUNE_ADDRESS=f"unix:{self.path}/none.sock")
        tunectl.open(deadline=0)
        return tunectl.kernel("saxpy", fallback=saxpy_of)

    def test_another_processor_with_the_same_instructions_will_do(self):
        saxpy = self.as_of_another_processor(lambda facts: self.assertTrue(facts["processor_features"]))
        self.assertEqual(tunectl.best("saxpy", n=4096, device="cpu").match, "other_device")
        self.check_saxpy(saxpy)
        self.assertEqual(saxpy.notes, ())

    def test_a_processor_that_lacks_instructions_runs_the_fallback(self):
        saxpy = self.as_of_another_processor(lambda facts: facts["processor_features"].append("avx9000"))
        self.check_saxpy(saxpy)
        self.assertIn("lacks what cpu:Another has and it may use: avx9000", saxpy.notes[0])

    def test_nobody_says_which_instructions(self):
        saxpy = self.as_of_another_processor(lambda facts: facts.pop("processor_features"))
        self.check_saxpy(saxpy)
        self.assertIn("does not say which instructions", saxpy.notes[0])

    def test_the_daemon_gives_out_nothing_damaged(self):
        self.sweep_kernel(SAXPY, n=777)
        tunectl.open()
        artifact = tunectl.best("saxpy", n=777, device="cpu").artifact
        file = self.home / "state/snapshots/artifacts" / (artifact.replace(":", "-") + ".artifact")
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        done = self.tunectl("snapshot", "export", self.path / "tuned.json", "--artifacts")
        self.assertIn("was damaged; sweep its kernel again", done.stderr)
        self.assertFalse(file.exists())


class Explains(KernelTest):
    def test_tunectl_says_what_python_says(self):
        for n in (4096, 5000):
            theirs = json.loads(self.tunectl("explain", "saxpy", "--n", n, "--device", "cpu", "--json").stdout)
            ours = tunectl.explain("saxpy", n=n, device="cpu")
            self.assertEqual([int(one["record_id"]) for one in theirs["candidates"]],
                             [one.record for one in ours.candidates])
            for mine, yours in zip(ours.candidates, theirs["candidates"]):
                self.assertEqual([tuple(map(str, field)) for field in mine.fields],
                                 [tuple(field.get(name, "") for name in mine.fields[0]._fields)
                                  for field in yours["fields"]])
                self.assertEqual((mine.config_is_valid, mine.answers),
                                 (yours.get("config_is_valid", False), yours.get("answers", False)))
        text = self.tunectl("explain", "saxpy", "--n", 5000, "--device", "cpu").stdout
        self.assertIn("answers", text)
        self.assertRegex(text, r"near +n \(nearest\) = 5000  the record's 4096")
        self.assertIn("farther", text)

    def test_what_is_not_there(self):
        self.assertIn("no record", self.tunectl("explain", "attention", "--device", "cpu").stdout)
        done = self.tunectl("explain", "nonsense", ok=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no kernel 'nonsense'", done.stderr)


if __name__ == "__main__":
    unittest.main()
