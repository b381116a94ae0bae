# SPDX-License-Identifier: Apache-2.0
"""Decides which statements of a script can change what its tuning call is given. A backward slice by names: it starts at
the names in the call, and adds the names of each statement that sets, mutates or guards one that it already has, or that
gives it another name. It knows no order, and attributes by their last name alone, so it holds rather too many statements
than too few. A statement outside of it that the walk did not follow needs no mark."""
import ast
import builtins

from script_objects import HARMLESS, OPAQUE, TEXT_METHODS

HEADS = {ast.If: "test", ast.While: "test", ast.For: "iter", ast.AsyncFor: "iter", ast.Match: "subject"}
LEAVING = (ast.Return, ast.Break, ast.Continue)  # an exception ends the script: then there is nothing to import
BUILT_IN = set(dir(builtins))
LOOPS = (ast.For, ast.AsyncFor, ast.While)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# Methods that give a part of what they are called on, or of their arguments.
PASSING = {"get", "setdefault", "pop"}
# Methods that change nothing, and functions that do though they are built in.
PURE = TEXT_METHODS | {"keys", "values", "items", "get", "copy", "join", "format", "split", "splitlines", "replace", "index",
                       "astype", "reshape", "sum", "mean", "max", "min", "tolist", "flatten", "ravel", "exists"}
CHANGING = {"next", "map", "filter", *OPAQUE}
OBJECT = {"self", "cls"}  # every statement of a method has these: their attributes are told apart instead


def name_of(node):
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def reaching(trees, entry):
    """Names of functions, and of classes with methods, that call `entry` or one another towards it."""
    bodies = [(node.name, {name_of(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)})
              for tree in trees for node in ast.walk(tree) if isinstance(node, DEFINITIONS)]
    found, before = {entry}, 0
    while len(found) > before:
        before = len(found)
        found.update(name for name, calls in bodies if calls & found)
    return found


def reaches(node, names):
    return any(isinstance(inner, ast.Call) and name_of(inner.func) in names for inner in ast.walk(node))


class Scopes:
    """The keys of a tree's names: of a function's locals with its name before them, so that two functions may have one
    each; of attributes and globals the name alone."""

    def __init__(self, trees):
        self.keys = {}  # by node
        self.known = set(BUILT_IN)  # names that hold no values of the script: built in, or modules
        self.set = set()  # globals and attributes that are given values anywhere
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    names = {alias.asname or alias.name.split(".")[0] for alias in node.names}
                    (self.known if isinstance(node, ast.Import) else self.set).update(names)
                elif isinstance(node, DEFINITIONS):
                    self.set.add(node.name)
                elif isinstance(node, (ast.Name, ast.Attribute)) and not isinstance(node.ctx, ast.Load):
                    self.set.add(name_of(node))
            self.resolve(tree, [])
        self.set -= OBJECT

    def resolve(self, node, scopes):
        if isinstance(node, ast.Name):
            self.keys[node] = self.key(node.id, scopes)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.keys[node] = self.key(node.name, scopes)
            outside = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
            for inner in outside:
                self.resolve(inner, scopes)
            within = [*scopes, (f"{node.name}@{node.lineno}:", self.locals_of(node))]
            for inner in (*self.arguments(node), *node.body):
                self.resolve(inner, within)
            return
        elif isinstance(node, ast.arg):
            self.keys[node] = self.key(node.arg, scopes)
        elif isinstance(node, ast.Lambda):
            scopes = [*scopes, (f"lambda@{node.lineno}:{node.col_offset}:", {each.arg for each in self.arguments(node)})]
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            names = {inner.id for each in node.generators for inner in ast.walk(each.target) if isinstance(inner, ast.Name)}
            scopes = [*scopes, (f"comprehension@{node.lineno}:{node.col_offset}:", names)]
        for inner in ast.iter_child_nodes(node):
            self.resolve(inner, scopes)

    @staticmethod
    def key(name, scopes):
        return next((prefix + name for prefix, names in reversed(scopes) if name in names), name)

    @staticmethod
    def arguments(node):
        arguments = node.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs,
                *filter(None, (arguments.vararg, arguments.kwarg))]

    def locals_of(self, node):
        found, outside, waiting = {each.arg for each in self.arguments(node)}, set(), list(node.body)
        while waiting:
            inner = waiting.pop()
            if isinstance(inner, DEFINITIONS):
                found.add(inner.name)
                continue
            if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load):
                found.add(inner.id)
            elif isinstance(inner, (ast.Global, ast.Nonlocal)):
                outside.update(inner.names)
            elif isinstance(inner, ast.alias):
                found.add(inner.asname or inner.name.split(".")[0])
            if not isinstance(inner, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                waiting += ast.iter_child_nodes(inner)
        return found - outside

    def names_of(self, node):
        """The keys of all names and attributes below a node."""
        found = set()
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute):
                found.add(inner.attr)
            elif isinstance(inner, (ast.Name, ast.arg)):
                found.add(self.keys[inner])
        return {key for key in found if key in self.set or ":" in key and key.rpartition(":")[2] not in OBJECT}

    def roots_of(self, node):
        """What a target belongs to: `a`, `b` and `c` of `a.b[0].c`. "": it belongs to no name."""
        found = set()
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            node = node.func if isinstance(node, ast.Call) else node.value
        name = self.keys.get(node, "")
        return found | {name} if name.rpartition(":")[2] not in OBJECT or not found else found


