"""Coroutines that hand numbers on; nothing blocks."""

import asyncio


async def produce(queue):
    for number in range(12_000):
        await queue.put(number)
    await queue.put(None)


async def consume(queue):
    total = 0
    while (number := await queue.get()) is not None:
        total += number
    return total


async def main():
    queue = asyncio.Queue(100)
    _, total = await asyncio.gather(produce(queue), consume(queue))
    print(total)


asyncio.run(main())
