# SPDX-License-Identifier: Apache-2.0
"""A tuned call is the fallback's, whoever follows it: values, shapes, dtypes, strides and gradients of any order, under
everything that PyTorch does with a function. Run by ./check torch."""
import contextlib
import importlib.util
import tempfile
import unittest
import warnings

import kit  # noqa: F401  # puts the package on the path
import tunectl
from kernel_kit import KernelTest

ROWS, COLS = 16, 64  # tuned, with the gradient; 8 rows are not
HAS_TORCH = bool(importlib.util.find_spec("torch"))
if HAS_TORCH:
    import torch
    import torch.autograd.forward_ad as forward_ad
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.checkpoint import checkpoint
    from torch.utils.flop_counter import FlopCounterMode

    def reference(x):
        return torch.softmax(x, -1)

    class Model(torch.nn.Module):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def forward(self, x):
            return self.function(x) + x

    class Scaled(Model):
        def __init__(self, function):
            super().__init__(function)
            self.scale = torch.nn.Parameter(torch.full((COLS,), 1.5))

        def forward(self, x):
            return self.function(x * self.scale)

    class Kind(torch.Tensor):
        pass

    class Wrapper(torch.Tensor):
        """A tensor without memory, around another."""

        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
            made = function(*[one.inner if isinstance(one, cls) else one for one in args], **(kwargs or {}))
            return cls(made) if isinstance(made, torch.Tensor) else made

    class SeenOperators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    class SeenFunctions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))


def slope(x):
    return torch.linspace(-1, 1, x.numel()).view(x.shape)


def with_gradient(function, x):
    x = x.detach().clone().requires_grad_()
    y = function(x)
    (y * slope(y)).sum().backward()
    return y.detach(), x.grad


def twice(function, x):
    """The gradient of a gradient's square, whose first slope is a constant and whose loss has other terms."""
    x = x.detach().clone().requires_grad_()
    y = function(x)
    gradient, = torch.autograd.grad((y * slope(y)).sum(), x, create_graph=True)
    ((y * slope(y)).sum() + 100 * gradient.pow(2).sum()).backward()
    return gradient.detach(), x.grad


def recorded_gradient(function, x, slopes):
    return torch.autograd.grad(function(x), x, slopes, create_graph=True)[0]


def second_derivatives():
    """Functions that each ask for the derivative of a gradient, among other terms that have one."""
    functional = torch.autograd.functional

    def loss_of(function, other):
        return lambda x: (function(x) * other).sum() + x.square().sum()

    def by(what):
        def case(function, x, other):
            x, slopes = x.clone().requires_grad_(), other.clone().requires_grad_()
            gradient = recorded_gradient(function, x, slopes) + x + slopes
            return torch.autograd.grad(gradient.square().sum(), {"x": x, "slopes": slopes}[what])[0]
        return case

    def by_an_origin(function, x, other):
        scale = torch.full((COLS,), 1.5, requires_grad=True)
        gradient, = torch.autograd.grad((function(x * scale) * other).sum(), scale, create_graph=True)
        return torch.autograd.grad(gradient.square().sum() + scale.sum(), scale)[0]

    def into(function, x, other):
        x = x.clone().requires_grad_()
        (recorded_gradient(function, x, other) + x).square().sum().backward(inputs=[x])
        return x.grad

    def of_a_backward_pass(function, x, other):
        x = x.clone().requires_grad_()
        loss_of(function, other)(x).backward(create_graph=True)
        return torch.autograd.grad(x.grad.square().sum(), x)[0]

    return {"backward": lambda f, x, other: twice(f, x), "grad": by("x"), "grad by the slopes": by("slopes"), "grad by an origin": by_an_origin, "backward of inputs": into,
            "grad of a backward pass": of_a_backward_pass,
            "hvp": lambda f, x, other: functional.hvp(loss_of(f, other), x, other)[1],
            "vhp": lambda f, x, other: functional.vhp(loss_of(f, other), x, other)[1],
            "jvp by two backward passes": lambda f, x, other: functional.jvp(f, x, other)[1],
            "hessian": lambda f, x, other: functional.hessian(loss_of(f, other), x)}


