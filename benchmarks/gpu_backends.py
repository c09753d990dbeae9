"""What a launch costs with each CUPTI backend, on a simulated driver and CUPTI.

    python benchmarks/gpu_backends.py [--launches 20000]

Needs a C compiler, and cupti-python for its row, but no GPU. A launch is one runtime call, which
contains one driver call, and one record. The best of five rounds counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.fake_gpu import PRELUDE, build

PROGRAM = """
init()
name, took, f = text("k"), ctypes.c_uint64(10), cuda.fake_launch
def launches(count):
    start = time.perf_counter_ns()
    for i in range(count):
        f(name, 0, 7, took, 8, 128)
    return (time.perf_counter_ns() - start) / count
print(min(launches(int(sys.argv[1])) for i in range(5)))
"""


def cost_ns(folder: Path, count: int, *options: str) -> float | None:
    """Nanoseconds per launch, measured in a separate run; None if that run failed."""
    (folder / "prog.py").write_text(PRELUDE + PROGRAM)
    environ = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    environ |= {"TAUPY_CUPTI": str(folder / "libcupti.so.13"), "TAUPY_STATE_DIR": str(folder)}
    command = [sys.executable, "-m", "taupy", "run", "-q", "--db", str(folder / "taupy.db")]
    done = subprocess.run(
        [*command, *options, str(folder / "prog.py"), str(count)],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(done.stdout) if done.returncode == 0 else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=20_000)
    count = parser.parse_args().launches
    with tempfile.TemporaryDirectory() as name:
        folder = build(Path(name))
        for label, options in (
            ("GPU left alone", ("--no-gpu",)),
            ("native", ("--cupti-backend", "native")),
            ("python", ("--cupti-backend", "python")),
        ):
            cost = cost_ns(folder, count, *options)
            print(f"{label:16}", "-" if cost is None else f"{cost / 1000:.2f} us a launch")


if __name__ == "__main__":
    main()
