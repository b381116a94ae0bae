# SPDX-License-Identifier: Apache-2.0
"""From the arrays of a call to its plan: what is launched for arrays of these shapes and dtypes on this device.

`Planner` asks the snapshot which record answers, takes its artifact if that was compiled for these very sizes from
today's source, loads it, and keeps the launch in a table. Where there is nothing to launch, the plan is None, and a note
says why: TunedKernel (_callable.py) then runs the fallback. The notes are the only thing that a caller sees of it.
"""
from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import _arrays, _client, _fold, _scalars, _strides, _workload
from ._answer import Answer
from ._artifact import Artifact, ArtifactError
from ._inputs import Inputs
from ._kernel import HOST, ExpressionError, Kernel, Problem
from ._launch import Launch, as_result, load

if TYPE_CHECKING:
    from ._backward import Backward
    from ._definition import Kernel as Definition

_PLANS_MAX = 4096
DETERMINISTIC = "deterministic"  # a dim whose form 1 gives the same bits each time

_UNSOUGHT = object()
facts_of = operator.attrgetter("shape", "dtype", "device")


class Untuned(Exception):
    """Why a call runs the fallback. `is_final`: another call of this shape would, too."""

    def __init__(self, why: str, is_final: bool = True) -> None:
        super().__init__(why)
        self.is_final = is_final


class FoldedLaunch:
    """The plan of arrays with more axes than the kernel's args: calls the kernel with fewer, and gives the results theirs.

    kernel  the TunedKernel
    dims    that calls of it give
    folded  the shapes that it takes
    args    of the arrays, inputs first
    launch  of the inputs: the outputs; False: as `call`

    Its gradient is that of the views and of the call between them.
    """

    def __init__(self, kernel: Any, dims: Mapping[str, int], folded: _fold.Folded, args: Sequence[Mapping[str, Any]],
                 inputs: Sequence[tuple[int, ...]], outputs: Sequence[tuple[int, ...]],
                 of_outputs: Sequence[tuple[int, ...]]) -> None:
        self._kernel, self._dims, self.folded = kernel, dims, folded
        self.launch, self._views_plan = self._launch_views, None
        self._is_strided = [bool(arg.get("strided")) for arg in args]
        self.shapes = [shape if shape != given else None for given, shape in zip(inputs, folded.inputs)]
        self._outputs = [shape if shape != given else None for given, shape in zip(outputs, of_outputs)]

    def _launch_views(self, *inputs: Any) -> Any:
        """The first launch, after which others are short ones."""
        results = self.call(inputs, (), None, self._dims)
        self.launch = self.short({}, otherwise=lambda *inputs: self.call(inputs, (), None, self._dims)) or self.launch
        return results

    def into(self, *arrays: Any) -> Any:
        count = len(self.shapes)
        return self.call(arrays[:count], arrays[count:], None, self._dims)

    def short(self, blanks: Mapping[int, Any], results: Optional[Sequence[int]] = None,
              otherwise: Optional[Callable[..., Any]] = None) -> Optional[Callable[..., Any]]:
        """As Launch.short, of the arrays with more axes: memory in one piece has no axes. None: nothing of the views has
        been launched yet."""
        plan = self._views_plan
        if not isinstance(plan, Launch):
            return None
        shapes = [(*self.folded.lead, *shape[1:]) if is_folded else shape
                  for (shape, _), is_folded in zip(plan.outputs, self.folded.outputs)]
        return plan.short(blanks, results, shapes, otherwise)

    def call(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], scalars: Optional[Mapping[str, float]],
             dims: Mapping[str, int]) -> Any:
        """False: an array has no view of fewer axes that the kernel takes."""
        count = len(inputs)
        given, into = [[one if shape is None else _flattened(one, shape, is_strided)
                        for one, shape, is_strided in zip(*part)]
                       for part in ((inputs, self.shapes, self._is_strided),
                                    (outputs, self._outputs, self._is_strided[count:]))]
        if any(one is None for one in given) or any(one is None for one in into):
            return False
        results = self._kernel.all_outputs(tuple(given), tuple(into), scalars, dims)
        if outputs:
            return as_result(outputs)
        if self._views_plan is None:
            self._views_plan = self._kernel.plan_of(tuple(given), (), self._dims)
        return _fold.unfold(results, self.folded.lead, self.folded.outputs)


