"""Receives telemetry records over a stream and folds them into per-channel summaries."""
import asyncio
import random
import zlib

RECORDS = 30000
END = b"\x1e"


def make_feed(seed):
    rng = random.Random(seed)
    parts = []
    for n in range(RECORDS):
        channel = f"ch{rng.randrange(40):02d}"
        values = ",".join(str(rng.randrange(1000)) for _ in range(8))
        parts.append(f"{n}|{channel}|{values}|ok".encode() + END)
    return b"".join(parts)


class Feed:
    def __init__(self, data):
        self.data = data

    async def handle(self, reader, writer):
        for start in range(0, len(self.data), 65536):
            writer.write(self.data[start:start + 65536])
            await writer.drain()
        writer.close()


class RecordReader:
    def __init__(self, reader):
        self.reader = reader
        self.count = 0

    async def next_record(self):
        try:
            record = await self.reader.readuntil(END)
        except asyncio.IncompleteReadError:
            return None
        record = record[:-1]
        self.count += 1
        return record.decode()


class Channel:
    def __init__(self):
        self.seen = 0
        self.total = 0
        self.peak = 0
        self.level = 0.0

    def fold(self, values):
        self.seen += 1
        self.total += sum(values)
        self.peak = max(self.peak, *values)
        for value in values:
            self.level += 0.05 * (value - self.level)


def parse(record):
    number, channel, values, status = record.split("|")
    if status != "ok":
        raise ValueError(f"record {number}: {status}")
    return channel, [int(v) for v in values.split(",")]


async def main():
    feed = Feed(make_feed(8))
    server = await asyncio.start_server(feed.handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    records, channels = RecordReader(reader), {}
    while (record := await records.next_record()) is not None:
        name, values = parse(record)
        channels.setdefault(name, Channel()).fold(values)
    writer.close()
    server.close()
    lines = [f"{n}:{c.seen}:{c.total}:{c.peak}:{c.level:.4f}" for n, c in sorted(channels.items())]
    print(f"records={records.count} channels={len(lines)} mark={zlib.crc32(repr(lines).encode()):08x}")


if __name__ == "__main__":
    asyncio.run(main())
