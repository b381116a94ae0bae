# SPDX-License-Identifier: Apache-2.0
"""Peers of softmax, the norms and cross-entropy, both ways: PyTorch, torch.compile, QuACK, Liger, a copy."""
import functools

from frameworks import OWN, Compiled, F, Peer, autograd, compiled, copy, plain, torch


def softmax(x):
    return torch.softmax(x, -1)


def quack_softmax(x):
    from quack.softmax import softmax_fwd
    return softmax_fwd(x)


def liger_softmax(x):
    from liger_kernel.transformers.functional import liger_softmax as library
    return library(x)


def softmax_gradient(y, dy):
    return torch._softmax_backward_data(dy, y, -1, y.dtype)


def softmax_formula(y, dy):
    return y * (dy - (y * dy).sum(-1, keepdim=True))


def quack_softmax_gradient(y, dy):
    from quack.softmax import softmax_bwd
    return softmax_bwd(dy, y)


def liger_softmax_gradient(y, dy):
    return autograd(liger_softmax, dy, y)


def summed(x, residual):
    """The input of a norm: without a residual, the spec has one element of it."""
    return x if residual.numel() == 1 else x + residual


def rmsnorm(x, residual, weight, epsilon):
    total = summed(x, residual)
    return F.rms_norm(total, (x.shape[-1],), weight, epsilon), total


def layernorm(x, residual, weight, bias, epsilon):
    total = summed(x, residual)
    return F.layer_norm(total, (x.shape[-1],), weight, bias, epsilon), total


def quack_rmsnorm(x, residual, weight, epsilon):
    from quack.rmsnorm import rmsnorm_fwd
    made = rmsnorm_fwd(x, weight, eps=epsilon, **({} if residual.numel() == 1 else {"residual": residual}))
    return made if isinstance(made, tuple) else (made, x)


def liger_rmsnorm(x, residual, weight, epsilon):
    from liger_kernel.transformers import functional
    if residual.numel() > 1:
        return functional.liger_fused_add_rms_norm(x, residual, weight, epsilon)
    return functional.liger_rms_norm(x, weight, epsilon), x


def quack_layernorm(x, weight, bias, epsilon):
    """It demands weights of f32."""
    from quack.rmsnorm import layernorm_fwd
    wide = weight.float(), bias.float()
    return lambda: (layernorm_fwd(x, *wide, eps=epsilon), x)


def liger_layernorm(x, weight, bias, epsilon):
    from liger_kernel.transformers.functional import liger_layer_norm
    return liger_layer_norm(x, weight, bias, epsilon), x


def norm_outputs(returned, args):
    """Adds the statistics of rows, and the one element that stands for no sum."""
    y, total = returned[:2]
    has_sum = args["residual"].numel() > 1
    wide = summed(args["x"], args["residual"]).float()
    mean = wide.mean(-1) if "bias" in args else torch.zeros((), device=wide.device)
    square = ((wide - mean[..., None]) ** 2).mean(-1)
    return {"y": y, "sum": total if has_sum else y.new_zeros(1, 1), "mean": mean, "rstd": torch.rsqrt(square + args["epsilon"])}