def _flattened(array: Any, shape: tuple[int, ...], is_strided: bool) -> Any:
    """A view with other axes; None: the array has none, or one that is not contiguous and not to be strided."""
    if hasattr(array, "data_ptr") and array.is_contiguous():
        return array.reshape(shape)
    seen = _arrays.describe(array)
    has_view = seen.is_contiguous or is_strided and seen.strides is not None and _strides.folds(
        seen.shape, seen.strides, len(seen.shape) - len(shape))
    return _arrays.reshaped(array, shape) if has_view else None


class Planner:
    """What TunedKernel knows of its kernel. Thread-safe."""

    def __init__(self, name: str, fallback: Optional[Callable[..., Any]], gradient: Optional[Callable[..., Any]],
                 dims: Mapping[str, int], scalars: Mapping[str, float], definition: Optional[Definition] = None) -> None:
        self.name = name
        self.definition = definition  # the tunectl.Kernel that is meant, if one is
        self.fallback = fallback
        self.gradient = gradient
        self.dims = dict(dims)
        self.scalars = dict(scalars)
        self._plans: dict[Any, Any] = {}  # a Launch, a FoldedLaunch, or None: the fallback
        self._reasons: dict[Any, str] = {}  # of the plans that are None
        self._programs: dict[tuple[str, str], Any] = {}
        self._results: dict[Any, Optional[list[tuple[tuple[int, ...], str]]]] = {}
        self._foldings: dict[Any, _fold.Folding] = {}
        self._notes: list[str] = []
        self._lock = threading.RLock()
        self._client: Optional[_client.Client] = None
        self._backward: Any = _UNSOUGHT
        self._has_determinism: Optional[bool] = None
        self._taken: Optional[Inputs] = None
        self._told = False  # which scalars are the spec's

    def client(self) -> _client.Client:
        """What was open when the first call came."""
        if self._client is None:
            self._client = _client.current()
        return self._client

    def _kernel(self) -> Optional[Kernel]:
        """What the snapshot says of it; None: it knows no such kernel."""
        return self.client()._kernel(self.name)

    def _inputs(self, kernel: Kernel) -> Inputs:
        """The kernel is the snapshot's."""
        if self._taken is None:
            self._taken = Inputs(kernel)
        return self._taken

    def _known(self) -> Kernel:
        """LookupError: no snapshot describes it."""
        kernel = self._kernel()
        if kernel is None or not kernel.args:
            raise LookupError(f"no snapshot describes {self.name}: {self._why_unknown()}")
        return kernel

    def _why_unknown(self) -> str:
        """An older snapshot may lack a kernel that is spelled right, so that an unknown name is no error."""
        client = self.client()
        return client.best(self.name).reason + client.did_you_mean(self.name)

    def can_be_deterministic(self) -> bool:
        """Whether a dim of it asks for the same bits each time."""
        if self._has_determinism is None:
            kernel = self._kernel()
            self._has_determinism = kernel is not None and DETERMINISTIC in kernel.dims
        return self._has_determinism

    def backward(self) -> Optional[Backward]:
        """What differentiates it, where no gradient= was given; None: no kernel of the snapshot does."""
        with self._lock:
            if self._backward is _UNSOUGHT:
                from . import _backward

                self._backward = _backward.find(self)  # type: ignore[arg-type]
            return self._backward  # type: ignore[no-any-return]

    def _note(self, why: str) -> None:
        """Says each reason once."""
        with self._lock:
            if why in self._notes or len(self._notes) >= 100:
                return
            self._notes.append(why)
        import logging

        logging.getLogger("tunectl").warning("%s runs its fallback: %s", self.name, why)

    def _tell_scalars(self, program: Any, scalars: Sequence[str], modes: Mapping[str, int]) -> None:
        """Once: which floats of a launch are the spec's, since the call leaves them out."""
        unread = {*_scalars.unread(self.name, modes), *_scalars.measured(self.name)}  # calls give the latter
        left = {name: value for name, value in program.scalars().items() if name not in scalars and name not in unread}
        if self._told or not left or self.fallback is None:
            return
        self._told = True
        import logging

        logging.getLogger("tunectl").warning(
            "%s launches with the spec's %s where a call leaves it out: give scalars={...} if others are meant", self.name,
            ", ".join(f"{name}={value:.6g}" for name, value in left.items()))

    def plan_of(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], dims: Mapping[str, int]) -> Any:
        try:
            return self._plans[(*dims.items(), len(outputs), *map(facts_of, inputs + outputs))]
        except (AttributeError, KeyError, TypeError):
            return self._plan(inputs, outputs, dims)

    def known_plan(self, inputs: Sequence[Any]) -> Any:
        """Of tensors; None: the fallback, or no call has made one yet."""
        return self._plans.get((0, *map(facts_of, inputs)))

    def _plan(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...],
              dims: Mapping[str, int]) -> Any:
        """None: the fallback."""
        seen = [_arrays.describe(one) for one in inputs + outputs]
        kernel = self._kernel()
        if kernel is not None and kernel.args:
            self._inputs(kernel).check_told(inputs, {**self.dims, **dims})
        tensor = getattr(sys.modules.get("torch"), "Tensor", ())
        are_tensors = all(isinstance(one, tensor) for one in inputs + outputs)
        key = _plan_key(inputs, outputs, dims, seen, are_tensors)
        if key in self._plans:
            return self._plans[key]
        plan = None
        try:
            if self.fallback is not None and any(0 in one.shape for one in seen):
                raise Untuned("arrays without elements")
            plan = self._folded(seen, len(inputs), dims) or self._prepare(seen, len(inputs), dims, are_tensors)
        except Untuned as why:
            self._note(str(why))
            self._reasons[key] = str(why)
            if not why.is_final:
                return None
        with self._lock:
            if len(self._plans) >= _PLANS_MAX:
                self._plans.clear()
                self._reasons.clear()
            self._plans[key] = plan
        return plan

    def why_no_plan(self, inputs: tuple[Any, ...], outputs: tuple[Any, ...], dims: Mapping[str, int]) -> str:
        """Of arrays whose plan is None. `notes` has the reasons of all calls."""
        seen = [_arrays.describe(one) for one in inputs + outputs]
        return self._reasons.get(_plan_key(inputs, outputs, dims, seen, False), "")

    def folding(self, dtype: str, dims: Mapping[str, int]) -> Optional[_fold.Folding]:
        """How arrays of more axes than the kernel's are taken; None: no snapshot describes the kernel."""
        kernel = self._kernel()
        if kernel is None or not kernel.args:
            return None
        key = (dtype, *dims.items())
        if key not in self._foldings:
            modes = {name: value for name, value in {**kernel.optional, **self.dims, **dims}.items() if name in kernel.dims}
            self._foldings[key] = _fold.Folding(kernel, _workload.signature_of(kernel), modes, dtype, HOST)
        return self._foldings[key]

    def _folded(self, seen: Sequence[_arrays.Array], count: int, dims: Mapping[str, int]) -> Optional[FoldedLaunch]:
        """The plan of arrays that are to be folded; None: they have the kernel's axes. ValueError: it is not plain how."""
        kernel = self._kernel()
        if kernel is None:
            return None
        signature = _workload.signature_of(kernel)
        given = seen[:count]
        args = signature.inputs
        if count != len(args) or not any(len(one.shape) > len(arg["shape"]) for one, arg in zip(given, args)):
            return None
        dtype = next((one.dtype for arg, one in zip(args, given) if arg["dtype"] == "dtype"), "")
        folding = self.folding(dtype, dims)
        shapes = [one.shape for one in given]
        if folding is None or not folding.is_needed(list(map(len, shapes))):
            return None
        folded = folding.fold(shapes)
        outputs = [one.shape for one in seen[count:]]
        return FoldedLaunch(self, dims, folded, args + signature.outputs, shapes, outputs,
                            [folding.output_shape(shape, i, folded) for i, shape in enumerate(outputs)])

    def answer(self, seen: Sequence[_arrays.Array], count: int,
               dims: Mapping[str, int]) -> tuple[Answer, _workload.Signature]:
        """What the snapshot answers for a call: its first `count` arrays are inputs. Untuned."""
        client = self.client()
        kernel = self._kernel()
        if kernel is None:
            raise Untuned(self._why_unknown())
        signature = _workload.signature_of(kernel)
        if not kernel.args:
            raise Untuned("the snapshot is of a daemon that kept no artifacts")
        if count != len(signature.inputs) or len(seen) - count not in (0, len(signature.outputs)):
            raise ValueError(f"{_workload.usage(self.name, signature)} takes {len(signature.inputs)} "
                             f"array{'s' * (len(signature.inputs) != 1)}, and {len(signature.outputs)} as out=; got {count} and "
                             f"{len(seen) - count}")
        args = signature.inputs + signature.outputs
        own = self._own_dims(kernel, dims)
        dtype = _workload.dtype_of(kernel, args, seen)
        unused = self._inputs(kernel).unused(own, dtype)
        read = [(arg, one) for i, (arg, one) in enumerate(zip(args, seen)) if i not in unused]
        found: Any = _workload.dims_of(kernel, [arg for arg, _ in read], [one for _, one in read], own, dtype)
        for arg, one in zip(args, seen):
            if one.device != HOST and not one.device.startswith("cuda"):
                why = one.trouble if "without memory" in one.trouble else f"is on {one.device}, where no kernel runs"
                raise Untuned(f"{arg['name']} {why}")
        try:
            answer = client.best(self.name, dtype=dtype or None, device=seen[0].device, **found)
        except ValueError as error:  # a dtype or a size that the kernel is not written for
            raise Untuned(str(error)) from None
        return answer, signature

    def fitted(self, inputs: tuple[Any, ...], dims: Mapping[str, int]) -> tuple[Any, ...]:
        """Tensors, with contiguous copies of those that the kernel does not take as they lie."""
        if all([one.is_contiguous() for one in inputs]):
            return inputs
        plan = self.plan_of(inputs, (), dims)
        if isinstance(plan, Launch):
            return tuple(plan.fitted(inputs))
        return tuple([one.contiguous() for one in inputs])

    def _own_dims(self, kernel: Kernel, dims: Mapping[str, int]) -> dict[str, int]:
        """The given dims without those that only the backward kernel has. ValueError: neither has one."""
        given = {**kernel.optional, **self.dims, **dims}
        foreign = [name for name in given if name not in kernel.dims]
        if foreign:
            backward = self.backward()
            for name in foreign:
                if backward is None or not backward.has_dim(name):
                    raise ValueError(f"kernel '{self.name}' has no dim '{name}'; its dims are {', '.join(kernel.dims)}")
                del given[name]
        return given

    def _prepare(self, seen: Sequence[_arrays.Array], count: int, dims: Mapping[str, int],
                 are_tensors: bool) -> Launch:
        answer, signature = self.answer(seen, count, dims)
        devices = {one.device for one in seen}
        if len(devices) > 1:
            raise Untuned(f"its arrays are on {', '.join(sorted(devices))}")
        kernel, target = self._kernel(), answer.target
        assert kernel is not None
        if self.definition is not None and self.definition.differs_from(kernel.hash):
            raise Untuned(f"the snapshot has another source of {self.name} than this tunectl.Kernel: sweep it, then call "
                          f"tunectl.open() and tunectl.kernel()")
        if target == HOST and seen[0].device != HOST:
            raise Untuned(f"its arrays are on {seen[0].device}, and the record is of a CPU")
        args = signature.inputs + signature.outputs
        dtypes, shapes, outputs = _read_args(kernel, signature, seen, answer)
        program = self._program(answer, kernel, dtypes, seen[0].device, target == HOST)
        self._tell_scalars(program, tuple(self.scalars), answer.dims)
        if self.scalars:
            program = program.for_floats(self.scalars)
        strided = None
        if any(arg.get("strided") for arg in args):
            problem = Problem(answer.dims, answer.dtype)
            strided = _strides.Strided(kernel, problem, target, args, shapes, list(dtypes.values()))
        return Launch(program, outputs, seen[:count], are_tensors, args, strided)

    def results_of(self, inputs: Sequence[Any], dims: Mapping[str, int]) -> Optional[list[tuple[tuple[int, ...], str]]]:
        """Shape and dtype of each output of a call; None: the kernel is unknown, or not written for such inputs."""
        try:
            key: Any = (*dims.items(), *map(facts_of, inputs))
            hash(key)
        except (AttributeError, TypeError):
            key = (*dims.items(), *[_arrays.describe(one)[:3] for one in inputs])
        if key not in self._results:
            found = self._find_results([_arrays.describe(one) for one in inputs], dims)
            with self._lock:
                if len(self._results) >= _PLANS_MAX:
                    self._results.clear()
                self._results[key] = found
            return found
        return self._results[key]

    def _find_results(self, seen: Sequence[_arrays.Array],
                      dims: Mapping[str, int]) -> Optional[list[tuple[tuple[int, ...], str]]]:
        kernel = self._kernel()
        if kernel is None or any(0 in one.shape for one in seen):
            return None
        try:
            folded = self._folded(seen, len(seen), dims)
            if folded is not None:
                seen = [one._replace(shape=shape) for one, shape in zip(seen, folded.folded.inputs)]
            answer, signature = self.answer(seen, len(seen), dims)
            *_, outputs = _read_args(kernel, signature, seen, answer)
        except Untuned:
            return None
        if folded is None:
            return outputs
        return [((*folded.folded.lead, *shape[1:]) if is_folded else shape, dtype)
                for (shape, dtype), is_folded in zip(outputs, folded.folded.outputs)]

    def _program(self, answer: Answer, kernel: Kernel, buffers: Mapping[str, str], device: str, on_host: bool) -> Any:
        """What is launched for an answer, loaded once. Only what was compiled for these very sizes, from the kernel's
        source of this snapshot; on the CPU device also what was tuned on another processor, where this one has its
        instructions."""
        if answer.match != "exact" and not (on_host and answer.match == "other_device"):
            raise Untuned(f"there is no binary for {_sizes(answer)}: {answer.reason}")
        if not answer.artifact:
            raise Untuned(f"no artifact of {_sizes(answer)} is kept: sweep it again")
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
                if facts["kernel_hash"] != kernel.hash:
                    raise ArtifactError("it was compiled from another source of the kernel: sweep it again")
                if on_host:
                    _check_processor(artifact, answer)
                program = load(artifact, buffers, device, on_host)
            except ArtifactError as error:
                raise Untuned(f"the artifact for {_sizes(answer)} cannot be used: {error}") from None
            self._programs[(answer.artifact, device)] = program
            return program


