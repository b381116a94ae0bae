# SPDX-License-Identifier: Apache-2.0
"""tunectl.kernel: a tuned binary as a function of arrays.

The first call with a shape looks the workload up, finds its artifact and prepares its launch: a plan.
Further calls with that shape take the plan out of a table. Where there is none to launch, the plan is
to run the fallback.
"""
from __future__ import annotations

import itertools
import operator
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import _arrays, _client, _unrolled, _workload
from ._answer import Answer
from ._artifact import Artifact, ArtifactError
from ._expression import ExpressionError
from ._kernel import Problem

if TYPE_CHECKING:
    from ._backward import Backward

_PLANS_MAX = 4096

_UNSOUGHT = object()
_facts = operator.attrgetter("shape", "dtype", "device")
_UNALIGNED = "arrays that are not contiguous, without memory, of another byte order, or on a GPU not aligned to 16 bytes"
Gradient = Callable[[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]], Sequence[Any]]


def _is_compiling() -> bool:
    """Whether torch.compile follows a call; torch's own function once torch is there."""
    return False


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    return function(*arguments)


_eagerly = _run  # what torch.compile does not follow, but calls between two graphs


def _notice_torch() -> None:
    global _is_compiling, _eagerly
    compiler: Any = getattr(sys.modules.get("torch"), "compiler", None)  # none while torch is being imported, or an old one
    _is_compiling = getattr(compiler, "is_dynamo_compiling", _is_compiling)
    if _eagerly is _run and hasattr(compiler, "disable"):
        _eagerly = compiler.disable(_run)


class _Untuned(Exception):
    """Why a call runs the fallback. `is_final`: another call of this shape would, too."""

    def __init__(self, why: str, is_final: bool = True) -> None:
        super().__init__(why)
        self.is_final = is_final


class _Launch:
    """A loaded program, for arrays of one shape, dtype and device.

    outputs  shape and dtype of each
    launch   of the inputs: the new outputs, as None, one, or a tuple; False: the arrays do not lie as the kernel needs
    into     of the inputs and the outputs: the same
    """

    def __init__(self, program: Any, outputs: Sequence[tuple[tuple[int, ...], str]], inputs: Sequence[_arrays.Array],
                 are_tensors: bool, args: Sequence[Mapping[str, Any]]) -> None:
        self.outputs = outputs
        self.program = program
        self._made_of = (outputs, inputs, are_tensors, args)
        self._for_scalars: Optional[_Launch] = None
        self._names = [arg["name"] for arg in args]
        facts = [*[(one.shape, one.dtype) for one in inputs], *outputs]
        self._sizes = [_arrays.bytes_of(shape, dtype) for shape, dtype in facts]
        changed = [i for i, arg in enumerate(args) if arg.get("role") == "inout"]
        self._written = [*changed, *range(len(inputs), len(args))]
        if are_tensors:
            makers = [_arrays.maker(shape, dtype, inputs[0].device) for shape, dtype in outputs]
            bump = _bumper()
            self.launch = _unrolled.launch(program, len(inputs), makers, changed, bump)
            self.into = _unrolled.launch_into(program, self._sizes, len(outputs), changed, bump, self._refuse_overlap)
        else:
            self.launch, self.into = self._launch_any, self._launch_any_into

    def for_scalars(self) -> _Launch:
        """The same for calls that set scalars. What an interrupted one leaves behind no other call sees."""
        if self._for_scalars is None:
            self._for_scalars = _Launch(self.program.for_scalars(), *self._made_of)
        return self._for_scalars

    def _launch_any(self, *inputs: Any) -> Any:
        return self.into(*inputs, *[_arrays.empty(inputs[0], shape, dtype) for shape, dtype in self.outputs])

    def _launch_any_into(self, *arrays: Any) -> Any:
        program = self.program
        if program.device_now() != program.device:
            with program.made_current():
                return self.into(*arrays)
        first_output = len(arrays) - len(self.outputs)
        seen = [_arrays.describe(array) for array in arrays]
        if not all(one.is_contiguous and one.address and one.address % program.alignment == 0 for one in seen):
            return False
        for at in self._written:
            if not seen[at].is_writable:
                raise ValueError(f"the kernel writes to '{self._names[at]}', which is read-only: give a writable array")
        for at in range(first_output, len(seen)):
            for other in range(at):
                if (seen[at].address < seen[other].address + self._sizes[other]
                        and seen[other].address < seen[at].address + self._sizes[at]):
                    self._refuse_overlap(at, other)
        program.launch([one.address for one in seen], arrays[0])
        return _as_result(arrays[first_output:])

    def _refuse_overlap(self, at: int, other: int) -> None:
        raise ValueError(f"'{self._names[at]}' lies where '{self._names[other]}' does: give another as out=")


