# SPDX-License-Identifier: Apache-2.0
"""Kernels that are defined in Python: the textproto that they become, and what a daemon makes of it."""
import functools
import importlib.util
import os
import pathlib
import pickle
import sys
import tempfile
import unittest
import unittest.mock

import daemon_kit
import kit
import tunectl
from tunectl import _definition, _function_source

HAS_NUMPY = bool(importlib.util.find_spec("numpy"))
SAXPY = pathlib.Path(daemon_kit.SAXPY).parent
FACTOR = 3.0
SCALE = """
__global__ void scale(const float* x, float* y, int n) {
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS) y[i] = 3.0f * x[i];
}
"""


def tripled(values):
    return values * FACTOR


def scale_reference(x):
    return tripled(x)


def tripled_array(x):
    return x * x.dtype.type(FACTOR)


def scale(**more):
    return tunectl.Kernel("scale", **{
        "source": SCALE, "dtypes": ["f32"], "dims": {"n": {"default_value": 4096, "min": 1}},
        "params": {"THREADS": [128, 64, 256]}, "grid": "ceil_div(n, THREADS)", "block": "THREADS",
        "args": {"x": {"role": "input", "dtype": "f32", "shape": "n"}, "y": {"role": "output", "dtype": "f32", "shape": "n"},
                 "n": {"dtype": "i32", "value": "n"}},
        "reference": scale_reference, **more})


def saxpy():
    """docs/examples/saxpy, in Python."""
    vector = {"dtype": "f32", "shape": "n"}
    return tunectl.Kernel(
        "saxpy", summary="out = a * x + y", source=SAXPY / "saxpy.cu", dtypes=["f32"],
        dims={"n": {"default_value": 16777216, "min": 1, "doc": "elements", "on": {"cpu": 1048576}}},
        params={"THREADS": {"values": "pow2(64, 1024)", "default_value": 256, "doc": "threads per block"},
                "ITEMS": {"values": [1, 2, 4, 8], "doc": "elements each thread computes"}},
        constraints=[{"expression": "THREADS * ITEMS <= 4096", "doc": "keep blocks small enough to balance"}],
        args={"x": {**vector, "role": "input"}, "y": {**vector, "role": "input"}, "out": {**vector, "role": "output"},
              "a": {"dtype": "f32", "value": 2.5}, "n": {"dtype": "i64", "value": "n"}},
        grid="ceil_div(n, THREADS * ITEMS)", block="THREADS", work={"flops": "2 * n", "bytes": "3 * 4 * n", "peak": "f32"},
        reference={"entry": "saxpy_reference", "grid": "ceil_div(n, 256)", "block": 256},
        tolerances=[{"dtype": "f32", "rtol": 1e-6, "atol": 1e-6}])


