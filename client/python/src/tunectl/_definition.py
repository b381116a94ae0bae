# SPDX-License-Identifier: Apache-2.0
"""A kernel that is defined in Python. It becomes a textproto and its files, so a daemon checks it like any other."""
from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from . import _function_source

# The hashes that daemons gave to the definitions of this process, by name and then by the definition's own digest.
_hashes: dict[str, dict[str, str]] = {}

Fields = Mapping[str, Any]  # a message by the names of its fields in proto/tune/v1/kernel.proto
Source = Union[str, os.PathLike[str], Callable[..., Any]]

_HEAD = "# proto-file: tune/v1/kernel.proto\n# proto-message: KernelSpec\n"
# Fields that are enums, with the prefix of their values.
_ENUMS = {"role": "ROLE_", "match": "DIM_MATCH_", "language": "", "kind": ""}
_LAUNCH = ("grid", "block", "cluster", "shared_bytes", "cooperative", "programmatic_dependent_launch", "resident")
_EXTENSIONS = {"": ".cu", "CUDA": ".cu", "PTX": ".ptx", "TRITON": ".py", "TTIR": ".ttir", "NUMPY": ".py"}
_ARG_KINDS = ("buffer", "scalar", "tensor_map", "symbol")


def _expression(value: Any, is_literal: bool = False) -> str:
    """A text is an expression as it is, unless it is one of a list's values; other values are written as such."""
    if isinstance(value, str):
        if not is_literal:
            return value
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(value, (list, tuple, range)):
        return f"[{', '.join(_expression(one, True) for one in value)}]"
    return repr(value.item() if hasattr(value, "item") else value)


def _expressions(values: Any) -> list[str]:
    """Of an axis each: "n", 4096, ["rows", "cols"]."""
    return [_expression(one) for one in ([values] if isinstance(values, (str, int)) else values)]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + "".join(c if c.isprintable() else "".join(f"\\{byte:03o}" for byte in c.encode()) for c in escaped) + '"'


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if hasattr(value, "item"):
        return _scalar_text(value.item())
    raise TypeError(f"{value!r} is no value of a spec: give a number, a text, a list or a mapping of fields")


def _field_lines(name: str, value: Any) -> Iterator[str]:
    """Text format; a message is one line."""
    if value is None:
        return
    if isinstance(value, Mapping):
        inner = " ".join(line for key, one in value.items() for line in _field_lines(key, one))
        yield f"{name} {{ {inner} }}" if inner else f"{name} {{}}"
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _field_lines(name, one)
    elif name in _ENUMS and isinstance(value, str):
        text = value.upper()
        yield f"{name}: {text if text.startswith(_ENUMS[name]) else _ENUMS[name] + text}"
    else:
        yield f"{name}: {_scalar_text(value)}"


def _named(what: str, members: Any, fields_of: Callable[[str, Any], Fields]) -> list[Fields]:
    """Messages with names, of a mapping by name; a list of them is left as it is."""
    if isinstance(members, Mapping):
        return [{"name": name, **fields_of(name, value)} for name, value in members.items()]
    if isinstance(members, str) or not isinstance(members, Sequence):
        raise TypeError(f"{what} is a mapping by name, or a list of mappings, not {members!r}")
    return list(members)


def _by_target(on: Any, fields_of: Callable[[Any], Fields]) -> Any:
    """{"cpu": 4096} as the list of messages that the field `on` is."""
    return [{"target": target, **fields_of(value)} for target, value in on.items()] if isinstance(on, Mapping) else on


def _dim(_: str, value: Any) -> Fields:
    fields = dict(value) if isinstance(value, Mapping) else {"default_value": value}
    return {**fields, "on": _by_target(fields.get("on"), lambda size: {"default_value": size})}


def _choices(value: Any) -> dict[str, Any]:
    """The values of a param: a list of which the first is the default, an expression, or fields."""
    fields = dict(value) if isinstance(value, Mapping) else {"values": value}
    values = fields.get("values")
    has_list = isinstance(values, (list, tuple, range))
    if has_list and values and "default_value" not in fields:
        fields["default_value"] = values[0]
    for name in fields.keys() & {"values", "default_value"}:
        fields[name] = _expression(fields[name], name == "default_value" and has_list)
    return fields


def _param(_: str, value: Any) -> Fields:
    fields = _choices(value)
    return {**fields, "on": _by_target(fields.get("on"), _choices)}


def _value(_: str, value: Any) -> Fields:
    return {"value": _expression(value)}


def _launched(fields: Fields) -> dict[str, Any]:
    """With the fields of its launch in a message of their own, as the spec has them."""
    launch = {**(fields.get("launch") or {}), **{name: fields[name] for name in _LAUNCH if fields.get(name) is not None}}
    for name in launch.keys() & {"grid", "block", "cluster"}:
        launch[name] = _expressions(launch[name])
    if "shared_bytes" in launch:
        launch["shared_bytes"] = _expression(launch["shared_bytes"])
    return {**{name: one for name, one in fields.items() if name not in _LAUNCH}, "launch": launch or None}


