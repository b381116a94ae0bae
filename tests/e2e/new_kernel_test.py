# SPDX-License-Identifier: Apache-2.0
"""Where kernels come from: `tunectl kernel new` and `tunectl import`, on the CPU device. Needs TUNE_BIN."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(os.environ["TUNE_BIN"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
TIMEOUT_SECONDS = 240


class EndToEnd(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="tune-new-")
        self.addCleanup(self.dir.cleanup)
        self.path = pathlib.Path(self.dir.name)
        self.env = {**os.environ, "TUNE_STATE_DIR": str(self.path / "state"),
                    "XDG_RUNTIME_DIR": str(self.path), "NO_COLOR": "1"}
        self.env.pop("TUNE_ADDRESS", None)

    def run_tunectl(self, *arguments, expect=0):
        done = subprocess.run([str(BIN / "tunectl"), *map(str, arguments)], env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
                              cwd=self.path)
        self.assertEqual(done.returncode, expect,
                         f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        return done


class New(EndToEnd):
    def test_a_new_kernel_sweeps_as_it_stands(self):
        done = self.run_tunectl("kernel", "new", "rms-norm")
        self.assertIn("rms-norm/rms-norm.textproto", done.stdout)
        self.run_tunectl("kernel", "check", "rms-norm/rms-norm.textproto", "--target", "cpu", "--all")
        done = self.run_tunectl("sweep", "rms-norm/rms-norm.textproto", "--device", "cpu", "--n", "8192",
                                "--budget", "3")
        self.assertIn("3 ok", done.stdout)

    def test_every_language_has_a_template_that_parses(self):
        for language in sorted(p.name for p in (ROOT / "client/cli/templates").iterdir()):
            with self.subTest(language=language):
                self.run_tunectl("kernel", "new", "k", "--language", language, "--folder", language)
                self.run_tunectl("kernel", "show", f"{language}/k.textproto")
                texts = "".join(p.read_text() for p in (self.path / language).iterdir())
                self.assertNotRegex(texts, "my.kernel")

    def test_what_is_there_is_not_written_over(self):
        self.run_tunectl("kernel", "new", "mine")
        done = self.run_tunectl("kernel", "new", "mine", expect=1)
        self.assertIn("is there already", done.stderr)
        self.assertIn("kernel name", self.run_tunectl("kernel", "new", "No Name", expect=2).stderr)
        self.assertIn("cuda", self.run_tunectl("kernel", "new", "x", "--language", "sql", expect=2).stderr)


VECTOR_ADD = '''
import numpy
from kernel_tuner import tune_kernel

def tune():
    kernel_string = """
    __global__ void vector_add(float *c, const float *a, const float *b, int n) {
        int i = blockIdx.x * block_size_x + threadIdx.x;
        if (i < n) { c[i] = a[i] + b[i]; }
    }
    """
    size = 10000000
    a = numpy.random.randn(size).astype(numpy.float32)
    b = numpy.random.uniform(-1, 1, size).astype(numpy.float32)
    c = numpy.zeros_like(b)
    args = [c, a, b, numpy.int32(size)]
    tune_params = dict()
    tune_params["block_size_x"] = [32 * i for i in range(1, 33)]
    open("marker", "w").write("the script was run")
    tune_kernel("vector_add", kernel_string, size, args, tune_params, answer=[a + b, None, None, None],
                restrictions=[lambda p: p["block_size_x"] % 64 == 0, "block_size_x <= 512"])

if __name__ == "__main__":
    tune()
'''

MATMUL = '''
import os
from collections import OrderedDict
import numpy as np
import kernel_tuner as kt

problem_size = (512, 256)
A = np.random.randn(*problem_size).astype(np.float32)
B = np.random.randn(problem_size[1], problem_size[0]).astype(np.float32)
C = np.zeros((problem_size[1], problem_size[1]), dtype=np.float32)
params = OrderedDict()
params["block_size_x"] = [16 * 2**i for i in range(3)]
params["block_size_y"] = [2**i for i in range(6)]
params["tile"] = [1, 2, 4]
kernel = os.path.join(os.path.dirname(__file__), "matmul.cu")
kt.tune_kernel("matmul", kernel, (problem_size[1], problem_size[1]), [C, A, B, np.int32(512)], params,
               grid_div_x=["block_size_x", "tile"], grid_div_y=["block_size_y"],
               restrictions=["block_size_x * block_size_y <= 256"], answer=[np.dot(B, A), None, None, None],
               atol=1e-3, verbose=True, strategy="random_sample")
'''

MATMUL_CU = '''
#include "matmul.h"
__global__ void matmul(float *C, const float *A, const float *B, int k) {
  int y = blockIdx.y * block_size_y + threadIdx.y;
  for (int t = 0; t < tile; ++t) {
    int x = (blockIdx.x * tile + t) * block_size_x + threadIdx.x;
    if (x >= WIDTH || y >= WIDTH) continue;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += A[i * WIDTH + x] * B[y * k + i];
    C[y * WIDTH + x] = sum;
  }
}
'''


CONVOLUTION = '''
import numpy
from kernel_tuner import tune_kernel

kernel = """
#define TAPS 9
__constant__ float taps[TAPS];
template <typename T> __global__ void smooth(T *out, T *image, int *order, float *sums, T *seen, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i >= n) return;
  T sum = 0;
  for (int t = 0; t < TAPS; ++t) sum += taps[t] * image[order[i] + t];
  if (i > 0) out[i] = sum;
  sums[i] = sum;
}
"""
size = 4096
image = numpy.random.randn(size + 9).astype(numpy.float32)
out = numpy.copy(image)
order = numpy.array(numpy.random.rand(size) * size).astype(numpy.int32)
sums = numpy.zeros(numpy.amax([size, 1])).astype(numpy.float32)
params = dict(block_size_x=[32, 64])
taps = numpy.absolute(0.1 * numpy.random.randn(4)).astype(numpy.float32)
args = [out, image, order, sums, look_up(), numpy.int32(size)]
tune_kernel("smooth<float>", kernel, size, args, params, cmem_args={"taps": taps})
for n in (1, 2):
    params["block_size_x"] = [n]
    tune_kernel("smooth<float>", kernel, size, args, params, cmem_args={"taps": taps})
'''


RUN_SCRIPT = '''
import sys
import kernel_tuner

class Array(list):  # as far as the import looks at one
    dtype = "float32"
    shape = property(lambda self: (len(self),))
    def reshape(self, *shape): return self
    def tolist(self): return list(self)

size = int(sys.argv[1])
y, x = Array([0.0] * size), Array([float(i % 7) for i in range(size)])
class Size(Array):
    dtype, shape = "int32", ()
    def item(self): return size
print("what a script prints is no answer")
kernel_tuner.tune_kernel("twice", """__global__ void twice(float* y, const float* x, int n) {
  int i = blockIdx.x * block_size_x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}""", size, [y, x, Size()], {"block_size_x": [2 ** int(i) for i in "56"]})
'''


class Import(EndToEnd):
    def test_a_template_its_constant_memory_and_computed_arrays_are_read(self):
        (self.path / "smooth.py").write_text(CONVOLUTION)
        done = self.run_tunectl("import", "smooth.py")
        spec = (self.path / "smooth/smooth.textproto").read_text()
        self.assertIn('entry: "smooth<float>"', spec)
        self.assertIn('name: "taps" symbol { dtype: "f32" shape: "9" fill { kind: UNIFORM high: 0.1 }', spec)
        self.assertIn('values: "[32, 64]"', spec, "the params are those of the call, not of later ones")
        self.assertIn("3 calls of tune_kernel (lines 25, 28 (2 times))", done.stderr)
        self.assertRegex(spec, '"out" buffer .* role: ROLE_INOUT')
        self.assertRegex(spec, '"order" buffer .* fill { kind: UNIFORM high_expression: "size" }')
        self.assertRegex(spec, '"sums" buffer .* role: ROLE_OUTPUT')
        self.assertIn("left to write: arg seen: 'look_up()' was not understood", done.stderr)
        done = self.run_tunectl("kernel", "check", "smooth/smooth.textproto", expect=2)
        self.assertIn("unknown name 'left_to_write'", done.stderr)
        path = self.path / "smooth/smooth.textproto"
        path.write_text(spec.replace("left_to_write", "size"))
        self.run_tunectl("kernel", "check", "smooth/smooth.textproto", "--target", "cpu")

    def test_a_call_becomes_a_kernel_that_sweeps(self):
        (self.path / "vector_add.py").write_text(VECTOR_ADD)
        done = self.run_tunectl("import", "vector_add.py")
        self.assertIn("vector_add/vector_add.textproto", done.stdout)
        self.assertNotIn("left to write", done.stderr)
        self.assertFalse((self.path / "marker").exists(), "the script is read, not run")
        spec = (self.path / "vector_add/vector_add.textproto").read_text()
        self.assertIn('name: "c" buffer { dtype: "f32" shape: "size" role: ROLE_OUTPUT', spec)
        self.assertIn("fill { kind: UNIFORM low: -1 high: 1 }", spec)
        self.assertIn('grid: "ceil_div(size, block_size_x)"', spec)
        count = json.loads(self.run_tunectl("space", "count", "vector_add/vector_add.textproto", "--target",
                                            "cpu", "--json").stdout)
        self.assertEqual(count["valid"], 8)
        done = self.run_tunectl("sweep", "vector_add/vector_add.textproto", "--device", "cpu", "--budget",
                                "2")
        self.assertIn("2 ok", done.stdout)

    def test_files_tiles_and_sizes_are_read(self):
        (self.path / "matmul.py").write_text(MATMUL)
        (self.path / "matmul.cu").write_text(MATMUL_CU)
        (self.path / "matmul.h").write_text("#define WIDTH 256\n")
        done = self.run_tunectl("import", "matmul.py", "--folder", "out")
        self.assertNotIn("left to write", done.stderr)
        spec = (self.path / "out/matmul.textproto").read_text()
        self.assertIn("note: dim problem_size_y: matmul.h:1 has its 256, so a CPU gets no smaller one", done.stderr)
        self.assertIn('headers: "matmul.h"', spec)
        self.assertIn('grid: "ceil_div(problem_size_y, block_size_x * tile)"', spec)
        self.assertIn('shape: "problem_size_x" shape: "problem_size_y"', spec)
        self.run_tunectl("kernel", "check", "out/matmul.textproto", "--target", "cpu")

    def test_what_was_not_understood_is_left_to_write(self):
        script = VECTOR_ADD.replace("args = [c, a, b, numpy.int32(size)]",
                                    "args = [c, load(), b, numpy.int32(size)]")
        (self.path / "s.py").write_text(script)
        done = self.run_tunectl("import", "s.py")
        self.assertIn("left to write: arg a: 'load()' was not understood", done.stderr)
        (self.path / "t.py").write_text(VECTOR_ADD.replace('tune_params["block_size_x"]',
                                                           'tune_params[name()]'))
        done = self.run_tunectl("import", "t.py", "--folder", "t")
        self.assertIn("left to write: params: a name was not understood: (line ", done.stderr)

    def test_what_is_no_such_script_is_exit_code_2(self):
        for name, text, word in (("a.py", "print('hello')", "no call of tune_kernel"),
                                 ("b.py", "def f(:", "no Python 3")):
            with self.subTest(name=name):
                (self.path / name).write_text(text)
                self.assertIn(word, self.run_tunectl("import", name, expect=2).stderr)
        self.assertIn("No such file", self.run_tunectl("import", "none.py", expect=2).stderr)


class ImportScript(unittest.TestCase):
    """What the scripts behind `tunectl import` answer, as they are in the tree."""

    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "s.py")
            path.write_text(text)
            done = subprocess.run([sys.executable, "-c", "import script_import; script_import.main()", str(path), "1"],
                                  env={**os.environ, "PYTHONPATH": str(ROOT / "client/import"), "PYTHONDONTWRITEBYTECODE": "1"},
                                  capture_output=True, text=True, timeout=60, check=True)
        return json.loads(done.stdout)

    def left(self, before):
        """What is left of a script with such lines before its call."""
        return self.read(VECTOR_ADD.replace("    open(", before.replace("\n", "\n    ") + "\n    open("))["left"]

    def test_a_statement_that_is_not_followed_is_left_with_its_line(self):
        for before, left in (
                ("    if look_up():\n    size = 17", "if (line 19): 'look_up()' was not understood; it was taken to hold"),
                ("    while look_up():\n    args.append(1)", "while (line 19): how often it runs is not known; it was left out"),
                ("    try:\n    load()\nexcept OSError:\n    tune_params['x'] = [1]", "except (line 21): what it does was left out")):
            self.assertEqual(self.left(before), [left])
        spoiled = VECTOR_ADD.replace("size = 10000000", "size = 8 if look_up() else 10000000")
        self.assertIn("look_up()", " ".join(self.read(spoiled)["left"]), "neither is chosen")

    def test_what_changes_nothing_or_is_known_is_not_left(self):
        for before in ("    if look_up():\n    print('x')", "    while look_up():\n    pass",
                       "    try:\n    import cupy\nexcept ImportError:\n    cupy = None",
                       "    wanted = None\nif wanted:\n    args = []", "    if not args:\n    args = []",
                       "    wanted = None\nif wanted is not None and look_up():\n    args = []",
                       "    if size is None:\n    args = []"):
            self.assertEqual(self.left(before), [], before)
        after = VECTOR_ADD.replace('\nif __name__', "\n    if look_up():\n        size = 3\n\nif __name__")
        self.assertEqual(self.read(after)["left"], [], "the call has been made by then")

    def test_configs_that_a_condition_decides_are_left(self):
        script = TRITON_SUMS.replace("for w in [2, 4]", "for w in warps()").replace(
            "@triton.autotune", "def warps():\n    if on_hip():\n        return [2, 4]\n    return [8]\n\n"
            "if on_hip():\n    DEVICE = 1\n\n@triton.autotune", 1)
        self.assertEqual([one for one in self.read(script)["left"] if one.startswith("configs:")],
                         ["configs: if (line 6): 'on_hip()' was not understood; it was taken to hold"])

    def test_a_stride_of_an_axis_that_is_not_known_is_left(self):
        answer = self.read(TRITON_SUMS.replace("strange.count()", "x.stride(axis)"))
        self.assertIn("arg n: 'x.stride(axis)' was not understood (line 14)", answer["left"])

    def test_what_nobody_has_thought_of_is_a_sentence_with_its_line(self):
        answer = self.read(TRITON_SUMS.replace("@triton.autotune", "@triton.heuristics()\n@triton.autotune"))
        self.assertRegex(answer.get("error", str(answer)), r"s\.py:\d+: this cannot be read, write it more plainly: ")


# As a training job has it: the example's kernel with what tunes and launches it.
TRITON_HOST = """
import torch
import triton
import triton.language as tl

