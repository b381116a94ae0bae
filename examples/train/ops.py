# SPDX-License-Identifier: Apache-2.0
"""The four operations of the model that the service has kernels for, in two forms of equal meaning.

eager()    the framework's own
tuned()    tunectl.kernel, with the framework's own for sizes that nobody tuned
"""
import torch
import torch.nn.functional as F

import tunectl

EPSILON = 1e-6  # of kernels/rmsnorm


def norm(x, residual, weight):
    """The framework's own, which has one output and knows no residual."""
    return (F.rms_norm(x, weight.shape, weight, EPSILON),)


def rms_norm(x, residual, weight):
    """As the kernel: the normed rows, their sum with a residual (none here), and 1 / rms of each row."""
    rstd = torch.rsqrt(x.float().square().mean(-1) + EPSILON)
    return (x.float() * rstd[:, None]).to(x.dtype) * weight, residual.clone(), rstd


def rope(q, k, cosine, sine):
    """Pairs of elements i and i + head_dim / 2 of [seq, batch, heads, head_dim] are turned."""
    def turn(x):
        low, high = x.float().chunk(2, dim=-1)
        c, s = cosine[:, None, None, :], sine[:, None, None, :]
        return torch.cat((low * c - high * s, high * c + low * s), dim=-1).to(x.dtype)

    return turn(q), turn(k)


def softmax(x):
    return torch.softmax(x, dim=-1)


def swiglu(gate, up):
    return F.silu(gate) * up


def attention(q, k, v):
    """As the kernel: causal, and the log-sum-exp of each row, which the backward kernel reads."""
    made = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)
    return made[0], made[1]


class Ops:
    """The model's operations, on its own shapes."""

    def __init__(self, rms_norm, rope, softmax, swiglu, attention):
        self._rms_norm, self._rope, self._softmax = rms_norm, rope, softmax
        self._swiglu, self._attention = swiglu, attention

    def rms_norm(self, x, weight):
        rows = x.reshape(-1, x.shape[-1])
        return self._rms_norm(rows, rows.new_empty(1, 1), weight)[0].view(x.shape)

    def rope(self, q, k, cosine, sine):
        return self._rope(q, k, cosine, sine)

    def swiglu(self, gate, up):
        width = gate.shape[-1]
        return self._swiglu(gate.view(-1, width), up.view(-1, width)).view(gate.shape)

    def causal_attention(self, q, k, v):
        """Of [batch, heads, seq, head_dim]."""
        if q.dtype != torch.float32:
            return self._attention(q, k, v)[0]
        seq = q.shape[2]
        later = torch.ones(seq, seq, dtype=torch.bool, device=q.device).triu(1)
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(later, -torch.inf)
        return self._softmax(scores.view(-1, seq)).view(scores.shape) @ v


def eager():
    return Ops(norm, rope, softmax, swiglu, attention)


KERNELS = {
    "rmsnorm": tunectl.kernel("rmsnorm", fallback=rms_norm, residual=0),
    "rope": tunectl.kernel("rope", fallback=rope, interleaved=0, backward=0),
    "softmax": tunectl.kernel("softmax", fallback=softmax),
    "swiglu": tunectl.kernel("swiglu", fallback=swiglu),
    "attention": tunectl.kernel("attention", fallback=attention, causal=1),
}


def tuned():
    return Ops(KERNELS["rmsnorm"], KERNELS["rope"], KERNELS["softmax"], KERNELS["swiglu"], KERNELS["attention"])
