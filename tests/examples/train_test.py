# SPDX-License-Identifier: Apache-2.0
"""The training job on a CPU: the same losses as PyTorch's own operations, on one rank and on two.

TUNE_TORCH_PYTHON is a Python with PyTorch. Without it, it is skipped.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = ROOT / "examples/train"
BIN = pathlib.Path(os.environ["TUNE_BIN"])
PYTHON = os.environ.get("TUNE_TORCH_PYTHON")
STEPS = 25


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        cls.addClassCleanup(folder.cleanup)
        cls.path = pathlib.Path(folder.name)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNE_")}
        cls.environ = {**kept, "TUNE_STATE_DIR": str(cls.path / "state"), "TUNE_CACHE_DIR": str(cls.path / "cache"),
                       "XDG_RUNTIME_DIR": str(cls.path), "PATH": f"{BIN}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": "",
                       "PYTHONPATH": str(ROOT / "client/python/src"), "OMP_NUM_THREADS": "1"}
        # Two configs each: which one is faster is no matter here.
        cls.run_program(sys.executable, TRAIN / "tune.py", "--size", "tiny", "--device", "cpu", "--budget", "2")
        cls.environ["TUNE_SNAPSHOT"] = cls.run_program(BIN / "tunectl", "snapshot", "pin").strip()

    @classmethod
    def run_program(cls, *words, ok=True, **more):
        done = subprocess.run([str(word) for word in words], env={**cls.environ, **more}, capture_output=True, text=True,
                              timeout=900, check=False)
        if ok and done.returncode != 0:
            raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout if ok else done

    def train(self, name, *flags, **more):
        self.run_program(PYTHON, TRAIN / "train.py", "--steps", STEPS, "--out", self.path / name, *flags, **more)
        return json.loads((self.path / name).read_text())

    def test_the_same_losses_as_the_frameworks_own_operations(self):
        said = self.run_program(PYTHON, TRAIN / "measure.py", "--forms", "tunectl", "tunectl-compile", "eager", "--rounds", 1, "--nudges", 2,
                                "--steps", STEPS, "--out", self.path / "figures.json")
        figures = json.loads((self.path / "figures.json").read_text())
        self.assertEqual(figures["fallbacks"], [], "everything that was swept is launched")
        self.assertEqual(figures["snapshots"], [self.environ["TUNE_SNAPSHOT"]])
        for tuned in ("tunectl", "tunectl-compile"):
            self.assertGreater(figures["one_rank"]["eager"][f"{tuned}_takes"], 0)
            losses = figures["losses"][tuned]
            self.assertLess(losses[-1], losses[0] - 1.5, said)

    def test_a_wrong_gradient_would_be_seen(self):
        curve = {"ops": "eager", "step_ms_median": 1.0, "fallbacks": {}, "losses": [5.5 - i / 20 for i in range(STEPS)]}
        paths = [self.path / f"{name}.json" for name in ("ours", "theirs", "nudged")]
        for factor, code in ((1.001, 1), (1 + 2e-5, 0)):
            for path, by in zip(paths, (factor, 1, 1 + 1e-5)):
                path.write_text(json.dumps(dict(curve, losses=[loss * by for loss in curve["losses"]])))
            done = self.run_program(PYTHON, TRAIN / "compare.py", *paths, ok=False)
            self.assertEqual((done.returncode, "NOT the same curve" in done.stdout), (code, bool(code)), done.stdout)

    def test_two_ranks_pin_one_snapshot(self):
        words = (PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", "2", TRAIN / "train.py", "--steps", "3",
                 "--ops", "tunectl")
        said = self.run_program(*words)
        ranks = dict(re.findall(r"rank (\d) of 2: snapshot (sha256:\w+) from file", said))
        self.assertEqual(ranks, {rank: self.environ["TUNE_SNAPSHOT"] for rank in "01"})
        done = self.run_program(*words, ok=False, TUNE_SNAPSHOT="")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("UnpinnedError", done.stderr)

    def test_the_device_may_be_named(self):
        result = self.train("on_cpu.json", "--ops", "eager", "--device", "cpu", "--steps", "2")
        self.assertEqual(result["device"], "cpu")
        refused = self.run_program(PYTHON, TRAIN / "train.py", "--device", "cuda", ok=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--device cuda: PyTorch sees no GPU here", refused.stderr)

    def test_a_mistake_is_told_before_the_work(self):
        nowhere = self.path / "none/x.json"
        for words, said in ((("train.py", "--out", nowhere), f"there is no folder {nowhere.parent}"),
                            (("train.py", "--text", nowhere), "there is no such file"),
                            (("measure.py", "--out", nowhere), f"there is no folder {nowhere.parent}"),
                            (("tune.py", "--tunectl", nowhere), "there is no program"),
                            (("compare.py", *[nowhere] * 3), "is not what train.py --out writes")):
            done = self.run_program(PYTHON, TRAIN / words[0], *words[1:], ok=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(said, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_a_snapshot_that_is_nowhere_costs_the_tuned_kernels_and_nothing_else(self):
        result = self.train("untuned.json", "--ops", "tunectl", "--deadline", "1", "--steps", "3",
                            TUNE_SNAPSHOT="sha256:" + "0" * 64, TUNE_ADDRESS=f"unix:{self.path}/nobody.sock")
        self.assertEqual((result["snapshot"], len(result["losses"])), ("", 3))
        self.assertIn("rope", result["fallbacks"])


if __name__ == "__main__":
    if not PYTHON:
        print("skipped: it needs PyTorch; ./check torch installs that and runs it")
        sys.exit(77)
    unittest.main()
