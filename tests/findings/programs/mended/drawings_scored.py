"""Drawings arrive one by one over a slow line; each is scored as soon as it is there."""

import asyncio
import random
from concurrent.futures import ProcessPoolExecutor


def score(drawing):
    """How far its points are from their neighbours on the closed line."""
    total = 0.0
    for x, y in drawing:
        nearest = 1e9
        for u, v in drawing:
            far = (x - u) ** 2 + (y - v) ** 2
            if 0 < far < nearest:
                nearest = far
        total += nearest
    return total


async def arrive(number):
    await asyncio.sleep(0.01 + number % 5 * 0.01)
    chance = random.Random(number)
    return [(chance.random(), chance.random()) for _ in range(420)]


async def judged(number, pool):
    drawing = await arrive(number)
    return await asyncio.get_running_loop().run_in_executor(pool, score, drawing)


async def main():
    with ProcessPoolExecutor(2) as pool:
        scores = await asyncio.gather(*(judged(number, pool) for number in range(80)))
    print(f"{sum(scores):.6f}")


if __name__ == "__main__":
    asyncio.run(main())
