"""Small hostile files of every format: refused in one line, or stored; in bounded time and memory.

`tests/fuzz` damages files at random and reads them; here each kind of harm is done on purpose, and
the command says what it thinks of it.
"""

from __future__ import annotations

import gzip
import json
import re
import resource
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count

import pytest

from taupy.formats import registry
from tests.fuzz import formats, gpu_formats
from tests.hostile import EVIL, UNSAFE
from tests.in_process import taupy

PROTON = b"""
[{"frame": {"name": "ROOT", "type": "function"}, "metrics": {"count": 0, "time (ns)": 0},
"children": [{"frame": {"name": "k", "type": "function"}, "children": [],
"metrics": {"count": 2, "time (ns)": 90, "device_id": "0", "device_type": "CUDA"}}]},
{"CUDA": {"0": {"arch": "90", "num_sms": 132}}}]""".strip()

SEEDS = {
    **{format.name: lambda name=format.name: formats.seeds(registry.reader(name))
       for format in registry.readers()},
    **{name: lambda name=name: gpu_formats.seeds(name) for name in gpu_formats.FORMATS},
    "proton": lambda: [PROTON],
}  # fmt: skip
NAMES = sorted(SEEDS.keys() - {"ranks"})  # of files in folders
NAME = f"../../../../../../tmp/{EVIL}"
ADDED_BYTES = 1 << 30
PATIENCE_CPU_S = 30


