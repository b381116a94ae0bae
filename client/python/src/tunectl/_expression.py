# SPDX-License-Identifier: Apache-2.0
"""The expressions of kernel specs: Python's own grammar, less what docs/expressions.md leaves out.

Texts come out of snapshots, so nothing here trusts them: a node that is not listed is an error, and
so is an integer beyond 64 bits or a number that is not finite.
"""
from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Union

Value = Union[bool, int, float, str]
Scope = Mapping[str, Any]
_Code = Callable[[Scope], Any]

_TEXT_MAX = 4096
_ITEMS_MAX = 4096
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1


class ExpressionError(Exception):
    """An expression that cannot be parsed or evaluated."""


def _checked(value: Any) -> Any:
    kind = type(value)
    if kind is int and not _INTEGER_MIN <= value <= _INTEGER_MAX:
        raise ExpressionError("integer overflow")
    if kind is float and not math.isfinite(value):
        raise ExpressionError("result is not a finite number")
    if kind is complex:
        raise ExpressionError("result is not a finite number")
    if kind in (str, list) and len(value) > _ITEMS_MAX:
        raise ExpressionError("text or list is too long")
    return value


def _number(value: Any) -> Any:
    if not isinstance(value, (int, float)):
        raise ExpressionError("a number is needed")
    return value


def _is_integral(left: Any, right: Any) -> bool:
    return isinstance(left, int) and isinstance(right, int)


def _add(left: Any, right: Any) -> Any:
    if type(left) is type(right) and type(left) in (str, list):
        return left + right
    return _number(left) + _number(right)


def _power(left: Any, right: Any) -> Any:
    if _is_integral(left, right) and right > 64 and left not in (-1, 0, 1):
        raise ExpressionError("integer overflow")
    return _number(left) ** _number(right)


def _shift_left(left: Any, right: Any) -> Any:
    if not _is_integral(left, right) or right < 0:
        raise ExpressionError("'<<' needs integers, the right one not negative")
    if left and right > 62:
        raise ExpressionError("integer overflow")
    return left << right if left else 0


def _of_integers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(left: Any, right: Any) -> Any:
        if not _is_integral(left, right):
            raise ExpressionError("an integer is needed")
        return function(int(left), int(right))

    return apply


def _of_numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda left, right: function(_number(left), _number(right))


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: _add,
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul),
    ast.Div: _of_numbers(operator.truediv),
    ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(operator.mod),
    ast.Pow: _power,
    ast.LShift: _shift_left,
    ast.RShift: _of_integers(lambda left, right: left >> right),
    ast.BitAnd: _of_integers(operator.and_),
    ast.BitXor: _of_integers(operator.xor),
    ast.BitOr: _of_integers(operator.or_),
}
_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.Not: operator.not_,
    ast.UAdd: lambda value: +_number(value),
    ast.USub: lambda value: -_number(value),
    ast.Invert: lambda value: ~int(_of_integers(operator.or_)(value, 0)),
}


def _member(left: Any, right: Any) -> bool:
    if not isinstance(right, list) and not (isinstance(right, str) and isinstance(left, str)):
        raise ExpressionError("'in' needs a list on its right")
    return left in right


_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: _member,
    ast.NotIn: lambda left, right: not _member(left, right),
}


def _extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *items: function(items[0]) if len(items) == 1 and isinstance(items[0], list) else (
        function(items)
    )


def _range(first: int, end: int, step: int = 1) -> list[int]:
    values = range(first, end, step)
    if len(values) > _ITEMS_MAX:
        raise ExpressionError("a list has more than 4096 items")
    return list(values)


def _powers_of_two(first: int, last: int) -> list[int]:
    for bound in (first, last):
        if bound <= 0 or bound & (bound - 1):
            raise ExpressionError(f"pow2 takes powers of two, not {bound}")
    return [1 << bit for bit in range(first.bit_length() - 1, last.bit_length())]


