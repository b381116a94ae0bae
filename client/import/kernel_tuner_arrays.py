# SPDX-License-Identifier: Apache-2.0
"""NumPy's functions over arrays, as far as shapes and types go, and small arrays of which each element is known, such as
the values of a param. What an array of another shape holds is not known: it has a note."""
import ast
import dataclasses
import math
import re

from script_values import Array, DType, Fill, Num, Scalar, Seq, added, as_shape, dtype_of_plain, given_dtype, items_of, plain, product

VALUES_MAX = 4096
SAME_SHAPE = {"round", "square", "sign", "log", "log2", "log10", "log1p", "expm1", "exp2", "tan", "tanh", "arctan", "floor", "ceil",
              "rint", "clip", "negative", "cumsum", "flip", "roll", "ascontiguousarray", "asfortranarray", "nan_to_num", "tril",
              "triu", "flipud", "fliplr", "reciprocal", "cbrt"}
BINARY = {"maximum", "minimum", "add", "subtract", "multiply", "divide", "power", "fmax", "fmin", "hypot", "arctan2", "mod"}
FLOAT_RESULTS = {"log", "log2", "log10", "log1p", "expm1", "exp2", "tan", "tanh", "arctan", "cbrt"}
RANKS = {"f64": 10, "f32": 9, "f16": 8, "bf16": 8, "u64": 7, "i64": 6, "u32": 5, "i32": 4, "u16": 3, "i16": 3, "u8": 2, "i8": 2, "bool": 1}


def of_values(values, dtype=""):
    """An array of one dimension with these elements."""
    made = Array(dtype or dtype_of_plain(values), [Num(len(values))], Fill(), note="its values were written out")
    if values and values == list(range(len(values))):
        made.fill, made.note = Fill("IOTA"), ""
    made.values = values
    return made


def known_values(value):
    """The elements of an array or list of numbers; None: they are not known."""
    values = value.values if isinstance(value, Array) else plain(value) if isinstance(value, Seq) else None
    return values if isinstance(values, list) and all(isinstance(each, (int, float)) for each in values) else None


def shape_of(value):
    return value.shape if isinstance(value, Array) else [] if isinstance(value, (Num, Scalar)) else None


def broadcast(left, right):
    """The shape of both, by NumPy's rules; None: they do not go together."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    made = list(longer)
    for at in range(1, len(shorter) + 1):
        if longer[-at].value == 1:
            made[-at] = shorter[-at]
        elif shorter[-at].value not in (1, longer[-at].value):
            return None
    return made


def result_type(left, right):
    """Of arithmetic; "": a pair of types that is not known here. A Python number takes the array's type."""
    types = [each.dtype for each in (left, right) if isinstance(each, (Array, Scalar))]
    floats = [each for each in (left, right) if isinstance(each, Num) and isinstance(each.value, float)]
    if any(each not in RANKS for each in types):
        return ""
    if any(isinstance(each, Num) and isinstance(each.value, complex) for each in (left, right)):
        return "complex64" if set(types) <= {"f32", "f16"} else "complex128"
    widest = max(types, key=RANKS.get)
    if floats and widest[0] in "iub":
        return "f64"
    if len(set(types)) == 1:
        return widest
    if widest[0] in "fb" and widest != "bool" and any(each[0] in "iu" and RANKS[each] > 3 for each in types):
        return "f64"
    kinds = {each[0] for each in types}
    return widest if kinds <= {"f"} or kinds <= {"i"} or kinds <= {"u"} or "f" in kinds else ""


