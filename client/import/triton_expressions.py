# SPDX-License-Identifier: Apache-2.0
"""The expressions and calls of a launching function: half of a Host."""
import ast
import dataclasses
import math
import re

from restriction import negated, wrapped
from triton_function import last_name
from triton_tensors import Tensors, unknown, whole
from triton_values import (NONE, TORCH_TYPES, TRITON_TYPES, Axes, Code, Config, Items, Meta, Module, Shape, Table, Tensor,
                           Type, Unknown, factor, product)

MULTIPROCESSORS = "multiprocessors"  # a dim: what is compiled for cannot depend on the device
FUNCTIONS = {"cdiv": "ceil_div", "ceil_div": "ceil_div", "min": "min", "max": "max", "int": "int", "abs": "abs",
             "ceil": "ceil", "floor": "floor", "sqrt": "sqrt", "log2": "log2", "float": "float", "round": "round"}
# torch.finfo(type).NAME
LIMITS = {("f32", "eps"): "1.1920928955078125e-07", ("f32", "tiny"): "1.1754943508222875e-38", ("f32", "max"): "3.4028234663852886e+38",
          ("f32", "min"): "-3.4028234663852886e+38", ("f16", "eps"): "0.0009765625", ("f16", "max"): "65504.0",
          ("f16", "min"): "-65504.0", ("bf16", "eps"): "0.0078125", ("i32", "max"): "2147483647", ("i32", "min"): "-2147483648"}
COUNTS = re.compile(r"get_(multi_?processor_count|num_sms?|sm_count|device_sm_count)|num_sms?")  # functions that give it
# Triton's functions that scripts use and the oldest Triton of the service has.
LANGUAGE = {"gather", "make_tensor_descriptor", "dot_scaled", "range", "static_range", "cumsum", "histogram"}
STEPS_MAX = 30_000
DEPTH_MAX = 12


class Leave(Exception):
    """The function returns."""

    def __init__(self, value):
        super().__init__()
        self.value = value


class Raised(Exception):
    """The function raises an exception: this way is not gone."""


class TooLong(Exception):
    pass


class Launched:
    """kernel[grid](...), with the names as they are there."""

    def __init__(self, call, names):
        self.call, self.names = call, names


