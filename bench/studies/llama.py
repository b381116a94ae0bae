# SPDX-License-Identifier: Apache-2.0
"""A Llama of `transformers` that trains by tunectl.patch, beside the same model as it is, by Liger and by torch.compile.

Needs a GPU, PyTorch, transformers and, for the peer `liger`, liger-kernel. With --tune it sweeps the kernels for these
sizes first; without, it takes the snapshot that TUNE_SNAPSHOT names.

    python3 bench/studies/llama.py --bin build/release/bin --tune

The variant `kernel` has attention by tunectl.kernel alone, registered with transformers as a user would. Each variant
is a process of its own, since Liger's patch changes the whole process. They take turns of a few steps on the same tokens,
in another order each round. A turn's first step is not timed, and its memory is given back at the end.

Prints JSON, by variant: losses of the first steps, step times in milliseconds, peak memory of a step in MiB, the
largest difference of a gradient from `sdpa`'s over the largest gradient, ratios of step times to each of --over in
the same round, and the layers that tunectl runs with the reasons for fallbacks.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import math
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import statistics
import sys
import tempfile
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

ROOT = harness.ROOT

VARIANTS = ("sdpa", "liger", "compile", "kernel", "tunectl", "tunectl+compile")


@dataclasses.dataclass(frozen=True)
class Sizes:
    layers: int
    width: int
    batch: int
    seq: int
    vocab: int
    adamw: bool

    @property
    def inner(self) -> int:
        return self.width * 11 // 4

    @property
    def heads(self) -> int:
        return self.width // 128

    def kernels(self) -> list[tuple[str, dict[str, int]]]:
        """What a patched step launches."""
        tokens, heads = self.batch * self.seq, {"heads": self.heads, "kv_heads": self.heads, "head_dim": 128}
        attention = {"batch": self.batch, "seq": self.seq, "causal": 1, **heads}
        made = [("attention", attention), ("attention_backward", attention),
                ("rmsnorm", {"rows": tokens, "cols": self.width, "residual": 0}),
                ("rmsnorm_backward", {"rows": tokens, "cols": self.width}),
                ("swiglu", {"rows": tokens, "cols": self.inner}), ("swiglu_backward", {"rows": tokens, "cols": self.inner})]
        made += [("rope", {"seq": tokens, "batch": 1, "backward": mode, **heads}) for mode in (0, 1)]
        rows = min(tokens, max(1024, 1 << (tokens * self.width // self.vocab).bit_length() - 1))  # of linear_cross_entropy
        made.append(("cross_entropy", {"rows": rows, "cols": self.vocab, "gradient": 1}))
        if self.adamw:
            counts = {self.width, self.width * self.width, self.width * self.inner, self.width * self.vocab}
            made += [("adamw", {"n": count}) for count in sorted(counts)]
        return made


def attention_by_kernel(transformers) -> str:
    """Registers tunectl.kernel's attention; returns the name that a model's config takes."""
    import tunectl
    from torch.nn.functional import scaled_dot_product_attention

    tuned = tunectl.kernel("attention", returns="out", causal=1,
                           fallback=lambda q, k, v: scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True))

    def attend(module, query, key, value, mask, **more):
        return tuned(query, key, value).transpose(1, 2).contiguous(), None

    tunectl.open()
    transformers.AttentionInterface.register("tuned", attend)
    Trainer.by_kernel = tuned
    return "tuned"


class Trainer:
    """One variant, in its process."""

    by_kernel = None

    def __init__(self, name: str, sizes: Sizes) -> None:
        import torch
        import transformers

        if name == "liger":
            from liger_kernel.transformers import apply_liger_kernel_to_llama

            apply_liger_kernel_to_llama()
        self.torch = torch
        torch.manual_seed(1)
        attention = attention_by_kernel(transformers) if name == "kernel" else "sdpa"
        config = transformers.LlamaConfig(
            hidden_size=sizes.width, intermediate_size=sizes.inner, num_hidden_layers=sizes.layers, vocab_size=sizes.vocab,
            num_attention_heads=sizes.heads, num_key_value_heads=sizes.heads, attn_implementation=attention)
        self.model = transformers.LlamaForCausalLM(config).to("cuda", torch.bfloat16).train()
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, fused=True)
        if "tunectl" in name:
            import tunectl

            tunectl.open()
            tunectl.patch(self.model)
            if sizes.adamw:
                optimizer = tunectl.ops.AdamW(self.model.parameters(), lr=3e-4)
        self.optimizer = optimizer
        self.call = torch.compile(self.model) if "compile" in name else self.model
        drawn = torch.Generator("cuda").manual_seed(2)
        self.tokens = torch.randint(sizes.vocab, (sizes.batch, sizes.seq), device="cuda", generator=drawn)

    def step(self) -> tuple[float, float]:
        """The loss, and the milliseconds of forward, backward and update."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.call(input_ids=self.tokens, labels=self.tokens, use_cache=False).loss
        loss.backward()
        self.optimizer.step()
        end.record()
        end.synchronize()
        return loss.item(), start.elapsed_time(end)

    def turn(self, steps: int) -> dict:
        """Steps after one that is not timed."""
        cuda = self.torch.cuda
        losses = [self.step()[0]]
        cuda.reset_peak_memory_stats()
        times = []
        for _ in range(steps):
            loss, milliseconds = self.step()
            losses.append(loss)
            times.append(milliseconds)
        peak = cuda.max_memory_allocated() / 2**20
        cuda.empty_cache()
        return {"losses": losses, "milliseconds": times, "peak_mib": peak}

    def gradients(self, file: str, is_first: bool) -> dict:
        """The first writes its gradients of the last step, others compare theirs."""
        mine = {name: one.grad for name, one in self.model.named_parameters()}
        if is_first:
            self.torch.save({name: one.cpu() for name, one in mine.items()}, file)
            return {}
        theirs = self.torch.load(file, mmap=True)
        largest = max(one.abs().max().item() for one in theirs.values())
        return {"gradient_difference": max((one.float() - theirs[name].cuda().float()).abs().max().item()
                                           for name, one in mine.items()) / largest}

    def about(self) -> dict:
        made = {"device": self.torch.cuda.get_device_name(), "torch": self.torch.__version__}
        if self.by_kernel is not None:
            made |= {"fallbacks": self.by_kernel.notes}
        elif "tunectl" in sys.modules:
            import tunectl

            report = tunectl.patched(self.model)
            made |= {"layers": report.layers, "left": report.left, "fallbacks": report.notes}
        return made


