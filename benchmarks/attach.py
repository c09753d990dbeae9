"""`taupy attach` beside py-spy on the same programs: the same first lines, and what each disturbs.

    python benchmarks/attach.py [--rounds N] [--pieces N] [--only PROGRAM ...]

Each program runs once for a round, and does blocks of work on demand: with nobody looking, with
`py-spy record`, with nobody, with `py-spy record --nonblocking`, with nobody, with `taupy attach`,
with nobody; the order of the three changes from round to round. Each looks 100 times a second, and
has begun to look before its block begins. So each block that is looked at has two of the same
process beside it, and what differs between processes (where their memory lies) does not count.

Of each: the program's CPU time, elapsed time and switches of its threads over the mean of both
(medians, with the interval of the median, 95 %); how much of the elapsed time the main thread was
stopped more than without anybody looking, exactly, by the kernel's count: it neither ran nor waited
for a processor (where it waits for nothing of its own); the CPU time of who looks, for starting, in
percent of a core while it looks, and for ending; and how many of the three lines of the program
that are seen most often are those that are seen most often in all runs, and whether the first is.
py-spy is left out if it is not installed (`pip install py-spy`). Nine rounds take six minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import tools

HEAD = """
import sys, time
def pieces():
    for wanted in sys.stdin:
        cpu, began = time.process_time(), time.perf_counter()
        yield from range(int(wanted))
        print(time.process_time() - cpu, time.perf_counter() - began, flush=True)
"""
PROGRAMS = {
    "c_calls": """
import json, re
data = list(range(3000))
text = " ".join(map(str, data))
def work(number):
    ordered = sorted(data, key=lambda value: -value)
    found = re.findall(r"[1-9]7", text)
    dumped = json.dumps(data)
    return len(ordered) + len(found) + len(dumped)
for number in pieces():
    for _ in range(40):
        work(number)
""",
    "calls": """
def price(weight, distance):
    return weight * 3 + distance // 7
def best(weights):
    least = 10**9
    for weight in weights:
        least = min(least, price(weight, weight % 31))
    return least
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
for number in pieces():
    best(range(number, number + 150_000))
    fib(21)
""",
    "threads": """
import threading, zlib
block = bytes(range(256)) * 600
def pack(times):
    for _ in range(times):
        zlib.compress(block, 6)
def scan(times):
    for _ in range(times):
        sum(value * value for value in range(3000))
for number in pieces():
    threads = [threading.Thread(target=pack, args=(40,)),
               threading.Thread(target=scan, args=(120,))]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
""",
}  # fmt: skip
PY_SPY, UNSTOPPED, TAUPY = "py-spy", "py-spy --nonblocking", "taupy attach"
RATE = 100
WAITS = 0.05  # a main thread that waits so much by itself is not only stopped by who looks


class Block:
    """A block of work: the program's CPU and elapsed time, how much of it the main thread neither
    ran nor waited for a processor, and switches of its threads."""

    def __init__(self, program: subprocess.Popen[str], pieces: int) -> None:
        assert program.stdin and program.stdout
        before, ready_s = switches(program.pid), ready_to_run_s(program.pid)
        print(pieces, file=program.stdin, flush=True)
        self.cpu_s, self.elapsed_s = map(float, program.stdout.readline().split())
        self.stopped = 1 - (ready_to_run_s(program.pid) - ready_s) / self.elapsed_s
        self.switches = switches(program.pid) - before


class Run:
    """A block that is looked at, over the mean of the blocks beside it; the CPU time of who
    looked, and the lines seen."""

    def __init__(
        self, folder: Path, program: subprocess.Popen[str], looker: str, pieces: int
    ) -> None:
        out = folder / "looks.out"
        out.unlink(missing_ok=True)
        (folder / "t.db").unlink(missing_ok=True)
        looks = subprocess.Popen(
            self._command(looker, program.pid, out), cwd=folder, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, "TAUPY_STATE_DIR": str(folder / "state")},
        )  # fmt: skip
        self._wait_until_it_looks(looks)
        self.start_s = used_s(looks.pid)
        self.block = Block(program, pieces)
        until_s = used_s(looks.pid)
        self.share = (until_s - self.start_s) / self.block.elapsed_s
        looks.send_signal(signal.SIGINT)
        assert looks.stderr
        problem = looks.stderr.read()
        _, _, used = os.wait4(looks.pid, 0)
        self.end_s = used.ru_utime + used.ru_stime - until_s
        self.lines = of_taupy(folder) if looker == TAUPY else of_py_spy(out, problem)

    def beside(self, before: Block, after: Block) -> Run:
        """Compared with nobody looking."""
        block = self.block
        self.cpu = 2 * block.cpu_s / (before.cpu_s + after.cpu_s)
        self.elapsed = 2 * block.elapsed_s / (before.elapsed_s + after.elapsed_s)
        idle = (before.switches + after.switches) / (before.elapsed_s + after.elapsed_s)
        self.switches = block.switches / block.elapsed_s - idle
        waits = (before.stopped + after.stopped) / 2
        self.stopped = block.stopped - waits if waits < WAITS else math.nan
        return self

    @staticmethod
    def _command(looker: str, pid: int, out: Path) -> list[str]:
        if looker == TAUPY:
            return [*_TAUPY, "attach", "--rate", str(RATE), "--db", "t.db", str(pid)]
        return ["py-spy", "record", "-r", str(RATE), "-d", "600", "-f", "raw", "-o", str(out),
                *looker.split()[1:], "--pid", str(pid)]  # fmt: skip

    @staticmethod
    def _wait_until_it_looks(looks: subprocess.Popen[str]) -> None:
        """What looks needs some time to start, until it uses little of a CPU."""
        before = -1.0
        while looks.poll() is None:
            spent = used_s(looks.pid)
            if spent > 0.02 and spent - before < 0.03:
                return
            before = spent
            time.sleep(0.3)


def of_tasks(pid: int, name: str) -> Iterator[str]:
    """A file in /proc of each thread that a process has now."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with suppress(OSError):  # it has ended
            yield (task / name).read_text()


