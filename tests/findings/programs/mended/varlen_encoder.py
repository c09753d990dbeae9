"""Train a compiled bag-of-tokens encoder on sentences of different length."""
import random

import torch
from torch import nn
import torch._dynamo

torch._dynamo.config.cache_size_limit = 64


class Encoder(nn.Module):
    def __init__(self, vocab=2000, dim=64, heads=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.heads = heads
        self.ff = nn.Sequential(nn.Linear(dim, 256), nn.GELU(), nn.Linear(256, dim))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 5)

    def forward(self, tokens):
        x = self.embed(tokens)
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        att = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, dim=-1)
        x = self.norm(x + (att @ v).transpose(1, 2).reshape(b, t, d))
        x = x + self.ff(x)
        return self.head(x.mean(1))


def sentences(steps, batch, seed):
    rnd = random.Random(seed)
    gen = torch.Generator().manual_seed(seed)
    lengths = [16, 20, 24, 28, 32, 36, 40, 44]
    for _ in range(steps):
        length = rnd.choice(lengths)
        tokens = torch.randint(0, 2000, (batch, length), generator=gen)
        yield tokens, tokens.sum(1) % 5


def main():
    torch.manual_seed(0)
    model = Encoder()
    step_fn = torch.compile(model, backend="aot_eager", dynamic=True)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for step, (tokens, label) in enumerate(sentences(80, 32, 1)):
        loss = nn.functional.cross_entropy(step_fn(tokens), label)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
