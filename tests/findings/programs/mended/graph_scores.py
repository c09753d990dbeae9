"""Two-tower retrieval: train briefly, then evaluate mean reciprocal rank."""
import torch
from torch import nn


class Tower(nn.Module):
    def __init__(self, dim_in=64, dim=96):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim_in, 512), nn.ReLU(), nn.Linear(512, dim))

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=-1)


def pairs(n, gen):
    q = torch.randn(n, 64, generator=gen)
    return q, q.roll(1, dims=1) + 0.3 * torch.randn(n, 64, generator=gen)


def train(left, right, gen, steps=120, batch=512):
    params = list(left.parameters()) + list(right.parameters())
    opt = torch.optim.Adam(params, 1e-3)
    target = torch.arange(batch)
    for _ in range(steps):
        q, d = pairs(batch, gen)
        logits = left(q) @ right(d).T * 12
        loss = nn.functional.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def reciprocal_ranks(scores):
    """scores[i, j]: query i against document j; the right answer is j == i."""
    ranks = 1 + (scores > scores.diagonal()[:, None]).sum(1)
    return (1.0 / ranks.double()).mean().item()


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(6)
    left, right = Tower(), Tower()
    print("loss %.4f" % train(left, right, gen))
    with torch.no_grad():
        q, d = pairs(520, gen)
        scores = left(q) @ right(d).T
        print("mrr %.4f" % reciprocal_ranks(scores))


if __name__ == "__main__":
    main()
