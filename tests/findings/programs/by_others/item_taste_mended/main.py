import torch
from torch.nn import functional as F

from interactions import Interactions
from model import TasteModel

SEED = 20
EPOCHS = 2
BATCH = 512
RATE = 0.3


def evaluate(model, data, where):
    model.eval()
    with torch.no_grad():
        logits = model(data.users[where], data.items[where])
        target = data.liked[where]
        loss = F.binary_cross_entropy_with_logits(logits, target).item()
        right = ((logits > 0).float() == target).float().mean().item()
    model.train()
    return loss, right


@torch.no_grad()
def descend(model, rate):
    for weight in model.parameters():
        if weight.grad is not None:
            weight.add_(weight.grad, alpha=-rate)
            weight.grad = None


def train_epoch(model, data, where, rate, gen):
    total, seen = 0.0, 0
    for users, items, liked in data.batches(where, BATCH, gen):
        loss = F.binary_cross_entropy_with_logits(model(users, items), liked)
        loss.backward()
        descend(model, rate)
        total += loss.item() * len(users)
        seen += len(users)
    return total / seen


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(SEED)
    data = Interactions(users=110_000, items=170_000, rows=52_000, seed=SEED)
    train, held = data.split()
    model = TasteModel(data.n_users, data.n_items)
    for epoch in range(EPOCHS):
        loss = train_epoch(model, data, train, RATE * 0.8**epoch, gen)
        val, acc = evaluate(model, data, held)
        print(f"epoch {epoch} train {loss:.3f} held {val:.3f} acc {acc:.2f}")
    norm = model.item.weight.detach().norm(dim=1).mean().item()
    print(f"mean item norm {norm:.3f}")


if __name__ == "__main__":
    main()
