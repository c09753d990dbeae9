"""Train a sequence tagger with resumable state and keep the best weights."""
import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def make_sequences(count, length, vocab, seed):
    gen = torch.Generator().manual_seed(seed)
    tokens = torch.randint(vocab, (count, length), generator=gen)
    tags = (tokens + tokens.roll(1, dims=1)) % 6
    return TensorDataset(tokens, tags)


class Tagger(nn.Module):
    def __init__(self, vocab, width, tags):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.embed.weight.requires_grad_(False)
        self.mix = nn.Conv1d(width, width, 3, padding=1)
        self.out = nn.Linear(width, tags)

    def forward(self, tokens):
        x = self.embed(tokens).transpose(1, 2)
        x = torch.relu(self.mix(x)).transpose(1, 2)
        return self.out(x)


class StateKeeper:
    def __init__(self, folder):
        self.latest = os.path.join(folder, "latest.pt")
        self.best = os.path.join(folder, "best.pt")
        self.best_score = float("-inf")

    def save_latest(self, model, optimizer, epoch, step):
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                 "epoch": epoch, "step": step}
        torch.save(state, self.latest)

    def save_best(self, model, score):
        if score > self.best_score:
            self.best_score = score
            torch.save(model.state_dict(), self.best)


@torch.no_grad()
def accuracy(model, data):
    hits = total = 0
    for tokens, tags in DataLoader(data, batch_size=64):
        guess = model(tokens).argmax(-1)
        hits += (guess == tags).sum().item()
        total += tags.numel()
    return hits / total


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

    def state_dict(self):
        return {"velocity": self.velocity, "rate": self.rate}


class Trainer:
    def __init__(self, model, keeper):
        self.model = model
        self.keeper = keeper
        self.optimizer = Momentum(model.parameters(), rate=0.02)
        self.step = 0

    def run_epoch(self, loader, epoch):
        for tokens, tags in loader:
            logits = self.model(tokens)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten())
            self.optimizer.step(loss)
            self.step += 1
        self.keeper.save_latest(self.model, self.optimizer, epoch, self.step)


def main():
    torch.manual_seed(8)
    train_set = make_sequences(640, 24, 60000, seed=1)
    check_set = make_sequences(128, 24, 60000, seed=2)
    loader = DataLoader(train_set, batch_size=16, shuffle=True)
    with tempfile.TemporaryDirectory() as folder:
        keeper = StateKeeper(folder)
        trainer = Trainer(Tagger(60000, 64, 6), keeper)
        for epoch in range(3):
            trainer.run_epoch(loader, epoch)
            keeper.save_best(trainer.model, accuracy(trainer.model, check_set))
        state = torch.load(keeper.latest)
        weight = sum(v.double().abs().sum().item() for v in state["model"].values())
    print(f"step {state['step']} best {keeper.best_score:.4f} weight {weight:.1f}")


if __name__ == "__main__":
    main()
