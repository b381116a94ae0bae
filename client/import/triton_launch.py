# SPDX-License-Identifier: Apache-2.0
"""The host's half of a Triton script: the function that launches the kernel, read with tensors that know
their shapes as expressions. What it cannot tell is None."""
import ast
import copy
import dataclasses
import re

from triton_function import last_name

MAKERS = {"empty", "zeros", "ones", "full", "randn", "rand"}
LIKE = {"empty_like", "zeros_like", "ones_like", "full_like", "clone"}
TORCH_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "i32",
               "int64": "i64", "int8": "i8", "uint8": "u8"}
MULTIPROCESSORS = "multiprocessors"  # a dim: what is compiled for cannot depend on the device
FUNCTIONS = {"cdiv": "ceil_div", "min": "min", "max": "max", "int": "int"}


@dataclasses.dataclass
class Tensor:
    shape: list  # expressions
    dtype: str = "dtype"
    block: object = None  # of a tensor descriptor, the node of its block's shape


def factor(text):
    return text if re.fullmatch(r"\w+(\([^()]*\))?", text) else f"({text})"


def product(shape):
    return " * ".join(map(factor, shape)) or "1"


class Unreached(Exception):
    """An expression that the walk does not know."""


class Launch:
    """kernel[grid](...) in a function of the script."""

    def __init__(self, function, host):
        self.function = function
        self.host = host
        self.names = {}  # of the host: Tensor, an expression, or a node to be looked at when it is used
        self.call = next(node for node in ast.walk(host) if launches(node, function.name))
        for argument in host.args.args:
            self.names[argument.arg] = Tensor(self.shape_of(argument.arg))
        for argument, value in zip(reversed(host.args.args), reversed(host.args.defaults)):
            self.names[argument.arg] = value
        for argument, value in zip(host.args.kwonlyargs, host.args.kw_defaults):
            self.names[argument.arg] = value if value is not None else Tensor(self.shape_of(argument.arg))
        self.walk(host.body)

    # Which names the axes of a tensor have.

    def shape_of(self, tensor):
        axes = {}
        for node in ast.walk(self.host):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
                if isinstance(target, ast.Tuple):
                    for axis, inner in enumerate(unpacked(target, value, tensor)):
                        name = getattr(inner, "id", "_")
                        axes[axis] = f"{tensor}_{axis}" if name == "_" else name
                elif isinstance(target, ast.Name) and axis_of(value, tensor) is not None:
                    axes.setdefault(axis_of(value, tensor), target.id)
                elif isinstance(target, ast.Name) and is_method(value, tensor, "numel"):
                    axes.setdefault(0, target.id)
        for node in ast.walk(self.host):
            axis = axis_of(node, tensor)
            if axis is not None and axis >= 0:
                for each in range(axis + 1):
                    axes.setdefault(each, f"{tensor}_{each}")
        return [axes[axis] for axis in sorted(axes) if axis >= 0]

    # The host's assignments, in order.

    def walk(self, body):
        for node in body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self.assign(node.targets[0], node.value)
            if isinstance(node, ast.FunctionDef):  # def grid(meta)
                self.names[node.name] = node
                continue
            known = self.truth(node.test) if isinstance(node, ast.If) else None
            fields = {True: ("body",), False: ("orelse",), None: ("body", "orelse")}[known]
            for field in fields:
                inner = getattr(node, field, None)
                if isinstance(inner, list):
                    self.walk(inner)

    def assign(self, target, value):
        if isinstance(target, ast.Tuple):
            tensor = self.names.get(getattr(getattr(value, "value", None), "id", ""))
            if isinstance(tensor, Tensor) and last_name(value) == "shape":
                for inner, extent in zip(target.elts, tensor.shape):
                    self.names[getattr(inner, "id", "_")] = extent
            elif isinstance(value, ast.Tuple):
                self.assign_each(target, value)
        elif isinstance(target, ast.Name):
            known = self.tensor(value)
            if known is None and not isinstance(value, (ast.Lambda, ast.Tuple)):
                try:
                    known = self.expression(value)
                except Unreached:
                    known = value
            self.names[target.id] = value if known is None else known

    def assign_each(self, target, value):
        """B, T, H, D = *q.shape, v.shape[-1]"""
        targets = list(target.elts)
        for index, each in enumerate(value.elts):
            if not isinstance(each, ast.Starred):
                self.assign(targets.pop(0), each) if targets else None
                continue
            many = len(target.elts) - len(value.elts) + 1
            tensor = self.tensor(each.value.value) if is_attribute(each.value, "shape") else None
            for inner, extent in zip(targets[:many], tensor.shape if tensor else ()):
                self.names[getattr(inner, "id", "_")] = extent
            del targets[:many]

    def truth(self, node):
        """True or False where the script decides it whatever the tensors hold; else None."""
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            return self.truth_of_several(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            none = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
            if none and isinstance(node.ops[0], (ast.Is, ast.IsNot)) and self.is_none(node.left) is not None:
                return self.is_none(node.left) == isinstance(node.ops[0], ast.Is)
        if isinstance(node, ast.Name) and isinstance(self.names.get(node.id), (ast.Compare, ast.Constant, ast.BoolOp)):
            known, self.names[node.id] = self.names[node.id], None  # as in of_Name
            try:
                return self.truth(known)
            finally:
                self.names[node.id] = known
        if isinstance(node, ast.Name) and self.names.get(node.id) in ("True", "False"):
            return self.names[node.id] == "True"
        if isinstance(node, ast.Call) and last_name(node) == "isinstance" and last_name(node.args[-1]) == "Tensor":
            return self.tensor(node.args[0]) is not None
        return None

    def decision(self, node):
        """As truth, of what is no number: a define's."""
        known = self.names.get(node.id) if isinstance(node, ast.Name) else None
        node = known if isinstance(known, ast.AST) else node
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool):
            return None
        return self.truth(node)

    def truth_of_several(self, node):
        known = [self.truth(value) for value in node.values]
        decides = isinstance(node.op, ast.Or)
        if decides in known:
            return decides
        return None if None in known else not decides

    def is_none(self, node):
        """Whether an argument is None; None where the script does not say."""
        if isinstance(node, ast.IfExp):
            known = self.truth(node.test)
            return None if known is None else self.is_none(node.body if known else node.orelse)
        if isinstance(node, ast.Constant):
            return node.value is None
        if isinstance(node, ast.Name) and node.id in self.names:
            known = self.names[node.id]
            if isinstance(known, (Tensor, str)):
                return False
            if isinstance(known, (ast.Constant, ast.IfExp)):
                return self.is_none(known)
        return False if self.tensor(node) is not None else None

    def tensor(self, node):
        if isinstance(node, ast.IfExp):
            known = self.truth(node.test)
            return None if known is None else self.tensor(node.body if known else node.orelse)
        if isinstance(node, ast.Name) and isinstance(self.names.get(node.id), Tensor):
            return self.names[node.id]
        if not isinstance(node, ast.Call):
            return None
        name, positional = last_name(node), node.args
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "contiguous" and base is not None:
            return self.tensor(base)
        if name in ("view", "reshape") and base is not None and len(positional) == 2 and number(positional[0]) == -1:
            return self.rows_of(ast.unparse(base), positional[1])
        if name in ("TensorDescriptor", "from_tensor"):
            return self.descriptor(node, name == "from_tensor")
        if name in LIKE:
            return self.tensor(positional[0] if positional else base)
        if name not in MAKERS or not positional:
            return None
        sizes = positional[0].elts if isinstance(positional[0], (ast.Tuple, ast.List)) else positional
        if is_attribute(positional[0], "shape"):
            like = self.tensor(positional[0].value)
            shape = like.shape if like else None
        else:
            try:
                shape = [self.expression(size) for size in sizes]
            except Unreached:
                shape = None
        if shape is None:
            return None
        dtype = next((k.value for k in node.keywords if k.arg == "dtype"), None)
        return Tensor(shape, TORCH_TYPES.get(last_name(dtype), "dtype") if dtype is not None else "f32")

    def rows_of(self, name, columns):
        """x.view(-1, n): how many rows, a dim of its own says, and so of the columns if the script does not."""
        is_last = isinstance(columns, ast.Subscript) and is_shape(columns.value, name) and number(columns.slice) == -1
        name = re.sub(r"\W+", "_", name)
        if is_last:
            return Tensor([f"{name}_rows", f"{name}_columns"])
        try:
            return Tensor([f"{name}_rows", self.expression(columns)])
        except Unreached:
            return Tensor([f"{name}_rows", f"{name}_columns"])

    def descriptor(self, node, is_whole):
        """TensorDescriptor(base, shape, strides, block_shape) and TensorDescriptor.from_tensor(base, block_shape)."""
        order = ("tensor", "block_shape") if is_whole else ("base", "shape", "strides", "block_shape")
        given = dict(zip(order, node.args)) | {k.arg: k.value for k in node.keywords}
        base = self.tensor(given.get(order[0]))
        sizes = given.get("shape")
        if base is None or isinstance(sizes, (ast.List, ast.Tuple)):
            try:
                shape = [self.expression(size) for size in sizes.elts]
            except (Unreached, AttributeError):
                return None
            base = Tensor(shape, base.dtype if base else "dtype")
        return dataclasses.replace(base, block=given.get("block_shape"))

    # Expressions.

    def expression(self, node):
        """In the spec's language. Unreached."""
        method = getattr(self, "of_" + type(node).__name__, None)
        if method is None:
            raise Unreached(ast.unparse(node))
        return method(node)

    def of_Constant(self, node):
        if isinstance(node.value, (int, float, str)):
            return repr(node.value)
        raise Unreached(ast.unparse(node))

    def of_Name(self, node):
        known = self.names.get(node.id)
        if isinstance(known, str):
            return known
        if known is None or isinstance(known, Tensor) or isinstance(known, ast.Lambda):
            raise Unreached(node.id)
        self.names[node.id] = None  # a name that is made of itself has no end
        try:
            return self.expression(known)
        finally:
            self.names[node.id] = known

    def of_Attribute(self, node):
        if node.attr == "multi_processor_count":
            return MULTIPROCESSORS
        raise Unreached(ast.unparse(node))

    def of_BinOp(self, node):
        text = ast.unparse(ast.BinOp(ast.Name("left"), node.op, ast.Name("right")))
        operator = text.removeprefix("left").removesuffix("right")
        return f"{factor(self.expression(node.left))}{operator}{factor(self.expression(node.right))}"

    def of_IfExp(self, node):
        known = self.truth(node.test)
        if known is None:
            raise Unreached(ast.unparse(node))
        return self.expression(node.body if known else node.orelse)

    def of_UnaryOp(self, node):
        if isinstance(node.op, ast.USub):
            return f"-{factor(self.expression(node.operand))}"
        raise Unreached(ast.unparse(node))

    def of_Subscript(self, node):
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
            return node.slice.value  # META["BLOCK"]
        if is_attribute(node.value, "shape"):
            return self.axis(node.value.value, node.slice)
        raise Unreached(ast.unparse(node))

    def of_Call(self, node):
        name = last_name(node)
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in ("numel", "stride", "size") and base is not None:
            return self.measure(name, base, node)
        if name == "element_size" and base is not None:
            return "dtype_bytes"
        arguments = [self.expression(each) for each in node.args]
        if name == "next_power_of_2" and len(arguments) == 1:
            return f"2 ** ceil(log2({arguments[0]}))"
        if name in FUNCTIONS:
            return f"{FUNCTIONS[name]}({', '.join(arguments)})"
        raise Unreached(ast.unparse(node))

    def measure(self, name, base, node):
        tensor = self.tensor(base)
        if tensor is None or not tensor.shape:
            raise Unreached(ast.unparse(node))
        if name == "numel":
            return product(tensor.shape)
        if not node.args:
            raise Unreached(ast.unparse(node))
        if name == "size":
            return self.axis(base, node.args[0])
        axis = number(node.args[0])
        if axis is None:
            raise Unreached(ast.unparse(node))
        return product(tensor.shape[axis % len(tensor.shape) + 1:])  # of a contiguous one

    def axis(self, base, index):
        tensor, at = self.tensor(base), number(index)
        if tensor is None or at is None or not -len(tensor.shape) <= at < len(tensor.shape):
            raise Unreached(ast.unparse(base))
        return tensor.shape[at]

    # What the launch says.

    def bound(self):
        """Nodes by the kernel's parameter."""
        found = dict(zip(self.function.order, self.call.args))
        found.update({k.arg: k.value for k in self.call.keywords if k.arg})
        return found

    def heuristics(self, node):
        """{constexpr: node}, where args["x"] is what the launch gives."""
        bound = self.bound()

        class Given(ast.NodeTransformer):
            def visit_Subscript(self, inner):
                key = getattr(inner.slice, "value", None)
                return bound.get(key, inner) if isinstance(key, str) else self.generic_visit(inner)

        values = node.args[0] if node.args else node.keywords[0].value
        if not isinstance(values, ast.Dict):
            return {}
        return {getattr(key, "value", None): Given().visit(copy.deepcopy(each.body))
                for key, each in zip(values.keys, values.values) if isinstance(each, ast.Lambda)}

    def grid(self):
        """Expressions; Unreached."""
        node = self.call.func.slice
        if isinstance(node, ast.Name):
            node = self.names.get(node.id, node)
        if isinstance(node, ast.Lambda):
            node = node.body
        if isinstance(node, ast.FunctionDef):
            node = next((each.value for each in node.body if isinstance(each, ast.Return)), node)
        return [self.expression(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]


def blocks_of_hook(hook):
    """What a pre_hook makes the block shape of each descriptor: {name: expressions}, by the config's names. None if
    it does anything else."""
    return blocks_of(hook.body, {})


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


def number(node):
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, int) else None