class Definitions(kit.PackageTest):
    def lines(self, **more):
        """Of the spec, without its head."""
        return tunectl.Kernel("k", **more).textproto().splitlines()[2:]

    def test_values_become_expressions_and_enums(self):
        lines = self.lines(
            entry="run<{T}>", language="cuda", dtypes=["f32", "bf16"], targets=["sm_*"],
            dims={"n": 4096, "mode": {"default_value": 0, "values": [0, 1], "match": "exact", "on": {"cpu": 1}}},
            params={"PATH": ["it's", "mma"], "T": range(32, 65, 32), "FAST": [True, False], "U": {"values": "[n]", "default_value": "n"},
                    "W": {"values": [1, 2], "default_value": 2, "on": {"cpu": ["a"]}}},
            lets={"bytes": "T * 4"}, defines={"SIZE": 8}, constraints=["T <= n"],
            args={"x": {"role": "inout", "dtype": "dtype", "shape": ["n", 2], "fill": "iota"},
                  "map": {"tensor_map": {"buffer": "x", "dims": [2, "n"], "box": [64]}}, "f": {"dtype": "f32", "value": 0.5},
                  "c": {"symbol": {"dtype": "f32", "shape": 3, "fill": {"kind": "NORMAL", "high": 2}}}},
            grid=["n", 1], block=128, cluster=2, shared_bytes="bytes", launch={"cooperative": True},
            checks=[{"dims": {"n": 3}, "dtype": "f32"}])
        self.assertEqual(lines, [
            'name: "k"', "language: CUDA", 'entry: "run<{T}>"', 'dtypes: "f32"', 'dtypes: "bf16"', 'targets: "sm_*"',
            'dims { name: "n" default_value: 4096 }',
            'dims { name: "mode" default_value: 0 values: 0 values: 1 match: DIM_MATCH_EXACT on { target: "cpu" default_value: 1 } }',
            r'''params { name: "PATH" values: "['it\\'s', 'mma']" default_value: "'it\\'s'" }''',
            'params { name: "T" values: "[32, 64]" default_value: "32" }',
            'params { name: "FAST" values: "[True, False]" default_value: "True" }',
            'params { name: "U" values: "[n]" default_value: "n" }',
            '''params { name: "W" values: "[1, 2]" default_value: "2" on { target: "cpu" values: "['a']" default_value: "'a'" } }''',
            'lets { name: "bytes" value: "T * 4" }', 'defines { name: "SIZE" value: "8" }',
            'constraints { expression: "T <= n" }',
            'args { name: "x" buffer { role: ROLE_INOUT dtype: "dtype" shape: "n" shape: "2" fill { kind: IOTA } } }',
            'args { name: "map" tensor_map { buffer: "x" dims: "2" dims: "n" box: "64" } }',
            'args { name: "f" scalar { dtype: "f32" value: "0.5" } }',
            'args { name: "c" symbol { dtype: "f32" shape: "3" fill { kind: NORMAL high: 2 } } }',
            'launch { cooperative: true grid: "n" grid: "1" block: "128" cluster: "2" shared_bytes: "bytes" }',
            'checks { dims { key: "n" value: 3 } dtype: "f32" }'])

    def test_texts_are_escaped(self):
        self.assertIn(r'summary: "a \"b\" \\ \n\011é"', self.lines(summary='a "b" \\ \n\té'))

    def test_files_are_written_beside_the_spec(self):
        (self.path / "own.cuh").write_text("own")
        kernel = scale(headers=[self.path / "own.cuh", "<kernels/rows.cuh>"],
                       steps=[{"entry": "scale", "source": "__global__ void scale() {}\n", "grid": 1, "block": 1}])
        text = kernel.textproto(self.path / "out")
        self.assertEqual({path.name for path in (self.path / "out").iterdir()},
                         {"scale.textproto", "scale.cu", "own.cuh", "scale_reference.py", "scale_step0.cu"})
        self.assertEqual((self.path / "out/scale.textproto").read_text(), text)
        self.assertEqual((self.path / "out/scale.cu").read_text(), SCALE)
        self.assertIn('headers: "own.cuh"\nheaders: "<kernels/rows.cuh>"\n', text)
        self.assertIn('steps { entry: "scale" source: "scale_step0.cu" launch { grid: "1" block: "1" } }', text)
        self.assertNotIn('\nentry: "scale"\n', text)
        self.assertEqual(repr(kernel), text)
        self.assertIn('headers: "own.cuh"', scale(headers={"own.cuh": "own"}).textproto())

    @unittest.skipUnless(HAS_NUMPY, "NumPy is not installed")
    def test_arrays_become_files(self):
        import numpy

        kernel = scale(args={"x": {"role": "input", "dtype": "f32", "shape": 2, "file": numpy.float32([1, 2])}})
        kernel.textproto(self.path)
        self.assertIn('file: "x_file.npy"', kernel.textproto())
        self.assertEqual(list(numpy.load(self.path / "x_file.npy")), [1, 2])

    def test_mistakes_that_no_spec_could_have(self):
        for more, error, why in (
                ({"args": {"x": "f32"}}, TypeError, "arg 'x' is a mapping of the fields"),
                ({"dims": "n"}, TypeError, "dims is a mapping by name"), ({"sumary": "s"}, TypeError, "'sumary'"),
                ({"work": {"flops": object()}, "dtypes": [object()]}, TypeError, "is no value of a spec"),
                ({"source": "missing.cu"}, FileNotFoundError, "missing.cu"),
                ({"headers": {"scale.cu": "other"}}, ValueError, "two files of kernel scale are called 'scale.cu'"),
                ({"reference": lambda x: x}, ValueError, "define it by `def`")):
            with self.subTest(why), self.assertRaisesRegex(error, why):
                scale(**more)
        with self.assertRaisesRegex(ValueError, "'../k' is no name of a kernel"):
            tunectl.Kernel("../k")

    def test_a_file_goes_away_after_it_was_sent(self):
        with _definition.on_disk(scale()) as spec:
            self.assertTrue(os.path.exists(spec))
        self.assertFalse(os.path.exists(spec))
        with _definition.on_disk("softmax") as spec:
            self.assertEqual(spec, "softmax")