def _plan_key(inputs: tuple[Any, ...], outputs: tuple[Any, ...], dims: Mapping[str, int], seen: Sequence[_arrays.Array],
              are_tensors: bool) -> Any:
    try:
        key: Any = (*dims.items(), len(outputs), *map(facts_of, inputs + outputs))
        hash(key)
    except (AttributeError, TypeError):
        key = (*dims.items(), len(outputs), are_tensors, *[one[:3] for one in seen])
    return key


def _read_args(kernel: Kernel, signature: _workload.Signature, seen: Sequence[_arrays.Array],
               answer: Answer) -> tuple[dict[str, str], list[tuple[int, ...]], list[tuple[tuple[int, ...], str]]]:
    """Dtype and shape of each arg, and both of each output. Untuned: the kernel does not take these arrays."""
    args, target = signature.inputs + signature.outputs, answer.target
    try:
        for arg, array in zip(args, seen):
            why = _workload.why_not_taken(kernel, arg, array, answer, target, has_outputs=len(seen) > len(signature.inputs))
            if why:
                raise Untuned(why)
        problem = Problem(answer.dims, answer.dtype)
        dtypes = {arg["name"]: kernel.dtype(arg, problem, target) for arg in args}
        shapes = [kernel.shape(arg, problem, target) for arg in args]
        return dtypes, shapes, list(zip(shapes, dtypes.values()))[len(signature.inputs):]
    except ExpressionError as error:
        raise Untuned(f"the spec's shapes cannot be read here: {error}") from None


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
        raise Untuned("its first call with these sizes came while a CUDA graph was being captured: "
                       "call it once before", is_final=False)
