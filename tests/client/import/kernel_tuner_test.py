# SPDX-License-Identifier: Apache-2.0
"""Kernel Tuner scripts that are read: what is understood is in the spec, and what is not is left to write."""
import re
import unittest

import kit

HEAD = '''import numpy as np
from kernel_tuner import tune_kernel
kernel = """extern "C" __global__ void scale(float* y, const float* x, int n) {
    int i = (blockIdx.x * block_size_x + threadIdx.x) * per;
    for (int k = 0; k < per; k++) if (i + k < n) y[i + k] = 2 * x[i + k]; }"""
n = 100000
x = np.random.randn(n).astype(np.float32); y = np.zeros_like(x)
params = {"block_size_x": [32, 64], "per": [1, 2, 64]}
args = [y, x, np.int32(n)]
'''
CALL = 'tune_kernel("scale", kernel, n, args, params, grid_div_x=["block_size_x", "per"]'


class Restrictions(kit.Import):
    def constraint(self, function, restrictions="restrict"):
        answer = self.read(f"{HEAD}{function}\n{CALL}, restrictions={restrictions})\n")
        self.assertEqual(answer.left, "")
        return answer.constraints()

    def test_early_returns_branches_and_locals_are_one_expression(self):
        self.assertEqual(self.constraint(
            'def restrict(p):\n    if p["per"] > 2:\n        return False\n    return True'), ["not (per > 2)"])
        self.assertEqual(self.constraint(
            'def restrict(p):\n    """Says which."""\n    threads = p["block_size_x"]\n    if threads == 32:\n'
            '        return p["per"] < 64\n    elif threads > 32 and p["per"] == 64:\n        return False\n    return True'),
            ["(per < 64) if (block_size_x == 32) else (not ((block_size_x > 32) and (per == 64)))"])
        self.assertEqual(self.constraint(
            'def restrict(p):\n    work = p["per"]\n    work *= 2\n    for limit in (100, 200):\n        if work > limit:\n'
            '            return False\n    return True'), ["not (per*2 > 100) and (not (per*2 > 200))".replace("per*2", "(per * 2)")])

    def test_helpers_captured_numbers_and_other_forms(self):
        self.assertEqual(self.constraint("def chunk(a, b): return a * b",
                                         '[lambda p: n % chunk(p["per"], p["block_size_x"]) == 0]'),
                         ["(n % (per * block_size_x)) == 0"])
        self.assertEqual(self.constraint("limit = 128", '[lambda p: p["block_size_x"] * p.get("per", 1) <= limit]'),
                         ["(block_size_x * per) <= 128"])
        self.assertEqual(self.constraint("", '[lambda p: all(p[k] <= 32 for k in ("block_size_x", "per"))]'),
                         ["(block_size_x <= 32) and (per <= 32)"])
        self.assertEqual(self.constraint("", '["per < 64 or block_size_x == 32", lambda p: p["per"] in [1, 64]]'),
                         ["(per < 64) or (block_size_x == 32)", "per in [1, 64]"])

    def test_a_restriction_that_no_expression_says_is_the_list_of_its_configs(self):
        answer = self.read(f'{HEAD}{CALL}, restrictions=lambda p: len(str(p["per"])) == 1)\n')
        self.assertEqual(answer.left, "")
        self.assertIn("the list of the 4 configs", answer.notes)
        self.assertEqual(len(answer.constraints()), 1)

    def test_a_restriction_that_is_not_understood_is_left_with_its_line(self):
        for restriction in ("look_up", "lambda p: look_up(p)", "other.Constraint(3)"):
            answer = self.read(f"{HEAD}import other\nfrom other import look_up\n{CALL}, restrictions=[{restriction}])\n")
            self.assertRegex(answer.left, r"^constraint.*\(line 1[0-9]\)$", restriction)

    def test_a_text_that_is_not_understood_is_left_with_the_line_of_the_call(self):
        answer = self.read(f'{HEAD}{CALL}, restrictions=["str(per) in \'124\'"])\n')
        self.assertRegex(answer.left, r"^constraint: 'str\(per\)' was not understood.*\(line 10\)$")

    def test_keywords_of_an_expression_are_no_dims(self):
        call = 'tune_kernel("scale", kernel, lambda p: n if not p["per"] < 2 and p["per"] in (2, 64) else n // 2, args, params)\n'
        answer = self.read(HEAD + call)
        self.assertEqual(answer.left, "")
        self.assertEqual(re.findall('dims { name: "(.*?)"', answer.spec), ["n"])
        self.assertRegex(answer.spec, r'grid: "ceil_div\(n if .* else \(n // 2\), block_size_x\)"')

    def test_the_size_of_a_type_is_a_number(self):
        for size in ("np.dtype(np.float32).itemsize", "x.itemsize", "x.dtype.itemsize", "np.float32(0).itemsize"):
            answer = self.read(f'{HEAD}{CALL}, smem_args={{"size": lambda p: p["block_size_x"] * {size}}})\n')
            self.assertEqual(answer.left, "", size)
            self.assertIn('shared_bytes: "block_size_x * 4"', answer.spec)

    def test_a_space_without_a_valid_config_and_params_with_too_many_values_are_left(self):
        answer = self.read(f'{HEAD}{CALL}, restrictions=["per > 64"])\n')
        self.assertIn("no config was found", answer.left)
        answer = self.read(HEAD.replace("[32, 64]", "[i * i for i in range(5000)]") + CALL + ")\n")
        self.assertIn("param block_size_x: it has 5000 values", answer.left)


