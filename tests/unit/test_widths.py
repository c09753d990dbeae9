"""Every command that reads a trial, on every trial of the tests' collection, in windows of all
widths."""

from __future__ import annotations

import re

import pytest

from taupy.commands import COMMANDS, main
from taupy.pprof import table, terminal
from taupy.pprof.fitting import fitted
from taupy.pprof.text import width
from taupy.pprof.view import Column, View
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile, small_profile
from tests.findings import gpu_faults, gpu_healthy
from tests.unit.profiledb.test_layers import known
from tests.unit.ranks.test_report import job

WIDTHS = (40, 60, 80, 120, 200)
PROFILES = [
    *(known, lambda: small_profile(5), lambda: gpu_profile(6), lambda: job([100, 100, 300, 100])),
    *gpu_faults.FAULTS,
    *gpu_healthy.HEALTHY,
]
READING = (
    *(
        "places",
        "lines",
        "pprof",
        "pprof --tree",
        "pprof --kernels",
        "pprof --events",
        "pprof --callpaths",
    ),
    *("pprof --list", "phases", "phases --by layer", "phases --by step", "steps", "ranks"),
    *("layers", "layers --tree", "layers --by layer_type", "layers --by step", "memory"),
    *("memory --by step", "memory --series", "waiting", "kernels", "kernels --activity"),
    *("kernel gemm", "events", "trials show", "candidates"),
    *(
        "roofline",
        "pprof --callers main",
        "compare 1 1",
        "pivot --rows routine",
        "trials",
        "derive",
    ),
)
OF_ALL = (
    *("trials", "pivot", "pivot --rows file", "compare 1 2", "compare 1 2 --by file", "derive"),
    *("compare 1 2 --fail-on=time>5%", "sweep --by batch", "sweep --by batch --show top"),
    *("sweep --by batch --show routines", "query select+*+from+trial", "avail"),
)
NO_TABLE = {
    *("run", "gate", "report", "static", "import", "export", "serve", "merge", "store", "push"),
    *("pull", "ceilings", "setup", "clean", "doctor", "completion", "help", "top"),
    *("attach", "dump"),
}
"""Commands that show no trial's table, or that of another command; a report is tested below."""


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """One database for each profile, as several have the same identity, and one of two trials."""
    folder = tmp_path_factory.mktemp("widths")
    for number, profile in enumerate(PROFILES):
        with ProfileDB.open(folder / f"{number}.db", create=True) as db:
            add_profile(db, profile())
    with ProfileDB.open(folder / "several.db", create=True) as db:
        for number in (1, 2):
            add_profile(db, small_profile(number, metadata={"batch": str(number)}))
    return folder


@pytest.fixture
def shown(collection, monkeypatch, capsys):
    """A function that runs a command once, and fits what it shows into windows of all widths."""
    monkeypatch.setenv("TAUPY_STATE_DIR", str(collection / "state"))
    monkeypatch.setenv("NO_COLOR", "1")
    tables = []

    def lines(views, form, out, limit, color, alone):
        views = list(views)
        for window in WIDTHS:
            tables.append(views)
            widest = max(
                width(line) for line in "".join(table.lines(views, window, None)).split("\n")
            )
            assert widest <= window, views[0].title
        piped = "".join(table.lines(views, 200, None, window=False)).split("\n")
        said = {f"note: {said}" for view in views for said in (*view.notes, *view.warnings)}
        said |= {view.title for view in views}
        assert all(width(line) <= 200 or line in said for line in piped), views[0].title
        return iter(())

    def run(command, database):
        monkeypatch.setenv("TAUPY_DB", str(collection / f"{database}.db"))
        monkeypatch.setattr(terminal, "_lines", lines)
        monkeypatch.setattr(terminal, "columns", lambda stream, piped: 80)
        tables.clear()
        code = main([word.replace("+", " ") for word in command.split()])
        assert code in (0, 4) or (capsys.readouterr().err and not tables)
        return list(tables)

    return run


QUICK = 6
EACH = pytest.mark.parametrize(
    "number",
    [pytest.param(n, marks=pytest.mark.slow if n >= QUICK else ()) for n in range(len(PROFILES))],
)
"""The first profiles differ most: what GPUs' faults show differs little from one to another."""


