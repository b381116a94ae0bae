# SPDX-License-Identifier: Apache-2.0
"""What a script's values are to an import, and what numpy's and Python's own functions make of them."""
import ast
import dataclasses
import itertools
import math
import os

LIST_MAX = 100_000

DTYPES = {"float64": "f64", "double": "f64", "float32": "f32", "float16": "f16", "half": "f16",
          "int8": "i8", "uint8": "u8", "int32": "i32", "uint32": "u32", "int64": "i64",
          "intc": "i32", "single": "f32", "bool_": "u8"}


@dataclasses.dataclass
class Unknown:
    why: str
    line: int = 0


@dataclasses.dataclass
class Num:
    """A number; `text` is how the spec says it, where that is more than the number."""
    value: object
    text: str = ""
    tight: bool = True  # needs no parentheses

    def show(self):
        return self.text or repr(self.value)

    def factor(self):
        return self.show() if self.tight else f"({self.show()})"


@dataclasses.dataclass
class DType:
    name: str


@dataclasses.dataclass
class Scalar:
    dtype: str
    num: Num


@dataclasses.dataclass
class Fill:
    kind: str = ""  # "": normal; else as in a spec
    low: float = 0
    high: float = 0
    high_text: str = ""  # how the spec says `high`, where that is more than the number

    def times(self, num):
        """Of what was filled so and then multiplied; None: no fill that a spec knows."""
        if self.kind in ("", "NORMAL"):
            return Fill("NORMAL", self.low * num.value, (self.high or 1) * abs(num.value))
        if self.kind not in ("UNIFORM", "SORTED", "CONSTANT") or num.value <= 0:
            return None
        text = num.text and (num.text if self.high == 1 else f"{self.high} * {num.factor()}")
        return Fill(self.kind, self.low * num.value, self.high * num.value, text)


@dataclasses.dataclass
class Array:
    dtype: str
    shape: list
    fill: Fill
    note: str = ""


@dataclasses.dataclass
class Seq:
    items: list


@dataclasses.dataclass
class Map:
    items: dict


@dataclasses.dataclass
class Module:
    name: str


@dataclasses.dataclass
class Function:
    node: object
    scope: dict


def plain(value):
    """A Python value of constants; None if it is more than that."""
    if isinstance(value, Num):
        return value.value
    if isinstance(value, Seq):
        items = [plain(item) for item in value.items]
        return None if any(item is None for item in items) else items
    return value if isinstance(value, str) else None


def snapshot(value):
    """As it is now, whatever is done to its lists and dicts later."""
    if isinstance(value, Map):
        return Map(snapshot(value.items))
    if isinstance(value, Seq):
        return Seq(snapshot(value.items))
    if isinstance(value, dict):
        return {key: snapshot(item) for key, item in value.items()}
    return [snapshot(item) for item in value] if isinstance(value, list) else value


def product(nums):
    if not nums:
        return Num(1)
    result = nums[0]
    for num in nums[1:]:
        text = f"{result.factor()} * {num.factor()}" if result.text or num.text else ""
        result = Num(result.value * num.value, text, tight=False)
    return result


def total(num, more):
    return Num(num.value + more, f"{num.show()} + {more}" if num.text else "", tight=False)


def as_shape(value):
    if isinstance(value, Scalar):
        return [value.num]
    if isinstance(value, Num) and isinstance(value.value, int):
        return [value]
    if isinstance(value, Seq) and value.items and all(isinstance(i, (Num, Scalar)) for i in value.items):
        return [i.num if isinstance(i, Scalar) else i for i in value.items]
    return None


class Generator:
    """numpy.random.default_rng()."""


def dtype_of(value):
    if isinstance(value, DType):
        return value.name
    return DTYPES.get(value, "") if isinstance(value, str) else ""


def cast(dtype, positional, node):
    value = positional[0] if positional else Num(0)
    value = value.num if isinstance(value, Scalar) else value
    return Scalar(dtype, value) if isinstance(value, Num) else unknown_at(node)


def unknown_at(node):
    return Unknown(ast.unparse(node)[:80], node.lineno)


def call_library(name, positional, by_name, node, folder):
    """numpy, os.path and Python's own functions, by the last part of their names."""
    unknown = unknown_at(node)
    first = positional[0] if positional else None
    if name in DTYPES:
        return cast(DTYPES[name], positional, node)
    if name in ("dict", "OrderedDict"):
        pairs = first.items if isinstance(first, Map) else {}
        if isinstance(first, Seq):
            pairs = {plain(p.items[0]): p.items[1] for p in first.items
                     if isinstance(p, Seq) and len(p.items) == 2}
        return Map({**pairs, **by_name})
    if name in ELEMENTWISE and isinstance(first, Array):
        return elementwise(name, first, node)
    if name in ("list", "tuple", "sorted", "set"):
        if isinstance(first, Map):
            return Seq(list(first.items))
        return Seq(list(first.items)) if isinstance(first, Seq) else Seq([]) if first is None else unknown
    if name == "range":
        bounds = [plain(p) for p in positional]
        if None in bounds or len(range(*bounds)) > LIST_MAX:
            return unknown
        return Seq([Num(i) for i in range(*bounds)])
    if name in ("int", "float", "int_", "ceil", "floor", "round", "abs", "len", "min", "max", "amin",
                "amax", "sum"):
        return number_call(name, positional, node)
    if name in ("prod", "product") and as_shape(first):
        return product(as_shape(first))
    if name in ("join", "dirname", "realpath", "abspath", "getcwd"):
        parts = [p for p in positional if isinstance(p, str)]
        if len(parts) != len(positional):
            return unknown
        return {"join": lambda: os.path.join(*parts), "dirname": lambda: os.path.dirname(parts[0]),
                "getcwd": lambda: folder}.get(name, lambda: parts[0])()
    if name == "open" and isinstance(first, str):
        return File("a file", node.lineno, first)
    if name in ("default_rng", "RandomState"):
        return Generator()
    return array_call(name, positional, by_name) or unknown


