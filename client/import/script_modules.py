# SPDX-License-Identifier: Apache-2.0
"""The modules that a script imports, where they lie in its package or beside it: they are read as the script is, and no
others are."""
import ast
import dataclasses
import os
import re
import sys

from script_calls import Return
from script_values import Map, Module, Scope, Seq, Unknown, plain

BYTES_MAX = 1 << 20
MODULES_MAX = 64
MODULES_MORE = 6  # of one import, where so many were read already
# Known by what they do, wherever they lie.
LIBRARIES = {"kernel_tuner", "numpy", "torch", "triton", "cupy", "scipy"}
# There wherever a script of the kind runs.
PRESENT = {"kernel_tuner", "numpy", "torch", "triton", *sys.stdlib_module_names}
IMPORT_ERRORS = ("ImportError", "ModuleNotFoundError")
CATCHING = {*IMPORT_ERRORS, "Exception", "BaseException"}
MUTATORS = {"append", "extend", "insert", "update", "setdefault", "pop", "remove", "clear", "add"}
LEAVING_CALLS = {"exit", "quit", "_exit", "skip", "fail"}


class LoadedModule(Module):
    """A module that was read, with its names."""

    def __init__(self, name, scope):
        super().__init__(name)
        self.scope = scope


def absent(value, line):
    """A name of a module that was not read is not known, and neither is such a part of a list or dict."""
    if isinstance(value, Module) and "." in value.name.strip(".") and not isinstance(value, LoadedModule):
        module, _, name = value.name.rpartition(".")
        return Unknown(f"{name} of module {module}", line)
    if isinstance(value, Unknown):
        return dataclasses.replace(value, why=re.sub(r"^'(\w+)' is (of module [\w.]+)$", r"\1 \2", value.why))
    if isinstance(value, Seq):
        return dataclasses.replace(value, items=[absent(item, line) for item in value.items])
    return dataclasses.replace(value, items={key: absent(item, line) for key, item in value.items.items()}) \
        if isinstance(value, Map) else value


class Modules:
    """Finds and keeps the modules of one script."""

    def __init__(self, path):
        self.folder = os.path.dirname(os.path.abspath(path))
        self.root = self.folder
        while os.path.isfile(os.path.join(self.root, "__init__.py")) and os.path.dirname(self.root) != self.root:
            self.root = os.path.dirname(self.root)
        self.loaded, self.most = {}, MODULES_MAX
        self.tops = []  # folders of packages whose path has a folder without __init__.py: (folder above, folder)

    def namespace(self, name):
        """Where the package `name` is, if the script lies in a folder of it and a folder between has no __init__.py."""
        folder = self.folder
        while os.path.dirname(folder) != folder:
            if os.path.basename(folder) == name and os.path.isfile(os.path.join(folder, "__init__.py")):
                found = (os.path.dirname(folder), folder)
                self.tops += [found] if found not in self.tops else []
                return [found]
            folder = os.path.dirname(folder)
        return []

    def find(self, name, level, folder):
        """The file of `from name import ...`; None: it is none of the script's own."""
        parts = name.split(".") if name else []
        if parts and parts[0] in LIBRARIES:
            return None
        places = [(self.root, self.root), (self.folder, self.root)]
        if parts and not level:
            places += self.namespace(parts[0])
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            places = [(folder, self.root), *((folder, top) for _, top in self.tops if inside_of(folder, top))]
        for place, top in places:
            base = os.path.join(place, *parts)
            for path in (base + ".py" if parts else "", os.path.join(base, "__init__.py")):
                real = os.path.realpath(path) if path else ""
                if inside_of(real, top) and os.path.isfile(real) and os.path.getsize(real) <= BYTES_MAX:
                    return real
        return None


def inside_of(path, folder):
    return (os.path.realpath(path) + os.sep).startswith(os.path.realpath(folder) + os.sep)


