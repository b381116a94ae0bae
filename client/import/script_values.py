# SPDX-License-Identifier: Apache-2.0
"""What a script's values are to an import, and what numpy's and Python's own functions make of them."""
import ast
import dataclasses
import itertools
import math
import os

LIST_MAX = 100_000

# NumPy's names, and the spec's. Those behind them that no spec has keep their names, and are left to write.
SPEC_SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4,
              "i64": 8, "u64": 8}  # in bytes
SPEC_TYPES = tuple(SPEC_SIZES)
DTYPES = {"float64": "f64", "double": "f64", "float_": "f64", "float32": "f32", "single": "f32", "float16": "f16",
          "half": "f16", "bfloat16": "bf16", "bool_": "bool", "bool8": "bool", "int8": "i8", "byte": "i8",
          "uint8": "u8", "ubyte": "u8", "int16": "i16", "short": "i16", "uint16": "u16", "ushort": "u16",
          "int32": "i32", "intc": "i32", "uint32": "u32", "uintc": "u32", "int64": "i64", "int_": "i64",
          "longlong": "i64", "intp": "i64", "uint64": "u64", "uint": "u64", "ulonglong": "u64", "uintp": "u64",
          **{name: name for name in ("complex64", "complex128", "complex_", "csingle", "cdouble", "longdouble",
                                     "float128", "clongdouble", "object_", "datetime64", "timedelta64", "void")}}
CODES = {"f8": "f64", "f4": "f32", "f2": "f16", "b1": "bool", "?": "bool", "i1": "i8", "u1": "u8", "i2": "i16",
         "u2": "u16", "i4": "i32", "u4": "u32", "i8": "i64", "u8": "u64", "d": "f64", "f": "f32", "e": "f16",
         "b": "i8", "B": "u8", "h": "i16", "H": "u16", "i": "i32", "I": "u32", "q": "i64", "Q": "u64",
         "c8": "complex64", "c16": "complex128", "float": "f64", "int": "i64", "bool": "bool"}


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
    # Two that a copy does not have:
    values = None  # its elements, if these are known, few and in one dimension
    is_list = False  # Python's sorted() makes a list, to which lists are added


@dataclasses.dataclass
class Seq:
    items: list
    doubt: str = ""  # what may have changed it, and was not followed
    is_tuple: bool = False


@dataclasses.dataclass
class Map:
    items: dict
    doubt: str = ""  # as above


@dataclasses.dataclass
class Module:
    name: str


@dataclasses.dataclass
class Function:
    node: object
    scope: dict
    bound: tuple = ()  # values of the first parameters: the object of a method
    real: object = None  # Python's own, where the script was run
    defaults: object = None  # {parameter: value}, as they were where it was defined; None: not known


class Scope(dict):
    """The names of a function, class, comprehension or module, and behind them those of what it stands in. `unstable`: of a
    module, names that its functions change."""

    def __init__(self, names=(), around=None, kind="function"):
        super().__init__(names)
        self.around, self.kind = around, kind
        self.outside, self.unstable = {}, set()  # names that `global` and `nonlocal` have elsewhere, and where

    def __missing__(self, name):
        if self.around is None:
            raise KeyError(name)
        return self.around[name]

    def __contains__(self, name):
        return dict.__contains__(self, name) or (self.around is not None and name in self.around)

    def get(self, name, otherwise=None):
        return self[name] if name in self else otherwise

    def module(self):
        return self if self.around is None else self.around.module()

    def function(self):
        """Where a name goes that a walrus in a comprehension sets."""
        return self.around.function() if self.kind == "comprehension" else self

    def for_functions(self):
        """What functions see that are defined here: no names of a class."""
        return self.around.for_functions() if self.kind == "class" else self

    def declare(self, name, is_global):
        place = None if is_global else self.around
        while place is not None and (not dict.__contains__(place, name) or place.kind == "class"):
            place = place.around
        self.outside[name] = self.module() if place is None else place

    def set(self, name, value):
        place = self.outside.get(name)
        if place is None:
            self[name] = value
        else:
            self.pop(name, None)
            place.set(name, value)


