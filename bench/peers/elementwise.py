#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the elementwise kernels (swiglu, adamw, rope, QK-norm + rope) by turns with their peers in one process, cold
caches, one clock, and writes JSON.

For each case `tunectl sweep` finds our config first. Peers: PyTorch eager and torch.compile, the fused and the foreach
AdamW of torch.optim, Liger where it can be imported, `triton` for rope, which is kernels/rope_triton by the configs
that Triton's own autotuner picks (elsewhere Liger and torch.compile are the Triton forms), and `copy`, which reads and
writes as many bytes as the kernel does. All get the same inputs. All results are compared with f32 ones on a part, but
gradients of weights as a whole. A rate is of the least bytes: each tensor read once and written once. Without --dtype
each case has its own: adamw f32, adamw_list bf16 and f32, the others bf16. AdamW's states are f32 in all of them, which
torch.optim has no fused step for where parameters have 16 bits. Needs a CUDA GPU and PyTorch 2.5 or later.
"""
import itertools

import torch
import torch.nn.functional as F

import contest
import our_kernel
from contest import compiled

PART = 1 << 16  # elements that are checked
ENDS = 512  # elements that are checked at either end of each tensor of a list
TOKENS_AT_A_TIME = 128
ROPE_DIMS = {"seq": 4096, "batch": 8, "heads": 32, "kv_heads": 8, "head_dim": 128}
EPSILON = 1e-6


def random(*shape, dtype):
    return torch.randn(shape, device="cuda", dtype=dtype)


def gradients(function, dout, *inputs):
    """A call that gives the gradients of a framework's function, by its own autograd."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    return contest.gradients_of(function(*leaves), leaves, dout)


class Case:
    """A kernel: inputs by our names, peers, what is right. `results` are our names of a call's results; `truth` gives
    the first elements of each."""
    dtypes, hold = ("bf16",), contest.HOLD_CYCLES
    results, truths = (), ()

    def part(self, result):
        """What of a result is checked."""
        return result.reshape(-1)[:PART]

    def errors_of(self, results):
        results = results if isinstance(results, (tuple, list)) else (results,)
        return {name: contest.error_of(self.part(result), truth)
                for name, result, truth in zip(self.results, results, self.truths)}


class Swiglu(Case):
    kernel, results, passes = "swiglu", ("y",), 3

    def __init__(self, dtype):
        self.dims = {"rows": 8192, "cols": 14336}
        self.gate, self.up, self.dy = (random(*self.dims.values(), dtype=dtype) for _ in range(3))
        self.bytes = self.passes * self.gate.nbytes

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
        gate, up = (self.part(tensor).float() for tensor in (self.gate, self.up))
        return (F.silu(gate) * up,)


class SwigluBackward(Swiglu):
    kernel, results, passes = "swiglu_backward", ("dgate", "dup"), 5

    def ours(self):
        return {"gate": self.gate, "up": self.up, "dy": self.dy}

    def makers(self):
        def liger():  # which writes over its inputs
            from liger_kernel.ops.swiglu import swiglu_backward
            own = self.gate.clone(), self.up.clone()
            return contest.in_place(lambda: swiglu_backward(*own, self.dy))
        inputs = (self.dy, self.gate, self.up)
        return {"eager": lambda: gradients(self.plain, *inputs),
                "compile": lambda: gradients(compiled(self.plain), *inputs), "liger": liger}

    def truth(self):
        gate, up, dy = (self.part(tensor).float() for tensor in (self.gate, self.up, self.dy))
        sigmoid = torch.sigmoid(gate)
        return dy * up * sigmoid * (1 + gate * (1 - sigmoid)), dy * gate * sigmoid


