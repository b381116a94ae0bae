# SPDX-License-Identifier: Apache-2.0
"""Configs and heuristics that a script asks its library for by a name, such as `runtime.get_tuned_config("addmm")`: the
library keeps them in a file of its own (YAML, JSON, or a dict in Python) under that name. The files of the script's package
are searched for the name. An entry is taken only if it fits the kernel, which it does if all that it sets are the kernel's
constexprs or Triton's options; which file it is from is a note. YAML is read as far as such files use it: block maps and
lists, and flow lists of scalars. Anything else in an entry makes it unreadable, and the call stays unknown."""
import ast
import itertools
import json
import os
import re

FILES_MAX = 4_000
BYTES_MAX = 1 << 20
CONFIGS_MAX = 4_096
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
KWARGS = ("META", "kwargs", "meta", "config")  # where an entry has its constexprs, if they are apart
SKIPPED = {"node_modules", "__pycache__", "tests", "test", "docs"}


class NotRead(Exception):
    """More than this module knows of YAML."""


# YAML.


def scalar(text):
    text = text.strip()
    if text[:1] in "&*!|>@`%" and text:
        raise NotRead(text)
    if text[:1] == "[" and text[-1:] == "]":
        inner = text[1:-1].strip().rstrip(",")
        if re.search(r"[\[\]{}]", inner):
            raise NotRead(text)
        return [scalar(part) for part in inner.split(",")] if inner else []
    if text == "{}":
        return {}
    if text[:1] in "[{":
        raise NotRead(text)
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    if re.fullmatch(r"[-+]?\d+", text):
        return int(text)
    if re.fullmatch(r"[-+]?\d*\.\d+(e[-+]?\d+)?", text):
        return float(text)
    return {"true": True, "false": False, "null": None, "~": None, "": None}.get(text.lower(), text)


def yaml_lines(text):
    """[(indent, content)] without comments and empty lines."""
    found = []
    for line in text.split("\n"):
        line = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if "\t" in line[:len(line) - len(line.lstrip())]:
            raise NotRead(line)
        if line.strip():
            found.append((len(line) - len(line.lstrip()), line.strip()))
    return found


def yaml_block(lines, at, indent):
    """(value, where it ends) of the lines from `at` that are indented by `indent`."""
    is_list = lines[at][1].startswith("-")
    found = [] if is_list else {}
    while at < len(lines) and lines[at][0] == indent:
        content = lines[at][1]
        if is_list:
            if content != "-" and not content.startswith("- "):
                break
            rest = content[1:].lstrip()
            if rest and re.match(r"[\w.'\"-]+\s*:(\s|$)", rest):  # a map whose first key stands behind the dash
                inner = indent + len(content) - len(rest)
                lines[at] = (inner, rest)
                value, at = yaml_block(lines, at, inner)
            elif rest:
                value, at = scalar(rest), at + 1
            else:
                value, at = yaml_inner(lines, at + 1, indent + 1)
            found.append(value)
            continue
        match = re.match(r"(['\"]?)([\w.-]+)\1\s*:(\s+(.*))?$", content)
        if match is None or match[2] in found:
            raise NotRead(content)
        rest = match[4] or ""
        found[match[2]], at = (scalar(rest), at + 1) if rest else yaml_inner(lines, at + 1, indent)
    if at < len(lines) and lines[at][0] > indent:
        raise NotRead(lines[at][1])
    return found, at


def yaml_inner(lines, at, indent):
    """What stands below a key; a list may be as far left as its key."""
    if at < len(lines) and (lines[at][0] > indent or (lines[at][0] == indent and lines[at][1].startswith("-"))):
        return yaml_block(lines, at, lines[at][0])
    return None, at


def yaml_entry(text, key):
    """What a file has under one of its top keys; None: nothing that is understood."""
    match = re.search(rf"^(['\"]?){re.escape(key)}\1\s*:\s*(#.*)?\n((?:[ \t\-#].*\n|\n)*)", text + "\n", re.M)
    if match is None:
        return None
    try:
        lines = yaml_lines(match[3])
        value, at = yaml_block(lines, 0, lines[0][0]) if lines else (None, 0)
        return value if at == len(lines) else None
    except (NotRead, RecursionError):
        return None


