# SPDX-License-Identifier: Apache-2.0
"""The part of a Kernel Tuner import that reads what the kernel is given: its arguments and symbols."""
import collections
import re

from kernel_tuner_library import Chosen
from kernel_tuner_spec import FLOATS
from script_values import SPEC_TYPES, Array, Fill, Map, Num, Scalar, Seq, Unknown, is_none_value, items_of
from spec_text import TO_WRITE


class Arguments:
    """Reads `arguments`, `answer` and `cmem_args`."""

    def read_args(self):
        value = self.get("arguments")
        items = items_of(value) if isinstance(value, Seq) else []
        if not items and not any(text.startswith("arguments ") for text in self.left):
            self.leave("args: the list of arguments was not understood", part="arguments")
        parameters = self.source.parameters if self.source else []
        if self.source and items and len(items) != len(parameters):
            self.leave(f"args: the script has {len(items)}, the kernel {len(parameters)}")
        answer = self.get("answer")
        self.answers = [not is_none_value(item) for item in answer.items] if isinstance(answer, Seq) else []
        if any(self.answers):
            self.notes.append("answer: it says which arguments are outputs; its values are not compared, a reference kernel's are")
        self.args = []
        choosing = collections.defaultdict(list)
        for index, item in enumerate(items):
            parameter = parameters[index] if index < len(parameters) else None
            name = parameter.name if parameter else f"arg{index}"
            if isinstance(item, Chosen):
                picked = item.pick(self.params.get(item.param, ()))
                if picked is not None:
                    choosing[item.param, picked[0]].append(name)
                item = Unknown(f"the array that '{item.param}' chooses", self.line) if picked is None else picked[1]
            self.args.append(self.arg(index, name, parameter, item))
        for (param, value), names in choosing.items():
            self.leave(f"param {param}: it chooses the arrays or types of {', '.join(names)}, and an arg has one; these are those "
                       f"of {param} = {value!r}: keep this value alone, or make one spec for each value")
        self.guess_output()

    def dtype(self, name, dtype):
        """Of an arg; what no spec has is told by its own name."""
        if dtype in SPEC_TYPES:
            return dtype
        self.leave(f"arg {name}: {dtype or 'its type'} is no type of a spec; those are {', '.join(SPEC_TYPES)}")
        return TO_WRITE

    def arg(self, index, name, parameter, item):
        if isinstance(item, Scalar):
            if isinstance(item.num.value, int) and not -1 << 63 <= item.num.value < 1 << 63:
                self.leave(f"arg {name}: {item.num.value} is no number of a spec, whose integers are those of int64: write one that is")
                return {"name": name, "dtype": self.dtype(name, item.dtype), "value": TO_WRITE}
            if isinstance(item.num.value, (int, float)):
                return {"name": name, "dtype": self.dtype(name, item.dtype), "value": self.sized(item.num)}
            item = Unknown("its value", self.line)
        if isinstance(item, Num) and isinstance(item.value, (int, float)):
            dtype = "bool" if isinstance(item.value, bool) else "i32" if isinstance(item.value, int) else "f64"
            if parameter is not None and not parameter.is_pointer:
                dtype = parameter.dtype
            return self.arg(index, name, parameter, Scalar(dtype, item))
        if not isinstance(item, Array):
            return self.unknown_arg(name, parameter, item)
        role = self.role(index, name, parameter, item)
        fill = None if role == "OUTPUT" else self.fill(item)
        return {"name": name, "dtype": self.dtype(name, item.dtype), "shape": self.shape(name, item), "role": role,
                "fill": fill}

    def unknown_arg(self, name, parameter, item):
        """What its author must write has a name that `kernel check` does not let pass."""
        why = f"'{item.why}'" if isinstance(item, Unknown) else "it"
        line = getattr(item, "line", 0)
        dtype = parameter.dtype if parameter else "f32"
        if parameter and not parameter.is_pointer:
            self.leave(f"arg {name}: {why} was not understood; write its value", line)
            return {"name": name, "dtype": dtype, "value": TO_WRITE}
        self.leave(f"arg {name}: {why} was not understood; write its shape and fill, and look at its type and role", line)
        role = {"=": "OUTPUT", "+=": "INOUT"}.get(self.source.writes(name), "INPUT") \
            if self.source else "INPUT"
        return {"name": name, "dtype": dtype, "shape": [TO_WRITE], "role": role, "fill": None}

    @staticmethod
    def fill(array):
        """A constant or an order is gone once the array was changed."""
        is_gone = array.note and array.fill.kind in ("CONSTANT", "SORTED", *(["IOTA"] if array.dtype in FLOATS else []))
        return Fill() if is_gone else array.fill

    def shape(self, name, array):
        if array.note and array.dtype not in FLOATS:  # places, offsets: other numbers may be none that the kernel can take
            self.leave(f"arg {name}: {array.note}; write its fill, or a file with its elements")
        elif array.note:
            self.notes.append(f"arg {name}: {array.note}; it is filled with random numbers here")
        if array.fill.high_text:
            self.sized(Num(array.fill.high, array.fill.high_text))
        return [self.sized(num) for num in array.shape]

    def role(self, index, name, parameter, item):
        written = self.source.writes(name) if self.source else ""
        answered = index < len(self.answers) and self.answers[index]
        is_zero = item.fill.kind == "CONSTANT" and item.fill.low == 0
        if parameter is not None and parameter.is_const:
            return "INPUT"
        if written == "+=":
            return "INOUT"
        if written == "=" or answered:
            # A buffer that is filled with more than zeros may be meant to keep some of it.
            return "OUTPUT" if is_zero or answered else "INOUT"
        if self.source is None:
            return "OUTPUT" if is_zero else "INPUT"
        if self.source.is_only_read(name):
            return "INPUT"
        self.notes.append(f"arg {name}: the kernel hands it on, so it may be written: it is an in-out; say "
                          "ROLE_INPUT or ROLE_OUTPUT if it is one")
        return "OUTPUT" if is_zero else "INOUT"

    def guess_output(self):
        """Of a kernel that hands its arguments on: the arrays that the script zeroes."""
        if any(arg.get("role") in ("OUTPUT", "INOUT") for arg in self.args):
            return
        for arg in self.args:
            fill = arg.get("fill")
            if fill is not None and fill.kind == "CONSTANT" and fill.low == 0:
                arg.update(role="OUTPUT", fill=None)
                self.notes.append(f"arg {arg['name']}: taken for an output, because the script "
                                  "fills it with zeros")

    def read_symbols(self):
        value = self.get("cmem_args")
        if value is not None and not isinstance(value, Map):
            self.leave("cmem_args: it was not understood")
        for name, item in (value.items if isinstance(value, Map) else {}).items():
            size = self.source.elements(name) if self.source else ""
            symbol = {"name": name, "dtype": "f32", "shape": [size or TO_WRITE], "symbol": True,
                      "fill": None}
            if self.source is not None and not re.search(rf"\b{re.escape(str(name))}\b", self.source.text):
                self.leave(f"cmem_args: the source has no {name}: put it there, or take it out of cmem_args")
            if isinstance(item, Array):
                shape = self.shape(name, item)
                symbol.update(dtype=self.dtype(name, item.dtype), shape=[size] if size else shape, fill=self.fill(item))
            else:
                self.leave(f"cmem_args: {name} was not understood; write its type and fill")
            if any(arg["name"] == name for arg in self.args):
                symbol.update(name=name + "_symbol", variable=name)
            self.args.append(symbol)
