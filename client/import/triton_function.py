# SPDX-License-Identifier: Apache-2.0
"""The Triton half of a script: its @triton.jit functions as a source of their own, the one that is
tuned, and which of its pointers are read and written."""
import ast

from script_reader import Unreadable

READS = {"load", "load_tensor_descriptor", "gather"}
WRITES = {"store", "store_tensor_descriptor", "scatter"}
LIBRARY = ("tl", "triton", "language")


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

    def roles(self):
        """Of each argument that addresses reach: INPUT, OUTPUT or INOUT. What another function is
        given may be written by it."""
        sources = {}
        for node in ast.walk(self.node):
            if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for inner in ast.walk(target):
                        if isinstance(inner, ast.Name):
                            sources.setdefault(inner.id, set()).update(addressed(node.value))
        read, written = set(), set()
        for node in ast.walk(self.node):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name = last_name(node)
            is_library = isinstance(node.func, ast.Attribute)
            base = getattr(getattr(node.func, "value", None), "id", "tl")
            first = reached(addressed(node.args[0]) if base in LIBRARY else {base}, sources)  # descriptor.load(...)
            if name in READS:
                read |= first
            elif name in WRITES:
                written |= first
            elif name.startswith("atomic_"):
                read |= first
                written |= first
            elif not is_library:
                for argument in node.args:
                    read |= reached(addressed(argument), sources)
                    written |= reached(addressed(argument), sources)
        return {name: "INOUT" if name in read & written else "OUTPUT" if name in written else "INPUT"
                for name in self.arguments}


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
        try:
            self.tree = ast.parse(text, path)
        except (SyntaxError, ValueError) as error:
            raise Unreadable(f"{path}: no Python 3: {error}") from error
        self.functions = {node.name: Function(node) for node in self.tree.body
                          if isinstance(node, ast.FunctionDef)
                          and any(last_name(d) == "jit" for d in node.decorator_list)}

    def tuned(self):
        return [f for f in self.functions.values() if f.decorator("autotune")]

    def needed(self, entry):
        """Those that one calls, and itself, in their order."""
        found, open_names = set(), [entry]
        while open_names:
            name = open_names.pop()
            if name in self.functions and name not in found:
                found.add(name)
                open_names += self.functions[name].names()
        return [function for name, function in self.functions.items() if name in found]

    def kernel_text(self, origin, entry):
        parts = [f'"""Imported from {origin}."""']
        bound = set()
        for node in flattened(self.tree.body):
            kept = triton_import(node)
            names = {a.asname or a.name for a in kept.names} if kept else set()
            if is_constant(node) or not names <= bound:
                parts.append(ast.unparse(kept or node))
                bound |= names
        for function in self.needed(entry):
            parts.append("\n\n" + function.text(self.lines))
        return "\n".join(parts) + "\n"

    def missing(self, entry):
        """Names from other modules that the functions use."""
        used = set().union(*(function.names() for function in self.needed(entry)))
        found = []
        for node in self.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                module, kept = getattr(node, "module", None), triton_import(node)
                found += [(a.asname or a.name, module or a.name) for a in node.names
                          if (a.asname or a.name.split(".")[0]) in used and not (kept and a in kept.names)]
        return found


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