def arithmetic(node, left, right):
    """`left` or `right` is an array; None: shape or type are not known."""
    shapes = [shape_of(left), shape_of(right)]
    text = f"computed: {ast.unparse(node)[:60]}"
    if None in shapes:
        return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        shape = matrix_shape(*shapes)
    else:
        shape = broadcast(*shapes)
    dtype = result_type(left, right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and dtype[:1] in ("i", "u", "b") and dtype != "bf16":
        dtype = "f64"
    return Array(dtype, shape or [Num(1)], Fill(), note=text) if shape and dtype else None


def matrix_shape(left, right):
    if not left or not right or left[-1].value != right[-2 if len(right) > 1 else 0].value or max(len(left), len(right)) > 2:
        return None
    return [*left[:-1], *(right[1:] if len(right) > 1 else [])] or [Num(1)]


def sliced(extent, bounds):
    """How many elements of an axis a slice keeps: an expression of the sizes, if its ends are simple."""
    count = len(range(*slice(*(bound and bound.value for bound in bounds)).indices(extent.value)))
    low, high, step = bounds[0] or Num(0), at_most(bounds[1] or extent, extent), bounds[2] or Num(1)
    if count == extent.value and not high.text.startswith("min("):
        return Num(count, extent.text, extent.tight)
    if step.value < 1:
        return Num(count)
    last = Num(-low.value, low.text.removeprefix("-"))
    low, high = (minus(extent, Num(-end.value, end.text and end.text.removeprefix("-"))) if end.value < 0 else end for end in (low, high))
    if last.value > 0 and high is not extent and at_most(last, extent) is not last:
        low = Num(max(low.value, 0), f"max({low.show()}, 0)")  # an end before the first element is the first
    kept = at_most(last, extent) if last.value > 0 and high is extent else minus(high, low)
    if step.value != 1 and kept.text or step.text:
        kept = Num(-(-kept.value // step.value), f"ceil_div({kept.show()}, {step.show()})")
    return kept if kept.value == count else Num(count)


def at_most(num, extent):
    """An end of a slice that has nothing to do with the extent, which another size may put before it."""
    names = (set(re.findall(r"[A-Za-z_]\w*", text)) for text in (num.text, extent.text))
    if num.value < 0 or num.value == extent.value or not extent.text or set.intersection(*names):
        return num
    return Num(min(num.value, extent.value), f"min({num.show()}, {extent.show()})")


def minus(num, less):
    """The difference, without what both have: of `n - 1` and `n - 3` it is 2."""
    (left, more), (right, fewer) = offset(num), offset(less)
    value = num.value - less.value
    if left == right:
        return Num(value)
    if right:
        return Num(value, f"{num.show()} - {less.factor()}", tight=False)
    rest = more - fewer
    return Num(value, left if not rest else f"{left} {'+' if rest > 0 else '-'} {abs(rest)}", tight=False)


def offset(num):
    """(text, number) of `text + number`."""
    match = re.fullmatch(r"(\w+) ([+-]) (\d+)", num.text)
    if match:
        return match[1], int(match[2] + match[3])
    return (num.text, 0) if num.text else ("", num.value)


def indexed(array, node, bounds_of):
    """array[...] with numbers and slices; None: not known. `bounds_of`: the numbers of a slice, or a number alone."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    shape, rest = [], list(array.shape)
    for part in parts:
        if isinstance(part, ast.Constant) and part.value is None or isinstance(part, ast.Attribute) and part.attr == "newaxis":
            shape.append(Num(1))
            continue
        if not rest:
            return None
        extent, bounds = rest.pop(0), bounds_of(part)
        if bounds is None:
            return None
        if isinstance(part, ast.Slice):
            shape.append(sliced(extent, bounds))
    made = shape + rest
    is_same = product(made).value == product(array.shape).value if made else False
    if not made or not all(num.value > 0 for num in made):
        return None
    note = array.note if is_same else array.note or (f"computed: {ast.unparse(node)[:60]}" if array.fill.kind in ("IOTA", "SORTED")
                                                     else "")
    return dataclasses.replace(array, shape=made, note=note)


def joined(name, arrays, axis):
    """concatenate, stack and their kind."""
    arrays = [each for each in arrays or ()]
    if not arrays or not all(isinstance(each, Array) for each in arrays) or len({each.dtype for each in arrays}) > 1:
        return None
    shapes = [list(each.shape) for each in arrays]
    if name == "vstack":
        shapes = [[Num(1), *shape] if len(shape) == 1 else shape for shape in shapes]
    if name == "hstack":
        axis = 0 if len(shapes[0]) == 1 else 1
    if len({len(shape) for shape in shapes}) > 1 or not isinstance(axis, int):
        return None
    if name == "stack":
        if len({tuple(num.value for num in shape) for shape in shapes}) > 1 or axis != 0:
            return None
        shape = [Num(len(shapes)), *shapes[0]]
    else:
        axis = axis + len(shapes[0]) if axis < 0 else axis
        if axis >= len(shapes[0]) or any(a.value != b.value for each in shapes for at, (a, b) in enumerate(zip(each, shapes[0]))
                                         if at != axis):
            return None
        extent = shapes[0][axis]
        for each in shapes[1:]:
            more = each[axis]
            text = f"{extent.show()} + {more.show()}" if extent.text or more.text else ""
            extent = Num(extent.value + more.value, text, tight=False)
        shape = [*shapes[0][:axis], extent, *shapes[0][axis + 1:]]
    fills = {(each.fill.kind, each.fill.low, each.fill.high) for each in arrays}
    is_plain = len(fills) == 1 and arrays[0].fill.kind not in ("IOTA", "SORTED") and not any(each.note for each in arrays)
    return Array(arrays[0].dtype, shape, arrays[0].fill if is_plain else Fill(), note="" if is_plain else "parts of it are joined")


def sequence(name, positional, by_name):
    """arange, linspace, logspace: their numbers; None: too many, or not known."""
    keys = {"arange": ("start", "stop", "step"), "linspace": ("start", "stop", "num"), "logspace": ("start", "stop", "num")}[name]
    given = {**dict(zip(keys, map(plain, positional))), **{key: plain(value) for key, value in by_name.items() if key != "dtype"}}
    if name == "arange" and "stop" not in given:
        given = {"start": 0, "stop": given.get("start"), **{key: given[key] for key in given if key == "step"}}
    start, stop = given.get("start"), given.get("stop")
    last = given.get("step", 1) if name == "arange" else given.get("num", 50)
    if not all(isinstance(each, (int, float)) for each in (start, stop, last)) or last == 0:
        return None
    if name == "arange":
        count = max(0, math.ceil((stop - start) / last))
        return [start + index * last for index in range(count)] if 0 < count <= VALUES_MAX else None
    if not isinstance(last, int) or not 0 < last <= VALUES_MAX or set(given) - {"start", "stop", "num", "base", "endpoint"}:
        return None
    parts = max(1, last - 1 if given.get("endpoint", True) else last)
    values = [float(start) + index * ((stop - start) / parts) for index in range(last)]
    if given.get("endpoint", True) and last > 1:
        values[-1] = float(stop)
    return values if name == "linspace" else [float(given.get("base", 10.0)) ** value for value in values]


def array_function(name, positional, by_name, node):
    """A function of NumPy's; None: not known here."""
    first = positional[0] if positional else None
    if name == "linspace" and len(positional) == 3 and not set(by_name) - {"dtype"} and as_shape(positional[2]) and (
            as_shape(positional[2])[0].text or plain(positional[2]) > VALUES_MAX):
        bounds = [plain(each) for each in positional[:2]]
        return Array(given_dtype(by_name.get("dtype"), "f64"), as_shape(positional[2]), Fill("SORTED", *bounds)) \
            if all(isinstance(each, (int, float)) for each in bounds) and bounds[0] < bounds[1] else None
    if name in ("arange", "linspace", "logspace"):
        is_named = name == "arange" and len(positional) == 1 and as_shape(first) and as_shape(first)[0].text
        values = None if is_named else sequence(name, positional, by_name)
        return None if values is None else as_type(of_values(values, "f64" if name != "arange" else ""), by_name.get("dtype"))
    if name == "unique" and known_values(first) is not None and not by_name and len(positional) == 1:
        return of_values(sorted(set(known_values(first))))
    if name in ("array", "asarray") and isinstance(first, Seq) and known_values(first) and len(known_values(first)) <= VALUES_MAX:
        made = of_values([*known_values(first)], given_dtype(by_name.get("dtype", positional[1] if len(positional) > 1 else None), ""))
        return made
    if name in ("concatenate", "stack", "hstack", "vstack"):
        return joined(name, items_of(first), plain(by_name.get("axis", positional[1] if len(positional) > 1 else Num(0))))
    if name in ("eye", "identity") and isinstance(plain(first), int) and len(positional) == 1 and set(by_name) <= {"dtype"}:
        return Array(given_dtype(by_name.get("dtype"), "f64"), [as_shape(first)[0]] * 2, Fill(), note="it has ones in its diagonal")
    if name == "permutation" and as_shape(first) and len(as_shape(first)) == 1:
        return Array("i64", as_shape(first), Fill("IOTA"), note="its elements are in another order")
    if not isinstance(first, Array):
        return None
    text = f"computed: {ast.unparse(node)[:60]}"
    if name in ("tile", "repeat") and len(first.shape) == 1 and isinstance(plain(positional[1] if len(positional) > 1 else None), int):
        return dataclasses.replace(first, shape=[product([as_shape(positional[1])[0], first.shape[0]])], note=first.note or text)
    if name == "pad" and len(first.shape) == 1 and len(positional) > 1:
        widths = as_shape(positional[1])
        widths = widths * 2 if widths and len(widths) == 1 else widths
        is_pair = bool(widths) and len(widths) == 2 and all(isinstance(each.value, int) for each in widths)
        return dataclasses.replace(first, shape=[added(first.shape[0], added(*widths))], note=text) if is_pair else None
    if name == "argsort" and len(first.shape) == 1:
        return Array("i64", first.shape, Fill("IOTA"), note=text)
    if name in ("ravel", "reshape", "squeeze", "transpose"):
        return None  # as its methods
    if name in SAME_SHAPE and not {"out", "axis"} & set(by_name):
        is_float = name in FLOAT_RESULTS and first.dtype[:1] in ("i", "u", "b") and first.dtype != "bf16"
        if name in ("cumsum", "clip") and first.dtype not in ("f64", "f32", "i64"):
            return None
        if name == "cumsum" and len(first.shape) > 1:
            return None
        if name in ("ascontiguousarray", "asfortranarray"):
            return first if len(first.shape) == 1 or name == "ascontiguousarray" else None
        return Array("f64" if is_float else first.dtype, list(first.shape), Fill(), note=text)
    if name in BINARY and len(positional) == 2 and not by_name and name not in ("divide", "arctan2", "hypot"):
        return arithmetic(node, first, positional[1])
    return None


def as_type(array, dtype):
    """With known elements, these are of the type, too."""
    made = dataclasses.replace(array, fill=dataclasses.replace(array.fill), dtype=given_dtype(dtype, array.dtype))
    if array.values is not None and made.dtype[:1] in ("i", "u", "f"):
        made.values = [int(value) if made.dtype[0] != "f" else float(value) for value in array.values]
    return made


def mapped(node, left, right, function):
    """Arithmetic of arrays whose elements are known, or of one and a number; None: they are not."""
    sides = [known_values(each) if isinstance(each, Array) else plain(each) for each in (left, right)]
    counts = {len(side) for side in sides if isinstance(side, list)}
    if None in sides or len(counts) != 1:
        return None
    count = counts.pop()
    pairs = zip(*(side if isinstance(side, list) else [side] * count for side in sides))
    try:
        values = [function(*pair) for pair in pairs]
    except (ArithmeticError, TypeError, ValueError):
        return None
    made = arithmetic(node, left, right)
    if made is not None:
        made.values = values
    return made
