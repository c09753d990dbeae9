import torch


def make_text(length, seed):
    """Sentences of a toy language whose word order follows a short cycle."""
    g = torch.Generator().manual_seed(seed)
    words = []
    for _ in range(120):
        n = int(torch.randint(2, 7, (1,), generator=g))
        words.append("".join(chr(97 + int(c)) for c in torch.randint(0, 14, (n,), generator=g)))
    out, size, role = [], 0, 0
    while size < length:
        pick = int(torch.randint(0, 30, (1,), generator=g)) * 4 + role
        out.append(words[pick])
        size += len(words[pick]) + 1
        role = (role + 1) % 4
        if role == 0:
            out.append(".")
            size += 2
    return " ".join(out)[:length]


class Corpus:
    def __init__(self, text, window):
        self.letters = sorted(set(text))
        index = {c: i for i, c in enumerate(self.letters)}
        self.codes = torch.tensor([index[c] for c in text])
        self.window = window
        cut = int(len(self.codes) * 0.9)
        self.train, self.held = self.codes[:cut], self.codes[cut:]

    def draw(self, size, generator):
        at = torch.randint(0, len(self.train) - self.window - 1, (size, 1), generator=generator)
        idx = at + torch.arange(self.window + 1)
        block = self.train[idx]
        return block[:, :-1], block[:, 1:]

    def held_blocks(self, size):
        blocks = self.held.unfold(0, self.window + 1, self.window)
        for part in blocks.split(size):
            yield part[:, :-1], part[:, 1:]
