#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the elementwise kernels (swiglu, adamw, rope, QK-norm + rope) by turns with their peers in one process, cold
caches, one clock, and writes JSON.

For each case `tunectl sweep` finds our config first. Peers: PyTorch eager and torch.compile, the fused AdamW of
torch.optim, Liger where it can be imported, and `copy`, which reads and writes as many bytes as the kernel does. All get
the same inputs. The first result is compared with f32 ones on a part. A rate is of the least bytes: each tensor read
once and written once. Needs a CUDA GPU and PyTorch 2.5 or later.
"""
import torch
import torch.nn.functional as F

import beside
import turns
from peers_rows import compiled

PART = 1 << 16  # elements that are checked
ROPE_DIMS = {"seq": 4096, "batch": 8, "heads": 32, "kv_heads": 8, "head_dim": 128}
EPSILON = 1e-6


def random(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device="cuda", dtype=dtype)


class Swiglu:
    kernel, dtype, result = "swiglu", "bf16", "y"

    def __init__(self):
        self.dims = {"rows": 8192, "cols": 14336}
        self.gate, self.up = random(8192, 14336), random(8192, 14336)
        self.bytes = 3 * 2 * self.gate.numel()

    def ours(self):
        return {"gate": self.gate, "up": self.up}

    def plain(self, gate, up):
        return F.silu(gate) * up

    def makers(self):
        def liger():
            from liger_kernel.ops.swiglu import swiglu_forward
            return lambda: swiglu_forward(self.gate, self.up)[-1]
        quick = compiled(self.plain)
        return {"eager": lambda: lambda: self.plain(self.gate, self.up),
                "compile": lambda: lambda: quick(self.gate, self.up), "liger": liger}

    def truth(self):
        gate, up = (tensor.reshape(-1)[:PART].float() for tensor in (self.gate, self.up))
        return F.silu(gate) * up


class SwigluBackward(Swiglu):
    kernel, result = "swiglu_backward", "dgate"

    def __init__(self):
        super().__init__()
        self.dy = random(8192, 14336)
        self.bytes = 5 * 2 * self.gate.numel()

    def ours(self):
        return {"gate": self.gate, "up": self.up, "dy": self.dy}

    def makers(self):
        def backward_of(function):
            inputs = [tensor.detach().clone().requires_grad_() for tensor in (self.gate, self.up)]
            return turns.gradients_of(function(*inputs), inputs, self.dy)

        def liger():  # which writes over its inputs
            from liger_kernel.ops.swiglu import swiglu_backward
            own = self.gate.clone(), self.up.clone()
            call = lambda: swiglu_backward(self.dy, *own)  # noqa: E731
            call.is_in_place = True
            return call
        return {"eager": lambda: backward_of(self.plain), "compile": lambda: backward_of(compiled(self.plain)),
                "liger": liger}

    def truth(self):
        gate, up, dy = (tensor.reshape(-1)[:PART].float() for tensor in (self.gate, self.up, self.dy))
        sigmoid = torch.sigmoid(gate)
        return dy * up * sigmoid * (1 + gate * (1 - sigmoid))


class AdamW:
    """Of f32 parameters, which torch.optim has a fused step for."""
    kernel, dtype, result = "adamw", "f32", "p"
    rate, decay, beta1, beta2, epsilon, step = 0.1, 0.5, 0.9, 0.95, 1e-8, 10

    def __init__(self):
        count = 1 << 27
        self.dims = {"n": count}
        self.p, self.g, self.m = (random(count, dtype=torch.float32) for _ in range(3))
        self.v = torch.rand(count, device="cuda")
        self.before = [tensor[:PART].clone() for tensor in (self.p, self.g, self.m, self.v)]
        self.bytes = 7 * 4 * count

    def ours(self):
        return {"p": self.p.clone(), "g": self.g, "m": self.m.clone(), "v": self.v.clone()}

    def new(self, p, g, m, v):
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        denominator = (v / (1 - self.beta2 ** self.step)).sqrt() + self.epsilon
        return p * (1 - self.rate * self.decay) - self.rate * (m / (1 - self.beta1 ** self.step)) / denominator, m, v

    def makers(self):
        def in_place(state, call):
            call.state = state
            call.is_in_place = True
            return call

        def compile_step():
            state = [tensor.clone() for tensor in (self.p, self.m, self.v)]

            def advance(p, g, m, v):
                for old, new in zip((p, m, v), self.new(p, g, m, v)):
                    old.copy_(new)
            quick = compiled(advance)
            return in_place(state, lambda: quick(state[0], self.g, state[1], state[2]))

        def fused():
            state = [tensor.clone() for tensor in (self.p, self.m, self.v)]
            steps = [torch.full((), float(self.step), device="cuda")]
            return in_place(state, lambda: torch._fused_adamw_(
                [state[0]], [self.g], [state[1]], [state[2]], [], steps, lr=self.rate, beta1=self.beta1,
                beta2=self.beta2, weight_decay=self.decay, eps=self.epsilon, amsgrad=False, maximize=False))
        return {"compile": compile_step, "torch_fused": fused}

    def truth(self):
        return self.new(*self.before)[0]


class Rope:
    kernel, dtype, result = "rope", "bf16", "q_out"

    def __init__(self, backward=0):
        self.dims = {**ROPE_DIMS, "backward": backward}
        seq, batch, heads, kv_heads, head_dim = ROPE_DIMS.values()
        self.q, self.k = random(seq, batch, heads, head_dim), random(seq, batch, kv_heads, head_dim)
        angle = random(seq, head_dim // 2, dtype=torch.float32)
        self.cosine, self.sine = angle.cos(), angle.sin()
        self.turn = -1 if backward else 1
        self.bytes = 4 * (self.q.numel() + self.k.numel()) + 8 * self.cosine.numel()

    def ours(self):
        return {"q": self.q, "k": self.k, "cosine": self.cosine, "sine": self.sine}

    def rotate(self, x):
        cosine, sine = self.cosine[:, None, None], self.turn * self.sine[:, None, None]
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1).to(x.dtype)

    def plain(self, q, k):
        return self.rotate(q), self.rotate(k)

    def makers(self):
        quick = compiled(self.plain)
        return {"eager": lambda: lambda: self.plain(self.q, self.k),
                "compile": lambda: lambda: quick(self.q, self.k)}

    def truth(self):
        return self.plain(self.q.float(), self.k.float())[0].reshape(-1)[:PART]


class QkNormRope(Rope):
    kernel = "qk_norm_rope"

    def __init__(self):
        super().__init__()
        del self.dims["backward"]
        self.q_weight, self.k_weight = random(128), random(128)

    def ours(self):
        return {**super().ours(), "q_weight": self.q_weight, "k_weight": self.k_weight}

    def plain(self, q, k):
        def norm(x, weight):
            wide = x.float()
            return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON) * weight.float()
        return (self.rotate(norm(q, self.q_weight)).to(q.dtype), self.rotate(norm(k, self.k_weight)).to(k.dtype))


CASES = {"swiglu": Swiglu, "swiglu_backward": SwigluBackward, "adamw": AdamW, "rope": Rope,
         "rope_backward": lambda: Rope(1), "qk_norm_rope": QkNormRope}


def measure(arguments, name):
    torch.manual_seed(1)
    case = CASES[name]()
    config, outcomes = turns.sweep(arguments, case.kernel, {**case.dims, "dtype": case.dtype})
    ours = beside.Variant(arguments.tunectl, case.kernel, case.dims, case.dtype, config, case.ours())
    calls, missing = turns.peers({**case.makers(), "copy": lambda: turns.copy_of(case.bytes)})
    truth = case.truth()

    def error_of(result):
        first = result[0] if isinstance(result, (tuple, list)) else result
        return ((first.reshape(-1)[:PART].float() - truth).abs().max() / truth.std()).item()
    ours()
    errors = {"ours": error_of(ours.tensors[case.result])}
    for peer, call in calls.items():
        if peer != "copy" and not getattr(call, "is_in_place", False):
            errors[peer] = error_of(call())
    times = turns.by_turns({"ours": ours, **calls}, arguments.rounds, arguments.flush)
    contenders = {peer: turns.summary(taken, case.bytes, "bytes_per_second") for peer, taken in times.items()}
    return {"kernel": case.kernel, "dims": case.dims, "dtype": case.dtype, "config": config, "outcomes": outcomes,
            "errors_over_deviation": errors, "missing": missing, "contenders": contenders,
            "speed_over": turns.speed_over(contenders)}


def main():
    parser = turns.parser_for(__doc__, "10s", 30)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; by default all")
    arguments = parser.parse_args()
    for name in arguments.cases:
        if name not in CASES:
            parser.error(f"'{name}' is none of {', '.join(CASES)}")
    turns.run(arguments, {name: name for name in arguments.cases or CASES}, measure, turns.teller("bytes_per_second", "TB/s", 2, 4),
              bytes="each tensor read once and written once")


if __name__ == "__main__":
    main()
