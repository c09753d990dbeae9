"""Checkerboard Ising sampler that writes its lattice so a run can be resumed."""
import gzip
import os
import pickle
import tempfile

import numpy as np


def checkerboard(n):
    grid = np.indices((n, n)).sum(0) % 2
    return grid == 0, grid == 1


def sweep(spins, masks, beta, rng):
    for mask in masks:
        field = (np.roll(spins, 1, 0) + np.roll(spins, -1, 0)
                 + np.roll(spins, 1, 1) + np.roll(spins, -1, 1))
        up = 1.0 / (1.0 + np.exp(-2.0 * beta * field))
        draw = np.where(rng.random(spins.shape) < up, 1, -1)
        spins[mask] = draw[mask]


def save_state(path, state):
    with gzip.open(path + ".tmp", "wb", compresslevel=9) as fh:
        pickle.dump(state, fh, protocol=4)
    os.replace(path + ".tmp", path)


def simulate(n=500, sweeps=100, beta=0.42, every=50):
    rng = np.random.default_rng(21)
    spins = np.where(rng.random((n, n)) < 0.5, 1, -1)
    masks = checkerboard(n)
    magnet = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.pkl.gz")
        for i in range(1, sweeps + 1):
            sweep(spins, masks, beta, rng)
            magnet.append(float(spins.mean()))
            if i % every == 0:
                save_state(path, {"sweep": i, "spins": spins, "rng": rng.bit_generator.state})
    return np.array(magnet)


if __name__ == "__main__":
    m = simulate()
    print("final magnetisation %.4f, spread %.4f" % (m[-1], m.std()))
