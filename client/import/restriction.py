# SPDX-License-Identifier: Apache-2.0
"""Python functions over a config as expressions of a spec: restrictions, grids, sizes of shared memory. Locals are
put in, branches become conditions, helpers are inlined, loops over known lists are written out. What cannot be said so
is Untranslatable, with its line; a restriction is then tried on every config, if these are few."""
import ast
import itertools
import time

from script_objects import Instance
from script_values import Array, Function, Map, Module, Num, Scalar, Scope, Seq, plain

EXPRESSION_MAX = 4096  # characters, as in a spec
STEPS_MAX = 5_000
CONFIGS_MAX = 1 << 16  # that a restriction is tried on
SECONDS_MAX = 8
LETS_MAX = 24
FUNCTIONS = {"min", "max", "abs", "int", "float", "round", "floor", "ceil", "sqrt", "log2", "ceil_div", "range", "pow2"}
ALIASES = {"cdiv": "ceil_div", "fabs": "abs", "maximum": "max", "minimum": "min", "bool": "bool", "prod": "prod"}
TRUE, FALSE = "True", "False"


class Untranslatable(Exception):
    def __init__(self, node, why=""):
        text = ast.unparse(node).split("\n")[0][:80] if isinstance(node, ast.AST) else str(node)
        super().__init__(f"'{text}' was not understood" + (f": {why}" if why else ""))
        self.line = getattr(node, "lineno", 0)


class Config:
    """The dict of params that a function is given."""


def literal(value):
    if isinstance(value, str):
        if "'" in value or "\\" in value or "\n" in value:
            raise Untranslatable(repr(value))
        return "'" + value + "'"
    return repr(value)


