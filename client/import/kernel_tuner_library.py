# SPDX-License-Identifier: Apache-2.0
"""What functions of Kernel Tuner's own package give to a script: functions of a host that `#pragma tuner` marks, with the
arguments that the mark says, and arrays of which a param chooses one. A run of the script gets the same from its stand-in
of the package."""
import dataclasses
import re

from script_objects import Instance
from script_values import Array, DType, Fill, Map, Module, Num, Scalar, Seq, dtype_of, items_of, plain

PACKAGE = "kernel_tuner"
LANGUAGES = {"Cxx": "#pragma tuner", "Fortran": "!$tuner"}
MODELS = {"OpenACC", "OpenMP"}
TYPES = {"float": "f32", "double": "f64", "int": "i32"}
INTS_BELOW = 1024  # Kernel Tuner fills arrays of integers so
FLOAT_TYPES = {"half": "f16", "float": "f32", "double": "f64"}


class HostText(str):
    """A function for another compiler than CUDA's; `model`: what its directives are."""
    model = "C"


@dataclasses.dataclass
class Chosen:
    """An argument that is another array for each value of a param."""
    param: str
    arrays: dict  # by the param's values

    def pick(self, values):
        """(value, array) of the widest type, or of the param's first value; None: no value has one."""
        widths = {"f64": 0, "f32": 1, "bf16": 2, "f16": 3}
        known = [value for value in values if value in self.arrays]
        known.sort(key=lambda value: widths.get(getattr(self.arrays[value], "dtype", ""), 4))
        return (known[0], self.arrays[known[0]]) if known else None


# A text's marks: `#pragma tuner start NAME ARG(TYPE:SIZE)...`, `initialize`, `deinitialize`, `stop`.


def sections(text, mark, word):
    """{name: (words behind it, lines up to `stop`)} of the marks with this word."""
    found, name = {}, None
    for line in text.replace("\\\n", "").split("\n"):
        if name is not None and f"{mark} stop" in line:
            name = None
        elif name is not None:
            found[name][1].append(line)
        elif f"{mark} {word}" in line:
            words = line.split(f"{mark} {word}", 1)[1].split()
            name = words[0] if words else f"init_{len(found)}"
            found[name] = (words[1:], [])
    return found


def parts_of(words):
    """[(name, type, size)] of `a(float*:N)`; the size may be empty."""
    found = []
    for word in words:
        match = re.fullmatch(r"(\w+)\(([^():]*)(?::([^()]*))?\)", word)
        found.append((match[1], match[2].strip(), (match[3] or "").strip()) if match else (word, "", ""))
    return found


def defines_of(preprocessor):
    found = {}
    for line in preprocessor:
        match = re.match(r"\s*#\s*define\s+(\w+)\s+\(?\s*(\d+)\s*\)?\s*(//.*)?$", line)
        if match:
            found[match[1]] = int(match[2])
    return found


def preprocessor_of(text):
    return [line for line in text.replace("\\\n", "").split("\n") if "#define" in line or "#include" in line]


class Directives:
    """One text with its marks, in one language. `named` gives a number that the source defines its name."""

    def __init__(self, text, code, named):
        language = code.attributes["(language)"]
        self.mark, self.is_fortran = LANGUAGES[language], language == "Fortran"
        self.model = code.attributes["(model)"] if not self.is_fortran else "Fortran"
        self.text, self.named = text, named

    def signature(self, name, words):
        if self.is_fortran:
            return f"function {name}({', '.join(part for part, _, _ in parts_of(words))})"
        return f"float {name}({', '.join(f'{kind} {part}' for part, kind, _ in parts_of(words))})"

    def function(self, preprocessor, signature, body, before="", after="", sizes=None):
        """The function of a section, without the timing that Kernel Tuner adds."""
        defines = [f"#define {name} {plain(size)}" for name, size in (sizes.items if isinstance(sizes, Map) else {}).items()]
        lines = [*preprocessor, *defines, "", signature if self.is_fortran else f'extern "C" {signature} {{', before, body, after,
                 "end function" if self.is_fortran else "}"]
        made = HostText("\n".join(lines) + "\n")
        made.model = self.model
        return made


def size_of(text, defines, sizes, named):
    """A number of elements, of a number, a define's name, or several of these with commas; None: it is not known."""
    product = None
    for part in text.split(","):
        part = part.strip()
        value = int(part) if part.isdigit() else defines.get(part)
        num = Num(value) if part.isdigit() else None if value is None else named(Num(value), part)
        num = sizes.get(part) if num is None else num
        num = num.num if isinstance(num, Scalar) else num
        if not isinstance(num, Num) or type(num.value) is not int or num.value < 1:
            return None
        both = f"{product.factor()} * {num.factor()}" if product and (product.text or num.text) else ""
        product = num if product is None else Num(product.value * num.value, both, tight=False)
    return product


def argument(kind, size, defines, sizes, named):
    """An array or a number of a mark; None: its type or size is not known."""
    num = size_of(size, defines, sizes, named)
    dtype = TYPES.get(kind.replace("*", "").strip())
    if num is None or dtype is None:
        return None
    if "*" not in kind:
        return Scalar(dtype, num)
    return Array(dtype, [num], Fill("UNIFORM", 0, INTS_BELOW if dtype == "i32" else 1))


def allocated(data, preprocessor, sizes, named, unknown):
    """The arguments of a function, from {name: [type, size]}."""
    defines = defines_of(plain(preprocessor) or [])
    sizes = sizes.items if isinstance(sizes, Map) else {}
    made = []
    for name, known in data.items.items():
        kind, size = plain(known) if isinstance(known, Seq) else ("", "")
        value = argument(kind, str(size), defines, sizes, named)
        made.append(unknown(f"{name}({kind}:{size})") if value is None else value)
    return Seq(made)