def _bumper() -> Callable[[Any], None]:
    """What tells autograd that a tensor was written to: what it has kept of it is no more."""
    increment = getattr(sys.modules["torch"].autograd.graph, "increment_version", None)
    if increment is None:  # an old torch
        return lambda tensor: None

    def bump(tensor: Any) -> None:
        if not tensor.is_inference():  # those have no version
            increment(tensor)
    return bump


def _load(artifact: Artifact, buffers: Mapping[str, str], device: str, on_host: bool) -> Any:
    if on_host:
        from ._launch_cpu import CpuProgram

        return CpuProgram(artifact, buffers)
    from ._launch_cuda import CudaProgram

    return CudaProgram(artifact, buffers, int(device.rpartition(":")[2] or 0))


class TunedKernel:
    """See tunectl.kernel. Thread-safe."""

    def __init__(self, name: str, fallback: Optional[Callable[..., Any]],
                 gradient: Optional[Gradient], dims: Mapping[str, int],
                 scalars: Optional[Mapping[str, float]] = None) -> None:
        self.name = name
        self.fallback = fallback
        self.gradient = gradient
        self.dims = dict(dims)
        if not isinstance(scalars, (Mapping, type(None))):
            raise TypeError(f"scalars= is a mapping, such as {{'rate': 1e-3}}, not {scalars!r}")
        self.scalars = dict(scalars or {})
        self._plans: dict[Any, Optional[_Launch]] = {}
        self._programs: dict[tuple[str, str], Any] = {}
        self._notes: list[str] = []
        self._lock = threading.Lock()
        self._client: Optional[_client.Client] = None
        self._ops: dict[Any, Any] = {}
        self._forms = types.SimpleNamespace()  # by dims: what a compiler has in its graph for a call
        self._backward: Any = _UNSOUGHT
        self._place = str(next(_numbers))  # a text: a compiler may take a number for one that varies
        _kernels[self._place] = self
        _notice_torch()

    def __reduce__(self) -> tuple[Any, ...]:
        """As it was made: a copy, in a module that is copied or saved, looks up and loads by itself."""
        return TunedKernel, (self.name, self.fallback, self.gradient, self.dims, self.scalars)

    def __repr__(self) -> str:
        dims = "".join(f", {name}={value}" for name, value in self.dims.items())
        return f"<tunectl.kernel {self.name}{dims}; {len(self._notes)} notes>"

    @property
    def notes(self) -> tuple[str, ...]:
        """Why calls ran the fallback, a sentence each; empty: all launched what was tuned."""
        return tuple(self._notes)

    def __call__(self, *inputs: Any, out: Any = None, scalars: Optional[Mapping[str, float]] = None,
                 **dims: int) -> Any:
        """Launches on the inputs, in the spec's order, and returns the outputs: None, one, or a tuple.

        out      arrays to write to, one or a sequence; by default new ones
        scalars  of this call, beside those of tunectl.kernel
        dims     those that neither shapes nor tunectl.kernel tell

        ValueError: shapes that contradict each other, a dim that nothing tells, outputs that overlap
        inputs, an array that the kernel writes to and that is read-only, or a scalar that is none of the
        kernel's. On a GPU it returns at once, as frameworks do: the launch is on the current stream.
        """
        outputs = () if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if scalars or self.scalars:
            given = {**self.scalars, **(scalars or {})}
            return (_eagerly if _is_compiling() else _run)(self._call_with, given, inputs, outputs, dims)
        if _is_compiling():
            form = _know_form(self._place, tuple([(name, operator.index(value)) for name, value in dims.items()]))
            return _given(getattr(self._forms, form)(*inputs), outputs)
        try:
            plan = self._plans[(*dims.items(), len(outputs), *map(_facts, inputs + outputs))]
        except (AttributeError, KeyError, TypeError):
            plan = self._plan(inputs, outputs, dims)
        if plan is not None:
            if self._wants_gradient(inputs):
                return self._differentiable(inputs, outputs, dims, plan)
            if outputs and self._wants_gradient(outputs):
                raise ValueError(f"{self.name}: a tensor that needs a gradient cannot be out=: leave out= out, or call "
                                 "under torch.no_grad()")
            results = plan.into(*inputs, *outputs) if outputs else plan.launch(*inputs)
            if results is not False:
                return results
            self._note(_UNALIGNED)
        return self._fall_back(inputs, outputs)

    def _call_with(self, scalars: Mapping[str, Any], inputs: tuple[Any, ...], outputs: tuple[Any, ...],
                   dims: Mapping[str, int]) -> Any:
        """A call whose scalars are not those that the spec has."""
        values = self._scalar_values(scalars)
        try:
            plan = self._plans[(*dims.items(), len(outputs), *map(_facts, inputs + outputs))]
        except (AttributeError, KeyError, TypeError):
            plan = self._plan(inputs, outputs, dims)
        if plan is not None and self._wants_gradient((*inputs, *outputs)):
            if self.gradient is not None:
                raise ValueError(f"{self.name}: gradient= does not know the scalars of a call: leave scalars= out, or "
                                 "call under torch.no_grad()")
            self._note("arrays that need gradients, and scalars=")
        elif plan is not None:
            plan = plan.for_scalars()
            plan.program.set_scalars(values)
            results = plan.into(*inputs, *outputs) if outputs else plan.launch(*inputs)
            if results is not False:
                return results
            self._note(_UNALIGNED)
        return self._fall_back(inputs, outputs, scalars)

    def _scalar_values(self, scalars: Mapping[str, Any]) -> dict[str, float]:
        """ValueError: names that the kernel's spec does not have, as far as a snapshot tells, or no numbers."""
        snapshot = self.client()._snapshot
        kernel = snapshot.kernel(self.name) if snapshot is not None else None
        known = [arg["name"] for arg in kernel.args if arg["kind"] == "scalar"] if kernel is not None else None
        values = {}
        for name, value in scalars.items():
            if known is not None and name not in known:
                raise ValueError(f"{self.name}: '{name}' is no scalar that a call can set; its scalars are "
                                 f"{', '.join(known) or 'none'}")
            try:
                if isinstance(value, (str, bytes, bool)):
                    raise TypeError
                values[name] = float(value)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(f"{self.name}: {name}={value!r} is no number that a float holds") from None
        return values

    def without_gradient(self, inputs: tuple[Any, ...], dims: Mapping[str, int]) -> Any:
        """The outputs, which nothing is recorded of: what an operator of torch.library runs."""
        try:
            plan = self._plans[(*dims.items(), 0, *map(_facts, inputs))]
        except (AttributeError, KeyError, TypeError):
            plan = self._plan(inputs, (), dims)
        if plan is not None:
            results = plan.launch(*inputs)
            if results is not False:
                return results
            self._note(_UNALIGNED)
        with sys.modules["torch"].no_grad():
            return self._fall_back(inputs, ())

    @staticmethod
    def _wants_gradient(inputs: Sequence[Any]) -> bool:
        for one in inputs:
            if getattr(one, "requires_grad", False):
                return bool(sys.modules["torch"].is_grad_enabled()) if "torch" in sys.modules else False
        return False

    def _differentiable(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...],
                        dims: Mapping[str, int], plan: _Launch) -> Any:
        if outputs:
            self._note("inputs that need gradients, and out=")
            return self._fall_back(inputs, outputs)
        if self.gradient is None:
            backward = self.backward()
            if backward is None:
                self._note("inputs that need gradients, no gradient= was given, and the snapshot has no "
                           f"{self.name}_backward")
                return self._fall_back(inputs, outputs)
            if not backward.is_tuned(inputs, plan.outputs, dims):
                return self._fall_back(inputs, outputs)
        return self.op(**dims)(*inputs)

    def backward(self) -> Optional[Backward]:
        """What differentiates it, where no gradient= was given; None: no kernel of the snapshot does."""
        with self._lock:
            if self._backward is _UNSOUGHT:
                from . import _backward

                self._backward = _backward.find(self)
            return self._backward  # type: ignore[no-any-return]

    def op(self, **dims: int) -> Callable[..., Any]:
        """The kernel as a function that torch.compile takes as it is: an operator of torch.library,
        with the gradient if there is one. It takes torch tensors only, and makes the outputs.

        RuntimeError: torch is not imported. LookupError: no snapshot describes the kernel. ValueError: the
        kernel has scalars= of its own, or is given some: an operator has the spec's.
        """
        if self.scalars or "scalars" in dims:
            raise ValueError(f"{self.name}: an operator of torch.library has the spec's scalars: call the kernel itself")
        key = tuple(sorted(dims.items()))
        backward = self.backward() if self.gradient is None else None
        if backward is not None and backward.unknown_mode(dims):
            backward = None
        with self._lock:
            if key not in self._ops:
                from . import _torch_op

                self._ops[key] = _torch_op.make(self, backward, dims)
            return self._ops[key]  # type: ignore[no-any-return]

    def client(self) -> _client.Client:
        """What was open when the first call came."""
        if self._client is None:
            self._client = _client.current()
        return self._client

    def _fall_back(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...],
                   scalars: Mapping[str, float] = types.MappingProxyType({})) -> Any:
        if self.fallback is None:
            raise LookupError(f"{self.name} has nothing to launch and no fallback=: "
                              f"{'; '.join(self._notes)}")
        return _given(self.fallback(*inputs, **scalars), outputs)

    def _note(self, why: str) -> None:
        """Says each reason once."""
        with self._lock:
            if why in self._notes or len(self._notes) >= 100:
                return
            self._notes.append(why)
        import logging

        logging.getLogger("tunectl").warning("%s runs its fallback: %s", self.name, why)

    def _plan(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...],
              dims: Mapping[str, int]) -> Optional[_Launch]:
        """None: the fallback."""
        _notice_torch()
        seen = [_arrays.describe(one) for one in inputs + outputs]
        tensor = getattr(sys.modules.get("torch"), "Tensor", ())
        are_tensors = all(isinstance(one, tensor) for one in inputs + outputs)
        try:
            key: Any = (*dims.items(), len(outputs), *map(_facts, inputs + outputs))
            hash(key)
        except (AttributeError, TypeError):
            key = (*dims.items(), len(outputs), *[one[:3] for one in seen])
        if key in self._plans:
            return self._plans[key]
        plan = None
        try:
            if self.fallback is not None and any(0 in one.shape for one in seen):
                raise _Untuned("arrays without elements")
            plan = self._prepare(seen, len(inputs), dims, are_tensors)
        except _Untuned as why:
            self._note(str(why))
            if not why.is_final:
                return None
        with self._lock:
            if len(self._plans) >= _PLANS_MAX:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def answer(self, seen: Sequence[_arrays.Array], count: int,
               dims: Mapping[str, int]) -> tuple[Answer, _workload.Signature]:
        """What the snapshot answers for a call: its first `count` arrays are inputs. _Untuned."""
        client = self.client()
        snapshot = client._snapshot
        kernel = snapshot.kernel(self.name) if snapshot is not None else None
        if kernel is None:
            raise _Untuned(client.best(self.name).reason)
        signature = _workload.signature_of(kernel)
        if not kernel.args:
            raise _Untuned("the snapshot is of a daemon that kept no artifacts")
        if count != len(signature.inputs) or len(seen) - count not in (0, len(signature.outputs)):
            raise ValueError(f"{_workload.usage(self.name, signature)} takes {len(signature.inputs)} "
                             f"arrays, and {len(signature.outputs)} as out=; got {count} and "
                             f"{len(seen) - count}")
        args = signature.inputs + signature.outputs
        found: Any = _workload.dims_of(kernel, args, seen, {**self.dims, **dims})
        answer = client.best(self.name, dtype=_workload.dtype_of(kernel, args, seen) or None,
                             device=seen[0].device, **found)
        return answer, signature

    def _prepare(self, seen: Sequence[_arrays.Array], count: int, dims: Mapping[str, int],
                 are_tensors: bool) -> _Launch:
        answer, signature = self.answer(seen, count, dims)
        devices = {one.device for one in seen}
        if len(devices) > 1:
            raise ValueError(f"{self.name}: its arrays are on {', '.join(sorted(devices))}")
        snapshot = self.client()._snapshot
        assert snapshot is not None
        kernel = snapshot.kernel(self.name)
        assert kernel is not None
        target = snapshot.target(answer.target)
        if target.is_host and seen[0].device != snapshot.host_target:
            raise _Untuned(f"its arrays are on {seen[0].device}, and the record is of a CPU")
        args = signature.inputs + signature.outputs
        try:
            for arg, array in zip(args, seen):
                why = _workload.why_not_taken(kernel, arg, array, answer, target)
                if why:
                    raise _Untuned(why)
            problem = Problem(dict(answer.dims), answer.dtype)
            dtypes = {arg["name"]: kernel.dtype(arg, problem, target) for arg in args}
            outputs = [(kernel.shape(arg, problem, target), dtypes[arg["name"]])
                       for arg in signature.outputs]
        except ExpressionError as error:
            raise _Untuned(f"the spec's shapes cannot be read here: {error}") from None
        program = self._program(answer, dtypes, seen[0].device, target.is_host)
        return _Launch(program, outputs, seen[:count], are_tensors, args)

    def _program(self, answer: Answer, buffers: Mapping[str, str], device: str, on_host: bool) -> Any:
        """What is launched for an answer, loaded once. Only what was compiled for these very sizes; on
        the CPU device also what was tuned on another processor, where this one has its instructions."""
        if answer.match != "exact" and not (on_host and answer.match == "other_device"):
            raise _Untuned(f"there is no binary for {_sizes(answer)}: {answer.reason}")
        if not answer.artifact:
            raise _Untuned(f"no artifact of {_sizes(answer)} is kept: sweep it again")
        if not on_host:
            _refuse_while_capturing()
        with self._lock:
            loaded = self._programs.get((answer.artifact, device))
            if loaded is not None:
                return loaded
            try:
                artifact = self.client().artifact(answer.artifact)
                facts = artifact.facts
                if facts["dims"] != dict(answer.dims) or facts["dtype"] != answer.dtype or (
                        facts["target"] != answer.target):
                    raise ArtifactError(f"it was compiled for other sizes than {_sizes(answer)}")
                if on_host:
                    _check_processor(artifact, answer)
                program = _load(artifact, buffers, device, on_host)
            except ArtifactError as error:
                raise _Untuned(f"the artifact for {_sizes(answer)} cannot be used: {error}") from None
            self._programs[(answer.artifact, device)] = program
            return program


