# SPDX-License-Identifier: Apache-2.0
"""Triton scripts that are read: what the launch says is in the spec, and what it does not is left to write."""
import re
import unittest

import kit

HEAD = '''import torch
import triton
import triton.language as tl

'''
KERNEL = '''@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["N"])
@triton.jit
def add_rows(x_ptr, w_ptr, y_ptr, N, x_row, w_row, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    for s in range(0, N, BLOCK):
        o = s + tl.arange(0, BLOCK)
        v = tl.load(x_ptr + r * x_row + o, mask=o < N) + tl.load(w_ptr + r * w_row + o, mask=o < N)
        tl.store(y_ptr + r * x_row + o, v, mask=o < N)

'''
HOST = '''def run(x, w):
    M, N = x.shape
    ASSERT
    y = torch.empty_like(x)
    add_rows[(M,)](x, w, y, N, x.stride(0), w.stride(0))
'''


class Shapes(kit.Import):
    def rows(self, line):
        return self.read(HEAD + KERNEL + HOST.replace("ASSERT", line))

    def strided(self, line):
        kernel = KERNEL.replace("w_ptr, y_ptr, N, x_row, w_row", "y_ptr, N, s0, s1").replace("+ r * x_row + o", "+ r * s0 + o * s1").replace(
            " + tl.load(w_ptr + r * w_row + o, mask=o < N)", "")
        host = f"def run(x):\n    M0, N0 = x.shape\n    {line}\n    M, N = x.shape\n    y = torch.empty(M, N, dtype=x.dtype)\n" \
            "    add_rows[(M,)](x, y, N, x.stride(0), x.stride(1))\n"
        return self.read(HEAD + kernel + host)

    def shown(self, answer):
        shapes = [re.search(rf'"{name}" buffer {{ dtype: "\w+" shape: (\[.*?\])', answer.spec)[1] for name in ("x_ptr", "y_ptr")]
        strides = [re.search(rf'"{name}" scalar {{.*? value: "(.*?)"', answer.spec)[1] for name in ("s0", "s1")]
        return [*shapes, *strides, re.search(r'grid: \[(.*?)\]', answer.spec)[1]]

    def test_axes_in_another_order_have_their_strides(self):
        turned = ['["M0", "N0"]', '["N0", "M0"]', "1", "N0", '"N0"']
        for line in ("x = x.t()", "x = x.T", "x = x.transpose(0, 1)", "x = x.permute(1, 0)", "x = x.t().clone()",
                     "x = torch.empty_like(x.t())", "x = x.transpose(0, 1).float()"):
            answer = self.strided(line)
            self.assertEqual(answer.left, "", line)
            self.assertEqual(self.shown(answer), turned, line)
        answer = self.strided("x = x.t()\n    if not x.is_contiguous():\n        x = x.contiguous()")
        self.assertEqual(answer.left, "")
        self.assertEqual(self.shown(answer), ['["N0", "M0"]', '["N0", "M0"]', "M0", "1", '"N0"'])

    def test_expanded_axes_have_a_stride_of_zero(self):
        answer = self.strided("x = x.reshape(1, N0).expand(4, -1)")
        self.assertEqual(answer.left, "")
        self.assertEqual(self.shown(answer), ['["1", "N0"]', '["4", "N0"]', "0", "1", '"4"'])
        answer = self.strided("x = x.expand(4, N0)")  # x may have four rows
        self.assertRegex(answer.left, r"(?m)^arg x_ptr: 'x.expand\(4, N0\)' has strides of its own")
        self.assertRegex(answer.left, r"(?m)^arg s0: 'x.expand\(4, N0\)' has strides of its own")
        self.assertEqual(self.shown(answer), ['["left_to_write"]', '["4", "N0"]', "left_to_write", "1", '"4"'])

    def test_strides_that_are_not_known_are_not_guessed(self):
        answer = self.strided("x = x.t().reshape(N0, M0)")
        self.assertRegex(answer.left, r"(?m)^arg s0, arg s1: 'x.t\(\).reshape\(N0, M0\)' has strides of its own")
        self.assertEqual(self.shown(answer), ['["left_to_write"]', '["N0", "M0"]', "left_to_write", "left_to_write", '"N0"'])

    def test_what_a_module_decides_that_may_not_be_there_is_left(self):
        answer = self.rows("assert w.shape == x.shape\n    try:\n        import not_there\n        M = 3\n    except ImportError:\n"
                           "        M = 4")
        self.assertRegex(answer.left, r"^launch.grid: 'if not_there is there' decides it \(line 17\)$")
        self.assertIn('launch { grid: ["left_to_write"] }', answer.spec)
        kernel = KERNEL.replace('[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]', 'CONFIGS')
        for more, left in (("BL = [256]", "^configs.*was not understood"), ("import torch", "^configs")):
            head = f"BL = [64, 128]\ntry:\n    import not_there\n    {more}\nexcept ImportError:\n    BL = [32]\n" \
                "CONFIGS = [triton.Config({'BLOCK': b}) for b in BL]\n"
            answer = self.read(HEAD + head + kernel + HOST.replace("ASSERT", "assert w.shape == x.shape"))
            self.assertRegex(answer.left, left)
            self.assertIn('name: "BLOCK" values: "left_to_write"', answer.spec)

    def test_a_rank_that_is_not_said_is_told(self):
        for line in ("pass", "rows = w.shape[0]", "assert w.stride(-1) == 1"):
            answer = self.rows(line)
            self.assertRegex(answer.left, "the shape of 'w' is not in the script", line)
            self.assertIn('"w_row" scalar { dtype: "i32" value: "left_to_write"', answer.spec)

    def test_asserts_and_raises_say_shapes(self):
        for line in ("assert w.shape == x.shape", "assert w.shape == (M, N)", "assert w.dim() == 2 and w.shape[1] == N\n"
                     "    assert w.shape[0] == M", "if w.shape != x.shape:\n        raise ValueError('shapes')",
                     "assert x.shape[0] == w.shape[0] and len(w.shape) == 2 and N == w.shape[1]",
                     "rows, columns = w.shape\n    assert (rows, columns) == (M, N)"):
            answer = self.rows(line)
            self.assertEqual(answer.left, "", line)
            self.assertIn('"w_ptr" buffer { dtype: "dtype" shape: ["M", "N"]', answer.spec, line)
            self.assertIn('"w_row" scalar { dtype: "i32" value: "N"', answer.spec)

    def test_reshape_chunk_and_new_tensors(self):
        host = '''def run(xy, eps: float, chunk_size: int):
    xy = xy.reshape(-1, xy.shape[-1])
    x, w = xy.chunk(2, dim=-1)
    M, N = x.shape
    y = xy.new_empty(M, N, dtype=torch.float32)
    add_rows[(M,)](x, w, y, N, x.stride(0), w.stride(0))
'''
        answer = self.read(HEAD + KERNEL + host)
        self.assertEqual(answer.left, "")
        # A part lies in memory of the whole, so its rows are as far apart.
        self.assertIn('"x_ptr" buffer { dtype: "dtype" shape: ["xy_rows", "xy_columns"]', answer.spec)
        self.assertIn('"x_row" scalar { dtype: "i32" value: "xy_columns"', answer.spec)
        self.assertIn('"N" scalar { dtype: "i32" value: "xy_columns // 2"', answer.spec)
        self.assertIn('"y_ptr" buffer { dtype: "f32" shape: ["xy_rows", "xy_columns // 2"]', answer.spec)

    def test_branches_that_the_script_does_not_decide(self):
        host = '''def run(x, w, wide: bool, chunk: int):
    M, N = x.shape
    assert w.shape == x.shape
    y = torch.empty(M, N, dtype=torch.float32 if x.dtype == torch.bfloat16 else x.dtype)
    if N > 1024:
        step = chunk
    else:
        step = 16
    add_rows[(M,)](x, w, y, step, x.stride(0), w.stride(0))
'''
        answer = self.read(HEAD + KERNEL + host)
        self.assertEqual(answer.left, "")
        self.assertIn('"y_ptr" buffer { dtype: "(\'f32\' if (dtype == \'bf16\') else dtype)"', answer.spec)
        self.assertIn('"N" scalar { dtype: "i32" value: "chunk if (N > 1024) else 16"', answer.spec)
        answer = self.read(HEAD + KERNEL + host.replace("N > 1024", "look_up()"))
        self.assertRegex(answer.left, r"arg N: 'if look_up\(\)' decides it \(line")

    def test_elements_that_are_addresses_have_a_type_that_is_told(self):
        kernel = KERNEL.replace("r = tl.program_id(0)", "r = tl.load(w_ptr + tl.program_id(0))").replace(
            "+ tl.load(w_ptr + r * w_row + o, mask=o < N)", "")
        answer = self.read(HEAD + kernel + HOST.replace("ASSERT", "assert w.shape == (M, 1)"))
        self.assertRegex(answer.left, "arg w_ptr: its elements are parts of addresses")


    def test_shapes_that_are_parts_of_others(self):
        for line, y, x in (
                ("H, N = x.shape[-2:]\n    M = x.shape[0]\n    y = x.new_empty(2, *x.shape)", None, None),
                ("M, H, N = x.shape\n    y = torch.empty(2, *x.shape[:-1], N)", '["2", "M", "H", "N"]', '["M", "H", "N"]'),
                ("y = torch.empty(*x.shape[:-1], 8)\n    M, H, N = x.shape", '["M", "H", "8"]', '["M", "H", "N"]'),
                ("M, H = x.shape[:2]\n    N = x.shape[-1]\n    assert x.ndim == 3\n    y = x.new_empty((2,) + x.shape[1:])",
                 '["2", "H", "N"]', '["M", "H", "N"]'),
                ("H, N = x.shape[1:]\n    M = math.prod(x.shape[:-1])\n    y = torch.empty_like(x)",
                 '["x_0", "H", "N"]', '["x_0", "H", "N"]')):
            host = f"def run(x, w):\n    {line}\n    assert w.shape == (M, N)\n" \
                "    add_rows[(M,)](x, w, y, N, x.stride(0), w.stride(0))\n"
            answer = self.read(HEAD + KERNEL + host)
            if y is None:  # how many axes x has is not said
                self.assertRegex(answer.left, "args x_ptr, y_ptr: the shapes of 'x', 'x' are not in the script", line)
                continue
            self.assertEqual(answer.left, "", line)
            self.assertIn(f'"x_ptr" buffer {{ dtype: "dtype" shape: {x}', answer.spec, line)
            self.assertRegex(answer.spec, rf'"y_ptr" buffer {{ dtype: "\w+" shape: {re.escape(y)}', line)

    def test_what_one_call_settles_is_one_thing_to_write(self):
        host = '''def run(x, w, rows):
    if look_up(rows):
        step = 1
    else:
        step = 2
    y = torch.empty_like(x)
    add_rows[(rows.count(),)](x, w, y, step, x.stride(0), w.stride(0))
'''
        answer = self.read(HEAD + KERNEL + host)
        self.assertRegex(answer.left, r"^a call with examples at the script's end that leads to line 20; `tunectl import --run` ")
        for place in ("args x_ptr, w_ptr, y_ptr: the shapes of 'x', 'w', 'x' are not in the script (line 20)",
                      "launch.grid: 'rows", "arg N: 'if look_up(rows)' decides it (line 15)"):
            self.assertIn(place, answer.left)
        self.assertEqual(answer.left.count("\n"), 0)
        for place in ('"N" scalar { dtype: "left_to_write" value: "left_to_write"', 'grid: ["left_to_write"]',
                      '"w_ptr" buffer { dtype: "dtype" shape: ["left_to_write"]'):
            self.assertIn(place, answer.spec)
        # Memory that lies otherwise than a buffer does so in every launch.
        answer = self.read(HEAD + KERNEL + host.replace("y = torch.empty_like(x)", "w = w.expand(3, 4); y = torch.empty_like(x)"))
        self.assertRegex(answer.left, r"(?m)^arg w_ptr: 'w.expand\(3, 4\)' has strides of its own")

    def test_types_that_the_caller_gives_are_the_problems_and_told(self):
        host = HOST.replace("ASSERT", "assert w.shape == x.shape").replace("x, w)", "x, w, kind: torch.dtype)", 1).replace(
            "empty_like(x)", "empty_like(x, dtype=kind)")
        answer = self.read(HEAD + KERNEL + host)
        self.assertEqual(answer.left, "")
        self.assertIn("kind: the caller gives this type; it is the problem's here", answer.notes)


