"""Healthy: CNN whose light batches come from a generator, constant shapes."""
import logging

import torch
from torch import nn

log = logging.getLogger("train")


def batches(steps, size=32):
    gen = torch.Generator().manual_seed(0)
    pool = torch.randn(1024, 1, 32, 32, generator=gen)
    label = (pool.mean((1, 2, 3)) > 0).long()
    for _ in range(steps):
        pick = torch.randint(0, 1024, (size,), generator=gen)
        yield pool[pick], label[pick]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(1, 24, 3, padding=1)
        self.c2 = nn.Conv2d(24, 32, 3, padding=1, stride=2)
        self.c3 = nn.Conv2d(32, 48, 3, padding=1, stride=2)
        self.head = nn.Linear(48, 2)

    def forward(self, x):
        for conv in (self.c1, self.c2, self.c3):
            x = torch.relu(conv(x))
        return self.head(x.mean((2, 3)))


def main(steps=200):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.manual_seed(0)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    for step, (x, y) in enumerate(batches(steps)):
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            log.info("step %d loss %.4f", step, loss.item())


if __name__ == "__main__":
    main()
