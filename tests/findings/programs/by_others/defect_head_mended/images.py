"""Synthetic surface-inspection images: clean, scratch, pit, stain."""
import torch
from torch.utils.data import TensorDataset

KINDS = ("clean", "scratch", "pit", "stain")


def make_images(count, size=32, seed=0):
    gen = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, len(KINDS), (count,), generator=gen)
    images = torch.randn(count, 1, size, size, generator=gen) * 0.4
    rows = torch.randint(8, size - 8, (count,), generator=gen)
    cols = torch.randint(8, size - 8, (count,), generator=gen)
    for i in range(count):
        r, c = int(rows[i]), int(cols[i])
        if labels[i] == 1:
            images[i, 0, r, 4:-4] += 1.6
        elif labels[i] == 2:
            images[i, 0, r - 2:r + 2, c - 2:c + 2] -= 2.2
        elif labels[i] == 3:
            images[i, 0, r - 6:r + 6, c - 6:c + 6] += 0.7
    return TensorDataset(images, labels)