_FUNCTIONS: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "ceil_div": (2, 2, lambda left, right: -(-_number(left) // _number(right))),
    "min": (1, 64, _extreme(min)),
    "max": (1, 64, _extreme(max)),
    "abs": (1, 1, lambda value: abs(_number(value))),
    "log2": (1, 1, lambda value: math.log2(_number(value))),
    "pow2": (2, 2, _powers_of_two),
    "range": (2, 3, _range),
    "int": (1, 1, lambda value: int(_number(value))),
    "float": (1, 1, lambda value: float(_number(value))),
    "round": (1, 1, lambda value: round(_number(value))),
    "floor": (1, 1, lambda value: math.floor(_number(value))),
    "ceil": (1, 1, lambda value: math.ceil(_number(value))),
    "sqrt": (1, 1, lambda value: math.sqrt(_number(value))),
}


def _literal(node: ast.Constant) -> _Code:
    value = node.value
    if type(value) not in (bool, int, float, str):
        raise ExpressionError(f"{value!r} is no value of an expression")
    _checked(value)
    return lambda scope: value


def _name(node: ast.Name) -> _Code:
    name = node.id

    def get(scope: Scope) -> Any:
        if name not in scope:
            raise ExpressionError(f"unknown name '{name}'")
        return scope[name]

    return get


def _items(node: ast.List | ast.Tuple) -> _Code:
    items = [_code(item) for item in node.elts]
    return lambda scope: [item(scope) for item in items]


def _unary(node: ast.UnaryOp) -> _Code:
    apply, operand = _UNARY[type(node.op)], _code(node.operand)
    return lambda scope: _checked(apply(operand(scope)))


def _binary(node: ast.BinOp) -> _Code:
    apply = _BINARY.get(type(node.op))
    if apply is None:
        raise ExpressionError("an operator that expressions do not have")
    left, right = _code(node.left), _code(node.right)
    return lambda scope: _checked(apply(left(scope), right(scope)))


def _boolean(node: ast.BoolOp) -> _Code:
    values = [_code(value) for value in node.values]
    ends_at = isinstance(node.op, ast.Or)

    def evaluate(scope: Scope) -> Any:
        result: Any = None
        for value in values:
            result = value(scope)
            if bool(result) == ends_at:
                break
        return result

    return evaluate


def _comparison(node: ast.Compare) -> _Code:
    first = _code(node.left)
    rest = [(_COMPARE.get(type(op)), _code(right)) for op, right in zip(node.ops, node.comparators)]
    if any(compare is None for compare, _ in rest):
        raise ExpressionError("a comparison that expressions do not have")

    def evaluate(scope: Scope) -> bool:
        left = first(scope)
        for compare, code in rest:
            right = code(scope)
            if not compare(left, right):  # type: ignore[misc]
                return False
            left = right
        return True

    return evaluate


def _conditional(node: ast.IfExp) -> _Code:
    test, body, otherwise = _code(node.test), _code(node.body), _code(node.orelse)
    return lambda scope: body(scope) if test(scope) else otherwise(scope)


def _call(node: ast.Call) -> _Code:
    function = node.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        name = function.attr if function.value.id == "math" else ""
    else:
        name = function.id if isinstance(function, ast.Name) else ""
    least, most, apply = _FUNCTIONS.get(name, (0, -1, None))
    if apply is None or node.keywords or not least <= len(node.args) <= most:
        raise ExpressionError(f"'{ast.unparse(node)[:80]}' calls no function of expressions")
    arguments = [_code(argument) for argument in node.args]
    return lambda scope: _checked(apply(*[argument(scope) for argument in arguments]))


_NODES: dict[type, Callable[[Any], _Code]] = {
    ast.Constant: _literal,
    ast.Name: _name,
    ast.List: _items,
    ast.Tuple: _items,
    ast.UnaryOp: _unary,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Compare: _comparison,
    ast.IfExp: _conditional,
    ast.Call: _call,
}


def _code(node: ast.AST) -> _Code:
    make = _NODES.get(type(node))
    if make is None:
        raise ExpressionError(f"expressions have no {type(node).__name__}")
    return make(node)


class Expression:
    """A parsed expression. Immutable."""

    __slots__ = ("text", "names", "_code")

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or len(text) > _TEXT_MAX:
            raise ExpressionError("an expression is a text of at most 4096 characters")
        self.text = text
        try:
            tree = ast.parse(text.strip(), mode="eval").body
            self._code = _code(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ExpressionError(f"'{text[:80]}': {error}") from None
        self.names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))

    def evaluate(self, scope: Scope) -> Any:
        """A value or a list of values; ExpressionError where there is none."""
        try:
            return self._code(scope)
        except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
            raise ExpressionError(f"'{self.text[:80]}': {error}") from None
