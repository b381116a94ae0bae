# SPDX-License-Identifier: Apache-2.0
"""Views of PyTorch's tensors as models have them: launches, gradients, operators, torch.compile. Run by ./check torch."""
import importlib.util
import unittest

import kit
import tunectl
from kernel_kit import KernelTest

B, H, S, W = 2, 4, 8, 16


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed")
class Torch(KernelTest):
    @classmethod
    def prepare(cls):
        for name in ("product", "product_backward"):
            cls.sweep_kernel(kit.ROOT / f"tests/data/strided/{name}.textproto", batch=B, heads=H, seq=S, width=W)

    def setUp(self):
        super().setUp()
        import torch

        self.product = tunectl.kernel("product", fallback=lambda x, z, factor=1.0: factor * x * z)
        self.plain = torch.randn(B, H, S, W)
        self.view = torch.randn(B, S, H, W).transpose(1, 2)
        self.parts = [part.transpose(1, 2) for part in torch.randn(B, S, 3, H, W).unbind(2)]

    def close(self, left, right):
        import torch

        torch.testing.assert_close(left, right)

    def tearDown(self):
        self.assertEqual(self.product.notes, ())
        super().tearDown()

    def test_outputs_lie_like_the_first_input_of_their_shape(self):
        for x, z, like in ((self.view, self.view, self.view), (self.view, self.plain, self.view),
                           (self.plain, self.view, self.plain), (self.parts[0], self.parts[1], self.view),
                           (self.plain[:1].expand(B, H, S, W), self.plain, self.plain)):
            for _ in range(2):
                made = self.product(x, z)
                self.close(made, x * z)
                self.assertEqual(made.stride(), like.stride())
                made = self.product(x, z, scalars={"factor": 3.0})
                self.close(made, 3 * x * z)
                self.assertEqual(made.stride(), like.stride())

    def test_outputs_that_are_given(self):
        x, z, out = self.parts
        version = out._version
        self.assertIs(self.product(x, z, out=out), out)
        self.close(out, x * z)
        self.assertGreater(out._version, version)
        self.close(self.product(self.plain, z, out=self.view), self.plain * z)
        with self.assertRaisesRegex(ValueError, "'y' lies where 'z' does"):
            self.product(x, z, out=z)

    def test_gradients_of_views(self):
        import torch

        slope = torch.randn(B, S, H, W).transpose(1, 2)
        for x, z in ((self.view, self.view.clone()), (self.view, self.plain), (self.plain, self.view),
                     (self.parts[0], self.parts[1])):
            for outer in (slope, torch.randn(B, H, S, W), torch.ones(()).expand(B, H, S, W)):
                for _ in range(2):
                    leaves = [one.detach().requires_grad_() for one in (x, z)]
                    made = self.product(*leaves)
                    self.assertIn("Differentiable", type(made.grad_fn).__name__)
                    made.backward(outer)
                    self.close([leaf.grad for leaf in leaves], [outer * z, outer * x])
        self.assertEqual(self.product.backward().kernel.notes, ())

    def test_operators_and_fake_tensors_lie_alike(self):
        import torch
        from torch._subclasses.fake_tensor import FakeTensorMode

        op = self.product.op()
        through = self.product._through({}, ())
        for x, z in ((self.view, self.view), (self.view, self.plain), (self.plain, self.view), self.parts[:2],
                     (self.view[:1].expand(B, H, S, W), self.view)):
            made = op(x, z)
            with FakeTensorMode() as mode:
                fake = op(mode.from_tensor(x), mode.from_tensor(z))
            self.assertEqual((fake.shape, fake.stride()), (made.shape, made.stride()))
            torch.library.opcheck(through.operator, (x, z))
            torch.library.opcheck(through.operator, (x.detach().requires_grad_(), z.detach().requires_grad_()))
        untuned = tunectl.kernel("product", fallback=lambda x, z: x * z)
        x, z = torch.randn(B, S, 3, W).transpose(1, 2), torch.randn(B, 3, S, W)
        made = untuned.op()(x, z)
        self.close(made, x * z)
        self.assertEqual(made.stride(), x.stride())
        self.close(untuned.op()(z, x).stride(), z.stride())

    def test_compiled_graphs(self):
        import torch

        def model(x, z):
            return self.product(x.transpose(1, 2), z) * 2

        compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
        for z in (self.plain, self.view, self.parts[1]):
            x = torch.randn(B, S, H, W, requires_grad=True)
            made = compiled(x, z)
            self.close(made, x.transpose(1, 2) * z * 2)
            self.assertEqual(made.stride(), self.view.stride())
            made.sum().backward()
            self.close(x.grad, 2 * z.transpose(1, 2))

    def test_transforms(self):
        import torch

        noted = tunectl.kernel("product", fallback=lambda x, z: x * z)
        self.close(torch.vmap(noted)(self.view[None], self.plain[None])[0], self.view * self.plain)
        self.close(torch.func.grad(lambda x: noted(x, self.view).sum())(self.view), self.view)


if __name__ == "__main__":
    unittest.main()
