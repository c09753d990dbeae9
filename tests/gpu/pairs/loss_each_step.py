"""The loss is read in each step, and the metrics in Python after it leave the GPU idle; the twin
reads it a step later."""

import torch
import twins

torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(2048, 2048) for _ in range(8))).cuda()
batch = torch.randn(16384, 2048, device="cuda")


def metrics(loss, seen):
    seen.append(loss)
    return sum(value * value for _ in range(200) for value in seen[-200:])


def loss_of():
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        return model(batch).square().mean()


def fault(steps):
    seen = []
    for _ in range(steps):
        metrics(loss_of().item(), seen)
    return len(seen)


def mended(steps):
    seen, before = [], None
    for _ in range(steps):
        loss = torch.empty((), pin_memory=True).copy_(loss_of(), non_blocking=True)
        ready = torch.cuda.Event()
        ready.record()
        if before is not None:
            before[1].synchronize()
            metrics(before[0].item(), seen)
        before = loss, ready
    before[1].synchronize()
    metrics(before[0].item(), seen)
    return len(seen)


twins.run(300, fault, mended, torch.cuda.synchronize)
