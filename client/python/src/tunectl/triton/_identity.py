# SPDX-License-Identifier: Apache-2.0
"""What a tuned function is called at the service: the same on every rank and in every run, whatever file,
line or process it is in, and another as soon as anything changes that the choice may depend on."""
from __future__ import annotations

import ast
import hashlib
import inspect
import re
from collections.abc import Sequence
from typing import Any

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
    """A triton.Config in one form for all versions."""
    known = sorted(config.kwargs.items())
    text = repr((known, config.num_warps, config.num_stages, config.num_ctas,
                 getattr(config, "maxnreg", None)))
    return text if config.pre_hook is None else f"{text}\n{_hook_text(config.pre_hook)}"


def _hook_text(hook: Any) -> str:
    try:
        return inspect.getsource(hook)
    except (OSError, TypeError):
        return str(getattr(hook, "__qualname__", type(hook).__qualname__))


def name_of(function: Any, configs: Sequence[Any], key: Sequence[object]) -> str:
    """Of one key of a function with its configs: "softmax-1f0c...", a kernel name of the service."""
    parts = [*source_texts(function), *map(config_text, configs), repr([str(part) for part in key])]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
    plain = re.sub(r"[^a-z0-9_]+", "_", function.fn.__name__.lower()).strip("_")[:_NAME_MAX]
    return f"{plain if plain[:1].isalpha() else 'kernel'}-{digest}"
