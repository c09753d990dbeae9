"""Recency / frequency / value scoring of customers."""
import numpy as np

from orders import CATEGORIES


def summarise(customer_id, history, today):
    amounts = history["amount"].to_numpy()
    kept = ~history["returned"].to_numpy()
    last = history["ordered_at"].to_numpy().max()
    by_category = np.bincount(
        history["category"].to_numpy(), weights=amounts, minlength=len(CATEGORIES)
    )
    return {
        "customer_id": int(customer_id),
        "orders": len(amounts),
        "net": float(amounts[kept].sum()),
        "recency": int((today - last) / np.timedelta64(1, "D")),
        "favourite": str(CATEGORIES[by_category.argmax()]),
    }


def segment(row):
    if row["recency"] <= 7 and row["net"] > 3600:
        return "champion"
    if row["recency"] > 21:
        return "lapsing"
    return "regular"
