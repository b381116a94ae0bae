# SPDX-License-Identifier: Apache-2.0
"""@tunectl.triton.autotune under torch.compile, torch.export and triton_op: the config of a record is the only one
that PyTorch compiles. Run by `./check torch`.

Without a GPU the graphs and the code that Inductor writes are looked at; with one Inductor also compiles and runs
them, and its compiles and timings are counted:
    python3 tests/client/python/triton_compile_test.py CompileTest.test_inductor_compiles_one_config_and_times_none
"""
import importlib.util
import os
import re
import sys
import tempfile
import unittest
import unittest.mock

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
    print("no PyTorch or no Triton in this Python; TUNE_TORCH_PYTHON names another")
    sys.exit(77)
caches = tempfile.TemporaryDirectory(prefix="tune-inductor-")
os.environ.update(TORCHINDUCTOR_CACHE_DIR=caches.name, TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
                  TORCHINDUCTOR_COMPILE_THREADS="1")

import torch
from triton_kit import CONFIGS, TritonTest, scale
import triton
import triton.language as tl
from torch._higher_order_ops.triton_kernel_wrap import TritonHOPifier, kernel_side_table
from triton.backends.compiler import GPUTarget
from triton.runtime.errors import OutOfResources
from tunectl import _client
from tunectl.triton import _adopted, autotune
from tunectl.triton._spec import Table

BEST, ALL = CONFIGS[5], len(CONFIGS)
# Older ones do not let a function prune where a launch is rewritten before: see _compiled.py.
REWRITES = hasattr(TritonHOPifier, "recreate_variable")
HAS_GPU = torch.cuda.is_available()


class Driver:
    """A GPU that compiles, and runs nothing."""

    get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
    get_current_device = staticmethod(lambda: 0)
    get_active_torch_device = staticmethod(lambda: torch.device("cpu"))
    get_device_interface = staticmethod(lambda: torch.cpu)
    is_active = staticmethod(lambda: True)


@triton.jit
def scale_even(x, y, n, step, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * step
    if EVEN:
        tl.store(y + at, tl.load(x + at) * 2)
    else:
        tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def caller(kernel, **more):
    def call(x):
        y, n = torch.empty_like(x), x.numel()
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, 1, **more)
        return y

    return call


class Written(Exception):
    """The code is there; nothing is run."""


