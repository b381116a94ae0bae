# SPDX-License-Identifier: Apache-2.0
"""The Reader of Kernel Tuner's scripts. It knows the functions of Kernel Tuner's own package, finds the tuning call behind
conditions that do not hold where the script is read, and passes over statements that cannot change what is tuned."""
import ast
import dataclasses
import json
import math

from kernel_tuner_arrays import BINARY, arithmetic, array_function, as_type, indexed, mapped
from kernel_tuner_library import OWN, PACKAGE, call_own, own_name
from script_calls import DOUBT
from script_modules import IMPORT_ERRORS, LoadedModule, is_end
from script_objects import HARMLESS, Class, Instance
from script_reader import ARRAY_MODULES, OPERATORS, Reader, is_none
from script_slice import CHANGING, LEAVING, Slice, name_of, reaches, reaching
from script_values import (Array, DType, File, Fill, Function, Generator, Map, Module, Num, Scalar, Scope, Seq, Unknown, as_shape,
                           items_of, plain, snapshot, unknown_at)

ENTRY = "tune_kernel"
TURNS_MAX = 1024  # of a loop that fills arrays
PURE_DEPTH = 5
RESHAPING = {"resize", "setflags", "byteswap"}
MATH = {name: getattr(math, name) for name in ("gcd", "lcm", "comb", "log2", "log10", "log", "sqrt", "isqrt", "exp", "pow", "fabs",
                                               "trunc", "hypot", "factorial") if hasattr(math, name)}


