# SPDX-License-Identifier: Apache-2.0
"""What a launching function's values are to an import: tensors whose axes have names or none, numbers as expressions in
the spec's language, types. An axis that nobody has named yet stands as `axis__7__` in an expression, and what a stride
is as `stride__3__`: both are put in at the end, when asserts and later lines have said which axes are the same and how
many a tensor has."""
import ast
import dataclasses
import re

from restriction import is_atom

TORCH_TYPES = {"float16": "f16", "half": "f16", "bfloat16": "bf16", "float32": "f32", "float": "f32", "float64": "f64",
               "double": "f64", "int32": "i32", "int": "i32", "int64": "i64", "long": "i64", "int16": "i16",
               "short": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
               "bool": "bool", "float8_e4m3fn": "e4m3"}
TRITON_TYPES = {"f16": "tl.float16", "bf16": "tl.bfloat16", "f32": "tl.float32", "f64": "tl.float64", "i32": "tl.int32",
                "i64": "tl.int64", "i16": "tl.int16", "i8": "tl.int8", "u8": "tl.uint8", "u16": "tl.uint16",
                "u32": "tl.uint32", "u64": "tl.uint64", "bool": "tl.int1", "e4m3": "tl.float8e4nv"}
BYTES = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2, "i16": 2, "u16": 2}
PLACE = re.compile(r"\b(axis|stride)__(\d+)__")


def factor(text):
    return text if is_atom(text) else f"({text})"


def product(shape):
    shape = [extent for extent in shape if extent != "1"]
    return " * ".join(map(factor, shape)) or "1"


class Known:
    """A value that is no number: None, a type."""


class NoneValue(Known):
    pass


NONE = NoneValue()


@dataclasses.dataclass
class Unknown:
    why: str
    line: int = 0
    is_named: bool = False  # a name of the function stands for it
    truth: object = None  # "True" or "False", if that is known


@dataclasses.dataclass
class Type:
    """Of elements: an expression that gives the spec's name, such as "dtype" or "'f32'"."""
    text: str

    def spec(self):
        """As `dtype:` of a buffer has it."""
        plain = re.fullmatch(r"'(\w+)'", self.text)
        return plain.group(1) if plain else self.text

    def triton(self):
        """As the value of a define."""
        text = self.text
        if "dtype" in re.sub(r"'\w*'", "", text) and text == "dtype":
            text = "'bf16' if dtype == 'bf16' else 'f16' if dtype == 'f16' else 'f32'"
        # Texts in comparisons keep the spec's names.
        return re.sub(r"(?<!== )(?<!!= )'(\w+)'", lambda m: f"'{TRITON_TYPES.get(m[1], m[1])}'", text)


@dataclasses.dataclass
class Items:
    """A tuple or a list. A change has another list of items."""
    items: list
    is_list: bool = False
    lost: object = None  # Unknown: what may have changed it


@dataclasses.dataclass
class Table:
    """A dict, likewise."""
    items: dict
    lost: object = None


@dataclasses.dataclass
class Code:
    """A function or a lambda, with the names around it and the values of its defaults."""
    node: object
    names: object
    defaults: dict


@dataclasses.dataclass
class Module:
    name: str


class Meta:
    """What a grid function is given: the config's names, and what the launch gives."""


class Config:
    """A bound launch, as heuristics see it."""


class Axes:
    """The axes of a tensor; several tensors may have them together, as those of torch.empty_like."""

    def __init__(self, name, shape=None):
        self.name = name
        self.shape = shape  # expressions; None: how many there are is not known yet
        self.seen = {}  # names of unknown ones: by index, also from behind
        self.read = self.strides = frozenset()  # indices that were asked for
        self.twins = frozenset()  # tensors of the same shape
        self.count = None  # all elements, where only these were asked for
        self.flat = None  # rows and columns, where these were asked for
        self.parts = None  # a Shape, if they are made of another tensor's


@dataclasses.dataclass
class Tensor:
    axes: Axes
    dtype: Type
    why: str = ""  # it cannot be a buffer
    memory: object = None  # the axes of what it is a part of, with its strides
    strides: object = None  # expressions, or Unknown, if they are not those of `memory`
    block: object = None  # of a descriptor: expressions, or None
    is_descriptor: bool = False
    note: str = ""
    lost: object = None


