"""A fuzzer over the formats of the GPU world: nsys, ncu, Chrome traces, pprof.

    python tests/fuzz/gpu_formats.py --seconds 3600 [--seed 1] [--format chrome]

Damages small files that are made here, and reads them. Each must end within 10 s and
512 MB, with profiles that keep the laws or with one line that names the file. What does
not is written down with its seed, and kept in `tests/data/formats/fuzz` once it is mended.
"""

from __future__ import annotations

import argparse
import gzip
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from taupy.errors import FormatError
from taupy.formats import pprof_proto
from taupy.formats.chrome import trace as chrome
from taupy.formats.nsight import ncu_csv, ncu_rep, nsys, nsys_stats, nvprof
from taupy.model import invariants
from taupy.model.progress import SILENT
from tests import builders
from tests.fuzz.mutations import mutated
from tests.unit.formats import chrome_files, ncu_files, nsys_files, summary_files
from tests.unit.formats.test_pprof_proto import message

LONGEST_CPU_S = 10
MOST_MB = 512


def _nsys(folder: Path) -> list[bytes]:
    small = nsys_files.training(folder / "a.sqlite", kernels=60)
    file = nsys_files.NsysFile(folder / "b.sqlite")
    file.process(7, "python3")
    file.gpu()
    file.range("step", 0, 1000)
    file.range("open", 5, None)
    file.chain(5, [("forward", "net.py", None), ("main", "python", None)])
    file.call("cudaLaunchKernel", 10, 30, 1, chain=5)
    file.kernel("k", 40, 50, 1)
    file.copy(1, 60, 70, 1, 4096)
    file.wait(80, 90, 1)
    return [small.read_bytes(), file.done().read_bytes()]


def _chrome(folder: Path) -> list[bytes]:
    one = chrome_files.written(folder / "a.json", chrome_files.steps(4)).read_bytes()
    chrome.write(builders.gpu_profile(), folder / "b.json", SILENT)
    chrome.write(builders.small_profile(), folder / "c.json", SILENT)
    halves = (
        b'[{"ph":"B","name":"a","pid":1,"tid":1,"ts":1},{"ph":"b","cat":"x","id":1,"pid":1,"ts":2},'
        b'{"ph":"C","name":"n","pid":1,"ts":2,"args":{"v":1.5}},{"ph":"E","pid":1,"tid":1,"ts":9},'
        b'{"ph":"e","cat":"x","id":1,"pid":1,"ts":12}]'
    )
    there = [one, halves, (folder / "b.json").read_bytes(), (folder / "c.json").read_bytes()]
    return [*there, gzip.compress(one, mtime=0)]


def _ncu_csv(folder: Path) -> list[bytes]:
    metrics = [("gpu__time_duration.sum", "us", "1,234.5"), ("dram__bytes.sum", "Mbyte", "5"),
               ("sm__inst_executed_pipe_tensor.sum", "inst", "100")]  # fmt: skip
    long = ncu_files.long_csv(folder / "a.csv", ncu_files.long_rows(metrics), before=["hello"])
    rows = [(ncu_files.place(n), ["1.5", "1,234"]) for n in range(3)]
    wide = [("gpu__time_duration.sum", "ms"), ("smsp__inst_executed.sum", "inst")]
    mean = [("gpu__time_duration.sum", "us", "1", "3", "2")]
    summary = ncu_files.summary_csv(folder / "c.csv", ("f", "(8, 1, 1)", 4, mean))
    section = ncu_files.section_csv(folder / "d.csv", "Roofline", ncu_files.ROOFLINE_SECTION)
    pivot = b"Kernel Name,dram__bytes.sum,gpu__time_duration.sum\nf,10,20\ng,30,40\n"
    others = [ncu_files.wide_csv(folder / "b.csv", wide, rows), summary, section]
    return [long.read_bytes(), pivot, *(path.read_bytes() for path in others)]


def _nvprof(folder: Path) -> list[bytes]:
    texts = (summary_files.SUMMARY, summary_files.METRICS, summary_files.TRACE)
    return [text.encode() for text in (*texts, "".join(texts))]


