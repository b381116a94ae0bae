# SPDX-License-Identifier: Apache-2.0
"""libtune answers as the Python package does, word for word, and fails as it does."""
import json
import os
import pathlib
import random
import signal
import stat
import sys
import threading
import time
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import kit
import libtune
import tunectl

FIELDS = ("match", "reason", "kernel", "device", "target", "dims", "dtype", "latency_ns", "latency_ns_low",
          "latency_ns_high", "confidence", "record", "published_unix_ms", "evidence", "artifact", "snapshot", "source")
SEED = 20260
SPREAD = {
    **kit.KERNEL, "name": "spread", "on_host": False, "targets": ["sm_9*"],
    "dims": [{"name": name, "match": match, "default": 64, "on": [], "min": 0, "max": 1 << 40, "values": []}
             for name, match in (("a", "nearest"), ("b", "bucketed"), ("c", "exact"), ("d", "ignored"))],
    "params": [{"name": "TILE", "choices": [{"target": "*", "values": "[16, 32, 64.0, 128]", "default": "64"}]},
               {"name": "FAST", "choices": [{"target": "*", "values": "[True, False]", "default": "True"}]}],
    "lets": [["work", "TILE * a"], ["half", "work / 2"], ["broken", "1 // (a - a)"]],
    "constraints": ["not FAST or half < 4096", "TILE <= b or b == 0"],
    "steps": [{"when": "FAST", "grid": ["ceil_div(a + 1, 16)", "1"], "block": ["int(TILE)"], "cluster": ["2"],
               "shared_bytes": ""},
              {"when": "not FAST", "grid": ["1"], "block": ["int(TILE)", "2"], "cluster": [], "shared_bytes": "TILE * 4"}],
}


def spread_record(draw, number):
    dims = {"a": draw.choice((0, 3, 64, 4096)), "b": draw.choice((0, 60, 64, 128)), "c": draw.choice((0, 1)),
            "d": draw.choice((1, 2, 3))}
    record = kit.record(number, device=draw.choice((kit.H200, "NVIDIA H100")), dtype=draw.choice(("bf16", "f32")),
                        config={"TILE": draw.choice((16, 32, 64.0, 128, 7)), "FAST": draw.random() < 0.5})
    record["kernel"] = "spread"
    record["hard"] |= {"dims": dims, "cache_mode": draw.choice(("cold", "warm")),
                       "kernel_hash": draw.choice((kit.KERNEL["hash"], "cd" * 32))}
    return record | {"artifact": f"sha256:{number:064x}"}


def spread_grid(draw):
    """Sweeps of drawn shapes, as a daemon writes them; some speak for no question."""
    configs = [{"TILE": tile, "FAST": fast} for tile in (16, 32, 64.0, 128, 7) for fast in (True, False)]
    shapes = [{"dims": [a, b], "loss_of_unknown": draw.choice((0, 500, 10000)),
               "losses": [[config, draw.choice((0, 0, 130, 900, 10000))]
                          for config in sorted(draw.sample(range(len(configs)), draw.randint(1, len(configs))))]}
              for a in (0, 3, 64) for b in (60, 128) if draw.random() < 0.7]
    return {"kernel": "spread", "kernel_hash": draw.choice((kit.KERNEL["hash"], "cd" * 32)),
            "target": kit.record(1)["hard"]["target"], "device": draw.choice((kit.H200, "NVIDIA H100")),
            "dtype": draw.choice(("bf16", "f32", "f64x")), "fixed": {"c": draw.choice((0, 1))},
            "axes": draw.choice((["a", "b"], ["a", "b"], ["b", "a"], ["a"])), "configs": configs, "shapes": shapes,
            "residuals": {"count": 3, "mean": draw.choice((-0.01, 0.0, 0.02)), "low": -0.01, "high": 0.07,
                          "nearest_octaves": draw.choice((0.1, 1.0, 4.0))}}


