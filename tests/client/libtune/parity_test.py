# SPDX-License-Identifier: Apache-2.0
"""libtune answers as the Python package does, word for word, and fails as it does."""
import gzip
import json
import os
import random
import threading
import time
import unittest

from parity_kit import FIELDS, ParityTest, kit, libtune, tunectl
from drawn_snapshots import SEED, by_lines, spread_grid, spread_record, spread_snapshot, with_grids


class Answers(ParityTest):
    def test_questions_of_all_kinds(self):
        client, theirs = self.both(kit.snapshot_bytes(
            [kit.record(1), kit.record(2, n=9000, dtype="f32"), kit.record(3, n=512, device="NVIDIA H100", dtype="f32"),
             kit.record(4, n=64, config={"THREADS": 1024, "PATH": "mma"}), kit.record(5, mode=1, cache_mode="warm")]))
        self.assertEqual((client.digest, client.source, client.number), (theirs.digest, "file", 7))
        self.assertEqual(client.kernels, theirs.kernels)
        matches = set()
        for device in (None, kit.H200, "NVIDIA H100", "NVIDIA B300", "cuda:0", "cuda", "cpu", "cpu:Old", "another"):
            for dtype in (None, "f32", "f64"):
                for dims in ({}, {"n": 4096}, {"n": 5000, "mode": 1}, {"n": 1}, {"mode": 2}, {"n": 0}, {"m": 1}):
                    answer = self.assert_alike(client, theirs, "scale", device=device, dtype=dtype, **dims)
                    matches.add(answer and answer.match)
        self.assertEqual(matches, {None, "exact", "nearest", "other_device", "default"})
        self.assert_alike(client, theirs, "unheard", n=1)

    def test_drawn_snapshots(self):
        draw = random.Random(SEED)
        matches, bases, artifacts = set(), set(), set()
        for i, count in enumerate((0, 0, 1, 1, 5, 5, 40, 40, 40, 40, 40, 40, 400)):
            client, theirs = self.both(spread_snapshot(draw, count, (by_lines, with_grids)[i % 2]))
            for _ in range(50):
                dims = {"a": draw.choice((3, 64, 90, 4096)), "b": draw.choice((0, 63, 64, 100)), "d": draw.choice((1, 7)),
                        "c": draw.choice((0, 1, 5))}
                dims.pop(draw.choice("abcde"), None)
                answer = self.assert_alike(client, theirs, "spread", device=draw.choice((kit.H200, "NVIDIA H100", "cpu")),
                                           dtype=draw.choice((None, "bf16", "f32")), **dims)
                matches.add(answer.match)
                bases.add(answer.expectation[0])
                artifacts.add((answer.match == "exact", answer.artifact != ""))
        self.assertEqual(matches, {"exact", "bucketed", "nearest", "other_device", "default"})
        self.assertLessEqual({"nothing", "measured", "neighbours"}, bases)
        self.assertLessEqual({(True, True), (True, False), (False, False)}, artifacts)

    def test_what_ships(self):
        """Kernels of the catalogue, and grids of a GPU whose blocks both count by the kernels' own expressions."""
        client, theirs = self.both(gzip.decompress((kit.ROOT / "kernels/records/nvidia-h200.records.json.gz").read_bytes()))
        draw = random.Random(SEED)
        configs = set()
        for _ in range(12):
            tokens, width = draw.randint(1000, 40000), 8 * draw.randint(100, 2000)
            for kernel, dims in (("gemm", {"m": tokens, "n": width, "k": 4096}), ("softmax", {"rows": tokens, "cols": width}),
                                 ("attention", {"seq": tokens}), ("attention_backward", {"seq": tokens, "causal": 1}),
                                 ("attention_decode", {"seq": tokens}), ("rmsnorm", {"rows": tokens, "cols": width})):
                answer, wanted = client.best(kernel, device=kit.H200, **dims), theirs.best(kernel, device=kit.H200, **dims)
                self.assertEqual((answer.match, answer.reason), (wanted.match, wanted.reason), dims)
                self.assertEqual(answer.config, dict(wanted), dims)
                wanted = wanted.expectation
                self.assertEqual(answer.expectation, (wanted.basis, wanted.loss, wanted.loss_low, wanted.loss_high), dims)
                configs.add((kernel, str(answer.config)))
        self.assertGreater(len(configs), 8)

    def test_another_devices_sweeps(self):
        draw = random.Random(SEED)
        record = spread_record(draw, 1)
        record["config"] = {"TILE": 16, "FAST": False}
        record["hard"] |= {"dims": {"a": 64, "b": 128, "c": 0, "d": 1}, "device": "NVIDIA H100", "dtype": "bf16",
                           "cache_mode": "cold", "kernel_hash": kit.KERNEL["hash"]}
        grid = spread_grid(draw) | {
            "device": "NVIDIA H100", "dtype": "bf16", "kernel_hash": kit.KERNEL["hash"], "fixed": {"c": 0},
            "axes": ["a", "b"], "configs": [record["config"]],
            "shapes": [{"dims": [64, 128], "loss_of_unknown": 0, "losses": [[0, 0]]}]}
        client, theirs = self.both(with_grids([record, kit.record(2)], [grid]))  # it tells an H200's target
        for a in (64, 4096):
            answer = self.assert_alike(client, theirs, "spread", device=kit.H200, dtype="bf16", a=a, b=128, c=0, d=1)
            self.assertEqual((answer.match, answer.expectation[0]), ("other_device", "sibling"))

    def test_a_kernel_whose_compiler_chooses_the_block(self):
        kernel = {**kit.KERNEL, "on_host": False, "steps": [{**kit.KERNEL["steps"][0], "block": []}]}
        client, theirs = self.both(kit.snapshot_bytes([kit.record(1)], kernels=[kernel]))
        for dims, match in (({"mode": 1}, "default"), ({"n": 5000}, "nearest")):
            self.assertEqual(self.assert_alike(client, theirs, "scale", device=kit.H200, **dims).match, match)

    def test_what_the_default_breaks_is_said_alike(self):
        for step, dims, why in (({}, {"n": 4096}, "the kernel's default"),
                                ({}, {"n": 64}, "some valid config, since the kernel's default breaks 'THREADS <= n'"),
                                ({"block": ["THREADS * 8"]}, {"n": 4096},
                                 "some valid config, since the kernel's default breaks a limit of its launch"),
                                ({"block": ["THREADS * 64"]}, {"n": 4096},
                                 "the kernel's default breaks a limit of its launch, and no other config was found")):
            kernel = {**kit.KERNEL, "steps": [{**kit.KERNEL["steps"][0], **step}]}
            client, theirs = self.both(kit.snapshot_bytes([], kernels=[kernel]))
            answer = self.assert_alike(client, theirs, "scale", device=kit.H200, **dims)
            self.assertEqual(answer.reason.rpartition("; ")[2], why)

    def test_records_without_a_number_are_told_apart(self):
        self.put(kit.daemon_bytes([{**kit.record(0, n=n), "evidence": f"sha256:{n:064x}"} for n in (64, 4096)]))
        client = libtune.Client()
        for dims, answering in (({"n": 4096}, 1), ({"mode": 1}, 0)):
            text = client.explain("scale", device=kit.H200, **dims)
            self.assertEqual((text.count("\nshipped record: "), text.count("\nshipped record: answers")), (2, answering), text)

    def test_only_an_exact_record(self):
        client, _ = self.both(kit.snapshot_bytes([kit.record(1)]))
        self.assertEqual(client.best("scale", device=kit.H200, n=4096, require_exact=True).match, "exact")
        with self.assertRaisesRegex(libtune.Failed, "no exact record: nearest on") as caught:
            client.best("scale", device=kit.H200, n=5000, require_exact=True)
        self.assertEqual(caught.exception.status, libtune.NOT_FOUND)

    def test_a_batch_is_what_each_question_gets(self):
        client, theirs = self.both(kit.snapshot_bytes([kit.record(1), kit.record(2, n=9000, dtype="f32")]))
        questions = [{"kernel": "scale", "device": kit.H200, "dtype": ("bf16", "f32")[n % 2], "n": n}
                     for n in (4096, 5000, 9000, 9001, 4096)] + [{"kernel": "unheard", "n": 1}, {"kernel": "scale"}]
        answers, wanted = client.best_many(questions), theirs.best_many(questions)
        self.assertEqual(len(answers), len(questions))
        for answer, one in zip(answers, wanted):
            for field in FIELDS:
                value = getattr(one, field)
                self.assertEqual(getattr(answer, field), dict(value) if field == "dims" else value, field)
            self.assertEqual(answer.config, dict(one))
        self.assertEqual(client.best_many([]), [])

    def test_a_batch_names_the_question_that_failed(self):
        client, _ = self.both(kit.snapshot_bytes([kit.record(1)]))
        good = {"kernel": "scale", "device": kit.H200, "n": 4096}
        for bad, status, why in (({"m": 1}, libtune.INVALID_ARGUMENT, "kernel 'scale' has no dim 'm'"),
                                 ({"n": 5000, "require_exact": True}, libtune.NOT_FOUND, "no exact record: nearest")):
            with self.assertRaisesRegex(libtune.Failed, rf"^questions\[2\]: {why}") as caught:
                client.best_many([good, good, {**good, **bad}, good, {**good, "m": 2}])
            self.assertEqual(caught.exception.status, status)
        with self.assertRaisesRegex(libtune.Failed, "at most 65536 questions"):
            client.best_many([good], count=65537)

    def test_pinned_or_nothing(self):
        old = self.put(kit.snapshot_bytes([kit.record(1)]))
        self.put(kit.snapshot_bytes([kit.record(2)], number=8))
        self.assertEqual(libtune.Client(old).digest, old)
        os.environ["TUNE_SNAPSHOT"] = old
        self.assertEqual(libtune.Client().digest, old)
        missing = "sha256:" + "0" * 64
        self.assertEqual((libtune.Client(missing).digest, libtune.Client(missing).source), ("", "none"))
        for wrong in ("sha256:123", "d19aa4", old[:15], old.upper().replace("SHA", "sha"), old + "0"):
            with self.subTest(wrong):
                with self.assertRaises(ValueError) as theirs:
                    tunectl.open(wrong)
                with self.assertRaises(libtune.Failed) as ours:
                    libtune.Client(wrong)
                self.assertIn(str(theirs.exception), str(ours.exception))
                self.assertIn("as `tunectl snapshot list` prints them", str(ours.exception))
        del os.environ["TUNE_SNAPSHOT"]
        os.environ["WORLD_SIZE"] = "2"
        with self.assertRaisesRegex(libtune.Failed, "has 2 ranks and names no snapshot") as caught:
            libtune.Client()
        self.assertEqual(caught.exception.status, libtune.FAILED_PRECONDITION)
        self.assertTrue(libtune.Client("latest").digest)

    def test_a_snapshot_by_its_number(self):
        digests = {number: self.put(kit.daemon_bytes([kit.record(number)], number=number)) for number in (7, 12)}
        kept = [self.put(kit.daemon_bytes([kit.record(9), kit.record(n)], number=9), newest=False) for n in (3, 4)]
        for wanted, notes in (("7", ()), ("12", ()), ("13", ("snapshot 13 is not there: .* has 12, 9, 7; a digest",)),
                              ("9", ("2 snapshots in .* have the number 9; name one by its digest",))):
            client, theirs = libtune.Client(wanted), tunectl.open(wanted)
            self.assertEqual((client.digest, client.source), (theirs.digest, theirs.source))
            self.assertEqual(client.digest, digests.get(int(wanted), ""))
            self.assertEqual([*client.notes], [*theirs.notes])
            for note, pattern in zip(client.notes, notes, strict=True):
                self.assertRegex(note, pattern)
        self.assertEqual(len(kept), 2)

    def test_what_failed_twice_is_told_once(self):
        client = libtune.Client()
        self.assertEqual(client.notes.count("the node's cache has nothing"), 1)
        self.assertEqual(tunectl.open().notes.count("the node's cache has nothing"), 1)

    def test_a_measurement_in_noise_does_not_say_that_it_loses_nothing(self):
        noisy = {**kit.record(1), "latency_ns": {"median": 1000.0, "low": 900.0, "high": 7800.0}, "confidence": "noisy"}
        client, theirs = self.both(kit.snapshot_bytes([noisy]))
        answer = self.assert_alike(client, theirs, "scale", device=kit.H200, n=4096)
        self.assertEqual((answer.match, answer.confidence), ("exact", "noisy"))
        self.assertIn("expected: may lose up to 680.0%: measured here, but the host was too noisy to tell",
                      client.explain("scale", device=kit.H200, n=4096))

    def test_without_a_snapshot_it_says_why_and_at_once(self):
        start = time.monotonic()
        client = libtune.Client()
        self.assertLess(time.monotonic() - start, 1)
        answer = client.best("scale", n=1)
        self.assertEqual((answer.match, answer.config, client.source), ("default", {}, "none"))
        self.assertRegex(answer.reason, "there is no snapshot: .*no daemon answers at unix:")

    def test_damaged_files_are_told_and_passed_over(self):
        good = kit.snapshot_bytes([kit.record(1)])
        spoiled = {
            "empty": b"", "no JSON": good[:-30], "another version": kit.snapshot_bytes(version=2),
            "another format": kit.snapshot_bytes(format="wisdom"), "a list": b"[]", "deep": b"[" * 100_000,
            "a record that is none": kit.snapshot_bytes(["x"]),
            "a record without a key": kit.snapshot_bytes([{**kit.record(1), "hard": {}}]),
            "a number that is text": kit.snapshot_bytes([{**kit.record(1), "id": "1"}]),
            "a number that is too big": kit.snapshot_bytes([{**kit.record(1), "id": 1 << 63}]),
            "a config with a list": kit.snapshot_bytes([{**kit.record(1), "config": {"THREADS": []}}]),
            "a kernel that is none": kit.snapshot_bytes(kernels=[{"name": "x"}]),
            "a kernel twice": kit.snapshot_bytes(kernels=[kit.KERNEL, kit.KERNEL]),
        }
        for what, data in spoiled.items():
            with self.subTest(what):
                path = self.path / "spoiled.json"
                path.write_bytes(data)
                client = libtune.Client(str(path))
                self.assertEqual((client.source, client.digest), ("none", ""))
                self.assertIn(str(path), client.notes[0])
        os.mkfifo(self.path / "pipe")
        self.assertIn("no regular file", libtune.Client(str(self.path / "pipe")).notes[0])

    def test_expressions_that_cannot_be_read_leave_a_default_without_a_config(self):
        kernel = {**kit.KERNEL, "constraints": ["THREADS <="]}
        client, _ = self.both(kit.snapshot_bytes([], kernels=[kernel]))
        answer = client.best("scale", device=kit.H200)
        self.assertEqual((answer.match, answer.config), ("default", {}))
        self.assertIn("cannot be read here", answer.reason)

    def test_lines_that_cannot_be_read_are_not_there(self):
        """Of a file whose digest is right: a daemon of another version wrote it."""
        other = {**kit.KERNEL, "name": "other"}
        records = [kit.record(1), kit.record(2, n=64, dtype="f32"), {**kit.record(3, n=8192), "kernel": "other"}]
        data = kit.daemon_bytes(records, [spread_grid(random.Random(SEED))], kernels=[kit.KERNEL, other])
        first = b'{"id":1,"kernel":"scale",'
        spoiled = {
            "nothing": (b"", b""), "a record that is no JSON": (first, first + b'"x":,'),
            "a record without a key": (b'"device":"NVIDIA H200","dtype":"bf16","dims":{"n":4096', b'"dims":{"n":4096'),
            "a number that is text": (b'"published_unix_ms":1700000000001', b'"published_unix_ms":"1"'),
            "a latency outside its interval": (b'"median":1500.0,"low":1490.0', b'"median":1500.0,"low":1501.0'),
            "numbers that are none": (b'"dims":{"n":4096', b'"dims":{"n":04096'),
            "an unfinished record": (b'"evidence":"sha256:' + b"0" * 63 + b"1" + b'"},\n{"id":2', b'"evidence":"\n{"id":2'),
            "fields in another order": (first, b'{"id":1,"kernel":"scale","later":[1,{}],'),
            "escapes, and letters that are not ASCII": (b"570.1", rb"570\u002e1 \u00fc " + "ü".encode()),
            "another exponent": (b'"median":1500.0', b'"median":15E+2'),
            "a value twice": (b'"config":{"THREADS":128', b'"config":{"THREADS":64,"THREADS":128'),
            "a kernel that is none": (b'{"name":"scale","hash":', b'{"name":"scale","hush":'),
            "a kernel that is no JSON": (b'{"name":"scale","hash":', b'{"name":"scale",hash:'),
            "a grid that is no JSON": (b'{"kernel":"spread",', b'{"kernel":"spread",,'),
        }
        for what, (before, after) in spoiled.items():
            with self.subTest(what):
                self.assertIn(before, data)
                client, theirs = self.both(data.replace(before, after, 1))
                self.assertEqual((client.source, client.digest, client.kernels), ("file", theirs.digest, theirs.kernels))
                for kernel in ("scale", "other", "unheard"):
                    for device in (kit.H200, None, "cuda:0"):
                        for question in ({"n": 4096}, {"n": 64, "dtype": "f32"}):
                            self.assert_alike(client, theirs, kernel, device=device, **question)

    def test_a_file_that_is_laid_out_otherwise_is_read_whole(self):
        data = kit.daemon_bytes([kit.record(1)], [spread_grid(random.Random(SEED))])
        for what, (before, after) in {"no last line": (b"}\n", b"}"), "another member": (b"\n]}\n", b'\n],"x":1}\n'),
                                      "two on a line": (b"},\n{", b"},{"), "spaces": (b'"grids":[', b'"grids": [')}.items():
            with self.subTest(what):
                place = data.rindex(before) if before in data else 0
                client, theirs = self.both(data[:place] + after + data[place + len(before):] if place else data)
                self.assertEqual(self.assert_alike(client, theirs, "scale", device=kit.H200, n=4096).match, "exact")

    def test_an_empty_list_may_end_on_another_line(self):
        grid = spread_grid(random.Random(SEED))
        for name, kernels, records, grids in (("kernels", [], [kit.record(1)], [grid]),
                                              ("records", [kit.KERNEL], [], [grid]),
                                              ("grids", [kit.KERNEL], [kit.record(1)], [])):
            with self.subTest(name):
                data, empty = kit.daemon_bytes(records, grids, kernels=kernels), b'"%s":[]' % name.encode()
                self.assertIn(empty, data)
                client, theirs = self.both(data.replace(empty, empty[:-1] + b"\n]"))
                self.assertEqual((client.source, client.kernels), ("file", theirs.kernels))
                self.assert_alike(client, theirs, "scale", device=kit.H200, n=4096)

    def test_the_cache_is_shared_with_python(self):
        data = kit.snapshot_bytes([kit.record(1)])
        self.put(data, self.path / "cache/snapshots", newest=False)
        os.chmod(self.path / "cache/snapshots", 0o700)
        client = libtune.Client(kit.digest_of(data))
        self.assertEqual(client.source, "cache")
        os.chmod(self.path / "cache/snapshots", 0o777)
        self.assertEqual(libtune.Client(kit.digest_of(data)).source, "none", "anybody may have written it")

    def test_the_cache_is_bounded(self):
        cache = self.path / "cache/snapshots"
        cache.mkdir(parents=True, mode=0o700)
        day, now = 86400, time.time()
        files = {f"sha256-{i:064x}.json": now - 2 * day - i for i in range(20)}
        files |= {"sha256-young.json": now - 5, "sha256-a.json.12.3": now - 2 * day, "latest-b": now - 9 * day,
                  "sha256-b.json.12.4": now}
        for name, when in files.items():
            (cache / name).write_text("x")
            os.utime(cache / name, (when, when))
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "data").write_bytes(data)
        self.a_program(f"cat {self.path}/data")
        self.assertEqual(libtune.Client(deadline=20).source, "daemon")
        gone = {*files} - {entry.name for entry in cache.iterdir()}
        self.assertEqual(gone, {f"sha256-{i:064x}.json" for i in range(14, 20)} | {"sha256-a.json.12.3"})

    def test_artifacts_only_from_where_nobody_else_can_write(self):
        data = b'{"format": "tunectl artifact"}\n' + bytes(range(256))
        digest = kit.digest_of(data)
        self.put(kit.snapshot_bytes([kit.record(1)]))
        folder = self.path / "state/snapshots/artifacts"
        folder.mkdir(mode=0o755)
        file = folder / (digest.replace(":", "-") + ".artifact")
        file.write_bytes(data)
        os.chmod(file, 0o644)
        client = libtune.Client()
        self.assertEqual(client.artifact(digest), data)
        os.chmod(file, 0o666)
        with self.assertRaisesRegex(libtune.Failed, "others may write"):
            client.artifact(digest)
        os.chmod(file, 0o644)
        file.write_bytes(data[:-1])
        with self.assertRaisesRegex(libtune.Failed, "its bytes are sha256:") as caught:
            client.artifact(digest)
        self.assertEqual(caught.exception.status, libtune.NOT_FOUND)

    def put_artifact(self, **changes):
        """Into the folder beside the snapshot; its digest."""
        buffer = {"kind": "buffer", "name": "x", "dtype": "bf16", "count": 4096, "role": "input"}
        scratch = {**buffer, "name": "sums", "dtype": "f32", "count": 8, "role": "scratch"}
        scalars = [{"kind": "scalar", "name": name, "dtype": dtype, "value": value} for name, dtype, value in (
            ("n", "i64", -(1 << 40)), ("m", "i32", -7), ("u", "u8", 200), ("a", "f32", 0.1), ("b", "f64", 3), ("c", "i8", True))]
        tiles = {"kind": "tensor_map", "name": "map", "buffer": "x", "dims": [64, 64], "strides_bytes": [128],
                 "box": [64, 8], "swizzle_bytes": 128, "l2_promotion_bytes": 256}
        step = {"entry": "first", "unit": 0, "grid": [7, 2, 1], "block": [128, 1, 1], "cluster": [2, 1, 1],
                "shared_bytes": 70000, "cooperative": False, "programmatic_dependent_launch": True,
                "args": [buffer, *scalars, tiles, scratch], "zero": [scratch]}
        facts = {"format": "tunectl artifact", "version": 1, "kernel": "scale", "kernel_hash": "ab", "target": "sm_90a",
                 "device": kit.H200, "compiler": "NVRTC", "dtype": "bf16", "dims": {"n": 1}, "config": {},
                 "steps": [step, {**step, "entry": "second", "unit": 1, "args": [], "zero": [], "cooperative": True, "resident": True}],
                 "symbols": [{"variable": "table", "unit": 1, "buffer": scratch}],
                 "binary_bytes": [5, 300], **changes}
        data = json.dumps(facts).encode() + b"\n" + b"\0ELF1" + bytes(range(256)) + b"." * 44
        digest = kit.digest_of(data)
        self.put(kit.snapshot_bytes([kit.record(1)]))
        folder = self.path / "state/snapshots/artifacts"
        folder.mkdir(mode=0o755, exist_ok=True)
        (folder / (digest.replace(":", "-") + ".artifact")).write_bytes(data)
        return digest, data

    def test_a_program_is_what_python_launches(self):
        from tunectl import _artifact, _program

        digest, data = self.put_artifact()
        artifact = _artifact.parse(data, digest)
        steps, symbols = libtune.Client().program(digest)
        layout = _program.Layout(artifact, {"x": "bf16"})
        values = [value for _, value in layout.constants]
        self.assertEqual(len(steps), 2)
        for step, wanted in zip(steps, artifact.facts["steps"]):
            for name in ("entry", "grid", "block", "cluster", "shared_bytes", "cooperative",
                         "programmatic_dependent_launch", "zero"):
                self.assertEqual(step[name], wanted[name], name)
            self.assertEqual(step["resident"], wanted.get("resident", False))
            self.assertEqual(step["binary"], artifact.binaries[wanted["unit"]])
            self.assertEqual(step["args"], [{**arg, "value": values.pop(0)} if arg["kind"] == "scalar" else arg
                                            for arg in wanted["args"]])
        self.assertEqual(values, [])
        symbol = artifact.facts["symbols"][0]
        self.assertEqual(symbols, [{"variable": "table", "buffer": symbol["buffer"], "binary": artifact.binaries[1]}])

    def test_what_is_no_program_is_refused_by_both(self):
        from tunectl import _artifact

        step = {"entry": "k", "unit": 0, "grid": [1, 1, 1], "block": [1, 1, 1], "cluster": [1, 1, 1],
                "shared_bytes": 0, "cooperative": False, "programmatic_dependent_launch": False, "args": [], "zero": []}
        for changes in ({"version": 2}, {"format": "x"}, {"steps": []}, {"steps": [7]}, {"binary_bytes": [1]},
                        {"binary_bytes": "x"}, {"binary_bytes": [-1, 306]}, {"binary_bytes": [1 << 62, 1 << 62]},
                        {"steps": [{**step, "unit": 9}]}, {"steps": [{**step, "grid": [1, 1]}]},
                        {"steps": [{**step, "grid": [-1, 1, 1]}]}, {"steps": [{**step, "args": [{"kind": "x"}]}]},
                        {"symbols": [{}]}):
            with self.subTest(changes):
                digest, data = self.put_artifact(**changes)
                with self.assertRaises(_artifact.ArtifactError):
                    _artifact.parse(data, digest)
                with self.assertRaisesRegex(libtune.Failed, "it is no artifact") as caught:
                    libtune.Client().program(digest)
                self.assertEqual(caught.exception.status, libtune.INVALID_ARGUMENT)

    def test_threads_and_forks(self):
        client, theirs = self.both(kit.snapshot_bytes([kit.record(1)]))
        failures = []

        def ask(first):
            for n in range(first, first + 300):
                if client.best("scale", n=n, device=kit.H200).dims["n"] != n:
                    failures.append(n)

        threads = [threading.Thread(target=ask, args=(1 + 100 * i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        children = []
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(0 if client.best("scale", n=4096, device=kit.H200).match == "exact" else 1)
            children.append(child)
        for child in children:
            self.assertEqual(os.waitpid(child, 0)[1], 0)
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main()
