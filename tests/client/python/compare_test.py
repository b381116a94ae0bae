# SPDX-License-Identifier: Apache-2.0
"""tunectl.compare: Python functions by turns with the daemon's kernels, on the CPU device."""
import array
import ctypes
import importlib.util
import json
import multiprocessing
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

import daemon_kit
import kit

import tunectl  # noqa: E402
from tunectl import _compare, _peer  # noqa: E402

QUICK = {"device": "cpu", "rounds": 2, "leg_seconds": 0.002, "default": True, "warm": True, "timeout": 600}


def single(value):
    return ctypes.c_float(value).value


def saxpy_buffers(x, y, a):
    return [single(single(a * left) + right) for left, right in zip(x, y)]


def saxpy_in_place(x, y, a, out):
    for i, left in enumerate(x):
        out[i] = single(single(a * left) + y[i])


def saxpy_numpy(x, y, a):
    return x * x.dtype.type(a) + y


def wrong(x, y):
    return [left + right for left, right in zip(x, y)]


def zeros(x):
    return bytes(4 * len(x))


def raises(x):
    raise RuntimeError("no such algorithm")


def wants_more(x, z):
    return x


def dies(x):
    os._exit(3)


def sleeps(x):
    time.sleep(600)


def stops(x):
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(15)


def saxpy_prepared(x, y, a):
    return lambda: (x, y, a)


def as_floats(returned, args):
    return {"out": saxpy_buffers(*returned)}


def add_prepared(x, y):
    added = []  # made ahead of the timing

    def call():
        added[:] = [left + right for left, right in zip(x, y)]
        return added
    return call


def halves(returned, args):
    return {"y": [value / 2 + args["n"] for value in returned]}