class Slice(Scopes):
    """Of the trees of a script and its modules. `call`: the tuning call; `given`: the parts of it that are read."""

    def __init__(self, trees, call, given, entry):
        super().__init__(trees)
        self.entry, self.call = entry, call
        self.reaching = reaching(trees, entry)
        self.functions, self.loops = {}, {}  # around each statement: the name of the function, the loop
        self.effects, self.returned = {}, {}  # names that a call of a function may change; those that it may return
        self.find_effects([node for tree in trees for node in ast.walk(tree) if isinstance(node, DEFINITIONS)])
        self.units = []  # (names that are changed, names that decide how)
        self.relevant = set().union(*map(self.names_of, given))
        for tree in trees:
            self.visit(tree.body, set(), "")
        before = -1
        while len(self.relevant) != before:
            before = len(self.relevant)
            for changed, used in self.units:
                if changed & self.relevant:
                    self.relevant |= used

    def find_effects(self, nodes):
        """Those of each function and class, with those of what it calls."""
        before, size = -1, 0
        while size != before:
            before = size
            for node in nodes:
                changed = self.effects.setdefault(node.name, set())
                returned = self.returned.setdefault(node.name, set())
                for inner in node.body:
                    changed |= self.changed(inner)
                    for each in ast.walk(inner):
                        if isinstance(each, (ast.Return, ast.Yield, ast.YieldFrom)) and each.value is not None:
                            returned |= self.aliases(each.value)
            size = sum(map(len, [*self.effects.values(), *self.returned.values()]))

    def aliases(self, node):
        """Names of the lists, dicts and objects that an expression may give, or give as a part."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.roots_of(node) - {""} - self.known
        parts = []
        if isinstance(node, (ast.Subscript, ast.Starred, ast.NamedExpr, ast.Await)):
            parts = [node.value]
        elif isinstance(node, ast.IfExp):
            parts = [node.body, node.orelse]
        elif isinstance(node, (ast.BoolOp, ast.Dict)):
            parts = node.values
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            parts = node.elts
        elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            parts = [node.value if isinstance(node, ast.DictComp) else node.elt, *(each.iter for each in node.generators)]
        elif isinstance(node, ast.Call) and name_of(node.func) != self.entry:
            name = name_of(node.func)
            own = name in self.effects or name in PASSING or isinstance(node.func, ast.Name)
            parts = [*node.args, *(keyword.value for keyword in node.keywords)] if own else []
            parts += [node.func.value] if isinstance(node.func, ast.Attribute) else []
            return set(self.returned.get(name, ())).union(*map(self.aliases, parts))
        return set().union(*map(self.aliases, parts))

    def visit(self, body, guards, function, loop=None):
        """Adds the units of statements. `guards`: names in the conditions around them."""
        for node in body:
            self.functions[node], self.loops[node] = function, loop
            if isinstance(node, DEFINITIONS):
                if node.name not in self.reaching:  # else its statements are told apart
                    self.units.append(({node.name, self.keys.get(node, node.name)}, self.names_of(node) | guards))
                else:
                    self.relevant |= guards
                self.add_parameters(node)
                self.visit(node.body, set(), node.name)
                continue
            heads = [getattr(node, HEADS[type(node)])] if type(node) in HEADS else []
            heads += [item.context_expr for item in getattr(node, "items", ())]
            within = guards.union(*map(self.names_of, heads))
            parts = [getattr(node, name) for name in ("body", "orelse", "finalbody") if getattr(node, name, None)]
            for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                self.functions[part], self.loops[part] = function, loop
                parts.append(part.body)
            for part in parts:
                self.visit(part, within, function, node if isinstance(node, LOOPS) else loop)
            if parts:
                changed = self.changed_by_head(node, heads)
                self.units.append((changed, within | changed))
            else:
                self.units.append((self.changed(node), self.names_of(node) | guards))
            self.add_aliases(node)
            self.add_way_to_call(node, heads if parts else [node], within)

    def add_way_to_call(self, node, pieces, guards):
        """Whatever guards a call that leads to the tuning call, and whatever it hands on."""
        if reaches(node, self.reaching):
            self.relevant |= guards
        for piece in pieces:
            names = self.names_of(piece)
            if names & (self.reaching - {self.entry}) and not any(inner is self.call for inner in ast.walk(piece)):
                self.relevant |= names

    def add_aliases(self, node):
        """What is done to a list by its other name is done to it."""
        pairs = [(node.target, node.iter)] if isinstance(node, (ast.For, ast.AsyncFor)) else []
        pairs += [(item.optional_vars, item.context_expr) for item in getattr(node, "items", ()) if item.optional_vars]
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            pairs += [(target, node.value) for target in getattr(node, "targets", None) or [node.target]]
        for part in ast.walk(node) if not hasattr(node, "body") else ():
            pairs += [(part.target, part.iter)] if isinstance(part, ast.comprehension) else []
        for target, value in pairs:
            self.units.append((self.aliases(value), self.names_of(target)))

    def add_parameters(self, node):
        """A default decides the parameter, and of a test, the fixture of its name."""
        if isinstance(node, ast.ClassDef):
            return
        names = self.arguments(node)
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        self.units.append(({self.keys[each] for each in names}, set().union(*map(self.names_of, defaults))))
        self.units += [({self.keys[each]}, {each.arg}) for each in names if each.arg in self.effects]

    def changed_by_head(self, node, heads):
        targets = [node.target] if isinstance(node, (ast.For, ast.AsyncFor)) else []
        targets += [item.optional_vars for item in getattr(node, "items", ()) if item.optional_vars is not None]
        targets += [inner.target for part in heads for inner in ast.walk(part) if isinstance(inner, ast.NamedExpr)]
        return set().union(*map(self.names_of, targets))

    def changed(self, node):
        """Names that a statement, with all within it, sets or may mutate. "": any name."""
        found = set()
        for inner in ast.walk(node):
            if isinstance(getattr(inner, "ctx", None), (ast.Store, ast.Del)):
                found |= self.roots_of(inner) if isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript)) else set()
            elif isinstance(inner, DEFINITIONS):
                found.add(self.keys.get(inner, inner.name))
            elif isinstance(inner, ast.alias):
                found.add(inner.asname or inner.name.split(".")[0])
            elif isinstance(inner, (ast.MatchAs, ast.MatchStar)) and inner.name:
                found.add("")
            elif isinstance(inner, ast.Call):
                found |= self.changed_by_call(inner)
        return found

    def changed_by_call(self, node):
        name = name_of(node.func)
        found = {""} if name in OPAQUE else set(self.effects.get(name, ()))
        is_pure = name in PURE if isinstance(node.func, ast.Attribute) else name in BUILT_IN and name not in CHANGING
        if is_pure or name in HARMLESS or name == self.entry:
            return found
        if isinstance(node.func, ast.Attribute):
            found |= self.roots_of(node.func.value) - {""} - self.known
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript, ast.Starred)):
                found |= self.roots_of(part) - {""} - self.known
        return found

    def matters(self, node):
        """Whether a statement that was not followed may change what is tuned, or whether it is."""
        changed = self.changed(node)
        if "" in changed or changed & self.relevant or reaches(node, self.reaching):
            return True
        kinds = {type(inner) for inner in ast.walk(node)}
        loop = self.loops.get(node)
        if kinds & {ast.Break, ast.Continue} and loop is not None and (
                self.changed(loop) & self.relevant or reaches(loop, self.reaching)):
            return True
        function = self.functions.get(node, "")
        return ast.Return in kinds and (not function or function in self.reaching or function in self.relevant)
