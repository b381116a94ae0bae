# SPDX-License-Identifier: Apache-2.0
"""The expressions and calls of a launching function: half of a Host."""
import ast
import dataclasses
import math
import re

from restriction import negated, wrapped
from script_calls import is_generator
from triton_function import last_name
from triton_state import Leave, Names, TooLong, unknown
from triton_tensors import Tensors, whole
from triton_values import (NONE, TORCH_TYPES, TRITON_TYPES, Axes, Code, Config, Items, Meta, Module, Shape, Table, Tensor,
                           Type, Unknown, factor, is_boolean, is_of_type, key_of, product)

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
ITEMS_MAX = 256
MODULES = {"torch", "triton", "math", "builtins", "operator", "functools"}  # whose functions are known by their names
ANYWHERE = {"cdiv", "ceil_div", "next_power_of_2", "TensorDescriptor", "from_tensor"}  # known in any module
CHANGING = {"append", "extend", "insert", "pop", "clear", "reverse", "remove", "update", "setdefault"}
READING = (ast.Compare, ast.JoinedStr, ast.FormattedValue)  # their results hold no list that they look at


class Expressions(Tensors):
    """Part of a Host: values of expressions, and calls."""

    def shown(self, node):
        return ast.unparse(node)[:80]

    def value(self, node, names):
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise TooLong
        method, before, held = getattr(self, "of_" + type(node).__name__, None), len(self.met), len(self.escaping)
        made = method(node, names) if method is not None else self.lose(node, names, unknown(f"'{self.shown(node)}'", node))
        made = getattr(made, "lost", None) or made
        if made is None:  # because of a name that an earlier line gave what is not known, or by itself
            causes = [one for one in self.met[before:] if one.is_named]
            made = causes[0] if causes else unknown(f"'{self.shown(node)}'", node)
        if isinstance(made, Unknown):
            self.met.append(made)
            for each in self.escaping[held:] if not isinstance(node, READING) else ():
                self.lose_value(each, made)  # it may be a part of what is not known
        del self.escaping[held:]
        if isinstance(made, (Items, Table, Code)):
            self.escaping.append(made)
        return made

    def of_Constant(self, node, names):
        if node.value is None:
            return NONE
        if isinstance(node.value, (int, float, str)):
            return repr(node.value)
        return None

    def of_Name(self, node, names):
        known = self.lookup(node.id, names)
        if known is None and node.id in ("float", "int", "bool"):
            return Module("builtins." + node.id)
        return known

    def of_Tuple(self, node, names):
        items = self.items_in(node.elts, names)
        if items is not None and any(isinstance(item, Shape) for item in items):
            return self.open_items(items, node)
        return None if items is None else Items(items, isinstance(node, ast.List))

    of_List = of_Tuple

    def items_in(self, nodes, names):
        """Values, those of starred ones put in; None: how many there are is not known."""
        items, is_known = [], True
        for item in nodes:
            value = self.value(item.value if isinstance(item, ast.Starred) else item, names)
            if not isinstance(item, ast.Starred) or isinstance(value, Shape):  # *x.shape, n
                items.append(value)
            elif isinstance(value, Items):
                items += value.items
            else:
                is_known = False
        return items if is_known else None

    def open_items(self, items, node):
        """B, T, H, K, V = *k.shape, v.shape[-1]: as many axes as the targets leave; else a shape with more around it."""
        at = [index for index, item in enumerate(items) if isinstance(item, Shape)]
        if len(at) != 1:
            return None
        one = items[at[0]]
        return Shape(one.axes, one.start, one.end, (*one.behind, *items[at[0] + 1:]), (*items[:at[0]], *one.before))

    def of_Lambda(self, node, names):
        return self.code(node, names)

    def code(self, node, names):
        names.is_captured = names.function.is_captured = True
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(plain[len(plain) - len(arguments.defaults):], arguments.defaults),
                 *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        return Code(node, names, {one.arg: self.value(default, names) for one, default in pairs if default is not None})

    def of_Dict(self, node, names):
        found, is_known = {}, True
        for key, value in zip(node.keys, node.values):
            known = key_of(self.value(key, names)) if key is not None else None
            made = self.value(value, names)
            if key is None and isinstance(made, Table):
                found.update(made.items)
            elif known is not None:
                found[known] = made
            else:
                is_known = False
        return Table(found) if is_known else None

    def of_JoinedStr(self, node, names):
        for part in node.values:
            self.value(part.value if isinstance(part, ast.FormattedValue) else part, names)

    def of_IfExp(self, node, names):
        return self.chosen(node, self.condition(node.test, names), lambda: self.value(node.body, names),
                           lambda: self.value(node.orelse, names), names)

    def chosen(self, node, test, one, other, names):
        if test in ("True", "False"):
            return one() if test == "True" else other()
        made = {}
        self.fork(test, lambda: made.update(one=one()), lambda: made.update(other=other()), node, names)
        return self.merged(test, made["one"], made["other"], node) if len(made) == 2 else next(iter(made.values()))

    def of_NamedExpr(self, node, names):
        value = self.value(node.value, names)
        self.assign(node.target, value, names.function)
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
        """The value that decides, as in Python."""
        first, rest = self.value(node.values[0], names), node.values[1:]
        more = ast.copy_location(ast.BoolOp(node.op, rest), node) if len(rest) > 1 else rest[0]
        test, is_or = self.truth(first, node.values[0]), isinstance(node.op, ast.Or)
        if test in ("True", "False"):
            return first if (test == "True") == is_or else self.value(more, names)
        made = []
        ways = (lambda: None), (lambda: made.append(self.value(more, names)))
        self.fork(test, *(ways if is_or else ways[::-1]), node, names)
        if not made:
            return str(is_or)
        second, = made
        known = self.truth(second, more)
        if isinstance(test, str) and isinstance(second, str) and is_boolean(test) and is_boolean(second):
            if known in ("True", "False"):
                return known if (known == "True") == is_or else test
            return f"{wrapped(test)} {'or' if is_or else 'and'} {wrapped(second)}"
        value = self.merged(test, *((first, second) if is_or else (second, first)), node)
        if isinstance(value, Unknown) and known == str(is_or):  # true or false it is, whichever of them
            return dataclasses.replace(value, truth=known)
        return value

    def of_Compare(self, node, names):
        if len(node.ops) > 1:
            if any(isinstance(inner, (ast.Call, ast.NamedExpr)) for part in node.comparators[:-1] for inner in ast.walk(part)):
                return self.lose(node, names, unknown(f"'{self.shown(node)}'", node))
            parts, left = [], node.left
            for op, right in zip(node.ops, node.comparators):
                parts.append(ast.copy_location(ast.Compare(left, [op], [right]), node))
                left = right
            return self.of_BoolOp(ast.copy_location(ast.BoolOp(ast.And(), parts), node), names)
        op, right_node = node.ops[0], node.comparators[0]
        axes = self.ranked(node.left, names)
        left, right = self.value(node.left, names), self.value(right_node, names)
        if axes is not None and axes.shape is None:
            return None
        if isinstance(op, (ast.Is, ast.IsNot)):
            if right is NONE or left is NONE:
                other = left if right is NONE else right
                if isinstance(other, (Unknown, Module)):
                    return None
                return str((other is NONE) == isinstance(op, ast.Is))
            if not (isinstance(left, Type) and isinstance(right, Type)):
                return None
            op = ast.Eq() if isinstance(op, ast.Is) else ast.NotEq()
        if NONE in (left, right) and isinstance(op, (ast.Eq, ast.NotEq)) and not isinstance(
                left if right is NONE else right, (Unknown, Module)):
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
                return Items(left.items + right.items, left.is_list)
            if isinstance(left, Shape):
                return self.open_items([left, *right.items], node)
        if isinstance(node.op, ast.Add) and isinstance(left, Items) and isinstance(right, Shape):
            return self.open_items([*left.items, right], node)
        if isinstance(node.op, ast.Mult) and isinstance(left, Items) and whole(right) is not None:
            return Items(left.items * whole(right), left.is_list) if len(left.items) * whole(right) <= ITEMS_MAX else None
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            one, other = (left, right) if isinstance(left, Tensor) else (right, left)
            if isinstance(other, str) or (isinstance(other, Tensor) and (other.axes is one.axes or (
                    other.axes.shape is not None and other.axes.shape == one.axes.shape))):
                return dataclasses.replace(self.copied(one), note="", dtype=self.promoted(node, one, other))
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

    def promoted(self, node, one, other):
        """The type of arithmetic."""
        is_float = one.dtype.spec() in ("dtype", "f16", "bf16", "f32", "f64")
        if isinstance(other, Tensor):
            is_same = one.dtype == other.dtype
        else:
            is_same = isinstance(whole(other), int) or is_float
        if is_same and (is_float or not isinstance(node.op, ast.Div)):
            return one.dtype
        return Type(f"(left_to_write: the type of '{self.shown(node)}')")

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
        if isinstance(node.slice, ast.Slice):
            return self.sliced(base, node.slice, names)
        index = self.value(node.slice, names)
        if isinstance(base, (Meta, Config)):
            return self.of_meta(base, index, node)
        number, key = whole(index), key_of(index)
        if isinstance(base, Shape):
            return None if number is None else self.part(base, number)
        if isinstance(base, Items) and number is not None and -len(base.items) <= number < len(base.items):
            return base.items[number]
        return base.items.get(key) if isinstance(base, Table) else None

    def sliced(self, base, node, names):
        given = [self.value(each, names) if each is not None else None for each in (node.lower, node.upper, node.step)]
        start, stop, step = map(whole, given)
        if any(each is not None and known is None for each, known in zip(given, (start, stop, step))) or step == 0:
            return None
        if isinstance(base, Items):
            return Items(base.items[slice(start, stop, step)], base.is_list)
        if isinstance(base, Shape) and base.is_whole() and step is None:
            return Shape(base.axes, start or 0, stop)
        return None

    def of_ListComp(self, node, names):
        made, mark, inner = [], len(self.state.log), Names(names, is_comprehension=True)

        def go(level):
            if level == len(node.generators):
                made.append(self.value(node.elt, inner))
                return len(made) <= ITEMS_MAX
            generator = node.generators[level]
            items = self.value(generator.iter, inner if level else names)
            if not isinstance(items, Items) or generator.is_async or len(items.items) > ITEMS_MAX:
                return False
            for item in list(items.items):
                self.assign(generator.target, item, inner)
                tests = [self.condition(test, inner) for test in generator.ifs]
                if not set(tests) <= {"True", "False"} or ("False" not in tests and not go(level + 1)):
                    return False
            return True
        if go(0):
            return Items(made, is_list=True)
        self.state.back(mark)
        return self.lose(node, names, unknown(f"'{self.shown(node)}'", node))

    of_GeneratorExp = of_ListComp

    # Calls.

    def of_Call(self, node, names):
        if launches(node, self.function.name):
            return self.launch(node, names)
        name, held = last_name(node), len(self.escaping)
        is_method = isinstance(node.func, ast.Attribute)
        base = self.value(node.func.value if is_method else node.func, names)
        positional = self.items_in(node.args, names)
        if positional is not None and any(isinstance(item, Shape) for item, one in zip(positional, node.args)
                                          if isinstance(one, ast.Starred)) and positional:
            opened = self.open_items(positional, node) if len(positional) > 1 else positional[0]
            positional = None if opened is None else [opened]
        by_name = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, names)
            if keyword.arg is not None:
                by_name[keyword.arg] = value
            elif isinstance(value, Table) and positional is not None:
                by_name.update(value.items)
            else:
                positional = None
        if positional is None:  # which arguments it has is not known
            return None
        if isinstance(base, Code) and not is_method:
            made = self.call(base, positional, by_name, node)
            if made is not None:
                del self.escaping[held:]
            return MULTIPROCESSORS if isinstance(made, (Unknown, type(None))) and COUNTS.fullmatch(name) else made
        if isinstance(base, Unknown) and is_method and getattr(node.func.value, "id", "") in MODULES:
            base = Module(node.func.value.id)  # a name that nothing else has
        if is_method and not isinstance(base, Module):
            made = self.method_of(base, name, positional, by_name, node)
            return MULTIPROCESSORS if made is None and COUNTS.fullmatch(name) else made
        root = getattr(base, "name", name).split(".")[0]
        if COUNTS.fullmatch(name):
            return MULTIPROCESSORS
        is_known = root in MODULES or name in ANYWHERE or (isinstance(base, Unknown) and self.lookup(name, names) is None)
        return self.library(name, positional, by_name, node, names) if is_known else None

    def method_of(self, base, name, positional, by_name, node):
        first = positional[0] if positional else None
        if isinstance(base, Tensor):
            return self.method(base, name, positional, by_name, node)
        if isinstance(base, (Meta, Config)) and name == "get" and isinstance(first, str):
            made = self.of_meta(base, first, node)
            return made if made is not None or len(positional) < 2 else None
        if isinstance(base, Table) and name in ("get", "keys", "values", "items") and not by_name:
            if name == "get":
                key = key_of(first)
                return None if key is None else base.items.get(key, positional[1] if len(positional) > 1 else NONE)
            pairs = [(repr(key), value) for key, value in base.items.items()]
            if any(key[1:2] == "(" for key, _ in pairs):
                return None
            return Items([key if name == "keys" else value if name == "values" else Items([key, value]) for key, value in pairs])
        if isinstance(base, (Items, Table)) and name in CHANGING and not by_name:
            return self.changed(base, name, positional)
        if name == "bit_length" and whole(base) is not None:
            return str(whole(base).bit_length())
        if name == "copy" and isinstance(base, (Items, Table)) and not positional:
            return dataclasses.replace(base, items=base.items.copy())
        return self.numel_of(base) if isinstance(base, (Items, Shape)) and name == "numel" else None

    def changed(self, base, name, positional):
        """A method that changes a list or dict; None: it is not known what it does."""
        made, first = base.items.copy(), key_of(positional[0]) if positional and isinstance(base, Table) else None
        result, number = NONE, whole(positional[0]) if positional else None
        if isinstance(base, Table):
            if name in ("pop", "setdefault") and first is not None:
                result = made.get(first, positional[1] if len(positional) > 1 else None if name == "pop" else NONE)
                made = {key: value for key, value in made.items() if key != first} if name == "pop" else {first: result, **made}
            elif name == "update" and len(positional) == 1 and isinstance(positional[0], Table):
                made.update(positional[0].items)
            elif name == "clear":
                made = {}
            else:
                return None
        elif name in ("append", "extend") and len(positional) == 1 and (name == "append" or isinstance(positional[0], Items)):
            made += positional if name == "append" else positional[0].items
        elif name == "insert" and len(positional) == 2 and number is not None:
            made.insert(number, positional[1])
        elif name == "pop" and made and (not positional or (number is not None and -len(made) <= number < len(made))):
            result = made.pop(*([number] if positional else []))
        elif name in ("clear", "reverse") and not positional:
            made = made[::-1] if name == "reverse" else []
        else:
            return None
        self.state.put(base, "items", made)
        return result

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
            return is_of_type(first, node.args[1])
        if name == "len" and isinstance(first, (Items, Table)):
            return str(len(first.items))
        if name == "len" and isinstance(first, Tensor):
            return self.extent(first.axes, 0)
        if name in ("list", "tuple", "Size") and isinstance(first, (Items, Shape)):
            return first if isinstance(first, Shape) else Items(list(first.items), name == "list")
        if name in ("prod", "numel") and isinstance(first, (Items, Shape)):
            return self.numel_of(first)
        if name == "range" and positional and all(whole(p) is not None for p in positional) and "0" not in positional[2:]:
            found = range(*map(whole, positional))
            return Items([str(i) for i in found]) if len(found) <= ITEMS_MAX else None
        if name in ("enumerate", "zip", "reversed") and not by_name and all(isinstance(p, Items) for p in positional):
            lists = [p.items for p in positional]
            if name == "reversed":
                return Items(lists[0][::-1])
            lists = [[str(i) for i in range(len(lists[0]))], *lists] if name == "enumerate" else lists
            return Items([Items(list(each)) for each in zip(*lists)])
        if name == "bool":
            return self.truth(first, node.args[0]) if len(node.args) == 1 else None
        if name in ("TensorDescriptor", "from_tensor"):
            return self.descriptor(node, names, name == "from_tensor")
        if name == "hasattr" and len(positional) == 2 and "language" in getattr(first, "name", ""):
            return "True" if str(positional[1]).strip("'") in LANGUAGE else None
        if name == "are_deterministic_algorithms_enabled":
            return "False"  # as if nobody had asked for them
        if name == "next_power_of_2" and isinstance(first, str):
            known = whole(first)
            return str(1 << max(0, known - 1).bit_length()) if known is not None else f"2 ** ceil(log2({first}))"
        if isinstance(first, Items) and name in ("min", "max") and len(positional) == 1:
            positional = first.items
        if name in FUNCTIONS and positional and not by_name and all(isinstance(p, str) and (
                p[:1] not in "'\"" or name == "float") for p in positional):
            return self.function_call(FUNCTIONS[name], positional)
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
        """A function of the script, walked; None: it is not."""
        arguments = code.node.args
        known = [a.arg for a in arguments.posonlyargs + arguments.args]
        given = {**dict(zip(known, positional)), **by_name}
        names = Names(code.names)
        for name in [*known, *(a.arg for a in arguments.kwonlyargs)]:
            names.held[name] = given.pop(name, None) or code.defaults.get(name) or unknown(f"{name}, which is not given", node)
        is_strange = (given and arguments.kwarg is None) or (len(positional) > len(known) and arguments.vararg is None)
        if self.depth >= DEPTH_MAX or is_strange or is_generator(code.node):
            return None
        if arguments.vararg is not None:
            names.held[arguments.vararg.arg] = Items(positional[len(known):])
        if arguments.kwarg is not None:
            names.held[arguments.kwarg.arg] = Table(given)
        return self.returned(code.node, names)

    def returned(self, function, names):
        """What a function returns, with its arguments among the names."""
        is_lost_loop, self.is_lost_loop, mark = self.is_lost_loop, False, len(self.state.log)
        self.depth += 1
        try:
            if isinstance(function, ast.Lambda):
                return self.value(function.body, names)
            self.block(function.body, names)
            value = NONE
        except Leave as left:
            value = left.value
        finally:
            self.depth -= 1
            self.is_lost_loop = is_lost_loop
        self.settle(mark, names)
        return self.folded(self.pending(names), value)

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
