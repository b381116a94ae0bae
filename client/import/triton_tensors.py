# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's functions and methods make of tensors, as far as a launch needs it: shapes, strides, types."""
import dataclasses

from triton_values import BYTES, NONE, Axes, Items, Shape, Tensor, Type, Unknown, factor, product

MAKERS = {"empty", "zeros", "ones", "full", "randn", "rand", "empty_strided"}
LIKE = {"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like", "clone"}
NEW = {"new_empty", "new_zeros", "new_ones", "new_full"}
SAME = {"contiguous", "detach", "clone", "cuda", "cpu", "requires_grad_", "zero_", "fill_", "clone_", "data_ptr",
        "pin_memory", "nan_to_num", "expand_as_self"}
CONVERT = {"float": "'f32'", "half": "'f16'", "bfloat16": "'bf16'", "double": "'f64'", "int": "'i32'", "long": "'i64'",
           "bool": "'bool'", "short": "'i16'", "byte": "'u8'"}
RESHAPING = {"view", "reshape", "flatten", "unsqueeze", "squeeze", "ravel", "chunk", "split", "tensor_split"}
OWN_STRIDES = "has strides of its own"  # what a tensor's `why` says then
# Attributes of tensors alone: a parameter with such an attribute is a tensor.
TENSOR_ATTRIBUTES = {"shape", "stride", "dtype", "device", "numel", "size", "contiguous", "view", "reshape", "is_contiguous",
                     "new_empty", "new_zeros", "ndim", "dim", "element_size", "data_ptr", "T", "t", "transpose", "permute",
                     "unsqueeze", "squeeze", "flatten", "chunk", "is_cuda", "storage_offset", "nelement", "to", "detach"}


def whole(text):
    """An int of an expression, if it is one."""
    try:
        return int(text) if isinstance(text, str) else None
    except ValueError:
        return None


