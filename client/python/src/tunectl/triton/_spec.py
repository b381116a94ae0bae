# SPDX-License-Identifier: Apache-2.0
"""A tuned Triton function as a kernel of the service: a spec in the language TTIR with its texts.

A config's constexprs are in its text, so that the params choose the file; num_warps and its like are
options of the compiler. What a list of configs says, and a space of params does not (which of their
products there are, the grid of each), is in lets over the params.
"""
from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ._call import Buffer, Call, Descriptor, Scalar, Unsupported
from ._identity import hook_text

ENTRY = "kernel"
_EXPRESSION_MAX = 3800  # characters, of the service's 4096
_FILES_MAX = 200
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_MAXNREG_ALL = 255  # what a thread can have at most: as without a limit
# By what two right results of one kernel may differ, which add the same numbers in another order.
TOLERANCES = {"f64": (1e-9, 1e-9), "f32": (1e-3, 1e-3), "f16": (1e-2, 1e-2), "bf16": (2e-2, 2e-2)}


class Choice(NamedTuple):
    """A config as the service sees it."""

    params: dict[str, Any]
    text: str  # TTIR
    grid: tuple[int, ...]
    blocks: Mapping[str, tuple[int, ...]] = {}  # of the host's tensor descriptors


class Table:
    """The params of a list of configs: their values as expressions, and back."""

    def __init__(self, configs: Sequence[Any]) -> None:
        """Unsupported: configs that do not all set the same constexprs, or that only their hooks tell apart."""
        names = list(configs[0].kwargs)
        if any(set(config.kwargs) != set(names) for config in configs):
            raise Unsupported("the configs do not all set the same constexprs")
        self._kwargs = names
        self._shown = {name: _shown([config.kwargs[name] for config in configs]) for name in names}
        self._has_maxnreg = any(getattr(config, "maxnreg", None) for config in configs)
        self._check_hooks(configs)

    def _check_hooks(self, configs: Sequence[Any]) -> None:
        hooks: dict[tuple[Any, ...], str] = {}
        for config in configs:
            hook = "" if config.pre_hook is None else hook_text(config.pre_hook)
            if hooks.setdefault(tuple(self.params_of(config).values()), hook) != hook:
                raise Unsupported("two configs differ in their pre_hook alone, which no param of a spec can say; "
                                  "give them a constexpr that differs")

    def params_of(self, config: Any) -> dict[str, Any]:
        params = {name: self._shown[name](config.kwargs[name]) for name in self._kwargs}
        for name in OPTIONS:
            if name == "maxnreg" and not self._has_maxnreg:
                continue
            params[name] = getattr(config, name, None) or _MAXNREG_ALL
        return params

    @property
    def kwargs(self) -> list[str]:
        return list(self._kwargs)

    def find(self, configs: Sequence[Any], record: Mapping[str, Any]) -> Any:
        """The config of a record, or None."""
        for config in configs:
            params = self.params_of(config)
            if all(record.get(name) == value for name, value in params.items()):
                return config
        return None


def _shown(values: list[Any]) -> Callable[[Any], Any]:
    """Numbers of one kind as they are, anything else as a label."""
    if all(type(value) is int for value in values) or all(type(value) is bool for value in values):
        return lambda value: value
    labels: dict[str, str] = {}
    for value in values:
        plain = "".join(c if c.isalnum() and c.isascii() else "_" for c in str(value))[:32]
        while repr(value) not in labels and plain in labels.values():
            plain += "_"
        labels.setdefault(repr(value), plain or "empty")
    return lambda value: labels.get(repr(value), "?")  # of a config that pruning made: no label is this


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _number(value: float) -> str:
    """Expressions have no infinity, and no literal of the smallest integer."""
    if isinstance(value, int):
        return str(value) if value > -(2**63) else f"{value + 1} - 1"
    if math.isinf(value):
        return "1e39" if value > 0 else "-1e39"  # beyond f32, which makes infinities of them
    return repr(float(value))


def _sum_of(parts: list[tuple[int, list[int]]], code: str) -> str:
    """A number by the code's: flat, since brackets may not be deep."""
    return " + ".join(f"({value} if {code} in {codes} else 0)" for value, codes in parts if value) or "0"


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._lets = 0

    def add(self, line: str) -> None:
        self.lines.append(line)

    def let(self, stem: str, value: str) -> str:
        """Its name. A long sum is one of several lets."""
        if len(value) > _EXPRESSION_MAX:
            terms = value.split(" + ")
            if len(terms) == 1:
                raise Unsupported("there are too many configs for one expression")
            middle = len(terms) // 2
            value = f"{self.let(stem, ' + '.join(terms[:middle]))} + {self.let(stem, ' + '.join(terms[middle:]))}"
        name = f"{stem}_{self._lets}"
        self._lets += 1
        self.add(f"lets {{ name: {json.dumps(name)} value: {json.dumps(value)} }}")
        return name


