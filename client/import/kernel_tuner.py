# SPDX-License-Identifier: Apache-2.0
"""A Kernel Tuner script's call as a spec and its files, with what is left to write before it sweeps, and
what its author should know."""
import ast
import collections
import functools
import itertools
import os
import re

from cuda_source import CudaSource, included_files, is_readable
from kernel_tuner_arguments import Arguments
from kernel_tuner_library import HostText
from kernel_tuner_options import CompilerOptions
from kernel_tuner_reader import DOUBT, TuningReader, read_calls
from kernel_tuner_sizes import DependentSizes
from kernel_tuner_spec import SpecWriter
from restriction import Translator, Untranslatable, allowed_configs, table, tried
from script_modules import absent
from script_objects import Instance, bound_member
from script_reader import Unreadable
from script_values import Array, File, Function, Map, Num, Scalar, Seq, Unknown, is_none_value, items_of, plain
from spec_text import TO_WRITE, ident_pattern, listed

POSITIONS = ("kernel_name", "kernel_source", "problem_size", "arguments", "tune_params",
             "grid_div_x", "grid_div_y", "grid_div_z", "restrictions", "answer", "atol", "verify", "verbose", "lang",
             "device", "platform", "smem_args", "cmem_args", "texmem_args", "compiler", "compiler_options", "defines",
             "log", "iterations", "block_size_names", "quiet", "strategy", "strategy_options", "cache", "metrics",
             "simulation_mode", "parallel", "observers", "objective", "objective_higher_is_better", "objectives", "seed")
READ = {"kernel_name", "kernel_source", "problem_size", "arguments", "tune_params", "grid_div_x", "grid_div_y",
        "grid_div_z", "restrictions", "answer", "atol", "smem_args", "cmem_args", "compiler_options", "defines",
        "block_size_names", "lang", "*"}
# How Kernel Tuner searches and measures, which the service does its own way.
IGNORED = {"verbose", "iterations", "strategy", "strategy_options", "metrics", "observers", "log",
           "quiet", "device", "platform", "cache", "simulation_mode", "objective", "objectives", "parallel", "seed",
           "objective_higher_is_better", "use_noodles", "compiler"}
LANGUAGES = {"", "CUDA", "CUPY", "NVCUDA"}
# Marks of a HIP kernel: names that CUDA C++ lacks, or has with other arguments.
HIP_ALONE = re.compile(r"hip|HIP|amd|rocm|\b(__shfl|__shfl_(up|down|xor)|__ballot|__any|__all|warpSize)\b", re.A)
TYPE_WIDTHS = {"double": 64, "float64": 64, "float": 32, "__nv_bfloat16": 16, "nv_bfloat16": 16, "bfloat16": 16,
               "half": 15, "__half": 15, "float16": 15, "long long": 64, "long": 64, "int64_t": 64, "int": 32,
               "int32_t": 32, "short": 16, "int16_t": 16, "char": 8, "int8_t": 8}
TRIES_MAX = 200_000
VALUES_MAX = 4096
THREADS_MAX = 1024
DEFAULT_BLOCK = ("256", "1", "1")


