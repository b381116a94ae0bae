# SPDX-License-Identifier: Apache-2.0
"""The host's half of a Triton script: a function that launches a kernel, walked with tensors that know their axes and
numbers that know their expressions. Branches that the script does not decide are walked both, and what they leave
different is a condition in an expression, or unknown, with its line. None of the script is run."""
import ast

from script_calls import KEEPING
from script_modules import IMPORT_ERRORS, import_handlers, modules_of
from script_values import Array, DType, Function, Map, Num, Scalar, Seq
from script_values import Module as ScriptModule
from triton_expressions import ITEMS_MAX, STEPS_MAX, Expressions, launches
from triton_function import last_name, make_of_device
from triton_state import (Decided, Leave, Names, Raised, State, TooLong, Turned, Undecided, Way, Ways, as_it_is, is_fact,
                          unknown)
from triton_tensors import TENSOR_ATTRIBUTES, whole
from triton_values import NONE, Axes, Code, Config, Items, Meta, Module, Places, Shape, Table, Tensor, Type, Unknown, key_of

CATCHING = {"suppress", "raises"}  # context managers that drop exceptions; those of a script may
TURNS_MAX = 256  # of a `while`

class ModuleNames(Names):
    """The names of a module of the script, as a Host has them, made when they are asked for. `known`: those of all modules,
    by their scopes."""

    def __init__(self, scope, known, reader):
        super().__init__()
        self.scope, self.known, self.reader = scope, known, reader
        known[id(scope)] = self

    def find(self, name):
        if name not in self.held and name in self.scope:
            line = self.reader.guessed(name, self.scope)
            is_unstable = name in self.scope.module().unstable and not isinstance(self.scope[name], ScriptModule)
            self.held[name] = Unknown(f"'{name}', which functions of its module change") if is_unstable else Unknown(
                f"'{name}', which line {line} may change", line) if line else self.converted(self.scope[name])
        return self if name in self.held else None

    def converted(self, value):
        if isinstance(value, (Seq, Map)) and value.doubt:
            return Unknown(value.doubt)
        if isinstance(value, Num):
            return NONE if value.value is None else repr(value.value)
        if isinstance(value, str):
            return repr(str(value))
        if isinstance(value, Seq):
            return Items([self.converted(item) for item in value.items], is_list=True)
        if isinstance(value, Map):
            return Table({key if isinstance(key, str) else f"({key!r})": self.converted(item) for key, item in value.items.items()})
        if isinstance(value, Function) and not value.bound:
            names = self.known.get(id(value.scope)) or ModuleNames(value.scope, self.known, self.reader)
            return Code(value.node, names, {name: self.converted(item) for name, item in (value.defaults or {}).items()})
        if isinstance(value, ScriptModule):
            return Module(value.name)
        if isinstance(value, DType):
            return Type(repr(value.name))
        if isinstance(value, (Array, Scalar)):
            return Unknown("an array of the module")
        return Unknown(getattr(value, "why", "a value of the module"), getattr(value, "line", 0))


class Launched:
    """kernel[grid](...): `given`: {parameter: value}; `strange`: what of it was not understood; `facts`: what held then."""

    def __init__(self, call, given, strange, grid, facts, is_looped):
        self.call, self.given, self.strange, self.grid, self.facts, self.is_looped = call, given, strange, grid, facts, is_looped


