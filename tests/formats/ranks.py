"""A folder with a trace of torch.profiler for each rank: all of them together."""

from pathlib import Path

from tests.formats import chrome


def count(folder):
    sums = {}
    for file in Path(folder).glob("*.json*"):
        for name, value in chrome.count(file).items():
            sums[name] = sums.get(name, 0) + value
    return sums
