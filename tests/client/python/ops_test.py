# SPDX-License-Identifier: Apache-2.0
"""tunectl.ops against the PyTorch functions that they stand for: tuned sizes and others, forward and backward. Run by
./check torch."""
import importlib.util
import unittest
import unittest.mock

import kit
from kernel_kit import KernelTest

KERNELS = kit.ROOT / "kernels"


def close(got, want, tolerance):
    import torch

    torch.testing.assert_close(got.float(), want.float(), rtol=tolerance, atol=tolerance)


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Ops(KernelTest):
    @classmethod
    def prepare(cls):
        def sweep(kernel, dtype, **dims):
            cls.sweep_kernel(kernel, "--dtype", dtype, **dims)

        rows = {"rows": 48, "cols": 128}
        for kernel in ("rmsnorm", "layernorm"):
            sweep(kernel, "f32", residual=0, **rows)
            sweep(f"{kernel}_backward", "f32", **rows)
        for kernel in ("softmax", "softmax_backward", "swiglu", "swiglu_backward"):
            sweep(kernel, "f32", **rows)
        for gradient in (0, 1):
            sweep("cross_entropy", "f32", gradient=gradient, **rows)
        sweep("attention", "bf16", batch=2, heads=4, kv_heads=2, seq=48, head_dim=64, causal=1)
        shape = {"heads": 4, "kv_heads": 2, "seq": 48, "head_dim": 64}
        sweep("attention", "bf16", batch=2, keys=64, **shape)
        sweep("attention", "bf16", batch=2, keys=64, causal=1, **shape)
        for mode in ({"window": 16}, {"softcap": 1}, {"sinks": 1}):
            sweep("attention", "bf16", batch=2, causal=1, **mode, **shape)
        sweep("attention", "bf16", batch=1, sequences=3, causal=1, **shape)
        for backward in (0, 1):
            sweep("rope", "f32", seq=24, batch=2, heads=4, kv_heads=2, head_dim=64, backward=backward)
        sweep("gemm", "bf16", m=48, n=64, k=128, epilogue=3)
        sweep("gemm", "bf16", m=48, n=128, k=64, epilogue=0, transpose_b=0)
        sweep("gemm", "bf16", m=64, n=128, k=48, epilogue=0, transpose_a=1, transpose_b=0)
        sweep("adamw", "f32", n=6144)

    def both(self, ours, theirs, *inputs, tolerance=1e-4, tuned=True):
        """Values and gradients of both, of one set of inputs."""
        import torch
        from tunectl import ops

        results = []
        for function in (ours, theirs):
            own = [one.detach().clone().requires_grad_(one.is_floating_point()) for one in inputs]
            made = function(*own)
            made = made if isinstance(made, tuple) else (made,)
            torch.manual_seed(1)
            sum((one * torch.randn_like(one)).sum() for one in made).backward()
            results.append([*made, *[one.grad for one in own if one.grad is not None]])
        self.assertEqual(len(results[0]), len(results[1]))
        for got, want in zip(*results):
            self.assertEqual((got.shape, got.dtype), (want.shape, want.dtype))
            close(got, want, tolerance)
        if tuned is not None and getattr(ours, "op", None):
            self.assertEqual(ops.why(ours.op) == (), tuned, ops.why(ours.op))

    def named(self, op, function=None):
        """A function that says which op it is of."""
        def call(*inputs):
            return (function or op)(*inputs)

        call.op = op
        return call

    def test_rows(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        x, weight, bias = torch.randn(2, 24, 128), torch.rand(128) + 0.5, torch.randn(128)
        self.both(self.named(ops.softmax), lambda x: torch.softmax(x, -1), x)
        self.both(self.named(ops.swiglu), lambda g, u: F.silu(g) * u, x, torch.randn_like(x))
        self.both(self.named(ops.rms_norm, lambda x, w: ops.rms_norm(x, w, 1e-5)),
                  lambda x, w: F.rms_norm(x, (128,), w, 1e-5), x, weight)
        self.both(self.named(ops.layer_norm, lambda x, w, b: ops.layer_norm(x, w, b, 1e-3)),
                  lambda x, w, b: F.layer_norm(x, (128,), w, b, 1e-3), x, weight, bias)

    def test_rows_of_more_axes_after_their_first_call(self):
        """They launch in one step, forward and backward, on views of their arrays."""
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        x, weight = torch.randn(2, 24, 128, requires_grad=True), (torch.rand(128) + 0.5).requires_grad_()

        def ours():
            return ops.rms_norm(x, weight, 1e-5)

        def theirs():
            return F.rms_norm(x, (128,), weight, 1e-5)

        slope = torch.randn(128, 24, 2).permute(2, 1, 0)  # not in one piece
        for _ in range(3):
            made = ours().add_(1).mul_(2)  # autograd lets nobody write to a view that a Function made
            for results in ((made, theirs().add(1).mul(2)), (ours(), theirs())):
                for got, want in zip(*[torch.autograd.grad(one, (x, weight), slope, retain_graph=True) for one in results]):
                    close(got, want, 1e-4)
            batched = [torch.autograd.grad(one, x, torch.stack((slope, slope * 2)), is_grads_batched=True)[0]
                       for one in (ours(), theirs())]
            close(*batched, 1e-4)
            twice = []
            for call in (ours, theirs):
                found = torch.autograd.grad(call().pow(2).sum(), (x, weight), create_graph=True)
                twice.append(torch.autograd.grad(sum(one.pow(2).sum() for one in found), (x, weight)))
            for got, want in zip(*twice):
                torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-2)

    def test_further_calls_without_gradients_only_launch(self):
        """No call finds out anew what it leaves out, folds or returns; a call of another form is as right as before."""
        import torch
        import torch.nn.functional as F
        from tunectl import _callable, ops

        x, weight, bias = torch.randn(48, 128), torch.rand(128) + 0.5, torch.randn(128)
        q, k, v = (torch.randn(2, heads, 48, 64).bfloat16() for heads in (4, 2, 2))
        angles = torch.randn(24, 32)
        views = [one.transpose(1, 2).contiguous().transpose(1, 2) for one in (q, k, v)]
        turned = [torch.randn(24, 2, heads, 64) for heads in (4, 2)]
        calls = {"softmax": lambda x: ops.softmax(x), "swiglu": lambda x: ops.swiglu(x, x),
                 "rms_norm": lambda x: ops.rms_norm(x, weight), "layer_norm": lambda x: ops.layer_norm(x, weight, bias),
                 "rope": lambda x: ops.rope(*turned, angles.cos(), angles.sin())[0],
                 "attention": lambda x: ops.attention(q, k, v, causal=True),
                 "attention of views": lambda x: ops.attention(*views, causal=True)}
        for name, call in calls.items():
            for shape in ((48, 128), (2, 24, 128), (48, 128)):
                given = x.view(shape)
                with self.subTest(name, shape=shape), torch.no_grad():
                    want = [call(given) for _ in range(2)][1]
                    with unittest.mock.patch.object(_callable.TunedKernel, "all_outputs", side_effect=AssertionError):
                        got = call(given)
                    self.assertEqual((got.shape, got.stride(), got._base), (want.shape, want.stride(), None))
                    self.assertTrue(torch.equal(got, want))
        norm = _callable.TunedKernel("rmsnorm", lambda x, *rest, epsilon: F.rms_norm(x, (128,), rest[-1], epsilon), None, {},
                                     {"epsilon": 1e-6}, "y")
        for given in (x, x, x, torch.randn(128, 48).t(), torch.randn(48, 256)[:, ::2]):
            close(norm(given, weight), F.rms_norm(given, (128,), weight, 1e-6), 1e-5)
        close(torch.func.vmap(lambda row: norm(row, weight))(x.view(2, 24, 128)),
              F.rms_norm(x.view(2, 24, 128), (128,), weight, 1e-6), 1e-5)
        leaf = x.clone().requires_grad_()
        close(torch.autograd.grad(norm(leaf, weight).sum(), leaf)[0],
              torch.autograd.grad(F.rms_norm(leaf, (128,), weight, 1e-6).sum(), leaf)[0], 1e-5)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(norm(x, weight).dtype, F.rms_norm(x, (128,), weight, 1e-6).dtype)

    def test_other_forms_are_pytorchs_own(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        x, weight = torch.randn(7, 3, 16), torch.randn(16)
        self.both(lambda x: ops.softmax(x, 1), lambda x: torch.softmax(x, 1), x)
        self.both(ops.rms_norm, lambda x: F.rms_norm(x, (16,), None, 1e-6), x)
        self.both(ops.layer_norm, lambda x, w: F.layer_norm(x, (16,), w), x, weight)
        close(ops.rms_norm(x.bfloat16(), weight), F.rms_norm(x.bfloat16(), (16,), weight, 1e-6), 1e-2)
        flat = torch.randn(16)
        self.both(ops.softmax, lambda x: torch.softmax(x, -1), flat)
        self.both(ops.rms_norm, lambda x, w: F.rms_norm(x, (16,), w, 1e-6), flat, weight)
        self.both(lambda x, w: ops.layer_norm(x, w, w), lambda x, w: F.layer_norm(x, (16,), w, w), flat, weight)
        self.both(ops.swiglu, lambda g, u: F.silu(g) * u, flat, weight)
        self.both(ops.swiglu, lambda g, u: F.silu(g) * u, x, weight)
        self.both(ops.linear, F.linear, flat, torch.randn(4, 16), torch.randn(4))
        q, k = torch.randn(2, 4, 8, 16), torch.randn(2, 4, 24, 16)
        for q, k in ((q, k), (q[0], q[1]), (q.double(), q.double())):
            self.both(lambda q, k: ops.attention(q, k, k), lambda q, k: F.scaled_dot_product_attention(q, k, k), q, k)
        with self.assertRaisesRegex(ValueError, "none of 'mean'"):
            ops.cross_entropy(x, torch.zeros(7, 3, dtype=torch.long), reduction="average")
        with self.assertRaisesRegex(ValueError, "none of 'gelu'"):
            ops.linear(x, torch.randn(4, 16), activation="relu")

    def test_cross_entropy(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        logits, targets = torch.randn(48, 128), torch.randint(0, 128, (48,))
        targets[5] = 7
        for form in ({}, {"label_smoothing": 0.1}, {"ignore_index": 7}, {"reduction": "sum"}, {"reduction": "none"}):
            with self.subTest(form):
                self.both(self.named(ops.cross_entropy, lambda x: ops.cross_entropy(x, targets, **form)),
                          lambda x: F.cross_entropy(x, targets, **form), logits)
        deep = torch.randint(0, 128, (2, 24))
        self.both(lambda x: ops.cross_entropy(x, deep),
                  lambda x: F.cross_entropy(x.view(48, 128), deep.view(48)), logits.view(2, 24, 128))

    def both_losses(self, inputs, targets, **form):
        """linear_cross_entropy beside PyTorch's operations."""
        import torch.nn.functional as F
        from tunectl import ops

        def theirs(x, weight, bias=None):
            own = {name: value for name, value in form.items() if name != "chunk"}
            logits = F.linear(x, weight, bias)
            losses = F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1), **own)
            return losses.view(targets.shape) if own.get("reduction") == "none" else losses

        self.both(lambda x, weight, bias=None: ops.linear_cross_entropy(x, weight, targets, linear_bias=bias, **form),
                  theirs, *inputs)

    def test_linear_cross_entropy(self):
        import torch
        from tunectl import ops

        x, weight, bias = torch.randn(2, 48, 32), torch.randn(128, 32) / 4, torch.randn(128)
        targets, before = torch.randint(0, 128, (2, 48)), ops.why(ops.linear_cross_entropy)
        targets[0, 5:9] = 7
        for form in ({}, {"label_smoothing": 0.1}, {"ignore_index": 7}, {"reduction": "sum"}, {"reduction": "none"}):
            with self.subTest(form):
                self.both_losses((x, weight), targets, chunk=48, **form)
                self.both_losses((x, weight, bias), targets, chunk=48, **form)
        with torch.no_grad():
            want = torch.nn.functional.cross_entropy((x @ weight.t()).view(96, 128), targets.view(96))
            close(ops.linear_cross_entropy(x, weight, targets, chunk=48), want, 1e-5)
        self.assertEqual(ops.why(ops.linear_cross_entropy), before)  # all of it was launched
        for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 3e-2), (torch.float16, 5e-3)):
            for chunk in (0, 7, 96):
                with self.subTest(dtype=dtype, chunk=chunk):
                    self.both_losses_of(dtype, tolerance, chunk, x, weight, bias, targets)

    def both_losses_of(self, dtype, tolerance, chunk, *arrays):
        """The same in a dtype, whose gradients have it, too."""
        import torch
        from tunectl import ops

        *inputs, targets = arrays
        inputs = [one.to(dtype).requires_grad_() for one in inputs]
        made = ops.linear_cross_entropy(*inputs[:2], targets, linear_bias=inputs[2], chunk=chunk)
        self.assertEqual((made.dtype, made.shape), (torch.float32, ()))
        got = torch.autograd.grad(made * 3, inputs)
        self.assertEqual([one.dtype for one in got], [dtype] * 3)
        wide = [one.detach().float().requires_grad_() for one in inputs]
        logits = torch.nn.functional.linear(*wide).view(-1, 128)
        want = torch.autograd.grad(3 * torch.nn.functional.cross_entropy(logits, targets.view(-1)), wide)
        for one, other in zip(got, want):
            self.assertLess((one.float() - other).abs().max(), tolerance * other.abs().max())

    def test_gradient_of_a_weight_is_rounded_once(self):
        """However many chunks there are: bf16 sums of 128 of them would be 3 times as wrong."""
        import torch
        from tunectl import ops

        x, weight = torch.randn(1024, 32).bfloat16(), torch.randn(64, 32).bfloat16()
        targets, errors = torch.randint(0, 64, (1024,)), {}
        wide = weight.float().requires_grad_()
        want, = torch.autograd.grad(torch.nn.functional.cross_entropy(x.float() @ wide.t(), targets), wide)
        for chunk in (8, 1024):
            own = weight.clone().requires_grad_()
            got, = torch.autograd.grad(ops.linear_cross_entropy(x, own, targets, chunk=chunk), own)
            errors[chunk] = ((got.float() - want).norm() / want.norm()).item()
        self.assertLess(errors[8], 2 ** -8)
        self.assertLess(errors[8], 1.3 * errors[1024])

    def test_linear_cross_entropy_under_others(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        x, weight = torch.randn(96, 32, requires_grad=True), torch.randn(128, 32, requires_grad=True)
        targets = torch.randint(0, 128, (96,))

        def ours(x, weight):
            return ops.linear_cross_entropy(x, weight, targets, chunk=48)

        def theirs(x, weight):
            return F.cross_entropy(x @ weight.t(), targets)

        want = torch.autograd.grad(theirs(x, weight), (x, weight), retain_graph=True)
        ways = {"compile": torch.compile(ours, backend="aot_eager", fullgraph=True),
                "checkpoint": lambda *given: torch.utils.checkpoint.checkpoint(ours, *given, use_reentrant=False),
                "views": lambda x, weight: ours(x.t().contiguous().t(), weight)}
        for name, call in ways.items():
            with self.subTest(name):
                for got, one in zip(torch.autograd.grad(call(x, weight), (x, weight)), want):
                    close(got, one, 1e-5)
        loss = ours(x, weight)
        for factor in (3, 1):  # the second time without the gradients of the forward pass
            got = torch.autograd.grad(loss * factor, (x, weight), retain_graph=True)
            for one, other in zip(got, want):
                close(one, other * factor, 1e-5)
        twice = []
        for call in (ours, theirs):
            slopes = torch.autograd.grad(call(x, weight), (x, weight), create_graph=True)
            twice.append(torch.autograd.grad(sum((one ** 2).sum() for one in slopes), (x, weight)))
        for got, one in zip(*twice):
            close(got, one, 1e-5)
        close(torch.func.grad(ours)(x, weight), want[0], 1e-5)
        self.assertIn("a transform of torch.func", ops.why(ops.linear_cross_entropy)[-1])
        with torch.autocast("cpu", torch.bfloat16):
            got = torch.autograd.grad(ours(x, weight), (x, weight))
        for one, other in zip(got, want):
            self.assertEqual(one.dtype, torch.float32)
            self.assertLess((one - other).abs().max(), 3e-2 * other.abs().max())

    def test_other_forms_of_linear_cross_entropy_are_pytorchs_own(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        x, weight, targets = torch.randn(6, 8), torch.randn(5, 8), torch.randint(0, 5, (6,))
        shares, classes = torch.rand(6, 5).softmax(-1), torch.rand(5)
        close(ops.linear_cross_entropy(x, weight, shares), F.cross_entropy(x @ weight.t(), shares), 1e-5)
        close(ops.linear_cross_entropy(x, weight, targets, weight=classes), F.cross_entropy(x @ weight.t(), targets, classes), 1e-5)
        made = ops.linear_cross_entropy(x.double(), weight.double(), targets)
        self.assertEqual(made.dtype, torch.float64)
        self.assertTrue(ops.linear_cross_entropy(x[:0], weight, targets[:0]).isnan())
        leaf = x.clone().requires_grad_()
        ignored = ops.linear_cross_entropy(leaf, weight, torch.full_like(targets, -100))
        self.assertTrue(ignored.isnan())
        self.assertEqual(torch.autograd.grad(ignored, leaf)[0].abs().max(), 0)  # as PyTorch's
        for wrong, why in (({"reduction": "average"}, "none of 'mean'"), ({"chunk": -1}, "chunk=-1 is no number of rows")):
            with self.assertRaisesRegex(ValueError, why):
                ops.linear_cross_entropy(x, weight, targets, **wrong)
        with self.assertRaises((RuntimeError, ValueError)):
            ops.linear_cross_entropy(x, weight, targets[:4])

    def test_chunks_are_as_large_as_the_input(self):
        from tunectl import _linear_loss

        for sizes, chunk in (((8192, 2048, 8192), 2048), ((8192, 4096, 128256), 1024), ((65536, 4096, 32000), 8192),
                             ((16, 8, 5), 1024), ((1, 1, 10**6), 1024)):
            self.assertEqual(_linear_loss.chunk_of(*sizes), chunk, sizes)

    def test_cross_entropy_twice(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        logits, targets = torch.randn(48, 128, requires_grad=True), torch.randint(0, 128, (48,))
        found = []
        for call in (ops.cross_entropy, F.cross_entropy):
            slope, = torch.autograd.grad(call(logits, targets), logits, create_graph=True)
            found.append(torch.autograd.grad((slope ** 2).sum(), logits)[0])
        close(*found, 1e-6)

    def test_compiled_cross_entropy_launches_its_gradient(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        targets = torch.randint(0, 128, (48,))
        ours = torch.compile(lambda x: ops.cross_entropy(x * 2, targets), backend="aot_eager", fullgraph=True)
        before = ops.why(ops.cross_entropy)
        self.both(ours, lambda x: F.cross_entropy(x * 2, targets), torch.randn(48, 128))
        self.assertEqual(ops.why(ops.cross_entropy), before)

    def test_attention_and_rope(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        q, k, v = (torch.randn(2, heads, 48, 64).bfloat16() for heads in (4, 2, 2))
        with torch.no_grad():
            close(ops.attention(q, k, v, causal=True),
                  F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), 2e-2)
        self.assertEqual(ops.why(ops.attention), ())
        self.both(lambda q, k, v: ops.attention(q, k, v, scale=0.5),
                  lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.5, enable_gqa=True), q, k, v,
                  tolerance=3e-2)

        def turned(q, k, cos, sin):
            def turn(x):
                low, high = x.chunk(2, -1)
                c, s = cos[:, None, None, :], sin[:, None, None, :]
                return torch.cat((low * c - high * s, high * c + low * s), -1)
            return turn(q), turn(k)

        angles = torch.randn(24, 32)
        cos, sin = angles.cos(), angles.sin()
        self.both(self.named(ops.rope, lambda q, k: ops.rope(q, k, cos, sin)), lambda q, k: turned(q, k, cos, sin),
                  torch.randn(24, 2, 4, 64), torch.randn(24, 2, 2, 64))

    def test_rope_saves_no_queries_and_keys(self):
        """Its gradient depends on the angles alone; all else that is differentiated does so, too."""
        import torch
        from tunectl import ops

        q, k = torch.randn(24, 2, 4, 64, requires_grad=True), torch.randn(24, 2, 2, 64, requires_grad=True)
        angles, saved = torch.randn(24, 32), []
        cos, sin = angles.cos(), angles.sin()
        own = ops._rope(False).fallback
        with torch.autograd.graph.saved_tensors_hooks(lambda one: saved.append(one) or one, lambda one: one):
            made = ops.rope(q, k, cos, sin)
        self.assertEqual(ops.why(ops.rope), ())
        self.assertFalse({one.data_ptr() for one in saved} & {q.data_ptr(), k.data_ptr()})
        for outputs in ((0, 1), (1,)):  # also if only one of them is differentiated
            found = []
            for results in (made, own(q, k, cos, sin)):
                slopes = [torch.full_like(results[i], 0.5).requires_grad_() for i in outputs]
                first = torch.autograd.grad([results[i] for i in outputs], (q, k), slopes, create_graph=True,
                                            retain_graph=True, allow_unused=True)
                first = [one for one in first if one is not None and one.requires_grad]
                found.append([*first, *torch.autograd.grad(sum((one ** 3).sum() for one in first), slopes)])
            for got, want in zip(*found):
                close(got, want, 1e-4)

    def test_modes_of_attention(self):
        import torch
        from tunectl import ops

        q, k, v = (torch.randn(2, 48, heads, 64).bfloat16().transpose(1, 2) for heads in (4, 2, 2))
        more, sinks = (torch.randn(2, 2, 64, 64).bfloat16() for _ in range(2)), torch.randn(4)
        starts, before = torch.tensor([0, 5, 40, 48], dtype=torch.int32), ops.why(ops.attention)
        first = [one[:1] for one in (q, k, v)]
        other_keys = [q, *more]
        for arrays, form in (((q, k, v), {"window": 16, "causal": True}), ((q, k, v), {"softcap": 5.0, "causal": True}),
                             ((q, k, v), {"sinks": sinks, "causal": True}), (other_keys, {}),
                             (other_keys, {"causal": "lower_right"}), (first, {"starts": starts, "causal": True})):
            with self.subTest(form), torch.no_grad():
                form = {"causal": False, "scale": None, "window": 0, "softcap": 0.0, "sinks": None, "starts": None, **form}
                got = ops.attention(*arrays, **form)
                close(got, ops._plain_attention(*arrays, **form), 3e-2)
                self.assertTrue(got.transpose(1, 2).is_contiguous())  # in the order of q
        self.assertEqual(ops.why(ops.attention), before)
        with torch.no_grad():  # PyTorch's causal mask begins at the first key
            got = ops.attention(*other_keys, causal=True)
            close(got, torch.nn.functional.scaled_dot_product_attention(*other_keys, is_causal=True, enable_gqa=True), 1e-6)
        for wrong, why in (({"window": 4}, "window=4 is no number of keys"), ({"causal": "left"}, "causal='left' is none of")):
            with self.assertRaisesRegex(ValueError, why):
                ops.attention(q, k, v, **wrong)

    def test_plain_attention_is_pytorchs(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        def plain(q, k, v, causal=False, **form):
            return ops._plain_attention(q, k, v, **{"sinks": None, "starts": None, "causal": causal, "scale": None,
                                                    "window": 0, "softcap": 0.0, **form})

        q, k, v = torch.randn(1, 4, 12, 8), torch.randn(1, 2, 12, 8), torch.randn(1, 2, 12, 8)
        causal = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        close(plain(q, k, v, True, window=12), causal, 1e-5)
        close(plain(q, k, v, True, softcap=1e6), causal, 1e-4)
        close(plain(q, k, v, True, sinks=torch.full((4,), -1e9)), causal, 1e-5)
        close(plain(q, k, v, True, window=1), v.repeat_interleave(2, 1), 1e-5)
        starts = torch.tensor([0, 5, 5, 12], dtype=torch.int32)
        parts = [F.scaled_dot_product_attention(*[one[:, :, a:b] for one in (q, k, v)], is_causal=True, enable_gqa=True)
                 for a, b in ((0, 5), (5, 12))]
        close(plain(q, k, v, True, starts=starts), torch.cat(parts, 2), 1e-5)
        close(plain(q[:, :, 8:], k, v, "lower_right"), causal[:, :, 8:], 1e-5)

    def test_what_is_left_out_under_a_tracer_and_in_any_form(self):
        import torch
        import tunectl
        from torch._subclasses.fake_tensor import FakeTensorMode

        x, w = torch.randn(48, 128), torch.rand(128)
        want = torch.nn.functional.rms_norm(x, (128,), w, 1e-6)
        norm = tunectl.kernel("rmsnorm", fallback=None, returns="y", scalars={"epsilon": 1e-6})
        with torch.no_grad():
            for _ in range(2):
                for made in (norm(x, w), norm(x, None, w), norm(x, weight=w), norm.op()(x, w)):
                    close(made, want, 1e-4)
        with FakeTensorMode() as mode:
            self.assertEqual(norm.op()(mode.from_tensor(x), mode.from_tensor(w)).shape, (48, 128))
        close(norm(x, w), want, 1e-4)
        self.assertEqual(norm.notes, ())

    def test_linear(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        x, weight, bias = torch.randn(2, 24, 128).bfloat16(), torch.randn(64, 128).bfloat16() / 8, torch.randn(64).bfloat16()
        self.both(self.named(ops.linear, lambda x, w, b: ops.linear(x, w, b, "silu")),
                  lambda x, w, b: F.silu(F.linear(x, w, b)), x, weight, bias, tolerance=4e-2)
        self.both(ops.linear, F.linear, x, weight, tolerance=4e-2)
        self.both(lambda x, w: ops.linear(x, w, activation="gelu"),
                  lambda x, w: F.gelu(F.linear(x, w), approximate="tanh"), x, weight, tolerance=4e-2)

    def test_compiled(self):
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        weight = torch.rand(128)
        ours = torch.compile(lambda x: ops.rms_norm(ops.softmax(x) * 2, weight), backend="aot_eager", fullgraph=True)
        self.both(ours, lambda x: F.rms_norm(torch.softmax(x, -1) * 2, (128,), weight, 1e-6), torch.randn(2, 24, 128))

    def test_compiled_gradients_of_the_fallback_keep_their_precision(self):
        """An operator works them out below autograd, where no autocast may come in."""
        import torch
        import torch.nn.functional as F
        from tunectl import ops

        q, k, v = (torch.randn(2, 4, 16, 8) for _ in range(3))
        ours = torch.compile(lambda q, k, v: ops.attention(q, k, v, causal=True), backend="aot_eager", fullgraph=True)
        self.both(ours, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)

    def test_adamw(self):
        import torch
        from tunectl import ops

        for start in (torch.randn(48, 128), torch.randn(128, 48).t()):
            made = []
            for kind in (ops.AdamW, torch.optim.AdamW):
                torch.manual_seed(2)
                p = torch.nn.Parameter(start.clone())
                optimiser = kind([p], lr=1e-2, weight_decay=0.1)
                for _ in range(5):
                    p.grad = torch.randn_like(p)
                    optimiser.step()
                made.append(p.detach())
                saved = optimiser.state_dict()["state"][0]
                self.assertEqual(sorted(saved), ["exp_avg", "exp_avg_sq", "step"])
            close(*made, 1e-5)
        self.assertEqual(ops.why(ops.AdamW), ())


if __name__ == "__main__":
    unittest.main()
