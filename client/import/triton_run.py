# SPDX-License-Identifier: Apache-2.0
"""`tunectl import --run` of a script with Triton kernels: configs, grids and arguments as its launches really have them.
A module in the place of triton takes down each launch; tensors that the script makes on a GPU are made on the CPU."""
import ast
import contextlib
import inspect
import itertools
import re
import sys
import types

import script_run
import triton_symbols
from script_reader import Unreadable
from script_values import SPEC_TYPES
from spec_text import evaluated
from triton_function import last_name

TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64",
         "int16": "i16", "int8": "i8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "bool": "bool",
         "float8_e4m3fn": "e4m3"}


class Config:
    """triton.Config"""

    def __init__(self, kwargs, num_warps=4, num_stages=3, num_ctas=1, maxnreg=None, pre_hook=None, ir_override=None):
        self.kwargs, self.num_warps, self.num_stages, self.num_ctas = kwargs, num_warps, num_stages, num_ctas
        self.maxnreg, self.pre_hook, self.ir_override = maxnreg, pre_hook, ir_override

    def all_kwargs(self):
        more = {"num_warps": self.num_warps, "num_stages": self.num_stages, "num_ctas": self.num_ctas}
        return {**self.kwargs, **more, **({"maxnreg": self.maxnreg} if self.maxnreg else {})}

    __hash__ = None


class Taken:
    """A launch: the kernel's name, its configs, {parameter: value}, what grid and heuristics are for each config."""

    def __init__(self, name, configs, values, bound, line):
        self.name, self.configs, self.values, self.bound, self.line = name, configs, values, bound, line


class Kernel:
    """A function with @triton.jit, and what tunes it."""

    def __init__(self, function, launches):
        self.fn, self.launches = function, launches
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.configs, self.heuristics = [], {}
        self.arg_names = list(inspect.signature(function).parameters)

    def __getitem__(self, grid):
        return lambda *args, **given: self.launch(grid, args, given)

    def run(self, *args, grid=(1,), warmup=False, **given):
        return self.launch(grid, args, given)

    def launch(self, grid, args, given):
        values = {**dict(zip(self.arg_names, args)), **given}
        defaults = {name: each.default for name, each in inspect.signature(self.fn).parameters.items()
                    if each.default is not inspect.Parameter.empty}
        bound = triton_symbols.Bound(grid, self.heuristics, {**defaults, **values}, [c.all_kwargs() for c in self.configs])
        values.update(bound.heuristics[0])
        frame = sys._getframe(2)
        self.launches.append(Taken(self.__name__, self.configs, values, bound, frame.f_lineno))
        return self

    def __call__(self, *args, **given):
        raise RuntimeError(f"{self.__name__} is a kernel: it is launched, not called")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return 0


