# SPDX-License-Identifier: Apache-2.0
"""The calls of a script: of its own functions, classes and methods, which are walked, and of libraries, which are known
or not. A call that is not known puts the lists and dicts that it is given in doubt."""
import ast
import dataclasses
import os

from cuda_source import is_readable
from script_objects import (HARMLESS, OPAQUE, Class, Instance, Parser, Path, Super, array_method, bound_member, map_method,
                            path_method, seq_method, text_method)
from script_values import (Array, DType, File, Function, Generator, Map, Module, Num, Scope, Seq, Unknown, call_library,
                           cast, items_of, plain, snapshot, unknown_at)

DEPTH_MAX = 30
DOUBT = " may change what is tuned, and was not followed"
# Decorators of functions that leave what a call gives, or of which readers know what they mean.
KEEPING = {"lru_cache", "cache", "wraps", "no_grad", "inference_mode", "disable", "contiguous", "compile", "jit", "heuristics",
           "autotune", "libentry", "libtuner", "staticmethod", "classmethod", "property", "cached_property", "setter", "fixture",
           "parametrize", "skipif", "abstractmethod", "overload", "dataclass", "custom_fwd", "custom_bwd"}
CLASS_DECORATORS = {"dataclass", "total_ordering", "final", "runtime_checkable"}  # that leave a class, or are known
PLAIN_BASES = {"object", "ABC", "NamedTuple", "Generic", "Protocol"}
# Members that decide what an instance, an attribute of one, or a class that derives from it is.
MAKERS = {"__new__", "__getattribute__", "__setattr__", "__init_subclass__"}
BUILTIN_TYPES = {"float": "f64", "int": "i64", "bool": "bool", "complex": "complex128"}


