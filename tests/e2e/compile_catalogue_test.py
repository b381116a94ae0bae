# SPDX-License-Identifier: Apache-2.0
"""Compiles every variant of every catalogue kernel for each GPU target, with no GPU. Run by ctest."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["TUNE_BIN"])
TARGETS = ["sm_80", "sm_90a", "sm_100a"]
VARIANTS_MIN = 100  # valid on each GPU, by the catalogue's own promise


class CompileCatalogue(unittest.TestCase):
    def test_every_variant_compiles_for_every_gpu_target(self):
        with tempfile.TemporaryDirectory(prefix="tune-") as state:
            env = {**os.environ, "TUNE_STATE_DIR": state, "XDG_RUNTIME_DIR": state}
            env.pop("TUNE_ADDRESS", None)

            def tunectl(*arguments):
                done = subprocess.run([str(BIN / "tunectl"), *arguments, "--json"], env=env,
                                      capture_output=True, text=True, timeout=1500, check=False)
                return json.loads(done.stdout) if done.stdout else self.fail(done.stderr)

            if not any(d["id"].startswith("cuda") for d in tunectl("device", "list")["devices"]):
                self.skipTest("a build without CUDA compiles for no GPU")
            for kernel in tunectl("kernel", "list")["kernels"]:
                name = kernel["spec"]["name"]
                with self.subTest(kernel=name):
                    flags = [flag for target in TARGETS for flag in ("--target", target)]
                    check = tunectl("kernel", "check", name, *flags, "--all")
                    self.assertEqual(check.get("findings", []), [])
                    compiled = {t: int(n) for t, n in check["compiled"].items()}
                    sizes = {t: int(n) for t, n in check["kernel"]["space_sizes"].items()}
                    for target in TARGETS:
                        self.assertEqual(compiled[target], sizes[target])
                    self.assertGreaterEqual(compiled["sm_90a"], VARIANTS_MIN)


if __name__ == "__main__":
    unittest.main(verbosity=2)
