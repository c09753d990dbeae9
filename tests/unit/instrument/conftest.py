"""Run the plain engine in a separate process, with a clock that the program sets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taupy.state import values

ROOT = Path(__file__).parents[3]

DRIVER = '''
import posix, sys
sys.path.insert(0, {root!r})
from taupy.state import values
from taupy.instrument import engine, engine_part
class Clock:
    """`now` moves only when the program says so."""
    now = 1_000_000
clock = Clock()
def read():
    return clock.now
engine._clock = engine._cpu_clock = engine_part._clock = read
def part():
    return engine_part.document(engine._engine, "running")
source = open({program!r}).read()
code = compile(source, "prog.py", "exec")
space = {{"__name__": "__main__", "clock": clock, "part": part, "parts": [], "engine": engine}}
engine.start({{"run_folder": {folder!r}.encode(), "root_pid": posix.getpid(), **{options!r}}})
try:
    exec(code, space)
finally:
    engine._engine.stop()
    final = values.loads(open(engine._engine.path, "rb").read())
    open({folder!r} + "/parts", "wb").write(values.dumps([*space["parts"], final]))
'''


class Rows:
    """A part's contents, by name."""

    def __init__(self, part) -> None:
        self.part = part
        self.missed = part["missed"]
        self.threads = [thread["name"] for thread in part["threads"]]
        self.routines = list(zip(*part["routines"], strict=True))

    def path(self, thread, row) -> str:
        names = []
        while row:
            names.append(self.routines[thread["routine"][row]][0])
            row = thread["parent"][row]
        return " > ".join(reversed(names))

    def all(self, number: int = 0) -> dict[str, tuple[int, int, int]]:
        """Call path -> (calls, resumes, inclusive ns) of one thread."""
        thread = self.part["threads"][number]
        return {
            self.path(thread, row): (
                thread["calls"][row],
                thread["resumes"][row],
                thread["inclusive_ns"][row],
            )
            for row in range(len(thread["parent"]))
        }

    def calls(self, number: int = 0) -> dict[str, int]:
        return {path: row[0] for path, row in self.all(number).items()}

    def inclusive(self, number: int = 0) -> dict[str, int]:
        return {path: row[2] for path, row in self.all(number).items()}


class Measured:
    def __init__(self, parts, stdout: str) -> None:
        self.parts = [Rows(part) for part in parts]
        self.last = self.parts[-1]
        self.stdout = stdout


@pytest.fixture
def measure(tmp_path):
    """Run a program under the plain engine; `clock.now += n` spends n ns, and
    `parts.append(part())` keeps the current part."""

    def run(source: str, **options) -> Measured:
        program = tmp_path / "prog.py"
        program.write_text(source)
        driver = DRIVER.format(
            root=str(ROOT), program=str(program), folder=str(tmp_path), options=options
        )
        # Functions whose file is in the engine's folder are not recorded: the driver's.
        ours = str(ROOT / "taupy" / "instrument" / "driver")
        done = subprocess.run(
            [sys.executable, "-c", f"exec(compile({driver!r}, {ours!r}, 'exec'))"],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        return Measured(values.loads((tmp_path / "parts").read_bytes()), done.stdout)

    return run
