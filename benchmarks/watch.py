"""What the watch costs, and how late it notes the end of a process.

    python benchmarks/watch.py [--rounds N] [--kills N] [--children N]

The program's CPU and wall time with and without the watch, in turns; the watch's own share of a
core and resident memory beside a program that sleeps, and beside one with many children; and how
late the ends of killed programs are noted: after the signal was sent (the end itself comes a little
later) and after the parent was notified.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tools

from taupy.state import heartbeat
from taupy.state.folder import open_run

FIXED = """
def f(n): return n * n
for _ in range(2000): sum(map(f, range(1000)))
"""
SLEEPER = "import time; time.sleep(600)"
CHILDREN = """
import os, time
for _ in range({count}):
    if not os.fork():
        time.sleep(600)
time.sleep(600)
"""
OTHERS = """
import os, time
for _ in range({count}):
    if not os.fork():
        os.execvpe("sleep", ["sleep", "600"], {{}})
time.sleep(600)
"""


class Run:
    """`taupy run` of a program."""

    def __init__(self, root: Path, source: str, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=root))
        self.environment = tools.environment(self.folder)
        self.environment["TAUPY_STATE_DIR"] = str(self.folder / "state")
        command = [sys.executable, "-m", "taupy", "run", "--quiet", *options, "-c", source]
        self.process = subprocess.Popen(
            command, env=self.environment, cwd=self.folder, start_new_session=True
        )

    def kept(self) -> tuple[heartbeat.Beat, list[heartbeat.End]] | None:
        for path in (self.folder / "state").glob("run-*"):
            with open_run(str(path)) as folder:
                return heartbeat.read(folder)
        return None

    def watch(self) -> int:
        """The watch's process id, once it has started."""
        until = time.monotonic() + 30
        while (kept := self.kept()) is None:
            if time.monotonic() > until:
                raise SystemExit("the watch did not begin")
            time.sleep(0.05)
        return kept[0].pid

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def cost(root: Path, *options: str) -> tuple[float, float]:
    """CPU and wall seconds of one run of a fixed amount of work, including storing."""
    start = time.monotonic()
    run = Run(root, FIXED, *options)
    _, status, usage = os.wait4(run.process.pid, 0)
    run.process.returncode = status
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start


def share(root: Path, source: str, seconds: float) -> str:
    """The watch's share of a core in a first and a second period, and its memory."""
    began = time.monotonic()
    run = Run(root, source)
    watch = run.watch()
    percent, before = [], 0.0
    for number in (1, 2):
        time.sleep(began + number * seconds - time.monotonic())
        used = int(Path(f"/proc/{watch}/schedstat").read_text().split()[0]) / 1e9
        percent.append((used - before) / seconds * 100)
        before = used
    kept = run.kept()
    status = Path(f"/proc/{watch}/status").read_text()
    resident_mib = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    run.kill()
    assert kept is not None
    return (
        f"{percent[0]:.2f} % of a core in the first {seconds:.0f} s, {percent[1]:.2f} % in the "
        f"next; {resident_mib:.1f} MiB, a look every {kept[0].interval_ns / 1e6:.0f} ms"
    )


def death(root: Path) -> tuple[float, float]:
    """How late a kill is noted, in ms: after the signal, and after the parent was notified."""
    run = Run(root, SLEEPER)
    run.watch()
    time.sleep(0.2)
    sent = time.monotonic_ns()
    run.process.kill()
    run.process.wait()
    notified_ns = time.monotonic_ns()
    until = time.monotonic() + 10
    while not (ends := run.kept()[1]) and time.monotonic() < until:  # type: ignore[index]
        time.sleep(0.01)
    (end,) = ends
    return (end.ended_ns - sent) / 1e6, (end.ended_ns - notified_ns) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="What the watch costs.")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--children", type=int, default=2000)
    arguments = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        pairs = [(cost(root), cost(root, "--no-watch")) for _ in range(arguments.rounds)]
        for number, what in enumerate(("CPU", "wall") if pairs else ()):
            with_, without = (statistics.median(p[s][number] for p in pairs) for s in (0, 1))
            lowest = [min(p[s][number] for p in pairs) for s in (0, 1)]
            print(
                f"program's {what} time: {with_:.3f} s with the watch, {without:.3f} s without; "
                f"lowest {lowest[0]:.3f}, {lowest[1]:.3f}"
            )
        print("watch, beside a program that sleeps:", share(root, SLEEPER, 20))
        many = CHILDREN.format(count=arguments.children)
        print(f"watch, beside {arguments.children} children:", share(root, many, 20))
        others = OTHERS.format(count=arguments.children)
        print(f"watch, beside {arguments.children} other processes:", share(root, others, 20))
        late = [death(root) for _ in range(arguments.kills)]
        for number, what in enumerate(("the signal", "the parent was notified") if late else ()):
            times = sorted(delays[number] for delays in late)
            print(
                f"{len(times)} deaths noted after {what}: median {statistics.median(times):.2f} "
                f"ms, from {times[0]:.2f} to {times[-1]:.2f} ms"
            )


if __name__ == "__main__":
    main()
