# SPDX-License-Identifier: Apache-2.0
"""Inductor's choices from a snapshot and its winners in the vault of a real daemon, on the CPU: Inductor has no Triton
templates there, so PyTorch's own product stands for them. Runs under tests/examples/under_torch.py; needs PyTorch 2.15."""
import json
import os
import subprocess
import sys
import unittest
import unittest.mock

try:
    import torch
    from torch._inductor.choices import unregister_inductor_choices
except ImportError as error:
    print(f"no PyTorch 2.15 here: {error}")
    sys.exit(77)
import daemon_kit
import torch._inductor.config as config
from torch._inductor import select_algorithm
from torch._inductor.kernel.mm import aten_mm
from tunectl import _client, inductor
from tunectl._vault import Vault

KEY = "cpu+((torch.float32, [64, 128], [128, 1]), (torch.float32, [128, 32], [32, 1]))+mm"
ATEN = json.dumps([{"template_id": "aten::mm"}])
# What a program that nobody edits does.
PROGRAM = """import torch, torch._inductor.select_algorithm as algorithm
from torch._inductor.virtualized import V
print(type(V.choices).__module__, [saver.__module__ for saver in algorithm.get_algorithm_selector_cache().feedback_saver_fns])
"""


@daemon_kit.NEEDS_GRPC
class InductorTest(daemon_kit.DaemonTest):
    def setUp(self):
        super().setUp()
        for target, name, value in ((inductor.Choices, "_get_device_key", staticmethod(lambda device: "cpu")),
                                    (inductor, "_is_refused", False)):
            patch = unittest.mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.addCleanup(unregister_inductor_choices, "tunectl")
        self.addCleanup(select_algorithm.clear_feedback_savers)
        torch._dynamo.reset()

    def install(self):
        """In a process that pins the newest snapshot."""
        os.environ["TUNE_SNAPSHOT"] = self.tunectl("snapshot", "pin").stdout.strip()
        _client._process = None
        inductor._pinned.cache_clear()
        inductor.install()

    def compile(self, during=lambda kernel_inputs: None):
        """Compiles a product for max-autotune, and calls `during` meanwhile. Returns the choices of each problem that Inductor was asked for."""
        found = []
        finalize = inductor.Choices._finalize_template_configs

        def noted(handler, template_choices, kernel_inputs, *rest):
            made = finalize(handler, template_choices, kernel_inputs, *rest)
            during(kernel_inputs)
            found.append([choice.template.uid for choice in made])
            return made

        left, right = torch.randn(64, 128), torch.randn(128, 32)
        with config.patch(max_autotune=True, force_disable_caches=True), \
             unittest.mock.patch.object(inductor.Choices, "_finalize_template_configs", noted):
            product = torch.compile(lambda x, y: torch.mm(x, y).relu())(left, right)
        torch.testing.assert_close(product, (left @ right).relu())
        return found

    def test_a_problem_of_the_snapshot_has_the_recorded_template_alone(self):
        Vault("inductor").put(KEY, ATEN)
        self.install()
        hits = []
        lookup = inductor.Choices.lookup_template_configs
        with unittest.mock.patch.object(inductor.Choices, "lookup_template_configs",
                                        lambda *arguments: hits.append(lookup(*arguments)) or hits[-1]):
            self.assertEqual(self.compile(), [["aten::mm"]])
        self.assertEqual(hits, [{"aten::mm": [{}]}])

    def test_entries_that_are_malformed_are_as_good_as_none(self):
        for text in ("[]", "3", '{"template_id": "aten::mm"}', '[{"BLOCK_M": 64}]', '[{"template_id": "gone"}]'):
            with self.subTest(text):
                torch._dynamo.reset()
                Vault("inductor").put(KEY, text)
                self.install()
                self.assertEqual(self.compile(), [["aten::mm"]], "as Inductor chooses itself")

    def test_the_fastest_is_stored_by_the_first_rank(self):
        def save(kernel_inputs):
            """What Inductor calls with its timings, while it compiles."""
            choices = []
            for params in {"BLOCK_M": 64, "num_warps": 4, "LAYOUT": object()}, {"BLOCK_M": 128, "num_warps": 8}:
                made = next(inductor.Choices().get_ktc(kernel_inputs, aten_mm, "mm"))
                made.params = unittest.mock.Mock(to_kwargs=lambda params=params: params)
                choices.append(unittest.mock.Mock(annotations=made.annotations))
            timings = {choices[0]: 0.5, choices[1]: 0.75, unittest.mock.Mock(annotations={}): float("inf")}
            with unittest.mock.patch.dict(os.environ, {"RANK": "1"}):
                inductor._save(timings, name, [], [], None, {})
            found.append(Vault("inductor")._live(key))
            inductor._save(timings, name, [], [], None, {})
            found.append(Vault("inductor")._live(key))

        found, name, key = [], "a product", KEY.replace("+mm", "+a product")
        self.install()
        self.compile(save)
        self.assertIsNone(found[0], "of rank 1")
        self.assertEqual(json.loads(found[1]), [{"template_id": "aten::mm", "BLOCK_M": 64, "num_warps": 4}])

    def test_without_a_daemon_a_compile_goes_on_and_asks_once(self):
        os.environ["TUNE_ADDRESS"] = f"unix:{self.path}/nobody.sock"
        with unittest.mock.patch.object(inductor, "_entry", return_value=("k", "1")) as entry, \
             self.assertLogs("tunectl") as logs:
            for _ in range(2):
                inductor._save({1: 0.5, 2: 0.75}, "mm")
        self.assertEqual((entry.call_count, len(logs.output)), (1, 1))

    def test_the_uuid_changes_with_the_entries(self):
        self.install()
        before = inductor.Choices().uuid()
        self.install()
        self.assertEqual(inductor.Choices().uuid(), before)
        Vault("inductor").put("another", "[]")
        self.install()
        self.assertNotEqual(inductor.Choices().uuid(), before)

    def test_tunectl_run_installs_both(self):
        done = subprocess.run([daemon_kit.BIN / "tunectl", "run", "--", sys.executable, "-c", PROGRAM],
                              env=self.environ, capture_output=True, text=True, timeout=200, check=False)
        self.assertEqual(done.stdout, "tunectl.inductor ['tunectl.inductor']\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
