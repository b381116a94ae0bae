# SPDX-License-Identifier: Apache-2.0
"""The functions of tune.h that the Python package has no use for, and the sizes of structs."""
import ctypes
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import kit
import tunectl
from tunectl import _libtune

OK, INVALID_ARGUMENT, NOT_FOUND = 0, 3, 5
TEXT, POINTER, SIZE, U32 = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32


class Step(ctypes.Structure):
    _fields_ = [("entry", TEXT), ("binary", POINTER), ("binary_bytes", SIZE), ("grid", U32 * 3), ("block", U32 * 3),
                ("cluster", U32 * 3), ("shared_bytes", U32), ("cooperative", ctypes.c_int),
                ("programmatic_dependent_launch", ctypes.c_int), ("resident", ctypes.c_int), ("arg_count", SIZE),
                ("zero_count", SIZE)]


class Arg(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("name", TEXT), ("dtype", TEXT), ("role", TEXT), ("count", ctypes.c_int64),
                ("value", POINTER), ("value_bytes", SIZE), ("buffer", TEXT), ("rank", SIZE),
                ("dims", ctypes.POINTER(ctypes.c_uint64)), ("strides_bytes", ctypes.POINTER(ctypes.c_uint64)),
                ("box", ctypes.POINTER(ctypes.c_uint64)), ("swizzle_bytes", ctypes.c_int64),
                ("l2_promotion_bytes", ctypes.c_int64)]

    def facts(self):
        """As the artifact's file has it; a scalar's value as bytes."""
        name, dtype = self.name.decode(), self.dtype.decode()
        if self.kind == 1:
            return {"kind": "buffer", "name": name, "dtype": dtype, "count": self.count, "role": self.role.decode()}
        if self.kind == 2:
            return {"kind": "scalar", "name": name, "dtype": dtype, "value": ctypes.string_at(self.value, self.value_bytes)}
        return {"kind": "tensor_map", "name": name, "buffer": self.buffer.decode(), "dims": self.dims[:self.rank],
                "strides_bytes": self.strides_bytes[:self.rank - 1], "box": self.box[:self.rank],
                "swizzle_bytes": self.swizzle_bytes, "l2_promotion_bytes": self.l2_promotion_bytes}


class Symbol(ctypes.Structure):
    _fields_ = [("variable", TEXT), ("binary", POINTER), ("binary_bytes", SIZE), ("buffer", Arg)]


