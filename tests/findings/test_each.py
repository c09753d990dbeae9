"""Faults of a few lines, each with a twin that does what the advice says and is free of it."""

from __future__ import annotations

import os
import time

import pytest

from tests.findings.cases import (
    HISTORY,
    LOOP,
    LOOP_OF_EVENTS,
    MEMORY,
    ONE_BY_ONE,
    POLLING,
    SAME,
    SEARCH,
)
from tests.findings.pairs import measured, measured_until, skip_without_packages

QUERY = """\
import sqlite3
conn = sqlite3.connect(":memory:")
conn.execute("CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)")
conn.execute("CREATE TABLE bill (customer INTEGER, total REAL)")
conn.executemany("INSERT INTO customer VALUES (?, ?)", ((n, f"c{n}") for n in range(5000)))
conn.executemany("INSERT INTO bill VALUES (?, ?)", ((n % 5000, n / 9) for n in range(300_000)))
def name_of(number):
    return conn.execute("SELECT name FROM customer WHERE id = ?", (number,)).fetchone()[0]
def main():
    totals = {}
    for number, total in conn.execute("SELECT customer, total FROM bill").fetchall():
        name = name_of(number)
        totals[name] = totals.get(name, 0.0) + total
    print(len(totals))
main()
"""
DISK = """\
import os
def append(records):
    with open("journal", "w") as file:
        for record in records:
            file.write(record)
            file.flush()
            os.fsync(file.fileno())
append([f"entry {n}\\n" for n in range(600)])
"""
COMMITS = """\
import sqlite3
class Importer:
    def __init__(self):
        self.con = sqlite3.connect("orders.db")
        self.con.execute("CREATE TABLE orders (id INTEGER, amount REAL)")
    def import_row(self, row):
        self.con.execute("INSERT INTO orders VALUES (?, ?)", row)
        self.con.commit()
    def run(self, rows):
        for row in rows:
            self.import_row(row)
importer = Importer()
importer.run((n, n / 7) for n in range(600))
"""
BATCHES = """\
import sqlite3
con = sqlite3.connect("orders.db")
con.execute("CREATE TABLE orders (id INTEGER, amount REAL)")
def store(batches):
    for batch in batches:
        for row in batch:
            con.execute("INSERT INTO orders VALUES (?, ?)", row)
            con.commit()
store([[(n, k / 7) for k in range(3)] for n in range(600)])
"""
TAGS = """\
import sqlite3
db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT)")
db.execute("CREATE TABLE tag (book INTEGER, name TEXT)")
db.executemany("INSERT INTO book VALUES (?, ?)", ((n, f"book {n}") for n in range(2000)))
db.executemany("INSERT INTO tag VALUES (?, ?)", ((n % 2000, f"t{n}") for n in range(6000)))
def tags_of(number):
    return [row[0] for row in db.execute("SELECT name FROM tag WHERE book = ?", (number,))]
def page(title, tags):
    text = title.upper() + ",".join(tags)
    return sum(ord(letter) * n % 7 for n, letter in enumerate(text * 250))
def main():
    total = 0
    for number, title in db.execute("SELECT id, title FROM book").fetchall():
        total += page(title, tags_of(number))
    print(total)
main()
"""
TURNS = """\
import copy
def neighbours(grid, x, y):
    size = len(grid)
    return sum(grid[(y + b) % size][(x + a) % size] for a in (-1, 1) for b in (-1, 1))
def turn(grid):
    new = copy.deepcopy(grid)
    for y, row in enumerate(grid):
        for x, is_alive in enumerate(row):
            near = neighbours(grid, x, y) - is_alive
            new[y][x] = near == 3 or (near == 2 and is_alive)
    return new
def main():
    grid = [[(x * 7 + y * 5) % 3 == 0 for x in range(60)] for y in range(60)]
    for _ in range(150):
        grid = turn(grid)
    print(sum(map(sum, grid)))
main()
"""
GROUPS = """\
import numpy as np
import pandas as pd
rng = np.random.default_rng(0)
sales = pd.DataFrame({"shop": rng.integers(0, 3000, 60_000), "total": rng.random(60_000)})
def top_share(group):
    best = group["total"].sort_values(ascending=False)
    return best.head(3).sum() / best.sum()
def main():
    share = sales.groupby("shop").apply(top_share)
    print(round(share.mean(), 6))
main()
"""
UPPER = """\
import sqlite3
db = sqlite3.connect(":memory:")
db.execute("CREATE TABLE person (email TEXT, city TEXT)")
db.execute("CREATE INDEX emails ON person(email)")
db.executemany("INSERT INTO person VALUES (?, ?)", ((f"u{n}@x.org", f"c{n}") for n in range(9000)))
def city_of(email):
    sql = "SELECT city FROM person WHERE lower(email) = ?"
    return db.execute(sql, (email,)).fetchone()[0]
print(sum(len(city_of(f"u{n * 7}@x.org")) for n in range(1200)))
"""
LOOKED = """\
import threading
from collections import deque
jobs, results = deque(), deque()
def work():
    while True:
        try:
            job = jobs.popleft()
        except IndexError:
            continue
        if job is None:
            return
        results.append(sum(range(job)))
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for n in range(300):
    text = ",".join(str(k * n) for k in range(8000))
    jobs.append(len(text) % 1000)
for thread in threads:
    jobs.append(None)
for thread in threads:
    thread.join()
print(sum(results))
"""
DISTANCE = """\
def distance(a, b):
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return distance(a[1:], b[1:])
    return 1 + min(
        distance(a[1:], b),
        distance(a, b[1:]),
        distance(a[1:], b[1:]),
    )
words = ["karolinne", "kathrinus", "kerstinia", "carolynns", "catharina"]
print(sum(distance(w, o) for w in words for o in words))
"""
RATES = """\
RATES = {"EUR": 1.0, "USD": 1.08, "JPY": 161.0}
def rounded(value):
    return round(value, 6)
def spread(currency, day):
    value = RATES[currency]
    for n in range(3000):
        value += (n * day) % 7 / 1000
    return rounded(value)
def main():
    total = 0.0
    for n in range(5000):
        total += spread(("EUR", "USD", "JPY")[n % 3], n % 4)
    print(total)
main()
"""
HANDLER = """\
import asyncio
async def profile(user):
    await asyncio.sleep(0.012)
    return {"user": user}
async def orders(user):
    await asyncio.sleep(0.018)
    return list(range(user % 5))
async def show(user):
    who = await profile(user)
    what = await orders(user)
    return len(who) + len(what)
async def client(first):
    return sum([await show(first + n) for n in range(30)])
async def main():
    print(sum(await asyncio.gather(*(client(n) for n in range(5)))))
asyncio.run(main())
"""
PREFIX = """\
import random
def averages(values):
    out = []
    for i in range(1, len(values) + 1):
        out.append(sum(values[:i]) / i)
    return out
random.seed(1)
print(round(sum(averages([random.random() for _ in range(18_000)])), 3))
"""
REST = """\
def drain(jobs):
    done = 0
    while jobs:
        job = jobs[0]
        jobs = jobs[1:]
        done += job % 7
    return done
print(drain(list(range(30000))))
"""
TOKENS = """\
class Reader:
    def __init__(self, text):
        self.rest = text
    def take(self, k):
        part = self.rest[:k]
        self.rest = self.rest[k:]
        return part
def main(reader):
    taken = 0
    while reader.rest:
        taken += len(reader.take(1 + taken % 5))
    return taken
print(main(Reader("[1, 2] " * 60_000)))
"""
SHARED = """\
class Bills:
    def __init__(self):
        self.parts = {n: [(n + 1, 2), (n + 2, 1)] for n in range(31)}
    def cost(self, part):
        total = part
        for inner, number in self.parts.get(part, ()):
            total += number * self.cost(inner)
        return total
print(Bills().cost(0))
"""
LOCK_HELD = """\
import asyncio
class Prices:
    def __init__(self):
        self.lock = asyncio.Lock()
        self.kept = {}
    async def price(self, key):
        async with self.lock:
            if key not in self.kept:
                self.kept[key] = await self.ask(key)
            return self.kept[key]
    async def ask(self, key):
        await asyncio.sleep(0.02)
        return key * 2
async def order(prices, first):
    return sum([await prices.price(first + n) for n in range(5)])
async def main():
    prices = Prices()
    print(sum(await asyncio.gather(*(order(prices, n * 10) for n in range(16)))))
asyncio.run(main())
"""
RAISED = """\
def lookup(table, key):
    if key not in table:
        raise KeyError(f"no {key}")
    return table[key]
def tally(table, count):
    hits = 0
    for n in range(count):
        try:
            hits += lookup(table, n)
        except KeyError:
            hits -= 1
    return hits
print(tally({n: 1 for n in range(0, 1_800_000, 50)}, 1_800_000))
"""
CELLS = """\
import pandas as pd
def settle(frame):
    for index in frame.index:
        frame.loc[index, "net"] = frame.loc[index, "gross"] * 0.8
frame = pd.DataFrame({"gross": [n / 7 for n in range(6000)], "net": 0.0})
settle(frame)
print(round(frame["net"].sum(), 3))
"""
JOBS = """\
from concurrent.futures import ProcessPoolExecutor
def square(number):
    return number * number % 97
def main():
    with ProcessPoolExecutor(2) as pool:
        print(sum(pool.map(square, range(8000))))
if __name__ == "__main__":
    main()
"""
ROUND_TRIP = """\
import json
def snapshot(state):
    return json.loads(json.dumps(state))
def main():
    state = {f"u{n}": {"hp": 90, "at": [n, n + 1]} for n in range(400)}
    for n in range(1800):
        state = snapshot(state)
        state[f"u{n % 400}"]["hp"] -= 1
    print(sum(one["hp"] for one in state.values()))
main()
"""
LIST = """\
def flatten(groups):
    result = []
    for group in groups:
        for item in group:
            result = result + [item * 2]
    return result
print(sum(flatten([range(n, n + 20) for n in range(1400)])))
"""
ARRAY = """\
import numpy as np
def sample(count):
    kept = np.array([])
    for n in range(count):
        kept = np.append(kept, n / 7)
    return kept
print(round(sample(60_000).mean(), 3))
"""
TEXT = """\
class Page:
    def __init__(self):
        self.out = ""
    def add(self, text):
        self.out = self.out + "<p>" + text + "</p>"
    def text(self):
        return self.out
page = Page()
for n in range(12_000):
    page.add(f"row {n} of a table, with some words")
print(len(page.text()))
"""
KEYED = """\
class Settings:
    def __init__(self, sections):
        self.sections = sections
    def section(self, name):
        for section in self.sections:
            if section["name"] == name:
                return section
        return None
settings = Settings([{"name": f"s{n}", "limit": n} for n in range(600)])
print(sum(settings.section(f"s{n * 7 % 600}")["limit"] for n in range(130_000)))
"""
READ = """\
import json
with open("rates.json", "w") as file:
    json.dump({f"cur{n}": 1 + n / 100 for n in range(3000)}, file)
RATES = "rates.json"
def rate(currency):
    with open(RATES) as file:
        return json.load(file)[currency]
print(round(sum(n * rate(f"cur{n % 300}") for n in range(1000)), 2))
"""
CONNECTED = """\
import sqlite3
FILE = "kv.db"
def build():
    conn = sqlite3.connect(FILE)
    conn.execute("CREATE TABLE kv (k INTEGER PRIMARY KEY, v INTEGER)")
    conn.executemany("INSERT INTO kv VALUES (?, ?)", ((n, n * 3) for n in range(2000)))
    conn.commit()
def value(key):
    conn = sqlite3.connect(FILE)
    (value,) = conn.execute("SELECT v FROM kv WHERE k = ?", (key,)).fetchone()
    conn.close()
    return value
build()
print(sum(value(n % 2000) for n in range(12_000)))
"""
PROPERTY = """\
class Cart:
    def __init__(self, prices):
        self.prices = prices
    @property
    def total(self):
        return sum(price for price in self.prices)
def shares(cart):
    return [price / cart.total for price in cart.prices]
print(round(sum(shares(Cart([n % 17 + 1 for n in range(5000)]))), 6))
"""
SPUN = """\
import threading, time
def work(box):
    for n in range(5):
        time.sleep(0.25)
        box.append(n)
def collect(box):
    total = 0
    for _ in range(5):
        while not box:
            pass
        total += box.pop()
    return total
box = []
thread = threading.Thread(target=work, args=(box,))
thread.start()
print(collect(box))
"""
OPTIMIZER = """\
import torch
def fit(model, xs, ys):
    for x, y in zip(xs, ys):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(24)))
fit(model, torch.randn(300, 4, 8), torch.randn(300, 4, 8))
"""

