# SPDX-License-Identifier: Apache-2.0
"""tunectl.triton without a GPU: what is made of a live call, which config is launched, what is sent.

Run by ctest with any Python; goes on in the one that TUNE_TRITON_PYTHON names; skipped where that has no Triton,
and a failure there with TUNE_TRITON_REQUIRED.
"""
import functools
import linecache
import os
import unittest
import unittest.mock

from triton_kit import (  # first: it may go on in another Python
    BLOCK_ROWS, BLOCKS, CONFIGS, F8, F16, F32, I32, Tensor, TritonTest, add_into, copy_blocks, described, grid, scale,
    set_blocks, set_rows, make_hook, walk, written)
import kit
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor
from tunectl.triton import _autotuner, _call, _service, autotune, flush
from tunectl.triton._call import Unsupported, read_call
from tunectl.triton._identity import name_of
from tunectl.triton._spec import Choice, Table, write_spec


class CallTest(kit.PackageTest):
    def test_types_and_what_is_assumed(self):
        call = read_call(scale.params, {"x": Tensor(64), "y": Tensor(64, address=4100), "n": 100, "step": 1},
                         {"BLOCK"}, {}, ())
        self.assertEqual(call.signature, {"x": "*fp32", "y": "*fp32", "n": "i32", "step": "constexpr",
                                          "BLOCK": "constexpr"})
        self.assertEqual(call.constants, {"step": 1})
        self.assertEqual(call.attributes, {(0,): [["tt.divisibility", 16]]}, "y is not aligned, 100 is no multiple")
        self.assertEqual([argument.name for argument in call.arguments], ["x", "y", "n"])

    def test_buffers_reach_as_far_as_their_tensors(self):
        call = read_call(scale.params, {"x": Tensor(4, 8, stride=(16, 1)), "y": Tensor(32), "n": 2**40, "step": 16},
                         {"BLOCK"}, {}, ())
        self.assertEqual([call.arguments[0].elements, call.arguments[1].elements], [3 * 16 + 7 + 1, 32])
        self.assertEqual(call.arguments[2].dtype, "i64")

    def test_integers_are_of_the_live_range(self):
        def fill(*values, **fills):
            tensor = Tensor(len(values), dtype=I32, values=list(values))
            call = read_call(scale.params, {"x": tensor, "y": Tensor(1), "n": 2, "step": 2}, {"BLOCK"}, fills, ())
            return call.arguments[0].fill

        self.assertEqual(fill(5, 2, 9), ("UNIFORM", 2.0, 10.0))
        self.assertEqual(fill(7, 7, 7), ("CONSTANT", 7.0, 0))
        self.assertEqual(fill(0, 1, 2, 3), ("IOTA", 0, 0))
        with self.assertRaisesRegex(Unsupported, "'x' holds integers in rising order"):
            fill(0, 4, 4, 11)
        self.assertEqual(fill(0, 4, 4, 11, x=(0, 3)), ("UNIFORM", 0.0, 3.0))
        with unittest.mock.patch.object(_call, "_PIECE_ELEMENTS", 3):  # as of 16 Mi and more
            for offsets in range(2, 20):
                with self.assertRaisesRegex(Unsupported, "rising order"):
                    fill(*range(1, offsets + 1))
                self.assertEqual(fill(*range(offsets)), ("IOTA", 0, 0))
                self.assertEqual(fill(*range(1, offsets + 1), 0), ("UNIFORM", 0.0, offsets + 1))
        graph = list(range(0, 4 << 20, 2))
        with self.assertRaisesRegex(Unsupported, "rising order"):
            fill(*graph)

    def test_offsets_between_gaps_are_offsets(self):
        gaps = Tensor(4, dtype=I32, stride=(2,), values=[0, 1, 2, 3])
        with self.assertRaisesRegex(Unsupported, "rising order"):
            read_call(scale.params, {"x": gaps, "y": Tensor(1), "n": 2, "step": 2}, {"BLOCK"}, {}, ())

    def test_what_the_service_has_no_args_for(self):
        for value, text in ((Tensor(4, dtype=F8), "tensor of float8_e5m2"), (True, "a bool"),
                            (2**64, "more than 64 bits"), (Tensor(0), "no elements"), ((1, 2), "a tuple")):
            with self.assertRaisesRegex(Unsupported, text):
                read_call(scale.params, {"x": value, "y": Tensor(4), "n": 2, "step": 2}, {"BLOCK"}, {}, ())


