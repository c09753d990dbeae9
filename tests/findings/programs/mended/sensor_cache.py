"""Rolling spectral features over a long sensor stream."""
import numpy as np

RATE = 256
WINDOW = 65536


def stream(blocks, seed=11):
    rng = np.random.default_rng(seed)
    clock = 0
    for _ in range(blocks):
        t = (np.arange(WINDOW) + clock) / RATE
        clock += WINDOW // 2
        yield clock, np.sin(2 * np.pi * 12 * t) + 0.3 * rng.standard_normal(WINDOW)


class Spectra:
    """Compute windowed spectra and remember those already computed."""

    def __init__(self):
        self.taper = np.hanning(WINDOW)
        self._seen = {}

    def get(self, clock, block):
        key = (clock, block[0])
        if len(self._seen) > 8:
            self._seen.pop(next(iter(self._seen)))
        if key not in self._seen:
            spec = np.fft.fft(block * self.taper)
            self._seen[key] = np.stack([spec, np.abs(spec) ** 2, np.unwrap(np.angle(spec))])
        return self._seen[key]


def features(spec):
    power = spec[1].real[:WINDOW // 2]
    freq = np.arange(WINDOW // 2) * RATE / WINDOW
    total = power.sum()
    centroid = float((freq * power).sum() / total)
    peak = float(freq[power.argmax()])
    return centroid, peak


def main():
    spectra = Spectra()
    rows = []
    for clock, block in stream(420):
        spec = spectra.get(clock, block)
        rows.append(features(spec))
    table = np.array(rows)
    print("windows", len(table))
    print("mean centroid %.3f peak %.3f" % tuple(table.mean(axis=0)))


if __name__ == "__main__":
    main()