def is_atom(text):
    """Needs no parentheses within another expression."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, (ast.Name, ast.Call, ast.List)) or (
        isinstance(node, ast.Constant) and not text.startswith("-"))


def wrapped(text):
    return text if is_atom(text) or (text.startswith("(") and is_whole(text)) else f"({text})"


def is_whole(text):
    depth = 0
    for at, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return at == len(text) - 1
    return False


def negated(text):
    return {TRUE: FALSE, FALSE: TRUE}.get(text) or f"not {wrapped(text)}"


def either(test, if_true, if_false):
    """What a condition decides, as short as it can be said of something true or false."""
    if if_true == if_false:
        return if_true
    if test in (TRUE, FALSE):
        return if_true if test == TRUE else if_false
    if if_true == TRUE:
        return test if if_false == FALSE else f"{wrapped(test)} or {wrapped(if_false)}"
    if if_false == FALSE:
        return f"{wrapped(test)} and {wrapped(if_true)}"
    if if_true == FALSE:
        return negated(test) if if_false == TRUE else f"{negated(test)} and {wrapped(if_false)}"
    if if_false == TRUE:
        return f"{negated(test)} or {wrapped(if_true)}"
    return chosen(test, if_true, if_false)


def chosen(test, if_true, if_false):
    """A value that a condition decides."""
    if isinstance(if_true, list) or isinstance(if_false, list):
        if not (isinstance(if_true, list) and isinstance(if_false, list) and len(if_true) == len(if_false)):
            raise Untranslatable(f"if {test}", "lists of different lengths")
        return [chosen(test, a, b) for a, b in zip(if_true, if_false)]
    if if_true == if_false or test == TRUE:
        return if_true
    return if_false if test == FALSE else f"{wrapped(if_true)} if {wrapped(test)} else {wrapped(if_false)}"


class Translator:
    """`params`: names that a config has. `sized` is told of each number that has a name, and gives its text."""

    def __init__(self, reader, params, sized):
        self.reader, self.params, self.sized = reader, params, sized
        self.steps = self.depth = 0

    # The whole.

    def truth(self, function):
        """An expression that is true where the function's result is."""
        return self.bounded(self.called(function, [Config()] + [None] * 8, either))

    def result(self, function):
        """The expression of a function's result; a list of these for a tuple."""
        made = self.called(function, [Config()] + [None] * 8, chosen)
        return [self.bounded(one) for one in made] if isinstance(made, list) else self.bounded(made)

    def text(self, text):
        """A restriction that is a text already: names are params, functions are the spec's."""
        try:
            body = ast.parse(text.strip(), mode="eval").body
        except SyntaxError as error:
            raise Untranslatable(text, "no expression of Python") from error
        try:
            return self.bounded(self.expression(body, {}, Scope({})))
        except Untranslatable as error:
            error.line = 0  # a line of the text is no line of the script
            raise

    @staticmethod
    def bounded(text):
        if not isinstance(text, str):
            raise Untranslatable("a function", "it returns no single value")
        if len(text) > EXPRESSION_MAX:
            raise Untranslatable(text, f"{len(text)} characters; an expression has at most {EXPRESSION_MAX}")
        return text

    def called(self, function, arguments, combine):
        node = function.node
        names = [a.arg for a in node.args.posonlyargs + node.args.args]
        required = len(names) - len(node.args.defaults)
        given = [*function.bound, *arguments]
        local = {}
        for index, name in enumerate(names):
            value = given[index] if index < len(given) else None
            if value is None and index >= required and function.defaults is not None:
                value = self.said(function.defaults[name], node)
            elif value is None and index >= required:
                value = self.expression(node.args.defaults[index - required], {}, function.scope)
            if value is None and name in self.params:
                value = name  # a function of the params by name
            if value is None:
                raise Untranslatable(node, f"'{name}' is not given")
            local[name] = value
        self.depth += 1
        if self.depth > 20:
            raise Untranslatable(node, "a recursion")
        try:
            if isinstance(node, ast.Lambda):
                return self.expression(node.body, local, function.scope)
            made = self.block(list(node.body), local, function.scope, combine)
            return FALSE if made is None else made
        finally:
            self.depth -= 1

    def block(self, body, local, scope, combine):
        """The value that these statements return; None: they return none, which is false."""
        for index, node in enumerate(body):
            self.steps += 1
            if self.steps > STEPS_MAX:
                raise Untranslatable(node, "too long to follow")
            rest = body[index + 1:]
            if isinstance(node, ast.Return):
                return FALSE if node.value is None else self.expression(node.value, local, scope)
            if isinstance(node, ast.If):
                test = self.condition(node.test, local, scope)
                if test in (TRUE, FALSE):
                    return self.block((node.body if test == TRUE else node.orelse) + rest, local, scope, combine)
                branches = [self.block(part + rest, dict(local), scope, combine) for part in (node.body, node.orelse)]
                return combine(test, *(FALSE if branch is None else branch for branch in branches))
            if isinstance(node, ast.For):
                return self.block(self.turns(node, local, scope) + rest, local, scope, combine)
            self.statement(node, local, scope)
        return None

    def turns(self, node, local, scope):
        """The body of a loop once for each value of a list."""
        values = self.expression(node.iter, local, scope)
        if not isinstance(values, list) or any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(node)):
            raise Untranslatable(node.iter, "a loop over what is not known")
        return [part for value in values for part in (Bind(node.target, value), *node.body)] + node.orelse

    def statement(self, node, local, scope):
        if isinstance(node, Bind):
            self.assign(node.target, node.value, local)
        elif isinstance(node, ast.Assign):
            value = self.expression(node.value, local, scope)
            for target in node.targets:
                self.assign(target, value, local)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self.assign(node.target, self.expression(node.value, local, scope), local)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            binary = ast.copy_location(ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value), node)
            local[node.target.id] = self.expression(ast.fix_missing_locations(binary), local, scope)
        elif isinstance(node, ast.FunctionDef):
            if any(isinstance(inner, ast.Name) and inner.id in local for inner in ast.walk(node)):
                raise Untranslatable(node, "it has names of the function round it")
            local[node.name] = Function(node, scope)
        elif not (isinstance(node, (ast.Pass, ast.Import, ast.ImportFrom)) or is_talk(node)):
            raise Untranslatable(node)

    def assign(self, target, value, local):
        if isinstance(target, ast.Name):
            local[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, list) and len(value) == len(target.elts):
            for inner, one in zip(target.elts, value):
                self.assign(inner, one, local)
        else:
            raise Untranslatable(target)

    # Expressions: a text, or a list of these.

    def condition(self, node, local, scope):
        made = self.expression(node, local, scope)
        if isinstance(made, list):
            return TRUE if made else FALSE
        if not isinstance(made, str):
            raise Untranslatable(node)
        try:
            known = ast.literal_eval(made)
            return TRUE if known else FALSE
        except (ValueError, SyntaxError):
            return made

    def expression(self, node, local, scope):
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise Untranslatable(node, "too long to follow")
        method = getattr(self, "of_" + type(node).__name__, None)
        if method is None:
            return self.of_value(node, local, scope)
        return method(node, local, scope)

    def of_value(self, node, local, scope):
        """What the script's values make of it, which are none of the config's."""
        used = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        if used & set(local):
            raise Untranslatable(node)
        return self.said(self.reader.value(node, Scope(around=scope)), node)

    def said(self, value, node):
        if isinstance(value, Scalar):
            value = value.num
        if isinstance(value, Num):
            if value.value is None:
                raise Untranslatable(node, "None")
            return self.sized(value) if value.text else literal(value.value)
        if isinstance(value, str):
            return literal(value)
        if isinstance(value, Seq):
            return [self.said(item, node) for item in value.items]
        if isinstance(value, Map):
            return [literal(key) for key in value.items]
        raise Untranslatable(node)

    def of_Constant(self, node, local, scope):
        if node.value is None:
            return FALSE
        return literal(node.value)

    def of_Name(self, node, local, scope):
        if node.id in local:
            return local[node.id]
        if node.id in scope:
            return self.said(scope[node.id], node)
        if node.id in self.params:
            return node.id
        raise Untranslatable(node, "the name is not known")

    def of_Tuple(self, node, local, scope):
        items = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                made = self.expression(item.value, local, scope)
                if not isinstance(made, list):
                    raise Untranslatable(item)
                items += made
            else:
                items.append(self.expression(item, local, scope))
        return items

    of_List = of_Tuple
    of_Set = of_Tuple

    def of_Subscript(self, node, local, scope):
        base = local.get(getattr(node.value, "id", None))
        if isinstance(base, Config):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else self.key(node.slice, local, scope)
            if key not in self.params:
                raise Untranslatable(node, f"no param is called {key!r}")
            return key
        items = base if isinstance(base, list) else None
        if items is None and isinstance(node.slice, ast.Constant) and isinstance(node.value, (ast.Name, ast.Call)):
            try:
                made = self.expression(node.value, local, scope)
                items = made if isinstance(made, list) else None
            except Untranslatable:
                items = None
        index = getattr(node.slice, "value", None)
        if items is not None and isinstance(index, int) and -len(items) <= index < len(items):
            return items[index]
        return self.of_value(node, local, scope)

    def key(self, node, local, scope):
        made = self.expression(node, local, scope)
        return made[1:-1] if isinstance(made, str) and made[:1] == "'" else None

    def of_Attribute(self, node, local, scope):
        base = local.get(getattr(node.value, "id", None))
        if isinstance(base, (Instance, Array)):
            return self.said(self.reader.value(node, Scope({node.value.id: base}, scope)), node)
        return self.of_value(node, local, scope)

    def of_BoolOp(self, node, local, scope):
        is_and = isinstance(node.op, ast.And)
        parts = [self.condition(value, local, scope) for value in node.values]
        if (FALSE if is_and else TRUE) in parts:
            return FALSE if is_and else TRUE
        parts = [part for part in parts if part not in (TRUE, FALSE)]
        return (" and " if is_and else " or ").join(map(wrapped, parts)) or (TRUE if is_and else FALSE)

    def of_UnaryOp(self, node, local, scope):
        if isinstance(node.op, ast.Not):
            return negated(self.condition(node.operand, local, scope))
        inner = self.one(node.operand, local, scope)
        if isinstance(node.op, ast.Invert):
            return f"-{wrapped(inner)} - 1"
        return ("-" if isinstance(node.op, ast.USub) else "") + wrapped(inner)

    def one(self, node, local, scope):
        made = self.expression(node, local, scope)
        if not isinstance(made, str):
            raise Untranslatable(node)
        return made

    def of_BinOp(self, node, local, scope):
        left, right = self.expression(node.left, local, scope), self.expression(node.right, local, scope)
        if isinstance(left, list) and isinstance(right, list) and isinstance(node.op, ast.Add):
            return left + right
        if not isinstance(left, str) or not isinstance(right, str) or isinstance(node.op, ast.MatMult):
            raise Untranslatable(node)
        if "'" in (left[:1], right[:1]):
            raise Untranslatable(node, "a text is made")
        sign = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[1:-1]
        return f"{wrapped(left)}{sign}{wrapped(right)}"

    def of_Compare(self, node, local, scope):
        parts, left = [], self.expression(node.left, local, scope)
        for op, right_node in zip(node.ops, node.comparators):
            right = self.expression(right_node, local, scope)
            sign = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.In: "in",
                    ast.NotIn: "not in", ast.Is: "==", ast.IsNot: "!="}[type(op)]
            if isinstance(op, (ast.Is, ast.IsNot)) and FALSE in (left, right) and not isinstance(left, Config):
                raise Untranslatable(node)
            if isinstance(op, (ast.In, ast.NotIn)) and not isinstance(right, list):
                raise Untranslatable(node)
            if isinstance(left, list) or (isinstance(right, list) and sign not in ("in", "not in")):
                parts.append(self.same_lists(left, right, sign, node))
            elif not isinstance(left, str):
                raise Untranslatable(node)
            else:
                shown = f"[{', '.join(right)}]" if isinstance(right, list) and all(
                    isinstance(item, str) for item in right) else right
                if not isinstance(shown, str):
                    raise Untranslatable(node)
                parts.append(f"{wrapped(left)} {sign} {shown if shown[:1] == '[' else wrapped(shown)}")
            left = right
        return parts[0] if len(parts) == 1 else " and ".join(map(wrapped, parts))

    def same_lists(self, left, right, sign, node):
        """(p["a"], p["b"]) == (1, 2), and the like with `in`."""
        if not isinstance(left, list) or not isinstance(right, list):
            raise Untranslatable(node)
        if sign in ("in", "not in"):
            found = [self.same_lists(left, item, "==", node) for item in right]
            text = " or ".join(map(wrapped, found)) or FALSE
            return text if sign == "in" else negated(text)
        if sign not in ("==", "!=") or len(left) != len(right):
            raise Untranslatable(node)
        text = " and ".join(f"{wrapped(a)} == {wrapped(b)}" for a, b in zip(left, right)) or TRUE
        return text if sign == "==" else negated(text)

    def of_IfExp(self, node, local, scope):
        test = self.condition(node.test, local, scope)
        if test in (TRUE, FALSE):
            return self.expression(node.body if test == TRUE else node.orelse, local, scope)
        return chosen(test, self.expression(node.body, local, scope), self.expression(node.orelse, local, scope))

    def of_ListComp(self, node, local, scope):
        results, inner = [], dict(local)

        def go(level):
            if level == len(node.generators):
                results.append(self.expression(node.elt, inner, scope))
                return
            generator = node.generators[level]
            values = self.expression(generator.iter, inner, scope)
            if not isinstance(values, list):
                raise Untranslatable(generator.iter)
            for value in values:
                self.assign(generator.target, value, inner)
                tests = [self.condition(test, inner, scope) for test in generator.ifs]
                if any(test not in (TRUE, FALSE) for test in tests):
                    raise Untranslatable(node, "a condition of a comprehension")
                if FALSE not in tests:
                    go(level + 1)
        go(0)
        return results

    of_GeneratorExp = of_ListComp
    of_SetComp = of_ListComp

    def of_Call(self, node, local, scope):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        base = local.get(getattr(getattr(node.func, "value", None), "id", None))
        if isinstance(base, Config):
            return self.of_config(node, name, local, scope)
        function = local.get(name) if isinstance(node.func, ast.Name) else None
        if not isinstance(function, Function):
            holder = scope.get(name) if isinstance(node.func, ast.Name) else self.reader.value(node.func, Scope(around=scope))
            function = holder if isinstance(holder, Function) else None
        if function is not None:
            return self.called(function, self.arguments(function, node, local, scope), chosen)
        if node.keywords:
            return self.of_value(node, local, scope)
        is_module = isinstance(node.func, ast.Name) or isinstance(self.reader.value(node.func.value, Scope(around=scope)), Module)
        if not is_module or (isinstance(node.func, ast.Name) and name in scope and not isinstance(scope[name], Module)):
            return self.of_value(node, local, scope)
        return self.library(ALIASES.get(name, name), node, local, scope)

    def arguments(self, function, node, local, scope):
        made = self.of_Tuple(ast.Tuple(node.args, ast.Load()), local, scope) if node.args else []
        # A config that is handed on is none of an expression's.
        names = [a.arg for a in function.node.args.args][len(function.bound):]
        for keyword in node.keywords:
            if keyword.arg not in names:
                raise Untranslatable(node)
            made += [None] * (names.index(keyword.arg) + 1 - len(made))
            made[names.index(keyword.arg)] = self.expression(keyword.value, local, scope)
        return made

    def of_config(self, node, name, local, scope):
        if name == "get" and node.args:
            key = self.key(node.args[0], local, scope)
            if key in self.params:
                return key
            return self.expression(node.args[1], local, scope) if len(node.args) > 1 else FALSE
        if name == "keys":
            return [literal(key) for key in self.params]
        if name == "values":
            return list(self.params)
        if name == "items":
            return [[literal(key), key] for key in self.params]
        raise Untranslatable(node)

    def library(self, name, node, local, scope):
        values = self.of_Tuple(ast.Tuple(node.args, ast.Load()), local, scope)
        items = values[0] if len(values) == 1 and isinstance(values[0], list) else None
        if name in ("all", "any") and items is not None:
            is_all = name == "all"
            kept = [item for item in items if item != (TRUE if is_all else FALSE)]
            if (FALSE if is_all else TRUE) in kept:
                return FALSE if is_all else TRUE
            return (" and " if is_all else " or ").join(map(wrapped, kept)) or (TRUE if is_all else FALSE)
        if name in ("sum", "prod") and items is not None:
            return (" + " if name == "sum" else " * ").join(map(wrapped, items)) or ("0" if name == "sum" else "1")
        if name == "len" and items is not None:
            return str(len(items))
        if name in ("list", "tuple", "set", "sorted") and items is not None:
            return items
        if name == "zip" and all(isinstance(value, list) for value in values):
            return [list(each) for each in zip(*values)]
        if name == "range":
            try:
                return [str(i) for i in itertools.islice(range(*map(int, values)), STEPS_MAX)]
            except (ValueError, TypeError):
                raise Untranslatable(node) from None
        if name == "bool" and len(values) == 1:
            return f"{wrapped(values[0])} != 0" if isinstance(values[0], str) else self.of_value(node, local, scope)
        values = items if items is not None and name in ("min", "max") else values
        if name not in FUNCTIONS or not all(isinstance(value, str) for value in values) or (
                name == "round" and len(values) > 1):
            return self.of_value(node, local, scope)
        if name == "int" and len(values) == 1 and values[0][:1] == "'":
            raise Untranslatable(node)
        return f"{name}({', '.join(values)})"


