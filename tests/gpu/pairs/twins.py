"""Run one of a pair: `PROGRAM fault`, `PROGRAM mended`, or both in turn by `PROGRAM time ROUNDS`.

`time` prints "ready", waits for a line, and prints the seconds of each run after a first one of
both, which loads code, as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

Twin = Callable[[int], object]


def run(steps: int, fault: Twin, mended: Twin, wait: Callable[[], object]) -> None:
    """Do what the command line says.

    Args:
        steps: of a run; both twins take their number. Timed runs have a quarter of them.
        wait: waits until the GPU has done all its work.
    """
    twins = {"fault": fault, "mended": mended}
    if sys.argv[1] in twins:
        print(twins[sys.argv[1]](steps))
        wait()
        return
    print("ready", flush=True)
    sys.stdin.readline()
    seconds: dict[str, list[float]] = {"fault": [], "mended": []}
    for number in range(1 + int(sys.argv[2])):
        for name, twin in twins.items():
            wait()
            begin = time.perf_counter()
            twin(steps // 4 if number else steps // 20)
            wait()
            if number:
                seconds[name].append(time.perf_counter() - begin)
    print(json.dumps(seconds))
