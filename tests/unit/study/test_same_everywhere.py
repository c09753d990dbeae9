"""Answers about several trials are the same from a command and in a notebook, for every option.

Not compared: `--all`, since programs get all rows; and what `COMMANDS_ONLY` lists.
"""

from __future__ import annotations

import csv
import inspect
import json

import pytest

import taupy.notebook
from taupy.answers import COMMANDS_ONLY, compare
from taupy.commands import command_parser, main
from taupy.errors import TaupyError
from taupy.model.options import settings
from taupy.study import candidates, sweep
from taupy.study.pivot import Layout
from taupy.study.sweep import PARTS, SweepOptions
from tests.differential.outputs import _small as make

pd = pytest.importorskip("pandas")

TRIALS = {"compare": ["runs/base", "runs/new"], "pivot": ["runs/base", "runs/new"],
          "sweep": ["runs/base"]}  # fmt: skip
OPTIONS = {"compare": compare.Options, "pivot": Layout, "sweep": SweepOptions}
ALWAYS = {"compare": {}, "pivot": {}, "sweep": {"over": "n"}}
"""The options that are given in any case."""
VALUES = {
    "metric": "time", "group": "PHASE", "filter": "work", "table": None, "baseline": None,
    "alpha": 0.2, "min_effect": 0.5, "min_share": 0.4, "limit": 2, "rows": "routine",
    "columns": "experiment", "cells": "time", "ceiling": None, "peak": None, "over": "n",
    "of": "epoch",
}  # fmt: skip
"""One value of each option that is not a choice; None: tested by itself."""
AS_PERCENT = ("min_effect", "min_share")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("several") / "taupy.db"
    make(path)
    return path


@pytest.fixture(autouse=True)
def chosen(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TAUPY_DB", str(path))
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path))


def questions(name):
    """The keywords of each question: the options that are always given, and each other one with
    each of its values."""
    yield {}
    for entry, setting in settings(OPTIONS[name]):
        if entry.name == "whole" or entry.name in ALWAYS[name]:
            continue
        values = setting.choices or ([True] if entry.default is False else [VALUES[entry.name]])
        yield from ({entry.name: value} for value in values if value is not None)


def words(name, keywords):
    given = []
    for entry, setting in settings(OPTIONS[name]):
        value = keywords.get(entry.name)
        if value is not None:
            flag = [*filter(lambda each: each.startswith("--"), setting.names)]
            given += (flag or [f"--{entry.name.replace('_', '-')}"])[:1]
            if value is not True:
                given.append(str(100 * value if entry.name in AS_PERCENT else value))
    return given


def frame(path, name, keywords):
    found = getattr(taupy.open(path), name)(*TRIALS[name], **keywords)
    return found.frame("routines") if name == "sweep" else found


def cells(row):
    numbers = []
    for cell in row:
        try:
            numbers.append("" if float(cell) != float(cell) else float(cell))
        except (TypeError, ValueError):
            numbers.append("" if pd.isna(cell) else cell.removeprefix("'"))  # a formula's guard
    return numbers


def as_rows(columns, rows):
    """The cells that are not empty: a table of several kinds of rows has columns that one lacks."""
    return [
        {name: cell for name, cell in zip(columns, cells(row), strict=True) if cell != ""}
        for row in rows
    ]


@pytest.mark.parametrize("name", OPTIONS)
def test_a_command_and_a_notebook_say_the_same(path, capsys, name):
    """Without options, and with the last two ones."""
    first, *others = questions(name)
    assert compared(path, capsys, name, [first, *others[-2:]])


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_so_they_do_with_each_option(path, capsys, name):
    """One at a time."""
    assert compared(path, capsys, name, questions(name)) > 5


