"""Train a small CNN on zlib-packed tiles (labels = dominant quadrant)."""
import zlib

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

TILE = 256
CROP = 32


class PackedTiles(Dataset):
    def __init__(self, count, seed=0):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, 4, size=count)
        self.blobs = []
        proto = []
        for label in range(4):
            tile = rng.integers(0, 90, size=(TILE, TILE), dtype=np.uint8)
            r, c = divmod(label, 2)
            half = TILE // 2
            tile[r * half:(r + 1) * half, c * half:(c + 1) * half] += 60
            proto.append(zlib.compress(tile.tobytes(), 1))
        for label in self.labels:
            self.blobs.append(proto[label])

    def __len__(self):
        return len(self.blobs)

    def __getitem__(self, index):
        raw = zlib.decompress(self.blobs[index])
        tile = np.frombuffer(raw, dtype=np.uint8).reshape(TILE, TILE)
        img = tile.astype(np.float32) / 255.0
        # soft-focus augmentation followed by an area downscale
        spec = np.fft.rfft2(img)
        spec *= np.exp(-np.linspace(0, 3, spec.shape[1]))[None, :]
        img = np.fft.irfft2(spec, s=img.shape).astype(np.float32)
        step = TILE // CROP
        img = img.reshape(CROP, step, CROP, step).mean(axis=(1, 3))
        return torch.from_numpy(img)[None], int(self.labels[index])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(32 * 8 * 8, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return self.body(x)


def train(epochs=2):
    torch.manual_seed(0)
    loader = DataLoader(PackedTiles(640), batch_size=32, shuffle=True, num_workers=1, persistent_workers=True)
    net = Net()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    crit = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        total = 0.0
        for x, y in loader:
            opt.zero_grad()
            loss = crit(net(x), y)
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")


if __name__ == "__main__":
    train()
