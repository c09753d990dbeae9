"""Products in FP32; the twin allows TF32."""

import torch
import twins

torch.manual_seed(0)
a, b = (torch.randn(4096, 4096, device="cuda") / 64 for _ in range(2))


def products(steps):
    for _ in range(steps):
        x = a @ b
    return x.shape


def fault(steps):
    torch.set_float32_matmul_precision("highest")
    return products(steps)


def mended(steps):
    torch.set_float32_matmul_precision("high")
    return products(steps)


twins.run(600, fault, mended, torch.cuda.synchronize)
