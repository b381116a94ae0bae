# SPDX-License-Identifier: Apache-2.0
"""What a walk of a launching function knows, and what becomes of it where the way is not known. All that may change is a
cell: a name, the items of a list or dict, a conclusion about axes. A branch that the script does not decide is walked on
both ways, each from the same cells, and joined: a cell that differs is a condition in an expression, or unknown, and a
conclusion holds if both ways have it. Code that is not followed makes unknown whatever it may change, so that a form of
Python that nobody has thought of is no wrong answer."""
import ast
import dataclasses

from restriction import wrapped
from script_modules import names_set
from triton_values import Axes, Axis, Code, Items, Table, Tensor, Type, Unknown, text_of_types

MISSING = object()
PENDING = "(pending)"  # of a function's names: ((condition, value), ...) of the ways that have returned already
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Way(Exception):
    """A way through a function that ends before the next statement."""


class Leave(Way):
    """The function returns."""

    def __init__(self, value):
        super().__init__()
        self.value = value


class Raised(Way):
    """The function raises an exception: this way is not gone."""


class Turned(Way):
    """`break` or `continue`."""

    def __init__(self, is_break):
        super().__init__()
        self.is_break = is_break


class Undecided(Exception):
    """Whether a loop goes on is not known."""


class TooLong(Exception):
    pass


def unknown(why, node):
    return Unknown(why, getattr(node, "lineno", 0))


class Names:
    """The names of a function, or of a comprehension in one. `around`: those round it, at last those of the module;
    `outside`: names that `global` and `nonlocal` have elsewhere, and whose they are."""

    def __init__(self, around=None, is_comprehension=False):
        self.around, self.held, self.outside, self.is_captured = around, {}, {}, False
        self.function = around.function if is_comprehension else self

    def find(self, name):
        """Whose the name is; None: nobody's."""
        if name in self.held:
            return self
        place = self.outside.get(name, self.around)
        return None if place is None else place.find(name)

    def module(self):
        return self if self.around is None else self.around.module()


class State:
    def __init__(self):
        self.log = []

    def put(self, owner, key, value):
        held = owner.held if isinstance(owner, Names) else owner.__dict__
        self.log.append((owner, held, key, held.get(key, MISSING)))
        held[key] = value

    def back(self, mark):
        """Puts all cells back; returns what they were: {(of whom, key): (owner, held, key, value)}."""
        found = {}
        while len(self.log) > mark:
            owner, held, key, old = self.log.pop()
            found.setdefault((id(owner), key), (owner, held, key, held.get(key, MISSING)))
            if old is MISSING:
                held.pop(key, None)
            else:
                held[key] = old
        return found

    def again(self, cells):
        for owner, _, key, value in cells.values():
            self.put(owner, key, value)

    def facts(self):
        """Conclusions that hold now."""
        cells = {(id(owner), key): (owner, held, key, held.get(key)) for owner, held, key, _ in self.log}
        return {at: cell for at, cell in cells.items() if is_fact(cell[0])}


def is_fact(owner):
    return isinstance(owner, (Axes, Axis))


