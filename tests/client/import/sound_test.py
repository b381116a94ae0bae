# SPDX-License-Identifier: Apache-2.0
"""Programs that are made at random of the forms that Python has, read and run: what was read of one is what it does, or
it has a mark. `python3 sound_test.py COUNT SEED` tries others."""
import ast
import os
import pathlib
import random
import re
import sys
import tempfile
import types
import unittest

import kit

sys.path.insert(0, str(kit.ROOT / "client/import"))
import kernel_tuner
import triton_run
import triton_script
from script_reader import Unreadable
from spec_text import MARKS_HERE, marked

COUNT, SEED = 60, 1
SIZES = (0, 1, 3, 64, 5000)
# Of a module; what a program may call.
HELPERS = '''G = 3
class Box:
    size = 4
    def __init__(self, n):
        self.n = n
    @property
    def twice(self):
        return self.n * 2
    def grow(self, n):
        self.n += n
def deco(f):
    def made(*args):
        return f(*args) + 1
    return made
@deco
def decorated(n):
    return n * 2
def early(n):
    if n > 64:
        return 2
    for each in (1, 2, 3):
        if each == n:
            return each
    return 4
def gather(n, found=[]):
    found.append(n)
    return len(found)
def add_global(n):
    global G
    G += n
    return G
def gen(n):
    yield n
    if n > 3:
        return
    yield n + 1
def fail(n):
    if n > 3:
        raise ValueError(n)
    return n
def redefined(n):
    return 1
def redefined(n):
    return n + 2
class Hush:
    def __enter__(self):
        return 5
    def __exit__(self, *what):
        return True
'''


