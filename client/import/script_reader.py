# SPDX-License-Identifier: Apache-2.0
"""Reads a tuning script without running it: its syntax tree is walked with values that know only
what a kernel's spec needs. A size keeps the expression that it came from, an array its shape, its
type and how it was filled. What is not understood is Unknown, with the line that says so."""
import ast
import dataclasses
import math
import operator
import os

from script_calls import BUILTIN_TYPES, DEPTH_MAX, Calls, Return, Starred
from script_modules import IMPORT_ERRORS, DoubtfulImports, LoadedModule, Modules
from script_objects import Class, Instance, Path, bound_member, formatted, is_property, path_attribute, percent
from script_values import (DTYPES, LIST_MAX, Array, DType, Fill, Function, Map, Module, Num, Scalar, Scope, Seq, Unknown,
                           items_of, plain, product, size_in_bytes, total, unknown_at)

STEPS_MAX = 500_000
BITS_MAX = 256  # of a number
TEXT_MAX = 1 << 20


class Unreadable(Exception):
    """Nothing can be made of the script."""


class Break(Exception):
    pass


class Continue(Exception):
    pass


LOOP_MAX = 10_000  # turns of a `while`
ARRAY_MODULES = {"numpy", "np", "cupy", "cp", "ml_dtypes"}


OPERATORS = {ast.Add: (operator.add, "+"), ast.Sub: (operator.sub, "-"),
             ast.Mult: (operator.mul, "*"), ast.FloorDiv: (operator.floordiv, "//"),
             ast.Div: (operator.truediv, "/"), ast.Mod: (operator.mod, "%"),
             ast.Pow: (operator.pow, "**"), ast.LShift: (operator.lshift, "<<"),
             ast.RShift: (operator.rshift, ">>"), ast.BitAnd: (operator.and_, "&"),
             ast.BitOr: (operator.or_, "|"), ast.BitXor: (operator.xor, "^")}
COMPARISONS = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
               ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
               ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b}


def names_in(tree):
    return {inner.id if isinstance(inner, ast.Name) else inner.attr for inner in ast.walk(tree)
            if isinstance(inner, (ast.Name, ast.Attribute))}


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


