"""A name that matches nothing is an error that names the nearest, in commands and notebooks."""

from __future__ import annotations

import pytest

import taupy
from taupy.errors import MissingMetric, TaupyError
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests import in_process
from tests.builders import call, event, host, profile_of

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