open("marker", "w").write("the script was run")
SLOPE = tl.constexpr(0.1)


def configs():
    found = []
    for block in (64, 128):
        for warps, stages in ((4, 3), (8, 2)):
            found.append(triton.Config({"BLOCK_M": block, "BLOCK_N": 64, "BLOCK_K": 32}, num_warps=warps,
                                       num_stages=stages))
    return found


@triton.autotune(configs=configs(), key=["M", "N", "K"])
KERNEL


def product(left, right, group=8):
    rows, depth = left.shape
    assert right.shape[0] == depth
    columns = right.shape[1]
    result = torch.empty((rows, columns), device=left.device, dtype=left.dtype)
    grid = lambda meta: (triton.cdiv(rows, meta["BLOCK_M"]) * triton.cdiv(columns, meta["BLOCK_N"]),)
    matmul[grid](left, right, result, rows, columns, depth, GROUP_M=group)
    return result
"""

# As libraries write them: what a call leaves out is None, and decides.
TRITON_LIBRARY = """
import torch, triton, triton.language as tl
from somewhere import cached, cached_autotune, describe
try:
    from triton.language.extra.libdevice import rsqrt
except ModuleNotFoundError:
    from triton.language.math import rsqrt

@triton.jit
def unused(x):
    return describe(x)

