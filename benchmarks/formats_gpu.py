"""How long importing large GPU files takes, compared with the usual tools for them.

    python benchmarks/formats_gpu.py [--kernels 1000000] [--megabytes 500] [--folder DIR]

For an nsys file with that many kernels and as many API calls: `taupy import`, only reading the
file, and plain SQL with pandas that does no more than find each kernel's time by the call that
launched it. For a Chrome trace of that size, as torch.profiler writes it: the same, `json.load`
alone, and Holistic Trace Analysis (`--hta PYTHON` names a Python that has it). Each runs in its own
process; time, CPU time and peak memory are shown. `--folder` keeps the files for later runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

READ = """
import sys; sys.path.insert(0, {root!r})
import gc; gc.disable()  # as the command does
from pathlib import Path
from taupy.formats import {module}
from taupy.model.progress import SILENT
(profile,) = {module}.read(Path({path!r}), SILENT)
assert profile.threads
"""

IMPORT = """
import sys; sys.path.insert(0, {root!r})
from taupy.commands import main
sys.exit(main(["import", {path!r}, "--db", {path!r} + ".db"]))
"""

PANDAS = """
import sqlite3, pandas
db = sqlite3.connect({path!r})
kernels = pandas.read_sql("SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL", db)
calls = pandas.read_sql("SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME", db)
names = pandas.read_sql("SELECT * FROM StringIds", db).set_index("id")["value"]
both = kernels.merge(calls, on="correlationId", suffixes=("", "_call"))
both["time"] = both["end"] - both["start"]
both["kernel"] = both["demangledName"].map(names)
both["call"] = both["nameId"].map(names)
found = both.groupby(["call", "kernel"])["time"].agg(["count", "sum", "min", "max"])
assert len(found)
"""

JSON = """
import json
with open({path!r}) as file:
    assert json.load(file)["traceEvents"]
"""

HTA = """
import logging; logging.disable(logging.CRITICAL)
from hta.common.trace import Trace
trace = Trace(trace_files={{0: {path!r}}}, trace_dir="")
trace.parse_traces(max_ranks=1, use_multiprocessing=False)
assert len(trace.get_trace(0))
"""


def measure(what: str, python: str, script: str) -> tuple[float, float]:
    """The CPU seconds and peak memory [MB] of a script in its own process."""
    began = time.perf_counter()
    child = subprocess.Popen(
        [python, "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.perf_counter() - began
    if child.returncode:
        last = errors.strip().rpartition("\n")[2]
        print(f"{what:42} failed: {last}", flush=True)
        return 0.0, 0.0
    cpu_s, memory_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    print(f"{what:42} {took_s:8.2f} s {cpu_s:8.2f} s CPU {memory_mb:8.0f} MB", flush=True)
    return cpu_s, memory_mb


def nsys(folder: Path, kernels: int) -> None:
    from tests.unit.formats.nsys_files import training

    path = folder / f"{kernels}.sqlite"
    if not path.exists():
        training(path, kernels)
    print(f"\nnsys, {kernels:,} kernels, {path.stat().st_size / 1e6:.0f} MB")
    given = {"root": str(ROOT), "path": str(path)}
    measure("taupy import", sys.executable, IMPORT.format(**given))
    ours, _ = measure("taupy, reading alone", sys.executable, READ.format(module="nsys", **given))
    theirs, _ = measure("SQL and pandas", sys.executable, PANDAS.format(**given))
    if ours and theirs:
        print(f"reading takes {ours / theirs:.2f} of the CPU time of SQL and pandas")


def chrome(folder: Path, megabytes: int, hta: str | None) -> None:
    from tests.unit.formats.chrome_files import steps, written

    path = folder / f"{megabytes}.json"
    if not path.exists():
        written(path, steps(megabytes * 180))
    print(f"\nChrome trace, {path.stat().st_size / 1e6:.0f} MB")
    given = {"root": str(ROOT), "path": str(path)}
    measure("taupy import", sys.executable, IMPORT.format(**given))
    ours = measure("taupy, reading alone", sys.executable, READ.format(module="chrome", **given))
    theirs = measure("json.load alone", sys.executable, JSON.format(**given))
    if ours[1] and theirs[1]:
        print(f"reading takes {ours[1] / theirs[1]:.2f} of the memory of json.load (goal < 0.2)")
    if hta is not None:
        measure("Holistic Trace Analysis, parsing", hta, HTA.format(**given))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernels", type=int, default=1_000_000)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="where the files are, or will be")
    parser.add_argument("--hta", metavar="PYTHON", help="a Python that has HolisticTraceAnalysis")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = args.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        nsys(folder, args.kernels)
        chrome(folder, args.megabytes, args.hta)


if __name__ == "__main__":
    main()