class Bind(ast.stmt):
    """A loop's name with one of its values."""
    _fields = ()

    def __init__(self, target, value):
        super().__init__()
        self.target, self.value = target, value
        self.lineno = target.lineno


def is_talk(node):
    """A docstring, a print."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) or (
        isinstance(value, ast.Call) and getattr(value.func, "id", getattr(value.func, "attr", "")) in (
            "print", "debug", "info", "warning"))


def allowed_configs(params, is_allowed):
    """Numbers of the configs that a restriction allows, in the order of their product; None: it is not known, or
    there are too many to try."""
    count = 1
    for values in params.values():
        count *= len(values)
    if count > CONFIGS_MAX:
        return None
    began, allowed = time.monotonic(), []
    for number, values in enumerate(itertools.product(*params.values())):
        known = is_allowed(dict(zip(params, values)))
        if known is None or time.monotonic() - began > SECONDS_MAX:
            return None
        if known:
            allowed.append(number)
    return allowed


def table(params, allowed, prefix):
    """(lets, expression) that hold for the configs of these numbers alone; None: too many to say."""
    lets, number = [], "0"
    for name, values in params.items():
        terms = [f"({index} if {name} == {literal(value)} else 0)" for index, value in enumerate(values) if index]
        lets.append((f"{prefix}_{name}_at", " + ".join(terms) or "0"))
        number = f"{prefix}_{name}_at" if number == "0" else f"({number}) * {len(values)} + {prefix}_{name}_at"
    lets.append((f"{prefix}_number", number))
    parts, piece = [], []
    runs = ranges_of(allowed)
    for first, last in runs:
        piece.append(f"{prefix}_number == {first}" if first == last else
                     f"({first} <= {prefix}_number and {prefix}_number <= {last})")
        if sum(map(len, piece)) + 4 * len(piece) > EXPRESSION_MAX - 200:
            parts.append(piece)
            piece = []
    parts.append(piece)
    if len(parts) > LETS_MAX or any(len(text) > EXPRESSION_MAX for _, text in lets):
        return None
    if len(parts) == 1:
        return lets, " or ".join(parts[0]) or FALSE
    names = []
    for index, each in enumerate(parts):
        names.append(f"{prefix}_part_{index}")
        lets.append((names[-1], " or ".join(each) or FALSE))
    return lets, " or ".join(names)


def ranges_of(numbers):
    """[(first, last), ...] of ascending numbers."""
    found = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def tried(reader, function, config):
    """True or False of a function of the script, called with a config; None: not known."""
    if function.real is not None:
        try:
            return bool(function.real(dict(config)))
        except ZeroDivisionError:
            return True  # as Kernel Tuner has it
        except Exception:  # a restriction of a script may do anything
            return None
    reader.steps = 0
    values = {name: value if isinstance(value, str) else Num(value) for name, value in config.items()}
    passed_over = len(reader.passed_over)
    made = reader.call_function(function, [Map(values)], {}, getattr(function.node, "lineno", 0))
    if len(reader.passed_over) > passed_over:  # a branch was guessed
        del reader.passed_over[passed_over:]
        return None
    known = plain(made)
    return bool(known) if known is not None or isinstance(made, Num) else None
