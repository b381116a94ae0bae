# SPDX-License-Identifier: Apache-2.0
"""Tuned configs and kernels for training jobs.

    import tunectl

    tuned = tunectl.best("attention", seq=4096, causal=1, dtype="bf16")
    block_m = tuned.get("BLOCK_M", 128)
    print(tuned.reason)

The first call finds a snapshot: TUNE_SNAPSHOT's, else the newest that the host's daemon has written,
else the node cache's, else the daemon's over gRPC, else one that the package bundles. Later calls are
answered from it: none waits for a daemon, tunes, or raises because no daemon answers.

Importing this imports the standard library only. docs/training-jobs.md is the guide.
"""
from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from ._answer import Answer, NoExactRecord, Value
from ._client import DEADLINE_SECONDS, Client, UnpinnedError, current, open_client, pin, use

if TYPE_CHECKING:
    from ._callable import TunedKernel
    from ._comparison import Comparison, WrongResults
    from ._definition import Kernel
    from ._explain import Explanation
    from ._patch import Patched
    from ._peer_kinds import Peer, gradient
    from ._program import LaunchError
    from ._programs import ProgramError, find_binary
    from ._watch import Better, Watch
    from ._work import DaemonError, Rows, Sweep, cancel, jobs, records, submit, sweeps, trials, wait

__all__ = ["Answer", "Better", "Client", "Comparison", "DaemonError", "Kernel", "LaunchError", "NoExactRecord", "Peer",
           "ProgramError", "Rows", "Sweep", "UnpinnedError", "Value", "Watch", "WrongResults", "best", "best_async",
           "best_many", "cancel", "compare", "digest", "explain", "figures", "find_binary", "gradient", "jobs", "kernel",
           "open", "patch", "patched", "pin", "records", "submit", "sweep", "sweeps", "trials", "unpatch", "wait", "watch"]
__version__ = "0.1.0"
_Model = TypeVar("_Model")


def open(snapshot: Union[str, os.PathLike[str], None] = None, *, deadline: float = DEADLINE_SECONDS,
         address: Optional[str] = None, record_misses: Optional[bool] = None) -> Client:
    """Finds a snapshot and makes it the one that this process answers from.

    snapshot  "sha256:<64 hex digits>", the path of an exported file, the number of one of this host's,
              or "latest"; by default TUNE_SNAPSHOT's. A named snapshot gives that one or none, never
              another.
    deadline  seconds that the daemon has to answer, if it is asked
    address   of the daemon, "unix:/path" or "host:port" (TLS); by default TUNE_ADDRESS, else the host's
    record_misses  have the daemon tune in the background what no record answers exactly; by default
              only if TUNE_RECORD_MISSES is 1

    Does not raise if a snapshot or daemon is missing: the client then answers with defaults, and its
    `notes` say why. ValueError: the digest is malformed. UnpinnedError: WORLD_SIZE is above one and no
    snapshot is pinned.
    """
    return use(open_client(snapshot, deadline, address, record_misses))


def best(kernel: str, *, dtype: object = None, device: object = None,
         default: Optional[Mapping[str, Value]] = None, require_exact: bool = False,
         **dims: int) -> Answer:
    """Returns the best known config of a kernel for a problem, and why it is the answer.

    dims           the kernel's, as its spec names them; others take its defaults
    dtype          "bf16", or torch's or numpy's; by default the spec's first
    device         a name ("NVIDIA H200"), an id ("cuda:0", "cpu"), or torch's; by default this process's
                   first GPU, else its CPU
    default        the config to answer with if no record fits, instead of the spec's
    require_exact  raise NoExactRecord unless this very problem was tuned on this device

    ValueError: the kernel has no such dim or dtype, or the value is out of its bounds.
    """
    return current().best(kernel, dtype=dtype, device=device, default=default,
                          require_exact=require_exact, **dims)


async def best_async(kernel: str, **question: Any) -> Answer:
    """Does the same as best, without blocking an event loop while the snapshot is being found."""
    import asyncio

    return await asyncio.to_thread(best, kernel, **question)


def best_many(questions: Iterable[Mapping[str, Any]]) -> list[Answer]:
    """Answers several questions from one snapshot. A question is a mapping of best's arguments, with "kernel".

        best_many([{"kernel": "rope", "seq": n} for n in (512, 1024)])

    TypeError: a question is no mapping, or names no kernel.
    """
    return current().best_many(questions)


def explain(kernel: str, *, most: int = 5, **question: Any) -> Explanation:
    """Explains, field by field, why best gives its answer. Takes best's arguments; print() the result.

    most  number of records that are compared with the question, the most alike first
    """
    return current().explain(kernel, most=most, **question)