def serve(pipe: multiprocessing.connection.Connection, name: str, sizes: Sizes) -> None:
    """A variant's process: makes calls of its Trainer until the pipe closes."""
    try:
        trainer = Trainer(name, sizes)
        pipe.send({})
        while True:
            method, arguments = pipe.recv()
            pipe.send(getattr(trainer, method)(*arguments))
    except EOFError:
        pass
    except Exception:  # the study goes on without this variant
        pipe.send({"error": traceback.format_exc()})


class Variant:
    def __init__(self, name: str, sizes: Sizes) -> None:
        context = multiprocessing.get_context("spawn")
        self.name, self.error = name, ""
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other, name, sizes), daemon=True)
        self._process.start()
        other.close()
        self._answer()

    def ask(self, method: str, *arguments: object) -> dict:
        """{} if the variant has failed."""
        if self.error:
            return {}
        self._pipe.send((method, arguments))
        return self._answer()

    def _answer(self) -> dict:
        try:
            made = self._pipe.recv()
        except EOFError:
            made = {"error": "its process ended"}
        self.error = made.pop("error", "")
        if self.error:
            print(f"{self.name}: {self.error}", file=sys.stderr)
        return made


def tune(folder: pathlib.Path, sizes: Sizes, budget: str, out: pathlib.Path) -> None:
    """Leaves a snapshot with the binaries beside it."""
    with harness.Service(folder) as service:
        for kernel, dims in sizes.kernels():
            service.sweep(kernel, dims, "--dtype", "bf16", "--budget", budget)
        service.text("snapshot", "export", out, "--artifacts")


def ratios(times: dict[str, list[float]], over: str) -> dict[str, dict[str, float]]:
    """Step times of each variant over those of another, round by round."""
    made = {}
    for name, own in times.items():
        each = [mine / theirs for mine, theirs in zip(own, times.get(over, ()))]
        if each and name != over:
            mean = statistics.fmean(each)
            half = 1.96 * statistics.stdev(each) / math.sqrt(len(each)) if len(each) > 1 else math.nan
            made[name] = {"mean": mean, "low": mean - half, "high": mean + half}
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of tunectl")
    parser.add_argument("--tune", action="store_true", help="sweep the kernels first")
    parser.add_argument("--budget", default="20s", help="of each sweep, as for tunectl sweep")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--over", nargs="+", default=("sdpa", "liger"), help="variants that ratios are over")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--adamw", action="store_true", help="tunectl.ops.AdamW in tunectl's variants; its moments are f32")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=4, help="timed steps of a turn")
    args = parser.parse_args()
    sizes = Sizes(args.layers, args.width, args.batch, args.seq, args.vocab, args.adamw)
    os.environ["PATH"] = f"{args.bin}:{os.environ['PATH']}"
    scratch = tempfile.TemporaryDirectory(prefix="tune-llama-")
    if args.tune:
        os.environ["TUNE_SNAPSHOT"] = f"{scratch.name}/tuned.json"
        tune(args.bin, sizes, args.budget, pathlib.Path(os.environ["TUNE_SNAPSHOT"]))
    variants, results = [], {}
    for name in args.variants:  # one after the other: the first step compiles
        one = Variant(name, sizes)
        results[name] = one.ask("turn", 0)
        results[name] |= one.ask("gradients", f"{scratch.name}/gradients", name == args.variants[0])
        variants.append(one)
    times: dict[str, list[float]] = {one.name: [] for one in variants if not one.error}
    for index in range(args.rounds):
        turned = variants[index % len(variants):] + variants[:index % len(variants)]
        for one in turned:
            made = one.ask("turn", args.steps)
            if made:
                results[one.name]["losses"] += made["losses"]
                results[one.name]["peak_mib"] = made["peak_mib"]
                times[one.name].append(statistics.median(made["milliseconds"]))
    for one in variants:
        results[one.name] |= one.ask("about") | {"milliseconds": times.get(one.name, []), "error": one.error}
    print(json.dumps({"sizes": dataclasses.asdict(sizes), "variants": results,
                      "step_ratio": {over: ratios(times, over) for over in args.over}}, indent=1))


if __name__ == "__main__":
    main()
