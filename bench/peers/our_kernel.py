# SPDX-License-Identifier: Apache-2.0
"""Runs a config of a kernel in the process of PyTorch, so that it can be timed by turns with peers.

The spec comes as JSON from `tunectl kernel show`; its expressions are evaluated by our own Python package. The
source is compiled by NVRTC, and launched by the driver on PyTorch's stream. CUDA C++ only.
"""
import ctypes
import functools
import glob
import json
import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client/python/src"))
from tunectl._expression import Expression, ExpressionError  # noqa: E402

TORCH_TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
               "e4m3": torch.float8_e4m3fn, "i8": torch.int8, "u8": torch.uint8, "i32": torch.int32, "i64": torch.int64}
C_TYPES = {"f64": "double", "f32": "float", "f16": "__half", "bf16": "__nv_bfloat16", "e4m3": "__nv_fp8_e4m3"}
SCALARS = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "f32": ctypes.c_float,
           "f64": ctypes.c_double}
MAP_TYPES = {"f64": 8, "f32": 7, "f16": 6, "bf16": 9, "i32": 4, "u8": 0, "i8": 0, "e4m3": 0, "i64": 5}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
SHARED_BYTES = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
NON_PORTABLE_CLUSTER = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
CLUSTER = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
PROGRAMMATIC = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class LaunchAttribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class LaunchConfig(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)),
                ("attribute_count", ctypes.c_uint)]


class TensorMap(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_ulonglong * 16)]


@functools.cache
def driver():
    return ctypes.CDLL("libcuda.so.1")


def check(result, what):
    if result != 0:
        text = ctypes.c_char_p()
        driver().cuGetErrorString(result, ctypes.byref(text))
        raise RuntimeError(f"{what}: {(text.value or b'?').decode()} ({result})")


def toolkit(pattern):
    """The first of PyTorch's wheels or of an installed toolkit that has a file."""
    roots = [*(f"{path}/nvidia" for path in sys.path if path), "/usr/local/cuda*", "/usr/local/cuda*/targets/*"]
    found = [match for root in roots for match in sorted(glob.glob(f"{root}/**/{pattern}", recursive=True))]
    if not found:
        raise RuntimeError(f"no {pattern} in PyTorch's wheels or in /usr/local/cuda")
    return found[0]


@functools.cache
def nvrtc():
    try:
        return ctypes.CDLL(toolkit("libnvrtc.so.1[2-9]"))
    except RuntimeError:
        return ctypes.CDLL("libnvrtc.so")


def nvrtc_version():
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


def compile_source(folder, spec, macros, target):
    """A cubin of the spec's source. RuntimeError has the compiler's log."""
    def text_of(name):
        own = folder / name
        return (own if own.exists() else ROOT / "kernels/include" / name).read_bytes()  # the shared headers

    names = spec.get("headers", [])
    program = ctypes.c_void_p()
    strings = ctypes.c_char_p * len(names)
    nvrtc().nvrtcCreateProgram(ctypes.byref(program), text_of(spec["source"]), spec["source"].encode(), len(names),
                               strings(*map(text_of, names)), strings(*(name.encode() for name in names)))
    options = [f"--gpu-architecture={target}", "--std=c++17", "-default-device",
               f"-I{pathlib.Path(toolkit('cuda_bf16.h')).parent}", *spec.get("nvrtc_options", []),
               *(f"-D{name}={value}" for name, value in macros.items())]
    result = nvrtc().nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*(option.encode() for option in options)))

    def output(kind):
        size = ctypes.c_size_t()
        getattr(nvrtc(), f"nvrtcGet{kind}Size")(program, ctypes.byref(size))
        data = ctypes.create_string_buffer(size.value)
        getattr(nvrtc(), f"nvrtcGet{kind}")(program, data)
        return data.raw

    if result != 0:
        raise RuntimeError(output("ProgramLog").decode(errors="replace")[-2000:])
    cubin = output("CUBIN")
    nvrtc().nvrtcDestroyProgram(ctypes.byref(program))
    return cubin


class Scope:
    """What the names of a spec's expressions mean for one config of one problem on this GPU."""

    def __init__(self, spec, dims, dtype, config):
        properties = torch.cuda.get_device_properties(0)
        sm = properties.major * 10 + properties.minor
        self.target = f"sm_{sm}" + ("a" if sm >= 90 else "")
        self.sm = sm
        defaults = {dim["name"]: int(dim.get("default_value", 0)) for dim in spec["dims"]}
        self.names = {**defaults, **dims, "dtype": dtype, "dtype_bytes": TORCH_TYPES[dtype].itemsize,
                      "target": self.target, "sm": sm, "sm_count": properties.multi_processor_count, **config}
        for let in spec.get("lets", []):
            try:
                self.names[let["name"]] = self(let["value"])
            except ExpressionError:
                pass  # an error only where it is used

    def __call__(self, text):
        return Expression(text).evaluate(self.names)

    def dtype(self, buffer):
        return buffer["dtype"] if buffer["dtype"] in TORCH_TYPES else self(buffer["dtype"])

    def all(self, texts):
        return [int(self(text)) for text in texts]