# Entries.


def configs_in(entry):
    """[{name: value}] of what stands under a name: a map or a list of these, each a config or, if names stand for lists,
    all their products. None: it is something else."""
    entries = entry if isinstance(entry, list) else [entry]
    found = []
    for each in entries:
        if not isinstance(each, dict):
            return None
        base = each.get("param_map", each)
        kwargs = next((base[name] for name in KWARGS if name in base), None)
        if not isinstance(base, dict) or not isinstance(kwargs, (dict, type(None))):
            return None
        if kwargs is None:
            kwargs = {name: value for name, value in base.items() if name not in OPTIONS} if base is each else {}
        values = {**kwargs, **{name: base[name] for name in OPTIONS if name in base}}
        choices = []
        for name, value in values.items():
            value = each.get(value, value) if isinstance(value, str) and base is not each else value
            choices.append(value if isinstance(value, list) else [value])
        for one in itertools.islice(itertools.product(*choices), CONFIGS_MAX):
            if not all(isinstance(value, (int, float, str, bool)) for value in one):
                return None
            found.append(dict(zip(values, one)))
    return found or None


class DataFiles:
    """The files of a script's package, searched for a name when the first call asks."""

    def __init__(self, path, root):
        self.path, self.root = os.path.realpath(path), os.path.realpath(root)
        self.texts = None

    def read(self):
        self.texts = []
        for folder, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
            for name in sorted(names):
                path = os.path.join(folder, name)
                if not name.endswith((".yaml", ".yml", ".json", ".py")) or os.path.islink(path) or \
                        os.path.getsize(path) > BYTES_MAX:
                    continue
                if len(self.texts) == FILES_MAX:
                    return
                try:
                    with open(path, encoding="utf-8") as file:
                        self.texts.append((path, file.read()))
                except (OSError, UnicodeError):
                    continue

    def with_name(self, key, endings):
        if self.texts is None:
            self.read()
        return [(path, text) for path, text in self.texts if path.endswith(endings) and key in text]

    def configs(self, key, constants):
        """([{name: value}], path) of the entry that fits; None: there is none, or more than one."""
        found = []
        for path, text in self.with_name(key, (".yaml", ".yml", ".json")):
            if path.endswith(".json"):
                try:
                    whole = json.loads(text)
                except ValueError:
                    continue
                entry = whole.get(key) if isinstance(whole, dict) else None
            else:
                entry = yaml_entry(text, key)
            made = configs_in(entry) if entry is not None else None
            if made and all(set(one) <= {*constants, *OPTIONS} for one in made):
                found.append((made, path))
        return self.best(found)

    def dicts(self, key, constants):
        """(name of the dict, path) of a module with a dict of dicts by name."""
        found = []
        for path, text in self.with_name(key, (".py",)):
            if not re.search(rf"^\s*['\"]{re.escape(key)}['\"]\s*:\s*\{{", text, re.M) or path == self.path:
                continue
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError):
                continue
            for node in tree.body:
                inner = entry_of(node, key)
                if inner is not None and {getattr(k, "value", None) for k in inner.keys} <= {*constants, *OPTIONS}:
                    found.append((node.targets[0].id, path))
        return self.best(found)

    def best(self, found):
        """The one nearest to the script, else the one for NVIDIA's GPUs, else the only one."""
        def shared(path):
            return len(os.path.commonpath([path, self.path]))
        for keep in (lambda path: shared(path) == max(shared(each) for _, each in found),
                     lambda path: re.search(r"nvidia|cuda", path.lower()) is not None):
            if len(found) > 1:
                kept = [(made, path) for made, path in found if keep(path)]
                found = kept or found
        return found[0] if len(found) == 1 else None

    def shown(self, path):
        return os.path.relpath(path, self.root)


def entry_of(node, key):
    """The dict under a key of a dict that a statement gives a name; None: it is no such statement."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Dict):
        for name, value in zip(node.value.keys, node.value.values):
            if isinstance(name, ast.Constant) and name.value == key and isinstance(value, ast.Dict):
                return value
    return None
