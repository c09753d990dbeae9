"""Simulates membrane waves and reports energy and dominant wavelength."""
import numpy as np

from membrane import Membrane

SIZE = 520
STEPS = 1_900
FRAMES = 20


def dominant_wavelength(field):
    window = np.hanning(field.shape[0])
    spectrum = np.abs(np.fft.rfft2(field * np.outer(window, window))) ** 2
    fy = np.fft.fftfreq(field.shape[0])[:, None]
    fx = np.fft.rfftfreq(field.shape[1])[None, :]
    radius = np.hypot(fx, fy)
    rings = np.digitize(radius.ravel(), np.linspace(0, 0.5, 120))
    power = np.bincount(rings, weights=spectrum.ravel(), minlength=121)
    return 120 / 0.5 / max(int(power[2:].argmax()) + 2, 1)


def main():
    membrane = Membrane(SIZE)
    energies = [membrane.energy()]
    peaks = []
    for _ in range(FRAMES):
        membrane.advance(STEPS // FRAMES)
        energies.append(membrane.energy())
        peaks.append(float(np.abs(membrane.now).max()))
    print(f"energy start={energies[0]:.4f} end={energies[-1]:.4f}")
    print(f"peak={max(peaks):.4f} wavelength={dominant_wavelength(membrane.now):.2f}")


if __name__ == "__main__":
    main()
