# SPDX-License-Identifier: Apache-2.0
"""@tunectl.triton.autotune never does worse than @triton.autotune: what it launches, passes on and raises where a
config cannot run, an argument is odd, or the service fails. Skipped without Triton, as triton_test.py."""
import ast
import enum
import inspect
import os
import re
import types
import unittest
import unittest.mock

from triton_kit import CONFIGS, I32, Tensor, TritonTest, grid, scale  # first: it may go on in another Python
import kit
import triton
import triton.language as tl
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources, PTXASError
from tunectl.triton import NotTuned, _autotuner, _service, autotune, flush
from tunectl.triton._call import Unsupported
from tunectl.triton._spec import Table



class Level(enum.IntEnum):
    HIGH = 48


@triton.jit
def shift(x, y, n, by, BLOCK: tl.constexpr, PER_THREAD: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + by, mask=at < n)


@triton.jit
def gather(x, offsets, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + tl.load(offsets + at, mask=at < n), mask=at < n), mask=at < n)


class Raised(Exception):
    """What a test's own launch raises."""


ERRORS = (OutOfResources(300000, 232448, "shared memory"), CompileTimeAssertionFailure(None, None, "BLOCK is odd"),
          PTXASError("too few registers"))


class Array:
    """What is read of a tensor of integers on the way to the host."""

    def __init__(self, data):
        self.data = data

    def cpu(self):
        return self

    numpy = cpu

    def tobytes(self):
        return self.data


class Indices(Tensor):
    def __init__(self, *values, dtype=I32, **more):
        super().__init__(len(values), dtype=dtype, values=list(values), **more)

    def as_strided(self, size, stride):
        assert stride == (1,)
        width = self.dtype.itemsize
        return Array(b"".join(value.to_bytes(width, "little", signed=True) for value in self.values[:size[0]]))