class AdamW(Case):
    """Of parameters in one piece. A call steps a state of its own."""
    kernel, results, dtypes = "adamw", ("p", "m", "v"), ("f32",)
    rate, decay, beta1, beta2, epsilon, step = 0.1, 0.5, 0.9, 0.95, 1e-8, 10

    def __init__(self, dtype):
        self.dims = {"n": 1 << 27}
        self.fill(self.dims["n"], self.dims["n"], dtype)

    def fill(self, count, room, dtype):
        """`count` parameters; gradients and states lie in `room` elements."""
        self.p, self.g = random(count, dtype=dtype), random(room, dtype=dtype)
        self.m, self.v = random(room, dtype=torch.float32), torch.rand(room, device="cuda")
        self.bytes = count * (3 * dtype.itemsize + 4 * 4)

    def ours(self):
        return {"p": self.p.clone(), "g": self.g, "m": self.m.clone(), "v": self.v.clone()}

    def pieces(self, whole):
        """The tensors of a buffer."""
        return [whole]

    def new(self, p, g, m, v):
        p, g = p.float(), g.float()
        m = self.beta1 * m + (1 - self.beta1) * g
        v = self.beta2 * v + (1 - self.beta2) * g * g
        denominator = (v / (1 - self.beta2 ** self.step)).sqrt() + self.epsilon
        return p * (1 - self.rate * self.decay) - self.rate * (m / (1 - self.beta1 ** self.step)) / denominator, m, v

    def stepper(self, make_step):
        """Of a function that makes a step of lists p, g, m, v: a call with lists of its own, which gives them."""
        p, m, v = ([piece.clone() for piece in self.pieces(whole)] for whole in (self.p, self.m, self.v))
        step = make_step(p, self.pieces(self.g), m, v)

        def call():
            step()
            return p, m, v
        return contest.in_place(call)

    def makers(self):
        def advance(*lists):
            for p, g, m, v in zip(*lists):
                for old, new in zip((p, m, v), self.new(p, g, m, v)):
                    old.copy_(new)
        quick = compiled(advance)

        def fused(p, g, m, v):
            steps = [torch.full((), float(self.step), device="cuda") for _ in p]
            return lambda: torch._fused_adamw_(
                p, g, m, v, [], steps, lr=self.rate, beta1=self.beta1, beta2=self.beta2, weight_decay=self.decay,
                eps=self.epsilon, amsgrad=False, maximize=False)
        return {"compile": lambda: self.stepper(lambda *lists: lambda: quick(*lists)),
                "torch_fused": lambda: self.stepper(fused), "foreach": lambda: self.stepper(self.foreach)}

    def foreach(self, p, g, m, v):
        """The step of torch.optim that is a sequence of the framework's operations over lists."""
        optimizer = torch.optim.AdamW(p, lr=self.rate, betas=(self.beta1, self.beta2), eps=self.epsilon,
                                      weight_decay=self.decay, foreach=True)
        for one, gradient, first, second in zip(p, g, m, v):
            one.grad = gradient
            optimizer.state[one] = {"step": torch.tensor(self.step - 1.0), "exp_avg": first, "exp_avg_sq": second}
        return optimizer.step

    def part(self, result):
        return result[0][:PART] if isinstance(result, list) else result[:PART]

    def truth(self):
        return self.new(*(self.part(tensor) for tensor in (self.p, self.g, self.m, self.v)))


class AdamWList(AdamW):
    """Of the tensors of a transformer's layers: parameters in one piece, the others with gaps, as the spec has them."""
    kernel, dtypes, gap = "adamw_list", ("bf16", "f32"), 16
    hold = 20 * contest.HOLD_CYCLES  # in which the host goes through all the tensors

    def __init__(self, dtype):
        self.dims = {"layers": 8, "hidden": 2048, "kv": 512, "ffn": 8192}
        layers, hidden, kv, ffn = self.dims.values()
        self.lengths = layers * [hidden * hidden, hidden * kv, hidden * kv, hidden * hidden, hidden,
                                 *3 * [hidden * ffn], hidden]
        self.fill(sum(self.lengths), sum(self.lengths) + self.gap * len(self.lengths), dtype)

    def offsets(self, gap):
        """Where tensors begin, and the end."""
        return [0, *itertools.accumulate(length + gap for length in self.lengths)]

    def ours(self):
        first, apart = (torch.tensor(self.offsets(gap), device="cuda") for gap in (0, self.gap))
        return {**super().ours(), "first": first, "p_at": first,
                **{f"{name}_at": apart for name in ("master", "g", "m", "v")}}

    def pieces(self, whole):
        gap = self.gap if whole.numel() > self.offsets(0)[-1] else 0
        return [whole[at:at + length] for at, length in zip(self.offsets(gap), self.lengths)]

    def part(self, result):
        tensors = result if isinstance(result, list) else self.pieces(result)
        return torch.cat([end for tensor in tensors for end in (tensor[:ENDS], tensor[-ENDS:])])


class Rotating(Case):
    """What rotates q and k."""
    results, passes, backward = ("q_out", "k_out"), 2, 0

    def __init__(self, dtype):
        self.dims = {**ROPE_DIMS}
        seq, batch, heads, kv_heads, head_dim = ROPE_DIMS.values()
        self.q, self.k = (random(seq, batch, count, head_dim, dtype=dtype) for count in (heads, kv_heads))
        angle = random(seq, head_dim // 2, dtype=torch.float32)
        self.cosine, self.sine = angle.cos(), angle.sin()
        self.bytes = self.passes * (self.q.nbytes + self.k.nbytes) + 2 * self.cosine.nbytes

    def ours(self):
        return {"q": self.q, "k": self.k, "cosine": self.cosine, "sine": self.sine}

    def rotate(self, x, tokens):
        cosine, sine = self.cosine[tokens, None, None], self.sine[tokens, None, None]
        sine = -sine if self.backward else sine
        a, b = x.float().chunk(2, -1)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1).to(x.dtype)

    def plain(self, q, k, tokens=slice(None)):
        return self.rotate(q, tokens), self.rotate(k, tokens)

    def inputs(self, tokens=slice(None)):
        return self.q[tokens], self.k[tokens]

    def makers(self):
        quick = compiled(self.plain)
        return {"eager": lambda: lambda: self.plain(*self.inputs()),
                "compile": lambda: lambda: quick(*self.inputs())}

    def truth(self):
        tokens = slice(0, TOKENS_AT_A_TIME)
        return [self.part(out) for out in self.plain(*(tensor.float() for tensor in self.inputs(tokens)), tokens)]