class Variant:
    """One config, loaded. A call launches its steps. `tensors` has the buffers by name; those that are not given
    are allocated. `scalars` overrides the spec's values."""

    def __init__(self, tunectl, kernel, dims, dtype, config, tensors, scalars=None):
        shown = subprocess.run([tunectl, "kernel", "show", kernel, "--json"], capture_output=True, text=True,
                               check=True, timeout=120)
        self.spec = json.loads(shown.stdout)["spec"]
        path = pathlib.Path(kernel)
        folder = path.parent if path.suffix else ROOT / "kernels" / kernel
        self.scope = Scope(self.spec, dims, dtype, config)
        self.tensors = dict(tensors)
        self.kept = []  # what the driver's parameter lists point to
        self.arguments = self._arguments(scalars or {})
        macros = {"DTYPE": C_TYPES[dtype], f"DTYPE_{dtype.upper()}": 1, **config}
        for define in self.spec.get("defines", []):
            macros[define["name"]] = self.scope(define["value"])
        cubin = compile_source(folder, self.spec, {name: int(value) if isinstance(value, bool) else value
                                                   for name, value in macros.items()}, self.scope.target)
        self.module = ctypes.c_void_p()
        check(driver().cuModuleLoadData(ctypes.byref(self.module), cubin), "cuModuleLoadData")
        steps = self.spec.get("steps") or [{"entry": self.spec["entry"], "launch": self.spec["launch"]}]
        steps = [step for step in steps if not step.get("when") or self.scope(step["when"])]
        self.steps = [self._step(step, is_first=step is steps[0]) for step in steps]

    def _arguments(self, scalars):
        arguments = {}
        for arg in self.spec["args"]:
            name = arg["name"]
            if "buffer" in arg:
                if name not in self.tensors:
                    self.tensors[name] = torch.empty(self.scope.all(arg["buffer"]["shape"]), device="cuda",
                                                     dtype=TORCH_TYPES[self.scope.dtype(arg["buffer"])])
                arguments[name] = ctypes.c_void_p(self.tensors[name].data_ptr())
            elif "scalar" in arg:
                value = scalars.get(name, self.scope(arg["scalar"]["value"]))
                arguments[name] = SCALARS[arg["scalar"]["dtype"]](value)
            elif self.scope.sm >= 90:
                arguments[name] = self._tensor_map(arg["tensor_map"])
        return arguments

    def _tensor_map(self, described):
        dims, strides, box = (self.scope.all(described.get(key, [])) for key in ("dims", "strides", "box"))
        room = ctypes.create_string_buffer(ctypes.sizeof(TensorMap) + 64)  # the driver wants 64-byte alignment
        self.kept.append(room)
        made = TensorMap.from_address(-(-ctypes.addressof(room) // 64) * 64)
        buffer = next(arg["buffer"] for arg in self.spec["args"] if arg["name"] == described["buffer"])
        check(driver().cuTensorMapEncodeTiled(
            ctypes.byref(made), MAP_TYPES[self.scope.dtype(buffer)], len(dims),
            ctypes.c_void_p(self.tensors[described["buffer"]].data_ptr()),
            (ctypes.c_uint64 * len(dims))(*dims), (ctypes.c_uint64 * len(dims))(*strides),
            (ctypes.c_uint32 * len(dims))(*box), (ctypes.c_uint32 * len(dims))(*([1] * len(dims))), 0,
            SWIZZLES[described.get("swizzle_bytes", 0)], PROMOTIONS[described.get("l2_promotion_bytes", 0)], 0),
              "cuTensorMapEncodeTiled")
        return made

    def _step(self, step, is_first):
        function = ctypes.c_void_p()
        check(driver().cuModuleGetFunction(ctypes.byref(function), self.module, step["entry"].encode()),
              step["entry"])
        launch = step["launch"]
        config = LaunchConfig()
        config.grid[:] = (self.scope.all(launch["grid"]) + [1, 1])[:3]
        config.block[:] = (self.scope.all(launch["block"]) + [1, 1])[:3]
        config.shared_bytes = int(self.scope(launch.get("shared_bytes") or "0"))
        check(driver().cuFuncSetAttribute(function, SHARED_BYTES, config.shared_bytes), "shared memory")
        cluster = (self.scope.all(launch.get("cluster", [])) + [1, 1, 1])[:3]
        if cluster != [1, 1, 1] or launch.get("resident"):
            check(driver().cuFuncSetAttribute(function, NON_PORTABLE_CLUSTER, 1), "clusters of 16 blocks")
            self._add(config, CLUSTER, cluster)
        if launch.get("programmatic_dependent_launch") and not is_first:
            self._add(config, PROGRAMMATIC, [1])
        if launch.get("resident"):
            clusters = ctypes.c_int()
            check(driver().cuOccupancyMaxActiveClusters(ctypes.byref(clusters), function, ctypes.byref(config)),
                  "cuOccupancyMaxActiveClusters")
            config.grid[0] = min(config.grid[0], clusters.value * cluster[0])
        arguments = [self.arguments[name] for name in step.get("args") or self.arguments if name in self.arguments]
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        zero = [self.tensors[name] for name in step.get("zero", [])]
        return function, config, pointers, zero

    def _add(self, config, name, values):
        """Gives a launch one attribute more."""
        attributes = (LaunchAttribute * (config.attribute_count + 1))(
            *config.attributes[:config.attribute_count], LaunchAttribute(id=name))
        attributes[-1].value[:len(values)] = values
        config.attributes, config.attribute_count = attributes, len(attributes)
        self.kept.append(attributes)

    def __call__(self):
        stream = torch.cuda.current_stream().cuda_stream
        for function, config, pointers, zero in self.steps:
            for tensor in zero:
                tensor.zero_()
            config.stream = stream
            check(driver().cuLaunchKernelEx(ctypes.byref(config), function, pointers, None), "cuLaunchKernelEx")
