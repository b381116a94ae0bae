# SPDX-License-Identifier: Apache-2.0
"""What a tuned function is called at the service: the same on every rank and in every run, whatever file,
line or process it is in, and another as soon as anything changes that the choice may depend on."""
from __future__ import annotations

import ast
import dis
import functools
import hashlib
import inspect
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any

from ._call import Unsupported

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{4,}")
_LIBRARIES = ("triton", "torch", "numpy", "builtins")  # their functions are what their names say
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_NAME_MAX = 40  # of the function's, before the digest


def _captured(function: Any) -> dict[str, Any]:
    """The names that a Python function sees besides its own."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    closure = {}
    for name, cell in cells.items():
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            pass  # not set yet
    return {**function.__globals__, **closure}


def _resolve(node: ast.AST, scope: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return scope.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _resolve(node.value, scope)
        return getattr(base, node.attr, None) if type(base).__name__ == "module" else None
    return None


def source_texts(function: Any) -> list[str]:
    """The text of a @triton.jit function and of all that it calls, and the constants that they see."""
    texts: dict[str, str] = {}

    def visit(one: Any) -> None:
        key = f"{one.fn.__module__}.{one.fn.__qualname__}\n{one.src}"
        if key in texts:
            return
        texts[key] = one.src
        scope = _captured(one.fn)
        for node in ast.walk(ast.parse(one.src)):
            value = _resolve(node, scope)
            if hasattr(value, "src") and hasattr(value, "fn"):
                if not (value.fn.__module__ or "").startswith("triton."):
                    visit(value)
            elif type(value).__name__ == "constexpr":
                name = ast.unparse(node)
                texts[f"{key}\n{name}"] = f"{name} = {value.value!r}"

    visit(function)
    return [texts[key] for key in sorted(texts, key=lambda key: texts[key])]


def config_text(config: Any) -> str:
    """A triton.Config in one form for all versions. Unsupported: it has none that lasts."""
    known = sorted(config.kwargs.items())
    text = repr((known, config.num_warps, config.num_stages, config.num_ctas,
                 getattr(config, "maxnreg", None)))
    if _ADDRESS.search(text):
        raise Unsupported(f"a config has a value without a text that is the same in every process: {config}")
    called = [source for value in config.kwargs.values() if hasattr(value, "src") and hasattr(value, "fn")
              for source in source_texts(value)]
    text = "\n".join([text, *called])
    return text if config.pre_hook is None else f"{text}\n{hook_text(config.pre_hook)}"


def hook_text(hook: Any) -> str:
    """What a hook does: its source, and all values that it sees besides its arguments. Unsupported: it cannot
    be told from another one by that."""
    return _Hook().text(hook, "it")


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)


def _code_text(code: types.CodeType) -> str:
    """Two lambdas of one line have one source."""
    parts = []
    for one in _codes_in(code):
        constants = [sorted(map(repr, value)) if isinstance(value, frozenset) else value
                     for value in one.co_consts if not isinstance(value, types.CodeType)]
        parts.append(repr((one.co_code.hex(), constants, one.co_names)))
    try:
        parts.append(inspect.getsource(code))
    except (OSError, TypeError):
        pass  # typed in, or made by exec
    return "\n".join(parts)


class _Hook:
    """Texts of one hook's values."""

    def __init__(self) -> None:
        self._functions: dict[int, str] = {}  # those that were visited, which may call each other

    def text(self, value: Any, name: str) -> str:
        if isinstance(value, _PLAIN):
            return repr(value)
        if isinstance(value, (tuple, list)):
            return f"{type(value).__name__}({', '.join(self.text(one, name) for one in value)})"
        if isinstance(value, (set, frozenset)):
            return f"set({', '.join(sorted(self.text(one, name) for one in value))})"
        if isinstance(value, dict):
            return f"dict({', '.join(self.text(one, name) for item in value.items() for one in item)})"
        if isinstance(value, functools.partial):
            return f"partial({self.text((value.func, value.args, value.keywords), name)})"
        if isinstance(value, types.MethodType):
            return f"method({self.text((value.__func__, value.__self__), name)})"
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.ModuleType):
            return value.__name__
        if isinstance(value, (type, types.BuiltinFunctionType)):
            return f"{value.__module__}.{value.__qualname__}"
        if hasattr(value, "src") and hasattr(value, "fn"):
            return "\n".join(source_texts(value))
        return self._object(value, name)

    def _object(self, value: Any, name: str) -> str:
        """Nothing is asked of a tensor: a graph may be captured."""
        text = "0x0000" if hasattr(value, "dtype") and hasattr(value, "shape") else repr(value)
        if _ADDRESS.search(text):
            raise Unsupported(f"a config's pre_hook sees '{name}', a {type(value).__qualname__}, which has no text "
                              "that is the same in every process")
        call = getattr(type(value), "__call__", None)
        return text + (self._function(call) if isinstance(call, types.FunctionType) else "")

    def _function(self, function: types.FunctionType) -> str:
        name = f"{function.__module__}.{function.__qualname__}"
        if name.partition(".")[0] in _LIBRARIES or id(function) in self._functions:
            return name
        self._functions[id(function)] = name
        seen = {"its defaults": (function.__defaults__, function.__kwdefaults__), **_read(function)}
        values = [f"{each} = {self.text(value, each)}" for each, value in seen.items()]
        return "\n".join([_code_text(function.__code__), *values])


def _read(function: types.FunctionType) -> dict[str, Any]:
    """The globals and the closure's names that a function reads, as far as they are set."""
    read = {step.argval for code in _codes_in(function.__code__) for step in dis.get_instructions(code)
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    names = sorted(read | set(function.__code__.co_freevars))
    scope = _captured(function)
    return {name: scope[name] for name in names if name in scope}


def stem_of(function: Any) -> str:
    """What the names of all keys of a function begin with: "softmax-"."""
    plain = re.sub(r"[^a-z0-9_]+", "_", function.fn.__name__.lower()).strip("_")[:_NAME_MAX]
    return f"{plain if plain[:1].isalpha() else 'kernel'}-"


def name_of(function: Any, configs: Sequence[Any], key: Sequence[object]) -> str:
    """Of one key of a function with its configs: "softmax-1f0c...", a kernel name of the service. Unsupported:
    other processes would call it otherwise."""
    told = [str(part) for part in key]
    if any(_ADDRESS.search(text) for text in told):
        raise Unsupported("the key has a value without a text that is the same in every process")
    parts = [*source_texts(function), *map(config_text, configs), repr(told)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    return stem_of(function) + digest
