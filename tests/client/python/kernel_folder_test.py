# SPDX-License-Identifier: Apache-2.0
"""What Python sends of a kernel's folder, shared headers among it; tests/kernels/shared_headers_test.cc has the rules."""
import json
import os
import pathlib
import re
import subprocess
import unittest

import kit
from tunectl._kernel_folder import read_kernel

KERNELS = kit.ROOT / "kernels"
TUNECTL = pathlib.Path(os.environ.get("TUNE_BIN", "")) / "tunectl"


def shipped(name):
    return (KERNELS / "include" / name).read_bytes()


class KernelFolders(kit.PackageTest):
    def write(self, headers, folder="k", **files):
        (self.path / folder).mkdir(parents=True, exist_ok=True)
        for name, text in {"k.textproto": f'name: "k" source: "k.cu"\nheaders: {headers}', "k.cu": "", **files}.items():
            (self.path / folder / name).write_text(text)
        return str(self.path / folder / "k.textproto")

    def why(self, spec):
        with self.assertRaises(ValueError) as caught:
            read_kernel(spec)
        return str(caught.exception)

    def test_a_shared_header_brings_those_that_it_includes(self):
        text, files = read_kernel(self.write('["own.cuh", "<kernels/rows.cuh>"]', **{"own.cuh": "own"}))
        shared = ["async_copy.cuh", "sm90.cuh", "cluster.cuh", "fast_math.cuh", "element.cuh", "rows.cuh"]
        self.assertEqual(text, f'name: "k" source: "k.cu"\nheaders: {json.dumps(["own.cuh", *shared])}')
        self.assertEqual(files, {"k.cu": b"", "own.cuh": b"own",
                                 **{name: shipped(name) for name in shared}})
        text, _ = read_kernel(self.write('"<kernels/flat.cuh>"  # of `<kernels/rows.cuh>` no word'))
        self.assertIn('headers: ["fast_math.cuh", "element.cuh", "flat.cuh"]  # of `<kernels/rows.cuh>` no word', text)

    def test_a_folder_kernels_has_its_own(self):
        spec = self.write('"<kernels/sigmoid.cuh>"', folder="kernels/k")
        self.assertEqual(read_kernel(spec)[1]["sigmoid.cuh"], shipped("sigmoid.cuh"))
        (self.path / "kernels/include").mkdir()
        (self.path / "kernels/include/sigmoid.cuh").write_text("changed")
        self.assertEqual(read_kernel(spec)[1]["sigmoid.cuh"], b"changed")

    def test_unknown_names_and_clashes_are_refused(self):
        why = self.why(self.write('"<kernels/row.cuh>"'))
        self.assertIn("k.textproto:2:10: headers: no shared header '<kernels/row.cuh>'; there is <kernels/adamw_", why)
        self.assertIn("; did you mean '<kernels/rows.cuh>'?", why)
        why = self.why(self.write('"<kernels/rows.cuh>"', **{"element.cuh": "mine"}))
        self.assertIn("k/element.cuh has the name of the shared header <kernels/element.cuh>", why)

    def test_kernels_of_the_catalogue_are_whole(self):
        specs = sorted(KERNELS.glob("*/*.textproto"))
        self.assertGreater(len(specs), 15)
        for spec in specs:
            with self.subTest(spec.stem):
                text, files = read_kernel(str(spec))
                self.assertNotIn("<kernels/", text)
                for name, data in files.items():
                    for included in re.findall(r'^#include "([^"]+)"', data.decode(), re.MULTILINE):
                        self.assertIn(included, files, name)

    @unittest.skipUnless(TUNECTL.is_file(), "tunectl is not built")
    def test_tunectl_names_the_same_headers(self):
        for name in ("adamw", "attention_decode", "layernorm", "swiglu"):
            spec = KERNELS / name / f"{name}.textproto"
            environ = {**os.environ, "TUNE_STATE_DIR": str(self.path / "state"), "XDG_RUNTIME_DIR": str(self.path)}
            environ.pop("TUNE_ADDRESS", None)
            ours, catalogues = (json.loads(subprocess.run(
                [TUNECTL, "kernel", "show", kernel, "--json"], env=environ, capture_output=True, text=True, check=True,
                timeout=240).stdout) for kernel in (spec, name))
            for part in ("spec", "source_text"):
                self.assertEqual(ours[part], catalogues[part], "of the folder, and compiled in")
            headers = re.search(r"^headers: (\[[^]]*\])", read_kernel(str(spec))[0], re.MULTILINE).group(1)
            self.assertEqual(json.loads(headers), ours["spec"]["headers"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
