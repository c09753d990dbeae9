"""Two dimensional flow on a periodic square, solved in wave space."""
import numpy as np


class Flow:
    def __init__(self, size, viscosity):
        self.size = size
        kx = np.fft.fftfreq(size, 1.0 / size)
        ky = np.fft.rfftfreq(size, 1.0 / size)
        self.kx = kx[:, None]
        self.ky = ky[None, :]
        self.k2 = self.kx**2 + self.ky**2
        self.inv_k2 = np.zeros_like(self.k2)
        np.divide(1.0, self.k2, out=self.inv_k2, where=self.k2 > 0)
        self.keep = (np.abs(self.kx) < size / 3) & (self.ky < size / 3)
        self.viscosity = viscosity
        self.ikx = 1j * self.kx
        self.iky = 1j * self.ky

    def back(self, hat):
        return np.fft.irfft2(hat, s=(self.size, self.size))

    def slope(self, w_hat):
        psi = w_hat * self.inv_k2
        u = self.back(self.iky * psi)
        v = self.back(-self.ikx * psi)
        wx = self.back(self.ikx * w_hat)
        wy = self.back(self.iky * w_hat)
        u *= wx
        v *= wy
        u += v
        carried = np.fft.rfft2(u)
        carried *= self.keep
        return -carried - self.viscosity * self.k2 * w_hat

    def step(self, w_hat, dt):
        """Classic third order Runge-Kutta (Heun's form)."""
        a = self.slope(w_hat)
        b = self.slope(w_hat + (dt / 3) * a)
        c = self.slope(w_hat + (2 * dt / 3) * b)
        return w_hat + (dt / 4) * (a + 3 * c)

    def energy(self, w_hat):
        psi = self.back(w_hat * self.inv_k2)
        return 0.5 * float((psi * self.back(w_hat)).mean())

    def enstrophy(self, w_hat):
        return 0.5 * float((self.back(w_hat) ** 2).mean())


def patches(size, seed, count=9):
    rng = np.random.default_rng(seed)
    axis = np.arange(size) * (2 * np.pi / size)
    w = np.zeros((size, size))
    for _ in range(count):
        x, y = rng.uniform(0, 2 * np.pi, 2)
        dx = (axis[:, None] - x + np.pi) % (2 * np.pi) - np.pi
        dy = (axis[None, :] - y + np.pi) % (2 * np.pi) - np.pi
        w += rng.choice([-1, 1]) * rng.uniform(4, 9) * np.exp(-(dx**2 + dy**2) / rng.uniform(0.04, 0.15))
    return w - w.mean()
