"""A pipeline of asyncio tasks: read log lines, parse them, sum them up by service.

    python async_pipeline.py --lines 5000 --workers 4

One task reads, several parse and one sums up, connected by bounded queues.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

SERVICES = ("search", "checkout", "login", "images")


@dataclass
class Summary:
    """The figures of one service."""

    requests: int = 0
    total_ms: int = 0
    statuses: Counter[int] = field(default_factory=Counter)

    def add(self, status: int, took_ms: int) -> None:
        self.requests += 1
        self.total_ms += took_ms
        self.statuses[status] += 1


def log_line(number: int) -> str:
    mixed = number * 2654435761 % 2**32
    record = {
        "service": SERVICES[mixed % 4],
        "status": 500 if mixed % 97 == 0 else 200,
        "took_ms": mixed // 7 % 250,
    }
    return json.dumps(record)


def parse(line: str) -> tuple[str, int, int]:
    record = json.loads(line)
    return record["service"], record["status"], record["took_ms"]


async def read_lines(count: int) -> AsyncIterator[str]:
    """The log, line by line; other tasks run after every hundredth."""
    for number in range(count):
        if number % 100 == 0:
            await asyncio.sleep(0)
        yield log_line(number)


async def reader(count: int, lines: asyncio.Queue[str | None], workers: int) -> None:
    async for line in read_lines(count):
        await lines.put(line)
    for _ in range(workers):
        await lines.put(None)


async def worker(
    lines: asyncio.Queue[str | None], records: asyncio.Queue[tuple[str, int, int] | None]
) -> None:
    while (line := await lines.get()) is not None:
        await records.put(parse(line))
    await records.put(None)


async def collector(
    records: asyncio.Queue[tuple[str, int, int] | None], workers: int
) -> dict[str, Summary]:
    summaries = {service: Summary() for service in SERVICES}
    while workers:
        record = await records.get()
        if record is None:
            workers -= 1
        else:
            service, status, took_ms = record
            summaries[service].add(status, took_ms)
    return summaries


async def pipeline(count: int, workers: int) -> dict[str, Summary]:
    lines: asyncio.Queue[str | None] = asyncio.Queue(maxsize=64)
    records: asyncio.Queue[tuple[str, int, int] | None] = asyncio.Queue(maxsize=64)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reader(count, lines, workers))
        for _ in range(workers):
            tasks.create_task(worker(lines, records))
        result = tasks.create_task(collector(records, workers))
    return result.result()


def main() -> None:
    parser = argparse.ArgumentParser(description="Sum up a log with asyncio tasks.")
    parser.add_argument("--lines", type=int, default=5000)
    parser.add_argument("--workers", type=int, default=4)
    arguments = parser.parse_args()

    summaries = asyncio.run(pipeline(arguments.lines, arguments.workers))
    for service, summary in summaries.items():
        mean_ms = summary.total_ms / max(summary.requests, 1)
        failed = summary.statuses[500]
        print(f"{service:8s} {summary.requests:5d} requests  {mean_ms:6.1f} ms  {failed} failed")
    print(f"{sum(summary.requests for summary in summaries.values())} requests in all")


if __name__ == "__main__":
    main()
