"""What passes after the program's last line is a row of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from taupy.model.question import Question
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.values import values

PROGRAM = """
import atexit, threading, time
def busy(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until: pass
def work(): busy(0.01)
def last(): busy(0.02)
class Model:
    def __del__(self, busy=busy): busy(0.03)
model = Model()
atexit.register(last)
atexit.register(lambda: __import__("colorsys"))
work()
"""
ENDS = {
    "it returns": ("", 0),
    "an exception ends it": ("1 / 0", 1),
    "it exits": ("raise SystemExit(3)", 3),
}


def outermost(trial):
    """The rows below the root of the main thread."""
    return {p.names[1]: p for p in trial.paths() if len(p.names) == 2 and p.thread == 0}


@pytest.mark.slow
@pytest.mark.parametrize("how", ENDS)
def test_what_passes_after_the_last_line_is_a_row(runner, native, how):
    statement, code = ENDS[how]
    trial = runner.run(PROGRAM + statement, native, check=False)
    assert trial.sql("SELECT exit_code FROM trial") == [(code,)]
    rows = outermost(trial)
    (root,) = (p for p in trial.paths() if len(p.names) == 1 and p.thread == 0)
    assert set(rows) == {"<module>", "exit"}
    assert rows["exit"].calls == 1
    assert rows["exit"].inclusive >= 50e6 > 10e6 <= rows["<module>"].inclusive
    assert root.exclusive < 1e6  # nothing passes elsewhere, and the total is unchanged
    assert sum(p.inclusive for p in rows.values()) + root.exclusive == root.inclusive
    assert trial.under("exit", "last").calls == 1
    assert trial.under("exit", "Model.__del__", "busy").calls == 1
    assert trial.under("exit", "<lambda>", "import colorsys").calls == 1


def test_a_module_has_one_and_cpu_time_adds_up(runner, native):
    (runner.folder / "main.py").write_text(PROGRAM)
    trial = runner.run(Path("main"), native, "--cpu-time", "-m")
    rows = outermost(trial)
    assert {"_run_module_as_main", "exit"} <= set(rows) and "last" not in rows
    with ProfileDB.open(trial.database) as db:
        table = values(db, Question((1,), ("cpu_time", "time"), ("timer",)))
    row = [timer.timer for timer in table.row_labels("timer")].index("exit")
    cpu, wall = (table.column("exclusive", metric)[row] for metric in ("cpu_time", "time"))
    assert 0 < cpu < 2 * wall


def test_each_process_has_one(runner, native):
    trial = runner.run(
        """
import atexit, os, sys
atexit.register(print)
if os.fork():
    os.wait()
    if os.fork() == 0: os._exit(0)  # nothing passes after that
    os.wait()
""",
        native,
    )
    rows = [(p.node, p.calls) for p in trial.paths() if p.names[1:] == ("exit",)]
    assert sorted(rows) == [(0, 1), (1, 1)]


@pytest.mark.slow
def test_a_program_that_is_not_recorded_has_none(runner, native):
    trial = runner.run("def f(): pass\nf()\n", native, "--include", "name:f")
    assert trial.calls() == {".taupy application": 1, "f": 1}


@pytest.mark.slow
def test_phases_and_layers_name_it(runner, native):
    from taupy.answers import phases

    trial = runner.run(PROGRAM + "import taupy\ntaupy.snapshot('x')\n", native)
    with ProfileDB.open(trial.database) as db:
        first = trial.sql("SELECT min(id) FROM trial WHERE name NOT LIKE '%@%'")[0][0]
        (view,) = phases.views(db, first, phases.Options())
    names = [column.name for column in view.columns]
    kinds = {row[names.index("phase")] for row in view.rows}
    assert kinds == {"import", "exit", "taupy", "(no phase)"}
