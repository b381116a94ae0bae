# SPDX-License-Identifier: Apache-2.0
"""Puts tunectl's autotune in place of Triton's in a program that nobody edits, and records into Inductor's choices.

`start` is an entry point of PyTorch, vLLM and SGLang, and `tunectl run` has each Python process call it. Unless
TUNE_ADOPT is set it returns at once. Otherwise it waits for an import of Triton or Inductor: the rest of the package is
imported by the first function with several configs that Triton decorates. On any doubt Triton's own decorator does its
work.

The module lies beside the package and imports nothing of it, because each `import torch` pays for an entry point.
It runs in whatever Python comes along, so its syntax is that of Python 3.6.
"""
import os
import sys

TYPE_CHECKING = False  # typing takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


def start() -> None:
    """Never raises: PyTorch could not be imported then."""
    try:
        if os.environ.get("TUNE_ADOPT", "") in ("", "0") or sys.version_info < (3, 9):
            return
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())
        triton = sys.modules.get("triton")
        if hasattr(triton, "autotune"):
            _replace(triton)
    except Exception:
        pass


class _Finder:
    """Sees the imports of the modules of _ACTS; any other one costs a look-up."""

    def __init__(self) -> None:
        self._is_asking = False

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        if name not in _ACTS or self._is_asking:
            return None
        self._is_asking = True
        try:
            for finder in [one for one in sys.meta_path if one is not self]:
                spec: "Any" = finder.find_spec(name, path, target) if hasattr(finder, "find_spec") else None
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        spec.loader = _Loader(spec.loader)
                    return spec
            return None
        finally:
            self._is_asking = False


class _Loader:
    """A module's own loader, and afterwards what is to be done with it."""

    def __init__(self, own: "Any") -> None:
        self._own = own

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._own, name)

    def create_module(self, spec: "Any") -> "Any":
        return self._own.create_module(spec)

    def exec_module(self, module: "Any") -> None:
        module.__loader__ = module.__spec__.loader = self._own
        self._own.exec_module(module)
        try:
            _ACTS[module.__name__](module)
        except Exception:
            pass


def _replace(triton: "Any") -> None:
    import functools

    own = triton.autotune
    if hasattr(own, "__wrapped__"):
        return

    @functools.wraps(own)
    def autotune(*args: "Any", **kwargs: "Any") -> "Any":
        decorator = own(*args, **kwargs)

        def decorate(fn: "Any") -> "Any":
            try:
                made = _package("triton._adopted").adopt(fn, own, args, kwargs)
            except Exception as error:
                _note_failure(fn, error)
                made = None
            return decorator(fn) if made is None else made

        return decorate

    runtime = triton.runtime
    for module in (runtime.autotuner, runtime, triton):
        if getattr(module, "autotune", None) is own:
            module.autotune = autotune


def _install_choices(module: "Any") -> None:
    if hasattr(module, "register_inductor_choices"):  # PyTorch 2.15
        _package("inductor").install(["choices"])


def _install_winners(module: "Any") -> None:
    import torch._inductor.choices as choices  # first: tunectl.inductor stands on it

    if hasattr(choices, "register_inductor_choices"):
        _package("inductor").install(["winners"])


_ACTS = {"triton": _replace, "torch._inductor.choices": _install_choices,
         "torch._inductor.select_algorithm": _install_winners}


def _package(name: str) -> "Any":
    """A module of this Python's own tunectl, else of the one beside this file."""
    try:
        import tunectl
    except ImportError:
        import importlib.util

        folder = os.path.join(_HERE, "tunectl")
        spec: "Any" = importlib.util.spec_from_file_location("tunectl", os.path.join(folder, "__init__.py"),
                                                      submodule_search_locations=[folder])
        tunectl = sys.modules["tunectl"] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(tunectl)
        except BaseException:
            del sys.modules["tunectl"]
            raise
    import importlib

    return importlib.import_module("tunectl." + name)


def _note_failure(fn: "Any", error: Exception) -> None:
    try:
        import logging

        logging.getLogger("tunectl").warning("%s is left to Triton: %s: %s", getattr(fn, "__name__", fn),
                                             type(error).__name__, error)
    except Exception:
        pass
