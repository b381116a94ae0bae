# SPDX-License-Identifier: Apache-2.0
"""Objects that a script makes and asks things of: texts, lists, dicts, paths, parsers of command lines, and
instances of its own classes. What a method gives is what Python would give; None stands for "not known"."""
import dataclasses
import os
import re

from script_values import (DType, File, Function, Map, Num, Seq, Unknown, as_shape,
                           given_dtype, items_of, plain, product)

TEXT_MAX = 1 << 20
TEXT_METHODS = {"strip", "rstrip", "lstrip", "upper", "lower", "title", "capitalize", "startswith", "endswith", "find",
                "count", "isdigit", "isidentifier", "removeprefix", "removesuffix"}
# Calls that may set names which no one can read off the text.
OPAQUE = {"exec", "eval", "setattr", "delattr", "globals", "locals", "vars", "__setattr__"}
HARMLESS = {"print", "pprint", "dump", "dumps", "show", "plot", "info", "debug", "warning", "log", "write", "savefig",
            "format", "exit", "add_argument", "seed", "run_kernel", "simplefilter", "filterwarnings", "store_results", "save"}


@dataclasses.dataclass
class Path:
    text: str


@dataclasses.dataclass(eq=False)
class Class:
    node: object  # None: a class that the script does not define
    members: dict
    bases: list
    scope: object = None  # in which its methods stand
    is_base: bool = False  # of a class of the script

    def __post_init__(self):
        """Python orders the ancestors. A TypeError, as in the script, if they have no order."""
        for base in self.bases:
            base.is_base = True
        self.python = type("Class", tuple(base.python for base in self.bases), {"known": self})

    def line(self):
        """The class and its ancestors, the nearest first."""
        return [kind.__dict__["known"] for kind in self.python.__mro__[:-1]]

    def member(self, name, after=None):
        """None: neither the class nor an ancestor has it, or one may that is not known. `after`: of ancestors behind this one."""
        line = self.line()
        for kind in line[line.index(after) + 1:] if after in line else line:
            if kind.node is None or name in kind.members:
                return kind.members.get(name)
        return None


@dataclasses.dataclass
class Instance:
    cls: object  # None: a namespace
    attributes: dict


@dataclasses.dataclass
class Super(Instance):
    """An instance or a class, asked for what the ancestors of `after` have."""
    of: object
    after: Class


@dataclasses.dataclass
class Parser:
    """argparse's: its arguments have their defaults, as if the script ran without any."""
    defaults: dict

    def add(self, positional, by_name, node):
        flags = [p for p in positional if isinstance(p, str)]
        name = plain(by_name.get("dest"))
        if not isinstance(name, str):
            long = [flag for flag in flags if flag.startswith("--")] or flags
            name = long[0].lstrip("-").replace("-", "_") if long else ""
        if not name:
            return
        value = by_name.get("default", Num(None))
        action = plain(by_name.get("action"))
        if action in ("store_true", "store_false") and "default" not in by_name:
            value = Num(action == "store_false")
        kind = by_name.get("type")
        if isinstance(value, str) and isinstance(kind, DType) and kind.name in ("i64", "f64"):
            try:
                value = Num((int if kind.name == "i64" else float)(value))
            except ValueError:
                value = Unknown(f"the default of {name}", node.lineno)
        is_positional = bool(flags) and not flags[0].startswith("-") and "default" not in by_name
        if is_positional or plain(by_name.get("required")):
            value = Unknown(f"the argument {name} of the command line", node.lineno)
        self.defaults.setdefault(name, value)


def text_method(text, name, positional, by_name):
    known = [plain(p) for p in positional]
    if name == "format":
        return formatted(text, known, {key: plain(value) for key, value in by_name.items()})
    if None in known:
        return None
    if name in TEXT_METHODS:
        made = getattr(text, name)(*known)
        return made if isinstance(made, str) else Num(made)
    if name == "join" and known and isinstance(known[0], list) and all(isinstance(k, str) for k in known[0]):
        return text.join(known[0])[:TEXT_MAX]
    if name == "replace" and len(known) >= 2 and all(isinstance(k, str) for k in known[:2]):
        return text.replace(*known[:2])[:TEXT_MAX]
    if name in ("split", "splitlines", "rsplit"):
        return Seq(getattr(text, name)(*known))
    if name == "encode":
        return text
    return None


def formatted(text, positional, by_name):
    """As str.format; None of what is not known, or as wide as no script means it."""
    if None in positional or None in by_name.values() or re.search(r"\d{4,}", "".join(re.findall(r"\{[^}]*\}", text))):
        return None
    try:
        return text.format(*positional, **by_name)[:TEXT_MAX]
    except (IndexError, KeyError, ValueError, AttributeError, TypeError):
        return None


def percent(text, value):
    """text % value"""
    known = plain(value)
    known = {key: plain(item) for key, item in value.items.items()} if isinstance(value, Map) else known
    if known is None or re.search(r"%[^%a-z]*(\d{4,}|\*)", text):
        return None
    try:
        return (text % (tuple(known) if isinstance(known, list) else known))[:TEXT_MAX]
    except (ValueError, TypeError, KeyError):
        return None