class Sources(unittest.TestCase):
    def test_a_module_has_what_the_function_needs(self):
        text = _function_source.module_of(scale_reference)
        self.assertEqual(text, "FACTOR = float('3.0')\n\n\ndef tripled(values):\n    return values * FACTOR\n\n\n"
                               "def scale_reference(x):\n    return tripled(x)\n")

    def test_modules_and_their_members_are_imported(self):
        def uses(x: "pathlib.Path", path=pathlib.Path):
            def inner():
                return os.path.join(str(path), tempfile.gettempdir(), str(len(x)))
            return inner()

        text = _function_source.module_of(uses)
        self.assertEqual(sorted(text.splitlines()[:3]), ["import os as os", "import pathlib as pathlib", "import tempfile as tempfile"])
        made = {}
        exec(text, made)
        self.assertIn("tmp", made["uses"]("abc", "/"))

    def test_attributes_and_locals_are_no_globals(self):
        def uses(x, UNKNOWN=1):
            return x.SAXPY + UNKNOWN

        self.assertEqual(_function_source.module_of(uses), "def uses(x, UNKNOWN=1):\n    return x.SAXPY + UNKNOWN\n")

    def test_aliases_and_infinities(self):
        def uses(x):
            return max(LOWEST, renamed(x))

        with unittest.mock.patch.dict(globals(), LOWEST=float("-inf"), renamed=tripled):
            text = _function_source.module_of(uses)
        made = {}
        exec(text, made)
        self.assertEqual(made["uses"](2), 6)

    def test_a_decorator_is_copied_and_a_call_is_refused(self):
        @functools.lru_cache
        def decorated(x):
            return x

        self.assertIn("import functools as functools\n\n\n@functools.lru_cache\ndef decorated", _function_source.module_of(decorated))
        with self.assertRaisesRegex(ValueError, "tripled was made of tripled by a call.* decorator"):
            _function_source.module_of(functools.lru_cache(tripled))

    def test_what_cannot_be_written_down_is_named(self):
        local = 3

        def closes(x):
            return x + local

        def uses(x):
            return UNKNOWN + x

        for function, why in ((closes, r"uses variables of the function around it \(local\)"),
                              (uses, "uses uses UNKNOWN, a object of the notebook, which no other process has")):
            with self.subTest(why), unittest.mock.patch.dict(globals(), UNKNOWN=object()), \
                    self.assertRaisesRegex(ValueError, why):
                _function_source.module_of(function)


UNKNOWN = object()


@daemon_kit.NEEDS_GRPC
class Kernels(daemon_kit.DaemonTest):
    @classmethod
    def setUpClass(cls):
        with unittest.mock.patch.dict(os.environ, TUNE_NUMPY_PYTHON=sys.executable):
            super().setUpClass()

    def test_it_is_the_kernel_of_its_textproto(self):
        ours, theirs = (tunectl.submit(kernel, n=777, device="cpu", trials=1) for kernel in (saxpy(), daemon_kit.SAXPY))
        self.assertEqual(ours["kernel_hash"], theirs["kernel_hash"])
        for sweep in (ours, theirs):
            tunectl.cancel(sweep)

    @unittest.skipUnless(HAS_NUMPY, "NumPy is not installed")
    def test_it_is_swept_asked_for_compared_and_launched(self):
        kernel = scale()
        done = tunectl.wait(tunectl.submit(kernel, n=3000, device="cpu", trials=2), timeout=240)
        self.assertEqual((done["kernel_name"], done["progress"]["done"]), ("scale", 2), done)
        self.assertIsNotNone(done["result"], done)
        tunectl.open()
        self.assertEqual(tunectl.best("scale", n=3000, device="cpu").match, "exact")
        self.check_another_source(kernel)
        row = tunectl.compare(kernel, {"numpy": tripled_array}, n=3000, device="cpu", rounds=2, leg_seconds=0.002, default=True,
                              warm=True, timeout=240, arrays="numpy")
        self.assertEqual([(one["kernel"], one["agreement"]) for one in row.flat()], [("scale", "ok"), ("numpy", "ok")])

    def check_another_source(self, kernel):
        """The record of a definition is not launched for another one of its name."""
        import numpy

        x = numpy.ones(3000, numpy.float32)
        for definition, is_other in ((kernel, False), (scale(), False), (scale(source=SCALE.replace("3.0f", "4.0f")), True)):
            fast = tunectl.kernel(definition, fallback=tripled_array)
            self.assertEqual(fast(x)[0], 3)
            self.assertEqual(any("another source of scale than this tunectl.Kernel: sweep it" in note for note in fast.notes),
                             is_other, fast.notes)
            self.assertEqual(pickle.loads(pickle.dumps(fast)).definition.textproto(), definition.textproto())

    def test_a_mistake_is_said_with_its_line(self):
        for more, why in (({"constraints": ["THREADS && 1"]},
                           r'scale.textproto:9:15: constraints\[0\].expression: .*\nconstraints { expression: "THREADS && 1" }$'),
                          ({"dims": {"n": {"default": 3}}}, r'has no field named "default".*\ndims { name: "n" default: 3 }$'),
                          ({"args": {}}, "args")):
            with self.subTest(why), self.assertRaisesRegex(tunectl.DaemonError, f"(?s){why}") as caught:
                tunectl.submit(scale(**more), device="cpu")
            self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
        with self.assertRaisesRegex(tunectl.DaemonError, r"(?s)\nconstraints { expression: \"THREADS && 1\" }$"):
            tunectl.compare([scale(constraints=["THREADS && 1"]), "softmax"], {}, device="cpu")


if __name__ == "__main__":
    unittest.main()
