"""Splits an access log into shard files by response class."""
import tempfile
from pathlib import Path

from records import generate_lines, parse
from shards import ShardRouter

LINES = 110_000
SHARDS = ("ok", "redirect", "client", "server")


def shard_of(record):
    return SHARDS[min(max(record["status"] // 100 - 2, 0), 3)]


def main():
    bad = 0
    volume = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        router = ShardRouter(folder, SHARDS)
        for line in generate_lines(LINES):
            record = parse(line)
            if record is None:
                bad += 1
                continue
            volume += record["size"]
            router.route(shard_of(record), record)
        written = router.close()
        sizes = sum(p.stat().st_size for p in folder.glob("*.jsonl"))
    print(f"lines={LINES} bad={bad} volume={volume}")
    print(" ".join(f"{name}={count}" for name, count in written.items()), f"bytes={sizes}")


if __name__ == "__main__":
    main()