class Reader(DoubtfulImports, Calls):
    """Walks a script; `calls` are the tuning calls it met: (line, positional, by name)."""

    def __init__(self, path, entry):
        self.folder = os.path.dirname(os.path.abspath(path))
        self.path = path
        self.entry = entry  # the name of the tuning function
        self.calls = []
        self.passed_over = []  # statements that were not followed: (line, names that they give values, what to say)
        self.passed_over_at = []  # of each call: how many came before it
        self.names = {}  # every name that was ever given a value
        self.sizes = {}  # names of plain numbers: {value: the dim's name}
        self.steps = 0
        self.depth = 0
        self.scope = Scope({})
        self.modules = Modules(path)
        self.replaced = set()  # modules of which a name is None if they are not there
        self.mentioned = set()  # names of the script's text
        self.where = ""  # in which other module, for people
        self.too_much = Unreadable

    def read(self):
        with open(self.path, encoding="utf-8") as file:
            text = file.read(1 << 20)
        try:
            tree = ast.parse(text, self.path)
        except (SyntaxError, ValueError) as error:
            raise Unreadable(f"{self.path}: no Python 3: {error}") from error
        self.tree = tree
        self.mentioned = names_in(tree)
        scope = self.scope = Scope({"__file__": os.path.abspath(self.path), "__name__": "__main__"})
        self.module_block(tree.body, scope)
        # Functions that nobody calls with what we know: tune(), main(), methods.
        for node in tree.body:
            if not self.calls and isinstance(node, ast.FunctionDef) and self.tunes(node):
                self.call_function(Function(node, scope), [], self.fixtures(node, scope), node.lineno)
            elif not self.calls and isinstance(node, ast.ClassDef) and self.tunes(node):
                self.call_methods(node, scope)
        return self.calls

    def module_block(self, body, scope):
        """A module that raises an exception ends there."""
        try:
            self.block(body, scope)
        except Return:
            pass

    def tunes(self, node):
        return any(isinstance(inner, ast.Call) and self.name_of(inner.func) == self.entry
                   for inner in ast.walk(node))

    @staticmethod
    def name_of(node):
        return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")

    def step(self):
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Unreadable(f"{self.path}: too long to follow")

    # Statements.

    def block(self, body, scope):
        for node in body:
            self.step()
            method = getattr(self, "do_" + type(node).__name__, None)
            if method is not None:
                method(node, scope)
            elif not isinstance(node, (ast.Pass, ast.Assert)):
                self.pass_over(node, f"line {node.lineno}: '{ast.unparse(node).split(chr(10))[0][:60]}' was not followed")

    @staticmethod
    def foreign(node, alias):
        known = DTYPES.get(alias.name) if (node.module or "").split(".")[0] in ARRAY_MODULES else None
        return DType(known) if known else Module(f"{'.' * node.level}{node.module or ''}.{alias.name}")

    def do_FunctionDef(self, node, scope):
        scope[node.name] = Function(node, scope, defaults=[self.value(default, scope) for default in node.args.defaults])

    def do_ClassDef(self, node, scope):
        members = Scope(scope)
        self.block(node.body, members)
        own = {name: value for name, value in members.items() if name not in scope or scope[name] is not value}
        bases = [scope.get(self.name_of(base)) for base in node.bases]
        scope[node.name] = Class(node, own, [base for base in bases if isinstance(base, Class)])

    def do_Global(self, node, scope):
        scope.outside.update(node.names)

    do_Nonlocal = do_Global

    def do_Break(self, node, scope):
        raise Break

    def do_Continue(self, node, scope):
        raise Continue

    def do_Raise(self, node, scope):
        """What follows is not run: the names that it would have given values are those of before."""
        raise Return(Unknown("an exception", node.lineno))

    def do_Delete(self, node, scope):
        for target in node.targets:
            container = self.value(target.value, scope) if isinstance(target, ast.Subscript) else None
            key = plain(self.value(target.slice, scope)) if isinstance(target, ast.Subscript) else None
            if isinstance(container, Map) and key in container.items:
                del container.items[key]
            elif isinstance(container, (Map, Seq)):
                container.doubt = container.doubt or f"line {node.lineno}: '{ast.unparse(node)[:60]}'"

    def do_Expr(self, node, scope):
        self.value(node.value, scope)

    def do_Return(self, node, scope):
        raise Return(self.value(node.value, scope) if node.value else Num(None))

    def do_Assign(self, node, scope):
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def do_AnnAssign(self, node, scope):
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def do_AugAssign(self, node, scope):
        binary = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        self.assign(node.target, self.value(binary, scope), scope)

    def do_If(self, node, scope):
        test = self.truth(node.test, scope)
        if test is None and all(isinstance(inner, ast.Raise) for inner in node.body):
            test = False  # the script goes on, or there is nothing to import
        if test is None:
            self.pass_over(node, f"if (line {node.lineno}): '{ast.unparse(node.test)[:80]}' was not understood; "
                                 "it was taken to hold")
        self.block(node.body if test is not False else node.orelse, scope)

    def do_While(self, node, scope):
        for _ in range(LOOP_MAX):
            test = self.truth(node.test, scope)
            if test is False:
                self.block(node.orelse, scope)
                return
            if test is None:
                break
            try:
                self.block(node.body, scope)
            except Break:
                return
            except Continue:
                pass
        self.pass_over(node, f"while (line {node.lineno}): how often it runs is not known; it was left out")

    def truth(self, node, scope):
        """True or False; None where that is not known."""
        value = self.value(node, scope)
        known = plain(value)
        if known is not None or isinstance(value, Num):
            return bool(known)
        return bool(value.items) if isinstance(value, (Seq, Map)) else None

    def pass_over(self, node, text):
        """Says so of a statement that gives names a value, returns one or tunes."""
        names = set()
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                names.add(inner.id)
            elif isinstance(inner, (ast.Subscript, ast.Attribute)) and isinstance(inner.ctx, ast.Store):
                names.add(getattr(inner.value, "id", ""))
            elif isinstance(inner, ast.Call) and self.name_of(inner.func) in ("append", "extend", "update"):
                names.add(getattr(getattr(inner.func, "value", None), "id", ""))
            elif isinstance(inner, ast.Return) or (isinstance(inner, ast.Call)
                                                   and self.name_of(inner.func) == self.entry):
                names.add("")
        if names:
            used = names & self.mentioned if self.where else names
            if used:  # of another module, what the script names
                self.passed_over.append((node.lineno, used, text + self.where))

    def do_With(self, node, scope):
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, scope)
        self.tried(node, scope)

    def do_Try(self, node, scope):
        self.tried(node, scope)
        for handler in node.handlers:
            if self.name_of(handler.type) not in IMPORT_ERRORS:
                self.pass_over(handler, f"except (line {handler.lineno}): what it does was left out")
        self.block(node.orelse + node.finalbody, scope)

    def do_For(self, node, scope):
        items = items_of(self.value(node.iter, scope))
        if items is None:
            self.pass_over(node, f"for (line {node.lineno}): '{ast.unparse(node.iter)[:60]}' was not understood; "
                                 "its body was read once")
            items = [Unknown("a loop", node.lineno)]
        for item in list(items):
            self.assign(node.target, Num(item.value) if isinstance(item, Num) else item, scope)
            try:
                self.block(node.body, scope)
            except Break:
                return
            except Continue:
                pass
        self.block(node.orelse, scope)

    def assign(self, target, value, scope):
        if isinstance(target, ast.Name):
            value = self.named(value, target.id)
            if isinstance(scope, Scope):
                scope.set(target.id, value)
            else:
                scope[target.id] = value
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
                container.items[f"(line {target.lineno})" if key is None else key] = value
            elif isinstance(container, Seq) and isinstance(key, int) and -len(container.items) <= key < len(container.items):
                container.items[key] = value
            elif isinstance(container, Seq):
                container.doubt = container.doubt or f"line {target.lineno}: '{ast.unparse(target)[:60]} = ...'"
            elif isinstance(container, Array):
                container.note = container.note or f"line {target.lineno} sets parts of it"
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, scope)
            if isinstance(owner, Instance):
                owner.attributes[target.attr] = self.named(value, target.attr)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, value, scope)

    def named(self, value, name):
        """A plain size is a dim of its name from here on."""
        def is_size(item):
            return isinstance(item, Num) and type(item.value) is int and not item.text
        if is_size(value):
            return Num(value.value, self.dim_name(name, value.value))
        if isinstance(value, Scalar) and is_size(value.num):
            return Scalar(value.dtype, Num(value.num.value, self.dim_name(name, value.num.value)))
        if isinstance(value, Seq) and 1 < len(value.items) <= 3 and all(map(is_size, value.items)):
            return Seq([Num(item.value, self.dim_name(f"{name}_{axis}", item.value))
                        for item, axis in zip(value.items, "xyz")], value.doubt)
        return value

    def dim_name(self, name, value):
        """One name has one value: another of the same name has a number behind it."""
        known = self.sizes.setdefault(name, {})
        return known.setdefault(value, f"{name}_{len(known) + 1}" if known else name)

    # Expressions.

    def value(self, node, scope):
        self.step()
        self.depth += 1
        try:
            if self.depth > DEPTH_MAX * 20:
                raise Unreadable(f"{self.path}: nested too deeply to follow")
            method = getattr(self, "of_" + type(node).__name__, None)
            return method(node, scope) if method else unknown_at(node)
        finally:
            self.depth -= 1

    def of_Constant(self, node, scope):
        return node.value if isinstance(node.value, str) else Num(node.value)

    @staticmethod
    def is_wanted(module):
        """A value of another module, by its name: constants are written so."""
        last = module.name.rpartition(".")[2]
        return "." in module.name.strip(".") and last.isupper() and not isinstance(module, LoadedModule)

    def of_Name(self, node, scope):
        if isinstance(scope.get(node.id), Module) and isinstance(node.ctx, ast.Load) and self.is_wanted(scope[node.id]):
            return Unknown(f"'{node.id}' is of module {scope[node.id].name.rpartition('.')[0]}", node.lineno)
        if node.id not in scope and node.id in BUILTIN_TYPES:
            return DType(BUILTIN_TYPES[node.id])
        return scope.get(node.id, Unknown(f"'{node.id}' is not known", node.lineno))

    def of_Tuple(self, node, scope):
        items = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self.value(item.value, scope)
                known = items_of(inner)
                items += known if known is not None else [Starred(ast.unparse(item)[:60], node.lineno)]
            else:
                items.append(self.value(item, scope))
        return Seq(items)

    of_List = of_Tuple
    of_Set = of_Tuple

    def of_NamedExpr(self, node, scope):
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope)
        return value

    def of_Dict(self, node, scope):
        items = {}
        for key, value in zip(node.keys, node.values):
            made = self.value(value, scope)
            if key is None:  # **more
                items.update(made.items if isinstance(made, Map) else {f"(line {value.lineno})": made})
                continue
            known = plain(self.value(key, scope))
            items[f"(line {key.lineno})" if known is None or isinstance(known, list) else known] = made
        return Map(items)

    def of_Lambda(self, node, scope):
        return Function(node, scope, defaults=[self.value(default, scope) for default in node.args.defaults])

    def of_JoinedStr(self, node, scope):
        parts = []
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            known = plain(self.value(inner, scope))
            if isinstance(part, ast.FormattedValue) and known is not None:
                spec = self.value(part.format_spec, scope) if part.format_spec is not None else ""
                conversion = f"!{chr(part.conversion)}" if part.conversion > 0 else ""
                known = formatted(f"{{{conversion}:{spec}}}", [known], {}) if isinstance(spec, str) else None
            if known is None:
                return unknown_at(node)
            parts.append(str(known))
        return "".join(parts)[:TEXT_MAX]

    def of_IfExp(self, node, scope):
        test = self.truth(node.test, scope)
        return unknown_at(node) if test is None else self.value(node.body if test else node.orelse, scope)

    def of_UnaryOp(self, node, scope):
        if isinstance(node.op, ast.Not):
            known = self.truth(node.operand, scope)
            return unknown_at(node) if known is None else Num(not known)
        inner = self.value(node.operand, scope)
        if not isinstance(inner, Num) or inner.value is None:
            return inner if isinstance(inner, (Unknown, Array)) else Unknown("-", node.lineno)
        if isinstance(node.op, ast.USub):
            return Num(-inner.value, f"-{inner.factor()}" if inner.text else "", tight=False)
        if isinstance(node.op, ast.Invert):
            return Num(~inner.value, f"-{inner.factor()} - 1" if inner.text else "", tight=False) \
                if isinstance(inner.value, int) else unknown_at(node)
        return inner

    def of_BoolOp(self, node, scope):
        result = None
        for value in node.values:
            result = self.truth(value, scope)
            if result is None or result == isinstance(node.op, ast.Or):
                break
        return Unknown("a condition", node.lineno) if result is None else Num(result)

    def of_Compare(self, node, scope):
        value = self.value(node.left, scope)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and is_none(node.comparators[0]):
            if isinstance(value, Unknown) or isinstance(value, Module) and value.name in self.replaced:
                return unknown_at(node)
            found = isinstance(value, Num) and value.value is None
            return Num(found == isinstance(node.ops[0], ast.Is))
        left = plain(value)
        for op, right_node in zip(node.ops, node.comparators):
            right = plain(self.value(right_node, scope))
            compare = COMPARISONS.get(type(op))
            if left is None or right is None or compare is None:
                return unknown_at(node)
            try:
                if not compare(left, right):
                    return Num(False)
            except TypeError:
                return unknown_at(node)
            left = right
        return Num(True)

    def of_BinOp(self, node, scope):
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        if isinstance(left, Array) or isinstance(right, Array):
            return self.array_arithmetic(node, left, right)
        left = left.num if isinstance(left, Scalar) else left
        right = right.num if isinstance(right, Scalar) else right
        if isinstance(node.op, ast.Mult) and isinstance(left, Seq) and isinstance(right, Num):
            return Seq(left.items * min(int(right.value), LIST_MAX // max(1, len(left.items))))
        if isinstance(node.op, ast.Add) and isinstance(left, Seq) and isinstance(right, Seq):
            return Seq((left.items + right.items)[:LIST_MAX])
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return (left + right)[:TEXT_MAX]
        if isinstance(node.op, ast.Mod) and isinstance(left, str):
            made = percent(left, right)
            return unknown_at(node) if made is None else made
        if isinstance(node.op, ast.Mult) and isinstance(left, str) and isinstance(plain(right), int):
            return left * min(plain(right), TEXT_MAX // max(1, len(left)))
        if isinstance(node.op, ast.Div) and isinstance(left, Path) and isinstance(right, (str, Path)):
            return Path(os.path.join(left.text, right if isinstance(right, str) else right.text))
        if isinstance(node.op, ast.BitOr) and isinstance(left, Map) and isinstance(right, Map):
            return Map({**left.items, **right.items})
        known = OPERATORS.get(type(node.op))
        if known is None or not isinstance(left, Num) or not isinstance(right, Num):
            return unknown_at(node)
        return self.arithmetic(node, known, left, right)

    @staticmethod
    def array_arithmetic(node, left, right):
        array, other = (left, right) if isinstance(left, Array) else (right, left)
        other = other.num if isinstance(other, Scalar) else other
        if isinstance(node.op, ast.Add) and isinstance(other, Seq) and len(array.shape) == 1:
            return dataclasses.replace(array, shape=[total(array.shape[0], len(other.items))])
        is_scaled = isinstance(node.op, ast.Mult) and isinstance(other, Num) and not array.note
        fill = array.fill.times(other) if is_scaled and isinstance(other.value, (int, float)) else None
        if fill is not None:
            return dataclasses.replace(array, fill=fill)
        return dataclasses.replace(array, fill=Fill(), note=f"computed: {ast.unparse(node)[:60]}")

    @staticmethod
    def arithmetic(node, known, left, right):
        function, sign = known
        try:
            if sign in ("**", "<<") and abs(right.value) > 64:
                raise OverflowError
            value = function(left.value, right.value)
            if isinstance(value, int) and value.bit_length() > BITS_MAX:
                raise OverflowError
        except (TypeError, ValueError, ArithmeticError):
            return unknown_at(node)
        text = f"{left.factor()} {sign} {right.factor()}" if left.text or right.text else ""
        return Num(value, text, tight=False)

    def of_ListComp(self, node, scope):
        results = []
        if not self.comprehend(node, scope, lambda inner: results.append(self.value(node.elt, inner))):
            return unknown_at(node)
        return Seq(results[:LIST_MAX])

    of_GeneratorExp = of_ListComp
    of_SetComp = of_ListComp

    def of_DictComp(self, node, scope):
        items = {}

        def add(inner):
            key = plain(self.value(node.key, inner))
            items[f"(line {node.lineno})" if key is None or isinstance(key, list) else key] = self.value(node.value, inner)
        return Map(items) if self.comprehend(node, scope, add) else unknown_at(node)

    def comprehend(self, node, scope, add):
        """Calls `add` with the names of each turn. False: what it runs over, or a condition, is not known."""
        inner = Scope(scope)

        def go(level):
            if level == len(node.generators):
                add(inner)
                return True
            generator = node.generators[level]
            items = items_of(self.value(generator.iter, inner))
            if items is None:
                return False
            for item in items:
                # Inside a comprehension a number is that number, not a dim.
                self.bind(generator.target, item, inner)
                tests = [self.truth(test, inner) for test in generator.ifs]
                if None in tests or (all(tests) and not go(level + 1)):
                    return False
            return True
        return go(0)

    def bind(self, target, item, scope):
        if isinstance(target, (ast.Tuple, ast.List)):
            items = items_of(item) or []
            for index, inner in enumerate(target.elts):
                self.bind(inner, items[index] if index < len(items) else Unknown("not known", target.lineno), scope)
        elif isinstance(target, ast.Name):
            scope[target.id] = Num(item.value) if isinstance(item, Num) else item

    def of_Subscript(self, node, scope):
        container = self.value(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            bounds = [plain(self.value(b, scope)) if b is not None else None
                      for b in (node.slice.lower, node.slice.upper, node.slice.step)]
            return (Seq(container.items[slice(*bounds)]) if isinstance(container, Seq)
                    else unknown_at(node))
        key = plain(self.value(node.slice, scope))
        try:
            if isinstance(container, str) and isinstance(key, int):
                return container[key]
            if isinstance(container, Seq) and isinstance(key, int) or isinstance(container, Map) and key is not None:
                return container.items[key]
            if isinstance(container, Module) and container.name == "sys.argv" and key == 0:
                return self.path
        except (KeyError, IndexError, TypeError):
            pass
        return unknown_at(node)

    def of_Attribute(self, node, scope):
        base = self.value(node.value, scope)
        if isinstance(base, LoadedModule) and node.attr in base.scope:
            return base.scope[node.attr]
        if isinstance(base, Module):
            if f"{base.name}.{node.attr}" == "sys.argv":
                return Seq([self.path])  # as if the script ran without arguments
            if node.attr in DTYPES and base.name.split(".")[0] in ARRAY_MODULES:
                return DType(DTYPES[node.attr])
            return Num(math.pi) if node.attr == "pi" else Module(f"{base.name}.{node.attr}")
        if isinstance(base, (DType, Array, Scalar)) and node.attr in ("itemsize", "nbytes"):
            return size_in_bytes(base, node)
        if isinstance(base, Array):
            if node.attr == "size":
                return product(base.shape)
            if node.attr == "shape":
                return Seq(list(base.shape))
            if node.attr == "T":
                return dataclasses.replace(base, shape=base.shape[::-1])
            if node.attr == "dtype":
                return DType(base.dtype)
            if node.attr == "ndim":
                return Num(len(base.shape))
        if isinstance(base, Path):
            return path_attribute(base, node.attr) or unknown_at(node)
        if isinstance(base, Class):
            return base.member(node.attr) or unknown_at(node)
        if isinstance(base, Instance):
            member = bound_member(base, node.attr)
            if isinstance(member, Function) and member.bound and is_property(member):
                return self.call_function(member, [], {}, node.lineno)
            return unknown_at(node) if member is None else member
        return unknown_at(node)
