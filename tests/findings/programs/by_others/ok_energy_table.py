"""Join meter readings with tariffs and summarise the cost by household and hour."""
import zlib

import numpy as np
import pandas as pd


def make_readings(homes, days, seed):
    rng = np.random.default_rng(seed)
    hours = pd.date_range("2024-01-01", periods=days * 24, freq="h")
    frame = pd.DataFrame({
        "home": np.repeat(np.arange(homes), len(hours)),
        "time": np.tile(hours.to_numpy(), homes),
    })
    base = rng.gamma(2.0, 0.2, homes)[frame["home"].to_numpy()]
    shape = 1 + 0.6 * np.sin((frame["time"].dt.hour.to_numpy() - 7) / 24 * 2 * np.pi)
    frame["kwh"] = np.round(base * shape * rng.gamma(6.0, 1 / 6, len(frame)), 4)
    frame.loc[rng.random(len(frame)) < 0.01, "kwh"] = np.nan
    return frame


def make_tariffs(homes, seed):
    rng = np.random.default_rng(seed)
    plans = pd.DataFrame({"home": np.arange(homes), "plan": rng.integers(0, 4, homes)})
    prices = pd.DataFrame({
        "plan": np.repeat(np.arange(4), 24),
        "hour": np.tile(np.arange(24), 4),
        "cents": np.round(rng.uniform(18, 42, 96), 2),
    })
    return plans, prices


def clean(frame):
    frame = frame.copy()
    frame["kwh"] = frame.groupby("home")["kwh"].ffill().fillna(0.0)
    frame["hour"] = frame["time"].dt.hour
    frame["month"] = frame["time"].dt.month
    return frame


def price(frame, plans, prices):
    joined = frame.merge(plans, on="home").merge(prices, on=["plan", "hour"])
    joined["cost"] = joined["kwh"] * joined["cents"]
    return joined


def summarise(joined):
    homes = joined.groupby(["home", "month"], as_index=False).agg(
        kwh=("kwh", "sum"), cost=("cost", "sum"), peak=("kwh", "max"))
    hours = joined.pivot_table(index="hour", columns="plan", values="cost", aggfunc="mean")
    return homes, hours


def rolling_peak(frame):
    ordered = frame.sort_values(["home", "time"])
    means = ordered.groupby("home")["kwh"].rolling(24).mean()
    return means.groupby(level=0).max()


def checksum(frame):
    return zlib.crc32(frame.round(3).to_csv(index=False).encode())


def main():
    readings = clean(make_readings(homes=300, days=240, seed=29))
    joined = price(readings, *make_tariffs(300, 30))
    homes, hours = summarise(joined)
    peaks = rolling_peak(readings)
    print(len(joined), f"{checksum(homes):08x}", f"{checksum(hours):08x}", f"{peaks.sum():.3f}")


if __name__ == "__main__":
    main()
