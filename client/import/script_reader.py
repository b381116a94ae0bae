# SPDX-License-Identifier: Apache-2.0
"""Reads a tuning script without running it: its syntax tree is walked with values that know only
what a kernel's spec needs. A size keeps the expression that it came from, an array its shape, its
type and how it was filled. What is not understood is Unknown, with the line that says so."""
import ast
import dataclasses
import math
import operator
import os

from script_values import (DTYPES, LIST_MAX, Array, DType, Fill, Function, Generator, Map, Module, Num,
                           Scalar, Seq, Unknown, as_shape, call_library, cast, dtype_of, plain,
                           product, snapshot, total, unknown_at)

STEPS_MAX = 500_000
DEPTH_MAX = 30
BITS_MAX = 256  # of a number
TEXT_MAX = 1 << 20


class Unreadable(Exception):
    """Nothing can be made of the script."""


class Return(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


OPERATORS = {ast.Add: (operator.add, "+"), ast.Sub: (operator.sub, "-"),
             ast.Mult: (operator.mul, "*"), ast.FloorDiv: (operator.floordiv, "//"),
             ast.Div: (operator.truediv, "/"), ast.Mod: (operator.mod, "%"),
             ast.Pow: (operator.pow, "**"), ast.LShift: (operator.lshift, "<<"),
             ast.RShift: (operator.rshift, ">>"), ast.BitAnd: (operator.and_, "&"),
             ast.BitOr: (operator.or_, "|")}
COMPARISONS = {ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
               ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
               ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b}


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


class Reader:
    """Walks a script; `calls` are the tuning calls it met: (line, positional, by name)."""

    def __init__(self, path, entry):
        self.folder = os.path.dirname(os.path.abspath(path))
        self.path = path
        self.entry = entry  # the name of the tuning function
        self.calls = []
        self.passed_over = []  # statements that were not followed: (line, names that they give values, what to say)
        self.passed_over_at = []  # of each call: how many came before it
        self.names = {}  # every name that was ever given a value
        self.steps = 0
        self.depth = 0

    def read(self):
        with open(self.path, encoding="utf-8") as file:
            text = file.read(1 << 20)
        try:
            tree = ast.parse(text, self.path)
        except (SyntaxError, ValueError) as error:
            raise Unreadable(f"{self.path}: no Python 3: {error}") from error
        scope = {"__file__": os.path.abspath(self.path), "__name__": "__main__"}
        self.block(tree.body, scope)
        # Functions that nobody calls with what we know: tune(), main().
        for node in tree.body:
            if not self.calls and isinstance(node, ast.FunctionDef) and self.tunes(node):
                self.call_function(Function(node, scope), [], {}, node.lineno)
        return self.calls

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

    def do_Import(self, node, scope):
        for alias in node.names:
            scope[alias.asname or alias.name.split(".")[0]] = Module(alias.name)

    def do_ImportFrom(self, node, scope):
        for alias in node.names:
            name = alias.asname or alias.name
            known = DTYPES.get(alias.name)
            scope[name] = DType(known) if known else Module(f"{node.module}.{alias.name}")

    def do_FunctionDef(self, node, scope):
        scope[node.name] = Function(node, scope)

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
        if test is None:
            self.pass_over(node, f"if (line {node.lineno}): '{ast.unparse(node.test)[:80]}' was not understood; "
                                 "it was taken to hold")
        self.block(node.body if test is not False else node.orelse, scope)

    def do_While(self, node, scope):
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
            self.passed_over.append((node.lineno, names, text))

    def do_With(self, node, scope):
        for item in node.items:
            value = self.value(item.context_expr, scope)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, value, scope)
        self.block(node.body, scope)

    def do_Try(self, node, scope):
        self.block(node.body, scope)
        for handler in node.handlers:
            if self.name_of(handler.type) not in ("ImportError", "ModuleNotFoundError"):
                self.pass_over(handler, f"except (line {handler.lineno}): what it does was left out")
        self.block(node.orelse + node.finalbody, scope)

    def do_For(self, node, scope):
        values = self.value(node.iter, scope)
        items = values.items if isinstance(values, (Seq, Map)) else [Unknown("a loop", node.lineno)]
        for item in items:
            self.assign(node.target, Num(item) if isinstance(item, str) else item, scope)
            self.block(node.body, scope)

    def assign(self, target, value, scope):
        if isinstance(target, ast.Name):
            scope[target.id] = self.named(value, target.id)
            self.names[target.id] = scope[target.id]
        elif isinstance(target, (ast.Tuple, ast.List)):
            items = value.items if isinstance(value, Seq) else []
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

    @staticmethod
    def named(value, name):
        """A plain size is a dim of its name from here on."""
        def is_size(item):
            return isinstance(item, Num) and type(item.value) is int and not item.text
        if is_size(value):
            return Num(value.value, name)
        if isinstance(value, Scalar) and is_size(value.num):
            return Scalar(value.dtype, Num(value.num.value, name))
        if isinstance(value, Seq) and 1 < len(value.items) <= 3 and all(map(is_size, value.items)):
            return Seq([Num(item.value, f"{name}_{axis}")
                        for item, axis in zip(value.items, "xyz")])
        return value

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

    def of_Name(self, node, scope):
        return scope.get(node.id, Unknown(f"'{node.id}' is not known", node.lineno))

    def of_Tuple(self, node, scope):
        items = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                inner = self.value(item.value, scope)
                items += inner.items if isinstance(inner, Seq) else [Unknown("*", node.lineno)]
            else:
                items.append(self.value(item, scope))
        return Seq(items)

    of_List = of_Tuple

    def of_Dict(self, node, scope):
        items = {}
        for key, value in zip(node.keys, node.values):
            known = plain(self.value(key, scope)) if key is not None else None
            if known is not None:
                items[known] = self.value(value, scope)
        return Map(items)

    def of_Lambda(self, node, scope):
        return Function(node, scope)

    def of_JoinedStr(self, node, scope):
        parts = []
        for part in node.values:
            inner = part.value if isinstance(part, ast.FormattedValue) else part
            known = plain(self.value(inner, scope))
            if known is None:
                return Unknown("a formatted text", node.lineno)
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
            if isinstance(value, Unknown):
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
        left = left.num if isinstance(left, Scalar) else left
        right = right.num if isinstance(right, Scalar) else right
        if isinstance(left, Array) or isinstance(right, Array):
            return self.array_arithmetic(node, left, right)
        if isinstance(node.op, ast.Mult) and isinstance(left, Seq) and isinstance(right, Num):
            return Seq(left.items * min(int(right.value), LIST_MAX // max(1, len(left.items))))
        if isinstance(node.op, ast.Add) and isinstance(left, Seq) and isinstance(right, Seq):
            return Seq((left.items + right.items)[:LIST_MAX])
        if isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return (left + right)[:TEXT_MAX]
        known = OPERATORS.get(type(node.op))
        if known is None or not isinstance(left, Num) or not isinstance(right, Num):
            return unknown_at(node)
        return self.arithmetic(node, known, left, right)

    @staticmethod
    def array_arithmetic(node, left, right):
        array, other = (left, right) if isinstance(left, Array) else (right, left)
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
        inner = dict(scope)

        def go(level):
            if level == len(node.generators):
                results.append(self.value(node.elt, inner))
                return
            generator = node.generators[level]
            values = self.value(generator.iter, inner)
            for item in values.items if isinstance(values, Seq) else []:
                # Inside a comprehension a number is that number, not a dim.
                bare = Num(item.value) if isinstance(item, Num) else item
                for target in ast.walk(generator.target):
                    if isinstance(target, ast.Name):
                        inner[target.id] = bare
                if all(plain(self.value(test, inner)) for test in generator.ifs):
                    go(level + 1)
        go(0)
        return Seq(results[:LIST_MAX])

    of_GeneratorExp = of_ListComp

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
            if isinstance(container, (Seq, Map)) and key is not None:
                return container.items[key]
        except (KeyError, IndexError, TypeError):
            pass
        return unknown_at(node)

    def of_Attribute(self, node, scope):
        base = self.value(node.value, scope)
        if isinstance(base, Module):
            if node.attr in DTYPES:
                return DType(DTYPES[node.attr])
            return Num(math.pi) if node.attr == "pi" else Module(f"{base.name}.{node.attr}")
        if isinstance(base, Array):
            if node.attr == "size":
                return product(base.shape)
            if node.attr == "shape":
                return Seq(list(base.shape))
            if node.attr == "T":
                return dataclasses.replace(base, shape=base.shape[::-1])
            if node.attr == "dtype":
                return DType(base.dtype)
        return unknown_at(node)

    def of_Call(self, node, scope):
        positional = self.of_Tuple(ast.Tuple(node.args, ast.Load(), lineno=node.lineno), scope).items
        by_name = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is not None:
                by_name[keyword.arg] = value
            elif isinstance(value, Map):
                by_name.update({str(k): v for k, v in value.items.items()})
        name = self.name_of(node.func)
        if name == self.entry:
            # As they are now: a script changes its params between its calls.
            self.passed_over_at.append(len(self.passed_over))
            self.calls.append((node.lineno, node, *snapshot([positional, by_name])))
            return Seq([Seq([]), Map({})])
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, scope)
            if not isinstance(base, Module):
                return self.method(base, name, positional, by_name, node)
        else:
            known = scope.get(name)
            if isinstance(known, Function):
                return self.call_function(known, positional, by_name, node.lineno)
            if isinstance(known, DType):
                return cast(known.name, positional, node)
        return call_library(name, positional, by_name, node, self.folder)

    def call_function(self, function, positional, by_name, line):
        self.depth += 10
        if self.depth > DEPTH_MAX * 10:
            self.depth -= 10
            return Unknown("a recursion", line)
        arguments = function.node.args
        scope = dict(function.scope)
        names = [a.arg for a in arguments.args]
        defaults = [self.value(d, function.scope) for d in arguments.defaults]
        for name, default in zip(names[len(names) - len(defaults):], defaults):
            scope[name] = default
        for name in names[:len(names) - len(defaults)]:
            scope[name] = Unknown(f"'{name}' is given by the caller", line)
        scope.update(zip(names, positional))
        scope.update({k: v for k, v in by_name.items() if k in names})
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body, scope)
            self.block(function.node.body, scope)
            return Num(None)
        except Return as result:
            return result.value
        finally:
            self.depth -= 10

    def method(self, base, name, positional, by_name, node):
        if isinstance(base, Array):
            if name == "astype":
                dtype = positional[0] if positional else by_name.get("dtype")
                return dataclasses.replace(base, dtype=dtype_of(dtype) or base.dtype)
            if name in ("copy", "flatten", "ravel"):
                return base
            if name == "reshape":
                shape = as_shape(positional[0] if len(positional) == 1 else Seq(positional))
                whole = shape and all(type(n.value) is int and n.value > 0 for n in shape)
                return dataclasses.replace(base, shape=shape) if whole else base
        if isinstance(base, Map) and name in ("keys", "values", "items", "update"):
            if name == "update" and positional and isinstance(positional[0], Map):
                base.items.update(positional[0].items)
            return Seq([Num(k) if not isinstance(k, str) else k for k in base.items]
                       if name == "keys" else list(base.items.values()))
        if isinstance(base, Seq) and name == "append" and positional:
            base.items.append(positional[0])
            return Num(None)
        if isinstance(base, str) and name in ("strip", "rstrip", "lstrip"):
            return getattr(base, name)()
        if isinstance(base, str) and name == "replace" and all(isinstance(p, str) for p in positional):
            return base.replace(*positional[:2])[:TEXT_MAX]
        if isinstance(base, Unknown) and base.why == "a file" and name == "read":
            return base.text
        if isinstance(base, Generator):
            return call_library(name, positional, by_name, node, self.folder)
        return unknown_at(node)
