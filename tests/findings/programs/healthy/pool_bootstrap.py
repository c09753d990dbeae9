"""Healthy: bootstrap of a correlation in two equal processes."""
import multiprocessing as mp

import numpy as np


def sample(n=20000):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n)
    return x, 0.4 * x + rng.standard_normal(n)


def chunk(seed, rounds=100):
    rng = np.random.default_rng(seed)
    x, y = sample()
    out = np.empty(rounds)
    for i in range(rounds):
        pick = rng.integers(0, len(x), len(x))
        out[i] = np.corrcoef(x[pick], y[pick])[0, 1]
    return out


def main(chunks=32):
    with mp.get_context("fork").Pool(2) as pool:
        parts = pool.map(chunk, range(chunks), chunksize=1)
    draws = np.concatenate(parts)
    print("r in [%.4f, %.4f]" % tuple(np.quantile(draws, [0.025, 0.975])))


if __name__ == "__main__":
    main()
