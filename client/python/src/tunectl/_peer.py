# SPDX-License-Identifier: Apache-2.0
"""Runs the turns of a peer in a process of its own: fills the inputs, calls the callable, checks or times.

A turn has arrays of its own. What a callable keeps, such as what torch.compile has made, it keeps from turn to turn.
On a GPU a turn is timed by CUPTI's records, which torch.profiler reads: from the begin of a call's first kernel to the
end of its last, on whatever streams and however they are launched. The GPU is held busy while the host enqueues a call,
so that its launches cost the call nothing. CUDA events take the place of records that are incomplete.
"""
from __future__ import annotations

import itertools
import operator
import os
import struct
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Optional

from . import _fill
from ._dtypes import DTYPE_BYTES
from ._peer_kinds import Gradient, Peer, PeerError, bound

OUTPUT_BYTES_MAX = 192 << 20  # that a daemon takes of one peer, as PeerLease::kOutputBytesMax
_FLUSH_BYTES = 256 << 20  # more than any second-level cache
_WARM_UP = 3
_HOLD_SECONDS = (200e-6, 20e-3)  # the least and the most that the GPU is held busy ahead of a call
_MARK_CYCLES = 2000
_CYCLES_PER_SECOND = 2e9
_INPUT, _OUTPUT, _INOUT = 1, 2, 3  # as tune.v1.Role
_OK, _LAUNCH_FAILED, _FAULTED, _TIMED_OUT = 1, 5, 7, 8  # as tune.v1.Outcome
CLOCK_CUPTI, CLOCK_EVENTS, CLOCK_HOST = 1, 2, 3  # as tune.v1.Clock


def _refuse(what: object, dtype: str) -> NoReturn:
    raise PeerError(f"a result is {what}, where {dtype} is to be compared: nothing is rounded to it")


def _check_range(low: int, high: int, dtype: str) -> None:
    """Of what an integer type is to hold."""
    if dtype == "bool":
        dtype = "u1"
    bits, is_signed = int(dtype[1:]), dtype[0] == "i"
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if low < least or high > most:
        raise PeerError(f"a result has values from {low} to {high}, which are no {dtype}")


def _is_integer(dtype: str) -> bool:
    return dtype[0] in "iu" or dtype == "bool"


