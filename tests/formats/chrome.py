"""Chrome traces of torch.profiler: complete slices (X) and pairs (B, E)."""

import gzip
import json
from collections import defaultdict
from decimal import Decimal

GPU = {"kernel", "gpu_memcpy", "gpu_memset"}
NOT_CALLS = {"trace", "overhead", "gpu_user_annotation", "cuda_sync", "cuda_profiler_range"}


def count(path):
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt") as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    sums = {"calls": 0, "launches": 0, "gpu_ns": 0, "host_ns": 0}
    spans = defaultdict(list)
    begun = defaultdict(list)
    for event in events:
        if event.get("cat") == "python_function" and event.get("pid") == event.get("tid") == 0:
            continue  # of a thread that torch.profiler does not know; left out with a note
        category = str(event.get("cat", "")).lower()
        place = event.get("pid"), event.get("tid")
        if event.get("ph") == "X":
            start, took = ns(event["ts"]), ns(event.get("dur", 0))
            if category in GPU:
                sums["launches"] += 1
                sums["gpu_ns"] += took
            elif category not in NOT_CALLS:
                sums["calls"] += 1
                spans[place].append((start, start + took))
        elif event.get("ph") == "B":
            begun[place].append(ns(event["ts"]))
        elif event.get("ph") == "E" and begun[place]:
            sums["calls"] += 1
            spans[place].append((begun[place].pop(), ns(event["ts"])))
    for of_thread in spans.values():
        until = None
        for start, end in sorted(of_thread):
            begin = start if until is None else max(start, until)
            sums["host_ns"] += max(0, end - begin)
            until = end if until is None else max(until, end)
    return sums


def ns(microseconds):
    return round(Decimal(microseconds) * 1000)
