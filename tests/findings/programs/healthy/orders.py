"""Healthy: groupby and join over an orders table."""
import numpy as np
import pandas as pd


def orders(n=800000, seed=1):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "customer": rng.integers(0, 20000, n),
        "day": rng.integers(0, 730, n),
        "amount": rng.gamma(2, 15, n).round(2)})


def customers(n=20000):
    rng = np.random.default_rng(2)
    return pd.DataFrame({"customer": np.arange(n),
                         "region": rng.choice(["north", "south", "east", "west"], n)})


def recency(frame):
    agg = frame.groupby("customer").agg(last=("day", "max"), count=("day", "size"),
                                        total=("amount", "sum"))
    agg["score"] = agg[["last", "count", "total"]].rank(pct=True).mean(axis=1)
    return agg


def monthly(frame):
    month = frame["day"] // 30
    return frame.assign(month=month).pivot_table(index="month", columns="region",
                                                 values="amount", aggfunc="sum")


def main():
    table = orders().merge(customers(), on="customer")
    rank = recency(table).sort_values("score", ascending=False)
    print(rank.head(3).round(3).to_string())
    grid = monthly(table)
    print("growth", (grid.iloc[-2] / grid.iloc[0]).round(3).to_dict())
    ordered = table.sort_values(["customer", "day"])
    gap = ordered.groupby("customer")["day"].diff()
    print("median gap", float(gap.median()))


if __name__ == "__main__":
    main()
