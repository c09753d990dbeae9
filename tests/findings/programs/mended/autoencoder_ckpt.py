"""Denoising autoencoder; keeps restart points in a temporary folder."""
import os
import tempfile
from pathlib import Path

import torch
from torch import nn


def build(width=1024, hidden=1536):
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(),
                         nn.Linear(hidden, 256), nn.ReLU(),
                         nn.Linear(256, hidden), nn.ReLU(), nn.Linear(hidden, width))


class RestartPoints:
    def __init__(self, folder, every):
        self.folder = Path(folder)
        self.every = every

    def maybe_save(self, step, model, opt):
        if step % self.every:
            return
        path = self.folder / "last.pt"
        with open(path, "wb") as fh:
            torch.save({"step": step, "model": model.state_dict(), "opt": opt.state_dict()}, fh)
            fh.flush()
            os.fsync(fh.fileno())


def batches(steps, size, width):
    gen = torch.Generator().manual_seed(9)
    base = torch.randn(8, width, generator=gen)
    for _ in range(steps):
        mix = torch.randn(size, 8, generator=gen)
        clean = mix @ base
        yield clean + 0.1 * torch.randn(size, width, generator=gen), clean


def main():
    torch.manual_seed(0)
    model = build()
    opt = torch.optim.Adam(model.parameters(), 3e-4)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        points = RestartPoints(folder, every=20)
        for step, (noisy, clean) in enumerate(batches(60, 64, 1024), 1):
            loss = nn.functional.mse_loss(model(noisy), clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
            points.maybe_save(step, model, opt)
    print("loss", loss.item())


if __name__ == "__main__":
    main()
