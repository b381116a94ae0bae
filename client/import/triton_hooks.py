# SPDX-License-Identifier: Apache-2.0
"""A config's pre_hook, as far as a spec says it too: block shapes of tensor descriptors, and arguments that are zeroed
before each launch."""
import ast

from triton_function import last_name
from triton_values import factor


class Hook:
    """`blocks`: {descriptor: expressions, by the config's names}. `zeroed`: names of arguments. `strange`: a sentence if
    the hook does more."""

    def __init__(self, body, bound=None):
        self.zeroed, self.strange = [], ""
        self.bound = bound or {}  # names around it that are texts, or lists of these: of init_to_zero("y_ptr")
        rest = [node for node in body if not self.zeroes(node)]
        blocks = blocks_of(rest, {})
        self.blocks = blocks or {}
        if blocks is None:
            self.strange = "a pre_hook runs Python before each launch, which no kernel of the service does; understood " \
                "are those that zero arguments or set block shapes of descriptors"

    def names_of(self, node):
        """The texts of a list; None: it is none of these."""
        if isinstance(node, ast.Name):
            found = self.bound.get(node.id)
            return found if isinstance(found, list) else None
        found = [getattr(each, "value", None) for each in getattr(node, "elts", [None])]
        return found if all(isinstance(name, str) for name in found) else None

    def each_zeroes(self, target, names, body):
        outer, found = self.bound, []
        for name in names:
            self.bound = {**outer, getattr(target, "id", ""): name}
            found.append(all(self.zeroes(each) for each in body))
        self.bound = outer
        return all(found)

    def zeroes(self, node):
        """nargs["y"].zero_() or fill_(0), also for each of a list of names, and if it is there."""
        if isinstance(node, ast.If) and not node.orelse and is_there(node.test):
            return all(self.zeroes(each) for each in node.body)
        if isinstance(node, ast.For) and self.names_of(node.iter) is not None:
            return self.each_zeroes(node.target, self.names_of(node.iter), node.body)
        comprehension = node.value if isinstance(node, ast.Expr) else node
        if isinstance(comprehension, (ast.ListComp, ast.GeneratorExp)):
            one = comprehension.generators[0]
            names = self.names_of(one.iter)
            return len(comprehension.generators) == 1 and names is not None and all(map(is_there, one.ifs)) and \
                self.each_zeroes(one.target, names, [comprehension.elt])
        call = node.value if isinstance(node, ast.Expr) else node
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return False
        is_zero = call.func.attr == "zero_" or (call.func.attr == "fill_" and len(call.args) == 1 and getattr(
            call.args[0], "value", None) == 0)
        base = call.func.value
        key = base.slice if isinstance(base, ast.Subscript) else base.args[0] if isinstance(base, ast.Call) and \
            last_name(base) == "get" and base.args else None
        name = getattr(key, "value", None) if isinstance(key, ast.Constant) else self.bound.get(getattr(key, "id", ""))
        if not is_zero or not isinstance(name, str):
            return False
        self.zeroed.append(name)
        return True


def is_there(node):
    """Whether a test asks only if an argument is given, as in `nargs["y"] is not None`. One that is not has no buffer that
    could be zeroed."""
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.IsNot) and isinstance(
        node.left, ast.Subscript) and getattr(node.comparators[0], "value", "") is None


def blocks_of(body, names):
    found = {}
    for node in body:
        if isinstance(node, ast.If):
            inner = [blocks_of(part, dict(names)) for part in (node.body, node.orelse)]
            test = hook_text(node.test, names)
            if None in inner:
                return None
            for name in {**inner[0], **inner[1]}:
                one, other = (part.get(name, found.get(name)) for part in inner)
                if test is None or one is None or other is None:
                    return None
                found[name] = [a if a == b else f"({a} if {test} else {b})" for a, b in zip(one, other)]
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            names[node.targets[0].id] = hook_text(node.value, names)
        elif isinstance(node, ast.Assign) and is_attribute(node.targets[0], "block_shape"):
            extents = [hook_text(each, names) for each in getattr(node.value, "elts", [None])]
            target = hook_text(node.targets[0].value, names)
            if target is None or None in extents:
                return None
            found[target] = extents
        elif not isinstance(node, (ast.Return, ast.Pass)) and not is_text(node):
            return None
    return found


def is_text(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def hook_text(node, names):
    """An expression over nargs["NAME"] and nargs.get("NAME"), in the spec's language."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return str(node.slice.value)
    if isinstance(node, ast.Call) and last_name(node) == "get" and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return repr(node.value)
    if isinstance(node, ast.BinOp):
        sides = [hook_text(side, names) for side in (node.left, node.right)]
        sign = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[1:-1]
        return None if None in sides else f"{factor(sides[0])}{sign}{factor(sides[1])}"
    return None


def is_attribute(node, name):
    return isinstance(node, ast.Attribute) and node.attr == name
