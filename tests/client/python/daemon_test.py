# SPDX-License-Identifier: Apache-2.0
"""The package against a real daemon on the CPU device. Run by ctest; needs TUNE_BIN."""
import io
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import types
import unittest
import unittest.mock

import daemon_kit
import kit
import tunectl
from daemon_kit import NEEDS_GRPC, SAXPY

# Prints the digest and a config, as a rank of a job would at its start.
RANK = ("import json, tunectl; answer = tunectl.best('saxpy', n=65536, device='cpu'); "
        "print(json.dumps([tunectl.digest(), dict(answer), answer.match]))")


def geometry(launch):
    """Of a launch of ours or of the daemon's JSON, which has 64-bit numbers as texts."""
    return [[int(size) for size in launch[axes]] for axes in ("grid", "block", "cluster")] + [int(launch.get("shared_bytes", 0))]


class DaemonTest(daemon_kit.DaemonTest):
    @classmethod
    def prepare(cls):
        for size in (4096, 65536, 1048576):
            cls.sweep(size)


class Answers(DaemonTest):
    def test_python_answers_as_the_daemon_does(self):
        newest = self.newest()
        client = tunectl.open()
        self.assertEqual((client.digest, client.source), (newest, "file"))
        draw = random.Random(20)
        questions = [("saxpy", {"n": n}) for n in (4096, 65536, 5000, 1, 1 << 30)]
        questions += [("saxpy", {"n": draw.randint(1, 1 << draw.randint(1, 34))}) for _ in range(20)]
        questions += [("softmax", {"rows": 64, "cols": 512}), ("rope", {}), ("attention", {"seq": 300}),
                      ("layernorm_backward", {"rows": 96})]
        matches = set()
        for kernel, dims in questions:
            with self.subTest(kernel, dims=dims):
                flags = [part for name, value in dims.items() for part in (f"--{name}", value)]
                theirs = json.loads(self.tunectl("best", kernel, *flags, "--device", "cpu", "--json").stdout)
                ours = tunectl.best(kernel, device="cpu", **dims)
                self.assertEqual(ours.match, theirs["match"].removeprefix("MATCH_").lower())
                self.assertEqual(dict(ours), theirs["config"])
                self.assertEqual([geometry(one._asdict()) for one in ours.launches],
                                 [geometry(one) for one in theirs["launches"]])
                self.assertTrue(ours.launches)
                self.assertEqual(ours.reason, theirs["reason"])
                matches.add(ours.match)
        self.assertEqual(matches, {"exact", "nearest", "default"})

    def test_between_the_shapes_of_a_gpu_both_count_blocks(self):
        """By the records that ship, whose grids are of a GPU."""
        draw = random.Random(14)
        questions = []
        for _ in range(8):
            tokens, width = draw.randint(1000, 40000), 8 * draw.randint(100, 2000)
            questions += [("gemm", {"m": tokens, "n": width, "k": 4096}), ("softmax", {"rows": tokens, "cols": width}),
                          ("attention", {"seq": tokens, "causal": 1}), ("attention_decode", {"seq": tokens})]
        configs = set()
        for kernel, dims in questions:
            with self.subTest(kernel, dims=dims):
                flags = [part for name, value in dims.items() for part in (f"--{name}", value)]
                theirs = json.loads(self.tunectl("best", kernel, *flags, "--device", kit.H200, "--json").stdout)
                ours = tunectl.best(kernel, device=kit.H200, **dims)
                self.assertEqual(ours.match, theirs["match"].removeprefix("MATCH_").lower())
                self.assertEqual(dict(ours), theirs["config"])
                expected = theirs["expectation"]
                for name in ("loss", "loss_low", "loss_high"):
                    self.assertAlmostEqual(getattr(ours.expectation, name), expected.get(name, 0), 9)
                if ours.expectation.chosen_between:
                    configs.add((kernel, str(dict(ours))))
        self.assertGreater(len(configs), 4)

    def test_a_gpu_that_nobody_knows_is_answered_for_as_the_daemon_does(self):
        tunectl.open()
        for device in ("NVIDIA H100", "NVIDIA B300", "NVIDIA L4", "Some GPU", "cuda:7", "cpu:Some CPU"):
            for kernel in ("attention", "softmax", "gemm"):
                with self.subTest(device, kernel=kernel):
                    theirs = json.loads(self.tunectl("best", kernel, "--device", device, "--json").stdout)
                    ours = tunectl.best(kernel, device=device)
                    self.assertEqual(ours.match, theirs["match"].removeprefix("MATCH_").lower())
                    self.assertEqual(dict(ours), theirs["config"])
                    self.assertEqual(ours.reason, theirs["reason"])

    def test_the_device_is_the_daemons(self):
        device = next(one for one in json.loads(self.tunectl("device", "list", "--json").stdout)["devices"]
                      if one["id"] == "cpu")
        answer = tunectl.best("saxpy", n=65536, device="cpu")
        self.assertEqual((answer.device, answer.target), (device["name"], "cpu"))
        self.assertEqual(tunectl.best("saxpy", n=65536, device=device["name"]).match, "exact")

    @NEEDS_GRPC
    def test_a_host_without_the_files_asks_the_daemon(self):
        os.environ["TUNE_STATE_DIR"] = str(self.path / "elsewhere")
        client = tunectl.open(deadline=30)
        self.assertEqual((client.source, client.digest), ("daemon", self.newest()), client.notes)
        self.assertEqual(tunectl.best("saxpy", n=65536, device="cpu").match, "exact")
        self.assertNotIn("grpc", sys.modules)
        self.assertEqual(tunectl.open(deadline=0).source, "cache", "another process of the node")
        pinned = tunectl.open(client.digest, deadline=0)
        self.assertEqual((pinned.source, pinned.digest), ("cache", client.digest))

    @NEEDS_GRPC
    def test_what_is_missed_is_tuned_once_and_the_job_is_told(self):
        client = tunectl.open(record_misses=True)
        for _ in range(3):
            self.assertEqual(tunectl.best("saxpy", n=777, device="cpu").match, "nearest")
        again = tunectl.open(record_misses=True)  # another rank
        self.assertEqual(tunectl.best("saxpy", n=777, device="cpu").match, "nearest")
        for one in (client, again):
            self.assertTrue(one.misses.wait(60))
            self.assertEqual(len(one.misses.notes), 1, one.misses.notes)
        self.assertNotIn("grpc", sys.modules)
        told = [one.misses.notes[0] for one in (client, again)]
        self.assertTrue(told[0].startswith("saxpy n=777: sweep "), told)
        self.assertEqual(told[0].partition(",")[0], told[1].partition(",")[0], "the same sweep")

        with tunectl.watch(every=3600) as watch:
            number = int(told[0].partition("sweep ")[2].partition(",")[0])
            tunectl.wait({"id": number}, timeout=180)
            self.newest()  # is written by then
            (better,) = watch.look()
            self.assertEqual((better.before.match, better.after.match), ("nearest", "exact"))
            self.assertTrue(watch.take())
        self.assertEqual(tunectl.best("saxpy", n=777, device="cpu").match, "exact")

    @NEEDS_GRPC
    def test_a_host_without_the_files_is_told_of_something_better_within_a_look(self):
        os.environ["TUNE_STATE_DIR"] = str(self.path / "elsewhere")
        self.assertEqual(tunectl.open(deadline=30).source, "daemon")
        self.assertEqual(tunectl.best("saxpy", n=333, device="cpu").match, "nearest")
        told = []
        with tunectl.watch(every=3600) as watch, tunectl.watch(every=0.5, tell=told.append):
            self.sweep(333)
            self.newest()  # is written by then
            self.assertEqual([better.after.match for better in watch.look()], ["exact"])
            ends = time.monotonic() + 30  # less than for what the node's cache has counts otherwise
            while not told and time.monotonic() < ends:
                time.sleep(0.1)
        self.assertEqual(told[0][0].after.match, "exact")

    @NEEDS_GRPC
    def test_work_as_rows(self):
        from tunectl import _work

        sweep = tunectl.submit(SAXPY, n=2048, device="cpu", trials=3)
        states = []
        done = tunectl.wait(sweep, timeout=120, progress=lambda row: states.append(row["state"]))
        self.assertEqual((done["id"], done["state"]), (sweep["id"], "done"))
        self.assertEqual(states[-1], "done")
        self.assertEqual(done["problem"], {"n": 2048, "dtype": "f32"})
        self.assertIn("THREADS", done["result"]["best"]["config"])
        self.assertGreaterEqual([row["outcome"] for row in tunectl.trials(sweep)].count("ok"), 3)
        (record,) = [row for row in tunectl.records("saxpy") if row["problem"]["n"] == 2048]
        self.assertEqual(record["config"], done["result"]["best"]["config"])
        for named in (sweep["id"], str(sweep["id"]), f"sweep:{sweep['id']}", f"job:{sweep['job_id']}",
                      next(row for row in tunectl.jobs() if row["id"] == sweep["job_id"])):
            with self.subTest(named):
                self.assertEqual(tunectl.trials(named), tunectl.trials(sweep))
                self.assertEqual(tunectl.wait(named)["id"], sweep["id"])
                self.assertEqual(tunectl.cancel(named)["state"], "done")
        for call in (tunectl.trials, tunectl.wait, tunectl.cancel):
            for unknown, why in ((9999, "no sweep 9999; the newest: "), ("job:9999", "no job 9999; the newest: ")):
                with self.subTest(call, unknown=unknown), self.assertRaisesRegex(tunectl.DaemonError, why) as caught:
                    call(unknown)
                self.assertEqual(caught.exception.code, "NOT_FOUND")
            for wrong, error in (("first", ValueError), (None, TypeError), (1.5, TypeError), ({"state": "done"}, TypeError)):
                with self.subTest(call, wrong=wrong), self.assertRaisesRegex(error, "give a row of sweeps.. or jobs"):
                    call(wrong)
        self.assertEqual(_work._named({"id": 9, "kind": "sweep", "state": "done"}), ("job", 9), "jobs have their own numbers")
        with unittest.mock.patch.dict(sys.modules, pandas=None), self.assertRaisesRegex(
                ImportError, "pip install pandas; without it, flat.. returns the same as a list of dicts"):
            tunectl.sweeps().to_pandas()
        endless = tunectl.submit(SAXPY, n=2049, device="cpu", seconds=600)
        self.assertEqual(tunectl.cancel(endless)["state"], "cancelled")
        with unittest.mock.patch("sys.stderr", io.StringIO()) as said:
            tunectl.wait(endless, timeout=60, progress=True)
        self.assertTrue(said.getvalue().startswith(f"sweep {endless['id']} of saxpy: cancelled"), said.getvalue())
        rows = tunectl.sweeps(limit=3)[1:]
        self.assertEqual(rows[0]["id"], sweep["id"])
        self.assertEqual(len(rows), 2)
        self.assertIn("sweep", {row["kind"] for row in tunectl.jobs()})
        with self.assertRaisesRegex(Exception, "no kernel") as caught:
            tunectl.submit("no_such_kernel")
        with self.assertRaisesRegex(TypeError, "budget='25s': a dim is a whole number.* trials= or seconds="):
            tunectl.submit(SAXPY, budget="25s")
        self.assertIn(caught.exception.code, ("NOT_FOUND", "INVALID_ARGUMENT"))
        tunectl.open()
        self.assertEqual(tunectl.best("saxpy", n=2048, device="cpu").match, "exact")


