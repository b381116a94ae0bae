# SPDX-License-Identifier: Apache-2.0
"""The Reader of Kernel Tuner's scripts. It knows the functions of Kernel Tuner's own package, finds the tuning call behind
conditions that do not hold where the script is read, and passes over statements that cannot change what is tuned."""
import ast
import dataclasses

from kernel_tuner_library import OWN, PACKAGE, call_own, own_name
from script_modules import LoadedModule
from script_objects import HARMLESS, Class
from script_reader import ARRAY_MODULES, Reader
from script_slice import CHANGING, LEAVING, Slice, name_of, reaches, reaching
from script_values import Array, Fill, Function, Generator, Module, Unknown, as_shape, items_of, plain

ENTRY = "tune_kernel"
TURNS_MAX = 1024  # of a loop that fills arrays
PURE_DEPTH = 5
RESHAPING = {"resize", "setflags", "byteswap"}
LEAVING_CALLS = {"exit", "quit", "_exit", "skip", "fail"}


class TuningReader(Reader):
    """`eager`: conditions lead to the tuning call whatever they are; `notes` says of which this is not known to be true."""

    def __init__(self, path, eager=False):
        super().__init__(path, ENTRY)
        self.eager, self.notes = eager, []
        self.trees = []  # of the script and the modules that were read
        self.reaching = {ENTRY}
        self.around = []  # functions that are being walked

    def module_block(self, body, scope):
        self.trees.append(ast.Module(body, []))
        self.reaching = reaching(self.trees, ENTRY)
        super().module_block(body, scope)

    def call_function(self, function, positional, by_name, line):
        self.around.append(function.node)
        try:
            return super().call_function(function, positional, by_name, line)
        finally:
            self.around.pop()

    # What was not followed.

    def pass_over(self, node, text):
        self.passed_over.append((node.lineno, node, text + self.where))

    def marks_before(self, number, ignored, positions):
        """What was not followed before a call and may change what it is given."""
        _, call, _, _ = self.calls[number]
        given = [part for index, part in enumerate(call.args) if isinstance(part, ast.Starred) or index >= len(positions)
                 or positions[index] not in ignored]
        given += [keyword.value for keyword in call.keywords if keyword.arg not in ignored]
        before = self.passed_over[:self.passed_over_at[number]]
        if not before:
            return []
        slice_ = Slice(self.trees, call, given, ENTRY)
        return [text for _, node, text in before if slice_.matters(node)]

    def do_For(self, node, scope):
        items = items_of(self.value(node.iter, scope))
        if items is None or len(items) <= TURNS_MAX or not self.fills_arrays_alone(node, scope):
            self.follow(node, scope, super().do_For)

    def do_While(self, node, scope):
        self.follow(node, scope, super().do_While)

    def follow(self, node, scope, walk):
        """A statement that was not followed and fills arrays alone needs no mark: what they hold is not known anyway."""
        before = len(self.passed_over)
        walk(node, scope)
        own = [at for at in range(before, len(self.passed_over)) if self.passed_over[at][1] is node]
        if own and self.fills_arrays_alone(node, scope):
            del self.passed_over[own[0]]

    def do_Expr(self, node, scope):
        """A call for its effect alone may change arrays that it is given."""
        super().do_Expr(node, scope)
        call = node.value
        name = name_of(call.func) if isinstance(call, ast.Call) else ""
        if not name or name in HARMLESS or isinstance(scope.get(name), (Function, Class)) or name in self.reaching:
            return
        owner = self.value(call.func.value, scope) if isinstance(call.func, ast.Attribute) else None
        parts = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(owner, Module) and owner.name.split(".")[0] in ARRAY_MODULES or isinstance(owner, Generator):
            parts = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg in ("dst", "out", "x"))]
        values = [self.value(part, scope) for part in parts if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))]
        if isinstance(owner, (Array, Module, Generator)) or owner is None:
            self.fill_arrays(node, name, owner, values, [self.value(part, scope) for part in call.args])

    def fill_arrays(self, node, name, owner, values, given):
        number = plain(given[0]) if given else None
        source = given[1] if len(given) > 1 else None
        if isinstance(owner, Array) and name in RESHAPING:
            self.pass_over(node, f"line {node.lineno}: '{ast.unparse(node)[:60]}' was not followed")
        elif isinstance(owner, Array) and name == "fill" and isinstance(number, (int, float)):
            owner.fill, owner.note = Fill("CONSTANT", number), ""
        elif isinstance(owner, Array) and name == "sort" and owner.fill.kind in ("UNIFORM", "SORTED"):
            owner.fill.kind = "SORTED"
        elif name == "copyto" and len(given) == 2 and isinstance(given[0], Array) and isinstance(source, Array):
            given[0].fill, given[0].note = dataclasses.replace(source.fill), source.note
        else:
            for array in [owner, *values]:
                if isinstance(array, Array):
                    array.note = array.note or f"line {node.lineno} may change what it holds"

    def assign(self, target, value, scope):
        owner = self.value(target.value, scope) if isinstance(target, ast.Attribute) else None
        if not isinstance(owner, Array):
            super().assign(target, value, scope)
        elif target.attr == "shape" and as_shape(value) and all(num.value > 0 for num in as_shape(value)):
            owner.shape = as_shape(value)
        else:
            self.pass_over(target, f"line {target.lineno}: '{ast.unparse(target)[:60]} = ...' was not followed")

    def fills_arrays_alone(self, node, scope):
        inside = set(ast.walk(node))
        if any(isinstance(inner, (*LEAVING[:1], ast.Global, ast.Nonlocal, ast.Delete)) for inner in inside) or reaches(
                node, self.reaching):
            return False
        around = self.around[-1] if self.around else self.trees[-1]
        read_elsewhere = {inner.id for inner in ast.walk(around) if isinstance(inner, ast.Name) and inner not in inside
                          and isinstance(inner.ctx, ast.Load)}
        arrays = []
        for inner in inside:
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                if inner.id in read_elsewhere:
                    return False
            elif isinstance(inner, (ast.Subscript, ast.Attribute)) and isinstance(inner.ctx, ast.Store):
                base = inner.value
                value = self.value(base, scope) if isinstance(inner, ast.Subscript) else None
                if isinstance(value, Array):
                    arrays.append((value, inner.lineno))
                elif not isinstance(base, ast.Name) or base.id in read_elsewhere:
                    return False
            elif isinstance(inner, ast.Call) and not self.is_pure(inner, scope):
                return False
        for array, line in arrays:
            array.note = array.note or f"line {line} sets parts of it"
        return True

    def is_pure(self, node, scope, depth=0):
        """Whether a call changes nothing, but what arrays hold, and lists that are then in doubt."""
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, scope)
            known = self.value(node.func, scope) if isinstance(base, LoadedModule) else None
            if not isinstance(base, (Array, Module, str)):
                return False
        else:
            known = scope.get(name_of(node.func))
            if name_of(node.func) in CHANGING and known is None:
                return False
        if not isinstance(known, Function):
            return not isinstance(known, Class)
        return depth < PURE_DEPTH and all(
            not isinstance(inner, (ast.Global, ast.Nonlocal, ast.Delete)) and
            not (isinstance(inner, (ast.Subscript, ast.Attribute)) and isinstance(inner.ctx, ast.Store)) and
            (not isinstance(inner, ast.Call) or self.is_pure(inner, known.scope, depth + 1))
            for inner in ast.walk(known.node))

    # Conditions on the way to the call.

    def do_If(self, node, scope):
        test = self.truth(node.test, scope)
        branches = {True: node.body, False: node.orelse}
        if test is None and not reaches(node, self.reaching) and all(map(self.is_end, node.body)):
            test = False  # the script goes on, or there is nothing to import
        if self.eager and self.on_the_way(node):
            ways = [way for way in (True, False) if any(reaches(part, self.reaching) for part in branches[way])]
            if not ways and self.leaves(branches[test is not False]):
                ways = [test is False]
            if ways and test not in ways:
                if test is None:
                    self.pass_over(node, f"if (line {node.lineno}): '{ast.unparse(node.test)[:80]}' was not understood; it was "
                                         f"taken {'' if ways[0] else 'not '}to hold")
                else:
                    self.notes.append(f"the call: line {node.lineno}: '{ast.unparse(node.test)[:80]}' does "
                                      f"{'' if test else 'not '}hold here; the way to the call was taken")
                test = ways[0]
        if test is None:
            super().do_If(node, scope)
            return
        self.block(branches[test], scope)

    def on_the_way(self, node):
        around = self.around[-1] if self.around else None
        return around is None or getattr(around, "name", "") in self.reaching or reaches(node, self.reaching)

    @staticmethod
    def is_end(node):
        """Whether the script ends here."""
        call = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
        name = name_of(call.func) if isinstance(call, ast.Call) else ""
        return isinstance(node, ast.Raise) or name in LEAVING_CALLS

    def leaves(self, body):
        return any(isinstance(node, LEAVING) or self.is_end(node) for node in body)

    # Kernel Tuner's own functions.

    def do_ImportFrom(self, node, scope):
        super().do_ImportFrom(node, scope)
        if (node.module or "").split(".")[0] == PACKAGE and any(alias.name == "*" for alias in node.names):
            scope.update({name: Module(f"{node.module}.{name}") for name in OWN})

    def library(self, node, name, positional, by_name, scope):
        own = own_name(self.value(node.func, scope))
        made = call_own(own, positional, by_name, self.named, lambda text: Unknown(text, node.lineno)) if own else None
        return super().library(node, name, positional, by_name, scope) if made is None else made


def read_calls(path):
    """(reader, calls) of a script that is read."""
    reader = TuningReader(path)
    calls = reader.read()
    if not calls and reaches(reader.tree, {ENTRY}):
        eager = TuningReader(path, eager=True)
        if eager.read():
            return eager, eager.calls
    return reader, calls
