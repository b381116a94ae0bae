# SPDX-License-Identifier: Apache-2.0
"""A Triton function as text: TTIR, in which closures, globals and helpers are resolved. Nothing is
compiled further, no device is needed, and nothing of the process is changed."""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ._call import Call, Unsupported

_FUNCTION = re.compile(r"tt\.func public @([\w$.\"-]+)\(")


def target_of(capability: int) -> Any:
    """`capability`: 90 of an H200."""
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", capability, 32)


def options_of(options: Mapping[str, Any], target: Any) -> dict[str, Any]:
    """All options of the compiler, with Triton's defaults."""
    from triton.compiler.compiler import make_backend

    return dict(make_backend(target).parse_options(dict(options)).__dict__)


def lower(function: Any, call: Call, constants: Mapping[str, Any], options: Mapping[str, Any],
          target: Any) -> tuple[str, dict[str, Any]]:
    """(TTIR of one config, the compiler's options). Whatever Triton raises, it raises here."""
    from triton._C.libtriton import ir
    from triton.compiler.compiler import ASTSource, make_backend

    backend = make_backend(target)
    source = ASTSource(function, dict(call.signature), {**call.constants, **constants},
                       dict(call.attributes))
    parsed = backend.parse_options(dict(options))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    module = source.make_ir(target, parsed, backend.get_codegen_implementation(parsed),
                            backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, source.language)
    return stages["ttir"](module, {}).str_nodebug(), dict(parsed.__dict__)


def renamed(text: str, entry: str) -> str:
    """The text with its public function called `entry`: a `repr` may have named each config's anew."""
    found = _FUNCTION.search(text)
    if found is None:
        raise Unsupported("the TTIR has no public function")
    return text.replace(f"@{found.group(1)}(", f"@{entry}(", 1)
