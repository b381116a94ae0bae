# SPDX-License-Identifier: Apache-2.0
"""A launch, as it was met in a walk of its function, as args, defines and a grid of a spec."""
import re

import triton_run
from spec_text import RESERVED, TO_WRITE, quoted
from triton_configs import ELSEWHERE, OPTIONS
from triton_tensors import OWN_STRIDES
from triton_values import NONE, PLACE, Items, Tensor, Type, Unknown, factor, product

NAME = r"(?<![\w.'])[A-Za-z_]\w*"  # in an expression


def understood(why):
    """"'x.size' was not understood"; what a branch decides is a sentence already."""
    why = why if why[:1] == "'" else f"'{why}'"
    return why if why.endswith("decides it") or OWN_STRIDES in why else why + " was not understood"


class Launch:
    def __init__(self, made, host, launched, real=None):
        self.values, self.function, self.blocks = made.values, made.function, made.blocks
        self.zeroed, self.restored = made.zeroed, made.restored
        self.configured = bool(made.configs)
        self.host, self.launched = host, launched
        self.left, self.notes = [], list(host.notes)
        self.asked = []  # what a call with examples settles
        self.dims, self.types, self.args, self.defines = {}, [], [], []
        self.dim_values, self.shapeless = {}, []
        self.unread = []  # parts of the launch that give values to names which are not known
        self.causes = {}  # (what was not understood, line): parts that need it
        self.real, self.types_first, self.assumed = real, [], []
        self.line = launched.call.lineno
        host.state.back(0)
        host.state.again(launched.facts)
        self.read()

    def leave(self, text, line=0):
        self.left.append(text if "(line " in text else f"{text} (line {line or self.line})")

    def ask(self, text, line=0):
        """Leaves what the script's caller gives, or follows from it: a launch that is run says it."""
        self.asked.append(text if "(line " in text else f"{text} (line {line or self.line})")

    def tell_asked(self):
        """One call with examples settles all that is asked for, so that it is one thing to write; each place has its
        own mark in the spec."""
        asked = list(dict.fromkeys(self.asked))
        if len(asked) > 1:
            asked = [f"a call with examples at the script's end that leads to line {self.line}; `tunectl import --run` takes "
                     f"from its launch what is missing: {'; '.join(asked)}"]
        self.left += asked

    def leave_for(self, part, cause):
        """What is missing because of one expression is one thing to write."""
        why = cause.why if isinstance(cause, Unknown) else "it"
        self.causes.setdefault((understood(why), getattr(cause, "line", 0) or self.line), []).append(part)

    def tell_causes(self):
        for (why, line), parts in self.causes.items():
            self.ask(f"{', '.join(dict.fromkeys(parts))}: {why}", line)

    def read(self):
        host = self.host
        bound, strange = self.launched.given, self.launched.strange
        roles, self.indices = self.function.roles(), self.function.indices()
        self.unread = [*host.unread, *(f"launch: {what} was not understood, so which arguments it gives is not known"
                                       for what in strange)]
        extents = self.read_grid()
        for name in self.function.arguments:
            if name in self.values:
                continue
            if name in bound:
                self.arg(name, bound[name], roles[name])
            elif name not in self.function.defaults and not strange:
                self.leave(f"arg {name}: the launch does not give it")
        self.constants(bound)
        self.tell_shapes()
        self.tell_causes()
        if len(self.assumed) > 1:
            self.notes.append(f"args {', '.join(self.assumed)}: the script does not say their types; all have the problem's")
        self.finish(extents)
        self.weight = len(self.left) + len(self.asked)
        self.tell_asked()
        if not any(role in arg for arg in self.args for role in ("INOUT", "OUTPUT")):
            if self.real is None and strange:
                return
            self.leave("roles: no argument is seen to be written; one must be ROLE_OUTPUT")

    def constants(self, bound):
        missing = []
        for name in self.function.constants:
            if name in self.values:
                continue
            if name in bound:
                self.define(name, bound[name])
            elif name not in self.function.defaults:
                missing.append(name)
        for name, value in bound.items():  # options of the launch
            if name in self.function.order:
                continue
            if name in ELSEWHERE:
                self.notes.append(f"launch: {name} is an option for other GPUs")
            elif name not in OPTIONS:
                self.leave(f"launch: {name} is no parameter of {self.function.name}, and no option that the service has "
                           f"(line {self.launched.call.lineno})")
            else:
                text = self.text(value)
                is_free = self.values.get(name) is None or self.configured is False
                if is_free and text is None:
                    self.leave(f"{name}: its value in the launch was not understood")
                elif is_free and re.fullmatch(r"\d+", text):
                    self.values[name] = list(dict.fromkeys([int(text), *self.values.get(name, [])]))
                else:
                    self.notes.append(f"{name}: the launch or a heuristic decides it; here it is a param, with the values "
                                      f"{self.values.get(name)}")
        given = f": {', '.join(missing)}" if missing else ""
        for text in self.unread:
            self.ask(text + given)
        if missing:
            for name in missing:
                self.values[name] = [None]
            if self.unread:
                pass  # they are among what was not understood
            elif self.configured or not self.function.tuner():
                self.leave(f"params {', '.join(missing)}: neither the launch nor the configs give {'it' if len(missing) == 1 else 'them'}")

    # Arguments.

    def arg(self, name, value, role):
        if value is NONE:
            self.defines.append((name, "'None'"))
        elif isinstance(value, Tensor):
            self.buffer(name, value, role)
        elif isinstance(value, str):
            self.scalar(name, value)
        elif isinstance(value, Items) and len(value.items) == 0:
            self.leave(f"arg {name}: a tuple is no arg of a spec")
        else:
            self.leave_for(f"arg {name}", value)
            kind = "buffer" if name in self.function.pointers else "scalar"
            self.args.append((name, f'{kind} {{ dtype: "{TO_WRITE}" ' + (
                f'shape: "{TO_WRITE}" role: ROLE_{role} }}' if kind == "buffer" else f'value: "{TO_WRITE}" }}'), []))

    def scalar(self, name, text):
        dtype = "bool" if text in ("True", "False") or text.endswith("!= 0") else \
            "f32" if re.search(r"\d\.|\.\d|\de[-+]?\d|\*\* -|sqrt\(| / ", text) else "i32"
        self.args.append((name, f'scalar {{ dtype: "{dtype}" value: $0 }}', [text]))

    def buffer(self, name, tensor, role):
        host = self.host
        memory = tensor.memory or tensor.axes
        whole = getattr(memory, "whole", None)
        if whole is not None:
            memory = whole[0]
        if tensor.note:
            self.notes.append(f"arg {name}: {tensor.note}")
        shape = self.shape(memory)
        why = tensor.why
        if shape is None or why:
            if isinstance(why, Unknown):
                self.leave_for(f"arg {name}", why)
            else:
                while memory.parts is not None:
                    memory = memory.parts.axes
                self.shapeless.append((name, why, memory.name))
            shape = [TO_WRITE]
        fill = ""
        if name in self.zeroed:
            role, fill = "INOUT", " fill { kind: CONSTANT }"
        if name in self.restored:
            role = "INOUT"
        dtype = tensor.dtype.spec()
        if "left_to_write" in dtype:
            self.ask(f"arg {name}: {dtype.strip('()').removeprefix('left_to_write: ')} was not understood")
            dtype = TO_WRITE
        elif dtype == "dtype" and name in self.indices and isinstance(tensor, Tensor):
            self.ask(f"arg {name}: its elements are parts of addresses, and neither their type nor their values are in the "
                       "script; write its dtype and fill")
            dtype = TO_WRITE
        elif dtype == "dtype" and tensor.axes.name in host.assumed:
            self.assumed.append(name)
        self.types.append(dtype)
        spots = ", ".join(f"${i}" for i in range(len(shape)))
        texts = list(shape)
        descriptor = ""
        if tensor.is_descriptor:
            block = self.blocks.get(name)
            if block is None and isinstance(tensor.block, Items) and all(isinstance(b, str) for b in tensor.block.items):
                block = tensor.block.items
            if block is None:
                self.leave(f"arg {name}: the block shape of its descriptor was not understood")
                block = [TO_WRITE]
            descriptor = f" tensor_descriptor {{ block_shape: [{', '.join(f'${len(texts) + i}' for i in range(len(block)))}] }}"
            texts += block
        self.args.append((name, f"buffer {{ dtype: {quoted(dtype)} shape: [{spots}] role: ROLE_{role}{fill}{descriptor} }}", texts))

    def shape(self, axes):
        """Expressions; None: how many axes it has is not known."""
        host = self.host
        if axes.shape is not None:
            return list(axes.shape)
        if axes.parts is not None:
            inner = self.shape(axes.parts.axes)
            axes.shape = None if inner is None else axes.parts.around(inner)
            return None if inner is None else list(axes.shape)
        if axes.flat is not None and not axes.strides:
            return list(axes.flat)
        if axes.count is not None and not axes.read and not axes.strides:
            return [axes.count]
        if axes.count is not None and axes.read == {-1} and not axes.strides:  # all elements, and how long a row is
            rows = host.places.axis(f"{axes.name}_rows")
            if host.places.same(axes.count, product([rows, axes.seen[-1]])):
                host.state.put(axes, "flat", [rows, axes.seen[-1]])
                return list(axes.flat)
        read = sorted(index for index in axes.read if index >= 0)
        if read and read == list(range(len(read))) and not any(index < 0 for index in axes.read) and \
                axes.strides <= set(read) and (not axes.strides or (len(read) > 1 and axes.strides == set(read))):
            # Each axis is read, and each stride or none: a tensor of so many axes is one that the function takes. A
            # stride alone says nothing of what is behind it.
            host.set_rank(axes, len(read))
            if len(read) > 1:
                self.notes.append(f"{axes.name}: taken for one of {len(read)} axes, which are all that the script reads of it")
            return list(axes.shape)
        return None

    def tell_shapes(self):
        plain = [(name, host) for name, why, host in self.shapeless if not why]
        if plain:
            which = f"the shape of '{plain[0][1]}' is" if len(plain) == 1 else \
                "the shapes of " + ", ".join(f"'{host}'" for _, host in plain) + " are"
            self.ask(f"arg{'s' if len(plain) > 1 else ''} {', '.join(name for name, _ in plain)}: {which} not in the "
                     "script")
        reasons = {}
        for name, why, _ in self.shapeless:
            if why:
                reasons.setdefault(why, []).append(name)
        for why, names in reasons.items():  # memory that lies otherwise than a buffer does so in a run, too
            tell = self.leave if OWN_STRIDES in why or "the same memory" in why else self.ask
            tell(f"arg{'s' if len(names) > 1 else ''} {', '.join(names)}: {why}")

    # Constants and the grid.

    def text(self, value):
        """As a define's value; None: it is not known."""
        if isinstance(value, str):
            return value
        if value is NONE:
            return "'None'"
        if isinstance(value, Type):
            return value.triton()
        return None

    def define(self, name, value):
        text = self.text(value)
        if text is None:
            self.leave_for(f"define {name}", value)
            text = TO_WRITE
        self.defines.append((name, text))

    def read_grid(self):
        made = self.launched.grid
        items = made.items if isinstance(made, Items) else [made]
        extents = []
        if len(items) > 3:
            self.leave(f"launch.grid: it has {len(items)} axes; a launch has at most 3")
        for item in items[:3]:
            if isinstance(item, str):
                extents.append(item)
            else:
                self.leave_for("launch.grid", item)
                extents.append(TO_WRITE)
        return extents or [TO_WRITE]

    # Names.

    def finish(self, extents):
        """Puts names in the place of axes, and what strides are."""
        host, bad = self.host, set()
        self.names = {}

        def stride(match):
            axes, index = host.places.strides[int(match[1])]
            if axes.shape is None:
                bad.add((axes.name, index))
                return TO_WRITE
            return factor(settled(product(axes.shape[index % len(axes.shape) + 1:])))

        def settled(text):
            text = host.places.inserted(text)
            whole = re.fullmatch(r"stride__(\d+)__", text)
            if whole:
                made = stride(whole)
                return made[1:-1] if made.startswith("(") else made
            text = re.sub(r"stride__(\d+)__", stride, text)
            return PLACE.sub(lambda m: self.name_of(host.places.axes[int(m[2])]), text)

        self.args = [(name, template, [settled(text) for text in texts]) for name, template, texts in self.args]
        self.defines = [(name, settled(text)) for name, text in self.defines]
        self.grid = [settled(extent) for extent in extents]
        told = {host for _, _, host in self.shapeless}
        for name, index in sorted(one for one in bad if one[0] not in told):
            self.ask(f"the shape of '{name}' is not in the script, so what its stride({index}) is, is not known")
        if self.real is not None:
            triton_run.correct(self, self.real)
        given = {name: text for name, text in self.defines}
        self.grid = [self.without_defines(extent, given) for extent in self.grid]
        self.shapes = [texts for _, template, texts in self.args if template.startswith("buffer")]
        for name, template, texts in self.args:
            for text in texts:
                self.know(text, len(texts) if template.startswith("buffer") else 1)
        for name, text in self.defines:
            self.know(text)
        for extent in self.grid:
            self.know(extent)
        self.write()

    def name_of(self, axis):
        if axis.number not in self.names:
            name = re.sub(r"\W+", "_", axis.name.lstrip("(")).strip("_") or "n"
            while name in self.names.values():
                name += "_2"
            self.names[axis.number] = name
        return self.names[axis.number]

    def without_defines(self, text, given):
        return re.sub(NAME, lambda m: factor(given[m[0]]) if m[0] in given and m[0] not in self.values else m[0], text)

    def know(self, text, axes=1):
        """The names of an expression are dims."""
        for name in re.findall(NAME, re.sub(r"'[^']*'", "''", text)):
            if name not in (*RESERVED, "True", "False", "None", "dtype", "if", "else", "and", "or", "not", "in", "ceil_div",
                            TO_WRITE) and name not in self.values:
                self.dims[name] = max(axes, self.dims.get(name, 0))

    def clashes(self, name):
        return name in self.dims and name in RESERVED

    def safe(self, text):
        return re.sub(NAME, lambda m: m[0] + "_" if self.clashes(m[0]) else m[0], text)

    def write(self):
        lines = []
        for name, template, texts in self.args:
            body = re.sub(r"\$(\d+)", lambda m: quoted(self.safe(texts[int(m[1])])), template)
            lines.append(f"args {{ name: {quoted(name)} {body} }}")
        self.args = lines
        self.defines = [f"defines {{ name: {quoted(name)} value: {quoted(self.safe(text))} }}" for name, text in self.defines]
        self.grid = [self.safe(extent) for extent in self.grid]
