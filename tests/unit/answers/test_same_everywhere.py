"""An answer has the same columns and cells from its command, in a notebook and on the page."""

from __future__ import annotations

import csv
import inspect
import json
from array import array
from dataclasses import replace

import pytest

import taupy.notebook
from taupy.answers import ANSWERS
from taupy.answers.answer import module, settings
from taupy.commands import main
from taupy.errors import UsageError
from taupy.model.sampled import GROWTH, KIB, PEAK, RESIDENT, STATES
from taupy.model.step_times import TOKENS as TOKENS_OF_A_STEP
from taupy.network.steps import TOKENS
from taupy.pprof.cells import seen_by, with_short_kernels
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report import contents, page
from tests.builders import (
    call,
    event,
    gpu_profile,
    host,
    profile_of,
    samples,
    small_profile,
    steps,
)
from tests.unit.profiledb.test_layers import known
from tests.unit.ranks.test_command import rank

pd = pytest.importorskip("pandas")

ON_PAGE = {
    "places": [[]],
    "layers": [["--tree"]],
    "phases": [[]],
    "steps": [[]],
    "ranks": [[], ["--by", "step", "--limit", "100"]],
    "kernels": [[], ["--activity"]],
    "memory": [["--by", by] for by in ("routine", "phase", "layer", "callpath", "thread")],
    "waiting": [["--by", by] for by in ("thread", "routine", "phase")],
}
"""Each answer, with the options of its command for the tables on the page."""
WITHOUT = {"places": 4}
"""The trial that lacks an answer, where that is not trial 2."""
WITH = {"ranks": 5, "kernels": 3}
"""The trial that has an answer, where that is not trial 1."""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A training with facts of layers, and trials without any."""
    path = tmp_path / "taupy.db"
    monkeypatch.setenv("TAUPY_DB", str(path))
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path / "state"))
    profile = known()
    profile.metadata[TOKENS] = "counted: input_ids"
    profile.threads[0].steps = [steps([9_000_000, 1_000_000]), steps([500_000], "validation")]
    for series in profile.threads[0].steps:
        series.values[TOKENS_OF_A_STEP] = array("d", [512.0] * len(series))
    profile.threads[0].samples = [samples(RESIDENT, KIB, [100.0, 300.0])]
    profile.threads[0].user_events += [
        event(RESIDENT, [100.0, 300.0], KIB),
        *(replace(event(GROWTH, [50.0], KIB), row=row) for row in (2, 4, 5)),
        replace(event(PEAK, [300.0], KIB), row=5),
    ]
    profile.threads[0].user_events += [
        replace(event(state, [30.0, 40.0]), row=row) for state in STATES[:2] for row in (2, 4)
    ]
    with ProfileDB.open(path, create=True) as db:
        counted = profile_of(host(call("main", 1, {"misses": 7})), number=7)
        for stored in (profile, small_profile(5), gpu_profile(6), counted):
            add_profile(db, stored)
        first, second = rank(0, 20, [20, 120]), rank(1, 160, [85, 180])
        add_profile(db, first)
        add_profile(db, replace(second, uuid=first.uuid))
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


def of_command(capsys, name, asked):
    tables = []
    for words in asked:
        assert main([name, trial_with(name), "--csv", *words]) == 0
        blocks = [block.splitlines() for block in capsys.readouterr().out.split("\n\n")]
        tables += [[*csv.reader(block)] for block in blocks]
    return together(comparable(header, rows) for header, *rows in tables)


def trial_with(name):
    return str(WITH.get(name, 1))


def of_views(views):
    tables = []
    for view in views:
        columns, positions = seen_by(view, "machines")
        rows = [[row[at] for at in positions] for row in view.rows]
        tables.append(comparable([column.name for column in columns], rows))
    return together(tables)


def tab(path, name, trial):
    with ProfileDB.open(path) as db:
        sections = contents.of_trial(db, db.trial(trial)).sections
    return [part for section in sections if section.name == name for part in section.parts]


def every_option(name):
    """Keywords of the notebook's method, and the words of the command that mean the same."""
    yield {}, []
    for entry, setting in settings(module(name).Options):
        if entry.name == "whole":
            continue  # programs get all rows
        flag = [each for each in setting.names if each.startswith("--")]
        flag = (flag or [f"--{entry.name.replace('_', '-')}"])[0]
        texts = ["cpu_time"] if setting.is_text else [1]
        for value in [True] if entry.default is False else setting.choices or texts:
            yield {entry.name: value}, [flag] if value is True else [flag, str(value)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_PAGE)