def plain(value):
    """A Python value of constants; None if it is more than that."""
    if isinstance(value, (Num, Scalar)):
        return value.num.value if isinstance(value, Scalar) else value.value
    if isinstance(value, Seq):
        items = [plain(item) for item in value.items]
        return None if any(item is None for item in items) else items
    return value if isinstance(value, str) else None


def is_none_value(value):
    return isinstance(value, Num) and value.value is None


def snapshot(value):
    """As it is now, whatever is done to its lists and dicts later."""
    if isinstance(value, Map):
        return Map(snapshot(value.items), value.doubt)
    if isinstance(value, Seq):
        return Seq(snapshot(value.items), value.doubt)
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


def added(num, more):
    text = f"{num.show()} + {more.factor()}" if num.text or more.text else ""
    return Num(num.value + more.value, text, tight=not text)


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
    """The spec's name of a type, NumPy's of one that no spec has, "" of what is no type."""
    if isinstance(value, DType):
        return value.name
    if isinstance(value, str):
        return DTYPES.get(value) or CODES.get(value.lstrip("<=|")) or ""
    return ""


def given_dtype(value, otherwise):
    """Of a `dtype=`: what is not understood is a type of its own, which no spec has."""
    if value is None or (isinstance(value, Num) and value.value is None):
        return otherwise
    return dtype_of(value) or (f"'{value.why}'" if isinstance(value, Unknown) else "a type that was not understood")


def dtype_of_plain(value, otherwise="f64"):
    """Of Python's numbers, and of lists of them."""
    while isinstance(value, list):
        kinds = {dtype_of_plain(item) for item in value}
        return next((kind for kind in ("f64", "i64", "bool") if kind in kinds), otherwise)
    return "bool" if isinstance(value, bool) else "i64" if isinstance(value, int) else otherwise


def cast(dtype, positional, node):
    value = positional[0] if positional else Num(0)
    value = value.num if isinstance(value, Scalar) else value
    if isinstance(value, Num) and dtype[:1] in ("i", "u") and isinstance(value.value, float) and math.isfinite(value.value):
        value = Num(int(value.value), f"int({value.text})" if value.text else "")
    return Scalar(dtype, value) if isinstance(value, Num) else unknown_at(node)


def unknown_at(node):
    return Unknown(ast.unparse(node)[:80], node.lineno)


def size_in_bytes(value, node):
    """`itemsize` of a type or of what has one, and `nbytes` of an array."""
    dtype = value.name if isinstance(value, DType) else value.dtype
    if dtype not in SPEC_SIZES or (node.attr == "nbytes" and isinstance(value, DType)):
        return unknown_at(node)
    size = Num(SPEC_SIZES[dtype])
    return product([*value.shape, size]) if node.attr == "nbytes" and isinstance(value, Array) else size


def call_library(name, positional, by_name, node, folder):
    """numpy, os.path and Python's own functions, by the last part of their names."""
    unknown = unknown_at(node)
    first = positional[0] if positional else None
    if name in DTYPES:
        return cast(DTYPES[name], positional, node)
    if name == "dtype" and dtype_of(first):
        return DType(dtype_of(first))
    if name in ELEMENTWISE and isinstance(first, Array):
        return elementwise(name, first, node)
    collection = collection_call(name, positional, by_name)
    if collection is not None:
        return collection
    if name in ("int", "float", "int_", "ceil", "floor", "round", "abs", "len", "min", "max", "amin",
                "amax", "sum"):
        return number_call(name, positional, node)
    if name in ("prod", "product") and as_shape(first):
        return product(as_shape(first))
    if name in ("str", "repr") and plain(first) is not None:
        return (str if name == "str" else repr)(plain(first))
    if name == "getcwd":
        return folder
    if name in ("join", "dirname", "realpath", "abspath", "basename"):
        parts = [p for p in positional if isinstance(p, str)]
        if len(parts) != len(positional) or not parts:
            return unknown
        return {"join": lambda: os.path.join(*parts), "dirname": lambda: os.path.dirname(parts[0]),
                "basename": lambda: os.path.basename(parts[0])}.get(name, lambda: parts[0])()
    if name == "open" and isinstance(first, str):
        return File("a file", node.lineno, first)
    if name in ("default_rng", "RandomState"):
        return Generator()
    return array_call(name, positional, by_name) or unknown


