"""Pictures change their memory layout before and after each convolution; the twin keeps one."""

import torch
import twins

torch.manual_seed(0)
LAST = torch.channels_last
layers = [
    torch.nn.Conv2d(64, 64, 3, padding=1).cuda().half().to(memory_format=LAST) for _ in range(6)
]
pictures = torch.randn(32, 64, 112, 112, device="cuda", dtype=torch.float16)


@torch.no_grad()
def fault(steps):
    for _ in range(steps):
        x = pictures
        for layer in layers:
            x = layer(x.contiguous(memory_format=LAST)).contiguous()
    return x.shape


@torch.no_grad()
def mended(steps):
    for _ in range(steps):
        x = pictures.contiguous(memory_format=LAST)
        for layer in layers:
            x = layer(x)
        x = x.contiguous()
    return x.shape


twins.run(600, fault, mended, torch.cuda.synchronize)
