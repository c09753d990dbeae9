"""Train a small patch classifier from image patches kept in packed shard files."""
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
PER_SHARD = 120
SIDE = 24


def write_shards(folder, count):
    rng = np.random.default_rng(11)
    paths = []
    for k in range(count):
        labels = rng.integers(0, 4, PER_SHARD)
        base = rng.integers(0, 24, (PER_SHARD, SIDE, SIDE, 3))
        ramp = np.linspace(0, 1, SIDE)[None, :, None, None]
        images = base + (labels[:, None, None, None] * 40 * ramp)
        paths.append(os.path.join(folder, f"shard_{k:03d}.npz"))
        np.savez_compressed(paths[-1], images=images.astype(np.uint8), labels=labels)
    return paths


class Augment:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, image):
        x = torch.from_numpy(image).permute(2, 0, 1).float().div_(255.0)
        if self.rng.random() < 0.5:
            x = torch.flip(x, dims=(2,))
        gain = 0.9 + 0.2 * self.rng.random()
        return (x * gain - 0.5) / 0.25


class ShardedPatches(Dataset):
    def __init__(self, paths, transform):
        self.paths = paths
        self.transform = transform
        self._open = {}

    def __len__(self):
        return len(self.paths) * PER_SHARD

    def _shard(self, k):
        if k not in self._open:
            with np.load(self.paths[k]) as packed:
                self._open[k] = {name: packed[name] for name in packed.files}
        return self._open[k]

    def __getitem__(self, index):
        k, row = divmod(index, PER_SHARD)
        shard = self._shard(k)
        image = shard["images"][row]
        return self.transform(image), int(shard["labels"][row])


class PatchNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(3))
        self.head = nn.Linear(24 * 9, 4)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class Momentum:
    def __init__(self, parameters, rate):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.velocity = [torch.zeros_like(p) for p in self.parameters]
        self.rate = rate
    @torch.no_grad()
    def step(self, loss):
        grads = torch.autograd.grad(loss, self.parameters)
        torch._foreach_mul_(self.velocity, 0.9)
        torch._foreach_add_(self.velocity, grads)
        torch._foreach_add_(self.parameters, self.velocity, alpha=-self.rate)


def train(net, loader, epochs):
    optimizer = Momentum(net.parameters(), rate=0.02)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for images, labels in loader:
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.step(loss)
            total += loss.item() * len(labels)
        losses.append(total / len(loader.dataset))
    return losses


def main():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as folder:
        data = ShardedPatches(write_shards(folder, 6), Augment(5))
        order = torch.Generator().manual_seed(17)
        loader = DataLoader(data, batch_size=32, shuffle=True, generator=order)
        losses = train(PatchNet(), loader, epochs=2)
    print("losses", " ".join(f"{v:.4f}" for v in losses))


if __name__ == "__main__":
    main()
