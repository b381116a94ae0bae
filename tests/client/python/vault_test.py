# SPDX-License-Identifier: Apache-2.0
"""Winners of other tuners: stored in a real daemon's vault, carried by snapshots, and handed to Helion, if that is
installed (TUNE_TORCH_PYTHON of `./check torch` may have it)."""
import importlib.util
import json
import os
import signal
import unittest

import daemon_kit
import tunectl
from tunectl import _client
from tunectl._vault import Vault

VALUE = json.dumps({"config": '{"block_sizes": [64, 64], "num_warps": 4}', "key": {"type": "K", "fields": {}}}, indent=2)


@daemon_kit.NEEDS_GRPC
class VaultTest(daemon_kit.DaemonTest):
    def setUp(self):
        super().setUp()
        self.vault = Vault("helion")

    def pin(self):
        """Answers from now on as a job that pins the newest snapshot."""
        digest = self.tunectl("snapshot", "pin").stdout.strip()
        self.assertTrue(digest.startswith("sha256:"), digest)
        os.environ["TUNE_SNAPSHOT"] = digest
        _client._process = None

    def refusal(self, key, value):
        with self.assertRaises(tunectl.DaemonError) as raised:
            self.vault.put(key, value)
        return str(raised.exception)

    def test_a_process_reads_what_another_has_stored_at_once(self):
        self.assertIsNone(self.vault.get("once"))
        self.vault.put("once", VALUE)
        self.assertEqual(self.vault.get("once"), VALUE, "byte for byte")
        self.assertIsNone(Vault("other").get("once"))

    def test_a_pinned_job_reads_its_snapshot_alone(self):
        for number in (1, 2):
            self.vault.put(f"pinned {number} \u00fc", json.dumps(number))
        self.pin()
        self.vault.put("pinned 1 \u00fc", "10")
        self.vault.put("later", "3")
        self.assertEqual([self.vault.get(key) for key in ("pinned 1 \u00fc", "pinned 2 \u00fc", "later")], ["1", "2", None])
        self.assertEqual(self.vault.values(1), ["2"], "newest first")
        self.pin()
        self.assertEqual([self.vault.get(key) for key in ("pinned 1 \u00fc", "later")], ["10", "3"])

    def test_ranks_read_the_snapshot_and_the_first_one_stores(self):
        os.environ.update(WORLD_SIZE="2", RANK="1", TUNE_SNAPSHOT="latest")
        self.vault.put("of a rank", "1")
        os.environ.update(WORLD_SIZE="1", RANK="0")
        self.assertIsNone(self.vault.get("of a rank"))
        os.environ["WORLD_SIZE"] = "2"
        self.vault.put("of a rank", "1")
        self.assertIsNone(self.vault.get("of a rank"), "it is in no snapshot that this process has")
        os.environ["WORLD_SIZE"] = "1"
        self.assertEqual(self.vault.get("of a rank"), "1")

    def test_a_restart_keeps_entries_and_a_snapshot_of_file_carries_them(self):
        self.vault.put("kept", VALUE)
        self.kill(signal.SIGKILL)
        self.start()
        self.assertEqual(self.vault.get("kept"), VALUE)
        self.tunectl("snapshot", "export", self.path / "all.json")
        os.environ["TUNE_SNAPSHOT"] = str(self.path / "all.json")
        _client._process = None
        self.assertEqual(self.vault.get("kept"), VALUE)

    def test_hostile_entries_are_refused_with_the_reason(self):
        for key, value, said in (("k", "{'a': 1}", "the value is no JSON"), ("k", "", "is no JSON"),
                                 ("k", '"' + "x" * 65536 + '"', "the value has 65538 bytes"),
                                 ("", "1", "a key has 1 to 512 bytes"), ("a\nb", "1", "no control characters"),
                                 ("k" * 513, "1", "not 513 bytes")):
            self.assertIn(said, self.refusal(key, value))
        self.vault = Vault("../helion")
        self.assertIn("'../helion' is no name of a tuner", self.refusal("k", "1"))

    def test_without_a_daemon_nothing_is_known_and_storing_fails(self):
        os.environ["TUNE_ADDRESS"] = f"unix:{self.path}/nobody.sock"
        self.assertIsNone(self.vault.get("nowhere"))
        self.assertIn("no daemon answers", self.refusal("nowhere", "1"))

    def test_the_commands(self):
        file = self.path / "winner.json"
        file.write_text(VALUE)
        self.tunectl("vault", "put", "flashinfer", "op 1", file)
        self.assertEqual(self.tunectl("vault", "get", "flashinfer", "op 1").stdout, VALUE + "\n")
        (entry,) = json.loads(self.tunectl("vault", "list", "--tuner", "flashinfer", "--json").stdout)["entries"]
        self.assertEqual((entry["key"], entry["value"]), ("op 1", VALUE))
        self.assertRegex(self.tunectl("vault", "list").stdout, r"flashinfer +\S+ .*op 1")
        self.tunectl("vault", "remove", "flashinfer", "op 1")
        gone = self.tunectl("vault", "get", "flashinfer", "op 1", ok=False)
        self.assertIn("the vault has no entry 'op 1' of flashinfer", gone.stderr)

    @unittest.skipUnless(importlib.util.find_spec("helion"), "Helion is not installed")
    def test_helion_finds_the_backend_and_reads_what_it_stored(self):
        from helion.autotuner import remote_cache

        os.environ["HELION_REMOTE_CACHE_BACKEND"] = "tunectl.helion.Cache"
        backend = remote_cache._load_remote_backend()
        self.assertIsNone(remote_cache._remote_get(backend, "a hash"))
        remote_cache._remote_put(backend, "a hash", VALUE)
        self.assertEqual(remote_cache._remote_get(backend, "a hash"), VALUE)
        self.pin()
        self.assertIn(VALUE, backend.list(10))


if __name__ == "__main__":
    unittest.main()
