"""Changes what taupy itself leaves on disk at random, and looks whether reading stays civil.

    python -m tests.fuzz.state --seconds 600 --seed 1 [--keep FOLDER]

A rescue file, or a run folder with any of its files changed, is stored as a trial whose
invariants hold and that can be read back, or is refused in one line; within 10 seconds, and
nothing is left behind. Anything else is shown, and the changed run kept in FOLDER.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from pathlib import Path
from random import Random

from taupy.collectors import gpu_layout
from taupy.collectors.gpu_layout import DeviceFacts
from taupy.errors import DatabaseError, TaupyError
from taupy.model.invariants import check
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.session import import_rescue
from taupy.state import values
from tests.fuzz.mutations import mutated
from tests.gpu_parts import PartWriter, TraceWriter

PATIENCE_SECONDS = 10

PROGRAM = """
import os, signal, sys, threading, taupy
def leaf(n): return n
def branch(n):
    if n: branch(n - 1)
    leaf(n)
def work():
    with taupy.phase("step"):
        branch(4)
    taupy.user_event("loss", "1").sample(2.5)
    taupy.metadata("fact", "value")
thread = threading.Thread(target=work, name="worker")
thread.start(); thread.join()
work()
taupy.snapshot("middle")
child = os.fork()
if not child:
    work()
    os._exit(3)
os.waitpid(child, 0)
{end}
"""

Run = dict[str, bytes]
"""The files of a run folder, by name."""


def seeds(place: Path) -> list[Run]:
    """Runs of both engines, killed and complete, as they lie in their run folders."""
    runs = []
    for engine in ("native", "python"):
        for end in ("os.kill(os.getpid(), signal.SIGKILL)", "pass"):
            state = place / f"state-{len(runs)}"
            # A database that cannot be made keeps a complete run; it is then a rescue file.
            database = place / "taupy.db" if end != "pass" else place / "no.db"
            if end == "pass":
                database.mkdir(exist_ok=True)
            (place / "prog.py").write_text(PROGRAM.format(end=end))
            subprocess.run(
                [sys.executable, "-m", "taupy", "run", "--engine", engine, "--db", str(database),
                 "--quiet", "prog.py"],
                cwd=place, env={**os.environ, "TAUPY_STATE_DIR": str(state)},
                capture_output=True,
            )  # fmt: skip
            runs.append(_run_in(state) or _rescued(place))
    found = [{name: _without_room(data) for name, data in run.items()} for run in runs]
    for run in found:
        _add_gpu(run)
    return found


def _add_gpu(run: Run) -> None:
    """Files as a program on a GPU leaves them, of the process of the first part."""
    part = min(name for name in run if name.endswith((".part", ".pypart")))
    stem, pid = part.rpartition(".")[0], int(part.partition("-")[0])
    gpu = PartWriter(pid, 0)
    gpu.counters({"launches": 5, "records": 5, "kernels": 3, "state": gpu_layout.ENDED, "told": 5})
    gpu.notes({"cupti.version": "130001"})
    gpu.call_names({(2, 211): "cudaLaunchKernel_v7000"})
    gpu.device(DeviceFacts(0, 9, 0, *range(16), bytes(16), 0, "Fake"))
    gpu.live([(0, 3, 0, 50, 150)])
    work = [
        (
            0,
            kind,
            1,
            0,
            1,
            7,
            0,
            4,
            2,
            1,
            128,
            1,
            1,
            32,
            16,
            8,
            0,
            0,
            0,
            3,
            0,
            60,
            10,
            30,
            0,
            1400.0,
            100,
            150,
            0,
            0,
            0,
            0,
            0.0,
        )
        for kind in (gpu_layout.KERNEL, gpu_layout.MEMCPY)
    ]
    gpu.work(work)  # fmt: skip
    gpu.names({"_Z3addPf": 1})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{stem}.gpu")
        trace = TraceWriter(bytes(path) + b"trace")
        trace.write({0: [(100, 110, 0, 0, 0, 1), (120, 150, 0, 0, 1, 2)]})
        assert gpu.write(bytes(path))
        run |= {file.name: file.read_bytes() for file in Path(folder).iterdir()}
    run[f"{pid}-0.gpucount"] = (
        b"cupti\t/lib/libcupti.so\t130001\ndevice\t0\tGH100\t2\tsm__cycles_elapsed.sum\n"
        b"count\t0\t0\t4,2,1\t128,1,1\t_Z3addPf\t1000\nseen\t0\t0\t4,2,1\t128,1,1\t_Z3addPf\t3\n"
        b"ended\n"
    )
    run["nvml"] = values.dumps({"GPU-1": [("Power", "W", 2, 1.0, 3.0, 4.0, 10.0)]})
    run["sampling"] = values.dumps({"interval_ns": 1000, "chips": {}})
    column = bytes(16)
    run["sampled"] = values.dumps([{
        "uuid": "GPU-1", "ordinal": 0, "facts": ("GH100", 1000, "ns"), "said": ["x"],
        "channels": [("sm_active", "%")], "samples_a_point": 1, "sums": [[2, 0.0, 1.0, 1.0, 1.0]],
        "start": column, "end": column, "count": column,
        "mean": [column], "low": [column], "high": [column],
    }])  # fmt: skip


def _without_room(data: bytes) -> bytes:
    """A part without the zeros at its end, so that changes hit what it says."""
    if not data.endswith(bytes(64)):
        return data
    return data.rstrip(b"\0").ljust(-(-len(data.rstrip(b"\0")) // 64) * 64, b"\0")


def _run_in(state: Path) -> Run | None:
    for folder in state.glob("run-*"):
        return {file.name: file.read_bytes() for file in folder.iterdir()}
    return None


def _rescued(place: Path) -> Run:
    (path,) = place.glob("*.taupy-run")
    with zipfile.ZipFile(path) as archive:
        run = {name: archive.read(name) for name in archive.namelist()}
    path.unlink()
    return run


def changed(run: Run, random: Random) -> Run:
    """The run with one or two of its files changed, missing, or under another's name."""
    found = dict(run)
    for _ in range(random.choice((1, 1, 2))):
        name = random.choice(sorted(found))
        kind = random.randrange(10)
        if kind == 0:
            del found[name]
        elif kind == 1:
            found[name] = found[random.choice(sorted(found))]
        else:
            found[name] = _damaged(found[name], random)
        if not found:
            return dict(run)
    return found


