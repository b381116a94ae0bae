# SPDX-License-Identifier: Apache-2.0
"""What bench/studies/counters.py says of a winner's counters."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench/studies"))
import counters  # noqa: E402

PROFILE = {
    "target": "sm_90a", "config": {"BLOCK_M": 128}, "measurement": {"latency_ns_median": 1e6}, "sm_clock_hz": 1.5e9,
    "dram_read_bytes": 2e9, "dram_write_bytes": 1e9, "flops": {"f32": 5e9, "tensor_bf16": 4e11, "tensor_f8": 0},
    "resources": {"registers": 168}, "occupancy": 0.25, "l2_hit_rate": 0.5,
    "stalls": [{"reason": "gmma", "warps": 3, "share": 0.6}, {"reason": "wait", "warps": 1, "share": 0.2}]}
DEVICE = {"sm_count": 100, "ceilings": [{"name": "dram_copy", "value": 4e12}]}


class Told(unittest.TestCase):
    def test_rates_are_of_the_time_that_was_not_counted(self):
        figure = counters.said_by(PROFILE, DEVICE)
        self.assertAlmostEqual(figure["dram_bytes_per_second"], 3e12)
        self.assertAlmostEqual(figure["dram_over_copy"], 0.75)
        self.assertAlmostEqual(figure["tensor_bf16_flops_per_second"], 4e14)
        self.assertAlmostEqual(figure["tensor_utilisation"], 4e11 / (4096 * 1e-3 * 1.5e9 * 100))
        self.assertNotIn("tensor_f8_flops_per_second", figure)
        self.assertEqual(counters.told(figure), "1000.0 us, DRAM 3.00 TB/s, tensor cores 65 %, occupancy 25 %, "
                                                "L2 hits 50 %, 168 registers, gmma 60 %, wait 20 %")

    def test_what_was_not_counted_is_left_out(self):
        figure = counters.said_by({"target": "cpu", "config": {}, "measurement": {"latency_ns_median": 2e3},
                                         "message": "timing only"}, {})
        self.assertEqual(figure, {"time_ns": 2e3, "config": "", "message": "timing only"})
        self.assertEqual(counters.told(figure), "2.0 us, timing only")


class FakeService:
    device = "cuda:0"

    def __init__(self):
        self.asked = []

    def json(self, command, *arguments, **options):
        self.asked.append((command, *arguments))
        if "gemm" in arguments:
            raise RuntimeError("no device")
        return {"best": {"config": {"A": 1, "B": 2}}, "profile": {"profiles": [PROFILE]}}[command]

    def about_device(self):
        return DEVICE


class Problems(unittest.TestCase):
    def test_one_that_fails_is_told_and_the_next_is_counted(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            out, service = pathlib.Path(folder) / "out.json", FakeService()
            study = counters.Study(service, counters.Report(out), problems=["gemm m=8", "rope seq=4 dtype=f16"], budget="0")
            study.winners()
            figures = json.loads(out.read_text())["figures"]
        self.assertEqual(figures["winner.gemm m=8"]["error"], "RuntimeError: no device")
        self.assertEqual(figures["winner.rope seq=4 dtype=f16"]["profile"]["config"], PROFILE["config"])
        profiled = next(call for call in service.asked if call[0] == "profile")
        self.assertIn("--seq=4", profiled)
        self.assertEqual(profiled[-3:-1], ("--config", "A=1,B=2"))
        self.assertIn("f16", profiled)


if __name__ == "__main__":
    unittest.main()
