# SPDX-License-Identifier: Apache-2.0
"""`tunectl compare` and its reports as a user sees them, on the CPU device. Needs TUNE_BIN."""
import csv
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["TUNE_BIN"])
ROOT = pathlib.Path(__file__).resolve().parents[2]
SAXPY = ROOT / "docs/examples/saxpy"
TIMEOUT_SECONDS = 240


class EndToEnd(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="tune-compare-")
        self.addCleanup(self.dir.cleanup)
        self.path = pathlib.Path(self.dir.name)
        self.env = {**os.environ, "TUNE_STATE_DIR": str(self.path / "state"),
                    "XDG_RUNTIME_DIR": str(self.path), "NO_COLOR": "1"}
        self.env.pop("TUNE_ADDRESS", None)

    def run_tunectl(self, *arguments, expect=0):
        done = subprocess.run([str(BIN / "tunectl"), *map(str, arguments)], env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False,
                              cwd=self.path)
        self.assertEqual(done.returncode, expect,
                         f"{arguments}\nstdout: {done.stdout}\nstderr: {done.stderr}")
        return done

    def saxpy(self, name, *changes):
        """A copy of the example under a name of its own; the path of its spec."""
        folder = self.path / name
        folder.mkdir()
        spec = (SAXPY / "saxpy.textproto").read_text().replace('name: "saxpy"', f'name: "{name}"', 1)
        source = (SAXPY / "saxpy.cu").read_text()
        for old, new in changes:
            self.assertIn(old, source)
            source = source.replace(old, new, 1)
        (folder / "saxpy.cu").write_text(source)
        (folder / "saxpy.textproto").write_text(spec)
        return str(folder / "saxpy.textproto")


class Compare(EndToEnd):
    QUICK = ("--device", "cpu", "--rounds", "2", "--leg-seconds", "0.002", "--default")

    def test_sizes_are_swept_and_reported_in_every_format(self):
        mine = self.saxpy("mine")
        done = self.run_tunectl("compare", SAXPY / "saxpy.textproto", mine, "--sweep", "n=4096..16384",
                                *self.QUICK)
        for text in ("saxpy", "mine", "16384", "1.000", "ratio", "2 rounds by turns, cold cache"):
            self.assertIn(text, done.stdout)
        listed = json.loads(self.run_tunectl("compare", "list", "--json").stdout)["comparisons"]
        self.assertEqual([c["sweep_dim"] for c in listed], ["n"])
        number = listed[0]["id"]
        shown = json.loads(self.run_tunectl("compare", "show", number, "--json").stdout)
        self.assertEqual([p["problem"]["dims"]["n"] for p in shown["problems"]], [4096, 8192, 16384])
        self.assertEqual(len(shown["problems"][0]["kernels"][1]["round_results"]), 2)
        rows = list(csv.DictReader(io.StringIO(
            self.run_tunectl("report", "compare", number, "--format", "csv").stdout)))
        self.assertEqual(len(rows), 6)
        self.assertEqual({row["agreement"] for row in rows}, {"ok"})
        self.assertEqual(rows[0]["ratio"], "1")
        self.run_tunectl("report", "compare", number, "--out", "c.html")
        page = (self.path / "c.html").read_text()
        for text in ("<svg", "mine", "16384"):
            self.assertIn(text, page)
        svg = self.run_tunectl("report", "compare", number, "--format", "svg").stdout
        for text in ("mine", "roof", "<svg"):
            self.assertIn(text, svg)
        markdown = self.run_tunectl("report", "compare", number, "--format", "md").stdout
        self.assertIn("| n | kernel |", markdown)

    def test_what_differs_is_said_and_is_exit_code_1(self):
        other = self.saxpy("other", ("a * x[i] + y[i];\n  }", "a * x[i] - y[i];\n  }"),
                           ("static_cast<double>(a) * x[i] + y[i]", "static_cast<double>(a) * x[i] - y[i]"))
        done = self.run_tunectl("compare", SAXPY / "saxpy.textproto", other, "--n", "4096", *self.QUICK,
                                expect=1)
        self.assertIn("other !differs", done.stdout)
        self.assertIn("against the reference of saxpy: out[", done.stdout)

    def test_labels_configs_and_csv(self):
        spec = SAXPY / "saxpy.textproto"
        done = self.run_tunectl("compare", f"wide={spec}", f"narrow={spec}", "--n", "4096", "--config",
                                "wide: THREADS=512", "--config", "narrow: THREADS=64 ITEMS=2", "--csv",
                                "--device", "cpu", "--rounds", "1", "--leg-seconds", "0.002")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["config"] for row in rows], ["THREADS=512 ITEMS=1", "THREADS=64 ITEMS=2"])
        self.assertEqual([row["kernel"] for row in rows], ["wide", "narrow"])

    def test_a_sweep_first_finds_the_configs(self):
        spec = SAXPY / "saxpy.textproto"
        done = self.run_tunectl("compare", f"one={spec}", f"other={spec}", "--n", "4096", "--sweep-first", "3",
                                "--device", "cpu", "--rounds", "1", "--leg-seconds", "0.002")
        self.assertIn("one: config: exact", done.stdout)

    def test_wrong_usage_is_exit_code_2(self):
        spec = SAXPY / "saxpy.textproto"
        for arguments in ([], [spec], [spec, spec], [spec, "--sweep", "n"], [spec, "--config", "other: THREADS=1"],
                          [spec, "--nope", "3"], ["no_such_kernel"], [spec, "softmax"]):
            with self.subTest(arguments=arguments):
                done = self.run_tunectl("compare", *arguments, "--device", "cpu", expect=2)
                self.assertTrue(done.stderr.strip(), "an error says what to do")


if __name__ == "__main__":
    unittest.main()
