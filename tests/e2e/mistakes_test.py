# SPDX-License-Identifier: Apache-2.0
"""The mistakes that a newcomer makes, on the CPU device: the first line says what is wrong, and where.
Needs TUNE_BIN."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["TUNE_BIN"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
SAXPY = ROOT / "docs/examples/saxpy"
TIMEOUT_SECONDS = 240

STORE = "if (i < n) out[i] = a * x[i] + y[i];\n  }"
LOOP = f"""#pragma unroll
  for (int item = 0; item < ITEMS; ++item) {{
    const long long i = first + item * THREADS;
    {STORE}
"""
X = 'args { name: "x" buffer { dtype: "f32" shape: "n" role: ROLE_INPUT } }\n'
Y = X.replace('"x"', '"y"')
A = 'args { name: "a" scalar { dtype: "f32" value: "2.5" } }\n'
N = 'args { name: "n" scalar { dtype: "i64" value: "n" } }\n'
# Each thread stores into shared memory and reads what another has stored.
MIRROR = """
  __shared__ float tile[THREADS];
  for (int item = 0; item < ITEMS; ++item) {
    const long long base = first - threadIdx.x + item * THREADS;
    const long long i = base + threadIdx.x;
    const long long other = base + THREADS - 1 - threadIdx.x;
    tile[threadIdx.x] = other < n ? a * x[other] : 0;
    if (i < n) out[i] = tile[THREADS - 1 - threadIdx.x] + y[i];
    __syncthreads();
  }
"""
# The same, but only from threads that start earlier: in their order it is right.
HIDDEN = MIRROR.replace("base + THREADS - 1 - threadIdx.x;", "base + (threadIdx.x + 1) % THREADS;").replace(
    "tile[THREADS - 1 - threadIdx.x]", "(threadIdx.x == 0 ? a * x[i] : tile[threadIdx.x - 1])")


class Mistakes(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="tune-mistakes-")
        self.addCleanup(self.dir.cleanup)
        self.path = pathlib.Path(self.dir.name)
        self.env = {**os.environ, "TUNE_STATE_DIR": str(self.path / "state"),
                    "XDG_RUNTIME_DIR": str(self.path), "NO_COLOR": "1"}
        self.env.pop("TUNE_ADDRESS", None)

    def run_tunectl(self, *arguments):
        return subprocess.run([str(BIN / "tunectl"), *map(str, arguments)], env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)

    def saxpy(self, source=(), spec=()):
        for name, changes in (("saxpy.cu", source), ("saxpy.textproto", spec)):
            text = (SAXPY / name).read_text()
            for old, new in changes:
                self.assertIn(old, text)
                text = text.replace(old, new, 1)
            (self.path / name).write_text(text)
        return self.path / "saxpy.textproto"

    def sweep(self, spec, n=65537, code=4):
        """The first line of what a sweep prints."""
        done = self.run_tunectl("sweep", spec, "--device", "cpu", "--n", n, "--budget", "3", "--fresh")
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}")
        return done.stdout.splitlines()[0]

    def check(self, spec, code=1):
        done = self.run_tunectl("kernel", "check", spec, "--target", "cpu")
        self.assertEqual(done.returncode, code, f"{done.stdout}\n{done.stderr}")
        progress = re.compile(r"compiled|^\w+: \d+ of \d+ configs? tried")  # on a busy host
        lines = [line for line in done.stderr.splitlines() if not progress.search(line)]
        return lines[0] if lines else ""

    def test_the_wrong_order(self):
        spec = self.saxpy(spec=[(A + N, N + A)])
        self.assertRegex(self.check(spec), r"saxpy.cu:\d+: .*arg 4 'n'.*parameter 5 is called 'n'")
        self.assertRegex(self.sweep(spec, code=1), r"saxpy.cu:\d+: arg 4 'n' is a scalar i64")

    def test_the_wrong_order_of_equal_types(self):
        spec = self.saxpy(spec=[(X + Y, Y + X)])
        self.assertRegex(self.check(spec, code=0), r"saxpy.cu:\d+: warning: the order may be wrong: arg 1 'y'")

    def test_the_wrong_type(self):
        spec = self.saxpy(spec=[('"i64" value: "n"', '"i32" value: "n"')])
        self.assertRegex(self.check(spec), r"saxpy.cu:\d+: arg 5 'n' is a scalar i32 .* 'long long n'")
        spec = self.saxpy(spec=[(X, X.replace("f32", "f64"))])
        self.assertRegex(self.sweep(spec, code=1), r"saxpy.cu:\d+: arg 1 'x' is a buffer of f64")

    def test_a_shape_that_is_too_small(self):
        spec = self.saxpy(spec=[(X, X.replace('shape: "n"', 'shape: "n // 2"'))])
        first = self.sweep(spec, code=1)
        self.assertRegex(first, r"the reference read \d+ bytes past the end of buffer 'x' \(131072 bytes\), in block")

    def test_an_output_that_is_too_small(self):
        spec = self.saxpy(spec=[('name: "out" buffer { dtype: "f32" shape: "n"',
                                 'name: "out" buffer { dtype: "f32" shape: "n - 1"')])
        self.assertIn("wrote outside buffer 'out': 8 bytes after it", self.sweep(spec, code=1))

    def test_a_grid_that_is_too_small(self):
        spec = self.saxpy(spec=[('grid: "ceil_div(n, THREADS * ITEMS)"', 'grid: "n // (THREADS * ITEMS)"')])
        self.assertIn("wrong_result: 'out' was never written from element 65536 to its end (1 of 65537 elements): "
                      "is the grid too small?", self.sweep(spec))

    def test_out_of_bounds(self):
        spec = self.saxpy(source=[(STORE, STORE.replace("out[i]", "out[i + 1]"))])
        self.assertIn("wrong_result: wrote outside buffer 'out': 4 bytes after it, the nearest 0 bytes past its end",
                      self.sweep(spec))

    def test_far_out_of_bounds(self):
        spec = self.saxpy(source=[(STORE, STORE.replace("out[i]", "out[i + 100000]"))])
        self.assertRegex(self.sweep(spec), r"faulted: .*the kernel wrote \d+ bytes past the end of buffer 'out' "
                                           r"\(262148 bytes\), in block \(\d+,0,0\), thread")

    def test_a_race(self):
        spec = self.saxpy(source=[(STORE, STORE.replace("out[i]", "out[i / 2 * 2]"))])
        self.assertIn("the result depends on the order in which threads run", self.sweep(spec))

    def test_a_missing_barrier(self):
        for text in (MIRROR, HIDDEN):
            spec = self.saxpy(source=[(LOOP, text)])
            self.assertIn("is a __syncthreads() missing", self.sweep(spec))
            right = text.replace("    if (i < n)", "    __syncthreads();\n    if (i < n)")
            self.sweep(self.saxpy(source=[(LOOP, right)]), code=0)

    def test_a_wrong_reference(self):
        spec = self.saxpy(source=[("static_cast<double>(a) * x[i] + y[i]", "static_cast<double>(a) * x[i] - y[i]")])
        self.assertRegex(self.sweep(spec), r"wrong_result: all 3 configs differ from the reference in the same way, "
                                           r"so it may be the reference that is wrong: out\[\d+\] is")

    def test_a_reference_whose_grid_is_too_small(self):
        spec = self.saxpy(spec=[('launch { grid: "ceil_div(n, 256)"', 'launch { grid: "n // 256"')])
        self.assertIn("the reference leaves 1 of 65537 elements of 'out' unwritten or NaN, the first of them at 65536",
                      self.sweep(spec, code=1))

    def test_too_little_work(self):
        spec = self.saxpy(spec=[('bytes: "3 * 4 * n"', 'bytes: "n"')])
        self.assertRegex(self.check(spec, code=0), r"work: warning: .* bytes are declared, but the outputs alone have")

    def test_too_much_work(self):
        spec = self.saxpy(spec=[('bytes: "3 * 4 * n"', 'bytes: "40000 * n"')])
        self.assertRegex(self.sweep(spec), r"above_roof: .*the kernel does less than its declared work")

    def test_some_configs_fail(self):
        """Those that were right are the result; why the others were not is told as well."""
        source = [(STORE, STORE.replace("out[i] =", "out[i] = (ITEMS == 8) +"))]
        spec = self.saxpy(source=source)
        done = self.run_tunectl("sweep", spec, "--device", "cpu", "--n", 1000)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")
        self.assertRegex(done.stdout, r"failed +\d+ wrong_result\n +\d+ like trial \d+ \(.*ITEMS=8.*\): out\[")

    def test_a_kernel_that_never_ends(self):
        spec = self.saxpy(source=[(STORE, "for (volatile int on = 1; on;) {}\n  }")])
        done = self.run_tunectl("sweep", spec, "--device", "cpu", "--n", 1000, "--budget", "8s")
        self.assertEqual(done.returncode, 4, f"{done.stdout}\n{done.stderr}")
        self.assertRegex(done.stdout, r"THREADS=\d+ ITEMS=\d+ was still running after \d+\.?\d* s. If the kernel does end")

    def test_a_name_that_is_a_spec_beside(self):
        self.saxpy()
        done = subprocess.run([str(BIN / "tunectl"), "sweep", "saxpy"], env=self.env, cwd=self.path,
                              capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("did you mean the spec saxpy.textproto?", done.stderr)

    def test_a_spec_that_was_never_tuned(self):
        spec = SAXPY / "saxpy.textproto"
        for command in ("best", "explain"):
            done = self.run_tunectl(command, spec, "--n", 4096)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stderr, f"tunectl: no record of saxpy yet; tune it: tunectl sweep {spec}\n")
        self.assertIn("no kernel 'saxpy'", self.run_tunectl("best", "saxpy", "--n", 4096).stderr)

    def test_an_output_parameter_that_is_const(self):
        spec = self.saxpy(source=[(" float* out", " const float* out"), (STORE, "(void)i;\n  }")])
        self.assertRegex(self.check(spec), r"'out' is a buffer of f32 .* it is const, and the spec has the kernel write")

    def test_a_seed_below_zero(self):
        done = self.run_tunectl("sweep", SAXPY / "saxpy.textproto", "--seed", "-1")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--seed: '-1' is below 0", done.stderr)

    def test_no_room_for_the_output(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([str(BIN / "tunectl"), "kernel", "list", "--json"], env=self.env, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_SECONDS, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write standard output: No space left on device", done.stderr)

    def test_a_report_in_a_format_that_there_is_not(self):
        self.sweep(self.saxpy(), code=0)
        done = self.run_tunectl("report", "sweep", 1, "--out", self.path / "report.xyz")
        self.assertEqual(done.returncode, 2)
        self.assertIn("ends in no format", done.stderr)
        self.assertFalse((self.path / "report.xyz").exists())


if __name__ == "__main__":
    unittest.main()
