# SPDX-License-Identifier: Apache-2.0
"""A script with a kernel under @triton.autotune as a spec and its source. Answers as kernel_tuner does."""
import ast
import itertools
import os
import re

from kernel_tuner import RESERVED, literal, quoted
from script_reader import Reader, Unreadable
from script_values import Map, Num, plain
from triton_function import TritonSource
from triton_launch import MULTIPROCESSORS, Launch, Tensor, Unreached, blocks_of_hook, hosts

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
POSITIONS = ("kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg")
TYPES = ("f16", "bf16", "f32")
EXPRESSION_MAX = 4096
NAME = r"(?<![\w.'])[A-Za-z_]\w*"  # in an expression
# What a dim is where the script does not say: one axis, or one of several.
ONE_DIM, SEVERAL_DIMS = 1 << 24, 4096


class ConfigReader(Reader):
    """Meets the calls of Config that an expression makes."""

    def __init__(self, path, tree):
        super().__init__(path, "Config")
        self.scope = {"__name__": "imported"}
        self.blocks = {}  # of descriptors, as a pre_hook sets them
        self.block(tree.body, self.scope)

    def read_hook(self, hook, line):
        blocks = blocks_of_hook(hook.node) if isinstance(getattr(hook, "node", None), ast.FunctionDef) else None
        if blocks is None:
            raise Unreadable(f"line {line}: a config with a pre_hook runs Python before each launch, which no kernel "
                             "of the service does; understood are those that set block shapes of descriptors")
        self.blocks.update(blocks)

    def configs(self, node):
        self.calls.clear()
        used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        self.passed_over = [one for one in self.passed_over if one[1] & used]
        self.value(node, self.scope)
        found = []
        for line, _, positional, by_name in self.calls:
            values = {**dict(zip(POSITIONS, positional)), **by_name}
            kwargs = values.pop("kwargs", Map({}))
            items = dict(kwargs.items) if isinstance(kwargs, Map) else {"?": None}
            items.update((name, values[name]) for name in OPTIONS if name in values)
            config = {name: plain(value) for name, value in items.items()}
            hook = values.get("pre_hook")
            if hook is not None and not (isinstance(hook, Num) and hook.value is None):
                self.read_hook(hook, line)
            if any(value is None for value in config.values()):
                raise Unreadable(f"line {line}: a config whose values were not understood")
            found.append({**DEFAULTS, **config})
        return found