class Program:
    """Statements over `p` and `q`, numbers, `l`, a list, and `d`, a dict. `size`: a number that reading does not know."""

    def __init__(self, rng, size):
        self.rng, self.size, self.depth, self.loops = rng, size, 0, 0

    def pick(self, *texts):
        return self.rng.choice(texts)

    def number(self):
        return self.pick("p", "q", "1", "2", "5", "l[0]", "d['a']", "len(l)", "p + 1", "q * 2", "p - q", "max(p, q)", "min(l)", "early(p)",
                         "early(%)", "gather(p)", "add_global(1)", "G", "decorated(q)", "redefined(p)", "sum(l)", "l[-1]", "%",
                         "(p if q > 2 else 7)", "(p if % > 2 else 7)", "(p or q)", "(p and q)", "(% and p)", "(w := p + 1)",
                         "d.get('b', 9)", "d.setdefault('c', 4)", "l.pop() if len(l) > 1 else 3", "sum(x for x in l if x > 1)",
                         "[y := x for x in l][0]", "Box(p).twice", "Box.size", "next(gen(p))", "list(gen(q))[-1]", "(lambda x=p: x + q)()",
                         "fail(2)", "len({p, q})", "{'a': p}['a']", "[p, q][% > 3]", "int(p < q < 9)").replace("%", self.size)

    def test(self):
        return self.pick("p > 2", "q == 1", "% > 3", "% == 1", "% == 0", "len(l) > 2", "'b' in d", "p in l", "not l", "% > 3 and p > 1",
                         "p > 1 or % > 9", "1 < p < 5", "l is d", "p is None", "(z := p) > 1", "isinstance(p, int)").replace(
                             "%", self.size)

    def block(self, indent, count):
        lines = []
        for _ in range(count):
            lines += self.statement(indent)
        return lines

    def statement(self, indent):
        self.depth += 1
        try:
            simple = self.depth > 3 or self.rng.random() < 0.6
            return [" " * indent + line for line in (self.simple() if simple else self.compound(indent))]
        finally:
            self.depth -= 1

    def simple(self):
        n = self.number()
        loop = ["break", "continue", "if %s: break" % self.test(), "if %s: continue" % self.test()] if self.loops else []
        return self.pick(f"p = {n}", f"q = {n}", f"p += {n}", f"l.append({n})", f"l[0] = {n}", f"d['a'] = {n}", f"d['b'] = {n}", f"d['a'] += {n}",
                         "m = l", f"m = l[:]; m.append({n})", f"m = l; m.append({n})", "del l[0]" if self.rng.random() < 0.3 else "pass",
                         f"l += [{n}]", f"l = l + [{n}]", f"l.insert(0, {n})", "l.reverse()", "l.sort()", f"p, q = q, {n}", f"p, *r = l or [{n}]",
                         "*r, q = [p, 1, 2]", f"p, q = ({n}, 3)", f"d.update(a={n})", f"e = d; e['a'] = {n}", f"l = [{n} for x in range(3)]",
                         f"d = {{**d, 'a': {n}}}", f"b = Box({n}); b.n += 1; p = b.n", f"b = Box(2); b.grow({n}); q = b.n", f"Box.size = {n}",
                         f"setattr(Box, 'size', {n})", f"f = lambda: p; p = {n}; q = f()", f"t = (p,); u = t; t += ({n},); p = len(u)",
                         f"fs = [lambda: x for x in (1, 2)]; q = fs[0]()", f"fs = [lambda x=x: x for x in (1, 2)]; q = fs[0]()",
                         f"assert {self.test()} or True", f"globals()['G'] = {n}", f"exec('G = 8')", f"l[1:] = [{n}]", f"l[len(l) - 1] += {n}",
                         f"d.pop('b', None)", "del d['a']; d['a'] = 2", f"a = [l]; a[0].append({n})", f"a = {{'l': l}}; a['l'].append({n})",
                         f"[l.append(x) for x in (1, 2)]", f"print(l.append({n}))", f"p: int = {n}", f"import math as q; q = {n}", *loop).replace(
                             "%", self.size).split("; ")

    def compound(self, indent):
        kind = self.rng.randrange(13)
        inner = self.block(4, self.rng.randrange(1, 3))
        if kind < 3:
            other = ["else:", *self.block(4, 1)] if self.rng.random() < 0.5 else []
            return [f"if {self.test()}:", *inner, *other]
        if kind in (3, 4):
            self.loops += 1
            try:
                inner = self.block(4, self.rng.randrange(1, 3))
            finally:
                self.loops -= 1
            other = ["else:", *self.block(4, 1)] if self.rng.random() < 0.3 else []
            head = self.pick("for x in (1, 2, 3):", "for x in list(l):", "for x in range(min(%, 2)):", "for k, x in d.items():",
                             "for x in l[:2]:", "for i, x in enumerate([4, 5]):").replace("%", self.size)
            return [head, *inner, *other]
        if kind == 5:
            self.loops += 1
            try:
                inner = self.block(4, 1)
            finally:
                self.loops -= 1
            return ["i = 0", self.pick("while i < 2:", "while i < min(%, 3):").replace("%", self.size), "    i += 1", *inner]
        if kind == 6:
            return ["try:", *inner, f"    {self.pick('fail(2)', 'fail(9)', 'fail(%)').replace('%', self.size)}", *self.block(4, 1),
                    self.pick("except ValueError:", "except Exception as error:", "except (KeyError, ValueError):"), *self.block(4, 1),
                    *(["else:", *self.block(4, 1)] if self.rng.random() < 0.3 else []),
                    *(["finally:", *self.block(4, 1)] if self.rng.random() < 0.4 else [])]
        if kind == 7:
            return [self.pick("with Hush() as p:", "with Hush():", "with contextlib.suppress(ValueError):"), *inner,
                    f"    {self.pick('fail(2)', 'fail(9)', 'fail(%)').replace('%', self.size)}", *self.block(4, 1)]
        if kind == 8:
            return [f"match {self.number()}:", "    case 1 | 2:", *("    " + line for line in inner), "    case int() as p if p > 4:",
                    *self.block(8, 1), "    case _:", *self.block(8, 1)]
        if kind == 9:
            word = "nonlocal" if self.size == "N" else "global"
            return ["def change(n):", f"    {word} p", f"    if {self.test()}:", "        return 1", f"    p = {self.number()}", "    return n",
                    "q = change(2)"]
        if kind == 10:
            return ["def inner(n, more=l):", f"    if n > {self.pick('2', self.size)}:", "        more.append(n)", f"        return {self.number()}",
                    f"    return {self.pick('n', 'p', 'len(more)')}", f"p = inner({self.number()})"]
        if kind == 11:
            return ["class Own:", f"    size = {self.number()}", "    def get(self):", "        return self.size + q", "p = Own().get()"]
        return ["try:", *inner, "finally:", *self.block(4, 1)]