class Interface(kit.PackageTest):
    def setUp(self):
        super().setUp()
        self.tune = _libtune.library()
        self.tune.tune_best_batch.argtypes = [POINTER, POINTER, SIZE, POINTER]
        self.tune.tune_program_open.argtypes = [POINTER, TEXT, POINTER]
        self.tune.tune_program_close.argtypes = [POINTER]
        for name, places in (("step", 1), ("symbol", 1), ("arg", 2), ("zero", 2)):
            getattr(self.tune, f"tune_program_{name}").argtypes = [POINTER, *[SIZE] * places, POINTER]

    def opened(self, records):
        self.put(kit.snapshot_bytes(records))
        return tunectl.open()._snapshot

    @staticmethod
    def question(n, dtype="bf16", require_exact=0, dim="n"):
        dims = (_libtune._Dim * 1)(_libtune._Dim(dim.encode(), n))
        return _libtune._Question(b"scale", dtype.encode(), kit.H200.encode(), dims, 1, require_exact)

    def batch(self, snapshot, questions, count=None):
        array, answers = (_libtune._Question * len(questions))(*questions), (POINTER * len(questions))()
        status = self.tune.tune_best_batch(snapshot._pointer, array, count or len(questions), answers)
        return status, [_libtune._taken(one) for one in answers if one]

    def test_a_batch_is_what_each_question_gets(self):
        snapshot = self.opened([kit.record(1), kit.record(2, n=9000, dtype="f32")])
        sizes = (4096, 5000, 9000, 9001, 4096)
        status, answers = self.batch(snapshot, [self.question(n, ("bf16", "f32")[n % 2]) for n in sizes])
        self.assertEqual((status, len(answers)), (OK, len(sizes)))
        for n, answer in zip(sizes, answers):
            alone = snapshot.best("scale", ("bf16", "f32")[n % 2], kit.H200, {"n": n})
            self.assertEqual((answer, repr(answer), answer.dims), (alone, repr(alone), alone.dims))

    def test_a_batch_names_the_question_that_failed(self):
        snapshot, good = self.opened([kit.record(1)]), self.question(4096)
        for bad, status, why in ((self.question(1, dim="m"), INVALID_ARGUMENT, "kernel 'scale' has no dim 'm'"),
                                 (self.question(5000, require_exact=1), NOT_FOUND, "no exact record: nearest")):
            self.assertEqual(self.batch(snapshot, [good, good, bad, good]), (status, []))
            self.assertRegex(self.tune.tune_error().decode(), rf"^questions\[2\]: {why}")
        self.assertEqual(self.batch(snapshot, [good], count=65537)[0], INVALID_ARGUMENT)
        self.assertIn("at most 65536 questions", self.tune.tune_error().decode())

    def test_structs_of_other_sizes(self):
        """Of callers that were compiled before a field was there, or after."""
        self.put(kit.snapshot_bytes([kit.record(1)]))
        for size, status in ((8, INVALID_ARGUMENT), (_libtune._Options.record_misses.offset, OK),
                             (ctypes.sizeof(_libtune._Options), OK), (4096, OK)):
            buffer, client = ctypes.create_string_buffer(4096), POINTER()
            options = _libtune._Options.from_buffer(buffer)
            options.size, options.deadline = size, -1
            self.assertEqual(self.tune.tune_open(buffer, ctypes.byref(client)), status, size)
            self.tune.tune_close(client)
        device = _libtune._Device()
        device.size = _libtune._Device.target.offset
        self.assertEqual(self.tune.tune_local_device(0, ctypes.byref(device)), OK)
        self.assertEqual((bool(device.name), device.target, device.size), (True, None, _libtune._Device.target.offset))
        device.size = 0
        self.assertEqual(self.tune.tune_local_device(0, ctypes.byref(device)), INVALID_ARGUMENT)
        self.assertEqual(self.tune.tune_local_device(999, ctypes.byref(device)), NOT_FOUND)

    def test_an_expression_of_a_spec(self):
        snapshot = self.opened([])
        for expression, value in (("ceil_div(n, 64)", 64), ("n / 8192", 0.5), ("n > 1 and mode == 0", True), ("dtype", "bf16"),
                                  ("dtype_bytes * sm", 180), ("target", "sm_90a"), ("sm_count", 132), ("-n", -4096)):
            found = snapshot.evaluate("scale", {"n": 4096, "mode": 0}, "bf16", "sm_90a", expression)
            self.assertEqual((found, type(found)), (value, type(value)), expression)
        strides = {"n": 4096, "mode": 0, "x_stride_0": 96}
        self.assertEqual(snapshot.evaluate("scale", strides, "bf16", "sm_90a", "x_stride_0 * dtype_bytes"), 192)
        for expression in ("n +", "m", "1 // 0", "bytes", "__import__('os')", "x" * 5000, "2 ** 2 ** 2 ** 2 ** 2 ** 2"):
            with self.subTest(expression[:20]), self.assertRaises(ValueError):
                snapshot.evaluate("scale", {"n": 4096}, "bf16", "sm_90a", expression)
        with self.assertRaises(LookupError):
            snapshot.evaluate("unheard", {}, "bf16", "cpu", "1")
        self.assertIsNone(snapshot.kernel("unheard"))
        self.assertEqual(snapshot.kernel("scale"), kit.KERNEL)

    def put_artifact(self, **changes):
        """Into the folder beside the snapshot: its digest, its facts and its binaries."""
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
        binaries = (b"\0ELF1", bytes(range(256)) + b"." * 44)
        data = json.dumps(facts).encode() + b"\n" + b"".join(binaries)
        digest = kit.digest_of(data)
        folder = self.path / "state/snapshots/artifacts"
        folder.mkdir(mode=0o755, exist_ok=True)
        (folder / (digest.replace(":", "-") + ".artifact")).write_bytes(data)
        return digest, facts, binaries

    def program(self, snapshot, digest):
        program = POINTER()
        status = self.tune.tune_program_open(snapshot._pointer, digest.encode(), ctypes.byref(program))
        self.addCleanup(self.tune.tune_program_close, program)
        return status, program

    def test_a_program_is_what_its_file_says(self):
        snapshot = self.opened([kit.record(1)])
        digest, facts, binaries = self.put_artifact()
        status, program = self.program(snapshot, digest)
        self.assertEqual(status, OK)
        steps = list(_libtune._each(self.tune.tune_program_step, program, Step))
        self.assertEqual(len(steps), 2)
        for i, wanted in enumerate(facts["steps"]):
            step, at = Step(), ctypes.byref
            self.assertEqual(self.tune.tune_program_step(program, i, at(step)), OK)
            self.assertEqual((step.entry.decode(), step.grid[:], step.block[:], step.cluster[:], step.shared_bytes),
                             tuple(wanted[name] for name in ("entry", "grid", "block", "cluster", "shared_bytes")))
            self.assertEqual((bool(step.cooperative), bool(step.programmatic_dependent_launch), bool(step.resident)),
                             (wanted["cooperative"], wanted["programmatic_dependent_launch"], wanted.get("resident", False)))
            self.assertEqual(ctypes.string_at(step.binary, step.binary_bytes), binaries[wanted["unit"]])
            zero = [one.facts() for one in self.fresh(self.tune.tune_program_zero, program, i)]
            args = [one.facts() for one in self.fresh(self.tune.tune_program_arg, program, i)]
            self.assertEqual((len(args), zero), (step.arg_count, wanted["zero"]))
            self.assertEqual([one for one in args if one["kind"] != "scalar"],
                             [one for one in wanted["args"] if one["kind"] != "scalar"])
        values = [one.facts()["value"] for one in self.fresh(self.tune.tune_program_arg, program, 0) if one.kind == 2]
        self.assertEqual(values, [bytes(ctypes.c_int64(-(1 << 40))), bytes(ctypes.c_int32(-7)), b"\xc8", bytes(ctypes.c_float(0.1)),
                                  bytes(ctypes.c_double(3)), b"\1"])
        symbol = Symbol()
        self.assertEqual(self.tune.tune_program_symbol(program, 0, ctypes.byref(symbol)), OK)
        self.assertEqual((symbol.variable, symbol.buffer.facts()), (b"table", facts["symbols"][0]["buffer"]))
        self.assertEqual(ctypes.string_at(symbol.binary, symbol.binary_bytes), binaries[1])
        self.assertEqual(self.tune.tune_program_symbol(program, 1, ctypes.byref(symbol)), NOT_FOUND)

    @staticmethod
    def fresh(function, program, step):
        found = []
        while function(program, step, len(found), ctypes.byref(one := Arg())) == OK:
            found.append(one)
        return found

    def test_what_is_no_program_is_refused(self):
        snapshot = self.opened([kit.record(1)])
        step = {"entry": "k", "unit": 0, "grid": [1, 1, 1], "block": [1, 1, 1], "cluster": [1, 1, 1],
                "shared_bytes": 0, "cooperative": False, "programmatic_dependent_launch": False, "args": [], "zero": []}
        for changes in ({"version": 2}, {"format": "x"}, {"steps": []}, {"steps": [7]}, {"binary_bytes": [1]},
                        {"binary_bytes": "x"}, {"binary_bytes": [-1, 306]}, {"binary_bytes": [1 << 62, 1 << 62]},
                        {"steps": [{**step, "unit": 9}]}, {"steps": [{**step, "grid": [1, 1]}]},
                        {"steps": [{**step, "grid": [-1, 1, 1]}]}, {"steps": [{**step, "args": [{"kind": "x"}]}]},
                        {"symbols": [{}]}):
            with self.subTest(changes):
                self.assertEqual(self.program(snapshot, self.put_artifact(**changes)[0])[0], INVALID_ARGUMENT)
                self.assertIn("it is no artifact", self.tune.tune_error().decode())


if __name__ == "__main__":
    unittest.main()
