# SPDX-License-Identifier: Apache-2.0
"""A script with a kernel in Triton as a spec and its source. Answers as kernel_tuner does."""
import ast
import itertools
import math
import os
import re

import triton_run
from restriction import table
from script_reader import Unreadable
from spec_text import MARKS_HERE, RESERVED, TO_WRITE, evaluated, literal, quoted
from triton_configs import DEFAULTS, ConfigReader, Configs
from triton_function import TritonSource
from triton_host import Host, callers, hosts
from triton_launch import Launch

TYPES = ("f16", "bf16", "f32")
EXPRESSION_MAX = 4096
NAME = r"(?<![\w.'])[A-Za-z_]\w*"  # in an expression
# Sizes of a dim that the script does not determine: of a single axis, and of several.
ONE_DIM, SEVERAL_DIMS = 1 << 24, 4096
ELEMENTS_MAX = 1 << 27  # of all buffers: 1 GiB at most, with 8 bytes each
CANDIDATES_MAX = 12


class Import:
    def __init__(self, path, source, function):
        self.path, self.source, self.function = path, source, function
        self.name = re.sub(r"[^a-z0-9_]+", "_", function.name.lower()).strip("_") or "kernel"
        self.name = self.name if self.name[0].isalpha() else "k" + self.name
        self.left, self.notes = [], []
        self.dims = {}  # name: how many axes its tensor has
        self.lets = []
        self.bools, self.integers, self.types_first = {}, {}, ()
        self.reader = ConfigReader(path, source.tree, function.constants)
        self.real = None  # a launch that was taken down when the script ran

    def make(self):
        self.read_configs()
        self.read_launch()
        origin = f"{os.path.basename(self.path)}, line {self.function.node.lineno}"
        text, missing = self.source.kernel_text(origin, self.function.name, self.reader.scope)
        for module in dict.fromkeys(module for _, module in missing):
            names = ", ".join(f"'{name}'" for name, of in missing if of == module)
            self.left.append(f"{names} {'are' if ',' in names else 'is'} of module {module}: put {'them' if ',' in names else 'it'} "
                             f"into {self.name}.py")
        return {"name": self.name, "left": self.left, "notes": self.notes,
                "files": {**self.source.headers, f"{self.name}.py": text, f"{self.name}.textproto": self.spec(origin)}}

    # The configs.

    def read_configs(self):
        given = self.function.tuner()
        by_name = {k.arg: k.value for k in given.keywords} if given is not None else {}
        self.zeroed, self.restored = self.names_in(by_name, "reset_to_zero"), self.names_in(by_name, "restore_value")
        if given is None:  # @triton.jit alone: one config, of what a launch gives
            self.configs, self.blocks = [], {}
            self.notes.append(f"{self.function.name} has no @triton.autotune: num_warps and num_stages are params here, with "
                              "Triton's own values as defaults")
            self.values = {"num_warps": [4, 2, 8], "num_stages": [3, 2, 4]}
            return
        node = by_name.get("configs", given.args[0] if given.args else None)
        made = Configs(self.reader, self.function, node)
        self.configs, self.blocks = made.each, made.blocks
        if self.real is not None and self.real.configs:
            self.configs = triton_run.configs_of(self.real)
            made.left = [text for text in made.left if "hook" in text]
        self.zeroed += made.zeroed
        self.left += made.left
        self.notes += made.notes
        self.values = {name: list(dict.fromkeys(config[name] for config in self.configs))
                       for name in (self.configs[0] if self.configs else DEFAULTS)}
        if not self.configs:
            self.values = {name: [value] for name, value in DEFAULTS.items()}
        for hook in ("pre_hook", "post_hook"):
            if hook in by_name and not (isinstance(by_name[hook], ast.Constant) and by_name[hook].value is None):
                self.left.append(f"{hook} (line {by_name[hook].lineno}): Python round a launch; what it prepares is an arg's "
                                 "role or fill")
        pruner = by_name.get("prune_configs_by")
        if isinstance(pruner, ast.Dict) and {getattr(key, "value", "?") for key in pruner.keys} <= {"perf_model", "top_k"}:
            self.notes.append(f"prune_configs_by (line {pruner.lineno}): it guesses which configs are fast; all are measured here")
        elif pruner is not None and not (isinstance(pruner, ast.Constant) and pruner.value is None):
            self.left.append(f"prune_configs_by (line {by_name['prune_configs_by'].lineno}): say what it leaves out by "
                             "constraints; no sweep needs it for speed")

    def names_in(self, by_name, key):
        node = by_name.get(key)
        if node is None:
            return []
        try:
            return list(ast.literal_eval(node) or [])
        except (ValueError, TypeError):
            self.left.append(f"{key} (line {node.lineno}): '{ast.unparse(node)[:60]}' was not understood")
            return []

    def constraint(self):
        """Where the configs are not all products of their values."""
        several = {name: values for name, values in self.values.items() if len(values) > 1}
        if not several or not self.configs or any(None in values for values in several.values()):
            return ""
        listed = list(dict.fromkeys(tuple(config[name] for name in several) for config in self.configs))
        products = list(itertools.product(*several.values()))
        if len(listed) == len(products):
            return ""
        text = " or ".join(" and ".join(f"{name} == {literal(value)}" for name, value in zip(several, each))
                           for each in listed)
        if len(text) <= EXPRESSION_MAX:
            return text
        numbers = {each: number for number, each in enumerate(products)}
        made = table(several, sorted(numbers[each] for each in listed), "config")
        if made is None:
            self.left.append(f"configs: the {len(listed)} of {len(products)} products cannot be said in an expression")
            return ""
        self.lets = [f"lets {{ name: {quoted(name)} value: {quoted(value)} }}" for name, value in made[0]]
        return made[1]

    # The problem and the launch.

    def read_launch(self):
        """Of the functions that lead to the launch, the one that says most."""
        nodes = hosts(self.source.tree, self.function.name)
        self.args, self.defines, self.grid, self.types, self.shapes = [], [], [TO_WRITE], [], []
        if not nodes:
            self.left.append(f"args, launch: nothing in the script launches {self.function.name}[grid](...)")
            return
        tried, best = [*nodes], None
        level = nodes
        for _ in range(2):
            level = [node for node in callers(self.source.tree, level) if node not in tried]
            tried += level
        for node in tried[:CANDIDATES_MAX]:
            host = Host(self.function, node, self.reader, self.values)
            if not host.launches:  # what is the default may lead elsewhere
                host = Host(self.function, node, self.reader, self.values, has_defaults=False)
            for launched in host.launches[:4]:
                made = Launch(self, host, launched, self.real)
                if best is None or made.weight < best.weight:
                    best = made
        if best is None:
            self.left.append(f"args, launch: {self.function.name}[grid](...) is not reached in {nodes[0].name}, line "
                             f"{nodes[0].lineno}")
            return
        lines = dict.fromkeys(one.call.lineno for one in best.host.launches)
        if len(lines) > 1 or any(one.is_looped for one in best.host.launches):
            self.notes.append(f"launched {'in a loop' if len(lines) == 1 else 'on lines ' + ', '.join(map(str, lines))}; read: line "
                              f"{best.line}" + (", its first turn" if len(lines) == 1 and not best.launched.is_looped else ""))
        if len(nodes) > 1:
            self.notes.append(f"launched in {len(nodes)} functions; read: {best.host.node.name}")
        self.left += best.left
        self.notes += best.notes
        self.args, self.defines, self.grid, self.types, self.dims = best.args, best.defines, best.grid, best.types, best.dims
        self.shapes = best.shapes
        self.bools, self.integers, self.types_first = best.host.bools, best.dim_values, best.types_first

    def safe(self, text):
        """Dims whose names mean something already have another."""
        return re.sub(NAME, lambda m: m[0] + "_" if self.clashes(m[0]) else m[0], text)

    def clashes(self, name):
        return name in self.dims and (name in RESERVED or name in self.values)

    # The spec.

    def defaults(self):
        """{dim: default}: those of a run, else guesses, such that the buffers fit a GPU."""
        def guess(axes):
            return ONE_DIM if axes == 1 and len(self.dims) == 1 else SEVERAL_DIMS if len(self.dims) < 4 else 128
        made = {name: 0 if name in self.bools else 132 if name == "multiprocessors" else self.integers.get(name) or guess(axes)
                for name, axes in self.dims.items()}
        guessed = [name for name in made if name not in (*self.bools, *self.integers, "multiprocessors")]
        while self.elements(made) > ELEMENTS_MAX and any(made[name] > 1 for name in guessed):
            made[max(guessed, key=made.get)] //= 2
        return made

    def elements(self, dims):
        """Of all buffers whose shapes can be told."""
        names = {**{name: values[0] for name, values in self.values.items()}, **dims, "dtype": "f32", "dtype_bytes": 4}
        known = [[evaluated(text, names) for text in shape] for shape in self.shapes]
        return sum(math.prod(shape) for shape in known if all(isinstance(extent, (int, float)) for extent in shape))

    def spec(self, origin):
        narrow = [dtype for dtype in dict.fromkeys(self.types) if dtype in TYPES[:2]]
        fixed = [] if "dtype" in self.types else [dtype for dtype in TYPES if dtype in self.types]
        types = narrow or fixed or list(TYPES)
        types = [*self.types_first, *(one for one in types if one not in self.types_first)]
        lines = ["# proto-file: tune/v1/kernel.proto", "# proto-message: tune.v1.KernelSpec",
                 f"# Imported from {origin}.", f"name: {quoted(self.name)}",
                 f"summary: {quoted('imported: ' + self.function.name)}", "language: TRITON",
                 f"source: {quoted(self.name + '.py')}", *(f"headers: {quoted(name)}" for name in self.source.headers),
                 f"entry: {quoted(self.function.name)}",
                 'targets: ["sm_8*", "sm_9*", "sm_1*"]', ""]
        for name, default in self.defaults().items():
            more = "values: [0, 1] match: DIM_MATCH_EXACT" if name in self.bools else "min: 1"
            lines.append(f"dims {{ name: {quoted(self.safe(name))} default_value: {default} {more} }}")
        lines.append(f"dtypes: [{', '.join(map(quoted, types))}]")
        constraint = self.constraint()
        for name, values in self.values.items():
            known = [value for value in values if value is not None]
            text = f"[{', '.join(map(literal, known))}]" if known else TO_WRITE
            default = literal(self.configs[0][name] if self.configs and self.configs[0][name] is not None else
                              known[0]) if known else TO_WRITE
            lines.append(f"params {{ name: {quoted(name)} values: {quoted(text)} default_value: {quoted(default)} }}")
        if constraint:
            lines += self.lets
            lines.append(f"constraints {{ expression: {quoted(constraint)} doc: \"the configs of @autotune\" }}")
        grid = f"[{', '.join(quoted(extent) for extent in self.grid)}]"
        lines += [*self.defines, MARKS_HERE, "", *self.args, f"launch {{ grid: {grid} }}",
                  "# The kernel itself at its default config. Write a plain one instead: docs/adding-a-kernel.md.",
                  f"reference {{ entry: {quoted(self.function.name)} launch {{ grid: {grid} }} }}",
                  'tolerances { dtype: "f16" rtol: 1e-2 atol: 1e-2 }',
                  'tolerances { dtype: "bf16" rtol: 2e-2 atol: 2e-2 }',
                  'tolerances { dtype: "f32" rtol: 1e-3 atol: 1e-3 }']
        self.notes += ["reference: the kernel itself with its first config. It shows that configs agree, not that "
                       "they are right: write a plain one",
                       "dims: their defaults are " + ("guessed" if self.real is None else "the run's"),
                       "work: add bytes, flops and peak for rates"]
        return "\n".join(lines) + "\n"


