"""Clean a table of taxi trips and fit fares with scikit-learn."""
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import train_test_split


def trips(n=40000, seed=13):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "lat0": 40.7 + rng.normal(0, 0.05, n), "lon0": -74 + rng.normal(0, 0.05, n),
        "lat1": 40.7 + rng.normal(0, 0.05, n), "lon1": -74 + rng.normal(0, 0.05, n),
        "hour": rng.integers(0, 24, n), "riders": rng.integers(1, 6, n)})
    flat = np.hypot(frame.lat1 - frame.lat0, frame.lon1 - frame.lon0)
    frame["fare"] = 3 + 160 * flat + 2 * (frame.hour > 19) + rng.normal(0, 0.5, n)
    return frame


def haversine(frame):
    out = []
    for row in frame.itertuples():
        p0, p1 = np.radians(row.lat0), np.radians(row.lat1)
        dphi = p1 - p0
        dlam = np.radians(row.lon1 - row.lon0)
        a = np.sin(dphi / 2) ** 2 + np.cos(p0) * np.cos(p1) * np.sin(dlam / 2) ** 2
        out.append(6371.0 * 2 * np.arcsin(np.sqrt(a)))
    return np.array(out)


def prepare(frame):
    frame = frame.copy()
    frame["km"] = haversine(frame)
    frame["night"] = (frame["hour"] > 19) | (frame["hour"] < 5)
    return frame.drop(columns="fare"), frame["fare"]


def main():
    x, y = prepare(trips())
    xa, xb, ya, yb = train_test_split(x, y, test_size=0.25, random_state=0)
    model = HistGradientBoostingRegressor(max_iter=40, random_state=0)
    model.fit(xa, ya)
    print("MAE %.3f" % mean_absolute_error(yb, model.predict(xb)))


if __name__ == "__main__":
    main()
