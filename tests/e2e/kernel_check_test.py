# SPDX-License-Identifier: Apache-2.0
"""`tunectl kernel check` and what a sweep says of a wrong kernel, as a user sees it. Needs TUNE_BIN."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(os.environ["TUNE_BIN"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
SAXPY = ROOT / "docs/examples/saxpy"
WRAPPED = ROOT / "docs/examples/wrapped/wrapped.textproto"
TRITON = ROOT / "kernels/softmax_triton"
NUMPY = ROOT / "docs/examples/numpy"
PARTITION = ROOT / "docs/examples/partition/partition.textproto"
TIMEOUT_SECONDS = 240


class KernelCheck(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="tune-check-")
        self.addCleanup(self.dir.cleanup)
        self.path = pathlib.Path(self.dir.name)
        self.env = {**os.environ, "TUNE_STATE_DIR": str(self.path / "state"),
                    "XDG_RUNTIME_DIR": str(self.path), "NO_COLOR": "1"}
        self.env.pop("TUNE_ADDRESS", None)

    def run_tunectl(self, *arguments, expect=0):
        done = subprocess.run([str(BIN / "tunectl"), *arguments], env=self.env, capture_output=True,
                              text=True, timeout=TIMEOUT_SECONDS, check=False)
        self.assertIn(done.returncode, expect if isinstance(expect, tuple) else (expect,),
                         f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        return done

    def saxpy(self, source=(), spec=()):
        """A copy of the example with texts replaced; the path of its spec."""
        for name, changes in (("saxpy.cu", source), ("saxpy.textproto", spec)):
            text = (SAXPY / name).read_text()
            for old, new in changes:
                self.assertIn(old, text)
                text = text.replace(old, new, 1)
            (self.path / name).write_text(text)
        return str(self.path / "saxpy.textproto")

    def test_one_mistake_is_one_finding(self):
        spec = self.saxpy(source=[("a * x[i] + y[i];\n  }", "a * x[i] + lost;\n  }")])
        done = self.run_tunectl("kernel", "check", spec, expect=1)
        self.assertIn("; 1 finding\n", done.stdout)
        self.assertLess(len(done.stdout), 200, "targets with equal counts are counted")
        self.assertIn("saxpy.cu:17", done.stderr)
        self.assertIn("lost", done.stderr)
        report = json.loads(self.run_tunectl("kernel", "check", spec, "--json", expect=1).stdout)
        self.assertEqual(len(report["findings"]), 1)
        self.assertEqual(set(report["findings"][0]["targets"]), set(report["compiled"]))

    def test_progress_is_shown_where_nobody_looks_at_a_terminal(self):
        done = self.run_tunectl("kernel", "check", self.saxpy(), "--all", "--target", "cpu")
        self.assertIn("cpu: 19 of 19 configs tried", done.stderr)
        self.assertIn("19 compiled for cpu; 0 findings", done.stdout)

    def test_a_wrong_order_of_args_names_the_arg(self):
        swap = [('args { name: "x" buffer { dtype: "f32" shape: "n" role: ROLE_INPUT } }\n', ""),
                ('args { name: "n" scalar { dtype: "i64" value: "n" } }\n',
                 'args { name: "n" scalar { dtype: "i64" value: "n" } }\n'
                 'args { name: "x" buffer { dtype: "f32" shape: "n" role: ROLE_INPUT } }\n')]
        spec = self.saxpy(spec=swap)
        for command in (["kernel", "check", spec, "--target", "cpu"],
                        ["sweep", "--kernel", spec, "--device", "cpu", "--budget", "4"]):
            done = self.run_tunectl(*command, expect=1)
            text = done.stdout + done.stderr
            self.assertIn("arg 3 'a' is a scalar f32 in the spec; parameter 3 of 'saxpy_reference' is "
                          "'double* out'", text)
            self.assertNotIn("Segmentation fault", text)

    def test_all_types_reach_a_kernel_and_its_reference(self):
        buffers = {"u16": "unsigned short", "i16": "short", "u64": "unsigned long long", "bool": "bool"}
        scalars = {"bool": ("bool", "True"), "u8": ("unsigned char", "200"), "i8": ("signed char", "-100"),
                   "u16": ("unsigned short", "60000"), "i16": ("short", "-30000"),
                   "u64": ("unsigned long long", "2 ** 62"), "f16": ("__half", "0.5"),
                   "bf16": ("__nv_bfloat16", "-1.5")}
        sources, args = [], []
        for name, kind in buffers.items():
            sources.append(f"{kind}* y_{name}, const {kind}* x_{name}")
            fill = "" if name == "bool" else " fill { kind: UNIFORM low: 1 high: 30000 }"
            fill = " fill { kind: UNIFORM high: 2 }" if name == "bool" else fill
            args += [f'args {{ name: "y_{name}" buffer {{ dtype: "{name}" shape: "n" role: ROLE_OUTPUT }} }}',
                     f'args {{ name: "x_{name}" buffer {{ dtype: "{name}" shape: "n" role: ROLE_INPUT{fill} }} }}']
        for name, (kind, value) in scalars.items():
            sources.append(f"{kind} s_{name}")
            args.append(f'args {{ name: "s_{name}" scalar {{ dtype: "{name}" value: "{value}" }} }}')
        right = ("s_bool && s_u8 == 200 && s_i8 == -100 && s_u16 == 60000 && s_i16 == -30000 && "
                 "s_u64 == 1ull << 62 && __half2float(s_f16) == 0.5f && __bfloat162float(s_bf16) == -1.5f")
        body = (f"int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n || !({right})) return;"
                "y_u16[i] = x_u16[i] + 1; y_i16[i] = -x_i16[i]; y_u64[i] = x_u64[i] << 40; y_bool[i] = !x_bool[i];")
        parameters = ", ".join([*sources, "int n"])
        (self.path / "types.cu").write_text(
            "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
            f'extern "C" __global__ void types({parameters}) {{ {body} }}\n'
            f'extern "C" __global__ void plain({parameters.replace("const ", "const ")}) {{ {body} }}\n')
        (self.path / "types.textproto").write_text("\n".join([
            'name: "types" source: "types.cu" entry: "types" dtypes: "f32"',
            'dims { name: "n" default_value: 1000 min: 1 }',
            'params { name: "THREADS" values: "[32, 64]" default_value: "32" }', *args,
            'args { name: "n" scalar { dtype: "i32" value: "n" } }',
            'launch { grid: "ceil_div(n, THREADS)" block: "THREADS" } work { bytes: "26 * n" }',
            'reference { entry: "plain" launch { grid: "ceil_div(n, 64)" block: "64" } }']))
        path = str(self.path / "types.textproto")
        self.run_tunectl("kernel", "check", path, "--target", "cpu", "--all")
        sweep = json.loads(self.run_tunectl("sweep", path, "--device", "cpu", "--budget", "4", "--json").stdout)
        self.assertEqual(sweep["progress"]["outcomes"], {"ok": 2})
        # Every element is compared: a kernel that forgets one type is wrong.
        text = (self.path / "types.cu").read_text()
        for name in buffers:
            (self.path / "types.cu").write_text(text.replace(f"y_{name}[i] =", f"if (THREADS != 64) y_{name}[i] =", 1))
            sweep = json.loads(self.run_tunectl("sweep", path, "--device", "cpu", "--budget", "4", "--json",
                                                expect=(0, 4)).stdout)
            self.assertEqual(sweep["progress"]["outcomes"], {"ok": 1, "wrong_result": 1}, name)
        (self.path / "types.cu").write_text(text)
        spec = (self.path / "types.textproto").read_text()
        for value, said in (('"u8" value: "256"', "256 does not fit u8"), ('"i8" value: "-129"', "-129 does not fit i8"),
                            ('"bool" value: "2"', "2 does not fit bool"), ('"f16" value: "1e5"', "does not fit f16")):
            dtype = value.split('"')[1]
            (self.path / "types.textproto").write_text(spec.replace(
                f'"{dtype}" value: "{scalars[dtype][1]}"', value))
            self.assertIn(said, self.run_tunectl("kernel", "check", path, "--target", "cpu", expect=1).stderr)

    def test_a_default_that_cannot_be_launched_is_a_finding_of_all_configs_too(self):
        (self.path / "copy.cu").write_text(
            'extern "C" __global__ void copy(float* y, const float* x, int n) {\n'
            "  int i = blockIdx.y * BY + threadIdx.y; if (i < n) y[i] = x[i]; }\n"
            'extern "C" __global__ void plain(double* y, const float* x, int n) {\n'
            "  for (int i = 0; i < n; ++i) y[i] = x[i]; }\n")
        (self.path / "copy.textproto").write_text(
            'name: "copy" source: "copy.cu" entry: "copy" dtypes: "f32" '
            'dims { name: "rows" default_value: 262144 min: 1 } '
            'params { name: "BY" values: "[2, 8]" default_value: "2" } '
            'args { name: "y" buffer { dtype: "f32" shape: "rows" role: ROLE_OUTPUT } } '
            'args { name: "x" buffer { dtype: "f32" shape: "rows" role: ROLE_INPUT } } '
            'args { name: "n" scalar { dtype: "i32" value: "rows" } } '
            'launch { grid: ["1", "ceil_div(rows, BY)"] block: ["1", "BY"] } work { bytes: "8 * rows" } '
            'reference { entry: "plain" launch { grid: "1" block: "1" } }')
        path = str(self.path / "copy.textproto")
        for more in ((), ("--all",)):
            done = self.run_tunectl("kernel", "check", path, "--target", "cpu", *more, expect=1)
            self.assertIn("the default config (BY=2) is not valid", done.stderr)
        spec = (self.path / "copy.textproto").read_text()
        (self.path / "copy.textproto").write_text(spec + ' constraints { expression: "BY > 8" }')
        done = self.run_tunectl("kernel", "check", path, "--target", "cpu", expect=1)
        self.assertIn("copy: configs: none; ", done.stdout)

    def test_a_target_that_there_is_not(self):
        done = self.run_tunectl("kernel", "check", "softmax", "--target", "sm_foo", expect=2)
        self.assertIn("unknown target 'sm_foo'; targets are cpu, sm_80", done.stderr)

    def test_what_follows_a_nul_is_said(self):
        spec = self.saxpy()
        (self.path / "saxpy.cu").write_bytes(b"// one\n// two \0\n" +
                                             (self.path / "saxpy.cu").read_bytes())
        done = self.run_tunectl("kernel", "check", spec, expect=2)
        self.assertIn("'saxpy.cu' is not text: line 2 has a NUL byte", done.stderr)

    def test_options_that_name_files_are_refused_by_name(self):
        for option in ("--pre-include=/etc/passwd", "--create-pch=/tmp/x", "-I/etc", "@/tmp/x",
                       "-fplugin=/tmp/x.so", "-wrapper", "-B/tmp", "-specs=/tmp/x", "-o/tmp/x",
                       "-save-temps", "-dumpbase", "--device-debug"):
            spec = self.saxpy(spec=[('dtypes: "f32"', f'dtypes: "f32"\nnvrtc_options: "{option}"')])
            done = self.run_tunectl("kernel", "check", spec, expect=2)
            self.assertIn(f"option '{option}' is not allowed; allowed: --use_fast_math", done.stderr)

    def test_the_wrapped_example_is_right(self):
        done = self.run_tunectl("kernel", "check", str(WRAPPED), "--target", "cpu", "--all")
        self.assertIn("12 compiled for cpu; 0 findings", done.stdout)
        sweep = json.loads(self.run_tunectl("sweep", "--kernel", str(WRAPPED), "--device", "cpu",
                                            "--rows", "64", "--columns", "100", "--budget", "4",
                                            "--warm", "--json").stdout)
        self.assertEqual(sweep["progress"]["outcomes"], {"ok": 4})

    def triton(self, *changes):
        """A copy of softmax_triton with texts of its Python replaced; the path of its spec."""
        for path in TRITON.iterdir():
            text = path.read_text()
            for old, new in changes if path.suffix == ".py" else ():
                self.assertIn(old, text)
                text = text.replace(old, new, 1)
            (self.path / path.name).write_text(text)
        return str(self.path / "softmax_triton.textproto")

    def numpy_example(self, *changes):
        """A copy of the example with texts of its reference replaced; the path of its spec."""
        for name in ("row_norm.cu", "row_norm_reference.py", "row_norm.textproto"):
            text = (NUMPY / name).read_text()
            for old, new in changes if name.endswith(".py") else ():
                self.assertIn(old, text)
                text = text.replace(old, new, 1)
            (self.path / name).write_text(text)
        return str(self.path / "row_norm.textproto")

    def has_numpy(self):
        self.env.setdefault("TUNE_NUMPY_PYTHON", sys.executable)
        if importlib.util.find_spec("numpy") is None:
            self.skipTest("NumPy is not installed")

    def test_a_reference_in_numpy_is_called(self):
        self.has_numpy()
        done = self.run_tunectl("kernel", "check", self.numpy_example(), "--target", "cpu", "--dtype", "bf16")
        self.assertIn("1 compiled for cpu; 0 findings", done.stdout)
        for change, why in ((("def row_norm(x):", "def row_norm(x, q):"), "takes 'q', which no input, scalar or dim"),
                            (("return wide / norms[:, None], norms", "return norms"), "returned 1 results"),
                            (("np.sqrt((", "np.root(("), "row_norm_reference.py:8: AttributeError"),
                            (("import numpy as np", "import socket; socket.socket()"), "PermissionError")):
            done = self.run_tunectl("kernel", "check", self.numpy_example(change), "--target", "cpu", expect=1)
            self.assertIn(why, done.stderr)
        done = self.run_tunectl("kernel", "check", self.numpy_example(), "--target", "cpu", "--rows", "9000", "--cols",
                                "1000", expect=1)
        self.assertIn("the results of the reference in NumPy have more than 64 MiB, in f64", done.stderr)

    def test_numpy_without_a_python_that_has_it(self):
        self.env["TUNE_NUMPY_PYTHON"] = "/usr/bin/false"
        done = self.run_tunectl("kernel", "check", self.numpy_example(), "--target", "cpu", expect=1)
        self.assertIn("no Python with NumPy: /usr/bin/false does not run. Install it (pip install numpy)", done.stderr)

    def test_a_sweep_is_held_against_numpy(self):
        self.has_numpy()
        sweep = ("sweep", "--device", "cpu", "--strategy", "random", "--budget", "1", "--rows", "8", "--cols", "64")
        self.run_tunectl(*sweep, self.numpy_example())
        wrong = self.numpy_example(("return wide / norms[:, None], norms", "return wide / norms[:, None] + 1, norms"))
        done = self.run_tunectl(*sweep, wrong, expect=4)
        self.assertIn("wrong_result", done.stdout + done.stderr)
        for more in ("", " + 0.5"):
            spec = pathlib.Path(self.numpy_example(("norms[:, None], norms", f"norms[:, None]{more}, norms")))
            spec.write_text(spec.read_text().replace('["f32", "bf16"]', '["e4m3"]'))
            source = spec.with_name("row_norm.cu")
            source.write_text(source.read_text().replace("cuda_bf16.h", "cuda_fp8.h"))
            done = self.run_tunectl(*sweep, str(spec), expect=4 if more else 0)
            self.assertEqual("wrong_result" in done.stdout + done.stderr, bool(more))

    def test_a_checker_is_compiled_and_judges(self):
        done = self.run_tunectl("kernel", "check", str(PARTITION), "--all", "--target", "cpu")
        self.assertIn("8 compiled for cpu; 0 findings", done.stdout)
        for name in ("partition.cu", "partition.textproto"):
            text = (PARTITION.parent / name).read_text()
            (self.path / name).write_text(text.replace("front ? place : n - 1 - place", "front ? place : n - 2 - place"))
        done = self.run_tunectl("sweep", str(self.path / "partition.textproto"), "--device", "cpu", "--n", "1000",
                                "--strategy", "random", "--budget", "1", expect=4)
        self.assertIn("the checker finds ", done.stdout + done.stderr)
        (self.path / "partition.cu").write_text("#include <lost.h>\n" + (PARTITION.parent / "partition.cu").read_text())
        self.run_tunectl("kernel", "check", str(self.path / "partition.textproto"), "--target", "cpu", expect=1)

    def test_triton_tells_the_line_of_a_mistake_or_what_is_missing(self):
        devices = json.loads(self.run_tunectl("device", "list", "--json").stdout)["devices"]
        compilers = {compiler["language"]: compiler for device in devices
                     for compiler in device.get("compilers", [])}
        if "version" not in compilers["Triton"]:
            self.assertIn("pip install triton", compilers["Triton"]["message"])
            self.skipTest(compilers["Triton"]["message"])
        self.assertRegex(compilers["Triton"]["version"], r"^Triton 3\.\d+.*, ptxas \d+")
        line = (TRITON / "softmax_triton.py").read_text().split("\n").index(
            "    total = tl.zeros([ROWS], tl.float32)") + 1
        spec = self.triton(("tl.zeros([ROWS]", "tl.zeroes([ROWS]"))
        done = self.run_tunectl("kernel", "check", spec, "--target", "sm_90a", "--cols", "40000", expect=1)
        self.assertIn(f"softmax_triton.py:{line}", done.stderr)
        self.assertIn("zeroes", done.stderr)
        done = self.run_tunectl("kernel", "check", self.triton(), "--target", "sm_90a")
        self.assertIn("1 compiled for sm_90a; 0 findings", done.stdout)

    def test_triton_takes_descriptors_of_the_host_and_several_launches(self):
        devices = json.loads(self.run_tunectl("device", "list", "--json").stdout)["devices"]
        if not any(compiler["language"] == "Triton" and "version" in compiler
                   for device in devices for compiler in device.get("compilers", [])):
            self.skipTest("no Triton on this host")
        for spec in ("triton_descriptors/matmul.textproto", "triton_steps/column_sums.textproto"):
            with self.subTest(spec=spec):
                done = self.run_tunectl("kernel", "check", str(ROOT / "docs/examples" / spec), "--target", "sm_90a")
                self.assertIn("1 compiled for sm_90a; 0 findings", done.stdout)

    def test_triton_on_the_cpu_device_is_one_sentence(self):
        done = self.run_tunectl("sweep", "softmax_triton", "--device", "cpu", expect=2)
        self.assertIn("is written in Triton, which runs on GPUs, not on cpu", done.stderr)
        self.assertEqual(done.stderr.count("Triton"), 1)

    def test_a_type_is_a_constant_of_a_triton_kernel(self):
        devices = json.loads(self.run_tunectl("device", "list", "--json").stdout)["devices"]
        compilers = [one for device in devices for one in device.get("compilers", ())]
        if not any(one["language"] == "Triton" and one.get("version") for one in compilers):
            self.skipTest("no Triton on this host")
        (self.path / "twice.py").write_text(
            "import triton\nimport triton.language as tl\n@triton.jit\n"
            "def twice(x, y, n, BLOCK: tl.constexpr, kind: tl.constexpr, act: tl.constexpr):\n"
            "    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    v = tl.load(x + o, mask=o < n).to(kind) + tl.zeros((BLOCK,), dtype=kind)\n"
            "    if act == '':\n        tl.store(y + o, v, mask=o < n)\n")
        spec = self.path / "twice.textproto"
        text = ('name: "twice" language: TRITON source: "twice.py" entry: "twice" targets: "sm_9*" dtypes: ["bf16", "f16"] '
                'dims { name: "n" default_value: 4096 min: 1 } params { name: "BLOCK" values: "[64]" default_value: "64" } '
                """defines { name: "kind" value: "'tl.bfloat16' if dtype == 'bf16' else 'tl.float16'" } """
                """defines { name: "act" value: "''" } """
                'args { name: "x" buffer { dtype: "dtype" shape: "n" role: ROLE_INPUT } } '
                'args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } } '
                'args { name: "n" scalar { dtype: "i32" value: "n" } } launch { grid: "ceil_div(n, BLOCK)" } '
                'reference { entry: "twice" launch { grid: "ceil_div(n, BLOCK)" } }')
        spec.write_text(text)
        for dtype in ("bf16", "f16"):
            self.run_tunectl("kernel", "check", str(spec), "--target", "sm_90a", "--dtype", dtype)
        spec.write_text(text.replace("tl.bfloat16", "tl.bfloat61"))
        done = self.run_tunectl("kernel", "check", str(spec), "--target", "sm_90a", expect=1)
        self.assertIn("triton.language has no type 'bfloat61'", done.stderr)

    def test_triton_without_a_python_that_has_it(self):
        self.env["TUNE_TRITON_PYTHON"] = "/bin/false"
        done = self.run_tunectl("device", "list")
        self.assertIn("no kernels in Triton: no Python with Triton", done.stdout)
        done = self.run_tunectl("kernel", "check", "softmax_triton", "--target", "sm_90a", expect=1)
        self.assertIn("/bin/false does not run", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
