# SPDX-License-Identifier: Apache-2.0
"""What answers of the package carry, by snapshots made by hand. tests/lookup has the rule."""
import copy
import io
import os
import pickle
import types
import unittest
import unittest.mock

import kit
import tunectl
from tunectl import _client, _progress
from tunectl._device import local_devices
from tunectl._dtypes import device_name, dtype_name
from tunectl._kernel import Problem


class Answers(kit.PackageTest):
    def open(self, *records, **fields):
        self.put(kit.snapshot_bytes(records, **fields))
        return tunectl.open()

    def test_an_exact_record_with_its_evidence(self):
        client = self.open(kit.record(3))
        answer = tunectl.best("scale", n=4096, device=kit.H200)
        self.assertEqual(answer.match, "exact")
        self.assertEqual(dict(answer), {"THREADS": 128, "PATH": "mma"})
        self.assertEqual(answer["THREADS"], 128)
        self.assertEqual(answer.get("NO_SUCH", 5), 5)
        self.assertEqual((answer.latency_ns, answer.latency_ns_low, answer.latency_ns_high), (1500, 1490, 1520))
        self.assertEqual(answer.confidence, "confirmed")
        self.assertGreater(answer.age_seconds, 0)
        self.assertEqual(answer.evidence, f"sha256:{answer.record:064x}")
        self.assertEqual(answer.snapshot, client.digest)
        self.assertEqual(answer.source, "file")
        self.assertEqual((answer.device, answer.target, answer.dtype), (kit.H200, "sm_90a", "bf16"))
        self.assertIs(tunectl.best("scale", n=4096, device=kit.H200), answer, "from the table")
        with self.assertRaises(AttributeError):
            answer.match = "other"

    def test_headers_of_include_roots_count_where_the_snapshot_knows_them(self):
        known = kit.record(3, include_digest="1" * 64)
        for digest, match in (("1" * 64, "exact"), ("2" * 64, "nearest"), ("", "exact")):
            kernel = {**kit.KERNEL, "include_digest": digest} if digest else kit.KERNEL
            self.open(known, kernels=(kernel,))
            answer = tunectl.best("scale", n=4096, device=kit.H200)
            self.assertEqual((answer.match, answer.record), (match, 3), answer.reason)
            self.assertEqual("the headers of its include roots differ" in answer.reason, match == "nearest")
            self.assertEqual("include_digest" in str(tunectl.explain("scale", n=4096, device=kit.H200)), digest != "")

    def test_a_gpu_that_nobody_knows_never_gets_a_cpus_config(self):
        on_cpu = kit.record(9, device="cpu:Old", target="cpu", config={"THREADS": 64, "PATH": "plain"})
        self.open(on_cpu, kit.record(3))
        sibling = tunectl.best("scale", n=4096, device="NVIDIA H100")
        self.assertEqual((sibling.match, sibling.device, sibling.target), ("other_device", "NVIDIA H100", "sm_90a"))
        self.assertEqual((sibling.record, sibling["PATH"]), (3, "mma"))
        self.open(on_cpu)
        for device, target in (("NVIDIA B300", "sm_103a"), ("Some GPU", "sm_90a")):
            answer = tunectl.best("scale", n=4096, device=device)
            self.assertEqual((answer.match, answer.target, answer.record), ("default", target, 0), answer)
            self.assertIn(f"device '{device}' is not known here", answer.reason)

    def test_a_kernel_that_nobody_knows_is_told_of_once(self):
        self.open(kit.record(1))
        with self.assertLogs("tunectl", "WARNING") as logs:
            for n in (1, 2):
                self.assertEqual(tunectl.best("scales", n=n).match, "default")
            tunectl.best("quite else")
            tunectl.best("scale", n=7, device=kit.H200)
        self.assertEqual([line.getMessage() for line in logs.records],
                         ["no kernel 'scales' is known, so its configs are defaults; did you mean 'scale'?",
                          "no kernel 'quite else' is known, so its configs are defaults; there is: scale"])

    def test_an_answer_says_its_match_once(self):
        self.open(kit.record(1))
        for dims, said in (({"n": 4096}, "; exact: this"), ({"n": 5000}, "; nearest on"), ({"mode": 1}, "; default: no")):
            text = repr(tunectl.best("scale", device=kit.H200, **dims))
            self.assertIn(said, text)
            self.assertNotIn("exact: exact", text)

    def test_the_driver_of_this_host_is_told_from_the_records(self):
        cpu, driver = next(one for one in local_devices() if one.id == "cpu"), os.uname().release
        record = kit.record(1, device=cpu.name, target="cpu", config={"THREADS": 128, "PATH": "plain"})
        for soft, flagged in (({"driver": "1.2"}, True), ({"driver": driver}, False), ({}, False), ("odd", False)):
            self.open({**record, "soft": soft})
            answer = tunectl.best("scale", n=4096, device="cpu")
            self.assertEqual(answer.match, "exact")
            self.assertEqual(f"other driver: measured with 1.2, here is {driver}" in answer.reason, flagged, answer)
            lines = str(tunectl.explain("scale", n=4096, device="cpu")).splitlines()
            self.assertEqual(any(line.startswith("    near        driver (soft)") for line in lines), flagged)
        self.open(kit.record(1))
        self.assertIn("    ignored     driver (soft) = not known  the record's 570.1",
                      str(tunectl.explain("scale", n=4096, device=kit.H200)).splitlines(), "it is no device of this host")

    def test_a_config_that_is_not_valid_for_the_problem_does_not_answer(self):
        self.open(kit.record(1, n=4096, config={"THREADS": 1024, "PATH": "mma"}),
                  kit.record(2, n=65536, config={"THREADS": 64, "PATH": "mma"}))
        answer = tunectl.best("scale", n=512, device=kit.H200)
        self.assertEqual((answer.match, answer["THREADS"]), ("nearest", 64), "1024 threads are more than n")

    def test_what_a_config_launches_for_the_problem_that_was_asked_for(self):
        steps = [kit.KERNEL["steps"][0], {"when": "mode == 1", "grid": ["n", "2"], "block": ["32"], "cluster": ["2"],
                                          "shared_bytes": ""}]
        self.put(kit.snapshot_bytes([kit.record(1)], kernels=[{**kit.KERNEL, "steps": steps}]))
        tunectl.open()
        answer = tunectl.best("scale", n=5000, device=kit.H200)
        self.assertEqual(answer.launches, (((40, 1, 1), (128, 1, 1), (1, 1, 1), 2048),))
        both = tunectl.best("scale", n=512, mode=1, device=kit.H200).launches
        self.assertEqual([(one.grid, one.cluster) for one in both], [((2, 1, 1), (1, 1, 1)), ((512, 2, 1), (2, 1, 1))])
        self.assertEqual(tunectl.best("scale", default={"THREADS": 1}, mode=1, device=kit.H200).launches, ())

    def test_an_artifact_is_for_this_very_problem(self):
        artifact = {"artifact": "sha256:" + "1" * 64}
        ignoring = {**kit.KERNEL, "dims": [kit.KERNEL["dims"][0], {**kit.KERNEL["dims"][1], "match": "ignored"}]}
        self.put(kit.snapshot_bytes([{**kit.record(1), **artifact}, {**kit.record(2, n=64, device="NVIDIA H100"), **artifact,
                                     "config": {"THREADS": 32, "PATH": "mma"}}], kernels=[ignoring]))
        tunectl.open()
        for question, match, has_one in (({"n": 4096}, "exact", True), ({"n": 4096, "mode": 1}, "exact", False),
                                         ({"n": 5000}, "nearest", False)):
            answer = tunectl.best("scale", device=kit.H200, **question)
            self.assertEqual((answer.match, bool(answer.artifact)), (match, has_one), question)
        elsewhere = tunectl.best("scale", device=kit.H200, n=64)
        self.assertEqual((elsewhere.match, bool(elsewhere.artifact)), ("other_device", True), elsewhere)

    def test_the_default_where_no_record_fits(self):
        self.open()
        answer = tunectl.best("scale", device=kit.H200, n=4096)
        self.assertEqual(answer.match, "default")
        self.assertIsNone(answer.age_seconds)
        cpu = tunectl.best("scale", device="cpu")
        self.assertEqual(cpu.dims, {"n": 64, "mode": 0}, "the target's own default")
        self.assertEqual(dict(cpu), {"THREADS": 32, "PATH": "plain"}, "256 threads are more than n")
        self.assertIn("the kernel's default breaks 'THREADS <= n'", cpu.reason)

    def test_a_kernel_whose_compiler_chooses_the_block(self):
        kernel = {**kit.KERNEL, "on_host": False, "steps": [{**kit.KERNEL["steps"][0], "block": []}]}
        self.put(kit.snapshot_bytes([kit.record(1)], kernels=[kernel]))
        tunectl.open()
        self.assertEqual(dict(tunectl.best("scale", device=kit.H200, mode=1)), {"THREADS": 256, "PATH": "mma"})
        answer = tunectl.best("scale", device=kit.H200, n=5000)
        self.assertEqual((answer.match, answer.launches), ("nearest", ()))

    def test_the_callers_default(self):
        self.open(kit.record(1))
        answer = tunectl.best("scale", default={"THREADS": 77}, device=kit.H200, mode=1)
        self.assertEqual((answer.match, dict(answer)), ("default", {"THREADS": 77}))
        self.assertRegex(answer.reason, "^no record of scale .*; the caller's default$")
        self.assertNotIn("kernel's default", answer.reason)
        answer = tunectl.best("scale", default={"THREADS": 77}, device=kit.H200, n=4096)
        self.assertEqual(answer.match, "exact")
        self.assertEqual(dict(tunectl.best("unheard", default={"X": 1})), {"X": 1})

    def test_exact_or_an_error(self):
        self.open(kit.record(1))
        with self.assertRaises(tunectl.NoExactRecord) as caught:
            tunectl.best("scale", n=5000, device=kit.H200, require_exact=True)
        self.assertEqual(caught.exception.answer.match, "nearest")
        self.assertEqual(tunectl.best("scale", n=4096, device=kit.H200, require_exact=True).match, "exact")

    def test_the_table_of_answers_is_bounded(self):
        client = self.open(kit.record(1))
        with unittest.mock.patch.object(_client, "_ANSWERS_MAX", 4):
            for n in range(1000, 1010):
                tunectl.best("scale", n=n, device=kit.H200)
                self.assertLessEqual(len(client._table), 4)

    def test_a_question_that_the_kernel_does_not_understand(self):
        self.open()
        for wrong, why in (({"no_such": 1}, "its dims are n, mode"), ({"mode": 2}, "one of 0, 1"),
                           ({"n": 0}, "goes from 1"), ({"dtype": "f64"}, "it takes bf16, f32")):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, why):
                tunectl.best("scale", **wrong)

    def test_types_of_frameworks(self):
        self.open(kit.record(1, dtype="f32"))

        class Name:
            def __init__(self, name):
                self.name = name

            def __str__(self):
                return self.name

        self.assertEqual(tunectl.best("scale", dtype=Name("torch.float32"), device=kit.H200).dtype, "f32")
        self.assertEqual(tunectl.best("scale", dtype=Name("torch.bfloat16"), device=kit.H200).dtype, "bf16")
        for spelling in ("BF16", "bfloat16", "BFloat16", "torch.bfloat16"):
            self.assertEqual(tunectl.best("scale", dtype=spelling, device=kit.H200).dtype, "bf16")
        for spelling, name in (("F32", "f32"), ("fp32", "f32"), ("float", "f32"), ("half", "f16"), ("FP16", "f16"), ("fp64", "f64"),
                               ("double", "f64"), ("Bool", "bool"), ("F99", "F99"), (None, "")):
            self.assertEqual(dtype_name(spelling), name)
        for device, name in ((None, ""), (1, "cuda:1"), ("CUDA:0", "cuda:0"), (Name("cpu"), "cpu"), ("CPU", "cpu"),
                             ("NVIDIA H200", "NVIDIA H200"), ("cpu:AMD EPYC", "cpu:AMD EPYC")):
            self.assertEqual(device_name(device), name)

    def test_an_array_may_have_another_type_than_the_problem(self):
        kernel = self.open()._kernel("scale")
        self.assertEqual(dtype_name("torch.float8_e4m3fn"), "e4m3")
        for of_problem, of_array in (("e4m3", "bf16"), ("f16", "f16")):
            problem = Problem({"n": 4096, "mode": 0}, of_problem)
            for text, wanted in (("'bf16' if dtype == 'e4m3' else dtype", of_array), ("dtype", of_problem),
                                 ("f32", "f32")):
                self.assertEqual(kernel.dtype({"dtype": text}, problem, "sm_90a"), wanted)

    def test_a_batch_is_of_one_snapshot(self):
        client = self.open(kit.record(1), kit.record(2, n=64, config={"THREADS": 32, "PATH": "mma"}))
        answers = tunectl.best_many({"kernel": "scale", "n": n, "device": kit.H200} for n in (64, 4096))
        self.assertEqual([answer["THREADS"] for answer in answers], [32, 128])
        self.assertEqual({answer.snapshot for answer in answers}, {client.digest})
        for wrong in ([("scale", {"n": 64})], [{"n": 64}], {"kernel": "scale"}, ["scale"]):
            with self.subTest(wrong), self.assertRaisesRegex(TypeError, r"list of best's arguments by name, such as \[{'kernel'"):
                tunectl.best_many(wrong)

    def test_an_answer_goes_to_other_processes(self):
        self.open(kit.record(1))
        answer = tunectl.best("scale", n=4096, device=kit.H200)
        for other in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
            self.assertEqual(other, answer)
            self.assertEqual([getattr(other, name) for name in tunectl.Answer.__slots__],
                             [getattr(answer, name) for name in tunectl.Answer.__slots__])
            self.assertEqual(repr(other), repr(answer))
            with self.assertRaisesRegex(AttributeError, "does not change"):
                other.match = "none"

    def test_an_answer_is_explained_field_by_field(self):
        self.open(kit.record(1, n=8192), kit.record(2, n=4096, mode=1), kit.record(3, n=65536, device="NVIDIA H100"),
                  kit.record(4, n=2048, config={"THREADS": 4096, "PATH": "mma"}))
        explanation = tunectl.explain("scale", n=4000, device=kit.H200)
        first, second, third, fourth = explanation.candidates
        self.assertEqual((first.record, first.answers, first.blocked_by), (1, True, []))
        self.assertEqual({field.name: field.verdict for field in first.fields},
                         {"kernel_hash": "same", "target": "same", "device": "same", "dtype": "same", "n": "near",
                          "mode": "same", "driver": "ignored", "cache_mode": "same"})
        self.assertEqual((second.record, second.blocked_by), (2, ["mode"]))
        self.assertEqual((third.record, third.blocked_by), (4, ["config"]))
        self.assertEqual((fourth.record, fourth.blocked_by), (3, ["device"]))
        text = str(explanation)
        for part in ("record 1: answers", "near        n (nearest) = 4000  the record's 8192",
                     "record 2: differs in mode", "not valid for this problem"):
            self.assertIn(part, text)
        self.assertEqual(tunectl.explain("unheard").candidates, ())

    def test_the_async_form(self):
        import asyncio

        self.open(kit.record(1))
        answer = asyncio.run(tunectl.best_async("scale", n=4096, device=kit.H200))
        self.assertEqual(answer.match, "exact")


