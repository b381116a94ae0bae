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
from script_changes import Changes
from script_modules import IMPORT_ERRORS, DoubtfulImports, LoadedModule, Modules, changed_by_functions
from script_objects import Class, Instance, Path, bound_member, formatted, is_property, path_attribute, percent
from script_values import (DTYPES, LIST_MAX, Array, DType, File, Fill, Function, Map, Module, Num, Scalar, Scope, Seq, Unknown,
                           added, collection_call, items_of, plain, product, size_in_bytes, unknown_at)

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
# Expressions that may change something.
CHANGING = (ast.Call, ast.NamedExpr, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Yield, ast.YieldFrom, ast.Await)
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


class Reader(DoubtfulImports, Changes, Calls):
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
        self.resized = {}  # {dim: a value in the place of the script's}
        self.ratios = set()  # of numbers that conditions compare
        self.steps = self.depth = self.repeats = 0
        self.results = {}  # the last values of expressions that may change something, by their nodes
        self.scope = Scope(kind="module")
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
        scope = self.scope = Scope({"__file__": os.path.abspath(self.path), "__name__": "__main__"}, kind="module")
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
        scope.unstable = changed_by_functions(body)
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
            elif not isinstance(node, ast.Pass):
                self.pass_over(node, f"line {node.lineno}: '{ast.unparse(node).split(chr(10))[0][:60]}' was not followed")

    @staticmethod
    def foreign(node, alias):
        known = DTYPES.get(alias.name) if (node.module or "").split(".")[0] in ARRAY_MODULES else None
        return DType(known) if known else Module(f"{'.' * node.level}{node.module or ''}.{alias.name}")

    def do_Break(self, node, scope):
        raise Break

    def do_Continue(self, node, scope):
        raise Continue

    def do_Delete(self, node, scope):
        for target in node.targets:
            container = self.value(target.value, scope) if isinstance(target, ast.Subscript) else None
            key = plain(self.value(target.slice, scope)) if isinstance(target, ast.Subscript) else None
            if isinstance(container, Map) and key in container.items:
                del container.items[key]
            elif isinstance(container, Seq) and isinstance(key, int) and -len(container.items) <= key < len(container.items):
                del container.items[key]
            elif not isinstance(target, ast.Name):
                self.doubted(container, target, f"'{ast.unparse(node)[:60]}'")

    def do_Expr(self, node, scope):
        self.value(node.value, scope)

    def do_Assign(self, node, scope):
        value = self.value(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def do_AnnAssign(self, node, scope):
        if node.value is not None:
            self.assign(node.target, self.value(node.value, scope), scope)

    def do_AugAssign(self, node, scope):
        """A list or dict is changed in place, whatever its other names are."""
        held = self.value(node.target, scope)
        more = self.value(node.value, scope) if isinstance(held, (Seq, Map)) else None
        if isinstance(held, Seq) and isinstance(node.op, ast.Add) and items_of(more) is not None and not held.is_tuple:
            held.items.extend(items_of(more))
            return
        if isinstance(held, Map) and isinstance(node.op, ast.BitOr) and isinstance(more, Map):
            held.items.update(more.items)
            return
        binary = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        if more is None:
            self.value(node.value, scope)
        self.assign(node.target, self.again(binary, scope), scope)

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

    def do_With(self, node, scope):
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value if isinstance(value, File) else unknown_at(item.context_expr), scope)
            if self.drops_exceptions(item.context_expr, scope) and self.unsure_import(node) is None and not self.tunes(node):
                self.pass_over(node, f"with (line {node.lineno}): how much of it runs is not known")
        self.tried(node, scope)

    def drops_exceptions(self, node, scope):
        """Whether a context manager may end its body early: one of the script's own, if it does more than to let them by."""
        made = self.value(node, scope)
        known = self.value(node.func, scope) if isinstance(node, ast.Call) else made
        if isinstance(made, Instance):
            leave = made.cls.member("__exit__") if made.cls is not None else None
            return not isinstance(leave, Function) or any(isinstance(inner, ast.Return) for inner in ast.walk(leave.node))
        return self.name_of(getattr(node, "func", None)) in ("suppress", "raises") or not isinstance(made, File) and not isinstance(
            known, Module)

    def do_Try(self, node, scope):
        for handler in node.handlers:
            if self.name_of(handler.type) not in IMPORT_ERRORS:
                self.pass_over(handler, f"except (line {handler.lineno}): what it does was left out")
        try:
            self.tried(node, scope)
            self.block(node.orelse, scope)
        finally:
            self.block(node.finalbody, scope)

    def do_For(self, node, scope):
        value = self.value(node.iter, scope)
        items = items_of(value)
        if items is None:
            why = f"'{ast.unparse(node.iter)[:60]}'"
            if isinstance(value, Module) and "." in value.name:
                why += f" is of module {value.name.rpartition('.')[0]}"
            why = value.why if " is of module " in getattr(value, "why", "") else why
            is_foreign = " is of module " in why
            self.pass_over(node, f"for (line {node.lineno}): {why}{'' if is_foreign else ' was not understood'}; its body was read once")
            items = [Unknown(why, node.lineno)]
        count = len(items)
        for item in list(items):
            self.assign(node.target, Num(item.value) if isinstance(item, Num) else item, scope)
            try:
                self.block(node.body, scope)
            except Break:
                return
            except Continue:
                pass
        if len(items) != count:
            self.pass_over(node, f"for (line {node.lineno}): it changes what it runs over, and was read for what that was before")
        self.block(node.orelse, scope)

    # Expressions.

    def value(self, node, scope):
        self.step()
        self.depth += 1
        try:
            if self.depth > DEPTH_MAX * 20:
                raise Unreadable(f"{self.path}: nested too deeply to follow")
            if self.repeats and node in self.results:
                return self.results[node]
            method = getattr(self, "of_" + type(node).__name__, None)
            made = method(node, scope) if method else self.not_known(node, scope)
            if isinstance(node, CHANGING):
                self.results[node] = made
            return made
        finally:
            self.depth -= 1

    def again(self, node, scope):
        """The value of an expression that was just evaluated: what changes something is not done twice."""
        self.repeats += 1
        try:
            return self.value(node, scope)
        finally:
            self.repeats -= 1

    def not_known(self, node, scope):
        """An expression of a form that is not known here."""
        if any(isinstance(inner, CHANGING) for inner in ast.walk(node)):
            self.pass_over(node, f"line {node.lineno}: '{ast.unparse(node)[:60]}' was not followed")
        return unknown_at(node)

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
        return Seq(items, is_tuple=isinstance(node, ast.Tuple))

    of_List = of_Tuple

    def of_Set(self, node, scope):
        return collection_call("set", [self.of_Tuple(node, scope)], {}) or unknown_at(node)

    def of_NamedExpr(self, node, scope):
        value = self.value(node.value, scope)
        self.assign(node.target, value, scope.function())
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
        """`a or b` is one of them."""
        value = Unknown("a condition", node.lineno)
        for each in node.values:
            value = self.value(each, scope)
            known = plain(value)
            truth = bool(known) if known is not None or isinstance(value, Num) else bool(value.items) if isinstance(
                value, (Seq, Map)) else None
            if truth is None:
                return Unknown("a condition", node.lineno)
            if truth == isinstance(node.op, ast.Or):
                return value
        return value

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
            self.compared(left, right)
            if left is None or right is None or compare is None:
                return unknown_at(node)
            try:
                if not compare(left, right):
                    return Num(False)
            except TypeError:
                return unknown_at(node)
            left = right
        return Num(True)

    def compared(self, left, right):
        """Takes down how far two numbers of a condition are apart: a size that is as far off may decide it otherwise."""
        if all(isinstance(side, (int, float)) and side for side in (left, right)):
            self.ratios.update((right / left, left / right))

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
        if any(isinstance(side, Seq) or getattr(side, "is_list", False) for side in (left, right)):
            return Reader.list_arithmetic(node, left, right)
        array, other = (left, right) if isinstance(left, Array) else (right, left)
        other = other.num if isinstance(other, Scalar) else other
        is_scaled = isinstance(node.op, ast.Mult) and isinstance(other, Num) and not array.note
        fill = array.fill.times(other) if is_scaled and isinstance(other.value, (int, float)) else None
        if fill is not None:
            return dataclasses.replace(array, fill=fill)
        return dataclasses.replace(array, fill=Fill(), note=f"computed: {ast.unparse(node)[:60]}")

    @staticmethod
    def list_arithmetic(node, left, right):
        """Lists are joined. Those that meet an array, or are repeated, are not followed."""
        lists = [side for side in (left, right) if isinstance(side, Seq) or getattr(side, "is_list", False)]
        array, other = (left, right) if isinstance(left, Array) else (right, left)
        if not isinstance(node.op, ast.Add) or len(lists) < 2 or len(array.shape) > 1:
            return unknown_at(node)
        more = other.shape[0] if isinstance(other, Array) else Num(len(other.items))
        made = dataclasses.replace(array, shape=[added(array.shape[0], more)])
        made.is_list = True
        return made

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

    def of_SetComp(self, node, scope):
        made = self.of_ListComp(node, scope)
        return (collection_call("set", [made], {}) if isinstance(made, Seq) else None) or unknown_at(node)

    def of_DictComp(self, node, scope):
        items = {}

        def add(inner):
            key = plain(self.value(node.key, inner))
            items[f"(line {node.lineno})" if key is None or isinstance(key, list) else key] = self.value(node.value, inner)
        return Map(items) if self.comprehend(node, scope, add) else unknown_at(node)

    def comprehend(self, node, scope, add):
        """Calls `add` with the names of each turn. False: what it runs over, or a condition, is not known."""
        inner = Scope(around=scope, kind="comprehension")

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

    def of_Subscript(self, node, scope):
        container = self.value(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            given = (node.slice.lower, node.slice.upper, node.slice.step)
            bounds = [plain(self.value(bound, scope)) if bound is not None else None for bound in given]
            is_known = all(bound is None or isinstance(known, int) for bound, known in zip(given, bounds)) and bounds[2] != 0
            return dataclasses.replace(container, items=container.items[slice(*bounds)]) if isinstance(container, Seq) and \
                is_known else unknown_at(node)
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
            member = bound_member(base, node.attr)
            return unknown_at(node) if member is None or is_property(member) else member
        if isinstance(base, Instance):
            member = bound_member(base, node.attr)
            if is_property(member):
                return self.call_function(member, [], {}, node.lineno)
            return unknown_at(node) if member is None else member
        return unknown_at(node)
