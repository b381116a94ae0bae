# SPDX-License-Identifier: Apache-2.0
"""What tests of tuned binaries share: tensors of our own, and a daemon that has swept what they launch."""
import ctypes
import logging
import math
import random
import unittest

import daemon_kit
import kit
from daemon_kit import SAXPY


class Tensor:
    """What tunectl needs of a tensor, on the CPU: floats, rows first, aligned as frameworks align."""

    def __init__(self, *shape, values=None, dtype="torch.float32", shift=0):
        self.shape, self.dtype, self.device = shape, dtype, "cpu"
        self._count = math.prod(shape)
        self._keeps = ctypes.create_string_buffer(4 * self._count + 128)
        self._place = -(-ctypes.addressof(self._keeps) // 64) * 64 + shift
        self.values = (ctypes.c_float * self._count).from_address(self._place)
        self.values.keeps = self._keeps  # whoever has the values has the memory
        if values is not None:
            self.values[:] = values

    def data_ptr(self):
        return self._place

    def is_contiguous(self):
        return True

    def copy_(self, other):
        self.values[:] = other.values


def drawn(*shape, seed=1):
    draw = random.Random(seed)
    return Tensor(*shape, values=[draw.uniform(-1, 1) for _ in range(math.prod(shape))])


def saxpy_of(x, y):
    return Tensor(*x.shape, values=[2.5 * a + b for a, b in zip(x.values, y.values)])


class KernelTest(daemon_kit.DaemonTest):
    """All share one daemon, but for a class that prepares another."""

    @classmethod
    def setUpClass(cls):
        if "prepare" in vars(cls) and cls is not KernelTest:
            daemon_kit.DaemonTest.setUpClass.__func__(cls)
        elif KernelTest.daemon is None:
            unittest.addModuleCleanup(KernelTest.doClassCleanups)
            daemon_kit.DaemonTest.setUpClass.__func__(KernelTest)

    @classmethod
    def prepare(cls):
        for n in (1000, 4096):
            cls.sweep_kernel(SAXPY, n=n)
        cls.sweep_kernel(kit.ROOT / "tests/data/wide/wide.textproto", n=1024)

    @classmethod
    def sweep_kernel(cls, kernel, *flags, **dims):
        spelled = [part for name, value in dims.items() for part in (f"--{name}", value)]
        cls.tunectl("sweep", kernel, *spelled, "--device", "cpu", "--budget", "3", *flags)
        cls.snapshots()  # waits until what was published is in a file

    def setUp(self):
        super().setUp()
        self.said = []
        handler = logging.Handler()
        handler.emit = lambda record: self.said.append(record.getMessage())
        logging.getLogger("tunectl").addHandler(handler)
        self.addCleanup(logging.getLogger("tunectl").removeHandler, handler)

    def assert_close(self, got, want, tolerance=1e-5):
        self.assertEqual(len(got), len(want))
        worst = max(abs(a - b) for a, b in zip(got, want))
        self.assertLessEqual(worst, tolerance)

    def check_saxpy(self, kernel, n=4096, seed=1):
        x, y, out = drawn(n, seed=seed), drawn(n, seed=seed + 1), Tensor(n)
        self.assertIs(kernel(x, y, out=out), out)
        self.assert_close(out.values, saxpy_of(x, y).values)