class LaunchTest(TritonTest):
    def tuned(self, function=scale, configs=CONFIGS, fails=lambda kwargs: None, **more):
        """Launches are written down; those of which `fails` makes an error raise it."""
        made = autotune(configs, **{"key": ["n"], **more})(function)

        def run(*args, grid, warmup, **kwargs):
            error = fails(kwargs)
            if error is not None:
                raise error
            self.launched.append(kwargs)
            return "launched"

        made._run = run
        return made

    def triton_tunes(self, best=2):
        """Patches Triton's own autotuner: it finds this config."""
        patch = unittest.mock.patch.object(_autotuner.TritonAutotuner, "run", autospec=True)
        run = patch.start()
        run.side_effect = lambda tuner, *args, **kwargs: setattr(tuner, "best_config", tuner.configs[best])
        self.addCleanup(patch.stop)
        return run

    def bind(self):
        os.environ.update(WORLD_SIZE="2", RANK="0", TUNE_SNAPSHOT="latest")

    # ---- Configs that cannot run ----------------------------------------------------------------

    def test_a_config_that_cannot_run_gives_way_to_the_next_which_is_kept_and_the_reference(self):
        for error in ERRORS:
            for bound in False, True:
                with self.subTest(type(error).__name__, bound=bound):
                    self.launched.clear()
                    self.service()
                    if bound:
                        self.bind()
                    tries = []
                    tuned = self.tuned(fails=lambda kwargs, error=error, tries=tries: (
                        tries.append(kwargs["BLOCK"]) or (error if kwargs["BLOCK"] < 512 else None)))
                    for _ in range(2):
                        self.assertEqual(tuned[grid](*self.arguments()), "launched")
                    runs = next(config for config in CONFIGS if config.kwargs["BLOCK"] == 512)
                    self.assertEqual(self.launched, [runs.all_kwargs()] * 2)
                    self.assertIs(tuned.best_config, runs)
                    self.assertEqual(tries, [128, 256, 256, 256, 512, 512], "it is not tried again")
                    self.assertTrue(flush(120))
                    self.assertIn('name: "BLOCK" values: "[512, 128, 256]" default_value: "512"', self.sent[0].spec)
                    self.assertIn('reference { source: "k000.ttir" language: TTIR entry: "kernel" launch { grid: ["8"] }',
                                  self.sent[0].spec)

    def test_a_launch_that_names_what_configs_set_is_told(self):
        self.service()
        tuned = self.tuned()
        for name in "BLOCK", "num_warps":
            with self.assertRaisesRegex(ValueError, f"is launched with {name}, which its configs set, too"):
                tuned[grid](*self.arguments(), **{name: 2})
        self.assertEqual(self.launched, [])

    def test_a_record_that_cannot_run_gives_way_to_the_first_that_does(self):
        self.put(self.record_of(scale, Table(CONFIGS).params_of(CONFIGS[6])))
        tuned = self.tuned(fails=lambda kwargs: ERRORS[0] if kwargs["BLOCK"] != 256 else None)
        tuned[grid](*self.arguments())
        self.assertEqual(self.launched, [CONFIGS[1].all_kwargs()])
        self.assertRegex([*tuned.sources.values()][0], "^the first that runs, in place of the record of scale-")

    def test_where_no_config_runs_the_first_ones_error_is_raised_at_each_launch(self):
        self.service()
        tuned = self.tuned(fails=lambda kwargs: OutOfResources(kwargs["BLOCK"], 0, "threads"))
        for _ in range(2):
            with self.assertRaisesRegex(OutOfResources, "Required: 128"):
                tuned[grid](*self.arguments())
        self.assertFalse(self.sent)

    def test_other_errors_of_a_launch_are_raised_at_once(self):
        self.service()
        tuned = self.tuned(fails=lambda kwargs: Raised())
        with self.assertRaises(Raised):
            tuned[grid](*self.arguments())
        self.assertFalse(tuned.sources)

    def test_the_reference_of_a_sweep_that_is_waited_for_can_run_too(self):
        self.service(tune=lambda kernel, *rest: self.sent.append(kernel) or Table(CONFIGS).params_of(CONFIGS[1]))
        tuned = self.tuned(wait=True)

        def compile_only(*args, warmup, **kwargs):
            if kwargs["BLOCK"] == 128:
                raise ERRORS[0]

        with unittest.mock.patch.object(scale, "run", compile_only):
            tuned[grid](*self.arguments())
        self.assertIn('default_value: "256"', self.sent[0].spec)
        self.assertEqual(self.launched, [CONFIGS[1].all_kwargs()])

    # ---- Heuristics, hooks, pruning -------------------------------------------------------------

    def test_heuristics_get_what_triton_gives_them(self):
        got = []

        def per_thread(given):
            got.append(sorted(given))
            return max(1, given["BLOCK"] // (32 * given["num_warps"] * given["num_stages"] * given["num_ctas"]))

        function = triton.heuristics({"PER_THREAD": per_thread})(shift)
        configs = [triton.Config({"BLOCK": block}, num_warps=4, maxnreg=maxnreg) for block in (256, 1024)
                   for maxnreg in (None, 128)]
        own = triton.autotune(configs, key=["n"], do_bench=lambda call, quantiles: call() or [1.0, 1.0, 1.0])(function)
        with unittest.mock.patch.object(shift, "run", lambda *args, **kwargs: None):
            own[grid](Tensor(64), Tensor(64), 64, 3)
        expected, got[:] = [*got], []
        self.service()
        self.tuned(function, configs)[grid](Tensor(64), Tensor(64), 64, 3)
        self.assertTrue(flush(120))
        self.assertEqual(len(self.sent), 1)
        self.assertEqual([*map(tuple, got)], [*map(tuple, expected[:4])], "of each config, before a launch")

    def test_pruning_functions_get_what_triton_gives_them(self):
        got = []

        def early(configs, named, **kwargs):
            got.append((len(configs), sorted(named), sorted(kwargs)))
            return configs

        def model(**kwargs):
            got.append(sorted(kwargs))
            return -kwargs["BLOCK"]

        by = {"early_config_prune": early, "perf_model": model, "top_k": 3}
        own = triton.autotune(CONFIGS, key=["n"], prune_configs_by=by,
                              do_bench=lambda call, quantiles: [1.0, 1.0, 1.0])(scale)
        with unittest.mock.patch.object(scale, "run", lambda *args, **kwargs: None):
            own[grid](*self.arguments())
        expected, got[:] = [*got], []
        self.service()
        self.tuned(prune_configs_by=by)[grid](*self.arguments())
        self.assertEqual(got, expected)
        self.assertEqual([one["BLOCK"] for one in self.launched], [512])

    def test_a_record_that_this_call_prunes_away_is_not_launched(self):
        big = CONFIGS[6]
        self.assertEqual(big.kwargs["BLOCK"], 512)
        self.put(self.record_of(scale, Table(CONFIGS).params_of(big)))
        for by in ({"early_config_prune": lambda configs, named, **kwargs: [
                        one for one in configs if one.kwargs["BLOCK"] < 512]},
                   {"perf_model": lambda **kwargs: kwargs["BLOCK"], "top_k": 2}):
            for bound in False, True:
                with self.subTest([*by], bound=bound):
                    self.launched.clear()
                    self.service()
                    if bound:
                        self.bind()
                    self.tuned(prune_configs_by=by)[grid](*self.arguments())
                    self.assertEqual(self.launched, [CONFIGS[0].all_kwargs()])
                    self.assertTrue(flush(120))

    def test_a_decorators_hooks_and_ir_overrides_are_triton_s_to_tune(self):
        self.service()
        run = self.triton_tunes()
        override = triton.Config({"BLOCK": 64}, ir_override="k.ttgir")
        for more in ({"pre_hook": print}, {"post_hook": print}, {"configs": [*CONFIGS, override]}):
            with self.subTest([*more]):
                tuned = self.tuned(**more)
                for _ in range(2):
                    tuned[grid](*self.arguments())
                self.assertRegex([*tuned.sources.values()][0], "^Triton: (its (pre|post)_hook runs Python|ir_override)")
        self.assertEqual(run.call_count, 3)
        self.assertEqual(self.launched, [CONFIGS[2].all_kwargs()] * 3)
        self.bind()
        self.tuned(pre_hook=lambda *args, **kwargs: self.fail("it was called"))[grid](*self.arguments())
        self.assertEqual(run.call_count, 3, "of several ranks none tunes")

    # ---- Arguments ------------------------------------------------------------------------------

    def test_the_decorator_takes_triton_s_arguments_in_triton_s_order(self):
        theirs = list(inspect.signature(triton.autotune).parameters.values())
        ours = list(inspect.signature(autotune).parameters.values())[:len(theirs)]
        self.assertEqual([(one.name, one.kind, one.default) for one in ours],
                         [(one.name, one.kind, one.default) for one in theirs])

    def test_odd_scalars_are_sent_as_numbers_or_tuned_by_triton(self):
        run = self.triton_tunes(best=0)
        configs = [triton.Config({"BLOCK": block, "PER_THREAD": 1}) for block in (128, 256)]
        half = type("float64", (float,), {"__repr__": lambda self: f"np.float64({float(self)!r})"})  # as NumPy's
        for value, text in ((half(0.125), "0.125"), (float("inf"), "1e39"), (float("-inf"), "-1e39"), (1e-300, "1e-300"),
                            (Level.HIGH, "48"), (-(2**63), "-9223372036854775807 - 1"), (2**63 - 1, str(2**63 - 1)),
                            (2**31, str(2**31)), (-0.0, "-0.0")):
            with self.subTest(value=value):
                self.service()
                self.tuned(shift, configs)[grid](Tensor(64), Tensor(64), 64, value)
                self.assertTrue(flush(120))
                self.assertFalse(run.called)
                self.assertRegex(self.sent[0].spec, rf'name: "by" scalar {{ dtype: "[fi]\d\d" value: "{text}" }}')
                self.check_whole(self.sent[0], 2)
        for value in (float("nan"), True, 2**63, 2**64, 1j, "text", b"bytes", object(), (1, 2)):
            with self.subTest(value=value):
                run.reset_mock()
                self.service()
                tuned = self.tuned(shift, configs)
                tuned[grid](Tensor(64), Tensor(64), 64, value)
                self.assertEqual((run.call_count, self.sent), (0 if isinstance(value, str) else 1, []))
                self.assertTrue(flush(120))

    def test_options_that_the_service_does_not_compile_with_are_triton_s_to_tune(self):
        run = self.triton_tunes(best=0)
        self.service()
        of_config = [triton.Config({"BLOCK": block, "launch_pdl": True}) for block in (128, 256)]
        self.tuned(configs=of_config)[grid](*self.arguments())
        self.tuned()[grid](*self.arguments(), maxnreg=64)
        self.tuned()[grid](*self.arguments(), enable_fp_fusion=False)
        self.assertEqual(run.call_count, 3)
        self.assertFalse(self.sent)

    def test_values_that_have_another_text_in_each_process_are_triton_s_to_tune(self):
        run = self.triton_tunes(best=0)
        self.service()
        configs = [triton.Config({"BLOCK": 128, "STEP": step}) for step in (object(), object())]
        self.tuned(configs=configs)[grid](*self.arguments())
        self.tuned(key=["x"])[grid](*self.arguments())
        self.assertEqual(run.call_count, 2)

    # ---- Errors of the service ------------------------------------------------------------------

    def test_whatever_the_service_raises_triton_tunes_or_the_first_is_launched(self):
        def fail(*args, **kwargs):
            raise LookupError("a disk is gone")

        run = self.triton_tunes()
        places = [(_service, "find_record"), (_service, "why_absent"), (_autotuner, "name_of"), (_autotuner, "read_call"),
                  (_autotuner, "options_of"), (_autotuner, "_live_target")]
        for bound in False, True:
            for place, name in places:
                with self.subTest(name, bound=bound):
                    self.launched.clear()
                    run.reset_mock()
                    self.service()
                    _service._warned.clear()
                    if bound:
                        self.bind()
                    tuned = self.tuned()
                    with unittest.mock.patch.object(place, name, fail), self.assertLogs("tunectl", "WARNING") as said:
                        for n in 64, 128:
                            tuned[grid](*self.arguments(n))
                    launched = 2 if bound or name == "_live_target" else 0  # without a driver Triton times nothing
                    self.assertEqual(run.call_count, 2 - launched)
                    self.assertEqual(self.launched, [CONFIGS[0].all_kwargs()] * launched)
                    self.assertEqual(len([line for line in said.output if "a disk is gone" in line]), 1, said.output)

    def test_a_grid_that_fails_for_a_config_that_is_not_launched_stops_nothing(self):
        run = self.triton_tunes(best=0)
        self.service()
        tuned = self.tuned()
        tuned[lambda meta: (1 // (512 - meta["BLOCK"]),)](*self.arguments())
        self.assertEqual(run.call_count, 1)

    def test_a_submission_that_fails_is_said_and_the_launch_counts(self):
        self.service()
        tuned = self.tuned()
        with unittest.mock.patch.object(_service, "queue_up", side_effect=OSError("no threads")), \
                self.assertLogs("tunectl", "WARNING") as said:
            self.assertEqual(tuned[grid](*self.arguments()), "launched")
        self.assertIn("no threads", "".join(said.output))

    def test_what_turns_out_not_to_be_sendable_is_triton_s_at_the_next_launch(self):
        run = self.triton_tunes()
        self.service()
        tuned = self.tuned()
        with unittest.mock.patch.object(_autotuner, "write_spec", side_effect=Unsupported("too many configs")), \
                self.assertLogs("tunectl", "WARNING"):
            tuned[grid](*self.arguments())
            self.assertTrue(flush(120))
        for _ in range(2):
            tuned[grid](*self.arguments())
        self.assertEqual(run.call_count, 1)
        self.assertEqual(self.launched, [CONFIGS[0].all_kwargs(), CONFIGS[2].all_kwargs()])

    def test_waiting_raises_not_tuned_and_nothing_else(self):
        run = self.triton_tunes()
        for error, calls in ((NotTuned("the sweep failed"), 0), (LookupError("no device"), 1)):
            self.service(tune=unittest.mock.Mock(side_effect=error))
            tuned = self.tuned(wait=60)
            if calls:
                with self.assertLogs("tunectl", "WARNING"):
                    tuned[grid](*self.arguments())
            else:
                with self.assertRaisesRegex(NotTuned, "the sweep failed"):
                    tuned[grid](*self.arguments())
            self.assertEqual(run.call_count, calls)

    def test_a_listener_of_triton_s_hears_of_records(self):
        self.put(self.record_of(scale, Table(CONFIGS).params_of(CONFIGS[5])))
        heard = []
        with self.listener(lambda **told: heard.append(told)):
            tuned = self.tuned()
            for _ in range(2):
                tuned[grid](*self.arguments())
        self.assertEqual([(one["fn"], one["best_config"], one["cache_hit"]) for one in heard], [(scale, CONFIGS[5], True)])
        with self.listener(unittest.mock.Mock(side_effect=Raised)), self.assertLogs("tunectl", "WARNING"):
            self.tuned()[grid](*self.arguments())

    def listener(self, function):
        return unittest.mock.patch.object(triton.knobs.autotuning, "listener", function, create=True)

    def test_a_triton_without_listeners_launches(self):
        """3.5 to 3.7, whichever runs this test."""
        older = types.SimpleNamespace(autotuning=types.SimpleNamespace(print=False), runtime=triton.knobs.runtime)
        with unittest.mock.patch.object(_autotuner, "knobs", older):
            self.put(self.record_of(scale, Table(CONFIGS).params_of(CONFIGS[5])))
            self.tuned()[grid](*self.arguments())
            self.tuned(configs=CONFIGS[:1])[grid](*self.arguments())
        self.assertEqual(self.launched, [CONFIGS[5].all_kwargs(), CONFIGS[0].all_kwargs()])

    def test_the_package_names_only_what_the_oldest_triton_has(self):
        """Anything newer is asked for by getattr, with a default. Checked whichever release runs this test."""
        of_oldest = {
            "triton": {"knobs", "__version__"}, "knobs": {"autotuning.print", "runtime.interpret"},
            "triton.compiler.errors": {"CompileTimeAssertionFailure"}, "triton.runtime.autotuner": {
                "Autotuner", "Heuristics", "autotune"}, "triton.runtime.errors": {"OutOfResources", "PTXASError"},
            "triton.runtime.jit": {"JITFunction", "MockTensor"}, "triton.runtime.driver": {"driver"},
            "triton.backends.compiler": {"GPUTarget"}, "triton.compiler.compiler": {"ASTSource", "make_backend"},
            "triton._C.libtriton": {"ir"}}
        for file in (kit.PACKAGE / "tunectl/triton").glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                named = set()
                if isinstance(node, ast.ImportFrom) and not node.level and node.module.partition(".")[0] == "triton":
                    named = {(node.module, alias.name) for alias in node.names}
                elif isinstance(node, ast.Attribute) and re.fullmatch(r"triton\.\w+|knobs\.\w+\.\w+", ast.unparse(node)):
                    named = {tuple(ast.unparse(node).split(".", 1))}
                for module, name in named:
                    with self.subTest(file=file.name, module=module):
                        self.assertIn(name, of_oldest.get(module, ()))

    # ---- Contents of tensors --------------------------------------------------------------------

    def gathered(self, offsets, **more):
        self.service()
        tuned = self.tuned(gather, **more)
        tuned[grid](Tensor(64), offsets, Tensor(64), 64)
        self.assertTrue(flush(120))
        return tuned

    def test_values_sends_the_contents_of_the_live_tensor(self):
        numbers = [0, 3, 3, 17, 40, -1, 2**31 - 1, 5] * 8
        self.gathered(Indices(*numbers), values=["offsets"])
        kernel = self.sent[0]
        self.assertRegex(kernel.spec, r'name: "offsets" buffer { dtype: "i32" shape: "64" role: ROLE_INPUT file: "arg001.bin" }')
        data = kernel.files["arg001.bin"]
        self.assertEqual([int.from_bytes(data[at:at + 4], "little", signed=True) for at in range(0, 256, 4)], numbers)
        self.check_whole(kernel, len(CONFIGS))
        with self.assertRaisesRegex(AssertionError, "arg001.bin"):  # the service reads it
            self.check_whole(kernel._replace(files={**kernel.files, "arg001.bin": data[:-4]}), len(CONFIGS))

    def test_rising_numbers_need_no_fill_where_their_contents_are_sent(self):
        run = self.triton_tunes()
        self.gathered(Indices(*range(1, 65)))
        self.assertEqual((run.call_count, self.sent), (1, []))
        self.gathered(Indices(*range(1, 65)), values=["offsets"])
        self.assertEqual((run.call_count, len(self.sent)), (1, 1))

    def test_contents_have_a_bound_and_are_integers(self):
        run = self.triton_tunes()
        tuned = self.gathered(Indices(*range(64)), values={"offsets": 255})
        self.assertRegex([*tuned.sources.values()][0], "'offsets' have 256 bytes; values sends at most 255: give values=")
        self.gathered(Indices(*range(64)), values={"offsets": 256})
        self.assertEqual(len(self.sent), 1)
        tuned = self.gathered(Indices(*range(64)), values=["x"])
        self.assertRegex([*tuned.sources.values()][0], "'x', a tensor of torch.float32; only integers")
        tuned = self.gathered(Tensor(64, dtype=I32, values=[*range(64)]), values=["offsets"])
        self.assertRegex([*tuned.sources.values()][0], "contents of 'offsets' cannot be read")
        self.assertEqual(run.call_count, 3)

    def test_values_of_a_name_that_is_none_is_refused(self):
        for more, text in (({"values": ["offset"]}, "'offset', which is no parameter; there are x, offsets, y"),
                           ({"values": ["offsets"], "fill": {"offsets": "iota"}}, "'offsets', which is in fill, too")):
            with self.assertRaisesRegex(ValueError, text):
                self.tuned(gather, **more)


if __name__ == "__main__":
    unittest.main()