def without_second_derivatives():
    """Functions that record a gradient, and differentiate by other things alone."""
    def unused(function, x, other):
        return recorded_gradient(function, x.clone().requires_grad_(), other).detach()

    def of_a_factor(function, x, other):
        factor = torch.ones(COLS, requires_grad=True)
        gradient = recorded_gradient(function, x.clone().requires_grad_(), other)
        return torch.autograd.grad((gradient * factor).sum(), factor)[0]

    def of_a_step(function, x, other):
        x = x.clone().requires_grad_()
        for _ in range(2):
            (function(x) * other).sum().backward(create_graph=True)
            x.data -= 0.1 * x.grad.detach()
        return x.grad.detach()

    return {"unused": unused, "of a factor": of_a_factor, "of a step": of_a_step}


def replayed(make, x, other):
    """What a recorded function gives for other values, and its gradient there."""
    made = make(x)
    return made(other), *with_gradient(made, other)


def compiled(backend, **options):
    def case(function, x, other):
        torch._dynamo.reset()
        whole = torch.compile(lambda x: function(x * 2) + 1, backend=backend, fullgraph=True, **options)
        return whole(x), whole(other), *with_gradient(whole, other)
    return case


def traced_gradient(mode):
    def case(function, x, other):
        def gradient(x):
            x = x.detach().requires_grad_()
            y = function(x)
            return torch.autograd.grad((y * slope(y)).sum(), x)[0]
        return make_fx(gradient, tracing_mode=mode)(x)(other)
    return case


def under_dual_level(function, x, other):
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(function(forward_ad.make_dual(x, other))))


def tangent_of_a_gradient(function, x, other, **options):
    x = x.clone().requires_grad_()
    y = function(x)
    with forward_ad.dual_level():
        gradient, = torch.autograd.grad(y, x, forward_ad.make_dual(slope(y), other), **options)
        return tuple(forward_ad.unpack_dual(gradient))


def tangent_of_a_traced_call(function, x, other):
    return under_dual_level(make_fx(function)(x), x, other)


def tangent_of_a_traced_gradient(function, x, other):
    def gradient(x, dy):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x, dy)[0]
    made = make_fx(gradient)(x, other)
    return under_dual_level(lambda dy: made(x, dy), slope(x), other)


def written_to_after_the_call(function, x, other):
    x = x.clone().requires_grad_()
    between = x * 1
    y = function(between)
    between.mul_(2)
    (y * slope(y)).sum().backward()
    return y.detach(), x.grad


def of_fake_tensors(function, x, other):
    with FakeTensorMode() as mode:
        made = function(mode.from_tensor(x))
        return type(made).__name__, made.shape, made.dtype, made.stride()


def counting_flops(function, x, other):
    with FlopCounterMode(display=False) as mode:
        return function(x), mode.get_total_flops()


def under(mode):
    def case(function, x, other):
        with mode():
            return with_gradient(function, x)
    return case


def under_profiler(case, *arguments):
    with torch.profiler.profile():
        return case(*arguments)


def under_autocast(function, x, other):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return function(x), function(x.to(torch.bfloat16)), *with_gradient(function, x)


def compiled_under_autocast(function, x, other):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return compiled("aot_eager")(function, x, other)


def deterministic(function, x, other):
    torch.use_deterministic_algorithms(True)
    try:
        return with_gradient(function, x)
    finally:
        torch.use_deterministic_algorithms(False)


def for_inference(function, x, other):
    with torch.inference_mode():
        made = function(x)
        return made.clone(), made.is_inference(), made.requires_grad


def without_gradient(function, x, other):
    with torch.no_grad():
        made = function(x.clone().requires_grad_())
        return made, made.requires_grad


def of_a_kind(function, x, other):
    made = function(x.as_subclass(Kind))
    return type(made).__name__, made.as_subclass(torch.Tensor)


def of_a_wrapper(function, x, other):
    made = function(Wrapper(x))
    return type(made).__name__, made.inner