def test_a_command_and_a_notebook_say_the_same(path, capsys, name):
    """With each option, one at a time."""
    method = getattr(taupy.open(path).trial(trial_with(name)), name)
    shown = 0
    for keywords, words in every_option(name):
        if main([name, trial_with(name), "--csv", *words]):
            said = capsys.readouterr().err
            try:
                assert method(**keywords).empty, words
            except UsageError as refused:
                assert str(refused) in said
            continue
        capsys.readouterr()
        frame = method(**keywords)
        rows = frame.itertuples(index=False, name=None)
        assert comparable([*frame.columns], rows) == of_command(capsys, name, [words]), words
        shown += 1
    assert shown >= 2


@pytest.mark.parametrize("name", ON_PAGE)
def test_a_parquet_file_holds_the_frame_of_the_notebook(path, tmp_path, name):
    pytest.importorskip("pyarrow")
    frame = getattr(taupy.open(path).trial(trial_with(name)), name)()
    assert not frame.empty
    assert main([name, trial_with(name), "--parquet", str(tmp_path / "a.parquet")]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "a.parquet"), frame)


@pytest.mark.parametrize(("name", "asked"), ON_PAGE.items())
def test_a_command_and_the_page_say_the_same(path, capsys, name, asked):
    views = [view for part in tab(path, name, int(trial_with(name))) for view in part.views]
    assert of_views(views) == of_command(capsys, name, asked)
    for view in views:  # and what the page draws are these cells
        view = with_short_kernels(view)
        (_, positions), drawn = seen_by(view, "people"), page._table(view)["rows"]
        assert drawn == [[row[at] for at in positions] for row in view.rows]


@pytest.mark.parametrize(("name", "asked"), ON_PAGE.items())
def test_the_page_has_the_notes_of_the_command(path, capsys, name, asked):
    notes = []
    for words in asked:
        assert main([name, trial_with(name), "--json", *words]) == 0
        tables = json.loads(capsys.readouterr().out)
        notes += [note for table in ([tables] if isinstance(tables, dict) else tables)
                  for note in table["notes"]]  # fmt: skip
    assert notes or name in ("phases", "places", "kernels")
    shown = [note for part in tab(path, name, int(trial_with(name)))
             for notes in (part.lines, *(view.notes for view in part.views))
             for note in notes]  # fmt: skip
    assert [*dict.fromkeys(shown)] == [*dict.fromkeys(notes)]


@pytest.mark.parametrize("name", ON_PAGE)
def test_what_a_trial_has_not_is_no_tab_and_an_empty_frame(path, capsys, name):
    trial = WITHOUT.get(name, 2)
    assert main([name, str(trial)]) == 2
    said = capsys.readouterr().err
    assert said.startswith((f"taupy: trial {trial} has no", f"taupy: nothing of trial {trial} ran"))
    assert getattr(taupy.open(path).trial(trial), name)().empty
    assert tab(path, name, trial) == []


@pytest.mark.parametrize("name", ON_PAGE)
def test_a_notebook_takes_the_options_of_the_command(name):
    """But for `--all`: programs always get all rows."""
    answer = module(name)
    of_method = inspect.signature(getattr(taupy.notebook.Trial, name)).parameters
    of_answer = inspect.signature(answer.Options).parameters
    assert {name: each.default for name, each in of_method.items() if name != "self"} == {
        name: each.default for name, each in of_answer.items() if name != "whole"
    }


def test_every_answer_is_tested_here():
    assert {*ON_PAGE} == {*ANSWERS}