class FormsOfPython(kit.Import):
    def test_a_restriction_is_what_its_decorators_make_of_it(self):
        deco = "def deco(f):\n    def g(p): return not f(p)\n    return g\n"
        function = "@deco\ndef restrict(p): return p['block_size_x'] == 64\n"
        answer = self.read(HEAD + deco + function + CALL + ", restrictions=restrict)\n")
        self.assertEqual((answer.left, answer.constraints()), ("", ["not (block_size_x == 64)"]))
        answer = self.read(HEAD + "from other import deco\n" + function + CALL + ", restrictions=restrict)\n")
        self.assertRegex(answer.left, "^restrictions \\(line 11\\): '@deco of restrict' was not understood")

    def test_a_statement_of_a_restriction_that_is_not_understood_is_its_cause(self):
        for body, cause in (("assert c['per'] > 1\n    return True", "assert c\\['per'\\] > 1"),
                            ("try:\n        return c['per'] > 1\n    except KeyError:\n        return False", "try:")):
            answer = self.read(f"{HEAD}def restrict(c):\n    {body}\n{CALL}, restrictions=restrict)\n")
            self.assertRegex(answer.left, f"^constraint: '{cause}' was not understood")

    def test_what_may_set_any_name_is_told(self):
        for line in ("exec(\"params['per'] = [8]\")", "globals()['params'] = {'per': [8]}", "g = globals(); g['n'] = 5",
                     "setattr(np, 'x', params)", "globals().update(n=5)"):
            self.assertRegex(self.read(f"{HEAD}{line}\n{CALL})\n").left, "was not followed", line)

    def test_names_and_objects_are_those_of_python(self):
        for lines, values in (
                ("L = [1]\nM = L\nM += [2]\nparams['per'] = L", "[1, 2]"), ("L = (1,)\nM = L\nM += (2,)\nparams['per'] = list(L)", "[1]"),
                ("class C:\n    v = 3\nC.v = 5\nparams['per'] = [C.v]", "[5]"), ("params['per'] = [0 or 5]", "[5]"),
                ("def f():\n    return lambda: K\ng = f()\nK = 4\nparams['per'] = [g()]", "[4]"),
                ("K = 1\nclass C:\n    K = 2\n    def get(self): return K\nparams['per'] = [C().get()]", "[1]"),
                ("[y := k for k in (1, 2)]\nparams['per'] = [y]", "[2]"), ("params['per'] = list({4, 4})", "[4]"),
                ("l = [1, 2]\nprint(l.pop())\nparams['per'] = l", "[1]"), ("l = [1, 2]\ndel l[0]\nparams['per'] = l", "[2]"),
                ("def f(a, b=[]):\n    b.append(a)\n    return b\nf(1)\nparams['per'] = f(2)", "[1, 2]"),
                ("try:\n    params['per'] = [7]\nfinally:\n    params['per'].append(8)", "[7, 8]")):
            answer = self.read(f"{HEAD}{lines}\n{CALL})\n")
            self.assertEqual(answer.left, "", lines)
            self.assertIn(f'name: "per" values: "{values}"', answer.spec, lines)
        for lines in ("l = [1, 2, 3]\nparams['per'] = l[int(b'1'.decode()):]", "for k in params['per']:\n    if k < 3: params['per'].append(9)",
                      "with contextlib.suppress(KeyError):\n    params['per'] = [8]", "match int(b'1'.decode()):\n    case 1:\n        params['per'] = [8]",
                      "range = bytes.fromhex\nparams['per'] = list(range('03'))", "class C:\n    @property\n    def v(self): return 1\n"
                      "    @v.setter\n    def v(self, n): params['per'] = [n]\nC().v = 8"):
            self.assertNotEqual(self.read(f"import contextlib, json\n{HEAD}{lines}\n{CALL})\n").left, "", lines)

    def test_a_symbol_that_the_source_lacks_is_told(self):
        self.assertRegex(self.read(HEAD + CALL + ", cmem_args={'d_filter': x})\n").left, "cmem_args: the source has no d_filter")


class Types(kit.Import):
    def image(self, maker):
        return self.read(f'''import numpy as np
import kernel_tuner as kt
n = 1000
image = {maker}
sums = np.zeros(n, dtype=np.uint64)
kt.tune_kernel("k", "__global__ void k(unsigned long long* sums, const unsigned short* image, int n) {{ sums[0] = image[0]; }}",
               n, [sums, image, np.int32(n)], {{"block_size_x": [32, 64]}})
''')

    def test_a_type_is_the_scripts_or_is_told(self):
        self.assertIn('"image" buffer { dtype: "u16"', self.image("np.random.randint(0, 65535, n).astype(np.uint16)").spec)
        self.assertIn('"sums" buffer { dtype: "u64"', self.image("np.zeros(n, 'u2')").spec)
        self.assertIn('dtype: "i16"', self.image("np.zeros(n, np.int16)").spec)
        self.assertIn('dtype: "bool"', self.image("np.ones(n, dtype=bool)").spec)
        self.assertIn('dtype: "i64"', self.image("np.array([1, 2, 3])").spec)
        for maker, name in (("np.zeros(n, np.complex64)", "complex64"), ("np.zeros(n).astype(strange)", "'strange' is not known"),
                            ("np.zeros(n, dtype=make())", "make()"), ("(np.zeros(n) + 1j).astype(np.complex128)", "complex128")):
            answer = self.image(maker)
            self.assertRegex(answer.left, r"^arg image: .*" + name.replace("(", r"\(").replace(")", r"\)"), maker)
            self.assertIn('"image" buffer { dtype: "left_to_write"', answer.spec)

    def test_scalars_keep_their_types(self):
        answer = self.read(HEAD.replace("int n)", "unsigned char a, short b, unsigned long long c)").replace(
            "np.int32(n)]", "np.uint8(3), np.int16(-4), np.uint64(n)]") + CALL + ")\n")
        for dtype in ("u8", "i16", "u64"):
            self.assertIn(f'scalar {{ dtype: "{dtype}"', answer.spec)

    def test_a_scalar_beyond_int64_is_told(self):
        for made, is_told in (("np.uint64(2**63)", True), ("np.uint64(2**63 - 1)", False), ("-(2**63) - 1", True)):
            answer = self.read(HEAD + f"args[2] = {made}\n" + CALL + ")\n")
            self.assertEqual("is no number of a spec" in answer.left, is_told, made)
            self.assertEqual("9223372036854775808" in answer.spec.replace(answer.left, ""), False, made)

    def test_params_that_are_types_take_the_widest_as_the_reference(self):
        answer = self.read(HEAD.replace('"per": [1, 2, 64]', '"TYPE": ["half", "float", "double"], "per": [1]') + CALL + ")\n")
        self.assertIn('name: "TYPE" values: "[\'half\', \'float\', \'double\']" default_value: "\'double\'"', answer.spec)


