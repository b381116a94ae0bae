# SPDX-License-Identifier: Apache-2.0
"""The host's half of a Triton script: a function that launches a kernel, walked with tensors that know their axes and
numbers that know their expressions. Branches that the script does not decide are walked both, and what they leave
different is a condition in an expression, or unknown, with its line. None of the script is run."""
import ast

from restriction import wrapped
from script_modules import import_handlers, modules_of
from triton_expressions import STEPS_MAX, Expressions, Leave, Raised, TooLong, launches
from triton_function import last_name, make_of_device
from triton_tensors import TENSOR_ATTRIBUTES, unknown, whole
from triton_values import (NONE, Axes, Code, Config, Items, Meta, Module, Places, Shape, Table, Tensor, Type, Unknown,
                           text_of_types)


class Host(Expressions):
    """Walks one function of the script. `modules`: names of the script's module: functions, numbers, classes.
    `unsure_import`: finds the statement of a `try` that may fail."""

    def __init__(self, function, node, modules, unsure_import, has_defaults=True):
        self.function, self.node, self.modules, self.unsure_import = function, node, modules, unsure_import
        self.has_defaults = has_defaults  # parameters have them, as if the caller did not give these
        self.places = Places()
        self.launches, self.notes = [], []
        self.bools, self.integers = {}, {}
        self.met = []  # what was not known, in order: a cause for what is made of it
        self.assumed = set()  # names of tensors whose type the caller chooses
        self.steps = self.depth = 0
        names = {}
        self.parameters(node, names)
        try:
            self.block(node.body, names)
        except (Leave, Raised, TooLong):
            pass

    # The function's own parameters.

    def parameters(self, node, names):
        arguments = node.args
        plain = [*arguments.posonlyargs, *arguments.args]
        defaults = dict(zip([a.arg for a in plain][len(plain) - len(arguments.defaults):], arguments.defaults))
        defaults.update((a.arg, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults) if d is not None)
        for argument in [*plain, *arguments.kwonlyargs]:
            name = argument.arg
            if name in defaults and self.has_defaults:
                names[name] = self.value(defaults[name], {})
                if isinstance(names[name], Unknown):
                    names[name] = self.parameter(argument, node)
            else:
                names[name] = self.parameter(argument, node)
        if arguments.kwarg is not None:
            names[arguments.kwarg.arg] = Table({})
        if arguments.vararg is not None:
            names[arguments.vararg.arg] = Unknown(f"*{arguments.vararg.arg}", node.lineno)

    def parameter(self, argument, node):
        """A required one: a tensor, a number of a dim, or unknown."""
        name = argument.arg
        annotation = ast.unparse(argument.annotation) if argument.annotation is not None else ""
        asked = {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)
                 and getattr(inner.value, "id", "") == name}
        if name in ("self", "ctx", "cls") and not asked & {"shape", "stride", "numel"}:
            return Unknown(name, argument.lineno)
        if asked & TENSOR_ATTRIBUTES or "Tensor" in annotation:
            self.assumed.add(name)
            return Tensor(Axes(name), Type("dtype"))
        if annotation == "int" or (not annotation and self.is_number(name, node)):
            return name
        if annotation == "bool":
            self.bools[name] = True
            return f"{name} != 0"
        if annotation == "float":
            self.notes.append(f"{name}: the caller gives this number; it is 1.0 here")
            return "1.0"
        if "dtype" in annotation:
            self.notes.append(f"{name}: the caller gives this type; it is the problem's here")
            return Type("dtype")
        if annotation:
            return Unknown(f"{name}: {annotation}", argument.lineno)
        if not self.is_pointer(name, node):
            return Unknown(f"{name}: the caller gives it", argument.lineno)
        self.assumed.add(name)
        return Tensor(Axes(name), Type("dtype"))

    def bound_to(self, name, node):
        """The kernel's parameters that a name of the host is given to, as it is."""
        found = []
        for call in ast.walk(node):
            if launches(call, self.function.name):
                found += [to for to, given in zip(self.function.order, call.args) if getattr(given, "id", "") == name]
                found += [k.arg for k in call.keywords if getattr(k.value, "id", "") == name]
        return found

    def is_number(self, name, node):
        """Arithmetic is done with it, or the kernel takes it as a number."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.BinOp) and isinstance(inner.op, (ast.FloorDiv, ast.Mod)) and name in (
                    getattr(inner.left, "id", ""), getattr(inner.right, "id", "")):
                return True
            if isinstance(inner, ast.Call) and last_name(inner) in ("cdiv", "next_power_of_2", "range") and any(
                    getattr(a, "id", "") == name for a in inner.args):
                return True
        bound = self.bound_to(name, node)
        return bool(bound) and not any(to in self.function.pointers() for to in bound) and not any(
            to in self.function.constants for to in bound)

    def is_pointer(self, name, node):
        return any(to in self.function.pointers() for to in self.bound_to(name, node))

    # Statements.

    def block(self, body, names):
        for index, node in enumerate(body):
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise TooLong
            at = self.unsure_import(node) if isinstance(node, (ast.Try, ast.With)) else None
            if at is not None:  # a branch that the script does not decide
                self.block([*node.body[:at], either_way(node, at), *getattr(node, "finalbody", ()), *body[index + 1:]], names)
                return
            if isinstance(node, ast.If):
                self.branch(node, body[index + 1:], names)
                return
            method = getattr(self, "do_" + type(node).__name__, None)
            if method is not None:
                method(node, names)

    def branch(self, node, rest, names):
        test = self.condition(node.test, names)
        if test in ("True", "False"):
            self.learn(node.test, names, test == "True")
            self.block((node.body if test == "True" else node.orelse) + rest, names)
            return
        ways = []
        for body, holds in ((node.body, True), (node.orelse, False)):
            inner = dict(names)
            before = len(self.launches)
            try:
                self.learn(node.test, inner, holds)
                self.block(body, inner)
                ways.append((inner, None, before))
            except Leave as left:
                ways.append((inner, left, before))
            except Raised:
                ways.append(None)
        going = [way for way in ways if way is not None and way[1] is None]
        if not going:
            left = [way for way in ways if way is not None]
            if len(left) == 2:
                raise Leave(self.merged(test, left[0][1].value, left[1][1].value, node))
            raise left[0][1] if left else Raised()
        if len(going) == 2:
            for name in {*going[0][0], *going[1][0]}:
                one, other = going[0][0].get(name), going[1][0].get(name)
                names[name] = self.merged(test, one, other, node)
                if isinstance(names[name], Unknown):
                    names[name].is_named = True
        else:
            if ways[0] is None or ways[1] is None:  # the other way raises: what it asks holds from here on
                self.learn(node.test, going[0][0], ways[0] is not None)
            names.clear()
            names.update(going[0][0])
        self.block(rest, names)

    def merged(self, test, one, other, node):
        """What a name is behind a branch that the script does not decide."""
        if one is other or same_value(one, other):
            return one
        if isinstance(test, str) and isinstance(one, str) and isinstance(other, str):
            return f"{wrapped(one)} if {wrapped(test)} else {wrapped(other)}"
        if isinstance(test, str) and isinstance(one, Type) and isinstance(other, Type):
            return Type(text_of_types(one.text, other.text, wrapped(test)))
        if isinstance(one, Tensor) and isinstance(other, Tensor) and one.axes.shape is not None and \
                one.axes.shape == other.axes.shape and one.dtype == other.dtype and one.strides == other.strides:
            return one
        if isinstance(one, Items) and isinstance(other, Items) and len(one.items) == len(other.items):
            return Items([self.merged(test, a, b, node) for a, b in zip(one.items, other.items)])
        if one is None or other is None:
            return one if other is None else other  # the way that has no such name does not use it
        # A tensor that is put into shape where need be is the same to a kernel.
        if isinstance(one, Tensor) and isinstance(other, Tensor) and one.axes is other.axes and one.strides == other.strides:
            return one
        return unknown(f"'if {ast.unparse(node.test)[:60]}' decides it", node)

    def do_Assign(self, node, names):
        value = self.value(node.value, names)
        for target in node.targets:
            self.assign(target, value, names)

    def do_AnnAssign(self, node, names):
        if node.value is not None:
            self.assign(node.target, self.value(node.value, names), names)

    def do_AugAssign(self, node, names):
        binary = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        self.assign(node.target, self.value(binary, names), names)

    def do_Expr(self, node, names):
        self.value(node.value, names)

    def do_FunctionDef(self, node, names):
        names[node.name] = Code(node, names)

    def do_Return(self, node, names):
        raise Leave(self.value(node.value, names) if node.value is not None else NONE)

    def do_Raise(self, node, names):
        raise Raised

    def do_With(self, node, names):
        for item in node.items:
            self.value(item.context_expr, names)
        self.block(node.body, names)

    def do_Try(self, node, names):
        self.block(node.body, names)
        self.block([*node.orelse, *node.finalbody], names)

    def do_For(self, node, names):
        items = self.value(node.iter, names)
        for item in items.items if isinstance(items, Items) and len(items.items) <= 64 else [
                unknown(f"a loop over '{self.shown(node.iter)}'", node)]:
            self.assign(node.target, item, names)
            self.block(node.body, names)

    def do_While(self, node, names):
        self.block(node.body, names)

    def do_Assert(self, node, names):
        self.learn(node.test, names, True)

    def do_Global(self, node, names):
        pass

    def assign(self, target, value, names):
        if isinstance(target, ast.Name):
            if isinstance(value, str):
                self.places.call(value, target.id)
            elif isinstance(value, Unknown):
                value.is_named = True
            names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value, names)

    def unpack(self, target, value, names):
        stars = any(isinstance(inner, ast.Starred) for inner in target.elts)
        if isinstance(value, Shape) and not stars:  # B, T, H, K, V = *k.shape, v.shape[-1]
            found = self.parts(value, len(target.elts))
            value = value if found is None else Items(found)
        if isinstance(value, Tensor) and value.why == "" and value.axes.shape is None:
            value = unknown("a tensor's parts", target)
        items = value.items if isinstance(value, Items) else []
        star = next((i for i, inner in enumerate(target.elts) if isinstance(inner, ast.Starred)), None)
        if star is not None and isinstance(value, Shape) and value.is_whole():
            return self.unpack_open(target, value, star, names)
        if star is not None:
            end = len(items) - (len(target.elts) - star - 1)
            items = [*items[:star], Items(items[star:end]), *items[end:]] if end >= star else []
        for inner, item in zip(target.elts, items if len(items) == len(target.elts) else [
                value if isinstance(value, Unknown) else unknown("'" + ast.unparse(target) + "'", target)] * len(target.elts)):
            self.assign(inner.value if isinstance(inner, ast.Starred) else inner, item, names)

    def unpack_open(self, target, value, star, names):
        """*batch, N = x.shape"""
        count = len(target.elts)
        for index, inner in enumerate(target.elts):
            if index == star:
                self.assign(inner.value, Shape(value.axes, star, star - count + 1 or None), names)
            else:
                self.assign(inner, self.extent(value.axes, index if index < star else index - count), names)

    # Conclusions from conditions.

    def learn(self, node, names, holds):
        """An assert, or a branch that is gone: which axes are the same, how many there are."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.learn(node.operand, names, not holds)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) == holds:
            for each in node.values:
                self.learn(each, names, holds)
        elif isinstance(node, ast.Compare):
            left = node.left
            for op, right in zip(node.ops, node.comparators):
                if isinstance(op, ast.Eq if holds else ast.NotEq) and (holds or len(node.ops) == 1):
                    self.equal(left, right, names)
                left = right

    def equal(self, left_node, right_node, names):
        for node, other in ((left_node, right_node), (right_node, left_node)):
            axes = self.ranked(node, names)
            count = whole(self.value(other, names)) if axes is not None else None
            if axes is not None and count is not None:
                self.set_rank(axes, count)
                return
        left, right = self.value(left_node, names), self.value(right_node, names)
        if isinstance(left, str) and isinstance(right, str):
            self.places.same(left, right)
            return
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Shape) and isinstance(other, Items) and all(isinstance(item, str) for item in other.items):
                for a, b in zip(self.parts(one, len(other.items)) or (), other.items):
                    if isinstance(a, str):
                        self.places.same(a, b)
                return
        if isinstance(left, Items) and isinstance(right, Items) and len(left.items) == len(right.items):
            for a, b in zip(left.items, right.items):
                if isinstance(a, str) and isinstance(b, str):
                    self.places.same(a, b)
        if isinstance(left, Shape) and isinstance(right, Shape) and left.is_whole() and right.is_whole():
            self.together(left.axes, right.axes)

    def together(self, one, other):
        """Two tensors of one shape, whose axes are not known yet."""
        for index, text in other.seen.items():
            if index in one.seen:
                self.places.same(one.seen[index], text)
        one.seen.update({k: v for k, v in other.seen.items() if k not in one.seen})
        other.seen = one.seen
        one.twins = other.twins = {*getattr(one, "twins", {one}), *getattr(other, "twins", {other})}

    def set_rank(self, axes, count):
        done = super().set_rank(axes, count)
        for twin in getattr(axes, "twins", ()):
            if twin.shape is None and axes.shape is not None:
                twin.shape = list(axes.shape)
        return done

    def ranked(self, node, names):
        """The axes whose count `x.ndim`, `x.dim()` and `len(x.shape)` are."""
        if isinstance(node, ast.Attribute) and node.attr == "ndim":
            base = self.value(node.value, names)
        elif isinstance(node, ast.Call) and last_name(node) in ("dim", "ndimension") and not node.args:
            base = self.value(node.func.value, names)
        elif isinstance(node, ast.Call) and last_name(node) == "len" and isinstance(node.args[0], ast.Attribute):
            base = self.value(node.args[0].value, names) if node.args[0].attr == "shape" else None
        else:
            return None
        return base.axes if isinstance(base, Tensor) else None

    def condition(self, node, names):
        """"True", "False", an expression; None: it is not known."""
        value = self.value(node, names)
        if isinstance(value, (Unknown, Module)) and make_of_device(node) is not None:
            return str(make_of_device(node))
        if value is NONE:
            return "False"
        if isinstance(value, (Tensor, Code, Type)):
            return "True"
        if isinstance(value, (Items, Table)):
            return "True" if value.items else "False"
        if not isinstance(value, str):
            return None
        try:
            return "True" if ast.literal_eval(value) else "False"
        except (ValueError, SyntaxError):
            return value

    # Conclusions from the launch.

    def bind(self, launched):
        """{parameter of the kernel: value}, and what of it was not understood."""
        self.given, self.strange = {}, []
        names = launched.names
        for index, node in enumerate(launched.call.args):
            if isinstance(node, ast.Starred):
                items = self.value(node.value, names)
                if not isinstance(items, Items):
                    self.strange.append(f"'{self.shown(node)}'")
                    break
                order = self.function.order[len(self.given):]
                self.given.update(zip(order, items.items))
            elif len(self.given) < len(self.function.order):
                self.given[self.function.order[len(self.given)]] = self.value(node, names)
        for keyword in launched.call.keywords:
            value = self.value(keyword.value, names)
            if keyword.arg is not None:
                self.given[keyword.arg] = value
            elif isinstance(value, Table):
                self.given.update(value.items)
            else:
                self.strange.append(f"'**{self.shown(keyword.value)}'")
        return self.given

    def of_meta(self, key, node):
        if key in self.config_names:
            return key
        return self.bound_value(key, node)

    def bound_value(self, key, node):
        if key in self.config_names:
            return key
        return self.given.get(key) if key in self.given else None

    def heuristics(self, node, otherwise):
        """{constexpr: value}, where args["x"] is what the launch gives. `otherwise`: reads them where the walk of the host
        does not."""
        values = node.args[0] if node.args else node.keywords[0].value
        made = self.value(values, {})
        made = made if isinstance(made, Table) else otherwise(values)
        if not isinstance(made, Table):
            return {"": unknown(f"'{self.shown(values)}'", node)}
        return {key: self.call(code, [Config()], {}, node) if isinstance(code, Code) else
                unknown(f"'{key}' of the heuristics", node) for key, code in made.items.items()}

    def grid(self, launched):
        """Values, or one Unknown."""
        node = launched.call.func.slice
        value = self.value(node, launched.names)
        if isinstance(value, Code):
            value = self.call(value, [Meta()], {}, node)
        if isinstance(value, str):
            value = Items([value])
        return value if isinstance(value, Items) else unknown(f"'{self.shown(node)}'", node)


def either_way(node, at):
    """A `try` whose statement `at` may fail, as a branch."""
    handlers = import_handlers(node)
    test = ast.Name(f"{modules_of(node.body[at])[0][0]} is there", ast.Load())
    body = [*node.body[at:], *getattr(node, "orelse", ())]
    return ast.copy_location(ast.If(test, body, handlers[0].body), node)


def same_value(one, other):
    kinds = (str, Type, Items, Table, Unknown)
    return isinstance(one, kinds) and type(one) is type(other) and one == other


def hosts(tree, kernel):
    """The functions of a script that launch a kernel, methods among them; then those that call one of them."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    found = [node for node in functions if any(launches(inner, kernel) for inner in ast.walk(node))]
    nested = {inner for node in found for inner in ast.walk(node) if inner is not node and inner in found}
    found = [node for node in found if node not in nested] or found
    return found


def callers(tree, nodes):
    """Functions that call one of these by its name."""
    names = {node.name for node in nodes}
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node not in nodes and any(
        isinstance(inner, ast.Call) and getattr(inner.func, "id", "") in names for inner in ast.walk(node))]