def with_waves(draw, grid):
    """The same on a device of multiprocessors, where more than nothing is known of blocks."""
    count = len(grid["configs"])
    grid |= {"multiprocessors": draw.choice((0, 4, 132)), "residents": [draw.randint(0, 3) for _ in range(count)]}
    for shape in grid["shapes"]:
        shape["blocks"] = [draw.choice((0, 1, 5, 132, 133, 1 << 33)) for _ in range(count)]
    damage = draw.choice(("none",) * 15 + ("residents", "blocks", "member", "size", "below"))  # then it says nothing
    if damage == "member":
        del grid["residents"]
    elif damage == "residents":
        grid["residents"].pop()
    elif damage == "blocks":
        grid["shapes"][-1:] = [{**shape, "blocks": shape["blocks"][1:]} for shape in grid["shapes"][-1:]]
    elif damage == "size":
        grid["residents"][0] = (1 << 40) + 1
    elif damage == "below":
        grid["residents"][0] = -1
    return grid


def with_grids(records, grids):
    text = kit.snapshot_bytes(records, kernels=(SPREAD,)).decode().rstrip()
    return (text[:-1] + f', "grids": {json.dumps(grids)}' + "}\n").encode()


def by_lines(records, grids):
    return kit.daemon_bytes(records, grids, kernels=(SPREAD,))