GRID = """\
def paths(rows, columns):
    if rows == 0 or columns == 0:
        return 1
    return paths(rows - 1, columns) + paths(rows, columns - 1)
print(sum(paths(n, n) for n in range(6, 13)))
"""
TREES = """\
def tree(depth, left):
    return (tree(depth - 1, 2 * left), tree(depth - 1, 2 * left + 1)) if depth else (left,)
print(len(str(tree(16, 1))))
"""
SUMMED = """\
def words(rows):
    return sum((row.split() for row in rows), [])
print(len(words(["the quick brown fox jumps over"] * 10_000)))
"""
TAKEN = """\
def order(times):
    waiting = list(times)
    clock = 0
    while waiting:
        first = min(waiting)
        waiting.remove(first)
        clock = (clock * 31 + first) % 1000003
    return clock
print(order([n * 7919 % 100003 for n in range(10_000)]))
"""
MANAGED = """\
import multiprocessing
def count(counts, text):
    for key in text:
        counts[key] = counts.get(key, 0) + 1
def main():
    with multiprocessing.Manager() as manager:
        counts = manager.dict()
        count(counts, "the quick brown fox jumps over the lazy dog " * 500)
        print(sorted(counts.items())[:2])
if __name__ == "__main__":
    main()
"""
ROWS = """\
import sqlite3
def store(conn, readings):
    for sensor, value in readings:
        conn.execute("INSERT INTO reading VALUES (?, ?)", (sensor, value))
conn = sqlite3.connect("r.db", isolation_level=None)
conn.execute("CREATE TABLE reading (sensor INTEGER, value REAL)")
store(conn, ((n % 7, n / 3) for n in range(600)))
print(conn.execute("SELECT count(*) FROM reading").fetchone())
"""
FLUSHED = """\
def export(rows):
    with open("rows.txt", "w") as out:
        for row in rows:
            print(row, file=out, flush=True)
export(range(600_000))
"""
KEYS = """\
def build(words):
    index = {}
    for word in words:
        if word in list(index.keys()):
            index[word] += 1
        else:
            index[word] = 1
    return index
print(len(build([f"w{n * 31 % 3000}" for n in range(36_000)])))
"""

