"""The last product has a vocabulary of 50,257; the twin's is padded to 50,304."""

import torch
import twins

torch.manual_seed(0)
hidden = torch.randn(4096, 768, device="cuda", dtype=torch.float16)


def products(steps, vocabulary):
    weight = torch.randn(768, vocabulary, device="cuda", dtype=torch.float16)
    for _ in range(steps):
        x = hidden @ weight
    return x.dtype


def fault(steps):
    return products(steps, 50_257)


def mended(steps):
    return products(steps, 50_304)


twins.run(500, fault, mended, torch.cuda.synchronize)