class WhatIsRead(kit.Import):
    def test_compiler_options_and_defines(self):
        answer = self.read(HEAD + CALL + ', compiler_options=["-DFACTOR=3", "-D", "FLAG", "--use_fast_math", "-std=c++17", '
                           '"-Xptxas -v"])\n')
        self.assertEqual(answer.left, "")
        for line in ('nvrtc_options: "--use_fast_math"', 'nvrtc_options: "--std=c++17"',
                     'defines { name: "FACTOR" value: "3" }', 'defines { name: "FLAG" value: "1" }'):
            self.assertIn(line, answer.spec)
        answer = self.read(HEAD + CALL + ', compiler_options=["-I/usr/include", flag()])\n')
        self.assertIn("compiler_options: -I/usr/include", answer.left)
        self.assertIn("compiler_options: an option was not understood", answer.left)

    def test_shared_memory_is_a_size_of_the_launch(self):
        for size in ('"block_size_x * 4"', 'lambda p: p["block_size_x"] * 4'):
            answer = self.read(HEAD + CALL + f', smem_args={{"size": {size}}})\n')
            self.assertEqual(answer.left, "")
            self.assertIn('shared_bytes: "block_size_x*4"'.replace("*", " * "), answer.spec)
        self.assertIn("smem_args", self.read(HEAD + CALL + ', smem_args={"size": look_up()})\n').left)

    def test_names_and_sources_that_are_formatted(self):
        for made in ('"scale<{}, per>".format("float")', 'f"scale<{kind}, per>"', '"scale<%s, per>" % kind',
                     '"".join(["scale<", kind, ", per>"])'):
            answer = self.read(HEAD.replace('extern "C"', "template <typename T, int P>") + 'kind = "float"\n' +
                               CALL.replace('"scale"', made) + ")\n")
            self.assertEqual(answer.left, "", made)
            self.assertIn('entry: "scale<float, per>"', answer.spec)
        answer = self.read(HEAD + CALL.replace('"scale"', "name()") + ")\n")
        self.assertIn("'name()' was not understood", answer.left)
        self.assertIn('name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT', answer.spec)
        source = 'p = "."\n' + CALL.replace("kernel,", "'{}/scale.cu'.format(p),") + ")\n"
        answer = self.read(HEAD + source, files={"scale.cu": "__global__ void scale(float* y, const float* x, int n) { y[0] = x[0]; }"})
        self.assertEqual(answer.left, "")

    def test_classes_command_lines_and_functions_are_walked(self):
        body = HEAD.split("n = 100000")[0]
        answer = self.read(body + '''import argparse
class Tuner:
    def __init__(self, size):
        self.size = size
        self.params = dict(block_size_x=[32, 64], per=[1, 2])
    @staticmethod
    def allowed(p):
        return p["per"] < 2
    def arrays(self):
        x = np.random.randn(self.size).astype(np.float32)
        return [np.zeros_like(x), x, np.int32(self.size)]
    def tune(self):
        tune_kernel("scale", kernel, self.size, self.arrays(), self.params, restrictions=self.allowed)
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=10000)
Tuner(parser.parse_args().size).tune()
''')
        self.assertEqual(answer.left, "")
        self.assertIn('dims { name: "size" default_value: 10000', answer.spec)
        self.assertEqual(answer.constraints(), ["per < 2"])

    def test_problem_sizes_and_divisors_may_be_functions(self):
        answer = self.read(HEAD + 'tune_kernel("scale", kernel, lambda p: (n // p["per"], 1), args, params, '
                           'grid_div_x=lambda p: p["block_size_x"] * 2)\n')
        self.assertEqual(answer.left, "")
        self.assertIn('grid: "ceil_div(n // per, (block_size_x * 2))" grid: "1"', answer.spec)

    def test_kernel_tuners_own_macros_are_defined(self):
        answer = self.read(HEAD.replace('kernel = """', 'kernel = """#ifndef kernel_tuner\n#define per 4\n#endif\n'
                                        "int grid = grid_size_x * block_size_y;\n") + CALL + ")\n")
        self.assertIn('defines { name: "kernel_tuner" value: "1" }', answer.spec)
        self.assertIn('defines { name: "block_size_y" value: "1" }', answer.spec)
        self.assertIn('defines { name: "grid_size_x" value: "ceil_div(n, block_size_x * per)" }', answer.spec)

    def test_the_way_to_the_call_is_taken(self):
        for way in ("import os\nif os.path.isfile('cache.json'):\n    {}\nelse:\n    print('tune first')\n",
                    "def tune():\n    if 1 > 2:\n        return {}\nif 'x' == 'y':\n    tune()\n",
                    "import sys\ndef main():\n    if len(sys.argv) < 2:\n        return\n    {}\nmain()\n"):
            answer = self.read(HEAD + way.format(CALL + ")"))
            self.assertEqual(answer.left + answer.error, "", way)
            self.assertIn('name: "y" buffer { dtype: "f32" shape: "n" role: ROLE_OUTPUT', answer.spec)
        answer = self.read(HEAD + "def main():\n    if look():\n        return\n    " + CALL + ")\nmain()\n")
        self.assertIn("if (line 11): 'look()' was not understood; it was taken not to hold", answer.left)

    def test_what_is_done_to_an_array_in_place_is_its_fill(self):
        for statement, fill in (("x.fill(3)", "CONSTANT low: 3"), ("np.copyto(x, np.random.rand(n))", "UNIFORM high: 1"),
                                ("z = x.copy(); z.fill(3)", ""), ("x.fill(0); x = x.astype(np.float32)", "CONSTANT")):
            answer = self.read(HEAD + statement + "\n" + CALL + ")\n")
            self.assertEqual(answer.left, "")
            self.assertIn('"x" buffer { dtype: "f32" shape: "n" role: ROLE_INPUT' + (f" fill {{ kind: {fill}" if fill else " }"),
                          answer.spec, statement)
        self.assertIn("arg x: line 10 may change what it holds", self.read(HEAD + "np.random.shuffle(x)\n" + CALL + ")\n").notes)

    def test_a_float_that_is_cast_to_an_integer_is_one(self):
        answer = self.read(HEAD.replace("n = 100000", "n = np.int32(1e5)") + CALL + ")\n")
        self.assertIn('dims { name: "n" default_value: 100000', answer.spec)
        self.assertNotIn("100000.0", answer.spec)

    def test_hip_kernels_are_cuda_unless_they_name_what_hip_alone_has(self):
        answer = self.read(HEAD + CALL + ', lang="HIP")\n')
        self.assertEqual(answer.left, "")
        self.assertIn("taken for CUDA C++", answer.notes)
        for text in ("#include <hip/hip_runtime.h>", "int w = warpSize;"):
            answer = self.read(HEAD.replace('kernel = """', f'kernel = """{text}\n') + CALL + ', lang="HIP")\n')
            self.assertIn("lang='HIP': only CUDA kernels", answer.left)

    def test_a_size_that_the_source_has_as_a_number_is_fixed(self):
        answer = self.read(HEAD.replace('kernel = """', 'kernel = """#define WIDTH 100000\n') + CALL + ")\n")
        self.assertIn('dims { name: "n" default_value: 100000 min: 100000 max: 100000 }', answer.spec)

        answer = self.read(HEAD + CALL + ", defines={'WIDTH': 100000})\n")
        self.assertIn('dims { name: "n" default_value: 100000 min: 100000 max: 100000 }', answer.spec)

    def test_one_name_with_two_values_is_two_dims(self):
        answer = self.read(HEAD.replace("y = np.zeros_like(x)", "n = 5000; y = np.zeros(n, np.float32)") + CALL + ")\n")
        self.assertIn('name: "y" buffer { dtype: "f32" shape: "n_2"', answer.spec)
        self.assertIn('name: "x" buffer { dtype: "f32" shape: "n"', answer.spec)


