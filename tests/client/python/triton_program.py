# SPDX-License-Identifier: Apache-2.0
"""A program that nobody edits: it knows Triton alone."""
import triton_device  # the GPU
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (128, 256, 512) for warps in (2, 4)]


@triton.autotune(CONFIGS, key=["n"])
@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def negate(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, -tl.load(x + at, mask=at < n), mask=at < n)


@triton.autotune(CONFIGS, ["n"], pre_hook=lambda arguments, reset_only=False: None)
@triton.jit
def square(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * value, mask=at < n)


@triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def fixed(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def grid(meta):
    return (triton.cdiv(meta["n"], meta["BLOCK"]),)


if __name__ == "__main__":
    x, y = triton_device.Tensor(8192), triton_device.Tensor(8192)
    for function in (double, negate, square, fixed):
        for n in (4096, 8192):
            for _ in range(3):
                function[grid](x, y, n)