def watch(*, every: float = 30.0, tell: Optional[Callable[[Sequence[Better]], Any]] = None) -> Watch:
    """Looks, in a thread of its own, for snapshots with better answers to the questions of this process.

    every  seconds between two looks
    tell   called with the pairs of answers, before and after, by that thread

    Answers do not change until the job calls `Watch.take`.
    """
    from ._watch import Watch

    return Watch(current(), every, tell)


def kernel(name: Union[str, Kernel], *, fallback: Optional[Callable[..., Any]],
           gradient: Union[Callable[..., Any], int, None] = None,
           scalars: Optional[Mapping[str, float]] = None, returns: Union[str, Sequence[str], None] = None,
           **dims: int) -> TunedKernel:
    """Makes a function of tensors that launches the binary which the sweep measured.

    name      of the kernel, or the tunectl.Kernel that was swept
    fallback  the framework's own function of the same inputs. It runs, and a note says why, if there is no
              record of these very sizes, no artifact or no device, or if the tuned binary cannot give what
              the fallback does, such as a gradient without a tuned kernel. It may return None for an
              output that nobody reads. It gets the inputs in the spec's order, None for one that the mode
              does not read; those at the end that it has no parameters for are left out. With
              fallback=None such a call raises LookupError
    gradient  of (inputs, outputs, gradients of the outputs), each a tuple: the gradients of the inputs. It
              gets the scalars of the call as scalars=, if it has a parameter of that name.
              By default the kernel's own backward kernel, if that is tuned for these sizes. A whole
              number is the dim of that name, which cross_entropy has
    scalars   values of the spec's scalars that are floats, by name, such as {"rate": 1e-3}; a call may
              override them. gemm's alpha and all of adamw's must be given. By default the spec's, with which
              the kernel was measured. The fallback gets them by keyword
    returns   the output that a call returns, by its name, or a list of them, as a tuple; the fallback returns the
              same. By default all of them
    dims      those that the shapes of the inputs do not determine, such as a mode

        softmax = tunectl.kernel("softmax", fallback=lambda x: torch.softmax(x, -1))
        y = softmax(x)

    Does not raise if a daemon is away, and waits for one no longer than the deadline of `open`. The function
    keeps the snapshot of its first call, whatever is opened later.
    docs/training-jobs.md says what is trusted.
    """
    from ._callable import TunedKernel

    if hasattr(gradient, "__index__"):
        dims, gradient = {**dims, "gradient": operator.index(gradient)}, None  # type: ignore[arg-type]
    elif gradient is not None and not callable(gradient):
        raise TypeError(f"gradient= is a function, or a whole number for the dim of that name, not {gradient!r}")
    if isinstance(name, str):
        return TunedKernel(name, fallback, gradient, dims, scalars, returns)
    return TunedKernel(name.name, fallback, gradient, dims, scalars, returns, name)


def sweep(kernel: Union[str, Kernel], *, dtype: object = None, device: object = None, budget: Union[int, str] = "",
          strategy: str = "", seed: int = 1, **dims: int) -> Sweep:
    """Tunes a kernel for a problem, waits for the end, and returns the finished sweep.

    kernel  a name of the catalogue, the path of a spec (.textproto), or a tunectl.Kernel
    budget  trials (100) or time ("30s", "5min"); by default until the strategy has no more configs
    device  an id of `tunectl device list`; by default the first GPU, else the CPU

    Runs the program `tunectl sweep`, so it needs neither a daemon nor gRPC; a daemon of this host does the work if
    there is one. The row is what `tunectl sweep --json` prints. `tunectl.open()` then takes the new record for the
    answers of this process. An interrupt keeps the finished trials, and the same call continues.

    FileNotFoundError: the program is not installed. ProgramError: it failed; the text says why.

        tunectl.sweep("softmax", rows=4096, cols=1024, budget="30s")["result"]["best"]["config"]
    """
    from . import _programs

    return _programs.sweep(kernel, dtype, device, budget, strategy, seed, dims)


def patch(model: _Model, *, skip_logits: bool = True) -> _Model:
    """Has a model of `transformers` run its layers by `tunectl.ops`, and returns that model.

        model = tunectl.patch(AutoModelForCausalLM.from_pretrained("..."))
        optimiser = tunectl.ops.AdamW(model.parameters())
        print(tunectl.patched(model))

    Attention, rotary embeddings, RMS norms, MLPs with a silu gate and the loss of a causal language model, as Llama,
    Qwen, Mistral and Gemma have them. Results and gradients stay the same within the ops' tolerance. Parameters, state
    dicts and the config do not change, nor do other models. A second patch of a model changes nothing.

    skip_logits  in training with labels the loss comes from the hidden states (ops.linear_cross_entropy) and the model
                 returns no logits. False: it returns them. A call may choose: model(..., skip_logits=False)

    TypeError: it is no model of transformers. ValueError: it has no layer that an op can run.
    """
    from . import _patch

    return _patch.patch(model, skip_logits)  # type: ignore[no-any-return]


