import numpy as np

from rollup import cross_terms, fill_gaps, hourly, persistence, read_station, smooth
from stations import SENSORS, make_station

LAGS = list(range(5, 605, 5))


def report(name, handle):
    minutes, raw = read_station(handle)
    table = fill_gaps(raw)
    mean, low, high = hourly(table)
    soft = smooth(table)
    change = persistence(soft, LAGS)
    links = cross_terms(soft)
    print(f"{name}: minutes {len(minutes)} hours {len(mean)}")
    for c, sensor in enumerate(SENSORS):
        best = LAGS[int(np.argmax(change[:, c] > 0.5 * change[-1, c]))]
        print(
            f"   {sensor:6s} mean {float(mean[:, c].mean()):9.3f} "
            f"range {float((high[:, c] - low[:, c]).mean()):8.3f} "
            f"half life {best:4d} link {float(links[0, c]):7.4f}"
        )


def main():
    for k in range(2):
        report(f"station {k}", make_station(70 + k, days=20))


if __name__ == "__main__":
    main()
