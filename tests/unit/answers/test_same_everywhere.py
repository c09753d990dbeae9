"""An answer has the same columns and cells from its command, in a notebook and on the page."""

from __future__ import annotations

import csv
import inspect
import json
import shutil
from array import array
from contextlib import suppress
from dataclasses import replace

import pytest

import taupy.notebook
from taupy.answers import ANSWERS, EXCEPTIONS
from taupy.answers.answer import module
from taupy.commands import command_module, main
from taupy.errors import TaupyError
from taupy.model.options import settings
from taupy.model.sampled import CUDA, GROWTH, KIB, PEAK, RESIDENT, STATES
from taupy.model.step_times import TOKENS as TOKENS_OF_A_STEP
from taupy.network.steps import TOKENS
from taupy.pprof.cells import seen_by, with_short_kernels
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.dimensions import DIMENSIONS, heading
from taupy.profiledb.writer import add_profile
from taupy.report import contents, page
from tests.builders import (
    call,
    event,
    gpu_profile,
    host,
    line_times,
    profile_of,
    samples,
    small_profile,
    steps,
)
from tests.unit.profiledb.test_layers import known
from tests.unit.ranks.test_command import rank

pd = pytest.importorskip("pandas")

ON_PAGE = [name for name in ANSWERS if (name, "page") not in EXCEPTIONS]
TEXTS = {
    "steps": "cpu_time", "kernels": "gemm", "events": "Memory", "routines": "time",
    "candidates": "time",
}  # fmt: skip
"""The option of an answer that takes any text."""
COMMANDS = {"routines": ["pprof", "--sort", "exclusive"]}
"""Commands that show more than their answers: those rows thread by thread, then sums."""
SUBJECTS = {"kernel": {"name": "gemm"}}
NEEDS = {("kernels", "step"): {"critical_path": True}}
"""Options that an option needs."""
"""What is asked about, of answers that are about something."""
WITHOUT = {"places": 4, "events": 4, "routines": 6, "candidates": 6}
"""The trial that lacks an answer, where that is not trial 2."""
WITH = {"ranks": 5, "kernels": 3, "kernel": 3}
"""The trial that has an answer, where that is not trial 1."""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A training with facts of layers, and trials without any."""
    path = tmp_path_factory.mktemp("stored") / "taupy.db"
    profile = known()
    profile.metadata[TOKENS] = "counted: input_ids"
    profile.threads[0].steps = [steps([9_000_000, 1_000_000]), steps([500_000], "validation")]
    for series in profile.threads[0].steps:
        series.values[TOKENS_OF_A_STEP] = array("d", [512.0] * len(series))
    profile.threads[0].lines = line_times(profile.threads[0].tree.timer[1])
    profile.threads[0].samples = [samples(RESIDENT, KIB, [100.0, 300.0])]
    profile.threads[0].user_events += [
        event("message size", [24.0, 8.0]),
        event(RESIDENT, [100.0, 300.0], KIB),
        *(replace(event(GROWTH, [50.0], KIB), row=row) for row in (2, 4, 5)),
        replace(event(PEAK, [300.0], KIB), row=5),
        replace(event(CUDA.growth, [70.0], KIB), row=4),
        replace(event(CUDA.peak, [90.0], KIB), row=4),
    ]
    profile.threads[0].user_events += [
        replace(event(state, [30.0, 40.0]), row=row) for state in STATES[:2] for row in (2, 4)
    ]
    with ProfileDB.open(path, create=True) as db:
        counted = profile_of(host(call("main", 1, {"misses": 7})), number=7)
        for one in (profile, small_profile(5), gpu_profile(6), counted):
            add_profile(db, one)
        first, second = rank(0, 20, [20, 120]), rank(1, 160, [85, 180])
        add_profile(db, first)
        add_profile(db, replace(second, uuid=first.uuid))
        add_profile(db, profile_of(number=8))
    return path


@pytest.fixture
def path(stored, tmp_path, monkeypatch):
    """Of each test its own copy: tests do not change what others find."""
    path = tmp_path / "taupy.db"
    shutil.copy(stored, path)
    monkeypatch.setenv("TAUPY_DB", str(path))
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    return path


def comparable(names, rows):
    """Columns, and the cells of each row that are not empty; numbers as numbers."""
    return {*names}, [
        {name: _cell(cell) for name, cell in zip(names, row, strict=True) if not _is_empty(cell)}
        for row in rows
    ]


def _is_empty(cell):
    return pd.isna(cell) or cell == ""


def _cell(cell):
    if isinstance(cell, str):
        cell = cell.removeprefix("'")  # of what spreadsheets take for a formula
    try:
        return float(cell)
    except ValueError:
        return cell


def together(tables):
    columns, rows = set(), []
    for more, cells in tables:
        columns |= more
        rows += cells
    return columns, rows


def words(name, options):
    """The command that asks for these options."""
    given = []
    for entry, setting in settings(type(options)):
        value = getattr(options, entry.name)
        if entry.name in SUBJECTS.get(name, ()):
            given.append(value)
        elif value != entry.default:
            flag = [each for each in setting.names if each.startswith("--")]
            flag = flag or [f"--{entry.name.replace('_', '-')}"]
            for each in value if isinstance(value, tuple) else [value]:
                given += flag if each is True else [*flag, str(each)]
    trial = ["--trial", trial_with(name)] if name in SUBJECTS else [trial_with(name)]
    return [*COMMANDS.get(name, [name]), *trial, *given]


def of_command(capsys, name, options):
    assert main([*words(name, options), "--csv"]) == 0
    blocks = [block.splitlines() for block in capsys.readouterr().out.split("\n\n")]
    tables = [[*csv.reader(block)] for block in blocks]
    if name in COMMANDS:
        ((header, *rows),) = tables
        rows = [row for row in rows if row[0] == "thread"]
        rows.sort(key=lambda row: float(row[header.index("exclusive_ns")]), reverse=True)
        tables = [[header, *rows]]
    return [comparable(header, rows) for header, *rows in tables]


def notes_of_command(capsys, name, options):
    assert main([*words(name, options), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)
    return [note for table in ([tables] if isinstance(tables, dict) else tables)
            for note in table["notes"]]  # fmt: skip


def trial_with(name):
    return str(WITH.get(name, 1))


def of_view(view):
    columns, positions = seen_by(view, "machines")
    rows = [[row[at] for at in positions] for row in view.rows]
    return comparable([column.name for column in columns], rows)


def tab(path, name, trial):
    with ProfileDB.open(path) as db:
        sections = contents.of_trial(db, db.trial(trial)).sections
    return [part for section in sections if section.name == name for part in section.parts]


def choices(name):
    """The options: all by default, and each of them with each of its values."""
    ask, subject = module(name).Options, SUBJECTS.get(name, {})
    yield ask(**subject)
    for entry, setting in settings(ask):
        if entry.name == "whole" or entry.name in subject:
            continue  # programs get all rows
        texts = [TEXTS[name]] if setting.is_text else [1]
        for value in [True] if entry.default is False else setting.choices or texts:
            yield ask(**subject, **{entry.name: value}, **NEEDS.get((name, entry.name), {}))


def keywords(options):
    names = [entry.name for entry, _ in settings(type(options)) if entry.name != "whole"]
    return {name: getattr(options, name) for name in names}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_command_a_notebook_and_the_page_say_the_same(path, capsys, name):
    """Without options, and with the last two ones."""
    first, *others = choices(name)
    assert compared(path, capsys, name, [first, *others[-2:]])


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_so_they_do_with_each_option(path, capsys, name):
    """One at a time."""
    assert compared(path, capsys, name, choices(name)) >= (1 if name in SUBJECTS else 2)


def compared(path, capsys, name, asked):
    """Compare columns, cells and notes; how many of these options have tables."""
    method = getattr(taupy.open(path).trial(trial_with(name)), name)
    shown = 0
    for options in asked:
        if main([*words(name, options), "--csv"]):
            said = capsys.readouterr().err
            try:
                frame = method(**keywords(options))
                assert frame.empty, options
                (why,) = frame.attrs["notes"]
                assert why in said
            except TaupyError as refused:
                assert str(refused) in said
            continue
        capsys.readouterr()
        frame = method(**keywords(options))
        rows = frame.itertuples(index=False, name=None)
        tables = of_command(capsys, name, options)
        assert comparable([*frame.columns], rows) == together(tables), options
        with ProfileDB.open(path) as db:
            views = module(name).views(db, int(trial_with(name)), options)
        assert together(map(of_view, views)) == together(tables)
        drawn = [note for view in views for note in page._table(view)["notes"]]
        assert drawn == notes_of_command(capsys, name, options)
        assert frame.attrs["notes"] == [*dict.fromkeys(drawn)]
        for view in map(with_short_kernels, views):  # what the page draws are these cells
            (_, positions), rows = seen_by(view, "people"), page._table(view)["rows"]
            assert rows == [[row[at] for at in positions] for row in view.rows]
        shown += 1
    return shown


@pytest.mark.parametrize("name", [name for name in ANSWERS if name not in COMMANDS])
def test_a_parquet_file_holds_the_frame_of_the_notebook(path, tmp_path, name):
    pytest.importorskip("pyarrow")
    subject = SUBJECTS.get(name, {})
    frame = getattr(taupy.open(path).trial(trial_with(name)), name)(**subject)
    assert not frame.empty
    asked = words(name, module(name).Options(**subject))
    assert main([*asked, "--parquet", str(tmp_path / "a.parquet")]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a.parquet"), frame)


def saying_something(name, tables):
    """Of memory and waiting, what a page shows: rows that grew, and tables that tell parts of the
    program from one another."""
    for columns, rows in tables:
        if name == "memory":
            rows = [row for row in rows if row["growth_bytes"]]
        by = columns & {"layer", "phase"} if name in ("memory", "waiting") else ()
        if not by or not contents.is_undivided(row[label] for row in rows for label in by):
            yield columns, rows


@pytest.mark.parametrize("name", ON_PAGE)
def test_the_page_has_the_tables_of_the_command(path, capsys, name):
    parts = tab(path, name, int(trial_with(name)))
    asked = module(name).PAGES
    tables = [table for options in asked for table in of_command(capsys, name, options)]
    names, rows = together([*saying_something(name, tables)])
    rows = [row for row in rows if not contents.is_elsewhere(row.get("event", ""))]
    assert together(of_view(view) for part in parts for view in part.views) == (names, rows)
    notes = [note for options in asked for note in notes_of_command(capsys, name, options)]
    shown = [note for part in parts
             for notes in (part.lines, *(view.notes for view in part.views))
             for note in notes]  # fmt: skip
    assert [*dict.fromkeys(shown)] == [*dict.fromkeys(notes)]


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_trial_has_not_is_no_tab_and_an_empty_frame(path, capsys, name):
    trial, subject = WITHOUT.get(name, 2), SUBJECTS.get(name, {})
    asked = [*COMMANDS.get(name, [name]), *subject.values(), *(["--trial"] if subject else [])]
    assert main([*asked, str(trial)]) == (1 if name in COMMANDS else 2)
    said = capsys.readouterr().err
    assert said.startswith((f"taupy: trial {trial} has no", f"taupy: nothing of trial {trial} ran"))
    frame = getattr(taupy.open(path).trial(trial), name)(**subject)
    assert frame.empty
    assert said == "".join(f"taupy: {why}\n" for why in frame.attrs["notes"])
    assert tab(path, name, trial) == []


@pytest.mark.parametrize("name", ANSWERS)
def test_a_notebook_takes_the_options_of_the_command(name):
    """But for `--all`: programs always get all rows."""
    of_method = inspect.signature(getattr(taupy.notebook.Trial, name)).parameters
    of_answer = inspect.signature(module(name).Options).parameters
    assert {name: each.default for name, each in of_method.items() if name != "self"} == {
        name: each.default for name, each in of_answer.items() if name != "whole"
    }


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("kernels 3 --activity --by layer --kernel gemm", "--activity takes no --by or --kernel"),
        ("kernels 3 --critical-path --activity", "--critical-path takes no --activity"),
        ("memory 1 --series --by step", "--series takes no --by"),
    ],
)
def test_an_option_that_would_say_nothing_is_refused(path, capsys, words, refusal):
    assert main(words.split()) == 2
    assert capsys.readouterr() == ("", f"taupy: {refusal}\n")


def test_each_exception_is_one():
    for (name, where), reason in EXCEPTIONS.items():
        assert reason
        if where == "page":
            assert not ANSWERS[name][0] and not hasattr(module(name), "PAGES")
        else:
            command, *_ = COMMANDS.get(name, [name])
            assert reason.startswith(f"commands/{command}.py: ")
            assert command_module(command).__name__ == f"taupy.commands.{command}"


@pytest.mark.parametrize("name", [name for name in ANSWERS if name != "candidates"])  # `timer`
def test_a_dimension_has_one_heading_and_one_column_name(path, name):
    _, *chosen = choices(name)
    in_titles = ("thread", "trial", "step")
    for options in chosen:
        by = getattr(options, "by", None)
        if by not in DIMENSIONS or by in in_titles or options != type(options)(by=by):
            continue
        with ProfileDB.open(path) as db, suppress(TaupyError):
            for view in module(name).views(db, int(trial_with(name)), options):
                assert by in [column.name for column in view.columns if column.audience != "people"]
                shown = {column.name: column.heading for column in view.columns}
                assert heading(by) in shown.values() or not shown[by]  # but in the title


def test_the_flat_profile_by_plain_names_has_the_same_values(path):
    trial = taupy.open(path).trial(1)
    routines, profile = trial.routines(), trial.profile()
    both = routines.merge(profile, on=["node", "context", "thread", "timer"])
    assert len(both) == len(routines) == len(profile) > 5
    for name in ("exclusive", "inclusive"):
        assert both[f"{name}_ns"].tolist() == both[name].tolist()
    assert both["calls_x"].tolist() == both["calls_y"].tolist()