@dataclasses.dataclass
class Shape:
    """tensor.shape of unknown length, or a part of it, and what stands before and behind it."""
    axes: Axes
    start: int = 0
    end: object = None
    behind: tuple = ()
    before: tuple = ()

    def is_whole(self):
        return self.start == 0 and self.end is None and not self.behind and not self.before

    def around(self, items):
        """What this is once the tensor has these axes."""
        return [*self.before, *items[self.start:self.end], *self.behind]

    def rank(self, count):
        """How many axes the tensor has if this part and what is around it are so many; None: that is not said."""
        inner = count - len(self.before) - len(self.behind)
        if self.start < 0 or (self.end or 0) > 0 or inner < 0:
            return None
        return self.start + inner - (self.end or 0)


class Axis:
    """One number that is not known by its expression."""

    def __init__(self, number, name):
        self.number, self.name, self.value = number, name, None


class Places:
    """The axes and strides that stand in expressions."""

    def __init__(self, state):
        self.axes, self.strides, self.state = [], [], state

    def axis(self, name):
        self.axes.append(Axis(len(self.axes), name))
        return f"axis__{len(self.axes) - 1}__"

    def stride(self, axes, index):
        self.strides.append((axes, index))
        return f"stride__{len(self.strides) - 1}__"

    def find(self, text):
        """The axis that an expression is; None: it is more than one, or none. What the axis is known to be is followed."""
        while True:
            match = re.fullmatch(r"axis__(\d+)__", text)
            if match is None:
                return None, text
            axis = self.axes[int(match[1])]
            if axis.value is None:
                return axis, text
            text = axis.value

    def same(self, one, other):
        """Says that two expressions have one value. False: neither can be put in the other's place."""
        (first, one), (second, other) = self.find(one), self.find(other)
        if one == other:
            return True
        if first is None and second is None:
            return False
        if second is None or (first is not None and second.number < first.number):
            first, one, second, other = second, other, first, one
            if second is None:
                return False
        if f"axis__{second.number}__" in self.inserted(one):
            return False
        self.state.put(second, "value", one)
        return True

    def call(self, text, name):
        """Gives an axis a name that the script has for it."""
        axis, _ = self.find(text)
        if axis is not None and (axis.name.startswith("(") or name == axis.name):
            axis.name = name

    def inserted(self, text):
        """With axes that are known to be others in their place."""
        def put(match):
            if match[1] == "stride":
                return match[0]
            value = self.axes[int(match[2])].value
            return match[0] if value is None else factor(self.inserted(value))
        whole = re.fullmatch(r"axis__(\d+)__", text)
        if whole and self.axes[int(whole[1])].value is not None:
            return self.inserted(self.axes[int(whole[1])].value)
        return PLACE.sub(put, text)


def text_of_types(one, other, test):
    """A type that a condition decides."""
    return one if one == other else f"({one} if {test} else {other})"


def key_of(text):
    """How a Table has a key; None: it is not known."""
    try:
        known = ast.literal_eval(text) if isinstance(text, str) else None
    except (ValueError, SyntaxError):
        return None
    return known if isinstance(known, str) else None if known is None else f"({known + 0!r})"


def is_boolean(text):
    """Whether an expression is true or false, not a number of which that is asked."""
    try:
        node = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    if isinstance(node, ast.BoolOp):
        return all(is_boolean(ast.unparse(each)) for each in node.values)
    return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, bool))


def is_of_type(value, node):
    """isinstance(value, ...); None: it is not known."""
    kinds = {getattr(each, "attr", getattr(each, "id", "")) for each in getattr(node, "elts", [node])}
    if isinstance(value, Tensor):
        return "True" if "Tensor" in kinds else "False" if kinds <= {"int", "float", "str", "bool", "list", "tuple", "dict"} else None
    if not kinds <= {"Tensor", "int", "float", "str", "bool", "list", "tuple", "dict"}:
        return None
    if isinstance(value, Items):
        return str(("list" if value.is_list else "tuple") in kinds) if not {"list", "tuple"} <= kinds else "True"
    if isinstance(value, Table):
        return str("dict" in kinds)
    if value is NONE or isinstance(value, Type):
        return "False"
    try:
        return str(type(ast.literal_eval(value)).__name__ in kinds) if isinstance(value, str) else None
    except (ValueError, SyntaxError):
        return "True" if {"int", "float"} <= kinds or (value.isidentifier() and "int" in kinds) else \
            "False" if not kinds & {"int", "float", "bool"} else None