def _values(choices: Sequence[Choice]) -> dict[str, list[Any]]:
    """Of each param, in the order in which configs first have them."""
    return {name: list(dict.fromkeys(choice.params[name] for choice in choices))
            for name in choices[0].params}


def _codes(names: Sequence[str], values: Mapping[str, list[Any]], choices: Sequence[Choice]) -> list[int]:
    """Of each choice a number that the params of these names decide, and nothing else."""
    codes = []
    for choice in choices:
        code = 0
        for name in names:
            code = code * len(values[name]) + values[name].index(choice.params[name])
        codes.append(code)
    return codes


def _code_text(names: Sequence[str], values: Mapping[str, list[Any]], places: Mapping[str, str]) -> str:
    text = "0"
    for name in names:
        text = f"({text}) * {len(values[name])} + {places[name]}"
    return text


def _groups(results: Sequence[int], codes: Sequence[int]) -> list[tuple[int, list[int]]]:
    groups: dict[int, dict[int, None]] = {}
    for result, code in zip(results, codes):
        groups.setdefault(result, {})[code] = None
    return [(result, list(found)) for result, found in groups.items()]


def _decides(names: Sequence[str], values: Mapping[str, list[Any]], choices: Sequence[Choice],
             results: Sequence[Any]) -> bool:
    seen: dict[int, Any] = {}
    return all(seen.setdefault(code, result) == result
               for code, result in zip(_codes(names, values, choices), results))


def _deciding(names: Sequence[str], values: Mapping[str, list[Any]], choices: Sequence[Choice],
              results: Sequence[Any]) -> list[str]:
    """The fewest params that are found, one taken away after the other, to decide the results. Unsupported:
    all together do not."""
    if not _decides(names, values, choices, results):
        raise Unsupported("two configs of the same values have another grid, text or block of a descriptor; "
                          "give them a constexpr that differs")
    left = list(names)
    for name in names:
        fewer = [one for one in left if one != name]
        if _decides(fewer, values, choices, results):
            left = fewer
    return left


class _Space:
    """Params, and what depends on them."""

    def __init__(self, writer: _Writer, choices: Sequence[Choice]) -> None:
        self._writer = writer
        self._choices = choices
        self._values = _values(choices)
        self._several = [name for name, values in self._values.items() if len(values) > 1]
        self._places: dict[str, str] = {}

    def write_params(self) -> None:
        default = self._choices[0].params
        for name, values in self._values.items():
            text = ", ".join(map(_literal, values))
            self._writer.add(f"params {{ name: {json.dumps(name)} values: {json.dumps(f'[{text}]')} "
                             f"default_value: {json.dumps(_literal(default[name]))} }}")

    def write_places(self) -> None:
        for name in self._several:
            parts = " + ".join(f"({place} if {name} == {_literal(value)} else 0)"
                               for place, value in enumerate(self._values[name]) if place)
            self._places[name] = self._writer.let("place", parts)

    def number(self, stem: str, results: Sequence[int]) -> str:
        """A let that is each choice's number, or the number itself where all are alike."""
        if len(set(results)) == 1:
            return str(results[0])
        names = _deciding(self._several, self._values, self._choices, results)
        code = self._writer.let(f"{stem}_code", _code_text(names, self._values, self._places))
        codes = _codes(names, self._values, self._choices)
        return self._writer.let(stem, _sum_of(_split(_groups(results, codes)), code))

    def write_constraint(self) -> None:
        """Where the configs are not all products of their values."""
        codes = sorted(set(_codes(self._several, self._values, self._choices)))
        product = 1
        for name in self._several:
            product *= len(self._values[name])
        if len(codes) == product:
            return
        code = self._writer.let("config_code", _code_text(self._several, self._values, self._places))
        listed = self._writer.let("listed", _sum_of(_split([(1, codes)]), code))
        self._writer.add(f"constraints {{ expression: {json.dumps(f'{listed} == 1')} "
                         'doc: "the configs are those of @autotune" }')


def _split(groups: list[tuple[int, list[int]]], most: int = 256) -> list[tuple[int, list[int]]]:
    """So that no term is too long by itself."""
    return [(value, codes[at:at + most]) for value, codes in groups for at in range(0, len(codes), most)]


