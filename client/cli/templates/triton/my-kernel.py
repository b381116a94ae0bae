"""y = x / (1 + exp(-x)). BLOCK is a param of the spec; it arrives as a constexpr."""
import triton
import triton.language as tl


@triton.jit
def my_kernel(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n)
    tl.store(y + i, value / (1.0 + tl.exp(-value)), mask=i < n)
