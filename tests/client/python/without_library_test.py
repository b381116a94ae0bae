# SPDX-License-Identifier: Apache-2.0
"""Without libtune: exact records of a snapshot's file, and a text that says where the library was looked for."""
import os
import subprocess
import sys
import types
import unittest
import unittest.mock

import kit
import tunectl
from tunectl import _libtune


class WithoutLibrary(kit.PackageTest):
    def setUp(self):
        super().setUp()
        os.environ["TUNE_LIBRARY"] = str(self.path / "none.so")
        for clear in (_libtune.library.cache_clear, tunectl._client._warned.clear):
            clear()
            self.addCleanup(clear)

    def opened(self, *records, **fields):
        self.put(kit.snapshot_bytes(records, **fields), self.path)
        os.environ["TUNE_SNAPSHOT_DIR"] = str(self.path)
        return tunectl.open()

    def test_it_is_said_once_and_where_it_was_looked_for(self):
        with self.assertLogs("tunectl", "WARNING") as logs:
            client = self.opened(kit.record(1))
            tunectl.open()
        (said,) = [line.getMessage() for line in logs.records]
        self.assertEqual(said, f"libtune was not found, so only exact records answer. It was looked for at {self.path}/none.so "
                               "(no such file). Install it (cmake --install BUILD --component library), or name its file "
                               "with TUNE_LIBRARY")
        self.assertEqual(client.notes, (said,))

    def test_the_places_in_their_order(self):
        del os.environ["TUNE_LIBRARY"]
        (self.path / "prefix/bin").mkdir(parents=True)
        (self.path / "prefix/bin/tunectl").touch(0o755)
        with unittest.mock.patch.dict(os.environ, TUNE_BIN=f"{self.path}/build/bin", PATH=f"{self.path}/prefix/bin"):
            self.assertEqual(_libtune.places(), [
                f"{kit.PACKAGE}/tunectl/lib/libtune.so.1", f"{self.path}/build/lib/libtune.so.1",
                f"{os.path.realpath(self.path)}/prefix/lib/libtune.so.1", "libtune.so.1"])
            self.assertEqual(_libtune.places("other.so", "TUNE_OTHER")[1:], [
                f"{self.path}/build/lib/other.so", f"{os.path.realpath(self.path)}/prefix/lib/other.so", "other.so"])
            os.environ["TUNE_OTHER"] = "/named/other.so"
            self.assertEqual(_libtune.places("other.so", "TUNE_OTHER"), ["/named/other.so"])

    def test_a_library_of_another_version_or_none_at_all(self):
        source = self.path / "old.c"
        source.write_text("unsigned tune_abi_version(void) { return 2; }\n")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.path / "old.so", source], check=True)
        (self.path / "text.so").write_text("no library")
        for name, why in (("old.so", "version 2 of the interface, and this package needs 4"), ("text.so", "invalid ELF header|too short")):
            os.environ["TUNE_LIBRARY"] = str(self.path / name)
            with self.assertRaisesRegex(_libtune.LibraryMissing, why):
                _libtune.library()

    def test_the_very_problem_answers_and_nothing_else_does(self):
        client = self.opened(kit.record(1), kit.record(3, config={"THREADS": 64, "PATH": "mma"}),
                             kit.record(2, n=64, cache_mode="warm"), kit.record(5, kernel_hash="cd" * 32))
        self.assertEqual((client.source, client.number, client.kernels), ("file", 7, ["scale"]))
        answer = tunectl.best("scale", n=4096, mode=0, device=kit.H200)
        self.assertEqual((answer.match, answer.record, dict(answer)), ("exact", 3, {"THREADS": 64, "PATH": "mma"}))
        self.assertEqual((answer.latency_ns, answer.target, answer.dtype, answer.expectation.basis),
                         (1500, "sm_90a", "bf16", "measured"))
        self.assertEqual(tunectl.best("scale", n=64, device=kit.H200).record, 2)
        for question in ({"n": 4097, "device": kit.H200}, {"n": 4096, "device": "NVIDIA H100"}, {"n": 4096},
                         {"n": 4096, "device": kit.H200, "dtype": "f32"}, {"device": kit.H200}):
            answer = tunectl.best("scale", **question)
            self.assertEqual((answer.match, dict(answer)), ("default", {}), question)
            self.assertIn("libtune was not found", answer.reason)
        self.assertEqual(dict(tunectl.best("scale", n=1, device=kit.H200, default={"THREADS": 32})), {"THREADS": 32})
        with self.assertRaises(tunectl.NoExactRecord):
            tunectl.best("scale", n=1, device=kit.H200, require_exact=True)
        self.assertIn("exact: this problem", str(tunectl.explain("scale", n=4096, device=kit.H200)))

    def test_a_snapshot_is_the_one_that_is_named_or_none(self):
        client = self.opened(kit.record(1))
        self.assertEqual(tunectl.open(client.digest).digest, client.digest)
        self.assertEqual(tunectl.open("sha256:" + "0" * 64).digest, "")
        file = self.path / "exported.json"
        file.write_bytes(kit.snapshot_bytes([kit.record(2)]))
        self.assertEqual(tunectl.open(file).digest, kit.digest_of(file.read_bytes()))
        for data in (b"", b"{}", b"[]", kit.snapshot_bytes(version=2), kit.snapshot_bytes(kernels=[{}])):
            file.write_bytes(data)
            self.assertEqual((tunectl.open(file).digest, tunectl.best("scale").match), ("", "default"))
        with self.assertRaises(ValueError):
            tunectl.open("sha256:12")
        os.environ["WORLD_SIZE"] = "2"
        with self.assertRaises(tunectl.UnpinnedError):
            tunectl.open()
        self.assertEqual(tunectl.open("latest").digest, client.digest)

    def test_a_kernel_runs_its_fallback_and_a_watch_finds_nothing(self):
        self.opened(kit.record(1))
        kernel = tunectl.kernel("scale", fallback=lambda x: x)
        with self.assertLogs("tunectl", "WARNING") as logs:
            array = types.SimpleNamespace(shape=(4,), dtype="torch.float32", device="cpu", data_ptr=lambda: 64,
                                          is_contiguous=lambda: True)
            self.assertIs(kernel(array), array)
        self.assertIn("libtune was not found", logs.output[-1])
        with tunectl.watch(every=3600) as watch:
            self.assertEqual((watch.look(), watch.take()), ((), False))

    def test_a_job_goes_on(self):
        code = "import tunectl; print(tunectl.best('scale', default={'T': 1})['T'], tunectl.open(record_misses=True).misses.wait(1))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                              env={**os.environ, "PYTHONPATH": str(kit.PACKAGE)})
        self.assertEqual(done.stdout, "1 True\n")


if __name__ == "__main__":
    unittest.main()
