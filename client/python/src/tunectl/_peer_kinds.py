# SPDX-License-Identifier: Apache-2.0
"""Peers of a comparison of which not every step is timed: prepared calls, and gradients by PyTorch's autograd.

A comparison asks a peer to `bind` to a problem, which gives the call that is timed. A plain function is its own call.
"""
from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Protocol


class PeerError(Exception):
    """A peer does not fit the problem; the text is for people."""


class Problem(Protocol):
    """The arrays, scalars and dims by name, and the descriptions of all args and of the outputs."""

    values: dict[str, Any]
    args: Sequence[Mapping[str, Any]]
    outputs: Sequence[Mapping[str, Any]]


def bound(function: Callable[..., Any], values: Mapping[str, Any]) -> Callable[[], Any]:
    """The function with those arguments that its parameters name."""
    given = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        if name in values:
            given[name] = values[name]
        elif parameter.default is parameter.empty:
            raise PeerError(f"it takes '{name}', which nothing of the kernel is called; there are "
                            f"{', '.join(sorted(values))}")
    return lambda: function(**given)


@dataclasses.dataclass(frozen=True)
class Peer:
    """A peer of `tunectl.compare` that prepares itself before it is timed.

    prepare    function of the kernel's args and dims that returns the call to time, a function without parameters.
               Plans, layouts of its own and compilation belong into it
    outputs    function of what the call returned and of the args by name, a dict, that gives the kernel's outputs. It
               runs for the check alone: a peer need not compute the kernel's side results, such as a log-sum-exp
    unchecked  why the results are not the kernel's; the peer is timed, and its agreement is `invalid_config`

    All functions are at the top of a module.
    """

    prepare: Callable[..., Callable[[], Any]]
    outputs: Optional[Callable[[Any, Mapping[str, Any]], Any]] = None
    unchecked: str = ""

    def bind(self, problem: Problem) -> Callable[[], Any]:
        call: Callable[[], Any] = bound(self.prepare, problem.values)()
        return call

    def results(self, returned: Any, problem: Problem) -> Any:
        return returned if self.outputs is None else self.outputs(returned, problem.values)


@dataclasses.dataclass(frozen=True)
class Gradient:
    """What `gradient` makes."""

    forward: Callable[..., Any]
    unchecked: str = ""

    def bind(self, problem: Problem) -> Callable[[], Any]:
        try:
            import torch
        except ImportError:
            raise PeerError("a gradient takes PyTorch") from None
        taken = inspect.signature(self.forward).parameters
        wanted = [output["name"] for output in problem.outputs]
        leaves = {name: problem.values[name].detach().clone().requires_grad_()
                  for name in taken if f"d{name}" in wanted and isinstance(problem.values.get(name), torch.Tensor)}
        if not leaves:
            raise PeerError(f"none of its parameters {', '.join(taken)} has a gradient among the outputs "
                            f"{', '.join(wanted)}: an output d<name> is that of the parameter <name>")
        _keep_buffers(torch)
        with torch.enable_grad():
            made = bound(self.forward, {**problem.values, **leaves})()
        made = made if isinstance(made, (tuple, list)) else (made,)
        given = [arg["name"] for arg in problem.args if "scalar" not in arg and arg["name"][:1] == "d"
                 and arg["name"] not in wanted and arg["name"] not in taken]
        if len(given) != len(made):
            raise PeerError(f"its forward function returned {len(made)} results; the kernel has a gradient of "
                            f"{', '.join(given) or 'none'}")
        incoming = [problem.values[name].reshape(result.shape) for name, result in zip(given, made)]

        def call() -> dict[str, Any]:
            found = torch.autograd.grad(made, list(leaves.values()), incoming, retain_graph=True)
            return {f"d{name}": one for name, one in zip(leaves, found)}

        return call

    def results(self, returned: Any, problem: Problem) -> Any:
        return returned


def _keep_buffers(torch: Any) -> None:
    """Has torch.compile keep what a first backward pass would give away, since it is run many times."""
    with contextlib.suppress(ImportError, AttributeError):
        from torch._functorch import config

        config.donated_buffer = False


def gradient(forward: Callable[..., Any], *, unchecked: str = "") -> Gradient:
    """The backward pass of a function of PyTorch, as a peer of a kernel that computes gradients.

    forward    function at the top of a module whose parameters are called as the kernel's inputs. It runs before the
               timing; only the backward pass is timed
    unchecked  as of `Peer`: for kernels that take saved results of the forward pass, such as a log-sum-exp, whose
               values are the spec's fill and not those of `forward`

    The kernel's output d<name> is the gradient of the parameter <name>. Its inputs d<...> that are no gradient of a
    parameter are the gradients of forward's results, in their order.
    """
    return Gradient(forward, unchecked)
