# SPDX-License-Identifier: Apache-2.0
"""Arrays that have __dlpack__ alone: described as what they are, and computed on by a kernel."""
import sys
import unittest

import kit  # pylint: disable=unused-import
from tunectl import _arrays

try:
    import numpy
except ImportError:
    sys.exit(77)


class Bare:
    """NumPy's array without its other interfaces. `version`: as an older producer, 0, which takes no arguments."""

    def __init__(self, array, version=1, device=None):
        self.array, self.version, self.device, self.asked = array, version, device, None

    def __dlpack_device__(self):
        return self.device or self.array.__dlpack_device__()

    def __dlpack__(self, **asked):
        if self.version == 0 and "max_version" in asked:
            raise TypeError("an unexpected keyword argument")
        self.asked = asked
        return self.array.__dlpack__(**{name: value for name, value in asked.items() if name != "stream"})


class Dlpack(unittest.TestCase):
    def assert_described(self, array, is_writable=True, **how):
        told, expected = _arrays.describe(Bare(array, **how)), _arrays.describe(array)
        self.assertEqual(told, expected._replace(is_writable=is_writable))

    def test_described_as_by_other_interfaces(self):
        for dtype in ("f2", "f4", "f8", "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"):
            with self.subTest(dtype):
                self.assert_described(numpy.zeros((3, 5), dtype))
        self.assert_described(numpy.zeros((), "f4"))
        self.assert_described(numpy.zeros((3, 0, 4), "f4"))
        self.assert_described(numpy.zeros((4, 6), "f4")[1:])

    def test_strided_ones_are_not_contiguous(self):
        self.assert_described(numpy.zeros((4, 6), "f4")[:, 1:])
        self.assert_described(numpy.zeros((4, 6), "f4").T)

    def test_who_may_write(self):
        frozen = numpy.zeros(4, "f4")
        frozen.flags.writeable = False
        self.assert_described(frozen, is_writable=False)
        self.assert_described(numpy.zeros(4, "f4"), is_writable=False, version=0)  # it cannot tell

    def test_a_gpu_array_is_asked_to_be_ready_on_the_default_stream(self):
        bare = Bare(numpy.zeros(4, "f4"), device=(2, 3))
        self.assertEqual(_arrays.describe(bare).device, "cuda:3")
        self.assertEqual(bare.asked["stream"], 1)

    def test_what_no_kernel_takes(self):
        with self.assertRaisesRegex(TypeError, "device 8"):
            _arrays.describe(Bare(numpy.zeros(4, "f4"), device=(8, 0)))
        self.assertIn("bits", _arrays.describe(Bare(numpy.zeros(4, "c8"))).dtype)


if __name__ == "__main__":
    unittest.main()