class Import(Arguments, CompilerOptions, DependentSizes, SpecWriter):
    """One call. What it reads is written by its other half."""

    def __init__(self, reader, line, node, values):
        self.reader, self.line, self.node = reader, line, node
        self.values = {name: absent(value, line) for name, value in values.items()}
        self.left, self.notes, self.files = [], [], {}
        self.sizes = {}  # dims by name
        self.bare = set()  # sizes that the script has as numbers
        self.lets, self.trees = [], {}
        self.hidden = set()  # arguments that a star gives, which is said once

    def leave(self, text, line=0, part=""):
        """Left to write, with the script's line. `part`: the argument that is missing, which may have been said."""
        if part in self.hidden:
            return
        self.left.append(text if "(line " in text else f"{text} (line {line or self.line})")

    def get(self, name):
        value = self.values.get(name)
        if is_none_value(value):
            return None
        if isinstance(value, Unknown) and not isinstance(value, File):
            self.leave(f"{name} (line {value.line or self.line}): '{value.why}' was not understood")
            return None
        if isinstance(value, (Map, Seq)) and value.doubt:
            self.leave(f"{name}: {value.doubt} may change it, and was not followed")
        return value

    # The parts of a spec.

    def make(self):
        star = self.values.get("*")
        if star is not None:
            hidden = [name for name in POSITIONS[:5] if name not in self.values]
            self.leave(f"the call: '{star.why}' was not understood; it gives {', '.join(hidden) or 'other options'}",
                       star.line)
            self.hidden.update(hidden)
        for name in ("lang", "block_size_names"):
            known = self.get(name)
            if known is not None and plain(known) is None:
                self.leave(f"{name}: it was not understood")
        self.read_source()
        self.read_params()
        self.translator = Translator(self.reader, set(self.params), self.sized)
        self.read_args()
        self.read_symbols()
        self.read_launch()
        # A number that is no size of an array or of the launch is that number, not a dim.
        self.translator.sized = self.known_size
        self.read_divisors()
        self.read_restrictions()
        self.read_options()
        self.read_defines()
        for name in self.values:
            if name == "texmem_args" and self.get(name) is not None:
                self.leave(f"{name}: texture memory is not read; see docs/coming-from.md")
            elif name == "verify" and not is_none_value(self.values[name]):
                self.notes.append("verify was left out: the reference and tolerances say what is right")
            elif name not in READ and name not in IGNORED and name not in ("texmem_args", "verify"):
                self.leave(f"{name}: no option of Kernel Tuner that the import knows")
        # A list in doubt may be named by its part of the call: then its mark says nothing more.
        doubts = {text: text.removesuffix(DOUBT) for text in self.left if text.endswith(DOUBT)}
        others = [text for text in self.left if text not in doubts]
        self.left = [text for text in self.left if text not in doubts or not any(doubts[text] in other for other in others)]
        self.write_spec()

    def read_source(self):
        kernel = self.get("kernel_name")
        language = self.values.get("lang", "")
        language = language.upper() if isinstance(language, str) else ""
        text, folder = self.source_text()
        if not isinstance(kernel, str):
            found = re.findall(r"__global__[^;{}()]*?\b(\w+)\s*\(", text or "")
            self.function = found[0] if len(found) == 1 else ""
            self.kernel = TO_WRITE
            if not isinstance(self.values.get("kernel_name"), Unknown):  # else get() has said so
                self.leave("entry: the kernel's name is no plain text; write the entry, an instance of a template with "
                           "its arguments", part="kernel_name")
        else:
            self.kernel = kernel
            self.function = re.split(r"[<(]", kernel)[0].split("::")[-1].strip()
        base = self.function or os.path.splitext(os.path.basename(self.reader.path))[0]
        self.name = re.sub(r"[^a-z0-9_-]", "_", base.lower()).strip("_-")[:60] or "kernel"
        self.name = self.name if self.name[0].isalpha() else "k" + self.name
        self.source_name = self.name + ".cu"
        self.source, self.headers = None, []
        compiler = self.values.get("compiler")
        if isinstance(compiler, str) and os.path.basename(compiler) not in ("nvcc", "nvrtc") and language in LANGUAGES:
            language = "C"  # with pragmas, say
        if isinstance(text, HostText):
            language = text.model.upper()
        if language == "HIP" and text and "__global__" in text and not HIP_ALONE.search(text):
            self.notes.append("source: lang='HIP': it names nothing that HIP alone has, so it is taken for CUDA C++")
            language = "CUDA"
        foreign = language if language not in LANGUAGES else "OpenCL" if text and re.search(
            r"\b__kernel\b", text) and "__global__" not in text else ""
        if text is None:
            if not self.left or not self.left[-1].startswith(("source", "kernel_source")):
                self.leave(f"source: it is made by code; write it into {self.source_name}", part="kernel_source")
            self.foreign = foreign
            return
        self.foreign = foreign
        headers, missing = included_files(text, folder, self.reader.folder)
        for name in missing + [m for m in self.more if m and os.path.basename(m) not in headers]:
            self.leave(f"header {name}: put it beside the spec, by its bare name, and list it")
        self.headers = sorted(headers)
        self.files.update(headers)
        source = CudaSource(text, self.function)
        self.files[self.source_name] = text
        if source.found:
            self.source = source
        if foreign:
            self.leave(f"source: lang={foreign!r}: only CUDA kernels can be imported: write it in CUDA C++; of a "
                       "function of the host, its kernel can be wrapped: docs/wrapping-a-kernel.md")
        elif not source.found and self.kernel != TO_WRITE:
            self.leave(f"source: no '__global__' function {self.function} in it")
        elif source.found and source.is_template and "<" not in self.kernel:
            self.leave(f"entry: {self.kernel} is a template; name an instance of it, such as {self.kernel}<float>")

    def source_text(self):
        """(text, folder); (None, ""): it is not known."""
        value = self.get("kernel_source")
        path = value.text if isinstance(value, File) else value
        self.more = []
        if isinstance(value, Seq):
            names = [item.text if isinstance(item, File) else plain(item) for item in value.items]
            path, self.more = (names[0], names[1:]) if names else (None, [])
        if not isinstance(path, str):
            return None, ""
        folder = self.reader.folder
        if "\n" in path or "{" in path:
            known = getattr(path, "path", None)
            return path if isinstance(path, HostText) else str(path), os.path.dirname(os.path.join(folder, known)) if known else folder
        full = os.path.join(folder, path)
        if not is_readable(full, folder):
            self.leave(f"source: there is no file {path} of at most 1 MiB in the script's folder; put it there")
            return None, ""
        with open(full, encoding="utf-8", errors="replace") as file:
            return file.read(), os.path.dirname(full)

    def read_params(self):
        value = self.get("tune_params")
        self.params = {}
        for name, values in (value.items if isinstance(value, Map) else {}).items():
            values = Seq(items_of(values)) if isinstance(values, Array) and values.values is not None else values
            known = plain(values) if isinstance(values, Seq) else None
            if isinstance(values, Seq) and values.doubt:
                self.leave(f"param {name}: {values.doubt} may change it, and was not followed")
            if not re.fullmatch(r"[A-Za-z_]\w*", str(name)):
                self.leave(f"params: a name was not understood: {name}")
                continue
            if not isinstance(known, list) or not known or any(isinstance(v, list) for v in known):
                why = f"'{values.why}' was" if isinstance(values, Unknown) else "its values were"
                self.leave(f"param {name}: {why} not understood", getattr(values, "line", 0))
                continue
            known = list(dict.fromkeys(int(v) if isinstance(v, bool) else v for v in known))
            if len(known) > VALUES_MAX or len(listed(known)) > VALUES_MAX:
                self.leave(f"param {name}: it has {len(known)} values, {len(listed(known))} characters; a param has at "
                           f"most {VALUES_MAX} of both: choose fewer")
                known = known[:64]
            odd = next((v for v in known if isinstance(v, str) and not re.fullmatch(r"\w{1,64}", v)), None)
            if odd is not None:
                self.leave(f"param {name}: the value {odd!r} cannot be a macro: letters, digits and '_'; give each a name, "
                           "and say what it stands for in the source")
            self.params[name] = known
        if not self.params:
            if not any(text.startswith(("tune_params", "param ")) for text in self.left):
                self.leave("params: tune_params was not understood", part="tune_params")
            self.params = {"left_to_write": [1]}

    def read_restrictions(self):
        value = self.get("restrictions")
        self.constraints = []
        items = value.items if isinstance(value, Seq) else [value] if value is not None else []
        for number, item in enumerate(items):
            self.read_restriction(item, number)
        self.defaults = self.first_valid()

    def read_restriction(self, item, number):
        line = getattr(getattr(item, "node", None), "lineno", 0) or getattr(item, "line", 0) or self.line
        if isinstance(item, Seq) and item.items and isinstance(item.items[0], Function):
            item = item.items[0]  # a function with the names of its params
        if isinstance(item, Instance) and isinstance(bound_member(item, "__call__"), Function):
            item = bound_member(item, "__call__")
        try:
            if isinstance(item, str):
                self.constraints.append(self.translator.text(item))
                return
            if not isinstance(item, Function):
                raise Untranslatable(getattr(item, "why", "a restriction"))
            text = self.translator.truth(item)
            if item.real is None or self.agrees(text, item):
                self.constraints.append(text)
                return
            error = Untranslatable(item.node, "its expression does not agree with it")
        except Untranslatable as caught:
            error, line = caught, caught.line or line
        finally:
            self.translator.steps = 0
        allowed = allowed_configs(self.params, lambda config: tried(self.reader, item, config)) \
            if isinstance(item, Function) else None
        made = table(self.params, allowed, f"allowed_{number}") if allowed is not None else None
        if made is None:
            self.leave(f"constraint: {error}; write it as an expression", line)
            return
        self.lets += made[0]
        self.constraints.append(made[1])
        self.notes.append(f"constraint (line {line}): {error}, so it is the list of the {len(allowed)} configs that it "
                          "allows, with the sizes of the script")

    def agrees(self, text, item):
        """Whether an expression says what the function says, of all configs or of some thousand."""
        for values in itertools.islice(itertools.product(*self.params.values()), 4096):
            config = dict(zip(self.params, values))
            real = tried(self.reader, item, config)
            if real is None or real != self.evaluated(text, config):
                return False
        return True

    def evaluated(self, text, config):
        self.reader.steps = 0
        scope = {name: Num(value) for name, value in self.size_values().items()}
        scope.update({name: value if isinstance(value, str) else Num(value) for name, value in config.items()})
        return bool(plain(self.reader.value(self.tree(text), scope)))

    def tree(self, text):
        """Of an expression, which is evaluated once for each config."""
        if text not in self.trees:
            self.trees[text] = ast.parse(text, mode="eval").body
        return self.trees[text]

    def holds(self, config):
        threads = 1
        for name in self.block_names():
            threads *= config.get(name, 1) if isinstance(config.get(name, 1), int) else 1
        if threads > THREADS_MAX:
            return False
        scope = {name: Num(value) for name, value in self.size_values().items()}
        scope.update({name: value if isinstance(value, str) else Num(value) for name, value in config.items()})
        for name, text in self.lets:
            scope[name] = self.reader.value(self.tree(text), scope)
        for text in self.constraints:
            value = plain(self.reader.value(self.tree(text), scope))
            if value is not None and not value:
                return False
        return True

    def first_valid(self):
        ordered = {name: self.widest_first(name, values) for name, values in self.params.items()}
        for values in itertools.islice(itertools.product(*ordered.values()), TRIES_MAX):
            config = dict(zip(ordered, values))
            self.reader.steps = 0
            if self.holds(config):
                return config
        self.leave("constraints: no config was found that they allow; see whether they are right, and choose the defaults")
        return {name: values[0] for name, values in self.params.items()}

    def widest_first(self, name, values):
        """The reference is the kernel at its default: of types, the widest is the one to agree with."""
        if len(values) < 2 or not all(str(v) in TYPE_WIDTHS for v in values):
            return values
        ordered = sorted(values, key=lambda v: -TYPE_WIDTHS[v])
        self.notes.append(f"param {name}: its values are types; the default, and so the reference, is the widest, "
                          f"{ordered[0]}")
        return ordered

    def block_names(self):
        names = plain(self.values.get("block_size_names")) if self.values.get("block_size_names") else None
        default = ["block_size_x", "block_size_y", "block_size_z"]
        return [*names, *default[len(names):]] if isinstance(names, list) else default

    def sized(self, num):
        """The expression of a size; its names become dims."""
        for name in self.names_in(num.show()):
            if name not in self.params and name not in (TO_WRITE, "inf", "nan"):
                self.sizes.setdefault(name, None)
        return num.show()

    def names_in(self, text):
        """The names of an expression, in their order, without those of functions that it calls."""
        nodes = list(ast.walk(self.tree(text)))
        called = {node.func for node in nodes if isinstance(node, ast.Call)}
        found = [node for node in nodes if isinstance(node, ast.Name) and node not in called]
        return [node.id for node in sorted(found, key=lambda node: node.col_offset)]

    def known_size(self, num):
        names = self.names_in(num.text) if num.text else []
        return num.text if names and all(name in self.sizes or name in self.params for name in names) else repr(num.value)

    # The launch.

    def translated(self, value, what):
        """An expression, or a list of them, of a text or a function over the params; None, and it is left."""
        try:
            if isinstance(value, Function):
                return self.translator.result(value)
            if isinstance(value, str):
                return self.translator.text(value)
            if isinstance(value, (Num, Scalar)):
                num = value.num if isinstance(value, Scalar) else value
                return self.translator.sized(num) if num.text else repr(num.value)
            raise Untranslatable(getattr(value, "why", what))
        except Untranslatable as error:
            self.leave(f"{what}: {error}", error.line or getattr(value, "line", 0))
            return None
        finally:
            self.translator.steps = 0

    def read_launch(self):
        value = self.get("problem_size")
        items = value.items if isinstance(value, Seq) else [value] if value is not None else []
        if isinstance(value, Function):
            made = self.translated(value, "launch: problem_size")
            items = made if isinstance(made, list) else [made] if made is not None else []
            items = [Num(0, item, tight=False) for item in items]
        self.extents = [self.extent("xyz"[axis], item) for axis, item in enumerate(items[:3])]
        if not items and value is None:
            if not any(text.startswith("problem_size") for text in self.left):
                self.leave("launch: problem_size was not understood", part="problem_size")

    def read_divisors(self):
        """Puts the problem's size into blocks, and says how large these are."""
        names = self.block_names()
        self.grid = [self.divided(extent, "xyz"[axis], names[axis]) for axis, extent in enumerate(self.extents)] or [TO_WRITE]
        self.block = [n if n in self.params else default for n, default in zip(names[:3], DEFAULT_BLOCK)]
        while len(self.block) > 1 and self.block[-1] == "1":
            self.block.pop()
        for axis in "xyz"[len(self.extents):]:  # Kernel Tuner's size is one there
            if self.get("grid_div_" + axis) is not None:
                self.notes.append(f"grid_div_{axis}: problem_size has no {axis}, so it divides one")
        smem = self.get("smem_args")
        self.shared_bytes = ""
        if smem is not None:
            size = smem.items.get("size") if isinstance(smem, Map) else None
            made = self.translated(size, "smem_args: its size") if size is not None else None
            if size is None:
                self.leave("smem_args: it has no 'size' that was understood; write launch.shared_bytes")
            self.shared_bytes = made if isinstance(made, str) else TO_WRITE

    def extent(self, axis, item):
        if isinstance(item, Scalar):
            item = item.num
        if isinstance(item, (str, Function)):
            made = self.translated(item, f"launch: problem_size of {axis}")
            item = Num(0, made, tight=False) if isinstance(made, str) else None
        if not isinstance(item, Num):
            why = f"'{item.why}'" if isinstance(item, Unknown) else "its size"
            self.leave(f"launch: problem_size: {why} of {axis} was not understood", getattr(item, "line", 0))
            return TO_WRITE
        if not item.text and isinstance(item.value, int) and item.value > 1:
            item = Num(item.value, self.reader.dim_name(f"size_{axis}", item.value))
            self.sizes[item.text] = item.value
            self.bare.add(item.text)
        return self.sized(item)

    def divided(self, extent, axis, block_name):
        divisors = self.divisors(axis, block_name)
        if divisors is None or extent == TO_WRITE:
            return TO_WRITE
        return f"ceil_div({extent}, {' * '.join(divisors)})" if divisors else extent

    def divisors(self, axis, default):
        value = self.get("grid_div_" + axis)
        if value is None:
            unknown = isinstance(self.values.get("grid_div_" + axis), Unknown)
            return None if unknown else [default] if default in self.params else []
        made = []
        for item in value.items if isinstance(value, Seq) else [value]:
            text = self.translated(item, f"launch: grid_div_{axis}")
            if not isinstance(text, str):
                return None
            made.append(text if re.fullmatch(r"\w+", text) else f"({text})")
        return made

    def settled(self, text, dims):
        """With the default config's values in the place of the params."""
        pattern = ident_pattern(self.params) if self.params else None
        text = self.renamed(text, dims)
        return pattern.sub(lambda m: str(self.defaults[m.group(1)]), text) if pattern else text