class Files(DaemonTest):
    def test_the_life_of_a_snapshot(self):
        first = self.tunectl("snapshot", "pin", "--note", "run 17").stdout.strip()
        self.assertEqual(first, self.newest())
        self.sweep(16384)
        second = self.newest()
        self.assertNotEqual(first, second)
        listed = {one["digest"]: one for one in self.snapshots()}
        self.assertEqual(listed[first]["note"], "run 17")
        number = listed[first]["number"]
        self.assertGreater(listed[second]["number"], listed[first]["number"])
        diff = self.tunectl("snapshot", "diff", first, second)
        self.assertIn("n=16384", diff.stdout)
        self.assertIn("1 of ", diff.stderr)
        (change,) = json.loads(self.tunectl("snapshot", "diff", first, second, "--json").stdout)["differences"]
        self.assertEqual((change["kernel"], change["hard"]["dims"], change["before"]), ("saxpy", {"n": 16384}, None))
        with tunectl.pin(second) as client:
            self.assertEqual(change["after"]["config"], dict(client.best("saxpy", n=16384, device="cpu")))
        same = json.loads(self.tunectl("snapshot", "diff", first, first, "--json").stdout)
        self.assertEqual(same, {"differences": []})
        self.assertIn("n=16384", self.tunectl("snapshot", "show", "--kernel", "saxpy").stdout)
        self.assertNotIn("n=16384", self.tunectl("snapshot", "show", first[7:15]).stdout)

        os.environ["TUNE_SNAPSHOT"] = first
        self.assertEqual(tunectl.best("saxpy", n=16384, device="cpu").match, "nearest")
        with tunectl.pin(second):
            self.assertEqual(tunectl.best("saxpy", n=16384, device="cpu").match, "exact")

        exported = self.path / "tuned.json"
        self.tunectl("snapshot", "export", exported, "--snapshot", first)
        self.assertEqual(kit.digest_of(exported.read_bytes()), first)
        self.assertEqual(tunectl.open(exported).digest, first)
        nowhere = self.tunectl("snapshot", "export", self.path / "none/tuned.json", ok=False)
        self.assertIn("none/tuned.json': No such file", nowhere.stderr)
        nobody = self.tunectl("snapshot", "show", "--kernel", "nobody", ok=False)
        self.assertEqual((nobody.returncode, nobody.stdout), (2, ""))
        self.assertIn("no record of nobody", nobody.stderr)

        self.tunectl("snapshot", "unpin", first)
        self.tunectl("snapshot", "prune", "--keep", 1)
        self.assertNotIn(first, {one["digest"] for one in self.snapshots()})
        self.assertIn(second, {one["digest"] for one in self.snapshots()})

        done = self.tunectl("snapshot", "import", exported, "--note", "from afar")
        self.assertRegex(done.stdout, rf"snapshot \d+, \d+ records, {first}\n")
        self.assertIn(f"imported; it is pinned. It answers those who name it, TUNE_SNAPSHOT={first}", done.stderr)
        self.assertIn("it was here already", self.tunectl("snapshot", "import", exported).stderr)
        altered = self.path / "altered.json"
        altered.write_bytes(exported.read_bytes().replace(b'"n":4096', b'"n":4097'))
        refused = self.tunectl("snapshot", "import", altered, "--digest", first, ok=False)
        self.assertEqual(refused.returncode, 2)
        self.assertIn(f"its bytes are {kit.digest_of(altered.read_bytes())}, not {first}: it was altered", refused.stderr)
        self.assertNotIn(kit.digest_of(altered.read_bytes()), {one["digest"] for one in self.snapshots()})
        self.tunectl("snapshot", "import", exported, "--digest", first)
        taken = self.tunectl("snapshot", "import", altered)
        self.assertIn(f"{first} has the number {number}, too, and is another: name both by their digests", taken.stderr)
        self.assertIn("means 2 snapshots", self.tunectl("snapshot", "show", number, ok=False).stderr)
        self.assertEqual(tunectl.open(str(number)).notes[0].partition(" snapshots in ")[0], "2")
        self.tunectl("snapshot", "unpin", kit.digest_of(altered.read_bytes()))
        self.tunectl("snapshot", "pin", first, "--note", "from afar")
        listed = {one["digest"]: one for one in self.snapshots()}
        self.assertTrue(listed[first]["pinned"])
        self.assertEqual(self.newest(), second, "what is imported is not the newest")

    def export(self, form, kernel, *flags, name="out"):
        self.tunectl("snapshot", "export", self.path / name, "--format", form, "--kernel", kernel, *flags)
        return self.path / name

    def imported(self, records, number, **fields):
        """The digest of a snapshot with these records, which is unpinned when the test is over."""
        file = self.path / f"imported-{number}.json"
        file.write_bytes(kit.snapshot_bytes(records, number=number, **fields))
        self.tunectl("snapshot", "import", file)
        digest = kit.digest_of(file.read_bytes())
        self.addCleanup(self.tunectl, "snapshot", "unpin", digest)
        return digest

    def triton_configs(self, *flags):
        triton = types.ModuleType("triton")
        triton.Config = lambda kwargs, **options: {**kwargs, **options}
        exported = {}
        with unittest.mock.patch.dict(sys.modules, triton=triton):
            exec(self.export("triton", "scale", *flags).read_text(), exported)
        return exported

    def of_triton(self, number, **fields):
        one = kit.record(number, **fields)
        one["soft"] = {**one["soft"], "compiler": "Triton 3.9.0"}
        return one

    def test_exports_for_triton(self):
        digest = self.imported([self.of_triton(1, n=64, config={"BLOCK": 32, "num_warps": 4}),
                                self.of_triton(2, n=128, config={"BLOCK": 64, "num_warps": 8})], 31)
        exported = self.triton_configs("--snapshot", digest)
        self.assertEqual(exported["BY_PROBLEM"]["bf16", ("n", 64), ("mode", 0)], {"BLOCK": 32, "num_warps": 4})
        self.assertIn({"BLOCK": 64, "num_warps": 8}, exported["CONFIGS"])
        only = self.triton_configs("--snapshot", digest, "--dim", "n=128")
        self.assertEqual(list(only["BY_PROBLEM"]), [("bf16", ("n", 128), ("mode", 0))])
        done = self.tunectl("snapshot", "export", self.path / "bad", "--format", "triton", "--kernel", "saxpy", ok=False)
        self.assertIn("--format triton is for kernels in Triton", done.stderr)

    def test_exports_have_the_records_of_one_source(self):
        stale = self.of_triton(9, n=64, config={"OLD": 1}, kernel_hash="0" * 64)
        digest = self.imported([stale, self.of_triton(1, n=64, config={"BLOCK": 32})], 32)
        self.assertEqual(list(self.triton_configs("--snapshot", digest)["BY_PROBLEM"].values()), [{"BLOCK": 32}])
        older = self.of_triton(3, n=64, config={"OLDER": 1}, kernel_hash="1" * 64)
        digest = self.imported([stale, older], 33)  # none of today's source: the newest of them
        self.assertEqual(list(self.triton_configs("--snapshot", digest)["BY_PROBLEM"].values()), [{"OLD": 1}])
        done = self.tunectl("snapshot", "export", self.path / "noted", "--format", "triton", "--kernel", "scale",
                            "--snapshot", digest)
        self.assertIn("1 record of other sources of the kernel left out", done.stderr)
        self.assertIn("no record is of the kernel's source of today", done.stderr)

    def test_an_export_replaces_a_file_as_a_whole(self):
        file = self.path / "whole.json"
        self.tunectl("snapshot", "export", file)
        before = file.stat().st_ino
        held = file.open("rb")  # a job that reads the file meanwhile
        self.addCleanup(held.close)
        text = file.read_bytes()
        self.tunectl("snapshot", "export", file)
        self.assertNotEqual(file.stat().st_ino, before)
        self.assertEqual(held.read(), text)
        self.assertEqual([one.name for one in self.path.iterdir() if one.name.startswith("whole.json.")], [])

    def test_an_import_keeps_the_note_of_a_pin(self):
        file = self.path / "pinned.json"
        digest = self.imported([self.of_triton(1)], 34)
        file.write_bytes((self.path / "imported-34.json").read_bytes())
        self.tunectl("snapshot", "pin", digest, "--note", "run-18")
        self.tunectl("snapshot", "import", file)
        self.assertEqual([one["note"] for one in self.snapshots() if one["digest"] == digest], ["run-18"])

    def test_exports_for_cpp(self):
        exact = tunectl.best("saxpy", n=65536, device="cpu")
        whole = self.export("cpp", "saxpy", "--device", exact.device, name="whole.h").read_text()
        for device in ("cpu", exact.device[:-2]):
            self.assertEqual(self.export("cpp", "saxpy", "--device", device, name="part.h").read_text(), whole)

        self.export("cpp", "saxpy", name="tuned.h")
        (self.path / "use.cc").write_text(f"""#include "tuned.h"
            static_assert(tuned_saxpy::Find("f32", 65536)->THREADS == {exact["THREADS"]});
            static_assert(tuned_saxpy::Find("f32", 65537) == nullptr);""")
        subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", self.path / "use.cc"], check=True)

        for wrong, why in ((("--format", "cpp"), "--kernel"), (("--format", "triton", "--kernel", "none"), "no record"),
                           (("--format", "moe", "--kernel", "saxpy"), "no fused MoE kernel"),
                           (("--format", "cpp", "--kernel", "saxpy", "--device", "nothing"),
                            f"no record of saxpy on nothing, only on {exact.device}"),
                           (("--format", "nonsense"), "nonsense")):
            with self.subTest(wrong):
                done = self.tunectl("snapshot", "export", self.path / "bad", *wrong, ok=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(why, done.stderr)

    def test_tables_of_fused_moe_kernels(self):
        config = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "num_warps": 4,
                  "num_stages": 3}
        records = []
        for number, tokens in enumerate((1, 64, 4096)):
            one = {**kit.record(number + 1, config={**config, "num_warps": 4 << (number & 1)}), "kernel": "fused_moe"}
            one["hard"] = {**one["hard"], "dims": {"E": 8, "N": 14336, "K": 4096, "M": tokens}}
            records.append(one)
        records[2]["default_latency_ns"] = 1000.0  # faster than what was found
        file = self.path / "moe.json"
        file.write_bytes(kit.snapshot_bytes(records, number=4))
        self.tunectl("snapshot", "import", file)
        digest = kit.digest_of(file.read_bytes())
        folder = self.export("moe", "fused_moe", "--snapshot", digest)
        self.assertEqual(os.listdir(folder), ["E=8,N=14336,device_name=NVIDIA_H200.json"])
        table = json.loads(next(folder.iterdir()).read_text())
        self.assertEqual(table, {"1": {**config}, "64": {**config, "num_warps": 8}, "4096": {**config}},
                         "each record's row: the engine's default is for a missing file, not for a missing row")
        # As the engines choose a row.
        nearest = min(table, key=lambda key: abs(int(key) - 48))
        self.assertEqual(table[nearest]["num_warps"], 8)
        self.tunectl("snapshot", "unpin", digest)

    def moe(self, number, tokens, dtype="bf16", width=4096, **fields):
        one = {**kit.record(number, dtype=dtype, config={"BLOCK_SIZE_M": 16 * number, "num_warps": 4}, **fields),
               "kernel": "fused_moe"}
        one["hard"] = {**one["hard"], "dims": {"E": 8, "N": 128, "K": width, "M": tokens}}
        return one

    def test_records_of_which_a_table_can_hold_only_one_are_refused(self):
        for number, other in enumerate((self.moe(2, 1, dtype="f16"), self.moe(2, 1, width=64))):
            digest = self.imported([self.moe(1, 1), other], 40 + number)
            done = self.tunectl("snapshot", "export", self.path / "moe", "--format", "moe", "--kernel", "fused_moe",
                                "--snapshot", digest, ok=False)
            self.assertIn("would both be row 1 of E=8,N=128,device_name=NVIDIA_H200.json: choose with --dtype or --dim",
                          done.stderr)
            folder = self.export("moe", "fused_moe", "--snapshot", digest, "--dtype", "bf16", "--dim", "K=4096",
                                 name=f"moe-{number}")
            self.assertEqual(json.loads(next(folder.iterdir()).read_text())["1"]["BLOCK_SIZE_M"], 16)

    def test_tables_have_the_engines_names(self):
        for number, (device, dtype, names) in enumerate((
                ("NVIDIA GH200 480GB", "bf16", {"NVIDIA_GH200_480GB.json"}),
                ("NVIDIA H200 NVL", "e4m3", {"NVIDIA_H200,dtype=fp8_w8a8.json", "NVIDIA_H200_NVL,dtype=fp8_w8a8.json"}),
                ("NVIDIA H100 80GB HBM3", "i8", {"NVIDIA_H100_80GB_HBM3,dtype=int8_w8a8.json"}))):
            digest = self.imported([self.moe(1, 16, dtype=dtype, device=device)], 50 + number)
            folder = self.export("moe", "fused_moe", "--snapshot", digest, name=f"names-{number}")
            self.assertEqual({f"E=8,N=128,device_name={name}" for name in names}, set(os.listdir(folder)))

    def test_what_is_no_snapshot_is_not_imported(self):
        for what, data in (("empty", b""), ("text", b"hello"), ("cut", kit.snapshot_bytes()[:-20]),
                           ("another version", kit.snapshot_bytes(version=9))):
            with self.subTest(what):
                file = self.path / "bad.json"
                file.write_bytes(data)
                done = self.tunectl("snapshot", "import", file, ok=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertRegex(done.stderr, f"'{file}': .*no snapshot.*`tunectl snapshot export FILE` writes")
        for file, why in ((self.path / "none.json", "No such file"), (self.path, "is a folder")):
            self.assertIn(why, self.tunectl("snapshot", "import", file, ok=False).stderr)

    def test_a_snapshot_by_its_number(self):
        newest = next(one for one in self.snapshots() if one.get("newest"))
        os.environ["TUNE_SNAPSHOT"] = str(newest["number"])
        self.assertEqual(tunectl.open().digest, newest["digest"])
        os.environ["TUNE_SNAPSHOT"] = "98765"
        client = tunectl.open()
        self.assertEqual(client.digest, "")
        self.assertRegex(client.notes[0], rf"snapshot 98765 is not there: .*/snapshots has ([\d, ]*){newest['number']}\b")

    def test_a_strange_import_is_shown_and_breaks_nothing(self):
        odd = [{"kernel": 7, "hard": [], "config": "x", "latency_ns": {"median": "y"}}, 3, None, []]
        file = self.path / "odd.json"
        file.write_bytes(kit.snapshot_bytes(odd, number=3))
        self.tunectl("snapshot", "import", file)
        digest = kit.digest_of(file.read_bytes())
        self.tunectl("snapshot", "show", digest)
        self.tunectl("snapshot", "diff", digest, self.newest())
        self.assertEqual(tunectl.open(digest).digest, "", "and to a job it is none")
        self.tunectl("snapshot", "unpin", digest)

    def test_names_that_mean_nothing(self):
        for name in ("sha256:" + "0" * 64, "99999", "nonsense", "../../etc/passwd"):
            with self.subTest(name):
                self.assertNotEqual(self.tunectl("snapshot", "show", name, ok=False).returncode, 0)

    def test_without_a_daemon_tunectl_writes_and_reads_them(self):
        home = self.path / "own"
        environ = {"TUNE_STATE_DIR": str(home), "XDG_RUNTIME_DIR": str(self.path)}
        with unittest.mock.patch.dict(self.environ):
            del self.environ["TUNE_ADDRESS"]
            self.tunectl("sweep", SAXPY, "--n", 4096, "--device", "cpu", "--budget", 2, **environ)
            listed = json.loads(self.tunectl("snapshot", "list", "--json", **environ).stdout)["snapshots"]
            records = json.loads(self.tunectl("record", "list", "--json", **environ).stdout)["records"]
            self.assertEqual([one["record_count"] for one in listed if one.get("newest")], [len(records)])
            self.assertIn("saxpy", {one["kernel_name"] for one in records})
            pinned = self.tunectl("snapshot", "pin", **environ).stdout.strip()
        os.environ.update(environ)
        del os.environ["TUNE_ADDRESS"]
        client = tunectl.open()
        self.assertEqual((client.digest, client.source), (pinned, "file"))
        self.assertEqual(tunectl.best("saxpy", n=4096, device="cpu").match, "exact")


class Ranks(DaemonTest):
    def run_ranks(self, count):
        """Many processes, started at once; what each printed."""
        environ = {**os.environ, "PYTHONPATH": str(kit.PACKAGE), "WORLD_SIZE": str(count)}
        ranks = [subprocess.Popen([sys.executable, "-c", RANK], env=environ, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) for _ in range(count)]
        return [rank.communicate(timeout=120) for rank in ranks]

    def test_ranks_agree_while_others_publish_and_the_daemon_dies(self):
        os.environ["TUNE_SNAPSHOT"] = self.tunectl("snapshot", "pin").stdout.strip()
        before = tunectl.best("saxpy", n=65536, device="cpu")
        stop = threading.Event()

        def publish():
            size = 3000
            while not stop.is_set():
                size += 1
                self.tunectl("sweep", SAXPY, "--n", size, "--device", "cpu", "--budget", "1", ok=False)

        publisher = threading.Thread(target=publish)
        publisher.start()
        try:
            answers = self.run_ranks(12)
            self.kill(signal.SIGKILL)
            answers += self.run_ranks(12)
        finally:
            stop.set()
            publisher.join()
            self.start()
        self.assertEqual({out.strip() for out, _ in answers},
                         {json.dumps([before.snapshot, dict(before), "exact"])}, answers[0][1])

    def test_a_daemon_that_was_killed_writes_what_it_had_published(self):
        self.sweep(7777)
        self.kill(signal.SIGKILL)
        self.start()
        self.assertTrue(self.newest())
        tunectl.open()
        self.assertEqual(tunectl.best("saxpy", n=7777, device="cpu").match, "exact")


if __name__ == "__main__":
    unittest.main()
