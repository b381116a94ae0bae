# SPDX-License-Identifier: Apache-2.0
"""Reads a kernel's folder: its spec, and the files that the spec names, as a daemon is to receive them.

A spec may name a header that kernels share as `<kernels/rows.cuh>`. It is sent as the file `rows.cuh`, with the shared
headers that it includes, and the spec's text names them so. kernels/shared_headers.h has the same rules in C++.
"""
from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterator

_FILES_MAX = 256
_FILE_BYTES_MAX = 1 << 20
# Tokens of protobuf's text format, by which the spec's own `headers` are told from texts, comments
# and nested messages.
_TOKEN = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\w+|[][{}<>]""", re.DOTALL)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]*)"', re.MULTILINE)


def read_kernel(spec: str) -> tuple[str, dict[str, bytes]]:
    """The text of the spec at a path, and the files that it names. ValueError: one that is not sent."""
    folder = os.path.dirname(os.path.abspath(spec))
    with open(spec, encoding="utf-8") as file:
        text = file.read()
    text, headers = _resolve(os.path.basename(spec), text, lambda name: _read_shared(folder, name))
    files = {name: header.encode() for name, header in headers.items()}
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if f'"{name}"' in text and os.path.isfile(path):
            files[name] = _read_file(path)
        if len(files) > _FILES_MAX:
            raise ValueError(f"{spec} names more than {_FILES_MAX} files")
    return text, files


def _read_file(path: str) -> bytes:
    if os.path.islink(path) or os.path.getsize(path) > _FILE_BYTES_MAX:
        raise ValueError(f"{path}: a kernel's file is no link and has at most 1 MiB")
    with open(path, "rb") as data:
        return data.read()


def _shared_folder() -> str:
    """The headers that came with the package, or in a repository lie beside it."""
    package = os.path.dirname(os.path.abspath(__file__))
    installed = os.path.join(package, "include")
    return installed if os.path.isdir(installed) else os.path.join(package, *[os.pardir] * 4, "kernels", "include")


def _shared_names() -> list[str]:
    folder = _shared_folder()
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted(name for name in names if name.endswith((".cuh", ".h")))


def _read_shared(folder: str, name: str) -> str:
    """The text of a shared header for the kernel in a folder: a folder `kernels` above has its own, in `include`."""
    path = os.path.join(folder, name)
    if os.path.lexists(path):
        raise ValueError(f"{path} has the name of the shared header <kernels/{name}>, which the spec needs: rename the "
                         f"file, or name no shared header that is or includes '{name}'")
    above = os.path.dirname(folder)
    path = os.path.join(above, "include", name)
    if os.path.basename(above) != "kernels" or not os.path.lexists(path):
        path = os.path.join(_shared_folder(), name)
    return _read_file(path).decode()


def _header_values(text: str) -> Iterator[tuple[re.Match[str], bool]]:
    """The quoted values of the spec's own `headers`; is each in a list?"""
    depth, field, is_in_list = 0, "", False
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word[0] in "\"'":
            if depth == 0 and field == "headers":
                yield token, is_in_list
        elif word in "{<":
            depth += 1
        elif word in "}>":
            depth -= 1
        elif word in "[]":
            is_in_list = word == "["
        elif word[0] != "#" and depth == 0:
            field = word


def _shared_name(spec_name: str, text: str, value: re.Match[str], shared: list[str]) -> str:
    """The shared header that a value names; empty: a file of the folder's own."""
    whole = value.group()[1:-1]
    if not whole.startswith("<"):
        return ""
    known = {f"<kernels/{name}>": name for name in shared}
    if whole in known:
        return known[whole]
    line = text.count("\n", 0, value.start()) + 1
    column = value.start() - text.rfind("\n", 0, value.start())
    near = difflib.get_close_matches(whole, known, 1, 0.8)
    raise ValueError(f"{spec_name}:{line}:{column}: headers: no shared header '{whole}'; there is "
                     f"{', '.join(known) or 'none in this build of the package'}"
                     + (f"; did you mean '{near[0]}'?" if near else ""))


def _resolve(spec_name: str, text: str, read: Callable[[str], str]) -> tuple[str, dict[str, str]]:
    """The text with each `<kernels/NAME>` replaced by the names of what NAME includes and its own, and the texts of
    all of these. What the spec names itself, or an earlier name brought, is not repeated."""
    shared = _shared_names()
    values = [(token, is_in_list, name) for token, is_in_list in _header_values(text)
              if (name := _shared_name(spec_name, text, token, shared))]
    named = {name for _, _, name in values}
    headers: dict[str, str] = {}

    def needed(name: str) -> Iterator[str]:
        if name not in headers:
            headers[name] = read(name)
            for inner in _INCLUDE.findall(headers[name]):
                if inner not in shared:
                    raise ValueError(f"{spec_name}: the shared header '{name}' includes \"{inner}\", which is none: a "
                                     f"shared header may include shared headers alone")
                if inner not in named and inner not in headers:
                    yield from needed(inner)
        yield name

    parts, copied = [], 0
    for token, is_in_list, name in values:
        names = [f'"{one}"' for one in needed(name)]
        joined = ", ".join(names)
        parts += [text[copied:token.start()], joined if is_in_list or len(names) == 1 else f"[{joined}]"]
        copied = token.end()
    return "".join(parts) + text[copied:], headers
