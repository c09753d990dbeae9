"""Make what is kept of `half_hour.sh --pair h100` and `--pair h200`: tests/data/gpu-pairs.

    python -m tests.gpu.pack FOLDER h100=callpair-h100.tar.gz h200=callpair-h200.tar.gz

Of each GPU: `h100.db.xz` (eight trials: five runs, a trace with and without the sleep, counters;
the two runs at once, if they were made; and the ceilings), `h100_trace.json.gz` (torch.profiler's)
and `h100_calls.tar.xz` (record.py's folder). Of whichever has them: `jax.db.xz` and `pairs.tar.xz`
(the two pairs of findings). What would name the machine is cut out: its host, paths and
environment. Ends with 1, and says why, if any of it is left, something is missing or all is larger
than AT_MOST.
"""

from __future__ import annotations

import gzip
import io
import json
import lzma
import re
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from taupy.model.profile import Profile, Timer
from taupy.profiledb import ceilings
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests.gpu import calls
from tests.gpu.programs.two_gpus import cleaned as cleaned_trace
from tests.gpu.programs.two_gpus import cut

AT_MOST = 3 << 20
TRIALS = (
    *(f"two_gpus#{number}" for number in range(1, 6)),
    *("two_gpus-trace", "two_gpus-no-pause", "two_gpus-roofline"),
)
AT_ONCE = ("first", "second")
JAX = ("jax", "jax-no-autotuning")
TWINS = tuple(
    f"{pair}-{twin}"
    for pair in ("layouts_changed", "casts_around_layers")
    for twin in ("fault", "mended")
)
KEPT = re.compile(
    r"(GPU|CPU|CUDA|CUPTI|NVML|Driver|PyTorch|torch|JAX|NCCL|Engine|Memory|Peak|Page Faults|taupy\."
    r"|repeat|Context Switches|Python (Implementation|Version|Compiler)|Command Line|Cache Size"
    r"|OS (Name|Machine|Distribution)|Process ID|Parent Process ID).*"
)
"""Metadata that say how something was measured, not whose machine it was."""
PATH = re.compile(r"(?<![\w.>])/(?:[\w.+-]+/)+[\w.+-]+")


class Unfit(Exception):
    """The recordings cannot be kept as they are."""


def cleaned(profile: Profile) -> Profile:
    """A trial without what names its machine; its values are the same."""
    taken: dict[Timer, int] = {}
    timers = []
    for timer in profile.timers:
        one = timer._replace(
            name=cut(timer.name), file=timer.file and cut(timer.file), path=None, short=None
        )
        again = taken[one] = taken.get(one, 0) + 1
        if again > 1:  # two files had one name in different folders
            one = one._replace(file=f"{one.file} ({again})")
        timers.append(one._replace(short=timer.short))
    profile.timers = timers
    profile.metadata = _metadata(profile.metadata)
    profile.node_metadata = {
        node: _metadata(facts) for node, facts in profile.node_metadata.items()
    }
    return profile


def _metadata(facts: dict[str, str]) -> dict[str, str]:
    return {name: cut(text) for name, text in facts.items() if KEPT.fullmatch(name)}


def database(source: Path, names: tuple[str, ...], target: Path) -> None:
    """Trials of one database, cleaned, and the ceilings of the machine.

    Raises:
        Unfit: one of the trials is not there.
    """
    with (
        ProfileDB.open(str(source), create=False, readonly=True) as old,
        ProfileDB.open(str(target), create=True, readonly=False) as new,
    ):
        known = {trial.name: trial.id for trial in old.trials()}
        if missing := [name for name in names if name not in known]:
            raise Unfit(f"{source} has no trial {', '.join(missing)}")
        for name in names:
            add_profile(new, cleaned(read_profile(old, known[name])))
        measured = ceilings.ceilings(old)
        if measured:
            ceilings.add_ceilings(new, [one._replace(machine="") for one in measured])


