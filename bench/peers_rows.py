#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the kernels of rows (softmax, norms, cross-entropy, both ways) by turns with their peers in one process, cold
caches, one clock, and writes JSON.

For each kernel and shape `tunectl sweep` finds our config first. Peers: PyTorch eager and torch.compile, QuACK and
Liger where they can be imported, and a copy of as many bytes. All get the same inputs. Results are compared with f32
ones on some rows. A rate is of the least bytes: each tensor read once and written once. Liger's cross-entropy writes
its gradient over the logits, and has logits of its own. Needs a CUDA GPU and PyTorch 2.5 or later.
"""
import itertools

import torch
import torch.nn.functional as F

import beside
import turns

EPSILON = {"rmsnorm": 1e-6, "layernorm": 1e-5}
SHAPES = [(65536, 4096), (1024, 262144), (131072, 1024), (16384, 16384), (4096, 65536), (8192, 32768)]
LOSS_SHAPES = [(8192, 32768), (8192, 131072), (4096, 262144)]
CHECKED_ROWS = 64


def leaves(*tensors):
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


class Case:
    """A kernel at one shape: inputs by our names, peers, what is right. `outputs` are our names of a call's results."""

    def __init__(self, rows, cols):
        torch.manual_seed(1)
        self.rows, self.cols = rows, cols
        self.x = self.random(rows, cols)
        self.weight, self.bias = self.random(cols), self.random(cols)
        self.dy = self.random(rows, cols)

    @staticmethod
    def random(*shape):
        return torch.randn(shape, device="cuda", dtype=torch.bfloat16)

    def backward_of(self, function, *inputs):
        """The gradients of a framework's function, by its own autograd."""
        kept = leaves(*inputs)
        return turns.gradients_of(function(*kept), kept, self.dy)


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
        plain = lambda: torch.softmax(self.x, -1)  # noqa: E731
        return {"eager": lambda: plain, "compile": lambda: compiled(plain), "quack": quack, "liger": liger}

    def truth(self, part):
        return (torch.softmax(self.x[part].float(), -1),)


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
        plain = lambda: torch._softmax_backward_data(self.dy, self.y, -1, torch.bfloat16)  # noqa: E731
        formula = lambda: self.y * (self.dy - (self.y * self.dy).sum(-1, keepdim=True))  # noqa: E731
        return {"eager": lambda: plain, "compile": lambda: compiled(formula), "quack": quack, "liger": liger}

    def truth(self, part):
        y, dy = self.y[part].float(), self.dy[part].float()
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
        return (self.normed(self.x[part].float(), self.weight.float()),)


class RmsNormBackward(RmsNorm):
    tensors, outputs = 3, ("dx",)

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
        x, weight = leaves(self.x[part].float(), self.weight.float())
        return torch.autograd.grad(self.normed(x, weight), (x,), self.dy[part].float())


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
        return (self.normed(self.x[part].float(), self.weight.float(), self.bias.float()),)


class LayerNormBackward(LayerNorm):
    tensors, outputs = 3, ("dx",)

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
        x, weight, bias = leaves(self.x[part].float(), self.weight.float(), self.bias.float())
        return torch.autograd.grad(self.normed(x, weight, bias), (x,), self.dy[part].float())