class Launches(kit.Import):
    def test_a_grid_with_locals_is_read_and_one_that_is_not_is_told(self):
        for grid, left in (("def grid(meta):\n        rows = M\n        return (triton.cdiv(rows, meta['BLOCK']), 1)", ""),
                           ("grid = lambda META: (triton.cdiv(M, META['BLOCK']), 1)", ""),
                           ("grid = make_grid(M)", "launch.grid: 'grid' was not understood (line 19)")):
            answer = self.read(HEAD + KERNEL + HOST.replace("ASSERT", f"assert w.shape == x.shape\n    {grid}").replace(
                "[(M,)]", "[grid]"))
            self.assertEqual(answer.left, left)
            self.assertIn('grid: ["left_to_write"]' if left else 'grid: ["ceil_div(M, BLOCK)", "1"]', answer.spec)

    def test_options_of_a_launch_that_are_expressions_are_told(self):
        plain = KERNEL.split("\n", 1)[1]
        heuristic = '@triton.heuristics({"BLOCK": lambda a: 64, "num_warps": lambda a: 4 if a["N"] < 512 else 8})\n' + plain
        host = HOST.replace("ASSERT", "assert w.shape == x.shape")
        option = "w.stride(0), num_warps=4 if N < 512 else 8"
        for kernel, launch in ((heuristic, host), (KERNEL, host.replace("w.stride(0)", option)),
                               (plain, host.replace("w.stride(0)", option + ", BLOCK=64"))):
            answer = self.read(HEAD + kernel + launch)
            self.assertEqual((answer.error, answer.left), ("", ""), launch)
            self.assertIn("num_warps: the launch or a heuristic decides it; here it is a param, with the values [", answer.notes)

    def test_options_of_a_launch_that_no_kernel_has_are_told(self):
        host = HOST.replace("ASSERT", "assert w.shape == x.shape")
        answer = self.read(HEAD + KERNEL + host.replace("w.stride(0)", "w.stride(0), waves_per_eu=2"))
        self.assertEqual(answer.left, "")
        self.assertIn("launch: waves_per_eu is an option for other GPUs", answer.notes)
        for option in ("enable_fp_fusion=False", "launch_cooperative_grid=True", "**{'launch_pdl': True}"):
            answer = self.read(HEAD + KERNEL + host.replace("w.stride(0)", "w.stride(0), " + option))
            self.assertRegex(answer.left, r"^launch: (enable|launch)_\w+ is no parameter of add_rows, .*\(line 18\)$", option)

    def test_questions_with_known_answers_are_answered(self):
        for before, value, made in (
                ("def get_num_sms(device):\n    return driver(device).count\n", "min(64, get_num_sms(x.device))",
                 "min(64, multiprocessors)"),
                ("", "8 if hasattr(tl, 'gather') else 16", "8"), ("", "(M // M * 12).bit_length() if False else (12).bit_length()", "4"),
                ("LOG2E = math.log2(math.e)\n", "int(LOG2E)", "int(1.4426950408889634)")):
            host = HOST.replace("ASSERT", "assert w.shape == x.shape").replace("y, N", f"y, {value}")
            answer = self.read(HEAD + "import math\n" + before + KERNEL + host)
            self.assertEqual(answer.left, "", value)
            self.assertIn(f'"N" scalar {{ dtype: "i32" value: "{made}"' if "int" not in made else made, answer.spec)

    def test_starred_arguments_are_told(self):
        host = HOST.replace("ASSERT", "assert w.shape == x.shape").replace("x.stride(0), w.stride(0)", "*strides(x, w)")
        self.assertRegex(self.read(HEAD + KERNEL + host).left, r"launch: '\*strides\(x, w\)'|strides\(x, w\)")
        helper = "def strides(a, b):\n    return a.stride(0), b.stride(0)\n\n"
        self.assertEqual(self.read(HEAD + KERNEL + helper + host).left, "")

    def test_types_that_are_constants_are_defines(self):
        kernel = KERNEL.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, kind: tl.constexpr, acc: tl.constexpr")
        host = HOST.replace("ASSERT", "assert w.shape == x.shape").replace(
            "w.stride(0))", "w.stride(0), kind=tl.bfloat16 if x.dtype == torch.bfloat16 else tl.float16, acc=tl.float32)")
        answer = self.read(HEAD + kernel + host)
        self.assertEqual(answer.left, "")
        self.assertIn("""name: "kind" value: "('tl.bfloat16' if (dtype == 'bf16') else 'tl.float16')\"""", answer.spec)
        self.assertIn("""name: "acc" value: "'tl.float32'\"""", answer.spec)

    def test_a_zeroing_hook_is_what_reset_to_zero_is(self):
        for hook in ('init_to_zero("y_ptr")', 'lambda nargs: nargs["y_ptr"].zero_()', "zero_y"):
            helper = '''def init_to_zero(name):
    return lambda nargs: nargs[name].zero_()

def zero_y(nargs):
    """Zeroes y."""
    nargs["y_ptr"].zero_()

'''
            kernel = KERNEL.replace('{"BLOCK": 64})', f'{{"BLOCK": 64}}, pre_hook={hook})')
            answer = self.read(HEAD + helper + kernel + HOST.replace("ASSERT", "assert w.shape == x.shape"))
            self.assertEqual(answer.left, "", hook)
            self.assertIn("role: ROLE_INOUT fill { kind: CONSTANT }", answer.spec)
        answer = self.read(HEAD + KERNEL.replace('{"BLOCK": 64})', '{"BLOCK": 64}, pre_hook=lambda a: twist(a))') +
                           HOST.replace("ASSERT", "assert w.shape == x.shape"))
        self.assertRegex(answer.left, "configs: line 5: a pre_hook runs Python")

    def test_a_hook_that_zeroes_each_of_a_list_is_read_and_another_is_told_once(self):
        helper = "def zero(names):\n    return lambda a: [a[name].zero_() for name in names if a[name] is not None]\n" \
            "def twist(a):\n    a['y_ptr'].random_()\n"
        for hook, left in (('zero(["y_ptr"])', ""), ("twist", "configs: lines 9, 9: ")):
            kernel = KERNEL.replace("64})", f"64}}, pre_hook={hook})").replace("128})", f"128}}, pre_hook={hook})")
            answer = self.read(HEAD + helper + kernel + HOST.replace("ASSERT", "assert w.shape == x.shape"))
            self.assertEqual(answer.left.count("pre_hook"), 1 if left else 0, hook)
            self.assertEqual("role: ROLE_INOUT fill { kind: CONSTANT }" in answer.spec, not left)

    def test_a_pruner_that_only_guesses_speed_is_a_note(self):
        for pruner, left in (('{"perf_model": cost, "top_k": 4}', 0), ('{"early_config_prune": cut, "top_k": 4}', 1), ("None", 0)):
            kernel = KERNEL.replace('key=["N"]', f'key=["N"], prune_configs_by={pruner}')
            answer = self.read(HEAD + kernel + HOST.replace("ASSERT", "assert w.shape == x.shape"))
            self.assertEqual(answer.left.count("prune_configs_by"), left, pruner)
            self.assertEqual(answer.notes.count("prune_configs_by"), 1 if "perf" in pruner else 0)


