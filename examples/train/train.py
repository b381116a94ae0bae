# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer on the bytes of a text, with tuned kernels or without.

    python examples/train/train.py --ops tunectl --out tuned.json
    python examples/train/train.py --ops eager --out eager.json
    python examples/train/compare.py tuned.json eager.json
    torchrun --nproc-per-node 2 examples/train/train.py --ops tunectl

docs/training-jobs.md takes you through it.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed.nn  # before there is a group: see ranks
import torch.nn.functional as F

import model
import ops
import tunectl

TEXT = pathlib.Path(__file__).with_name("shakespeare.txt")
WARM_STEPS = 5  # compiling, loading, caches: not timed


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--ops", choices=("tunectl", "eager", "compile", "tunectl-compile"), default="tunectl",
                        help="tuned kernels or the framework's own operations, each as they are or, with compile, in a model "
                             "compiled by torch.compile")
    parser.add_argument("--size", choices=model.SIZES, help="tiny on a CPU, small on a GPU by default")
    parser.add_argument("--device", choices=("cuda", "cpu"), help="by default a GPU where there is one")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of the weights and of the order of the text")
    parser.add_argument("--nudge", type=int, default=0,
                        help="not 0: changes each weight by about its rounding at the start, drawn from this seed: what "
                             "noise alone does to the losses")
    parser.add_argument("--deadline", type=float, default=5.0, help="seconds that a daemon may take, once")
    parser.add_argument("--text", type=pathlib.Path, default=TEXT)
    parser.add_argument("--out", type=pathlib.Path, help="losses and step times, as JSON")
    arguments = parser.parse_args()
    if not arguments.text.is_file():
        parser.error(f"--text {arguments.text}: there is no such file")
    if arguments.out and not arguments.out.absolute().parent.is_dir():  # before the training, not after it
        parser.error(f"--out {arguments.out}: there is no folder {arguments.out.absolute().parent}")
    on_gpu = torch.cuda.is_available()
    if arguments.device == "cuda" and not on_gpu:
        parser.error("--device cuda: PyTorch sees no GPU here; --device cpu, or without --device, runs on the CPU")
    arguments.device = arguments.device or ("cuda" if on_gpu else "cpu")
    return arguments


@contextlib.contextmanager
def ranks(kind):
    """Yields rank, count, device, which is of the kind. torchrun sets the environment; without it there is one rank.

    torch.distributed.nn keeps the group that is there when it is imported, as defaults of its functions, and making an
    optimizer imports it. A group that is kept outlives destroy_process_group, and its threads may end the process with
    SIGABRT at its exit. So it is imported above.
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    on_gpu = kind == "cuda"
    device = torch.device(kind, int(os.environ.get("LOCAL_RANK", "0"))) if on_gpu else torch.device(kind)
    if on_gpu:
        torch.cuda.set_device(device)
    if count > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield (dist.get_rank() if count > 1 else 0), count, device
    finally:
        if count > 1:
            dist.destroy_process_group()


def agree_on_the_snapshot(client, count):
    """One snapshot on all ranks, or no job: else a rank could wait for another forever."""
    digests = [client.digest]
    if count > 1:
        digests = [None] * count
        dist.all_gather_object(digests, client.digest)
    if len(set(digests)) > 1:
        raise SystemExit(f"the ranks read different snapshots: {digests}; pin one with TUNE_SNAPSHOT")


def batches(text, size, rank, count, seed, device):
    """Each rank draws the batch of all ranks, and takes its share."""
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8)
    draw = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(data) - size.seq - 1, (size.batch * count,), generator=draw)
        mine = starts[rank * size.batch:(rank + 1) * size.batch]
        rows = torch.stack([data[start:start + size.seq + 1] for start in mine]).long().to(device)
        yield rows[:, :-1], rows[:, 1:]


def nudge(network, seed, dtype):
    """By a millionth, or where rounding alone is more than that, by a quarter of what the dtype tells apart."""
    draw = torch.Generator().manual_seed(seed)
    size = max(1e-6, torch.finfo(dtype).eps / 4)
    with torch.no_grad():
        for weight in network.parameters():
            noise = torch.randn(weight.shape, generator=draw).to(weight)
            weight.mul_(1 + size * noise)


def build(arguments, size, device):
    torch.manual_seed(arguments.seed)
    network = model.Transformer(size, ops.tuned() if arguments.ops.startswith("tunectl") else ops.eager())
    if arguments.nudge:
        nudge(network, arguments.nudge, size.dtype)
    tables = {name: buffer for name, buffer in network.named_buffers()}
    network.to(device=device, dtype=size.dtype)
    for name, table in tables.items():  # rope's kernel reads its tables in f32
        setattr(network, name, table.to(device))
    return network


def average(network, count):
    for weight in network.parameters():
        dist.all_reduce(weight.grad)
        weight.grad /= count


def train(arguments, size, rank, count, device):
    """The loss of each step, and the seconds that each took."""
    network = build(arguments, size, device)
    forward = torch.compile(network) if arguments.ops.endswith("compile") else network
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0,
                                  fused=device.type == "cuda")
    feed = batches(arguments.text.read_bytes(), size, rank, count, arguments.seed, device)
    losses, seconds = [], []
    for step in range(arguments.steps):
        given, wanted = next(feed)
        start = time.perf_counter()
        logits = forward(given)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        if count > 1:
            average(network, count)
        optimizer.step()
        value = loss.detach()
        if count > 1:
            dist.all_reduce(value)
            value /= count
        losses.append(float(value))  # waits for the device
        seconds.append(time.perf_counter() - start)
        if rank == 0 and (step % 10 == 0 or step == arguments.steps - 1):
            print(f"step {step:4}  loss {losses[-1]:.4f}  {seconds[-1] * 1e3:.1f} ms", flush=True)
    return losses, seconds


def main():
    arguments = parse()
    with ranks(arguments.device) as (rank, count, device):
        client = tunectl.open(deadline=arguments.deadline)
        agree_on_the_snapshot(client, count)
        size = model.SIZES[arguments.size or ("small" if device.type == "cuda" else "tiny")]
        losses, seconds = train(arguments, size, rank, count, device)
        timed = seconds[WARM_STEPS:] or seconds
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)
        result = {"ops": arguments.ops, "ranks": count, "device": name, "torch": torch.__version__,
                  "snapshot": client.digest, "losses": losses, "step_ms_median": statistics.median(timed) * 1e3,
                  "fallbacks": {name: list(kernel.notes) for name, kernel in ops.KERNELS.items() if kernel.notes}}
        print(f"rank {rank} of {count}: snapshot {client.digest or 'none'} from {client.source}, "
              f"{result['step_ms_median']:.2f} ms a step", flush=True)
        if rank == 0 and arguments.out:
            arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
