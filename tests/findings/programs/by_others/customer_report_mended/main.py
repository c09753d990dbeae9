"""Builds the monthly customer report from the order history."""
import numpy as np
import pandas as pd

from orders import load_orders
from scoring import segment, summarise

TODAY = np.datetime64("2025-01-01")


def build_report(orders):
    rows = []
    for customer_id, history in orders.groupby("customer_id", sort=True):
        rows.append(summarise(customer_id, history, TODAY))
    report = pd.DataFrame(rows)
    report["segment"] = [segment(row) for row in rows]
    return report


def main():
    orders = load_orders()
    report = build_report(orders)
    print(f"customers={len(report)} orders={report['orders'].sum()}")
    for name, part in report.groupby("segment"):
        print(f"{name:<9} n={len(part):<5} net={part['net'].sum():.2f}")
    print(report["favourite"].value_counts().sort_index().to_dict())


if __name__ == "__main__":
    main()