class Host(Ways, Expressions):
    """Walks one function of the script. `reader`: of its module; `configured`: names that a config gives; `heuristics`: gives
    what @triton.heuristics decide for the values of a launch."""

    def __init__(self, function, node, reader, configured, has_defaults=True):
        self.function, self.node, self.reader, self.configured = function, node, reader, configured
        self.has_defaults = has_defaults  # parameters have them, as if the caller did not give these
        self.state = State()
        self.places = Places(self.state)
        self.launches, self.notes, self.unread = [], [], []
        self.bools, self.integers = {}, {}
        self.met = []  # what was not known, in order: a cause for what is made of it
        self.escaping = []  # lists, dicts and functions in the expression that is walked
        self.assumed = set()  # names of tensors whose type the caller chooses
        self.steps = self.depth = 0
        self.is_lost_loop = False  # a loop of which one turn is walked as if it were any
        self.module = ModuleNames(reader.scope, {}, reader)
        names = Names(self.module)
        self.parameters(node, names)
        try:
            self.block(node.body, names)
        except (Way, TooLong):
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
                names.held[name] = self.value(defaults[name], self.module)
                if isinstance(names.held[name], Unknown):
                    names.held[name] = self.parameter(argument, node)
            else:
                names.held[name] = self.parameter(argument, node)
        if arguments.kwarg is not None:
            names.held[arguments.kwarg.arg] = Table({})
        if arguments.vararg is not None:
            names.held[arguments.vararg.arg] = Unknown(f"*{arguments.vararg.arg}", node.lineno)

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
        return bool(bound) and not any(to in self.function.pointers for to in bound) and not any(
            to in self.function.constants for to in bound)

    def is_pointer(self, name, node):
        return any(to in self.function.pointers for to in self.bound_to(name, node))

    # Statements.

    def block(self, body, names):
        for node in body:
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise TooLong
            held = len(self.escaping)
            getattr(self, "do_" + type(node).__name__, self.not_followed)(node, names)
            del self.escaping[held:]

    def do_If(self, node, names):
        test = self.condition(node.test, names)

        def way(body, holds):
            self.learn(node.test, names, holds)
            self.block(body, names)
        if test in ("True", "False"):
            way(node.body if test == "True" else node.orelse, test == "True")
        else:
            self.fork(test, lambda: way(node.body, True), lambda: way(node.orelse, False), node, names)

    def do_Pass(self, node, names):
        pass

    def do_Assign(self, node, names):
        value = self.value(node.value, names)
        for target in node.targets:
            self.assign(target, value, names)

    def do_AnnAssign(self, node, names):
        if node.value is not None:
            self.assign(node.target, self.value(node.value, names), names)

    def do_AugAssign(self, node, names):
        held = self.value(node.target, names) if isinstance(node.target, ast.Name) else None
        if isinstance(held, Tensor):  # in place
            self.value(node.value, names)
            return
        binary = ast.copy_location(ast.BinOp(node.target, node.op, node.value), node)
        made = self.value(binary, names)
        if isinstance(held, (Items, Table)):  # other names of a list see it, too
            self.lose_value(held, unknown(f"'{self.shown(node)}'", node))
        self.assign(node.target, made, names)

    def do_Expr(self, node, names):
        self.value(node.value, names)

    def do_FunctionDef(self, node, names):
        made = self.code(node, names)
        for decorator in node.decorator_list[::-1]:
            if last_name(decorator) not in KEEPING:
                known = self.value(decorator, names)
                made = (self.call(known, [made], {}, node) if isinstance(known, Code) else None) or unknown(
                    f"'@{self.shown(decorator)}'", decorator)
        self.bind(node.name, made, names)

    def do_Return(self, node, names):
        raise Leave(self.value(node.value, names) if node.value is not None else NONE)

    def do_Raise(self, node, names):
        raise Raised

    def do_Break(self, node, names):
        raise Turned(True)

    def do_Continue(self, node, names):
        raise Turned(False)

    def do_Import(self, node, names):
        for alias in node.names:
            full = f"{node.module or ''}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            name = alias.asname or (alias.name if isinstance(node, ast.ImportFrom) else alias.name.split(".")[0])
            self.bind(name, Module(full if not getattr(node, "level", 0) else "." + full), names)

    do_ImportFrom = do_Import

    def do_Global(self, node, names):
        for name in node.names:
            place = names.around.find(name) if isinstance(node, ast.Nonlocal) else names.module()
            names.outside[name] = place or names.module()

    do_Nonlocal = do_Global

    def do_Delete(self, node, names):
        for target in node.targets:
            container = self.value(target.value, names) if isinstance(target, ast.Subscript) else None
            key = key_of(self.value(target.slice, names)) if isinstance(target, ast.Subscript) else None
            if isinstance(container, Table) and key in container.items:
                self.state.put(container, "items", {name: value for name, value in container.items.items() if name != key})
            else:
                self.lose(target, names, unknown(f"'{self.shown(node)}'", node))

    def do_With(self, node, names):
        is_catching = False
        for item in node.items:
            self.value(item.context_expr, names)
            maker = getattr(item.context_expr, "func", item.context_expr)
            known = self.value(maker.value if isinstance(maker, ast.Attribute) else maker, names)
            is_catching |= not isinstance(known, Module) or last_name(maker) in CATCHING
            if item.optional_vars is not None:
                self.assign(item.optional_vars, unknown(f"'{self.shown(item.context_expr)}'", node), names)
        if is_catching:
            self.do_Try(node, names)
        else:
            self.block(node.body, names)
        for item in node.items:
            self.lose(item.context_expr, names, unknown(f"'{self.shown(item.context_expr)}'", node))

    def do_Try(self, node, names):
        """The body, or as much of it as ran and a handler. A module that is surely there is imported."""
        at = self.reader.unsure_import(node)
        test, handlers = None, getattr(node, "handlers", [ast.ExceptHandler(None, None, [])])
        if at is None:
            handlers = [one for one in handlers if last_name(one.type) not in IMPORT_ERRORS]
        else:
            test = f"{modules_of(node.body[at])[0][0]} is there"
            handlers = [one for one in handlers if one in import_handlers(node)] or handlers
        decided = Decided(f"if {test}" if test else "try", node.lineno)
        why = unknown(f"'{decided.title}' decides it", node)

        def handled(rest):
            if len(rest) > 1:
                self.fork(None, lambda: handled(rest[:1]), lambda: handled(rest[1:]), decided, names)
            elif rest:
                if rest[0].name is not None:
                    self.bind(rest[0].name, why, names)
                self.block(rest[0].body, names)

        def failed():
            for statement in node.body[at or 0:]:
                self.lose(statement, names, why)
            handled(handlers)
        self.block(node.body[:at or 0], names)
        rest = [*node.body[at or 0:], *getattr(node, "orelse", ())]
        ends = None
        try:
            if handlers:
                self.fork(None, lambda: self.block(rest, names), failed, decided, names)
            else:
                self.block(rest, names)
        except (Way, Undecided) as end:
            ends = end
        self.block(getattr(node, "finalbody", ()), names)
        if ends is not None:
            raise ends

    def do_For(self, node, names):
        items, mark = self.value(node.iter, names), len(self.state.log)
        held = items.items if isinstance(items, Items) else None
        if held is not None and len(held) <= ITEMS_MAX:
            try:
                for item in held:
                    self.assign(node.target, item, names)
                    if self.turn(node.body, names):
                        return
                if items.items is held and not items.lost:
                    self.block(node.orelse, names)
                    return
            except Undecided:
                pass
            self.state.back(mark)
        self.any_turn(node, names, lambda: self.assign(node.target, unknown(f"a loop over '{self.shown(node.iter)}'", node), names))

    def do_While(self, node, names):
        mark = len(self.state.log)
        try:
            for _ in range(TURNS_MAX):
                test = self.condition(node.test, names)
                if test == "False":
                    self.block(node.orelse, names)
                    return
                if test != "True":
                    break
                if self.turn(node.body, names):
                    return
        except Undecided:
            pass
        self.state.back(mark)
        self.any_turn(node, names, lambda: None)

    def turn(self, body, names):
        """Whether the loop ends with this turn."""
        try:
            self.block(body, names)
        except Turned as end:
            return end.is_break
        return False

    def any_turn(self, node, names, begin):
        """A loop whose turns are not known: one is walked for the launches in it, from what any turn may have left."""
        why = unknown(f"'{self.title(node)}'", node)
        is_lost_loop, self.is_lost_loop = self.is_lost_loop, True

        def walk():
            begin()
            self.turn(node.body, names)
        try:
            self.lose(node, names, why)
            self.fork(None, walk, lambda: None, node, names)
            self.lose(node, names, why)
        finally:
            self.is_lost_loop = is_lost_loop
        if node.orelse:
            self.fork(None, lambda: self.block(node.orelse, names), lambda: None, node, names)

    def do_Assert(self, node, names):
        self.value(node.test, names)
        self.learn(node.test, names, True)

    def assign(self, target, value, names):
        if isinstance(target, ast.Name):
            if isinstance(value, str):
                self.places.call(value, target.id)
            elif isinstance(value, Unknown):
                value.is_named = True
            self.bind(target.id, value, names)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value, names)
        else:
            self.store(target, value, names)

    def store(self, target, value, names):
        """A part of a list, dict or object."""
        container = self.value(target.value, names)
        key = self.value(target.slice, names) if isinstance(target, ast.Subscript) else None
        why = unknown(f"'{self.shown(target)} = ...'", target)
        number, made = whole(key), None
        if isinstance(container, Tensor):
            if isinstance(target, ast.Attribute):  # .data
                self.state.put(container, "lost", why)
            return
        if isinstance(container, Table) and key_of(key) is not None:
            made = {**container.items, key_of(key): value}
        elif isinstance(container, Items) and number is not None and -len(container.items) <= number < len(container.items):
            made = list(container.items)
            made[number] = value
        if made is not None:
            self.state.put(container, "items", made)
            return
        self.lose_value(container, why)
        self.lose_value(value, why)

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
        """An assert, or a branch that is gone: which axes are the same, how many there are. Nothing else changes."""
        mark = len(self.state.log)
        self.conclude(node, names, holds)
        self.state.again({at: cell for at, cell in self.state.back(mark).items() if is_fact(cell[0])})

    def conclude(self, node, names, holds):
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.conclude(node.operand, names, not holds)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) == holds:
            for each in node.values:
                self.conclude(each, names, holds)
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
        held = len(self.escaping)
        value = self.value(node, names)
        del self.escaping[held:]
        return self.truth(value, node)

    @staticmethod
    def truth(value, node):
        """"True", "False", an expression; None: it is not known."""
        if isinstance(value, (Unknown, Module)) and make_of_device(node) is not None:
            return str(make_of_device(node))
        if value is NONE:
            return "False"
        if isinstance(value, (Tensor, Code, Type)):
            return "True"
        if isinstance(value, (Items, Table)):
            return "True" if value.items else "False"
        if not isinstance(value, str):
            return getattr(value, "truth", None)
        try:
            return "True" if ast.literal_eval(value) else "False"
        except (ValueError, SyntaxError):
            return value

    # Launches.

    def launch(self, node, names):
        """Takes down what a launch is given as it is now, and what its grid is then."""
        grid = self.value(node.func.slice, names)
        self.given, strange = {}, []
        for argument in node.args:
            value = self.value(argument.value if isinstance(argument, ast.Starred) else argument, names)
            if isinstance(argument, ast.Starred) and not isinstance(value, Items):
                strange.append(f"'{self.shown(argument)}'")
                break
            order = self.function.order[len(self.given):]
            self.given.update(zip(order, value.items if isinstance(argument, ast.Starred) else [value]))
        for keyword in node.keywords:
            value = self.value(keyword.value, names)
            if keyword.arg is not None:
                self.given[keyword.arg] = value
            elif isinstance(value, Table):
                self.given.update(value.items)
            else:
                strange.append(f"'**{self.shown(keyword.value)}'")
        self.config_names = {*self.configured, *(name for name in self.function.constants if name not in self.given)}
        heuristics = self.function.decorator("heuristics")
        if heuristics is not None:
            self.given.update(self.heuristics(heuristics))
        if isinstance(grid, Code):
            grid = self.call(grid, [Meta()], {}, node)
        grid = Items([grid]) if isinstance(grid, str) else getattr(grid, "lost", None) or grid
        if not isinstance(grid, Items):
            grid = unknown(f"'{self.shown(node.func.slice)}'", node)
        given = {name: as_it_is(value) for name, value in self.given.items()}
        self.launches.append(Launched(node, given, strange, as_it_is(grid), self.state.facts(),
                                      self.is_lost_loop or node in [one.call for one in self.launches]))
        return NONE

    def of_meta(self, base, key, node):
        """META["x"] in a grid, args["x"] in heuristics."""
        key = key_of(key)
        return key if key in self.config_names else self.given.get(key)

    def heuristics(self, node):
        """{constexpr: value}, where args["x"] is what the launch gives. What the walk of the host does not know, the reader
        of configs may find, which a library keeps under a name."""
        values = node.args[0] if node.args else node.keywords[0].value
        made = self.value(values, self.module)
        if not isinstance(made, Table):
            before, self.reader.asked = len(self.reader.unions), "heuristics"
            try:
                made = self.module.converted(self.reader.value(values, self.reader.scope))
            finally:
                self.reader.asked = "configs"
            self.notes += self.reader.unions[before:]
        if not isinstance(made, Table):
            self.unread = [f"heuristics: '{self.shown(values)}' was not understood (line {node.lineno})"]
            return {}
        return {key: (self.call(code, [Config()], {}, node) if isinstance(code, Code) else None) or
                unknown(f"'{key}' of the heuristics", node) for key, code in made.items.items()}


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