class Progress(unittest.TestCase):
    ROW = {"id": 7, "kernel_name": "<b>&\x1b", "state": "running", "message": "", "budget": {"seconds": 10.0},
           "progress": {"planned": 40, "done": 10, "elapsed_seconds": 5.0, "best_latency_ns": 4210.0}}

    def test_how_far_a_sweep_is(self):
        self.assertEqual(_progress.share_done(self.ROW), 0.5)
        self.assertEqual(_progress.share_done({**self.ROW, "budget": None}), 0.25)
        self.assertEqual(_progress.share_done({**self.ROW, "progress": None}), 0.0)
        self.assertEqual(_progress.share_done({**self.ROW, "state": "failed"}), 1.0)
        self.assertEqual(_progress.text_of(self.ROW), "sweep 7 of <b>&?: running, 10 configs, best 4.21 us")

    def test_the_last_line_has_the_results_figure(self):
        done = {**self.ROW, "state": "done", "kernel_name": "softmax",
                "result": {"best": {"measurement": {"latency_ns_median": 4305.0}}}}
        self.assertEqual(_progress.text_of(done), "sweep 7 of softmax: done, 10 configs, latency 4.30 us "
                                                  "(the best of the search alone: 4.21 us)")
        self.assertEqual(_progress.text_of({**done, "result": {"best": None}}), "sweep 7 of softmax: done, 10 configs, "
                                                                                "best 4.21 us")

    def test_a_terminal_has_a_line_that_is_written_over(self):
        with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            said.isatty = lambda: True
            bar = _progress.Bar()
            bar(self.ROW)
            bar({**self.ROW, "state": "done"})
        self.assertEqual(said.getvalue().count("\r"), 2)
        self.assertIn("[############............]", said.getvalue())
        self.assertTrue(said.getvalue().endswith("\n"))

    def test_a_notebook_has_one_bar_that_is_updated(self):
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        ipython.display = unittest.mock.Mock()
        with unittest.mock.patch.dict("sys.modules", IPython=ipython):
            bar = _progress.Bar()
            bar(self.ROW)
            bar({**self.ROW, "state": "done"})
        (first,), (second,) = ipython.display.display.call_args.args, ipython.display.display().update.call_args.args
        self.assertIn('value="0.500"', first._repr_html_())
        self.assertIn("&lt;b&gt;&amp;?", first._repr_html_())
        self.assertIn('value="1.000"', second._repr_html_())


if __name__ == "__main__":
    unittest.main()
