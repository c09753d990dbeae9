"""Boosted stumps from scratch over a fixed table, logistic loss."""
import gc

import numpy as np
import pandas as pd
from scipy.special import expit


class Table:
    def __init__(self, n=15000, d=20, seed=17):
        rng = np.random.default_rng(seed)
        self.x = rng.standard_normal((n, d))
        score = np.where(self.x[:, 0] > 0.3, 1.2, -0.7) + 0.8 * self.x[:, 1]
        self.y = (rng.random(n) < expit(score)).astype(float)
        edges = np.quantile(self.x, np.linspace(0.03, 0.97, 32), axis=0)
        self.bins = np.stack([np.searchsorted(edges[:, j], self.x[:, j]) for j in range(d)])


def best_stump(bins, grad):
    best = (np.inf, 0, 0, 0.0, 0.0)
    for j, column in enumerate(bins):
        s = np.bincount(column, weights=grad, minlength=33).cumsum()
        c = np.bincount(column, minlength=33).cumsum()
        sl, cl = s[:-1], np.maximum(c[:-1], 1)
        sr, cr = s[-1] - sl, np.maximum(c[-1] - cl, 1)
        gain = -(sl ** 2 / cl + sr ** 2 / cr)
        k = int(gain.argmin())
        if gain[k] < best[0]:
            best = (gain[k], j, k, sl[k] / cl[k], sr[k] / cr[k])
    return best[1:]


def validate(table, margin):
    """Bootstrap interval of the log loss."""
    p = np.clip(expit(margin), 1e-6, 1 - 1e-6)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"loss": -(table.y * np.log(p) + (1 - table.y) * np.log(1 - p))})
    draws = [frame["loss"].to_numpy()[rng.integers(0, len(p), len(p))].mean() for _ in range(2000)]
    return np.quantile(draws, [0.05, 0.95])


def main(rounds=400, every=100, lr=0.4):
    table = Table()
    margin = np.zeros(len(table.y))
    for i in range(1, rounds + 1):
        grad = table.y - expit(margin)
        j, k, left, right = best_stump(table.bins, grad)
        margin += lr * np.where(table.bins[j] <= k, left, right) * 4
        if i % every == 0:
            lo, hi = validate(table, margin)
            print(f"round {i}: log loss {lo:.4f} .. {hi:.4f}")
    gc.collect()


if __name__ == "__main__":
    main()
