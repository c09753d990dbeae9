"""Triton, by the driver API: ten launches of a kernel called `axpy`."""

import torch
import triton
import triton.language as tl


@triton.jit
def axpy(x_ptr, y_ptr, a, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    y = tl.load(y_ptr + offsets, mask=mask) + a * tl.load(x_ptr + offsets, mask=mask)
    tl.store(y_ptr + offsets, y, mask=mask)


def launch() -> None:
    x, y = torch.ones(1 << 20, device="cuda"), torch.zeros(1 << 20, device="cuda")
    for _ in range(10):
        axpy[((1 << 20) // 256,)](x, y, 2.0, 1 << 20, BLOCK=256)
    assert y[0].item() == 20


launch()
