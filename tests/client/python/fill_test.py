# SPDX-License-Identifier: Apache-2.0
"""The inputs that peers and Python's own kernels get are the daemon's, bit by bit."""
import importlib.util
import json
import unittest

import kit
from tunectl import _fill, _peer


class FillTest(unittest.TestCase):
    """All ports give the bits that tuner/device/fill.h gives."""

    def vectors(self):
        vectors = json.loads((kit.ROOT / "tests/data/fill_vectors.json").read_text())
        self.assertGreater(len(vectors), 10)
        return vectors

    def check(self, numpy):
        for v in self.vectors():
            key = _fill.fill_key(v["seed"], v["name"])
            about = v["dtype"], v["count"], v["kind"], v["low"], v["high"], key
            made = _fill._with_numpy(numpy, *about) if numpy else _fill._one_by_one(*about)
            self.assertEqual(made.hex(), v["elements"], v)

    def test_one_by_one(self):
        self.check(None)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
    def test_in_arrays(self):
        import numpy

        self.check(numpy)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_in_tensors_of_torch(self):
        import torch

        arrays = _peer.Torch(on_gpu=False)
        for v in self.vectors():
            made = arrays.filled({**v, "key": v["name"], "shape": [v["count"]]}, v["seed"])
            self.assertEqual(made.view(torch.uint8).numpy().tobytes().hex(), v["elements"], v)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
    def test_peers_in_numpy_see_e4m3_as_f32(self):
        arrays = _peer.Numpy()
        bits = bytes(bit for bit in range(256) if bit & 0x7F != 0x7F)  # less NaN
        made = arrays.make(bits, "e4m3", [2, 127])
        self.assertEqual((made.dtype, made.shape), ("float32", (2, 127)))
        self.assertEqual([made[0, 1], made[0, 8], made[0, 126], made[1, 0x38]], [2**-9, 2**-6, 448, -1])
        self.assertEqual(arrays.take(made, "e4m3", 254), bits)
        self.assertEqual(arrays.take(made * 2, "e4m3", 254)[126], 0x7E, "what is too large is the largest")
        arrays.copy(made, b"\x38" * 254)
        self.assertEqual((made.min(), made.max()), (1, 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
