# SPDX-License-Identifier: Apache-2.0
"""What the CUDA launcher tells the driver, on a host without a GPU: a driver that writes it down."""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import kit
from tunectl import _artifact, _launch_cuda, _program, _strides

HERE = pathlib.Path(__file__).resolve().parent


def buffer(name, count, role="input", dtype="f32"):
    return {"kind": "buffer", "name": name, "dtype": dtype, "count": count, "role": role}


def scalar(name, dtype, value):
    return {"kind": "scalar", "name": name, "dtype": dtype, "value": value}


def step(entry, *args, **more):
    return {"entry": entry, "unit": 0, "grid": [7, 1, 1], "block": [128, 1, 1], "cluster": [1, 1, 1],
            "shared_bytes": 0, "cooperative": False, "programmatic_dependent_launch": False,
            "args": list(args), "zero": [], **more}


def artifact(*steps, symbols=(), binary=b"cubin"):
    return _artifact.Artifact("", {"steps": list(steps), "symbols": list(symbols)}, (binary,))


class Tensors:
    """The first element of each tells them apart."""

    def __init__(self, *values):
        self._keeps = [(ctypes.c_float * 64)(value) for value in values]
        self.pointers = [ctypes.addressof(one) for one in self._keeps]


def framework(name, **members):
    """A module that looks like one."""
    module = types.ModuleType(name)
    for member, value in members.items():
        setattr(module, member, value)
    return module


class ByInterface:
    """An array of a framework that has __cuda_array_interface__, on a stream."""

    def __init__(self, stream="none"):
        self.__cuda_array_interface__ = {"shape": (64,), "typestr": "<f4", "data": (0, False), "version": 3}
        if stream != "none":
            self.__cuda_array_interface__["stream"] = stream


class OfCuPy(ByInterface):
    __module__ = "cupy"


class OfTorch:
    def data_ptr(self):
        return 0


