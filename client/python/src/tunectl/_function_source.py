# SPDX-License-Identifier: Apache-2.0
"""A function of a notebook as the text of a module of its own, for processes that cannot import the notebook.

The module has the function and the globals that it names: modules and what they define are imported, functions and
classes of the notebook, or of the function's own module, are copied, and constants are written out.
"""
from __future__ import annotations

import __future__
import builtins
import contextlib
import dis
import hashlib
import importlib
import inspect
import os
import sys
import tempfile
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

_FUTURE = __future__.annotations
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None))


def is_local(function: Any) -> bool:
    """Is it defined in a notebook or a session, which no other process can import?"""
    main = sys.modules.get("__main__")
    return getattr(function, "__module__", "") == "__main__" and not hasattr(main, "__file__")


def _names(code: types.CodeType) -> Iterator[str]:
    """The globals that it reads."""
    yield from (one.argval for one in dis.get_instructions(code) if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _plain(function: Any) -> Any:
    """The Python function inside of a decorated one, such as Triton's."""
    while callable(getattr(function, "fn", None)):
        function = function.fn
    return inspect.unwrap(function)


def _text(function: Any, name: str) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(_plain(function)))
    except (OSError, TypeError) as error:
        raise ValueError(f"the source of {name} cannot be read ({error}): define it by `def` in a cell, or in a module") from None
    if _plain(function) is not function and not text.startswith("@"):
        raise ValueError(f"{name} was made of {_plain(function).__name__} by a call, which its source does not show: write that "
                         f"as a decorator of the function, or do it in the prepare of a tunectl.Peer")
    return text


def _constant(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_constant, value))
    if isinstance(value, dict):
        return all(_constant(one) for pair in value.items() for one in pair)
    return isinstance(value, _CONSTANTS) and repr(value) not in ("nan", "inf", "-inf")


def _home_of(value: Any) -> str:
    """The module that has it under its own name; "": there is none."""
    home, known_as = getattr(value, "__module__", None) or "", getattr(value, "__name__", "")
    return home if known_as and getattr(sys.modules.get(home), known_as, None) is value else ""


class _Module:
    """The lines of the module, in the order in which it needs them."""

    def __init__(self, user: str, home: str) -> None:
        self._user = user
        self._homes = ("__main__", home)  # modules that no other process has
        self._seen: set[str] = set()
        self.has_future = False  # annotations that are not evaluated
        self.imports: list[str] = []
        self.body: list[str] = []

    def add_function(self, name: str, function: Any) -> None:
        self._seen.add(name)
        plain, text, flags = _plain(function), _text(function, name), 0
        if inspect.isclass(plain):
            namespace = vars(sys.modules[plain.__module__])
        else:
            if plain.__closure__:
                raise ValueError(f"{name}, which {self._user} needs, uses variables of the function around it "
                                 f"({', '.join(plain.__code__.co_freevars)}): give it arguments, or globals instead")
            namespace, flags = plain.__globals__, plain.__code__.co_flags & _FUTURE.compiler_flag
        self.has_future = self.has_future or bool(flags)
        used = compile(text, f"<{name}>", "exec", flags, dont_inherit=True)  # with its decorators, annotations and defaults
        for one in dict.fromkeys(_names(used)):
            if one in namespace and one not in self._seen and getattr(builtins, one, self) is not namespace[one]:
                self._add(one, namespace[one])
        self.body.append(text)
        if name != plain.__name__:
            self.body.append(f"{name} = {plain.__name__}\n")

    def _add(self, name: str, value: Any) -> None:
        self._seen.add(name)
        if isinstance(value, types.ModuleType):
            self.imports.append(f"import {value.__name__} as {name}")
        elif getattr(_plain(value), "__module__", "") in self._homes and (inspect.isfunction(_plain(value)) or inspect.isclass(value)):
            self.add_function(name, value)
        elif isinstance(value, float):
            self.imports.append(f"{name} = float('{value!r}')")
        elif _constant(value):
            self.imports.append(f"{name} = {value!r}")
        elif home := _home_of(value):
            self.imports.append(f"from {home} import {value.__name__} as {name}")
        else:
            raise ValueError(f"{self._user} uses {name}, a {type(value).__name__} of the notebook, which no other process has: "
                             f"make it inside of the function, or put both into a module")


def module_of(function: Callable[..., Any]) -> str:
    """Returns the module's text. ValueError: the function uses what cannot be written down."""
    name = getattr(_plain(function), "__name__", "")
    if not name.isidentifier():
        raise ValueError(f"{function!r} has no name: define it by `def`")
    module = _Module(name, _plain(function).__module__)
    module.add_function(name, function)
    head = ["from __future__ import annotations"] if module.has_future else []
    return "\n".join([*head, *module.imports, "", "", *("\n\n".join(module.body)).splitlines()]).lstrip("\n") + "\n"


@contextlib.contextmanager
def importable() -> Iterator[Callable[[Any], Any]]:
    """Gives a function that makes one of a notebook importable, also for child processes, as long as this lasts. Others are
    given back as they are."""
    with tempfile.TemporaryDirectory(prefix="tune-notebook-") as folder:
        made: list[str] = []

        def one_of(function: Any) -> Any:
            if not is_local(function):
                return function
            text = module_of(function)
            name = f"tunectl_notebook_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
            with open(os.path.join(folder, f"{name}.py"), "w", encoding="utf-8") as file:
                file.write(text)
            importlib.invalidate_caches()
            made.append(name)
            return getattr(importlib.import_module(name), _plain(function).__name__)

        sys.path.append(folder)
        try:
            yield one_of
        finally:
            sys.path.remove(folder)
            for name in made:
                sys.modules.pop(name, None)