@triton.heuristics({"HAS_OFFSETS": lambda args: args["offsets"] is not None})
@cached_autotune([triton.Config({}, num_warps=w) for w in [2, 4]], key=["N"], **cached)
@triton.jit(do_not_specialize=["N"], launch_metadata=describe)
def norm(x, y, rstd, offsets, eps, N, BLOCK: tl.constexpr, HAS_OFFSETS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    if HAS_OFFSETS:
        row = tl.load(offsets + row)
    value = tl.load(x + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    scale = rsqrt(tl.sum(value * value) + eps)
    tl.store(y + row * N + at, value * scale, mask=at < N)
    tl.store(rstd + row, scale)

def run(x: torch.Tensor, eps: float = 1e-6, offsets: torch.Tensor | None = None, out=None):
    x = x.view(-1, x.shape[-1])
    T, N = x.shape
    y = torch.empty_like(x) if out is None else out
    rstd = torch.empty((T,), dtype=torch.float32, device=x.device)
    has = offsets is not None
    BLOCK = min(65536 // x.element_size(), triton.next_power_of_2(N))
    def grid(meta):
        return (T if not has else len(offsets) - 1, 1)
    norm[grid](x, y, rstd, offsets, eps, N, BLOCK=BLOCK)
"""

TRITON_HOOK = """
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

def set_blocks(nargs):
    half = nargs["COLUMNS"] // 2
    nargs["x"].block_shape = [nargs["ROWS"], nargs["COLUMNS"]]
    if nargs["HALVED"]:
        nargs["y"].block_shape = [nargs["ROWS"], half]
    else:
        nargs["y"].block_shape = [nargs["ROWS"], nargs["COLUMNS"]]

@triton.autotune([triton.Config({"ROWS": r, "COLUMNS": 64, "HALVED": h}, pre_hook=set_blocks)
                  for r in [32, 64] for h in [True, False]], key=["M"])
@triton.jit
def tiles(x, y, M, ROWS: tl.constexpr, COLUMNS: tl.constexpr, HALVED: tl.constexpr):
    at = [tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS]
    y.store(at, x.load(at))

def run(x):
    M, N = x.shape
    y = torch.empty_like(x)
    a = TensorDescriptor(x, x.shape, x.stride(), [1, 1])
    b = TensorDescriptor.from_tensor(y, block_shape=[1, 1])
    tiles[lambda META: (triton.cdiv(M, META["ROWS"]), triton.cdiv(N, META["COLUMNS"]))](a, b, M)
"""

TRITON_SUMS = """
import torch, triton, triton.language as tl
from elsewhere import helper

@triton.autotune([triton.Config({}, num_warps=w) for w in [2, 4]], key=["n"], reset_to_zero=["total"])
@triton.jit
def add_up(x, total, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(total, tl.sum(helper(tl.load(x + at, mask=at < n, other=0.0)), axis=0))

def run(x, strange):
    n = x.numel()
    total = torch.zeros((1,), device=x.device)
    add_up[(triton.cdiv(n, 1024),)](x, total, strange.count(), BLOCK=1024)
"""


class ImportTriton(EndToEnd):
    def triton_script(self):
        example = (ROOT / "docs/examples/triton_matmul/matmul.py").read_text()
        helper, kernel = example.split("@triton.jit\n")[1:]
        host = TRITON_HOST.replace("KERNEL", f"@triton.jit\n{kernel.rstrip()}\n\n\n@triton.jit\n{helper.rstrip()}")
        (self.path / "script.py").write_text(host)

    def test_a_tuned_function_becomes_a_kernel_that_sweeps(self):
        self.triton_script()
        done = self.run_tunectl("import", "script.py")
        self.assertNotIn("left to write", done.stderr)
        self.assertIn("then: tunectl sweep matmul/matmul.textproto", done.stderr)
        self.assertFalse((self.path / "marker").exists(), "the script is read, not run")
        source = (self.path / "matmul/matmul.py").read_text()
        self.assertIn("SLOPE = tl.constexpr(0.1)", source)
        self.assertNotRegex(source, "torch|autotune|marker")
        spec = (self.path / "matmul/matmul.textproto").read_text()
        for line in ('args { name: "a" buffer { dtype: "dtype" shape: ["rows", "depth"] role: ROLE_INPUT } }',
                     'args { name: "c" buffer { dtype: "dtype" shape: ["rows", "columns"] role: ROLE_OUTPUT } }',
                     'args { name: "N" scalar { dtype: "i32" value: "columns" } }',
                     'defines { name: "GROUP_M" value: "8" }',
                     'launch { grid: ["ceil_div(rows, BLOCK_M) * ceil_div(columns, BLOCK_N)"] }'):
            self.assertIn(line, spec)
        count = self.run_tunectl("space", "count", "matmul/matmul.textproto", "--target", "sm_90a", "--json")
        self.assertEqual(json.loads(count.stdout)["valid"], 4)
        devices = json.loads(self.run_tunectl("device", "list", "--json").stdout)["devices"]
        compilers = [one for device in devices for one in device.get("compilers", ())]
        if not any(one["language"] == "Triton" and one.get("version") for one in compilers):
            self.skipTest("no Triton on this host")
        self.run_tunectl("kernel", "check", "matmul/matmul.textproto", "--target", "sm_90a", "--all")

    def test_what_a_triton_script_does_not_say_is_left_to_write(self):
        (self.path / "sums.py").write_text(TRITON_SUMS)
        done = self.run_tunectl("import", "sums.py")
        self.assertIn("left to write: arg n: 'strange.count()' was not understood", done.stderr)
        self.assertIn("left to write: 'helper' is of module elsewhere: put it into add_up.py", done.stderr)
        self.assertNotIn("then: tunectl sweep", done.stderr)
        spec = (self.path / "add_up/add_up.textproto").read_text()
        self.assertIn('name: "total" buffer { dtype: "f32" shape: ["1"] role: ROLE_INOUT fill { kind: CONSTANT } }', spec)
        self.assertIn('launch { grid: ["ceil_div(n, 1024)"] }', spec)

    def test_what_a_library_does_not_use_of_a_kernel_is_none(self):
        (self.path / "norm.py").write_text(TRITON_LIBRARY)
        done = self.run_tunectl("import", "norm.py")
        self.assertNotIn("left to write", done.stderr)
        spec = (self.path / "norm/norm.textproto").read_text()
        for line in ('dims { name: "x_rows" default_value: 4096 min: 1 }',
                     'args { name: "x" buffer { dtype: "dtype" shape: ["x_rows", "x_columns"] role: ROLE_INPUT } }',
                     'args { name: "rstd" buffer { dtype: "f32" shape: ["x_rows"] role: ROLE_OUTPUT } }',
                     'args { name: "eps" scalar { dtype: "f32" value: "1e-06" } }',
                     '''defines { name: "offsets" value: "'None'" }''',
                     'defines { name: "HAS_OFFSETS" value: "False" }',
                     'defines { name: "BLOCK" value: "min(65536 // dtype_bytes, 2 ** ceil(log2(x_columns)))" }',
                     'launch { grid: ["x_rows", "1"] }', 'dtypes: ["f16", "bf16", "f32"]'):
            self.assertIn(line, spec)
        source = (self.path / "norm/norm.py").read_text()
        self.assertIn("from triton.language.extra.libdevice import rsqrt", source)
        self.assertNotRegex(source, "cached|somewhere|describe|unused")

    def test_descriptors_and_the_hook_that_sets_their_blocks(self):
        (self.path / "copy.py").write_text(TRITON_HOOK)
        done = self.run_tunectl("import", "copy.py")
        self.assertNotIn("left to write", done.stderr)
        spec = (self.path / "tiles/tiles.textproto").read_text()
        for line in ('shape: ["M", "N"] role: ROLE_INPUT tensor_descriptor { block_shape: ["ROWS", "COLUMNS"] } }',
                     'role: ROLE_OUTPUT tensor_descriptor { block_shape: ["ROWS", '
                     '"(COLUMNS // 2 if HALVED else COLUMNS)"] } }'):
            self.assertIn(line, spec)
        (self.path / "copy.py").write_text(TRITON_HOOK.replace("half = ", "nargs['y'].twist_(); half = "))
        self.assertIn("block shapes of descriptors", self.run_tunectl("import", "copy.py", "--folder", "other").stderr)
        check = self.run_tunectl("kernel", "check", "other/tiles.textproto", expect=2)
        self.assertIn("left to write: configs: line", check.stderr)

    def test_a_script_that_is_run_says_more_than_its_text(self):
        (self.path / "script.py").write_text(RUN_SCRIPT)
        done = self.run_tunectl("import", "script.py")
        self.assertIn("left to write", done.stderr)
        done = self.run_tunectl("import", "--run", "script.py", "--folder", "run", "5000")
        self.assertNotIn("left to write", done.stderr)
        spec = (self.path / "run/twice.textproto").read_text()
        self.assertIn("5000", spec)
        self.run_tunectl("kernel", "check", "run/twice.textproto", "--target", "cpu", "--all")
        self.assertIn("need --run", self.run_tunectl("import", "script.py", "5000", expect=2).stderr)


if __name__ == "__main__":
    unittest.main()
