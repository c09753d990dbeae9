"""Synthetic order history."""
import numpy as np
import pandas as pd

CATEGORIES = np.array(["garden", "kitchen", "office", "outdoor", "toys"])


def load_orders(rows=250_000, customers=2_500, seed=21):
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 730, rows)
    return pd.DataFrame({
        "customer_id": rng.integers(0, customers, rows) + 10_000,
        "ordered_at": np.datetime64("2023-01-01") + days.astype("timedelta64[D]"),
        "category": rng.integers(0, len(CATEGORIES), rows),
        "amount": np.round(rng.gamma(2.0, 18.0, rows), 2),
        "returned": rng.random(rows) < 0.07,
    })