def spread(data: bytes, pattern: bytes, most: int = 4) -> list[re.Match[bytes]]:
    """A few of what matches, from the first to the last."""
    found = list(re.finditer(pattern, data))
    return found[:: max(1, len(found) // most)] if found else []


def with_another(data: bytes, match: re.Match[bytes], other: bytes) -> bytes:
    return data[: match.start()] + other + data[match.end() :]


def harmed(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The file in all kinds of disrepair."""
    size = len(data)
    for at in (0, 1, size // 4, size // 2, size - 1):
        yield f"cut at {at}", data[:at]
    for at in (size // 3, size):
        for what, harm in (
            ("a zero byte", b"\0"),
            ("no UTF-8", b"\xff\xfe\xed\xa0\x80"),
            ("brackets", b"[" * 100_000),
            ("objects", b'{"a":' * 50_000),
            ("elements", b"<a>" * 50_000),
            ("a long path", b";a" * 50_000),
            ("empty lines", b"\n" * 100_000),
        ):
            yield f"{what} at {at}", data[:at] + harm + data[at:]
    yield "a mark of order", b"\xef\xbb\xbf" + data
    yield "twice", data + data
    if data.startswith(b"SQLite"):
        return
    for match in spread(data, rb"\d+(\.\d+)?"):
        for number in (b"9" * 30, b"-1", b"1e400", b"18446744073709551615", b"nan", b"9" * 5000):
            yield f"{number[:9]!r} at {match.start()}", with_another(data, match, number)
    for match in spread(data, rb"[A-Za-z_]{2,}"):
        yield f"a name at {match.start()}", with_another(data, match, NAME.encode())
    for at in range(0, size, max(1, size // 6)):
        for word in (b"\xff" * 9 + b"\x01", b"\xff\xff\xff\x7f", b"\0\0\0\x80"):
            yield f"{word!r} at {at}", data[:at] + word + data[at + len(word) :]
    try:
        tree = json.loads(data)
    except ValueError:
        return
    for what, bad in BAD.items():
        yield f"a whole {what}", encoded(bad)
        for kind in (dict, list, str, int | float):
            for which in (1, 3):
                yield f"{what} for {kind}", encoded(replaced(tree, kind, bad, count(), which))


BAD = {
    "deep": "DEEP", "null": None, "list": [], "object": {}, "text": NAME, "number": -1,
    "huge": 2**70, "pairs": [[None]],
}  # fmt: skip


def encoded(tree: object) -> bytes:
    return json.dumps(tree).replace('"DEEP"', "[" * 50_000 + "]" * 50_000).encode()


def replaced(tree, kind, bad, seen, which):
    """The tree with something bad in the place of the values of a kind: of one in so many."""
    if isinstance(tree, kind) and next(seen) % which == which - 1:
        return bad
    if isinstance(tree, dict):
        return {key: replaced(value, kind, bad, seen, which) for key, value in tree.items()}
    if isinstance(tree, list):
        return [replaced(value, kind, bad, seen, which) for value in tree]
    return tree


def harmed_tables(data: bytes, path) -> Iterator[tuple[str, bytes]]:
    """A database with one kind of value in all columns of a table, or without the table."""
    path.write_bytes(data)
    with closing(sqlite3.connect(path)) as db:
        entries = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        tables = [name for (name,) in entries if not name.startswith("sqlite_")]
        columns = {
            name: [row[1] for row in db.execute(f'PRAGMA table_info("{name}")')] for name in tables
        }
    for table in tables:
        values = (None, NAME, -1, 2**63 - 1, 1e308, b"\xff\0")
        for value in ("no table", *values):
            path.write_bytes(data)
            with closing(sqlite3.connect(path)) as db:
                if value == "no table":
                    db.execute(f'DROP TABLE "{table}"')
                else:
                    for column in columns[table]:
                        with suppress(sqlite3.IntegrityError):
                            db.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ?', (value,))
                db.commit()
            yield f"{value!r:.20} in {table}", path.read_bytes()


def hostile(data: bytes, path) -> Iterator[tuple[str, bytes]]:
    yield "whole", data
    packed = data.startswith(b"\x1f\x8b")
    if packed:
        data = gzip.decompress(data)
        yield "packed, cut", gzip.compress(data, 1)[:-9]
    for what, harm in harmed(data):
        yield what, gzip.compress(harm, 1) if packed else harm
    if data.startswith(b"SQLite"):
        yield from harmed_tables(data, path)


@contextmanager
def bounded():
    """No more memory than a GiB on top of what there is, and no more CPU time than a person
    waits."""

    def too_long(*_: object) -> None:
        raise TimeoutError(f"{PATIENCE_CPU_S} s of CPU time")

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDED_BYTES, before[1]))
    handled = signal.signal(signal.SIGPROF, too_long)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_CPU_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handled)
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_file_is_one_line_or_a_trial(tmp_path, monkeypatch, name):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    place = tmp_path / "place"
    place.mkdir()
    file, database = place / "profile.0.0.0", tmp_path / "taupy.db"
    refused = stored = 0
    smallest = min(SEEDS[name](), key=len)
    for what, harm in hostile(smallest, tmp_path / "made.sqlite"):
        file.write_bytes(harm)
        with bounded():
            done = taupy("import", file, "--format", name, "--db", database, cwd=place)
        said = done.stderr
        assert not UNSAFE.search(said) and "Traceback" not in said, what
        assert "memory" not in said, what
        assert list(place.iterdir()) == [file], what
        if done.returncode:
            refused += 1
            assert said.startswith("taupy: ") and said.count("\n") == 1, (what, said)
            assert len(said) < 2000, what
            continue
        stored += 1
        if NAME.encode() in harm:
            shown = taupy("pprof", "--db", database, cwd=place)
            assert not UNSAFE.search(shown.stdout + shown.stderr), what
    assert refused > 5 and stored, (refused, stored)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_harmed_file_is_recognised_or_refused_in_one_line(tmp_path, name):
    """Without being told, each format looks at the file."""
    file = tmp_path / "profile.0.0.0"
    for what, harm in list(harmed(min(SEEDS[name](), key=len)))[::7]:
        file.write_bytes(harm)
        with bounded():
            done = taupy("import", file, "--db", tmp_path / "taupy.db", cwd=tmp_path)
        assert not UNSAFE.search(done.stderr) and "Traceback" not in done.stderr, what
        assert not done.returncode or done.stderr.count("\n") == 1, (what, done.stderr)