def _digit(number: str) -> str:
    chain = "".join(f"'{digit}' if {number} == {digit} else " for digit in range(9))
    return f"({chain}'9')"


def _file_choice(file: str) -> str:
    digits = " + ".join(_digit(f"{file} // {unit} % 10") for unit in (100, 10, 1))
    return f"'k' + {digits} + '.ttir'"


def _descriptor_text(argument: Descriptor, space: _Space, choices: Sequence[Choice]) -> str:
    blocks = [choice.blocks[argument.name] for choice in choices]
    extents = [space.number("block", list(axis)) for axis in zip(*blocks)]
    padding = " nan_padding: true" if argument.nan_padding else ""
    return f" tensor_descriptor {{ block_shape: {json.dumps(extents)}{padding} }}"


def _write_arguments(writer: _Writer, call: Call, space: _Space, choices: Sequence[Choice],
                     written: set[int]) -> None:
    for place, argument in enumerate(call.arguments):
        name = json.dumps(argument.name)
        if isinstance(argument, Scalar):
            writer.add(f"args {{ name: {name} scalar {{ dtype: \"{argument.dtype}\" "
                       f"value: \"{_number(argument.value)}\" }} }}")
            continue
        # Restored before every launch: it may be read first, or not be written whole.
        role = "ROLE_INOUT" if place in written else "ROLE_INPUT"
        shape, descriptor = f'"{argument.elements}"' if isinstance(argument, Buffer) else "", ""
        if isinstance(argument, Descriptor):
            shape = json.dumps([str(extent) for extent in argument.shape])
            descriptor = _descriptor_text(argument, space, choices)
        fill = argument.fill
        held = f"fill {{ kind: {fill.kind} low: {float(fill.low)!r} high: {float(fill.high)!r} }}"
        if isinstance(argument, Buffer) and argument.contents:
            held = f'file: "{_contents_name(place)}"'
        writer.add(f"args {{ name: {name} buffer {{ dtype: \"{argument.dtype}\" shape: {shape} role: {role} "
                   f"{held}{descriptor} }} }}")


def _contents_name(place: int) -> str:
    """Of the file with an argument's elements."""
    return f"arg{place:03}.bin"


def file_name(place: int) -> str:
    return f"k{place:03}.ttir"


def write_spec(name: str, summary: str, call: Call, choices: Sequence[Choice], written: set[int],
               tolerances: Mapping[str, tuple[float, float]]) -> tuple[str, dict[str, bytes]]:
    """(The spec's text, its files). The first choice is the default, and the reference."""
    texts = list(dict.fromkeys(choice.text for choice in choices))
    if len(texts) > _FILES_MAX:
        raise Unsupported(f"the configs make {len(texts)} different texts; at most {_FILES_MAX}")
    writer = _Writer()
    dtypes = [argument.dtype for argument in call.arguments if not isinstance(argument, Scalar)]
    for line in ("# SPDX-License-Identifier: Apache-2.0", f"name: {json.dumps(name)}",
                 f"summary: {json.dumps(summary)}", "language: TTIR", f'source: "{file_name(0)}"',
                 *(f'headers: "{file_name(i)}"' for i in range(1, len(texts))), f'entry: "{ENTRY}"',
                 f'dtypes: "{(dtypes or ["f32"])[0]}"'):
        writer.add(line)
    space = _Space(writer, choices)
    space.write_params()
    space.write_places()
    space.write_constraint()
    axes = itertools.zip_longest(*(choice.grid for choice in choices), fillvalue=1)
    grid = [space.number("grid", list(axis)) for axis in axes]
    if len(texts) > 1:
        file = space.number("file", [texts.index(choice.text) for choice in choices])
        writer.add(f"source_choice: {json.dumps(_file_choice(file))}")
    _write_arguments(writer, call, space, choices, written)
    writer.add(f"launch {{ grid: {json.dumps(grid)} }}")
    first = json.dumps([str(extent) for extent in choices[0].grid])
    writer.add(f'reference {{ source: "{file_name(0)}" language: TTIR entry: "{ENTRY}" '
               f"launch {{ grid: {first} }} }}")
    for dtype in dict.fromkeys(dtypes):
        if dtype in tolerances:
            rtol, atol = tolerances[dtype]
            writer.add(f'tolerances {{ dtype: "{dtype}" rtol: {float(rtol)!r} atol: {float(atol)!r} }}')
    files = {file_name(i): text.encode() for i, text in enumerate(texts)}
    files.update((_contents_name(place), argument.contents) for place, argument in enumerate(call.arguments)
                 if isinstance(argument, Buffer) and argument.contents)
    return "\n".join(writer.lines) + "\n", files
