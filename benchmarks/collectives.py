"""What recording collectives costs a rank, and how much data it produces.

    python benchmarks/collectives.py --rounds 6

Several gloo ranks run on one machine under taupy, with and without `--collectives`, in turns. The
table shows an all_reduce of 8 bytes and a training step with DistributedDataParallel (12 linear
layers, one bucket for each): elapsed time, and CPU time of all threads of a rank. Each is the
smallest of many short intervals, because other programs only ever add time. Then come the time that
recording adds, with a 95 % confidence interval over the rounds, and the bytes per step in the part
of a rank.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import tools

from taupy.analysis import significance

PROGRAM = '''
import json, time
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
torch.set_num_threads(1)
torch.manual_seed(0)

def blocks(count, size, work):
    """The least time, and CPU time, of one of `size` pieces of work [ns]."""
    times, cpu = [], []
    for _ in range(count):
        dist.barrier()
        begun, used = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(size):
            work()
        times.append((time.perf_counter_ns() - begun) / size)
        cpu.append((time.process_time_ns() - used) / size)
    return min(times), min(cpu)

data = torch.ones(2)
net = nn.Sequential(*(nn.Linear(128, 128) for _ in range(12)))
net = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.03)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
batch = torch.ones(32, 128)

def step():
    optimizer.zero_grad()
    net(batch).sum().backward()
    optimizer.step()

blocks(2, 5, step)
of_step = blocks(40, 4, step)
of_one = blocks(60, 20, lambda: dist.all_reduce(data))
dist.barrier()
if dist.get_rank() == 0:
    print(json.dumps([*of_one, *of_step]), flush=True)
dist.destroy_process_group()
'''
WHAT = ("all_reduce, clock", "all_reduce, CPU", "step, clock", "step, CPU")
RECORD_BYTES, STRETCH_BYTES = 64, 192
KEPT = """
    SELECT (SELECT count(*) FROM collective),
           (SELECT count(*) FROM step WHERE kind = 'stretch'),
           (SELECT count(*) FROM step WHERE kind = 'training'),
           (SELECT count(DISTINCT thread_id) FROM step WHERE kind = 'training')
"""


def run(folder: Path, ranks: int, option: str) -> tuple[list[float], Path]:
    """Times of rank 0 as in `WHAT`, and the database."""
    database = folder / f"{ranks}{option}.db"
    database.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
         "--standalone", "-m", "taupy", "run", "--db", database, option, "program.py"],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return json.loads(next(line for line in done.stdout.splitlines() if line[0] == "[")), database


def bytes_a_step(database: Path) -> tuple[float, float]:
    """Collectives per step of a rank, and the bytes that it keeps per step."""
    with sqlite3.connect(database) as connection:
        collectives, stretches, steps, ranks = connection.execute(KEPT).fetchone()
    kept = RECORD_BYTES * collectives + STRETCH_BYTES * stretches
    return collectives / steps, kept / steps if ranks else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description="What recording collectives costs.")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    arguments = parser.parse_args()
    print(f"{tools.machine()}; {arguments.rounds} rounds; load {os.getloadavg()[0]:.1f} at first\n")
    print("| ranks | what | without, us | added, us | 95 % interval | middle half |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.py").write_text(PROGRAM)
        for ranks in arguments.ranks:
            without, recorded = [], []
            if ranks == arguments.ranks[0]:
                run(folder, ranks, "--collectives")  # compiles what it needs
            for number in range(arguments.rounds):
                for option in sorted(("--collectives", "--no-collectives"), reverse=number % 2):
                    times = run(folder, ranks, option)[0]
                    (recorded if option == "--collectives" else without).append(times)
            kept = bytes_a_step(folder / f"{ranks}--collectives.db")
            for at, what in enumerate(WHAT):
                bare = [times[at] / 1000 for times in without]
                more = [times[at] / 1000 for times in recorded]
                differences = [
                    with_us - without_us for without_us, with_us in zip(bare, more, strict=True)
                ]
                low, high, _ = significance.difference_interval(bare, more, 0.95) or (0, 0, 0)
                quarter, _, three = statistics.quantiles(differences, n=4)
                print(
                    f"| {ranks} | {what} | {statistics.median(bare):.1f} "
                    f"| {statistics.median(differences):+.1f} | {low:+.1f} to {high:+.1f} "
                    f"| {quarter:+.1f} to {three:+.1f} |",
                    flush=True,
                )
            print(
                f"| {ranks} | bytes a step, with {kept[0]:.1f} collectives | {kept[1]:.0f} | | | |"
            )
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
