"""Collapsed stacks: the numbers at the ends of lines."""

from pathlib import Path


def count(path):
    lines = [
        line
        for line in Path(path).read_text(encoding="utf-8").splitlines()
        if line.strip() and line[0] != "#"
    ]
    return {"weight": sum(float(line.rsplit(None, 1)[1]) for line in lines)}
