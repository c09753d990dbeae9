"""Batches of 64 MiB are copied from pageable memory; the twin has them in pinned memory."""

import torch
import twins

weight = torch.full((4096, 4096), 1e-4, device="cuda")
pageable = [torch.ones(4096, 4096) for _ in range(4)]


def train(steps, batches, **how):
    total = torch.zeros((), device="cuda")
    for step in range(steps):
        batch = batches[step % len(batches)].to("cuda", **how)
        total += (batch @ weight).mean()
    return total.item()


def fault(steps):
    return train(steps, pageable)


def mended(steps):
    return train(steps, [batch.pin_memory() for batch in pageable], non_blocking=True)


twins.run(240, fault, mended, torch.cuda.synchronize)