class Ways:
    """Part of a Host: it has `state`."""

    def lookup(self, name, names):
        """A name's value; None: it has none."""
        place = names.find(name)
        return place.held[name] if place is not None else None

    def bind(self, name, value, names):
        place = names.outside.get(name)
        self.state.put(names if place is None else place.find(name) or place.module(), name, value)

    def fork(self, test, one, other, node, names):
        """Walks two ways, of which a condition decides. An exception says that both end."""
        mark, ends = len(self.state.log), []
        for way in (one, other):
            end = None
            try:
                way()
            except Way as caught:
                end = caught
            cells = self.state.back(mark)
            if not isinstance(end, Raised) and not (isinstance(end, Turned) and self.is_lost_loop):
                ends.append((end, cells, way is one))
        if not ends:
            raise Raised
        if len(ends) == 1:  # the condition holds, or does not, from here on
            self.state.again(ends[0][1])
            if ends[0][0] is not None:
                raise ends[0][0]
            return
        (end, cells, _), (other_end, other_cells, _) = ends
        if isinstance(end, Turned) or isinstance(other_end, Turned):
            if type(end) is type(other_end) and end.is_break == other_end.is_break:
                self.join(test, cells, other_cells, node)
                raise end
            raise Undecided
        if end is None and other_end is None:
            self.join(test, cells, other_cells, node)
        elif end is not None and other_end is not None:
            values = [self.settled(each, found, names) for each, found in ((end.value, cells), (other_end.value, other_cells))]
            self.join(test, cells, other_cells, node)
            self.state.put(names.function, PENDING, self.pending(names))
            raise Leave(self.merged(test, *values, node))
        elif end is not None:
            self.goes_on(test, end, cells, other_cells, names, node)
        else:
            opposite = None if test is None else f"not ({test})"
            self.goes_on(opposite, other_end, other_cells, cells, names, node)

    @staticmethod
    def pending(names):
        return names.function.held.get(PENDING, ())

    def settled(self, value, cells, names):
        """What a function returns on a way on which parts may have returned before."""
        now = self.pending(names)
        _, _, _, then = cells.get((id(names.function), PENDING), (None, None, None, now))
        return self.folded(then[len(now):], value)

    def folded(self, pending, value):
        for test, each, node, _ in reversed(pending):
            value = self.merged(test, each, value, node)
        return value

    def goes_on(self, test, end, left, cells, names, node):
        """One way returns: what it changed is not known on the other, but for its own names."""
        value, before, facts = self.settled(end.value, left, names), self.pending(names), self.state.facts()
        self.state.again(cells)
        for owner, _, key, _ in left.values():
            if not is_fact(owner) and (owner is not names.function or owner.is_captured):
                self.lose_cell(owner, key, unknown(f"'{self.title(node)}' decides it", node))
        then = self.pending(names)
        facts.update((at, cell) for at, cell in left.items() if is_fact(cell[0]))
        self.state.put(names.function, PENDING, (*before, (test, value, node, facts), *then[len(before):]))

    def settle(self, mark, names):
        """At the end of a function of which some ways have returned before: what is known on all of them."""
        pending, changed = self.pending(names), {}
        for owner, held, key, old in self.state.log[mark:]:
            changed.setdefault((id(owner), key), (owner, held, key, old))
        for at, (owner, held, key, old) in changed.items() if pending else ():
            if is_fact(owner):
                if any(at not in facts or facts[at][3] != held[key] for *_, facts in pending):
                    self.state.put(owner, key, old)
            elif owner is not names or names.is_captured:
                self.lose_cell(owner, key, unknown(f"'{self.title(pending[0][2])}' decides it", pending[0][2]))

    def lose_cell(self, owner, key, why):
        if key == PENDING:
            return
        if isinstance(owner, Names):
            self.state.put(owner, key, why)
        elif key in ("items", "lost"):
            self.state.put(owner, "lost", owner.lost or why)
        else:
            self.state.put(owner, "why", why)

    def join(self, test, cells, other_cells, node):
        for at in {**cells, **other_cells}:
            owner, held, key, _ = cells.get(at) or other_cells[at]
            now = held.get(key, MISSING)
            one, other = (found[at][3] if at in found else now for found in (cells, other_cells))
            if is_fact(owner):
                value = one | other if key in ("read", "strides") else one if one == other else now
            elif key == PENDING:
                now = () if now is MISSING else now
                ways = [((test, one), (None if test is None else f"not ({test})", other))]
                value = (*now, *((both(also, each), *rest) for also, way in ways[0] if way is not MISSING
                                 for each, *rest in way[len(now):]))
            elif key == "items":
                value = self.merged_items(test, one, other, node)
                if value is None:
                    self.state.put(owner, "lost", unknown(f"'{self.title(node)}' decides it", node))
                    continue
            elif key in ("lost", "why"):
                value = one or other
            else:
                value = self.merged(test, None if one is MISSING else one, None if other is MISSING else other, node)
                if isinstance(value, Unknown):
                    value.is_named = True
            if value is not MISSING:
                self.state.put(owner, key, value)

    @staticmethod
    def title(node):
        if not isinstance(node, ast.AST):
            return node.title
        word = {ast.While: "while", ast.Assert: "assert"}.get(type(node), "if")
        return f"{word} {ast.unparse(node.test)[:60]}" if hasattr(node, "test") else ast.unparse(node).split("\n")[0][:60]

    def merged_items(self, test, one, other, node):
        if isinstance(one, dict):
            return {key: self.merged(test, one[key], other[key], node) for key in one} if list(one) == list(other) else None
        return [self.merged(test, a, b, node) for a, b in zip(one, other)] if len(one) == len(other) else None

    def merged(self, test, one, other, node):
        """What a value is behind a branch that the script does not decide."""
        if one is other or same_value(one, other):
            return one
        if one is None or other is None:
            return one if other is None else other  # the way that has no such name does not use it
        if isinstance(test, str) and isinstance(one, str) and isinstance(other, str):
            return f"{wrapped(one)} if {wrapped(test)} else {wrapped(other)}"
        if isinstance(one, Type) and isinstance(other, Type):
            return Type(text_of_types(one.text, other.text, wrapped(test))) if isinstance(test, str) else Type(
                f"(left_to_write: '{self.title(node)}')")
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            is_same = one.axes is other.axes or (one.axes.shape is not None and one.axes.shape == other.axes.shape)
            if is_same and one.strides == other.strides and one.is_descriptor == other.is_descriptor and one.block == other.block:
                return dataclasses.replace(one, dtype=self.merged(test, one.dtype, other.dtype, node),
                                           why=one.why or other.why)
        if isinstance(one, Items) and isinstance(other, Items) and len(one.items) == len(other.items) and not (
                one.is_list or other.is_list or one.lost or other.lost):
            return Items(self.merged_items(test, one.items, other.items, node))
        made = unknown(f"'{self.title(node)}' decides it", node)
        self.lose_value(one, made)
        self.lose_value(other, made)
        return made

    # Code that is not followed.

    def not_followed(self, node, names):
        """A statement of a form that is not known here."""
        why = unknown(f"'{self.title(node)}'", node)
        self.lose(node, names, why)
        if any(isinstance(inner, (ast.Break, ast.Continue)) for inner in inner_nodes(node, (*FUNCTIONS, *LOOPS))) and \
                not self.is_lost_loop:
            raise Undecided
        if any(isinstance(inner, ast.Return) for inner in inner_nodes(node, FUNCTIONS)):
            self.state.put(names.function, PENDING, (*self.pending(names), (None, why, node, {})))

    def lose(self, node, names, why):
        """Whatever code may change, however often it runs, is not known any more."""
        for name in names_set(node):
            self.bind(name, why, names)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name):
                self.lose_value(self.lookup(inner.id, names), why)

    def lose_value(self, value, why, seen=None):
        """A value has come to where it may be changed, or called."""
        seen = set() if seen is None else seen
        if id(value) in seen or not isinstance(value, (Items, Table, Code)):
            return
        seen.add(id(value))
        if isinstance(value, Code):
            outer = outer_names(value.node)
            for inner in ast.walk(value.node):
                place = value.names.find(inner.id) if isinstance(inner, ast.Name) else None
                if place is not None:
                    self.lose_value(place.held[inner.id], why, seen)
                    if inner.id in outer:
                        self.state.put(place, inner.id, why)
            return
        if isinstance(value, Table) or value.is_list:
            self.state.put(value, "lost", value.lost or why)
        for inner in value.items.values() if isinstance(value, Table) else value.items:
            self.lose_value(inner, why, seen)


