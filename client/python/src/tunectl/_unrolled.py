# SPDX-License-Identifier: Apache-2.0
"""Calls written out for the number of their arguments.

A training step has a thousand calls, and a loop over two tensors costs a tenth of a launch. So what every call runs
is made as source, like a method of a dataclass: one line for each tensor, all else in variables of the function.
"""
from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional


def _made(name: str, parameters: Sequence[str], body: Sequence[str], uses: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of that body, in which the names of `uses` have these values."""
    lines = [f"def make({', '.join(uses)}):", f"    def {name}({', '.join(parameters)}):",
             *[f"        {line}" for line in body], f"    return {name}"]
    made: dict[str, Any] = {}
    exec(_code("\n".join(lines), f"<tunectl, {name} of {len(parameters)}>"), globals(), made)
    return made["make"](**uses)  # type: ignore[no-any-return]


@functools.lru_cache(maxsize=256)  # every shape of a kernel has the same
def _code(source: str, name: str) -> types.CodeType:
    return compile(source, name, "exec")


class Lie(NamedTuple):
    """How the tensors of a launch have to lie.

    lazy           a method of tensors that is true of one whose memory has other values than itself, such as "is_neg"
    is_contiguous  whether all are to be contiguous; else whoever calls knows their strides
    otherwise      called with tensors that do not lie so; None: the launch is False
    """

    lazy: str = ""
    is_contiguous: bool = True
    otherwise: Optional[Callable[..., Any]] = None


class Form(NamedTuple):
    """What a caller gives of a launch's inputs, and gets of its outputs.

    fixed    addresses of the inputs that it does not give, by their places
    results  the outputs that it gets, in this order; None: all
    spare    bytes from the first one's of the others, by their places; they are one array
    """

    fixed: Mapping[int, int] = {}
    results: Optional[Sequence[int]] = None
    spare: Mapping[int, int] = {}


_CONTIGUOUS, _WHOLE = Lie(), Form()


def launch(program: Any, inputs: int, makers: Sequence[Callable[[], Any]], changed: Sequence[int],
           bump: Callable[[Any], Any], lie: Lie = _CONTIGUOUS, form: Form = _WHOLE) -> Callable[..., Any]:
    """A function of that many tensors, without those that are fixed, that launches the program on them and on new outputs.

    It gives the outputs, as None, one, or a tuple. False: the tensors do not lie as the kernel needs them.

    makers   of the outputs, without the spare ones, and last of these
    changed  which of the inputs the kernel writes to
    bump     tells autograd that a tensor was
    """
    every, count = [f"x{i}" for i in range(inputs)], len(makers) + len(form.spare) - bool(form.spare)
    given = [f"x{i}" for i in range(inputs) if i not in form.fixed]
    new = [f"y{i}" for i in range(count) if i not in form.spare] + (["spare"] if form.spare else [])
    makes = {f"make_{y}": make for y, make in zip(new, makers)}
    fixed = {f"px{i}": address for i, address in form.fixed.items()}
    # New tensors lie as an allocator has them.
    makes_new = [*[f"{y} = make_{y}()" for y in new], *[f"p{y} = {y}.data_ptr()" for y in new],
                 *[f"py{i} = pspare + {offset}" for i, offset in form.spare.items()]]
    results = [f"y{i}" for i in (range(count) if form.results is None else form.results)]
    return _launch(program, given, [*every, *[f"y{i}" for i in range(count)]], results, makes_new,
                   [f"bump(x{i})" for i in changed if i not in form.fixed], {**makes, **fixed, "bump": bump}, lie)


def launch_into(program: Any, sizes: Sequence[int], outputs: int, changed: Sequence[int], bump: Callable[[Any], Any],
                meet: Callable[[int, int, int, int], Any], lie: Lie = _CONTIGUOUS) -> Callable[..., Any]:
    """The same, with the outputs behind the inputs.

    sizes  in bytes, from the first byte to the last, of all
    meet   called of an output within the bytes of another tensor, with their places and addresses; whether the launch is
           False
    """
    inputs = len(sizes) - outputs
    every = [f"x{i}" for i in range(inputs)] + [f"y{i}" for i in range(outputs)]
    apart = [line for at in range(inputs, len(sizes)) for other in range(at)
             for line in (f"if p{every[at]} < p{every[other]} + {sizes[other]} and "
                          f"p{every[other]} < p{every[at]} + {sizes[at]} and "
                          f"meet({at}, {other}, p{every[at]}, p{every[other]}):", "    return False")]
    written = [every[i] for i in (*changed, *range(inputs, len(sizes)))]
    return _launch(program, every, every, every[inputs:], apart, [f"bump({one})" for one in written],
                   {"bump": bump, "meet": meet}, lie)


def _launch(program: Any, given: Sequence[str], arrays: Sequence[str], results: Sequence[str], before: Sequence[str],
            after: Sequence[str], more: Mapping[str, Any], lie: Lie) -> Callable[..., Any]:
    """arrays: all of the launch, whose pointers are named after them."""
    bad = [f"not ({' and '.join(f'{x}.is_contiguous()' for x in given)})"] if lie.is_contiguous else []
    bad += [f"{x}.{lie.lazy}()" for x in given] if lie.lazy else []
    otherwise = lie.otherwise if lie.is_contiguous else None
    body = ["if device_now() != device:", "    with made_current():", f"        return launch({', '.join(given)})",
            f"if {' or '.join(bad) or False}:", f"    return {'otherwise(' + ', '.join(given) + ')' if otherwise else False}",
            "try:",
            *[f"    p{x} = {x}.data_ptr()" for x in given],
            "except RuntimeError:",  # a wrapper of another tensor has no memory
            "    return False",
            f"if ({' | '.join(f'p{x}' for x in given)}) % alignment or not ({' and '.join(f'p{x}' for x in given)}):",
            "    return False",
            *before,
            f"start(({', '.join(f'p{one}' for one in arrays)}, ), {given[0]})",
            *after,
            f"return {results[0] if len(results) == 1 else ', '.join(results) or None}"]
    uses = {"start": program.launch, "alignment": program.alignment, "device": program.device,
            "device_now": program.device_now, "made_current": program.made_current}
    return _made("launch", given, body, {**uses, "otherwise": otherwise, **more})


def operator(plans: Mapping[Any, Optional[Any]], inputs: int, dims: Mapping[str, int], through: Callable[..., Any],
             without_plan: Callable[..., Any], followed: str, names: Mapping[str, Any],
             outputs: int = 0) -> Callable[..., Any]:
    """A function of that many tensors that launches their plan, of a TunedKernel's table. The last `outputs` of them are
    what the kernel writes to.

    through       the operator, which is called where somebody follows operators, and for tensors of kinds of their own
    without_plan  called where there is none, or where the tensors do not lie as it needs them
    followed      an expression of `names`. They may have `plain`, the types of tensors that have plans, `grad`, which says
                  whether gradients are recorded, and `with_gradient`, which is called if so and a tensor requires one
    """
    given = [f"x{i}" for i in range(inputs)]
    every = ", ".join(given)
    kinds = [f"type({x}) not in plain" for x in given] if "plain" in names else []
    key = [f"dim{i}" for i in range(len(dims))] + [str(outputs)] + [f"({x}.shape, {x}.dtype, {x}.device)" for x in given]
    body = [f"if {' or '.join([followed, *kinds])}:",
            f"    return through({every})",
            f"plan = find(({', '.join(key)}, ))",
            "if plan is not None:",
            f"    results = plan.{'into' if outputs else 'launch'}({every})",
            "    if results is not False:",
            "        return results",
            f"return without_plan({every})"]
    if "grad" in names:
        body[2:2] = [f"if grad() and ({' or '.join(f'{x}.requires_grad' for x in given)}):",
                     f"    return with_gradient({every})"]
    uses = {"find": plans.get, "through": through, "without_plan": without_plan,
            **{f"dim{i}": dim for i, dim in enumerate(dims.items())}, **names}
    return _made("call", given, body, uses)


def condition(expression: str, names: Mapping[str, Any]) -> Callable[[], bool]:
    """A function that says whether an expression of names is true."""
    return _made("condition", [], [f"return bool({expression})"], names)
