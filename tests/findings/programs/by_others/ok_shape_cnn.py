"""Train a small convolutional network to tell drawn shapes apart."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
SIDE = 32


def draw_shapes(count, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, count)
    cy, cx = rng.uniform(10, 22, (2, count, 1, 1))
    size = rng.uniform(4, 9, (count, 1, 1))
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    dy, dx = np.abs(y - cy), np.abs(x - cx)
    masks = np.stack([np.hypot(dy, dx) < size, np.maximum(dy, dx) < size, dy + dx < size])
    images = masks[labels, np.arange(count)] + rng.normal(0, 0.6, (count, SIDE, SIDE))
    return torch.from_numpy(images.astype(np.float32))[:, None], torch.from_numpy(labels)


class ShapeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 32, 3, padding=1), nn.ReLU())
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.features(x).mean(dim=(2, 3)))


class Momentum:
    def __init__(self, parameters, rate, decay=0.9):
        self.parameters = [p for p in parameters if p.requires_grad]
        self.velocity = [torch.zeros_like(p) for p in self.parameters]
        self.rate = rate
        self.decay = decay

    @torch.no_grad()
    def step(self, loss):
        grads = torch.autograd.grad(loss, self.parameters)
        torch._foreach_mul_(self.velocity, self.decay)
        torch._foreach_add_(self.velocity, grads)
        torch._foreach_add_(self.parameters, self.velocity, alpha=-self.rate)


def train(net, loader, epochs):
    optimizer = Momentum(net.parameters(), rate=0.03)
    net.train()
    for _ in range(epochs):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.step(loss)
    return loss.item()


@torch.inference_mode()
def accuracy(net, images, labels):
    net.eval()
    hits = sum((net(xb).argmax(1) == yb).sum() for xb, yb in zip(images.split(256), labels.split(256)))
    return hits.item() / len(labels)


def main():
    torch.manual_seed(0)
    data = TensorDataset(*draw_shapes(1000, seed=1))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    net = ShapeNet()
    loss = train(net, loader, epochs=4)
    print(f"loss {loss:.3f} accuracy {accuracy(net, *draw_shapes(500, seed=2)):.3f}")


if __name__ == "__main__":
    main()
