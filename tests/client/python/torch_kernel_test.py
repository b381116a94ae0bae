# SPDX-License-Identifier: Apache-2.0
"""Tuned binaries as functions of PyTorch's tensors: autograd, operators, torch.compile. Run by ./check torch."""
import importlib.util
import unittest

import kit  # noqa: F401  # puts the package on the path
import tunectl
from kernel_kit import KernelTest


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Torch(KernelTest):
    def test_tensors_ops_and_compile(self):
        import torch

        saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: 2.5 * x + y,
                               gradient=lambda inputs, outputs, grads: (2.5 * grads[0], grads[0]))
        x, y = torch.randn(4096), torch.randn(4096)
        torch.testing.assert_close(saxpy(x, y), 2.5 * x + y)
        op = saxpy.op()
        torch.testing.assert_close(op(x, y), 2.5 * x + y)
        compiled = torch.compile(lambda x, y: op(x, y) * 2, backend="aot_eager", fullgraph=True)
        for n in (4096, 1000, 1234):
            x, y = torch.randn(n), torch.randn(n)
            torch.testing.assert_close(compiled(x, y), (2.5 * x + y) * 2)
        x.requires_grad_()
        saxpy(x, y).sum().backward()
        torch.testing.assert_close(x.grad, torch.full_like(x, 2.5))

    def test_operators_of_a_mode_take_more_axes_each_time(self):
        import torch

        norm = tunectl.kernel("rmsnorm", fallback=lambda x, residual, weight: (x + residual, x, x.sum(-1)))
        op, x = norm.op(residual=1), torch.randn(2, 24, 128)
        for _ in range(3):
            self.assertEqual([one.shape for one in op(x, x, torch.rand(128))], [x.shape, x.shape, x.shape[:2]])

    def test_autograd_knows_what_was_written_to(self):
        import torch

        saxpy = tunectl.kernel("saxpy", fallback=None)
        x, y, out = torch.randn(4096), torch.randn(4096), torch.randn(4096)
        weight = torch.ones(4096, requires_grad=True)
        kept = (weight * out).sum()
        saxpy(x, y, out=out)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            kept.backward()
        with self.assertRaisesRegex(ValueError, "a tensor that needs a gradient cannot be out="):
            saxpy(x, y, out=weight)
        with torch.no_grad():
            torch.testing.assert_close(saxpy(x, y, out=weight).detach(), 2.5 * x + y)
        with torch.inference_mode():
            saxpy(x, y, out=torch.empty(4096))

    def test_scalars_beside_gradients_and_compilers(self):
        import torch

        saxpy = tunectl.kernel("saxpy", fallback=lambda x, y, a=2.5: a * x + y)
        x, y = torch.randn(4096), torch.randn(4096)
        torch.testing.assert_close(saxpy(x, y, scalars={"a": 3.0}), 3 * x + y)
        self.assertEqual(saxpy.notes, ())
        compiled = torch.compile(lambda x, y, a: saxpy(x * 2, y, scalars={"a": a}) + 1, backend="eager")
        for a in (3.0, 5.0):
            torch.testing.assert_close(compiled(x, y, a), a * x * 2 + y + 1)
        self.assertEqual(saxpy.notes, ())
        x.requires_grad_()
        saxpy(x, y, scalars={"a": 3.0}).sum().backward()
        torch.testing.assert_close(x.grad, torch.full_like(x, 3.0))
        self.assertIn("the snapshot has no saxpy_backward", saxpy.notes[0])
        with self.assertRaisesRegex(ValueError, "gradient= does not know the scalars"):
            tunectl.kernel("saxpy", fallback=None, gradient=lambda *all: all)(x, y, scalars={"a": 3.0})

    def test_scalars_of_operators_and_of_gradients(self):
        import torch

        x, y = torch.randn(4096), torch.randn(4096)
        bound = tunectl.kernel("saxpy", fallback=None, scalars={"a": 3.0})
        torch.testing.assert_close(bound.op()(x, y), 3 * x + y)
        torch.testing.assert_close(bound.op(scalars={"a": 4.0})(x, y), 4 * x + y)
        torch.testing.assert_close(bound.op()(x, y), 3 * x + y)
        with self.assertRaisesRegex(ValueError, "'rate' is no scalar"):
            bound.op(scalars={"rate": 4.0})
        whole = torch.compile(lambda x, y, a: bound(x * 2, y, scalars={"a": a}) + bound(x, y), backend="aot_eager",
                              fullgraph=True)
        for a in (2.0, 5.0, 7.0):
            torch.testing.assert_close(whole(x, y, a), a * x * 2 + 3 * x + 2 * y)
        given = tunectl.kernel("saxpy", fallback=None, gradient=lambda inputs, outputs, grads, scalars: (
            scalars["a"] * grads[0], grads[0]))
        for function in (given, torch.compile(lambda x, y, scalars: given(x, y, scalars=scalars), backend="aot_eager",
                                              fullgraph=True)):
            leaf = x.clone().requires_grad_()
            made = function(leaf, y, scalars={"a": 4.0})
            torch.testing.assert_close(made.detach(), 4 * x + y)
            made.sum().backward()
            torch.testing.assert_close(leaf.grad, torch.full_like(x, 4.0))
        self.assertEqual((bound.notes, given.notes), ((), ()))

    def test_who_follows_operators_sees_them(self):
        import torch
        from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
        from torch.utils._python_dispatch import TorchDispatchMode

        class Noted(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                names.append(str(function))
                return function(*args, **(kwargs or {}))

        names = []
        x, y = torch.randn(4096), torch.randn(4096)
        op = tunectl.kernel("saxpy", fallback=None).op()
        with Noted():
            seen = op(x, y)
        self.assertTrue(any(name.startswith("tunectl.saxpy") for name in names), names)
        torch.testing.assert_close(seen, op(x, y))
        with torch.profiler.profile() as profile:
            op(x, y)
        self.assertTrue(any(event.name.startswith("tunectl::saxpy") for event in profile.events()))
        with FakeTensorMode() as mode:
            self.assertIsInstance(op(mode.from_tensor(x), mode.from_tensor(y)), FakeTensor)
            fallen = tunectl.kernel("saxpy", fallback=lambda x, y: 2.5 * x + y)
            fallen(x, y)
            self.assertIsInstance(fallen(mode.from_tensor(x), mode.from_tensor(y)), FakeTensor)
            self.assertIn("without memory", fallen.notes[0])
        made = op(x.to("meta"), y.to("meta"))
        self.assertEqual((made.shape, made.device.type), (x.shape, "meta"))
        saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: "fallen back")
        self.assertEqual(saxpy(x.to("meta"), y.to("meta")), "fallen back")
        self.assertEqual(saxpy.notes, ("x is without memory (on the device meta)",))
        bare = tunectl.kernel("saxpy", fallback=None)
        for given, why in ((x.to("meta"), r"x is without memory \(on the device meta\)$"),
                           (x.double(), "fallback=: x is f64, and the kernel takes f32$"),
                           (x.clone().requires_grad_(), "fallback=: inputs that need gradients.*no saxpy_backward$")):
            for _ in range(2):
                with self.assertRaisesRegex(LookupError, why):
                    bare(given, y.to(given.device))

    def softmax(self, rows, cols, backward=True):
        import torch

        self.sweep_kernel("softmax", "--dtype", "f32", rows=rows, cols=cols)
        if backward:
            self.sweep_kernel("softmax_backward", "--dtype", "f32", rows=rows, cols=cols)
        tunectl.open()
        return tunectl.kernel("softmax", fallback=lambda x: torch.softmax(x, -1))

    def check_gradient(self, function, reference, *inputs):
        """The gradients of both, for an output gradient that is not constant."""
        import torch

        grads = []
        for one in (function, reference):
            leaves = [x.clone().requires_grad_() for x in inputs]
            made = one(*leaves)
            made = made if isinstance(made, tuple) else (made,)
            sum((y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum() for y in made).backward()
            grads.append([leaf.grad for leaf in leaves])
        torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)

    def test_a_gradient_that_comes_with_the_loss(self):
        """As docs/training-jobs.md has it."""
        import torch

        self.sweep_kernel("cross_entropy", "--dtype", "f32", rows=64, cols=100, gradient=1, smoothing=0)
        tunectl.open()
        tuned = tunectl.kernel("cross_entropy", fallback=None, gradient=1, smoothing=0)

        class MeanLoss(torch.autograd.Function):
            @staticmethod
            def forward(ctx, logits, targets):
                shares = torch.full((len(targets),), 1 / len(targets), device=logits.device)
                loss, _, dlogits = tuned(logits, targets, shares)
                ctx.save_for_backward(dlogits)
                return loss.mean()

            @staticmethod
            def backward(ctx, slope):
                return ctx.saved_tensors[0] * slope, None

        logits, targets = torch.randn(64, 100), torch.randint(100, (64,))
        own, theirs = (logits.clone().requires_grad_() for _ in range(2))
        (3 * MeanLoss.apply(own, targets)).backward()
        (3 * torch.nn.functional.cross_entropy(theirs, targets)).backward()
        torch.testing.assert_close(own.grad, theirs.grad, rtol=1e-4, atol=1e-6)
        self.assertEqual(tuned.notes, ())

    def test_the_backward_kernel_differentiates(self):
        import torch

        softmax = self.softmax(64, 48)
        x = torch.randn(64, 48)
        self.check_gradient(softmax, lambda x: torch.softmax(x, -1), x)
        self.assertEqual((softmax.notes, softmax.backward().kernel.notes), ((), ()), "both were launched")
        compiled = torch.compile(softmax.op(), backend="aot_eager", fullgraph=True)
        self.check_gradient(compiled, lambda x: torch.softmax(x, -1), x)
        self.check_gradient(compiled, lambda x: torch.softmax(x, -1), torch.randn(8, 5))
        self.assertIn("no binary for rows=8 cols=5", softmax.backward().kernel.notes[0], "the fallback's own")

    def test_a_compiled_function_has_calls_in_its_graph(self):
        import torch

        softmax = self.softmax(64, 48)
        whole = torch.compile(lambda x: softmax(x * 2) + 1, backend="aot_eager", fullgraph=True)
        self.check_gradient(whole, lambda x: torch.softmax(x * 2, -1) + 1, torch.randn(64, 48))
        self.assertEqual((softmax.notes, softmax.backward().kernel.notes), ((), ()), "both were launched")
        self.check_gradient(whole, lambda x: torch.softmax(x * 2, -1) + 1, torch.randn(8, 5))
        into = torch.compile(lambda x, y: softmax(x, out=y), backend="aot_eager", fullgraph=True)
        x, y = torch.randn(64, 48), torch.empty(64, 48)
        torch.testing.assert_close(into(x, y), torch.softmax(x, -1))
        torch.testing.assert_close(y, torch.softmax(x, -1))

    def test_a_compiled_function_falls_back_where_there_is_no_operator(self):
        import torch

        unknown = tunectl.kernel("nobodys", fallback=lambda x: x.sin())
        twice = lambda x: unknown(x, a=1) + unknown(x, a=len(x))  # two forms in a graph, one of a dim that is symbolic
        whole = torch.compile(twice, backend="aot_eager", fullgraph=True, dynamic=True)
        self.check_gradient(whole, lambda x: x.sin() * 2, torch.randn(7))
        self.assertRegex(unknown.notes[0], "nobodys")
        saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: 2.5 * x + y)  # which nothing differentiates
        whole = torch.compile(lambda x, y: saxpy(x, y), backend="aot_eager", fullgraph=True)
        self.check_gradient(whole, lambda x, y: 2.5 * x + y, torch.randn(4096), torch.randn(4096))
        torch.testing.assert_close(whole(*[torch.ones(4096)] * 2), torch.full((4096,), 3.5))
        bare = tunectl.kernel("nobodys", fallback=None)
        with self.assertRaisesRegex(Exception, "no snapshot describes nobodys"):
            torch.compile(lambda x: bare(x), backend="aot_eager", fullgraph=True)(torch.randn(7))

    def test_a_backward_kernel_that_nobody_tuned(self):
        import torch

        softmax = self.softmax(16, 40, backward=False)
        self.check_gradient(softmax, lambda x: torch.softmax(x, -1), torch.randn(16, 40))
        self.assertRegex(softmax.notes[0], "inputs need gradients, and of softmax_backward there is no binary")

    def test_a_form_of_the_same_kernel_differentiates(self):
        import torch

        for backward in (0, 1):
            self.sweep_kernel("rope", "--dtype", "f32", seq=8, batch=1, heads=2, kv_heads=1, head_dim=16, backward=backward)
        tunectl.open()

        def turn(q, k, cosine, sine):
            def one(x):
                low, high = x.chunk(2, -1)
                c, s = cosine[:, None, None], sine[:, None, None]
                return torch.cat((low * c - high * s, high * c + low * s), -1)

            return one(q), one(k)

        cosine, sine = torch.randn(8, 8), torch.randn(8, 8)
        rope = tunectl.kernel("rope", fallback=turn, interleaved=0, backward=0)
        q, k = torch.randn(8, 1, 2, 16), torch.randn(8, 1, 1, 16)
        self.check_gradient(lambda q, k: rope(q, k, cosine, sine), lambda q, k: turn(q, k, cosine, sine), q, k)
        self.assertEqual((rope.notes, rope.backward().kernel.notes), ((), ()))
        self.check_gradient(lambda q: rope(q, k, cosine, sine)[0], lambda q: turn(q, k, cosine, sine)[0], q)
        # Of the tables it gives no gradient: the fallback does.
        self.check_gradient(rope, turn, q, k, cosine, sine)
        self.assertIn("an input needs a gradient that rope does not give", rope.notes)
        self.check_gradient(rope.op(), turn, q, k, cosine, sine)
        bare = tunectl.kernel("rope", fallback=None, interleaved=0, backward=0)
        with self.assertRaisesRegex(LookupError, "an input needs a gradient"):
            bare.op()(q, k, cosine.clone().requires_grad_(), sine)
        slope = torch.randn_like(q).requires_grad_()
        for function in (bare, bare.op()):
            leaf = q.clone().requires_grad_()
            gradient, = torch.autograd.grad(function(leaf, k, cosine, sine), leaf, (slope, k), create_graph=True)
            zero, = torch.autograd.grad((gradient + leaf).sum(), leaf, retain_graph=True)
            torch.testing.assert_close(zero, torch.ones_like(q), msg="it is no function of q")
            with self.assertRaisesRegex(RuntimeError, "rope has no second derivative"):
                torch.autograd.grad((gradient + slope).sum(), slope)

    def attention(self, *forms):
        """tunectl's and PyTorch's, and arguments; with these forms of the backward kernel."""
        import torch

        sizes = {"batch": 1, "heads": 2, "kv_heads": 2, "seq": 32, "head_dim": 64, "causal": 1}
        self.sweep_kernel("attention", "--dtype", "f16", **sizes)
        for deterministic in forms:
            self.sweep_kernel("attention_backward", "--dtype", "f16", deterministic=deterministic, **sizes)
        tunectl.open()

        def reference(q, k, v):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        return reference, [torch.randn(1, 2, 32, 64, dtype=torch.float16) for _ in range(3)]

    def gradients(self, function, inputs):
        leaves = [one.clone().requires_grad_() for one in inputs]
        made = function(*leaves)
        made = made[0] if isinstance(made, tuple) else made
        made.float().square().sum().backward()
        return [made.detach(), *[leaf.grad for leaf in leaves]]

    def test_deterministic_algorithms_take_the_deterministic_kernel(self):
        import torch

        reference, inputs = self.attention(0)
        want = self.gradients(reference, inputs)
        attention = tunectl.kernel("attention", fallback=lambda q, k, v: (reference(q, k, v), None), causal=1)
        torch.testing.assert_close(self.gradients(attention, inputs), want, rtol=2e-2, atol=3e-2)
        self.assertEqual((attention.notes, attention.backward().kernel.notes), ((), ()), "both were launched")
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        torch.testing.assert_close(self.gradients(attention, inputs), want, rtol=2e-2, atol=3e-2)
        self.assertRegex(attention.notes[0], "attention_backward there is no binary for .* deterministic=1")
        self.attention(1)
        attention = tunectl.kernel("attention", fallback=lambda q, k, v: (reference(q, k, v), None), causal=1)
        torch.testing.assert_close(self.gradients(attention, inputs), want, rtol=2e-2, atol=3e-2)
        self.assertEqual((attention.notes, attention.backward().kernel.notes), ((), ()), "both were launched")
        torch.use_deterministic_algorithms(False)
        attention = tunectl.kernel("attention", fallback=None, causal=1)
        for _ in range(2):  # the second backward pass is that of the first one's kind
            torch.testing.assert_close(self.gradients(attention, inputs), want, rtol=2e-2, atol=3e-2)
        leaves = [one.clone().requires_grad_() for one in inputs]
        made, plans = attention(*leaves)[0], attention.backward().kernel._plans
        self.assertNotIn(("deterministic", 1), [dim for key in plans for dim in key])
        torch.use_deterministic_algorithms(True)  # between forward and backward pass
        made.float().square().sum().backward()
        torch.testing.assert_close([one.grad for one in leaves], want[1:], rtol=2e-2, atol=3e-2)
        self.assertIn(("deterministic", 1), [dim for key in plans for dim in key])
        torch.use_deterministic_algorithms(False)
        asked = tunectl.kernel("attention", fallback=None, causal=1, deterministic=1)
        torch.testing.assert_close(self.gradients(asked, inputs), want, rtol=2e-2, atol=3e-2)
        self.assertIn(("deterministic", 1), [dim for key in asked.backward().kernel._plans for dim in key])
        with self.assertRaisesRegex(ValueError, "has no dim 'determined'"):
            tunectl.kernel("attention", fallback=reference, causal=1, determined=1)(*inputs)

    def test_an_output_that_the_fallback_leaves_out(self):
        import torch

        reference, inputs = self.attention(0)
        attention = tunectl.kernel("attention", fallback=lambda q, k, v: (reference(q, k, v), None), causal=1)
        turned = [one.transpose(1, 2).contiguous().transpose(1, 2) for one in inputs]
        short = [one[:, :, :16].contiguous() for one in inputs]
        for given in (inputs, turned, short):
            want = self.gradients(reference, given)
            whole = torch.compile(lambda q, k, v: attention(q, k, v)[0], backend="aot_eager", fullgraph=True)
            for function in (attention, attention.op(), whole):
                torch.testing.assert_close(self.gradients(function, given), want, rtol=2e-2, atol=3e-2)
        self.assertIsNone(attention(*short)[1])

    def test_a_product_is_scaled_by_what_the_call_says(self):
        import torch

        sizes = {"transpose_a": 0, "transpose_b": 1, "epilogue": 0, "fast_accum": 0, "m": 32, "k": 64}
        self.sweep_kernel("gemm", "--dtype", "f16", n=16, **sizes)
        tunectl.open()
        a, b = torch.randn(32, 64, dtype=torch.float16), torch.randn(16, 64, dtype=torch.float16)
        unused = [torch.zeros(16, dtype=torch.float16), torch.zeros(1, 1, dtype=torch.float16), torch.ones(1), torch.ones(1)]

        def reference(a, b, *unused, alpha):
            return (alpha * (a.float() @ b.float().T)).to(a.dtype)

        product = tunectl.kernel("gemm", fallback=reference, **sizes)
        for n in (16, 8):  # with a record, and without one
            with self.assertRaisesRegex(ValueError, "gemm: the call leaves out alpha.*give scalars="):
                product(a, b[:n], unused[0][:n], *unused[1:])
        one = tunectl.kernel("gemm", fallback=reference, scalars={"alpha": 1}, **sizes)
        for n in (16, 8):
            rest = (b[:n], unused[0][:n], *unused[1:])
            for function in (one, one.op(), torch.compile(one, backend="aot_eager", fullgraph=True)):
                for given in (a, a.view(4, 8, 64)):
                    want = reference(given, b[:n], alpha=1)
                    torch.testing.assert_close(function(given, *rest), want, rtol=2e-3, atol=2e-3)
                    leaf, other = given.clone().requires_grad_(), given.clone().requires_grad_()
                    function(leaf, *rest).float().square().sum().backward()
                    reference(other, b[:n], alpha=1).float().square().sum().backward()
                    torch.testing.assert_close(leaf.grad, other.grad, rtol=1e-2, atol=1e-2)
            torch.testing.assert_close(one(a, *rest, scalars={"alpha": 0.5}), reference(a, b[:n], alpha=0.5),
                                       rtol=2e-3, atol=2e-3)
        self.assertEqual(one(a, b, *unused).shape, (32, 16))

    def test_a_norm_of_more_axes(self):
        import torch

        for kernel in ("rmsnorm", "rmsnorm_backward"):
            self.sweep_kernel(kernel, "--dtype", "f32", rows=24, cols=32, **({"residual": 0} if kernel == "rmsnorm" else {}))
        tunectl.open()

        def reference(x, residual, weight, epsilon=1e-6):
            rstd = torch.rsqrt(x.square().mean(-1) + epsilon)
            return x * rstd[..., None] * weight, residual, rstd

        norm = tunectl.kernel("rmsnorm", fallback=reference, residual=0)
        weight, residual = torch.randn(32), torch.zeros(1, 1)
        for shape in ((4, 6, 32), (2, 5, 32)):
            x = torch.randn(shape)
            made, want = norm(x, residual, weight), reference(x, residual, weight)
            for i in (0, 2):  # the sum with a residual is of another mode
                torch.testing.assert_close(made[i], want[i], rtol=1e-4, atol=1e-5)
            self.check_gradient(lambda x, weight: norm(x, residual, weight)[0],
                                lambda x, weight: reference(x, residual, weight)[0], x, weight)
            whole = torch.compile(lambda x, weight: norm(x, residual, weight)[0], backend="aot_eager", fullgraph=True)
            self.check_gradient(whole, lambda x, weight: reference(x, residual, weight)[0], x, weight)
            if shape[0] == 4:
                self.assertEqual((norm.notes, norm.backward().kernel.notes), ((), ()), "both were launched")
        exact = tunectl.kernel("rmsnorm", fallback=reference, residual=0, scalars={"epsilon": 0.5})
        x = torch.randn(4, 6, 32)
        self.check_gradient(lambda x, weight: exact(x, residual, weight)[0],
                            lambda x, weight: reference(x, residual, weight, 0.5)[0], x, weight)
        self.assertEqual((exact.notes, exact.backward().kernel.notes), ((), ()), "rstd has it")
        tripled = tunectl.kernel("softmax", fallback=lambda x, power: torch.softmax(power * x, -1), scalars={"power": 3.0})
        with self.assertRaisesRegex(ValueError, "'power' is no scalar"):
            tripled(torch.randn(4, 6))



if __name__ == "__main__":
    unittest.main()
