"""Each sample's label is copied by itself; the twin copies those of a batch together."""

import torch
import twins

BATCH = 512
samples = [(torch.full((16,), float(number)), number % 10) for number in range(BATCH)]
weight = torch.full((16, 10), 1e-3, device="cuda")


def step(features, labels):
    return torch.nn.functional.cross_entropy(features @ weight, labels)


def fault(steps):
    for _ in range(steps):
        features = torch.stack([sample.cuda() for sample, _ in samples])
        labels = torch.stack([torch.tensor(label).cuda() for _, label in samples])
        loss = step(features, labels)
    return loss.item()


def mended(steps):
    for _ in range(steps):
        features = torch.stack([sample for sample, _ in samples]).cuda()
        labels = torch.tensor([label for _, label in samples]).cuda()
        loss = step(features, labels)
    return loss.item()


twins.run(100, fault, mended, torch.cuda.synchronize)
