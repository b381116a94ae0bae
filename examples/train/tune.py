# SPDX-License-Identifier: Apache-2.0
"""Sweeps what train.py launches at a size: each kernel, forward and backward.

    python examples/train/tune.py                      # on this host's first device
    python examples/train/tune.py --size tiny --device cpu --budget 3s

Needs no PyTorch, so that it runs where the daemon is. A second time it goes on where it stopped.
"""
import argparse
import os
import shutil
import subprocess
import sys

# As model.py has them; heads, head_dim, hidden, seq, batch, dtype.
SIZES = {"tiny": (2, 64, 256, 64, 8, "f32"), "small": (12, 64, 2048, 1024, 16, "bf16")}

# Of tunectl's exit codes: done, failed, no config was ok. The other kernels do not depend on it.
GO_ON = (0, 1, 4)


def workloads(size):
    """Kernels with their dims. Softmax is for f32; what has less has an attention kernel."""
    heads, head_dim, hidden, seq, batch, dtype = SIZES[size]
    rows = {"rows": seq * batch}
    turned = {"seq": seq, "batch": batch, "heads": heads, "kv_heads": heads, "head_dim": head_dim, "interleaved": 0}
    found = []
    for direction in ("", "_backward"):
        found.append((f"rmsnorm{direction}", {**rows, "cols": heads * head_dim}))
        found.append((f"swiglu{direction}", {**rows, "cols": hidden}))
        found.append(("rope", {**turned, "backward": int(bool(direction))}))
        if dtype == "f32":
            found.append((f"softmax{direction}", {"rows": batch * heads * seq, "cols": seq}))
        else:
            found.append((f"attention{direction}", {"batch": batch, "heads": heads, "kv_heads": heads, "seq": seq,
                                                    "head_dim": head_dim, "causal": 1}))
    return [(kernel, dims, dtype) for kernel, dims in found]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--device", default="", help="as tunectl takes it; by default its own choice")
    parser.add_argument("--budget", default="30s", help="of each sweep")
    parser.add_argument("--tunectl", default=os.environ.get("TUNECTL", "tunectl"), help="the program")
    arguments = parser.parse_args()
    if not shutil.which(arguments.tunectl):
        parser.error(f"there is no program {arguments.tunectl}: put it on the PATH, as `export PATH=$PWD/build/release/bin:$PATH` "
                     "does in a clone that was built, or name it by --tunectl")
    failed = []
    for kernel, dims, dtype in workloads(arguments.size):
        flags = [part for name, value in dims.items() for part in (f"--{name}", str(value))]
        if arguments.device:
            flags += ["--device", arguments.device]
        done = subprocess.run([arguments.tunectl, "sweep", kernel, *flags, "--dtype", dtype, "--budget",
                               arguments.budget], check=False)
        if done.returncode not in GO_ON:
            print(f"{kernel}: tunectl ended with {done.returncode}, so nothing more is tuned", file=sys.stderr)
            return done.returncode
        if done.returncode != 0:
            failed.append(kernel)
    if failed:
        print(f"no config was found for {', '.join(dict.fromkeys(failed))}: train.py takes PyTorch's own there; a longer --budget may "
              "find one", file=sys.stderr)
    return 4 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
