# SPDX-License-Identifier: Apache-2.0
"""Compiles variants of every catalogue kernel for each GPU target, with no GPU. Run by ctest.

Of each space a sample: for sm_90a one in which every value that a param has in it occurs, for the others a
few configs; of the first dtype, and of e4m3 where there is that. With TUNE_TEST_ALL_VARIANTS=1 all of it: some minutes. TUNE_TEST_SEED chooses another sample.
"""
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["TUNE_BIN"])
ALL = os.environ.get("TUNE_TEST_ALL_VARIANTS") == "1"
SEED = int(os.environ.get("TUNE_TEST_SEED", "1"))
TARGETS = ["sm_80", "sm_90a", "sm_100a"]
VARIANTS_MIN = 100  # valid on a Hopper, by the catalogue's own promise
OTHERS_MOST = 5  # configs compiled for a target that is no Hopper
# Sizes besides the default ones that have device code of their own on a Hopper.
OTHER_SIZES = {"attention_backward": [{"head_dim": 192}, {"head_dim": 256}]}


def cover(configs):
    """Some of the configs, in which every value of every param occurs, those with most of them first."""
    configs = list(configs)
    random.Random(SEED).shuffle(configs)
    chosen, seen = [], set()
    while configs:
        best = max(configs, key=lambda config: len(set(config.items()) - seen))
        if set(best.items()) <= seen:
            break
        chosen.append(best)
        configs.remove(best)
        seen |= set(best.items())
    return chosen


def literal(value):
    if isinstance(value, bool):
        return str(value)
    return repr(value) if isinstance(value, str) else str(value)


def only(configs):
    """The lets and the constraint that leave these configs of a space."""
    lets = "".join(
        f"lets {{ name: \"chosen_{i}\" value: \"" + " and ".join(
            f"{name} == {literal(value)}" for name, value in sorted(config.items())) + "\" }\n"
        for i, config in enumerate(configs))
    return f"{lets}constraints {{ expression: \"{' or '.join(f'chosen_{i}' for i in range(len(configs)))}\" }}\n"


class CompileCatalogue(unittest.TestCase):
    def tunectl(self, *arguments):
        done = subprocess.run([str(BIN / "tunectl"), *map(str, arguments), "--json"], env=self.env,
                              capture_output=True, text=True, timeout=1500, check=False)
        return json.loads(done.stdout) if done.stdout else self.fail(done.stderr)

    def sampled(self, name, target, dtype, folder, sizes):
        """A spec like the catalogue's with these default sizes whose space is a sample, and how many configs that has."""
        dims = [text for dim, size in sizes.items() for text in (f"--{dim}", size)]
        configs = self.tunectl(
            "space", "sample", name, "--target", target, "--dtype", dtype, "-n", 10000, "--seed", SEED, *dims)["configs"]
        if target == "sm_90a" and not sizes:
            self.assertGreaterEqual(len(configs), VARIANTS_MIN)
        chosen = cover(configs)
        if target != "sm_90a":
            chosen = chosen[:OTHERS_MOST]
        shutil.copytree(ROOT / "kernels" / name, folder)
        spec = folder / f"{name}.textproto"
        text = spec.read_text()
        for dim, size in sizes.items():
            text, count = re.subn(rf'(name: "{dim}" default_value: )\d+', rf"\g<1>{size}", text)
            self.assertEqual(count, 1, dim)
        spec.write_text(f"{text}\n{only(chosen)}")
        return spec, len(chosen)

    def check_all(self, name, kernel, target, dtype, expected):
        check = self.tunectl("kernel", "check", kernel, "--target", target, "--dtype", dtype, "--all")
        # The sample need not have the default.
        findings = [one for one in check.get("findings", []) if "the default config" not in one["message"]]
        self.assertEqual(findings, [], name)
        self.assertEqual(int(check["compiled"][target]), expected)

    def test_variants_compile_for_every_gpu_target(self):
        with tempfile.TemporaryDirectory(prefix="tune-") as state:
            self.env = {**os.environ, "TUNE_STATE_DIR": state, "XDG_RUNTIME_DIR": state}
            self.env.pop("TUNE_ADDRESS", None)
            devices = self.tunectl("device", "list")["devices"]
            if not any(d["id"].startswith("cuda") for d in devices):
                print("a build without CUDA compiles for no GPU")
                sys.exit(77)
            missing = {compiler["language"].upper(): compiler["message"] for device in devices
                       for compiler in device.get("compilers", []) if "version" not in compiler}
            for kernel in self.tunectl("kernel", "list")["kernels"]:
                name, dtypes = kernel["spec"]["name"], kernel["spec"]["dtypes"]
                for target, dtype in itertools.product(TARGETS, {dtypes[0], *(set(dtypes) & {"e4m3"})}):
                    with self.subTest(kernel=name, target=target, dtype=dtype):
                        language = kernel["spec"].get("language", "CUDA")
                        if language in missing:
                            self.skipTest(missing[language])
                        if ALL:
                            valid = self.tunectl("space", "count", name, "--target", target, "--dtype", dtype)["valid"]
                            if target == "sm_90a":
                                self.assertGreaterEqual(int(valid), VARIANTS_MIN)
                            self.check_all(name, name, target, dtype, int(valid))
                            continue
                        others = OTHER_SIZES.get(name, []) if target == "sm_90a" else []
                        for i, sizes in enumerate([{}, *others]):
                            folder = pathlib.Path(state) / f"{name}-{target}-{dtype}-{i}"
                            spec, expected = self.sampled(name, target, dtype, folder, sizes)
                            self.check_all(name, spec, target, dtype, expected)


if __name__ == "__main__":
    unittest.main(verbosity=2)
