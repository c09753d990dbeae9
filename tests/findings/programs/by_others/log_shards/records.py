"""Generates and parses access-log lines."""
import random
import re

LINE = re.compile(
    r'(?P<host>\S+) (?P<user>\S+) \[(?P<when>[^\]]+)\] '
    r'"(?P<verb>\w+) (?P<path>\S+)" (?P<status>\d{3}) (?P<size>\d+)'
)
PATHS = ("/", "/login", "/cart", "/search", "/api/items", "/api/orders", "/static/app.js")


def generate_lines(count, seed=9):
    rng = random.Random(seed)
    for number in range(count):
        yield (
            f"10.0.{rng.randrange(16)}.{rng.randrange(256)} u{rng.randrange(900)} "
            f"[2024-05-{number % 28 + 1:02d}T{number % 24:02d}:00] "
            f'"{rng.choice(("GET", "GET", "POST"))} {rng.choice(PATHS)}" '
            f"{rng.choice((200, 200, 200, 304, 404, 500))} {rng.randrange(90_000)}"
        )


def parse(line):
    match = LINE.match(line)
    if match is None:
        return None
    record = match.groupdict()
    record["status"] = int(record["status"])
    record["size"] = int(record["size"])
    return record
