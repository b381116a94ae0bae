# SPDX-License-Identifier: Apache-2.0
"""Peers in NumPy, for the family `numpy`, which any host runs."""
from frameworks import Peer


def saxpy(x, y, a):
    return x * x.dtype.type(a) + y


def saxpy_prepared(x, y, a):
    import numpy
    out, factor = numpy.empty_like(x), x.dtype.type(a)

    def call():
        numpy.multiply(x, factor, out=out)
        return numpy.add(out, y, out=out)
    return call


SAXPY = {"numpy": saxpy, "numpy_out": Peer(saxpy_prepared)}