class TuningReader(Reader):
    """`eager`: conditions lead to the tuning call whatever they are; `notes` says of which this is not known to be true.
    `resized`: {dim: a value in the place of the script's}."""

    def __init__(self, path, eager=False, resized=()):
        super().__init__(path, ENTRY)
        self.resized = dict(resized)
        self.eager, self.notes, self.assumed = eager, [], []
        self.trees = []  # of the script and the modules that were read
        self.reaching = {ENTRY}
        self.around = []  # functions that are being walked

    def module_block(self, body, scope):
        self.trees.append(ast.Module(body, []))
        Renamed(self.trees[-1]).visit(self.trees[-1])
        self.reaching = reaching(self.trees, ENTRY)
        super().module_block(body, scope)

    def call_function(self, function, positional, by_name, line):
        self.around.append(function.node)
        try:
            return super().call_function(function, positional, by_name, line)
        finally:
            self.around.pop()

    # Parts that were not followed.

    def pass_over(self, node, text):
        self.passed_over.append((node.lineno, node, text if not self.where else text.removesuffix(DOUBT) + self.where))

    def do_Try(self, node, scope):
        """Packages that the script asks for are taken to be there."""
        super().do_Try(node, scope)
        for handler in node.handlers:
            if name_of(handler.type) in IMPORT_ERRORS and self.unsure_import(node) is None:
                self.assumed.append((handler, f"except (line {handler.lineno}): what the try imports was taken to be there"))

    def marks_before(self, number, ignored, positions):
        """What was not followed before a call and may change what it is given. Adds notes of what was taken to be so."""
        _, call, _, _ = self.calls[number]
        given = [part for index, part in enumerate(call.args) if isinstance(part, ast.Starred) or index >= len(positions)
                 or positions[index] not in ignored]
        given += [keyword.value for keyword in call.keywords if keyword.arg not in ignored]
        before = self.passed_over[:self.passed_over_at[number]]
        if not before and not self.assumed:
            return []
        slice_ = Slice(self.trees, call, given, ENTRY)
        self.notes += [text for node, text in self.assumed if slice_.matters(node)]
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
        owner = self.again(call.func.value, scope) if isinstance(call.func, ast.Attribute) else None
        parts = [*call.args, *(keyword.value for keyword in call.keywords)]
        if isinstance(owner, Module) and owner.name.split(".")[0] in ARRAY_MODULES or isinstance(owner, Generator):
            parts = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg in ("dst", "x"))]
        values = [self.again(part, scope) for part in parts if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))]
        if isinstance(owner, (Array, Module, Generator)) or owner is None:
            self.fill_arrays(node, name, owner, values, [self.again(part, scope) for part in call.args])

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
            self.overwrite([owner, *values], node.lineno)

    @staticmethod
    def overwrite(values, line):
        """The elements of arrays are not known any more."""
        for array in values:
            if isinstance(array, Array):
                array.note, array.values = array.note or f"line {line} may change what it holds", None

    def assign(self, target, value, scope):
        owner = self.again(target.value, scope) if isinstance(target, (ast.Attribute, ast.Subscript)) else None
        if isinstance(owner, Array):
            owner.values = None
        if not isinstance(owner, Array) or isinstance(target, ast.Subscript):
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
                value = self.again(base, scope) if isinstance(inner, ast.Subscript) else None
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
            base = self.again(node.func.value, scope)
            known = self.again(node.func, scope) if isinstance(base, LoadedModule) else None
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
        if test is None and not reaches(node, self.reaching) and all(map(is_end, node.body)):
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

    def leaves(self, body):
        return any(isinstance(node, LEAVING) or is_end(node) for node in body)

    # Kernel Tuner's own functions.

    def do_ImportFrom(self, node, scope):
        super().do_ImportFrom(node, scope)
        if (node.module or "").split(".")[0] == PACKAGE and any(alias.name == "*" for alias in node.names):
            scope.update({name: Module(f"{node.module}.{name}") for name in OWN})

    def library(self, node, name, positional, by_name, scope):
        function = self.again(node.func, scope)
        self.overwrite([by_name.get("out"), *(positional[2:3] if name in BINARY else [])], node.lineno)
        own = own_name(function)
        made = call_own(own, positional, by_name, self.named, lambda text: Unknown(text, node.lineno)) if own else None
        if made is None and isinstance(function, Module) and function.name.split(".")[0] in ARRAY_MODULES:
            made = array_function(name, positional, by_name, node)
        if made is None and (isinstance(function, Module) or name not in scope):
            made = self.of_python(name, positional, by_name, node)
        return super().library(node, name, positional, by_name, scope) if made is None else made

    def of_python(self, name, positional, by_name, node):
        """Functions of Python's own modules; None: none that is known here."""
        first = positional[0] if positional else None
        if name == "map" and len(positional) == 2 and isinstance(first, DType) and first.name in ("i64", "f64"):
            numbers = plain(Seq(items_of(positional[1]) or []))
            return Seq([Num((int if first.name == "i64" else float)(each)) for each in numbers]) \
                if numbers and all(isinstance(each, (int, float)) for each in numbers) else None
        if name == "partial" and isinstance(first, Function) and not by_name:
            return dataclasses.replace(first, bound=(*first.bound, *positional[1:]))
        if name in ("deepcopy", "copy") and isinstance(first, (Seq, Map)) and len(positional) == 1:
            return snapshot(first) if name == "deepcopy" else dataclasses.replace(first, items=first.items.copy())
        if name in ("loads", "load") and isinstance(first, (str, File)):
            return from_json(first if isinstance(first, str) else self.text_of(first))
        if name == "SimpleNamespace" and not positional:
            return Instance(None, {key: self.named(value, key) for key, value in by_name.items()})
        if name == "getattr" and isinstance(first, (Module, Instance)) and len(positional) == 2 and isinstance(positional[1], str) \
                and positional[1].isidentifier():
            attribute = ast.copy_location(ast.Attribute(ast.Name("(it)", ast.Load()), positional[1], ast.Load()), node)
            return self.value(ast.fix_missing_locations(attribute), Scope({"(it)": first}))
        if name == "isinstance" and len(positional) == 2 and isinstance(positional[1], DType):
            known, kind = plain(first), {"i64": int, "f64": float, "bool": bool}.get(positional[1].name)
            return Num(isinstance(known, kind)) if isinstance(first, Num) and known is not None and kind else None
        if name in ("sorted", "max", "min") and isinstance(by_name.get("key"), Function) and items_of(first) is not None:
            return self.by_key(name, list(items_of(first)), by_name, node.lineno)
        if name in MATH and len(positional) > 0 and not by_name:
            numbers = [plain(each) for each in positional]
            text = getattr(getattr(first, "num", first), "text", "") if name in ("sqrt", "log2") else ""
            try:
                return Num(MATH[name](*numbers), text and f"{name}({text})") if all(
                    isinstance(each, (int, float)) for each in numbers) else None
            except (ArithmeticError, ValueError, TypeError):
                return None
        return None

    def by_key(self, name, items, by_name, line):
        keys = [plain(self.call_function(by_name["key"], [item], {}, line)) for item in items]
        if not items or any(key is None for key in keys):
            return None
        try:
            order = sorted(range(len(items)), key=keys.__getitem__, reverse=bool(plain(by_name.get("reverse"))))
            first = {"max": max, "min": min}.get(name, min)(range(len(items)), key=keys.__getitem__)
        except TypeError:
            return None
        return Seq([items[at] for at in order]) if name == "sorted" else items[first]

    # Arrays and values.

    def method(self, base, name, positional, by_name, node):
        if isinstance(base, Seq) and name == "sort" and isinstance(by_name.get("key"), Function):
            made = self.by_key("sorted", base.items, by_name, node.lineno)
            base.items[:] = made.items if made is not None else base.items
            return unknown_at(node) if made is None else Num(None)
        if isinstance(base, Array) and name == "tolist" and base.values is not None:
            return Seq([Num(value) for value in base.values])
        if isinstance(base, Array) and name == "astype" and base.values is not None and len(positional) == 1:
            return as_type(base, positional[0])
        if isinstance(base, Array) and name == "transpose" and len(positional) > 1:
            axes = [plain(each) for each in positional]
            return dataclasses.replace(base, shape=[base.shape[axis] for axis in axes]) \
                if sorted(axes) == list(range(len(base.shape))) else unknown_at(node)
        return super().method(base, name, positional, by_name, node)

    def array_arithmetic(self, node, left, right):
        known = OPERATORS.get(type(node.op))
        made = mapped(node, left, right, known[0]) if known is not None else None
        if made is not None:
            return made
        if any(isinstance(side, Seq) or getattr(side, "is_list", False) for side in (left, right)):
            return super().array_arithmetic(node, left, right)
        sized = arithmetic(node, left, right)
        made = super().array_arithmetic(node, left, right)
        if sized is None or not isinstance(made, Array):
            return unknown_at(node)
        return dataclasses.replace(made, shape=sized.shape, dtype=sized.dtype)

    def of_Compare(self, node, scope):
        made = super().of_Compare(node, scope)
        if not isinstance(made, Unknown) or len(node.ops) != 1:
            return made
        left, right = self.again(node.left, scope), self.again(node.comparators[0], scope)
        if isinstance(node.ops[0], (ast.In, ast.NotIn)) and isinstance(right, Map) and plain(left) is not None and not right.doubt:
            return Num((plain(left) in right.items) == isinstance(node.ops[0], ast.In))
        if isinstance(left, Array) or isinstance(right, Array):
            sized = arithmetic(node, left, right)
            return made if sized is None else dataclasses.replace(sized, dtype="bool")
        return made

    def of_Subscript(self, node, scope):
        made = super().of_Subscript(node, scope)
        if not isinstance(made, Unknown):
            return made
        base = self.again(node.value, scope)
        if isinstance(base, Array):
            sliced = indexed(base, node, lambda part: self.bounds(part, scope))
            return made if sliced is None else sliced
        bounds = self.bounds(node.slice, scope) if isinstance(node.slice, ast.Slice) else None
        return base[slice(*map(plain, bounds))] if isinstance(base, str) and bounds is not None else made

    def bounds(self, part, scope):
        """The numbers of a slice, None for those that it leaves out, or a number; None: not known."""
        def integer(node):
            made = self.value(node, scope)
            made = made.num if isinstance(made, Scalar) else made
            return made if isinstance(made, Num) and type(made.value) is int else None
        if not isinstance(part, ast.Slice):
            known = integer(part)
            return None if known is None else [known]
        given = (part.lower, part.upper, part.step)
        known = [None if each is None or is_none(each) else integer(each) for each in given]
        is_known = all(each is None or is_none(each) or num is not None for each, num in zip(given, known))
        return known if is_known and (known[2] is None or known[2].value) else None