def data_of(words):
    return Map({name: Seq([kind, size]) for name, kind, size in parts_of(words)})


# The functions.

ORDERS = {"Code": ("directive", "lang"), "process_directives": ("langs", "source", "user_dimensions"),
          "extract_directive_signature": ("code", "langs", "kernel_name"), "extract_preprocessor": ("code",),
          "extract_directive_code": ("code", "langs", "kernel_name"), "extract_directive_data": ("code", "langs", "kernel_name"),
          "extract_initialization_code": ("code", "langs"), "extract_deinitialization_code": ("code", "langs"),
          "generate_directive_function": ("preprocessor", "signature", "body", "langs", "data", "initialization",
                                          "deinitialization", "user_dimensions"),
          "allocate_signature_memory": ("data", "preprocessor", "user_dimensions"),
          "Tunable": ("param_key", "arrays"), "TunablePrecision": ("param_key", "array", "dtypes")}
SELECTING = {"Tunable", "TunablePrecision"}
OWN = {*ORDERS, *LANGUAGES, *MODELS}


def own_name(function):
    """The name of a function of the package that is known here; "": it is none. `function`: what the script's name is."""
    package, _, name = (function.name if isinstance(function, Module) else "").rpartition(".")
    return name if package.split(".")[0] == PACKAGE and name in OWN else ""


def call_own(own, positional, by_name, named, unknown):
    """What a function of the package gives; None: not known. `named` names a number, `unknown` makes a value of a text."""
    if own in LANGUAGES or own in MODELS:
        return Instance(None, {"(kind)": own})
    values = {**dict(zip(ORDERS[own], positional)), **by_name}
    if own == "Code":
        kinds = [getattr(values.get(key), "attributes", {}).get("(kind)") for key in ORDERS[own]]
        return Instance(None, {"(model)": kinds[0], "(language)": kinds[1]}) if kinds[1] in LANGUAGES else None
    if own in SELECTING:
        return chosen(own, values)
    if own == "extract_preprocessor":
        return Seq(preprocessor_of(values["code"])) if isinstance(values.get("code"), str) else None
    if own == "allocate_signature_memory":
        data = values.get("data")
        return allocated(data, values.get("preprocessor"), values.get("user_dimensions"), named, unknown) \
            if isinstance(data, Map) else None
    code, text = values.get("langs"), values.get("code", values.get("source", ""))
    if not isinstance(code, Instance) or "(language)" not in code.attributes or not isinstance(text, str):
        return None
    return directive_call(own, Directives(text, code, named), values, unknown)


def directive_call(own, marked, values, unknown):
    text, mark = marked.text, marked.mark
    if own == "generate_directive_function":
        lines, pieces = plain(values.get("preprocessor")), [values.get(key, "") for key in ORDERS[own][1:3] + ORDERS[own][5:7]]
        if not isinstance(lines, list) or not all(isinstance(piece, str) for piece in pieces):
            return None
        return marked.function(lines, *pieces, values.get("user_dimensions"))
    if own in ("extract_initialization_code", "extract_deinitialization_code"):
        word = "initialize" if "_init" in own else "deinitialize"
        return "".join("\n".join(lines) + "\n" for _, lines in sections(text, mark, word).values())
    wanted = values.get("kernel_name")
    found = {name: both for name, both in sections(text, mark, "start").items() if wanted in (None, name)
             or isinstance(wanted, Num)}
    if own == "extract_directive_code":
        return Map({name: "\n".join(lines) for name, (_, lines) in found.items()})
    if own == "extract_directive_data":
        return Map({name: data_of(words) for name, (words, _) in found.items()})
    if own == "extract_directive_signature":
        return Map({name: marked.signature(name, words) for name, (words, _) in found.items()})
    lines, sizes = preprocessor_of(text), values.get("user_dimensions")
    around = ["".join("\n".join(part) + "\n" for _, part in sections(text, mark, word).values())
              for word in ("initialize", "deinitialize")]
    texts = {name: marked.function(lines, marked.signature(name, words), "\n".join(body), *around, sizes)
             for name, (words, body) in found.items()}
    return Seq([Map(texts), Map({name: allocated(data_of(words), Seq(lines), sizes, marked.named, unknown)
                                 for name, (words, _) in found.items()})])


def chosen(own, values):
    """Tunable(param, {value: array}); TunablePrecision(param, array, types)."""
    param = values.get("param_key")
    if not isinstance(param, str):
        return None
    if own == "Tunable":
        arrays = values.get("arrays")
        arrays = Map(dict(enumerate(arrays.items))) if isinstance(arrays, Seq) else arrays
        return Chosen(param, dict(arrays.items)) if isinstance(arrays, Map) and not arrays.doubt else None
    array, types = values.get("array"), values.get("dtypes")
    if types is None or (isinstance(types, Num) and types.value is None):
        types = {name: DType(dtype) for name, dtype in (*FLOAT_TYPES.items(), ("bfloat16", "bf16"))}
    elif isinstance(types, Map):
        types = types.items
    else:
        types = {plain(item): DType(FLOAT_TYPES[plain(item)]) if plain(item) in FLOAT_TYPES else item
                 for item in items_of(types) or ()}
    if isinstance(array, Array):
        return Chosen(param, {key: dataclasses.replace(array, dtype=dtype_of(dtype) or "a type that was not understood")
                              for key, dtype in types.items()})
    num = array.num if isinstance(array, Scalar) else array
    return Chosen(param, {key: Scalar(dtype_of(dtype), num) for key, dtype in types.items()}) if isinstance(num, Num) else None
