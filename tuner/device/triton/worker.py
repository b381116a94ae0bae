# SPDX-License-Identifier: Apache-2.0
"""The Python half of a worker for Triton: one process that has imported Triton, and forks of it that answer.
It is started inside the walls, and never uses stdout to answer.

Arguments: `lower` or `compile`, the three pipes' numbers, a folder for each request's files.

lower    runs a kernel's Python for one config, as far as TTIR. The text that it makes names no places,
         so that configs and sources which mean the same are the same. A fork for each request.
compile  makes a cubin of TTIR. It runs nobody's Python, so that a fork makes many.

What it has of frames and requests is process.py, which comes before it in the same text.
"""
import ast
import gc
import importlib.machinery
import importlib.util
import json
import os
import re
import sys
import traceback
import types

WARP_THREADS = 32
COMPILES_PER_FORK = 64  # 40 of a matmul let it grow by 17 MB


# ---- Modules that are not there -----------------------------------------------------------------


class StandIn(types.ModuleType):
    """In the place of a module that this Python lacks, and of all that is in it: a library's file is
    read with its host code, of which no kernel needs anything. What needs a value of it is an error."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __call__(self, *args, **kwargs):
        is_decorator = len(args) == 1 and callable(args[0]) and not kwargs
        return args[0] if is_decorator else StandIn(self.__name__)

    def __getitem__(self, key):
        return StandIn(self.__name__)

    def __or__(self, other):  # of annotations, "torch.Tensor | None"
        return self

    __ror__ = __or__

    def __mro_entries__(self, bases):
        return ()

    def keys(self):  # of **options
        return ()

    def __bool__(self):
        raise Refused(f"{place_of_caller()}: what '{self.__name__}' is decides here, and there is no module "
                      f"'{self.__name__.split('.')[0]}' for sources; write what it would be, here or in a header")

    __iter__ = __len__ = __bool__


class StandInFinder:
    """Finds what is neither Python's nor of the `libraries` nor a file of the source: `fla.ops.utils.op` is the
    source's own op.py, if it has one, else a stand-in."""

    def __init__(self, folder, libraries):
        self.folder, self.libraries = folder, libraries

    def find_spec(self, name, path=None, target=None):
        top, last = name.partition(".")[0], name.rpartition(".")[2]
        known = top in sys.stdlib_module_names or top in self.libraries or os.path.exists(self.own(top))
        if known or name != top and not isinstance(sys.modules.get(top), StandIn):
            return None
        if name != top and os.path.exists(self.own(last)):
            return importlib.util.spec_from_file_location(name, self.own(last), submodule_search_locations=[])
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def own(self, module):
        return os.path.join(self.folder, module + ".py")

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def place_of_caller():
    frame = sys._getframe(2)
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def stand_in_for_modules(folder):
    """Libraries are not looked for: what a kernel becomes would depend on versions that are in no key."""
    sys.meta_path.insert(0, StandInFinder(folder, {"triton", "numpy"}))
    sys.meta_path.append(StandInFinder(folder, {"triton"}))  # where this Python has no numpy


def stood_in_for():
    return sorted(name for name, module in sys.modules.items() if type(module) is StandIn and "." not in name)


def first_mention(files, names):
    """(file, line) of the first that speaks of one of the modules."""
    for file, text in files.items():
        for number, line in enumerate(text.split("\n"), 1):
            if any(re.search(rf"\b{re.escape(name)}\b", line) for name in names):
                return file, number
    return None


# ---- Python to TTIR -----------------------------------------------------------------------------


class Lowered(Exception):
    """Ends triton.compile once the TTIR is there."""


def stop_after_ttir(backend):
    """Makes a backend's compiler end before what depends on more than the TTIR."""
    add_stages = backend.add_stages

    def add(self, stages, *args, **kwargs):
        add_stages(self, stages, *args, **kwargs)

        def stop(module, metadata):
            raise Lowered(module.str_nodebug())

        stages["ttgir"] = stop

    backend.add_stages = add


def keep_files_in_place():
    """Triton writes a file of its cache beside its place and moves it there, which a source's process may not."""
    from triton.runtime.cache import FileCacheManager

    def put(self, data, filename, binary=True):
        path = self._make_path(filename)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb" if isinstance(data, bytes) else "w") as file:
            file.write(data if isinstance(data, bytes) else str(data))
        return path

    FileCacheManager.put = put


