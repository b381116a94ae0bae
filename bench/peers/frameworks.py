# SPDX-License-Identifier: Apache-2.0
"""What peers are made of: PyTorch, if it is installed, and forms of `tunectl.Peer` that several families use.

A peer is a function whose parameters are called as the kernel's args and dims. Packages other than PyTorch are imported
when the peer is called, so that a missing one is a line of the comparison.
"""
import functools
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "client/python/src")]
from tunectl import Peer  # noqa: E402

try:
    import torch
    import torch.nn.functional as F
except ImportError:  # the cases can be listed without it
    torch = F = None

OWN = "autograd has saved results of its own in place of the spec's fill of them"


@functools.cache
def compiled(function):
    """What torch.compile makes of a function, tuned; kept from turn to turn."""
    return torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)


class Compiled:
    """A function by torch.compile."""

    def __init__(self, function):
        self.function = function

    @property
    def __signature__(self):
        return inspect.signature(self.function)

    def __call__(self, *values, **named):
        return compiled(self.function)(*values, **named)


class Call(Compiled):
    """A `prepare` that does nothing ahead of the call of a function."""

    def __call__(self, **named):
        return functools.partial(self.function, **named)


def plain(function, outputs=None, unchecked=""):
    return Peer(Call(function), outputs, unchecked)


class Copy:
    """Reads half and writes half of the bytes of some arrays."""

    def __init__(self, *names):
        self.names = names

    @property
    def __signature__(self):
        return inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in self.names])

    def __call__(self, **arrays):
        size = sum(array.nbytes for array in arrays.values())
        device = next(iter(arrays.values())).device
        source, target = (torch.empty(size // 2, device=device, dtype=torch.uint8) for _ in range(2))
        return lambda: target.copy_(source)


def copy(*names):
    return Peer(Copy(*names), unchecked="it moves as many bytes, and computes nothing")


def autograd(function, incoming, *inputs):
    """The call that gives the gradients of the inputs."""
    import torch._functorch.config as config
    if hasattr(config, "donated_buffer"):
        config.donated_buffer = False  # buffers that a first backward pass would give away
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    made = function(*leaves)
    return lambda: torch.autograd.grad(made, leaves, incoming, retain_graph=True)


def need(size, what):
    """Ends a peer if the GPU has less memory left."""
    if not torch.cuda.is_available():
        return
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    if size > free:
        raise MemoryError(f"{what} would take {size / 2 ** 30:.0f} GiB; {free / 2 ** 30:.0f} GiB are free")
