#!/usr/bin/env python3
"""orders.jsonl -> flat CSV plus a short report.

Partners send one JSON document per line. We check every document, convert the
money to cents and the times to UTC, flatten the lines and drop repeats.
"""
import csv
import datetime as dt
import hashlib
import io
import json
import random
import re
import sys
from collections import Counter

COUNTRIES = ["AT", "BE", "CH", "DE", "DK", "FR", "IT", "NL"]
REQUIRED = ("id", "placed", "partner", "ship_to", "lines")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[a-z]{2,}")
SKU = re.compile(r"(?P<group>[A-Z]{3})-(?P<num>\d{4})(?:/(?P<variant>[a-z]))?")
MONEY = re.compile(r"(\d+)[.,](\d{2})")


def sample(count, seed):
    rng = random.Random(seed)
    recent = []
    for n in range(count):
        if recent and rng.random() < 0.03:
            yield rng.choice(recent)
            continue
        doc = {
            "id": f"{rng.choice('PQRS')}{n:07d}",
            "placed": f"2026-{rng.randint(1, 11):02d}-{rng.randint(1, 28):02d}T{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:00+0{rng.randint(0, 3)}:00",
            "partner": f"p{rng.randint(1, 40)}",
            "ship_to": {
                "name": f"Customer {rng.randint(1, 5000)}",
                "email": f"c{rng.randint(1, 5000)}@{rng.choice(['mail', 'post', 'inbox'])}.{rng.choice(['com', 'org', 'x'])}",
                "country": rng.choice(COUNTRIES + ["XX"]) if rng.random() < 0.1 else rng.choice(COUNTRIES),
            },
            "lines": [
                {
                    "sku": f"{rng.choice(['ABC', 'KLM', 'XYZ', 'ab1'])}-{rng.randint(0, 9999):04d}{rng.choice(['', '/a', '/b'])}",
                    "qty": rng.randint(0, 12),
                    "price": f"{rng.randint(1, 300)}{rng.choice('.,')}{rng.randint(0, 99):02d}",
                }
                for _ in range(rng.randint(1, 6))
            ],
        }
        text = json.dumps(doc)
        recent.append(text)
        if len(recent) > 50:
            recent.pop(0)
        yield text


class Rejected(Exception):
    pass


def to_utc(text):
    try:
        return dt.datetime.fromisoformat(text).astimezone(dt.timezone.utc)
    except ValueError:
        raise Rejected("time") from None


def check_line(line):
    m = SKU.fullmatch(line["sku"])
    if not m:
        raise Rejected("sku")
    money = MONEY.fullmatch(line["price"])
    if not money:
        raise Rejected("price")
    if line["qty"] < 1:
        raise Rejected("qty")
    cents = int(money[1]) * 100 + int(money[2])
    return m["group"], m["num"], m["variant"] or "", line["qty"], cents


def check(doc):
    for key in REQUIRED:
        if key not in doc:
            raise Rejected(key)
    ship = doc["ship_to"]
    if ship["country"] not in COUNTRIES:
        raise Rejected("country")
    if not EMAIL.fullmatch(ship["email"]):
        raise Rejected("email")
    placed = to_utc(doc["placed"])
    return placed, [check_line(line) for line in doc["lines"]]


def convert(source, out):
    writer = csv.writer(out)
    writer.writerow(["order", "placed", "partner", "country", "group", "num", "variant", "qty", "cents"])
    why, seen, months, written = Counter(), set(), Counter(), 0
    for text in source:
        mark = hashlib.blake2b(text.encode(), digest_size=12).digest()
        if mark in seen:
            why["repeat"] += 1
            continue
        seen.add(mark)
        doc = json.loads(text)
        try:
            placed, lines = check(doc)
        except Rejected as err:
            why[str(err)] += 1
            continue
        stamp = placed.strftime("%Y-%m-%dT%H:%MZ")
        for group, num, variant, qty, cents in lines:
            writer.writerow([doc["id"], stamp, doc["partner"], doc["ship_to"]["country"], group, num, variant, qty, cents])
            months[stamp[:7], group] += qty * cents
            written += 1
    return written, why, months


def main():
    out = io.StringIO()
    written, why, months = convert(sample(68_000, seed=17), out)
    text = out.getvalue()
    print(f"rows {written} bytes {len(text)} {hashlib.sha256(text.encode()).hexdigest()[:12]}")
    for reason, count in sorted(why.items()):
        print(f"  rejected {reason:8s} {count}")
    for (month, group), cents in sorted(months.items())[:9]:
        print(f"  {month} {group} {cents / 100:14.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