def collection_call(name, positional, by_name):
    """Lists, dicts and what is made of them; None: no such call."""
    first = positional[0] if positional else None
    if name in ("dict", "OrderedDict"):
        if first is not None and items_of(first) is None:
            return None
        pairs = first.items if isinstance(first, Map) else {}
        if isinstance(first, Seq):
            if not all(isinstance(p, Seq) and len(p.items) == 2 for p in first.items):
                return None
            pairs = {plain(p.items[0]): p.items[1] for p in first.items}
        return Map({**pairs, **by_name})
    lists = [items_of(p) for p in positional]
    if name in ("list", "tuple", "set", "sorted", "reversed", "enumerate") and None not in lists:
        items = lists[0] if lists else []
        if name in ("sorted", "set"):
            known = [plain(item) for item in items]
            if None in known or "key" in by_name or not all(isinstance(k, (int, float, str)) for k in known):
                return None
            items = [items[known.index(k)] for k in dict.fromkeys(known)] if name == "set" else items
            order = sorted(items, key=plain) if name == "sorted" else items
            return Seq(order[::-1] if plain(by_name.get("reverse", Num(False))) else order)
        if name == "enumerate":
            first = plain(by_name.get("start", Num(0)))
            return Seq([Seq([Num(index), item]) for index, item in enumerate(items, first)]) if isinstance(first, int) else None
        return Seq(list(items)[::-1] if name == "reversed" else list(items))
    if name == "range":
        bounds = [plain(p) for p in positional]
        if all(isinstance(b, int) for b in bounds) and 0 < len(bounds) < 4 and 0 not in bounds[2:] \
                and len(range(*bounds)) <= LIST_MAX:
            return Seq([Num(i) for i in range(*bounds)])
    if name == "zip" and lists and None not in lists:
        return Seq([Seq(list(each)) for each in zip(*lists)])
    repeat = plain(by_name.get("repeat", Num(1)))
    if name == "product" and lists and None not in lists and isinstance(repeat, int) and 0 < repeat < 9 \
            and math.prod(map(len, lists)) ** repeat <= LIST_MAX and (len(lists) > 1 or not as_shape(first)):
        return Seq([Seq(list(each)) for each in itertools.product(*lists, repeat=repeat)])
    if name == "chain" and None not in lists:
        return Seq([item for each in lists for item in each])
    if name in ("any", "all") and len(lists) == 1 and lists[0] is not None:
        known = [plain(item) for item in lists[0]]
        return None if None in known else Num((any if name == "any" else all)(known))
    return None


def items_of(value):
    """What a loop over it meets; None where that is not known."""
    if isinstance(value, Seq):
        return value.items
    if isinstance(value, Map):
        return [key if isinstance(key, str) else Num(key) for key in value.items]
    if isinstance(value, Array) and value.values is not None:
        return [Num(each) for each in value.values]
    return None


ELEMENTWISE = {"abs", "absolute", "fabs", "sqrt", "exp", "sin", "cos", "sort", "sorted", "copy"}


def elementwise(name, array, node):
    """Of the same shape; what it holds is said where a fill says it."""
    if name == "copy":
        return dataclasses.replace(array, fill=dataclasses.replace(array.fill))
    fill = array.fill
    if name in ("sort", "sorted"):
        made = dataclasses.replace(array, fill=Fill(), note=f"computed: {ast.unparse(node)[:60]}") if fill.kind != "UNIFORM" \
            else dataclasses.replace(array, fill=dataclasses.replace(fill, kind="SORTED"))
        made.is_list = name == "sorted"
        return made
    is_positive = name not in ("sin", "cos")
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
        known = positional[0] if positional else None
        if isinstance(known, Array):
            return known.shape[0]
        return Num(len(known if isinstance(known, str) else known.items)) \
            if isinstance(known, (Seq, Map, str)) else Unknown("len", node.lineno)
    if name in ("int", "float") and len(values) == 1 and isinstance(values[0], str):
        try:
            return Num({"int": int, "float": float}[name](values[0][:64]))
        except ValueError:
            return unknown_at(node)
    numbers = [plain(v) for v in values]
    if not numbers or any(not isinstance(n, (int, float)) for n in numbers):
        return unknown_at(node)
    functions = {"int": int, "int_": int, "float": float, "ceil": math.ceil, "floor": math.floor,
                 "round": round, "abs": abs}
    if name == "round" and len(numbers) > 1:  # with digits, which no expression has
        return Num(round(*numbers)) if len(numbers) == 2 and isinstance(numbers[1], int) else unknown_at(node)
    if name in ("min", "max", "sum"):
        value = {"min": min, "max": max, "sum": sum}[name](numbers)
        text = " + ".join(v.factor() for v in values) if name == "sum" else f"{name}({', '.join(v.show() for v in values)})"
        return Num(value, text if any(v.text for v in values) else "", tight=name != "sum")
    value = functions[name](numbers[0])
    inner = values[0]
    if not inner.text or type(inner.value) is int or name == "float":
        return Num(value, inner.text, inner.tight)
    return Num(value, f"{'int' if name == 'int_' else name}({inner.show()})")


