"""What recording an operator of PyTorch costs, beside a callback that does nothing.

    python benchmarks/operators.py

Needs PyTorch, and `taupy setup torch`. Four workers run the same operators in turns: one without
taupy, one without taupy whose RecordFunction callback is empty, one under `taupy run --operators`,
and one with `--signatures`. The table shows the CPU time of an operator, and what a worker adds to
that of the one before it in the same round (median and middle half), in ns. Operators: one that
returns a view, with two nested in it (`t`), and one of 8x8 matrices, with its own (`addmm`).
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
TAUPY = ("-m", "taupy", "run", "--quiet", "--no-watch", "--operators")
SIGNATURES = (*TAUPY, "--signatures")
WORKERS = {"plain": (), "empty callback": (), "taupy": TAUPY, "taupy --signatures": SIGNATURES}
CALLS, ROUNDS = 2000, 41
EMPTY = """
#include <ATen/record_function.h>
static std::unique_ptr<at::ObserverContext> begins(const at::RecordFunction &) { return nullptr; }
static void ends(const at::RecordFunction &, at::ObserverContext *) {}
extern "C" void listen()
{
    at::addGlobalCallback(at::RecordFunctionCallback(begins, ends).scopes(
        {at::RecordScope::FUNCTION, at::RecordScope::TORCHSCRIPT_FUNCTION}));
}
"""


def work(name: str, empty: str) -> None:
    """Answer each line of the input with the CPU time of an operator of each kind, in ns."""
    import ctypes

    import torch

    if name == "empty callback":
        ctypes.CDLL(empty).listen()
    torch.set_num_threads(1)
    matrix = torch.ones(8, 8)
    operations = {"t": matrix.t, "addmm": lambda: torch.addmm(matrix, matrix, matrix)}
    with torch.no_grad(), torch.profiler.profile() as profiler:
        for operation in operations.values():
            operation()
    names = [event.name for event in profiler.events()]
    counts = {"t": names.index("aten::addmm"), "addmm": len(names) - names.index("aten::addmm")}
    for _ in sys.stdin:
        took = []
        with torch.no_grad():
            for kind, operation in operations.items():
                begin = time.process_time_ns()
                for _ in range(CALLS):
                    operation()
                took.append((time.process_time_ns() - begin) / CALLS / counts[kind])
        print(*took, *counts.values(), flush=True)


def build(folder: Path) -> Path:
    from taupy.instrument import torch_library

    torch = torch_library.installed(sys.path)
    if torch is None:
        sys.exit("PyTorch is not installed")
    source, target = folder / "empty.cpp", folder / "empty.so"
    source.write_text(EMPTY)
    kind = torch_library.Kind("empty", "", "", "ATen/record_function.h", ("", "", ""))
    kind.source = str(source)
    torch_library._compile("c++", str(target), kind, torch, torch.abi() or "1")
    return target


def main() -> None:
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        empty = build(folder)
        workers = {}
        for name, taupy in WORKERS.items():
            database = ("--db", str(folder / "taupy.db")) if taupy else ()
            command = [sys.executable, *taupy, *database, str(HERE), name, str(empty)]
            pipe = subprocess.PIPE
            workers[name] = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        rounds = [{name: ask(worker) for name, worker in workers.items()} for _ in range(ROUNDS)][
            1:
        ]
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    for at, kind in enumerate(("t", "addmm")):
        count = int(rounds[0]["plain"][2 + at])
        print(f"{kind} ({count} operators), ns for one")
        for before, name in itertools.pairwise(["", *WORKERS]):
            added = [took[name][at] - (took[before][at] if before else 0) for took in rounds]
            low, middle, high = statistics.quantiles(added, n=4)
            print(f"  {'+' if before else ' '}{middle:7.0f}  ({low:.0f}, {high:.0f})  {name}")


def ask(worker) -> list[float]:
    worker.stdin.write("\n")
    worker.stdin.flush()
    return [float(number) for number in worker.stdout.readline().split()]


if __name__ == "__main__":
    work(*sys.argv[1:3]) if len(sys.argv) > 1 else main()