def stand_in(launches):
    """{name: module} in the place of triton and its parts."""

    class StandIn(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            full = f"{self.__name__}.{name}"
            made = StandIn(full)
            made.__path__ = []
            sys.modules.setdefault(full, made)
            setattr(self, name, made)
            return made

        def __call__(self, *args, **kwargs):
            is_decorator = len(args) == 1 and callable(args[0]) and not kwargs and not isinstance(args[0], StandIn)
            return args[0] if is_decorator else self

        def __getitem__(self, key):
            return self

        def __bool__(self):
            return True

        def __gt__(self, other):
            return True

        __ge__ = __gt__

        def __lt__(self, other):
            return False

        __le__ = __lt__

        def __or__(self, other):
            return self

        __ror__ = __or__

        def __mro_entries__(self, bases):
            return (object,)

    class Constexpr:
        def __init__(self, value):
            self.value = value.value if isinstance(value, Constexpr) else value

        def __index__(self):
            return int(self.value)

    def jit(function=None, **options):
        if function is None:
            return lambda one: jit(one)
        return Kernel(function, launches)

    def autotune(configs=(), key=None, **options):
        def of(kernel):
            kernel.configs = list(configs)
            return kernel
        return of

    def heuristics(values):
        def of(kernel):
            kernel.heuristics = dict(values)
            return kernel
        return of

    triton = StandIn("triton")
    triton.__path__, triton.__version__ = [], "3.4.0"
    triton.jit, triton.autotune, triton.heuristics, triton.Config = jit, autotune, heuristics, Config
    triton.cdiv, triton.next_power_of_2 = triton_symbols.cdiv, triton_symbols.next_power_of_2
    language = StandIn("triton.language")
    language.__path__ = []
    language.constexpr = Constexpr
    triton.language = language
    found = {"triton": triton, "triton.language": language}
    for name in ("language.extra", "language.extra.libdevice", "language.extra.cuda", "language.extra.cuda.libdevice",
                 "language.math", "testing", "runtime", "runtime.driver", "runtime.jit", "runtime.autotuner", "tools",
                 "tools.tensor_descriptor", "compiler", "backends", "backends.compiler"):
        made = StandIn(f"triton.{name}")
        made.__path__ = []
        found[f"triton.{name}"] = made
    found["triton.runtime.autotuner"].Config = Config
    return found


@contextlib.contextmanager
def on_cpu():
    """PyTorch's makers of tensors on a GPU make them on the CPU, and its questions about GPUs have answers."""
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:
        yield
        return

    def on_gpu(device):
        return str(device).startswith(("cuda", "hip", "xpu"))

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, function, kinds, args=(), kwargs=None):
            kwargs = dict(kwargs or {})
            if on_gpu(kwargs.get("device", "")):
                kwargs["device"] = "cpu"
            args = tuple("cpu" if isinstance(a, (str, torch.device)) and on_gpu(a) else a for a in args)
            if getattr(function, "__name__", "") == "cuda":
                return args[0]
            return function(*args, **kwargs)

    torch.cuda.is_available = lambda: True
    torch.cuda.device_count = lambda: 1
    torch.cuda.current_device = lambda: 0
    torch.cuda.synchronize = lambda *args: None
    torch.cuda.device = lambda *args: contextlib.nullcontext()
    torch.cuda.get_device_capability = lambda *args: (9, 0)
    torch.cuda.get_device_name = lambda *args: "NVIDIA H100"
    torch.cuda.get_device_properties = lambda *args: types.SimpleNamespace(
        multi_processor_count=132, name="NVIDIA H100", major=9, minor=0, total_memory=80 << 30, warp_size=32,
        max_threads_per_multi_processor=2048, shared_memory_per_block_optin=232448, regs_per_multiprocessor=65536,
        shared_memory_per_multiprocessor=233472, L2_cache_size=50 << 20)
    with OnCpu():
        yield


def real(value):
    """("tensor", dtype, shape, strides), ("none",), ("type", name) or ("number", value); None: another thing."""
    if value is None:
        return ("none",)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        dtype = str(value.dtype).rpartition(".")[2]
        strides = value.stride() if callable(getattr(value, "stride", None)) else None
        return ("tensor", TYPES.get(dtype, dtype), *in_memory(list(map(int, value.shape)), strides and list(map(int, strides))))
    if isinstance(value, (bool, int, float, str)):
        return ("number", value)
    if hasattr(value, "value") and isinstance(value.value, (bool, int, float, str)):
        return ("number", value.value)
    name = str(value).rpartition(".")[2]
    name = getattr(value, "__name__", name).rpartition(".")[2]
    return ("type", TYPES[name]) if name in TYPES else None


class Decorators(ast.NodeTransformer):
    """Kernels of a script without what a library puts round them, such as caches of launches: its own tuner is
    @triton.autotune."""

    def visit_FunctionDef(self, node):
        if not any(last_name(d) == "jit" for d in node.decorator_list):
            return node
        kept = []
        for decorator in node.decorator_list:
            name = last_name(decorator)
            if isinstance(decorator, ast.Call) and (name == "libtuner" or name.endswith("autotune")):
                given = [k for k in decorator.keywords if k.arg == "configs"]
                kept.append(ast.Call(ast.Name("tunectl_autotune", ast.Load()), decorator.args[:1], given))
            elif name in ("jit", "heuristics"):
                kept.append(decorator)
        node.decorator_list = kept
        return node

    def change(self, tree):
        first = next((i for i, node in enumerate(tree.body) if not isinstance(node, ast.Expr) and not (
            isinstance(node, ast.ImportFrom) and node.module == "__future__")), 0)
        tree = self.visit(tree)
        tree.body.insert(first, ast.parse("from triton import autotune as tunectl_autotune").body[0])
        return tree