def both(test, other):
    return None if test is None or other is None else f"({test}) and ({other})"


def same_value(one, other):
    kinds = (str, Type, Unknown)
    if isinstance(one, Items) and isinstance(other, Items):
        return not one.is_list and not other.is_list and one == other
    return isinstance(one, kinds) and type(one) is type(other) and one == other


def inner_nodes(node, but):
    """All nodes below one, without those below nodes of some kinds, but for what follows a loop."""
    found, waiting = [], [node]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += getattr(one, "orelse", []) if isinstance(one, but) else ast.iter_child_nodes(one)
    return found


def outer_names(node):
    """Names that a function sets elsewhere."""
    return {name for inner in ast.walk(node) if isinstance(inner, (ast.Global, ast.Nonlocal)) for name in inner.names}


class Decided:
    """Stands for the `if` of a branch that no condition of the script decides."""

    def __init__(self, title, line):
        self.title, self.lineno = title, line


def as_it_is(value):
    """A value that no later change of a list or dict reaches."""
    if isinstance(value, Items):
        return value.lost or dataclasses.replace(value, items=[as_it_is(item) for item in value.items])
    if isinstance(value, Table):
        return value.lost or dataclasses.replace(value, items={key: as_it_is(item) for key, item in value.items.items()})
    return getattr(value, "lost", None) or value
