"""Train a regressor and follow the activation statistics of each layer on a held-out set."""
import torch
from torch import nn

torch.set_num_threads(1)


def make_data(rows, features, seed):
    gen = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, features, generator=gen)
    w = torch.randn(features, generator=gen)
    y = torch.sin(x @ w / 3) + 0.1 * torch.randn(rows, generator=gen)
    return x, y


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)
        self.act = nn.GELU()

    def forward(self, x):
        return x + self.act(self.inner(self.norm(x)))


class Regressor(nn.Module):
    def __init__(self, features, width, depth):
        super().__init__()
        self.inlet = nn.Linear(features, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.outlet = nn.Linear(width, 1)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        return self.outlet(x).squeeze(1)


class ActivationProbe:
    """Collects mean, spread and share of small values for each block output."""

    def __init__(self, model):
        self.model = model
        self.stats = {}

    def _record(self, name):
        def hook(module, inputs, output):
            flat = output.detach().flatten()
            small = (flat.abs() < 0.05).float().mean()
            self.stats[name] = (flat.mean().item(), flat.std().item(), small.item())
        return hook

    def measure(self, x):
        handles = []
        for k, block in enumerate(self.model.blocks):
            handles.append(block.register_forward_hook(self._record(f"block{k}")))
        with torch.no_grad():
            prediction = self.model(x)
        for handle in handles:
            handle.remove()
        return prediction


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


def train_epoch(model, optimizer, x, y, batch):
    model.train()
    for start in range(0, len(x), batch):
        xb, yb = x[start:start + batch], y[start:start + batch]
        loss = nn.functional.mse_loss(model(xb), yb)
        optimizer.step(loss)


def evaluate(model, probe, x, y):
    model.eval()
    prediction = probe.measure(x)
    return nn.functional.mse_loss(prediction, y).item()


def main():
    torch.manual_seed(2)
    x, y = make_data(768, 32, seed=4)
    hx, hy = make_data(256, 32, seed=4)
    model = Regressor(32, 48, depth=4)
    probe = ActivationProbe(model)
    optimizer = Momentum(model.parameters(), rate=0.002)
    errors = []
    for _ in range(34):
        train_epoch(model, optimizer, x, y, batch=48)
        errors.append(evaluate(model, probe, hx, hy))
    spread = sum(s[1] for s in probe.stats.values())
    print(f"mse {errors[0]:.4f} -> {errors[-1]:.4f} spread {spread:.3f}")


if __name__ == "__main__":
    main()