FRAMES = """\
import time
def watch(number):
    frames = []
    for at in range(number):
        frames.append(bytes([at % 251]) * 4_000_000)
        time.sleep(0.015)
        if frames[-1][0] > 250:
            print(len(frames))
watch(70)
"""
ANSWERS = """\
import functools, time
@functools.cache
def answer(number):
    time.sleep(0.015)
    return bytes([number % 251]) * 4_000_000
print(sum(answer(number)[0] for number in range(70)))
"""
PRICES = """\
import functools
@functools.lru_cache(maxsize=64)
def price(item):
    value = 1.0
    for year in range(120):
        value *= 1 + 0.02 * ((item + year) % 3 - 1)
    return value
def discount(price, quantity):
    return price * (0.9 if quantity > 10 else 1.0)
def main():
    total = 0.0
    for order in range(60_000):
        item = order % 90
        total += discount(price(item), order % 13)
    print(round(total))
main()
"""
LOSSES = """\
import torch
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
def train(steps):
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    total = 0.0
    for _ in range(steps):
        batch = torch.randn(2048, 64)
        loss = net(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += net(batch).abs().mean()
    print(float(total))
train(80)
"""


CASES = {
    "frames": (MEMORY, 5, FRAMES, {
        "import time": "import collections, time", "= []": "= collections.deque(maxlen=2)"}),
    "answers": (MEMORY, 2, ANSWERS, {".cache": ".lru_cache(maxsize=8)"}),
    "prices": (f"{SAME}: cache hardly hit", 3, PRICES, {
        "=64": "=128", "60_000": "1_500_000"}),
    "losses": (MEMORY, 13, LOSSES, {".mean()\n    print": ".mean().item()\n    print"}),
    "grid": (f"{SAME}: the same arguments", 4, GRID, {
        "def paths": "import functools\n@functools.lru_cache(maxsize=None)\ndef paths",
        "range(6, 13)": "range(6, 250)"}),
    "trees": (f"{SAME}: the same arguments", 4, GRID, {GRID: TREES}),
    "summed": (HISTORY, 2, SUMMED, {
        "sum((row.split() for row in rows), [])": "[word for row in rows for word in row.split()]",
        "10_000": "600_000"}),
    "taken": (f"{SEARCH}: smallest", 5, TAKEN, {
        "def order": "import heapq\ndef order",
        "list(times)": "list(times)\n    heapq.heapify(waiting)",
        "first = min(waiting)\n        waiting.remove(first)": "first = heapq.heappop(waiting)",
        "range(10_000)": "range(400_000)"}),
    "managed": (f"{ONE_BY_ONE}: a message per use", 4, MANAGED, {
        "        counts = manager.dict()\n        count(counts, ":
            "        counts = {}\n        count(counts, ",
        "* 500)": "* 60_000)\n        counts = manager.dict(counts)"}),
    "rows": (f"{ONE_BY_ONE}: stored one by one", 4, ROWS, {
        "    for sensor": "    conn.execute('BEGIN')\n    for sensor",
        "store(conn, (": "store(conn, (", "print(conn": "conn.execute('COMMIT')\nprint(conn",
        "range(600)": "range(300_000)"}),
    "flushed": (f"{ONE_BY_ONE}: written one by one", 4, FLUSHED, {
        ", flush=True": "", "600_000": "2_000_000"}),
    "keys": (f"{SEARCH}: list", 4, KEYS, {
        "list(index.keys())": "index", "36_000": "3_000_000"}),
    "query": (f"{ONE_BY_ONE}: a query per row", 8, QUERY, {
        '''    for number, total in conn.execute("SELECT customer, total FROM bill").fetchall():
        name = name_of(number)
''': '''    for name, total in conn.execute(
        "SELECT name, total FROM bill JOIN customer ON customer.id = bill.customer"
    ):
''', "300_000": "900_000"}),
    "disk": (f"{ONE_BY_ONE}: stored one by one", 7, DISK, {
        '''            file.flush()
            os.fsync(file.fileno())
''': '''        file.flush()
        os.fsync(file.fileno())
''', "range(600)": "range(1_000_000)"}),
    "raised": (f"{ONE_BY_ONE}: an exception per item", 3, RAISED, {
        '        raise KeyError(f"no {key}")\n': "        return -1\n"}),
    "cells": (f"{ONE_BY_ONE}: a cell at a time", 4, CELLS, {
        '''    for index in frame.index:
        frame.loc[index, "net"] = frame.loc[index, "gross"] * 0.8
''': '''    for _ in range(300):
        frame["net"] = frame["gross"] * 0.8
'''}),
    "jobs": (f"{ONE_BY_ONE}: a job per item", 6, JOBS, {
        "range(8000)": "range(2_000_000), chunksize=100_000"}),
    "round_trip": (f"{ONE_BY_ONE}: deep copies", 3, ROUND_TRIP, {
        "json.loads(json.dumps(state))":
            '{name: {"hp": one["hp"], "at": one["at"]} for name, one in state.items()}',
        "1800": "9000"}),
    "list": (HISTORY, 5, LIST, {
        "result = result + [item * 2]": "result.append(item * 2)", "range(1400)": "range(90_000)"}),
    "array": (HISTORY, 5, ARRAY, {
        "np.array([])": "[]", "kept = np.append(kept, n / 7)": "kept.append(n / 7)",
        "return kept": "return np.array(kept)", "60_000": "2_000_000"}),
    "text": (HISTORY, 5, TEXT, {
        'self.out = ""': "self.out = []",
        'self.out = self.out + "<p>" + text + "</p>"': 'self.out.append(f"<p>{text}</p>")',
        "return self.out": 'return "".join(self.out)', "12_000": "500_000"}),
    "keyed": (f"{SEARCH}: by key", 6, KEYED, {
        "self.sections = sections": 'self.sections = {one["name"]: one for one in sections}',
        '''        for section in self.sections:
            if section["name"] == name:
                return section
        return None
''': "        return self.sections.get(name)\n", "130_000": "600_000"}),
    "few_keys": (f"{SEARCH}: by key", 6, KEYED, {
        "range(600)": "range(4)", "% 600": "% 4", "130_000": "600_000"}),
    "read": (f"{SAME}: same file read", 6, READ, {
        '''def rate(currency):
    with open(RATES) as file:
        return json.load(file)[currency]
''': '''with open(RATES) as file:
    rates = json.load(file)
def rate(currency):
    return rates[currency]
''', "range(1000)": "range(500_000)"}),
    "connected": (f"{SAME}: connected again", 9, CONNECTED, {
        '''    conn = sqlite3.connect(FILE)
    (value''': "    (value", "    conn.close()\n": "",
        "build()\n": "build()\nconn = sqlite3.connect(FILE)\n", "range(12_000)": "range(200_000)"}),
    "property": (f"{SAME}: in each iteration", 8, PROPERTY, {
        "    return [price / cart.total": "    total = cart.total\n    return [price / total",
        "range(5000)": "range(2_000_000)"}),
    "changes": (f"{SAME}: in each iteration", 8, PROPERTY, {
        '''    return [price / cart.total for price in cart.prices]
''': '''    found = []
    for n, price in enumerate(cart.prices):
        found.append(price / cart.total)
        cart.prices[n] = price
    return found
'''}),
    "upper": (f"{SEARCH}: no index", 8, UPPER, {
        "CREATE INDEX emails ON person(email)": "CREATE INDEX emails ON person(lower(email))",
        "range(1200)": "range(1280)"}),
    "looked": (POLLING, 7, LOOKED, {
        "        try:\n            job = jobs.popleft()\n        except IndexError:\n"
        "            continue\n": "        job = jobs.get()\n",
        "from collections import deque\njobs, results = deque(), deque()":
        "import queue\njobs, results = queue.Queue(), []", "jobs.append": "jobs.put",
        "range(300)": "range(600)"}),
    "distance": (f"{SAME}: the same arguments", 5, DISTANCE, {
        "def distance": "import functools\n@functools.lru_cache(None)\ndef distance",
        "print(": "print(sum(range(40_000_000)), "}),
    "rates": (f"{SAME}: the same arguments", 7, RATES, {
        "def spread": "import functools\n@functools.lru_cache(None)\ndef spread",
        "range(5000):\n        total": "range(3_000_000):\n        total"}),
    "days": (f"{SAME}: the same arguments", 7, RATES, {"n % 4)": "n)"}),
    "rates_changed": (f"{SAME}: the same arguments", 7, RATES, {
        "    for n in range(5000):\n        total":
        "    for n in range(5000):\n        RATES['EUR'] += 0.01\n        total"}),
    "handler": (f"{LOOP_OF_EVENTS}: one after another", 9, HANDLER, {
        "    who = await profile(user)\n    what = await orders(user)\n":
        "    who, what = await asyncio.gather(profile(user), orders(user))\n"}),
    "prefix": (f"{SEARCH}: each prefix", 5, PREFIX, {
        "for i in range(1, len(values) + 1):\n        out.append(sum(values[:i]) / i)":
        "for i, whole in enumerate(itertools.accumulate(values), 1):\n"
        "        out.append(whole / i)", "import random": "import itertools, random",
        "range(18_000)": "range(900_000)"}),
    "commits": (f"{ONE_BY_ONE}: stored one by one", 8, COMMITS, {
        "        self.con.commit()\n": "",
        "            self.import_row(row)\n":
        "            self.import_row(row)\n        self.con.commit()\n"}),
    "batches": (f"{ONE_BY_ONE}: stored one by one", 8, BATCHES, {
        "            con.commit()": "        con.commit()"}),
    "tags": (f"{SEARCH}: no index", 8, TAGS, {
        "def tags_of": 'db.execute("CREATE INDEX tag_book ON tag (book)")\ndef tags_of'}),
    "turns": (f"{ONE_BY_ONE}: deep copies", 6, TURNS, {
        "copy.deepcopy(grid)": "[row[:] for row in grid]"}),
    "groups": (LOOP, 5, GROUPS, {
        '    share = sales.groupby("shop").apply(top_share)\n':
        '    best = sales.sort_values("total", ascending=False)\n'
        '    first = best.groupby("shop").head(3).groupby("shop")["total"].sum()\n'
        '    share = first / best.groupby("shop")["total"].sum()\n'}),
    "rest": (f"{SEARCH}: list moved", 5, REST, {
        "        job = jobs[0]\n        jobs = jobs[1:]\n": "        job = jobs.popleft()\n",
        "list(range(30000))": "collections.deque(range(3_000_000))",
        "def drain": "import collections\ndef drain"}),
    "tokens": (f"{SEARCH}: list moved", 6, TOKENS, {
        "self.rest = text": "self.rest, self.at = text, 0",
        "part = self.rest[:k]": "part = self.rest[self.at:self.at + k]",
        "self.rest = self.rest[k:]": "self.at += k",
        "while reader.rest": "while reader.at < len(reader.rest)", "60_000": "1_000_000"}),
    "shared": (f"{SAME}: the same arguments", 7, SHARED, {
        "    def cost(self, part):\n": "        self.kept = {}\n    def cost(self, part):\n"
        "        if part in self.kept:\n            return self.kept[part]\n",
        "        return total\n": "        self.kept[part] = total\n        return total\n",
        "print(": "print(sum(range(40_000_000)), "}),
    "lock_held": (f"{LOOP_OF_EVENTS}: lock held", 7, LOCK_HELD, {
        "        async with self.lock:\n            if key not in self.kept:\n"
        "                self.kept[key] = await self.ask(key)\n            return self.kept[key]\n":
        "        if key not in self.kept:\n            price = await self.ask(key)\n"
        "            async with self.lock:\n                self.kept[key] = price\n"
        "        return self.kept[key]\n"}),
    "spun": (POLLING, 9, SPUN, {
        "        while not box:\n            pass\n        total += box.pop()\n":
            "        total += box.get()\n",
        "box = []": "import queue\nbox = queue.Queue()", "box.append": "box.put"}),
    "optimizer": (f"{SAME}: optimizer made again", 4, OPTIMIZER, {
        "        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n": "",
        "    for x, y in zip": "    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)\n"
        "    for x, y in zip", "300": "600"}),
}  # fmt: skip
"""Kind, line, program, and what its twin has in place of parts of it.

Where looks at lines tell the fault, the program takes more than a second of CPU time: the first
look comes after 0.1 to 0.2 s, then there are 200 a second, and a line is known from ten on.
"""

