"""Collect hourly meter packets into one table, clean it and build daily load features."""
import numpy as np
import pandas as pd


def packets(count, rows, seed):
    rng = np.random.default_rng(seed)
    start = pd.Timestamp("2023-01-01")
    for k in range(count):
        times = start + pd.to_timedelta(np.arange(rows) * 7 + k * rows * 7, unit="s")
        load = 3 + np.sin(np.arange(rows) / 9 + k) + rng.normal(0, 0.2, rows)
        load[rng.random(rows) < 0.02] = np.nan
        yield pd.DataFrame({
            "time": times,
            "meter": rng.integers(0, 40, rows),
            "load": load,
            "site": np.where(rng.random(rows) < 0.5, "north", "south"),
        })


class FeedCollector:
    def __init__(self):
        self.table = pd.DataFrame({"time": pd.Series(dtype="datetime64[ns]"),
                                   "meter": pd.Series(dtype="int64"),
                                   "load": pd.Series(dtype="float64"),
                                   "site": pd.Series(dtype="object")})
        self.received = 0

    def accept(self, packet):
        self.table = pd.concat([self.table, packet], ignore_index=True)
        self.received += len(packet)

    def result(self):
        return self.table


def clean(table):
    table = table.sort_values(["meter", "time"], kind="stable")
    table["load"] = table.groupby("meter")["load"].ffill().fillna(0.0)
    return table.reset_index(drop=True)


def daily_features(table):
    day = table["time"].dt.floor("D")
    grouped = table.groupby([table["meter"], day])["load"]
    features = grouped.agg(["mean", "max", "std", "count"])
    features["swing"] = features["max"] - features["mean"]
    return features


def site_share(table):
    totals = table.groupby("site")["load"].sum()
    return totals / totals.sum()


def main():
    collector = FeedCollector()
    for packet in packets(count=600, rows=240, seed=21):
        collector.accept(packet)
    table = clean(collector.result())
    features = daily_features(table)
    share = site_share(table)
    print(f"rows {collector.received} groups {len(features)} "
          f"swing {features['swing'].sum():.4f} north {share['north']:.5f}")


if __name__ == "__main__":
    main()