@unittest.skipUnless(hasattr(TritonHOPifier, "do_prune_configs"), "this PyTorch refuses functions that prune")
class CompileTest(TritonTest):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        if HAS_GPU:
            return
        for name in "has_triton", "has_triton_package":
            patch = unittest.mock.patch(f"torch.utils._triton.{name}", lambda *args, **kwargs: True)
            patch.start()
            self.addCleanup(patch.stop)
        triton.runtime.driver.set_active(Driver())

    def tuned(self, function=scale, configs=CONFIGS, **more):
        return autotune(configs, key=["n"], **more)(function)

    def recorded(self, function=scale):
        """The snapshot has a record, which is read anew."""
        self.put(self.record_of(function, Table(CONFIGS).params_of(BEST)))
        _client._process = None

    def left(self, call, *inputs, **more):
        """The configs of each kernel in each graph that is compiled for these inputs, one call after the other."""
        found = []

        def backend(graph, example):
            for module in graph.modules():
                for node in getattr(getattr(module, "graph", None), "nodes", ()):
                    if "triton_kernel_wrapper" in str(node.target):
                        found.append(kernel_side_table.get_kernel(node.kwargs["kernel_idx"]).configs)
            outputs = len(list(graph.graph.nodes)[-1].args[0])
            return lambda *args: (torch.zeros(4096),) * outputs

        compiled = torch.compile(call, backend=backend, fullgraph=True, **more)
        for one in inputs or (torch.zeros(4096),):
            compiled(one)
        return found

    def check_left(self, found, config=BEST, kernels=1):
        self.assertEqual([[(one.kwargs["BLOCK"], one.num_warps) for one in configs] for configs in found],
                         [[(config.kwargs["BLOCK"], config.num_warps)]] * kernels)

    # ---- Which config is left -------------------------------------------------------------------

    def test_the_records_config_is_left_alone(self):
        self.recorded()
        tuned = self.tuned()
        self.check_left(self.left(caller(tuned), torch.zeros(4096), torch.zeros(4096)), kernels=1)
        self.assertRegex(tuned.sources[next(iter(tuned.sources))], "^the record of scale-")

    def test_an_adopted_function_has_its_record_and_is_inductor_s_without(self):
        def made():
            return _adopted.adopt(scale, triton.autotune, (CONFIGS, ["n"]), {})

        os.environ.update(WORLD_SIZE="2", TUNE_SNAPSHOT="latest")
        self.assertEqual([len(one) for one in self.left(caller(made()))], [ALL])
        os.environ["TUNE_ADOPT"] = "no-tuning"
        torch._dynamo.reset()
        self.check_left(self.left(caller(made())), CONFIGS[0])
        del os.environ["TUNE_ADOPT"]
        self.recorded()
        torch._dynamo.reset()
        self.check_left(self.left(caller(made())))

    def test_a_symbolic_size_counts_as_what_it_is_in_the_compiled_call_and_compiles_no_more(self):
        self.recorded()
        self.check_left(self.left(caller(self.tuned()), torch.zeros(4096), torch.zeros(8192), torch.zeros(5000),
                                  dynamic=True))

    def test_a_kernel_that_is_launched_twice(self):
        self.recorded()
        call = caller(self.tuned())
        self.check_left(self.left(lambda x: call(call(x) + 1)), kernels=2)

    def test_without_a_record_inductor_has_what_pruning_left(self):
        self.assertEqual([len(one) for one in self.left(caller(self.tuned()))], [ALL])
        by = {"early_config_prune": lambda configs, named, **more: [one for one in configs if one.kwargs["BLOCK"] > 128]}
        self.assertEqual([len(one) for one in self.left(caller(self.tuned(prune_configs_by=by)))], [ALL - 1])

    def test_several_ranks_and_a_pinned_snapshot_leave_one_config(self):
        digest = self.put(self.record_of(scale, Table(CONFIGS).params_of(BEST)), newest=False)
        for more in ({"WORLD_SIZE": "2"}, {"TUNE_SNAPSHOT": digest}):
            _client._process = None
            with self.subTest([*more]), unittest.mock.patch.dict(os.environ, {**more}):
                torch._dynamo.reset()
                self.check_left(self.left(caller(self.tuned()), torch.zeros(512)), CONFIGS[0])
        os.environ.update(WORLD_SIZE="2", TUNE_SNAPSHOT=digest)
        _client._process = None
        torch._dynamo.reset()
        self.check_left(self.left(caller(self.tuned())))

    def test_the_first_that_runs_is_left_if_ranks_must_agree(self):
        os.environ.update(WORLD_SIZE="2")
        seen = []

        def compile_only(*args, warmup, **kwargs):
            seen.append((warmup, kwargs["n"], str(kwargs["x"].dtype)))
            if kwargs["BLOCK"] < 512:
                raise OutOfResources(300000, 232448, "shared memory")

        with unittest.mock.patch.object(scale, "run", compile_only):
            first = next(one for one in CONFIGS if one.kwargs["BLOCK"] == 512)
            self.check_left(self.left(caller(self.tuned())), first)
        self.assertEqual(set(seen), {(True, 4096, "torch.float32")})

    def test_a_record_that_this_call_prunes_away_is_not_compiled(self):
        self.recorded()
        small = [one for one in CONFIGS if one.kwargs["BLOCK"] < 512]
        self.assertEqual(BEST.kwargs["BLOCK"], 512)
        for by in ({"early_config_prune": lambda configs, named, **more: [
                        one for one in configs if one.kwargs["BLOCK"] < 512]},
                   {"perf_model": lambda BLOCK, **more: BLOCK, "top_k": len(small)}):
            with self.subTest([*by]):
                torch._dynamo.reset()
                self.assertEqual([len(one) for one in self.left(caller(self.tuned(prune_configs_by=by)))], [len(small)])

    def test_a_record_is_left_whatever_share_a_model_keeps(self):
        self.recorded()
        by = {"perf_model": lambda BLOCK, num_warps, **more: abs(BLOCK - 512) + abs(num_warps - BEST.num_warps),
              "top_k": 0.2}
        self.check_left(self.left(caller(self.tuned(prune_configs_by=by))))

    def test_a_failing_service_leaves_what_there_was(self):
        for name in "_service.find_record", "_compiled._likely", "_autotuner.name_of":
            with self.subTest(name), unittest.mock.patch(f"tunectl.triton.{name}", side_effect=LookupError("gone")):
                torch._dynamo.reset()
                self.assertEqual([len(one) for one in self.left(caller(self.tuned()))], [ALL])

    def test_buffers_that_pytorch_would_forget_to_restore_are_not_timed_with_a_record_of_another_size(self):
        """It drops restore_value and reset_to_zero where a function prunes."""
        for more in {"reset_to_zero": ["y"]}, {"restore_value": ["y"]}:
            with self.subTest([*more]):
                _client._process = None
                torch._dynamo.reset()
                self.assertEqual([len(one) for one in self.left(caller(self.tuned(**more)))], [ALL])
                self.assertEqual(getattr(self.tuned(**more), *more), ["y"])
                self.recorded()
                tuned = self.tuned(**more)
                self.check_left(self.left(caller(tuned), torch.zeros(4096)))
                self.check_left(self.left(caller(tuned), torch.zeros(512)), CONFIGS[0])
                (self.path / "state/snapshots/latest").unlink()

    def test_one_config_and_eager_attributes_are_as_triton_has_them(self):
        tuned = self.tuned(configs=CONFIGS[:1])
        self.assertIsNone(tuned.early_config_prune)
        self.check_left(self.left(caller(tuned)), CONFIGS[0])

    # ---- Ways to launch and to trace ------------------------------------------------------------

    def test_heuristics_and_run(self):
        function = triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})(scale_even)
        self.recorded(scale_even)
        tuned = self.tuned(function)
        found = self.left(caller(tuned))
        if REWRITES:
            self.check_left(found)
            self.assertIs(found[0][0].kwargs["EVEN"], True)
        else:
            self.assertEqual([len(one) for one in found], [ALL], "as without the service")
        self.recorded()
        tuned = self.tuned()

        def by_run(x):
            y, n = torch.empty_like(x), x.numel()
            tuned.run(x, y, n, 1, grid=lambda meta: (triton.cdiv(n, meta["BLOCK"]),), warmup=False)
            return y

        self.assertEqual([len(one) for one in self.left(by_run)], [1 if REWRITES else ALL])

    @unittest.skipUnless(REWRITES, "this PyTorch traces no autotuner in an autograd.Function")
    def test_functions_with_gradients_checkpoints_and_branches(self):
        self.recorded()
        call = caller(self.tuned())

        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return call(x)

            @staticmethod
            def backward(context, gradient):
                return call(gradient.contiguous())

        self.check_left(self.left(Twice.apply, torch.zeros(4096, requires_grad=True)), kernels=2)
        self.check_left(self.left(lambda x: torch.utils.checkpoint.checkpoint(call, x, use_reentrant=False) + 1))
        self.check_left(self.left(lambda x: torch.cond(x.sum() > 0, call, lambda x: call(x) + 1, (x,))), kernels=2)

    def test_export(self):
        self.recorded()
        call = caller(self.tuned())

        class Module(torch.nn.Module):
            def forward(self, x):
                return call(x)

        program = torch.export.export(Module(), (torch.zeros(4096),), strict=True)
        found = [kernel_side_table.get_kernel(node.kwargs["kernel_idx"]).configs for node in program.graph.nodes
                 if "triton_kernel_wrapper" in str(node.target)]
        self.check_left(found)

    @unittest.skipUnless(REWRITES, "this PyTorch prunes nothing where make_fx traces a wrapped kernel")
    def test_make_fx_of_a_wrapped_kernel(self):
        from torch.fx.experimental.proxy_tensor import make_fx

        self.recorded()
        wrapped = torch.library.wrap_triton(self.tuned())
        for mode in "fake", "symbolic":
            graph = make_fx(caller(wrapped), tracing_mode=mode)(torch.zeros(4096))
            self.check_left([kernel_side_table.get_kernel(node.kwargs["kernel_idx"]).configs for node in graph.graph.nodes
                             if "triton_kernel_wrapper" in str(node.target)])

    # ---- Inductor -------------------------------------------------------------------------------

    def code(self, call):
        written = []

        def take(code):
            written.append(code)
            raise Written

        with unittest.mock.patch("torch._inductor.graph.GraphLowering.save_output_code", staticmethod(take)):
            try:
                torch.compile(call, fullgraph=True)(torch.zeros(4096))
            except Exception as error:
                if not written:
                    raise error
        return [len(re.findall(r"'num_warps'", configs)) for configs in re.findall(
            r"user_autotune\(\s*configs=(\[.*?\]),\n", written[0], re.DOTALL)]

    @unittest.skipIf(HAS_GPU, "it is run below")
    def test_inductor_writes_one_config(self):
        self.assertEqual(self.code(caller(self.tuned())), [ALL])
        self.recorded()
        torch._dynamo.reset()
        self.assertEqual(self.code(caller(self.tuned())), [1])

    @unittest.skipIf(HAS_GPU, "it is run below")
    def test_inductor_writes_one_config_of_a_triton_op(self):
        self.recorded()
        tuned = self.tuned()

        @torch.library.triton_op("tunectl_test::twice", mutates_args={})
        def twice(x: torch.Tensor) -> torch.Tensor:
            return caller(torch.library.wrap_triton(tuned))(x)

        self.assertEqual(self.code(lambda x: twice(x) + 1), [1])

    @unittest.skipUnless(HAS_GPU, "no GPU")
    def test_inductor_compiles_one_config_and_times_none(self):
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner

        compiled, timed = [], []

        def counted(name, into):
            inner = getattr(CachingAutotuner, name)

            def count(tuner, config, *args, **kwargs):
                if tuner.fn.__name__ == "scale":
                    into.append(str(config))
                return inner(tuner, config, *args, **kwargs)

            patch = unittest.mock.patch.object(CachingAutotuner, name, count)
            patch.start()
            self.addCleanup(patch.stop)

        counted("_precompile_config", compiled)
        counted("bench", timed)
        x = torch.randn(4096, device="cuda")
        for has_record, compiles, timings in (False, ALL, ALL), (True, 1, 0):
            if has_record:
                self.recorded()
            torch._dynamo.reset()
            compiled.clear()
            timed.clear()
            y = torch.compile(caller(self.tuned()), fullgraph=True)(x)
            torch.testing.assert_close(y, x * 2)
            print(f"{'a' if has_record else 'no'} record: Inductor compiled {len(set(compiled))} of {ALL} configs and timed "
                  f"{len(timed)}, PyTorch {torch.__version__}, Triton {triton.__version__}, "
                  f"{torch.cuda.get_device_name()}")
            self.assertEqual(len(set(compiled)), compiles)
            self.assertGreaterEqual(len(timed), timings)
            if has_record:
                self.assertEqual(timed, [])


if __name__ == "__main__":
    unittest.main()
