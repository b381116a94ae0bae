# SPDX-License-Identifier: Apache-2.0
"""Peers of swiglu, AdamW, rope and QK-norm + rope, both ways: PyTorch, torch.compile, torch.optim, Liger, a copy."""
import functools

from frameworks import Compiled, F, Peer, compiled, copy, torch

from tunectl import gradient

RATE, DECAY, BETA1, BETA2, TINY, STEP = 0.1, 0.5, 0.9, 0.95, 1e-8, 10  # as the specs have them


def swiglu(gate, up):
    return F.silu(gate) * up


def liger_swiglu(gate, up):
    from liger_kernel.ops.swiglu import swiglu_forward
    return swiglu_forward(gate, up)[-1]


def liger_swiglu_gradient(gate, up, dy):
    """It writes over its inputs, and has inputs of its own."""
    from liger_kernel.ops.swiglu import swiglu_backward
    own = gate.clone(), up.clone()
    return lambda: swiglu_backward(*own, dy)


def advance(p, g, m, v):
    """A step on lists of tensors."""
    for parameter, slope, first, second in zip(p, g, m, v):
        wide, slope = parameter.float(), slope.float()
        first.mul_(BETA1).add_(slope, alpha=1 - BETA1)
        second.mul_(BETA2).addcmul_(slope, slope, value=1 - BETA2)
        denominator = (second / (1 - BETA2 ** STEP)).sqrt() + TINY
        parameter.copy_(wide * (1 - RATE * DECAY) - RATE * (first / (1 - BETA1 ** STEP)) / denominator)


def by_compile(p, g, m, v):
    return lambda: compiled(advance)(p, g, m, v)


def torch_fused(p, g, m, v):
    steps = [torch.full((), float(STEP), device=p[0].device) for _ in p]

    def call():
        torch._fused_adamw_(p, g, m, v, [], steps, lr=RATE, beta1=BETA1, beta2=BETA2, weight_decay=DECAY, eps=TINY,
                            amsgrad=False, maximize=False)
    return call


def foreach(p, g, m, v):
    """The step of torch.optim that is a sequence of the framework's operations over lists."""
    optimizer = torch.optim.AdamW(p, lr=RATE, betas=(BETA1, BETA2), eps=TINY, weight_decay=DECAY, foreach=True)
    for one, slope, first, second in zip(p, g, m, v):
        one.grad = slope
        optimizer.state[one] = {"step": torch.tensor(STEP - 1.0), "exp_avg": first, "exp_avg_sq": second}

    def call():
        for one in p:
            optimizer.state[one]["step"].fill_(STEP - 1.0)
        optimizer.step()
    return call


def _steps(make, p, g, m, v):
    return make([p], [g], [m], [v])


def _steps_of_lists(make, p, g, m, v, first, p_at, g_at, m_at, v_at):
    """The tensors of the lists are views of the buffers."""
    lengths = (first[1:] - first[:-1]).tolist()

    def pieces(whole, offsets):
        return [whole[at:at + length] for at, length in zip(offsets.tolist(), lengths)]
    return make(pieces(p, p_at), pieces(g, g_at), pieces(m, m_at), pieces(v, v_at))


def rotated(x, cosine, sine):
    a, b = x.float().chunk(2, -1)
    cosine, sine = cosine[:, None, None], sine[:, None, None]
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1).to(x.dtype)


def rope(q, k, cosine, sine):
    return rotated(q, cosine, sine), rotated(k, cosine, sine)


def rope_backward(q, k, cosine, sine):
    return rope(q, k, cosine, -sine)


def qk_norm_rope(q, k, q_weight, k_weight, cosine, sine):
    def norm(x, weight):
        wide = x.float()
        return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * weight.float()
    return (rotated(norm(q, q_weight), cosine, sine).to(q.dtype), rotated(norm(k, k_weight), cosine, sine).to(k.dtype))


SWIGLU = {"eager": swiglu, "compile": Compiled(swiglu), "liger": liger_swiglu, "copy": copy("gate", "up", "y")}
SWIGLU_BACKWARD = {"eager": gradient(swiglu), "compile": gradient(Compiled(swiglu)), "liger": Peer(liger_swiglu_gradient),
                   "copy": copy("gate", "up", "dy", "dgate", "dup")}
STEPPERS = {"compile": by_compile, "foreach": foreach, "torch_fused": torch_fused}
ADAMW = {name: Peer(functools.partial(_steps, make)) for name, make in STEPPERS.items()}
ADAMW_LIST_F32 = {name: Peer(functools.partial(_steps_of_lists, make)) for name, make in STEPPERS.items()}
# torch.optim has no step of 16-bit parameters with states of f32.
ADAMW_LIST = {"compile": ADAMW_LIST_F32["compile"]}
ROPE = {"eager": rope, "compile": Compiled(rope), "copy": copy("q", "k", "q_out", "k_out")}
ROPE_BACKWARD = {"eager": rope_backward, "compile": Compiled(rope_backward), "copy": ROPE["copy"]}
QK_NORM_ROPE = {"eager": qk_norm_rope, "compile": Compiled(qk_norm_rope), "copy": ROPE["copy"]}
QK_NORM_ROPE_BACKWARD = {"eager": gradient(qk_norm_rope), "compile": gradient(Compiled(qk_norm_rope)),
                         "copy": copy("q", "k", "dq_out", "dk_out", "dq", "dk")}