class PeerTest(unittest.TestCase):
    """One turn, without a daemon."""

    def order(self, **more):
        args = [{"name": "x", "dtype": "f32", "shape": [4], "role": 1, "kind": 4, "low": 0, "high": 1, "key": "x",
                 "elements": None},
                {"name": "y", "dtype": "f32", "shape": [4], "role": 3, "kind": 3, "low": 2, "high": 1, "key": "y",
                 "elements": None},
                {"name": "a", "dtype": "f32", "scalar": 3.0}]
        return {"args": args, "dims": {"n": 4}, "dtype": "f32", "seed": 1, "target": "cpu", "device_uuid": "",
                "cold": False, "check": True, "samples_min": 5, "samples_max": 9, "kernel_seconds": 1e-9, **more}

    def test_results_by_place_by_name_and_in_place(self):
        def adds_in_place(x, y):
            for i in range(4):
                y[i] += x[i]

        for peer in (lambda x, y: [y[i] + x[i] for i in range(4)],
                     lambda n, x, y: {"y": struct.pack("<4f", *(y[i] + i for i in range(n)))}, adds_in_place):
            answer = _peer.turn(peer, "buffers", self.order())
            self.assertEqual(answer["message"], "")
            self.assertEqual(struct.unpack("<4f", answer["outputs"]["y"]), (2, 3, 4, 5))

    def test_in_outs_are_restored_before_each_timed_run(self):
        seen = []

        def adds(x, y):
            seen.append(y[1])
            y[1] += 1

        answer = _peer.turn(adds, "buffers", self.order(check=False))
        self.assertEqual(set(seen), {2.0})
        self.assertEqual(len(answer["samples_ns"]), 5)

    def test_a_peer_prepares_itself_and_tells_its_outputs_untimed(self):
        answer = _peer.turn(tunectl.Peer(add_prepared, outputs=halves), "buffers", self.order())
        self.assertEqual((answer["message"], answer["unchecked"]), ("", ""))
        self.assertEqual(struct.unpack("<4f", answer["outputs"]["y"]), (5, 5.5, 6, 6.5))
        answer = _peer.turn(tunectl.Peer(add_prepared, outputs=raises), "buffers", self.order(check=False))
        self.assertEqual(len(answer["samples_ns"]), 5)

    def test_an_unchecked_peer_sends_no_outputs_but_why(self):
        answer = _peer.turn(tunectl.Peer(add_prepared, unchecked="it rounds otherwise"), "buffers", self.order())
        self.assertEqual((answer["outcome"], answer["outputs"], answer["unchecked"]), (1, {}, "it rounds otherwise"))

    def test_a_script_without_a_main_guard_is_told(self):
        script = ("import multiprocessing, tunectl\n"
                  "if multiprocessing.current_process().name == 'MainProcess':\n"
                  "    child = multiprocessing.get_context('spawn').Process(target=print)\n"
                  "    child.start(); child.join(60)\n"
                  "else:\n    tunectl.compare('softmax', {'peer': print}, address='unix:/nowhere')\n")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "script.py"
            path.write_text(script)
            done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120, check=False,
                                  env={**os.environ, "PYTHONPATH": str(kit.PACKAGE)})
        self.assertIn('put the call under if __name__ == "__main__":', done.stderr)

    def test_outputs_that_no_daemon_takes_are_not_sent(self):
        with unittest.mock.patch.object(_peer, "OUTPUT_BYTES_MAX", 15):
            answer = _peer.turn(lambda x, y: x, "buffers", self.order())
        self.assertEqual((answer["outcome"], answer["outputs"]), (1, {}))
        self.assertIn("check it on a smaller problem", answer["unchecked"])

    def test_a_peer_is_given_its_stream(self):
        answer = _peer.turn(lambda stream: [float(stream)] * 4, "buffers", self.order())
        self.assertEqual(struct.unpack("<4f", answer["outputs"]["y"]), (0, 0, 0, 0))

    def gradient_order(self, **more):
        """y = x * weight: the gradients of x and weight for one of y."""
        def arg(name, role, kind):
            return {"name": name, "dtype": "f32", "shape": [3], "role": role, "kind": kind, "low": 2, "high": 1,
                    "key": name, "elements": None}
        return self.order(args=[arg("x", 1, 4), arg("weight", 1, 3), arg("dy", 1, 3), arg("dx", 2, 0), arg("dweight", 2, 0)],
                          dims={"n": 3}, **more)

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_a_gradient_is_timed_without_its_forward_pass(self):
        calls = []

        def product(x, weight):
            calls.append(x.requires_grad)
            return x * weight

        answer = _peer.turn(tunectl.gradient(product), "torch", self.gradient_order())
        self.assertEqual(answer["message"], "")
        self.assertEqual(struct.unpack("<3f", answer["outputs"]["dx"]), (4, 4, 4))
        self.assertEqual(struct.unpack("<3f", answer["outputs"]["dweight"]), (0, 2, 4))
        answer = _peer.turn(tunectl.gradient(product), "torch", self.gradient_order(check=False))
        self.assertEqual((len(answer["samples_ns"]), calls), (5, [True, True]))
        answer = _peer.turn(tunectl.gradient(lambda dy: dy), "torch", self.gradient_order())
        self.assertIn("none of its parameters dy has a gradient among the outputs dx, dweight", answer["message"])
        answer = _peer.turn(tunectl.gradient(lambda x: (x, x)), "torch", self.gradient_order())
        self.assertIn("its forward function returned 2 results; the kernel has a gradient of dy", answer["message"])

    @unittest.skipIf(importlib.util.find_spec("torch"), "PyTorch is installed")
    def test_a_gradient_needs_torch(self):
        answer = _peer.turn(tunectl.gradient(wrong), "buffers", self.gradient_order())
        self.assertIn("a gradient takes PyTorch", answer["message"])

    def test_calls_are_told_by_their_records(self):
        """A mark, a flush, a hold, and the kernels of a call on two streams, twice."""
        spin, records = "at::cuda::spin_kernel(long)", []
        for begin in (1000, 9000):
            records += [(spin, begin, 10), ("flush", begin + 20, 500), (spin, begin + 600, 400),
                        ("second", begin + 1100, 300), ("first", begin + 1050, 100), ("other stream", begin + 1060, 900)]
        self.assertEqual(_peer.spans_of(records, 2), [910.0, 910.0])
        self.assertIsNone(_peer.spans_of(records, 3))
        self.assertIsNone(_peer.spans_of(records[:-3], 2))
        self.assertIsNone(_peer.spans_of([], 1))

    def test_mistakes_are_told(self):
        for peer, why in ((lambda q: 1, "it takes 'q', which nothing of the kernel is called; there are a, dtype,"),
                          (lambda x: (x, x), "it returned 2 results; the outputs are y"),
                          (lambda x: {"z": x}, "it returned no 'y'"),
                          (lambda x: x[:2], "its 'y' has 8 bytes, not 16"),
                          (raises, "RuntimeError: no such algorithm (compare_test.py:")):
            answer = _peer.turn(peer, "buffers", self.order())
            self.assertEqual(answer["outcome"], 5)
            self.assertIn(why, answer["message"])

    def integers(self, dtype, shape):
        """An order with one output."""
        arg = {"name": "y", "dtype": dtype, "shape": shape, "role": 2, "kind": 0, "low": 0, "high": 0, "key": "y", "elements": None}
        return self.order(args=[arg])

    def check_results(self, kind, make):
        """`make(values, dtype, shape)`: an array of another type than what is to be compared, or of the same."""
        for values, dtype, wanted, why in (
                ([1, 2.5], "float32", "i32", "where i32 is to be compared"), ([1, 1 << 40], "int64", "i32", "which are no i32"),
                ([-1, 2], "int32", "u8", "which are no u8"), ([1, 2], "int64", "i32", ""), ([1, 2], "int32", "f32", ""),
                ([1, 2], "float64", "f32", ""), ([1, 2], "complex64", "f32", "where f32 is to be compared")):
            made = make(values, dtype, (2,))
            answer = _peer.turn(lambda: made, kind, self.integers(wanted, [2]))  # noqa: B023
            self.assertIn(why, answer["message"])
            self.assertEqual(not why, not answer["message"], (dtype, wanted, answer["message"]))
        for shape, fits in (((6,), True), ((2, 3), True), ((1, 2, 3, 1), True), ((3, 2), False)):
            made = make([1] * 6, "int32", shape)
            answer = _peer.turn(lambda: made, kind, self.integers("i32", [2, 3]))  # noqa: B023
            self.assertEqual("has the shape" not in answer["message"], fits, (shape, answer["message"]))

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
    def test_results_of_another_type_or_shape_in_numpy(self):
        import numpy

        self.check_results("numpy", lambda values, dtype, shape: numpy.array(values, dtype).reshape(shape))

    @unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
    def test_results_of_another_type_or_shape_in_torch(self):
        import torch

        self.check_results("torch", lambda values, dtype, shape: torch.tensor(values, dtype=getattr(torch, dtype)).reshape(shape))

    def test_results_of_another_type_in_buffers(self):
        for code, wanted, fits in (("f", "i32", False), ("i", "i32", True), ("l", "i64", True), ("q", "i64", True),
                                   ("I", "i32", False), ("B", "u8", True), ("d", "i64", False), ("f", "f32", True)):
            values = array.array(code, [1, 2])
            answer = _peer.turn(lambda: memoryview(values), "buffers", self.integers(wanted, [2]))  # noqa: B023
            self.assertEqual("to be compared" not in answer["message"], fits, (code, wanted, answer["message"]))

    def test_a_process_that_does_not_take_its_order_is_killed_in_time(self):
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.object(sys, "path", [*sys.path, folder]):
            pathlib.Path(folder, "slow_peer.py").write_text(
                "import multiprocessing, time\nif multiprocessing.current_process().name != 'MainProcess':\n"
                "    time.sleep(1e6)\ndef peer(x):\n    return x\n")
            apart = _compare._Apart(importlib.import_module("slow_peer").peer, "buffers")
            self.addCleanup(apart.close)
            answer = apart.turn({"elements": bytes(8 << 20)}, 2)
        self.assertEqual((answer["outcome"], answer["message"]), (8, "its process had not imported it within 2 s"))
        ours, theirs = multiprocessing.Pipe()
        self.addCleanup(theirs.close)
        apart._pipe, apart._child = ours, unittest.mock.Mock(kill=theirs.close)  # one that reads nothing
        self.assertIn("it was not done within 0 s", apart.turn({"elements": bytes(8 << 20)}, 0.3)["message"])

    def test_what_runs_apart_is_named(self):
        with self.assertRaisesRegex(ValueError, "peer 'here'.* at the top of a module"):
            _compare._check_peers({"here": lambda x: x})

    def test_one_kernel_alone_is_not_compared(self):
        for kernels in ("saxpy", ["saxpy"]):
            with self.assertRaisesRegex(ValueError, "there is nothing to compare"):
                _compare.compare(kernels, {})


