# SPDX-License-Identifier: Apache-2.0
"""`tunectl run` over a program that knows Triton alone: two ranks, a real daemon, records and what has none. Skipped
without Triton, as triton_test.py; triton_device.py stands in for the GPU."""
import json
import os
import pathlib
import subprocess
import sys
import types
import unittest
import unittest.mock

import triton_kit  # first: it may go on in another Python
import daemon_kit
import kit
import triton
import tunectl_adopt
from triton_kit import CONFIGS, grid, scale
from tunectl.triton import Autotuner, _adopted, _service, flush
from tunectl.triton._autotuner import TritonAutotuner

PROGRAM = pathlib.Path(__file__).with_name("triton_program.py")
TUNED = {"BLOCK": 512, "num_warps": 4, "num_stages": 3, "num_ctas": 1}  # Triton itself finds 128 the fastest here
RANKS = "for rank in 0 1; do RANK=$rank WORLD_SIZE=2 $0 $1 & done; wait"


class AdoptedTest(triton_kit.TritonTest):
    """Functions as the replaced decorator makes them, in this process."""

    def setUp(self):
        super().setUp()
        runtime = types.SimpleNamespace(autotune=triton.autotune, autotuner=types.SimpleNamespace(autotune=triton.autotune))
        self.triton = types.SimpleNamespace(autotune=triton.autotune, runtime=runtime)
        tunectl_adopt._replace(self.triton)
        patch = unittest.mock.patch.object(_service, "_CALM_SECONDS", 0.0)
        patch.start()
        self.addCleanup(patch.stop)

    def made(self, *arguments, **more):
        made = self.triton.runtime.autotuner.autotune(*(arguments or (CONFIGS, ["n"])), **more)(scale)
        made._run = lambda *args, grid, warmup, **kwargs: self.launched.append(kwargs)
        return made

    def triton_tunes(self, best):
        patch = unittest.mock.patch.object(TritonAutotuner, "run", autospec=True)
        run = patch.start()
        run.side_effect = lambda tuner, *args, **kwargs: setattr(tuner, "best_config", best)
        self.addCleanup(patch.stop)
        return run

    def test_a_key_without_a_record_is_triton_s_and_then_sent_with_what_it_found(self):
        self.service()
        best = next(config for config in CONFIGS if config.kwargs["BLOCK"] == 256)
        run = self.triton_tunes(best)
        made = self.made()
        for _ in range(2):
            made[grid](*self.arguments())
        self.assertEqual((run.call_count, self.launched), (1, [best.all_kwargs()]))
        self.assertTrue(flush(120))
        self.assertIn('default_value: "256"', self.sent[0].spec, "the others are compared with it")

    def test_ranks_do_as_triton_does_unless_nothing_may_be_tuned(self):
        os.environ.update(WORLD_SIZE="2", RANK="1", TUNE_SNAPSHOT="latest")
        self.service()
        run = self.triton_tunes(CONFIGS[1])
        self.made()[grid](*self.arguments())
        self.assertEqual((run.call_count, self.launched), (1, []))
        os.environ["TUNE_ADOPT"] = "no-tuning"
        self.made()[grid](*self.arguments())
        self.assertEqual((run.call_count, self.launched), (1, [CONFIGS[0].all_kwargs()]))
        self.assertFalse(self.sent, "rank 0 asks")

    def test_on_any_doubt_the_function_is_triton_s_own(self):
        self.assertIs(type(self.made()), _adopted.Adopted)
        self.assertIs(type(self.made(CONFIGS[:1], ["n"])), TritonAutotuner, "there is no choice")
        for failing in ((_adopted, "adopt"), (Autotuner, "_why_not")):
            with unittest.mock.patch.object(*failing, side_effect=RuntimeError("a defect")):
                self.assertIs(type(self.made()), TritonAutotuner)
        with self.assertRaises(TypeError):
            self.made(CONFIGS, ["n"], no_such_argument=1)

    def test_what_is_replaced_is_replaced_once(self):
        replaced = self.triton.autotune
        tunectl_adopt._replace(self.triton)
        self.assertIs(self.triton.autotune, replaced)
        self.assertEqual(replaced.__name__, "autotune")


