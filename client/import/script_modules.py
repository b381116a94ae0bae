# SPDX-License-Identifier: Apache-2.0
"""The modules that a script imports, where they lie in its package or beside it: they are read as the script is, and no
others are."""
import ast
import os

from script_values import Module, Scope

BYTES_MAX = 1 << 20
MODULES_MAX = 64
MODULES_MORE = 6  # of one import, where so many were read already
# Known by what they do, wherever they lie.
LIBRARIES = {"kernel_tuner", "numpy", "torch", "triton", "cupy", "scipy"}


class LoadedModule(Module):
    """A module that was read, with its names."""

    def __init__(self, name, scope):
        super().__init__(name)
        self.scope = scope


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
            scope = self.modules.loaded[path] = Scope({"__file__": path, "__name__": name})
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
                continue
            if found is not None and alias.name in found:
                scope[name] = found[alias.name]
                continue
            inner = self.module(f"{node.module}.{alias.name}" if node.module else alias.name, node.level, folder)
            if inner is not None:
                scope[name] = LoadedModule(alias.name, inner)
            else:
                scope[name] = self.foreign(node, alias)

    def folder_of(self, scope):
        return os.path.dirname(scope.get("__file__", os.path.join(self.folder, "script.py")))