class Reading(Import):
    """One call as it is read, of which no spec is written."""

    def first_valid(self):
        return {name: values[0] for name, values in self.params.items()}

    def write_spec(self):
        pass


def read_again(reader, wanted, unreached, resized):
    """The call with other sizes; None: it is not met, or another is in its place."""
    again = TuningReader(reader.path, reader.eager, resized)
    calls = again.read()
    if unreached and not calls:
        again.unreached_call()
    return read_call(again, calls[wanted - 1]) if calls[wanted - 1:] and calls[wanted - 1][0] == reader.calls[wanted - 1][0] else None


def read_call(reader, call):
    line, node, positional, by_name = call
    made = Reading(reader, line, node, {**dict(zip(POSITIONS, positional)), **by_name})
    made.make()
    return made


def run(path, wanted):
    reader, calls = read_calls(path)
    unreached = 0 if calls else reader.unreached_call()
    if not calls:
        raise Unreadable(f"{path}: no call of tune_kernel was met, nor a function with @triton.autotune or @triton.jit")
    if not 1 <= wanted <= len(calls):
        raise Unreadable(f"{path}: there are {len(calls)} calls of tune_kernel, no number {wanted}")
    line, node, positional, by_name = calls[wanted - 1]
    made = Import(reader, line, node, {**dict(zip(POSITIONS, positional)), **by_name})
    made.again = functools.partial(read_again, reader, wanted, unreached)
    made.left += reader.marks_before(wanted - 1, IGNORED, POSITIONS)
    made.notes += reader.notes
    if unreached:
        made.leave("the call: nothing that was followed leads to it; look at each value, or run the script: tunectl import "
                   "--run", unreached)
    made.make()
    return answer(made, [call[0] for call in calls])


def answer(made, lines):
    """What an import prints. `lines`: those of the script's calls."""
    if len(lines) > 1:
        counts = ", ".join(f"{at} ({times} times)" if times > 1 else str(at) for at, times in collections.Counter(lines).items())
        made.notes.append(f"{len(lines)} calls of tune_kernel (lines {counts}); --call N chooses one")
    return {"name": made.name, "files": made.files, "left": list(dict.fromkeys(made.left)),
            "notes": list(dict.fromkeys(made.notes))}
