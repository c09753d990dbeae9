import numpy as np
import torch


class Interactions:
    """Synthetic listening log: (user, item, liked) triples with a hidden taste."""

    def __init__(self, users, items, rows, seed):
        rng = np.random.default_rng(seed)
        taste_u = rng.normal(size=(users, 4))
        taste_i = rng.normal(size=(items, 4))
        u = rng.permutation(users)[np.minimum((rng.pareto(0.8, rows) * 60).astype(np.int64), users - 1)]
        i = np.minimum((rng.pareto(0.9, rows) * 40).astype(np.int64), items - 1)
        score = 1.5 * taste_i[i, 0] + (taste_u[u] * taste_i[i]).sum(1) + rng.normal(scale=0.5, size=rows)
        self.users = torch.from_numpy(u)
        self.items = torch.from_numpy(i)
        self.liked = torch.from_numpy((score > 0).astype(np.float32))
        self.n_users, self.n_items = users, items

    def __len__(self):
        return len(self.users)

    def split(self, part=0.9):
        cut = int(len(self) * part)
        return slice(0, cut), slice(cut, len(self))

    def batches(self, where, size, generator):
        idx = torch.arange(where.start, where.stop)
        idx = idx[torch.randperm(len(idx), generator=generator)]
        for chunk in idx.split(size):
            yield self.users[chunk], self.items[chunk], self.liked[chunk]
