"""Tag shop sessions (browse / compare / buy / bot) from the sequence of events."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

SEED = 314
EVENTS = 40
TAGS = 4
BATCH = 64
EPOCHS = 2


def make_sessions(count, generator):
    """Each tag favours its own transitions; most sessions are short, a crawler's can be long."""
    kernels = torch.rand(TAGS, EVENTS, EVENTS, generator=generator) ** 6
    kernels = kernels / kernels.sum(dim=2, keepdim=True)
    tags = torch.multinomial(torch.tensor([0.4, 0.3, 0.25, 0.05]), count, True, generator=generator)
    lengths = torch.empty(count).log_normal_(2.2, 0.45, generator=generator).long().clamp_(3, 60)
    crawlers = (tags == 3).nonzero().squeeze(1)[:1]
    lengths[crawlers] = torch.randint(330, 420, (len(crawlers),), generator=generator)
    longest = int(lengths.max())
    steps = torch.empty(count, longest, dtype=torch.long)
    steps[:, 0] = torch.randint(1, EVENTS, (count,), generator=generator)
    alive = torch.arange(count)
    for t in range(1, longest):
        alive = alive[lengths[alive] > t]
        prob = kernels[tags[alive], steps[alive, t - 1]]
        steps[alive, t] = torch.multinomial(prob, 1, generator=generator).squeeze(1).clamp_(min=1)
    return [row[:n].clone() for row, n in zip(steps, lengths.tolist())], tags


class SessionSet:
    def __init__(self, sessions, tags):
        self.lengths = torch.tensor([len(s) for s in sessions])
        self.events = pad_sequence(sessions, batch_first=True)
        self.tags = tags

    def __len__(self):
        return len(self.tags)

    def split(self, part):
        cut = int(len(self) * part)
        return torch.arange(cut), torch.arange(cut, len(self))

    def batches(self, index, generator=None):
        if generator is not None:
            index = index[torch.randperm(len(index), generator=generator)]
        for pick in index.split(BATCH):
            yield self.events[pick], self.lengths[pick], self.tags[pick]


class Tagger(nn.Module):
    def __init__(self, dim=32, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(EVENTS, dim, padding_idx=0)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.head = nn.Linear(2 * hidden, TAGS)

    def forward(self, events, lengths):
        states, _ = self.gru(self.embed(events))
        rows = torch.arange(len(events))
        last = states[rows, lengths - 1]
        mask = torch.arange(events.shape[1]) < lengths[:, None]
        mean = (states * mask[:, :, None]).sum(dim=1) / lengths[:, None]
        return self.head(torch.cat([last, mean], dim=1))


class RmsStep:
    """The update of our C++ trainer, so that both give the same curves."""

    def __init__(self, params, rate, keep=0.95):
        self.params = list(params)
        self.square = [torch.zeros_like(p) for p in self.params]
        self.rate, self.keep = rate, keep

    @torch.no_grad()
    def __call__(self):
        for p, sq in zip(self.params, self.square):
            sq.mul_(self.keep).addcmul_(p.grad, p.grad, value=1 - self.keep)
            p.addcdiv_(p.grad, sq.sqrt().add_(1e-6), value=-self.rate)
            p.grad = None


def train_epoch(model, data, index, update, generator):
    model.train()
    total = 0.0
    for events, lengths, tags in data.batches(index, generator):
        loss = F.cross_entropy(model(events, lengths), tags)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        update()
        total += loss.item() * len(tags)
    return total / len(index)


@torch.no_grad()
def accuracy(model, data, index):
    model.eval()
    right = 0
    for events, lengths, tags in data.batches(index):
        right += (model(events, lengths).argmax(dim=1) == tags).sum().item()
    return right / len(index)


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    gen = torch.Generator().manual_seed(SEED)
    sessions, tags = make_sessions(1300, gen)
    data = SessionSet(sessions, tags)
    train, held = data.split(0.85)
    model = Tagger()
    update = RmsStep(model.parameters(), rate=4e-3)
    print(f"sessions {len(data)} mean length {data.lengths.float().mean().item():.2f}")
    for epoch in range(EPOCHS):
        loss = train_epoch(model, data, train, update, gen)
        print(f"epoch {epoch} loss {loss:.3f} held {accuracy(model, data, held):.3f}")


if __name__ == "__main__":
    main()
