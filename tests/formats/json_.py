"""taupy's own JSON: calls and exclusive values of all threads."""

import json
from pathlib import Path


def count(path):
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    sums = {"all_calls": 0}
    for thread in document["threads"]:
        tree = thread["tree"]
        sums["all_calls"] += sum(tree["calls"])
        for name, values in tree["exclusive"].items():
            sums[name] = sums.get(name, 0) + sum(value for value in values if value)
    return sums
