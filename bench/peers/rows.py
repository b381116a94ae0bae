#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the kernels of rows (softmax, norms, cross-entropy, both ways) by turns with their peers in one process, cold
caches, one clock, and writes JSON.

For each kernel and shape `tunectl sweep` finds our config first. Peers: PyTorch eager and torch.compile, QuACK and
Liger where they can be imported, and a copy of as many bytes. For softmax also `triton`, kernels/softmax_triton by the
configs that Triton's own autotuner picks; elsewhere Liger, which is written in Triton, and torch.compile, which emits
it, are the Triton forms. All get the same inputs. All results are compared in full with those of f32 (f64 for f32), in
units of the deviation of the true ones: rows piece by piece, gradients of weights summed in f64. Where a peer gives no
losses but their sum, it is the mean that is compared, over the deviation of a loss. A rate is of the least bytes: each
tensor read once and written once. Liger's cross-entropy writes its gradient over the logits, and has logits of its own.
Needs a CUDA GPU and PyTorch 2.5 or later.
"""
import itertools

import torch
import torch.nn.functional as F

import contest
import our_kernel
from contest import compiled

EPSILON = {"rmsnorm": 1e-6, "layernorm": 1e-5}
SHAPES = [(65536, 4096), (1024, 262144), (131072, 1024), (16384, 16384), (4096, 65536), (8192, 32768)]
LOSS_SHAPES = [(8192, 32768), (8192, 131072), (4096, 262144)]
CHECKED_AT_A_TIME = 1 << 24  # elements


def leaves(*tensors):
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


class Case:
    """A kernel at one shape: inputs by our names, peers, what is right. `outputs` are our names of a call's results:
    first those that have rows, then those that are sums over the rows."""
    outputs = ()
    kernel, modes = "", {}  # where they are not the case's name, and none

    def __init__(self, rows, cols, dtype=torch.bfloat16):
        torch.manual_seed(1)
        self.rows, self.cols, self.dtype = rows, cols, dtype
        self.true_dtype = torch.float64 if dtype == torch.float32 else torch.float32
        self.x = self.random(rows, cols)
        self.weight, self.bias = self.random(cols), self.random(cols)
        self.dy = self.random(rows, cols)

    def random(self, *shape):
        return torch.randn(shape, device="cuda", dtype=self.dtype)

    def true(self, *tensors):
        """Inputs in the type that results are compared in."""
        return [tensor.to(self.true_dtype) for tensor in tensors]

    def backward_of(self, function, *inputs):
        """The gradients of a framework's function, by its own autograd."""
        kept = leaves(*inputs)
        return contest.gradients_of(function(*kept), kept, self.dy)

    def parts(self):
        """All rows, some at a time."""
        step = max(1, CHECKED_AT_A_TIME // self.cols)
        return [slice(first, min(first + step, self.rows)) for first in range(0, self.rows, step)]

    def summed(self):
        """What the sums over rows should be, {name: (truth, deviation)}."""
        return {}

    def named(self, results):
        """A call's results by our names."""
        return dict(zip(self.outputs, results if isinstance(results, (tuple, list)) else (results,)))

    def errors_of(self, results, summed):
        """The largest error of each result over the deviation of the true one."""
        named = self.named(results)
        worst = {name: contest.error_of(named[name], *truth) for name, truth in summed.items() if name in named}
        for part in self.parts():
            for name, truth in zip(self.outputs, self.truth(part)):
                if name in named:
                    contest.keep_worst(worst, name, contest.error_of(named[name][part], truth))
        return {name: worst[name] for name in named}


class Softmax(Case):
    tensors, outputs = 2, ("y",)

    def ours(self):
        return {"x": self.x}

    def makers(self):
        def quack():
            from quack.softmax import softmax_fwd
            return lambda: softmax_fwd(self.x)

        def liger():
            from liger_kernel.transformers.functional import liger_softmax
            return lambda: liger_softmax(self.x)

        def triton():
            import triton_forms
            return triton_forms.softmax(self.x)
        plain = lambda: torch.softmax(self.x, -1)  # noqa: E731
        return {"eager": lambda: plain, "compile": lambda: compiled(plain), "quack": quack, "liger": liger,
                "triton": triton}

    def truth(self, part):
        return (torch.softmax(*self.true(self.x[part]), -1),)


class SoftmaxBackward(Case):
    tensors, outputs = 3, ("dx",)

    def ours(self):
        self.y = torch.softmax(self.x, -1)
        return {"y": self.y, "dy": self.dy}

    def makers(self):
        def quack():
            from quack.softmax import softmax_bwd
            return lambda: softmax_bwd(self.dy, self.y)

        def liger():
            from liger_kernel.transformers.functional import liger_softmax
            return self.backward_of(liger_softmax, self.x)
        plain = lambda: torch._softmax_backward_data(self.dy, self.y, -1, self.dtype)  # noqa: E731
        formula = lambda: self.y * (self.dy - (self.y * self.dy).sum(-1, keepdim=True))  # noqa: E731
        return {"eager": lambda: plain, "compile": lambda: compiled(formula), "quack": quack, "liger": liger}

    def truth(self, part):
        y, dy = self.true(self.y[part], self.dy[part])
        return (y * (dy - (y * dy).sum(-1, keepdim=True)),)


class RmsNorm(Case):
    tensors, outputs, epsilon = 2, ("y",), EPSILON["rmsnorm"]

    def ours(self):
        return {"x": self.x, "weight": self.weight}

    def normed(self, x, weight):
        return F.rms_norm(x, (self.cols,), weight, self.epsilon)

    def makers(self):
        def quack():
            from quack.rmsnorm import rmsnorm_fwd
            return lambda: rmsnorm_fwd(self.x, self.weight, eps=self.epsilon)

        def liger():
            from liger_kernel.transformers.functional import liger_rms_norm
            return lambda: liger_rms_norm(self.x, self.weight, self.epsilon)
        plain = lambda: self.normed(self.x, self.weight)  # noqa: E731
        return {"eager": lambda: plain, "compile": lambda: compiled(plain), "quack": quack, "liger": liger}

    def truth(self, part):
        return (self.normed(*self.true(self.x[part], self.weight)),)


class ResidualNorm(Case):
    """A norm of x + residual, which is an output, too. In peers that round the sum before the norm it costs nothing."""
    tensors, outputs, modes = 4, ("y", "sum"), {"residual": 1}

    def ours(self):
        self.residual = self.random(self.rows, self.cols)
        return {**super().ours(), "residual": self.residual}

    def added(self, x, residual, *weights):
        total = x + residual
        return self.normed(total, *weights), total

    def weights(self):
        return [self.weight]

    def makers(self):
        plain = lambda: self.added(self.x, self.residual, *self.weights())  # noqa: E731
        return {"eager": lambda: plain, "compile": lambda: compiled(plain)}

    def truth(self, part):
        return self.added(*self.true(self.x[part], self.residual[part], *self.weights()))


class RmsNormResidual(ResidualNorm, RmsNorm):
    kernel = "rmsnorm"

    def makers(self):
        def quack():
            from quack.rmsnorm import rmsnorm_fwd
            return lambda: rmsnorm_fwd(self.x, self.weight, residual=self.residual, eps=self.epsilon)

        def liger():
            from liger_kernel.transformers.functional import liger_fused_add_rms_norm
            return lambda: liger_fused_add_rms_norm(self.x, self.residual, self.weight, self.epsilon)
        return {**super().makers(), "quack": quack, "liger": liger}


class RmsNormBackward(RmsNorm):
    tensors, outputs = 3, ("dx", "dweight")

    def ours(self):
        self.rstd = torch.rsqrt(self.x.float().square().mean(-1) + self.epsilon)
        return {"x": self.x, "weight": self.weight, "dy": self.dy, "rstd": self.rstd}

    def makers(self):
        def quack():
            from quack.rmsnorm import rmsnorm_bwd
            return lambda: rmsnorm_bwd(self.x, self.weight, self.dy, self.rstd)

        def liger():
            from liger_kernel.transformers.functional import liger_rms_norm
            return self.backward_of(lambda x, w: liger_rms_norm(x, w, self.epsilon, in_place=False), self.x,
                                    self.weight)
        return {"eager": lambda: self.backward_of(self.normed, self.x, self.weight),
                "compile": lambda: self.backward_of(compiled(self.normed), self.x, self.weight),
                "quack": quack, "liger": liger}

    def truth(self, part):
        x, weight, dy = self.true(self.x[part], self.weight, self.dy[part])
        return torch.autograd.grad(self.normed(x.requires_grad_(), weight), (x,), dy)

    def summed(self):
        return {"dweight": column_sums(self, lambda part: self.dy[part].double() * self.x[part] * self.rstd[part, None])}


class LayerNorm(Case):
    tensors, outputs, epsilon = 2, ("y",), EPSILON["layernorm"]

    def ours(self):
        return {"x": self.x, "weight": self.weight, "bias": self.bias}

    def normed(self, x, weight, bias):
        return F.layer_norm(x, (self.cols,), weight, bias, self.epsilon)

    def makers(self):
        def quack():
            from quack.rmsnorm import layernorm_fwd
            weight, bias = self.weight.float(), self.bias.float()  # which it demands
            return lambda: layernorm_fwd(self.x, weight, bias, eps=self.epsilon)

        def liger():
            from liger_kernel.transformers.functional import liger_layer_norm
            return lambda: liger_layer_norm(self.x, self.weight, self.bias, self.epsilon)
        plain = lambda: self.normed(self.x, self.weight, self.bias)  # noqa: E731
        return {"eager": lambda: plain, "compile": lambda: compiled(plain), "quack": quack, "liger": liger}

    def truth(self, part):
        return (self.normed(*self.true(self.x[part], self.weight, self.bias)),)


class LayerNormResidual(ResidualNorm, LayerNorm):
    kernel = "layernorm"

    def weights(self):
        return [self.weight, self.bias]


class LayerNormBackward(LayerNorm):
    tensors, outputs = 3, ("dx", "dweight", "dbias")

    def ours(self):
        x = self.x.float()
        self.mean = x.mean(-1)
        self.rstd = torch.rsqrt(x.var(-1, correction=0) + self.epsilon)
        return {"x": self.x, "weight": self.weight, "dy": self.dy, "mean": self.mean, "rstd": self.rstd}

    def makers(self):
        def quack():
            from quack.rmsnorm import layernorm_bwd
            return lambda: layernorm_bwd(self.x, self.weight, self.dy, self.rstd, self.mean)

        def liger():
            from liger_kernel.transformers.functional import liger_layer_norm
            return self.backward_of(lambda x, w, b: liger_layer_norm(x, w, b, self.epsilon), self.x, self.weight,
                                    self.bias)
        inputs = (self.x, self.weight, self.bias)
        return {"eager": lambda: self.backward_of(self.normed, *inputs),
                "compile": lambda: self.backward_of(compiled(self.normed), *inputs), "quack": quack, "liger": liger}

    def truth(self, part):
        x, weight, bias, dy = self.true(self.x[part], self.weight, self.bias, self.dy[part])
        return torch.autograd.grad(self.normed(x.requires_grad_(), weight, bias), (x,), dy)

    def summed(self):
        def scaled(part):
            return self.dy[part] * ((self.x[part].double() - self.mean[part, None]) * self.rstd[part, None])
        return {"dweight": column_sums(self, scaled), "dbias": column_sums(self, lambda part: self.dy[part].double())}


class CrossEntropy(Case):
    """The loss of each row and the gradient of the logits, of the sum of the losses."""
    tensors, outputs = 2, ("dlogits", "loss")

    def ours(self):
        self.targets = torch.randint(0, self.cols, (self.rows,), device="cuda")
        return {"logits": self.x, "targets": self.targets, "dloss": torch.ones(self.rows, device="cuda")}

    def sum_of_losses(self, logits):
        return F.cross_entropy(logits.float(), self.targets, reduction="sum")

    def both(self, function, logits):
        """Forward and backward of a framework's function."""
        def call():
            leaf = logits.detach().requires_grad_()
            loss = function(leaf)
            return (*torch.autograd.grad(loss, (leaf,)), loss.detach())
        return call

    def makers(self):
        def quack():
            from quack.cross_entropy import cross_entropy_fwd
            return lambda: cross_entropy_fwd(self.x, self.targets, return_dx=True)[::-1]

        def liger():
            from liger_kernel.transformers.functional import liger_cross_entropy
            return contest.in_place(self.both(lambda logits: liger_cross_entropy(logits, self.targets, reduction="sum"),
                                            self.x.clone()))
        return {"eager": lambda: self.both(self.sum_of_losses, self.x),
                "compile": lambda: self.both(compiled(self.sum_of_losses), self.x), "quack": quack, "liger": liger}

    def named(self, results):
        gradient, loss = results
        return {"dlogits": gradient, **({"loss": loss} if loss.dim() else {"mean_loss": loss.double() / self.rows})}

    def truth(self, part):
        log_softmax = torch.log_softmax(*self.true(self.x[part]), -1)
        own = torch.arange(log_softmax.shape[0], device="cuda"), self.targets[part]
        losses = -log_softmax[own]
        gradient = log_softmax.exp_()
        gradient[own] -= 1
        return gradient, losses

    def summed(self):
        losses = torch.cat([self.truth(part)[1].double() for part in self.parts()])
        return {"mean_loss": (losses.mean(), losses.std())}


class CrossEntropyForward(CrossEntropy):
    """The losses alone."""
    kernel, tensors, outputs, modes = "cross_entropy", 1, ("loss",), {"gradient": 0}

    def losses(self, logits):
        return F.cross_entropy(logits.float(), self.targets, reduction="none")

    def makers(self):
        def quack():
            from quack.cross_entropy import cross_entropy_fwd
            return lambda: cross_entropy_fwd(self.x, self.targets)
        plain = lambda: self.losses(self.x)  # noqa: E731
        return {"eager": lambda: plain, "compile": lambda: compiled(plain), "quack": quack}

    def named(self, results):
        return Case.named(self, results)

    def truth(self, part):
        return (super().truth(part)[1],)

    def summed(self):
        return {}


CASES = {"softmax": Softmax, "softmax_backward": SoftmaxBackward, "rmsnorm": RmsNorm,
         "rmsnorm_backward": RmsNormBackward, "layernorm": LayerNorm, "layernorm_backward": LayerNormBackward,
         "cross_entropy": CrossEntropy, "rmsnorm_residual": RmsNormResidual, "layernorm_residual": LayerNormResidual,
         "cross_entropy_forward": CrossEntropyForward}


def column_sums(case, of):
    """The sum over all rows of what `of` gives of some of them, and its deviation."""
    total = sum(of(part).sum(0) for part in case.parts())
    return total, total.std()


def measure(arguments, shape):
    name, rows, cols = shape
    case = CASES[name](rows, cols, our_kernel.TORCH_TYPES[arguments.dtype])
    kernel, dims = case.kernel or name, {"rows": rows, "cols": cols, **case.modes}
    config, outcomes = contest.sweep(arguments, kernel, dims)
    ours = our_kernel.Variant(arguments.tunectl, kernel, dims, arguments.dtype, config, case.ours())
    size = case.tensors * case.x.nbytes
    makers = {**case.makers(), "copy": lambda: contest.copy_of(size)}
    calls, missing = contest.peers(makers)
    summed = case.summed()
    ours()
    errors = {"ours": case.errors_of([ours.tensors[name] for name in case.outputs], summed),
              **contest.checked(makers, calls, lambda results: case.errors_of(results, summed), unchecked=("copy",))}
    return {"kernel": kernel, "dims": dims, "config": config, "outcomes": outcomes, "errors_over_deviation": errors,
            "missing": missing, **contest.timed(arguments, {"ours": ours, **calls}, size, "bytes_per_second")}


def main():
    parser = contest.parser_for(__doc__, "20s", 30, ("bf16", "f16", "f32"))
    parser.add_argument("shapes", nargs="*", help="KERNEL[,ROWS,COLS]; by default all kernels at six shapes each, "
                                                  "and cross_entropy, with its gradient and without, at three")
    arguments = parser.parse_args()
    lists = []
    for text in arguments.shapes or CASES:
        kernel, *sizes = text.split(",")
        if kernel not in CASES or len(sizes) not in (0, 2):
            parser.error(f"'{text}': KERNEL[,ROWS,COLS], where KERNEL is one of {', '.join(CASES)}")
        known = LOSS_SHAPES if kernel.startswith("cross_entropy") else SHAPES
        lists.append([(kernel, *map(int, sizes))] if sizes else [(kernel, *shape) for shape in known])
    shapes = [shape for turn in itertools.zip_longest(*lists) for shape in turn if shape]  # each kernel's first ones first
    contest.run(arguments, {f"{kernel} {rows}x{cols}": (kernel, rows, cols) for kernel, rows, cols in shapes}, measure,
              contest.teller("bytes_per_second", "TB/s", 2), group=lambda name: name.split()[0],
              bytes="each tensor read once and written once")


if __name__ == "__main__":
    main()
