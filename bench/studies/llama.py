# SPDX-License-Identifier: Apache-2.0
"""A Llama of `transformers` that trains with tuned attention beside the same model with PyTorch's attention.

Needs a GPU, PyTorch and transformers. With --tune it sweeps `attention` and `attention_backward` for these sizes first;
without, it takes the snapshot that TUNE_SNAPSHOT names.

    python3 bench/studies/llama.py --bin build/release/bin --tune

Prints JSON: losses of both models over the same steps, the largest difference of a gradient after the first step
over the largest gradient, step times by turns, and what ran the fallback.
"""
from __future__ import annotations

import argparse
import copy
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "client" / "python" / "src"))

import torch
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

import tunectl


def sdpa(q, k, v):
    """PyTorch's attention with the results of the kernel `attention`; it has no log-sum-exp to give."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), None


KERNEL = tunectl.kernel("attention", fallback=sdpa, causal=1)


def tuned_attention(module, query, key, value, attention_mask, **_):
    """`transformers` gives views of [batch, seq, heads, head_dim]; the kernel takes contiguous arrays."""
    assert attention_mask is None, "no padding in this study"
    out, _ = KERNEL(query.contiguous(), key.contiguous(), value.contiguous())
    return out.transpose(1, 2).contiguous(), None


def models(layers: int, width: int) -> dict[str, LlamaForCausalLM]:
    """Two models with the same weights."""
    AttentionInterface.register("tuned", tuned_attention)
    torch.manual_seed(1)
    config = LlamaConfig(hidden_size=width, intermediate_size=width * 11 // 4, num_hidden_layers=layers, vocab_size=8192,
                         num_attention_heads=width // 128, num_key_value_heads=width // 128,
                         attn_implementation="sdpa")
    first = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
    second = copy.deepcopy(first)
    second.set_attn_implementation("tuned")
    return {"sdpa": first, "tunectl": second}


class Trainer:
    def __init__(self, model: LlamaForCausalLM) -> None:
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def step(self, tokens: torch.Tensor) -> tuple[float, float]:
        """The loss, and the milliseconds of forward, backward and update."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        self.optimizer.step()
        end.record()
        end.synchronize()
        return loss.item(), start.elapsed_time(end)


def gradient_difference(first: torch.nn.Module, second: torch.nn.Module) -> float:
    pairs = list(zip(first.parameters(), second.parameters()))
    largest = max(one.grad.abs().max().item() for one, _ in pairs)
    return max((one.grad.float() - other.grad.float()).abs().max().item() for one, other in pairs) / largest


def tune(folder: pathlib.Path, sizes: dict[str, int], budget: str, out: pathlib.Path) -> None:
    """Leaves a snapshot with the binaries beside it."""
    dims = [word for name, value in sizes.items() for word in (f"--{name}", str(value))]
    for kernel in "attention", "attention_backward":
        subprocess.run([folder / "tunectl", "sweep", kernel, *dims, "--budget", budget], check=True, stdout=sys.stderr)
    subprocess.run([folder / "tunectl", "snapshot", "export", out, "--artifacts"], check=True, stdout=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="folder of tunectl")
    parser.add_argument("--tune", action="store_true", help="sweep both kernels first")
    parser.add_argument("--budget", default="30s", help="of each sweep, as for tunectl sweep")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=12)
    args = parser.parse_args()
    os.environ["PATH"] = f"{args.bin}:{os.environ['PATH']}"
    scratch = tempfile.TemporaryDirectory(prefix="tune-llama-")
    if args.tune:
        heads = args.width // 128
        sizes = {"batch": args.batch, "heads": heads, "kv_heads": heads, "seq": args.seq, "head_dim": 128, "causal": 1}
        os.environ["TUNE_SNAPSHOT"] = f"{scratch.name}/tuned.json"
        tune(args.bin, sizes, args.budget, pathlib.Path(os.environ["TUNE_SNAPSHOT"]))
    tunectl.open()
    trainers = {name: Trainer(model) for name, model in models(args.layers, args.width).items()}
    tokens = torch.randint(8192, (args.batch, args.seq), device="cuda", generator=torch.Generator("cuda").manual_seed(2))
    losses: dict[str, list[float]] = {name: [] for name in trainers}
    times: dict[str, list[float]] = {name: [] for name in trainers}
    difference = 0.0
    for step in range(args.steps):
        for name, trainer in trainers.items():
            loss, milliseconds = trainer.step(tokens)
            losses[name].append(loss)
            if step >= 3:
                times[name].append(milliseconds)
        if step == 0:
            difference = gradient_difference(*(one.model for one in trainers.values()))
    ratios = [ours / theirs for ours, theirs in zip(times["tunectl"], times["sdpa"])]
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "losses": losses,
                      "gradient_difference": difference, "milliseconds": times,
                      "step_ratio": {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)},
                      "fallbacks": list(KERNEL.notes)}, indent=1))


if __name__ == "__main__":
    main()
