import math

import torch
from torch import nn
from torch.nn import functional as F

from rhythm import Corpus, make_text

STEPS = 120
BATCH = 24
WINDOW = 64


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norm2(x))


class CharModel(nn.Module):
    def __init__(self, letters, dim=64, layers=2, heads=4):
        super().__init__()
        self.letter = nn.Embedding(letters, dim)
        self.place = nn.Parameter(torch.zeros(WINDOW, dim))
        self.blocks = nn.Sequential(*(Block(dim, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, letters)

    def forward(self, codes):
        x = self.letter(codes) + self.place[: codes.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def loss_of(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


@torch.no_grad()
def held_loss(model, corpus):
    model.eval()
    total = count = 0
    for x, y in corpus.held_blocks(64):
        total += loss_of(model, x, y).item() * len(x)
        count += len(x)
    model.train()
    return total / count


def main():
    torch.manual_seed(11)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(12)
    corpus = Corpus(make_text(24_000, 13), WINDOW)
    model = CharModel(len(corpus.letters))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    plan = torch.optim.lr_scheduler.LambdaLR(opt, lambda n: 0.5 * (1 + math.cos(math.pi * n / STEPS)))
    smooth = None
    for step in range(STEPS):
        x, y = corpus.draw(BATCH, gen)
        opt.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        plan.step()
        value = loss.item()
        smooth = value if smooth is None else 0.95 * smooth + 0.05 * value
        if (step + 1) % 40 == 0:
            print(f"step {step + 1} loss {smooth:.2f} held {held_loss(model, corpus):.2f}")


if __name__ == "__main__":
    main()