class Import:
    def __init__(self, path, source, function):
        self.path, self.source, self.function = path, source, function
        self.name = re.sub(r"[^a-z0-9_]+", "_", function.name.lower()).strip("_") or "kernel"
        self.left, self.notes = [], []
        self.dims = {}  # name: how many axes its tensor has
        self.types = []
        self.defines = []
        self.lets = []

    def make(self):
        self.read_configs()
        self.read_launch()
        origin = f"{os.path.basename(self.path)}, line {self.function.node.lineno}"
        for name, module in self.source.missing(self.function.name):
            self.left.append(f"'{name}' is of module {module}: put it into {self.name}.py")
        return {"name": self.name, "left": self.left, "notes": self.notes,
                "files": {f"{self.name}.py": self.source.kernel_text(origin, self.function.name),
                          f"{self.name}.textproto": self.spec(origin)}}

    # What is tried.

    def read_configs(self):
        given = self.function.decorator("autotune")
        by_name = {k.arg: k.value for k in given.keywords}
        node = given.args[0] if given.args else by_name.get("configs")
        if node is None:
            raise Unreadable(f"line {given.lineno}: @autotune without configs")
        reader = ConfigReader(self.path, self.source.tree)
        self.configs, self.blocks = reader.configs(node), reader.blocks
        self.left += [f"configs: {text}" for _, _, text in reader.passed_over]
        if not self.configs:
            raise Unreadable(f"line {given.lineno}: no triton.Config was met in the configs")
        names = list(self.configs[0])
        if any(set(config) != set(names) for config in self.configs):
            raise Unreadable(f"line {given.lineno}: the configs do not all set the same names")
        self.values = {name: list(dict.fromkeys(config[name] for config in self.configs))
                       for name in names}
        self.zeroed = names_in(by_name.get("reset_to_zero"))
        self.restored = names_in(by_name.get("restore_value"))
        for hook in ("pre_hook", "post_hook"):
            if hook in by_name:
                self.left.append(f"{hook}: Python round a launch; what it prepares is an arg's role or fill")
        if "prune_configs_by" in by_name:
            self.notes.append("prune_configs_by is not read: say what it leaves out by constraints")

    def constraint(self):
        """Where the configs are not all products of their values."""
        several = [name for name, values in self.values.items() if len(values) > 1]
        listed = list(dict.fromkeys(tuple(config[name] for name in several) for config in self.configs))
        if len(listed) == len(list(itertools.product(*(self.values[name] for name in several)))):
            return ""
        text = " or ".join(" and ".join(f"{name} == {literal(value)}" for name, value in zip(several, each))
                           for each in listed)
        if len(text) <= EXPRESSION_MAX:
            return text
        text = f"config_number in {[self.number(several, each) for each in listed]}"
        if len(text) <= EXPRESSION_MAX:
            self.lets = self.number_lets(several)
            return text
        self.notes.append("the space has all products of the configs' values, more than the configs")
        return ""

    def number(self, several, config):
        """Of a config among all products."""
        result = 0
        for name, value in zip(several, config):
            result = result * len(self.values[name]) + self.values[name].index(value)
        return result

    def number_lets(self, several):
        text, lets = "0", []
        for name in several:
            terms = [f"({i} if {name} == {literal(v)} else 0)" for i, v in enumerate(self.values[name]) if i]
            lets.append(f"lets {{ name: \"{name}_at\" value: {quoted(' + '.join(terms))} }}")
            text = f"({text}) * {len(self.values[name])} + {name}_at"
        return [*lets, f'lets {{ name: "config_number" value: {quoted(text)} }}']

    # What it runs on.

    def read_launch(self):
        found = hosts(self.source.tree, self.function.name)
        self.launch = Launch(self.function, found[0]) if found else None
        self.args, self.grid = [], ["1"]
        if self.launch is None:
            self.left.append(f"args, launch: nothing in the script launches {self.function.name}[grid](...)")
            return
        if len(found) > 1:
            self.notes.append(f"launched in {len(found)} functions; read: {self.launch.host.name}")
        bound, roles = self.launch.bound(), self.function.roles()
        for name in self.function.arguments:
            if name in bound and self.launch.is_none(bound[name]):
                self.defines.append(f"defines {{ name: \"{name}\" value: \"'None'\" }}")
            elif name in bound:
                self.args.append(self.arg(name, bound[name], roles[name]))
            elif name not in self.function.defaults:
                self.left.append(f"arg {name}: the launch does not give it")
        for name in self.function.constants:
            if name in bound and name not in self.values:
                self.define(name, bound[name])
        heuristics = self.function.decorator("heuristics")
        for name, node in (self.launch.heuristics(heuristics) if heuristics else {}).items():
            self.define(name, node)
        try:
            self.grid = self.launch.grid()
        except Unreached as what:
            self.left.append(f"launch.grid: '{what}' was not understood")
        if not any("role: ROLE_INOUT" in arg or "role: ROLE_OUTPUT" in arg for arg in self.args):
            self.left.append("roles: no argument is seen to be written; one must be ROLE_OUTPUT")

    def arg(self, name, node, role):
        tensor = self.launch.tensor(node)
        if isinstance(tensor, Tensor) and tensor.shape:
            return self.buffer(name, tensor, role)
        if isinstance(tensor, Tensor):
            self.left.append(f"arg {name}: the shape of '{ast.unparse(node)}' is not in the script")
            return f'# args {{ name: "{name}" buffer {{ dtype: "dtype" shape: ? role: ROLE_{role} }} }}'
        try:
            value = self.launch.expression(node)
        except Unreached as what:
            self.left.append(f"arg {name}: '{what}' was not understood")
            return f'# args {{ name: "{name}" scalar {{ dtype: "i32" value: ? }} }}'
        self.know(value)
        dtype = "f32" if re.search(r"\d\.|\.\d|\de", value) else "i32"
        return f'args {{ name: "{name}" scalar {{ dtype: "{dtype}" value: {quoted(self.safe(value))} }} }}'

    def buffer(self, name, tensor, role):
        for extent in tensor.shape:
            self.know(extent, len(tensor.shape))
        self.types.append(tensor.dtype)
        fill = ""
        if name in self.zeroed:
            role, fill = "INOUT", " fill { kind: CONSTANT }"
        if name in self.restored:
            role = "INOUT"
        shape = ", ".join(quoted(self.safe(extent)) for extent in tensor.shape)
        return (f'args {{ name: "{name}" buffer {{ dtype: "{tensor.dtype}" shape: [{shape}] '
                f"role: ROLE_{role}{fill}{self.descriptor(name, tensor)} }} }}")

    def descriptor(self, name, tensor):
        """Its block has the config's names: they are no dims."""
        if tensor.block is None:
            return ""
        try:
            block = self.blocks.get(name) or [self.launch.expression(each) for each in tensor.block.elts]
        except (Unreached, AttributeError):
            self.left.append(f"arg {name}: the block shape of its descriptor was not understood")
            return ""
        return f" tensor_descriptor {{ block_shape: [{', '.join(map(quoted, block))}] }}"

    def know(self, text, axes=1):
        """The names of an expression are dims."""
        for name in re.findall(NAME, text):
            if name not in (*RESERVED, "True", "False", "None") and name not in self.values:
                self.dims[name] = max(axes, self.dims.get(name, 0))

    def safe(self, text):
        """Dims whose names mean something already have another."""
        return re.sub(NAME, lambda m: m[0] + "_" if self.clashes(m[0]) else m[0], text)

    def clashes(self, name):
        return name in self.dims and (name in RESERVED or name in self.values)

    def define(self, name, node):
        known = self.launch.decision(node)
        try:
            value = self.launch.expression(node) if known is None else repr(known)
        except Unreached as what:
            self.left.append(f"define {name}: '{what}' was not understood")
            return
        if not value.startswith("'"):
            self.know(value)
        if value == "''":  # no macro can be empty
            self.left.append(f"define {name}: an empty text; give its parameter a default in the source")
            return
        self.defines.append(f"defines {{ name: \"{name}\" value: {quoted(self.safe(value))} }}")

    # The spec.

    def spec(self, origin):
        for extent in self.grid:
            self.know(extent)
        narrow = [dtype for dtype in dict.fromkeys(self.types) if dtype in TYPES[:2]]
        fixed = [] if "dtype" in self.types else [dtype for dtype in TYPES if dtype in self.types]
        types = narrow or fixed or list(TYPES)
        lines = ["# proto-file: tune/v1/kernel.proto", "# proto-message: tune.v1.KernelSpec",
                 f"# Imported from {origin}.", f"name: {quoted(self.name)}",
                 f"summary: {quoted('imported: ' + self.function.name)}", "language: TRITON",
                 f"source: {quoted(self.name + '.py')}", f"entry: {quoted(self.function.name)}",
                 'targets: ["sm_8*", "sm_9*", "sm_1*"]', ""]
        for name, axes in self.dims.items():
            size = ONE_DIM if axes == 1 and len(self.dims) == 1 else SEVERAL_DIMS
            if name == MULTIPROCESSORS:
                size = 132
                self.notes.append(f"dim {name}: those of an H100 or H200; give your GPU's")
            lines.append(f"dims {{ name: {quoted(self.safe(name))} default_value: {size} min: 1 }}")
        lines.append(f"dtypes: [{', '.join(map(quoted, types))}]")
        for name, values in self.values.items():
            text = f"[{', '.join(map(literal, values))}]"
            lines.append(f"params {{ name: {quoted(name)} values: {quoted(text)} "
                         f"default_value: {quoted(literal(self.configs[0][name]))} }}")
        constraint = self.constraint()
        if constraint:
            lines += self.lets
            lines.append(f"constraints {{ expression: {quoted(constraint)} doc: \"the configs of @autotune\" }}")
        grid = f"[{', '.join(quoted(self.safe(extent)) for extent in self.grid)}]"
        lines += [*self.defines, "", *self.args, f"launch {{ grid: {grid} }}",
                  "# The kernel itself at its default config. Write a plain one instead: docs/adding-a-kernel.md.",
                  f"reference {{ entry: {quoted(self.function.name)} launch {{ grid: {grid} }} }}",
                  'tolerances { dtype: "f16" rtol: 1e-2 atol: 1e-2 }',
                  'tolerances { dtype: "bf16" rtol: 2e-2 atol: 2e-2 }',
                  'tolerances { dtype: "f32" rtol: 1e-3 atol: 1e-3 }']
        self.notes += ["reference: the kernel itself with its first config. It shows that configs agree, not that "
                       "they are right: write a plain one",
                       "dims: their defaults are guessed", "work: add bytes, flops and peak for rates"]
        return "\n".join(lines) + "\n"


def names_in(node):
    try:
        return list(ast.literal_eval(node)) if node is not None else []
    except (ValueError, TypeError):
        return []


def is_triton(text):
    return re.search(r"^\s*@(\w+\.)*(\w+_)?autotune\b", text, re.MULTILINE) is not None


def run(path, text, wanted):
    source = TritonSource(path, text)
    tuned = source.tuned()
    if not tuned:
        raise Unreadable(f"{path}: no function has both @triton.autotune and @triton.jit")
    if not 1 <= wanted <= len(tuned):
        raise Unreadable(f"{path}: {len(tuned)} functions have @triton.autotune, there is no number {wanted}")
    made = Import(path, source, tuned[wanted - 1])
    answer = made.make()
    if len(tuned) > 1:
        names = ", ".join(function.name for function in tuned)
        made.notes.append(f"{len(tuned)} functions have @triton.autotune ({names}); --call N chooses one")
    return {**answer, "left": list(dict.fromkeys(made.left)), "notes": list(dict.fromkeys(made.notes))}
