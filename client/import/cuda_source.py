# SPDX-License-Identifier: Apache-2.0
"""What an import must know of CUDA source: a kernel's parameters, and which of them it writes."""
import dataclasses
import os
import re

BYTES_MAX = 1 << 20
FILES_MAX = 256
# Vectors are as many of their elements.
TYPES = {"double": "f64", "float": "f32", "half": "f16", "__half": "f16", "__nv_bfloat16": "bf16", "bool": "bool",
         "uint": "u32", "uint32_t": "u32", "int32_t": "i32", "int64_t": "i64", "uint64_t": "u64", "size_t": "u64",
         "int16_t": "i16", "uint16_t": "u16", "int8_t": "i8", "uint8_t": "u8", "uchar": "u8", "ushort": "u16",
         "ulong": "u64"}


@dataclasses.dataclass
class Parameter:
    name: str
    text: str  # as written
    is_pointer: bool
    is_const: bool

    @property
    def dtype(self):
        words = re.findall(r"\w+", self.text)[:-1]
        known = next((TYPES[word] for word in words if word in TYPES), "")
        size = next((bits for word, bits in (("char", 8), ("short", 16), ("long", 64)) if word in words), 32)
        if known or not {"unsigned", "signed", "char", "short", "int", "long"} & set(words):
            return known or "f32"
        return ("u" if "unsigned" in words else "i") + str(size)


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
        stored = re.search(at + r"\s*\[[^;=]*\](?:\s*\.\s*\w+)?\s*=[^=]", self.body) or re.search(
            r"[;{})]\s*\*\s*(?:" + at + r"|\(\s*" + at + r"[^;()]*\))\s*=[^=]", self.body)
        return "=" if stored else ""

    def is_only_read(self, name):
        """Whether each mention is an element that is loaded: else it may be written by another name."""
        at = r"\b" + re.escape(name) + r"\b"
        loads = len(re.findall(r"(?<!&)" + at + r"\s*\[|\*\s*\(\s*" + at + r"\s*[+)]|__ldg\s*\(\s*&?\s*" + at, self.body))
        return loads == len(re.findall(at, self.body))

    def mentions(self, name):
        return re.search(r"\b" + re.escape(name) + r"\b", self.clean) is not None

    def elements(self, variable):
        """How many a `__constant__` or `__device__` array has, as an expression; "": not seen."""
        at = r"\b__(?:constant|device)__[^;{}()]*\b" + re.escape(variable) + r"\s*\[([^\]]+)\]"
        found = re.search(at, self.clean)
        size = found.group(1).strip() if found else ""
        define = re.search(r"^\s*#\s*define\s+" + re.escape(size) + r"\s+(.+)$", self.clean, re.M)
        size = define.group(1).strip() if size.isidentifier() and define else size
        return size if re.fullmatch(r"[\d\s()+*]+", size) else ""


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
