"""Hatchet's JSON: the columns of its data frame."""

import json
from pathlib import Path


def count(path):
    document = json.loads(Path(path).read_text(encoding="utf-8"))
    names = [name for name in document["exclusive_metrics"] if name != "subroutines"]
    rows = document["dataframe"]
    return {name: sum(row.get(name) or 0 for row in rows) for name in names}
