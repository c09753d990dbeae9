"""Builds the sales extract the way the warehouse hands it over: one long table."""
import numpy as np
import pandas as pd

CHANNELS = ["till", "web", "phone", "b2b"]


def _names(prefix, n):
    return np.array([f"{prefix}{i:04d}" for i in range(n)])


def load_sales(seed, rows, stores=420, skus=900, weeks=24):
    rng = np.random.default_rng(seed)
    store = rng.zipf(1.25, rows * 3)
    store = store[store <= stores][:rows] - 1
    n = len(store)
    sku = (rng.beta(0.7, 2.4, n) * skus).astype(int)
    cost = np.round(rng.gamma(3.0, 2.2, n) + 0.4, 2)
    frame = pd.DataFrame(
        {
            "week": rng.integers(1, weeks + 1, n),
            "store": _names("S", stores)[store],
            "sku": _names("K", skus)[sku],
            "channel": np.array(CHANNELS)[rng.choice(4, n, p=[0.7, 0.2, 0.04, 0.06])],
            "units": rng.integers(1, 9, n),
            "cost": cost,
            "price": np.round(cost * rng.uniform(0.95, 1.9, n), 2),
        }
    )
    return shrink(frame)


def shrink(frame):
    """The extract is mostly repeated labels; keep it small in memory."""
    for col in ("store", "sku", "channel"):
        frame[col] = frame[col].astype("category")
    for col in ("week", "units"):
        frame[col] = pd.to_numeric(frame[col], downcast="integer")
    return frame


def load_regions(sales, seed):
    rng = np.random.default_rng(seed + 1)
    stores = sales["store"].cat.categories
    return pd.DataFrame(
        {
            "store": pd.Categorical(stores, categories=stores),
            "region": rng.choice(["north", "south", "east", "west"], len(stores)),
        }
    )
