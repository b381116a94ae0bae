# SPDX-License-Identifier: Apache-2.0
"""The Triton half of a script: its @triton.jit functions as a source of their own, the one that is
tuned, and which of its pointers are read and written."""
import ast

from script_reader import Unreadable

READS, WRITES = {"load"}, {"store"}


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
        return next((d for d in self.node.decorator_list
                     if isinstance(d, ast.Call) and last_name(d) == name), None)

    def text(self, lines):
        """Without what tunes it: the spec says what there is to try."""
        kept = [d for d in self.node.decorator_list if last_name(d) not in ("autotune", "heuristics")]
        heads = ["@" + ast.unparse(d) for d in kept]
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
            first = reached(addressed(node.args[0]), sources)
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

    def kernel_text(self, origin):
        parts = [f'"""Imported from {origin}."""']
        for node in self.tree.body:
            if is_triton_import(node) or is_constant(node):
                parts.append("\n".join(self.lines[node.lineno - 1:node.end_lineno]))
        for function in self.functions.values():
            parts.append("\n\n" + function.text(self.lines))
        return "\n".join(parts) + "\n"

    def missing(self):
        """Names from other modules that the functions use."""
        used = {inner.id for f in self.functions.values() for inner in ast.walk(f.node)
                if isinstance(inner, ast.Name)}
        found = []
        for node in self.tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and not is_triton_import(node):
                module = getattr(node, "module", None)
                found += [(a.asname or a.name, module or a.name) for a in node.names
                          if (a.asname or a.name.split(".")[0]) in used]
        return found


def is_triton_import(node):
    if isinstance(node, ast.Import):
        return all(a.name.split(".")[0] in ("triton", "math") for a in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("triton", "math")


def is_constant(node):
    if isinstance(node, ast.AnnAssign):
        return is_constexpr(node.annotation)
    return (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
            and last_name(node.value) == "constexpr")
