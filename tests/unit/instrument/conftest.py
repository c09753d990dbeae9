"""Run the plain engine in a separate process, with a clock that the program sets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from taupy.state import values

ROOT = Path(__file__).parents[3]

DRIVER = '''
import sys
sys.path.insert(0, {root!r})
from taupy.state import values
from taupy.instrument import engine, engine_part
sys.modules["_taupy_engine"] = engine
class Clock:
    """`now` moves only when the program says so, or by `step` at every reading.

    `meanwhile` runs between a reading and its use, as a signal handler may."""
    now, step, meanwhile = 1_000_000, 0, None
    def double(self):
        self.now *= 2
clock = Clock()
def read():
    clock.now += clock.step
    now = clock.now
    if clock.meanwhile:
        clock.meanwhile()
    return now
def part(state="running"): 
    return engine_part.document(engine._engine.state, engine._engine.threads, state)
source = open({program!r}).read()
code = compile(source, "prog.py", "exec")
space = {{"__name__": "__main__", "clock": clock, "part": part, "parts": []}}
engine.start({{"clock": read, "cpu_clock": read, "wait_for_main": 1,
              "part_path": {output!r}.encode(), **{options!r}}})
try:
    exec(code, space)
finally:
    engine.stop()
    final = values.loads(open({output!r}, "rb").read())
    open({output!r}, "wb").write(values.dumps([*space["parts"], final]))
'''


class Rows:
    """A part's contents, by name."""

    def __init__(self, part) -> None:
        self.part = part
        self.health = part["health"]
        self.threads = [thread["name"] for thread in part["threads"]]

    def path(self, thread, row) -> str:
        names = []
        while row:
            names.append(self.part["routines"]["name"][thread["routine"][row]])
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

    def events(self, number: int = 0):
        thread = self.part["threads"][number]
        return [
            (name, unit, None if row is None else self.path(thread, row), *rest)
            for name, unit, row, *rest in thread["events"]
        ]


class Measured:
    def __init__(self, parts, stdout: str, returncode: int) -> None:
        self.parts = [Rows(part) for part in parts]
        self.last = self.parts[-1]
        self.stdout = stdout
        self.returncode = returncode


@pytest.fixture
def measure(tmp_path):
    """Run a program under the plain engine; `clock.now += n` spends n ns, and
    `parts.append(part())` keeps the current part."""

    def run(source: str, check: bool = True, **options) -> Measured:
        program, output = tmp_path / "prog.py", tmp_path / "part"
        program.write_text(source)
        driver = DRIVER.format(
            root=str(ROOT), program=str(program), output=str(output), options=options
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
        if check:
            assert done.returncode == 0, done.stderr
        return Measured(values.loads(output.read_bytes()), done.stdout, done.returncode)

    return run
