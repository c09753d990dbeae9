"""What recording collectives costs a rank, and how much data it produces.

    python benchmarks/collectives.py --rounds 6

Gloo ranks run on one machine under taupy, with and without `--collectives`, in turns. The table
shows what recording adds to each of these, with a 95 % confidence interval over the rounds: elapsed
time, and CPU time of all threads of a rank, which is bound to a core.

- `collective`: an all_reduce of 8 bytes, called again and again; the first decile of the calls.
- `collective and stretch`: the same call after a backward pass, when the stretch before it is
  recorded, too; `stretch` is the difference.
- `step`: of DistributedDataParallel (12 linear layers, one bucket for each); the shortest of many
  short intervals, because other programs only ever add time.
- `step, by its events`: the cost of a collective and of a stretch (the difference of the first
  two), times their numbers in a step. It is far better resolved than the step itself.

Then come the bytes per step in the part of a rank.
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
from collections.abc import Iterator
from pathlib import Path

import tools

from taupy.analysis import significance

PROGRAM = '''
import json, os, time
import torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
os.sched_setaffinity(0, {dist.get_rank() % os.cpu_count()})
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

def calls(count, work):
    """Time, and CPU time, of an all_reduce after some work: first deciles of the calls [ns]."""
    times, cpu = [], []
    for _ in range(count):
        work()
        used, begun = time.process_time_ns(), time.perf_counter_ns()
        dist.all_reduce(data)
        times.append(time.perf_counter_ns() - begun)
        cpu.append(time.process_time_ns() - used)
    return sorted(times)[count // 10], sorted(cpu)[count // 10]

data = torch.ones(2)
bare = nn.Sequential(*(nn.Linear(128, 128) for _ in range(12)))
net = nn.Sequential(*(nn.Linear(128, 128) for _ in range(12)))
net = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.03)
optimizer = torch.optim.SGD(net.parameters(), 0.01)
batch = torch.ones(32, 128)

def step():
    optimizer.zero_grad()
    net(batch).sum().backward()
    optimizer.step()

def backward():
    bare(batch).sum().backward()

calls(100, backward)
apart = calls(400, backward)
one = calls(1500, int)
blocks(2, 5, step)
of_step = blocks(40, 4, step)
dist.barrier()
if dist.get_rank() == 0:
    print(json.dumps([*one, *apart, *of_step]), flush=True)
dist.destroy_process_group()
'''
WHAT = ("collective", "collective and stretch", "step")
STRETCH, BY_EVENTS = "stretch", "step, by its events"
CLOCKS = ("elapsed", "CPU")
RECORD_BYTES, STRETCH_BYTES = 64, 192
KEPT = """
    WITH training AS (
        SELECT thread.node, thread_id, start_ns AS begun, start_ns + time_ns AS ended,
               ntile(4) OVER (PARTITION BY thread_id ORDER BY time_ns) AS quarter
          FROM step JOIN thread ON thread.id = thread_id WHERE step.kind = 'training')
    SELECT avg((SELECT count(*) FROM collective JOIN thread ON thread.id = collective.thread_id
                 WHERE thread.node = training.node AND asked_ns BETWEEN begun AND ended)),
           avg((SELECT count(*) FROM step WHERE step.thread_id = training.thread_id
                   AND step.kind = 'stretch' AND start_ns BETWEEN begun AND ended))
      FROM training WHERE quarter = 1
"""


def run(folder: Path, ranks: int, option: str) -> tuple[list[float], Path]:
    """Times of rank 0 [us], elapsed and CPU of each of `WHAT`, and the database."""
    database = folder / f"{ranks}{option}.db"
    database.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
         "--standalone", "-m", "taupy", "run", "--db", database, option, "program.py"],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    times = json.loads(next(line for line in done.stdout.splitlines() if line[0] == "["))
    return [time / 1000 for time in times], database


def events_a_step(database: Path) -> tuple[float, float]:
    """Collectives and stretches that a rank keeps of one of its fastest steps; the others are
    lengthened by other programs on the machine, and so have room for more stretches."""
    with sqlite3.connect(database) as connection:
        collectives, stretches = connection.execute(KEPT).fetchone()
    return collectives, stretches


def rows(
    without: list[list[float]], recorded: list[list[float]], events: tuple[float, float]
) -> Iterator[tuple[str, list[float], list[float]]]:
    """What was measured, on which clock, and its times without and with recording, per round."""
    for at, clock in enumerate(CLOCKS):
        for number, what in enumerate(WHAT):
            place = 2 * number + at
            yield f"{what}, {clock}", [t[place] for t in without], [t[place] for t in recorded]
        # A stretch is what the second measurement has more than the first.
        before, after = ([t[2 + at] - t[at] for t in times] for times in (without, recorded))
        yield f"{STRETCH}, {clock}", before, after
        before, after = (
            [(events[0] - events[1]) * t[at] + events[1] * t[2 + at] for t in times]
            for times in (without, recorded)
        )
        yield f"{BY_EVENTS}, {clock}", before, after


def main() -> None:
    parser = argparse.ArgumentParser(description="What recording collectives costs.")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    arguments = parser.parse_args()
    print(f"{tools.machine()}; {arguments.rounds} rounds; load {os.getloadavg()[0]:.1f} at first\n")
    print("| ranks | what | without, us | added, us | 95 % interval | middle half |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools.set_up_torch(os.environ)
        (folder / "program.py").write_text(PROGRAM)
        for ranks in arguments.ranks:
            without, recorded = [], []
            for number in range(arguments.rounds):
                for option in sorted(("--collectives", "--no-collectives"), reverse=number % 2):
                    times = run(folder, ranks, option)[0]
                    (recorded if option == "--collectives" else without).append(times)
            events = events_a_step(folder / f"{ranks}--collectives.db")
            for what, bare, more in rows(without, recorded, events):
                differences = [
                    with_us - without_us for without_us, with_us in zip(bare, more, strict=True)
                ]
                low, high, _ = significance.difference_interval(bare, more, 0.95) or (0, 0, 0)
                quarter, _, three = statistics.quantiles(differences, n=4)
                is_sum = what.startswith((STRETCH, BY_EVENTS))
                alone = "" if is_sum else f"{statistics.median(bare):.1f}"
                print(
                    f"| {ranks} | {what} | {alone} "
                    f"| {statistics.median(differences):+.1f} | {low:+.1f} to {high:+.1f} "
                    f"| {quarter:+.1f} to {three:+.1f} |",
                    flush=True,
                )
            kept = RECORD_BYTES * events[0] + STRETCH_BYTES * events[1]
            print(
                f"| {ranks} | bytes a step, with {events[0]:.1f} collectives and "
                f"{events[1]:.1f} stretches | {kept:.0f} | | | |"
            )
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
