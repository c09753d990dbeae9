"""What importing and exporting cost, compared with Hatchet.

    python benchmarks/formats.py [--tau FOLDER] [--hatchet PYTHON] [--rounds 5]

FOLDER is a TAU profile; by default, one with about 18 MB of call paths is written. PYTHON is an
interpreter with llnl-hatchet (which needs pandas < 3); without it, its lines are missing. Hatchet
cannot read blanks in file names, but TAU writes `[{<frozen runpy>} {91}]`, so both read a copy in
which they are `_`. All take turns in fresh processes, and medians are shown. The goal is Hatchet /
taupy >= 5.
"""

from __future__ import annotations

import argparse
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.formats import registry
from taupy.model.profile import Profile
from taupy.model.progress import SILENT
from tests.builders import wide_profile

READ = """
import sys
from pathlib import Path
from taupy.formats.tau import profiles as tau
from taupy.model.progress import SILENT
for profile in tau.read(Path(sys.argv[1]), SILENT):
    pass
"""
HATCHET = """
import sys
import hatchet
hatchet.GraphFrame.from_tau(sys.argv[1])
"""
NOTHING = {"taupy": "import taupy.formats.tau", "hatchet": "import hatchet"}


def seconds(command: list[str], cwd: str) -> tuple[float, float]:
    """Wall and CPU time of a process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def written_profile(folder: Path) -> Path:
    """Write a profile of 7,500 call paths, up to 100 deep, with names of usual length."""
    random = Random(5)
    names = [
        f"routine_number_{n} [{{/usr/lib/python3/packages/package/module_{n % 90}.py}} {{{n}}}]"
        for n in range(900)
    ]
    rows, flat = [], {name: [0, 0, 0, 0] for name in names}
    path = [".TAU application"]
    for _ in range(7500):
        if len(path) > 60 and random.random() < 0.6:
            del path[random.randrange(20, len(path)) :]
        name = random.choice(names)
        path.append(name)
        if len(path) > 100:
            del path[50:]
            continue
        value = random.randrange(1, 10_000)
        text = " => ".join(path)
        rows.append(f'"{text}" 1 0 {value} {value} 0 GROUP="TAU_CALLPATH|TAU_PYTHON" ')
        for place, more in enumerate((1, 0, value, value)):
            flat[name][place] += more
    lines = ['".TAU application" 1 1 0 100000000 0 GROUP="TAU_UTILITY" ']
    lines += [
        f'"{name}" {calls} {subroutines} {own} {whole} 0 GROUP="TAU_PYTHON" '
        for name, (calls, subroutines, own, whole) in flat.items()
        if calls
    ]
    lines += rows
    head = [f"{len(lines)} templated_functions_MULTI_TIME"]
    head.append("# Name Calls Subrs Excl Incl ProfileCalls # <metadata></metadata>")
    folder.mkdir()
    (folder / "profile.0.0.0").write_text("\n".join([*head, *lines, "0 aggregates", ""]))
    return folder


def without_blanks(source: Path, target: Path) -> Path:
    place = re.compile(rb"\[\{[^}\n]*\}")
    for file in source.rglob("profile.*"):
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(place.sub(lambda match: match[0].replace(b" ", b"_"), file.read_bytes()))
    return target


def read_tau(folder: Path, temporary: Path, hatchet: str | None, rounds: int) -> None:
    size = sum(file.stat().st_size for file in folder.rglob("profile.*")) / 1e6
    python = sys.executable
    here = tempfile.mkdtemp(dir=temporary)
    database = f"{here}/bench.db"
    commands = {
        "taupy, read": [python, "-c", READ, str(folder)],
        "taupy import, database and all": [
            python, "-m", "taupy", "import", "--db", database, str(folder)
        ],
        "(python and imports of taupy)": [python, "-c", NOTHING["taupy"]],
    }  # fmt: skip
    if hatchet:
        commands["hatchet, from_tau"] = [hatchet, "-c", HATCHET, str(folder)]
        commands["(python and imports of hatchet)"] = [hatchet, "-c", NOTHING["hatchet"]]
    took: dict[str, list[tuple[float, float]]] = {what: [] for what in commands}
    for _ in range(rounds):
        for what, command in commands.items():
            Path(database).unlink(missing_ok=True)
            took[what].append(seconds(command, here))
    print(f"TAU profile of {size:.1f} MB, medians of {rounds} rounds in turn")
    cpu = {}
    for what, times in took.items():
        wall, cpu[what] = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"  {what:36} {wall:8.3f} s {cpu[what]:8.3f} s CPU")
    if hatchet:
        whole = cpu["hatchet, from_tau"]
        ours = cpu["taupy import, database and all"]
        print(f"  Hatchet / taupy import: {whole / ours:.1f} (goal: 5), whole processes, CPU")
        net = whole - cpu["(python and imports of hatchet)"]
        read = cpu["taupy, read"] - cpu["(python and imports of taupy)"]
        print(f"  Hatchet / taupy, reading alone: {net / read:.1f}")


def write_all(paths: int, folder: Path) -> None:
    print(f"writing a trial of {paths:,} call paths")
    profile: Profile = wide_profile(paths)
    for format in registry.writers():
        target = folder / f"out-{format.name}"
        began = time.process_time()
        try:
            format.write(profile, target, SILENT)  # type: ignore[misc]
        except Exception as problem:
            print(f"  {format.name:20} not written: {problem}")
            continue
        took = time.process_time() - began
        files = [target] if target.is_file() else [f for f in target.rglob("*") if f.is_file()]
        size = sum(file.stat().st_size for file in files) / 1e6
        print(f"  {format.name:20} {took:8.3f} s CPU {size:8.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tau", type=Path, metavar="FOLDER")
    parser.add_argument("--hatchet", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--paths", type=int, default=100_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = (
            without_blanks(args.tau, folder / "raw")
            if args.tau
            else written_profile(folder / "raw")
        )
        read_tau(source, folder, args.hatchet, args.rounds)
        write_all(args.paths, folder)


if __name__ == "__main__":
    main()
