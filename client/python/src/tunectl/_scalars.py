# SPDX-License-Identifier: Apache-2.0
"""The floats of a kernel's call that are no arrays: which a call must give, and what it gave."""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._kernel import Kernel

# Scalars of shipped kernels that a call must set. The values of their specs are only for measuring:
# gemm's alpha makes results of unit size, adamw's rate is large enough to be seen.
_ADAMW = ("rate", "decay", "beta1", "beta2", "epsilon", "correction1", "correction2")
_NEEDED = {"gemm": ("alpha",), "adamw": _ADAMW, "adamw_list": _ADAMW}

# Scalars that a call must set if a dim, a mode, is on.
_NEEDED_BY_MODE = {"attention": {"softcap": ("cap",)}}

# Scalars that a backward kernel needs no more: it takes an output of the forward pass that they are part of (rstd).
_CARRIED = {"rmsnorm": ("epsilon",), "layernorm": ("epsilon",)}


def unknown_to(backward: Kernel, forward: str, scalars: Iterable[str]) -> list[str]:
    """Scalars of a call of a kernel that its backward kernel lacks: it would differentiate with the spec's."""
    known = (*(names_of(backward) or ()), *_CARRIED.get(forward, ()))
    return [name for name in scalars if name not in known]


def measured(name: str) -> set[str]:
    """Scalars of a kernel whose values in its spec are those of a measurement, which calls give instead."""
    return {*_NEEDED.get(name, ()), *[one for names in _NEEDED_BY_MODE.get(name, {}).values() for one in names]}


def needs_any(name: str) -> bool:
    """Whether a call of the kernel must give scalars."""
    return name in _NEEDED or name in _NEEDED_BY_MODE


def unread(name: str, modes: Mapping[str, int]) -> set[str]:
    """Scalars of a kernel that its modes do not read."""
    return {one for mode, names in _NEEDED_BY_MODE.get(name, {}).items() if not modes.get(mode) for one in names}


def names_of(kernel: Optional[Kernel]) -> Optional[list[str]]:
    """All scalars of a kernel; None: no snapshot describes it."""
    return [arg["name"] for arg in kernel.args if arg["kind"] == "scalar"] if kernel is not None else None


def _needed(name: str, modes: Mapping[str, int]) -> tuple[str, ...]:
    of_modes = _NEEDED_BY_MODE.get(name, {})
    return (*_NEEDED.get(name, ()), *[one for mode, names in of_modes.items() if modes.get(mode) for one in names])


def check(name: str, kernel: Optional[Kernel], scalars: Mapping[str, Any], modes: Mapping[str, int]) -> dict[str, float]:
    """The scalars of a call as numbers. ValueError: names that the kernel does not have, as far as a snapshot tells, no
    numbers, or one that is missing."""
    known = names_of(kernel)
    values = {}
    for scalar, value in scalars.items():
        if known is not None and scalar not in known:
            raise ValueError(f"{name}: '{scalar}' is no scalar that a call can set; its scalars are "
                             f"{', '.join(known) or 'none'}")
        try:
            if isinstance(value, (str, bytes, bool)):
                raise TypeError
            values[scalar] = float(value)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"{name}: {scalar}={value!r} is no number that a float holds") from None
    missing = [one for one in _needed(name, modes) if one not in scalars and (known is None or one in known)]
    if missing:
        wanted = ", ".join(f"'{one}': ..." for one in missing)
        raise ValueError(f"{name}: the call leaves out {', '.join(missing)}, and the spec's value is that of a "
                         f"measurement: give scalars={{{wanted}}} to tunectl.kernel or to the call")
    return values
