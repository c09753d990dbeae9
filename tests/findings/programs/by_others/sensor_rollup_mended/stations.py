import csv
import io

import numpy as np

SENSORS = ["temp", "hum", "press", "wind", "rad"]


def make_station(seed, days):
    rng = np.random.default_rng(seed)
    n = days * 1440
    minute = np.arange(n)
    day = np.sin(2 * np.pi * minute / 1440 - 2)
    drift = np.cumsum(rng.normal(scale=0.02, size=(n, 5)), axis=0)
    base = np.array([14.0, 65.0, 1012.0, 9.0, 400.0])
    swing = np.array([6.0, -14.0, 0.5, 2.0, 300.0])
    data = base + day[:, None] * swing + drift + rng.normal(scale=0.3, size=(n, 5))
    gone = rng.random((n, 5)) < 0.01
    gone[0] = False
    out = io.StringIO()
    writer = csv.writer(out)
    text = np.char.mod("%.2f", data)
    text[gone] = ""
    for m, row in zip(minute.tolist(), text.tolist()):
        writer.writerow([m, *row])
    out.seek(0)
    return out