ELEMENTWISE = {"abs", "absolute", "fabs", "sqrt", "exp", "sin", "cos", "sort", "sorted", "copy"}


def elementwise(name, array, node):
    """Of the same shape; what it holds is said where a fill says it."""
    if name == "copy":
        return array
    fill = array.fill
    if name in ("sort", "sorted") and fill.kind == "UNIFORM":
        return dataclasses.replace(array, fill=dataclasses.replace(fill, kind="SORTED"))
    is_positive = name not in ("sin", "cos", "sort", "sorted")
    fill = Fill("UNIFORM", 0, abs(fill.low) + (fill.high or 1)) if is_positive else Fill()
    return dataclasses.replace(array, fill=fill, note=f"computed: {ast.unparse(node)[:60]}")


@dataclasses.dataclass
class File(Unknown):
    text: str = ""  # its path, which stands for what it holds


def number_call(name, positional, node):
    values = positional[0].items if len(positional) == 1 and isinstance(positional[0], Seq) else positional
    values = [v.num if isinstance(v, Scalar) else v for v in values]
    name = {"amin": "min", "amax": "max"}.get(name, name)
    if name == "len":
        return Num(len(values)) if isinstance(positional[0], Seq) else Unknown("len", node.lineno)
    numbers = [plain(v) for v in values]
    if not numbers or any(not isinstance(n, (int, float)) for n in numbers):
        return unknown_at(node)
    functions = {"int": int, "int_": int, "float": float, "ceil": math.ceil, "floor": math.floor,
                 "round": round, "abs": abs}
    if name in ("min", "max", "sum"):
        value = {"min": min, "max": max, "sum": sum}[name](numbers)
        texts = [v.show() for v in values]
        text = f"{name}({', '.join(texts)})" if name != "sum" and any(v.text for v in values) else ""
        return Num(value, text)
    value = functions[name](numbers[0])
    inner = values[0]
    if not inner.text or type(inner.value) is int or name == "float":
        return Num(value, inner.text, inner.tight)
    return Num(value, f"{'int' if name == 'int_' else name}({inner.show()})")


def array_call(name, positional, by_name):
    """An Array; None if it makes none that we know."""
    first = positional[0] if positional else None
    shape = as_shape(first) or as_shape(by_name.get("shape", by_name.get("size")))
    dtype = dtype_of(by_name.get("dtype")) or next((dtype_of(p) for p in positional if dtype_of(p)), "")
    if name.endswith("_like") and isinstance(first, Array):
        fills = {"zeros_like": Fill("CONSTANT"), "ones_like": Fill("CONSTANT", 1)}
        return Array(dtype or first.dtype, list(first.shape), fills.get(name, Fill("CONSTANT")))
    simple = {"zeros": Fill("CONSTANT"), "empty": Fill("CONSTANT"), "ones": Fill("CONSTANT", 1),
              "random": Fill("UNIFORM", 0, 1), "random_sample": Fill("UNIFORM", 0, 1),
              "standard_normal": Fill()}
    if name in simple and shape:
        return Array(dtype or "f64", shape, simple[name])
    if name in ("randn", "rand") and as_shape(Seq(positional)):
        return Array("f64", as_shape(Seq(positional)),
                     Fill() if name == "randn" else Fill("UNIFORM", 0, 1))
    if name == "arange" and shape:
        return Array(dtype or "i64", shape, Fill("IOTA"))
    if name == "full" and shape and len(positional) > 1 and plain(positional[1]) is not None:
        return Array(dtype or "f64", shape, Fill("CONSTANT", plain(positional[1])))
    if name in ("normal", "uniform", "randint", "integers"):
        return drawn_array(name, positional, by_name, dtype)
    if name in ("array", "asarray", "ascontiguousarray") and isinstance(first, Array):
        return dataclasses.replace(first, dtype=dtype or first.dtype)
    if name in ("array", "asarray") and isinstance(first, Seq):
        sizes = list(itertools.islice(iter_shape(first), 4))
        return Array(dtype or "f64", sizes, Fill(), note="its values were written out")
    return None


def iter_shape(seq):
    while isinstance(seq, Seq):
        yield Num(len(seq.items))
        seq = seq.items[0] if seq.items else None


def drawn_array(name, positional, by_name, dtype):
    keys = ("loc", "scale", "size") if name == "normal" else ("low", "high", "size")
    values = dict(zip(keys, positional))
    values.update({k: v for k, v in by_name.items() if k in keys})
    shape = as_shape(values.get("size"))
    low, high = plain(values.get(keys[0], Num(0))), plain(values.get(keys[1], Num(1)))
    if shape is None or not all(isinstance(v, (int, float)) for v in (low, high)):
        return None
    integer = name in ("randint", "integers")
    if integer and keys[1] not in values:
        low, high = 0, low
    kind = "NORMAL" if name == "normal" else "UNIFORM"
    return Array(dtype or ("i64" if integer else "f64"), shape, Fill(kind, low, high))
