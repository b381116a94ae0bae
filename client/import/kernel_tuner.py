# SPDX-License-Identifier: Apache-2.0
"""A Kernel Tuner script's call as a spec and its files, with what is left to write before it sweeps, and
what its author should know."""
import ast
import collections
import itertools
import json
import os
import re
import sys

from cuda_source import CudaSource, included_files, is_readable
from script_reader import Reader, Unreadable
from script_values import (Array, File, Function, Map, Num, Scalar, Seq, Unknown, plain, product)

POSITIONS = ("kernel_name", "kernel_source", "problem_size", "arguments", "tune_params",
             "grid_div_x", "grid_div_y", "grid_div_z", "restrictions", "answer", "atol")
IGNORED = {"verbose", "iterations", "strategy", "strategy_options", "metrics", "observers", "log",
           "quiet", "device", "platform", "cache", "simulation_mode", "objective", "verify",
           "objective_higher_is_better", "use_noodles", "lang", "compiler"}
LANGUAGES = {"", "CUDA", "CUPY", "NVCUDA"}
# Flags of tunectl, which no dim may have as its name, and what expressions know already.
RESERVED = set("""
address all alpha background base baseline best budget config count csv default delta0
detach device dtype folder fresh head help json junit kernel kernels markdown max prior
replay retune rev rounds samples seconds seed set strategy strict study svg sweep target
tolerance top trial version warm
sm sm_count dtype_bytes int float round abs min floor ceil sqrt log2 pow2 range ceil_div""".split())
SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "u32": 4, "i8": 1, "u8": 1}
FLOATS = {"f64", "f32", "f16", "bf16"}
TRIES_MAX = 200_000
CPU_ELEMENTS_MAX = 1 << 18
THREADS_MAX = 1024
TO_WRITE = "left_to_write"


def quoted(text):
    return json.dumps(str(text))


def literal(value):
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)


def ident_pattern(names):
    return re.compile(r"\b(" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + r")\b")


