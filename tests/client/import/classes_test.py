# SPDX-License-Identifier: Apache-2.0
"""Classes that tune: what reading makes of their attributes, methods and ancestors is what Python makes of them."""
import importlib.util
import re
import unittest

import kit

HEAD = '''import dataclasses
import numpy as np
from abc import ABC
from dataclasses import dataclass, field
from kernel_tuner import tune_kernel
SOURCE = """__global__ void scale(float* y, const float* x, int n) {
    int i = blockIdx.x * block_size_x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }"""
class Base:
    values = (32, 64)
    factor = 1
    def __init__(self, size=1000):
        self.size = size * self.factor
    def more(self):
        return [1024]
    @classmethod
    def make(cls, *args, **names):
        return cls(*args, **names)
    @property
    def space(self):
        return {"block_size_x": [*self.values, *self.more()]}
    def tune(self):
        x = np.random.randn(self.size).astype(np.float32)
        tune_kernel("scale", SOURCE, self.size, [np.zeros_like(x), x, np.int32(self.size)], self.space)
    def __call__(self, *more):
        self.tune()
'''
MIDDLE = "class Middle(Base):\n    def more(self):\n        return super().more() + [256]\n"


class Ancestors(kit.Import):
    def agrees(self, text, size, values):
        """Reading and running give the size and the values that are known from Python, with nothing left to write."""
        for run in (True, False)[not importlib.util.find_spec("numpy"):]:
            answer = self.read(HEAD + text, run=run)
            self.assertEqual((answer.error, answer.left), ("", ""), (run, text))
            dims = {name: int(value) for name, value in re.findall(r'dims { name: "(\w+)" default_value: (\d+)', answer.spec)}
            self.assertEqual(eval(re.search(r'"n" scalar .* value: "(.*?)"', answer.spec)[1], dims), size, (run, text))
            self.assertIn(f'"block_size_x" values: "{values}"', answer.spec, (run, text))

    def test_what_an_ancestor_asks_of_itself_is_the_descendants(self):
        self.agrees("class Tuner(Base):\n    factor = 4\n    values = (96,)\n    def __init__(self, size):\n"
                    "        super().__init__(size)\nTuner(500).tune()\n", 2000, [96, 1024])
        self.agrees(MIDDLE + "class Tuner(Middle):\n    values = ()\nTuner(500).tune()\n", 500, [1024, 256])
        self.agrees(MIDDLE + "class Tuner(Middle):\n    values = ()\n    def more(self):\n"
                    "        return super(Tuner, self).more() + [512]\nTuner().tune()\n", 1000, [1024, 256, 512])

    def test_a_method_of_two_ancestors_is_the_nearer_ones(self):
        self.agrees("class Left(Base):\n    pass\nclass Right(Base):\n    values = (96,)\n    def more(self):\n"
                    "        return [2]\nclass Tuner(Left, Right):\n    pass\nTuner(500).tune()\n", 500, [96, 2])

    def test_a_method_of_the_class_is_of_the_class_that_is_asked(self):
        self.agrees(MIDDLE + "class Tuner(Middle):\n    values = (96,)\nTuner.make(size=500)()\n", 500, [96, 1024, 256])
        self.agrees(MIDDLE + "KINDS = {'base': Base, 'middle': Middle}\nKINDS['middle'](500).tune()\n", 500, [32, 64, 1024, 256])

    def test_dataclasses_have_their_fields_and_what_is_done_after(self):
        self.agrees("@dataclass\nclass One(Base):\n    size: int = 1000\n@dataclass\nclass Tuner(One):\n"
                    "    last: list = field(default_factory=lambda: [8])\n    def more(self):\n        return self.last\n"
                    "    def __post_init__(self):\n        self.size *= 2\nTuner(700).tune()\n", 1400, [32, 64, 8])
        self.agrees("@dataclasses.dataclass(frozen=True)\nclass Tuner(Base, ABC):\n    size: int\n"
                    "    last: int = dataclasses.field(default=16)\n    def more(self):\n        return [self.last]\n"
                    "Tuner(700).tune()\nTuner(1, 2)\n", 700, [32, 64, 16])

    def test_classes_that_are_made_otherwise_are_told(self):
        for text in ("@register\nclass Tuner(Base):\n    factor = 3\nTuner(500).tune()\n",
                     "class Tuner(Base, metaclass=Kind):\n    factor = 3\nTuner(500).tune()\n",
                     "class Tuner(Base):\n    def __new__(cls, size):\n        return Base(7)\nTuner(500).tune()\n",
                     "class Tuner(Base):\n    def __getattribute__(self, name):\n        return 7\nTuner(500).tune()\n",
                     "class Tuner(foreign.Base, Base):\n    pass\nTuner(500).tune()\n",
                     "class Tuner(Base):\n    factor = 3\nfor one in foreign.every(Base): one(7).tune()\n"):
            answer = self.read(HEAD + "import foreign\nfrom foreign import register, Kind\n" + text)
            self.assertEqual(answer.error, "")
            self.assertNotEqual(answer.left, "", text)


if __name__ == "__main__":
    unittest.main()
