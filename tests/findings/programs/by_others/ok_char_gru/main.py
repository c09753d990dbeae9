"""Trains a character-level GRU and reports validation perplexity."""
import math

import torch
from torch import nn

from corpus import build_text, encode, windows

LENGTH = 40
BATCH = 128
EPOCHS = 3


class CharModel(nn.Module):
    def __init__(self, symbols, width=128):
        super().__init__()
        self.embed = nn.Embedding(symbols, 32)
        self.gru = nn.GRU(32, width, batch_first=True)
        self.out = nn.Linear(width, symbols)

    def forward(self, ids):
        hidden, _ = self.gru(self.embed(ids))
        return self.out(hidden)


def train_epoch(model, optimiser, inputs, targets, generator):
    model.train()
    total = torch.zeros(())
    order = torch.randperm(len(inputs), generator=generator)
    for rows in order.split(BATCH):
        logits = model(inputs[rows])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets[rows].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        total += loss.detach() * len(rows)
    return total.item() / len(inputs)


@torch.inference_mode()
def perplexity(model, inputs, targets):
    model.eval()
    logits = model(inputs)
    return math.exp(nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).item())


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    ids, alphabet = encode(build_text(3_000))
    inputs, targets = windows(ids, LENGTH)
    split = int(len(inputs) * 0.9)
    model = CharModel(len(alphabet))
    optimiser = torch.optim.AdamW(model.parameters(), lr=4e-3)
    generator = torch.Generator().manual_seed(2)
    for _ in range(EPOCHS):
        loss = train_epoch(model, optimiser, inputs[:split], targets[:split], generator)
    score = perplexity(model, inputs[split:], targets[split:])
    print(f"symbols={len(alphabet)} windows={len(inputs)}")
    print(f"loss={loss:.2f} validation_perplexity={score:.2f}")


if __name__ == "__main__":
    main()