_kernels: weakref.WeakValueDictionary[str, TunedKernel] = weakref.WeakValueDictionary()
_numbers = itertools.count()


def _after_fork() -> None:
    """A lock that another thread of the parent's held is nobody's."""
    for kernel in _kernels.values():
        kernel._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _know_form(place: str, dims: tuple[tuple[str, int], ...]) -> str:
    """Makes the form for a graph of the kernel in that place, and names it. A compiler runs this and does not follow
    it. Forms are attributes: of a dict a compiler would see what it held at the first call of a graph."""
    kernel = _kernels[place]
    form = " ".join(["of", *[f"{name}={value}" for name, value in dims]])
    if not hasattr(kernel._forms, form):
        from . import _torch_op

        setattr(kernel._forms, form, _torch_op.in_graph(kernel, dict(dims)))
    return form


_know_form._dynamo_marked_constant = True  # type: ignore[attr-defined]  # by torch.compiler.assume_constant_result


def _given(results: Any, outputs: tuple[Any, ...]) -> Any:
    """The results, in the outputs where there are any."""
    if not outputs:
        return results
    made = results if isinstance(results, (tuple, list)) else (results,)
    for source, target in zip(made, outputs):
        _arrays.copy(source, target)
    return _as_result(outputs)


def _as_result(arrays: tuple[Any, ...]) -> Any:
    """None, one, or a tuple."""
    return arrays[0] if len(arrays) == 1 else arrays or None


def _sizes(answer: Answer) -> str:
    return " ".join(f"{name}={value}" for name, value in answer.dims.items()) + f" {answer.dtype}"


def _check_processor(artifact: Artifact, answer: Answer) -> None:
    """ArtifactError: it was compiled for a processor that has instructions which ours lacks."""
    from ._artifact import missing_features
    from ._device import processor_features

    if answer.match != "exact" and not artifact.facts.get("processor_features"):
        raise ArtifactError(f"it does not say which instructions of {artifact.facts['device']} it uses")
    missing = missing_features(artifact.facts, processor_features())
    if missing:
        raise ArtifactError(f"this processor lacks what {artifact.facts['device']} has and it may use: "
                            f"{', '.join(missing[:8])}")


def _refuse_while_capturing() -> None:
    """Nothing can be loaded while a CUDA graph is being captured."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_current_stream_capturing():
        raise _Untuned("its first call with these sizes came while a CUDA graph was being captured: "
                       "call it once before", is_final=False)
