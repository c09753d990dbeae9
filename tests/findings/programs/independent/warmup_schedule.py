"""Compiled MLP block with a sharpening temperature schedule."""
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.step = 0

    def forward(self, x):
        temperature = 1.0 / (1 + self.step // 5)
        gate = torch.softmax(self.score(x) / temperature, dim=-1)
        return x + gate * self.value(x)


class Stack(nn.Module):
    def __init__(self, dim=96, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(Gate(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def set_step(self, step):
        for block in self.blocks:
            block.step = step

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def problem(n, dim):
    gen = torch.Generator().manual_seed(3)
    x = torch.randn(n, dim, generator=gen)
    return x, (x[:, :4].prod(1, keepdim=True)).tanh()


def main(steps=60, dim=96):
    torch.manual_seed(1)
    x, y = problem(1024, dim)
    model = Stack(dim)
    fast = torch.compile(model, backend="aot_eager", dynamic=False)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(steps):
        model.set_step(step)
        loss = nn.functional.mse_loss(fast(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 15 == 0:
            print("step", step, "loss", round(loss.item(), 4))


if __name__ == "__main__":
    main()
