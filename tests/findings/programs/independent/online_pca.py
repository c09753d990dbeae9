"""Online whitening + linear model; whitening matrix refreshed now and then."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np


class Whitener:
    def __init__(self, dim, refresh):
        self.dim = dim
        self.refresh = refresh
        self.cov = np.eye(dim)
        self.matrix = np.eye(dim)
        self.count = 0

    def update(self, batch):
        self.count += 1
        self.cov *= 0.99
        self.cov += 0.01 * (batch.T @ batch) / len(batch)
        if self.count % self.refresh == 0:
            self.rebuild()

    def rebuild(self):
        values, vectors = np.linalg.eigh(self.cov)
        self.matrix = (vectors / np.sqrt(values + 1e-3)) @ vectors.T

    def __call__(self, batch):
        return batch @ self.matrix


class Linear:
    def __init__(self, dim, lr=0.02):
        self.w = np.zeros(dim)
        self.lr = lr

    def step(self, x, y):
        err = x @ self.w - y
        self.w -= self.lr * x.T @ err / len(y)
        return float(np.mean(err ** 2))


def batches(rng, steps, size, dim):
    mix = rng.standard_normal((dim, dim)) / np.sqrt(dim)
    true = rng.standard_normal(dim)
    for _ in range(steps):
        x = rng.standard_normal((size, dim)) @ mix
        yield x, x @ true


def main(steps=100, size=64, dim=700):
    rng = np.random.default_rng(5)
    white = Whitener(dim, refresh=20)
    model = Linear(dim)
    losses = []
    for x, y in batches(rng, steps, size, dim):
        white.update(x)
        losses.append(model.step(white(x), y))
    print("first %.3f last %.3f" % (losses[0], losses[-1]))


if __name__ == "__main__":
    main()
