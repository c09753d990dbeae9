"""Triton's Proton: times and launches of all nodes."""

import json
from pathlib import Path


def count(path):
    sums = {"gpu_ns": 0, "calls": 0}
    waiting = [
        node for node in json.loads(Path(path).read_text(encoding="utf-8")) if "frame" in node
    ]
    while waiting:
        node = waiting.pop()
        waiting += node["children"]
        sums["gpu_ns"] += node["metrics"].get("time (ns)", 0)
        sums["calls"] += node["metrics"].get("count", 0)
    return sums
