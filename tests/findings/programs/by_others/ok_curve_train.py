"""Train a small convolutional model to tell kinds of curves apart."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.set_num_threads(1)


def make_curves(count, length, seed):
    random = torch.Generator().manual_seed(seed)
    kinds = torch.randint(0, 3, (count,), generator=random)
    phase = torch.rand(count, 1, generator=random) * 6.283
    speed = 2 + 6 * torch.rand(count, 1, generator=random)
    angle = phase + speed * torch.linspace(0, 6.283, length)
    waves = torch.stack([angle.sin(), angle.sin().sign(), (angle / 3.1416) % 2 - 1], 1)
    curves = waves[torch.arange(count), kinds]
    return curves + 0.7 * torch.randn(curves.shape, generator=random), kinds


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(1, width, 7, padding=3), nn.ReLU(), nn.MaxPool1d(2),
            nn.Conv1d(width, 2 * width, 5, padding=2), nn.ReLU(), nn.AdaptiveAvgPool1d(8),
        )
        self.head = nn.Linear(16 * width, 3)

    def forward(self, batch):
        return self.head(self.body(batch.unsqueeze(1)).flatten(1))


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


class Trainer:
    def __init__(self, net):
        self.net = net
        self.loss = nn.CrossEntropyLoss()
        self.optimiser = Momentum(net.parameters(), 0.05, 0.9)

    def epoch(self, loader):
        self.net.train()
        total = torch.zeros(())
        for batch, kinds in loader:
            loss = self.loss(self.net(batch), kinds)
            loss.backward()
            self.optimiser.step()
            total += loss.detach() * len(kinds)
        return float(total) / len(loader.dataset)

    @torch.inference_mode()
    def confusion(self, loader):
        self.net.eval()
        table = torch.zeros(9, dtype=torch.long)
        for batch, kinds in loader:
            guesses = self.net(batch).argmax(1)
            table += torch.bincount(kinds * 3 + guesses, minlength=9)
        return table.reshape(3, 3)


def main():
    torch.manual_seed(7)
    data = TensorDataset(*make_curves(6000, 128, 21))
    train, test = random_split(data, [4800, 1200])
    train_loader = DataLoader(train, batch_size=64, shuffle=True)
    test_loader = DataLoader(test, batch_size=200)
    trainer = Trainer(Net(16))
    losses = [trainer.epoch(train_loader) for _ in range(4)]
    table = trainer.confusion(test_loader)
    print([f"{loss:.4f}" for loss in losses], int(table.trace()), table.flatten().tolist())


if __name__ == "__main__":
    main()