@pytest.mark.slow
@EACH
def test_no_table_of_a_trial_is_wider_than_its_window(number, shown):
    assert sum(bool(shown(command, number)) for command in READING) >= 5


@pytest.mark.parametrize("command", OF_ALL)
def test_no_table_of_several_trials_is_wider_than_its_window(command, shown):
    assert shown(command, "several")


@EACH
def test_no_report_is_larger_than_its_window(number, collection, monkeypatch, capsys):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(collection / "state"))
    monkeypatch.setenv("LINES", "24")
    for window in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(window))
        assert main(["report", "--db", str(collection / f"{number}.db")]) == 0
        *lines, end = capsys.readouterr().out.splitlines()
        # Commands to be copied are not cut: with the database they may be longer than the window.
        assert end.startswith("next: ") or width(end) <= window
        assert max(map(width, lines)) <= window
        assert len(lines) < 24 or window < 80


def test_every_command_shows_its_tables_here_or_has_none():
    assert {command.split()[0] for command in (*READING, *OF_ALL)} == {*COMMANDS} - NO_TABLE


def test_a_spare_column_of_numbers_is_left_out_once():
    numbers = [Column("time", "int"), Column("calls", "int"), Column("flop", "int", spare=True)]
    assert fitted([Column("name"), *numbers], [20] * 4, [20] * 4, 30)[0].kept == [0, 1]


def _values(sides, kind):
    """A table of so many sides, with a long name and a column that matters less."""
    columns = [
        Column("name"),
        *(Column(f"side{at}", kind, f"S{at}", side=True) for at in range(sides)),
        Column("calls", "int", "Calls"),
    ]
    values = [f"{'long text ' * 4}{at}!" if kind == "text" else 10**6 + at for at in range(sides)]
    rows = [[f"routine_{row} [{{{'folder/' * 9}file.py}}{{1}}]", *values, row] for row in (1, 2)]
    return View("COMPARED", columns, rows)


@pytest.mark.parametrize("window", [True, False], ids=["window", "pipe"])
@pytest.mark.parametrize("sides", [2, 3, 7, 8, 26])
@pytest.mark.parametrize("kind", ["int", "text"])
@pytest.mark.parametrize("limit", [40, 80, 200])
def test_each_side_is_shown_whatever_the_window(kind, sides, window, limit):
    """In as many parts as that takes, each with the names; what is left out is no side."""
    shown = "".join(table.lines([_values(sides, kind)], limit, None, window)).split("\n")
    assert max(map(width, (line for line in shown if not line.startswith("note")))) <= limit
    heads = [line.split() for line in shown if re.match(r"name\b", line)]
    assert [name for head in heads for name in head if name[0] == "S"] == [
        f"S{at}" for at in range(sides)
    ]
    for row in (1, 2):
        mine = [line for line in shown if line.startswith("rou")][row - 1 :: 2]
        assert len(mine) == len(heads)
        if kind == "int":
            text = " ".join(mine)
            assert all(f" {10**6 + at}" in text for at in range(sides))


def test_names_are_not_cut_short_to_keep_all_sides_in_one_part():
    shown = "".join(table.lines([_values(8, "int")], 80, None)).split("\n")
    rows = [line for line in shown if line.startswith("rou")]
    assert len(rows) == 4  # of two parts
    assert all(len(line.partition(" 1000")[0].rstrip()) >= 24 for line in rows)


@pytest.mark.parametrize("columns", [80, 0], ids=["80", "pipe"])
def test_a_comparison_of_seven_trials_shows_the_values_of_all(
    tmp_path, monkeypatch, capsys, columns
):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("TAUPY_DB", str(tmp_path / "t.db"))
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        for number in range(1, 8):
            add_profile(db, small_profile(number))
    if columns:
        monkeypatch.setattr(terminal, "columns", lambda stream, piped: columns)
    assert main(["compare", *map(str, range(1, 8))]) == 0
    rows = capsys.readouterr().out.split("ROUTINES")[1].splitlines()
    heads = [set(line.split()) for line in rows if line.endswith("Name")]
    assert set("ABCDEFG") <= set().union(*heads)
