"""Reduce a set of image descriptors to a codebook and describe tiles by codeword counts."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np


def make_descriptors(tiles, per_tile, width, seed):
    rng = np.random.default_rng(seed)
    centers = rng.normal(0, 2.0, (40, width))
    kind = rng.integers(0, 40, (tiles, per_tile))
    return centers[kind] + rng.normal(0, 0.7, (tiles, per_tile, width))


def assign(points, codebook):
    diff = points[:, None, :] - codebook[None, :, :]
    dist = (diff ** 2).sum(axis=2)
    return dist.argmin(axis=1)


def recenter(points, labels, codebook):
    counts = np.bincount(labels, minlength=len(codebook))
    updated = codebook.copy()
    for column in range(points.shape[1]):
        sums = np.bincount(labels, weights=points[:, column], minlength=len(codebook))
        updated[:, column] = np.where(counts > 0, sums / np.maximum(counts, 1), codebook[:, column])
    return updated


class Codebook:
    def __init__(self, size, rounds, seed):
        self.size = size
        self.rounds = rounds
        self.rng = np.random.default_rng(seed)

    def fit(self, points, sample):
        start = self.rng.choice(len(points), self.size, replace=False)
        self.words = points[start].copy()
        for _ in range(self.rounds):
            picked = points[self.rng.integers(0, len(points), sample)]
            self.words = recenter(picked, assign(picked, self.words), self.words)
        return self

    def histogram(self, tile):
        counts = np.bincount(assign(tile, self.words), minlength=self.size)
        return counts / counts.sum()


def tile_similarity(histograms):
    root = np.sqrt(histograms)
    return root @ root.T


def local_contrast(descriptors):
    ordered = np.sort(descriptors, axis=1)
    low, high = ordered[:, ordered.shape[1] // 10], ordered[:, -ordered.shape[1] // 10]
    return (high - low).mean()


def main():
    descriptors = make_descriptors(tiles=60, per_tile=400, width=32, seed=51)
    points = descriptors.reshape(-1, descriptors.shape[2])
    book = Codebook(size=64, rounds=8, seed=52).fit(points, sample=4000)
    histograms = np.array([book.histogram(tile) for tile in descriptors])
    similar = tile_similarity(histograms)
    print(f"similar {similar.mean():.5f} words {book.words.std():.5f} "
          f"contrast {local_contrast(descriptors):.5f}")


if __name__ == "__main__":
    main()