class TextTest(unittest.TestCase):
    def test_what_is_written(self):
        self.assertEqual(written(scale, Tensor(64), Tensor(64), 64, 2, BLOCK=64), {1})
        self.assertEqual(written(walk, Tensor(64), Tensor(64), Tensor(1), 64, BLOCK=64), {1, 2})
        self.assertEqual(written(add_into, Tensor(64), Tensor(64), BLOCK=64), {0})

    def test_names_say_what_a_function_is(self):
        def made(source, helper="return value * 2"):
            module = {"tl": tl}
            for i, text in enumerate((f"def helper(value):\n    {helper}\n", source)):
                path = f"<kernel {i} {hash((source, helper))}>"
                linecache.cache[path] = (len(text), None, text.splitlines(True), path)
                exec(compile(text, path, "exec"), module)
                name = "helper" if i == 0 else "one"
                module[name] = triton.jit(module[name])
            return name_of(module["one"], CONFIGS, ["n=4"])

        one = "def one(x, BLOCK: tl.constexpr):\n    tl.store(x, helper(tl.load(x)))\n"
        self.assertEqual(made(one), made("\n\n\n" + one), "its line does not matter")
        self.assertNotEqual(made(one), made(one, helper="return value * 3"))
        self.assertRegex(made(one), r"^one-[0-9a-f]{20}$")
        names = {name_of(scale, CONFIGS[:count], key) for count in (2, 3) for key in (["n=1"], ["n=2"])}
        self.assertEqual(len(names), 4)


