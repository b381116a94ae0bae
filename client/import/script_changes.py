# SPDX-License-Identifier: Apache-2.0
"""What a script changes: names, items and attributes that it gives values, and statements that were not followed, which
may change more."""
import ast

from script_modules import names_changed
from script_objects import OPAQUE, Class, Instance
from script_values import Array, Function, Map, Module, Num, Scalar, Seq, Unknown, items_of, plain


class Changes:
    """Part of a Reader."""

    def pass_over(self, node, text):
        """Says so of a statement that gives names a value, returns one or tunes. Of another module only what the script names
        matters, and its own way to set any name sets none of those that its text sets."""
        names, nodes = names_changed(node), list(ast.walk(node))
        if any(isinstance(inner, ast.Call) and self.name_of(inner.func) in OPAQUE for inner in nodes):
            names.add("*")
        if any(isinstance(inner, (ast.Return, ast.Break, ast.Continue)) or (isinstance(inner, ast.Call) and self.name_of(
                inner.func) == self.entry) for inner in nodes):
            names.add("")
        names = names & self.mentioned if self.where else names
        if names:
            self.passed_over.append((node.lineno, names, text + self.where))

    def doubted(self, container, node, text):
        """A change of a list, dict or object, of which it is not known what it does."""
        if isinstance(container, (Map, Seq)):
            container.doubt = container.doubt or f"line {node.lineno}: {text}"
        self.pass_over(node, f"line {node.lineno}: {text} was not followed")

    def assign(self, target, value, scope):
        if isinstance(target, ast.Name):
            value = self.named(value, target.id)
            scope.set(target.id, value)
            self.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = items_of(value) or []
            star = next((i for i, inner in enumerate(target.elts) if isinstance(inner, ast.Starred)), None)
            if star is not None and len(items) >= len(target.elts) - 1:
                end = len(items) - (len(target.elts) - star - 1)
                items = [*items[:star], Seq(items[star:end]), *items[end:]]
            for index, inner in enumerate(target.elts):
                known = index < len(items)
                self.assign(inner, items[index] if known else Unknown("not known", target.lineno),
                            scope)
        elif isinstance(target, ast.Subscript):
            container = self.value(target.value, scope)
            key = plain(self.value(target.slice, scope))
            if isinstance(container, Map):
                # Under a name that no key has, so that it is not lost.
                container.items[f"(line {target.lineno})" if key is None or isinstance(key, list) else key] = value
                if key is None:
                    self.pass_over(target, f"line {target.lineno}: '{ast.unparse(target)[:60]} = ...' was not followed")
            elif isinstance(container, Seq) and isinstance(key, int) and -len(container.items) <= key < len(container.items):
                container.items[key] = value
            elif isinstance(container, Array):
                container.note = container.note or f"line {target.lineno} sets parts of it"
            else:
                self.doubted(container, target, f"'{ast.unparse(target)[:60]} = ...'")
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, scope)
            member = owner.cls.member(target.attr) if isinstance(owner, Instance) and owner.cls is not None else None
            if isinstance(owner, Instance) and not isinstance(member, (Function, Instance)):
                owner.attributes[target.attr] = self.named(value, target.attr)
            elif isinstance(owner, Class):
                owner.members[target.attr] = self.named(value, target.attr)
            elif not (self.where and isinstance(owner, Module)):  # of a library, which is known by its names alone
                self.doubted(owner, target, f"'{ast.unparse(target)[:60]} = ...'")
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, scope)

    def named(self, value, name):
        """A plain size is a dim of its name from here on."""
        def is_size(item):
            return isinstance(item, Num) and type(item.value) is int and not item.text
        if is_size(value):
            return self.size(value.value, name)
        if isinstance(value, Scalar) and is_size(value.num):
            return Scalar(value.dtype, self.size(value.num.value, name))
        if isinstance(value, Seq) and 1 < len(value.items) <= 3 and all(map(is_size, value.items)):
            return Seq([self.size(item.value, f"{name}_{axis}") for item, axis in zip(value.items, "xyz")], value.doubt)
        return value

    def size(self, value, name):
        """A number under its dim's name; if another was asked for under this name, that one."""
        text = self.dim_name(name, value)
        return Num(self.resized.get(text, value), text)

    def dim_name(self, name, value):
        """One name has one value: another of the same name has a number behind it."""
        known = self.sizes.setdefault(name, {})
        return known.setdefault(value, f"{name}_{len(known) + 1}" if known else name)

    def bind(self, target, item, scope):
        if isinstance(target, (ast.Tuple, ast.List)):
            items = items_of(item) or []
            for index, inner in enumerate(target.elts):
                self.bind(inner, items[index] if index < len(items) else Unknown("not known", target.lineno), scope)
        elif isinstance(target, ast.Name):
            scope[target.id] = Num(item.value) if isinstance(item, Num) else item
