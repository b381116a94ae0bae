# SPDX-License-Identifier: Apache-2.0
"""Scripts that are run: arrays, restrictions and launches are what they really are. The same script, read, must say the
same wherever it leaves nothing to write."""
import importlib.util
import unittest

import kit
from kernel_tuner_test import CALL, DIRECTIVES, DIRECTIVES_CALL, HEAD
from triton_test import HEAD as TRITON_HEAD
from triton_test import HOST, KERNEL

HAS_NUMPY = importlib.util.find_spec("numpy") is not None
# As far as a launch looks at a tensor: for a Python without PyTorch.
TORCH = '''
import sys, types
class Tensor:
    def __init__(self, shape, dtype="torch.float32", strides=None):
        self.shape, self.dtype = tuple(shape), dtype
        made = [1]
        for n in self.shape[:0:-1]:
            made.insert(0, made[0] * n)
        self._strides = strides or tuple(made)
    def stride(self, *at):
        return self._strides[at[0]] if at else self._strides
    def numel(self):
        return self.shape[0] * self.shape[1]
torch = types.ModuleType("torch")
torch.Tensor, torch.float32, torch.empty_like = Tensor, "torch.float32", lambda t: Tensor(t.shape, t.dtype)
sys.modules.setdefault("torch", torch)
'''


@unittest.skipUnless(HAS_NUMPY, "NumPy is not installed")
class KernelTuner(kit.Import):
    def test_what_cannot_be_read_is_taken_as_it_is(self):
        script = HEAD.replace("n = 100000", "import json\nn = int(b'1000'.decode())") + \
            'def restrict(p):\n    return str(p["per"]) in json.loads(\'["1", "2"]\')\n' + CALL + ", restrictions=restrict)\n"
        self.assertNotEqual(self.read(script).left, "")
        answer = self.read(script, run=True)
        self.assertEqual(answer.left, "")
        self.assertIn('"y" buffer { dtype: "f32" shape: "1000" role: ROLE_OUTPUT', answer.spec)
        self.assertIn("the list of the 4 configs", answer.notes)
        self.assertIn('"n" scalar { dtype: "i32" value: "1000"', answer.spec)

    def test_the_read_form_says_what_the_run_form_says(self):
        for more in ("", ', restrictions=[lambda p: p["per"] < 64, "block_size_x > 16"]', ", defines={'A': 3, 'B': 'int'}",
                     ', smem_args={"size": "block_size_x * 4"}, compiler_options=["-DX=1"]',
                     ', restrictions=lambda p: not (p["per"] > 2 and p["block_size_x"] == 32) or p["per"] == 64'):
            script = HEAD + CALL + more + ")\n"
            read, ran = self.read(script), self.read(script, run=True)
            self.assertEqual(read.left + ran.left, "")
            self.assertEqual(read.spec.replace("NORMAL", ""), ran.spec.replace(" fill { kind: NORMAL high: 1.0 }", "").replace(
                "NORMAL", ""), more) if "fill" not in ran.spec else self.assertEqual(
                    [line for line in read.spec.split("\n") if "buffer" not in line],
                    [line for line in ran.spec.split("\n") if "buffer" not in line])

    def test_the_whole_of_an_array_says_its_fill(self):
        for made, fill in (("a = np.ones(n, np.float32); a[150000:] = -5", "kind: UNIFORM low: -5.0 high: 1.0"),
                           ("a = np.zeros(n, np.uint16); a[150000:] = 60000", "kind: SORTED high: 60001"),
                           ("a = np.zeros(n, np.uint16); a[150000] = 60000", "kind: UNIFORM high: 60001"),
                           ("a = np.repeat(np.arange(1000), 200).astype(np.int32)", "kind: SORTED high: 1000"),
                           ("a = np.arange(n, dtype=np.int32)", "kind: IOTA"), ("a = np.full(n, 2.5)", "kind: CONSTANT low: 2.5"),
                           ("a = np.arange(n, dtype=np.int32); a[-1] = 0", "kind: UNIFORM high: 199999"),
                           ("a = np.zeros(n, bool); a[-1] = True", "kind: SORTED high: 2"),
                           ("a = np.random.default_rng(1).normal(3, 2, n)", "kind: NORMAL low: 3 high: 2")):
            script = HEAD.replace("n = 100000", f"n = 200000\n{made}").replace("[y, x,", "[y, a,") + CALL + ")\n"
            answer = self.read(script, run=True)
            self.assertEqual(answer.left, "", made)
            self.assertRegex(answer.spec, f'"x" buffer .* fill {{ {fill}', made)

    def test_arguments_reach_the_script_and_its_prints_are_no_answer(self):
        script = HEAD.replace("n = 100000", "import sys\nprint('talk')\nn = int(sys.argv[1])") + CALL + ")\n"
        answer = self.read(script, "640", run=True)
        self.assertEqual(answer.left, "")
        self.assertIn("640", answer.spec)

    def test_numbers_that_a_size_may_decide_fix_it(self):
        for made, shape, is_fixed in (("x[1:-1]", "n - 2", False), ("np.zeros(len(str(n)))", "6", True),
                                      ("np.zeros(np.array([n, 2]).sum())", "100002", True)):
            answer = self.read(HEAD + f"args[1] = {made}\n" + CALL + ")\n", run=True)
            self.assertEqual(answer.left, "", made)
            self.assertRegex(answer.spec, f'"x" buffer {{ dtype: "\\w+" shape: "{shape}"', made)
            self.assertEqual('"n" default_value: 100000 min: 100000 max: 100000' in answer.spec, is_fixed, made)

    def test_kernel_tuners_own_functions_give_what_reading_finds(self):
        pragmas = DIRECTIVES.replace("START", "#pragma tuner start").replace("STOP", "#pragma tuner stop") + \
            "kernels, args = process_directives(Code(OpenMP(), Cxx()), code, user_dimensions={'ROWS': 300})\n" + \
            DIRECTIVES_CALL.replace("KERNEL", 'kernels["scale"]').replace("ARGS", 'args["scale"]')
        chosen = HEAD.replace('"per": [1, 2, 64]', '"per": [1], "TYPE": ["half", "double"]') + \
            "from kernel_tuner.accuracy import TunablePrecision\nfrom kernel_tuner.observers.tegra import TegraObserver\n" \
            "args[1] = TunablePrecision('TYPE', x)\n" + CALL + ", observers=[TegraObserver()])\n"
        for script in (pragmas, chosen):
            read, ran = self.read(script), self.read(script, run=True)
            self.assertEqual(read.left, ran.left)
            self.assertEqual(read.spec, ran.spec)
            self.assertEqual({**read.files, **ran.files}, read.files)

    def test_types_are_told_and_errors_are_passed_on(self):
        script = HEAD.replace("astype(np.float32); y", "astype(np.complex64); y") + CALL + ")\n"
        self.assertIn("complex64 is no type of a spec", self.read(script, run=True).left)
        self.assertIn("line 2: ZeroDivisionError", self.read("import kernel_tuner\n1 / 0\n", run=True).error)
        answer = self.read(HEAD + CALL + ")\nraise SystemError('later')\n", run=True)
        self.assertEqual(answer.left, "")
        self.assertIn("ended early: line 11: SystemError: later", answer.notes)


