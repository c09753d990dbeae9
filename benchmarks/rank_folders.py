"""Importing a folder with a trace for each rank: time and memory of `taupy import`.

    python benchmarks/rank_folders.py                       1,000 ranks x 2,000 rows
    python benchmarks/rank_folders.py --ranks 100 --rows 100000
    python benchmarks/rank_folders.py --kind nsys

Traces are those of torch.profiler with NCCL (operators, kernels, collectives, steps), or what
Nsight Systems exports. Rank 7 is slow before every fifth collective.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS_PER_STEP = 20
STEP_US = 20_000.0
SLOW = 7


def trace(rank: int, ranks: int, rows: int) -> dict[str, object]:
    """A trace with this many rows; each step has a collective and its kernel."""
    noise = random.Random(rank)
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "args": {"name": "python"}}
    ]
    group = str([*range(ranks)]) if ranks <= 30 else "[0, 1, 2, ...]"

    def slice_(name: str, cat: str, tid: int, ts: float, dur: float, **args: object) -> None:
        pid = 0 if cat == "kernel" else 100
        events.append({"ph": "X", "name": name, "cat": cat, "pid": pid, "tid": tid,
                       "ts": round(ts, 3), "dur": round(dur, 3), "args": args})  # fmt: skip

    for step in range(max(1, rows // ROWS_PER_STEP)):
        began = 1_000_000.0 + step * STEP_US
        late = 4_000.0 if rank == SLOW and step % 5 == 0 else noise.uniform(0, 50)
        slice_(f"ProfilerStep#{step}", "user_annotation", 100, began, STEP_US - 10)
        for number in range(11):
            slice_(f"aten::op_{number}", "cpu_op", 100, began + 100 + 500 * number, 400,
                   **{"External id": step * 100 + number})  # fmt: skip
        for number in range(3):
            correlation = step * 10 + number
            slice_("cudaLaunchKernel", "cuda_runtime", 100, began + 120 + 500 * number, 5,
                   correlation=correlation)  # fmt: skip
            slice_(f"gemm_{number}", "kernel", 7, began + 200 + 500 * number, 350, device=0,
                   stream=7, correlation=correlation)  # fmt: skip
        comms = {
            "External id": step * 100 + 99, "Collective name": "allreduce", "Seq": step + 1,
            "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "Group size": ranks,
            "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": group,
            "Global rank start": 0, "Global rank stride": 1,
        }  # fmt: skip
        slice_("record_param_comms", "cpu_op", 100, began + 6_000, 30, **comms)
        slice_("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "kernel", 20, began + 6_100 + late,
               10_100 - late + noise.uniform(0, 20), device=0, stream=20, **comms)  # fmt: skip
        slice_("optimizer.step", "user_annotation", 100, began + 17_000, 900)
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": ranks},
        "baseTimeNanoseconds": 1_790_000_000_000_000_000,
        "traceEvents": events,
    }


def export(path: Path, rank: int, rows: int) -> None:
    """The relevant tables of `nsys export`: API calls, kernels, NVTX ranges."""
    with sqlite3.connect(path) as db:
        db.executescript(
            """
            CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, eventClass INT,
                globalTid INT, correlationId INT, nameId INT, returnValue INT);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT,
                contextId INT, streamId INT, correlationId INT, globalPid INT,
                demangledName INT, shortName INT, gridX INT, gridY INT, gridZ INT,
                blockX INT, blockY INT, blockZ INT, registersPerThread INT,
                staticSharedMemory INT, dynamicSharedMemory INT);
            INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel'), (2, 'gemm'),
                (3, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)');
            INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.11.0');
            """
        )
        process = 100 << 24
        for number in range(rows // 2):
            start, is_collective = 1_000_000 + number * 20_000, number % 10 == 9
            late = 5_000 if is_collective and rank == SLOW and number % 50 == 9 else 0
            db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, 1, 0)",
                       (start, start + 900, process | 100, number))  # fmt: skip
            db.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES"
                " (?, ?, 0, 1, ?, ?, ?, ?, ?, 8, 1, 1, 128, 1, 1, 32, 0, 0)",
                (start + 1_000 + late, start + 9_000, 20 if is_collective else 7, number, process,
                 *(2 * [3 if is_collective else 2])),
            )  # fmt: skip


def write_folder(folder: Path, kind: str, ranks: int, rows: int) -> None:
    folder.mkdir()
    for rank in range(ranks):
        if kind == "nsys":
            export(folder / f"report.{rank}.sqlite", rank, rows)
            continue
        with gzip.open(folder / f"rank{rank}.json.gz", "wt", compresslevel=1) as file:
            json.dump(trace(rank, ranks, rows), file)


def timed(*command: str) -> tuple[float, float, int, str]:
    """Elapsed and CPU time [s], peak memory [KiB], and the output."""
    code = (
        "import resource, subprocess, sys; r = subprocess.run(sys.argv[1:]);"
        "u = resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(u.ru_utime + u.ru_stime, u.ru_maxrss, file=sys.stderr); sys.exit(r.returncode)"
    )
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, sys.executable, "-m", "taupy", *command],
        capture_output=True,
        text=True,
    )
    wall = time.perf_counter() - began
    cpu, peak = done.stderr.splitlines()[-1].split()
    return wall, float(cpu), int(peak), done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--kind", choices=("kineto", "nsys"), default="kineto")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as place:
        folder, db = Path(place, "traces"), str(Path(place, "ranks.db"))
        write_folder(folder, args.kind, args.ranks, args.rows)
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{args.ranks} ranks x {args.rows} rows, {size / 1e6:.0f} MB, "
              f"load {os.getloadavg()[0]:.1f}")  # fmt: skip
        for name, command in (("import", ("import", str(folder))), ("ranks", ("ranks",))):
            wall, cpu, peak, output = timed(*command, "--db", db)
            print(f"{name}: {wall:.1f} s, {cpu:.1f} s CPU, {peak / 1024:.0f} MiB at most")
            print("\n".join(line for line in output.splitlines() if "rank" in line.lower())[:1500])
        print(f"database: {Path(db).stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