def batched_gradients(function, x, other):
    x = x.clone().requires_grad_()
    y = function(x)
    return torch.autograd.grad(y, x, torch.stack([slope(y), other]), is_grads_batched=True)[0]


def among_ranks(wrap):
    """The only rank of a group, by gloo."""
    def case(function, x, other):
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
            try:
                model = wrap(Scaled(function))
                made = with_gradient(model, x)
                scale = next(iter(model.parameters())).grad
                return *made, getattr(scale, "full_tensor", lambda: scale)()
            finally:
                torch.distributed.destroy_process_group()
    return case


def sharded(model):
    from torch.distributed.fsdp import fully_shard

    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    fully_shard(model, mesh=mesh)
    return model


def cases():
    return {
        "a call": lambda f, x, other: (f(x), *with_gradient(f, x)),
        "jit.trace": lambda f, x, other: replayed(lambda x: torch.jit.trace(Model(f), x), x, other),
        **{f"make_fx {mode}": lambda f, x, other, mode=mode: replayed(
            lambda x: make_fx(f, tracing_mode=mode)(x), x, other)
           for mode in ("real", "fake", "symbolic")},
        **{f"make_fx of a gradient, {mode}": traced_gradient(mode) for mode in ("real", "fake", "symbolic")},
        **{f"export, strict={strict}": lambda f, x, other, strict=strict: replayed(
            lambda x: torch.export.export(Model(f), (x,), strict=strict).module(), x, other) for strict in (False, True)},
        **{f"compile by {backend}": compiled(backend) for backend in ("eager", "aot_eager", "inductor")},
        "compile for all sizes": compiled("aot_eager", dynamic=True),
        "compile of func.grad": lambda f, x, other: torch.compile(torch.func.grad(
            lambda x: (f(x) * slope(x)).sum()), backend="aot_eager", fullgraph=True)(x),
        "func.grad of compile": lambda f, x, other: torch.func.grad(
            lambda x: (torch.compile(f, backend="eager")(x) * slope(x)).sum())(x),
        "vmap": lambda f, x, other: torch.vmap(f)(torch.stack([x, other])),
        "func.grad": lambda f, x, other: torch.func.grad(lambda x: (f(x) * slope(x)).sum())(x),
        "func.vjp": lambda f, x, other: torch.func.vjp(f, x)[1](other)[0],
        "func.jvp": lambda f, x, other: torch.func.jvp(f, (x,), (other,)),
        "func.jacrev": lambda f, x, other: torch.func.jacrev(f)(x),
        "func.jacfwd": lambda f, x, other: torch.func.jacfwd(f)(x),
        "func.hessian": lambda f, x, other: torch.func.hessian(lambda x: (f(x) * slope(x)).sum())(x[:1, :8]),
        "vmap of func.grad": lambda f, x, other: torch.vmap(torch.func.grad(lambda x: (f(x) ** 2).sum()))(x[None]),
        "autograd.functional.hvp": lambda f, x, other: torch.autograd.functional.hvp(
            lambda x: (f(x) * slope(x)).sum(), x, other),
        "autograd.functional.jacobian": lambda f, x, other: torch.autograd.functional.jacobian(f, x, vectorize=True),
        "a dual level": under_dual_level, "a tangent of a gradient": tangent_of_a_gradient,
        "a tangent of a gradient with a graph": lambda f, x, other: tangent_of_a_gradient(f, x, other, create_graph=True),
        "a tangent of a traced call": tangent_of_a_traced_call,
        "a tangent of a traced gradient": tangent_of_a_traced_gradient,
        "an input that is written to after the call": written_to_after_the_call,
        "a second derivative": lambda f, x, other: twice(f, x),
        "gradcheck": lambda f, x, other: torch.autograd.gradcheck(f, (x.double().requires_grad_(),), fast_mode=True),
        "gradgradcheck": lambda f, x, other: torch.autograd.gradgradcheck(
            f, (x.double().requires_grad_(),), fast_mode=True),
        "fake tensors": of_fake_tensors, "counted FLOPs": counting_flops, "a dispatch mode": under(SeenOperators),
        "a function mode": under(SeenFunctions), "a profiler": under(torch.profiler.profile),
        "autocast": under_autocast, "compile under autocast": compiled_under_autocast,
        "deterministic algorithms": deterministic,
        "a checkpoint": lambda f, x, other: with_gradient(lambda x: checkpoint(f, x, use_reentrant=False), x),
        "a reentrant checkpoint": lambda f, x, other: with_gradient(lambda x: checkpoint(f, x, use_reentrant=True), x),
        "saved on the host": lambda f, x, other: under(torch.autograd.graph.save_on_cpu)(f, x, other),
        "DDP": among_ranks(lambda model: torch.nn.parallel.DistributedDataParallel(model)),
        "FSDP": among_ranks(sharded),
        "inference": for_inference, "no_grad": without_gradient, "batched gradients": batched_gradients,
        "a negated view": lambda f, x, other: (f(torch._neg_view(x)), *with_gradient(lambda x: f(torch._neg_view(x)), x)),
        "a conjugated view": lambda f, x, other: f(torch.complex(x, other).conj().imag),
        "a kind of tensors": of_a_kind, "a wrapper of tensors": of_a_wrapper,
        "other strides": lambda f, x, other: (f(x.t().contiguous().t()), *with_gradient(f, x.t().contiguous().t())),
        "an expanded array": lambda f, x, other: f(x[:1].expand(len(x), -1)),
        "a part of columns": lambda f, x, other: f(torch.cat([x, other], 1)[:, :x.shape[1]]),
        "no rows": lambda f, x, other: (f(x[:0]), *with_gradient(f, x[:0])),
        "another dtype": lambda f, x, other: (f(x.double()), f(x.to(torch.bfloat16))),
        "more axes": lambda f, x, other: (f(x.view(4, -1, x.shape[1])), *with_gradient(f, x.view(2, 2, -1, x.shape[1]))),
        "more axes, differentiated twice": lambda f, x, other: twice(f, x.view(4, -1, x.shape[1])),
        "more axes, other strides": lambda f, x, other: f(x.view(4, -1, x.shape[1]).transpose(0, 1)),
        "more axes, compiled": lambda f, x, other: compiled("aot_eager")(f, *(
            one.view(4, -1, x.shape[1]) for one in (x, other))),
        "more axes, compiled for all sizes": lambda f, x, other: compiled("aot_eager", dynamic=True)(f, *(
            one.view(4, -1, x.shape[1]) for one in (x, other))),
        "other strides, compiled": lambda f, x, other: compiled("inductor")(lambda x: f(x.t().contiguous().t()), x, other),
        "more axes, mapped": lambda f, x, other: torch.vmap(f)(x.view(4, -1, x.shape[1])),
    }


