# SPDX-License-Identifier: Apache-2.0
"""examples/notebook, run by a real IPython kernel against a daemon on the CPU device."""
import importlib.util
import os
import re
import sys
import unittest
import unittest.mock

import daemon_kit
import kit

NOTEBOOK = kit.ROOT / "examples/notebook/tuning.ipynb"
NEEDED = ("nbclient", "ipykernel", "numpy", "pandas")
MISSING = [name for name in NEEDED if not importlib.util.find_spec(name)]


@daemon_kit.NEEDS_GRPC
@unittest.skipIf(MISSING, f"{', '.join(MISSING)} is not installed")
class Notebook(daemon_kit.DaemonTest):
    @classmethod
    def setUpClass(cls):
        with unittest.mock.patch.dict(os.environ, TUNE_NUMPY_PYTHON=sys.executable):
            super().setUpClass()

    @classmethod
    def prepare(cls):
        import nbformat
        from jupyter_client.manager import KernelManager
        from nbclient import NotebookClient

        cls.cells = nbformat.read(NOTEBOOK, as_version=4)
        own = {"PYTHONPATH": str(kit.PACKAGE), "TUNE_CACHE_DIR": str(cls.home / "cache"), "IPYTHONDIR": str(cls.home / "ipython"),
               "JUPYTER_DATA_DIR": str(cls.home / "jupyter"), "PATH": f"{daemon_kit.BIN}:{os.environ['PATH']}"}
        manager = KernelManager(transport="ipc", ip=str(cls.home / "kernel"))
        manager.kernel_spec.argv[0] = sys.executable
        with unittest.mock.patch.dict(os.environ, {**cls.environ, **own}):
            NotebookClient(cls.cells, km=manager, timeout=daemon_kit.TIMEOUT_SECONDS).execute()

    def outputs(self, beginning):
        """Of the cell with a line that begins so: by MIME type, one dict each."""
        (cell,) = [one for one in self.cells.cells if any(line.startswith(beginning) for line in one.source.splitlines())]
        return [one.get("data") or {"text/plain": one["text"]} for one in cell.outputs if one.get("name") != "stderr"]

    def test_a_sweep_is_plotted_and_shown_as_a_table(self):
        plot, table = self.outputs("sweep = tunectl.wait(sweep, progress=True)")
        self.assertIn("sweep 1 of center: done, 8 configs", plot["text/plain"])
        ok = re.search(r"\noutcomes .*\b(\d+) ok", table["text/plain"])  # on a busy host one may not compile in time
        self.assertEqual(plot["text/html"].count("<circle"), int(ok[1]))
        self.assertIn("best      THREADS=", table["text/plain"])
        self.assertIn("<b>center</b>  rows=256 cols=1024 f32", table["text/html"])

    def test_trials_are_a_frame(self):
        (shown,) = self.outputs("trials = ")
        self.assertIn("UNROLL", shown["text/html"])

    def test_the_answer_is_exact_and_is_launched(self):
        (shown,) = self.outputs("tunectl.open()")
        self.assertIn("exact: this problem was tuned on", shown["text/html"])
        (same,) = self.outputs("np.allclose")
        self.assertEqual(same["text/plain"], "True")

    def test_functions_of_the_notebook_are_peers_and_a_wrong_one_raises(self):
        (shown,) = self.outputs('tunectl.compare(center, {"numpy"')
        self.assertRegex(shown["text/plain"], r"\nnumpy +[\d.]+ [um]?s  ")
        (said,) = self.outputs("def wrong_axis")
        self.assertRegex(said["text/plain"], r"^wrong: its results differ against the reference of center: y\[\d+\] is ")

    def test_the_stored_outputs_are_of_these_cells(self):
        import nbformat

        for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
            if cell.cell_type == "code" and not cell.source.startswith("import"):
                self.assertTrue(cell.outputs, cell.source)


if __name__ == "__main__":
    unittest.main()