def rmsnorm_formula(x, weight, dy, rstd):
    norm, slope = x.float() * rstd[:, None], dy.float() * weight.float()
    dx = (slope - norm * (slope * norm).mean(-1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (dy.float() * norm).sum(0).to(x.dtype)


def layernorm_formula(x, weight, dy, mean, rstd):
    norm, slope = (x.float() - mean[:, None]) * rstd[:, None], dy.float() * weight.float()
    dx = (slope - slope.mean(-1, keepdim=True) - norm * (slope * norm).mean(-1, keepdim=True)) * rstd[:, None]
    return dx.to(x.dtype), (dy.float() * norm).sum(0).to(x.dtype), dy.float().sum(0).to(x.dtype)


def quack_rmsnorm_gradient(x, weight, dy, rstd):
    from quack.rmsnorm import rmsnorm_bwd
    return rmsnorm_bwd(x, weight, dy, rstd)[:2]


def _normed(whose, x, weight, *bias):
    if whose == "liger":
        from liger_kernel.transformers import functional
        return functional.liger_layer_norm(x, weight, *bias, 1e-5) if bias else \
            functional.liger_rms_norm(x, weight, 1e-6, in_place=False)
    form = F.layer_norm if bias else F.rms_norm
    return form(x, (x.shape[-1],), weight, *bias, eps=1e-5 if bias else 1e-6)


def _norm_gradient(whose, biases, x, weight, dy):
    function = functools.partial(_normed, whose)
    return autograd(compiled(_normed_by_torch) if whose == "compile" else function, dy, x, weight,
                    *(torch.zeros_like(weight) for _ in range(biases)))


def _normed_by_torch(x, weight, *bias):
    return _normed("eager", x, weight, *bias)


def norm_gradients(biases, formula):
    own = {whose: Peer(functools.partial(_norm_gradient, whose, biases), unchecked=OWN) for whose in ("eager", "compile", "liger")}
    return {**own, "formula": Compiled(formula)}


def own_targets(targets, cols):
    """Rows that the spec's out of range targets ignore, as PyTorch has them."""
    return torch.where((targets >= 0) & (targets < cols), targets, -100)


def losses(logits, targets):
    return F.cross_entropy(logits.float(), targets, reduction="none")


def _both(function, logits, targets, dloss, cols):
    """Losses and the gradient of the logits in one call."""
    own, form = own_targets(targets, cols), compiled(losses) if function == "compile" else losses

    def call():
        leaf = logits.detach().requires_grad_()
        made = form(leaf, own)
        return made.detach(), *torch.autograd.grad(made, (leaf,), dloss)
    return call


def _losses(function, logits, targets, cols):
    own, form = own_targets(targets, cols), compiled(losses) if function == "compile" else losses
    return lambda: (form(logits, own),)


def quack_loss(logits, targets, gradient, cols):
    from quack.cross_entropy import cross_entropy_fwd
    own = own_targets(targets, cols)
    if gradient:
        return lambda: cross_entropy_fwd(logits, own, return_dx=True)
    return lambda: (cross_entropy_fwd(logits, own),)


def liger_loss(logits, targets, cols):
    """It writes its gradient over the logits, and has logits of its own."""
    from liger_kernel.transformers.functional import liger_cross_entropy
    own, kept = own_targets(targets, cols), logits.clone()

    def call():
        leaf = kept.detach().requires_grad_()
        return torch.autograd.grad(liger_cross_entropy(leaf, own, reduction="sum"), (leaf,))
    return call


def loss_outputs(returned, args, by_loss=False):
    is_used = own_targets(args["targets"], args["cols"]) >= 0
    lse = torch.logsumexp(args["logits"].float(), -1) * is_used
    slope = returned[1] if len(returned) > 1 else lse.new_zeros(1, 1)
    if by_loss and len(returned) > 1:  # of the sum of the losses
        slope = slope * args["dloss"][:, None]
    return {"loss": returned[0], "lse": lse, "dlogits": slope}


SOFTMAX = {"eager": softmax, "compile": Compiled(softmax), "quack": quack_softmax, "liger": liger_softmax,
           "copy": copy("x", "y")}
SOFTMAX_BACKWARD = {"eager": softmax_gradient, "compile": Compiled(softmax_formula), "quack": quack_softmax_gradient,
                    "liger": Peer(liger_softmax_gradient, unchecked=OWN), "copy": copy("y", "dy", "dx")}
RMSNORM = {**{name: plain(function, norm_outputs) for name, function in {
    "eager": rmsnorm, "compile": Compiled(rmsnorm), "quack": quack_rmsnorm, "liger": liger_rmsnorm}.items()},
           "copy": copy("x", "residual", "y", "sum")}
LAYERNORM = {"eager": plain(layernorm, norm_outputs), "compile": plain(Compiled(layernorm), norm_outputs),
             "copy": copy("x", "residual", "y", "sum")}
LAYERNORM_ALONE = {**LAYERNORM, "quack": Peer(quack_layernorm, norm_outputs), "liger": plain(liger_layernorm, norm_outputs)}
RMSNORM_BACKWARD = {**norm_gradients(0, rmsnorm_formula), "quack": quack_rmsnorm_gradient, "copy": copy("x", "dy", "dx")}
LAYERNORM_BACKWARD = {**norm_gradients(1, layernorm_formula), "copy": copy("x", "dy", "dx")}
LOSS = {"quack": Peer(quack_loss, functools.partial(loss_outputs, by_loss=True)), "copy": copy("logits", "dlogits"),
        **{name: Peer(functools.partial(_both, name), loss_outputs) for name in ("eager", "compile")},
        "liger": Peer(liger_loss, unchecked="it gives one sum of the losses")}
LOSS_ALONE = {"quack": LOSS["quack"], **{name: Peer(functools.partial(_losses, name), loss_outputs)
                                         for name in ("eager", "compile")}}
