"""Name what a program does from inside: timers, phases, user events, metadata.

    python phases.py --epochs 6

Groups points around centres (k-means) and marks its own stages. Under plain Python the marks do
nothing; under `taupy run` they are in the profile, along with the routines.
"""

from __future__ import annotations

import argparse
import random

import taupy

Point = tuple[float, float]
CENTRES: tuple[Point, ...] = ((0.0, 0.0), (8.0, 1.0), (3.0, 7.0))


def make_points(count: int, seed: int) -> list[Point]:
    source = random.Random(seed)
    return [
        (source.gauss(x, 2.5), source.gauss(y, 2.5))
        for x, y in (CENTRES[number % len(CENTRES)] for number in range(count))
    ]


def squared_distance(first: Point, second: Point) -> float:
    return (first[0] - second[0]) ** 2 + (first[1] - second[1]) ** 2


def nearest(point: Point, centres: list[Point]) -> int:
    best = 0
    for number in range(1, len(centres)):
        if squared_distance(point, centres[number]) < squared_distance(point, centres[best]):
            best = number
    return best


@taupy.timer("assign points")
def assign(points: list[Point], centres: list[Point]) -> list[int]:
    return [nearest(point, centres) for point in points]


def move(points: list[Point], owners: list[int], centres: list[Point]) -> list[Point]:
    """Move each centre to the mean of its points; a centre without points stays."""
    moved = []
    for number, centre in enumerate(centres):
        mine = [point for point, owner in zip(points, owners, strict=True) if owner == number]
        if mine:
            centre = (sum(x for x, _ in mine) / len(mine), sum(y for _, y in mine) / len(mine))
        moved.append(centre)
    return moved


def spread(points: list[Point], owners: list[int], centres: list[Point]) -> float:
    """Mean squared distance of a point from its centre."""
    total = 0.0
    for point, owner in zip(points, owners, strict=True):
        total += squared_distance(point, centres[owner])
    return total / len(points)


def main() -> None:
    parser = argparse.ArgumentParser(description="Group points, and mark the stages.")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--points", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    taupy.metadata("points", arguments.points)
    with taupy.phase("setup"):
        points = make_points(arguments.points, arguments.seed)
        centres = points[:: len(CENTRES)][: len(CENTRES)]  # a poor start: all in one group

    spreads = taupy.user_event("spread")
    for epoch in range(1, arguments.epochs + 1):
        with taupy.phase("epoch", dynamic=True):  # "epoch 1", "epoch 2", ...
            owners = assign(points, centres)
            with taupy.timer("move centres"):
                centres = move(points, owners, centres)
            value = spread(points, owners, centres)
            spreads.sample(value)
        print(f"epoch {epoch}  spread {value:.4f}")
    for x, y in sorted(centres):
        print(f"centre at {x:5.2f} {y:5.2f}")


if __name__ == "__main__":
    main()
