# SPDX-License-Identifier: Apache-2.0
"""`tunectl import --run` of a Kernel Tuner script: what its calls of tune_kernel are really given. Names of sizes are
those that reading the script finds, where their values are the real ones."""
import dataclasses
import functools
import importlib.machinery
import inspect
import math
import os
import sys
import types

import script_run
from kernel_tuner import POSITIONS, Import, answer, read_again, read_call
from kernel_tuner_arrays import VALUES_MAX
from kernel_tuner_library import OWN, SELECTING, Chosen, call_own
from kernel_tuner_reader import read_calls
from script_objects import Instance
from script_reader import Reader, Unreadable
from script_values import DTYPES, SPEC_TYPES, Array, Fill, Function, Map, Num, Scalar, Scope, Seq, Unknown


class Call:
    def __init__(self, line, values):
        self.line, self.values = line, values


def stand_in(calls, path):
    """A module `kernel_tuner` whose tuning functions take down their arguments."""
    def taken(args, given):
        frame, line = inspect.currentframe(), 0
        while frame is not None:
            if frame.f_code.co_filename == path:
                line = frame.f_lineno
                break
            frame = frame.f_back
        values = {**dict(zip(POSITIONS, args)), **given}
        params = values.get("tune_params") or {}
        calls.append(Call(line, converted(values)))
        best = {name: next(iter(each), None) for name, each in dict(params).items()}
        return [{**best, "time": 1.0, "times": [1.0]}], {"device_name": "none", "best_config": best}

    module = StandIn("kernel_tuner")
    module.tune_kernel = lambda *args, **given: taken(args, given)
    module.run_kernel = lambda name, source, size, arguments, params, *rest, **more: list(arguments)
    module.store_results = module.tune_kernel_T1 = lambda *args, **given: ([], {})
    found = {"kernel_tuner": module}
    for name in ("utils.directives", "accuracy"):
        found[f"kernel_tuner.{name}"] = inner = StandIn(f"kernel_tuner.{name}")
        for own in SELECTING if name == "accuracy" else OWN - SELECTING:
            setattr(inner, own, functools.partial(called_own, own))
    sys.meta_path.insert(0, Finder())
    return found


class StandIn(types.ModuleType):
    """A module of the package: each of its names is there, and does nothing."""
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        inner = sys.modules.setdefault(f"{self.__name__}.{name}", StandIn(f"{self.__name__}.{name}"))
        return inner

    def __call__(self, *args, **kwargs):
        return self

    def __mro_entries__(self, bases):
        return (object,)

    def __iter__(self):
        return iter(())


