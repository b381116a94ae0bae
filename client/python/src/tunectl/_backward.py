# SPDX-License-Identifier: Apache-2.0
"""The kernel that differentiates another, found by its name and its args.

Either the kernel has a dim `backward`, whose form 1 takes the gradients of the outputs in the place of
the first inputs and gives those inputs' gradients (rope). Or there is a kernel NAME_backward: its args
are called as the inputs and outputs of NAME, and the gradient of `y` is called `dy`.
"""
from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

from . import _arrays, _strides
from ._kernel import Kernel
from ._launch import Launch
from ._plan import DETERMINISTIC, Untuned
from ._scalars import names_of, unknown_to
from ._workload import Signature, signature_of

if TYPE_CHECKING:
    from ._callable import TunedKernel

_DIM = "backward"
# Which tensor an input of the backward kernel is: of the inputs, the outputs, their gradients.
_Place = tuple[str, int]


class Backward:
    """Works out gradients by a tuned kernel, or by the fallback's own where that cannot be launched."""

    def __init__(self, forward: TunedKernel, kernel: TunedKernel, places: Sequence[_Place],
                 results: Sequence[int], outputs: Sequence[str]) -> None:
        self.kernel = kernel
        self._forward = forward
        self.places = tuple(places)  # of each of its inputs: which tensor of the call it is
        self.results = tuple(results)  # of each of its outputs: the input whose gradient it is
        # Outputs that it takes no gradient of, such as a norm's statistics.
        taken = {i for what, i in places if what == "gradient"}
        self.not_differentiable = tuple(i for i in range(len(outputs)) if i not in taken)
        self.gives = frozenset(self.results)
        # Inputs whose elements are nothing to the gradients, as those of a function that is linear in them.
        self._reads_outputs = any(what == "output" for what, _ in places)
        read = {i for what, i in places if what == "input"}
        self.unread = () if self._reads_outputs else tuple(sorted(self.gives - read))
        self._known: dict[Any, str] = {}
        self._known_dims: dict[Any, dict[str, int]] = {}

    def has_dim(self, name: str) -> bool:
        """Whether the backward kernel has a dim of that name, such as `deterministic`."""
        return name in self._kernel().dims

    def unknown_mode(self, dims: Mapping[str, int]) -> str:
        """A dim of a call that is on and that the kernel does not have; empty: there is none."""
        known = self._kernel().dims
        modes = [name for name, value in {**self._forward.dims, **dims}.items() if value and name not in known]
        return modes[0] if modes else ""

    def unknown_scalars(self, scalars: Iterable[str]) -> list[str]:
        """Scalars of a call that the backward kernel would have to know."""
        return unknown_to(self._kernel(), self._forward.name, scalars)

    def why_not_tuned(self, inputs: Sequence[Any], outputs: Sequence[tuple[tuple[int, ...], str]],
                      dims: Mapping[str, int], scalars: Iterable[str] = ()) -> str:
        """Why it cannot be launched for these, or does not give all gradients that are wanted; empty: neither."""
        key = (*dims.items(), *scalars, self.is_deterministic(),
               *[(one.shape, one.dtype, one.device, one.requires_grad) for one in inputs])
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._why_not_given(inputs, dims, scalars) or self._why_no_launch(inputs, outputs, dims)
        return known

    def is_deterministic(self) -> bool:
        """Whether its results are to be the same bits each time."""
        torch: Any = sys.modules["torch"]
        return bool(torch.are_deterministic_algorithms_enabled()) and self.kernel.can_be_deterministic()

    def _why_not_given(self, inputs: Sequence[Any], dims: Mapping[str, int], scalars: Iterable[str]) -> str:
        mode, foreign = self.unknown_mode(dims), self.unknown_scalars(scalars)
        if mode:
            return f"inputs need gradients, and {self.kernel.name} knows no {mode}"
        if foreign:
            return f"inputs need gradients, and {self.kernel.name} has no scalar {foreign[0]}"
        if any(one.requires_grad and i not in self.gives for i, one in enumerate(inputs)):
            return f"an input needs a gradient that {self.kernel.name} does not give"
        return ""

    def _why_no_launch(self, inputs: Sequence[Any], outputs: Sequence[tuple[tuple[int, ...], str]],
                       dims: Mapping[str, int]) -> str:
        seen = [_arrays.describe(one) for one in inputs]
        made = [_arrays.Array(shape, dtype, seen[0].device, 0, True, True) for shape, dtype in outputs]
        of = {"input": seen, "output": made, "gradient": made}
        arrays = [of[what][i] for what, i in self.places]
        try:
            self.kernel._prepare(arrays, len(arrays), self._dims(arrays, dims), are_tensors=True)
        except Untuned as why:
            return f"inputs need gradients, and of {self.kernel.name} {why}"
        return ""

    def _kernel(self) -> Kernel:
        known = self.kernel.client()._kernel(self.kernel.name)
        assert known is not None
        return known

    def _dims(self, arrays: Sequence[Any], dims: Mapping[str, int]) -> dict[str, int]:
        """Those of the forward kernel that it has, too; those that nothing tells take the spec's
        defaults."""
        key = (arrays[0].device, self.is_deterministic(), *dims.items())
        if key not in self._known_dims:
            self._known_dims[key] = self._find_dims(str(arrays[0].device), dims)
        return self._known_dims[key]

    def _find_dims(self, device: str, dims: Mapping[str, int]) -> dict[str, int]:
        known = self._kernel()
        forward = self.kernel.client()._kernel(self._forward.name)
        modes = {**(forward.optional if forward is not None else {}), **self._forward.dims, **dims}
        given = {name: value for name, value in modes.items()
                 if name in known.dims and name != _DIM}
        told = {text for arg in known.args for text in arg.get("shape", ())}
        defaults = self.kernel.client().best(self.kernel.name, device=device).dims
        silent = {name: value for name, value in defaults.items() if name not in told}
        more = {DETERMINISTIC: 1} if self.is_deterministic() else {}
        return {**silent, **given, **self.kernel.dims, **more}

    def __call__(self, inputs: Sequence[Any], outputs: Sequence[Any], gradients: Sequence[Any],
                 dims: Mapping[str, int], scalars: Mapping[str, float]) -> tuple[Any, ...]:
        """A gradient for each input, None for those that it gives none of."""
        of = {"input": inputs, "output": outputs, "gradient": gradients}
        arrays = tuple(of[what][i] for what, i in self.places)
        why: Optional[LookupError] = None
        if all(one is not None for one in arrays) and (not self._reads_outputs or self._was_launched(inputs, dims)):
            try:
                made = self._launched(arrays, self._dims(arrays, dims), self._own_scalars(scalars))
                made = made if isinstance(made, tuple) else (made,)
                found: list[Any] = [None] * len(inputs)
                for i, gradient in zip(self.results, made):
                    found[i] = gradient
                return tuple(found)
            except LookupError as error:
                why = error  # of which the kernel has a note
        if self._forward.fallback is None:
            raise why or LookupError(f"{self._forward.name} has no fallback=, and {self.kernel.name} takes the gradients of "
                                     "all outputs, of which one has none")
        if any(one is None for one in inputs):
            raise RuntimeError(f"{self._forward.name}: its fallback's gradient needs an input that has been modified by an "
                               "inplace operation after the call")
        leaves = [one.detach().requires_grad_(i in self.gives) for i, one in enumerate(inputs)]
        return self._by_fallback(leaves, gradients, dims, scalars, [i in self.gives for i in range(len(inputs))], False)

    def _launched(self, arrays: tuple[Any, ...], dims: Mapping[str, int], scalars: Mapping[str, float]) -> Any:
        plan = self.kernel.plan_of(arrays, (), dims) if not scalars else None
        made = plan.launch(*arrays) if isinstance(plan, Launch) else False
        if made is False:  # or copies of them are launched
            return self.kernel.without_gradient(self.kernel.fitted(arrays, dims), dims, scalars)
        return made

    def plan_of(self, inputs: Sequence[Any], outputs: Sequence[Any], gradients: Sequence[Any], dims: Mapping[str, int],
                scalars: Mapping[str, float]) -> Optional[Launch]:
        """The launch that works out gradients of such arrays while `is_deterministic` is as it is now; None: there is
        none, or calls differ in theirs."""
        of = {"input": inputs, "output": outputs, "gradient": gradients}
        arrays = [of[what][i] for what, i in self.places]
        if self._own_scalars(scalars) or any([one is None for one in arrays]):
            return None
        plan = self.kernel.plan_of(tuple(arrays), (), self._dims(arrays, dims))
        return plan if isinstance(plan, Launch) else None

    def _was_launched(self, inputs: Sequence[Any], dims: Mapping[str, int]) -> bool:
        """Whether the forward kernel takes views as these are: else its fallback ran, which may leave outputs out."""
        if all([one is None or one.is_contiguous() for one in inputs]):
            return True
        if any(one is None for one in inputs):
            return False
        plan = self._forward.plan_of(tuple(inputs), (), dims)
        return isinstance(plan, Launch) and plan.takes(inputs)

    def strides(self, inputs: Sequence[Any], outputs: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
        """Of the gradient of each input, as a launch makes it; None: it is contiguous."""
        of = {"input": inputs, "output": outputs, "gradient": gradients}
        arrays = [of[what][i] for what, i in self.places]
        found: list[Any] = [None] * len(inputs)
        if all([one is not None for one in arrays]) and not all([one.is_contiguous() for one in arrays]):
            signature = signature_of(self._kernel())
            shapes = [inputs[i].shape for i in self.results]
            for i, steps in zip(self.results, _strides.of_outputs(signature, shapes, arrays)):
                found[i] = steps
        return found

    def differentiable(self, inputs: Sequence[Any], gradients: Sequence[Any], dims: Mapping[str, int],
                       scalars: Mapping[str, float], needs: Sequence[bool]) -> tuple[Any, ...]:
        """The fallback's gradient of the inputs that need one, as a function of the inputs and the gradients: with
        their tangents, and with a graph if gradients are recorded. The fallback is not None."""
        torch: Any = sys.modules["torch"]
        create_graph = torch.is_grad_enabled() and any(
            one is not None and one.requires_grad for one in (*inputs, *gradients))
        leaves = list(inputs)
        with torch.enable_grad(), _recorded(torch):
            for i in [i for i, is_needed in enumerate(needs) if is_needed]:
                leaves[i] = leaves[i].view_as(leaves[i])  # an input that is given twice has two gradients
                if not leaves[i].requires_grad:
                    leaves[i].requires_grad_()
        return self._by_fallback(leaves, gradients, dims, scalars, needs, create_graph)

    def _own_scalars(self, scalars: Mapping[str, float]) -> dict[str, float]:
        known = names_of(self._kernel()) if scalars else ()
        return {name: value for name, value in scalars.items() if name in (known or ())}

    def _by_fallback(self, leaves: Sequence[Any], gradients: Sequence[Any], dims: Mapping[str, int],
                     scalars: Mapping[str, float], needs: Sequence[bool], create_graph: bool) -> tuple[Any, ...]:
        torch: Any = sys.modules["torch"]
        wanted = [i for i, is_needed in enumerate(needs) if is_needed]
        found: list[Any] = [None] * len(leaves)
        with torch.enable_grad(), _recorded(torch):
            results = self._forward._run_fallback(leaves, scalars, dims)
            results = results if isinstance(results, (tuple, list)) else (results,)
            pairs = [(result, gradient) for result, gradient in zip(results, gradients)
                     if gradient is not None and result is not None and result.requires_grad]
            if not pairs or not wanted:
                return tuple(found)
            made = torch.autograd.grad([one for one, _ in pairs], [leaves[i] for i in wanted],
                                       [gradient for _, gradient in pairs], allow_unused=True, create_graph=create_graph)
        for i, gradient in zip(wanted, made):
            found[i] = gradient
        return tuple(found)


def _recorded(torch: Any) -> Any:
    """Has autograd record operations also within an operator, which runs below it. Autocast's keys are excluded while it
    is off, and stay so: otherwise operations would run in its default dtype."""
    kept = torch._C._after_autograd_keyset
    for name in dir(torch._C.DispatchKey):
        if name.startswith("Autocast"):
            kept = kept.add(getattr(torch._C.DispatchKey, name))
    excluded = torch._C._dispatch_tls_local_exclude_set() & kept
    return torch._C._ForceDispatchKeyGuard(torch._C._dispatch_tls_local_include_set(), excluded)


def _by_names(forward: Signature, backward: Signature) -> Optional[tuple[list[_Place], list[int]]]:
    """None: the args of the one are not called as those of the other."""
    inputs = [arg["name"] for arg in forward.inputs]
    outputs = [arg["name"] for arg in forward.outputs]
    places: list[_Place] = []
    for arg in backward.inputs:
        name = arg["name"]
        if name in inputs:
            places.append(("input", inputs.index(name)))
        elif name in outputs:
            places.append(("output", outputs.index(name)))
        elif name[:1] == "d" and name[1:] in outputs:
            places.append(("gradient", outputs.index(name[1:])))
        else:
            return None
    results = [arg["name"][1:] for arg in backward.outputs]
    if any(arg["name"][:1] != "d" for arg in backward.outputs) or not set(results) <= set(inputs):
        return None
    return places, [inputs.index(name) for name in results]


def find(forward: TunedKernel) -> Optional[Backward]:
    """None: no kernel of the snapshot differentiates it."""
    from ._callable import TunedKernel

    client = forward.client()
    known = client._kernel(forward.name)
    if known is None:
        return None
    signature = signature_of(known)
    names = [arg["name"] for arg in signature.outputs]
    if any(arg.get("role") == "inout" for arg in signature.inputs):
        return None
    if _DIM in known.dims:
        if {**known.optional, **forward.dims}.get(_DIM) != 0:
            return None
        places: list[_Place] = [("gradient" if i < len(names) else "input", i)
                                for i in range(len(signature.inputs))]
        own = TunedKernel(forward.name, None, None, {**forward.dims, _DIM: 1})
        own._client = forward.client()
        return Backward(forward, own, places, range(len(names)), names)
    other = client._kernel(f"{forward.name}_backward")
    matched = _by_names(signature, signature_of(other)) if other is not None else None
    if other is None or matched is None:
        return None
    kernel = TunedKernel(other.name, None, None, {})
    kernel._client = forward.client()
    return Backward(forward, kernel, *matched, names)
