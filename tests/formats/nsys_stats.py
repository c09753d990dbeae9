"""`nsys stats --format csv`: totals of the tables of kernels and copies."""

import csv
from pathlib import Path


def count(path):
    sums = {"launches": 0, "gpu_ns": 0}
    columns = []
    for row in csv.reader(Path(path).read_text(encoding="utf-8").splitlines()):
        if row and row[0] in ("Time (%)", "Total (MB)"):
            columns = row
        elif len(row) == len(columns) and "Total Time (ns)" in columns:
            named = dict(zip(columns, row, strict=True))
            if {"Name", "Instances"} <= {*columns} or "Operation" in columns:
                sums["launches"] += int(named.get("Instances") or named["Count"])
                sums["gpu_ns"] += int(named["Total Time (ns)"])
    return sums
