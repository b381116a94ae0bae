# SPDX-License-Identifier: Apache-2.0
"""The second half of a worker that runs references in NumPy: calls a function of a file with a problem's
inputs, and hands back what it returns. process.py comes before it in the same text.

A request names the files with the elements of each input, and the file for the outputs' elements, which
are written one after the other in the order of the buffers.
"""
import importlib
import importlib.util
import inspect

TYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bool": "|b1", "i8": "<i1", "u8": "<u1", "i16": "<i2",
         "u16": "<u2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8"}
OUTPUT_ROLES = ("output", "inout")


def bfloat16_as_f32(bits, numpy):
    return (bits.astype("<u4") << 16).view("<f4")


def e4m3_as_f32(bits, numpy):
    size = bits & 0x7f
    values = numpy.where(size == 0x7f, numpy.float32("nan"),
                         (size.astype("<u4") << 20).view("<f4") * numpy.float32(2.0**120))
    return numpy.where(bits >= 0x80, -values, values).astype("<f4")


# Types that NumPy lacks: the type of their bits, and the function that gives f32 the same numbers.
NARROW = {"bf16": ("<u2", bfloat16_as_f32), "e4m3": ("<u1", e4m3_as_f32)}


def array_of(buffer, numpy):
    if buffer["dtype"] in NARROW:
        bits, widened = NARROW[buffer["dtype"]]
        elements = widened(numpy.fromfile(buffer["file"], bits), numpy)
    else:
        elements = numpy.fromfile(buffer["file"], TYPES[buffer["dtype"]])
    return elements.reshape(buffer["shape"])


def load(request, folder):
    """The function. The file's folder is where its headers are, too: it may import them."""
    source = os.path.join(folder, "source")
    os.makedirs(source)
    for name, text in request["files"].items():
        with open(os.path.join(source, name), "w", encoding="utf-8") as file:
            file.write(text)
    sys.path.insert(0, source)
    spec = importlib.util.spec_from_file_location("tune_reference", os.path.join(source, request["source_name"]))
    module = importlib.util.module_from_spec(spec)
    sys.modules["tune_reference"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise Refused(failure(error, source)) from error
    function = getattr(module, request["entry"], None)
    if not callable(function):
        raise Refused(f"{request['source_name']} has no function '{request['entry']}'")
    return function


def failure(error, source):
    """With the last place in the user's own files."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{os.path.basename(error.filename or '')}:{error.lineno}: {type(error).__name__}: {error.msg}"
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(source)]
    place = f"{os.path.basename(places[-1].filename)}:{places[-1].lineno}: " if places else ""
    return f"{place}{type(error).__name__}: {error}"


def arguments_of(function, request, numpy):
    """By the names of its parameters."""
    values = {scalar["name"]: scalar["value"] for scalar in request["scalars"]}
    buffers = {buffer["name"]: buffer for buffer in request["buffers"] if "file" in buffer}
    known = sorted([*values, *buffers])
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise Refused(f"'{request['entry']}' takes its arguments by name: '{name}' cannot be given so")
        if parameter.kind == parameter.VAR_KEYWORD:
            continue
        if name in buffers:
            arguments[name] = array_of(buffers[name], numpy)
        elif name in values:
            arguments[name] = values[name]
        elif parameter.default is parameter.empty:
            raise Refused(f"'{request['entry']}' takes '{name}', which no input, scalar or dim is called; "
                          f"there are {', '.join(known)}")
    return arguments


def by_name(result, wanted, entry):
    names = [buffer["name"] for buffer in wanted]
    if isinstance(result, dict):
        if sorted(result) != sorted(names):
            raise Refused(f"'{entry}' returned {', '.join(map(str, sorted(result, key=str)))}; the outputs are "
                          f"{', '.join(names)}")
        return result
    results = result if isinstance(result, tuple) else (result,)
    if len(results) != len(names):
        raise Refused(f"'{entry}' returned {len(results)} results; the outputs are {', '.join(names)}")
    return dict(zip(names, results))


def without_ones(shape):
    return [size for size in shape if size != 1]


def elements_of(value, buffer, wide, entry, numpy):
    name = buffer["name"]
    try:
        array = numpy.asarray(value)
    except ValueError as error:
        raise Refused(f"'{entry}': '{name}' is no array: {error}") from error
    if array.size != buffer["count"] or array.ndim > 1 and without_ones(array.shape) != without_ones(buffer["shape"]):
        raise Refused(f"'{entry}': '{name}' has the shape {array.shape}, not {tuple(buffer['shape'])}")
    floating = buffer["dtype"] in ("f64", "f32", "f16", *NARROW)
    if array.dtype.kind not in ("fiub" if floating else "iub"):
        raise Refused(f"'{entry}': '{name}' is {array.dtype}, where {buffer['dtype']} is to be compared")
    dtype = numpy.dtype(TYPES[wide if floating else buffer["dtype"]])
    if not floating and array.size:
        bounds = numpy.iinfo(dtype)
        if int(array.min()) < bounds.min or int(array.max()) > bounds.max:
            raise Refused(f"'{entry}': '{name}' has values that are no {buffer['dtype']}")
    return numpy.ascontiguousarray(array, dtype)


def call(request, folder, numpy):
    function = load(request, folder)
    arguments = arguments_of(function, request, numpy)
    try:
        with numpy.errstate(all="ignore"):
            result = function(**arguments)
    except BaseException as error:
        raise Refused(failure(error, os.path.join(folder, "source"))) from error
    wanted = [buffer for buffer in request["buffers"] if buffer["role"] in OUTPUT_ROLES]
    results = by_name(result, wanted, request["entry"])
    with open(request["results"], "wb") as file:
        for buffer in wanted:
            elements_of(results[buffer["name"]], buffer, request["wide"], request["entry"], numpy).tofile(file)
    return {}, b""


def main():
    pipes, folder = [int(number) for number in sys.argv[2:5]], sys.argv[5]
    protect_parent()
    os.makedirs(folder, exist_ok=True)
    os.environ.update(TMPDIR=folder, HOME=folder, OPENBLAS_NUM_THREADS="4", OMP_NUM_THREADS="4")
    sys.dont_write_bytecode = True
    try:
        import numpy
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        ready = {"outcome": "ok"}
    except Exception as error:
        ready = {"outcome": "failed", "message": f"{type(error).__name__}: {error}"}
    announce(ready, pipes)
    if ready["outcome"] == "ok":
        serve(call, pipes, folder, numpy)
    os._exit(0)


main()