def _is_same_order(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    """May one shape be had from the other by joining neighbouring dims? Then their elements have the same order."""
    ends, wanted_ends = ({*itertools.accumulate((1, *one), operator.mul)} for one in (shape, wanted))
    return ends <= wanted_ends or wanted_ends <= ends


class Policy(NamedTuple):
    """How many runs a turn times."""

    at_least: int
    at_most: int
    seconds: float

    def is_enough(self, samples: Sequence[float]) -> bool:
        return len(samples) >= self.at_most or \
            len(samples) >= min(5, self.at_least) and sum(samples) >= self.seconds * 1e9

    def count(self, each_ns: float) -> int:
        """For runs that take so long each."""
        return max(min(5, self.at_least), 1, min(self.at_most, int(self.seconds * 1e9 / each_ns) + 1))


class Buffers:
    """Arrays without any library: memoryviews of elements, bf16, f16 and e4m3 as their bits."""

    name = "buffers"
    _FORMATS = {"f64": "d", "f32": "f", "f16": "H", "bf16": "H", "e4m3": "B", "bool": "?", "i8": "b",
                "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q"}

    fills_itself = False

    def filled(self, arg: Mapping[str, Any], seed: int) -> Any:
        """An array that is filled where it is."""
        raise NotImplementedError

    def make(self, elements: bytes, dtype: str, shape: list[int]) -> Any:
        flat: Any = memoryview(bytearray(elements)).cast("B")
        code = self._FORMATS[dtype]
        if len(elements) == 0:
            return flat.cast(code)
        return flat.cast(code) if len(shape) < 2 else flat.cast(code, shape)

    def stream(self) -> int:
        """The handle of the CUDA stream on which calls are timed, for a peer that launches its kernels itself."""
        return 0

    def copy(self, target: Any, elements: bytes) -> None:
        target.cast("B")[:] = elements

    def take(self, value: Any, dtype: str, count: int) -> bytes:
        if isinstance(value, (bytes, bytearray)):
            return bytes(value)
        if isinstance(value, memoryview):
            self._check_format(value, dtype)
            return value.tobytes()
        code = {"f16": "e", "bf16": "H"}.get(dtype, self._FORMATS[dtype])
        return struct.pack(f"<{len(value)}{code}", *value)

    def _check_format(self, value: memoryview, dtype: str) -> None:
        """Of the same elements, or of bare bytes."""
        code, wanted = value.format.lstrip("@=<"), self._FORMATS[dtype]
        same = code == wanted or (code, dtype) == ("e", "f16") or code in "Bbc"
        integers = "bhilqn" if wanted in "bhiq" else "BHILQN"
        if not same and not (_is_integer(dtype) and code in integers and value.itemsize == DTYPE_BYTES[dtype]):
            _refuse(f"a memoryview of '{value.format}'", dtype)

    def samples(self, call: Callable[[], Any], ready: Callable[[], None], policy: Policy) -> tuple[list[float], int]:
        """Nanoseconds of each run and the clock. `ready` comes before each run."""
        for _ in range(_WARM_UP):
            ready()
            call()
        samples: list[float] = []
        while not policy.is_enough(samples):
            ready()
            begin = time.perf_counter_ns()
            call()
            samples.append(max(float(time.perf_counter_ns() - begin), 1.0))
        return samples, CLOCK_HOST

    def flush(self) -> Callable[[], None]:
        """Reads and writes more than the caches hold."""
        ground = bytearray(_FLUSH_BYTES)
        other = bytes(_FLUSH_BYTES)

        def run() -> None:
            ground[:] = other

        return run


class Numpy(Buffers):
    """numpy.ndarray; bf16 and e4m3 as f32."""

    name = "numpy"
    _TYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bool": "|b1", "i8": "<i1", "u8": "<u1", "i16": "<i2",
              "u16": "<u2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "u64": "<u8"}

    def __init__(self) -> None:
        import numpy

        self._np = numpy

    def make(self, elements: bytes, dtype: str, shape: list[int]) -> Any:
        if dtype == "bf16":
            bits = self._np.frombuffer(elements, "<u2").astype("<u4") << 16
            return bits.view("<f4").reshape(shape)
        if dtype == "e4m3":
            return _fill.e4m3_values(self._np)[self._np.frombuffer(elements, "<u1")].reshape(shape)
        return self._np.frombuffer(bytearray(elements), self._TYPES[dtype]).reshape(shape)

    def copy(self, target: Any, elements: bytes) -> None:
        dtype = {2: "bf16", 4: "e4m3"}.get(target.nbytes // max(1, len(elements)), "")
        if dtype:
            target[...] = self.make(elements, dtype, list(target.shape))
        else:
            target[...] = self._np.frombuffer(elements, target.dtype).reshape(target.shape)

    def take(self, value: Any, dtype: str, count: int) -> bytes:
        array = self._np.ascontiguousarray(value)
        if array.dtype.kind not in ("iub" if _is_integer(dtype) else "fiubV"):  # V: a bf16 of ml_dtypes
            _refuse(array.dtype, dtype)
        if _is_integer(dtype) and array.size:
            _check_range(int(array.min()), int(array.max()), dtype)
        if dtype == "bf16":
            bits = array.astype("<f4").view("<u4").astype("<u8")
            return bytes(((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2").tobytes())
        if dtype == "e4m3":
            return bytes(_fill.e4m3_of(self._np, array).tobytes())
        return bytes(array.astype(self._TYPES[dtype]).tobytes())

    def flush(self) -> Callable[[], None]:
        ground = self._np.zeros(_FLUSH_BYTES // 8)

        def run() -> None:
            ground[...] += 1.0

        return run


class Torch(Buffers):
    """torch.Tensor, on the device of the comparison."""

    name = "torch"
    _TYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "e4m3": "float8_e4m3fn",
              "bool": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32",
              "u32": "uint32", "i64": "int64", "u64": "uint64"}
    _FILLED_AS = {"u16": "int16", "u32": "int32", "u64": "int64"}  # PyTorch converts to few unsigned types

    def __init__(self, on_gpu: bool) -> None:
        import torch

        self._torch = torch
        self._on_gpu = on_gpu
        self._device = "cuda" if on_gpu else None
        if on_gpu and not torch.cuda.is_available():
            raise PeerError("torch sees no GPU in the process of the peer")
        self.fills_itself = on_gpu

    def stream(self) -> int:
        return int(self._torch.cuda.current_stream().cuda_stream) if self._on_gpu else 0

    def filled(self, arg: Mapping[str, Any], seed: int) -> Any:
        dtype, torch = arg["dtype"], self._torch
        wanted = getattr(torch, self._TYPES[dtype])
        made = torch.empty(arg["shape"], dtype=getattr(torch, self._FILLED_AS.get(dtype, self._TYPES[dtype])),
                           device=self._device)
        _fill.fill_tensor(torch, made.view(-1), dtype, arg["kind"], arg["low"], arg["high"], arg["key"], seed)
        return made.view(wanted) if dtype in self._FILLED_AS else made

    def make(self, elements: bytes, dtype: str, shape: list[int]) -> Any:
        wanted = getattr(self._torch, self._TYPES[dtype])
        flat = self._torch.frombuffer(bytearray(elements or b"\0" * 8), dtype=self._torch.uint8)
        tensor = flat[:len(elements)].view(wanted).reshape(shape)
        return tensor.to(self._device) if self._on_gpu else tensor

    def copy(self, target: Any, elements: Any) -> None:
        if isinstance(elements, bytes):
            bits = self._torch.frombuffer(bytearray(elements), dtype=self._torch.uint8).view(target.dtype)
            elements = bits.reshape(target.shape)
        target.copy_(elements)

    def take(self, value: Any, dtype: str, count: int) -> bytes:
        wanted = getattr(self._torch, self._TYPES[dtype])
        if value.dtype.is_complex or (value.dtype.is_floating_point and _is_integer(dtype)):
            _refuse(value.dtype, dtype)
        if _is_integer(dtype) and value.dtype != wanted and value.numel():
            wide = value.to(self._torch.int64)
            _check_range(int(wide.min()), int(wide.max()), dtype)
        flat = value.detach().to(device="cpu", dtype=wanted).contiguous().reshape(-1)
        return bytes(flat.view(self._torch.uint8).numpy().tobytes()) if count else b""

    def samples(self, call: Callable[[], Any], ready: Callable[[], None], policy: Policy) -> tuple[list[float], int]:
        if not self._on_gpu:
            return super().samples(call, ready, policy)
        cuda = self._torch.cuda
        host_seconds, taken = 0.0, []
        for i in range(_WARM_UP + 1):
            ready()
            began = time.perf_counter()
            event_ns = self._by_events(call, _HOLD_SECONDS[0])
            if i > 0:  # the first compiles
                taken.append(event_ns)
                host_seconds = max(host_seconds, time.perf_counter() - began - event_ns * 1e-9 - _HOLD_SECONDS[0])
        hold = min(max(2 * host_seconds, _HOLD_SECONDS[0]), _HOLD_SECONDS[1])
        count = policy.count(min(taken))
        recorded = spans_of(self._records(call, ready, hold, count), count)
        if recorded is not None:
            return recorded, CLOCK_CUPTI
        samples: list[float] = []
        while not policy.is_enough(samples):
            ready()
            cuda.synchronize()
            samples.append(self._by_events(call, hold))
        return samples, CLOCK_EVENTS

    def _hold(self, seconds: float) -> None:
        self._torch.cuda._sleep(int(seconds * _CYCLES_PER_SECOND))

    def _by_events(self, call: Callable[[], Any], hold: float) -> float:
        cuda = self._torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        self._hold(hold)
        start.record()
        call()
        end.record()
        cuda.synchronize()  # waits for streams of the call's own, too
        return max(float(start.elapsed_time(end)) * 1e6, 1.0)

    def _records(self, call: Callable[[], Any], ready: Callable[[], None], hold: float,
                 count: int) -> list[tuple[str, int, int]]:
        """Name, begin and duration of all that the GPU does in `count` runs. A short mark is ahead of `ready`, and the
        hold, which is the same kernel, ahead of the call."""
        torch = self._torch
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(count):
                torch.cuda._sleep(_MARK_CYCLES)
                ready()
                torch.cuda.synchronize()
                self._hold(hold)
                call()
                torch.cuda.synchronize()
        try:
            events = profile.profiler.kineto_results.events()
            return [(event.name(), event.start_ns(), event.duration_ns()) for event in events
                    if "CUDA" in str(event.device_type()) and event.duration_ns() > 0]
        except AttributeError:  # of an older PyTorch
            return []

    def flush(self) -> Callable[[], None]:
        ground = self._torch.zeros(_FLUSH_BYTES // 4, dtype=self._torch.int32, device=self._device)
        if not self._on_gpu:
            return lambda: ground.zero_()
        return lambda: ground.amax()  # reads alone: written lines would go back to memory at the next call's cost


def spans_of(records: Sequence[tuple[str, int, int]], count: int) -> Optional[list[float]]:
    """Nanoseconds from the begin of the first to the end of the last record of each call, which lie between a hold and
    the next mark; None if the records are not those of `count` calls."""
    spans: list[float] = []
    pauses, first, last = 0, 0, 0
    for name, begin, duration in sorted(records, key=lambda record: record[1]):
        if "spin_kernel" in name:
            pauses += 1
            if pauses % 2 == 1 and pauses > 1:
                spans.append(float(last - first))
            first = last = 0
        elif pauses % 2 == 0 and pauses > 0:
            first = first or begin
            last = max(last, begin + duration)
    spans.append(float(last - first))
    return spans if pauses == 2 * count and min(spans) > 0 else None


def arrays_of(kind: str, on_gpu: bool) -> Buffers:
    """Of "torch", "numpy" or "buffers"."""
    if on_gpu and kind != "torch":
        raise PeerError(f"peers on a GPU take torch tensors, not {kind}")
    return {"torch": lambda: Torch(on_gpu), "numpy": Numpy, "buffers": Buffers}[kind]()


class Fills:
    """Elements of the arguments of one problem: making them takes longer than copying them."""

    def __init__(self) -> None:
        self._problem: Any = None
        self._elements: dict[str, bytes] = {}

    def of(self, order: Mapping[str, Any], arg: Mapping[str, Any], count: int) -> bytes:
        problem = (order["dims"], order["dtype"], order["seed"])
        if problem != self._problem:
            self._problem, self._elements = problem, {}
        if arg["name"] not in self._elements:
            self._elements[arg["name"]] = _fill.elements(arg["dtype"], count, arg["kind"], arg["low"], arg["high"],
                                                         arg["key"], order["seed"])
        return self._elements[arg["name"]]


class Problem:
    """A problem's arrays, as an order tells them."""

    def __init__(self, order: Mapping[str, Any], arrays: Buffers, fills: Fills) -> None:
        self.arrays = arrays
        self.args = order["args"]
        self.values: dict[str, Any] = {"stream": arrays.stream(), **order["dims"]}
        self.values["dtype"] = order["dtype"]
        self.outputs: list[Mapping[str, Any]] = []
        self._pristine: dict[str, Any] = {}
        for arg in order["args"]:
            if "scalar" in arg:
                self.values[arg["name"]] = arg["scalar"]
                continue
            count = 1
            for extent in arg["shape"]:
                count *= extent
            self.values[arg["name"]] = value = self._array(order, arg, count, fills)
            if arg["role"] in (_OUTPUT, _INOUT):
                self.outputs.append({**arg, "count": count})
            if arg["role"] == _INOUT:
                self._pristine[arg["name"]] = value.clone() if arrays.fills_itself else \
                    arrays.take(value, arg["dtype"], count)

    def _array(self, order: Mapping[str, Any], arg: Mapping[str, Any], count: int, fills: Fills) -> Any:
        if arg["role"] == _OUTPUT:
            elements = b"\xff" * (count * DTYPE_BYTES[arg["dtype"]])  # NaN, until it is written
        elif arg["elements"] is not None:
            elements = bytes(arg["elements"])
        elif self.arrays.fills_itself:
            return self.arrays.filled(arg, order["seed"])
        else:
            elements = fills.of(order, arg, count)
        return self.arrays.make(elements, arg["dtype"], arg["shape"])

    def restore(self) -> None:
        for name, elements in self._pristine.items():
            self.arrays.copy(self.values[name], elements)

    def call_of(self, peer: Callable[..., Any]) -> Callable[[], Any]:
        """What is timed of the peer: the whole of a plain function."""
        return peer.bind(self) if isinstance(peer, (Peer, Gradient)) else bound(peer, self.values)

    def output_bytes(self) -> int:
        return sum(output["count"] * DTYPE_BYTES[output["dtype"]] for output in self.outputs)

    def results(self, returned: Any) -> dict[str, bytes]:
        """Of what the peer returned; of None, what it wrote into its arguments."""
        names = [output["name"] for output in self.outputs]
        if returned is None:
            by_name = {name: self.values[name] for name in names}
        elif isinstance(returned, Mapping):
            by_name = dict(returned)
        else:
            several = returned if isinstance(returned, tuple) else (returned,)
            if len(several) != len(names):
                raise PeerError(f"it returned {len(several)} results; the outputs are {', '.join(names)}")
            by_name = dict(zip(names, several))
        taken = {}
        for output in self.outputs:
            name, wanted = output["name"], output["count"] * DTYPE_BYTES[output["dtype"]]
            if name not in by_name:
                raise PeerError(f"it returned no '{name}'; the outputs are {', '.join(names)}")
            taken[name] = self.arrays.take(by_name[name], output["dtype"], output["count"])
            if len(taken[name]) != wanted:
                raise PeerError(f"its '{name}' has {len(taken[name])} bytes, not {wanted}")
            shape = tuple(getattr(by_name[name], "shape", output["shape"]))
            if not _is_same_order(shape, output["shape"]):
                raise PeerError(f"its '{name}' has the shape {shape}, not {tuple(output['shape'])}")
        return taken


def timed(problem: Problem, call: Callable[[], Any], order: Mapping[str, Any]) -> tuple[list[float], int]:
    """Nanoseconds of each run, with cold caches unless the order says otherwise, and the clock."""
    flush = problem.arrays.flush() if order["cold"] else None

    def ready() -> None:
        problem.restore()
        if flush is not None:
            flush()

    policy = Policy(order["samples_min"], order["samples_max"], order["kernel_seconds"])
    return problem.arrays.samples(call, ready, policy)


def _checked(peer: Callable[..., Any], problem: Problem, call: Callable[[], Any], answer: dict[str, Any]) -> None:
    """Runs once, and adds the outputs to the answer, or why they are not sent."""
    returned = call()
    size = problem.output_bytes()
    answer["unchecked"] = getattr(peer, "unchecked", "") or (
        f"its outputs have {size >> 20} MiB, and {OUTPUT_BYTES_MAX >> 20} MiB are compared at most: check it on a smaller "
        "problem, such as a further size of sweep=" if size > OUTPUT_BYTES_MAX else "")
    if not answer["unchecked"]:
        made = peer.results(returned, problem) if isinstance(peer, (Peer, Gradient)) else returned
        answer["outputs"] = problem.results(made)


def turn(peer: Callable[..., Any], kind: str, order: Mapping[str, Any], fills: Optional[Fills] = None) -> dict[str, Any]:
    """What the turn gave: outcome, message, clock, samples_ns, outputs."""
    on_gpu = bool(order["device_uuid"])  # which a host's processor has not
    if on_gpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = order["device_uuid"]
    answer: dict[str, Any] = {"outcome": _OK, "message": "", "samples_ns": [], "outputs": {}, "unchecked": "",
                              "clock": CLOCK_EVENTS if on_gpu else CLOCK_HOST}
    try:
        problem = Problem(order, arrays_of(kind, on_gpu), fills or Fills())
        call = problem.call_of(peer)
        if order["check"]:
            _checked(peer, problem, call, answer)
        else:
            answer["samples_ns"], answer["clock"] = timed(problem, call, order)
    except PeerError as error:
        answer.update(outcome=_LAUNCH_FAILED, message=str(error))
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        answer.update(outcome=_LAUNCH_FAILED, message=f"{type(error).__name__}: {error} "
                      f"({os.path.basename(last.filename)}:{last.lineno})"[:2000])
    return answer


def serve(peer: Callable[..., Any], kind: str, connection: Any) -> None:
    """The process of a peer: says that it is there, takes orders and sends what each turn gave, until there is
    nobody to ask."""
    fills = Fills()
    try:
        connection.send("ready")
        while True:
            connection.send(turn(peer, kind, connection.recv(), fills))
    except (BrokenPipeError, EOFError, KeyboardInterrupt):
        return  # whoever asked has gone


def lost(message: str, late: bool) -> dict[str, Any]:
    """The answer in place of that of a process that gave none."""
    return {"outcome": _TIMED_OUT if late else _FAULTED, "message": message, "samples_ns": [],
            "outputs": {}, "unchecked": "", "clock": CLOCK_HOST}