class TritonRunTest(daemon_kit.DaemonTest):
    @classmethod
    def prepare(cls):
        cls.gpu = cls.home / "gpu"  # an H200, for the programs alone
        cls.gpu.mkdir()
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", cls.gpu / "libnvidia-ml.so.1",
                        pathlib.Path(__file__).with_name("fake_nvml.c")], check=True)

    def setUp(self):
        super().setUp()
        self.reports = self.path / "reports"
        self.reports.mkdir()

    def run_ranks(self, *flags, program=PROGRAM, ok=True, **more):
        """The summary, the reports of both ranks and what tunectl printed."""
        environment = {**self.environ, "LD_LIBRARY_PATH": str(self.gpu), "FAKE_NVML_ALIKE": "1", "TMPDIR": str(self.path),
                       "TUNE_CACHE_DIR": str(self.path / "cache"), "TEST_REPORTS": str(self.reports),
                       "TRITON_CACHE_DIR": str(self.home / "triton"), **more}
        summary = self.path / "summary.json"
        done = subprocess.run([daemon_kit.BIN / "tunectl", "run", "--summary", summary, *flags, "--", "sh", "-c", RANKS,
                               sys.executable, program], env=environment, capture_output=True, text=True,
                              timeout=daemon_kit.TIMEOUT_SECONDS, check=False)
        if ok:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        reports = [json.loads((self.reports / f"{rank}.json").read_text()) for rank in (0, 1)]
        return json.loads(summary.read_text()), reports, done.stderr

    def blocks(self, report):
        """By function, the sizes of BLOCK that were launched for 4096 and 8192 elements."""
        sizes = {}
        for index, (name, count) in enumerate(report["launched"]):
            sizes.setdefault(name, set()).add((4096 if index % 6 < 3 else 8192) // count)
        return sizes

    def import_records(self, summary):
        """A snapshot in the daemon with TUNED for each key that the service knows. Returns its digest."""
        names = [row["key"] for row in summary["keys"] if row["key"].partition("-")[0] in ("double", "negate")]
        kernels = [{**kit.KERNEL, "name": name, "on_host": False, "dtypes": ["f32"], "dims": [], "lets": [],
                    "constraints": [], "params": [], "steps": []} for name in names]
        records = [{**kit.record(number, dtype="f32", config=TUNED, dims={}), "kernel": name}
                   for number, name in enumerate(names, 1)]
        file = self.path / "tuned.json"
        file.write_bytes(kit.daemon_bytes(records, kernels=kernels))
        self.tunectl("snapshot", "import", file)
        return kit.digest_of(file.read_bytes())

    def test_records_answer_both_ranks_and_what_has_none_is_triton_s(self):
        plain, (first, second), text = self.run_ranks()
        self.assertEqual((plain["processes"], plain["functions"], plain["answered"]), (2, 3, 0), text)
        self.assertIn("__main__.double: the service did not take it: ", text)
        self.assertIn("is written in TTIR, which runs on GPUs, not on cpu", text)
        self.assertEqual([first["timed"], second["timed"]], [36, 36], "each config of each key, as without tunectl")
        self.assertEqual(self.blocks(first), {"double": {128}, "negate": {128}, "square": {128}, "fixed": {64}})

        digest = self.import_records(plain)
        summary, reports, text = self.run_ranks("--snapshot", digest)
        self.assertEqual((summary["snapshot"], summary["answered"], summary["left"]), (digest, 4, 2), text)
        for report in reports:
            self.assertEqual(report["cached"], 2, "where Triton itself keeps them")
            self.assertEqual(self.blocks(report), {"double": {512}, "negate": {512}, "square": {128}, "fixed": {64}})
            self.assertEqual(report["timed"], 12, "square's alone")
        why = "Triton: its pre_hook runs Python of this process"
        self.assertRegex(text, rf"tunectl run: 3 autotuned Triton kernels with 6 keys in 2 processes, by the records of {digest}"
                         rf"; first launches took [\d.]+ m?s\n  answered by records: 4, sent to the daemon: 0, left alone: 2\n"
                         rf"    __main__.square: {why}")
        for row in summary["keys"]:
            self.assertEqual(row["processes"][row["state"]], 2, row)

    def test_no_tuning_launches_first_configs(self):
        summary, reports, text = self.run_ranks("--no-tuning")
        self.assertEqual([report["timed"] for report in reports], [0, 0], text)
        self.assertEqual(self.blocks(reports[1])["double"], {128})
        self.assertIn("the first: ", summary["keys"][0]["why"])


if __name__ == "__main__":
    unittest.main()
