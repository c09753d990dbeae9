"""Read a visit log in CSV form, parse it and split it into sessions."""
import os
import tempfile

import numpy as np
import pandas as pd


def write_log(path, rows, seed):
    rng = np.random.default_rng(seed)
    stamp = pd.Timestamp("2022-03-01") + pd.to_timedelta(
        np.sort(rng.integers(0, 60 * 86400, rows)), unit="s")
    frame = pd.DataFrame({
        "when": stamp.strftime("%d.%m.%Y %H:%M:%S"),
        "visitor": rng.integers(0, 900, rows),
        "page": rng.choice(["home", "list", "item", "cart", "help"], rows),
        "ms": rng.gamma(3.0, 80.0, rows).round(1),
    })
    frame.to_csv(path, index=False)


def load_log(path):
    frame = pd.read_csv(path, dtype={"visitor": "int32", "page": "category"})
    frame["when"] = pd.to_datetime(frame["when"], format="mixed", dayfirst=True)
    return frame


def add_sessions(frame, minutes=30):
    frame = frame.sort_values(["visitor", "when"], kind="stable", ignore_index=True)
    gap = frame.groupby("visitor")["when"].diff()
    frame["session"] = (gap.isna() | (gap > pd.Timedelta(minutes=minutes))).cumsum()
    return frame


def session_summary(frame):
    grouped = frame.groupby("session")
    summary = grouped.agg(visitor=("visitor", "first"), start=("when", "min"),
                          end=("when", "max"), pages=("page", "count"), ms=("ms", "median"))
    summary["seconds"] = (summary["end"] - summary["start"]).dt.total_seconds()
    return summary


def hourly_profile(frame):
    hour = frame["when"].dt.hour
    return frame.groupby(hour)["ms"].quantile([0.5, 0.95]).unstack()


def conversion(frame):
    carts = frame.loc[frame["page"] == "cart", "session"].nunique()
    return carts / frame["session"].nunique()


def median_interval(summary, draws, seed):
    rng = np.random.default_rng(seed)
    values = summary["ms"].to_numpy()
    means = [values[rng.integers(0, len(values), len(values))].mean() for _ in range(draws)]
    return np.quantile(means, [0.05, 0.95])


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "visits.csv")
        write_log(path, 25_000, seed=13)
        frame = add_sessions(load_log(path))
    summary = session_summary(frame)
    profile = hourly_profile(frame)
    low, high = median_interval(summary, draws=900, seed=14)
    print(f"sessions {len(summary)} seconds {summary['seconds'].sum():.0f} "
          f"p95 {profile[0.95].mean():.3f} carts {conversion(frame):.5f} ms {low:.3f}-{high:.3f}")


if __name__ == "__main__":
    main()