class Kernel:
    """A kernel, defined in Python instead of by a textproto. `tunectl.submit`, `compare` and `kernel` take it.

        scale = tunectl.Kernel(
            "scale", source=cuda_text, dims={"n": 1 << 20}, dtypes=["f32"],
            params={"THREADS": [128, 64, 256]},
            args={"x": {"role": "input", "dtype": "f32", "shape": "n"},
                  "y": {"role": "output", "dtype": "f32", "shape": "n"},
                  "n": {"dtype": "i32", "value": "n"}},
            grid="ceil_div(n, THREADS)", block="THREADS", reference=scale_reference)

    Arguments are fields of the spec (docs/adding-a-kernel.md), and so are the keys of mappings. Shorter forms:

    source     text, the path of a file, or a function of Triton's. headers: paths, shared headers ("<kernels/rows.cuh>"),
               or texts by file name
    entry      the name of the source's function, else the kernel's, unless there are steps
    dims       {"n": 4096}: the default, or fields
    params     {"THREADS": [128, 64]}: the values, the default first; an expression; or fields
    lets, defines  expressions by name. constraints: expressions, or fields
    args       in the order of the entry's parameters: one with a `value` is a scalar, one with a `role` or `shape` a buffer.
               `file` and `expected` are paths, or NumPy arrays
    grid, block, cluster, shared_bytes  of the launch; in steps, reference and checker, too
    reference  a function of NumPy arrays whose parameters have the names of args and dims, or fields
    on         {"cpu": ...} of a dim or param: its default or values on targets

    A text is an expression; among the values of a list it is a text. What is wrong is said by the daemon, with the line of
    `textproto()`. TypeError, ValueError: a value cannot be written into a spec, or a file cannot be read.
    """

    def __init__(self, name: str, *, source: Optional[Source] = None, headers: Any = (), entry: Optional[str] = None,
                 summary: str = "", dims: Any = (), dtypes: Sequence[str] = (), params: Any = (), lets: Any = (),
                 constraints: Sequence[Any] = (), defines: Any = (), args: Any = (), grid: Any = None, block: Any = None,
                 cluster: Any = None, shared_bytes: Any = None, launch: Optional[Fields] = None,
                 work: Optional[Fields] = None, reference: Union[Callable[..., Any], Fields, None] = None,
                 tolerances: Sequence[Fields] = (), targets: Sequence[str] = (), nvrtc_options: Sequence[str] = (),
                 checks: Sequence[Fields] = (), language: str = "", source_choice: str = "", steps: Sequence[Fields] = (),
                 include_roots: Sequence[str] = (), checker: Optional[Fields] = None) -> None:
        if not re.fullmatch(r"[\w-]+", name):
            raise ValueError(f"{name!r} is no name of a kernel: give lower case letters, digits, '_' and '-'")
        self.name = name
        self._files: dict[str, bytes] = {}
        rest = _launched({"launch": launch, "grid": grid, "block": block, "cluster": cluster, "shared_bytes": shared_bytes})
        fields: dict[str, Any] = {
            "name": name, "summary": summary or None,
            "source": self._add_source(f"{name}{_EXTENSIONS.get(language.upper(), '.cu')}", source),
            "headers": self._add_headers(headers), "language": language or None, "source_choice": source_choice or None,
            "entry": entry or (None if steps else getattr(source, "__name__", name)), "dtypes": list(dtypes), "targets": list(targets),
            "dims": _named("dims", dims, _dim), "params": _named("params", params, _param),
            "lets": _named("lets", lets, _value), "defines": _named("defines", defines, _value),
            "constraints": [one if isinstance(one, Mapping) else {"expression": one} for one in constraints],
            "args": _named("args", args, self._arg), **rest,
            "steps": [self._part(f"{name}_step{i}", one) for i, one in enumerate(steps)],
            "work": {key: _expression(one) for key, one in work.items()} if work else None,
            "reference": self._reference(reference), "checker": checker and self._part(f"{name}_checker", checker),
            "tolerances": list(tolerances), "nvrtc_options": list(nvrtc_options), "include_roots": list(include_roots),
            "checks": [{**one, "dims": [{"key": key, "value": size} for key, size in (one.get("dims") or {}).items()]}
                       for one in checks]}
        self._text = _HEAD + "".join(f"{line}\n" for key, one in fields.items() for line in _field_lines(key, one))

    def textproto(self, folder: Union[str, os.PathLike[str], None] = None) -> str:
        """Returns the spec's text.

        folder  also writes it there, as NAME.textproto, with the files that it names beside it: a kernel for `tunectl sweep`
        """
        if folder is not None:
            os.makedirs(folder, exist_ok=True)
            for name, data in {f"{self.name}.textproto": self._text.encode(), **self._files}.items():
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(data)
        return self._text

    def __repr__(self) -> str:
        return self._text

    def _digest(self) -> str:
        parts = [self._text.encode(), *(part for name in sorted(self._files) for part in (name.encode(), self._files[name]))]
        return hashlib.sha256(b"".join(b"%d\n%s" % (len(part), part) for part in parts)).hexdigest()

    def learn_hash(self, kernel_hash: str) -> None:
        """Keeps what a daemon calls this very definition."""
        _hashes.setdefault(self.name, {})[self._digest()] = kernel_hash

    def differs_from(self, kernel_hash: str) -> bool:
        """Is it the hash of another definition of this name? As far as this process knows: False if it submitted none."""
        known = _hashes.get(self.name, {})
        own = known.get(self._digest())
        return kernel_hash != own if own else kernel_hash in known.values()

    def _add_file(self, name: str, data: bytes) -> str:
        if self._files.setdefault(name, data) != data:
            raise ValueError(f"two files of kernel {self.name} are called '{name}': rename one")
        return name

    def _add_source(self, name: str, source: Optional[Source]) -> Optional[str]:
        """The file's name in the spec: of a text or function `name`, of a path its own."""
        if source is None:
            return None
        if isinstance(source, (str, os.PathLike)):
            if isinstance(source, str) and re.search(r"[\n;{]", source):
                return self._add_file(name, source.encode())
            with open(source, "rb") as file:
                return self._add_file(os.path.basename(os.fspath(source)), file.read())
        return self._add_file(f"{os.path.splitext(name)[0]}.py", _function_source.module_of(source).encode())

    def _add_headers(self, headers: Any) -> list[Optional[str]]:
        if isinstance(headers, Mapping):
            return [self._add_file(name, text.encode()) for name, text in headers.items()]
        return [one if isinstance(one, str) and one.startswith("<") else self._add_source("", one)
                for one in ([headers] if isinstance(headers, str) else headers)]

    def _arg(self, name: str, value: Any) -> Fields:
        if not isinstance(value, Mapping):
            raise TypeError(f"arg '{name}' is a mapping of the fields of a buffer or scalar, not {value!r}")
        kinds = [kind for kind in _ARG_KINDS if isinstance(value.get(kind), Mapping)]
        kind = kinds[0] if kinds else "scalar" if "value" in value else "buffer"
        fields = dict(value[kind] if kinds else value)
        if "shape" in fields:
            fields["shape"] = _expressions(fields["shape"])
        for key in fields.keys() & {"dims", "strides", "box"}:  # of a tensor map
            fields[key] = _expressions(fields[key])
        if "block_shape" in (descriptor := fields.get("tensor_descriptor") or {}):
            fields["tensor_descriptor"] = {**descriptor, "block_shape": _expressions(descriptor["block_shape"])}
        if kind == "scalar" and "value" in fields:
            fields["value"] = _expression(fields["value"])
        if isinstance(fields.get("fill"), str):
            fields["fill"] = {"kind": fields["fill"]}
        for key in fields.keys() & {"file", "expected"}:
            fields[key] = self._add_data(f"{name}_{key}.npy", fields[key])
        return {kind: fields}

    def _add_data(self, name: str, value: Any) -> Optional[str]:
        if isinstance(value, (str, os.PathLike)):
            return self._add_source("", os.fspath(value))
        import numpy

        data = io.BytesIO()
        numpy.save(data, numpy.ascontiguousarray(value), allow_pickle=False)
        return self._add_file(name, data.getvalue())

    def _part(self, name: str, value: Fields) -> Fields:
        """A step, the reference or the checker: with a source of its own, and a launch."""
        fields = _launched(value)
        if callable(fields.get("source")) or str(fields.get("source") or "") not in ("", *self._files):
            fields["source"] = self._add_source(f"{name}{_EXTENSIONS.get(str(fields.get('language') or ''), '.cu')}",
                                                fields["source"])
        return fields

    def _reference(self, value: Union[Callable[..., Any], Fields, None]) -> Optional[Fields]:
        if value is None or isinstance(value, Mapping):
            return value and self._part(f"{self.name}_reference", value)
        source = self._add_source(f"{self.name}_reference.py", value)
        return {"entry": value.__name__, "source": source, "language": "NUMPY"}


@contextlib.contextmanager
def on_disk(kernel: Union[str, Kernel]) -> Iterator[str]:
    """The path of a kernel's spec, in a folder that goes away; a name or path is given back."""
    if isinstance(kernel, str):
        yield kernel
        return
    with tempfile.TemporaryDirectory(prefix="tune-kernel-") as folder:
        kernel.textproto(folder)
        yield os.path.join(folder, f"{kernel.name}.textproto")