def spread_snapshot(draw, count, laid_out):
    """At most one record of each key, as a daemon writes them."""
    records = {}
    for number in range(1, count + 1):
        record = spread_record(draw, number)
        records[str(record["hard"])] = record
    grids = [spread_grid(draw) for _ in range(draw.choice((0, 3, count // 8)))]
    waves = random.Random(count)
    return laid_out([*records.values()], [with_waves(waves, one) if waves.random() < 0.6 else one for one in grids])


class ParityTest(kit.PackageTest):
    def assert_alike(self, client, theirs, kernel, **question):
        try:
            expected = theirs.best(kernel, **question)
        except ValueError as error:
            with self.assertRaises(libtune.Failed) as caught:
                client.best(kernel, **question)
            self.assertEqual((caught.exception.status, str(caught.exception)),
                             (libtune.INVALID_ARGUMENT, str(error)))
            return None
        answer = client.best(kernel, **question)
        for field in FIELDS:
            wanted = getattr(expected, field)
            self.assertEqual(getattr(answer, field), dict(wanted) if field == "dims" else wanted, (field, question))
        self.assertEqual([(k, type(v), v) for k, v in answer.config.items()],
                         [(k, type(v), v) for k, v in expected.config.items()], question)
        wanted = expected.expectation
        self.assertEqual(answer.expectation, (wanted.basis, wanted.loss, wanted.loss_low, wanted.loss_high), question)
        self.assertEqual(client.explain(kernel, **question), str(theirs.explain(kernel, **question)))
        return answer

    def both(self, data):
        self.put(data)
        return libtune.Client(), tunectl.open()

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
        client, theirs = self.both((kit.PACKAGE / "tunectl/bundled/snapshot.json").read_bytes())
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
        with self.assertRaisesRegex(libtune.Failed, "is no digest"):
            libtune.Client("sha256:123")
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
                 "steps": [step, {**step, "entry": "second", "unit": 1, "args": [], "zero": [], "cooperative": True}],
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

    def a_program(self, text):
        """In the place of what asks the daemon, and somebody who listens."""
        program = self.path / "fetch"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        os.environ["TUNE_FETCH"] = str(program)
        import socket

        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.path / "d.sock"))
        listener.listen(64)

    def test_a_daemon_that_hangs_costs_the_deadline(self):
        self.a_program("exec sleep 60")
        start = time.monotonic()
        client = libtune.Client(deadline=0.3)
        self.assertTrue(0.25 < time.monotonic() - start < 5)
        self.assertIn("no answer in time", " ".join(client.notes))
        start = time.monotonic()
        client = libtune.Client(deadline=-1)
        self.assertLess(time.monotonic() - start, 0.25, "no daemon is asked")

    def test_what_a_daemon_gives_is_checked_and_kept(self):
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "data").write_bytes(data)
        self.a_program(f"cat {self.path}/data")
        client = libtune.Client(deadline=20)
        self.assertEqual((client.source, client.digest), ("daemon", kit.digest_of(data)))
        os.environ["TUNE_FETCH"] = "/bin/false"
        self.assertEqual(libtune.Client(deadline=20).source, "cache", "for a minute")

    def test_a_daemon_that_says_something_else(self):
        other = "sha256:" + "1" * 64
        (self.path / "data").write_bytes(kit.snapshot_bytes([kit.record(1)]))
        for program, seconds, why in ((f"cat {self.path}/data", 20, "its bytes are"), ("exec yes", 0.3, "in time"),
                                      ("echo it is on fire >&2; exit 1", 20, "it is on fire")):
            with self.subTest(program):
                (self.path / "d.sock").unlink(missing_ok=True)
                self.a_program(program)
                client = libtune.Client(other, deadline=seconds)
                self.assertEqual(client.source, "none")
                self.assertIn(why, " ".join(client.notes))

    def misses_program(self, text='echo "sweep 7, queued"'):
        """Answers misses so; what it was told is in the files told.*, one a call."""
        self.put(kit.snapshot_bytes([kit.record(1)]))
        self.a_program(f'cat > "$(mktemp {self.path}/told.XXXXXX)"\n{text}')

    def told(self):
        return [json.loads(file.read_text())["questions"] for file in self.path.glob("told.*")]

    def miss(self, client, n, match="nearest"):
        self.assertEqual(client.best("scale", n=n, device=kit.H200).match, match)

    def test_a_miss_is_told_once_a_process(self):
        self.misses_program()
        start = time.monotonic()
        client, again = libtune.Client(record_misses=True), libtune.Client(record_misses=True)
        for n in (4096, 577, 577):
            self.miss(client, n, "exact" if n == 4096 else "nearest")
        self.miss(again, 577)
        client.best("unheard", n=1)
        self.assertLess(time.monotonic() - start, 1.5, "nobody waits for it")
        self.assertTrue(client.wait_for_misses(30))
        self.assertTrue(again.wait_for_misses(30))
        self.assertEqual(self.told(), [[{"kernel_name": "scale", "dims": {"n": 577, "mode": 0}, "dtype": "bf16",
                                         "device": kit.H200}]])
        for one in (client, again):
            self.assertEqual(one.miss_notes, ["scale n=577 mode=0: sweep 7, queued"])
        self.miss(client, 578)
        self.assertTrue(client.wait_for_misses(30))
        self.assertEqual(len(self.told()), 2)

    def test_misses_are_told_where_the_job_says_so(self):
        self.misses_program()
        for variable, wanted, tells in (("", None, False), ("1", None, True), ("1", False, False), ("0", True, True)):
            os.environ["TUNE_RECORD_MISSES"] = variable
            client = libtune.Client(record_misses=wanted)
            self.miss(client, 577)
            self.assertTrue(client.wait_for_misses(30))
            self.assertEqual(len(client.miss_notes), int(tells), (variable, wanted))
        client = libtune.Client(record_misses=True, deadline=-1)
        self.miss(client, 577)
        self.assertTrue(client.wait_for_misses(30))
        self.assertEqual(client.miss_notes, [], "no daemon is asked")
        os.environ["TUNE_RECORD_MISSES"] = "1"
        self.miss(libtune.Client(options_size=libtune.Options.record_misses.offset), 577)
        with self.assertRaisesRegex(libtune.Failed, "options have their size"):
            libtune.Client(options_size=8)

    def test_many_misses_are_told_in_batches(self):
        self.misses_program('for i in $(seq 100); do echo "already queued"; done')
        client = libtune.Client(record_misses=True)
        threads = [threading.Thread(target=lambda first=first: [self.miss(client, n) for n in range(first, first + 100)])
                   for first in (5000, 5050, 5100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(client.wait_for_misses(30))
        told = self.told()
        self.assertEqual([len(batch) for batch in told], [100, 100])
        self.assertEqual({one["dims"]["n"] for batch in told for one in batch}, {*range(5000, 5200)})
        self.assertEqual(len(client.miss_notes), 200)

    def test_whatever_goes_wrong_with_misses_is_a_note(self):
        for program, why in (("echo it is on fire >&2; exit 1", "1 misses were not told: .*it is on fire"),
                             ("echo a; echo b", "1 misses were not told: the answer has another count"),
                             ("exec yes", "1 misses were not told: .*no answer in time")):
            with self.subTest(program):
                (self.path / "d.sock").unlink(missing_ok=True)
                self.misses_program(program)
                client = libtune.Client(record_misses=True)
                self.miss(client, 577)
                self.assertTrue(client.wait_for_misses(30))
                self.assertRegex(client.miss_notes[0], why)
                client.close()
        os.environ["TUNE_FETCH"] = "/nonexistent"
        client = libtune.Client(record_misses=True)
        self.miss(client, 577)
        self.assertTrue(client.wait_for_misses(30))
        self.assertRegex(client.miss_notes[0], "cannot start /nonexistent")

    def test_closing_does_not_wait_for_a_daemon_that_hangs(self):
        self.misses_program("exec sleep 60")
        client = libtune.Client(record_misses=True)
        self.miss(client, 577)
        start = time.monotonic()
        self.assertFalse(client.wait_for_misses(0.5))
        client.close()
        self.assertLess(time.monotonic() - start, 10)
        client = libtune.Client(record_misses=True)
        self.miss(client, 578)
        start = time.monotonic()
        client.close()  # while it collects
        self.assertLess(time.monotonic() - start, 1.5)

    def test_a_forked_child_tells_nothing(self):
        self.misses_program()
        client = libtune.Client(record_misses=True)
        self.miss(client, 577)  # a thread collects
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            self.miss(client, 578)
            fine = client.wait_for_misses(10) and client.miss_notes == []
            client.close()
            os._exit(0 if fine else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertTrue(client.wait_for_misses(30))
        self.assertEqual([one["dims"]["n"] for (one,) in self.told()], [577])
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            own = libtune.Client(record_misses=True)  # of the child itself
            self.miss(own, 579)
            os._exit(0 if own.wait_for_misses(10) and len(own.miss_notes) == 1 else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    FAST, SLOW = {"THREADS": 128, "PATH": "mma"}, {"THREADS": 64, "PATH": "plain"}

    def test_a_job_is_told_of_something_better_and_takes_it_when_it_says_so(self):
        self.put(kit.daemon_bytes([kit.record(1, n=1024, config=self.SLOW)]))
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 3600)
        self.assertEqual((watch.look(), watch.take(), watch.digest), ([], None, ""), "nothing is newer")
        newest = self.put(kit.daemon_bytes([kit.record(1, n=1024, config=self.SLOW), kit.record(2, config=self.FAST)],
                                           number=8))
        self.assertEqual(watch.poll(), 0, "it looks in an hour")
        ((before, after),) = watch.look()
        self.assertEqual((before.match, after.match, after.config), ("nearest", "exact", self.FAST))
        self.assertEqual((watch.poll(), watch.digest), (1, newest))
        self.assertEqual(client.best("scale", n=4096, device=kit.H200).match, "nearest", "until it is taken")
        taken = watch.take()
        client.close()
        self.assertEqual((taken.digest, taken.number, taken.best("scale", n=4096, device=kit.H200).match),
                         (newest, 8, "exact"))
        self.assertEqual((watch.poll(), watch.digest, watch.look(), watch.take()), (0, "", [], None))
        third = {**kit.record(3, config=self.SLOW), "latency_ns": {"low": 1.0, "median": 2.0, "high": 3.0}}
        self.put(kit.daemon_bytes([third], number=9))
        ((before, after),) = watch.look()
        self.assertEqual((before.record, after.record), (2, 3), "it goes on for what was taken")

    def test_what_is_asked_after_something_newer_was_found_is_compared_too(self):
        self.put(kit.daemon_bytes([kit.record(1, n=1024, config=self.SLOW)]))
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 3600)
        self.put(kit.daemon_bytes([kit.record(1, n=1024, config=self.SLOW), kit.record(2, config=self.FAST),
                                   kit.record(3, n=8192, config=self.FAST)], number=8))
        self.assertEqual(len(watch.look()), 1)
        client.best("scale", n=8192, device=kit.H200)
        self.assertEqual(len(watch.look()), 2)

    def test_a_watch_looks_by_itself(self):
        self.put(kit.daemon_bytes([]))
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 0.1)
        client.close()
        self.put(kit.daemon_bytes([kit.record(1)], number=8))
        ends = time.monotonic() + 20
        while watch.poll() == 0 and time.monotonic() < ends:
            time.sleep(0.02)
        self.assertEqual(watch.take().best("scale", n=4096, device=kit.H200).match, "exact")
        for every in (-1, 0.01, 1e9, float("nan")):
            with self.assertRaisesRegex(libtune.Failed, "a watch looks every"):
                libtune.Watch(libtune.Client(), every)

    def test_better_is_what_python_calls_better(self):
        draw, told = random.Random(SEED), 0
        for count in (1, 5, 40, 40, 40):
            client, theirs = self.both(spread_snapshot(draw, count, by_lines))
            for _ in range(30):
                question = {"a": draw.choice((3, 64, 90, 4096)), "b": draw.choice((0, 63, 64, 100)),
                            "c": draw.choice((0, 1, 5)), "d": draw.choice((1, 7)),
                            "device": draw.choice((kit.H200, "NVIDIA H100", "cpu"))}
                client.best("spread", **question)
                tunectl.best("spread", **question)
            client.best("unheard", n=1)
            tunectl.best("unheard", n=1)
            watch = libtune.Watch(client, 3600)
            with tunectl.watch(every=3600) as their_watch:
                self.put(spread_snapshot(draw, count + 3, by_lines))
                ours, wanted = watch.look(), their_watch.look()

                def facts(pairs):
                    return sorted(str([(one.match, one.record, one.dims, one.device, one.latency_ns) for one in pair])
                                  for pair in pairs)

                self.assertEqual(facts(ours), facts([[types.SimpleNamespace(
                    match=one.match, record=one.record, dims=dict(one.dims), device=one.device,
                    latency_ns=one.latency_ns) for one in pair] for pair in wanted]))
                self.assertEqual(watch.digest, their_watch.digest)
                told += len(ours)
        self.assertGreater(told, 20)

    def test_a_watch_asks_the_daemon_and_closes_while_it_hangs(self):
        data = kit.snapshot_bytes([kit.record(1)])
        (self.path / "data").write_bytes(data)
        self.a_program(f"cat {self.path}/data")
        client = libtune.Client(deadline=-1)
        self.assertEqual(client.best("scale", n=4096, device=kit.H200).match, "default")
        self.assertEqual(libtune.Watch(client, 3600).look(), [], "no daemon is asked")
        (self.path / "fetch").write_text("#!/bin/sh\nexit 1\n")
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 3600)
        os.environ["TUNE_FETCH"] = "/bin/false"  # is of the next client
        (self.path / "fetch").write_text(f"#!/bin/sh\ncat {self.path}/data\n")
        self.assertEqual([(before.match, after.match) for before, after in watch.look()], [("default", "exact")])
        self.assertEqual(watch.take().source, "daemon")
        (self.path / "fetch").write_text("#!/bin/sh\nexec sleep 60\n")
        for file in (self.path / "cache/snapshots").glob("latest-*"):
            file.unlink()
        watch = libtune.Watch(client, 0.1)
        time.sleep(0.4)  # it asks
        start = time.monotonic()
        del watch
        self.assertLess(time.monotonic() - start, 5)

    def test_a_forked_child_watches_nothing(self):
        self.put(kit.daemon_bytes([]))
        client = libtune.Client()
        client.best("scale", n=4096, device=kit.H200)
        watch = libtune.Watch(client, 0.1)
        self.put(kit.daemon_bytes([kit.record(1)], number=8))
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            fine = watch.look() == [] and watch.poll() == 0 and watch.take() is None
            del watch
            client.close()
            os._exit(0 if fine else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(watch.look()), 1)

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