class AutotuneTest(TritonTest):
    def test_a_record_is_launched(self):
        self.put(self.record_of(scale, Table(CONFIGS).params_of(CONFIGS[5])))
        tuned = self.tuned()
        tuned[grid](*self.arguments())
        self.assertEqual(self.launched, [CONFIGS[5].all_kwargs()])
        self.assertIs(tuned.best_config, CONFIGS[5])
        self.assertRegex([*tuned.sources.values()][0], "the record of scale-")

    def test_a_submitters_record_is_launched_unless_there_are_several(self):
        for owners, launched in ((["alice/"], CONFIGS[5]), (["alice/", "bob/"], CONFIGS[0]), (["alice/", ""], CONFIGS[5])):
            from tunectl import _client
            _client._process = None
            self.put(self.record_of(scale, Table(CONFIGS).params_of(CONFIGS[5]), owners=owners))
            with self.subTest(owners):
                self.service()
                self.tuned()[grid](*self.arguments())
                self.assertEqual(self.launched.pop(), launched.all_kwargs())
        flush(120)

    def test_the_process_that_submitted_a_kernel_knows_its_own(self):
        with unittest.mock.patch.object(_service, "_names", {"scale-0": "bob/scale-0"}):
            kernels = ["alice/scale-0", "bob/scale-0"]
            self.assertEqual(_service._name_in(kernels, "scale-0"), "bob/scale-0")
            os.environ.update(WORLD_SIZE="2", TUNE_SNAPSHOT="latest")
            self.assertIsNone(_service._name_in(kernels, "scale-0"), "other ranks do not")

    def test_ranks_without_a_pinned_snapshot_launch_the_first(self):
        self.service()
        os.environ.update(WORLD_SIZE="2", RANK="1")
        with self.assertLogs("tunectl", "WARNING") as said:
            for n in 64, 128:
                self.tuned()[grid](*self.arguments(n))
        self.assertEqual(self.launched, [CONFIGS[0].all_kwargs()] * 2)
        self.assertEqual(len(said.output), 1, "it is said once")
        self.assertIn("TUNE_SNAPSHOT", said.output[0])

    def test_all_ranks_of_a_pinned_job_launch_the_same(self):
        digest = self.put(self.record_of(scale, Table(CONFIGS).params_of(CONFIGS[3])), newest=False)
        for rank in "0", "1":
            from tunectl import _client
            _client._process = None
            os.environ.update(TUNE_SNAPSHOT=digest, WORLD_SIZE="2", RANK=rank)
            tuned = self.tuned()
            tuned[grid](*self.arguments())
            tuned[grid](*self.arguments(n=512))  # no record: the first on every rank, and nobody tunes
        self.assertEqual(self.launched, [CONFIGS[3].all_kwargs(), CONFIGS[0].all_kwargs()] * 2)

    def test_a_miss_launches_the_first_and_asks_once(self):
        self.service()
        tuned = self.tuned()
        for _ in range(3):
            tuned[grid](*self.arguments())
            tuned.run(*self.arguments(), grid=grid, warmup=False)
            x, y, n, step = self.arguments()
            tuned[grid](x, y, n=n, step=step)
        self.assertTrue(flush(120))
        self.assertEqual(self.launched[0], CONFIGS[0].all_kwargs())
        # A way to give the arguments is a key of its own here, and one name at the service.
        self.assertEqual(len({kernel.name for kernel in self.sent}), 1)

    def test_keys_are_triton_s(self):
        self.service()
        tuned = self.tuned()
        tuned[grid](*self.arguments(4096))
        tuned[grid](Tensor(4096), Tensor(4096), 4096, 32)  # `step` is not in the key
        self.assertEqual(len(tuned.sources), 1)
        tuned[grid](*self.arguments(512))
        tuned[grid](Tensor(512, dtype=F16), Tensor(512), 512, 2)
        tuned[grid](None, Tensor(512), 512, 2)
        tuned[grid](Tensor(512, dtype=F16), Tensor(512), 512, 2)
        self.assertEqual(len(tuned.sources), 4)
        flush(120)

    def test_wait_takes_what_the_sweep_found(self):
        wanted = CONFIGS[4]
        self.service(tune=lambda kernel, *rest: self.sent.append(kernel) or Table(CONFIGS).params_of(wanted))
        tuned = self.tuned(wait=True)
        tuned[grid](*self.arguments())
        self.assertEqual(self.launched, [wanted.all_kwargs()])
        self.assertEqual(len(self.sent), 1)
        os.environ["WORLD_SIZE"], os.environ["TUNE_SNAPSHOT"] = "4", "latest"
        tuned[grid](*self.arguments(512))
        self.assertEqual(self.launched[1], CONFIGS[0].all_kwargs(), "a job of several ranks does not wait")

    def test_without_a_service_triton_tunes(self):
        with unittest.mock.patch.object(_autotuner.TritonAutotuner, "run", autospec=True) as run:
            def tune(tuner, *args, **kwargs):
                tuner.best_config = CONFIGS[2]

            run.side_effect = tune
            tuned = self.tuned()
            tuned[grid](*self.arguments())
            tuned[grid](*self.arguments())
        self.assertEqual(run.call_count, 1)
        self.assertEqual(self.launched, [CONFIGS[2].all_kwargs()])
        self.assertRegex([*tuned.sources.values()][0], "^Triton: no daemon answers")

    def test_what_the_service_cannot_run_triton_tunes(self):
        self.service()
        with unittest.mock.patch.object(_autotuner.TritonAutotuner, "run", autospec=True) as run:
            run.side_effect = lambda tuner, *args, **kwargs: setattr(tuner, "best_config", CONFIGS[0])
            tuned = self.tuned()
            tuned[grid](Tensor(64, dtype=F8), Tensor(64), 64, 2)
        self.assertEqual(run.call_count, 1)
        self.assertRegex([*tuned.sources.values()][0], "'x' is a tensor of float8_e5m2")

    def test_nothing_is_tuned_while_a_graph_is_captured(self):
        self.service()
        for dtype in F32, F8:
            with unittest.mock.patch.object(_autotuner, "_is_capturing", lambda: True), \
                    unittest.mock.patch.object(_autotuner.TritonAutotuner, "run") as run:
                tuned = self.tuned(wait=True)
                tuned[grid](Tensor(64, dtype=dtype), Tensor(64), 64, 2)
                self.assertFalse(run.called or self.sent or tuned.sources)
        self.assertEqual(self.launched, [CONFIGS[0].all_kwargs()] * 2)

    def test_configs_are_pruned_as_in_triton(self):
        self.service()
        last = {"early_config_prune": lambda configs, named, **kwargs: configs[-2:]}
        self.tuned(prune_configs_by=last)[grid](*self.arguments())
        self.assertTrue(flush(120))
        self.assertEqual(self.launched, [CONFIGS[-2].all_kwargs()])
        self.assertIn('name: "num_warps" values: "[2, 4]"', self.sent[0].spec)

    def test_a_configs_hook_comes_before_each_launch_of_it(self):
        seen = []
        configs = [triton.Config({"BLOCK": block}, pre_hook=lambda given: seen.append((given["BLOCK"], given["n"], len(given))))
                   for block in (64, 128)]
        self.put(self.record_of(scale, Table(configs).params_of(configs[1]), configs=configs))
        tuned = self.tuned(configs=configs)
        for _ in range(3):
            tuned[grid](*self.arguments())
        # Four arguments, the grid, `warmup`, and BLOCK, num_warps, num_ctas and num_stages of the config.
        self.assertEqual(seen, [(128, 4096, 10)] * 3, "the record's, and no other is called")
        self.assertEqual(self.launched, [configs[1].all_kwargs()] * 3)

    def copied(self, **more):
        self.service()
        made = autotune(BLOCKS, key=[])(copy_blocks)
        made._run = lambda *args, grid, warmup, **kwargs: self.launched.append([list(one.block_shape) for one in args])
        made[lambda meta: (triton.cdiv(256, meta["ROWS"]),)](described(**more), described())
        self.assertTrue(flush(120))
        return made

    def test_descriptors_are_sent_with_the_blocks_that_hooks_set(self):
        self.copied()
        self.assertEqual(self.launched, [[[32, 64]] * 2], "as the launched config's hook says")
        spec = self.sent[0].spec
        self.assertRegex(spec, r'name: "source" buffer { dtype: "f16" shape: \["256", "64"\] role: ROLE_INPUT .*'
                               r'tensor_descriptor { block_shape: \["block_\d+", "64"\] }')
        self.assertRegex(spec, 'name: "target" buffer .* role: ROLE_INOUT')
        self.assertEqual(len(self.sent[0].files), 2)
        self.check_whole(self.sent[0], len(BLOCKS))

    def test_descriptors_with_gaps_are_triton_s_to_tune(self):
        gaps = TensorDescriptor(Tensor(256, 128, dtype=F16), [256, 64], [128, 1], [32, 64])
        with self.assertRaisesRegex(Unsupported, "'source' is a tensor descriptor with gaps between its rows"):
            read_call(copy_blocks.params, {"source": gaps, "target": described()}, {"ROWS"}, {}, ())

    def test_a_hook_is_part_of_the_name(self):
        plain, hooked = ([triton.Config({"BLOCK": 64}, pre_hook=hook)] for hook in (None, set_blocks))
        self.assertNotEqual(name_of(scale, plain, []), name_of(scale, hooked, []))

    def test_a_hook_is_what_it_sees(self):
        def name(hook):
            return name_of(scale, [triton.Config({"BLOCK": 64}, pre_hook=hook)], [])

        def reads_a_global(arguments):
            return BLOCK_ROWS

        self.assertEqual(name(make_hook(64)), name(make_hook(64)))
        hooks = [make_hook(64), make_hook(128), lambda given, rows=64: rows, lambda given, rows=128: rows,
                 functools.partial(set_rows, 64), functools.partial(set_rows, 128), reads_a_global]
        names = {name(hook) for hook in hooks}
        self.assertEqual(len(names), len(hooks))
        with unittest.mock.patch.dict(globals(), BLOCK_ROWS=128):
            self.assertNotIn(name(reads_a_global), names)
        for value, kind in ((object(), "object"), (Tensor(4), "Tensor")):
            with self.assertRaisesRegex(Unsupported, f"pre_hook sees 'others', a {kind}, which has no text"):
                name(make_hook(64, value))

    def test_configs_that_only_hooks_tell_apart_are_triton_s_to_tune(self):
        with self.assertRaisesRegex(Unsupported, "two configs differ in their pre_hook alone"):
            Table([triton.Config({}, pre_hook=make_hook(rows)) for rows in (64, 128)])
        Table([triton.Config({}, pre_hook=make_hook(64)), triton.Config({}, pre_hook=make_hook(64))])
        call = read_call(scale.params, dict(zip(scale.arg_names, self.arguments())), {"BLOCK"}, {}, ())
        choices = [Choice({"num_warps": 4}, "text", (extent,)) for extent in (64, 128)]
        with self.assertRaisesRegex(Unsupported, "two configs of the same values have another grid"):
            write_spec("a", "b", call, choices, set(), {})

    def test_descriptors_of_other_dtypes_are_other_keys(self):
        tuner, wide = autotune(BLOCKS, key=[])(copy_blocks), described(dtype=F32)
        padded = described()
        padded.padding = "nan"
        pairs = [(described(), described()), (wide, described()), (padded, described()), (None, described())]
        self.assertEqual(len({str(tuner._shared_key(pair, {})) for pair in pairs}), len(pairs))
        for first in pairs:
            key_of = tuner._make_key_of(first, {})
            self.assertEqual(len({key_of(pair, {}) for pair in pairs}), len(pairs))
            self.assertEqual(key_of((described(), described()), {}), key_of(pairs[0], {}))

    def test_the_spec_says_what_is_restored(self):
        spec = self.spec(reset_to_zero=["y"]).spec
        self.assertRegex(spec, r'name: "y" buffer .* role: ROLE_INOUT fill { kind: CONSTANT low: 0')
        self.assertRegex(spec, r'name: "x" buffer .* role: ROLE_INPUT fill { kind: NORMAL')

    def test_the_service_compiles_each_config_of_the_spec(self):
        self.check_whole(self.spec(), len(CONFIGS))


if __name__ == "__main__":
    unittest.main()
