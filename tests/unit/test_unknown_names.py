"""A name that matches nothing is an error that names the nearest, in commands and notebooks."""

from __future__ import annotations

import argparse
import os

import pytest

import taupy
from taupy.commands import COMMANDS, command_parser
from taupy.errors import MissingMetric, TaupyError
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests import in_process
from tests.builders import call, event, gpu_profile, host, profile_of

UUID = "01900000-0000-7000-8000-{:012d}"


@pytest.fixture
def folder(tmp_path):
    with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
        for number in (1, 2):
            load = Timer("load", "data.py", 3, ("PYTHON", "DATA"))
            logged = [event("loss", [1.0], "nat"), event("reward", [2.0], "")]
            main = call(Timer("main", "app.py", 1), 1, 10, [call(load, 2, 100)], events=logged)
            metadata = {"batch size": str(number)}
            made = profile_of(host(main), uuid=UUID.format(number), metadata=metadata)
            add_profile(db, made)
    return tmp_path


@pytest.mark.parametrize(
    "words, said",
    [
        (["pprof", "--metric", "tme"], "near it: time"),
        (["pprof", "--group", "DTA"], "near it: DATA"),
        (["pprof", "--filter", "loda"], "such as load [{data.py}{3}]"),
        (["pprof", "--callers", "mian"], "such as main [{app.py}{1}]"),
        (["compare", "1", "2", "--metric", "tme"], "near it: time"),
        (
            ["compare", "1", "2", "--group", "DTA"],
            "(there are: DATA, PYTHON; near it: DATA)",
        ),
        (["compare", "1", "2", "--by", "file", "--group", "DTA"], "near it: DATA"),
        (["compare", "1", "2", "--by", "callpath", "--filter", "loda"], "such as load ["),
        (["compare", "1", "2", "--filter", "load", "--filter", "mian"], "such as main ["),
        (["compare", "1", "2", "--by", "event", "--filter", "lss"], "near it: loss"),
        (["compare", "1", "2", "--by", "event", "--group", "DATA"], "user events have no groups"),
        (["compare", "1", "2", "--by", "metadata", "--filter", "x"], "takes no --group, --filter"),
        (["compare", "1", "2", "--fail-on", "time of loda > +5%"], "near it: load"),
        (["pivot", "--group", "DTA"], "near it: DATA"),
        (["pivot", "--filter", "loda"], "such as load ["),
        (["pivot", "--rows", "routine", "--group", "DTA"], "near it: DATA"),
        (["pivot", "--rows", "file", "--group", "DTA"], "near it: DATA"),
        (["pivot", "--cell", "duration", "--group", "DATA"], "trials have a duration"),
        (["pivot", "--rows", "meta.batch siz"], "metadata such as batch size"),
        (["pivot", "--cell", "tme"], "near it: time"),
        (["pivot", "--rows", "routine", "--columns", "batch size", "--baseline", "7"], "(1, 2)"),
        (["sweep", "--by", "batch siz"], "batch size"),
        (["sweep", "--by", "batch size", "--metric", "tme"], "near it: time"),
        (["sweep", "--by", "batch size", "--of", "mian"], "such as main ["),
        (["candidates", "--group", "DTA"], "near it: DATA"),
        (["candidates", "--metric", "tme"], "near it: time"),
    ],
)
def test_a_name_that_matches_nothing_is_an_error_with_the_nearest(folder, words, said):
    done = in_process.taupy(*words, "--db", str(folder / "taupy.db"))
    assert done.returncode in (1, 2) and not done.stdout
    assert said in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "ask, said",
    [
        (lambda db: db.compare(1, 2, group="DTA"), "near it: DATA"),
        (lambda db: db.compare(1, 2, filter=["load", "mian"]), "such as main"),
        (lambda db: db.compare(1, 2, by="event", filter="lss"), "near it: loss"),
        (lambda db: db.pivot(group=["DTA"]), "near it: DATA"),
        (lambda db: db.pivot(rows="routine", filter="loda"), "such as load"),
        (lambda db: db.sweep(over="batch size", of="mian"), "such as main"),
        (lambda db: db.trial(1).profile("tme"), "near it: time"),
        (lambda db: db.trial(1).callpaths("tme"), "near it: time"),
    ],
)
def test_notebooks_refuse_such_names_too(folder, ask, said):
    with pytest.raises(TaupyError, match=said):
        ask(taupy.open(folder / "taupy.db"))


def test_a_group_that_exists_limits_the_totals_of_a_pivot(folder):
    frame = taupy.open(folder / "taupy.db").pivot(group="data")
    assert frame.iloc[0, -1] == 100
    assert taupy.open(folder / "taupy.db").pivot().iloc[0, -1] == 110
    with pytest.raises(MissingMetric):
        taupy.open(folder / "taupy.db").pivot(rows="kernel")


NAMING = {
    *("NAME", "NAMES", "PATTERN", "ROUTINE", "TRIAL", "METRIC", "DIMENSION", "DIMENSIONS", "LABEL"),
    *("CONDITION", "WHAT", "CHIP", "MODEL", "LIST", "'PATTERN=NAME'", "'KERNEL=2*M*N*K'", None),
    *("'KERNEL=(M*K+K*N+M*N)*4'", "NAME=VALUE", "NAME=VALUES", "N.C.T", "ACTION", "COMMAND"),
    *("ACTION | TRIAL", "WORD", "WHICH"),
}
"""Metavariables of arguments that name something that must be there."""

