"""Train a small classifier on patches kept in a packed file."""
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def write_patches(path, count, size, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    patches = rng.integers(0, 60, (count, size, size)).astype(np.uint8)
    half = size // 2
    for number, label in enumerate(labels):
        top, left = divmod(int(label), 2)
        patches[number, top * half:(top + 1) * half, left * half:(left + 1) * half] += 8
    np.savez_compressed(path, patches=patches, labels=labels)


class PatchSet(Dataset):
    def __init__(self, path):
        self.pack = np.load(path)
        self.patches = self.pack["patches"]
        self.labels = self.pack["labels"]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        patch = self.patches[index]
        values = torch.from_numpy(patch.astype(np.float32)) / 100.0
        return values.unsqueeze(0), int(self.labels[index])


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 20, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(20, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.head = nn.Linear(24 * (size // 4) ** 2, 4)

    def forward(self, batch):
        return self.head(self.body(batch).flatten(1))


class Momentum:
    def __init__(self, parameters, rate, keep):
        self.parameters = list(parameters)
        self.speeds = [torch.zeros_like(p) for p in self.parameters]
        self.rate, self.keep = rate, keep

    @torch.no_grad()
    def step(self):
        for parameter, speed in zip(self.parameters, self.speeds):
            speed.mul_(self.keep).add_(parameter.grad)
            parameter.sub_(speed, alpha=self.rate)
            parameter.grad = None


def train_epoch(net, loader, optimiser):
    loss_fn = nn.CrossEntropyLoss()
    total = 0.0
    for batch, labels in loader:
        loss = loss_fn(net(batch), labels)
        loss.backward()
        optimiser.step()
        total += loss.item() * len(labels)
    return total / len(loader.dataset)


@torch.no_grad()
def accuracy(net, loader):
    right = 0
    for batch, labels in loader:
        right += int((net(batch).argmax(1) == labels).sum())
    return right / len(loader.dataset)


def main():
    torch.manual_seed(2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "patches.npz"
        write_patches(path, 480, 20, 4)
        data = PatchSet(path)
        loader = DataLoader(data, batch_size=32, shuffle=True)
        net = Net(20)
        optimiser = Momentum(net.parameters(), 0.05, 0.9)
        losses = [train_epoch(net, loader, optimiser) for _ in range(2)]
        print([f"{loss:.4f}" for loss in losses], f"{accuracy(net, loader):.4f}")
        data.pack.close()


if __name__ == "__main__":
    main()
