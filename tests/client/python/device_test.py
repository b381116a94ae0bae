# SPDX-License-Identifier: Apache-2.0
"""Which devices this process has: by the driver's management library, on a host that has none."""
import ast
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import unittest.mock

import kit
from tunectl import _device

HERE = pathlib.Path(__file__).resolve().parent
FIRST, SECOND = "GPU-00000000-aaaa", "GPU-11111111-bbbb"


class Visible(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", cls.folder / "libnvidia-ml.so.1", HERE / "fake_nvml.c"],
                       check=True)

    def names(self, visible=None, alike="0"):
        """What libtune finds in a process of its own: it looks once."""
        return ast.literal_eval(self.run_python(
            "from tunectl import _device; print([one[:] for one in _device.local_devices()[:-1]])", visible, alike))

    def run_python(self, code, visible, alike="0"):
        env = {**os.environ, "FAKE_NVML_ALIKE": alike, "LD_LIBRARY_PATH": str(self.folder), "PYTHONPATH": str(kit.PACKAGE)}
        env.pop("CUDA_VISIBLE_DEVICES", None)
        env |= {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        return subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True).stdout

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
        snapshot = self.folder / "tuned.json"
        snapshot.write_bytes(kit.snapshot_bytes([kit.record(1)]))
        code = f"import tunectl; print(tunectl.open({str(snapshot)!r}).best('scale', n=4096, mode=0).reason)"
        self.assertRegex(self.run_python(code, "MIG-nobody"), "^it is not known which GPU 'MIG' is: name the device")

    def test_torch_is_not_asked_before_it_works_on_a_gpu(self):
        def refuse(*all_of):
            self.fail("this would initialise CUDA")

        cuda = types.SimpleNamespace(is_initialized=lambda: False, is_available=refuse, current_device=refuse,
                                     device_count=refuse, get_device_name=refuse, get_device_capability=refuse,
                                     get_device_properties=refuse)
        with unittest.mock.patch.dict(sys.modules, torch=types.SimpleNamespace(cuda=cuda)):
            self.assertEqual(_device.asked_for("cuda:1"), "cuda:1", "libtune knows what that is")
            self.assertEqual(_device.local_devices()[-1].id, "cpu")
            cuda.is_initialized = lambda: True
            cuda.current_device, cuda.device_count = lambda: 1, lambda: 2
            cuda.get_device_name = lambda i: f"GPU {i}"
            self.assertEqual([one.name for one in _device.local_devices()][:2], ["GPU 1", "GPU 0"])
            for asked, name in ((None, "GPU 1"), ("cuda", "GPU 1"), ("cuda:0", "GPU 0"), (1, "GPU 1"), ("cpu", "cpu"),
                                ("NVIDIA H200", "NVIDIA H200")):
                self.assertEqual(_device.asked_for(asked), name)


if __name__ == "__main__":
    unittest.main()
