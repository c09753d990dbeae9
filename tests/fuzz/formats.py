"""Changes files of every format at random, and looks whether importing them stays civil.

    python -m tests.fuzz.formats --seconds 600 --seed 1 [--format NAME] [--keep FOLDER]

Whatever the file: it is refused with a FormatError of one line, or read, stored in a
database and read back; within 10 seconds. Anything else is shown, and the file kept in
FOLDER. A seed gives the same files again. What was found and mended lies in
`tests/data/fuzz/FORMAT-*`, which `test_fuzz.py` tries each time.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from taupy.errors import DatabaseError, FormatError
from taupy.formats import registry
from taupy.formats.registry import Format
from taupy.model.progress import SILENT
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile, random_profile, small_profile
from tests.unit.formats import tau_files
from tests.unit.formats.tau_files import path, row

CORPUS = Path(__file__).parents[1] / "data" / "fuzz"
PATIENCE_CPU_S = 10

TOKENS = [
    *[b"", b"\0", b"\n", b'"', b" => ", b" : ", b";", b","],
    *[b"-1", b"0", b"1e999", b"nan", b"-inf", b"9" * 20, b"9" * 400, b"18446744073709551616"],
    *[b"1.5", b"null", b"true", b"{", b"}", b"[", b"]", b"[[[[", b'{"a":', b"\\ud800"],
    *[b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xed\xa0\x80"],
    *[b"<![CDATA[", b"</metadata>", b"(callers not recorded)", b".TAU application"],
]
NUMBERS = TOKENS[8:17]


# --- seeds ---------------------------------------------------------------------


def _tau_seeds() -> Iterator[bytes]:
    rows = [row(".TAU application", 1, 1, 2, 100, "TAU_UTILITY"), row("f", 3, 2, 60, 70)]
    rows += [row("g", 2, 2, 38, 50), row('odd " => name', 1, 0, 0, 0)]
    paths = [path(".TAU application => f", 1, 2, 40, 70), path("f => g", 2, 2, 38, 50)]
    events = ['"Heap (KB)" 2 7 1 4 50', '"Heap (KB) : .TAU application => f" 2 7 1 4 50']
    yield tau_files.text([*rows, *paths, path("g => f", 2, 0, 20, 30)], events=events).encode()
    yield tau_files.text(rows, version="templated_functions").encode()


def _packed_seeds() -> Iterator[bytes]:
    from tests.unit.formats.test_tau_packed import SMALL

    yield SMALL
    yield gzip.compress(SMALL)


def _sqlite_seeds() -> Iterator[bytes]:
    from tests.unit.formats import test_tau_sqlite

    with tempfile.TemporaryDirectory() as folder:
        yield test_tau_sqlite.make(Path(folder, "x.db")).read_bytes()


SPEEDSCOPE = b"""{"$schema": "https://www.speedscope.app/file-format-schema.json",
"shared": {"frames": [{"name": "a"}, {"name": "b", "file": "b.py", "line": 2}]},
"profiles": [{"type": "evented", "name": "t", "unit": "microseconds", "startValue": 0,
"endValue": 9, "events": [{"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 1.5},
{"type": "C", "frame": 1, "at": 3}, {"type": "C", "frame": 0, "at": 9}]}]}"""

AUSTIN = b"# austin: 3.4.1\n# mode: wall\nP7;T7;a.py:f:3;b.py:g:1 100\nP8;T0:8 7\n# duration: 9\n"

OTHER_SEEDS: dict[str, Callable[[], Iterator[bytes]]] = {
    "tau": _tau_seeds,
    "tau-packed": _packed_seeds,
    "tau-sqlite": _sqlite_seeds,
    "tau-xml": lambda: iter([tau_files.SNAPSHOT.encode(), tau_files.MERGED.encode()]),
    "austin": lambda: iter([AUSTIN]),
    "collapsed": lambda: iter(
        [b"main;f 10\nmain;f;g 20\nx 1.5\n", "# a\nmain;f 10\n".encode("utf-16")]
    ),
    "speedscope": lambda: iter([SPEEDSCOPE]),
}
"""By format: files beside those that its own writer makes of our profiles."""


def seeds(format: Format) -> list[bytes]:
    """Good files of a format."""
    found = list(OTHER_SEEDS.get(format.name, lambda: iter(()))())
    if format.write is not None and not format.folder:
        with tempfile.TemporaryDirectory() as folder:
            for number, profile in enumerate([small_profile(), gpu_profile(), _random()]):
                target = Path(folder, str(number))
                format.write(profile, target, SILENT)
                found.append(target.read_bytes())
    if format.folder and format.write is not None:
        with tempfile.TemporaryDirectory() as folder:
            format.write(small_profile(), Path(folder, "x"), SILENT)
            files = (file for file in Path(folder, "x").rglob("*") if file.is_file())
            found += [file.read_bytes() for file in files]
    return found


def _random():
    return random_profile(Random(3), nodes=1)


# --- mutations -----------------------------------------------------------------


def mutated(random: Random, files: list[bytes]) -> bytes:
    """One of the files with one to six changes; packed ones are changed unpacked, too."""
    data = random.choice(files)
    packed = data.startswith(b"\x1f\x8b") and random.random() < 0.8
    content = bytearray(gzip.decompress(data) if packed else data)
    for _ in range(random.randrange(1, 7)):
        _change(random, content, files)
    return gzip.compress(bytes(content), 1) if packed else bytes(content)


def _change(random: Random, content: bytearray, files: list[bytes]) -> None:
    size = len(content)
    place = random.randrange(size + 1)
    length = min(int(random.expovariate(0.1)) + 1, 4096)
    match random.randrange(8):
        case 0 if size:
            content[place % size] = random.randrange(256)
        case 1:
            del content[place : place + length]
        case 2:
            content[place:place] = content[place : place + length]
        case 3:
            content[place:place] = random.choice(TOKENS)
        case 4:
            _change_number(random, content, place)
        case 5:
            other = random.choice(files)
            start = random.randrange(len(other) + 1)
            content[place : place + length] = other[start : start + length]
        case 6 if random.random() < 0.3:
            del content[place:]
        case 7:
            lines = content.split(b"\n")
            one, two = random.randrange(len(lines)), random.randrange(len(lines))
            lines[one], lines[two] = lines[two], lines[one]
            content[:] = b"\n".join(lines)


def _change_number(random: Random, content: bytearray, place: int) -> None:
    digits = b"0123456789"
    while place < len(content) and content[place] not in digits:
        place += 1
    end = place
    while end < len(content) and content[end] in digits:
        end += 1
    content[place:end] = random.choice(NUMBERS)


# --- trying --------------------------------------------------------------------


class TooSlow(Exception):
    """It took longer than a user waits."""


def attempt(format: Format, file: Path, database: Path) -> str:
    """Import a file: "stored" or "refused".

    Raises:
        Exception: whatever else happened.
    """
    file_database = database.with_suffix(f".{file.stat().st_size % 7}")
    signal.signal(signal.SIGPROF, _too_slow)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_CPU_S)
    try:
        assert format.read is not None
        format.recognises(file, registry.first_bytes(file))
        profiles = list(format.read(file, SILENT))
        with ProfileDB.open(file_database, create=True, readonly=False) as db:
            for number, profile in enumerate(profiles):
                profile.uuid = f"{time.monotonic_ns()}-{number}"
                trial = add_profile(db, profile)
                read_profile(db, trial)
                db.delete(trial)
        return "stored"
    except FormatError as problem:
        if "\n" in str(problem) or len(str(problem)) > 5000:
            raise AssertionError(f"refused in more than a line: {problem}") from None
        return "refused"
    except (OverflowError, DatabaseError) as problem:
        if "64 bits" in str(problem) or isinstance(problem, OverflowError):
            return "refused"  # `taupy import` says so
        raise
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_slow(*_: object) -> None:
    raise TooSlow


def run(format: Format, random: Random, until: float, keep: Path | None, most: int) -> list[Path]:
    """Try changed files until then; those that went wrong come back."""
    files = seeds(format)
    if not files:
        return []
    bad: list[Path] = []
    count = {"stored": 0, "refused": 0, "wrong": 0}
    with tempfile.TemporaryDirectory() as folder:
        shared = Path("/dev/shm")
        place = Path(tempfile.mkdtemp(dir=shared)) if shared.is_dir() else Path(folder)
        try:
            for _ in range(most):
                if time.monotonic() > until:
                    break
                content = mutated(random, files)
                file = place / "profile.0.0.0"
                file.write_bytes(content)
                try:
                    count[attempt(format, file, place / "taupy.db")] += 1
                except Exception:
                    count["wrong"] += 1
                    kept = _kept(format, content, keep or Path("fuzz-found"))
                    bad.append(kept)
                    print(f"--- {kept}", file=sys.stderr)
                    traceback.print_exc(limit=-4)
        finally:
            if place != Path(folder):
                shutil.rmtree(place, ignore_errors=True)
    print(f"{format.name}: {count}")
    return bad


def _kept(format: Format, content: bytes, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    kept = folder / f"{format.name}-{hashlib.blake2b(content, digest_size=6).hexdigest()}"
    kept.write_bytes(content)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", action="append", help="only this one; may be repeated")
    parser.add_argument("--keep", type=Path, help="where files go that went wrong")
    args = parser.parse_args()
    chosen = [
        reader for reader in registry.readers() if not args.format or reader.name in args.format
    ]
    end = time.monotonic() + args.seconds
    found: list[Path] = []
    for round in itertools.count():
        for format in chosen:
            random = Random(f"{args.seed} {round} {format.name}")
            share = min(end, time.monotonic() + max(args.seconds / len(chosen) / 4, 2))
            found += run(format, random, share, args.keep, 1_000_000)
        if time.monotonic() >= end:
            return 1 if found else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
