"""Activations are kept in single precision and cast around each layer; the twin keeps bfloat16."""

import torch
import twins

torch.manual_seed(0)
layers = [torch.nn.Linear(1024, 1024).cuda().bfloat16() for _ in range(8)]
batch = torch.randn(1 << 16, 1024, device="cuda")


@torch.no_grad()
def fault(steps):
    for _ in range(steps):
        x = batch
        for layer in layers:
            x = layer(x.bfloat16()).float()
    return x.shape


@torch.no_grad()
def mended(steps):
    for _ in range(steps):
        x = batch.bfloat16()
        for layer in layers:
            x = layer(x)
        x = x.float()
    return x.shape


twins.run(400, fault, mended, torch.cuda.synchronize)
