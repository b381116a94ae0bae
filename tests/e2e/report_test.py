# SPDX-License-Identifier: Apache-2.0
"""`tunectl report` and `tunectl bench` as a user would run them. Run by ctest; needs TUNE_BIN."""
import json
import os
import unittest
import xml.etree.ElementTree

from tunectl_kit import SAXPY, Tunectl


class Reports(Tunectl):
    def test_every_format_of_a_real_sweep(self):
        sweep = self.json_of("sweep", "--kernel", SAXPY, "--device", "cpu", "--n", "4096",
                             "--warm", "--budget", "6")
        sweep_id = sweep["id"]
        for what in (["roofline", "--sweep", sweep_id], ["sweep", sweep_id]):
            with self.subTest(what=what):
                self.assertIn("saxpy", self.run_tunectl("report", *what).stdout)
                self.assertIn("saxpy", self.run_tunectl("report", *what, "--format", "md").stdout)
                report = json.loads(self.run_tunectl("report", *what, "--format", "json").stdout)
                self.assertIn("created_unix_ms", report)
                svg = self.path / "report.svg"
                self.run_tunectl("report", *what, "--out", str(svg))
                xml.etree.ElementTree.parse(svg)
                page = self.run_tunectl("report", *what, "--format", "html").stdout
                self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.run_tunectl("report", "roofline", "--sweep", "4711", expect=2)
        self.run_tunectl("report", "roofline", "no_such_kernel", expect=2)
        self.run_tunectl("report", "sweep", sweep_id, "--out", "/no/such/dir/x.html", expect=1)

    def test_bench_writes_what_compare_py_reads(self):
        out = self.path / "bench.json"
        self.run_tunectl("bench", "--kernel", SAXPY, "--device", "cpu", "--n", "4096", "--warm",
                         "--samples", "5", "--default", "--config", "THREADS=128",
                         "--benchmark_repetitions=2", f"--benchmark_out={out}",
                         "--benchmark_out_format=json")
        report = json.loads(out.read_text())
        for key in ("device", "driver", "compiler", "clock"):
            self.assertIn(key, report["context"])
        runs = [b for b in report["benchmarks"] if b["run_type"] == "iteration"]
        self.assertEqual(len(runs), 4)
        for run in runs:
            self.assertTrue(run["name"].startswith("saxpy/n:4096/"), run["name"])
            self.assertTrue(run["name"].endswith("/iterations:5/manual_time"), run["name"])
            self.assertEqual(run["iterations"], 5)
            self.assertEqual(run["time_unit"], "us")
            self.assertGreater(run["real_time"], 0)
            self.assertGreater(run["cpu_time"], 0)
            # Manual time: rate times mean time is the declared work, 12 bytes an element.
            moved = run["bytes_per_second"] * run["real_time"] * 1e-6
            self.assertAlmostEqual(moved / (12 * 4096), 1, places=6)
        aggregates = {b["aggregate_name"] for b in report["benchmarks"]
                      if b["run_type"] == "aggregate"}
        self.assertLessEqual({"mean", "median", "stddev"}, aggregates)

    def test_bench_of_a_file_times_what_its_sweep_found(self):
        kernel = ("--kernel", SAXPY, "--n", "4096", "--device", "cpu")
        unknown = self.run_tunectl("bench", *kernel, "--best", "--samples", "3", expect=2)
        self.assertIn("run `tunectl sweep` first", unknown.stderr)
        self.run_tunectl("sweep", *kernel, "--budget", "4", "--strategy", "random")
        best = self.run_tunectl("best", "saxpy", "--n", "4096", "--device", "cpu").stdout
        done = self.run_tunectl("bench", *kernel, "--best", "--samples", "3", "--warm",
                                "--benchmark_format=json")
        self.assertEqual(json.loads(done.stdout)["benchmarks"][0]["label"], best.splitlines()[0])

    def test_bench_flags(self):
        listed = self.run_tunectl("bench", "softmax", "rope", "--default", "--device", "cpu",
                                  "--benchmark_list_tests=true").stdout
        self.assertEqual(listed.splitlines(), ["softmax/default/iterations:100/manual_time",
                                               "rope/default/iterations:100/manual_time"])
        self.run_tunectl("bench", expect=2)
        self.run_tunectl("bench", "softmax", "--config", "nonsense", "--device", "cpu", expect=2)
        self.run_tunectl("bench", "softmax", "--benchmark_no_such_flag=1", "--device", "cpu", expect=2)
        self.run_tunectl("bench", "no_such_kernel", "--device", "cpu", expect=2)


if __name__ == "__main__":
    os.environ.setdefault("NO_COLOR", "1")
    del Tunectl  # its cases are not this file's
    unittest.main(verbosity=2)