TRITON = '''import contextlib
import torch
import triton
import triton.language as tl
@triton.autotune(configs=[triton.Config({"B": 32}), triton.Config({"B": 64})], key=["N"])
@triton.jit
def twice(x, y, N, P, Q, R, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < N) * P, mask=o < N)
'''
CONFIGS = '''import contextlib
import torch
import triton
import triton.language as tl
U = int(str(b"SIZE", "ascii"))
'''
KERNEL_TUNER = '''import contextlib
import numpy as np
from kernel_tuner import tune_kernel
U = int(str(b"SIZE", "ascii"))
'''
SOURCE = '__global__ void twice(float* y, const float* x, int n) { y[0] = x[0] * n; }'


class Tensor:
    def __init__(self, n):
        self.n, self.shape, self.dtype = n, (n,), "torch.float32"

    def numel(self):
        return self.n

    def stride(self, *at):
        return 1


def really(text, modules, call=None):
    """Whether a program runs to its end; what it prints is dropped."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    out, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")
    scope = {"__name__": "__main__"}
    try:
        exec(compile(text, "script.py", "exec"), scope)
        if call is not None:
            call(scope)
        return True
    except Exception:  # a program may do anything
        return False
    finally:
        sys.stdout.close()
        sys.stdout = out
        for name, module in before.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})


def torch_module():
    torch = types.ModuleType("torch")
    torch.Tensor, torch.empty_like = Tensor, lambda x: Tensor(x.n)
    return torch


def value_of(text, names):
    return eval(text, {"ceil_div": lambda a, b: -(-a // b), **names})


class Sound(unittest.TestCase):
    def each(self, size, make):
        """Programs that read as they run, and those that have a mark."""
        found = {"read": 0, "marked": 0}
        for seed in range(SEED * 10_000, SEED * 10_000 + COUNT):
            rng = random.Random(seed)
            program = Program(rng, size)
            lines = program.block(0, rng.randrange(1, 6))
            with tempfile.TemporaryDirectory() as folder:
                outcome = make(rng, lines, pathlib.Path(folder, "script.py"), seed)
            found[outcome] = found.get(outcome, 0) + 1
        print(found, flush=True)
        self.assertGreater(found["read"], COUNT // 12)  # else nothing is read

    def answer(self, read, path, text):
        path.write_text(text)
        try:
            return kit.Answer(read())
        except Unreadable:
            return None

    def test_a_launch_is_what_it_is_or_has_a_mark(self):
        def make(rng, lines, path, seed):
            grid = rng.choice(("(p,)", "lambda m: (triton.cdiv(p, m['B']),)", "lambda m: (m['B'] if p > 3 else q,)"))
            after = rng.choice(([], [], ["p = 77"], ["l.append(9)"]))
            body = ["N = x.numel()", "y = torch.empty_like(x)", "p = 1", "q = 2", "l = [1, 2]", "d = {'a': 1}", *lines,
                    f"twice[{grid}](x, y, N, p, q, l[0] + d['a'])", *after]
            text = TRITON + HELPERS + "def run(x):\n" + "".join(f"    {line}\n" for line in body)
            answer = self.answer(lambda: triton_script.run(str(path), text, 1), path, text)
            if answer is None or answer.left:
                return "marked"
            found = {name: re.search(rf'name: "{name}" \w+ {{.*? value: "(.*?)"', answer.spec) for name in "PQR"}
            extent = re.search(r'^launch { grid: \["(.*?)"', answer.spec, re.M)[1]
            for size in SIZES:
                launches = []
                if not really(text, {**triton_run.stand_in(launches), "torch": torch_module()}, lambda scope: scope["run"](Tensor(size))):
                    continue
                for one in launches[:1]:
                    for name, known in found.items():
                        self.assertEqual(int(value_of(known[1], {"N": size})), int(one.values[name]), (seed, name, size, text, answer.spec))
                    for block, real in zip((32, 64), one.bound.grids):
                        self.assertEqual(int(value_of(extent, {"N": size, "B": block})), int(real[0]), (seed, "grid", size, text, answer.spec))
            return "read"
        self.each("N", make)

    def test_configs_are_what_they_are_or_have_a_mark(self):
        def make(rng, lines, path, seed):
            size = rng.choice(SIZES)
            body = ["p = 1", "q = 2", "l = [1, 2]", "d = {'a': 1}", *lines,
                    "CONFIGS = [triton.Config({'B': x}) for x in l] + [triton.Config({'B': p}), triton.Config({'B': d['a'] + q})]"]
            text = CONFIGS.replace("SIZE", str(size)) + HELPERS + "\n".join(body) + "\n" + TRITON[TRITON.index("@"):].replace(
                '[triton.Config({"B": 32}), triton.Config({"B": 64})]', "CONFIGS") + \
                "def run(x):\n    N = x.numel()\n    twice[(N,)](x, x, N, p, q, l[0])\n"
            answer = self.answer(lambda: triton_script.run(str(path), text, 1), path, text)
            if answer is None or answer.left:
                return "marked"
            launches = []
            if not really(text, {**triton_run.stand_in(launches), "torch": torch_module()}, lambda scope: scope["run"](Tensor(7))):
                return "fails"
            made = ast.literal_eval(re.search(r'name: "B" values: "(.*?)"', answer.spec)[1])
            self.assertEqual(made, list(dict.fromkeys(c.kwargs["B"] for c in launches[0].configs)), (seed, text, answer.spec))
            for name in "PQR":
                known = re.search(rf'name: "{name}" \w+ {{.*? value: "(.*?)"', answer.spec)[1]
                self.assertEqual(int(value_of(known, {"N": 7})), int(launches[0].values[name]), (seed, name, text, answer.spec))
            return "read"
        self.each("U", make)

    def test_a_call_of_tune_kernel_is_what_it_is_or_has_a_mark(self):
        def make(rng, lines, path, seed):
            size = rng.choice(SIZES)
            body = ["p = 1", "q = 2", "l = [1, 2]", "d = {'a': 1}", *lines, "x = np.zeros(64).astype(np.float32)",
                    "tune_kernel('twice', SOURCE, 64, [x, x, np.int32(p)], {'block_size_x': [32], 'per': l, 'last': [q, d['a']]})"]
            text = KERNEL_TUNER.replace("SIZE", str(size)) + f"SOURCE = {SOURCE!r}\n" + HELPERS + "\n".join(body) + "\n"
            answer = self.answer(lambda: kernel_tuner.run(str(path), 1), path, text)
            if answer is None or answer.left:
                return "marked"
            calls = []
            stand_in, numpy = types.ModuleType("kernel_tuner"), types.ModuleType("numpy")
            stand_in.tune_kernel = lambda *args, **more: calls.append(args)
            numpy.zeros = lambda n: types.SimpleNamespace(astype=lambda kind: n)
            numpy.float32, numpy.int32 = float, int
            if not really(text, {"kernel_tuner": stand_in, "numpy": numpy}):
                return "fails"
            for name in ("per", "last"):
                made = ast.literal_eval(re.search(rf'name: "{name}" values: "(.*?)"', answer.spec)[1])
                self.assertEqual(made, list(dict.fromkeys(map(int, calls[0][4][name]))), (seed, text, answer.spec))
            known = re.search(r'name: "n" scalar {.*? value: "(.*?)"', answer.spec)[1]
            dims = {name: int(value) for name, value in re.findall(r'^dims { name: "(\w+)" default_value: (\d+)', answer.spec, re.M)}
            self.assertEqual(int(value_of(known, dims)), int(calls[0][3][2]), (seed, text, answer.spec))
            return "read"
        self.each("U", make)


class Forms(kit.Import):
    """Forms of Python in a function that launches, one by one."""

    def launch(self, text, grid="(N,)", before=""):
        """(what is left, the value of P, the grid)"""
        body = ["x_ = None", "N = x.numel()", "y = torch.empty_like(x)", *text.split("\n"),
                f"twice[{grid}](x, y, N, p, 0, 0)"]
        answer = self.read(TRITON + before + "def run(x):\n" + "".join(f"    {line}\n" for line in body))
        return answer.left, re.search(r'name: "P" \w+ {.*? value: "(.*?)"', answer.spec)[1], re.search(
            r'launch { grid: \[(.*?)\]', answer.spec)[1]

    def test_a_branch_that_returns_decides_nothing_for_what_follows(self):
        self.assertEqual(self.launch("p = 1\nif N == 0:\n    return y"), ("", "1", '"N"'))
        self.assertEqual(self.launch("p = 1\nif x.shape[0] == 1:\n    return y"), ("", "1", '"N"'))
        self.assertEqual(self.launch("p = 1\nif N != 64:\n    raise ValueError(N)"), ("", "1", '"64"'))

    def test_a_function_returns_what_each_of_its_ways_does(self):
        early = "def early(n):\n    if n > 4096:\n        return 2\n    return 4\n"
        self.assertEqual(self.launch("p = early(N)", before=early), ("", "2 if (N > 4096) else 4", '"N"'))
        pick = "def pick(m):\n    if m['B'] > 32:\n        return (7,)\n    return (9,)\n"
        self.assertEqual(self.launch("p = 1", "pick", pick), ("", "1", '"7 if (B > 32) else 9"'))
        change = "def change():\n    nonlocal p\n    if N == 1:\n        return\n    p = 5\np = 1\nchange()"
        self.assertRegex(self.launch(change)[0], "arg P: 'if N == 1' decides it")

    def test_a_loop_whose_turns_are_not_known_leaves_what_it_sets(self):
        for loop in ("for _ in range(N):\n    p *= 2", "while p < N:\n    p *= 2", "for k in (1, 2):\n    if k == N:\n        break\n    p += k",
                     "l = [1]\nfor k in l:\n    if len(l) < 3:\n        l.append(k)\n    p += 1"):
            left, value, _ = self.launch("p = 1\n" + loop)
            self.assertRegex(left, "^arg P: '(for|while|if) .* (understood|decides it)", loop)
            self.assertEqual(value, "left_to_write", loop)
        self.assertEqual(self.launch("p = 0\nfor k in (1, 2, 4, 8):\n    if k == 4: break\n    p += k")[:2], ("", "3"))
        self.assertEqual(self.launch("p = 0\nwhile True:\n    p += 1\n    if p == 3: break")[:2], ("", "3"))

    def test_stores_are_followed_wherever_they_go(self):
        for text, value in (("o = {'p': 1}\no['p'] = 5\np = o['p']", "5"), ("l = [1, 2]\nl.append(3); l.pop(0)\np = l[0]", "2"),
                            ("p = 1\ndef set_p():\n    nonlocal p\n    p = 5\nset_p()", "5"), ("l = [1]\nm = l\nm[0] = 4\np = l[0]", "4"),
                            ("l = [1]\nif N > 3: l[0] = 2\np = l[0]", "2 if (N > 3) else 1"), ("l = [1]\nf(l)\np = l[0]", "left_to_write"),
                            ("d = {'a': 1}\nd[str(N)] = 2\np = d['a']", "left_to_write"), ("p = [k for k in (3, 4) if k > 3][0]", "4"),
                            ("o = [[1]] * 2\no[0].append(2)\np = len(o[1])", "2")):
            self.assertEqual(self.launch(text)[1], value, text)
        grid = "def pick(m):\n    k = []\n    k.append(m['B'])\n    k.insert(0, 3)\n    return tuple(k)\n"
        self.assertEqual(self.launch("p = 1", "pick", grid)[2], '"3", "B"')
        # A grid is asked when it is launched, and an argument is what it was then.
        self.assertEqual(self.launch("p = 1\nn = 5\ngrid = lambda m: (n,)\nn = 6", "grid")[2], '"6"')

    def test_decorators_are_called_or_told(self):
        deco = "def deco(f): return lambda m: (f(m)[0] + 1,)\n@deco\ndef grid(m): return (m['B'],)\n"
        self.assertEqual(self.launch("p = 1", "grid", deco), ("", "1", '"B + 1"'))
        left, _, grid = self.launch("p = 1", "grid", "import other\n" + deco.replace("@deco", "@other.deco"))
        self.assertRegex(left, "launch.grid: 'grid' was not understood")
        self.assertEqual(grid, '"left_to_write"')

    def test_what_a_try_or_a_with_sets_is_left_if_it_may_not_run(self):
        for text in ("p = 1\ntry:\n    p = 2\n    check(N)\nexcept ValueError:\n    p = 3", "p = 1\nwith hush():\n    check(N)\n    p = 2",
                     "p = 1\nmatch N:\n    case 1:\n        p = 2", "p = 1\nasync def f(): pass\nfor p in f: pass"):
            self.assertEqual(self.launch(text)[1], "left_to_write", text)
        self.assertEqual(self.launch("p = 1\ntry:\n    p = 2\nfinally:\n    p += 1")[:2], ("", "3"))
        self.assertEqual(self.launch("p = 1\nwith torch.no_grad():\n    p = 2")[:2], ("", "2"))

    def test_a_value_of_the_module_that_may_be_another_is_left(self):
        for before in ("Q = 1\nif unknown(): Q = 2\n", "Q = 1\ndef set_q():\n    global Q\n    Q = 2\n", "Q = 1\nexec('Q = 2')\n",
                       "L = [1]\ndef add(): L.append(2)\nQ = L\n", "Q = 1\nglobals()['Q'] = 2\n", "R = 1\nif unknown(): R = 2\nQ = R + 1\n"):
            text = "p = len(L)" if "L" in before else "p = Q"
            self.assertEqual(self.launch(text, before=before)[1], "left_to_write", before)
        self.assertEqual(self.launch("p = Q", before="Q = 1\nif len('ab') > 1: Q = 2\n")[:2], ("", "2"))

    def test_each_launch_of_several_is_said(self):
        text = TRITON + "def run(x):\n    N = x.numel()\n    for k in (1, 2):\n        twice[(N,)](x, x, N, k, 0, 0)\n"
        self.assertIn("launched in a loop; read: line 13, its first turn", self.read(text).notes)
        text = TRITON + "def run(x):\n    N = x.numel()\n    if N > 5:\n        twice[(N,)](x, x, N, 1, 0, 0)\n    else:\n" \
            "        twice[(1,)](x, x, N, 2, 0, 0)\n"
        self.assertIn("launched on lines 13, 15; read: line 13", self.read(text).notes)

    def test_guessed_dims_give_buffers_that_fit_a_gpu(self):
        text = TRITON + "def run(x):\n    D, E, F = x.shape\n    y = torch.empty(E, F, F)\n    twice[(D,)](x, y, D, E, F, 0)\n"
        spec = self.read(text).spec
        a, b, c = (int(re.search(rf'name: "{name}" default_value: (\d+)', spec)[1]) for name in "DEF")
        self.assertLessEqual(4 * (a * b * c + b * c * c), 1 << 30)

    def test_a_part_of_a_spec_that_is_not_known_has_a_mark(self):
        answer = marked({"name": "k", "left": [], "notes": [], "files": {"k.textproto": f'grid: "left_to_write"\n{MARKS_HERE}\n'}})
        self.assertEqual(len(answer["left"]), 1)
        self.assertEqual(answer["files"]["k.textproto"].count(kit.MARK), 1)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1].isdigit():
        COUNT, SEED = int(sys.argv.pop(1)), int(sys.argv.pop(1))
    unittest.main(verbosity=2)