def run(path, wanted_names, wanted, arguments):
    """The launch of the wanted function."""
    launches = []
    with on_cpu():
        outcome = script_run.run(path, arguments, stand_in(launches), Decorators().change)
    names = [name for name in dict.fromkeys(one.name for one in launches) if name in wanted_names] or list(
        dict.fromkeys(one.name for one in launches))
    if not names:
        raise Unreadable(f"{path}: the script was run, and launched no kernel in Triton" +
                         (f": {outcome.error}" if outcome.error else ""))
    if not 1 <= wanted <= len(names):
        raise Unreadable(f"{path}: the script launched {', '.join(names)}; there is no number {wanted}")
    found = [one for one in launches if one.name == names[wanted - 1]]
    return found[0], names, outcome.error


def strides_of(shape):
    return list(itertools.accumulate([1, *shape[:0:-1]], lambda a, b: a * b))[::-1]


def is_contiguous(shape, strides):
    return all(one == other for one, other, extent in zip(strides, strides_of(shape), shape) if extent > 1)


def in_memory(shape, strides):
    """Shape and strides of a tensor; if its axes are those of a contiguous one in another order, of that one."""
    order = sorted(range(len(shape)), key=lambda axis: -strides[axis]) if strides else []
    turned = [shape[axis] for axis in order], [strides[axis] for axis in order]
    return turned if strides and not is_contiguous(shape, strides) and is_contiguous(*turned) else (shape, strides)


# A launch that was read, put right.


def configs_of(taken):
    """{name: value} of each config, in the order of the script."""
    found = []
    for config in taken.configs:
        values = {"num_warps": 4, "num_stages": 3, "num_ctas": 1, **config.all_kwargs()}
        if values not in found:
            found.append(values)
    return found


class Said:
    """Chooses between an expression that was read and the number that a run had, of which the expression must give each
    config's."""

    def __init__(self, values, taken):
        configs = configs_of(taken) or [{}]
        self.scopes = [{**values, **config} for config in configs]
        self.known, self.pinned = {}, []  # numbers in the place of what was read

    def number(self, text, scope):
        names = tuple((name, scope[name]) for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text)) if name in scope)
        if (text, names) not in self.known:
            self.known[text, names] = evaluated(text, dict(names))
        return self.known[text, names]

    def of_configs(self, texts, numbers):
        """The first text that gives these numbers, one for each config; else the number, if all have one; else None."""
        for text in texts:
            if text is not None and "left_to_write" not in text:
                made = [self.number(text, scope) for scope in self.scopes]
                if None not in made and made == numbers:
                    return text
        return repr(numbers[0]) if all(number == numbers[0] for number in numbers) else None

    def __call__(self, text, number):
        made = self.of_configs([text], [number] * len(self.scopes))
        if text not in (None, made) and re.search(r"(?<!')\b[A-Za-z_]\w*", text):
            self.pinned.append(made)
        return made


def correct(launch, taken):
    """Puts what a launch really was in the place of what was read of it, where the two differ. Expressions that give the
    real values stay."""
    config = configs_of(taken)[0] if taken.configs else {}
    read = {name: (template, texts) for name, template, texts in launch.args}
    defines = dict(launch.defines)
    kinds = {name: real(value) for name, value in taken.values.items()}
    values = sizes(read, kinds)
    launch.left, launch.asked, launch.notes = [], [], [note for note in launch.notes if "taken for one of" not in note
                                                       and "1.0 here" not in note and "the problem's" not in note]
    said = Said(values, taken)
    floats = [kind[1] for kind in kinds.values() if kind and kind[0] == "tensor" and kind[1] in ("f16", "bf16", "f32")]
    problem = max(set(floats), key=floats.count) if floats else "f32"
    launch.types, launch.types_first = [], [problem] if floats else []
    roles = launch.function.roles()
    launch.args, launch.defines = [], []
    for name in launch.function.order:
        if name in launch.values and name in config:
            continue
        kind = kinds.get(name)
        if name not in taken.values:
            continue
        if kind is None:
            launch.leave(f"arg {name}: a {type(taken.values[name]).__name__} is no arg of a spec")
        elif kind[0] == "none":
            launch.defines.append((name, "'None'"))
        elif kind[0] == "type":
            launch.defines.append((name, defines.get(name) if "tl." in defines.get(name, "") else f"'tl.{kind_name(kind[1])}'"))
        elif name in launch.function.constants:
            launch.defines.append((name, constant(launch, name, kind[1], defines.get(name), said, taken.bound)))
        elif kind[0] == "number":
            template, texts = read.get(name, ("", [None]))
            dtype = "bool" if isinstance(kind[1], bool) else "f32" if isinstance(kind[1], float) else \
                "i64" if abs(kind[1]) >= 1 << 31 else "i32"
            launch.args.append((name, f'scalar {{ dtype: "{dtype}" value: $0 }}', [said((texts or [None])[0], kind[1])]))
        else:
            add_tensor(launch, name, kind, read, roles, problem, said, taken.values[name])
    correct_grid(launch, taken.bound, said)
    if said.pinned:
        launch.notes.append(f"{', '.join(dict.fromkeys(said.pinned))}: numbers of this run, of which no expression was read that "
                            "gives them; other sizes may have others")
    launch.dim_values = values


