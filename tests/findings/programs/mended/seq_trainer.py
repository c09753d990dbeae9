"""Train a GRU on synthetic sinusoids and report a smoothed loss."""
import math

import torch
from torch import nn


def waves(batch, steps, gen):
    phase = torch.rand(batch, 1, generator=gen) * 2 * math.pi
    freq = torch.rand(batch, 1, generator=gen) * 0.3 + 0.05
    t = torch.arange(steps + 1).float()[None]
    series = torch.sin(t * freq + phase)
    return series[:, :-1, None], series[:, 1:, None]


class Forecaster(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.head(out), out


class Trainer:
    def __init__(self, model, lr=2e-3):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.history = []
        self.running = 0.0

    def step(self, x, y):
        self.opt.zero_grad()
        pred, hidden = self.model(x)
        loss = (pred - y).pow(2).mean() + 1e-4 * hidden.pow(2).mean()
        loss.backward()
        self.opt.step()
        self.running = 0.95 * self.running + 0.05 * loss.item()
        self.history.append((loss.item(),))

    def report(self):
        tail = [h[0] for h in self.history[-20:]]
        return sum(tail) / len(tail)


def main():
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)
    trainer = Trainer(Forecaster())
    for step in range(100):
        x, y = waves(256, 50, gen)
        trainer.step(x, y)
        if step % 30 == 0:
            print(f"step {step:4d} loss {trainer.report():.4f}")
    print(f"final {trainer.report():.4f}")


if __name__ == "__main__":
    main()