class Imports:
    """The imports of a Reader."""

    def module(self, name, level, folder, is_needed=False):
        """The names of a module, or None. `is_needed`: also if so many were read already."""
        path = self.modules.find(name, level, folder)
        if not self.where:  # an import of the script itself is followed, whatever those before it have read
            self.modules.most = max(MODULES_MAX, len(self.modules.loaded) + MODULES_MORE)
        is_new = path is not None and path not in self.modules.loaded
        if path is None or (is_new and len(self.modules.loaded) >= self.modules.most and not is_needed):
            return None
        if path not in self.modules.loaded:
            scope = self.modules.loaded[path] = Scope({"__file__": path, "__name__": name}, kind="module")
            try:
                with open(path, encoding="utf-8") as file:
                    tree = ast.parse(file.read(), path)
            except (OSError, SyntaxError, ValueError):
                return None
            where, steps = self.where, self.steps
            self.where, self.steps = f" of {os.path.basename(path)}", 0
            try:
                self.module_block(tree.body, scope)
            except self.too_much:
                pass  # what was read is known
            finally:
                self.where, self.steps = where, steps
        return self.modules.loaded[path]

    def do_Import(self, node, scope):
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            found = self.module(alias.name, 0, self.folder_of(scope)) if alias.asname or "." not in alias.name else None
            scope[name] = Module(alias.name) if found is None else LoadedModule(alias.name, found)

    def do_ImportFrom(self, node, scope):
        folder = self.folder_of(scope)
        found = self.module(node.module or "", node.level, folder)
        for alias in node.names:
            name = alias.asname or alias.name
            if alias.name == "*":
                scope.update({key: value for key, value in (found or {}).items() if not key.startswith("_")})
                scope.module().unstable |= found.unstable if found is not None else set()
                continue
            if found is not None and alias.name in found:
                scope[name] = found[alias.name]
                if alias.name in found.unstable and isinstance(found[alias.name], (Map, Seq)):
                    scope.module().unstable.add(name)
                continue
            inner = self.module(f"{node.module}.{alias.name}" if node.module else alias.name, node.level, folder)
            if inner is not None:
                scope[name] = LoadedModule(alias.name, inner)
            else:
                scope[name] = self.foreign(node, alias)

    def folder_of(self, scope):
        return os.path.dirname(scope.get("__file__", os.path.join(self.folder, "script.py")))


class DoubtfulImports(Imports):
    """Imports that may fail: the values that depend on them are not known."""

    def tried(self, node, scope):
        """Walks the body of a `try`, or of a `with`. Handlers are not walked."""
        at, body = self.unsure_import(node), node.body
        if at is None:
            self.block(body, scope)
            return
        self.block(body[:at], scope)
        others = [statement for handler in import_handlers(node) for statement in handler.body]
        for handler in import_handlers(node):
            if last_name(handler.type) in IMPORT_ERRORS and any(isinstance(inner, ast.Return) for inner in ast.walk(handler)):
                self.pass_over(handler, f"except (line {handler.lineno}): what it does was left out")
        doubt = Unknown(f"try: import {modules_of(body[at])[0][0]}", body[at].lineno)
        stored = stored_in(body[at:])
        before = {ast.unparse(target): plain(self.value(target, scope)) for target in stored if self.is_set(target, scope)}
        try:
            self.block(body[at:], scope)
        except Return as returned:
            raise Return(doubt) from returned
        for target in stored:
            known = before.get(ast.unparse(target), doubt)
            if known is not doubt and (known is None or known != plain(self.value(target, scope))):
                self.assign(target, doubt, scope)
        names = names_imported(body)
        for target in stored_in(others):
            if not (isinstance(target, ast.Name) and target.id in names):
                self.assign(target, doubt, scope)
            elif isinstance(scope.get(target.id), Module):
                self.replaced.add(scope[target.id].name)
        self.doubt_changed([*body[at:], *others], scope)

    def doubt_changed(self, body, scope):
        """Lists and dicts that the statements change by calls."""
        for node in body:
            for inner in ast.walk(node):
                if isinstance(inner, ast.Call) and getattr(inner.func, "attr", "") in MUTATORS:
                    value = self.value(inner.func.value, scope)
                    if isinstance(value, (Map, Seq)):
                        value.doubt = value.doubt or f"line {inner.lineno}: '{ast.unparse(inner)[:60]}'"

    def unsure_import(self, node):
        """The index of the first statement of a `try` or `with` that imports a module which may not be there; None: it has
        none, or the script ends then."""
        return next((at for at, statement in enumerate(node.body if import_handlers(node) else ()) if any(
            level == 0 and name.split(".")[0] not in PRESENT and self.modules.find(name, level, self.folder) is None
            for name, level in modules_of(statement))), None)

    def is_set(self, target, scope):
        """Whether a target has a value before it is set: a name without one makes the script fail otherwise."""
        return not isinstance(target, ast.Name) or target.id in scope