class WhatPythonGives(kit.Import):
    """Each of these was read as something else than Python has it, or not at all."""

    def test_values_of_params(self):
        for statement, values in (
                ("base = [1, 2]; params['per'] = base; base += [8]", [1, 2, 8]), ("params['per'] = [~2, 5 ^ 1]", [-3, 4]),
                ("params['per'] = [i * 10 + v for i, v in enumerate([1, 2], start=1)]", [11, 22]),
                ("params['per'] = [round(2.345, 2), 3]", [2.35, 3]), ("params['per'] = np.arange(1, 5).tolist()", [1, 2, 3, 4]),
                ("def f(found=[]):\n    found.append(len(found)); return found\nf(); params['per'] = f()", [0, 1]),
                ("params['per'] = list(map(int, np.linspace(32, 128, 4)))", [32, 64, 96, 128]),
                ("L = [3, 1, 2]; L.sort(key=lambda v: -v); params['per'] = L + [7]", [3, 2, 1, 7]),
                ("params['per'] = None or [4]", [4]), ("params['per'] = [1] if 'per' in params else [2]", [1]),
                ("import json; params['per'] = json.loads('[1, 2]')", [1, 2]),
                ("from functools import partial\ndef f(a, b): return [a, b]\ng = partial(f, 1); params['per'] = g(6)", [1, 6])):
            answer = self.read(HEAD + statement + "\n" + CALL + ")\n")
            self.assertEqual(answer.left + answer.error, "", statement)
            self.assertIn(f'params {{ name: "per" values: "{values}"', answer.spec, statement)

    def test_shapes_of_arrays(self):
        for made, dtype, shape in (
                ("np.zeros((4, 6), np.float32).flatten()", "f32", "24"), ("np.ones((4, 6)).reshape(-1, 3)", "f64", '8" shape: "3'),
                ("np.ones((4, 1)) * np.ones(5)", "f64", '4" shape: "5'), ("np.ones((4, 6)) @ np.ones((6, 3))", "f64", '4" shape: "3'),
                ("np.concatenate([x, x])", "f32", "n + n"), ("x[:100]", "f32", "min(100, n)"), ("np.ones((2, 3, 4)).transpose(2, 0, 1)", "f64",
                                                                                      '4" shape: "2" shape: "3')):
            answer = self.read(HEAD + f"args[1] = {made}\n" + CALL + ")\n")
            self.assertEqual(answer.left + answer.error, "", made)
            self.assertIn(f'"x" buffer {{ dtype: "{dtype}" shape: "{shape}" role', answer.spec, made)

    def test_lists_are_joined_and_arrays_are_not(self):
        answer = self.read(HEAD + "args[1] = np.array(sorted(x) + [1, 2])\n" + CALL + ")\n")
        self.assertEqual(answer.left, "")
        self.assertIn('"x" buffer { dtype: "f32" shape: "n + 2"', answer.spec)
        for made in ("x + [1, 2, 3]", "[1.0] + x", "np.sort(x) + [1.0, 2.0]", "np.array(sorted(x)) + [1]", "np.array(sorted(x) * 2)",
                     "np.abs(sorted(x)) + [3]"):
            answer = self.read(HEAD + f"args[1] = {made}\n" + CALL + ")\n")
            self.assertIn("was not understood", answer.left, made)
            self.assertIn('shape: "left_to_write"', answer.spec, made)

    def test_defaults_are_those_of_the_definition(self):
        answer = self.read(HEAD + "rules = []\nfor m in (2, 64): rules.append(lambda p, m=m: p['per'] <= m)\n" + CALL +
                           ", restrictions=rules)\n")
        self.assertEqual(answer.constraints(), ["per <= 2", "per <= 64"])

    def test_objects_that_are_called_are_restrictions(self):
        answer = self.read(HEAD + "class Most:\n    def __init__(self, m): self.m = m\n    def __call__(self, p): return p['per'] <= self.m\n" +
                           CALL + ", restrictions=Most(2))\n")
        self.assertEqual((answer.left, answer.constraints()), ("", ["per <= 2"]))

    def test_the_tuning_function_may_have_another_name(self):
        for statement, call in (("from kernel_tuner import tune_kernel as tune", "tune('scale', kernel, n, args, params)"),
                                ("tune = tune_kernel", "tune('scale', kernel, n, args, params)"),
                                ("from functools import partial\ntune = partial(tune_kernel, 'scale', kernel, n)", "tune(args, params)")):
            answer = self.read(HEAD + f"{statement}\n{call}\n")
            self.assertEqual(answer.left + answer.error, "", statement)

    def test_doubts_reach_what_is_made_of_a_list(self):
        answer = self.read(HEAD + "L = [1, 2]\nlook(L)\nparams['per'] = L + [4]\n" + CALL + ")\n")
        self.assertIn("line 11: 'look(L)' may change what is tuned", answer.left)