class Return(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


@dataclasses.dataclass
class Starred(Unknown):
    """*what or **what, which was not understood."""


class FileText(str):
    """What a file holds; `path` is where."""


def is_generator(node):
    waiting = list(getattr(node, "body", ())) if isinstance(node, ast.FunctionDef) else []
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(inner, (ast.FunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(inner)
    return False


class Calls:
    """Half of a Reader."""

    def do_FunctionDef(self, node, scope):
        made = Function(node, scope.for_functions(), defaults=self.defaults_of(node, scope))
        scope.set(node.name, self.decorated(node, made, scope))

    def defaults_of(self, node, scope):
        """{parameter: value}, as they are where the function is defined."""
        arguments = node.args
        plain_ones = [*arguments.posonlyargs, *arguments.args]
        pairs = [*zip(plain_ones[len(plain_ones) - len(arguments.defaults):], arguments.defaults),
                 *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        return {one.arg: self.value(default, scope) for one, default in pairs if default is not None}

    def do_ClassDef(self, node, scope):
        methods = Scope(around=scope.for_functions())  # they see __class__, as in Python
        members = Scope(around=methods, kind="class")
        self.block(node.body, members)
        bases = [self.value(getattr(base, "value", base) if isinstance(base, ast.Subscript) else base, scope) for base in node.bases
                 if self.name_of(base) not in PLAIN_BASES]
        others = [*(d for d in node.decorator_list if self.name_of(getattr(d, "func", d)) not in CLASS_DECORATORS),
                  *(k for k in node.keywords if self.name_of(k.value) != "ABCMeta"), *(m for m in members if m in MAKERS)]
        try:
            made = Class(node, dict(members), [base if isinstance(base, Class) else Class(None, {}, []) for base in bases], methods)
        except TypeError:
            made = None
        methods["__class__"] = made
        known = made is not None and not others
        scope.set(node.name, made if known else Unknown(f"how class {node.name} is made", node.lineno))

    def do_Global(self, node, scope):
        for name in node.names:
            scope.declare(name, isinstance(node, ast.Global))

    do_Nonlocal = do_Global

    def do_Assert(self, node, scope):
        """One that is not known holds: else the script ends."""
        if self.truth(node.test, scope) is False:
            self.do_Raise(node, scope)

    def do_Return(self, node, scope):
        raise Return(self.value(node.value, scope) if node.value else Num(None))

    def do_Raise(self, node, scope):
        """What follows is not run: the names that it would have given values are those of before."""
        raise Return(Unknown("an exception", node.lineno))

    def of_Lambda(self, node, scope):
        return Function(node, scope.for_functions(), defaults=self.defaults_of(node, scope))

    def fixtures(self, node, scope):
        """pytest gives a test what functions of its parameters' names return."""
        found = {}
        for argument in node.args.args:
            function = scope.get(argument.arg)
            if isinstance(function, Function) and any(self.name_of(getattr(d, "func", d)) == "fixture"
                                                      for d in getattr(function.node, "decorator_list", ())):
                more = self.fixtures(function.node, scope)
                found[argument.arg] = self.call_function(function, [], more, node.lineno)
        return found

    def call_methods(self, node, scope):
        """Those that tune, of an object that nobody makes."""
        cls = scope.get(node.name)
        if not isinstance(cls, Class):
            return
        if cls.is_base:
            self.pass_over(node, f"line {node.lineno}: nothing that was followed makes a {node.name} or one of a class that derives "
                                 "from it, so it was read for itself")
        made = self.make_instance(cls, [], {}, node.lineno)
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and self.tunes(inner) and inner.name != "__init__":
                method = bound_member(made, inner.name)
                if isinstance(method, Function):
                    self.call_function(method, [], {}, inner.lineno)

    def unreached_call(self):
        """Takes down the first call that the walk did not reach, with the names of the module; its line, or 0."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and self.name_of(node.func) == self.entry:
                self.value(node, self.scope)
                return node.lineno
        return 0

    def of_Call(self, node, scope):
        if isinstance(node.func, ast.Attribute):
            self.value(node.func.value, scope)
        elif not isinstance(node.func, ast.Name):
            self.value(node.func, scope)
        positional = self.of_Tuple(ast.Tuple(node.args, ast.Load(), lineno=node.lineno), scope).items
        by_name, stars = {}, [p for p in positional if isinstance(p, Starred)]
        for keyword in node.keywords:
            value = self.value(keyword.value, scope)
            if keyword.arg is not None:
                by_name[keyword.arg] = value
            elif isinstance(value, Map):
                by_name.update({str(k): v for k, v in value.items.items()})
            else:
                stars.append(Starred("**" + ast.unparse(keyword.value)[:60], node.lineno))
        name = self.name_of(node.func)
        if name == self.entry:
            return self.tuning_call(node, positional, by_name, stars)
        if stars:
            return self.not_followed(node, scope)
        result = self.call(node, name, positional, by_name, scope)
        if isinstance(result, Unknown) and not isinstance(result, File):
            self.not_followed(node, scope)
        return result

    def tuning_call(self, node, positional, by_name, stars):
        """Taken down as the values are now: a script changes its params between its calls."""
        if stars:  # where those behind a star belong is not known
            first = next((i for i, p in enumerate(positional) if isinstance(p, Starred)), len(positional))
            positional = positional[:first]
            by_name["*"] = stars[0]
        self.passed_over_at.append(len(self.passed_over))
        self.calls.append((node.lineno, node, *snapshot([positional, by_name])))
        return Seq([Seq([]), Map({})])

    def not_followed(self, node, scope):
        """A call of what is not known may change the lists and dicts that it is given; those of OPAQUE, any name."""
        name = self.name_of(node.func)
        if name in OPAQUE:
            self.pass_over(node, f"line {node.lineno}: '{ast.unparse(node)[:60]}' was not followed")
        given = [*node.args, *(k.value for k in node.keywords), *([node.func.value] if isinstance(node.func, ast.Attribute) else [])]
        for inner in [part for each in given for part in ast.walk(each)] if name not in HARMLESS else ():
            value = self.again(inner, scope) if isinstance(inner, (ast.Name, ast.Attribute)) else None
            if isinstance(value, (Seq, Map)) and not value.doubt:
                value.doubt = f"line {node.lineno}: '{ast.unparse(node)[:60]}'"
                self.pass_over(node, value.doubt + DOUBT)
        return unknown_at(node)

    def decorated(self, node, made, scope):
        """A function behind its decorators."""
        for decorator in node.decorator_list[::-1]:
            name = self.name_of(getattr(decorator, "func", decorator))
            if name in KEEPING or name.endswith("autotune"):
                continue
            before, known = len(self.passed_over), self.value(decorator, scope)
            made = self.call_function(known, [made], {}, decorator.lineno) if isinstance(known, Function) else None
            is_guessed = len(self.passed_over) > before
            del self.passed_over[before:]
            if not isinstance(made, (Function, Instance)) or is_guessed:
                return Unknown(f"@{ast.unparse(decorator)[:60]} of {node.name}", decorator.lineno)
        return made

    def call(self, node, name, positional, by_name, scope):
        known = scope.get(name) if isinstance(node.func, ast.Name) else self.again(node.func, scope)
        if isinstance(node.func, ast.Attribute):
            base = self.again(node.func.value, scope)
            if isinstance(base, Instance) and isinstance(base.attributes.get(name), Function):
                return self.call_function(base.attributes[name], positional, by_name, node.lineno)
            if not isinstance(base, (Module, Instance, Class)):
                return self.method(base, name, positional, by_name, node)
        known = bound_member(known, "__call__") or known if isinstance(known, Instance) else known
        if isinstance(known, Function):
            return self.call_function(known, positional, by_name, node.lineno)
        if isinstance(known, Class):
            return self.make_instance(known, positional, by_name, node.lineno)
        if isinstance(known, DType) and (name not in BUILTIN_TYPES or name in scope):
            return cast(known.name, positional, node)
        if known is not None and not isinstance(known, (Module, DType, Starred)) and isinstance(node.func, ast.Name):
            return unknown_at(node)
        if name == "super":
            after, of = positional if len(positional) == 2 else (scope.get("__class__"), scope.get("(first)"))
            is_known = isinstance(after, Class) and isinstance(of, (Class, Instance))
            return Super(None, {}, of, after) if is_known else unknown_at(node)
        return self.library(node, name, positional, by_name, scope)

    def library(self, node, name, positional, by_name, scope):
        """A function of a module or of Python."""
        first = positional[0] if positional else None
        if name == "ArgumentParser":
            return Parser({})
        if name in ("Path", "PurePath") and isinstance(first, (str, Path)):
            return first if isinstance(first, Path) else Path(first)
        if name in ("map", "filter") and isinstance(first, Function) and len(positional) == 2:
            items = items_of(positional[1])
            made = None if items is None else [self.call_function(first, [item], {}, node.lineno) for item in items]
            if name == "filter" and made is not None:
                known = [plain(each) for each in made]
                made = None if None in known else [item for item, keep in zip(items, known) if keep]
            return unknown_at(node) if made is None else Seq(made)
        if name == "vars" and isinstance(first, Instance):
            return Map(dict(first.attributes))
        if name in ("isfile", "exists") and isinstance(first, (str, Path)):
            path = os.path.join(self.folder, first if isinstance(first, str) else first.text)
            inside = os.path.realpath(path).startswith(os.path.realpath(self.folder) + os.sep)
            return Num(os.path.isfile(path)) if inside else unknown_at(node)
        if name == "getenv" or ast.unparse(node.func) == "os.environ.get":
            return positional[1] if len(positional) > 1 else Num(None)  # as if it were not set
        if name == "open" and isinstance(first, Path):
            positional = [first.text, *positional[1:]]
        positional = [p.text if isinstance(p, Path) else p for p in positional]
        return call_library(name, positional, by_name, node, self.folder)

    def make_instance(self, cls, positional, by_name, line):
        made = Instance(cls, {})
        nearest = next((kind for kind in cls.line() if "__init__" in kind.members or self.has_fields(kind)), None)
        if nearest is not None and "__init__" not in nearest.members:
            return self.fill_fields(made, positional, by_name, line)
        init = bound_member(made, "__init__")
        if isinstance(init, Function):
            self.call_function(init, positional, by_name, line)
        return made

    def has_fields(self, cls):
        """A dataclass, or a named tuple."""
        return cls.node is not None and (any(self.name_of(getattr(d, "func", d)) == "dataclass" for d in cls.node.decorator_list)
                                         or "NamedTuple" in map(self.name_of, cls.node.bases))

    def fill_fields(self, made, positional, by_name, line):
        """Those of the ancestors come first."""
        fields = {}
        for cls in filter(self.has_fields, made.cls.line()[::-1]):
            fields.update((inner.target.id, (inner, cls)) for inner in cls.node.body if isinstance(inner, ast.AnnAssign)
                          and isinstance(inner.target, ast.Name) and "ClassVar" not in ast.unparse(inner.annotation))
        options = {name: {keyword.arg: keyword.value for keyword in inner.value.keywords} for name, (inner, _) in fields.items()
                   if isinstance(inner.value, ast.Call) and self.name_of(inner.value.func) == "field"}
        if any("InitVar" in ast.unparse(inner.annotation) or "KW_ONLY" in ast.unparse(inner.annotation)
               for inner, _ in fields.values()) or any({"init", "kw_only"} & set(given) for given in options.values()):
            return Unknown(f"how {made.cls.node.name} is made", line)
        given = {**dict(zip(fields, positional)), **{name: value for name, value in by_name.items() if name in fields}}
        for name, option in options.items():
            if name not in given and option.keys() & {"default", "default_factory"}:
                node = option.get("default") or ast.copy_location(ast.Call(option["default_factory"], [], []), fields[name][0])
                given[name] = self.value(node, fields[name][1].scope)
        made.attributes.update((name, self.named(value, name)) for name, value in given.items())
        after = bound_member(made, "__post_init__")
        if isinstance(after, Function):
            self.call_function(after, [], {}, line)
        return made

    def call_function(self, function, positional, by_name, line):
        self.depth += 10
        if self.depth > DEPTH_MAX * 10:
            self.depth -= 10
            return Unknown("a recursion", line)
        arguments = function.node.args
        scope = Scope(around=function.scope)
        positional = [*function.bound, *positional]
        scope["(first)"] = positional[0] if positional else None
        names = [a.arg for a in arguments.posonlyargs + arguments.args]
        defaults = self.defaults_of(function.node, function.scope) if function.defaults is None else function.defaults
        for name in names + [a.arg for a in arguments.kwonlyargs]:
            scope[name] = Unknown(f"'{name}' is given by the caller", line)
        for name, default in defaults.items():
            scope[name] = self.named(default, name)
        # A number without a name has that of the parameter.
        scope.update((name, self.named(value, name)) for name, value in zip(names, positional))
        if arguments.vararg is not None:
            scope[arguments.vararg.arg] = Seq(positional[len(names):])
        known = names + [a.arg for a in arguments.kwonlyargs]
        scope.update({k: self.named(v, k) for k, v in by_name.items() if k in known})
        if arguments.kwarg is not None:
            scope[arguments.kwarg.arg] = Map({k: v for k, v in by_name.items() if k not in known})
        yields = []
        scope["(yields)"] = yields
        try:
            if isinstance(function.node, ast.Lambda):
                return self.value(function.node.body, scope)
            self.block(function.node.body, scope)
            return Seq(yields) if is_generator(function.node) else Num(None)
        except Return as result:
            return Seq(yields) if is_generator(function.node) else result.value
        finally:
            self.depth -= 10

    def of_Yield(self, node, scope):
        scope["(yields)"].append(self.value(node.value, scope) if node.value is not None else Num(None))
        return Num(None)

    def of_YieldFrom(self, node, scope):
        items = items_of(self.value(node.value, scope))
        scope["(yields)"].extend(items if items is not None else [unknown_at(node)])
        return Num(None)

    def method(self, base, name, positional, by_name, node):
        made = None
        if isinstance(base, Array):
            made = array_method(base, name, positional, by_name)
        elif isinstance(base, Map):
            made = map_method(base, name, positional, by_name)
        elif isinstance(base, Seq):
            made = seq_method(base, name, positional, by_name)
        elif isinstance(base, str):
            made = text_method(base, name, positional, by_name)
        elif isinstance(base, Path):
            made = path_method(base, name, positional)
        elif isinstance(base, File) and name == "read":
            made = self.text_of(base)
        elif isinstance(base, Parser):
            made = self.parser_method(base, name, positional, by_name, node)
        elif isinstance(base, Generator):
            made = call_library(name, positional, by_name, node, self.folder)
        return unknown_at(node) if made is None else made

    def parser_method(self, parser, name, positional, by_name, node):
        if name == "add_argument":
            parser.add(positional, by_name, node)
            return Num(None)
        if name == "set_defaults":
            parser.defaults.update(by_name)
            return Num(None)
        if name in ("add_argument_group", "add_mutually_exclusive_group"):
            return parser
        if name in ("parse_args", "parse_known_args"):
            made = Instance(None, {key: self.named(value, key) for key, value in parser.defaults.items()})
            return made if name == "parse_args" else Seq([made, Seq([])])
        return None

    def text_of(self, file):
        """A file's content, if it may be read; else its path, which the import names."""
        path = os.path.join(self.folder, file.text)
        if not is_readable(path, self.folder):
            return file.text
        with open(path, encoding="utf-8", errors="replace") as opened:
            text = FileText(opened.read())
        text.path = file.text
        return text
