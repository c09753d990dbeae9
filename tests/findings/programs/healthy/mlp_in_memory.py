"""Healthy: MLP on tensors already in memory, one checkpoint at the end."""
import io

import torch
from torch import nn


def data(n=16384, width=64):
    gen = torch.Generator().manual_seed(0)
    x = torch.randn(n, width, generator=gen)
    return x, (x[:, :3].sum(1) > 0).long()


def model(width=64, hidden=512):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(),
                         nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 2))


def evaluate(net, x, y):
    net.eval()
    with torch.no_grad():
        hit = (net(x).argmax(1) == y).float().mean()
    net.train()
    return float(hit)


def main(epochs=5, batch=512):
    torch.manual_seed(0)
    x, y = data()
    net = model()
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for epoch in range(epochs):
        order = torch.randperm(len(x))
        running = torch.zeros(())
        for part in order.split(batch):
            loss = nn.functional.cross_entropy(net(x[part]), y[part])
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.detach()
        print(epoch, f"loss {running.item() * batch / len(x):.4f}")
    print("accuracy %.3f" % evaluate(net, x[:4096], y[:4096]))
    torch.save(net.state_dict(), io.BytesIO())


if __name__ == "__main__":
    main()