class Expressions(Tensors):
    """Half of a Host: values of expressions, and calls."""

    def shown(self, node):
        return ast.unparse(node)[:80]

    def value(self, node, names):
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise TooLong
        method, before = getattr(self, "of_" + type(node).__name__, None), len(self.met)
        made = method(node, names) if method is not None else None
        if made is None:  # because of a name that an earlier line gave what is not known, or by itself
            causes = [one for one in self.met[before:] if one.is_named]
            made = causes[0] if causes else unknown(f"'{self.shown(node)}'", node)
        if isinstance(made, Unknown):
            self.met.append(made)
        return made

    def of_Constant(self, node, names):
        if node.value is None:
            return NONE
        if isinstance(node.value, (int, float, str)):
            return repr(node.value)
        return None

    def of_Name(self, node, names):
        if node.id in names:
            return names[node.id]
        modules = names.get("(module)", self.modules)
        if node.id in modules:
            return modules[node.id](self)
        if node.id in ("float", "int", "bool"):
            return Module("builtins." + node.id)
        return None

    def of_Tuple(self, node, names):
        items = []
        for item in node.elts:
            if not isinstance(item, ast.Starred):
                items.append(self.value(item, names))
                continue
            value = self.value(item.value, names)
            if isinstance(value, Shape):  # *x.shape, n
                items.append(value)
            else:
                items += value.items if isinstance(value, Items) else [unknown("*" + self.shown(item.value), item)]
        if any(isinstance(item, Shape) for item in items):
            return self.open_items(items, node)
        return Items(items)

    of_List = of_Tuple

    def open_items(self, items, node):
        """B, T, H, K, V = *k.shape, v.shape[-1]: as many axes as the targets leave; else a shape with more around it."""
        at = [index for index, item in enumerate(items) if isinstance(item, Shape)]
        if len(at) != 1:
            return None
        one = items[at[0]]
        return Shape(one.axes, one.start, one.end, (*one.behind, *items[at[0] + 1:]), (*items[:at[0]], *one.before))

    def of_Lambda(self, node, names):
        return Code(node, names)

    def of_Dict(self, node, names):
        found = {}
        for key, value in zip(node.keys, node.values):
            known = self.value(key, names) if key is not None else None
            made = self.value(value, names)
            if key is None and isinstance(made, Table):
                found.update(made.items)
            elif isinstance(known, str):
                found[known.strip("'")] = made
            else:
                return None
        return Table(found)

    def of_JoinedStr(self, node, names):
        return None

    def of_IfExp(self, node, names):
        test = self.condition(node.test, names)
        if test in ("True", "False"):
            return self.value(node.body if test == "True" else node.orelse, names)
        return self.merged(test, self.value(node.body, names), self.value(node.orelse, names), node)

    def of_NamedExpr(self, node, names):
        value = self.value(node.value, names)
        self.assign(node.target, value, names)
        return value

    def of_UnaryOp(self, node, names):
        if isinstance(node.op, ast.Not):
            test = self.condition(node.operand, names)
            return negated(test) if test is not None else None
        inner = self.value(node.operand, names)
        if not isinstance(inner, str) or isinstance(node.op, ast.Invert):
            return None
        return f"-{factor(inner)}" if isinstance(node.op, ast.USub) else inner

    def of_BoolOp(self, node, names):
        """The value that decides, as in Python, as long as those before it are known."""
        decides, parts = ("True" if isinstance(node.op, ast.Or) else "False"), []
        for each in node.values:
            test = self.condition(each, names)
            if test == decides:
                return decides if parts else self.value(each, names)
            if test not in ("True", "False"):
                parts.append(test)
        if None in parts:
            return None
        if not parts:
            return self.value(node.values[-1], names)
        return (" or " if decides == "True" else " and ").join(map(wrapped, parts))

    def of_Compare(self, node, names):
        if len(node.ops) > 1:
            parts, left = [], node.left
            for op, right in zip(node.ops, node.comparators):
                parts.append(ast.copy_location(ast.Compare(left, [op], [right]), node))
                left = right
            return self.of_BoolOp(ast.copy_location(ast.BoolOp(ast.And(), parts), node), names)
        op, right_node = node.ops[0], node.comparators[0]
        axes = self.ranked(node.left, names)
        if axes is not None and axes.shape is None:
            return None
        left, right = self.value(node.left, names), self.value(right_node, names)
        if isinstance(op, (ast.Is, ast.IsNot)):
            if right is NONE or left is NONE:
                other = left if right is NONE else right
                if isinstance(other, Unknown):
                    return None
                return str((other is NONE) == isinstance(op, ast.Is))
            if isinstance(left, Type) and isinstance(right, Type):
                op = ast.Eq() if isinstance(op, ast.Is) else ast.NotEq()
        if NONE in (left, right) and isinstance(op, (ast.Eq, ast.NotEq)) and not isinstance(left, Unknown):
            return str((left is right) == isinstance(op, ast.Eq))
        return self.compared(left, right, op, node)

    def compared(self, left, right, op, node):
        if isinstance(op, (ast.In, ast.NotIn)):
            if not isinstance(right, Items):
                return None
            found = [self.compared(left, item, ast.Eq(), node) for item in right.items]
            if None in found:
                return None
            if "True" in found or all(each == "False" for each in found):
                return str(("True" in found) == isinstance(op, ast.In))
            text = " or ".join(map(wrapped, (each for each in found if each != "False")))
            return text if isinstance(op, ast.In) else negated(text)
        sign = ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[1:-1]
        if isinstance(left, Type) and isinstance(right, Type) and sign in (" == ", " != "):
            if left == right:
                return str(sign == " == ")
            one, other = left.text, right.text
            if one[0] == other[0] == "'":
                return str(sign == " != ")
            return f"{wrapped(one)}{sign}{wrapped(other)}"
        if isinstance(left, Items) and isinstance(right, Items) and sign in (" == ", " != "):
            same = [self.compared(a, b, ast.Eq(), node) for a, b in zip(left.items, right.items)]
            if len(left.items) == len(right.items) and all(each == "True" for each in same):
                return str(sign == " == ")
            return None
        if not isinstance(left, str) or not isinstance(right, str) or not sign.strip() in ("==", "!=", "<", "<=", ">", ">="):
            return None
        left, right = self.places.inserted(left), self.places.inserted(right)
        if left == right:
            return str(sign.strip() in ("==", "<=", ">="))
        try:
            a, b = ast.literal_eval(left), ast.literal_eval(right)
            return str({"==": a == b, "!=": a != b}.get(sign.strip()) if type(a) is str or type(b) is str else
                       {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign.strip()])
        except (ValueError, SyntaxError, TypeError):
            return f"{wrapped(left)}{sign}{wrapped(right)}"

    def of_BinOp(self, node, names):
        left, right = self.value(node.left, names), self.value(node.right, names)
        if isinstance(node.op, ast.Add) and isinstance(right, Items):
            if isinstance(left, Items):
                return Items(left.items + right.items)
            if isinstance(left, Shape):
                return self.open_items([left, *right.items], node)
        if isinstance(node.op, ast.Add) and isinstance(left, Items) and isinstance(right, Shape):
            return self.open_items([*left.items, right], node)
        if isinstance(node.op, ast.Mult) and isinstance(left, Items) and whole(right) is not None:
            return Items(left.items * min(whole(right), 64))
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            one, other = (left, right) if isinstance(left, Tensor) else (right, left)
            if isinstance(other, str) or (isinstance(other, Tensor) and (other.axes is one.axes or (
                    other.axes.shape is not None and other.axes.shape == one.axes.shape))):
                return dataclasses.replace(self.copied(one), note="")
            return None
        if not isinstance(left, str) or not isinstance(right, str):
            return None
        try:
            known = ast.literal_eval(left), ast.literal_eval(right)
            if all(type(each) in (int, float) for each in known) and not isinstance(node.op, (ast.Pow, ast.LShift)):
                return repr(eval_plain(node.op, *known))
        except (ValueError, SyntaxError, ArithmeticError, KeyError):
            pass
        if isinstance(node.op, ast.Mult) and "1" in (left, right):
            return right if left == "1" else left
        sign = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[1:-1]
        return f"{factor(left)}{sign}{factor(right)}"

    def of_Attribute(self, node, names):
        base = self.value(node.value, names)
        name = node.attr
        if isinstance(base, Tensor):
            if name == "shape":
                return self.shape(base)
            if name == "dtype":
                return base.dtype
            if name == "ndim":
                return str(len(base.axes.shape)) if base.axes.shape is not None else None
            if name in ("T", "mT"):
                return self.method(base, "t", [], {}, node)
            if name == "data":
                return base
            if name == "device":
                return Module("device")
            return {"is_cuda": "True", "is_sparse": "False", "requires_grad": "False"}.get(name)
        if name == "multi_processor_count":
            return MULTIPROCESSORS
        root = ast.unparse(node.value)
        if isinstance(base, (Module, Unknown)) or base is NONE:
            if root.split(".")[-1] == "torch" and name in TORCH_TYPES:
                return Type(f"'{TORCH_TYPES[name]}'")
            if root.split(".")[-1] in ("tl", "language"):
                spec = next((spec for spec, known in TRITON_TYPES.items() if known == "tl." + name), None)
                if spec is not None:
                    return Type(f"'{spec}'")
        if name in ("pi", "e") and root == "math":
            return repr(getattr(math, name))
        if isinstance(node.value, ast.Call) and last_name(node.value) in ("finfo", "iinfo") and node.value.args:
            kind = self.value(node.value.args[0], names)
            return LIMITS.get((kind.spec(), name)) if isinstance(kind, Type) else None
        if isinstance(base, Module):
            return Module(f"{base.name}.{name}")
        return None

    def of_Subscript(self, node, names):
        base = self.value(node.value, names)
        if isinstance(base, Meta):
            key = self.value(node.slice, names)
            return self.of_meta(key.strip("'"), node) if isinstance(key, str) else None
        if isinstance(base, Config):
            key = self.value(node.slice, names)
            return self.bound_value(key.strip("'"), node) if isinstance(key, str) else None
        if isinstance(node.slice, ast.Slice):
            return self.sliced(base, node.slice, names)
        index = self.value(node.slice, names)
        number = whole(index)
        if isinstance(base, Shape):
            return None if number is None else self.part(base, number)
        if isinstance(base, Items) and number is not None and -len(base.items) <= number < len(base.items):
            return base.items[number]
        if isinstance(base, Table) and isinstance(index, str):
            return base.items.get(index.strip("'"))
        return None

    def sliced(self, base, node, names):
        start, stop = (whole(self.value(each, names)) if each is not None else None for each in (node.lower, node.upper))
        if node.step is not None or (node.lower is not None and start is None) or (node.upper is not None and stop is None):
            return None
        if isinstance(base, Items):
            return Items(base.items[slice(start, stop)])
        if isinstance(base, Shape) and base.is_whole():
            return Shape(base.axes, start or 0, stop)
        return None

    def of_ListComp(self, node, names):
        generator = node.generators[0]
        items = self.value(generator.iter, names)
        if len(node.generators) > 1 or generator.ifs or not isinstance(items, Items):
            return None
        made = []
        for item in items.items[:64]:
            inner = dict(names)
            self.assign(generator.target, item, inner)
            made.append(self.value(node.elt, inner))
        return Items(made)

    of_GeneratorExp = of_ListComp

    # Calls.

    def of_Call(self, node, names):
        if launches(node, self.function.name):
            self.launches.append(Launched(node, dict(names)))
            return NONE
        name = last_name(node)
        positional = self.of_Tuple(ast.copy_location(ast.Tuple(node.args, ast.Load()), node), names)
        if not isinstance(positional, Items):
            positional = Items([positional])
        positional = positional.items
        by_name = {k.arg: self.value(k.value, names) for k in node.keywords if k.arg is not None}
        for keyword in node.keywords:
            if keyword.arg is None:
                more = self.value(keyword.value, names)
                by_name.update(more.items if isinstance(more, Table) else {})
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, names)
            if isinstance(base, Tensor):
                return self.method(base, name, positional, by_name, node)
            if isinstance(base, (Meta, Config)) and name == "get" and positional and isinstance(positional[0], str):
                key = positional[0].strip("'")
                return self.of_meta(key, node) if isinstance(base, Meta) else self.bound_value(key, node)
            if isinstance(base, Table) and name in ("get", "pop") and positional and isinstance(positional[0], str):
                return base.items.get(positional[0].strip("'"), positional[1] if len(positional) > 1 else NONE)
            if name == "bit_length" and whole(base) is not None:
                return str(whole(base).bit_length())
            if isinstance(base, (Items, Shape)) and name == "numel":
                return self.numel_of(base)
            known = None
        else:
            known = self.of_Name(node.func, names) if isinstance(node.func, ast.Name) else self.value(node.func, names)
        if isinstance(known, Code):
            made = self.call(known, positional, by_name, node)
            return MULTIPROCESSORS if isinstance(made, (Unknown, type(None))) and COUNTS.fullmatch(name) else made
        return self.library(name, positional, by_name, node, names)

    def numel_of(self, shape):
        if isinstance(shape, Items):
            return product(shape.items) if all(isinstance(item, str) for item in shape.items) else None
        if shape.is_whole():
            return self.count(shape.axes)
        if shape.before or shape.behind or (shape.start, shape.end) not in ((0, -1), (1, None)):
            return None
        last = self.extent(shape.axes, -1 if shape.end else 0)
        return self.remaining(shape.axes, [] if shape.end else [last], [last] if shape.end else [])

    def library(self, name, positional, by_name, node, names):
        made = self.torch_call(name, positional, by_name, node)
        if made is not None:
            return made
        first = positional[0] if positional else None
        if name == "isinstance" and len(node.args) == 2:
            if isinstance(first, Unknown):
                return None
            return str(isinstance(first, Tensor) and "Tensor" in ast.unparse(node.args[1]) or isinstance(first, Items)
                       and "tuple" in ast.unparse(node.args[1]) or isinstance(first, str) and any(
                           kind in ast.unparse(node.args[1]) for kind in ("int", "float")))
        if name == "len" and isinstance(first, Items):
            return str(len(first.items))
        if name == "len" and isinstance(first, Tensor):
            return self.extent(first.axes, 0)
        if name in ("list", "tuple", "Size") and isinstance(first, (Items, Shape)):
            return first
        if name in ("prod", "numel") and isinstance(first, (Items, Shape)):
            return self.numel_of(first)
        if name == "range" and positional and all(whole(p) is not None for p in positional):
            return Items([str(i) for i in range(*map(whole, positional))][:64])
        if name == "bool":
            return self.condition(node.args[0], names) if node.args else None
        if name in ("TensorDescriptor", "from_tensor"):
            return self.descriptor(node, names, name == "from_tensor")
        if COUNTS.fullmatch(name):
            return MULTIPROCESSORS
        if name == "hasattr" and len(positional) == 2 and "language" in getattr(first, "name", ""):
            return "True" if positional[1].strip("'") in LANGUAGE else None
        if name == "are_deterministic_algorithms_enabled":
            return "False"  # as if nobody had asked for them
        if name == "str" or name == "reduce":
            return None
        if name == "next_power_of_2" and isinstance(first, str):
            known = whole(first)
            return str(1 << max(0, known - 1).bit_length()) if known is not None else f"2 ** ceil(log2({first}))"
        if isinstance(first, (Items,)) and name in ("min", "max"):
            positional = first.items
        if name in FUNCTIONS and positional and all(isinstance(p, str) for p in positional):
            return self.function_call(FUNCTIONS[name], positional)
        if name in ("broadcast_tensors",) and all(isinstance(p, Tensor) for p in positional):
            return None
        return None

    def function_call(self, name, positional):
        if name == "round" and len(positional) > 1:
            return None
        numbers = [whole(p) for p in positional]
        if None not in numbers:
            if name == "ceil_div" and numbers[1]:
                return str(-(-numbers[0] // numbers[1]))
            if name in ("min", "max"):
                return str((min if name == "min" else max)(numbers))
            if name in ("int", "abs"):
                return str(abs(numbers[0]) if name == "abs" else numbers[0])
        if name in ("log2", "sqrt", "ceil", "floor") and re.fullmatch(r"\d+(\.\d+)?", positional[0]):
            return repr(getattr(math, name)(float(positional[0])))
        return f"{name}({', '.join(positional)})"

    def call(self, code, positional, by_name, node):
        """A function of the script, walked."""
        if self.depth >= DEPTH_MAX:
            return None
        arguments = code.node.args
        names = dict(code.names)
        known = [a.arg for a in arguments.posonlyargs + arguments.args]
        for name, default in zip(known[len(known) - len(arguments.defaults):], arguments.defaults):
            names[name] = self.value(default, code.names)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
            names[argument.arg] = self.value(default, code.names) if default is not None else unknown(argument.arg, node)
        for name in known[:len(known) - len(arguments.defaults)]:
            names[name] = unknown(f"{name}, which is not given", node)
        names.update(zip(known, positional))
        names.update({k: v for k, v in by_name.items() if k in known or k in names})
        if arguments.vararg is not None:
            names[arguments.vararg.arg] = Items(positional[len(known):])
        if arguments.kwarg is not None:
            names[arguments.kwarg.arg] = Table({k: v for k, v in by_name.items() if k not in known})
        self.depth += 1
        try:
            if isinstance(code.node, ast.Lambda):
                return self.value(code.node.body, names)
            self.block(code.node.body, names)
            return NONE
        except Leave as left:
            return left.value
        finally:
            self.depth -= 1

    def descriptor(self, node, names, is_whole):
        """TensorDescriptor(base, shape, strides, block_shape) and TensorDescriptor.from_tensor(base, block_shape)."""
        order = ("tensor", "block_shape") if is_whole else ("base", "shape", "strides", "block_shape")
        given = dict(zip(order, node.args)) | {k.arg: k.value for k in node.keywords}
        base = self.value(given[order[0]], names) if order[0] in given else None
        shape = self.value(given["shape"], names) if "shape" in given else None
        block = self.value(given["block_shape"], names) if "block_shape" in given else None
        if not isinstance(base, Tensor):
            base = Tensor(Axes("descriptor"), Type("dtype"), why=f"the shape of '{self.shown(node)}' is not in the script")
        axes = base.axes
        if isinstance(shape, Items) and all(isinstance(item, str) for item in shape.items):
            axes = Axes(base.axes.name, list(shape.items))
            if base.axes.shape is None and self.set_rank(base.axes, len(shape.items)):
                for one, other in zip(base.axes.shape, shape.items):
                    self.places.same(one, other)
            base = Tensor(base.axes, base.dtype)
        return Tensor(axes, base.dtype, base.why, block=block, is_descriptor=True)


def eval_plain(op, left, right):
    return {ast.Add: lambda: left + right, ast.Sub: lambda: left - right, ast.Mult: lambda: left * right,
            ast.FloorDiv: lambda: left // right, ast.Div: lambda: left / right, ast.Mod: lambda: left % right}[type(op)]()


def launches(node, kernel):
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
            and getattr(node.func.value, "id", getattr(node.func.value, "attr", "")) == kernel)