class Rope(Rotating):
    kernel = "rope"

    def __init__(self, dtype):
        super().__init__(dtype)
        self.dims["backward"] = self.backward

    def makers(self):
        def triton():
            import triton_forms
            return triton_forms.rope(self.q, self.k, self.cosine, self.sine, self.backward)
        return {**super().makers(), "triton": triton}


class RopeBackward(Rope):
    backward = 1


class QkNormRope(Rotating):
    kernel = "qk_norm_rope"

    def __init__(self, dtype):
        super().__init__(dtype)
        self.q_weight, self.k_weight = random(128, dtype=dtype), random(128, dtype=dtype)

    def ours(self):
        return {**super().ours(), "q_weight": self.q_weight, "k_weight": self.k_weight}

    def inputs(self, tokens=slice(None)):
        return self.q[tokens], self.k[tokens], self.q_weight, self.k_weight

    def plain(self, q, k, q_weight, k_weight, tokens=slice(None)):
        def norm(x, weight):
            wide = x.float()
            return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON) * weight.float()
        return (self.rotate(norm(q, q_weight), tokens).to(q.dtype), self.rotate(norm(k, k_weight), tokens).to(k.dtype))


class QkNormRopeBackward(QkNormRope):
    kernel, results, passes = "qk_norm_rope_backward", ("dq", "dk", "dq_weight", "dk_weight"), 3

    def __init__(self, dtype):
        super().__init__(dtype)
        self.dout = torch.randn_like(self.q), torch.randn_like(self.k)

    def ours(self):
        return {**super().ours(), "dq_out": self.dout[0], "dk_out": self.dout[1]}

    def makers(self):
        return {"eager": lambda: gradients(self.plain, self.dout, *self.inputs()),
                "compile": lambda: gradients(compiled(self.plain), self.dout, *self.inputs())}

    def gradients_at(self, tokens):
        """The true gradients of some tokens, and their share of those of the weights."""
        dout = tuple(one[tokens].float() for one in self.dout)
        return gradients(lambda *inputs: self.plain(*inputs, tokens), dout,
                         *(tensor.float() for tensor in self.inputs(tokens)))()

    def truth(self):
        parts, weights = [], [0, 0]
        for at in range(0, self.dims["seq"], TOKENS_AT_A_TIME):
            found = self.gradients_at(slice(at, at + TOKENS_AT_A_TIME))
            parts = parts or [self.part(gradient) for gradient in found[:2]]
            weights = [total + share.double() for total, share in zip(weights, found[2:])]
        return (*parts, *weights)


CASES = {"swiglu": Swiglu, "swiglu_backward": SwigluBackward, "adamw": AdamW, "adamw_list": AdamWList,
         "rope": Rope, "rope_backward": RopeBackward, "qk_norm_rope": QkNormRope,
         "qk_norm_rope_backward": QkNormRopeBackward}


def measure(arguments, which):
    name, dtype = which
    torch.manual_seed(1)
    case = CASES[name](our_kernel.TORCH_TYPES[dtype])
    config, outcomes = contest.sweep(arguments, case.kernel, case.dims, dtype)
    ours = our_kernel.Variant(arguments.tunectl, case.kernel, case.dims, dtype, config, case.ours())
    case.truths = case.truth()
    makers = {**case.makers(), "copy": lambda: contest.copy_of(case.bytes)}
    calls, missing = contest.peers(makers)
    ours()
    errors = {"ours": case.errors_of([ours.tensors[result] for result in case.results]),
              **contest.checked(makers, calls, case.errors_of, unchecked=("copy",))}
    return {"kernel": case.kernel, "dims": case.dims, "dtype": dtype, "config": config, "outcomes": outcomes,
            "errors_over_deviation": errors, "missing": missing,
            **contest.timed(arguments, {"ours": ours, **calls}, case.bytes, "bytes_per_second", case.hold)}


def main():
    parser = contest.parser_for(__doc__, "10s", 30, ("own", "bf16", "f16", "f32"))
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; by default all")
    arguments = parser.parse_args()
    cases = {}
    for name in arguments.cases or CASES:
        if name not in CASES:
            parser.error(f"'{name}' is none of {', '.join(CASES)}")
        dtypes = CASES[name].dtypes if arguments.dtype == "own" else (arguments.dtype,)
        cases.update({f"{name} {dtype}" if len(dtypes) > 1 else name: (name, dtype) for dtype in dtypes})
    own = {"dtype": "each figure's own"} if arguments.dtype == "own" else {}
    contest.run(arguments, cases, measure, contest.teller("bytes_per_second", "TB/s", 2),
              group=lambda name: name.split()[0], bytes="each tensor read once and written once", **own)


if __name__ == "__main__":
    main()
