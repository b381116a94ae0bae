# SPDX-License-Identifier: Apache-2.0
"""Which devices this process has: by the driver's management library, on a host that has none."""
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import kit  # noqa: F401  # puts the package on the path
from tunectl import _device

HERE = pathlib.Path(__file__).resolve().parent
FIRST, SECOND = "GPU-00000000-aaaa", "GPU-11111111-bbbb"


class Visible(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        cls.addClassCleanup(folder.cleanup)
        library = pathlib.Path(folder.name) / "libnvidia-ml.so.1"
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, HERE / "fake_nvml.c"], check=True)
        version = pathlib.Path(folder.name) / "version"
        version.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun\n")
        real = _device.ctypes.CDLL
        for patch in (unittest.mock.patch.object(_device, "_DRIVER_VERSION", str(version)),
                      unittest.mock.patch.object(_device.ctypes, "CDLL", lambda name: real(
                          str(library) if "nvidia-ml" in name else name))):
            patch.start()
            cls.addClassCleanup(patch.stop)

    def setUp(self):
        for cached in (_device._driver, _device._without_torch):
            cached.cache_clear()
            self.addCleanup(cached.cache_clear)

    def names(self, visible=None, alike="0"):
        more = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        with unittest.mock.patch.dict(os.environ, FAKE_NVML_ALIKE=alike, **more):
            if visible is None:
                os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            return [(one.id, one.name, one.target) for one in _device._of_nvml()]

    def test_the_gpus_that_the_environment_leaves(self):
        h200, a100 = ("NVIDIA H200", "sm_90a"), ("NVIDIA A100", "sm_80")
        self.assertEqual(self.names(), [("cuda:0", *h200), ("cuda:1", *a100)])
        for visible, left in (("1", [a100]), ("1,0", [a100, h200]), ("", []), ("-1", []), ("0,9,1", [h200]),
                              (SECOND, [a100]), (SECOND.upper(), [a100]), (SECOND.lower(), [a100]), ("gpu-1", [a100]),
                              ("GPU-", [])):
            with self.subTest(visible):
                self.assertEqual([one[1:] for one in self.names(visible)], left)

    def test_a_slice_is_of_its_gpu(self):
        for visible, left in (("MIG-of-1", "NVIDIA A100"), (f"MIG-{FIRST}/1/0", "NVIDIA H200"),
                              (f"mig-{SECOND}/1/0", "NVIDIA A100")):
            with self.subTest(visible):
                self.assertEqual([one[1] for one in self.names(visible)], [left])
        self.assertEqual(self.names("MIG-nobody"), [("cuda:0", "MIG", "")], "a GPU that is not known, never the CPU")
        self.assertEqual([one[1] for one in self.names("MIG-nobody", alike="1")], ["NVIDIA H200"], "all are alike")

    def test_torch_is_not_asked_before_it_works_on_a_gpu(self):
        def refuse(*all_of):
            self.fail("this would initialise CUDA")

        cuda = types.SimpleNamespace(is_initialized=lambda: False, is_available=refuse, current_device=refuse,
                                     device_count=refuse, get_device_name=refuse, get_device_capability=refuse,
                                     get_device_properties=refuse)
        with unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=cuda)):
            with unittest.mock.patch.dict(os.environ, FAKE_NVML_ALIKE="0"):
                os.environ.pop("CUDA_VISIBLE_DEVICES", None)
                self.assertEqual([one.name for one in _device.local_devices()][:2], ["NVIDIA H200", "NVIDIA A100"])
            cuda.is_initialized = lambda: True
            cuda.current_device, cuda.device_count = lambda: 1, lambda: 2
            cuda.get_device_name, cuda.get_device_capability = lambda i: f"GPU {i}", lambda i: (9, 0)
            cuda.get_device_properties = lambda i: types.SimpleNamespace(multi_processor_count=132)
            self.assertEqual([one.name for one in _device.local_devices()][:2], ["GPU 1", "GPU 0"])


if __name__ == "__main__":
    unittest.main()