class NamesOfModulesThatAreNotThere(kit.Import):
    def test_each_part_of_the_call_names_the_module(self):
        for before, more, call in (("", ", restrictions=[it]", CALL), ("", ", restrictions=it", CALL), ("args[1] = it", "", CALL),
                                   ("params['per'] = it", "", CALL), ("params = it", "", CALL), ("", ", answer=it", CALL),
                                   ("", "", CALL.replace(", n, args", ", it, args"))):
            answer = self.read(HEAD + f"from mylib.rules import it\n{before}\n{call}{more})\n")
            self.assertIn("'it of module mylib.rules' was not understood", answer.left, (before, more))
        answer = self.read(HEAD + "from mylib import RULE\n" + CALL + ", restrictions=[RULE], verify=RULE)\n")
        self.assertEqual(answer.left, "constraint: 'RULE of module mylib' was not understood; write it as an expression (line 11)")

    def test_an_answer_that_is_not_compared_is_told(self):
        for more, is_told in (("answer=[2 * x, None, None]", True), ("answer=[None, None, None]", False), ("answer=None", False)):
            answer = self.read(HEAD + CALL + f", {more})\n")
            self.assertEqual("answer: it says which arguments are outputs; its values are not compared" in answer.notes, is_told, more)


class NumbersThatSizesDecide(kit.Import):
    """A part of the call that changes with a size is an expression of it, or the size has the script's value alone."""

    def shape(self, made, more="", head=HEAD):
        answer = self.read(head + f"args[1] = {made}\n" + CALL + more + ")\n")
        self.assertEqual(answer.left + answer.error, "", made)
        return re.search(r'"x" buffer \{ dtype: "\w+" (.*?) role', answer.spec)[1], answer

    def is_fixed(self, answer, name="n", value=100000):
        return f'dims {{ name: "{name}" default_value: {value} min: {value} max: {value} }}' in answer.spec

    def test_simple_ones_are_expressions(self):
        for made, shape in (("x[:n//2]", "n // 2"), ("x[1:-1]", "n - 2"), ("x[::2]", "ceil_div(n, 2)"), ("x[1:][::3]", "ceil_div(n - 1, 3)"),
                            ("x[n//4:]", "n - (n // 4)"), ("x[2:-2:2]", "ceil_div(n - 4, 2)"), ("x[::-1]", "n"), ("x[-10:]", "min(10, n)"),
                            ("np.zeros(int(np.sqrt(n)))", "int(sqrt(n))"), ("np.zeros(sum([n, 2]))", "n + 2"),
                            ("np.zeros(math.floor(math.log2(n)))", "floor(log2(n))"), ("np.pad(x, 3)", "n + 6"),
                            ("np.zeros((n, 4))[1:-1, :2]", 'n - 2" shape: "2'), ("x.reshape(-1, 10)", 'n // 10" shape: "10')):
            known, answer = self.shape(made, head="import math\n" + HEAD)
            self.assertEqual(known, f'shape: "{shape}"', made)
            self.assertIn('dims { name: "n" default_value: 100000 min: 1 }', answer.spec, made)

    def test_slices_have_the_scripts_shape_at_every_size(self):
        words = {"min": min, "max": max, "ceil_div": lambda a, b: -(-a // b)}
        for array, extent in (("x", "n"), ("np.zeros(n * 2)", "n * 2"), ("np.zeros(n // 2)", "n // 2")):
            for cut in ("[:100]", "[:100:3]", "[-10:]", "[10:20]", "[-10:-5]", "[5:][:100]", "[:-7]", "[:40][-10:]"):
                known, answer = self.shape(array + cut)
                text = re.fullmatch(r'shape: "(.*)"', known)[1]
                for n in (1, 12, 15, 30, 40, 99, 101, 5000) if not self.is_fixed(answer) else ():
                    kept = len(eval("range(" + extent + ")" + cut, {"n": n}))
                    self.assertEqual(max(eval(text, {**words, "n": n}), 0), kept, f"{array}{cut} at n={n}: {text}")

    def test_others_fix_the_size(self):
        for made, shape in (("np.zeros(len([0] * n))", "100000"), ("np.zeros(int(str(n)))", "100000"), ("np.zeros(len(str(n)))", "6"),
                            ("np.zeros(sum(i for i in [n, n]))", "200000"), ("np.zeros(64 if n > 4096 else 32)", "64"),
                            ("np.zeros(64 if n % 2 else 32)", "32"), ("np.zeros(32 if 1 < n * 4 < 2000000 else 16)", "32"),
                            ("x[:100000]", "n"), ("np.zeros(math.gcd(n, 96))", "32"), ("np.zeros([i for i in (7, n)][1])", "100000"),
                            ("np.zeros(math.isqrt(n))", "316")):
            known, answer = self.shape(made, head="import math\n" + HEAD)
            self.assertEqual(known, f'shape: "{shape}"', made)
            self.assertTrue(self.is_fixed(answer), made)
            self.assertIn("dim n: arg x may depend on its 100000", answer.notes, made)

    def test_a_size_that_another_decides_is_fixed_with_it(self):
        known, answer = self.shape("np.zeros(m)", head=HEAD + "import math\nm = math.isqrt(n)\n")
        self.assertEqual(known, 'shape: "m"')
        self.assertTrue(self.is_fixed(answer) and self.is_fixed(answer, "m", 316))

    def test_other_parts_of_the_call_count_too(self):
        for more in (", defines={'LOG': len(str(n))}", ", smem_args={'size': 8 * len(str(n))}", ", compiler_options=[f'-DN={n}']"):
            self.assertTrue(self.is_fixed(self.shape("x", more)[1]), more)
        for before, more in (("kernel = kernel.replace('2 *', f'{n} *')\n", ""), ("params['per'] = [1, len(str(n))]\n", "")):
            self.assertTrue(self.is_fixed(self.shape("x", more, HEAD + before)[1]), before)

    def test_a_size_of_which_the_script_takes_no_other_is_fixed(self):
        self.assertTrue(self.is_fixed(self.shape("x", head=HEAD.replace("x = ", "assert n == 100000\nx = "))[1]))
        self.assertFalse(self.is_fixed(self.shape("x", head=HEAD.replace("x = ", "assert n % 32 == 0\nx = "))[1]))


DIRECTIVES = '''import numpy as np
from kernel_tuner import tune_kernel
from kernel_tuner.utils.directives import *
code = """
#include <math.h>
#define WIDTH 512
START scale out(float*:WIDTH,ROWS) from(double*:WIDTH,ROWS) \\
  flags(int*:64) rows(int:ROWS)
for (int i = 0; i < WIDTH * rows; i++) out[i] = 2 * from[i];
STOP
"""
'''
DIRECTIVES_CALL = '''
tune_kernel("scale", KERNEL, 0, ARGS, {"nthreads": [32, 64]}, compiler="nvc++", compiler_options=["-fast"])
'''


class KernelTunersOwnFunctions(kit.Import):
    def directives(self, made, mark="#pragma tuner", source=DIRECTIVES):
        return self.read(source.replace("START", mark + " start").replace("STOP", mark + " stop") + made)

    def test_functions_that_pragmas_mark_have_their_arguments(self):
        whole = "kernels, args = process_directives(Code(OpenMP(), Cxx()), code, user_dimensions={'ROWS': 300})\n" + \
            DIRECTIVES_CALL.replace("KERNEL", 'kernels["scale"]').replace("ARGS", 'args["scale"]')
        parts = """app = Code(OpenMP(), Cxx())
lines = extract_preprocessor(code)
data = extract_directive_data(code, app)
args = allocate_signature_memory(data["scale"], lines, {"ROWS": 300})
text = generate_directive_function(lines, extract_directive_signature(code, app)["scale"],
                                   extract_directive_code(code, app)["scale"], app, data=data["scale"])
""" + DIRECTIVES_CALL.replace("KERNEL", "text").replace("ARGS", "args")
        for script in (whole, parts):
            answer = self.directives(script)
            self.assertRegex(answer.left, "^source: lang='OPENMP': only CUDA kernels[^\n]*$")
            for arg in ('"arg0" buffer { dtype: "f32" shape: "WIDTH * ', '"arg1" buffer { dtype: "f64" shape: "WIDTH * ',
                        '"arg2" buffer { dtype: "i32" shape: "64"', '"arg3" scalar { dtype: "i32" value: "'):
                self.assertIn(arg, answer.spec)
            text = answer.files["scale.cu"]
            self.assertIn('extern "C" float scale(float* out, double* from, int* flags, int rows) {', text)
            self.assertIn("out[i] = 2 * from[i];", text)
        answer = self.directives(whole.replace("Cxx", "Fortran"), "!$tuner")
        self.assertRegex(answer.left, "^source: lang='FORTRAN': only CUDA kernels[^\n]*$")

    def test_sizes_and_types_that_a_mark_does_not_say_are_told(self):
        made = "kernels, args = process_directives(Code(OpenACC(), Cxx()), code)\n" + \
            DIRECTIVES_CALL.replace("KERNEL", 'kernels["scale"]').replace("ARGS", 'args["scale"]')
        self.assertIn("arg arg0: 'out(float*:WIDTH,ROWS)' was not understood", self.directives(made).left)
        answer = self.directives(made, source=DIRECTIVES.replace("int*:64", "pixel*:64"))
        self.assertIn("arg arg2: 'flags(pixel*:64)' was not understood", answer.left)

    def test_arrays_that_a_param_chooses_are_one_thing_to_write(self):
        head = HEAD.replace('"per": [1, 2, 64]', '"per": [1], "TYPE": ["half", "float", "double"]') + \
            "from kernel_tuner.accuracy import Tunable, TunablePrecision\n"
        for types in ("", ", ['float', 'double']", ", {'float': np.float32, 'double': np.float64}"):
            made = f"args[:2] = []\nargs = [TunablePrecision('TYPE', y{types}), TunablePrecision('TYPE', x{types}), *args]\n"
            answer = self.read(head + made.split("\n", 1)[1].replace("*args", "args[2]") + CALL + ")\n")
            self.assertRegex(answer.left, r"^param TYPE: it chooses the arrays or types of y, x, [^\n]*'double'[^\n]*\(line 1\d\)$")
            self.assertIn('"y" buffer { dtype: "f64" shape: "n" role: ROLE_OUTPUT', answer.spec)
        answer = self.read(head + "args[1] = Tunable('per', {1: x, 2: x.copy()})\n" + CALL + ")\n")
        self.assertRegex(answer.left, "^param per: it chooses the arrays or types of x, [^\n]*per = 1")
        answer = self.read(head + "args[1] = Tunable('per', {7: x})\n" + CALL + ")\n")
        self.assertIn("arg x: 'the array that 'per' chooses' was not understood", answer.left)


class ImportsThatMayFail(kit.Import):
    def params(self, text, end="\nexcept ImportError:\n    pass\n"):
        head = HEAD.replace("params = {", f"per = [1, 2, 4]\n{text}{end}params = {{").replace("[1, 2, 64]", "per")
        return self.read(head + CALL + ")\n")

    def test_values_that_depend_on_a_module_that_may_not_be_there_are_left(self):
        for text, end in (("try:\n    import cupy\n    per = [3]", "\nexcept ImportError:\n    pass\n"),
                          ("try:\n    import cupy\n    per = [3]", "\nexcept (ImportError, OSError):\n    pass\n"),
                          ("try:\n    import cupy\nexcept ImportError:\n    per = [3]\n", ""),
                          ("import contextlib\nwith contextlib.suppress(ImportError):\n    import cupy\n    per = [3]\n", ""),
                          ("def f():\n    try:\n        import cupy\n        return [3]\n    except ImportError:\n"
                           "        return [4]\nper = f()\n", "")):
            answer = self.params(text, end=end)
            self.assertRegex(answer.left, r"(?m)^param per: 'try: import cupy' was not understood \(line 1\d\)$", text)
            self.assertNotIn('name: "per"', answer.spec, text)

    def test_conditions_on_such_a_module_are_left(self):
        for text in ("try:\n    import cupy\n    HAVE = True\nexcept ImportError:\n    HAVE = False\nif HAVE: per = [3]\n",
                     "try:\n    import cupy\nexcept ImportError:\n    cupy = None\nif cupy is not None: per = [3]\n"):
            self.assertRegex(self.params(text, end="").left, r"^if \(line 1\d\): '.*' was not understood")
        self.assertRegex(self.params("try:\n    import cupy\n    per.append(3)").left, r"per.append\(3\)' may change it")
        left = self.params("def f():\n    try:\n        import cupy\n    except ImportError:\n        return [4]\n    return [3]\n"
                           "per = f()\n", end="").left
        self.assertRegex(left, r"^except \(line 12\): what it does was left out$")
        left = self.read(HEAD + "from contextlib import suppress\nwith suppress(ImportError):\n    import no_such\n"
                         "    params['per'] = [512]\n" + CALL + ")\n").left
        self.assertRegex(left, r"^param per: 'try: import no_such' was not understood \(line 12\)")

    def test_values_that_do_not_depend_on_it_are_not_left(self):
        for text, end, per in (
                ("try:\n    import json\n    per = [3]", None, "[3]"),
                ("try:\n    import cupy\n    per = [3]", "\nexcept ImportError:\n    raise SystemExit\n", "[3]"),
                ("try:\n    import cupy\n    per = [3]", "\nexcept ImportError:\n    print('none')\n    exit()\n", "[3]"),
                ("try:\n    import cupy\n    other = [3]", None, "[1, 2, 4]"), ("try:\n    import cupy\n    per = [1, 2, 4]", None, "[1, 2, 4]"),
                ("try:\n    import cupy as cp\nexcept ImportError:\n    import numpy as cp\nx = cp.zeros(n, cp.float32)\n", "", "[1, 2, 4]"),
                ("try:\n    per = [3]\n    import cupy", None, "[3]")):
            answer = self.params(text, **({} if end is None else {"end": end}))
            self.assertEqual(answer.left, "", text)
            self.assertIn(f'name: "per" values: "{per}"', answer.spec, text)

    def test_a_module_beside_the_script_is_there(self):
        head = HEAD.replace("params = {", "per = [1]\ntry:\n    import mine\n    per = [3]\nexcept ImportError:\n    pass\nparams = {")
        answer = self.read(head.replace("[1, 2, 64]", "per") + CALL + ")\n", files={"mine.py": ""})
        self.assertEqual(answer.left, "")
        self.assertIn('name: "per" values: "[3]"', answer.spec)


class WhatIsNotRead(kit.Import):
    def left(self, text, pattern):
        answer = self.read(text)
        self.assertEqual(answer.error, "")
        self.assertRegex(answer.left, pattern)

    def test_starred_arguments_are_told(self):
        self.left(HEAD + 'more = look_up()\ntune_kernel("scale", kernel, *more)\n', r"\*more.* \(line 11\)")
        self.left(HEAD + CALL + ", **look_up())\n", r"\*\*look_up\(\).*\(line 10\)")
        answer = self.read(HEAD + 'rest = (n, args, params)\ntune_kernel("scale", kernel, *rest)\n')
        self.assertEqual(answer.left, "")

    def test_what_may_change_lists_and_dicts_is_told(self):
        self.left(HEAD + "from other import extend\nextend(params)\n" + CALL + ")\n", r"tune_params.*extend\(params\)")
        self.left(HEAD + "del params[look_up()]\n" + CALL + ")\n", "tune_params.*del params")
        self.left(HEAD + "for name in look_up():\n    params[name] = [1]\n" + CALL + ")\n", r"for \(line 10\)")
        answer = self.read(HEAD + "print(params); len(args)\n" + CALL + ")\n")
        self.assertEqual(answer.left, "")

    def test_statements_that_may_change_the_call_are_told(self):
        """By other names, through functions and methods, and by what decides whether they run."""
        for statement in (
                "q = {'p': params}\nfor k in look(): q['p'][k] = [1]", "q = params.setdefault('per', [1])\nfor k in look(): q.append(k)",
                "def add(p):\n    q = p\n    for k in look(): q[k] = [1]\nadd(params)",
                "def same(p): return p\nq = same(params)\nfor k in look(): q[k] = [1]",
                "def add(): params['z'] = [1]\nif look(): add()", "for p in (params, {}):\n    if look(p): p['per'] = [1]",
                "flag = 0\nfor k in look(): flag = 1\nif flag: params['per'] = [1]",
                "found = [1]\nfor v in (2, 4):\n    if look(v): continue\n    found.append(v)\nparams['per'] = found",
                "def per():\n    if look(): return [1]\n    return [2]\nparams['per'] = per()",
                "class C:\n    def fill(self):\n        for k in look(): self.p[k] = 3\nc = C()\nc.p = params\nc.fill()",
                "def outer():\n    found = [1]\n    def inner():\n        for k in look(): found.append(k)\n    inner()\n"
                "    return found\nparams['per'] = outer()",
                "m = 1\nif look(): m = 2\ndef setup(v=m): params['per'] = [v]\nsetup()",
                "match look():\n    case 1: params['per'] = [1]", "for k in look(): exec(k)", "for k in look(): x.resize(k)"):
            self.left(HEAD + statement + "\n" + CALL + ")\n", r"line 1[0-9]")
        self.left(HEAD + "if look():\n    def restrict(p): return p['per'] < 2\nelse:\n    def restrict(p): return True\n" + CALL +
                  ", restrictions=restrict)\n", "if .line 10")
        self.left(HEAD + "x.shape = look()\n" + CALL + ")\n", "line 10: 'x.shape")

    def test_statements_that_cannot_change_the_call_are_not_told(self):
        for statement in (
                "metrics = {}\nfor k in look(): metrics[k] = 1", "def first():\n    for k in look(): return k\nprint(first())",
                "try:\n    import hip\n    found = True\nexcept Exception:\n    found = False", "import sys\nif not look(): sys.exit(1)",
                "options = {}\nif look(): options['a'] = 3\nfor value in look(): options[value] = 1"):
            answer = self.read(HEAD + statement + "\n" + CALL + ", metrics=metrics, strategy_options=options)\n")
            self.assertEqual(answer.left + answer.error, "", statement)

    def test_loops_that_fill_arrays_need_no_mark(self):
        for loop in ("for i in look(): y[i] = 3", "for i in look():\n    at = i * 2\n    y[at] = x[i]",
                     "def twice(a):\n    b = a * 2\n    return b\nfor i in range(len(x)): y[i] = twice(x[i])"):
            answer = self.read(HEAD + loop + "\n" + CALL + ")\n")
            self.assertEqual(answer.left + answer.error, "", loop)
            self.assertRegex(answer.notes, "arg y: line 1[0-9] sets parts of it")
        self.left(HEAD + "def bump():\n    global n\n    n += 1\nfor k in look(): bump()\n" + CALL + ")\n", r"for \(line 13\)")
        self.left(HEAD + "for k in look(): y = np.zeros(5)\n" + CALL + ")\n", r"for \(line 10\)")

    def test_arrays_that_were_changed_have_no_constant_and_no_order(self):
        for maker in ("np.full(n, 3.5, np.float32); x[::2] = 7", "np.arange(n, dtype=np.float32); x[::2] = 7",
                      "np.random.rand(n).astype(np.float32); np.multiply(x, 0, out=x); x.sort()",
                      "np.random.rand(n).astype(np.float32); z = np.multiply(x, 0, x); x.sort()",
                      "np.random.rand(n).astype(np.float32); x.sort(); z = np.negative(x, out=x)"):
            answer = self.read(HEAD.replace("np.random.randn(n).astype(np.float32);", maker + ";") + CALL + ")\n")
            self.assertEqual(answer.left, "", maker)
            self.assertRegex(answer.notes, "arg x: line 7 .* it is filled with random numbers here", maker)
            self.assertIn('"x" buffer { dtype: "f32" shape: "n" role: ROLE_INPUT }', answer.spec, maker)
        answer = self.read(HEAD.replace("np.random.randn(n).astype(np.float32);", "np.zeros(n, np.int32); x[3] = 7;") + CALL + ")\n")
        self.assertRegex(answer.left, "^arg x: line 7 sets parts of it; write its fill")
        self.assertNotIn("CONSTANT", answer.spec)

    def test_makers_give_the_type_and_the_shape_that_they_are_given(self):
        for maker, form in (("np.zeros_like(x, shape=(4, n))", '"f32" shape: "4" shape: "n"'),
                            ("np.full_like(x, 2, shape=n // 2)", '"f32" shape: "n // 2"'),
                            ("np.full(n, np.float32(1))", '"f32" shape: "n"'), ("np.full(n, 1)", '"i64" shape: "n"')):
            answer = self.read(HEAD + f"args[0] = {maker}\n" + CALL + ")\n")
            self.assertEqual(answer.left, "", maker)
            self.assertIn(f'"y" buffer {{ dtype: {form} role', answer.spec, maker)
        self.left(HEAD + "args[0] = np.zeros_like(x, shape=look())\n" + CALL + ")\n", "arg y: .* was not understood")
        for complex_ in ("x + 1j", "2j * x"):
            self.left(HEAD + f"args[0] = {complex_}\n" + CALL + ")\n", "arg y: complex64 is no type of a spec")
        self.left(HEAD + "args[0] = np.zeros(n) * 1j\n" + CALL + ")\n", "arg y: complex128 is no type of a spec")

    def test_no_file_is_refused_for_one_part(self):
        self.left(HEAD + CALL + ', lang="OpenCL")\n', "source: lang='OPENCL': only CUDA kernels")
        self.left(HEAD + CALL + ", texmem_args={'t': x})\n", "texmem_args")
        self.left(HEAD + CALL + ", shiny_option=3)\n", "shiny_option")
        self.left(HEAD + "def tune(a):\n    " + CALL + ")\nclass T:\n    def go(self): tune_kernel(1)\n", "^$")

    def test_what_has_no_kernel_says_what_is_looked_for(self):
        self.assertIn("no call of tune_kernel was met, nor a function with @triton.autotune",
                      self.read("print('hello')").error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
