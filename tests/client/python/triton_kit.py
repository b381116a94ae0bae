# SPDX-License-Identifier: Apache-2.0
"""What the tests of tunectl.triton share: tensors and functions of their own, and a process whose launches are
written down. Importing it goes on in the Python that TUNE_TRITON_PYTHON names, and skips the test where there
is no Triton; a failure there with TUNE_TRITON_REQUIRED."""
import importlib.util
import itertools
import logging
import operator
import os
import pathlib
import shutil
import subprocess
import sys
import unittest.mock

named = os.environ.get("TUNE_TRITON_PYTHON")
if named and not os.environ.get("TUNE_TEST_AGAIN"):
    os.environ["TUNE_TEST_AGAIN"] = "1"
    os.execv(named, [named, *sys.argv])
if importlib.util.find_spec("triton") is None:
    print("no Triton in this Python; TUNE_TRITON_PYTHON names another")
    sys.exit(1 if os.environ.get("TUNE_TRITON_REQUIRED") else 77)

import kit
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from tunectl import _device
from tunectl.triton import _autotuner, _lower, _service, autotune, flush
from tunectl.triton._call import Buffer, read_call
from tunectl.triton._identity import name_of
from tunectl.triton._writes import written_parameters

BIN = pathlib.Path(os.environ.get("TUNE_BIN") or pathlib.Path(shutil.which("tunectl") or "tunectl").parent)
FACTOR = tl.constexpr(2.0)
BLOCK_ROWS = 64
GPU = _device.Device("cuda:0", kit.H200, "sm_90a")


class DType:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"

    @property
    def itemsize(self):
        return int(self.name.lstrip("abcdefghijklmnopqrstuvwxyz").partition("_")[0]) // 8


F32, F16, I32, F8 = DType("float32"), DType("float16"), DType("int32"), DType("float8_e5m2")


class Values(list):
    """Compared element by element, as tensors are."""

    def __getitem__(self, piece):
        return Values(super().__getitem__(piece))

    def __ge__(self, other):
        return Values(map(operator.ge, self, other))

    def __gt__(self, other):
        return Values(map(operator.gt, self, other))

    def all(self):
        return all(self)


class Tensor:
    """What Triton and the package ask of a tensor."""

    def __init__(self, *shape, dtype=F32, address=4096, stride=None, values=None):
        self.shape, self.dtype, self.address, self.values = shape, dtype, address, values
        self.strides = stride or tuple(reversed([*itertools.accumulate(reversed((*shape[1:], 1)), int.__mul__)]))

    def stride(self):
        return self.strides

    def data_ptr(self):
        return self.address

    def flatten(self):
        return Values(self.values)

    def aminmax(self):
        if self.values is None:
            raise NotImplementedError
        return tuple(unittest.mock.Mock(item=lambda value=value: value)
                     for value in (min(self.values), max(self.values)))


@triton.jit
def twice(value):
    return value * FACTOR


@triton.jit
def scale(x, y, n, step, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * step
    tl.store(y + at, twice(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit
def walk(x, y, sums, n, BLOCK: tl.constexpr):
    to = y + tl.arange(0, BLOCK)
    total = 0.0
    for start in range(0, n, BLOCK):
        value = tl.load(x + start + tl.arange(0, BLOCK))
        if n > 64:
            tl.store(to, value)
        to += BLOCK
        total += tl.sum(value, axis=0)
    tl.atomic_add(sums, total)


@triton.jit
def add_into(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at) + tl.load(y + at))


@triton.jit
def copy_blocks(source, target, ROWS: tl.constexpr):
    at = [tl.program_id(0) * ROWS, 0]
    target.store(at, source.load(at))


def set_blocks(arguments):
    for name in "source", "target":
        arguments[name].block_shape = [arguments["ROWS"], 64]


def set_rows(rows, arguments):
    arguments["source"].block_shape = [rows, 64]


def make_hook(rows, *others):
    return lambda arguments: set_rows(rows, arguments, *others)


def described(rows=256, dtype=F16, **more):
    return TensorDescriptor(Tensor(rows, 64, dtype=dtype, **more), [rows, 64], [64, 1], [1, 64])


BLOCKS = [triton.Config({"ROWS": rows}, num_warps=warps, pre_hook=set_blocks) for rows in (32, 64) for warps in (4, 8)]
CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps)
           for block, warps in itertools.product((128, 256, 512), (1, 2, 4)) if block > 128 or warps == 4]


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


def written(function, *values, **constants):
    text, call = ttir(function, *values, **constants)
    return written_parameters(text, [i for i, one in enumerate(call.arguments) if isinstance(one, Buffer)])


def ttir(function, *values, **constants):
    """(TTIR, the call) of a function on such arguments."""
    bound = dict(zip(function.arg_names, values))
    call = read_call(function.params, bound, set(constants), {}, ())
    return _lower.lower(function, call, constants, {}, _lower.target_of(90))[0], call


class TritonTest(kit.PackageTest):
    """A process on an H200 that launches nothing: launches are written down."""

    def setUp(self):
        super().setUp()
        self.launched = []
        for target, name, value in ((_autotuner, "_live_target", lambda: _lower.target_of(90)),
                                    (_device, "_of_torch", lambda: [GPU])):
            patch = unittest.mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        logging.getLogger("tunectl").setLevel(logging.ERROR)

    def tuned(self, function=scale, configs=CONFIGS, **more):
        """A function whose launches are written down instead."""
        made = autotune(configs, key=["n"], **more)(function)
        made._run = lambda *args, grid, warmup, **kwargs: self.launched.append(kwargs)
        return made

    def arguments(self, n=4096):
        return Tensor(n), Tensor(n), n, 2

    def service(self, **more):
        """A daemon that takes everything."""
        self.sent = []
        patch = unittest.mock.patch.multiple(
            _service, why_absent=lambda: "",
            submit=lambda kernel, *rest, **named: self.sent.append(kernel) or {"id": 1, "state": "queued"}, **more)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(flush, 120)  # before that

    def record_of(self, function, config, n=4096, owners=("",), configs=CONFIGS):
        key = [f"n={n}", f"x: {F32}", f"y: {F32}"]
        name = name_of(function, configs, key)
        kernel = {**kit.KERNEL, "on_host": False, "dtypes": ["f32"], "dims": [], "lets": [],
                  "constraints": [], "params": [], "steps": []}
        record = kit.record(1, dtype="f32", config=config, dims={})
        return kit.snapshot_bytes([{**record, "kernel": owner + name} for owner in owners],
                                  kernels=[{**kernel, "name": owner + name} for owner in owners])

    def spec(self, **more):
        self.service()
        self.tuned(**more)[grid](*self.arguments())
        self.assertTrue(flush(120))
        return self.sent[0]

    def check_whole(self, kernel, count):
        """All configs of what was sent compile."""
        (self.path / "k.textproto").write_text(kernel.spec)
        for name, data in kernel.files.items():
            (self.path / name).write_bytes(data)
        environment = {**os.environ, "TUNE_TRITON_PYTHON": sys.executable, "NO_COLOR": "1"}
        del environment["TUNE_ADDRESS"]  # no daemon: tunectl serves itself
        done = subprocess.run([BIN / "tunectl", "kernel", "check", self.path / "k.textproto", "--target", "sm_90a",
                               "--all"], capture_output=True, text=True, timeout=240, check=False,
                              env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"configs: {count} on sm_90a; {count} compiled", done.stdout + done.stderr)
