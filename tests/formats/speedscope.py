"""speedscope files: weights of samples, and the time in which a frame was open."""

import json
from pathlib import Path

NS = {"nanoseconds": 1, "microseconds": 10**3, "milliseconds": 10**6, "seconds": 10**9}


def count(path):
    total = 0
    for profile in json.loads(Path(path).read_text(encoding="utf-8"))["profiles"]:
        factor = NS.get(profile["unit"], 1)
        if profile["type"] == "sampled":
            stacks = zip(profile["samples"], profile["weights"], strict=True)
            total += factor * sum(weight for _, weight in stacks)
            continue
        depth = begun = 0
        for event in profile["events"]:
            if event["type"] == "O":
                begun = event["at"] if not depth else begun
                depth += 1
            else:
                depth -= 1
                total += 0 if depth else factor * (event["at"] - begun)
    return {"weight": total}
