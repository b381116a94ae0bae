# SPDX-License-Identifier: Apache-2.0
"""The Triton half of a script: its @triton.jit functions as a source of their own, the one that is
tuned, and which of its pointers are read and written."""
import ast
import functools
import os
import re
import textwrap

from script_modules import LoadedModule
from script_reader import Unreadable
from script_values import Module

READS = {"load", "load_tensor_descriptor", "gather"}
WRITES = {"store", "store_tensor_descriptor", "scatter"}
HARMLESS = ("noinline", "lru_cache", "cache", "autotune", "heuristics", "libentry", "libtuner")  # decorators of functions that kernels call
LIBRARY = ("tl", "triton", "language")
BASES = {"make_block_ptr", "make_tensor_descriptor", "multiple_of", "max_contiguous", "advance", "cast"}


def last_name(node):
    """"jit" of `triton.jit`, of `jit`, and of a call of either."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def is_constexpr(annotation):
    return annotation is not None and last_name(annotation) == "constexpr"


class Function:
    """A function with @triton.jit and what stands before it."""

    def __init__(self, node):
        self.node = node
        self.name = node.name
        arguments = node.args.args
        self.constants = [a.arg for a in arguments if is_constexpr(a.annotation)]
        self.arguments = [a.arg for a in arguments if not is_constexpr(a.annotation)]
        self.order = [a.arg for a in arguments]
        with_default = arguments[len(arguments) - len(node.args.defaults):]
        self.defaults = {a.arg for a in with_default}

    def decorator(self, name):
        """A library's own one round it, such as @cached_autotune, is taken for it."""
        return next((d for d in self.node.decorator_list if isinstance(d, ast.Call)
                     and (last_name(d) == name or last_name(d).endswith("_" + name))), None)

    def constant_defaults(self):
        """Of the parameters with a plain default."""
        arguments = self.node.args.args
        found = {}
        for argument, default in zip(arguments[len(arguments) - len(self.node.args.defaults):], self.node.args.defaults):
            if isinstance(default, ast.Constant) and default.value is not None:
                found[argument.arg] = default.value
        return found

    def tuner(self):
        """What says which configs there are: @triton.autotune, or a library's own."""
        return self.decorator("autotune") or self.decorator("libtuner")

    def kept(self):
        """Of the decorators: what caches or prints is the script's affair."""
        return [d for d in self.node.decorator_list if last_name(d) == "jit"]

    def names(self):
        """Those that its text uses."""
        parts = [*self.node.body, self.node.args, *map(without_host, self.kept())]
        return {inner.id for part in parts for inner in ast.walk(part) if isinstance(inner, ast.Name)}

    def text(self, lines):
        """Without what tunes it: the spec says what there is to try."""
        heads = ["@" + ast.unparse(without_host(d)) for d in self.kept()]
        body = lines[self.node.lineno - 1:self.node.end_lineno]
        return "\n".join(heads + body)

    def sources(self):
        """Of each name: those that its values are made of."""
        sources = {}
        for node in ast.walk(self.node):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for inner in ast.walk(target):
                        if isinstance(inner, ast.Name):
                            sources.setdefault(inner.id, set()).update(addressed(node.value))
        return sources

    def accesses(self):
        """(kind, names of the address) of each load, store, atomic and call of another function."""
        sources = self.sources()
        for node in ast.walk(self.node):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = last_name(node)
            is_library = isinstance(node.func, ast.Attribute)
            base = getattr(getattr(node.func, "value", None), "id", "tl")
            first = reached(addressed(node.args[0]) if base in LIBRARY else {base}, sources)  # descriptor.load(...)
            if name in READS:
                yield "read", first
            elif name in WRITES:
                yield "written", first
            elif name.startswith("atomic_"):
                yield "both", first
            elif not is_library and name not in ("range", "min", "max", "int", "float", "print", "len"):
                for argument in [*node.args, *(k.value for k in node.keywords)]:
                    yield "both", reached(addressed(argument), sources)

    def roles(self):
        """Of each argument that addresses reach: INPUT, OUTPUT or INOUT. What another function is
        given may be written by it."""
        read, written = set(), set()
        for kind, names in self.accesses():
            read |= names if kind != "written" else set()
            written |= names if kind != "read" else set()
        return {name: "INOUT" if name in read & written else "OUTPUT" if name in written else "INPUT"
                for name in self.arguments}

    @functools.cached_property
    def pointers(self):
        """Arguments that are the base of an address, as far as the text shows it: `x + offsets`, or `x` alone."""
        found = set()
        for node in ast.walk(self.node):
            if isinstance(node, ast.Call) and node.args and (last_name(node) in READS | WRITES | BASES or
                                                             last_name(node).startswith("atomic_")):
                self.find_base(node.args[0], found, set())
            elif isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute) and len(self.order) and \
                    last_name(node) not in ("range", "min", "max", "int", "float", "len"):
                found |= {a.id for a in node.args if isinstance(a, ast.Name) and "ptr" in a.id.lower()}
        return found & set(self.arguments)

    def find_base(self, node, found, seen):
        """The leftmost name of an address, through the names that it was given."""
        while isinstance(node, (ast.BinOp, ast.Subscript)) or (isinstance(node, ast.Call) and isinstance(
                node.func, ast.Attribute) and last_name(node) in ("to", "advance")):
            node = node.left if isinstance(node, ast.BinOp) else node.value if isinstance(node, ast.Subscript) else \
                node.args[0] if last_name(node) == "advance" and node.args else node.func.value
        if isinstance(node, ast.Call) and last_name(node) in BASES and node.args:
            node = node.args[0]
            self.find_base(node, found, seen)
        if not isinstance(node, ast.Name) or node.id in seen:
            return
        seen.add(node.id)
        found.add(node.id)
        for value in self.assigned.get(node.id, ()):
            self.find_base(value, found, seen)

    @functools.cached_property
    def assigned(self):
        """Of each name: the expressions that it is given."""
        found = {}
        for inner in ast.walk(self.node):
            if isinstance(inner, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and inner.value is not None:
                for target in inner.targets if isinstance(inner, ast.Assign) else [inner.target]:
                    pairs = zip(target.elts, inner.value.elts) if isinstance(target, ast.Tuple) and isinstance(
                        inner.value, ast.Tuple) else [(target, inner.value)]
                    for one, value in pairs:
                        found.setdefault(getattr(one, "id", ""), []).append(value)
        return found

    def indices(self):
        """Arguments whose elements are part of an address: what they hold are whole numbers within bounds."""
        loaded = {}
        for node in ast.walk(self.node):
            if isinstance(node, ast.Assign):
                bases = set()
                for inner in ast.walk(node.value):
                    if isinstance(inner, ast.Call) and last_name(inner) in ("load",) and inner.args:
                        self.find_base(inner.args[0], bases, set())
                for target in node.targets:
                    for inner in ast.walk(target) if bases else ():
                        if isinstance(inner, ast.Name):
                            loaded.setdefault(inner.id, set()).update(bases & set(self.arguments))
        found, sources = set(), self.sources()
        for kind, names in self.addresses():
            for name in reached(names, sources):
                found |= loaded.get(name, set())
        return found

    def addresses(self):
        for node in ast.walk(self.node):
            if isinstance(node, ast.Call) and node.args and last_name(node) in ("load", "store"):
                yield "", addressed(node.args[0])


def make_of_device(node):
    """What a script's own question about the make of the GPU is answered with: kernels here run on NVIDIA's. None: it
    is no such question."""
    name = last_name(node).lower()
    if name in ("is_nvidia", "is_cuda", "is_nvidia_gpu") or (
            isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.cuda.is_available"):
        return True
    return False if name in ("is_amd", "is_hip", "is_intel", "is_rocm", "is_npu", "is_xpu", "is_musa", "is_intel_alchemist",
                             "is_ascend", "is_hip_available") else None


def without_host(decorator):
    """@triton.jit without what names launches for a profiler."""
    if not isinstance(decorator, ast.Call):
        return decorator
    kept = [k for k in decorator.keywords if k.arg not in ("launch_metadata", "repr")]
    return ast.Call(decorator.func, decorator.args, kept) if kept or decorator.args else decorator.func


def addressed(node):
    """Names of an expression; not those within a load, whose result is a value."""
    if isinstance(node, ast.Call) and last_name(node) in READS:
        return set()
    names = {node.id} if isinstance(node, ast.Name) else set()
    for child in ast.iter_child_nodes(node):
        names |= addressed(child)
    return names


def reached(names, sources):
    seen, open_names = set(), list(names)
    while open_names:
        name = open_names.pop()
        if name not in seen:
            seen.add(name)
            open_names += sources.get(name, ())
    return seen


class TritonSource:
    """The functions of a script, and their text without the rest of it."""

    def __init__(self, path, text):
        self.lines = text.split("\n")
        self.headers = {}  # files that come along
        self.members = {}  # {path of a module: names that its file has for kernels}
        try:
            self.tree = ast.parse(text, path)
        except (SyntaxError, ValueError) as error:
            raise Unreadable(f"{path}: no Python 3: {error}") from error
        self.functions = {node.name: Function(node) for node in self.tree.body
                          if isinstance(node, ast.FunctionDef)
                          and any(last_name(d) == "jit" for d in node.decorator_list)}

    def tuned(self):
        return [f for f in self.functions.values() if f.tuner()]

    def needed(self, entry):
        """Those that one calls, and itself, in their order."""
        found, open_names = set(), [entry]
        while open_names:
            name = open_names.pop()
            if name in self.functions and name not in found:
                found.add(name)
                open_names += self.functions[name].names()
        return [function for name, function in self.functions.items() if name in found]

    def kernel_text(self, origin, entry, scope):
        """(text, missing): the kernel with what it needs, also of the script's other modules; [(name, module)] of what
        these do not have."""
        functions = self.needed(entry)
        used = set().union(*(function.names() for function in functions))
        members = [member for function in functions for member in members_in(function.node)]
        brought = Brought(f'"""Imported from {origin}."""', self.functions)
        self.add_head(self.tree.body, brought)
        for node in flattened(self.tree.body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.follow(node, used, members, scope, brought)
        for name in sorted(used - set(self.functions) - brought.bound):
            self.add_constant(name, scope, brought)
        return brought.text(["\n\n" + function.text(self.lines) for function in functions]), brought.missing

    @staticmethod
    def add_head(body, brought):
        for node in flattened(body):
            kept = triton_import(node)
            names = {a.asname or a.name for a in kept.names} if kept else set()
            if is_constant(node) or not names <= brought.bound:
                brought.add(ast.unparse(kept or node))
                brought.bound |= names

    @staticmethod
    def add_constant(name, scope, brought):
        """A plain number or text of the module: a kernel that names it takes it as a constant."""
        value = getattr(scope.get(name), "value", None)
        if isinstance(value, (int, float)) and name not in brought.bound and not any(part.startswith((
                name + " =", name + ":")) for part in brought.parts):
            brought.add(f"{name} = tl.constexpr({value!r})")

    def follow(self, node, used, members, scope, brought):
        """A function of another module of the script's own comes along; what is of none is missing."""
        kept = triton_import(node)
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            if name not in used or (kept and alias in kept.names) or name in brought.seen:
                continue
            module = "." * getattr(node, "level", 0) + (getattr(node, "module", None) or alias.name)
            self.add(name, scope.get(name), module, members, brought)

    def add(self, name, value, module, members, brought):
        """What a kernel names, of another module: a module, a function, a number, or a part of Triton."""
        function = getattr(value, "node", None)
        if isinstance(value, LoadedModule):
            self.add_header(name, value, module, members, brought)
        elif isinstance(function, ast.FunctionDef) and any(last_name(d) == "jit" for d in function.decorator_list):
            self.bring(name, value, brought)
        elif isinstance(getattr(value, "value", None), (int, float)):
            brought.add(f"{name} = tl.constexpr({value.value!r})")
        elif getattr(value, "name", "").split(".")[0] in ("triton", "tl"):
            self.alias(name, value.name, brought)
        else:
            brought.missing.append((name, module))

    def add_header(self, name, module, where, members, brought):
        """A module of functions for kernels, used as `name.function`, is a file of its own beside the source: the whole
        module if it imports nothing but Triton, else the functions that the kernel names."""
        path = module.scope.get("__file__", "")
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError:
            brought.missing.append((name, where))
            return
        own = os.path.basename(path)
        wanted = sorted({member for base, member in members if base == name} | self.members.get(path, set()))
        tree = ast.parse(text)
        imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
        if any(getattr(node, "level", 0) or triton_import(node) is None for node in imports):
            inner = Brought(f'"""Functions of {own}."""', ())
            self.add_head(tree.body, inner)
            for member in wanted:
                if member not in inner.seen:
                    self.add(member, module.scope.get(member), own, (), inner)
            brought.missing += [(f"{name}.{member}", where) for member, _ in inner.missing]
            text = inner.text([])
        if self.headers.get(own, text) != text and path not in self.members:
            brought.missing.append((name, where))  # two modules of one name
            return
        self.headers[own], self.members[path] = text, set(wanted)
        brought.add(f"import {own.removesuffix('.py')} as {name}")

    @staticmethod
    def alias(name, full, brought):
        """exp = tl.exp"""
        full = full.replace("triton.language.", "tl.", 1) if full.startswith("triton.language.") else full
        if full != name:
            brought.add(f"{name} = {full}")

    def bring(self, name, value, brought):
        """A function, and what it names of its own module."""
        brought.seen.add(name)
        function = Function(value.node)
        path = value.scope.get("__file__", "")
        strange = [d for d in value.node.decorator_list if last_name(d) not in ("jit", *HARMLESS)]
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError:
            text = None
        if text is None or strange:  # a decorator may put another function in its place
            brought.missing.append((name, os.path.basename(path)))
            return
        self.add_head(ast.parse(text).body, brought)
        members = members_in(value.node)
        for inner in sorted(function.names() - brought.seen - brought.bound - {name, *function.order}):
            known = value.scope.get(inner)
            if isinstance(getattr(known, "node", None), ast.FunctionDef):
                self.bring(inner, known, brought)
            elif isinstance(getattr(known, "value", None), (int, float)):
                self.add_constant(inner, value.scope, brought)
            elif isinstance(known, (LoadedModule, Module)):
                self.add(inner, known, os.path.basename(path), members, brought)
        heads = ["@" + ast.unparse(without_host(d)) for d in function.kept()]
        lines = text.split("\n")[value.node.lineno - 1:value.node.end_lineno]
        body = textwrap.dedent("\n".join(lines))
        if value.node.name != name:
            body = re.sub(rf"^def {value.node.name}\b", f"def {name}", body, count=1, flags=re.M)
        brought.texts.append("\n\n" + "\n".join([*heads, body]))


class Brought:
    """A source that is being written. `parts`: imports and constants, in order; `texts`: functions of other modules;
    `bound`: names that the imports give; `seen`: functions that are there; `missing`: [(name, module)]."""

    def __init__(self, head, functions):
        self.parts, self.texts = [head], []
        self.bound, self.seen, self.missing = set(), set(functions), []

    def add(self, line):
        if line not in self.parts:
            self.parts.append(line)

    def text(self, functions):
        return "\n".join([*self.parts, *self.texts, *functions]) + "\n"


def members_in(tree):
    """[(name, member)] of each `name.member`."""
    return [(node.value.id, node.attr) for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]


def flattened(body):
    """The statements of a module, with those under `if` and `try`, where versions are told apart."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try)):
            yield from flattened(node.body)
            yield from flattened([each for h in getattr(node, "handlers", ()) for each in h.body])
            yield from flattened(node.orelse)
        else:
            yield node


def triton_import(node):
    """What of an import a kernel has; None if that is nothing."""
    if isinstance(node, ast.Import):
        kept = [a for a in node.names if a.name.split(".")[0] in ("triton", "math")]
        return ast.Import(kept) if kept else None
    is_triton = isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("triton", "math")
    return node if is_triton else None


def is_constant(node):
    if isinstance(node, ast.AnnAssign):
        return is_constexpr(node.annotation)
    return (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            and last_name(node.value) == "constexpr")