class Finder:
    """Finds every module of the package."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, Finder, is_package=True) if name.startswith("kernel_tuner.") else None

    @staticmethod
    def create_module(spec):
        return StandIn(spec.name)

    @staticmethod
    def exec_module(module):
        pass


def called_own(own, *args, **given):
    """What a function of the package gives, with real arrays."""
    made = call_own(own, [converted(arg) for arg in args], {name: converted(arg) for name, arg in given.items()},
                    lambda num, name: num, lambda text: Unknown(text, 0))
    return made if isinstance(made, Chosen) else realized(made)


def realized(value):
    """The Python value of one that was made without running it."""
    if isinstance(value, Num):
        return value.value
    if isinstance(value, Seq):
        return [realized(item) for item in value.items]
    if isinstance(value, Map):
        return {key: realized(item) for key, item in value.items.items()}
    if isinstance(value, (Array, Scalar)):
        import numpy
        dtype = numpy.dtype({"f64": "f8", "f32": "f4", "i32": "i4"}[value.dtype])
        if isinstance(value, Scalar):
            return dtype.type(value.num.value)
        high = value.fill.high
        shape = [num.value for num in value.shape]
        return (numpy.random.randint(high, size=shape) if dtype.kind == "i" else numpy.random.rand(*shape)).astype(dtype)
    return value


# Real values as the import has them.


def converted(value):
    if value is None or isinstance(value, (bool, int, float)):
        return Num(value)
    if isinstance(value, (str, Chosen, Instance, Unknown)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict):
        return Map({key: converted(item) for key, item in value.items()}) if "tune_params" not in value else \
            {key: converted(item) for key, item in value.items()}
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return array(value)
    if isinstance(value, (list, tuple, set, frozenset, range)) or type(value).__name__ in (
            "dict_keys", "dict_values", "generator", "map"):
        return Seq([converted(item) for item in value])
    if callable(value):
        return Function(None, Scope({}), (), value)
    return Unknown(f"a {type(value).__name__}", 0)


def array(value):
    dtype = str(value.dtype)
    name = DTYPES.get(dtype) or ("bool" if dtype == "bool" else dtype.replace("torch.", ""))
    name = DTYPES.get(name, name)
    shape = [int(extent) for extent in value.shape]
    if not shape:
        number = value.item()
        return Scalar(name, Num(number))
    made = Array(name, [Num(extent) for extent in shape], fill_of(value, name))
    made.values = value.tolist() if len(shape) == 1 and 0 < shape[0] <= VALUES_MAX and name[0] in "iuf" else None
    return made


def fill_of(value, dtype):
    """The fill of an array by all of its elements."""
    try:
        return fill_of_elements(value.get() if hasattr(value, "get") else value.cpu().numpy() if hasattr(value, "cpu") else value,
                                dtype)
    except Exception:  # an array of another library
        return Fill()


def fill_of_elements(array, dtype):
    import numpy
    flat = array.reshape(-1)
    if not flat.size or flat.dtype.kind not in "biuf" and dtype not in SPEC_TYPES:
        return Fill()
    flat = flat.astype("u1") if flat.dtype.kind == "b" else flat
    low, high = flat.min().item(), flat.max().item()
    if low == high:
        return Fill("CONSTANT", low)
    if flat.size > 2 and (low, high) == (0, flat.size - 1) and numpy.array_equal(flat, numpy.arange(flat.size)):
        return Fill("IOTA")
    kind = "SORTED" if bool((flat[1:] >= flat[:-1]).all()) else "UNIFORM"
    if dtype[0] in "iu" or dtype == "bool":
        return Fill(kind, int(low), int(high) + 1)
    if not math.isfinite(low) or not math.isfinite(high):
        return Fill()
    if kind == "SORTED":
        return Fill(kind, low, high)
    mean, deviation = (float(made(flat, dtype=numpy.float64)) for made in (numpy.mean, numpy.std))
    # A normal distribution reaches beyond three deviations, a uniform one stays below two.
    if deviation and (high - low) / deviation > 4.5:
        return Fill("NORMAL", round(mean, 3) or 0, round(deviation, 3))
    return Fill(kind, low, high)


# Names for what is real.


def named(read, real):
    """The real value, with the texts of the one that was read where both are the same."""
    if isinstance(real, Num):
        read = read.num if isinstance(read, Scalar) else read
        return read if isinstance(read, Num) and read.value == real.value else real
    if isinstance(real, Scalar):
        num = read.num if isinstance(read, Scalar) else read
        return Scalar(real.dtype, named(num, real.num))
    if isinstance(real, Array):
        if not isinstance(read, Array) or [n.value for n in read.shape] != [n.value for n in real.shape]:
            return real
        is_told = not read.note and read.fill.kind != "CONSTANT" and (read.fill.kind or is_standard(real.fill))
        return Array(real.dtype, read.shape, read.fill if is_told and real.fill.kind not in ("CONSTANT", "IOTA") else real.fill)
    if isinstance(real, Seq):
        items = read.items if isinstance(read, Seq) and len(read.items) == len(real.items) else [None] * len(real.items)
        return Seq([named(a, b) for a, b in zip(items, real.items)])
    if isinstance(real, Map):
        items = read.items if isinstance(read, Map) else {}
        return Map({key: named(items.get(key), item) for key, item in real.items.items()})
    if isinstance(real, Chosen):
        arrays = read.arrays if isinstance(read, Chosen) else {}
        return Chosen(real.param, {key: named(arrays.get(key), item) for key, item in real.arrays.items()})
    if isinstance(real, Function):
        if isinstance(read, Function):
            return dataclasses.replace(read, real=real.real)
        return Function(node_of(real.real), scope_of(real.real), (), real.real)
    if isinstance(real, str) and getattr(read, "path", None) and str(read) == real:
        return read
    return real


def is_standard(fill):
    """Whether a sample is of the normal distribution that an array has if nothing is said."""
    return fill.kind == "NORMAL" and abs(fill.low) < 0.1 and 0.9 < fill.high < 1.1


def node_of(function):
    """The tree of a function's own text; one that cannot be read has none that translates."""
    import ast
    import textwrap
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)).strip().rstrip(",)"))
    except (OSError, TypeError, SyntaxError, ValueError):
        tree = ast.parse("lambda p: unread()")
    return next((n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))), ast.parse(
        "lambda p: unread()").body[0].value)


def scope_of(function):
    scope = Scope({})
    try:
        closed = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return scope
    for names in (closed.globals, closed.nonlocals):
        for name, value in names.items():
            made = converted(value)
            if isinstance(made, Function):
                made = Function(node_of(value), Scope({}), (), value)
            scope[name] = made
    return scope


def run(path, wanted, arguments):
    calls = []
    outcome = script_run.run(path, arguments, stand_in(calls, path))
    if not calls:
        raise Unreadable(f"{path}: the script was run, and did not call tune_kernel" +
                         (f": {outcome.error}" if outcome.error else ""))
    if not 1 <= wanted <= len(calls):
        raise Unreadable(f"{path}: there were {len(calls)} calls of tune_kernel, no number {wanted}")
    call = calls[wanted - 1]
    reader, read = reading(path)
    number = sum(one.line == call.line for one in calls[:wanted])
    same = [one for one in read if one[0] == call.line or one[0] <= call.line <= getattr(one[1], "end_lineno", one[0])]
    one = same[min(number, len(same)) - 1] if same else (call.line, None, [], {})
    values = {**dict(zip(POSITIONS, one[2])), **one[3]}
    values = {name: named(values.get(name), real) for name, real in call.values.items()}
    made = Import(reader, call.line, None, values)
    made.read = read_call(reader, one)
    made.again = functools.partial(read_again, reader, read.index(one) + 1, 0) if same else None
    made.make()
    if outcome.error:
        made.notes.append(f"the script ended early: {outcome.error}")
    made.notes.append("the script was run: sizes, types and restrictions are those of this run")
    return answer(made, [each.line for each in calls])


def reading(path):
    """(reader, calls) of the script as it is read; what cannot be read has no calls."""
    try:
        reader, calls = read_calls(path)
    except (Unreadable, RecursionError):
        reader, calls = Reader(path, "tune_kernel"), []
    reader.passed_over.clear()
    return reader, calls