def line_in(files, function_source, line):
    """(file, line) of a line of a function's own text; None for a library's."""
    for name, text in files.items():
        at = text.find(function_source)
        if at >= 0:
            return name, text.count("\n", 0, at) + line
    return None


def causes(error):
    chain = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return chain


def described(error):
    text = getattr(error, "error_message", None) or str(error)
    name = type(error).__name__
    return text if name in ("CompilationError", "CompileTimeAssertionFailure") and text else f"{name}: {text}"


def explain(error, folder, files, source_name):
    """"softmax.py:12: what is wrong": the innermost place that is of the kernel's own files."""
    from triton.compiler.errors import CompilationError
    chain = causes(error)
    place = None
    if isinstance(error, SyntaxError) and error.filename:
        place = os.path.basename(error.filename), error.lineno
    for each in chain:
        if isinstance(each, CompilationError) and each.src and each.node is not None:
            place = line_in(files, each.src, each.node.lineno) or place
    for frame in traceback.extract_tb(chain[-1].__traceback__) if place is None else ():
        if frame.filename.startswith(folder + "/"):
            place = os.path.basename(frame.filename), frame.lineno
    absent = stood_in_for()
    named = [name for name in absent if f"<module '{name}" in described(chain[-1])]
    file, line = place or first_mention(files, named) or (source_name, None)
    message = described(chain[-1]) if not isinstance(error, SyntaxError) else f"SyntaxError: {error.msg}"
    message += f" (modules that are not there: {', '.join(absent)})" if absent else ""
    return f"{file}:{line}: {message}" if line else f"{file}: {message}"