def array_call(name, positional, by_name):
    """An Array; None if it makes none that we know."""
    first = positional[0] if positional else None
    shape = as_shape(first) or as_shape(by_name.get("shape", by_name.get("size")))
    at = 2 if name in ("full", "full_like") else 1
    typed = PINNED.get(name, name) in TYPED
    place = by_name.get("dtype", positional[at] if len(positional) > at and typed else None)
    dtype = given_dtype(place, "")
    if name.endswith("_like") and isinstance(first, Array):
        value = plain(positional[1]) if name == "full_like" and len(positional) > 1 else None
        if name == "full_like" and not isinstance(value, (int, float)):
            return None
        fills = {"zeros_like": Fill("CONSTANT"), "ones_like": Fill("CONSTANT", 1),
                 "full_like": Fill("CONSTANT", value)}
        extents = as_shape(by_name["shape"]) if "shape" in by_name else list(first.shape)
        return Array(dtype or first.dtype, extents, fills.get(name, Fill("CONSTANT"))) if extents else None
    name = PINNED.get(name, name)
    simple = {"zeros": Fill("CONSTANT"), "empty": Fill("CONSTANT"), "ones": Fill("CONSTANT", 1),
              "random": Fill("UNIFORM", 0, 1), "random_sample": Fill("UNIFORM", 0, 1),
              "standard_normal": Fill()}
    if name in simple and shape:
        return Array(dtype or "f64", shape, simple[name])
    if name in ("randn", "rand") and as_shape(Seq(positional)):
        return Array(dtype or "f64", as_shape(Seq(positional)),
                     Fill() if name == "randn" else Fill("UNIFORM", 0, 1))
    if name == "arange" and shape and len(positional) == 1:
        return Array(dtype or "i64", shape, Fill("IOTA"))
    if name == "full" and shape and len(positional) > 1 and isinstance(plain(positional[1]), (int, float)):
        own = positional[1].dtype if isinstance(positional[1], Scalar) else dtype_of_plain(plain(positional[1]))
        return Array(dtype or own, shape, Fill("CONSTANT", plain(positional[1])))
    if name in ("normal", "uniform", "randint", "integers"):
        return drawn_array(name, positional, by_name, dtype)
    if name in ("array", "asarray", "ascontiguousarray") and isinstance(first, Array):
        return dataclasses.replace(first, fill=dataclasses.replace(first.fill), dtype=dtype or first.dtype)
    if name in ("array", "asarray") and isinstance(first, Seq) and plain(first) is not None:
        sizes = list(itertools.islice(iter_shape(first), 4))
        return Array(dtype or dtype_of_plain(plain(first)), sizes, Fill(), note="its values were written out")
    if name in ("array", "asarray") and isinstance(first, (Num, Scalar)):
        num = first.num if isinstance(first, Scalar) else first
        return Array(dtype or dtype_of_plain(num.value), [Num(1)], Fill("CONSTANT", num.value))
    return None


# Makers of memory that a driver has locked.
PINNED = {"zeros_pinned": "zeros", "empty_pinned": "empty", "pagelocked_zeros": "zeros", "pagelocked_empty": "empty"}
# Makers that take the type as an argument by place.
TYPED = {"zeros", "empty", "ones", "full", "array", "asarray", "zeros_like", "empty_like", "ones_like", "full_like"}


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
