"""`taupy attach` beside py-spy on the same programs: the same first lines, and what each disturbs.

    python benchmarks/attach.py [--rounds N] [--pieces N] [--only PROGRAM ...]

Each program does a number of pieces of work, and is run in turn with nobody looking, with `py-spy
record`, with `py-spy record --nonblocking`, and with `taupy attach`, each 100 times a second, from
before the work begins until it has ended. Of each round: the program's CPU time and elapsed time
over those with nobody looking (medians, with the interval of the median, 95 %), the CPU time of who
looks, its start included, and how many of the three lines of the program that are seen most often
are those that are seen most often in all runs, and whether the first is. py-spy is left out if it
is not installed (`pip install py-spy`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import tools

HEAD = """
import sys, time
def pieces():
    sys.stdin.readline()
    cpu, began = time.process_time(), time.perf_counter()
    yield from range(int(sys.argv[1]))
    print(time.process_time() - cpu, time.perf_counter() - began, flush=True)
    sys.stdin.readline()
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
NOBODY, PY_SPY, UNSTOPPED, TAUPY = "nobody", "py-spy", "py-spy --nonblocking", "taupy attach"
RATE = 100


class Run:
    """One run of a program: its CPU and elapsed time, that of who looked, and the lines seen."""

    def __init__(self, folder: Path, name: str, looker: str, pieces: int) -> None:
        program = folder / "prog.py"
        program.write_text(HEAD + PROGRAMS[name])
        out = folder / f"{looker.split()[0]}.out"
        out.unlink(missing_ok=True)
        runs = subprocess.Popen(
            [sys.executable, str(program), str(pieces)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
        )  # fmt: skip
        assert runs.stdin and runs.stdout
        looks = None
        if looker != NOBODY:
            looks = subprocess.Popen(
                self._command(looker, runs.pid, out), cwd=folder, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True,
                env={**os.environ, "TAUPY_STATE_DIR": str(folder / "state")},
            )  # fmt: skip
            self._wait_until_it_looks(looks)
        print(file=runs.stdin, flush=True)
        self.cpu_s, self.elapsed_s = map(float, runs.stdout.readline().split())
        self.looker_s, self.lines = 0.0, Counter[int]()
        print(file=runs.stdin, flush=True)
        runs.wait()
        if looks:
            assert looks.stderr
            problem = looks.stderr.read()
            _, _, used = os.wait4(looks.pid, 0)
            self.looker_s = used.ru_utime + used.ru_stime
            self.lines = of_taupy(folder) if looker == TAUPY else of_py_spy(out, problem)

    @staticmethod
    def _command(looker: str, pid: int, out: Path) -> list[str]:
        if looker == TAUPY:
            return [*_TAUPY, "attach", "--rate", str(RATE), "--db", "t.db", str(pid)]
        return ["py-spy", "record", "-r", str(RATE), "-d", "600", "-f", "raw", "-o", str(out),
                *looker.split()[1:], "--pid", str(pid)]  # fmt: skip

    @staticmethod
    def _wait_until_it_looks(looks: subprocess.Popen[str]) -> None:
        """What looks needs some time to start, until it uses little of a CPU."""
        ticks = os.sysconf("SC_CLK_TCK")
        before = -1.0
        while looks.poll() is None:
            fields = Path(f"/proc/{looks.pid}/stat").read_text().rpartition(")")[2].split()
            spent = (int(fields[11]) + int(fields[12])) / ticks
            if spent > 0.02 and spent - before < 0.05:
                return
            before = spent
            subprocess.run(["sleep", "0.5"], check=True)


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


def first(seen: Counter[int], number: int = 3) -> list[int]:
    return [line for line, _ in seen.most_common(number)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pieces", type=int, default=60, help="of work (some 30 ms each)")
    parser.add_argument("--only", nargs="+", choices=PROGRAMS, default=[*PROGRAMS])
    args = parser.parse_args()
    lookers = [NOBODY, *([PY_SPY, UNSTOPPED] if shutil.which("py-spy") else []), TAUPY]
    print(f"{tools.machine()}; {args.rounds} rounds", flush=True)
    taken: dict[tuple[str, str], list[Run]] = {}
    with tempfile.TemporaryDirectory() as root:
        for number in range(args.rounds):
            for name in args.only:
                turn = number % len(lookers)
                for looker in (*lookers[turn:], *lookers[:turn]):
                    folder = Path(tempfile.mkdtemp(dir=root))
                    taken.setdefault((name, looker), []).append(
                        Run(folder, name, looker, args.pieces)
                    )
    for name in args.only:
        print(f"\n{name}: lines of all runs, by looks")
        whole = {looker: sum((run.lines for run in taken[name, looker]), Counter[int]())
                 for looker in lookers[1:]}  # fmt: skip
        together = sum(whole.values(), Counter[int]())
        for looker, seen in whole.items():
            shares = ", ".join(f"{line}: {100 * looks / max(seen.total(), 1):.1f} %"
                               for line, looks in seen.most_common(4))  # fmt: skip
            print(f"  {looker:22s} {shares}")
        for looker in lookers[1:]:
            runs, plain = taken[name, looker], taken[name, NOBODY]
            pairs = list(zip(runs, plain, strict=True))
            same = statistics.mean(len({*first(run.lines)} & {*first(together)}) for run in runs)
            begins = sum(first(run.lines, 1) == first(together, 1) for run in runs)
            cost = statistics.median(run.looker_s / run.elapsed_s for run in runs)
            print(
                f"  {looker:22s} CPU time {interval([a.cpu_s / b.cpu_s for a, b in pairs])}, "
                f"elapsed {interval([a.elapsed_s / b.elapsed_s for a, b in pairs])}, who looks "
                f"{100 * cost:.1f} % of a "
                f"core; {same:.1f} of 3 lines the same, first in {begins} of {len(runs)}"
            )


if __name__ == "__main__":
    main()
