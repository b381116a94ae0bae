# SPDX-License-Identifier: Apache-2.0
"""What an import must know of CUDA source: a kernel's parameters, and which of them it writes."""
import dataclasses
import os
import re

BYTES_MAX = 1 << 20
FILES_MAX = 256


@dataclasses.dataclass
class Parameter:
    name: str
    text: str  # as written
    is_pointer: bool
    is_const: bool


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)
    return re.sub(r"//[^\n]*", lambda m: " " * len(m.group(0)), text)


def closing(text, start, pair="()"):
    """Behind the bracket that closes the one at `start`; -1: none does."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == pair[0]) - (text[at] == pair[1])
        if depth == 0:
            return at + 1
    return -1


def split_parameters(text):
    parts, depth, begin = [], 0, 0
    for at, c in enumerate(text):
        depth += (c in "(<[{") - (c in ")>]}")
        if c == "," and depth == 0:
            parts.append(text[begin:at])
            begin = at + 1
    parts.append(text[begin:])
    return [part.strip() for part in parts if part.strip() and part.strip() != "void"]


class CudaSource:
    """One kernel's definition in a text. `found` says whether it is there."""

    def __init__(self, text, kernel):
        self.text = text
        self.clean = without_comments(text)
        self.found = False
        for match in re.finditer(r"\b" + re.escape(kernel) + r"\s*\(", self.clean):
            end = closing(self.clean, match.end() - 1)
            begin = self.clean.rfind("__global__", 0, match.start())
            between = self.clean[begin:match.start()]
            body = re.match(r"\s*\{", self.clean[end:]) if end > 0 else None
            if begin < 0 or ";" in between or "{" in between or body is None:
                continue
            self.found = True
            self.begin = begin
            self.parameters = [self.parameter(p)
                               for p in split_parameters(self.clean[match.end():end - 1])]
            brace = end + body.end() - 1
            self.body = self.clean[brace:closing(self.clean, brace, "{}")]
            before = self.clean[:begin].rstrip()
            self.is_template = bool(re.search(r"template\s*<[^;{}]*>$", before))
            return

    @staticmethod
    def parameter(text):
        text = re.sub(r"\s*\[[^\]]*\]$", " *", text) if text.endswith("]") else text
        words = re.findall(r"\w+", text.split("=")[0])
        name = words[-1] if words else ""
        if text.rstrip().endswith("*"):  # it was an array
            text = re.sub(r"\b" + name + r"\s*\*$", "* " + name, text)
        return Parameter(name=name, text=" ".join(text.split()), is_pointer="*" in text,
                         is_const=bool(re.search(r"\bconst\b[^*]*\*", text)))

    def writes(self, name):
        """"": not seen to be written; "=": stored; "+=": read and stored, or added to."""
        at = r"\b" + re.escape(name) + r"\b"
        if re.search(r"atomic\w+\s*\(\s*&?\s*" + at, self.body):
            return "+="
        if re.search(at + r"\s*\[[^;]*?\]\s*(?:[-+*/|&^]|<<|>>)=", self.body):
            return "+="
        stored = re.search(at + r"\s*\[[^;=]*\]\s*=[^=]", self.body)
        return "=" if stored else ""

    def with_c_linkage(self):
        if re.search(r'extern\s+"C"', self.clean):
            return self.text
        return self.text[:self.begin] + 'extern "C" ' + self.text[self.begin:]


def is_readable(path, root):
    """A file of bounded size below `root`, links followed."""
    inside = os.path.realpath(path).startswith(os.path.realpath(root) + os.sep)
    return inside and os.path.isfile(path) and os.path.getsize(path) <= BYTES_MAX


def included_files(text, folder, root):
    """The files that `#include "name"` finds beside the source: texts by name, and names of those
    that are not there."""
    files, missing, waiting = {}, [], [text]
    while waiting and len(files) < FILES_MAX:
        for name in re.findall(r'^\s*#\s*include\s+"([^"\n]+)"', waiting.pop(), flags=re.M):
            path = os.path.join(folder, name)
            if name in files or name in missing:
                continue
            if "/" in name or not is_readable(path, root):
                missing.append(name)
                continue
            with open(path, encoding="utf-8", errors="replace") as file:
                files[name] = file.read()
            waiting.append(files[name])
    return files, missing
