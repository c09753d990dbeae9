import torch
from torch import nn


class TasteModel(nn.Module):
    """Two embedding tables, a small tower on top, and a bias per item."""

    def __init__(self, n_users, n_items, dim=64):
        super().__init__()
        self.user = nn.Embedding(n_users, dim)
        self.item = nn.Embedding(n_items, dim)
        self.item_bias = nn.Embedding(n_items, 1)
        self.tower = nn.Sequential(
            nn.Linear(3 * dim, 96), nn.ReLU(), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 1)
        )
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.item.weight, std=0.05)
        nn.init.zeros_(self.item_bias.weight)

    def forward(self, users, items):
        u = self.user(users)
        i = self.item(items)
        joint = torch.cat([u, i, u * i], dim=1)
        return self.tower(joint).squeeze(1) + self.item_bias(items).squeeze(1)
