# SPDX-License-Identifier: Apache-2.0
"""The host's half of a Triton script: the function that launches the kernel, read with tensors that know
their shapes as expressions. What it cannot tell is None."""
import ast
import dataclasses
import re

from triton_function import last_name

MAKERS = {"empty", "zeros", "ones", "full", "randn", "rand"}
LIKE = {"empty_like", "zeros_like", "ones_like", "full_like", "clone"}
TORCH_TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "i32",
               "int64": "i64", "int8": "i8", "uint8": "u8"}
FUNCTIONS = {"cdiv": "ceil_div", "min": "min", "max": "max", "int": "int"}


@dataclasses.dataclass
class Tensor:
    shape: list  # expressions
    dtype: str = "dtype"


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
        self.walk(host.body)

    # Which names the axes of a tensor have.

    def shape_of(self, tensor):
        axes = {}
        for node in ast.walk(self.host):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
                if isinstance(target, ast.Tuple) and is_shape(value, tensor):
                    for axis, inner in enumerate(target.elts):
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
            for field in ("body", "orelse"):
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
                for inner, each in zip(target.elts, value.elts):
                    self.assign(inner, each)
        elif isinstance(target, ast.Name):
            known = self.tensor(value)
            if known is None and not isinstance(value, (ast.Lambda, ast.Tuple)):
                try:
                    known = self.expression(value)
                except Unreached:
                    known = value
            self.names[target.id] = value if known is None else known

    def tensor(self, node):
        if isinstance(node, ast.Name) and isinstance(self.names.get(node.id), Tensor):
            return self.names[node.id]
        if not isinstance(node, ast.Call):
            return None
        name, positional = last_name(node), node.args
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "contiguous" and base is not None:
            return self.tensor(base)
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

    def of_BinOp(self, node):
        text = ast.unparse(ast.BinOp(ast.Name("left"), node.op, ast.Name("right")))
        operator = text.removeprefix("left").removesuffix("right")
        return f"{factor(self.expression(node.left))}{operator}{factor(self.expression(node.right))}"

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
        axis = number(node.args[0]) % len(tensor.shape)
        return product(tensor.shape[axis + 1:])  # of a contiguous one

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

    def grid(self):
        """Expressions; Unreached."""
        node = self.call.func.slice
        if isinstance(node, ast.Name):
            node = self.names.get(node.id, node)
        if isinstance(node, ast.Lambda):
            node = node.body
        return [self.expression(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]


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