class Import:
    """One call. The methods fill in `spec`, lines of text format."""

    def __init__(self, reader, line, node, values):
        self.reader, self.line, self.node, self.values = reader, line, node, values
        self.left, self.notes, self.spec, self.files = [], [], [], {}
        self.sizes = {}  # dims by name

    def get(self, name):
        value = self.values.get(name)
        if isinstance(value, Num) and value.value is None:
            return None
        if isinstance(value, Unknown) and not isinstance(value, File):
            self.left.append(f"{name} (line {value.line}): '{value.why}' was not understood")
            return None
        return value

    # The parts of a spec.

    def make(self):
        self.kernel = self.get("kernel_name")
        if not isinstance(self.kernel, str):
            raise Unreadable(f"{self.reader.path}:{self.line}: the kernel's name is no plain text")
        self.function = re.split(r"[<(]", self.kernel)[0].split("::")[-1].strip()
        self.name = re.sub(r"[^a-z0-9_-]", "_", self.function.lower()).strip("_-")[:60] or "kernel"
        self.name = self.name if self.name[0].isalpha() else "k" + self.name
        language = self.values.get("lang", "")
        if isinstance(language, str) and language.upper() not in LANGUAGES:
            raise Unreadable(f"{self.reader.path}:{self.line}: lang={language!r}: only CUDA kernels "
                             "can be imported; of a function of the host, its kernel can be "
                             "wrapped: docs/wrapping-a-kernel.md")
        self.read_source()
        self.read_params()
        self.read_args()
        self.read_symbols()
        self.read_launch()
        self.write_spec()
        for name in self.values:
            if name in ("texmem_args", "smem_args") and self.get(name) is not None:
                self.left.append(f"{name}: texture and shared memory arguments are not read; see "
                                 "docs/coming-from.md")
            elif name == "compiler_options" and self.get(name) is not None:
                self.notes.append(f"compiler_options {plain(self.get(name))} were left out; "
                                  "nvrtc_options takes those that docs/adding-a-kernel.md lists")
            elif name not in POSITIONS and name not in IGNORED and name not in (
                    "cmem_args", "texmem_args", "smem_args", "block_size_names", "defines"):
                self.notes.append(f"{name} was left out")

    def read_source(self):
        value = self.get("kernel_source")
        path = value.text if isinstance(value, File) else value
        more = []
        if isinstance(value, Seq):
            names = [plain(item) for item in value.items]
            path, more = (names[0], names[1:]) if names else (None, [])
        self.source_name = self.name + ".cu"
        self.source = None
        if not isinstance(path, str):
            self.left.append("source: it is made by code; write it into " + self.source_name)
            return
        folder = self.reader.folder
        if "\n" in path or "{" in path:
            text = path
        else:
            full = os.path.join(folder, path)
            if not is_readable(full, self.reader.folder):
                self.left.append(f"source: there is no file {path} of at most 1 MiB in the script's "
                                 "folder; put it there")
                return
            folder = os.path.dirname(full)
            with open(full, encoding="utf-8", errors="replace") as file:
                text = file.read()
        headers, missing = included_files(text, folder, self.reader.folder)
        for name in missing + [m for m in more if m and os.path.basename(m) not in headers]:
            self.left.append(f"header {name}: put it beside the spec, by its bare name, and list it")
        self.headers = sorted(headers)
        self.files.update(headers)
        self.source = CudaSource(text, self.function)
        self.files[self.source_name] = text
        if not self.source.found:
            self.left.append(f"source: no '__global__' function {self.function} in it")
            self.source = None
        elif self.source.is_template and "<" not in self.kernel:
            self.left.append(f"entry: {self.kernel} is a template; name an instance of it, such as "
                             f"{self.kernel}<float>")

    def read_params(self):
        value = self.get("tune_params")
        self.params = {}
        for name, values in (value.items if isinstance(value, Map) else {}).items():
            known = plain(values)
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
                self.left.append(f"params: a name was not understood: {name}")
                continue
            if not isinstance(known, list) or not known:
                self.left.append(f"param {name}: its values were not understood")
                continue
            self.params[name] = [int(v) if isinstance(v, bool) else v for v in known]
        if not self.params:
            self.left.append("params: tune_params was not understood")
        restrictions = self.get("restrictions")
        self.constraints = []
        items = restrictions.items if isinstance(restrictions, Seq) else \
            [restrictions] if restrictions is not None else []
        for item in items:
            text = self.constraint(item)
            if text is not None:
                self.constraints.append(text)
        self.defaults = self.first_valid()

    def constraint(self, item):
        if isinstance(item, str):
            return item
        node = item.node if isinstance(item, Function) else None
        body = getattr(node, "body", None)
        if isinstance(node, ast.FunctionDef):
            body = node.body[-1].value if len(node.body) == 1 and isinstance(
                node.body[-1], ast.Return) else None
        if body is None:
            self.left.append("constraint: one is made by code; write it as an expression")
            return None
        names = [a.arg for a in node.args.args]

        class Names(ast.NodeTransformer):
            def visit_Subscript(self, inner):
                is_param = isinstance(inner.value, ast.Name) and inner.value.id in names[:1]
                if is_param and isinstance(inner.slice, ast.Constant):
                    return ast.Name(str(inner.slice.value), ast.Load())
                return self.generic_visit(inner)
        return ast.unparse(ast.fix_missing_locations(Names().visit(body)))

    def holds(self, config):
        scope = {name: value if isinstance(value, str) else Num(value)
                 for name, value in config.items()}
        threads = 1
        for name in self.block_names():
            threads *= config.get(name, 1) if isinstance(config.get(name, 1), int) else 1
        if threads > THREADS_MAX:
            return False
        for text in self.constraints:
            try:
                value = plain(self.reader.value(ast.parse(text, mode="eval").body, scope))
            except SyntaxError:
                continue
            if value is not None and not value:
                return False
        return True

    def first_valid(self):
        names = list(self.params)
        tries = itertools.product(*self.params.values())
        for values in itertools.islice(tries, TRIES_MAX):
            config = dict(zip(names, values))
            self.reader.steps = 0
            if self.holds(config):
                return config
        self.notes.append("no config was found that the restrictions allow; choose the defaults")
        return {name: values[0] for name, values in self.params.items()}

    def block_names(self):
        names = plain(self.values.get("block_size_names")) if self.values.get("block_size_names") else None
        return names if isinstance(names, list) else ["block_size_x", "block_size_y", "block_size_z"]

    def read_args(self):
        value = self.get("arguments")
        items = value.items if isinstance(value, Seq) else []
        if not items:
            self.left.append("args: the list of arguments was not understood")
        parameters = self.source.parameters if self.source else []
        if self.source and items and len(items) != len(parameters):
            self.left.append(f"args: the script has {len(items)}, the kernel {len(parameters)}")
        answer = self.get("answer")
        self.answers = [not (isinstance(a, Num) and a.value is None) for a in answer.items] \
            if isinstance(answer, Seq) else []
        self.args = []
        for index, item in enumerate(items):
            parameter = parameters[index] if index < len(parameters) else None
            name = parameter.name if parameter else f"arg{index}"
            self.args.append(self.arg(index, name, parameter, item))
        self.guess_output()

    def arg(self, index, name, parameter, item):
        if isinstance(item, Scalar):
            return {"name": name, "dtype": item.dtype, "value": self.sized(item.num)}
        if isinstance(item, Num):
            item = Scalar("i32" if isinstance(item.value, int) else "f64", item)
            return self.arg(index, name, parameter, item)
        if not isinstance(item, Array):
            return self.unknown_arg(name, parameter, item)
        role = self.role(index, name, parameter, item)
        fill = None if role == "OUTPUT" else item.fill
        return {"name": name, "dtype": item.dtype, "shape": self.shape(name, item), "role": role,
                "fill": fill}

    def unknown_arg(self, name, parameter, item):
        """What its author must write has a name that `kernel check` does not let pass."""
        why = f"'{item.why}'" if isinstance(item, Unknown) else "it"
        dtype = parameter.dtype if parameter else "f32"
        if parameter and not parameter.is_pointer:
            self.left.append(f"arg {name}: {why} was not understood; write its value")
            return {"name": name, "dtype": dtype, "value": TO_WRITE}
        self.left.append(f"arg {name}: {why} was not understood; write its shape and fill, and "
                         "look at its type and role")
        role = {"=": "OUTPUT", "+=": "INOUT"}.get(self.source.writes(name), "INPUT") \
            if self.source else "INPUT"
        return {"name": name, "dtype": dtype, "shape": [TO_WRITE], "role": role, "fill": None}

    def shape(self, name, array):
        if array.note:
            self.notes.append(f"arg {name}: {array.note}; it is filled with random numbers here")
        if array.fill.high_text:
            self.sized(Num(array.fill.high, array.fill.high_text))
        return [self.sized(num) for num in array.shape]

    def role(self, index, name, parameter, item):
        written = self.source.writes(name) if self.source else ""
        answered = index < len(self.answers) and self.answers[index]
        is_zero = item.fill.kind == "CONSTANT" and item.fill.low == 0
        if parameter is not None and parameter.is_const:
            return "INPUT"
        if written == "+=":
            return "INOUT"
        if written == "=" or answered:
            # What is filled with more than zeros may be meant to keep some of it.
            return "OUTPUT" if is_zero or answered else "INOUT"
        return "OUTPUT" if self.source is None and is_zero else "INPUT"

    def guess_output(self):
        """Of a kernel that hands its arguments on: the arrays that the script zeroes."""
        if any(arg.get("role") in ("OUTPUT", "INOUT") for arg in self.args):
            return
        for arg in self.args:
            fill = arg.get("fill")
            if fill is not None and fill.kind == "CONSTANT" and fill.low == 0:
                arg.update(role="OUTPUT", fill=None)
                self.notes.append(f"arg {arg['name']}: taken for an output, because the script "
                                  "fills it with zeros")

    def read_symbols(self):
        value = self.get("cmem_args")
        for name, item in (value.items if isinstance(value, Map) else {}).items():
            size = self.source.elements(name) if self.source else ""
            symbol = {"name": name, "dtype": "f32", "shape": [size or TO_WRITE], "symbol": True,
                      "fill": None}
            if isinstance(item, Array):
                shape = self.shape(name, item)
                symbol.update(dtype=item.dtype, shape=[size] if size else shape, fill=item.fill)
            else:
                self.left.append(f"cmem_args: {name} was not understood; write its type and fill")
            if any(arg["name"] == name for arg in self.args):
                symbol.update(name=name + "_symbol", variable=name)
            self.args.append(symbol)

    def sized(self, num):
        """The expression of a size; its names become dims."""
        names = re.findall(r"[A-Za-z_]\w*", num.show())
        for name in names:
            if name in self.params or name in (TO_WRITE, "min", "max", "int", "float", "round", "abs", "ceil",
                                               "floor", "sum"):
                continue
            self.sizes.setdefault(name, None)
        return num.show()

    def read_launch(self):
        value = self.get("problem_size")
        items = value.items if isinstance(value, Seq) else [value] if value is not None else []
        self.grid = []
        names = self.block_names()
        for axis, item in enumerate(items[:3]):
            if isinstance(item, Scalar):
                item = item.num
            if isinstance(item, str):
                item = Num(0, item, tight=False)
            if not isinstance(item, Num):
                self.left.append("launch: problem_size was not understood")
                break
            if not item.text and isinstance(item.value, int) and item.value > 1:
                item = Num(item.value, f"size_{'xyz'[axis]}")
                self.sizes[item.text] = item.value
            self.sized(item)
            divisors = self.divisors("xyz"[axis], names[axis] if axis < len(names) else "")
            self.grid.append(f"ceil_div({item.show()}, {' * '.join(divisors)})" if divisors
                             else item.show())
        if not items:
            self.left.append("launch: problem_size was not understood")
        self.block = [n if n in self.params else "256" if axis == 0 else "1"
                      for axis, n in enumerate(names[:3])]
        while len(self.block) > 1 and self.block[-1] == "1":
            self.block.pop()

    def divisors(self, axis, default):
        value = self.get("grid_div_" + axis)
        if value is None:
            return [default] if default in self.params else []
        known = plain(value)
        if not isinstance(known, list):
            self.left.append(f"launch: grid_div_{axis} was not understood")
            return []
        return [str(d) if re.fullmatch(r"\w+", str(d)) else f"({d})" for d in known]

    # The text.

    def dims(self):
        """The sizes' values, as the script has them: of names that it gave a plain number."""
        values = {}

        def visit(value):
            if isinstance(value, Num):
                if value.text in self.sizes and isinstance(value.value, int):
                    values[value.text] = value.value
            elif isinstance(value, Seq):
                for item in value.items:
                    visit(item)
            elif isinstance(value, Array):
                visit(Seq(value.shape))
            elif isinstance(value, Scalar):
                visit(value.num)
        for value in list(self.values.values()) + list(self.reader.names.values()):
            visit(value)
        values.update({name: value for name, value in self.sizes.items() if value is not None})
        for name in self.sizes:
            if name not in values:
                self.left.append(f"dim {name}: its value was not understood")
        return {name: values.get(name, 1) for name in self.sizes}

    def place_of(self, number):
        """"stencil.cu:3", where a source has the number; else empty."""
        for file, text in self.files.items():
            for line, content in enumerate(text.split("\n"), 1):
                if re.search(rf"\b{number}\b", content):
                    return f"{file}:{line}"
        return ""

    def cpu_sizes(self, dims):
        """Smaller ones for a CPU, unless the source has the number itself."""
        fixed = {n: self.place_of(v) for n, v in dims.items() if v >= 256 and self.place_of(v)}
        for name, place in fixed.items():
            self.notes.append(f"dim {name}: {place} has its {dims[name]}, so a CPU gets no smaller one; see "
                              "docs/coming-from.md")
        sizes = {n: v for n, v in dims.items() if v >= 256 and n not in fixed}
        total = 1
        for value in dims.values():
            total *= max(1, value)
        while sizes and total > CPU_ELEMENTS_MAX:
            name = max(sizes, key=sizes.get)
            if sizes[name] % 2 or sizes[name] < 256:
                break
            sizes[name] //= 2
            total //= 2
        return sizes

    def renamed(self, text, dims):
        clash = {name: name + "_" for name in dims if name in RESERVED}
        return ident_pattern(clash).sub(lambda m: clash[m.group(1)], text) if clash else text

    def write_spec(self):
        dims = self.dims()
        lines = ["# proto-file: tune/v1/kernel.proto", "# proto-message: KernelSpec",
                 f"# Imported from {os.path.basename(self.reader.path)}, line {self.line}.",
                 f"name: {quoted(self.name)}", f"summary: {quoted('imported: ' + self.kernel)}",
                 f"source: {quoted(self.source_name)}"]
        lines += [f"headers: {quoted(h)}" for h in getattr(self, "headers", [])]
        lines += [f"entry: {quoted(self.kernel)}", ""]
        small = self.cpu_sizes(dims)
        for name, value in dims.items():
            on = f' on {{ target: "cpu" default_value: {small[name]} }}' \
                if small.get(name, value) != value else ""
            lines.append(f"dims {{ name: {quoted(self.renamed(name, dims))} default_value: {value} "
                         f"min: 1{on} }}")
        floats = [a["dtype"] for a in self.args if "shape" in a and a["dtype"] in FLOATS]
        lines += [f"dtypes: {quoted(floats[0] if floats else 'f32')}", ""]
        for name, values in self.params.items():
            text = ", ".join(literal(v) for v in values)
            lines.append(f"params {{ name: {quoted(name)} values: {quoted('[' + text + ']')} "
                         f"default_value: {quoted(literal(self.defaults[name]))} }}")
        lines += [f"constraints {{ expression: {quoted(self.renamed(text, dims))} }}"
                  for text in self.constraints]
        lines += self.define_lines() + [""] + [self.arg_line(arg, dims) for arg in self.args]
        grid = " ".join(f"grid: {quoted(self.renamed(g, dims))}" for g in self.grid)
        block = " ".join(f"block: {quoted(b)}" for b in self.block)
        lines += [f"launch {{ {grid} {block} }}", ""]
        lines += self.work_lines(dims) + self.reference_lines(dims)
        self.files[self.name + ".textproto"] = "\n".join(lines) + "\n"

    def define_lines(self):
        defines = self.get("defines")
        lines = []
        for name, value in (defines.items if isinstance(defines, Map) else {}).items():
            known = plain(value)
            if known is None:
                self.left.append(f"define {name}: its value was not understood")
                continue
            lines.append(f"defines {{ name: {quoted(name)} value: {quoted(literal(known))} }}")
        return lines

    def arg_line(self, arg, dims):
        if "shape" not in arg:
            return (f"args {{ name: {quoted(arg['name'])} scalar {{ dtype: {quoted(arg['dtype'])} "
                    f"value: {quoted(self.renamed(arg['value'], dims))} }} }}")
        shape = " ".join(f"shape: {quoted(self.renamed(s, dims))}" for s in arg["shape"])
        fill = arg["fill"]
        text = ""
        if fill is not None and fill.kind:
            low = f" low: {fill.low}" if fill.low else ""
            high = f" high: {fill.high}" if fill.high else ""
            if fill.high_text:
                high = f" high_expression: {quoted(self.renamed(fill.high_text, dims))}"
            text = f" fill {{ kind: {fill.kind}{low}{high} }}"
        if "symbol" in arg:
            variable = f" variable: {quoted(arg['variable'])}" if "variable" in arg else ""
            return (f"args {{ name: {quoted(arg['name'])} symbol {{ dtype: {quoted(arg['dtype'])} "
                    f"{shape}{variable}{text} }} }}")
        return (f"args {{ name: {quoted(arg['name'])} buffer {{ dtype: {quoted(arg['dtype'])} "
                f"{shape} role: ROLE_{arg['role']}{text} }} }}")

    def work_lines(self, dims):
        terms = []
        for arg in self.args:
            if "role" in arg:
                times = SIZES.get(arg["dtype"], 4) * (2 if arg["role"] == "INOUT" else 1)
                sizes = " * ".join(s if re.fullmatch(r"\w+", s) else f"({s})" for s in arg["shape"])
                terms.append(f"{times} * {sizes}")
        text = self.renamed(" + ".join(terms) or "0", dims)
        self.notes.append("work: bytes are those of the arguments; add flops and peak for rates of "
                          "computing")
        return [f"work {{ bytes: {quoted(text)} }}"]

    def reference_lines(self, dims):
        outputs = [a for a in self.args if a.get("role") in ("OUTPUT", "INOUT")]
        types = {a["dtype"] for a in outputs if a["dtype"] in FLOATS}
        if not outputs:
            self.left.append("roles: no argument is seen to be written; one must be ROLE_OUTPUT")
        if len(types) > 1 or types & {"f16", "bf16"}:
            self.left.append("reference: outputs of 16 bits, or of several types, need one of "
                             "their own; see docs/adding-a-kernel.md")
            return []
        self.notes.append("reference: the kernel itself with its default config. It shows that "
                          "configs agree, not that they are right: write a plain one")
        def settled(text):
            pattern = ident_pattern(self.params) if self.params else None
            text = self.renamed(text, dims)
            return pattern.sub(lambda m: str(self.defaults[m.group(1)]), text) if pattern else text
        grid = " ".join(f"grid: {quoted(settled(g))}" for g in self.grid)
        block = " ".join(f"block: {quoted(settled(b))}" for b in self.block)
        dtype = (types or {"f32"}).pop()
        atol = plain(self.get("atol"))
        lines = ["# The kernel itself, with its default config. Write a plain one instead.",
                 f"reference {{ entry: {quoted(self.kernel)} dtype: {quoted(dtype)} "
                 f"launch {{ {grid} {block} }} }}"]
        if dtype == "f32":
            lines.append("tolerances { dtype: \"f32\" rtol: 1e-4 atol: "
                         f"{atol if isinstance(atol, (int, float)) else 1e-4} }}")
        return lines


def run(path, wanted):
    reader = Reader(path, "tune_kernel")
    calls = reader.read()
    if not calls:
        raise Unreadable(f"{path}: no call of tune_kernel was met")
    if not 1 <= wanted <= len(calls):
        raise Unreadable(f"{path}: there are {len(calls)} calls of tune_kernel, no number {wanted}")
    line, node, positional, by_name = calls[wanted - 1]
    made = Import(reader, line, node, {**dict(zip(POSITIONS, positional)), **by_name})
    made.make()
    made.left += [text for _, _, text in reader.passed_over[:reader.passed_over_at[wanted - 1]]]
    if len(calls) > 1:
        counts = collections.Counter(call[0] for call in calls)
        lines = ", ".join(f"{at} ({times} times)" if times > 1 else str(at)
                          for at, times in counts.items())
        made.notes.append(f"{len(calls)} calls of tune_kernel (lines {lines}); --call N chooses one")
    return {"name": made.name, "files": made.files, "left": list(dict.fromkeys(made.left)),
            "notes": list(dict.fromkeys(made.notes))}