NEW = {
    *("attach --application", "attach --experiment", "attach --trial"),
    *("run --app", "run --experiment", "run --trial", "run --include", "run --exclude"),
    *("import --application", "import --experiment", "import --name", "ceilings processor"),
    *("store --keep", "push trial", "pull trial", "static --kernel", "static --chip"),
    *("candidates --ceilings", "sweep --kernel", "derive words", "run --trace", "run --sweep"),
    *("import --merge-into", "report --fail-on", "gate --allow", "gate --fail-on"),
}
"""Names that the user gives; of what runs only then (a note says so); in other files, which other
tests try; and options of two commands that are one."""

VALUES = {
    "CONDITION": ["NOSUCH > 5%", "time of NOSUCH > 5%"],
    "N.C.T": ["7.7.7"],
    "NAME=VALUE": ["NOSUCH=1"],
    "'PATTERN=NAME'": ["NOSUCH=x"],
    "'KERNEL=2*M*N*K'": ["NOSUCH=2"],
    "'KERNEL=(M*K+K*N+M*N)*4'": ["NOSUCH=2"],
    "NAME=VALUES": ["NOSUCH=1,2"],
}
ROOFLINE = ["1", "--bytes", "gemm*=8", "--bytes", "relu*=8", "--ceilings", "H200"]
FIRST = {
    "pivot --ceiling": ["--peak", "--cell", "flop_rate"],
    "export trial": ["-o", "x", "--format", "csv"],
    "sweep selector": ["--by", "batch"],
    "gate --undecided": ["--baseline", "p.py", "--", "p.py"],
    "roofline --sweep": ["1", "2", "--bytes", "train*=8"],
    "pivot": ["1", "2"],
    "compare": ["1", "2"],
    "sweep --by": [],
    "sweep --kernel": ["--block", "64"],
    "sweep": ["--by", "batch"],
    "roofline --series": ["1", "2", "--bytes", "train*=8", "--sweep", "batch"],
    "roofline": ROOFLINE,
    "query": ["SELECT 1"],
    "export": ["1", "-o", "x.json"],
    "gate": ["--baseline", "p.py"],
    "candidates --ceilings": ["--metric", "roofline"],
    "merge": ["t.db", "--into", "u.db"],
    "static": ["x.cubin"],
    "static --gpu": ["x.cubin", "--kernel", "x", "--threads", "9"],
    "run": ["p.py"],
    "run --merge-into": ["--metrics", "flop", "p.py"],
    "import": ["p.py"],
    "candidates": [],
    "kernel": ["gemm"],
}
"""What else a command needs to come to the name."""


def naming():
    """Every argument of a command that names something, with a name that is not there."""
    for command in COMMANDS:
        for action in command_parser(command)._actions:
            own = f"{command} {(action.option_strings or [action.dest])[0]}"
            shown = action.metavar if not isinstance(action.metavar, tuple) else None
            named = action.choices is not None or shown in NAMING
            if not named or action.nargs == 0 or own in NEW or action.help == argparse.SUPPRESS:
                continue
            for value in VALUES.get(shown, ["NOSUCH"]):
                of_command = FIRST.get(command, []) if action.option_strings else []
                first = FIRST.get(own, of_command)
                name = [*action.option_strings[:1], *[value] * (2 if action.nargs == 2 else 1)]
                yield pytest.param([command, *name, *first], id=" ".join([own, value]))


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    with ProfileDB.open(folder / "t.db", create=True) as db:
        for number in (1, 2):
            add_profile(db, gpu_profile(number, metadata={"batch": str(number), "Script": "p.py"}))
    (folder / "p.py").touch()
    return folder


LISTS = (
    *("there are", "it has", "has:", "such as", "near it", "choose from", "known", "values:"),
    *("labels", "the trial has", "takes", "one of", "the largest are", "columns (", "trials:"),
    *("lists", "did you mean", "differs"),
)


@pytest.mark.parametrize("words", naming())
def test_no_command_takes_a_name_that_is_not_there(words, kernels):
    environment = {"TAUPY_STATE_DIR": str(kernels / "state"), "TAUPY_DB": str(kernels / "t.db")}
    done = in_process.taupy(*words, cwd=kernels, env={**os.environ, **environment})
    assert done.returncode in (1, 2), done.stdout
    said = done.stderr or done.stdout  # `avail --check` judges each name in a table
    assert "nosuch" in said.lower() or "7.7.7" in said, said
    assert any(word in said for word in LISTS), said


def test_a_query_names_the_parameters_and_columns_that_are_there(kernels):
    def said(*words):
        done = in_process.taupy("query", *words, "--db", kernels / "t.db")
        assert done.returncode == 2
        return done.stderr

    assert "no parameter ':n' (there are: :t)" in said(
        "SELECT :t", "--param", "t=1", "--param", "n=2"
    )
    assert "did you mean started_at" in said("SELECT startd_at FROM trial")


@pytest.mark.parametrize("recorded", [[], ["other"]])
def test_an_include_that_matches_nothing_names_the_nearest_functions(tmp_path, recorded):
    from types import SimpleNamespace

    from taupy.record.host_health import of_settings

    (tmp_path / "p.py").write_text("class Net:\n    def forward(self): pass\n\ndef other(): pass\n")
    options = {"include": ["Net.foward", *recorded]}
    settings = SimpleNamespace(
        engine_options=options, cwd=str(tmp_path), arguments=["p.py"], metadata={}, notes=[]
    )
    timers = [Timer(".taupy application"), *(Timer(name, "p.py", 4) for name in recorded)]
    said = of_settings(settings, timers, [])["taupy.health.include"]
    assert "matches --include Net.foward (near it: Net.forward)" in said
    assert ("nothing was recorded" in said) == (not recorded)
    options["include"] = recorded
    assert "taupy.health.include" not in of_settings(settings, timers, [])
