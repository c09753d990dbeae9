"""`ncu --csv`, one row for each metric: launches, and the sum of each metric."""

import csv
from pathlib import Path


def count(path):
    lines = [
        line
        for line in Path(path).read_text(encoding="utf-8").splitlines()
        if not line.startswith("==")
    ]
    rows = list(csv.DictReader(lines))
    sums = {"launches": len({row["ID"] for row in rows})}
    for row in rows:
        value = float(row["Metric Value"].replace(",", ""))
        sums[row["Metric Name"]] = sums.get(row["Metric Name"], 0) + value
    return sums
