# SPDX-License-Identifier: Apache-2.0
"""The cases of bench/peers: kernels of the catalogue, problems that their specs allow, peers that take their arguments."""
import functools
import importlib.util
import inspect
import itertools
import os
import pathlib
import pickle
import struct
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench/peers"), str(ROOT / "bench")]
try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
except ImportError:
    print("protobuf is not installed")
    sys.exit(77)

import cases  # noqa: E402
import run  # noqa: E402

import tunectl  # noqa: E402
from tunectl import _peer  # noqa: E402


def spec_type():
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(os.environ["TUNE_PROTO_SET"]).read_bytes())
    for file in files.file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tune.v1.KernelSpec"))


SPEC = spec_type()


@functools.cache
def spec_of(kernel):
    path = pathlib.Path(kernel) if kernel.endswith(".textproto") else ROOT / f"kernels/{kernel}/{kernel}.textproto"
    return text_format.Parse(path.read_text(), SPEC())


def function_of(peer):
    return peer.prepare if isinstance(peer, tunectl.Peer) else getattr(peer, "forward", peer)


SMALL = {"rows": 6, "cols": 64, "m": 48, "n": 64, "k": 64, "batch": 2, "heads": 4, "kv_heads": 2, "seq": 256, "head_dim": 64,
         "layers": 1, "hidden": 64, "kv": 32, "ffn": 96}
