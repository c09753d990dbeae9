"""Panel of store sales: seasonal features, ridge per store, error summary."""
import numpy as np
import pandas as pd


def panel(stores=60, days=4000, seed=4):
    rng = np.random.default_rng(seed)
    day = np.tile(np.arange(days), stores)
    store = np.repeat(np.arange(stores), days)
    level = rng.gamma(5, 10, stores)[store]
    season = 1 + 0.3 * np.sin(2 * np.pi * day / 7) + 0.2 * np.cos(2 * np.pi * day / 365)
    return pd.DataFrame({"store": store, "day": day,
                         "sales": level * season + rng.normal(0, 3, len(day))})


def add_features(frame):
    frame = frame.copy()
    for period in (7, 30, 365):
        frame[f"s{period}"] = np.sin(2 * np.pi * frame["day"] / period)
        frame[f"c{period}"] = np.cos(2 * np.pi * frame["day"] / period)
    return frame


def add_lags(frame, lags=(1, 7, 14)):
    grouped = frame.groupby("store")["sales"]
    for lag in lags:
        frame[f"lag{lag}"] = grouped.shift(lag)
    return frame.dropna()


def add_rolling(frame, window=28):
    frame["level"] = (frame.groupby("store")["sales"]
                      .transform(lambda s: s.rolling(window, min_periods=1).median()))
    return frame


def ridge(x, y, penalty=1.0):
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)


def fit_all(frame, repeats=20):
    cols = [c for c in frame.columns if c not in ("store", "day", "sales")]
    errors = []
    rng = np.random.default_rng(0)
    for _, part in frame.groupby("store"):
        x, y = part[cols].to_numpy(), part["sales"].to_numpy()
        for _ in range(repeats):
            pick = rng.integers(0, len(y), len(y))
            w = ridge(x[pick], y[pick])
            errors.append(np.abs(x @ w - y).mean())
    return np.array(errors)


def main():
    frame = add_rolling(add_lags(add_features(panel())))
    errors = fit_all(frame)
    print("mae %.3f +- %.3f" % (errors.mean(), errors.std()))


if __name__ == "__main__":
    main()
