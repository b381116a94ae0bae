# SPDX-License-Identifier: Apache-2.0
"""The configs of a tuned Triton function: what @triton.autotune lists, wherever the script makes the list."""
import ast
import math
import os
import re

from script_calls import DOUBT
from script_modules import changed_in_module
from script_objects import Instance
from script_reader import Reader, Unreadable, names_in
from script_values import Function, Map, Module, Num, Scope, Seq, Unknown, items_of, plain
from triton_data import DataFiles
from triton_function import make_of_device
from triton_hooks import Hook

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}
POSITIONS = ("kwargs", "num_warps", "num_stages", "num_ctas", "maxnreg", "pre_hook")
TRITON = (3, 5)  # the oldest that the service runs
REGISTERS_MAX = 255  # of a thread: no limit
# A name or a question about the GPU, whose answer the import does not have.
DEVICE = re.compile(r"get_device_(name|cap|prop)|device_capability|shared_mem|IS_NVIDIA|IS_AMD|IS_INTEL|[Hh]opper|HOPPER|[Bb]lackwell"
                    r"|BLACKWELL|[Aa]mpere|AMPERE|\bis_sm\d|\bcompute_cap")
# Options of Triton for GPUs of another make.
ELSEWHERE = {"waves_per_eu", "matrix_instr_nonkdim", "kpack", "instruction_sched_variant", "schedule_hint", "cooperative",
             "ir_override"}


class ConfigReader(Reader):
    """Walks the script's module; a call of Config is an object of its own."""

    def __init__(self, path, tree, constants=()):
        super().__init__(path, "Config")
        self.constants, self.asked = constants, "configs"  # names of the kernel; what calls by a name are asked for
        self.data = DataFiles(path, self.modules.root)
        self.tree, self.mentioned = tree, names_in(tree)
        self.scope.update({"__file__": path, "__name__": "imported"})
        self.unions, self.behind = [], None
        self.filters = set()  # conditions on configs
        try:
            self.module_block(tree.body, self.scope)
        except Unreadable:
            pass  # what was read until then is known

    def named(self, value, name):
        return value  # no number here is a dim

    def statements(self):
        """{name: names of the statements of the module that set or may change it}, and names of functions and classes."""
        found = {}
        for node in self.tree.body:
            used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            for name in changed_in_module(node):
                found.setdefault(name, set()).update(used)
        return found, {node.name for node in self.tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}

    def names_behind(self, node):
        """The names in an expression, and in the functions and statements of the script that those name."""
        if self.behind is None:
            self.behind = self.statements()
        found, waiting = {"*"}, [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(
            getattr(inner, "ctx", None), ast.Load)]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.behind[0].get(name, ())
        return found | ({""} if found & self.behind[1] else set())

    def guessed(self, name, scope):
        """The line of a statement that was not followed and may change a name of a module; 0: there is none."""
        used = self.names_behind(ast.Name(name, ast.Load())) - {""} if scope is self.scope else {name, "*"}
        return next((line for line, names, _ in self.passed_over if names & used), 0)

    def tuning_call(self, node, positional, by_name, stars):
        values = {**dict(zip(POSITIONS, positional)), **by_name}
        if stars:
            values["?"] = stars[0]
        kwargs = values.get("kwargs", Map({}))
        attributes = {name: Num(value) for name, value in DEFAULTS.items()}
        attributes.update(values)
        attributes.update({"kwargs": kwargs, "(line)": Num(node.lineno), "(given)": Map(dict(values))})
        return Instance(None, attributes)

    def of_Call(self, node, scope):
        """A call by a name alone that the walk does not understand: the package may have data under the name."""
        before = len(self.passed_over)
        made = super().of_Call(node, scope)
        is_unknown = isinstance(made, Unknown) or (isinstance(made, Num) and made.value is None)
        if not is_unknown or len(node.args) != 1 or node.keywords:
            return made
        key = self.again(node.args[0], scope)
        found = self.from_data(key, node) if isinstance(key, str) and key.isidentifier() else None
        if found is None:
            return made
        del self.passed_over[before:]
        return found

    def library(self, node, name, positional, by_name, scope):
        first = positional[0] if positional else None
        if name == "partial" and isinstance(first, Function):
            return partial(first, positional[1:], by_name, node)
        if name == "eval" and isinstance(first, str) and first.isdigit():  # a part of a version
            return Num(int(first))
        if name == "are_deterministic_algorithms_enabled":
            return Num(False)  # as if nobody had asked for them
        if name in ("log", "log2", "sqrt", "exp") and isinstance(plain(first), (int, float)) and plain(first) > 0:
            return Num(getattr(math, name)(plain(first)))
        return super().library(node, name, positional, by_name, scope)

    def from_data(self, key, node):
        if self.asked == "configs":
            found = self.data.configs(key, self.constants)
            if found is None:
                return None
            made = Seq([self.tuning_call(node, [], {
                "kwargs": Map({name: self.plain_value(value) for name, value in config.items() if name not in OPTIONS}),
                **{name: self.plain_value(value) for name, value in config.items() if name in OPTIONS}}, [])
                for config in found[0]])
        else:
            found = self.data.dicts(key, self.constants)
            if found is None:
                return None
            folder, name = os.path.split(found[1])
            whole = (self.module(name.removesuffix(".py"), 1, folder, is_needed=True) or {}).get(found[0])
            made = whole.items.get(key) if isinstance(whole, Map) else None
            if not isinstance(made, Map):
                return None
        self.unions.append(f"{self.asked}: {self.name_of(node.func)}('{key}') was not followed; what "
                           f"{self.data.shown(found[1])} has under '{key}' is taken for it" +
                           (", with Triton's defaults for what it does not set" if self.asked == "configs" else ""))
        return made

    @staticmethod
    def plain_value(value):
        return value if isinstance(value, str) else Num(value)

    def truth(self, node, scope):
        known = super().truth(node, scope)
        if known is None and id(node) in self.filters and self.asks_device(node, scope):
            self.unions.append(f"line {node.lineno}{self.where}: '{ast.unparse(node)[:60]}' depends on the GPU: configs that it "
                               "may leave out are tried, too")
            return True
        return make_of_device(node) if known is None else known

    def of_Compare(self, node, scope):
        """The version of Triton is the service's, of which any is newer than what scripts ask for."""
        texts = [ast.unparse(each) for each in (node.left, node.comparators[0])]
        asked = re.search(r"['\"](\d+)\.(\d+)", texts[1])
        if "triton.__version__" in texts[0] and asked and len(node.ops) == 1 and isinstance(
                node.ops[0], (ast.Gt, ast.GtE, ast.Lt, ast.LtE)):
            is_newer = TRITON > (int(asked[1]), int(asked[2]))
            return Num(is_newer == isinstance(node.ops[0], (ast.Gt, ast.GtE)))
        return super().of_Compare(node, scope)

    def of_Attribute(self, node, scope):
        if node.attr == "__version__" and ast.unparse(node.value) == "triton":
            return ".".join(map(str, TRITON)) + ".0"
        if ast.unparse(node) == "math.e":
            return Num(math.e)
        return super().of_Attribute(node, scope)

    def of_ListComp(self, node, scope):
        if self.name_of(getattr(node.elt, "func", None)) == self.entry:
            self.filters.update(id(test) for generator in node.generators for test in generator.ifs)
        return super().of_ListComp(node, scope)

    of_GeneratorExp = of_ListComp

    def asks_device(self, node, scope):
        """Whether what is not known of an expression is a property of the GPU."""
        for inner in ast.walk(node):
            known = scope.get(inner.id) if isinstance(inner, ast.Name) else None
            if isinstance(known, Unknown) and not DEVICE.search(f"{inner.id} {known.why}"):
                return False
        return DEVICE.search(ast.unparse(node)) is not None

    def of_IfExp(self, node, scope):
        """Lists that a property of the device decides are tried both: each config is checked anyway."""
        made = super().of_IfExp(node, scope)
        if not isinstance(made, Unknown) or self.truth(node.test, scope) is not None:
            return made
        ways = [items_of(self.again(each, scope)) for each in (node.body, node.orelse)]
        known = [plain(Seq(way)) if way is not None else None for way in ways]
        if None in known:
            return made
        self.unions.append(f"line {node.lineno}{self.where}: '{ast.unparse(node.test)[:60]}' was not understood: the values "
                           "of both ways are tried")
        both = list(ways[0])
        both += [item for item, value in zip(ways[1], known[1]) if value not in known[0]]
        return Seq(both)