FUNCTIONS = {"ceil_div": lambda a, b: -(-a // b), "min": min, "max": max}
# Peers that need nothing but PyTorch, and no GPU.
PLAIN = {"eager", "formula", "math", "cublas", "sequence", "torch_fused", "foreach"}


class Names(dict):
    """Dims and what the spec derives from them, when a shape asks for it."""

    def __init__(self, spec, dims, dtype):
        super().__init__({dim.name: dim.default_value for dim in spec.dims} | dims
                         | {"dtype": dtype, "dtype_bytes": 2, "target": "cpu", "sm": 0})
        self.lets = {let.name: let.value for let in spec.lets}

    def __missing__(self, name):
        if name not in self.lets:
            raise KeyError(name)
        return self(self.lets[name])

    def __call__(self, text):
        return eval(text, FUNCTIONS, self)  # noqa: S307


def order_of(case):
    """A check of the case's kernel at a small size, as a daemon orders it."""
    spec = spec_of(case.kernel)
    dims = {name: SMALL.get(name, size) for name, size in case.dims.items()}
    names, args = Names(spec, dims, case.dtype), []
    for arg in spec.args:
        if arg.WhichOneof("kind") == "scalar":
            args.append({"name": arg.name, "dtype": arg.scalar.dtype, "scalar": names(arg.scalar.value)})
        elif arg.WhichOneof("kind") == "buffer" and arg.buffer.role != 4:
            args.append(buffer_of(arg, names, case.dtype))
    problem = {dim.name: names[dim.name] for dim in spec.dims}
    return {"args": args, "dims": problem, "dtype": case.dtype, "seed": 1, "target": "cpu", "device_uuid": "", "cold": False,
            "check": True, "samples_min": 1, "samples_max": 1, "kernel_seconds": 1e-9}


def buffer_of(arg, names, dtype):
    fill, elements = arg.buffer.fill, None
    kind = arg.buffer.dtype if arg.buffer.dtype != "dtype" and " " not in arg.buffer.dtype else dtype
    shape = [int(names(text)) for text in arg.buffer.shape]
    low = names(fill.low_expression) if fill.low_expression else fill.low
    high = names(fill.high_expression) if fill.high_expression else fill.high
    if fill.kind == 12:  # OFFSETS
        lengths = names(fill.lengths)
        offsets = itertools.accumulate(itertools.cycle(lengths), initial=0)
        elements = struct.pack(f"<{shape[0]}q", *itertools.islice(offsets, shape[0]))
    usual = 1 if kind in ("bf16", "f16", "f32") else 2
    return {"name": arg.name, "dtype": kind, "shape": shape, "role": arg.buffer.role, "kind": fill.kind or usual, "low": low,
            "high": high, "key": arg.name, "elements": elements}


@unittest.skipUnless(importlib.util.find_spec("torch"), "PyTorch is not installed")
class PeersTest(unittest.TestCase):
    def test_peers_give_the_kernels_outputs_and_agree(self):
        tried = set()
        for family, every in cases.FAMILIES.items():
            for case in every if family != cases.ANY_HOST else []:
                key = (case.kernel, case.dtype, *(size for name, size in case.dims.items() if name not in SMALL))
                if key in tried or case.dtype == "e4m3":
                    continue
                tried.add(key)
                order, results = order_of(case), {}
                for label, peer in case.peers.items():
                    if label not in PLAIN:
                        continue
                    with self.subTest(family=family, kernel=case.kernel, problem=order["dims"], peer=label):
                        answer = _peer.turn(peer, "torch", order)
                        self.assertEqual(answer["message"], "")
                        if not answer["unchecked"]:
                            results[label] = answer["outputs"]
                self.check_agreement(case, order, results)

    def check_agreement(self, case, order, results):
        import torch
        types = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
        for output in (arg for arg in order["args"] if arg.get("role") in (2, 3)):
            values = [torch.frombuffer(bytearray(one[output["name"]]), dtype=types[output["dtype"]]).float()
                      for one in results.values()]
            for value in values:
                with self.subTest(kernel=case.kernel, problem=order["dims"], output=output["name"], peers=list(results)):
                    self.assertFalse(value.isnan().any())
                    torch.testing.assert_close(value, values[0], atol=3e-2, rtol=3e-2)


class CasesTest(unittest.TestCase):
    def test_problems_are_legal_for_all_kernels_that_take_part(self):
        for family, case in ((family, case) for family, every in cases.FAMILIES.items() for case in every):
            sizes = {**case.dims, case.sizes[0]: case.sizes[1][0]}
            for kernel in (case.kernel, *(name.rpartition("=")[2] for name in case.also)):
                with self.subTest(family=family, kernel=kernel, problem=case.subject):
                    spec = spec_of(kernel)
                    self.assertIn(case.dtype, spec.dtypes)
                    dims = {dim.name: dim for dim in spec.dims}
                    for problem in (case.dims, sizes):
                        self.assertLessEqual(set(problem), set(dims))
                        for name, size in problem.items():
                            dim = dims[name]
                            self.assertTrue(size in dim.values if dim.values else
                                            dim.min <= size and (not dim.max or size <= dim.max), (name, size))

    def test_peers_take_arguments_of_the_kernel_and_run_in_processes_of_their_own(self):
        for family, case in ((family, case) for family, every in cases.FAMILIES.items() for case in every):
            spec = spec_of(case.kernel)
            known = {"stream"} | {one.name for one in (*spec.args, *spec.dims)}
            for label, peer in case.peers.items():
                with self.subTest(family=family, kernel=case.kernel, peer=label):
                    pickle.dumps(peer)
                    needed = {name for name, one in inspect.signature(function_of(peer)).parameters.items()
                              if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)}
                    self.assertLessEqual(needed, known)

    def test_a_problem_stands_in_one_case_of_a_family(self):
        for family, every in cases.FAMILIES.items():
            subjects = [(case.kernel, case.subject, case.dtype, *case.dims.items()) for case in every]
            self.assertEqual(len(set(subjects)), len(subjects), family)

    def test_a_row_has_ratios_with_intervals_and_says_who_is_missing(self):
        case = cases.FAMILIES["gemm"][0]
        figure = {"time_ns": 2000.0, "time_low_ns": 1990.0, "time_high_ns": 2010.0, "n": 7, "flops": 4.0, "bytes": 8.0,
                  "config": {"A": 1}, "clock": "cupti"}
        peer = {**figure, "time_ns": 3000.0, "ratio": 1.5, "ratio_low": 1.4, "ratio_high": 1.6, "clock": "events"}
        row = run.row_of("r", case, [{**figure, "label": "gemm"}, {**peer, "label": "cublas"}, {**peer, "label": "quack"}],
                         {"quack": "no module"})
        self.assertEqual((row["value"], row["low"], row["high"], row["unit"], row["flop"]), (2.0, 1.99, 2.01, "us", 4.0))
        self.assertEqual((row["against"], row["ratios"]), ({"cublas": [3.0]}, {"cublas": [1.5, 1.4, 1.6]}))
        self.assertEqual((row["clocks"], row["missing"]), ({"cublas": "events"}, {"quack": "no module"}))


if __name__ == "__main__":
    unittest.main()