class Launches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        cls.addClassCleanup(folder.cleanup)
        cls.log = pathlib.Path(folder.name) / "log"
        os.environ["FAKE_DRIVER_LOG"] = str(cls.log)
        library = pathlib.Path(folder.name) / "libcuda.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, HERE / "fake_driver.c"], check=True)
        real = ctypes.CDLL
        ctypes.CDLL = lambda name, *more, **options: real(str(library) if name == "libcuda.so.1" else name,
                                                          *more, **options)
        cls.addClassCleanup(setattr, ctypes, "CDLL", real)
        _launch_cuda._driver.cache_clear()
        cls.addClassCleanup(_launch_cuda._driver.cache_clear)

    def setUp(self):
        self.log.write_text("")

    def lines(self):
        return [line for line in self.log.read_text().splitlines() if not line.startswith("attribute")]

    def launch(self, made, buffers, *values):
        program = _launch_cuda.CudaProgram(made, buffers, 0)
        tensors = Tensors(*values)
        program.launch(tensors.pointers, tensors)
        return program

    def streams(self, program, *arrays):
        """What is launched for arrays, and after and before which streams."""
        self.log.write_text("")
        tensors = Tensors(*range(len(arrays)))
        program.launch_among(tensors.pointers, arrays)
        words = [line.split() for line in self.lines()]
        return [f"launch {one[one.index('stream') + 1] if 'stream' in one else 0}" if one[0] == "launch" else " ".join(one)
                for one in words]

    def test_the_stream_is_that_of_the_arrays(self):
        """Also where torch is imported, and CuPy has another stream; and where torch comes after the program."""
        program = _launch_cuda.CudaProgram(artifact(step("one_p", buffer("x", 64))), {"x": "f32"}, 0)
        self.assertEqual(self.streams(program, ByInterface()), ["launch 0"])
        raw = {0: 7, 1: 8}
        torch = framework("torch", Tensor=OfTorch, _C=types.SimpleNamespace(_cuda_getCurrentRawStream=raw.get),
                          cuda=types.SimpleNamespace(device_count=lambda: 1, current_stream=lambda device:
                                                     types.SimpleNamespace(cuda_stream=raw[device])))
        cupy = framework("cupy", cuda=types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=9)))
        with unittest.mock.patch.dict(sys.modules, torch=torch, cupy=cupy):
            for array, stream in ((ByInterface(), 0), (ByInterface(None), 0), (ByInterface(5), 5), (ByInterface(1), 1),
                                  (OfCuPy(), 9), (OfTorch(), 7)):
                with self.subTest(type(array).__name__, stream=stream):
                    self.assertEqual(self.streams(program, array), [f"launch {stream}"])
            tensors = Tensors(1)
            for stream in (7, 3):
                raw[0] = stream
                self.log.write_text("")
                program.for_torch().launch(tensors.pointers, OfTorch())
                self.assertIn(f" stream {stream} ", self.lines()[0])
            self.assertEqual(self.streams(program, ByInterface()), ["launch 0"])
        calls = program.for_torch().for_scalars()
        self.assertIs(calls.for_torch(), calls)

    def test_arrays_of_several_streams_are_waited_for(self):
        program = _launch_cuda.CudaProgram(artifact(step("one_pp", buffer("x", 64), buffer("y", 64))),
                                           {"x": "f32", "y": "f32"}, 0)
        self.assertEqual(self.streams(program, ByInterface(5), ByInterface(6)),
                         ["record 6", "wait 5", "launch 5", "record 5", "wait 6"])
        for arrays in ((ByInterface(5), ByInterface(5)), (ByInterface(), ByInterface(5))):
            self.assertEqual(self.streams(program, *arrays), ["launch 5"])

    def test_arguments_are_as_wide_as_the_kernel_reads_them(self):
        made = artifact(step("scale_psfip", buffer("y", 64, "output"), scalar("n", "i64", 1 << 40),
                             scalar("a", "f32", 0.5), scalar("m", "i32", -3), buffer("x", 64)))
        program = self.launch(made, {"x": "f32", "y": "f32"}, 1.5, 2.5)
        self.assertEqual(self.lines(), ["launch scale_psfip grid 7 1 1 block 128 1 1 shared 0 2.5 "
                                        "1099511627776 0.5 -3 1.5 variable 0"])
        again = Tensors(7, 8)
        program.launch(again.pointers, again)
        self.assertIn(" 8 1099511627776 0.5 -3 7 ", self.lines()[1])

    def test_scalars_of_a_call(self):
        one = [scalar("n", "i32", 3), scalar("a", "f32", 0.5), buffer("x", 64)]
        made = artifact(step("scale_ifp", *one), step("again_ifp", *one))
        program = self.launch(made, {"x": "f32"}, 1)
        other, tensors = program.for_scalars(), Tensors(1)
        for of, a in ((other, 0.25), (other, 8.0), (program, 0.5), (other, 8.0)):
            if of is other:
                of.set_scalars({"a": a})
            self.log.write_text("")
            of.launch(tensors.pointers, tensors)
            self.assertEqual([f" 3 {a:g} 1 " in line for line in self.lines()], [True, True], self.lines())
        with self.assertRaisesRegex(ValueError, "'n' is no scalar that a call can set; those are a"):
            other.set_scalars({"n": 4})

    def test_launch_attributes(self):
        made = artifact(step("one_p", buffer("x", 64), cluster=[16, 1, 1], grid=[16, 2, 1], shared_bytes=100000),
                        step("two_p", buffer("x", 64), cooperative=True, programmatic_dependent_launch=True))
        self.launch(made, {"x": "f32"}, 1)
        self.assertEqual(self.lines(), [
            "launch one_p grid 16 2 1 block 128 1 1 shared 100000 attribute 4 16 1 1 1 variable 0",
            "launch two_p grid 7 1 1 block 128 1 1 shared 0 attribute 2 1 0 0 attribute 6 1 0 0 1 variable 0"])
        text = self.log.read_text()
        self.assertIn("attribute one_p 8 100000", text)
        self.assertIn("attribute one_p 14 1", text)
        self.assertNotIn("attribute two_p 14", text)

    def test_blocks_that_walk_are_no_more_than_run_at_once(self):
        for grid, cluster, launched in ((32, 4, 12), (8, 4, 8), (7, 1, 3)):
            made = artifact(step("walk_p", buffer("x", 64), grid=[grid, 1, 1], cluster=[cluster, 1, 1], resident=True))
            self.launch(made, {"x": "f32"}, 1)
            self.assertIn(f"launch walk_p grid {launched} 1 1 ", self.lines()[-1])

    def test_symbols_and_zeroing(self):
        made = artifact(step("sum_p", buffer("x", 64, "inout"), zero=[buffer("x", 64, "inout")]),
                        symbols=[{"variable": "t36", "unit": 0, "buffer": buffer("taps", 9)}])
        self.launch(made, {"taps": "f32", "x": "f32"}, 3.5, 9)
        self.assertEqual(self.lines(), ["memset 256",
                                        "launch sum_p grid 7 1 1 block 128 1 1 shared 0 0 variable 3.5"])

    def test_tensor_maps(self):
        plan = {"kind": "tensor_map", "name": "map", "buffer": "x", "dims": [8, 8], "strides_bytes": [16],
                "box": [8, 4], "swizzle_bytes": 128, "l2_promotion_bytes": 256}
        self.launch(artifact(step("gemm_pm", buffer("y", 64, "output"), plan)), {"x": "bf16", "y": "f32"}, 1, 2)
        self.assertIn(" 2 [map 9 2 8 16 4 3 3] ", self.lines()[0])

    def test_strides_change_integers_and_tensor_maps(self):
        plan = {"kind": "tensor_map", "name": "map", "buffer": "x", "dims": [8, 8], "strides_bytes": [16],
                "box": [8, 4], "swizzle_bytes": 128, "l2_promotion_bytes": 256}
        program = _launch_cuda.CudaProgram(
            artifact(step("two_pmi", buffer("y", 64, "output"), plan, scalar("pitch", "i32", 8))), {"x": "bf16", "y": "f32"}, 0)
        tensors = Tensors(1, 2)
        for pitch in (24, 40):
            placed = _strides.Placed(((pitch, 1), (8, 1)), {"pitch": pitch}, {"map": ([None, None], [2 * pitch])})
            self.log.write_text("")
            program.for_strides(placed, {}).launch(tensors.pointers, tensors)
            self.assertIn(f" 2 [map 9 2 8 {2 * pitch} 4 3 3] {pitch}", self.lines()[0])
        self.log.write_text("")
        program.launch(tensors.pointers, tensors)
        self.assertIn(" 2 [map 9 2 8 16 4 3 3] 8", self.lines()[0])
        with self.assertRaisesRegex(ValueError, "pitch is 4294967296 for these strides, which is more than an i32 holds"):
            program.for_strides(_strides.Placed((), {"pitch": 1 << 32}, {}), {})

    def test_what_cannot_be_loaded_or_launched(self):
        one = step("one_p", buffer("x", 64))
        for made, why in ((artifact(one, binary=b"text"), "CUDA_ERROR_INVALID_IMAGE"),
                          (artifact(one, symbols=[{"variable": "t8", "unit": 0, "buffer": buffer("x", 64)}]),
                           "has 8 bytes, not 256"),
                          (artifact(step("one_p", buffer("z", 64))), "'z' is none of the kernel's args"),
                          (artifact(step("one_p", scalar("a", "i4", 1))), "no usable dtype")):
            with self.subTest(why), self.assertRaisesRegex(_artifact.ArtifactError, why):
                self.launch(made, {"x": "f32"}, 1)
        with self.assertRaisesRegex(_program.LaunchError, "cuLaunchKernelEx: CUDA_ERROR_LAUNCH_FAILED"):
            self.launch(artifact(step("bad_p", buffer("x", 64))), {"x": "f32"}, 1)


if __name__ == "__main__":
    unittest.main()
