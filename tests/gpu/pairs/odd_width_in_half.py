"""Products in half precision whose width is odd; the twin pads it to a multiple of 8."""

import torch
import twins

torch.manual_seed(0)


def products(steps, width):
    a = torch.randn(4096, width, device="cuda", dtype=torch.float16)
    b = torch.randn(width, 4095 if width % 8 else 4096, device="cuda", dtype=torch.float16)
    for _ in range(steps):
        x = a @ b
    return x.dtype


def fault(steps):
    return products(steps, 4095)


def mended(steps):
    return products(steps, 4096)


twins.run(1200, fault, mended, torch.cuda.synchronize)