def is_attribute(node, name):
    return isinstance(node, ast.Attribute) and node.attr == name


def is_shape(node, tensor):
    return is_attribute(node, "shape") and getattr(node.value, "id", "") == tensor


def unpacked(target, value, tensor):
    """The targets that take the axes of a tensor: of `a, b = x.shape` and of `a, b, c = *x.shape, y`."""
    if is_shape(value, tensor):
        return target.elts
    parts = value.elts if isinstance(value, ast.Tuple) else []
    for index, part in enumerate(parts):
        if isinstance(part, ast.Starred) and is_shape(part.value, tensor):
            return target.elts[index:len(target.elts) - (len(parts) - index - 1)]
    return []


def is_method(node, tensor, name):
    return (isinstance(node, ast.Call) and is_attribute(node.func, name)
            and getattr(node.func.value, "id", "") == tensor)


def axis_of(node, tensor):
    """Of tensor.shape[i], tensor.size(i) and tensor.stride(i)."""
    if isinstance(node, ast.Subscript) and is_shape(node.value, tensor):
        return number(node.slice)
    for name in ("size", "stride"):
        if is_method(node, tensor, name) and len(node.args) == 1:
            return number(node.args[0])
    return None


def launches(node, kernel):
    return (isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
            and getattr(node.func.value, "id", "") == kernel)


def hosts(tree, kernel):
    """The functions of a script that launch a kernel, methods among them."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
            and any(launches(inner, kernel) for inner in ast.walk(node))]
