# SPDX-License-Identifier: Apache-2.0
"""Which buffers a kernel writes, from its TTIR: those of whose addresses a store is reached.

Addresses are followed by name, through pointer arithmetic, selections, loops and branches. What cannot
be followed counts as written: that costs a copy before a launch, and never a wrong answer.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ._call import Descriptor, Scalar

_VALUE = re.compile(r"%[\w#]+")
_RESULT = re.compile(r"\s*(%\w+)(?::(\d+))? = (.*)")
_CARRIED = re.compile(r"iter_args\((.*?)\)")
_PAIR = re.compile(r"(%\w+) = (%[\w#]+)")
_STORES = ("tt.store", "tt.atomic", "tt.descriptor_store", "tt.descriptor_reduce", "tt.descriptor_scatter",
           "tt.experimental_descriptor", "tt.elementwise_inline_asm")
_LOADS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather")
_NOT_FOLLOWED = ("tt.call ", "scf.while", "cf.br", "cf.cond_br", "tt.int_to_ptr")


class _Region(NamedTuple):
    results: list[str]
    arguments: list[str]  # of a loop's body


class _Addresses:
    """Of each value's name, the parameters whose memory it may point to."""

    def __init__(self, pointers: Iterable[int]) -> None:
        self._of = {f"%arg{i}": {i} for i in pointers}
        self.changed = False

    def of(self, names: Iterable[str]) -> set[int]:
        return set().union(*(self._of.get(name, set()) for name in names))

    def add(self, name: str, reached: set[int]) -> None:
        known = self._of.setdefault(name, set())
        if not reached <= known:
            known |= reached
            self.changed = True


def _names_of(result: str, count: str) -> list[str]:
    return [f"{result}#{i}" for i in range(int(count))] if count else [result]


def _enter(line: str, addresses: _Addresses) -> _Region:
    """A loop's or a branch's region; any other has neither results nor arguments that matter."""
    matched = _RESULT.match(line)
    results = _names_of(matched.group(1), matched.group(2)) if matched else []
    carried = _CARRIED.search(line)
    pairs = _PAIR.findall(carried.group(1)) if carried else []
    for place, (argument, start) in enumerate(pairs):
        addresses.add(argument, addresses.of([start]))
        if place < len(results):
            addresses.add(results[place], addresses.of([start]))
    return _Region(results, [argument for argument, _ in pairs])


def _leave_with(line: str, region: _Region, addresses: _Addresses) -> None:
    for place, name in enumerate(_VALUE.findall(line.split(" : ", 1)[0])):
        for names in region:
            if place < len(names):
                addresses.add(names[place], addresses.of([name]))


def _step(line: str, addresses: _Addresses, written: set[int]) -> None:
    matched = _RESULT.match(line)
    operation = (matched.group(3) if matched else line).strip()
    operands = _VALUE.findall(operation.split(" : ", 1)[0])
    if operation.startswith(_STORES):
        asm = operation.startswith("tt.elementwise_inline_asm")
        written |= addresses.of(operands if asm else operands[:1])
    elif matched and not operation.startswith(_LOADS):
        for name in _names_of(matched.group(1), matched.group(2)):
            addresses.add(name, addresses.of(operands))


def _pass(lines: list[str], addresses: _Addresses, written: set[int]) -> None:
    regions = [_Region([], [])]
    for line in lines:
        text = line.strip()
        closed = regions.pop() if text.startswith("}") and len(regions) > 1 else None
        if text.endswith("{"):
            regions.append(closed if closed is not None else _enter(line, addresses))
        elif text.startswith("scf.yield"):
            _leave_with(line, regions[-1], addresses)
        elif closed is None:
            _step(line, addresses, written)


def written_arguments(text: str, arguments: Sequence[Any], arch: int) -> set[int]:
    """Places of the arguments that are written. On the host a descriptor is followed by its shape and strides;
    before sm_90 by more, so that all that is there counts as written."""
    places, place = {}, 0
    for number, argument in enumerate(arguments):
        if not isinstance(argument, Scalar):
            places[place] = number
        place += 1 + 2 * len(argument.shape) if isinstance(argument, Descriptor) else 1
    if arch < 90 and any(isinstance(argument, Descriptor) for argument in arguments):
        return set(places.values())
    return {places[one] for one in written_parameters(text, places)}


def written_parameters(text: str, pointers: Iterable[int]) -> set[int]:
    """`pointers`: places of the function's parameters that are such. Those of them that are written."""
    pointers = set(pointers)
    if any(word in text for word in _NOT_FOLLOWED):
        return pointers
    lines = [line for line in text.splitlines() if "tt.func " not in line and "module" not in line]
    addresses, written = _Addresses(pointers), set[int]()
    while True:
        addresses.changed = False
        _pass(lines, addresses, written)
        if not addresses.changed:
            return written