def partial(function, positional, by_name, node):
    """functools.partial(function, ...), as a lambda."""
    scope = Scope({"(function)": function})
    scope.update({f"({name})": value for name, value in by_name.items()})
    call = ast.Call(ast.Name("(function)", ast.Load()), [ast.Starred(ast.Name("(rest)", ast.Load()), ast.Load())],
                    [ast.keyword(name, ast.Name(f"({name})", ast.Load())) for name in by_name])
    arguments = ast.arguments(posonlyargs=[], args=[], vararg=ast.arg("(rest)"), kwonlyargs=[], kw_defaults=[], defaults=[])
    made = ast.copy_location(ast.Lambda(arguments, call), node)
    for inner in ast.walk(made):
        ast.copy_location(inner, node)
    return Function(made, scope, tuple(positional))


class Configs:
    """`each`: {name: value} of the configs that were understood. `left`, `notes`: for people. `blocks`, `zeroed`: of
    their hooks."""

    def __init__(self, reader, function, node):
        self.reader, self.function = reader, function
        self.each, self.left, self.notes, self.blocks, self.zeroed = [], [], [], {}, []
        self.strange = {}  # what hooks do that is not understood: (text, lines of their configs)
        if node is None:
            self.left.append("configs: @autotune has none; write the values of its params")
            return
        # Names that the list is made of: statements that were not followed matter if they give these a value.
        used = reader.names_behind(node)
        value = reader.value(node, reader.scope)
        passed_over = [(line, text) for line, names, text in reader.passed_over if names & used]
        for item in self.items(value, node):
            self.read(item, node)
        for text, lines in self.strange.values():
            self.left.append(f"configs: line{'s' if len(set(lines)) > 1 else ''} {', '.join(map(str, dict.fromkeys(lines)))}: {text}")
        self.left += [f"configs: {text}" for line, text in passed_over
                      if not (text.startswith("for ") and any(f"configs: line {line}: " in told for told in self.left))
                      and not any(text.removesuffix(DOUBT) in told for told in self.left)]
        self.notes += list(dict.fromkeys(reader.unions))
        self.settle()

    def items(self, value, node):
        known = items_of(value)
        if known is not None:
            if getattr(value, "doubt", ""):
                self.left.append(f"configs: {value.doubt} may change them, and was not followed")
            return known
        if isinstance(value, Instance):
            return [value]
        self.left.append(f"configs (line {node.lineno}): {self.culprit(value, node)}; write the values of the params")
        return []

    def culprit(self, value, node):
        """Which name of another module is not known, or which part was not understood."""
        for inner in ast.walk(node):
            known = self.reader.scope.get(inner.id) if isinstance(inner, ast.Name) else None
            if isinstance(known, Module) and type(known) is Module and known.name.split(".")[0] not in (
                    "triton", "torch", "functools", "itertools"):
                return f"'{ast.unparse(node)[:60]}': '{inner.id}' is of module {known.name.rpartition('.')[0] or known.name}"
        shown = ast.unparse(node)[:60]
        why = value.why if isinstance(value, Unknown) and value.why[:60] != shown else ""
        return f"'{shown}' was not understood" + (f": {why if why[:1] == chr(39) else repr(why)}" if why else "")

    def read(self, item, node):
        if not isinstance(item, Instance) or "(given)" not in item.attributes:
            line = getattr(item, "line", 0) or node.lineno
            why = item.why if isinstance(item, Unknown) else "a config"
            self.left.append(f"configs (line {line}): {why if why[:1] == chr(39) else repr(why)} was not understood")
            return
        given, line = item.attributes["(given)"].items, plain(item.attributes["(line)"])
        if "?" in given:
            self.left.append(f"configs (line {line}): '{given['?'].why}' was not understood")
        for name, value in given.items():
            if name not in POSITIONS and name != "?" and not (isinstance(value, Num) and value.value is None):
                self.left.append(f"configs (line {line}): {name} is no argument of a config that the service has: do without it")
        kwargs = item.attributes["kwargs"]
        if not isinstance(kwargs, Map):
            self.left.append(f"configs (line {line}): {getattr(kwargs, 'why', 'its names')} was not understood")
            return
        values = dict(kwargs.items)
        values.update((name, item.attributes[name]) for name in OPTIONS if name in item.attributes)  # also those set later
        config = {**DEFAULTS}
        for name, value in values.items():
            known = plain(value)
            if isinstance(value, Num) and value.value is None and name in OPTIONS:
                continue
            if known is None or isinstance(known, list):
                why = value.why if isinstance(value, Unknown) else \
                    f"'{name}' is of module {value.name.rpartition('.')[0]}" if isinstance(value, Module) else f"'{name}'"
                at = getattr(value, "line", 0) or line
                self.left.append(f"configs: line {at}: {why}" + ("" if " is of module " in why else " was not understood") +
                                 f"; write the values of {name}")
                known = None
            config[name] = known
        hook = item.attributes.get("pre_hook")
        if hook is not None and not (isinstance(hook, Num) and hook.value is None):
            self.read_hook(hook, line)
        if config not in self.each:
            self.each.append(config)

    def read_hook(self, hook, line):
        node = hook.node if isinstance(hook, Function) else None
        if node is None:
            why = getattr(hook, "why", getattr(hook, "name", "a hook"))
            self.left.append(f"configs (line {line}): the pre_hook '{why}' was not understood; what it prepares is an arg's "
                             "role or fill")
            return
        texts = {name: plain(value) for name, value in hook.scope.items() if isinstance(value, (str, Seq))}
        read = Hook(node.body if isinstance(node.body, list) else [ast.Expr(node.body)], texts)
        self.blocks.update(read.blocks)
        self.zeroed += read.zeroed
        if read.strange:
            self.strange.setdefault(id(node), (read.strange, []))[1].append(line)

    def settle(self):
        """One set of names for all: those that some configs do not set have the function's own default, or are left."""
        known = {*self.function.order, *OPTIONS}
        for config in self.each:
            for name in [name for name in config if name not in known]:
                if name in ELSEWHERE:
                    self.notes.append(f"configs: {name} is an option for other GPUs")
                else:
                    self.left.append(f"configs: {name} is no parameter of {self.function.name}, and no option that the "
                                     "service has")
                del config[name]
        names = list(dict.fromkeys(name for config in self.each for name in config))
        defaults = self.function.constant_defaults()
        for name in names:
            for config in self.each:
                if name not in config and name == "maxnreg":
                    config[name] = REGISTERS_MAX
                elif name not in config:
                    config[name] = defaults.get(name)
                    if name not in defaults:
                        self.left.append(f"configs: some do not set {name}; write its values")
        unique = []
        for config in self.each:
            if config not in unique:
                unique.append(config)
        self.each = unique