class Triton(kit.Import):
    def launch(self, assertion, call, run=True):
        script = TORCH + TRITON_HEAD + KERNEL + HOST.replace("ASSERT", assertion) + call
        return self.read(script, run=run)

    def test_a_launch_is_taken_as_it_is(self):
        call = "run(Tensor((8, 100)), Tensor((8, 100)))\n"
        self.assertIn("the shape of 'w'", self.launch("pass", call, run=False).left)
        answer = self.launch("pass", call)
        self.assertEqual(answer.left, "")
        self.assertIn('"x_ptr" buffer { dtype: "dtype" shape: ["M", "N"] role: ROLE_INPUT', answer.spec)
        self.assertIn('"w_ptr" buffer { dtype: "dtype" shape: ["8", "100"] role: ROLE_INPUT', answer.spec)
        self.assertIn('dims { name: "N" default_value: 100', answer.spec)
        self.assertIn('launch { grid: ["M"] }', answer.spec)

    def test_an_expression_of_dims_stays_where_it_gives_what_the_run_had(self):
        host = HOST.replace("ASSERT", "assert w.shape == x.shape").replace("y, N,", "y, VALUE,")
        call = "run(Tensor((8, 100)), Tensor((8, 100)))\n"
        for value, said in (("triton.next_power_of_2(N)", "2 ** ceil(log2(N))"), ("int(math.sqrt(N))", "int(sqrt(N))"), ("N + look_up()", "107")):
            script = TORCH + TRITON_HEAD + "import math\nlook_up = [7].pop\n" + KERNEL + host.replace("VALUE", value) + call
            answer = self.read(script, run=True)
            self.assertEqual(answer.error + answer.left, "", value)
            self.assertIn(f'"N" scalar {{ dtype: "i32" value: "{said}"', answer.spec, value)
            self.assertIn("dims: their defaults are the run's", answer.notes)

    def test_strides_that_no_buffer_has_are_told(self):
        answer = self.launch("pass", "run(Tensor((8, 100)), Tensor((8, 100), strides=(200, 1)))\n")
        self.assertIn("arg w_ptr: its strides are [200, 1]", answer.left)

    def test_axes_in_another_order_are_those_of_the_memory(self):
        answer = self.launch("pass", "run(Tensor((8, 100)), Tensor((8, 100), strides=(1, 8)))\n")
        self.assertEqual(answer.left, "")
        self.assertIn('"w_ptr" buffer { dtype: "dtype" shape: ["100", "8"] role: ROLE_INPUT', answer.spec)

    def test_the_read_form_says_what_the_run_form_says(self):
        call = "run(Tensor((8, 100)), Tensor((8, 100)))\n"
        read, ran = (self.launch("assert w.shape == x.shape", call, run=run) for run in (False, True))
        self.assertEqual(read.left + ran.left, "")
        said = [[line for line in one.spec.split("\n") if line.startswith(("args", "launch", "params", "defines"))]
                for one in (read, ran)]
        self.assertEqual(said[0], said[1])

    def test_grids_and_heuristics_are_those_of_every_config(self):
        kernel = KERNEL.replace("@triton.jit", "@triton.heuristics(HEURISTICS)\n@triton.jit").replace(
            "BLOCK: tl.constexpr", "BLOCK: tl.constexpr, EVEN: tl.constexpr")
        host = "def run(x, w):\n    N = x.shape[1]\n    y = torch.empty_like(x)\n" \
            "    add_rows[GRID](x, w, y, N, x.stride(0), w.stride(0))\n"
        call = "run(Tensor((8, 100)), Tensor((8, 100)))\n"
        for grid, even, left in (
                ("lambda m: (triton.cdiv(count(x), m['BLOCK']),)", "lambda a: count(w) % a['BLOCK'] == 0", ""),
                ("lambda m: (count(x),)", "lambda a: True", ""),
                ("lambda m: (len(range(count(x) // m['BLOCK'])),)", "lambda a: True", "launch.grid: axis 0 is 12 for the first"),
                ("(8,)", "lambda a: len(range(a['BLOCK'])) > 64", "define EVEN: the heuristics give False for the first")):
            helper = "import functools\ncount = functools.partial(lambda t: t.shape[0] * t.shape[1])\n"
            text = TORCH + TRITON_HEAD + helper + kernel.replace("HEURISTICS", f"{{'EVEN': {even.replace('count(w)', '800')}}}") + \
                host.replace("GRID", grid) + call
            self.assertNotEqual(self.read(text).left if "count(x)" in grid else "x", "", grid)
            answer = self.read(text, run=True)
            self.assertRegex(answer.left, f"^{left}" if left else "^$", grid)
            if "cdiv" in grid:
                self.assertIn('launch { grid: ["ceil_div(800, BLOCK)"] }', answer.spec)
                self.assertRegex(answer.spec, r'name: "EVEN" value: "\(*800 % BLOCK\)* == 0')
            if left:
                self.assertIn("left_to_write", answer.spec.replace(kit.MARK, ""))

    def test_what_reading_leaves_to_one_call_is_settled_by_it(self):
        host = "def run(x, w, rows):\n    y = torch.empty_like(x)\n    step = 4 if look_up(rows) else rows\n" \
            "    add_rows[(len(rows),)](x, w, y, step, x.stride(0), w.stride(0))\n"
        script = TORCH + TRITON_HEAD + "look_up = any\n" + KERNEL + host
        self.assertRegex(self.read(script).left, "^a call with examples at the script's end that leads to line [0-9]+; ")
        answer = self.read(script + "run(Tensor((8, 100)), Tensor((8, 100)), [0, 1])\n", run=True)
        self.assertEqual(answer.error + answer.left, "")
        self.assertNotIn("left_to_write", answer.spec)
        self.assertIn('"x_ptr" buffer { dtype: "dtype" shape: ["8", "100"]', answer.spec)

    def test_a_script_in_a_package_finds_its_package(self):
        script = "from __future__ import annotations\nfrom .fake import Tensor\n" + TRITON_HEAD + "from .. import tuned\n" + \
            KERNEL.replace("@triton.autotune", "@tuned.cached\n@tuned.my_autotune") + HOST.replace("ASSERT", "pass") + \
            "run(Tensor((8, 100)), Tensor((8, 100)))\n"
        files = {"lib/__init__.py": "", "lib/tuned.py": "class cached:\n    def __init__(self, kernel):\n        pass\n",
                 "lib/ops/__init__.py": "", "lib/ops/fake.py": TORCH, "lib/ops/random.py": "raise ImportError\n",
                 "lib/ops/script.py": script}
        answer = self.read("", files=files, name="lib/ops/script.py", run=True)
        self.assertEqual(answer.error + answer.left, "")
        self.assertIn('name: "BLOCK" values: "[64, 128]"', answer.spec)
        self.assertIn('"w_ptr" buffer { dtype: "dtype" shape: ["8", "100"]', answer.spec)

    def test_a_script_without_a_launch_says_so(self):
        self.assertIn("launched no kernel in Triton", self.launch("pass", "").error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
