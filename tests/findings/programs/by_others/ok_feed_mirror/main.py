"""Mirrors a set of paged feeds from one origin and counts their words."""
import asyncio

from mirror import Mirror
from origin import SLOTS, Origin

FEEDS = 400


async def mirror_all():
    origin = Origin()
    server, port = await origin.start()
    mirror = Mirror(port, connections=SLOTS)
    await mirror.run([f"feed{n}" for n in range(FEEDS)])
    server.close()
    return origin, mirror


def main():
    origin, mirror = asyncio.run(mirror_all())
    top = sorted(mirror.words.items(), key=lambda pair: (-pair[1], pair[0]))[:3]
    print(f"feeds={len(mirror.entries)} pages={origin.served}")
    print(f"entries={sum(mirror.entries.values())} top={top}")


if __name__ == "__main__":
    main()
