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


if __name__ == "__main__":
    unittest.main(verbosity=2)
