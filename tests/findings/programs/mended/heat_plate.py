"""Explicit heat equation on a plate, then a spectral check of the result."""
import numpy as np


class Plate:
    def __init__(self, n, alpha=0.2, seed=2):
        rng = np.random.default_rng(seed)
        self.n = n
        self.alpha = alpha
        self.t = rng.random((n, n))
        self.t[0, :] = 1.0
        self.t[-1, :] = 0.0

    def advance(self):
        t = self.t
        new = t.copy()
        lap = t[:-2, 1:-1] + t[2:, 1:-1] + t[1:-1, :-2] + t[1:-1, 2:] - 4.0 * t[1:-1, 1:-1]
        new[1:-1, 1:-1] = t[1:-1, 1:-1] + self.alpha * lap
        self.t = new

    def energy(self):
        return float((self.t ** 2).sum())


def spectrum_check(field, rounds):
    """Power outside the low modes, averaged over random shifts."""
    rng = np.random.default_rng(0)
    total = 0.0
    big = np.kron(field, np.ones((10, 10)))
    for _ in range(rounds):
        a, b = rng.integers(0, len(big), 2)
        power = np.abs(np.fft.rfft2(np.roll(np.roll(big, a, 0), b, 1))) ** 2
        total += 1.0 - power[:50, :50].sum() / power.sum()
    return total / rounds


def main():
    plate = Plate(120)
    start = plate.energy()
    for _ in range(100):
        plate.advance()
    print("energy %.2f -> %.2f" % (start, plate.energy()))
    print("high modes %.5f" % spectrum_check(plate.t, 16))


if __name__ == "__main__":
    main()