@daemon_kit.NEEDS_GRPC
class CompareTest(daemon_kit.DaemonTest):
    def compare(self, peers, **more):
        size = {} if "sweep" in more else {"n": 1000}
        row = tunectl.compare(daemon_kit.SAXPY, peers, address=self.address,
                              **{**size, "arrays": "buffers", **QUICK, **more})
        return row, {one["label"]: one for one in row["problems"][0]["kernels"]}

    def test_peers_are_timed_checked_stored_and_shown(self):
        said = []
        row, by_label = self.compare({"plain": saxpy_buffers, "place": saxpy_in_place, "wrong": wrong},
                                     progress=said.append, warm=False, rounds=1, allow_wrong=True)
        for label in ("plain", "place"):
            self.assertEqual((by_label[label]["outcome"], by_label[label]["agreement"]), ("ok", "ok"),
                             by_label[label])
            self.assertEqual(by_label[label]["rounds"], 1)
            self.assertGreater(by_label[label]["ratio"], 0)
        self.assertEqual(by_label["wrong"]["agreement"], "wrong_result")
        self.assertIn("against the reference of saxpy: out[", by_label["wrong"]["agreement_message"])
        self.assertIn("Python 3.", by_label["plain"]["compiler"])
        self.assertEqual(by_label["plain"]["language"], "Python, buffers")
        self.assertIn("round 1 of 1", said[-1])
        shown = self.tunectl("compare", "show", row["id"]).stdout
        for text in ("plain", "place", "wrong", "!differs"):
            self.assertIn(text, shown)
        table = self.tunectl("report", "compare", row["id"], "--format", "csv").stdout
        self.assertIn("plain", table)
        figure = next(one for one in tunectl.figures(row) if one["label"] == "plain")
        self.assertEqual((figure["problem"]["n"], figure["n"], figure["agreement"], figure["clock"]), (1000, 1, "ok", "host"))
        self.assertEqual((figure["device"], figure["driver"]), (row["device_name"], row["driver"]))
        self.assertGreater(figure["time_ns"], 0)
        json.dumps(figure)

    def test_a_peer_whose_results_are_others_is_timed_and_says_why(self):
        _, by_label = self.compare({"prepared": tunectl.Peer(saxpy_prepared, outputs=as_floats),
                                    "other": tunectl.Peer(saxpy_prepared, unchecked="it has an input of its own")})
        self.assertEqual((by_label["prepared"]["outcome"], by_label["prepared"]["agreement"]), ("ok", "ok"))
        self.assertEqual((by_label["other"]["outcome"], by_label["other"]["agreement"]), ("ok", "invalid_config"))
        self.assertEqual(by_label["other"]["agreement_message"], "it has an input of its own")
        self.assertGreater(by_label["other"]["ratio"], 0)

    def test_sizes_are_swept(self):
        row, _ = self.compare({"plain": saxpy_buffers}, sweep={"n": [256, 512]})
        self.assertEqual([one["problem"]["n"] for one in row["problems"]], [256, 512])

    def test_a_peer_that_fails_leaves_and_the_others_go_on(self):
        _, by_label = self.compare({"raises": raises, "more": wants_more, "dies": dies, "plain": saxpy_buffers})
        self.assertIn("no such algorithm", by_label["raises"]["message"])
        self.assertIn("it takes 'z'", by_label["more"]["message"])
        self.assertEqual(by_label["dies"]["outcome"], "faulted")
        self.assertIn("its process ended with exit code 3", by_label["dies"]["message"])
        self.assertEqual(by_label["plain"]["outcome"], "ok")

    def test_a_peer_that_takes_too_long_leaves_and_the_others_go_on(self):
        _, by_label = self.compare({"sleeps": sleeps, "plain": saxpy_buffers}, peer_seconds=20)
        self.assertEqual(by_label["sleeps"]["outcome"], "timed_out")
        self.assertRegex(by_label["sleeps"]["message"], "was not done within 20 s|had not imported it within 20 s")

    def test_a_peer_whose_outputs_are_refused_leaves_and_the_others_go_on(self):
        with unittest.mock.patch.object(_compare, "_PIECE_BYTES", 3 << 20):
            _, by_label = self.compare({"large": zeros}, n=600_000)
        self.assertIn("outputs are larger than", by_label["large"]["message"])
        self.assertEqual(by_label["saxpy"]["outcome"], "ok")

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
    def test_peers_take_numpy_arrays(self):
        _, by_label = self.compare({"numpy": saxpy_numpy}, arrays="numpy")
        self.assertEqual((by_label["numpy"]["outcome"], by_label["numpy"]["agreement"]), ("ok", "ok"),
                         by_label["numpy"])

    def test_the_first_is_a_kernel(self):
        with self.assertRaisesRegex(tunectl._compare._rpc.DaemonError, "the first of a comparison is a kernel"):
            tunectl.compare([], {"plain": saxpy_buffers}, address=self.address, **QUICK)

    def test_a_lease_is_its_clients(self):
        with _compare._rpc.Connection(self.address, 10) as daemon:
            with self.assertRaises(_compare._rpc.DaemonError) as raised:
                daemon.call("CompareService", "AnswerPeer", job_id=123456, lease="x", number=1, alive=True)
        self.assertEqual(raised.exception.code, "NOT_FOUND")

    def test_a_client_that_falls_silent_loses_the_turn(self):
        """A process of its own, which its own peer stops."""
        import subprocess

        script = self.home / "stopped.py"
        script.write_text(f"import sys\nsys.path[:0] = {sys.path!r}\nimport compare_test\nimport tunectl\n"
                          "if __name__ == '__main__':\n"
                          f"    tunectl.compare({daemon_kit.SAXPY!r}, {{'stops': compare_test.stops}}, n=1000,\n"
                          f"                    arrays='buffers', address={self.address!r}, **compare_test.QUICK)\n")
        client = subprocess.Popen([sys.executable, str(script)], env=self.environ)
        try:
            for _ in range(1000):
                listed = json.loads(self.tunectl("compare", "list", "--json").stdout)["comparisons"]
                mine = [one for one in listed if "stops" in one["subject"]]
                if mine and mine[0]["state"] not in ("JOB_STATE_RUNNING", "JOB_STATE_QUEUED"):
                    break
                time.sleep(0.2)
        finally:
            client.kill()
            client.wait()
        self.assertEqual(mine[0]["state"], "JOB_STATE_DONE")
        shown = self.tunectl("compare", "show", mine[0]["id"], "--json").stdout
        self.assertIn("the client that runs it said nothing for 5s", shown)


if __name__ == "__main__":
    unittest.main()