class Tensors:
    """Part of a Host: it has `places` and `state`."""

    def set_rank(self, axes, count):
        """Says that a tensor has so many axes. False: it has others."""
        if axes.shape is None and axes.parts is not None:
            whole = axes.parts.rank(count)
            if whole is None or not self.set_rank(axes.parts.axes, whole):
                return False
            self.state.put(axes, "shape", axes.parts.around(axes.parts.axes.shape))
        if axes.shape is None:
            if any(not -count <= index < count for index in axes.read) or count < 1:
                return False
            shape = [axes.seen.get(index) or axes.seen.get(index - count) or self.places.axis(f"({axes.name}_{index}")
                     for index in range(count)]
            for index, text in enumerate(shape):
                axes.seen.setdefault(index, text)
            self.state.put(axes, "shape", shape)
            for index in axes.read:
                self.places.same(shape[index], axes.seen[index])
            if axes.count is not None:
                self.places.same(axes.count, product(shape))
            for twin in axes.twins - {axes}:
                if self.set_rank(twin, count):
                    for one, other in zip(shape, twin.shape):
                        self.places.same(one, other)
        return len(axes.shape) == count

    def extent(self, axes, index):
        """An axis by its number, also from behind."""
        if axes.shape is not None:
            return axes.shape[index] if -len(axes.shape) <= index < len(axes.shape) else None
        if axes.parts is not None:
            return self.part(axes.parts, index)
        if index not in axes.seen:
            name = f"{axes.name}_{index}" if index >= 0 else f"{axes.name}_last" if index == -1 else \
                f"{axes.name}_last{-index}"
            axes.seen[index] = self.places.axis("(" + name)
        if index not in axes.read:
            self.state.put(axes, "read", axes.read | {index})
            for twin in axes.twins - {axes}:
                self.places.same(axes.seen[index], self.extent(twin, index))
        return axes.seen[index]

    def together(self, one, other):
        """Two tensors of one shape, whose axes are not known yet."""
        twins = one.twins | other.twins | {one, other}
        for index in sorted({index for twin in twins for index in twin.read}):
            self.places.same(self.extent(one, index), self.extent(other, index))
        for twin in twins:
            self.state.put(twin, "twins", twins)

    def part(self, shape, index):
        """One number of a shape of which not all is known; None: neither is this."""
        if 0 <= index < len(shape.before):
            return shape.before[index]
        if index < 0 and -index <= len(shape.behind):
            return shape.behind[index]
        at = index - len(shape.before) if index >= 0 else index + len(shape.behind)
        if index >= 0:
            at += shape.start
            is_in = at < 0 if shape.start < 0 else shape.end is None or shape.end < 0 or at < shape.end
        else:
            at += shape.end or 0
            is_in = (shape.end or 0) <= 0 and (shape.start >= 0 or at >= shape.start)
        return self.extent(shape.axes, at) if is_in else None

    def parts(self, shape, count):
        """A shape as so many numbers; None: it has others, or it is not known which these are."""
        axes = shape.axes
        if axes.shape is None and shape.rank(count) is not None:
            self.set_rank(axes, shape.rank(count))
        if axes.shape is not None:
            found = shape.around(axes.shape)
            return found if len(found) == count else None
        inner = count - len(shape.before) - len(shape.behind)
        begin, end = shape.start, shape.end if shape.end is not None else 0 if shape.start < 0 else None
        if end is None or (begin < 0) != (end <= 0 and begin < 0) or end - begin != inner:
            return None
        return [*shape.before, *(self.extent(axes, index) for index in range(begin, end)), *shape.behind]

    def stride(self, tensor, index):
        if tensor.strides is not None:
            return tensor.strides[index] if -len(tensor.strides) <= index < len(tensor.strides) else None
        if isinstance(tensor.why, str) and OWN_STRIDES in tensor.why:
            return Unknown(tensor.why)
        axes = tensor.memory or tensor.axes
        if axes.shape is not None:
            if not -len(axes.shape) <= index < len(axes.shape):
                return None
            return product(axes.shape[index % len(axes.shape) + 1:])
        if index == -1:
            return "1"
        if index < 0:
            return product([self.extent(axes, behind) for behind in range(index + 1, 0)])
        self.state.put(axes, "strides", axes.strides | {index})
        return self.places.stride(axes, index)

    def count(self, axes):
        if axes.shape is not None:
            return product(axes.shape)
        if axes.flat is not None:
            return product(axes.flat)
        if axes.count is None:
            axes.count = self.places.axis(f"({axes.name}_elements")
        return axes.count

    def made(self, name, shape, dtype, node):
        """A tensor of a shape: Items, Shape or a number."""
        if isinstance(shape, str):
            shape = Items([shape])
        if isinstance(shape, Shape) and shape.is_whole():
            return Tensor(shape.axes, dtype)
        if isinstance(shape, Shape) and shape.axes.shape is not None:
            shape = Items(shape.around(shape.axes.shape))
        if isinstance(shape, Shape) and all(isinstance(item, str) for item in (*shape.before, *shape.behind)):
            made = Tensor(Axes(name), dtype)
            made.axes.parts = shape
            return made
        if isinstance(shape, Items) and all(isinstance(item, str) for item in shape.items):
            return Tensor(Axes(name, list(shape.items) or ["1"]), dtype)
        items = [*shape.before, *shape.behind] if isinstance(shape, Shape) else getattr(shape, "items", [shape])
        causes = [item for item in items if isinstance(item, Unknown)]
        return Tensor(Axes(name), dtype, why=causes[0] if causes else f"the shape of '{self.shown(node)}' was not understood")

    def torch_call(self, name, positional, by_name, node):
        """torch.empty and the like; None: no such function."""
        dtype = by_name.get("dtype")
        first = positional[0] if positional else by_name.get("size", by_name.get("input"))
        if name in LIKE and isinstance(first, Tensor):
            kept = self.copied(first)
            return dataclasses.replace(kept, dtype=self.type_of(dtype, first.dtype, node), note="")
        if name in MAKERS:
            shape = first
            many = [p for p in positional if isinstance(p, str)]
            if name not in ("full", "empty_strided") and len(many) == len(positional) and many:
                shape = Items(many)
            elif len(positional) == 1 and isinstance(first, Shape):
                shape = first
            return self.made("made", shape, self.type_of(dtype, Type("'f32'"), node), node)
        if name in ("arange",) and positional and isinstance(positional[-1], str) and len(positional) == 1:
            return Tensor(Axes("range", [positional[0]]), self.type_of(dtype, Type("'i64'"), node))
        if name == "tensor" and isinstance(first, Items):
            return Tensor(Axes("values", [str(len(first.items))]), self.type_of(dtype, Type("'f32'"), node))
        return None

    def type_of(self, value, otherwise, node):
        if value is None or value is NONE:
            return otherwise
        if isinstance(value, Type):
            return value
        return Type(f"(left_to_write: the type of '{self.shown(node)}')")

    def method(self, tensor, name, positional, by_name, node):
        """A method of a tensor; None: it is not known."""
        axes = tensor.axes
        first = positional[0] if positional else None
        at = whole(first if first is not None else by_name.get("dim"))
        if name in SAME:
            if name != "contiguous":
                return self.copied(tensor) if name == "clone" else tensor
            why = "" if isinstance(tensor.why, str) and (axes.shape or OWN_STRIDES in tensor.why) else tensor.why
            return dataclasses.replace(tensor, memory=None, strides=None, why=why)
        if name in CONVERT:
            return dataclasses.replace(self.copied(tensor), dtype=Type(CONVERT[name]))
        if name in ("to", "type"):
            kind = next((p for p in [*positional, by_name.get("dtype")] if isinstance(p, Type)), None)
            like = next((p for p in positional if isinstance(p, Tensor)), None)
            return dataclasses.replace(tensor, dtype=kind or (like.dtype if like else tensor.dtype))
        if name in ("numel", "nelement"):
            return self.count(axes)
        if name in ("dim", "ndimension"):
            return str(len(axes.shape)) if axes.shape is not None else None
        if name == "size":
            return self.shape(tensor) if first is None and at is None else self.extent(axes, at) if at is not None else None
        if name == "stride":
            if first is None and at is None:
                return self.strides(tensor)
            return self.stride(tensor, at) if at is not None else None
        if name == "element_size":
            return self.element_size(tensor)
        if name in ("is_contiguous",):
            return "True" if tensor.strides is None else "False"
        if name in NEW:
            shape = first if isinstance(first, (Items, Shape)) else Items(list(positional))
            return self.made(f"{axes.name}_{name}", shape, self.type_of(by_name.get("dtype"), tensor.dtype, node), node)
        if name in ("transpose", "t", "permute", "mT", "movedim", "swapaxes"):
            return self.turned(tensor, name, positional, node)
        if name in ("expand", "expand_as", "broadcast_to"):
            return self.expanded(tensor, name, positional, node)
        if tensor.strides is not None and name in RESHAPING:
            tensor = dataclasses.replace(tensor, memory=None, strides=None, why=self.own_strides(node))
        if name in ("view", "reshape", "flatten", "unsqueeze", "squeeze", "ravel"):
            return self.reshaped(tensor, name, positional, at, node)
        if name in ("chunk", "split", "tensor_split"):
            return self.chunks(tensor, name, positional, by_name, node)
        return None

    def own_strides(self, node):
        return f"'{self.shown(node)}' {OWN_STRIDES}: make it contiguous, or say how it lies"

    @staticmethod
    def copied(tensor):
        """New memory: axes in another order stay so, a part or an expanded tensor is contiguous then."""
        if tensor.strides is not None and "0" not in tensor.strides:
            return tensor
        return dataclasses.replace(tensor, memory=None, strides=None)

    def expanded(self, tensor, name, positional, node):
        """Axes of one element have any size then, and a stride of zero."""
        given = positional[0] if len(positional) == 1 and not isinstance(positional[0], str) else Items(list(positional))
        given = self.shape(given) if isinstance(given, Tensor) else given
        axes, sizes = tensor.axes, getattr(given, "items", [])
        strides = self.strides(tensor)
        more = len(sizes) - len(axes.shape or ())
        if strides is None or not sizes or more < 0 or not all(isinstance(size, str) for size in sizes):
            return Tensor(Axes(axes.name), tensor.dtype, why=self.own_strides(node))
        shape, known = list(sizes), ["0"] * more + strides.items
        why = tensor.why
        for index, old in enumerate(axes.shape, more):
            if sizes[index] in ("-1", old):
                shape[index] = old
            elif old == "1":
                known[index] = "0"
            else:  # it is one, or it is this size already
                why = why or self.own_strides(node)
                known[index] = Unknown(why, getattr(node, "lineno", 0))
        return dataclasses.replace(tensor, axes=Axes(axes.name, shape), memory=tensor.memory or axes, strides=known, why=why)

    def shape(self, tensor):
        axes = tensor.axes
        return Items(list(axes.shape)) if axes.shape is not None else Shape(axes)

    def strides(self, tensor):
        if tensor.axes.shape is None:
            return None
        return Items([self.stride(tensor, index) for index in range(len(tensor.axes.shape))])

    def element_size(self, tensor):
        dtype = tensor.dtype.spec()
        return str(BYTES.get(dtype, 1)) if dtype in TORCH_SPEC else "dtype_bytes" if dtype == "dtype" else None

    def turned(self, tensor, name, positional, node):
        """The same memory, with its axes and their strides in another order."""
        axes = tensor.axes
        if axes.shape is None and name in ("t", "mT"):
            self.set_rank(axes, 2)
        if axes.shape is None:
            return Tensor(Axes(axes.name), tensor.dtype, why=self.own_strides(node))
        order = list(range(len(axes.shape)))
        if len(order) < 2:
            return tensor
        numbers = [whole(p) for p in (positional[0].items if positional and isinstance(positional[0], Items)
                                      else positional)]
        if None in numbers:
            return None
        if name in ("t", "mT"):
            order[-1], order[-2] = order[-2], order[-1]
        elif name in ("transpose", "swapaxes") and len(numbers) == 2:
            a, b = (number % len(order) for number in numbers)
            order[a], order[b] = order[b], order[a]
        elif name == "permute" and sorted(n % len(order) for n in numbers) == order:
            order = [n % len(order) for n in numbers]
        else:
            return None
        strides = self.strides(tensor).items
        return dataclasses.replace(tensor, axes=Axes(axes.name, [axes.shape[i] for i in order]), memory=tensor.memory or axes,
                                   strides=[strides[i] for i in order])

    def reshaped(self, tensor, name, positional, at, node):
        axes = tensor.axes
        if name in ("unsqueeze", "squeeze"):
            if axes.shape is None or (name == "unsqueeze" and at is None):
                return dataclasses.replace(tensor, why=tensor.why or "its shape is not in the script")
            shape = list(axes.shape)
            if name == "unsqueeze":
                shape.insert(at % (len(shape) + 1), "1")
            else:
                shape = [extent for i, extent in enumerate(shape) if extent != "1" or (at is not None and i != at % len(shape))]
            return dataclasses.replace(tensor, axes=Axes(axes.name, shape or ["1"]))
        if name == "ravel" or (name == "flatten" and not positional):
            return Tensor(Axes(axes.name, [self.count(axes)]), tensor.dtype, why=tensor.why)
        if name == "flatten":
            ends = [whole(p) for p in positional] + [-1]
            if axes.shape is None or None in ends[:2]:
                return None
            begin, end = ends[0] % len(axes.shape), ends[1] % len(axes.shape)
            shape = [*axes.shape[:begin], product(axes.shape[begin:end + 1]), *axes.shape[end + 1:]]
            return Tensor(Axes(axes.name, shape), tensor.dtype, why=tensor.why)
        first = positional[0] if positional else None
        sizes = first if isinstance(first, (Items, Shape)) and len(positional) == 1 else Items(list(positional))
        if isinstance(sizes, Shape) or not all(isinstance(size, str) for size in sizes.items):
            if isinstance(sizes, Shape) and sizes.is_whole():
                return Tensor(sizes.axes, tensor.dtype, why=tensor.why)
            if isinstance(first, Type):  # other elements in the same memory
                return Tensor(axes, first, why=f"'{self.shown(node)}' has other elements in the same memory")
            return None
        shape = list(sizes.items)
        if "-1" in shape:
            index = shape.index("-1")
            shape[index] = self.remaining(axes, shape[:index], shape[index + 1:])
        return Tensor(Axes(axes.name, shape), tensor.dtype, why=tensor.why)

    def remaining(self, axes, before, behind):
        """What -1 stands for."""
        if axes.shape is not None:
            known = list(axes.shape)
            if before and known[:len(before)] == before:
                known, before = known[len(before):], []
            if behind and known[len(known) - len(behind):] == behind:
                known, behind = known[:len(known) - len(behind)], []
            others = before + behind
            return product(known) if not others else f"{factor(product(known))} // {factor(product(others))}"
        if len(behind) == 1 and not before:
            if axes.flat is None:
                self.state.put(axes, "flat", [self.places.axis(f"{axes.name}_rows"), behind[0]])
                last = axes.seen.get(-1) if -1 in axes.read else None
                if last is not None and self.places.same(last, behind[0]):
                    self.places.call(last, f"{axes.name}_columns")
                return axes.flat[0]
            if self.places.inserted(axes.flat[1]) == self.places.inserted(behind[0]):
                return axes.flat[0]
        others = product(before + behind)
        return self.count(axes) if others == "1" else f"{factor(self.count(axes))} // {factor(others)}"

    def chunks(self, tensor, name, positional, by_name, node):
        """Parts of one axis: each in memory of the whole, so that its strides are right."""
        number = whole(positional[0]) if positional else None
        at = positional[1] if len(positional) > 1 else by_name.get("dim", "0")
        at = whole(at)
        if number is None or at is None or name != "chunk" or not 1 <= number <= 16:
            return None
        axes = tensor.axes
        parts = []
        for index in range(number):
            if axes.shape is not None:
                shape = list(axes.shape)
                shape[at] = f"{factor(shape[at])} // {number}"
                part = Axes(f"{axes.name}_{index}", shape)
            else:
                part = Axes(f"{axes.name}_{index}")
                part.seen[at] = f"{factor(self.extent(axes, at))} // {number}"
                part.whole = (axes, at, number)
            parts.append(Tensor(part, tensor.dtype, why=tensor.why, memory=axes,
                                note=f"a part of {axes.name}, in a buffer of the whole one's shape"))
        return Items(parts)


TORCH_SPEC = {"f16", "bf16", "f32", "f64", "i32", "i64", "i16", "i8", "u8", "u16", "u32", "u64", "bool", "e4m3"}