def load_module(folder, name):
    spec = importlib.util.spec_from_file_location("tune_kernel", os.path.join(folder, name))
    if spec is None or not name.endswith(".py"):
        raise Refused(f"{name}: a Triton source is a file of Python, NAME.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["tune_kernel"] = module
    spec.loader.exec_module(module)
    return module


def find_function(module, entry, source_name):
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    def is_function(value):
        return isinstance(value, (Autotuner, Heuristics, JITFunction))

    found = getattr(module, entry, None)
    if not is_function(found):
        known = [name for name, value in vars(module).items() if is_function(value)]
        raise Refused(f"{source_name}: no @triton.jit function '{entry}'; it has: " +
                      (", ".join(known) or "none"))
    while isinstance(found, (Autotuner, Heuristics)):  # the spec says what there is to try, and the values
        found = found.fn
    return found


def arguments_of(function, request, constants, where):
    """Parameter: argument. By name; in order where a name is no parameter's, there are as many of both, and names
    that both have are at their places, since two functions of one kernel may call different things alike."""
    arguments = {each["name"]: each for each in request["arguments"]}
    names = [each.name for each in function.params]
    strange = [name for name in arguments if name not in names]
    if not strange:
        return arguments
    open_names = [each.name for each in function.params if not each.is_constexpr and each.name not in constants]
    in_order = dict(zip(open_names, request["arguments"]))
    at_places = all(name not in arguments or argument["name"] == name for name, argument in in_order.items())
    if len(open_names) == len(arguments) and at_places:
        return in_order
    raise Refused(f"{where}: '{request['entry']}' has no parameter '{strange[0]}', which is an arg of the spec; "
                  f"it has {', '.join(names)}")


def constant_of(value):
    """A define's value as a kernel takes it: "None" and the names of Triton's types, "tl.bfloat16", stand for these."""
    if value == "None":
        return None
    module, _, name = value.rpartition(".") if isinstance(value, str) else ("", "", "")
    if module in ("tl", "triton.language"):
        import triton.language
        known = getattr(triton.language, name, None)
        if isinstance(known, triton.language.dtype):
            return known
        raise Refused(f"a define is '{value}', and triton.language has no type '{name}'", "invalid_config")
    return value


def signature_of(function, request):
    """What triton.compile wants to know of each parameter, and those that the kernel will have."""
    entry = request["entry"]
    # A function may ask for num_warps and its like, as Triton's own launcher would give it.
    constants = {name: ast.literal_eval(value) for name, value in request["options"] + request["constants"]}
    constants = {name: constant_of(value) for name, value in constants.items()}
    place = line_in(request["files"], function.src, 1)
    where = f"{place[0]}:{place[1]}" if place else request["source_name"]
    arguments = arguments_of(function, request, constants, where)
    signature, values, attributes, taken = {}, {}, {}, []
    for i, each in enumerate(function.params):
        argument = arguments.get(each.name)
        if argument is None:
            signature[each.name] = "constexpr"
            if each.name in constants:
                values[each.name] = constants[each.name]
            elif each.has_default:
                values[each.name] = each.default
            else:
                raise Refused(f"{where}: parameter '{each.name}' of '{entry}' is no arg, no param and no "
                              "define of the spec")
            continue
        if each.is_constexpr:
            raise Refused(f"{where}: parameter '{each.name}' of '{entry}' is a tl.constexpr, and an arg of "
                          "the spec; make it a param or a define")
        specialize = not each.do_not_specialize
        if argument["is_one"] and specialize:
            signature[each.name], values[each.name] = "constexpr", 1
            continue
        signature[each.name] = argument["type"]
        aligned = specialize and not getattr(each, "do_not_specialize_on_alignment", False)
        divisor = argument["divisor"] if aligned else 1
        if divisor % 16 == 0:
            attributes[(i,)] = [["tt.divisibility", 16]]
        taken.append({"name": argument["name"], "type": argument["type"], "divisor": 16 if divisor % 16 == 0 else 1})
    return signature, values, attributes, taken


def lower(request, folder, triton):
    files = request["files"]
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    sys.path.insert(0, folder)
    stand_in_for_modules(folder)
    try:
        module = load_module(folder, request["source_name"])
        function = find_function(module, request["entry"], request["source_name"])
        signature, values, attributes, taken = signature_of(function, request)
        source = triton.compiler.ASTSource(function, signature, values, attributes)
        triton.compile(source, target=target_of(request, triton), options=options_of(request))
    except Lowered as lowered:
        return {"entry": function.__name__, "parameters": taken}, str(lowered).encode()
    except Refused:
        raise
    except Exception as error:
        raise Refused(explain(error, folder, files, request["source_name"])) from error
    raise Refused("Triton went on behind the TTIR")


# ---- TTIR to a cubin ----------------------------------------------------------------------------


def target_of(request, triton):
    return triton.backends.compiler.GPUTarget("cuda", request["sm"], WARP_THREADS)


def options_of(request):
    """The options by value; Triton itself takes any name and most values without a word."""
    from triton.backends.nvidia.compiler import CUDAOptions
    options = {name: ast.literal_eval(value) for name, value in request["options"]}
    known = CUDAOptions.__dataclass_fields__
    for name, value in options.items():
        if name not in known:
            raise Refused(f"this Triton has no option '{name}'", "invalid_config")
        whole = isinstance(value, int) and not isinstance(value, bool)
        limits = {"num_warps": (1, 32), "num_ctas": (1, 16), "num_stages": (1, 64), "maxnreg": (16, 255)}
        if name in limits:
            low, high = limits[name]
            if not whole or not low <= value <= high:
                raise Refused(f"{name}={value}: it is a whole number from {low} to {high}", "invalid_config")
        if name in ("num_warps", "num_ctas") and value & (value - 1):
            raise Refused(f"{name}={value} is no power of two", "invalid_config")
    if options.get("num_ctas", 1) > 1 and request["sm"] < 90:
        raise Refused("num_ctas above 1 needs sm_90 or later", "invalid_config")
    return options


def parameters_of(module_text, entry):
    """[(type, divisor)] of the function, from TTIR as Triton prints it."""
    head = f"tt.func public @{entry}("
    begin = module_text.find(head)
    if begin < 0:
        raise Refused(f"the TTIR has no function '{entry}' that is public")
    text = module_text[begin + len(head):]
    depth, parts, part = 0, [], ""
    for i, char in enumerate(text):
        if char in "(<{[":
            depth += 1
        elif char in ")>}]":
            depth -= 1
        if depth < 0 or (depth == 0 and char == ","):
            parts.append(part.strip())
            part = ""
            if depth < 0:
                break
            continue
        part += char
    parameters = []
    for part in filter(None, parts):
        kind = part.split(":", 1)[1].strip()
        divisor = 1
        if "tt.divisibility = " in kind:
            divisor = int(kind.split("tt.divisibility = ", 1)[1].split(" ", 1)[0])
        kind = kind.split(" {", 1)[0].split(" loc(", 1)[0]
        parameters.append((kind.replace("!tt.ptr<", "*").rstrip(">") if kind.startswith("!tt.ptr<") else kind,
                           divisor))
    return parameters


def block_of(kind):
    """(element, block shape) of a tensor descriptor, in TTIR's words or in Triton's; None for what is none."""
    written = re.fullmatch(r"!tt\.tensordesc<(?:tensor<)?((?:\d+x)+)(\w+)>?>", kind)
    if written:
        return written.group(2), [int(extent) for extent in written.group(1).split("x")[:-1]]
    given = re.fullmatch(r"tensordesc<(\w+)\[([\d, ]+)\]>", kind)
    return (given.group(1), [int(extent) for extent in given.group(2).split(",")]) if given else None


def parts_of(argument, types):
    """The parameters that Triton makes of an argument, where `types` are those from its own on. A host's
    descriptor is followed by its shape and strides; before sm_90 it is a pointer, with all that it knows."""
    block = block_of(argument["type"])
    if block is None:
        return [argument]
    name, rank = argument["name"], len(block[1])
    shape, strides = ([f"{name}.{what}[{i}]" for i in range(rank)] for what in ("shape", "strides"))
    names = shape + strides
    whole = argument
    if types and types[0].startswith("*"):
        flags = types[1 + 2 * rank:]
        flags = flags[:next((i for i, kind in enumerate(flags) if kind != "i1"), len(flags))]
        if len(flags) > 2:
            raise Refused(f"'{name}' comes with {len(flags)} flags; this Triton is too new", "invalid_config")
        names = shape + strides + [f"{name}.nan_padding", f"{name}.round_f32_to_tf32"][:len(flags)] + names
        whole = argument | {"type": "*" + block[0]}
    kinds = types[1:1 + len(names)]
    return [whole] + [{"name": part, "type": kind} for part, kind in zip(names, kinds)]


def expanded(arguments, parameters):
    """The arguments, one for each parameter."""
    types = [kind for kind, _ in parameters]
    parts = []
    for argument in arguments:
        parts += parts_of(argument, types[len(parts):])
    return parts


def same_type(declared, given):
    """TTIR's word for a type against Triton's: signs are not in TTIR."""
    if block_of(declared) and block_of(given):
        (element, block), (wanted, wanted_block) = block_of(declared), block_of(given)
        return block == wanted_block and same_type(element.removeprefix("s"), wanted)
    pointer = declared.startswith("*")
    if pointer != given.startswith("*"):
        return False
    declared, given = declared.lstrip("*"), given.lstrip("*").removeprefix("k")
    names = {"fp64": "f64", "fp32": "f32", "fp16": "f16", "u1": "i1", "u8": "i8", "u16": "i16", "u32": "i32",
             "u64": "i64", "fp8e4nv": "f8E4M3FN"}
    return declared == names.get(given, given)


def check_parameters(parameters, arguments, request):
    if len(parameters) != len(arguments):
        raise Refused(f"the TTIR's function '{request['entry']}' has {len(parameters)} parameters; there are "
                      f"{len(arguments)} args")
    for i, ((declared, _), given) in enumerate(zip(parameters, arguments)):
        if not same_type(declared, given["type"]):
            raise Refused(f"parameter {i + 1} of the TTIR's function '{request['entry']}' is {declared}; arg "
                          f"'{given['name']}' is {given['type']}")


def launch_of(metadata, request):
    threads = metadata.num_warps * WARP_THREADS  # of warps that a pass has added, too
    clusters = tuple(getattr(metadata, "cluster_dims", (metadata.num_ctas, 1, 1)))
    if clusters != (metadata.num_ctas, 1, 1):
        raise Refused(f"clusters of {clusters} blocks are not launched", "invalid_config")
    if metadata.profile_scratch_size:
        raise Refused("kernels with instrumentation are not launched", "invalid_config")
    return {
        "entry": metadata.name,
        "threads": threads,
        "cluster": metadata.num_ctas,
        "shared_bytes": metadata.shared,
        "scratch": [{"bytes": metadata.global_scratch_size, "alignment": metadata.global_scratch_align},
                    {"bytes": 0, "alignment": 1}],
    }


SWIZZLE_BYTES = {0: 0, 1: 32, 2: 64, 3: 128}


def add_boxes(taken, metadata):
    """What the host encodes for each descriptor: the compiler may have cut its block into boxes."""
    maps = [each for each in taken if block_of(each["type"])]
    boxes = list(metadata.tensordesc_meta or [])
    if len(maps) != len(boxes):
        raise Refused(f"{len(maps)} descriptors of the host; Triton tells of {len(boxes)}")
    for each, box in zip(maps, boxes):
        if box["fp4_padded"] or box.get("is_im2col"):
            raise Refused(f"'{each['name']}': descriptors of padded 4-bit floats and of im2col are not made",
                          "invalid_config")
        each |= {"box": list(box["block_size"]), "swizzle_bytes": SWIZZLE_BYTES[box["swizzle"]]}


def compile_ttir(request, folder, triton):
    from triton.runtime.errors import PTXASError
    path = os.path.join(folder, "kernel.ttir")
    with open(path, "w", encoding="utf-8") as file:
        file.write(request["ttir"])
    options = options_of(request)
    parameters = parameters_of(request["ttir"], request["entry"])
    taken = expanded(request["arguments"], parameters)
    check_parameters(parameters, taken, request)
    try:
        kernel = triton.compile(path, target=target_of(request, triton), options=options)
    except PTXASError as error:
        raise Refused(str(error).split("Repro command:", 1)[0].strip()) from error
    except Exception as error:
        raise Refused(f"Triton: {described(causes(error)[-1])}") from error
    reply = launch_of(kernel.metadata, request)
    reply["parameters"] = [each | {"divisor": divisor} for each, (_, divisor) in zip(taken, parameters)]
    add_boxes(reply["parameters"], kernel.metadata)
    return reply, kernel.asm["cubin"]


WARM_SOURCE = """import triton
import triton.language as tl


@triton.jit
def warm(x, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    tl.store(x + at, tl.exp(tl.load(x + at)))
"""
WARM_TTIR = "module {\n  tt.func public @warm(%arg0: !tt.ptr<f32>) {\n    tt.return\n  }\n}\n"


def warm(handle, folder, triton):
    """What the first compile of a process costs more than others is spent before there is a fork."""
    os.makedirs(folder, exist_ok=True)
    argument = {"name": "x", "type": "*fp32", "divisor": 16, "is_one": False}
    request = {"entry": "warm", "sm": 90, "options": [], "arguments": [argument]}
    request |= {"files": {"warm.py": WARM_SOURCE}, "source_name": "warm.py", "constants": [["SIZE", "32"]]}
    request |= {"ttir": WARM_TTIR}
    handle(request, folder, triton)
    sys.path.remove(folder) if folder in sys.path else None
    sys.modules.pop("tune_kernel", None)
    gc.collect()
    gc.freeze()


def main():
    kind, pipes, folder = sys.argv[1], [int(number) for number in sys.argv[2:5]], sys.argv[5]
    protect_parent()
    os.makedirs(folder, exist_ok=True)
    os.environ.update(TRITON_CACHE_DIR=os.path.join(folder, "cache"), TMPDIR=folder, HOME=folder,
                      TRITON_DISABLE_LINE_INFO="1", TRITON_DUMP_PTXAS_LOG="1", TRITON_DEFAULT_FP_FUSION="1",
                      TRITON_STORE_BINARY_ONLY="1")
    sys.dont_write_bytecode = True
    try:
        import triton
        import triton.compiler
        from triton.backends.nvidia.compiler import CUDABackend
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if kind == "lower":
            stop_after_ttir(CUDABackend)
            keep_files_in_place()
        handle = lower if kind == "lower" else compile_ttir
        warm(handle, folder, triton)
        ready = {"outcome": "ok"}
    except Exception as error:
        ready = {"outcome": "failed", "message": f"{type(error).__name__}: {error}"}
    announce(ready, pipes)
    if ready["outcome"] == "ok":
        serve(handle, pipes, folder, triton, COMPILES_PER_FORK if kind == "compile" else 1)
    os._exit(0)  # nothing is left to be tidied up, and Triton's bindings would say so at length


main()