def compared(path, capsys, name, asked):
    """Compare columns, cells and notes; how many of these questions have rows."""
    shown, noted_ever = 0, set()
    for chosen in asked:
        keywords = {**ALWAYS[name], **chosen}
        parts = ["--show", "routines"] if name == "sweep" else []
        asked = [name, *TRIALS[name], *words(name, keywords), *parts, "--csv"]
        if main(asked):
            refusal = capsys.readouterr().err
            with pytest.raises(TaupyError) as problem:
                frame(path, name, keywords)
            assert str(problem.value) in refusal
            continue
        printed = capsys.readouterr().out.split("\n\n")
        assert main([*asked[:-1], "--json"]) == 0
        stored = json.loads(capsys.readouterr().out)
        noted = [note for table in ([stored] if isinstance(stored, dict) else stored)
                 for note in table["notes"]]  # fmt: skip
        tables = [[*csv.reader(block.splitlines())] for block in printed]
        found = frame(path, name, keywords)
        rows = as_rows(found.columns, found.itertuples(index=False, name=None))
        assert rows == [row for header, *lines in tables for row in as_rows(header, lines)], asked
        assert {*found.columns} == {column for header, *_ in tables for column in header}
        texts = {*found.attrs["notes"]} - {*found.attrs.get("not_comparable", ())}
        assert texts == {*noted}, asked
        noted_ever |= texts
        shown += bool(rows)
    assert noted_ever or name == "sweep"  # whose routines have none
    return shown


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("limit", [None, 2])
def test_every_table_of_a_sweep_has_the_rows_and_notes_of_its_json(
    path, capsys, monkeypatch, part, limit
):
    monkeypatch.setattr(sweep, "PEOPLE_ROWS", 1)
    options = ["--limit", str(limit)] if limit else []
    assert main(["sweep", "runs/base", "--by", "n", "--show", part, *options, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    found = taupy.open(path).sweep("runs/base", over="n", limit=limit).frame(part)
    assert len(found) == len(printed["rows"])
    assert found.attrs["notes"] == printed["notes"]


@pytest.mark.parametrize("limit", [None, 1])
def test_programs_get_all_candidates_unless_they_limit_them(path, capsys, monkeypatch, limit):
    monkeypatch.setattr(candidates, "PEOPLE_ROWS", 2)
    options = ["--limit", str(limit)] if limit else []
    assert main(["candidates", "runs/base/run10", "--metric", "time", *options, "--csv"]) == 0
    printed = [*csv.reader(capsys.readouterr().out.splitlines())][1:]
    found = taupy.open(path).trial("runs/base/run10").candidates("time", limit=limit)
    assert len(found) == len(printed) == (limit or 4)


@pytest.mark.parametrize("name", OPTIONS)
def test_a_notebook_takes_the_options_of_the_command(name):
    taken = inspect.signature(getattr(taupy.notebook.Database, name)).parameters
    declared = {entry.name: entry.default for entry, _ in settings(OPTIONS[name])}
    declared.pop("whole", None)
    assert {
        each.name: each.default for each in taken.values() if each.kind == each.KEYWORD_ONLY
    } == declared


STANDARD = {
    *("help", "trials", "selector", "db", "trust_files", "trust_folder", "cluster", "form"),
    *("color", "whole"),
}
"""What all commands have, and for people."""


@pytest.mark.parametrize("name", [*OPTIONS, "gate"])
def test_the_options_of_a_command_alone_are_listed(name):
    method = inspect.signature(getattr(taupy.notebook.Database, name)).parameters
    actions = command_parser(name)._actions
    alone = [each for each in actions if each.dest not in STANDARD and each.dest not in method]
    assert {each.option_strings[0] for each in alone} == {
        option for command, option in COMMANDS_ONLY if command == name
    }


def test_each_option_that_a_gate_heeds_is_one_of_compare():
    taken = inspect.signature(taupy.notebook.Database.gate).parameters
    declared = {entry.name: entry.default for entry, _ in settings(compare.Options)}
    own = {name: each.default for name, each in taken.items() if name in declared}
    own.pop("baseline")  # which a gate needs
    assert own and own.items() <= declared.items()
