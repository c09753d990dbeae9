"""Profiles that TAU itself wrote, through import, database, `taupy pprof` and export.

The profiles are not in this repository; the environment variable TAUPY_SHARED_DATA
names the folder that has them.
"""

from __future__ import annotations

import os
import re
import tarfile
from pathlib import Path

import pytest

from taupy.commands import main
from taupy.formats.tau import profiles as tau
from taupy.model import invariants
from taupy.model.progress import SILENT
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.reader import read_profile
from taupy.profiledb.writer import add_profile
from tests.unit.formats.comparing import flat_by_name, one

SHARED = os.environ.get("TAUPY_SHARED_DATA")
FOLDER = Path(SHARED or "/nonexistent") / "tau"

pytestmark = pytest.mark.skipif(
    not (FOLDER / "README.md").is_file(),
    reason="TAUPY_SHARED_DATA names no folder with TAU's profiles",
)

CASES = [
    "edge_names",
    "py311_exceptions",
    "py311_nn_numpy_multimetric",
    "py311_pytau_api",
    "py311_recursion",
    "py311_recursion_callpath",
    "py311_throttle",
]
PRINTED = {
    "edge_names": "pprof_a.txt",
    **{name: "pprof/a.txt" for name in CASES[1:] if name not in (
        "py311_nn_numpy_multimetric", "py311_recursion_callpath")},
}  # fmt: skip
PRINTED_ROW = re.compile(r"^ *([\d.]+) +(\S+) +(\S+) +(\d+) +(\d+) +(\S+) (.*)$", re.MULTILINE)
ROW = re.compile(
    r'"((?:(?!\n").)*?)" (\d+) (\d+) (\S+) (\S+) 0 GROUP="([^"]*)" ?(?=\n"|\Z)', re.DOTALL
)
EVENT = re.compile(r'^"(.*)" (\d+) (\S+) (\S+) (\S+) (\S+)$', re.MULTILINE)


@pytest.fixture
def callpath(tmp_path):
    """The large one, 18 MB."""
    with tarfile.open(FOLDER / "py312_nn_numpy_callpath" / "raw.tar.gz") as archive:
        archive.extractall(tmp_path / "large", filter="data")
    return tmp_path / "large" / "raw"


def parsed(folder):
    """What TAU's files say, read apart from the code under test."""
    found = {}
    for file in sorted(folder.rglob("profile.*.*.*")):
        first, heading, rest = file.read_text("utf-8").split("\n", 2)
        body, _, after = rest.partition("\n0 aggregates")
        rows = {
            name: (int(calls), int(subroutines), float(exclusive), float(inclusive),
                   frozenset(groups.split("|")))
            for name, calls, subroutines, exclusive, inclusive, groups in ROW.findall(body)
        }  # fmt: skip
        assert len(rows) == int(first.split()[0])
        events = {name: tuple(map(float, values)) for name, *values in EVENT.findall(after)}
        facts = set(re.findall("<name>(.*?)</name><value>(.*?)</value>", heading))
        found[first.split("_MULTI_")[1], file.name] = (rows, events, facts)
    return found


def through_the_database(source, folder):
    with ProfileDB.open(folder / "taupy.db", create=True) as db:
        (profile,) = tau.read(source, SILENT)
        profile.uuid = "0"
        stored = read_profile(db, add_profile(db, profile))
    tau.write(stored, folder / "out", SILENT)
    return parsed(folder / "out")


def assert_same(ours, theirs):
    assert ours.keys() == theirs.keys()
    for file, (rows, events, facts) in theirs.items():
        our_rows, our_events, our_facts = ours[file]
        newlines = {name for name in rows if "\n" in name}
        assert our_rows == {name.replace("\n", "\\n"): values for name, values in rows.items()}
        assert len(newlines) <= 1
        assert our_events == events
        # What needs CDATA there is written with entities here.
        assert {fact for fact in facts if "CDATA" not in fact[1]} <= our_facts


@pytest.mark.parametrize("case", CASES)
def test_tau_to_us_to_tau_changes_no_number(tmp_path, case):
    source = FOLDER / case / "raw"
    assert_same(through_the_database(source, tmp_path), parsed(source))


@pytest.mark.slow
def test_tau_to_us_to_tau_changes_no_number_of_many_call_paths(tmp_path, callpath):
    assert_same(through_the_database(callpath, tmp_path), parsed(callpath))


@pytest.mark.slow
def test_the_call_tree_of_a_whole_profile_is_lawful_and_sums_up_to_taus_rows(callpath):
    profile = one(tau, callpath)
    assert invariants.check(profile) == []
    rows, _, _ = parsed(callpath)["TIME", "profile.0.0.0"]
    flat = {name: row for name, row in rows.items() if "TAU_CALLPATH" not in row[4]}
    ours = flat_by_name(profile, profile.threads[0])
    assert ours == {
        name: (calls, subroutines, int(inclusive) * 1000, int(exclusive) * 1000)
        for name, (calls, subroutines, exclusive, inclusive, _) in flat.items()
    }


@pytest.mark.parametrize("case", PRINTED)
def test_taupy_pprof_prints_what_taus_pprof_prints(tmp_path, monkeypatch, capsys, case):
    monkeypatch.setenv("TAUPY_STATE_DIR", str(tmp_path))
    database = str(tmp_path / "taupy.db")
    assert main(["import", "--db", database, str(FOLDER / case / "raw")]) == 0
    assert main(["pprof", "--wide", "--db", database]) == 0
    ours = PRINTED_ROW.findall(capsys.readouterr().out)
    theirs = PRINTED_ROW.findall((FOLDER / case / PRINTED[case]).read_text("utf-8"))
    # TAU prints tabs and line breaks of names raw, and cuts them off where lines end.
    names = {name.strip(): cells for *cells, name in ours}
    assert len(ours) == len(theirs) > 30
    for *cells, name in theirs:
        if "\t" in name or name.strip() in ("", "a", "b"):
            continue
        assert names[name.strip()][:5] == cells[:5], name
        assert abs(float(names[name.strip()][5]) - float(cells[5])) <= 0.5, name
