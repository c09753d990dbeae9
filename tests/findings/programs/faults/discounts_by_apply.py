"""Totals of orders, each row handed to a function of Python."""

import numpy as np
import pandas as pd


def total(row):
    rate = 0.9 if row["count"] > 5 else 1.0
    return row["price"] * row["count"] * rate


random = np.random.default_rng(3)
orders = pd.DataFrame(
    {"price": random.uniform(1, 100, 40_000), "count": random.integers(1, 9, 40_000)}
)
orders["total"] = orders.apply(total, axis=1)
print(round(orders["total"].sum(), 4))
