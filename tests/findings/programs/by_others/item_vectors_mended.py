"""Learn item vectors from co-occurring pairs with a hand-written lookup function."""
import torch
from torch import nn

torch.set_num_threads(1)
ITEMS, WIDTH = 3000, 48


class Lookup(torch.autograd.Function):
    """Row lookup which also divides each row's gradient by its number of uses."""

    @staticmethod
    def forward(ctx, table, index):
        ctx.save_for_backward(index)
        ctx.rows = table.shape[0]
        return table[index]

    @staticmethod
    def backward(ctx, grad_out):
        (index,) = ctx.saved_tensors
        grad = grad_out.new_zeros(ctx.rows, grad_out.shape[1])
        grad.index_add_(0, index, grad_out)
        uses = torch.bincount(index, minlength=ctx.rows).clamp_(min=1)
        return grad / uses[:, None], None


class PairModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Parameter(torch.randn(ITEMS, WIDTH) * 0.1)
        self.right = nn.Parameter(torch.randn(ITEMS, WIDTH) * 0.1)
        self.mix = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, a, b):
        u = self.mix(Lookup.apply(self.left, a))
        v = Lookup.apply(self.right, b)
        return (u * v).sum(1)


def sample_pairs(steps, batch, seed):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        a = torch.randint(ITEMS, (batch,), generator=gen)
        shift = torch.randint(1, 20, (batch,), generator=gen)
        near = torch.rand(batch, generator=gen) < 0.5
        far = torch.randint(ITEMS, (batch,), generator=gen)
        b = torch.where(near, (a + shift) % ITEMS, far)
        yield a, b, near.float()


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


def train(model, steps, batch):
    optimizer = Momentum(model.parameters(), rate=0.1)
    smooth = None
    for a, b, target in sample_pairs(steps, batch, seed=9):
        loss = nn.functional.binary_cross_entropy_with_logits(model(a, b), target)
        optimizer.step(loss)
        value = loss.item()
        smooth = value if smooth is None else 0.95 * smooth + 0.05 * value
    return smooth


@torch.no_grad()
def nearest(model, queries, k=5):
    u = nn.functional.normalize(model.mix(model.left[queries]), dim=1)
    v = nn.functional.normalize(model.right, dim=1)
    return (u @ v.T).topk(k, dim=1).values


def main():
    torch.manual_seed(1)
    model = PairModel()
    smooth = train(model, steps=90, batch=1024)
    scores = nearest(model, torch.arange(ITEMS))
    print(f"loss {smooth:.3f} top {scores.mean().item():.3f}")


if __name__ == "__main__":
    main()