def texts(path: Path) -> Iterator[str]:
    """All texts of a database."""
    with ProfileDB.open(str(path), create=False, readonly=True) as db:
        for (table,) in list(db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")):
            for row in db.rows(f'SELECT * FROM "{table}"'):
                yield from (cell for cell in row if isinstance(cell, str))


def check(texts: Iterator[str], host: str, where: str) -> None:
    """
    Args:
        host: the machine's name; one of up to three letters is part of other words, and is only cut
            out of metadata.

    Raises:
        Unfit: a path from the root, or the machine's name, is in one of the texts.
    """
    named = re.compile(rf"\b{re.escape(host)}\b") if len(host) > 3 else re.compile(r"(?!)")
    for text in texts:
        if found := PATH.search(text) or named.search(text):
            raise Unfit(f"{where} still has {found[0]!r}")


def host_of(source: Path) -> str:
    with ProfileDB.open(str(source), create=False, readonly=True) as db:
        rows = list(db.rows("SELECT DISTINCT value FROM metadata WHERE name = 'Hostname'"))
    return str(rows[0][0]) if rows else ""


def unpacked(archive: Path, folder: Path) -> Path:
    """The folder that `half_hour.sh` has packed; its parts are put together, if it has any."""
    parts = [archive] if archive.exists() else sorted(archive.parent.glob(f"{archive.name}.??"))
    if not parts:
        raise Unfit(f"there is no {archive}")
    with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as packed:
        packed.extractall(folder, filter="data")
    (only,) = folder.iterdir()
    return only


def tar(target: Path, folder: str, files: dict[str, bytes]) -> None:
    """An archive that is the same whenever it is made."""
    with lzma.open(target, "wb", preset=9) as raw, tarfile.open(fileobj=raw, mode="w") as packed:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            packed.addfile(member, io.BytesIO(data))


def recorded(folder: Path, host: str) -> dict[str, bytes]:
    """What record.py left, cleaned."""
    with tempfile.TemporaryDirectory() as here:
        calls.write(Path(here), calls.changed(calls.read(folder), cut))
        files = {calls.FILE: Path(here, calls.FILE).read_bytes()}
    for path in folder.iterdir():
        if path.suffix in (".buffers", ".names") or path.name == "expected.json":
            files[path.name] = path.read_bytes()
    for name, data in files.items():
        if not name.endswith(".buffers"):
            check(iter(data.decode().splitlines()), host, name)
    return files


def pack(kind: str, call: Path, folder: Path) -> None:
    """What is kept of one call of `half_hour.sh`, unpacked.

    Raises:
        Unfit: it cannot be kept.
    """
    source = call / "taupy.db"
    host = host_of(source)
    with ProfileDB.open(str(source), create=False, readonly=True) as db:
        names = {trial.name for trial in db.trials()}
    both = AT_ONCE if {*AT_ONCE} <= names else ()
    _database(source, (*TRIALS, *both), folder / f"{kind}.db.xz", host)
    if {*JAX} <= names:
        _database(source, JAX, folder / "jax.db.xz", host)
    if (call / "trace.json").exists():
        trace: dict[str, Any] = cleaned_trace(json.loads((call / "trace.json").read_text()))
        text = json.dumps(trace, separators=(",", ":"))
        check(iter([text]), host, "trace.json")
        packed = gzip.compress(text.encode(), 9, mtime=0)
        (folder / f"{kind}_trace.json.gz").write_bytes(packed)
    tar(folder / f"{kind}_calls.tar.xz", f"{kind}_two_gpus", recorded(call / "record", host))
    twins = call / "pairs" / "pairs.db"
    if twins.exists():
        _pairs(twins, folder / "pairs.tar.xz", host)


def _database(source: Path, names: tuple[str, ...], target: Path, host: str) -> None:
    _with_database(source, names, host, lambda path: target.write_bytes(
        lzma.compress(path.read_bytes(), preset=9)
    ))  # fmt: skip


def _pairs(source: Path, target: Path, host: str) -> None:
    seconds = (source.parent / "seconds.json").read_bytes()
    _with_database(source, TWINS, host, lambda path: tar(
        target, "pairs", {"pairs.db": path.read_bytes(), "seconds.json": seconds}
    ))  # fmt: skip


def _with_database(
    source: Path, names: tuple[str, ...], host: str, keep: Callable[[Path], object]
) -> None:
    with tempfile.TemporaryDirectory() as here:
        path = Path(here, "kept.db")
        database(source, names, path)
        check(texts(path), host, source.name)
        keep(path)


def main(folder: Path, kinds: dict[str, Path]) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for kind, archive in kinds.items():
            with tempfile.TemporaryDirectory() as here:
                pack(kind, unpacked(archive, Path(here)), folder)
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        for name, size in sizes.items():
            print(f"{size:>10,} {name}")
        if sum(sizes.values()) > AT_MOST:
            raise Unfit(f"{sum(sizes.values()):,} bytes are more than {AT_MOST:,}")
    except Unfit as reason:
        print(reason, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 3 or any("=" not in word for word in sys.argv[2:]):
        sys.exit(__doc__)
    pairs = (word.split("=", 1) for word in sys.argv[2:])
    sys.exit(main(Path(sys.argv[1]), {kind: Path(archive) for kind, archive in pairs}))
