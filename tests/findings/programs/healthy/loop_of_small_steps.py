"""Many tasks that compute for a millisecond or two, and give way."""

import asyncio


def parsed(text):
    fields = [part.split("=") for part in text.split(";")]
    return sum(int(value) for _, value in fields if int(value) % 3)


async def handle(queue, results):
    while (text := await queue.get()) is not None:
        results.append(parsed(text))


async def main():
    queue, results = asyncio.Queue(8), []
    workers = [asyncio.create_task(handle(queue, results)) for _ in range(6)]
    for number in range(1500):
        await queue.put(";".join(f"k{key}={number * key}" for key in range(1500)))
    for _ in workers:
        await queue.put(None)
    await asyncio.gather(*workers)
    print(sum(results))


asyncio.run(main())