def last_name(node):
    return getattr(node, "attr", getattr(node, "id", ""))


def is_end(node):
    """Whether the script ends here."""
    call = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.Raise) or last_name(getattr(call, "func", None)) in LEAVING_CALLS


def import_handlers(node):
    """The handlers of a failed import after which the script goes on. `with suppress(...)` has an empty one."""
    found = list(getattr(node, "handlers", ()))
    for item in getattr(node, "items", ()):
        call = item.context_expr
        if isinstance(call, ast.Call) and last_name(call.func) == "suppress":
            found.append(ast.ExceptHandler(ast.Tuple(call.args, ast.Load()), None, [ast.Pass()]))
    kinds = [each.type.elts if isinstance(each.type, ast.Tuple) else [each.type] for each in found]
    return [each for each, types in zip(found, kinds) if not any(map(is_end, each.body)) and any(
        kind is None or last_name(kind) in CATCHING for kind in types)]


def modules_of(node):
    """(name, level) of each module that a statement imports."""
    found = []
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            found += [(alias.name, 0) for alias in inner.names]
        elif isinstance(inner, ast.ImportFrom):
            found.append((inner.module or "", inner.level))
    return found


def names_imported(body):
    return {alias.asname or alias.name.split(".")[0] for node in body for inner in ast.walk(node)
            if isinstance(inner, (ast.Import, ast.ImportFrom)) for alias in inner.names}


def names_set(node):
    """All names that a statement may give a value, with those of functions in it."""
    found = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
            found.add(inner.id)
        elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            found.add(inner.name)
        elif isinstance(inner, ast.MatchMapping):
            found.add(inner.rest)
        elif isinstance(inner, ast.alias):
            found.add(inner.asname or inner.name.split(".")[0])
    return found - {None}


def names_changed(node):
    """Names that a statement may set, or of which it may change a part."""
    found = names_set(node)
    for inner in ast.walk(node):
        if isinstance(inner, (ast.Subscript, ast.Attribute)) and not isinstance(inner.ctx, ast.Load):
            parts = [inner.value]
        else:
            parts = [inner.func] if isinstance(inner, ast.Call) and getattr(inner.func, "attr", "") in MUTATORS else []
        found.update(each.id for part in parts for each in ast.walk(part) if isinstance(each, ast.Name))
    waiting = [*node.args, *node.keywords, node.func] if isinstance(node, ast.Call) else []
    while waiting:
        inner = waiting.pop()
        found |= {inner.id} if isinstance(inner, ast.Name) and inner is not node.func else set()
        waiting += [] if isinstance(inner, (ast.Lambda, ast.ListComp, ast.GeneratorExp)) else ast.iter_child_nodes(inner)
    return found


def changed_in_module(node):
    """Names of a module that one of its statements may change."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name} | changed_by_functions([node])
    of_turns = {inner.id for one in ast.walk(node) if isinstance(one, ast.comprehension) for inner in ast.walk(one.target)
                if isinstance(inner, ast.Name)}
    own = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr) for inner in [inner.target]}
    return names_changed(node) - of_turns | own


def changed_by_functions(body):
    """Names of a module that a function in it may set or mutate, whenever it is called."""
    found = set()
    for function in (node for statement in body for node in ast.walk(statement)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        nodes = list(ast.walk(function))
        own = names_set(function) | {each.arg for each in nodes if isinstance(each, ast.arg)}
        for inner in nodes:
            if isinstance(inner, ast.Global):
                found.update(inner.names)
            is_stored = isinstance(inner, (ast.Subscript, ast.Attribute)) and not isinstance(inner.ctx, ast.Load)
            is_mutated = isinstance(inner, ast.Call) and getattr(inner.func, "attr", "") in MUTATORS
            root = inner.func if is_mutated else inner
            while (is_stored or is_mutated) and isinstance(root, (ast.Subscript, ast.Attribute)):
                root = root.value
            if isinstance(root, ast.Name) and (is_stored or is_mutated) and root.id not in own:
                found.add(root.id)
    return found


def stored_in(body):
    """The targets that statements set, without those of functions and classes that they define."""
    found, waiting = [], list(body)
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.Name, ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            found.append(node)
        waiting += ast.iter_child_nodes(node)
    return found