def used_s(pid: int) -> float:
    """The CPU time of a process's threads so far."""
    return sum(int(text.split()[0]) for text in of_tasks(pid, "schedstat")) / 1e9


def ready_to_run_s(pid: int) -> float:
    """How long the main thread has run or waited for a processor so far."""
    ran, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return (int(ran) + int(waited)) / 1e9


def switches(pid: int) -> int:
    """How often the threads that a process has now have left a processor so far."""
    return sum(
        int(line.split()[1])
        for text in of_tasks(pid, "status")
        for line in text.splitlines()
        if "ctxt_switches" in line
    )


def rounds_of(root: Path, name: str, lookers: Sequence[str], pieces: int) -> dict[str, Run]:
    """One round of a program."""
    folder = Path(tempfile.mkdtemp(dir=root))
    (folder / "prog.py").write_text(HEAD + PROGRAMS[name])
    program = subprocess.Popen(
        [sys.executable, "prog.py"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip
    assert program.stdin
    Block(program, pieces)  # everything is there and warm
    before, runs = Block(program, pieces), {}
    for looker in lookers:
        run = Run(folder, program, looker, pieces)
        after = Block(program, pieces)
        runs[looker] = run.beside(before, after)
        before = after
    program.stdin.close()
    program.wait()
    return runs


_TAUPY = [sys.executable, "-m", "taupy"]


def of_taupy(folder: Path) -> Counter[int]:
    printed = subprocess.run(
        [*_TAUPY, "lines", "--db", "t.db", "--all", "--json"],
        cwd=folder, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    seen = Counter[int]()
    for table in json.loads(printed):
        for row in table["rows"]:
            busy_ns = (row["cpu_ns"] or 0) + (row["gil_ns"] or 0)  # py-spy counts no other looks
            if row["file"] == "prog.py":
                seen[row["line"]] += round(row["looks"] * busy_ns / max(row["time_ns"], 1))
    return seen


def of_py_spy(out: Path, problem: str) -> Counter[int]:
    if not out.exists():
        raise SystemExit(f"py-spy has written nothing: {problem[-500:]}")
    seen = Counter[int]()
    for line in out.read_text().splitlines():
        stack, _, number = line.rpartition(" ")
        places = re.findall(r"prog\.py:(\d+)\)", stack)
        if places:
            seen[int(places[-1])] += int(number)
    return seen


def interval(values: Sequence[float]) -> str:
    """The median, with its interval (95 %) by order statistics."""
    ordered = sorted(values)
    away = round(0.98 * math.sqrt(len(ordered)))
    low = ordered[max(0, len(ordered) // 2 - away)]
    high = ordered[min(len(ordered) - 1, (len(ordered) - 1) // 2 + away)]
    return f"{statistics.median(ordered):.3f} ({low:.3f} to {high:.3f})"


def stopped(runs: Sequence[Run]) -> str:
    shares = [100 * run.stopped for run in runs]
    return "an unknown time" if any(map(math.isnan, shares)) else f"{interval(shares)} % of it"


def first(seen: Counter[int], number: int = 3) -> list[int]:
    return [line for line, _ in seen.most_common(number)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pieces", type=int, default=40, help="a block (some 30 ms each)")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=[*PROGRAMS])
    args = parser.parse_args()
    lookers = [*([PY_SPY, UNSTOPPED] if shutil.which("py-spy") else []), TAUPY]
    print(f"{tools.machine()}; {args.rounds} rounds", flush=True)
    taken: dict[tuple[str, str], list[Run]] = {}
    with tempfile.TemporaryDirectory() as root:
        for number in range(args.rounds):
            turn = number % len(lookers)
            for name in args.only:
                order = [*lookers[turn:], *lookers[:turn]]
                for looker, run in rounds_of(Path(root), name, order, args.pieces).items():
                    taken.setdefault((name, looker), []).append(run)
    for name in args.only:
        print(f"\n{name}: lines of all runs, by looks")
        whole = {looker: sum((run.lines for run in taken[name, looker]), Counter[int]())
                 for looker in lookers}  # fmt: skip
        together = sum(whole.values(), Counter[int]())
        for looker, seen in whole.items():
            shares = ", ".join(f"{line}: {100 * looks / max(seen.total(), 1):.1f} %"
                               for line, looks in seen.most_common(4))  # fmt: skip
            print(f"  {looker:22s} {shares}")
        for looker in lookers:
            runs = taken[name, looker]
            same = statistics.mean(len({*first(run.lines)} & {*first(together)}) for run in runs)
            begins = sum(first(run.lines, 1) == first(together, 1) for run in runs)
            start, share, end = (
                statistics.median(values)
                for values in zip(
                    *((run.start_s, run.share, run.end_s) for run in runs), strict=True
                )
            )
            print(
                f"  {looker:22s} CPU time {interval([run.cpu for run in runs])}, elapsed "
                f"{interval([run.elapsed for run in runs])}, stopped for {stopped(runs)}, "
                f"{statistics.median(run.switches for run in runs):+.0f} switches a second; who "
                f"looks: {start:.2f} s of CPU to start, {100 * share:.1f} % of a core, {end:.2f} s "
                f"to end; {same:.1f} of 3 lines the same, first in {begins} of {len(runs)}"
            )


if __name__ == "__main__":
    main()
