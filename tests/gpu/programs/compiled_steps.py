"""torch.compile: ten calls of a compiled function and its backward pass."""

import torch


@torch.compile
def f(x):
    return (x.sin() * x.cos()).sum()


def launch() -> None:
    x = torch.randn(1 << 16, device="cuda", requires_grad=True)
    for _ in range(10):
        f(x).backward()
    torch.cuda.synchronize()


launch()
