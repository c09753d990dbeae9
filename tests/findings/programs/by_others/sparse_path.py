"""Follow a lasso path over a genotype-like matrix with cyclic coordinate descent."""
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np


def make_problem(samples, markers, seed):
    rng = np.random.default_rng(seed)
    freq = rng.uniform(0.1, 0.5, markers)
    x = (rng.random((samples, markers), dtype=np.float32) < freq) * 2.0
    weights = np.zeros(markers)
    chosen = rng.choice(markers, 12, replace=False)
    weights[chosen] = rng.normal(0, 1, 12)
    y = x @ weights + rng.normal(0, 1.0, samples)
    return x, y


def standardize(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def shrink(value, amount):
    if value > amount:
        return value - amount
    if value < -amount:
        return value + amount
    return 0.0


class LassoPath:
    def __init__(self, lambdas, sweeps=6, tol=1e-5):
        self.lambdas = lambdas
        self.sweeps = sweeps
        self.tol = tol

    def sweep(self, x, residual, weights, lam):
        n = len(residual)
        biggest = 0.0
        for j in range(len(weights)):
            column = x[:, j]
            old = weights[j]
            new = shrink(old + column @ residual / n, lam)
            if new != old:
                residual -= (new - old) * column
                weights[j] = new
                biggest = max(biggest, abs(new - old))
        return biggest

    def fit(self, x, y):
        weights = np.zeros(x.shape[1])
        residual = y - y.mean()
        self.path = []
        for lam in self.lambdas:
            for _ in range(self.sweeps):
                if self.sweep(x, residual, weights, lam) < self.tol:
                    break
            self.path.append((lam, weights.copy(), residual @ residual / len(y)))
        return self


def choose(path, n):
    def bic(entry):
        _, weights, error = entry
        return n * np.log(error) + np.count_nonzero(weights) * np.log(n)
    return min(path, key=bic)


def stability(x, y, rounds, seed):
    rng = np.random.default_rng(seed)
    counts = np.zeros(x.shape[1])
    spread = x.std(axis=0)
    y = y - y.mean()
    for _ in range(rounds):
        rows = rng.permutation(len(y))[: len(y) // 2]
        corr = y[rows] @ x[rows] / (len(rows) * spread)
        counts += np.abs(corr) > 0.15
    return counts / rounds


def main():
    x, y = make_problem(12000, 300, seed=40)
    scaled = standardize(x)
    model = LassoPath(np.geomspace(0.5, 0.025, 20)).fit(scaled, y)
    lam, weights, error = choose(model.path, len(y))
    stable = stability(x, y, rounds=8, seed=41)
    print(f"lambda {lam:.4f} kept {np.count_nonzero(weights)} error {error:.5f} "
          f"stable {int((stable > 0.9).sum())}")


if __name__ == "__main__":
    main()
