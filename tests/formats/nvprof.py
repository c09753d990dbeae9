"""`nvprof --csv`: rows of the summary."""

import csv
from pathlib import Path

NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def count(path):
    lines = [
        line
        for line in Path(path).read_text(encoding="utf-8").splitlines()
        if not line.startswith("==")
    ]
    rows = list(csv.reader(lines))
    at = next(number for number, row in enumerate(rows) if row[:2] == ["Type", "Time(%)"])
    factor = NS[rows[at + 1][2]]
    sums = {"launches": 0, "gpu_ns": 0, "api_calls": 0}
    for row in rows[at + 2 :]:
        if row and row[0] == "GPU activities":
            sums["launches"] += int(row[3])
            sums["gpu_ns"] += round(float(row[2]) * factor)
        elif row and row[0] == "API calls":
            sums["api_calls"] += int(row[3])
    return sums
