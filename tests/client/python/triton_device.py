# SPDX-License-Identifier: Apache-2.0
"""A device for programs of tests, on a host without a GPU: Triton compiles for an H200, launches are counted, and a
config's time is the product of its numbers, so that Triton finds the smallest fastest. A program imports it first."""
import atexit
import json
import os
import sys
import types

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.driver import driver

launched = []  # the BLOCK of each launch outside of a benchmark
timed = 0  # launches that Triton timed


class DType:
    def __str__(self):
        return "torch.float32"

    __repr__ = __str__
    itemsize = 4


F32 = DType()


class Tensor:
    """What Triton and the package ask of a tensor."""

    def __init__(self, size):
        self.shape, self.dtype = (size,), F32

    def stride(self):
        return (1,)

    def data_ptr(self):
        return 4096

    def aminmax(self):
        raise NotImplementedError


class Driver(DriverBase):
    def __init__(self):
        self.utils = types.SimpleNamespace(
            load_binary=lambda *args: (1, 1, 32, 0, 1024),
            get_device_properties=lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132})
        self.launcher_cls = lambda source, metadata: lambda *args: launched.append([source.fn.__name__, args[0]])

    @staticmethod
    def is_active():
        return True

    def map_python_to_cpp_type(self, ty):
        return ty

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self):
        raise NotImplementedError

    def get_device_interface(self):
        raise NotImplementedError

    def get_empty_cache_for_benchmark(self):
        raise NotImplementedError

    def clear_cache(self, cache):
        pass

    def get_benchmarker(self):
        def time(call, quantiles):
            global timed
            timed += 1
            before = len(launched)
            call()
            blocks = launched[before:]
            del launched[before:]
            return [1.0 / blocks[0][1]] * 3  # the fewest blocks of a grid are the slowest

        return time


driver.set_active(Driver())


@atexit.register
def _report():
    folder = os.environ.get("TEST_REPORTS")
    if folder:
        with open(f"{folder}/{os.environ.get('RANK', '0')}.json", "w", encoding="utf-8") as file:
            cached = sys.modules["__main__"].double.cache
            json.dump({"launched": launched, "timed": timed, "cached": len(cached)}, file)