class CrossEntropy(Case):
    """The loss of each row and the gradient of the logits, of the sum of the losses."""
    tensors, outputs = 2, ("dlogits",)

    def ours(self):
        self.targets = torch.randint(0, self.cols, (self.rows,), device="cuda")
        return {"logits": self.x, "targets": self.targets, "dloss": torch.ones(self.rows, device="cuda")}

    def summed(self, logits):
        return F.cross_entropy(logits.float(), self.targets, reduction="sum")

    def both(self, function):
        """Forward and backward of a framework's function."""
        def call():
            logits = self.x.detach().requires_grad_()
            return torch.autograd.grad(function(logits), (logits,))
        return call

    def makers(self):
        def quack():
            from quack.cross_entropy import cross_entropy_fwd
            return lambda: cross_entropy_fwd(self.x, self.targets, return_dx=True)[-1]

        def liger():
            from liger_kernel.transformers.functional import liger_cross_entropy
            own = self.x.clone()

            def call():
                logits = own.detach().requires_grad_()
                return torch.autograd.grad(liger_cross_entropy(logits, self.targets, reduction="sum"), (logits,))
            call.is_in_place = True
            return call
        return {"eager": lambda: self.both(self.summed), "compile": lambda: self.both(compiled(self.summed)),
                "quack": quack, "liger": liger}

    def truth(self, part):
        gradient = torch.softmax(self.x[part].float(), -1)
        gradient[torch.arange(gradient.shape[0]), self.targets[part]] -= 1
        return (gradient,)


CASES = {"softmax": Softmax, "softmax_backward": SoftmaxBackward, "rmsnorm": RmsNorm,
         "rmsnorm_backward": RmsNormBackward, "layernorm": LayerNorm, "layernorm_backward": LayerNormBackward,
         "cross_entropy": CrossEntropy}


def compiled(function):
    return torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)


def error_of(results, truth, part):
    """The largest error of the first result, over the deviation of the true one."""
    first = results[0] if isinstance(results, (tuple, list)) else results
    return ((first[part].float() - truth[0]).abs().max() / truth[0].std()).item()


def measure(arguments, shape):
    kernel, rows, cols = shape
    dims = {"rows": rows, "cols": cols}
    config, outcomes = turns.sweep(arguments, kernel, dims)
    case = CASES[kernel](rows, cols)
    ours = beside.Variant(arguments.tunectl, kernel, dims, "bf16", config, case.ours())
    size = case.tensors * rows * cols * 2
    calls, missing = turns.peers({**case.makers(), "copy": lambda: turns.copy_of(size)})
    part = slice(0, CHECKED_ROWS)
    truth = case.truth(part)
    ours()
    errors = {"ours": error_of(ours.tensors[case.outputs[0]], truth, part)}
    for name, call in calls.items():
        if name != "copy" and not getattr(call, "is_in_place", False):  # whose first call has changed its inputs
            errors[name] = error_of(call(), truth, part)
    times = turns.by_turns({"ours": ours, **calls}, arguments.rounds, arguments.flush)
    contenders = {name: turns.summary(taken, size, "bytes_per_second") for name, taken in times.items()}
    return {"kernel": kernel, "dims": dims, "config": config, "outcomes": outcomes, "errors_over_deviation": errors,
            "missing": missing, "contenders": contenders, "speed_over": turns.speed_over(contenders)}


def main():
    parser = turns.parser_for(__doc__, "20s", 30)
    parser.add_argument("shapes", nargs="*", help="KERNEL[,ROWS,COLS]; by default all kernels at six shapes each, "
                                                  "and cross_entropy at three")
    arguments = parser.parse_args()
    lists = []
    for text in arguments.shapes or CASES:
        kernel, *sizes = text.split(",")
        if kernel not in CASES or len(sizes) not in (0, 2):
            parser.error(f"'{text}': KERNEL[,ROWS,COLS], where KERNEL is one of {', '.join(CASES)}")
        known = LOSS_SHAPES if kernel == "cross_entropy" else SHAPES
        lists.append([(kernel, *map(int, sizes))] if sizes else [(kernel, *shape) for shape in known])
    shapes = [shape for turn in itertools.zip_longest(*lists) for shape in turn if shape]  # each kernel's first ones first
    turns.run(arguments, {f"{kernel} {rows}x{cols}": (kernel, rows, cols) for kernel, rows, cols in shapes}, measure,
              turns.teller("bytes_per_second", "TB/s", 2, 4), group=lambda name: name.split()[0],
              bytes="each tensor read once and written once")


if __name__ == "__main__":
    main()
