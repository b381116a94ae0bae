# SPDX-License-Identifier: Apache-2.0
"""When the fallback of a tuned kernel runs, where its binary comes from, and what `tunectl` says of both."""
import copy
import json
import os
import shutil
import sys
import unittest

import kit
import tunectl
from daemon_kit import NEEDS_GRPC, SAXPY
from kernel_kit import KernelTest, Tensor, drawn, saxpy_of


class Interface:
    """What has NumPy's array interface."""

    def __init__(self, typestr, strides=None, data=(1 << 20, False)):
        self.shape, self.dtype, self.values = (4096,), typestr, [0.0] * 4096
        self.__array_interface__ = {"shape": self.shape, "typestr": typestr, "strides": strides, "version": 3,
                                    **({} if data is None else {"data": data})}


class Fallbacks(KernelTest):
    def assert_falls_back(self, why, n=4096, **tensor):
        calls = []

        def fallback(x, y):
            calls.append(1)
            return saxpy_of(x, y)

        saxpy = tunectl.kernel("saxpy", fallback=fallback)
        x, y, out = Tensor(n, values=[1] * n, **tensor), drawn(n), Tensor(n)
        for _ in range(3):
            saxpy(x, y, out=out)
        self.assert_close(out.values, saxpy_of(x, y).values)
        self.assertEqual(len(calls), 3)
        self.assertEqual(len(saxpy.notes), 1, saxpy.notes)
        self.assertRegex(saxpy.notes[0], why)
        self.assertEqual(len([line for line in self.said if "fallback" in line]), 1, self.said)
        with self.assertRaisesRegex(LookupError, "no fallback="):
            tunectl.kernel("saxpy", fallback=None)(x, y, out=out)

    def artifacts(self):
        return sorted((self.home / "state/snapshots/artifacts").iterdir())

    def test_sizes_that_were_not_tuned(self):
        self.assert_falls_back("no binary for n=5000 f32: nearest on", n=5000)

    def test_another_dtype(self):
        self.assert_falls_back("x is f16, and the kernel takes f32", dtype="torch.float16")

    def test_element_types_that_no_kernel_has(self):
        """NumPy's object, datetime64, timedelta64, str and structured arrays, whose typestr may have no number of bytes."""
        for typestr in ("|O", "<M8[s]", "<m8", "<U3", "|V4", "<c16"):
            for strides in (None, (16,)):
                array = Interface(typestr, strides=strides)
                saxpy = tunectl.kernel("saxpy", fallback=lambda x, y: "fallen back")
                with self.subTest(typestr, strides=strides):
                    self.assertEqual(saxpy(array, array), "fallen back")
                    self.assertEqual(saxpy.notes, (f"x is {typestr}, and the kernel takes f32",))

    def test_an_array_that_gives_no_address(self):
        for data in (bytes(4 * 4096), None):
            saxpy = tunectl.kernel("saxpy", fallback=saxpy_of)
            x, y, out = Interface("<f4", data=data), drawn(4096), Tensor(4096)
            saxpy(x, y, out=out)
            self.assert_close(out.values, saxpy_of(x, y).values)
            self.assertEqual(saxpy.notes, ("x does not tell where its elements are",))

    def test_a_device_that_no_kernel_runs_on(self):
        x = drawn(4096)
        x.device = "xpu:0"
        saxpy = tunectl.kernel("saxpy", fallback=saxpy_of)
        saxpy(x, x, out=Tensor(4096))
        self.assertEqual(saxpy.notes, ("x is on xpu:0, where no kernel runs",))

    def test_an_error_has_the_reason_of_its_call_alone(self):
        saxpy = tunectl.kernel("saxpy", fallback=None)
        calls = [((Tensor(n, dtype=dtype), Tensor(n, dtype=dtype)), why)
                 for n, dtype, why in ((5000, "torch.float32", "there is no binary for n=5000 f32: "),
                                       (4096, "torch.float16", "x is f16, and the kernel takes f32"))]
        calls.append(((Interface("|O"), Interface("|O")), "x is |O, and the kernel takes f32"))
        crooked = Tensor(4096, shift=4)
        crooked.is_contiguous = lambda: False
        calls.append(((crooked, crooked), "x is not contiguous"))
        for _ in range(2):  # made anew, and out of the table
            for inputs, why in calls:
                with self.assertRaises(LookupError) as raised:
                    saxpy(*inputs, out=Tensor(*inputs[0].shape))
                self.assertEqual(str(raised.exception).partition(" fallback=: ")[2][:len(why)], why)
                for _, other in calls:
                    self.assertEqual(other in str(raised.exception), other == why)
        self.assertEqual(len(saxpy.notes), len(calls))

    def test_a_name_that_is_mistyped(self):
        saxpy = tunectl.kernel("saxpyy", fallback=saxpy_of)
        saxpy(drawn(4096), drawn(4096))
        self.assertRegex(saxpy.notes[0], "the snapshot has no kernel 'saxpyy'.*; did you mean 'saxpy'")
        with self.assertRaisesRegex(LookupError, "did you mean 'saxpy'"):
            tunectl.kernel("saxpyy", fallback=None)(drawn(4096), drawn(4096))

    def test_a_host_without_anything(self):
        os.environ["TUNE_STATE_DIR"] = str(self.path / "none")
        os.environ["TUNE_ADDRESS"] = f"unix:{self.path}/none.sock"
        self.assert_falls_back("there is no snapshot")

    def test_a_host_without_the_launcher(self):
        from tunectl import _launch_cpu

        os.environ["TUNE_LAUNCH_LIBRARY"] = str(self.path / "none.so")
        _launch_cpu._library.cache_clear()
        self.addCleanup(_launch_cpu._library.cache_clear)
        self.assert_falls_back("the CPU device's launcher is not here")

    def copied_state(self):
        """The daemon's files as another host has them: there is no daemon."""
        shutil.copytree(self.home / "state/snapshots", self.path / "copy")
        os.environ["TUNE_SNAPSHOT_DIR"] = str(self.path / "copy")
        os.environ["TUNE_ADDRESS"] = f"unix:{self.path}/none.sock"
        return self.path / "copy/artifacts"

    def test_an_artifact_that_is_gone_damaged_or_cut(self):
        folder = self.copied_state()
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))
        for what, damage in (("are sha256", lambda data: data[:-1] + b"x"), ("are sha256", lambda data: data[:100]),
                             ("are sha256", lambda data: b""), ("No such file", None)):
            with self.subTest(what):
                for file in folder.iterdir():
                    if damage is None:
                        file.unlink()
                    else:
                        file.write_bytes(damage(file.read_bytes()))
                self.said.clear()
                self.assert_falls_back(what)

    def test_a_folder_that_others_may_write_is_not_trusted(self):
        folder = self.copied_state()
        folder.chmod(0o777)
        self.assert_falls_back("others may write")

    def test_what_is_no_artifact_does_no_harm(self):
        from tunectl import _artifact

        data = self.artifacts()[0].read_bytes()
        line, _, rest = data.partition(b"\n")
        facts = json.loads(line)
        step = facts["steps"][0]
        for change in ({"version": 2}, {"steps": []}, {"steps": [7]}, {"binary_bytes": [1]}, {"binary_bytes": "x"},
                       {"steps": [{**step, "unit": 9}]}, {"steps": [{**step, "grid": [1, 1]}]},
                       {"steps": [{**step, "grid": [-1, 1, 1]}]}, {"steps": [{**step, "args": [{"kind": "x"}]}]},
                       {"steps": [{**step, "args": [[]]}]}, {"symbols": [{}]}, {"dims": None}, {"format": "x"}):
            with self.subTest(change):
                bad = json.dumps({**facts, **change}).encode() + b"\n" + rest
                with self.assertRaises(_artifact.ArtifactError):
                    _artifact.parse(bad, kit.digest_of(bad))
        for bad in (b"", b"\n", b"{}\n", b"[]\n", rest):
            with self.assertRaises(_artifact.ArtifactError):
                _artifact.parse(bad, kit.digest_of(bad))


