"""Clean a grid of sensor readings, take out the daily trend and find odd stations."""
import numpy as np

STEPS = 288


class Archive:
    """Readings as they come from the stations; a lost reading is None."""

    def __init__(self, stations, days, seed):
        rng = np.random.default_rng(seed)
        wave = np.sin(np.linspace(0, 2 * np.pi, STEPS))
        self.rows = []
        for _ in range(stations):
            base = rng.normal(15, 4) + np.tile(wave, days) * rng.uniform(2, 6)
            values = np.round(base + rng.normal(0, 0.5, base.size), 3).tolist()
            for place in rng.integers(0, base.size, base.size // 200):
                values[place] = None
            self.rows.append(values)


def load(archive):
    table = np.array(archive.rows)
    lost = table == None
    table[lost] = 0.0
    return table, lost


def fill(table, lost):
    counts = (~lost).sum(axis=1)
    means = table.sum(axis=1) / counts
    return np.where(lost, means[:, None], table)


def remove_trend(table):
    stations, size = table.shape
    days = table.reshape(stations, size // STEPS, STEPS)
    profile = days.mean(axis=1)
    return (days - profile[:, None, :]).reshape(stations, size)


def smooth(table, width):
    out = table[:, width:] * 0.0
    for shift in range(width):
        out = out + table[:, shift:shift - width]
    return out / width


def spread(table):
    centred = table - table.mean(axis=1)[:, None]
    return np.sqrt(((centred * centred).sum(axis=1) / table.shape[1]).astype(float))


def spectrum_peak(table):
    power = np.abs(np.fft.rfft(table.astype(float), axis=1))
    return power[:, 1:].argmax(axis=1) + 1


def main():
    archive = Archive(stations=60, days=85, seed=17)
    table, lost = load(archive)
    filled = fill(table, lost)
    residual = remove_trend(filled)
    calm = smooth(residual, 12)
    scores = spread(calm)
    odd = np.argsort(scores)[-3:]
    peaks = spectrum_peak(filled)
    print(int(lost.sum()), odd.tolist(), int(peaks.sum()), f"{scores.sum():.6f}")


if __name__ == "__main__":
    main()
