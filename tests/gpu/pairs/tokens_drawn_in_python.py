"""Each token is drawn in Python from a list of probabilities; the twin draws on the GPU."""

import torch
import twins

VOCABULARY, WIDTH = 20_000, 512
torch.manual_seed(0)
embedding = torch.randn(VOCABULARY, WIDTH, device="cuda", dtype=torch.bfloat16)
out = torch.randn(WIDTH, VOCABULARY, device="cuda", dtype=torch.bfloat16) / WIDTH


def draw(probabilities, at):
    total = 0.0
    for token, probability in enumerate(probabilities):
        total += probability
        if total >= at:
            return token
    return len(probabilities) - 1


def fault(steps):
    token = 0
    for _ in range(steps):
        logits = torch.tanh(embedding[token]) @ out
        token = draw(torch.softmax(logits.float(), 0).tolist(), 0.999)
    return token


def mended(steps):
    token = torch.zeros(1, dtype=torch.int64, device="cuda")
    at = torch.full((1,), 0.999, device="cuda")
    for _ in range(steps):
        logits = torch.tanh(embedding.index_select(0, token)[0]) @ out
        token = torch.searchsorted(torch.softmax(logits.float(), 0).cumsum(0), at)
    return token.item()


twins.run(600, fault, mended, torch.cuda.synchronize)