STORING = {"rows", "disk", "commits", "batches"}
QUICK = {"list", "keyed"}


def seconds_to_store(folder):
    """How long the disk takes for a record."""
    begin = time.perf_counter()
    with (folder / "tried").open("w") as file:
        for _ in range(20):
            file.write("entry\n")
            file.flush()
            os.fsync(file.fileno())
    return (time.perf_counter() - begin) / 20


def placed(folder, text):
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    folder.mkdir()
    program = folder / "program.py"
    program.write_text(text)
    skip_without_packages(program)
    return folder


def measured_program(folder):
    return measured(folder, "program.py")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_a_fault_is_named_with_its_line_and_its_twin_is_free_of_it(name, tmp_path):
    kind, line, text, mended = CASES[name]
    if name in STORING:
        number = max(600, int(1.5 / seconds_to_store(tmp_path)))
        text = text.replace("range(600)", f"range({number})")
        mended = {
            before.replace("range(600)", f"range({number})"): after
            for before, after in mended.items()
        }
    twin = text
    for before, after in mended.items():
        assert before in twin
        twin = twin.replace(before, after)

    def of_kind(report):
        return [finding for finding in report.judgement.findings if finding.kind == kind]

    def names_line(report):
        return any(f"(program.py:{line})" in finding.sentence for finding in of_kind(report))

    before = measured_until(names_line, placed(tmp_path / "before", text), measured_program)
    assert names_line(before), before.judgement
    assert all(finding.attempt for finding in of_kind(before))
    assert of_kind(measured_program(placed(tmp_path / "after", twin))) == []
