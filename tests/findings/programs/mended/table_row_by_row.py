"""Totals of a table of orders, row by row."""

import numpy as np
import pandas as pd


def total(orders):
    return (orders["price"] * orders["count"] * (1 - orders["discount"])).sum()


random = np.random.default_rng(11)
orders = pd.DataFrame(
    {
        "price": random.uniform(1, 100, 12_000),
        "count": random.integers(1, 9, 12_000).astype(float),
        "discount": random.uniform(0, 0.3, 12_000),
    }
)
print(round(total(orders), 2))