class Configs(kit.Import):
    def configs(self, before, configs, files=()):
        start = KERNEL.index("configs=") + len("configs=")
        end = KERNEL.index(', key=["N"]')
        return self.read(HEAD + before + KERNEL[:start] + configs + KERNEL[end:] +
                         HOST.replace("ASSERT", "assert w.shape == x.shape"), files=files)

    def test_lists_are_read_wherever_they_are_made(self):
        for before, configs in (
                ('TUNED = {"a": {"BLOCK": 64, "num_warps": 2}, "b": {"BLOCK": 128, "num_warps": 2}}\n'
                 "def make():\n    out = []\n    for m, c in TUNED.items():\n"
                 '        out.append(triton.Config({"BLOCK": c["BLOCK"]}, num_warps=c["num_warps"]))\n    return out\n', "make()"),
                ('CONFIGS = [triton.Config({"BLOCK": b}, num_warps=2) for b in (64, 128)]\n', "CONFIGS"),
                ('def make():\n    for b in (64, 128):\n        yield triton.Config({"BLOCK": b}, num_warps=2)\n', "list(make())"),
                ('import itertools\ndef keep(c):\n    return c.kwargs["BLOCK"] < 256 and c.num_warps == 2\n',
                 'list(filter(keep, [triton.Config({"BLOCK": b}, num_warps=w) for b, w in itertools.product([64, 128, 256], [2, 4])]))')):
            answer = self.configs(before, configs)
            self.assertEqual(answer.left, "", before)
            self.assertIn('name: "BLOCK" values: "[64, 128]"', answer.spec)
            self.assertIn('name: "num_warps" values: "[2]"', answer.spec)

    def test_options_that_are_set_after_a_config_was_made_count(self):
        before = 'CONFIGS = [triton.Config({"BLOCK": b}) for b in (64, 128)]\n'
        for change, param in (("for c in CONFIGS: c.num_warps = 8", 'name: "num_warps" values: "[8]"'),
                              ("CONFIGS[0].num_stages = 1", 'name: "num_stages" values: "[1, 3]"'),
                              ("CONFIGS[1].num_ctas = 2", 'name: "num_ctas" values: "[1, 2]"'),
                              ("for c in CONFIGS: c.maxnreg = 64", 'name: "maxnreg" values: "[64]"')):
            answer = self.configs(before + change + "\n", "CONFIGS")
            self.assertEqual(answer.left, "", change)
            self.assertIn(param, answer.spec)
        for option in ("ir_override='a.ttir'", "num_consumer_groups=2"):
            answer = self.configs("", f'[triton.Config({{"BLOCK": 64}}, {option})]')
            self.assertRegex(answer.left, rf"^configs \(line 5\): {option.split('=')[0]} is no argument of a config")
        self.assertEqual(self.configs("", '[triton.Config({"BLOCK": 64}, ir_override=None)]').left, "")

    def test_other_modules_are_read_where_they_are_there_and_named_where_not(self):
        made = '[triton.Config({"BLOCK": 64}, num_warps=w) for w in WARPS]'
        answer = self.configs("from mylib.utils import WARPS\n", made, files={"mylib/utils.py": "WARPS = [2, 8]\n"})
        self.assertEqual(answer.left, "")
        self.assertIn('name: "num_warps" values: "[2, 8]"', answer.spec)
        answer = self.configs("from mylib.utils import WARPS\n", made)
        self.assertRegex(answer.left, r"^configs \(line 6\): .*'WARPS' is of module mylib.utils")
        self.assertIn('"w_ptr" buffer { dtype: "dtype" shape: ["M", "N"]', answer.spec, "the rest is imported")
        self.assertIn('name: "BLOCK" values: "left_to_write"', answer.spec)

    def test_configs_that_the_walk_did_not_read(self):
        for before, configs in (
                ("import functools\ndef keep(c, low, high):\n    return low < c.kwargs['BLOCK'] < high\n",
                 'list(filter(functools.partial(keep, low=32, high=256), [triton.Config({"BLOCK": b}, num_warps=2) '
                 'for b in (32, 64, 128, 256)]))'),
                ("MAJOR = eval(triton.__version__.split('.')[0])\nif MAJOR == 2:\n    B = [1]\nelse:\n    B = [64, 128]\n",
                 '[triton.Config({"BLOCK": b}, num_warps=2) for b in B]'),
                ("if torch.are_deterministic_algorithms_enabled() or not torch.cuda.is_available():\n    B = []\n"
                 "else:\n    B = [64, 128]\n", '[triton.Config({"BLOCK": b}, num_warps=2) for b in B]'),
                ("", '[triton.Config({"BLOCK": b}, num_warps=2) for b in [64] + ([] if small_memory() else [128])]')):
            answer = self.configs(before, configs)
            self.assertEqual(answer.left, "", before)
            self.assertIn('name: "BLOCK" values: "[64, 128]"', answer.spec)

    def test_a_filter_that_asks_for_the_gpu_is_a_note_and_another_is_told(self):
        before = "HOPPER = 'H100' in torch.cuda.get_device_name(0)\n"
        made = '[triton.Config({"BLOCK": b}, num_warps=2) for b in (64, 128) if not (TEST and b == 64)]'
        answer = self.configs(before, made.replace("TEST", "HOPPER"))
        self.assertEqual(answer.left, "")
        self.assertIn('name: "BLOCK" values: "[64, 128]"', answer.spec)
        self.assertRegex(answer.notes, "line 6: .* depends on the GPU: configs that it may leave out are tried, too")
        self.assertRegex(self.configs(before, made.replace("TEST", "fits(b)")).left, r"^configs \(line 6\): .*not understood")

    def test_an_import_of_the_script_is_followed_after_many_modules(self):
        files = {f"many/m{i}.py": "" for i in range(80)}
        files |= {"many/__init__.py": "".join(f"from . import m{i}\n" for i in range(80)), "last/__init__.py":
                  "from .warps import WARPS\n", "last/warps.py": "WARPS = [2]\n"}
        answer = self.configs("import many as m\nfrom last import WARPS\n",
                              '[triton.Config({"BLOCK": 64}, num_warps=w) for w in WARPS]', files=files)
        self.assertEqual(answer.left, "")
        self.assertIn('name: "num_warps" values: "[2]"', answer.spec)

    def test_configs_that_a_library_keeps_as_data(self):
        library = "import yaml\ndef tuned(name):\n    return load(name)\n"
        yaml = "mm:\n- META:\n    M: 1\n  num_warps: 4\nrows:  # of rows\n- META:\n    BLOCK: 64\n  num_warps: 2\n" \
            "- META: # wide\n    BLOCK: 128\n  num_warps: 2\nend: [[1, 2], {a: 3}]\n"
        grid = "rows:\n  - gen: true\n    param_map:\n      META:\n        BLOCK: block\n      num_warps: 2\n" \
            "    block:\n      - 64\n      - 128\n"
        json = '{"rows": [{"BLOCK": 64, "num_warps": 2}, {"kwargs": {"BLOCK": 128}, "num_warps": 2}]}'
        for files in ({"a.yaml": yaml}, {"lib/a.yml": grid}, {"lib/a.json": json}, {"a/b.yaml": yaml, "nvidia/c.yaml": grid},
                      {"a.yaml": yaml, "b.yaml": yaml.replace("BLOCK", "TILE")}):
            answer = self.configs("from lib import tuned\n", 'tuned("rows")', files={"lib/__init__.py": library, **files})
            self.assertEqual(answer.left, "", files)
            self.assertIn('name: "BLOCK" values: "[64, 128]"', answer.spec, files)
            self.assertIn('name: "num_warps" values: "[2]"', answer.spec)
            self.assertRegex(answer.notes, r"configs: load\('rows'\) was not followed; what .* has under 'rows' is taken")
        for files in ({}, {"a/b.yaml": yaml, "c/d.yaml": grid}, {"a.yaml": yaml.replace("64", "&x 64")},
                      {"a.yaml": yaml.replace("BLOCK", "TILE")}):
            answer = self.configs("from lib import tuned\n", 'tuned("rows")', files={"lib/__init__.py": library, **files})
            self.assertRegex(answer.left, r"^configs \(line 6\): 'tuned\('rows'\)' was not understood", files)

    def test_heuristics_that_a_library_keeps_under_a_name(self):
        library = "def by_name(name):\n    return load(name)\n"
        table = 'def even(args):\n    return args["N"] % args["BLOCK"] == 0\nTABLE = {\n    "rows": {"EVEN": even},\n}\n'
        kernel = KERNEL.replace("@triton.jit", '@triton.heuristics(by_name("rows"))\n@triton.jit').replace(
            "BLOCK: tl.constexpr", "BLOCK: tl.constexpr, EVEN: tl.constexpr")
        text = HEAD + "from lib import by_name\n" + kernel + HOST.replace("ASSERT", "assert w.shape == x.shape")
        answer = self.read(text, files={"lib/__init__.py": library, "lib/table.py": table})
        self.assertEqual(answer.left, "")
        self.assertIn('name: "EVEN" value: "(N % BLOCK) == 0"', answer.spec)
        answer = self.read(text, files={"lib/__init__.py": library})
        self.assertRegex(answer.left, r"^heuristics: .* was not understood \(line 7\): EVEN$")

    def test_modules_are_found_where_a_folder_between_is_no_package(self):
        files = {"lib/__init__.py": "", "lib/plain/ops/__init__.py": "", "lib/plain/ops/common.py": "WARPS = [2, 8]\n",
                 "lib/plain/ops/script.py": HEAD + "from lib.plain.ops.common import WARPS\n" + KERNEL.replace(
                     '{"BLOCK": 128}', '{"BLOCK": 64}, num_warps=WARPS[1]') + HOST.replace("ASSERT", "assert w.shape == x.shape")}
        answer = self.read("", files=files, name="lib/plain/ops/script.py")
        self.assertEqual(answer.left, "")
        self.assertIn('name: "num_warps" values: "[4, 8]"', answer.spec)

    def test_of_a_module_of_functions_those_come_along_that_are_used(self):
        module = "import triton\nfrom triton import language as tl\nfrom lib.other import cached, SCALE\n" \
            "@triton.jit\ndef index(axis):\n    return base(axis).to(tl.int64)\n@triton.jit\ndef base(axis):\n" \
            "    return tl.program_id(axis)\n@cached\n@triton.jit\ndef other(axis):\n    return axis * SCALE\n"
        text = HEAD + "from lib import functions as f\n" + KERNEL + HOST.replace("ASSERT", "assert w.shape == x.shape")
        files = {"lib/__init__.py": "", "lib/functions.py": module, "lib/other.py": "SCALE = 2\ndef cached(f):\n    return f\n"}
        answer = self.read(text.replace("tl.program_id", "f.index"), files=files)
        self.assertEqual(answer.left, "")
        self.assertIn("import functions as f", answer.files["add_rows.py"])
        self.assertRegex(answer.files["functions.py"], r"(?s)def base\(.*def index\(")
        self.assertNotIn("other", answer.files["functions.py"])
        # A decorator may put another function in its place.
        answer = self.read(text.replace("tl.program_id", "f.other"), files=files)
        self.assertRegex(answer.left, "^'f.other' is of module lib: put it into add_rows.py")

    def test_functions_of_other_modules_come_along(self):
        kernel = KERNEL.replace("v = tl.load", "v = twice(tl.load")
        kernel = kernel.replace("w_row + o, mask=o < N)\n", "w_row + o, mask=o < N))\n")
        text = HEAD + "from mylib.op import twice\n" + kernel + HOST.replace("ASSERT", "assert w.shape == x.shape")
        files = {"mylib/op.py": "import triton\nimport triton.language as tl\nFACTOR = 2\n@triton.jit\ndef base(v):\n"
                                "    return v\n@triton.jit\ndef twice(v):\n    return base(v) * FACTOR\n"}
        answer = self.read(text, files=files)
        self.assertEqual(answer.left, "")
        for line in ("def twice(v):", "def base(v):", "FACTOR = tl.constexpr(2)"):
            self.assertIn(line, answer.files["add_rows.py"])
        self.assertIn("'twice' is of module mylib.op", self.read(text).left)


class Files(kit.Import):
    def test_a_file_without_autotune_has_one_config(self):
        kernel = KERNEL[KERNEL.index("@triton.jit"):]
        answer = self.read(HEAD + kernel + HOST.replace("ASSERT", "assert w.shape == x.shape").replace(
            "w.stride(0))", "w.stride(0), BLOCK=128)"))
        self.assertEqual(answer.left, "")
        self.assertIn("no function with @triton.autotune; functions with @triton.jit are: add_rows", answer.notes)
        self.assertIn('defines { name: "BLOCK" value: "128" }', answer.spec)
        answer = self.read(HEAD + kernel)
        self.assertIn("nothing in the script launches add_rows", answer.left)

    def test_another_tuner_of_configs_is_taken_for_autotune(self):
        answer = self.read(HEAD + KERNEL.replace("@triton.autotune", "@libentry()\n@libtuner") +
                           HOST.replace("ASSERT", "assert w.shape == x.shape"))
        self.assertEqual(answer.left, "")
        self.assertIn('name: "BLOCK" values: "[64, 128]"', answer.spec)


if __name__ == "__main__":
    unittest.main(verbosity=2)
