"""Damped waves on a membrane with a position-dependent speed."""
import numpy as np


class Membrane:
    def __init__(self, size, seed=4):
        rng = np.random.default_rng(seed)
        y, x = np.mgrid[0:1:size * 1j, 0:1:size * 1j]
        self.now = np.zeros((size, size))
        for cx, cy, strength in rng.uniform(0.2, 0.8, (5, 3)):
            self.now += strength * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) * 900)
        self.before = self.now.copy()
        speed = 0.35 + 0.25 * np.sin(3 * np.pi * x) * np.cos(2 * np.pi * y)
        self.courant = (speed ** 2)[1:-1, 1:-1].copy()
        self.work = np.empty_like(self.courant)
        self.damping = 0.0008

    def advance(self, steps):
        work, courant = self.work, self.courant
        keep = 1.0 - self.damping
        for _ in range(steps):
            u, old = self.now, self.before
            np.add(u[:-2, 1:-1], u[2:, 1:-1], out=work)
            work += u[1:-1, :-2]
            work += u[1:-1, 2:]
            centre = u[1:-1, 1:-1]
            work -= 4.0 * centre
            work *= courant
            work += (1.0 + keep) * centre
            inner = old[1:-1, 1:-1]
            inner *= -keep
            inner += work
            self.before, self.now = u, old

    def energy(self):
        velocity = self.now - self.before
        gy, gx = np.gradient(self.now)
        return 0.5 * float((velocity ** 2).sum() + (gx ** 2 + gy ** 2).sum())
