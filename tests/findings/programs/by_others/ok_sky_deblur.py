"""Deblur a synthetic star field with Richardson-Lucy iterations in Fourier space."""
import numpy as np
from scipy import fft, ndimage


def star_field(side, stars, seed):
    rng = np.random.default_rng(seed)
    field = np.full((side, side), 0.02)
    rows, columns = rng.integers(0, side, (2, stars))
    np.add.at(field, (rows, columns), rng.pareto(2.0, stars) + 0.5)
    return field


def gaussian_psf(side, sigma):
    offset = fft.fftfreq(side, 1.0 / side)
    squared = offset[:, None] ** 2 + offset[None, :] ** 2
    psf = np.exp(-squared / (2 * sigma ** 2))
    return psf / psf.sum()


class Blur:
    def __init__(self, psf):
        self.shape = psf.shape
        self.transfer = fft.rfft2(psf)
        self.adjoint = np.conj(self.transfer)

    def apply(self, image):
        return fft.irfft2(fft.rfft2(image) * self.transfer, s=self.shape)

    def apply_adjoint(self, image):
        return fft.irfft2(fft.rfft2(image) * self.adjoint, s=self.shape)


def observe(field, blur, exposure, seed):
    rng = np.random.default_rng(seed)
    return rng.poisson(np.maximum(blur.apply(field), 0) * exposure) / exposure


def richardson_lucy(observed, blur, rounds):
    estimate = np.full_like(observed, observed.mean())
    for _ in range(rounds):
        expected = np.maximum(blur.apply(estimate), 1e-9)
        estimate *= np.maximum(blur.apply_adjoint(observed / expected), 0)
    return estimate


def detect(image, level):
    peaks = (image == ndimage.maximum_filter(image, size=5)) & (image > level)
    return np.argwhere(peaks)


def main():
    field = star_field(384, 250, seed=31)
    blur = Blur(gaussian_psf(384, sigma=2.0))
    observed = observe(field, blur, exposure=400.0, seed=32)
    restored = richardson_lucy(observed, blur, rounds=240)
    found = detect(restored, level=0.4)
    print(f"flux {observed.sum():.2f} {restored.sum():.2f} stars {len(found)}")


if __name__ == "__main__":
    main()
