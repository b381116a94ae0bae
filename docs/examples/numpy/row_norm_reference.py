# SPDX-License-Identifier: Apache-2.0
"""What is right of row_norm: parameters are called as the spec's args and dims."""
import numpy as np


def row_norm(x):
    wide = x.astype(np.float64)
    norms = np.sqrt((wide * wide).sum(axis=1))
    return wide / norms[:, None], norms
