"""Let a small recurrent model continue note sequences, and rate the continuations."""
import zlib

import torch
from torch import nn

torch.set_num_threads(1)
NOTES = 48


class Melody(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed = nn.Embedding(NOTES, width)
        self.rnn = nn.GRU(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, NOTES)

    def forward(self, notes, state=None):
        out, state = self.rnn(self.embed(notes), state)
        return self.head(out), state


class Composer:
    def __init__(self, model, temperature, seed):
        self.model = model.eval()
        self.temperature = temperature
        self.random = torch.Generator().manual_seed(seed)

    def choose(self, logits):
        noise = torch.rand(logits.shape, generator=self.random).clamp_min(1e-6)
        return (logits / self.temperature - torch.log(-torch.log(noise))).argmax(-1, keepdim=True)

    @torch.inference_mode()
    def extend(self, prompt, length):
        notes = latest = prompt
        state = None
        for _ in range(length):
            logits, state = self.model(latest, state)
            latest = self.choose(logits[:, -1])
            notes = torch.cat([notes, latest], dim=1)
        return notes


@torch.inference_mode()
def perplexity(model, notes):
    logits, _ = model(notes[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), notes[:, 1:].flatten())
    return float(loss.exp())


def leaps(notes):
    return (notes.diff(dim=1).abs() > 12).float().mean().item()


def variety(notes, width=4):
    windows = notes.unfold(1, width, 1)
    shares = []
    for row in windows:
        shares.append(len(torch.unique(row, dim=0)) / len(row))
    return sum(shares) / len(shares)


def make_prompts(count, length, seed):
    random = torch.Generator().manual_seed(seed)
    steps = torch.randint(-3, 4, (count, length), generator=random)
    return (24 + steps.cumsum(1)).clamp(0, NOTES - 1)


def main():
    torch.manual_seed(6)
    model = Melody(64)
    composer = Composer(model, 0.9, 12)
    ratings = []
    code = 0
    for part in make_prompts(96, 16, 8).split(32):
        notes = composer.extend(part, 72)
        ratings.append((perplexity(model, notes), leaps(notes), variety(notes), variety(notes, 2)))
        code = zlib.crc32(notes.numpy().tobytes(), code)
    means = [sum(column) / len(column) for column in zip(*ratings)]
    print([f"{mean:.3f}" for mean in means], f"{code:08x}")


if __name__ == "__main__":
    main()