class Renamed(ast.NodeTransformer):
    """Gives tune_kernel its own name back: of `from kernel_tuner import tune_kernel as tune`, `tune = kt.tune_kernel` and
    `tune = partial(tune_kernel, ...)`."""

    def __init__(self, tree):
        self.names = {}  # those of the script: (arguments, keywords) that a partial adds
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
                self.names.update({alias.asname: ([], []) for alias in node.names if alias.name == ENTRY and alias.asname})
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                value = node.value
                if name_of(value) == ENTRY:
                    self.names[node.targets[0].id] = ([], [])
                elif isinstance(value, ast.Call) and name_of(value.func) == "partial" and value.args and (
                        name_of(value.args[0]) == ENTRY or name_of(value.args[0]) in self.names):
                    self.names[node.targets[0].id] = (value.args[1:], value.keywords)

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in self.names:
            arguments, keywords = self.names[node.func.id]
            given = {keyword.arg for keyword in node.keywords}
            node.func = ast.copy_location(ast.Name(ENTRY, ast.Load()), node.func)
            node.args = [*arguments, *node.args]
            node.keywords = [*(keyword for keyword in keywords if keyword.arg not in given), *node.keywords]
        return node


def from_json(text):
    """The value of a text; None: it is no JSON."""
    def made(value):
        if isinstance(value, dict):
            return Map({key: made(item) for key, item in value.items()})
        if isinstance(value, list):
            return Seq([made(item) for item in value])
        return value if isinstance(value, str) else Num(value)
    try:
        return made(json.loads(text))
    except (ValueError, RecursionError):
        return None


def read_calls(path):
    """(reader, calls) of a script that is read."""
    reader = TuningReader(path)
    calls = reader.read()
    if not calls and reaches(reader.tree, {ENTRY}):
        eager = TuningReader(path, eager=True)
        if eager.read():
            return eager, eager.calls
    return reader, calls