def unpatch(model: _Model) -> _Model:
    """Gives the layers of a model that `patch` changed their own code back, and returns the model."""
    from . import _patch

    return _patch.unpatch(model)  # type: ignore[no-any-return]


def patched(model: Any) -> Patched:
    """Returns which layers of a model tunectl.ops run and why others keep their own code; print() the result."""
    from . import _patch

    return _patch.patched(model)


def compare(kernels: Union[str, Kernel, Iterable[Union[str, Kernel]]], peers: Mapping[str, Any], *,
            dtype: object = None, device: str = "",
            sweep: Optional[Mapping[str, Iterable[int]]] = None, rounds: int = 0,
            leg_seconds: float = 0.0, peer_seconds: float = 0.0, warm: bool = False, default: bool = False, seed: int = 0,
            arrays: Optional[str] = None, allow_wrong: bool = False, address: Optional[str] = None, timeout: float = 3600.0,
            progress: Optional[Callable[[str], None]] = None, **dims: int) -> Comparison:
    """Measures kernels and Python functions that compute the same, by turns in one run of a daemon.

    kernels  names of the catalogue or paths of specs, "label=..." if wanted, or tunectl.Kernels; the first
             determines the problem, its inputs and the right results
    peers    functions by label, each at the top of a module. Their parameters have the names of the
             first kernel's args and dims. They return its outputs: one, a tuple in the order of the
             args, or a dict; or None if they wrote into the output arrays that they got. Outputs of
             integer types are integers within the type's bounds; they are not rounded. A `Peer` prepares
             itself before it is timed; `gradient(f)` is the backward pass of f alone. A parameter
             `stream` is the handle of the CUDA stream on which the peer is timed
    sweep    sizes of one dim: {"seq": [512, 1024, 2048]}
    rounds, leg_seconds, warm, default, seed  as `tunectl compare`; default: the specs' configs
    peer_seconds  after which a peer's turn ends and the peer leaves (at most 295, the default)
    arrays   "torch", "numpy" or "buffers" (memoryviews): what peers take; by default the first that
             is installed. On a GPU torch
    allow_wrong  return the comparison even if the results of a kernel or peer are wrong
    progress called with a sentence on the present step

    Returns the comparison as a row, a dict with `problems` and their `kernels`, which prints as `tunectl compare`
    does; `to_frame()` has a line for each kernel and peer on each problem. `tunectl compare show ID` and `tunectl
    report compare ID` show it, too. Needs the `rpc` extra and a daemon on this host. The row says which peers raised.
    WrongResults: a kernel or peer gave other results; its text names them, and its `comparison` has all that was
    measured. DaemonError: the daemon is away, or refuses. A script guards itself with `if __name__ == "__main__"`,
    since each peer has a process of its own.
    """
    from . import _compare

    return _compare.compare(kernels, peers, dtype=dtype, device=device, sweep=sweep, rounds=rounds,
                            leg_seconds=leg_seconds, peer_seconds=peer_seconds, warm=warm, default=default, seed=seed,
                            arrays=arrays, allow_wrong=allow_wrong, address=address, timeout=timeout,
                            progress=progress, **dims)


def figures(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns what `compare` returned as a flat list for JSON: a dict for each kernel and peer on each problem.

    ratio, ratio_low, ratio_high  time over the first kernel's with its 95 % interval, of n rounds
    time_ns, time_low_ns, time_high_ns, clock, cache_mode, config  what was measured, and how
    outcome, agreement and their messages; bytes and flops of the problem; device, driver, versions
    """
    from . import _compare

    return _compare.figures(row)


def digest() -> str:
    """Returns the digest of this process's snapshot; print it on every rank. "" without one."""
    return current().digest


def __dir__() -> list[str]:
    """The public names alone, for completion in a notebook."""
    return sorted([*__all__, "__version__", "ops"])


def __getattr__(name: str) -> Any:
    if name == "LaunchError":
        from ._program import LaunchError

        return LaunchError
    if name == "ops":
        import importlib

        return importlib.import_module(".ops", __name__)
    if name in ("Peer", "gradient"):
        from . import _peer_kinds

        return getattr(_peer_kinds, name)
    if name in ("Comparison", "WrongResults"):
        from . import _comparison

        return getattr(_comparison, name)
    if name == "Kernel":
        from ._definition import Kernel

        return Kernel
    if name in ("ProgramError", "find_binary"):
        from . import _programs

        return getattr(_programs, name)
    if name in ("Better", "Watch"):
        from . import _watch

        return getattr(_watch, name)
    if name in ("DaemonError", "Rows", "Sweep", "cancel", "jobs", "records", "submit", "sweeps", "trials", "wait"):
        from . import _work

        return getattr(_work, name)
    raise AttributeError(f"module 'tunectl' has no attribute '{name}'")
