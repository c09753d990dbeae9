"""What a call takes in five kinds of code, in ns of CPU time.

    python benchmarks/calls.py                           natively
    taupy run --no-watch benchmarks/calls.py             the difference is what taupy adds
    python -m cProfile benchmarks/calls.py               and so on

Each is the least of five rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

CALLS = 1_000_000
ROUNDS = 5


def routine(value: int) -> int:
    return value


class Thing:
    def method(self) -> int:
        return 1


def functions() -> None:
    for value in range(CALLS):
        routine(value)


def methods() -> None:
    thing = Thing()
    for _ in range(CALLS):
        thing.method()


def from_map() -> None:
    for _ in map(routine, range(CALLS)):
        pass


def from_sorted() -> None:
    sorted(range(CALLS), key=routine)


def generator() -> None:
    def values() -> Iterator[int]:
        yield from range(CALLS)

    for _ in values():
        pass


def nanoseconds(kind: Callable[[], None]) -> float:
    begin = time.process_time()
    kind()
    return (time.process_time() - begin) * 1e9 / CALLS


if __name__ == "__main__":
    for kind in (functions, methods, from_map, from_sorted, generator):
        print(f"{kind.__name__:12} {min(nanoseconds(kind) for _ in range(ROUNDS)):6.1f}")