def constant(launch, name, value, text, said, bound):
    """A define. Heuristics give one for each config."""
    if name not in bound.heuristics[0]:
        return repr(value) if isinstance(value, (str, bool)) else said(text, value)
    each = [(found or {}).get(name) for found in bound.heuristics]
    made = said.of_configs([text, bound.texts.get(name)], each)
    if made is None:
        launch.leave(f"define {name}: the heuristics give {each[0]!r} for the first config and other values for others, by "
                     "what no expression was read of")
    return made or "left_to_write"


def correct_grid(launch, bound, said):
    count = len(bound.grids[0])
    read, launch.grid = launch.grid, []
    for index in range(count):
        each = [int(grid[index]) if grid is not None and len(grid) == count else None for grid in bound.grids]
        made = said.of_configs([read[index] if index < len(read) else None, bound.texts.get(index)], each)
        if made is None:
            launch.leave(f"launch.grid: axis {index} is {each[0]} for the first config and has other values for others, by "
                         "what no expression was read of")
        launch.grid.append(made or "left_to_write")


def kind_name(spec):
    return {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}.get(spec, spec.replace("i", "int"))


def sizes(read, kinds):
    """Values of dims: names that stand for a whole axis."""
    values = {}
    for name, (template, texts) in read.items():
        kind = kinds.get(name)
        if kind is None:
            continue
        shape = kind[2] if kind[0] == "tensor" else [kind[1]] if kind[0] == "number" else []
        if len(texts) >= len(shape):
            for text, number in zip(texts, shape):
                if text.isidentifier() and isinstance(number, int) and not isinstance(number, bool) and text not in (
                        "left_to_write", "True", "False"):
                    values.setdefault(text, number)
    return values


def add_tensor(launch, name, kind, read, roles, problem, said, value):
    _, dtype, shape, strides = kind
    template, texts = read.get(name, ("", []))
    if "tensor_descriptor" in template:
        launch.args.append((name, template, texts))
        if any("left_to_write" in text for text in texts):
            launch.leave(f"arg {name}: its descriptor's shape or block shape was not understood")
        return
    if strides is not None and not is_contiguous(shape, strides):
        launch.leave(f"arg {name}: its strides are {strides} for a shape of {shape}, which no buffer has")
    texts = texts if len(texts) == len(shape) else [None] * len(shape)
    made = [said(text, extent) for text, extent in zip(texts, shape)] or ["1"]
    role, fill = roles[name], ""
    if name in launch.zeroed:
        role, fill = "INOUT", " fill { kind: CONSTANT }"
    elif name in launch.restored:
        role = "INOUT"
    elif role != "OUTPUT" and dtype[0] in "iub":
        low, high = int(value.min()), int(value.max())
        fill = f" fill {{ kind: UNIFORM low: {low} high: {high + 1} }}" if low or high else " fill { kind: CONSTANT }"
    if dtype not in SPEC_TYPES and dtype != "e4m3":
        launch.leave(f"arg {name}: {dtype} is no type of a spec")
        dtype = "left_to_write"
    dtype = "dtype" if dtype == problem else dtype
    launch.types.append(dtype)
    spots = ", ".join(f"${i}" for i in range(len(made)))
    launch.args.append((name, f'buffer {{ dtype: "{dtype}" shape: [{spots}] role: ROLE_{role}{fill} }}', made))
