"""PyTorch's cache is emptied after each step, so that memory is allocated anew; the twin keeps
it."""

import torch
import twins

torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(12))).cuda()
batch = torch.randn(8192, 1024, device="cuda")


def train(steps, after):
    for _ in range(steps):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch).square().mean()
        loss.backward()
        model.zero_grad(set_to_none=True)
        after()
    return round(loss.item(), 2)


def fault(steps):
    return train(steps, torch.cuda.empty_cache)


def mended(steps):
    return train(steps, lambda: None)


twins.run(120, fault, mended, torch.cuda.synchronize)
