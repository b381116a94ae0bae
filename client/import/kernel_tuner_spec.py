# SPDX-License-Identifier: Apache-2.0
"""The half of a Kernel Tuner import that writes the spec's text."""
import os
import re

from script_values import SPEC_SIZES, Array, Num, Scalar, Seq, plain
from spec_text import MARKS_HERE, RESERVED, ident_pattern, listed, literal, quoted

FLOATS = {"f64", "f32", "f16", "bf16"}
CPU_ELEMENTS_MAX = 1 << 18


class SpecWriter:
    """Writes what its other half has read."""

    def size_values(self):
        """The sizes' values, as the script has them: of names that it gave a plain number."""
        values = {}

        def visit(value):
            if isinstance(value, Num):
                if value.text in self.sizes and isinstance(value.value, int):
                    values[value.text] = value.value
            elif isinstance(value, Seq):
                for item in value.items:
                    visit(item)
            elif isinstance(value, Array):
                visit(Seq(value.shape))
            elif isinstance(value, Scalar):
                visit(value.num)
        for value in list(self.values.values()) + list(self.reader.names.values()):
            visit(value)
        for known in self.reader.sizes.values():
            values.update({name: value for value, name in known.items() if name in self.sizes})
        values.update({name: value for name, value in self.sizes.items() if value is not None})
        return values

    def dims(self):
        values = self.size_values()
        for name in self.sizes:
            if name not in values:
                self.leave(f"dim {name}: its value was not understood")
        return {name: values.get(name, 1) for name in self.sizes}

    def place_of(self, number):
        """"stencil.cu:3", where a source has the number; else empty."""
        for file, text in self.files.items():
            for line, content in enumerate(text.split("\n"), 1):
                if re.search(rf"\b{number}\b", content):
                    return f"{file}:{line}"
        return ""

    def fixed_sizes(self, dims):
        """Those that the source has as numbers: no other value would do."""
        fixed = {n: self.place_of(v) for n, v in dims.items() if v >= 256 and self.place_of(v)}
        numbers = {text for text in self.defines.values() if text.isdigit()}
        fixed.update({n: "a define" for n, v in dims.items() if v >= 256 and str(v) in numbers and n not in fixed})
        for name, place in fixed.items():
            self.notes.append(f"dim {name}: {place} has its {dims[name]}, so a CPU gets no smaller one; see "
                              "docs/coming-from.md")
        # A number of the launch and numbers of arrays belong together.
        shapes = {extent for arg in self.args for extent in arg.get("shape", ())}
        if any(extent.isdigit() for extent in shapes):
            fixed.update({name: "" for name in self.bare if name in dims})
        return fixed

    def cpu_sizes(self, dims, fixed):
        """Smaller ones for a CPU, unless the source has the number itself."""
        sizes = {n: v for n, v in dims.items() if v >= 256 and n not in fixed}
        total = 1
        for value in dims.values():
            total *= max(1, value)
        while sizes and total > CPU_ELEMENTS_MAX:
            name = max(sizes, key=sizes.get)
            if sizes[name] % 2 or sizes[name] < 256:
                break
            sizes[name] //= 2
            total //= 2
        return sizes

    def renamed(self, text, dims):
        clash = {name: name + "_" for name in dims if name in RESERVED}
        return ident_pattern(clash).sub(lambda m: clash[m.group(1)], text) if clash else text

    def write_spec(self):
        dims = self.dims()
        lines = ["# proto-file: tune/v1/kernel.proto", "# proto-message: KernelSpec",
                 f"# Imported from {os.path.basename(self.reader.path)}, line {self.line}.",
                 f"name: {quoted(self.name)}", f"summary: {quoted('imported: ' + (self.function or self.name))}",
                 f"source: {quoted(self.source_name)}"]
        lines += [f"headers: {quoted(h)}" for h in self.headers]
        lines += [f"entry: {quoted(self.kernel)}"]
        lines += [f"nvrtc_options: {quoted(option)}" for option in dict.fromkeys(self.nvrtc_options)] + [""]
        fixed = self.fixed_sizes(dims)
        fixed.update(self.dependent_sizes(dims, fixed))
        small = self.cpu_sizes(dims, fixed)
        for name, value in dims.items():
            on = f' on {{ target: "cpu" default_value: {small[name]} }}' \
                if small.get(name, value) != value else ""
            bounds = f"min: {value} max: {value}" if name in fixed else "min: 1"
            lines.append(f"dims {{ name: {quoted(self.renamed(name, dims))} default_value: {value} {bounds}{on} }}")
        floats = [a["dtype"] for a in self.args if "shape" in a and a["dtype"] in FLOATS]
        lines += [f"dtypes: {quoted(floats[0] if floats else 'f32')}", ""]
        for name, values in self.params.items():
            lines.append(f"params {{ name: {quoted(name)} values: {quoted(listed(values))} "
                         f"default_value: {quoted(literal(self.defaults[name]))} }}")
        lines += [f"lets {{ name: {quoted(name)} value: {quoted(text)} }}" for name, text in self.lets]
        lines += [f"constraints {{ expression: {quoted(self.renamed(text, dims))} }}"
                  for text in self.constraints]
        lines += [f"defines {{ name: {quoted(name)} value: {quoted(self.renamed(text, dims))} }}"
                  for name, text in self.defines.items()]
        rest = [""] + [self.arg_line(arg, dims) for arg in self.args]
        rest += [f"launch {{ {self.launch_text(lambda text: self.renamed(text, dims))} }}", ""]
        rest += self.work_lines(dims) + self.reference_lines(dims)
        self.files[self.name + ".textproto"] = "\n".join([*lines, MARKS_HERE, *rest]) + "\n"

    def launch_text(self, written):
        parts = [f"grid: {quoted(written(g))}" for g in self.grid] + [f"block: {quoted(written(b))}" for b in self.block]
        if self.shared_bytes:
            parts.append(f"shared_bytes: {quoted(written(self.shared_bytes))}")
        return " ".join(parts)

    def arg_line(self, arg, dims):
        if "shape" not in arg:
            return (f"args {{ name: {quoted(arg['name'])} scalar {{ dtype: {quoted(arg['dtype'])} "
                    f"value: {quoted(self.renamed(arg['value'], dims))} }} }}")
        shape = " ".join(f"shape: {quoted(self.renamed(s, dims))}" for s in arg["shape"])
        fill = arg["fill"]
        text = ""
        if fill is not None and fill.kind:
            low = f" low: {fill.low}" if fill.low else ""
            high = f" high: {fill.high}" if fill.high else ""
            if fill.high_text:
                high = f" high_expression: {quoted(self.renamed(fill.high_text, dims))}"
            text = f" fill {{ kind: {fill.kind}{low}{high} }}"
        if "symbol" in arg:
            variable = f" variable: {quoted(arg['variable'])}" if "variable" in arg else ""
            return (f"args {{ name: {quoted(arg['name'])} symbol {{ dtype: {quoted(arg['dtype'])} "
                    f"{shape}{variable}{text} }} }}")
        return (f"args {{ name: {quoted(arg['name'])} buffer {{ dtype: {quoted(arg['dtype'])} "
                f"{shape} role: ROLE_{arg['role']}{text} }} }}")

    def work_lines(self, dims):
        terms = []
        for arg in self.args:
            if "role" in arg:
                times = SPEC_SIZES.get(arg["dtype"], 4) * (2 if arg["role"] == "INOUT" else 1)
                sizes = " * ".join(s if re.fullmatch(r"\w+", s) else f"({s})" for s in arg["shape"])
                terms.append(f"{times} * {sizes}")
        text = self.renamed(" + ".join(terms) or "0", dims)
        self.notes.append("work: bytes are those of the arguments; add flops and peak for rates of "
                          "computing")
        return [f"work {{ bytes: {quoted(text)} }}"]

    def reference_lines(self, dims):
        outputs = [a for a in self.args if a.get("role") in ("OUTPUT", "INOUT")]
        types = {a["dtype"] for a in outputs if a["dtype"] in FLOATS}
        if not outputs and self.args and not self.foreign:  # else it is to be written anew
            self.leave("roles: no argument is seen to be written; one must be ROLE_OUTPUT")
        if len(types) > 1 or types & {"f16", "bf16"}:
            self.leave("reference: outputs of 16 bits, or of several types, need one of "
                       "their own; see docs/adding-a-kernel.md")
            return []
        self.notes.append("reference: the kernel itself with its default config. It shows that "
                          "configs agree, not that they are right: write a plain one")
        dtype = (types or {"f32"}).pop()
        atol = plain(self.get("atol"))
        launch = self.launch_text(lambda text: self.settled(text, dims))
        lines = ["# The kernel itself, with its default config. Write a plain one instead.",
                 f"reference {{ entry: {quoted(self.kernel)} dtype: {quoted(dtype)} "
                 f"launch {{ {launch} }} }}"]
        if dtype == "f32":
            lines.append("tolerances { dtype: \"f32\" rtol: 1e-4 atol: "
                         f"{atol if isinstance(atol, (int, float)) else 1e-4} }}")
        return lines