def is_triton(text):
    return re.search(r"^\s*@(\w+\.)*((\w+_)?autotune|libtuner|jit)\b", text, re.MULTILINE) is not None and \
        re.search(r"^\s*(import|from)\s+.*\btriton\b", text, re.MULTILINE) is not None


def run(path, text, wanted, arguments=None):
    """`arguments`: of a script that is run; None: it is read."""
    source = TritonSource(path, text)
    tuned = source.tuned()
    if not source.functions:
        raise Unreadable(f"{path}: no function with @triton.autotune, nor with @triton.jit")
    notes = []
    if not tuned:
        names = ", ".join(source.functions)
        launched = [f for f in source.functions.values() if hosts(source.tree, f.name)]
        notes.append(f"no function with @triton.autotune; functions with @triton.jit are: {names}")
        tuned = launched or list(source.functions.values())
    elif len(tuned) > 1:
        names = ", ".join(function.name for function in tuned)
        notes.append(f"{len(tuned)} functions have @triton.autotune ({names}); --call N chooses one")
    if not 1 <= wanted <= len(tuned):
        raise Unreadable(f"{path}: {len(tuned)} functions have @triton.autotune or are launched, there is no number {wanted}")
    if arguments is None:
        made = Import(path, source, tuned[wanted - 1])
    else:
        taken, names, error = triton_run.run(path, [function.name for function in tuned], wanted, arguments)
        if taken.name not in source.functions:
            raise Unreadable(f"{path}: {taken.name}, which the script launches, is a kernel of another file: import that")
        made = Import(path, source, source.functions[taken.name])
        made.real = taken
        notes = [f"the script launched {', '.join(names)}; --call N chooses one"] if len(names) > 1 else []
        notes += [f"the script ended early: {error}"] if error else []
        notes.append("the script was run: shapes, types, strides and configs are those of its first launch")
    answer = made.make()
    made.notes += notes
    return {**answer, "left": list(dict.fromkeys(made.left)), "notes": list(dict.fromkeys(made.notes))}
