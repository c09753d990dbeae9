"""Work before and after the requests: nobody waits for the event loop while it is done."""

import asyncio


def prepared(number):
    return sum(value * value for value in range(number, number + 60_000))


async def fetch(number):
    await asyncio.sleep(0.02 + number % 7 * 0.01)
    return number


async def main():
    requests = [prepared(number) for number in range(120)]
    answers = await asyncio.gather(*(fetch(one % 1000) for one in requests))
    print(sum(prepared(answer) for answer in answers) % 1_000_003)


asyncio.run(main())