def seq_method(seq, name, positional, by_name):
    first = positional[0] if positional else None
    if name == "append" and first is not None:
        seq.items.append(first)
        return Num(None)
    if name == "extend" and items_of(first) is not None:
        seq.items.extend(items_of(first))
        return Num(None)
    if name == "insert" and len(positional) == 2 and isinstance(plain(first), int):
        seq.items.insert(plain(first), positional[1])
        return Num(None)
    if name == "pop" and seq.items and isinstance(plain(first) if positional else -1, int):
        return seq.items.pop(*([plain(first)] if positional else []))
    known = [plain(item) for item in seq.items]
    if name == "copy":
        return Seq(list(seq.items), seq.doubt)
    if name == "clear":
        seq.items.clear()
        return Num(None)
    if name in ("sort", "reverse") and None not in known and "key" not in by_name:
        if name == "sort":
            seq.items.sort(key=plain)
        if name == "reverse" or plain(by_name.get("reverse")):
            seq.items.reverse()
        return Num(None)
    if name in ("index", "count", "remove") and None not in known and plain(first) in known:
        if name == "remove":
            seq.items.pop(known.index(plain(first)))
            return Num(None)
        return Num(getattr(known, name)(plain(first)))
    return None


def map_method(base, name, positional, by_name):
    first = positional[0] if positional else None
    if name == "keys":
        return Seq(items_of(base))
    if name == "values":
        return Seq(list(base.items.values()))
    if name == "items":
        return Seq([Seq([key, value]) for key, value in zip(items_of(base), base.items.values())])
    if name == "copy":
        return Map(dict(base.items), base.doubt)
    if name == "update":
        if first is not None and not isinstance(first, Map):
            pairs = items_of(first)
            if pairs is None or not all(isinstance(p, Seq) and len(p.items) == 2 for p in pairs):
                return None
            first = Map({plain(p.items[0]): p.items[1] for p in pairs})
        base.items.update({**(first.items if first else {}), **by_name})
        return Num(None)
    key = plain(first)
    if key is None or isinstance(key, list):
        return None
    if name in ("get", "setdefault", "pop"):
        otherwise = positional[1] if len(positional) > 1 else Num(None)
        if name == "setdefault":
            return base.items.setdefault(key, otherwise)
        return base.items.pop(key, otherwise) if name == "pop" else base.items.get(key, otherwise)
    return None


def array_method(array, name, positional, by_name):
    first = positional[0] if positional else None
    if name == "astype":
        return dataclasses.replace(array, fill=dataclasses.replace(array.fill), dtype=given_dtype(first or by_name.get("dtype"), "a type that is not given"))
    if name == "view" and first is None:
        return array
    if name == "copy":
        return dataclasses.replace(array, fill=dataclasses.replace(array.fill))  # what is done to one is not done to the other
    if name in ("flatten", "ravel"):
        return dataclasses.replace(array, shape=[product(array.shape)])
    if name == "squeeze":
        return dataclasses.replace(array, shape=[num for num in array.shape if num.value != 1] or [Num(1)]) \
            if not positional and not by_name else None
    if name == "transpose" and not positional:
        return dataclasses.replace(array, shape=array.shape[::-1])
    if name == "reshape":
        shape = as_shape(first if len(positional) == 1 else Seq(positional))
        return reshaped(array, shape)
    return None


def reshaped(array, shape):
    """None: the shape is not known. At most one extent is -1, which stands for the rest."""
    if not shape or not all(type(num.value) is int for num in shape):
        return None
    whole, given = product(array.shape), product([num for num in shape if num.value != -1])
    if any(num.value == -1 for num in shape):
        if not given.value or whole.value % given.value:
            return None
        rest = whole if given.value == 1 else Num(whole.value // given.value, f"{whole.factor()} // {given.factor()}"
                                                  if whole.text or given.text else "", tight=False)
        shape = [rest if num.value == -1 else num for num in shape]
    return dataclasses.replace(array, shape=shape) if product(shape).value == whole.value else None


def path_method(path, name, positional):
    parts = [p.text if isinstance(p, Path) else p for p in positional]
    if name in ("resolve", "absolute", "expanduser", "as_posix"):
        return path
    if name == "joinpath" and all(isinstance(p, str) for p in parts):
        return Path(os.path.join(path.text, *parts))
    if name in ("read_text", "open"):
        return File("a file", 0, path.text)
    return None


def path_attribute(path, name):
    return {"parent": lambda: Path(os.path.dirname(path.text)), "name": lambda: os.path.basename(path.text),
            "stem": lambda: os.path.splitext(os.path.basename(path.text))[0]}.get(name, lambda: None)()


def bound_member(base, name):
    """An attribute of an instance, or a member of its class, or of a class; None: neither."""
    owner, after = (base.of, base.after) if isinstance(base, Super) else (base, None)
    cls = owner if isinstance(owner, Class) else owner.cls
    if after is None and owner is not cls and name in owner.attributes:
        return owner.attributes[name]
    member = cls.member(name, after) if cls is not None else None
    if not isinstance(member, Function):
        return member
    kinds = {getattr(d, "id", getattr(d, "attr", "")) for d in getattr(member.node, "decorator_list", ())}
    if "staticmethod" in kinds or owner is cls and "classmethod" not in kinds:
        return member
    return dataclasses.replace(member, bound=(cls if "classmethod" in kinds else owner,))


def is_property(function):
    return isinstance(function, Function) and any(getattr(d, "id", getattr(d, "attr", "")) in ("property", "cached_property")
                                                  for d in getattr(function.node, "decorator_list", ()))