def _damaged(data: bytes, random: Random) -> bytes:
    """Changed anywhere, or where a part says how large things are."""
    if random.random() < 0.5 or len(data) < 64:
        return mutated(data, random)
    # A part is a table of 64-bit words, most of them zero: hit those that say something.
    content = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 4))):
        for _ in range(100):
            at = random.randrange(len(content) // 8) * 8
            if any(content[at : at + 8]):
                break
        size = random.choice((1, 4, 8))
        value = random.choice(
            (0, 1, 63, 64, 65, 1 << 31, (1 << 32) - 1, 1 << 62, (1 << 64) - 1, len(data), at)
        )
        content[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    return bytes(content)


def packed(run: Run, path: Path, random: Random) -> None:
    """The run as a rescue file; sometimes the archive itself is damaged, too."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in run.items():
            archive.writestr(name, data)
    if random.random() < 0.2:
        path.write_bytes(mutated(path.read_bytes(), random))


def attempt(source: Path, database: Path) -> str:
    """ "stored", "refused", or what is wrong."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(PATIENCE_SECONDS)
    try:
        delivery = import_rescue(source, str(database), {})
        assert delivery.trial_id is not None
        with ProfileDB.open(database, create=False) as db:
            broken = check(read_profile(db, delivery.trial_id))
        return "stored" if not broken else f"unlawful: {broken[0]}"
    except DatabaseError as problem:
        return f"the database refused: {problem}"
    except TaupyError as problem:
        return "refused" if "\n" not in str(problem) else f"more than a line: {problem}"
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.alarm(0)


def _too_long(*_: object) -> None:
    raise TimeoutError(f"more than {PATIENCE_SECONDS} seconds")


def fuzz(
    runs: list[Run], random: Random, until: float, folder: Path, most: int = 1 << 60,
    keep: Path | None = None,
) -> tuple[dict[str, int], list[str]]:  # fmt: skip
    """Try changed runs: how many came to what, and what went wrong."""
    counts: dict[str, int] = {"stored": 0, "refused": 0}
    faults: list[str] = []
    number = 0
    while time.monotonic() < until and number < most:
        number += 1
        run = changed(random.choice(runs), random)
        source = folder / f"{number}.taupy-run"
        if random.random() < 0.5:
            packed(run, source, random)
        else:
            source = folder / f"copied-{number}"
            source.mkdir()
            for name, data in run.items():
                (source / name).write_bytes(data)
        database = folder / "taupy.db"
        answer = attempt(source, database)
        counts[answer] = counts.get(answer, 0) + 1
        if answer not in ("stored", "refused"):
            faults.append(f"{number}: {answer}")
            if keep is not None:
                shutil.move(source, keep / source.name)
        for leftover in (source, database):
            shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink(missing_ok=True)
    return counts, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--most", type=int, default=1 << 60, metavar="RUNS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        os.environ["TAUPY_STATE_DIR"] = str(place / "state")
        runs = seeds(place)
        if args.keep is not None:
            args.keep.mkdir(parents=True, exist_ok=True)
        until = time.monotonic() + args.seconds
        counts, faults = fuzz(runs, Random(args.seed), until, place, args.most, args.keep)
        left = list((place / "state").glob("*"))
    for fault in faults[:20]:
        print(fault)
    print(f"stored {counts['stored']}, refused {counts['refused']}, wrong {len(faults)}")
    print(f"left behind: {len(left)}")
    return 1 if faults or left else 0


if __name__ == "__main__":
    raise SystemExit(main())