@unittest.skipUnless(HAS_TORCH, "torch is not installed")
class Matrix(KernelTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for kernel in ("softmax", "softmax_backward"):
            cls.sweep_kernel(kernel, "--dtype", "f32", rows=ROWS, cols=COLS)

    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")
        tunectl.open()
        torch.manual_seed(0)
        torch.set_num_threads(1)

    def assert_same(self, got, want):
        got, want = (one if isinstance(one, tuple) else (one,) for one in (got, want))
        self.assertEqual(len(got), len(want))
        for one, other in zip(got, want):
            if not isinstance(other, torch.Tensor):
                self.assertEqual(one, other)
                continue
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
            self.assertEqual((one.stride(), one.requires_grad), (other.stride(), other.requires_grad))

    def check(self, rows, name, case, was_trained=False):
        """was_trained: a gradient of such a call was recorded before, so that its autograd.Function is there."""
        x, other = torch.randn(rows, COLS), torch.randn(rows, COLS)
        want = case(reference, x, other)
        for form in ("the kernel", "op()"):
            with self.subTest(name, rows=rows, form=form, was_trained=was_trained):
                kernel = tunectl.kernel("softmax", fallback=reference)
                kernel(torch.randn(rows, COLS))  # a plan is there: what looks only when it is made comes too late
                if was_trained:
                    with_gradient(kernel, x)
                    self.assertTrue(kernel._functions)
                self.assert_same(case(kernel if form == "the kernel" else kernel.op(), x, other), want)

    def test_with_a_record(self):
        for name, case in cases().items():
            self.check(ROWS, name, case)

    def test_with_a_record_and_after_a_gradient(self):
        for name, case in cases().items():
            self.check(ROWS, name, case, was_trained=True)

    def test_without_a_record(self):
        for name, case in cases().items():
            self.check(8, name, case)

    def test_what_is_launched_and_what_is_said(self):
        """A call that nobody follows launches what was tuned, and every fallback has a sentence."""
        x = torch.randn(ROWS, COLS)
        for call, why in ((lambda f: f(x), None), (lambda f: f(x.view(4, 4, COLS)), None),
                          (lambda f: with_gradient(f, x), None), (lambda f: under(SeenOperators)(f, x, x), None),
                          (lambda f: compiled("eager")(f, x, x), None), (lambda f: f.op()(x), None),
                          (lambda f: f(torch._neg_view(x)), "x is a negated view"),
                          (lambda f: f(x.t().contiguous().t()), "x is not contiguous"),
                          (lambda f: torch.vmap(f)(x[None]), "a transform of torch.func"),
                          (lambda f: torch.jit.trace(Model(f), x), "torch.jit.trace records"),
                          (lambda f: twice(f, x), "differentiated again"),
                          (lambda f: under_dual_level(f, x, x), "has a tangent"),
                          (lambda f: tangent_of_a_gradient(f, x, x), "has a tangent"),
                          (lambda f: written_to_after_the_call(f, x, x), None),
                          (lambda f: under_profiler(written_to_after_the_call, f, x, x), None),
                          (lambda f: of_fake_tensors(f, x, x), "without memory"),
                          (lambda f: f(x.as_subclass(Kind)), "is a Kind"),
                          (lambda f: f(x.double()), "is not written for 'f64'"),
                          (lambda f: f(x[:0]), "arrays without elements")):
            kernel = tunectl.kernel("softmax", fallback=reference)
            call(kernel)
            with self.subTest(why):
                self.assertEqual(len(kernel.notes), why is not None, kernel.notes)
                if why is not None:
                    self.assertIn(why, kernel.notes[0])

    def test_symbolic_trace_records_the_fallback(self):
        x = torch.randn(ROWS, COLS)
        forms = {"the kernel": lambda f: f, "op()": lambda f: f.op(), "by name": lambda f: lambda x: f(x=x),
                 "with a dim": lambda f: lambda x: f(x, cols=COLS)}
        for rows in (ROWS, 8):
            for name, form in forms.items():
                with self.subTest(name, rows=rows):
                    kernel = tunectl.kernel("softmax", fallback=lambda x: reference(x))
                    kernel(torch.randn(rows, COLS))
                    before = len(kernel.notes)
                    made = torch.fx.symbolic_trace(Model(form(kernel)))
                    self.assertIn("softmax", made.code)
                    self.assert_same(made(x), reference(x) + x)
                    self.assertIn("torch.fx.symbolic_trace records the call", kernel.notes[before])

    def test_symbolic_trace_records_what_a_mode_does_not_read_as_none(self):
        def normed(x, residual, weight, epsilon):
            x = x if residual is None else x + residual
            return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight

        norm = tunectl.kernel("rmsnorm", fallback=normed, returns="y", scalars={"epsilon": 1e-5})
        x, residual, weight = torch.randn(ROWS, COLS), torch.randn(ROWS, COLS), torch.randn(COLS)
        for name, form in {"the first ones": lambda x: norm(x, weight), "by name": lambda x: norm(x, weight=weight),
                           "a mode's": lambda x: norm(x, weight=weight, residual=residual), "none": lambda x: norm(x, None, weight),
                           "a scalar": lambda x: norm(x, weight, epsilon=0.5)}.items():
            with self.subTest(name):
                self.assert_same(torch.fx.symbolic_trace(Model(form))(x), form(x) + x)

    def test_symbolic_trace_without_a_fallback_says_what_to_do(self):
        kernel = tunectl.kernel("softmax", fallback=None)
        with self.assertRaisesRegex(TypeError, "give tunectl.kernel a fallback="):
            torch.fx.symbolic_trace(Model(kernel))
        with_out = tunectl.kernel("softmax", fallback=reference)
        with self.assertRaisesRegex(TypeError, "leave out="):
            torch.fx.symbolic_trace(Model(lambda x: with_out(x, out=torch.empty(ROWS, COLS))))

    def test_a_second_derivative_without_a_fallback_is_an_error(self):
        """Whoever asks for one gets the error, by whatever function; nobody else does."""
        x, other = torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)
        kernel = tunectl.kernel("softmax", fallback=None)
        forms = {"the kernel": kernel, "op()": kernel.op(), "compiled": torch.compile(lambda x: kernel(x), backend="eager"),
                 "folded": lambda x: kernel(x.view(4, 4, COLS)).view(x.shape)}
        for form, function in forms.items():
            for name, case in second_derivatives().items():
                with self.subTest(name, form=form), self.assertRaisesRegex(RuntimeError, "softmax has no second derivative"):
                    case(function, x, other)
            for name, case in without_second_derivatives().items():
                with self.subTest(name, form=form):
                    torch.testing.assert_close(case(function, x, other), case(reference, x, other), rtol=1e-4, atol=1e-5)
            with self.subTest("a tangent", form=form), self.assertRaisesRegex(RuntimeError, "no forward-mode derivative"):
                tangent_of_a_gradient(function, x, x)
            with self.subTest("func.grad", form=form), self.assertRaises(RuntimeError):
                torch.func.grad(lambda x: torch.func.grad(lambda x: function(x).square().sum())(x).sum())(x)
        with self.assertRaisesRegex((RuntimeError, LookupError), "forward-mode derivative|no fallback="):
            tangent_of_a_traced_call(kernel, x, x)
        self.assertEqual(kernel.notes, ())

    def test_what_a_gradient_reads_is_not_written_to(self):
        for make in (lambda f: f, lambda f: f.op()):
            function = make(tunectl.kernel("softmax", fallback=reference))
            for written, options in ((0, {"create_graph": True}), (1, {})):
                x = torch.randn(ROWS, COLS, requires_grad=True)
                tensors = [x * 1]
                tensors.append(function(tensors[0]))
                loss = tensors[1].sum()
                tensors[written].mul_(2)
                with self.subTest(written=written), self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    torch.autograd.grad(loss, x, **options)

    def test_arrays_to_write_to(self):
        """A mistake is one with a record and without."""
        softmax = tunectl.kernel("softmax", fallback=reference)
        for rows in (ROWS, 8):
            x = torch.randn(rows, COLS)
            leaf = torch.zeros(rows, COLS, requires_grad=True)
            for follower in (contextlib.nullcontext, torch.profiler.profile):
                with self.subTest(rows=rows, follower=follower), follower():
                    with self.assertRaisesRegex(ValueError, "'y' lies where 'x' does: give another as out="):
                        softmax(x, out=x)
                    with self.assertRaisesRegex(ValueError, "a tensor that needs a gradient cannot be out="):
                        softmax(x, out=leaf)
                    with torch.no_grad():
                        torch.testing.assert_close(softmax(x, out=leaf).detach(), reference(x))
        x = torch.randn(8, COLS)
        for fallback, why in ((lambda x: (x, x, x), "softmax has 1 outputs, and the fallback gives 3"),
                              (lambda x: x[:1], r"output 0 has the axes \[8, 64\], and the fallback gives \[1, 64\]"),
                              (lambda x: x.double(), "output 0 is f32, and the fallback gives f64")):
            with self.assertRaisesRegex(ValueError, why):
                tunectl.kernel("softmax", fallback=fallback)(x)


if __name__ == "__main__":
    unittest.main()
