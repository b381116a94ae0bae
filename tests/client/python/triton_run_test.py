# SPDX-License-Identifier: Apache-2.0
"""`tunectl run` over a program that knows Triton alone: two ranks, a real daemon, records and what has none. Skipped
without Triton, as triton_test.py; triton_device.py stands in for the GPU."""
import json
import os
import pathlib
import subprocess
import sys
import unittest

import triton_kit  # first: it may go on in another Python
import daemon_kit
import kit

PROGRAM = pathlib.Path(__file__).with_name("triton_program.py")
TUNED = {"BLOCK": 512, "num_warps": 4, "num_stages": 3, "num_ctas": 1}  # Triton itself finds 128 the fastest here
RANKS = "for rank in 0 1; do RANK=$rank WORLD_SIZE=2 $0 $1 & done; wait"


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