def _nsys_stats(folder: Path) -> list[bytes]:
    texts = (summary_files.REPORTS, summary_files.OLD_KERNELS, summary_files.GPU_TRACE)
    return [text.encode() for text in texts]


def _ncu_rep(folder: Path) -> list[bytes]:
    metrics = {"gpu__time_duration.sum": 1500.0, "dram__bytes.sum": 4096, "launch__stream_id": 13}
    launches = [("void f<float>(int)", (8, 2, 1), (128, 1, 1), metrics)] * 3
    return [ncu_files.report(folder / "r.ncu-rep", launches).read_bytes()]


def _pprof(folder: Path) -> list[bytes]:
    places = [(1, [("main.main", "main.go", 5)]), (2, [("inner", "m.go", 9), ("outer", "m.go", 7)])]
    foreign = message([((2, 1), (3, 300)), ((1,), (1, 100))], locations=places)
    pprof_proto.write(builders.small_profile(), folder / "p.pb.gz", SILENT)
    packed = (folder / "p.pb.gz").read_bytes()
    return [foreign, gzip.decompress(packed), packed]


FORMATS: dict[str, tuple[Any, Callable[[Path], list[bytes]], str]] = {
    "nsys": (nsys, _nsys, ".sqlite"),
    "chrome": (chrome, _chrome, ".json"),
    "ncu-csv": (ncu_csv, _ncu_csv, ".csv"),
    "ncu-rep": (ncu_rep, _ncu_rep, ".ncu-rep"),
    "nvprof": (nvprof, _nvprof, ".csv"),
    "nsys-stats": (nsys_stats, _nsys_stats, ".csv"),
    "pprof": (pprof_proto, _pprof, ".pb"),
}


def seeds(name: str) -> list[bytes]:
    """The whole files of a format that are damaged."""
    with tempfile.TemporaryDirectory() as folder:
        return FORMATS[name][1](Path(folder))


def damaged(name: str, wholes: list[bytes], seed: int) -> bytes:
    """The damaged file of a seed."""
    random = Random(f"{name} {seed}")
    return mutated(random.choice(wholes), random)


def fault(name: str, path: Path) -> str:
    """What is wrong with how the file is read; empty where nothing is."""
    module = FORMATS[name][0]
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_CPU_S)
    try:
        first = path.read_bytes()[:65_536]
        if first.startswith(b"\x1f\x8b"):
            first = b""
        module.recognises(path, first)
        for profile in module.read(path, SILENT):
            broken = invariants.check(profile)
            if broken and name != "pprof":  # which may hold negative values
                return f"breaks a law: {broken[0]}"
            invariants.mended(profile)
            for measured in profile.threads:
                for _ in measured.activities:
                    pass
    except FormatError as refused:
        text = str(refused)
        if path.name not in text or "\n" in text:
            return f"refused without its file, or in several lines: {text!r}"
    except TimeoutError:
        return f"not done after {LONGEST_CPU_S} s of CPU time"
    except Exception:
        return traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def _too_long(*_: object) -> None:
    raise TimeoutError


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--format", choices=[*FORMATS], action="append")
    parser.add_argument("--keep", type=Path, help="a folder for the files that were found")
    args = parser.parse_args()
    names = args.format or [*FORMATS]
    wholes = {name: seeds(name) for name in names}
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    end = time.monotonic() + args.seconds
    seed, found = args.seed, 0
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < end:
            seed += 1
            for name in names:
                data = damaged(name, wholes[name], seed)
                path = Path(folder, "damaged" + FORMATS[name][2])
                path.write_bytes(data)
                if wrong := fault(name, path):
                    found += 1
                    print(f"{name}, seed {seed}: {wrong}", flush=True)
                    if args.keep:
                        args.keep.mkdir(exist_ok=True)
                        (args.keep / f"{name}-{seed}{FORMATS[name][2]}").write_bytes(data)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{seed - args.seed} rounds of {', '.join(names)}: {found} faults, {used:.0f} MB at most")
    return bool(found or used > MOST_MB)


if __name__ == "__main__":
    sys.exit(main())