class Transport(KernelTest):
    def test_a_record_names_its_artifact(self):
        answer = tunectl.best("saxpy", n=4096, device="cpu")
        file = self.home / "state/snapshots/artifacts" / (answer.artifact.replace(":", "-") + ".artifact")
        data = file.read_bytes()
        self.assertEqual(kit.digest_of(data), answer.artifact)
        facts = json.loads(data.partition(b"\n")[0])
        self.assertEqual((facts["kernel"], facts["dims"], facts["config"]), ("saxpy", {"n": 4096}, dict(answer)))
        threads = int(facts["config"]["THREADS"])
        self.assertEqual(facts["steps"][0]["block"], [threads, 1, 1])
        self.assertEqual([arg["name"] for arg in facts["steps"][0]["args"]], ["x", "y", "out", "a", "n"])
        self.assertEqual(file.stat().st_mode & 0o777, 0o644)

    @NEEDS_GRPC
    def test_a_host_without_the_files_asks_the_daemon(self):
        os.environ["TUNE_STATE_DIR"] = str(self.path / "elsewhere")
        tunectl.open(deadline=30)
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))
        self.assertEqual(len(list((self.path / "cache/artifacts").iterdir())), 1)
        os.environ["TUNE_ADDRESS"] = f"unix:{self.path}/none.sock"
        os.environ["TUNE_SNAPSHOT"] = tunectl.digest()
        tunectl.open(deadline=0)
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))
        self.assertNotIn("grpc", sys.modules)

    def test_a_host_that_reaches_no_daemon(self):
        exported = self.path / "away/tuned.json"
        exported.parent.mkdir()
        self.tunectl("snapshot", "export", exported, "--artifacts")
        self.assertGreaterEqual(len(list((self.path / "away/artifacts").iterdir())), 2)
        os.environ.update(TUNE_STATE_DIR=str(self.path / "none"), TUNE_ADDRESS=f"unix:{self.path}/none.sock",
                          TUNE_SNAPSHOT=str(exported))
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))

    def test_an_import_brings_what_lies_beside(self):
        exported = self.path / "away/tuned.json"
        exported.parent.mkdir()
        done = self.tunectl("snapshot", "export", exported, "--artifacts")
        self.assertRegex(done.stderr, r"with \d+ of the \d+ artifacts that its records name")
        none = self.tunectl("snapshot", "export", exported, "--artifacts", "--kernel", "nobody")
        self.assertIn("without artifacts: none of its records names one", none.stderr)
        kept = self.home / "state/snapshots/artifacts"
        names = sorted(file.name for file in kept.iterdir())
        for file in kept.iterdir():
            file.unlink()
        beside = sorted(file.name for file in (self.path / "away/artifacts").iterdir())
        done = self.tunectl("snapshot", "import", exported)
        self.assertRegex(done.stderr, rf"with {len(beside)} of the \d+ artifacts that it names")
        self.assertEqual(sorted(file.name for file in kept.iterdir()), beside)
        alone = self.path / "tuned.json"
        self.tunectl("snapshot", "export", alone)
        self.assertRegex(self.tunectl("snapshot", "import", alone).stderr,
                         rf"with {len(beside)} of the \d+ artifacts that it names, which were here already")
        self.assertLessEqual(set(beside), set(names))
        self.check_saxpy(tunectl.kernel("saxpy", fallback=None))

        damaged = self.path / "away/artifacts" / beside[0]
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-1] + b"x")
        done = self.tunectl("snapshot", "import", exported, ok=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("this is no artifact of version 1: its bytes are", done.stderr)
        self.assertEqual((kept / beside[0]).read_bytes(), whole, "what is there stays")

    def as_of_another_processor(self, change):
        """The daemon's files as if another processor had written them. `change`: of an artifact's facts."""
        copy = self.path / "another"
        shutil.copytree(self.home / "state/snapshots", copy)
        snapshot = json.loads((copy / (self.newest().replace(":", "-") + ".json")).read_bytes())
        for record in snapshot["records"]:
            record["hard"]["device"] = "cpu:Another"
            file = copy / "artifacts" / (record.get("artifact", "").replace(":", "-") + ".artifact")
            if file.exists():
                line, _, binaries = file.read_bytes().partition(b"\n")
                facts = {**json.loads(line), "device": "cpu:Another"}
                change(facts)
                data = json.dumps(facts).encode() + b"\n" + binaries
                record["artifact"] = kit.digest_of(data)
                (copy / "artifacts" / (record["artifact"].replace(":", "-") + ".artifact")).write_bytes(data)
        (self.path / "another.json").write_text(json.dumps(snapshot))
        shutil.move(copy / "artifacts", self.path / "artifacts")
        os.environ.update(TUNE_SNAPSHOT=str(self.path / "another.json"), TUNE_ADDRESS=f"unix:{self.path}/none.sock")
        tunectl.open(deadline=0)
        return tunectl.kernel("saxpy", fallback=saxpy_of)

    def test_another_processor_with_the_same_instructions_will_do(self):
        saxpy = self.as_of_another_processor(lambda facts: self.assertTrue(facts["processor_features"]))
        self.assertEqual(tunectl.best("saxpy", n=4096, device="cpu").match, "other_device")
        self.check_saxpy(saxpy)
        self.assertEqual(saxpy.notes, ())

    def test_a_processor_that_lacks_instructions_runs_the_fallback(self):
        saxpy = self.as_of_another_processor(lambda facts: facts["processor_features"].append("avx9000"))
        self.check_saxpy(saxpy)
        self.assertIn("lacks what cpu:Another has and it may use: avx9000", saxpy.notes[0])

    def test_nobody_says_which_instructions(self):
        saxpy = self.as_of_another_processor(lambda facts: facts.pop("processor_features"))
        self.check_saxpy(saxpy)
        self.assertIn("does not say which instructions", saxpy.notes[0])

    def test_the_daemon_gives_out_nothing_damaged(self):
        self.sweep_kernel(SAXPY, n=777)
        tunectl.open()
        artifact = tunectl.best("saxpy", n=777, device="cpu").artifact
        file = self.home / "state/snapshots/artifacts" / (artifact.replace(":", "-") + ".artifact")
        file.write_bytes(file.read_bytes()[:-1] + b"x")
        done = self.tunectl("snapshot", "export", self.path / "tuned.json", "--artifacts")
        self.assertIn("was damaged; sweep its kernel again", done.stderr)
        self.assertFalse(file.exists())


class Explains(KernelTest):
    def test_tunectl_says_what_python_says(self):
        for n in (4096, 5000):
            theirs = json.loads(self.tunectl("explain", "saxpy", "--n", n, "--device", "cpu", "--json").stdout)
            ours = tunectl.explain("saxpy", n=n, device="cpu")
            self.assertEqual([int(one["record_id"]) for one in theirs["candidates"]],
                             [one.record for one in ours.candidates])
            for mine, yours in zip(ours.candidates, theirs["candidates"]):
                self.assertEqual([tuple(map(str, field)) for field in mine.fields],
                                 [tuple(field.get(name, "") for name in mine.fields[0]._fields)
                                  for field in yours["fields"]])
                self.assertEqual((mine.config_is_valid, mine.answers),
                                 (yours.get("config_is_valid", False), yours.get("answers", False)))
        text = self.tunectl("explain", "saxpy", "--n", 5000, "--device", "cpu").stdout
        self.assertIn("answers", text)
        self.assertRegex(text, r"near +n \(nearest\) = 5000  the record's 4096")
        self.assertIn("farther", text)

    def test_what_is_not_there(self):
        self.assertIn("no record", self.tunectl("explain", "attention", "--device", "cpu").stdout)
        done = self.tunectl("explain", "nonsense", ok=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no kernel 'nonsense'", done.stderr)


if __name__ == "__main__":
    unittest.main()
