"""No importer stores a time below zero, whatever the file says."""

from __future__ import annotations

import math
import random
from array import array

from taupy.formats import times
from taupy.formats.registry import IMPORT_NOTES
from taupy.model import invariants
from tests import builders
from tests.in_process import taupy

# TAU's columns: calls, subroutines, exclusive and inclusive time in us.
IMPOSSIBLE = """5 templated_functions_MULTI_TIME
# Name Calls Subrs Excl Incl ProfileCalls #
".TAU application" 1 1 10 100 0 GROUP="TAU_DEFAULT"
"main" 1 2 -20 120 0 GROUP="TAU_DEFAULT"
"f" 2 0 140 140 0 GROUP="TAU_DEFAULT"
".TAU application => main" 1 2 -20 120 0 GROUP="TAU_CALLPATH"
".TAU application => main => f" 2 0 140 140 0 GROUP="TAU_CALLPATH"
0 aggregates
0 userevents
"""


def test_an_import_says_what_is_below_zero_and_stores_it_as_unknown(tmp_path):
    (tmp_path / "profile.0.0.0").write_text(IMPOSSIBLE)
    done = taupy("import", tmp_path, "--db", tmp_path / "t.db")
    assert done.returncode == 0
    assert (
        "note: time: 1 call path below zero in the file, now unknown "
        "(.TAU application => main: -20.0 us exclusive)"
    ) in done.stderr
    assert (
        "note: time: 1 call path with less time than their callees together "
        "(.TAU application: 100 us, its callees 120 us)"
    ) in done.stderr
    shown = taupy(
        "query",
        "SELECT min(exclusive), count(*) - count(exclusive) FROM callpaths",
        "--db",
        tmp_path / "t.db",
        "--csv",
    )
    assert "10000,1" in shown.stdout.replace(".0", "")


def test_only_times_below_zero_change():
    profile = builders.small_profile()
    tree = profile.threads[0].tree
    before = {name: column.tolist() for name, column in tree.exclusive.items()}
    tree.exclusive["time"][1] = -7
    times.check(profile)
    after = tree.exclusive["time"].tolist()
    assert math.isnan(after[1])
    assert [*after[:1], *after[2:]] == [*before["time"][:1], *before["time"][2:]]
    assert all(tree.exclusive[name].tolist() == before[name] for name in before if name != "time")
    assert "now unknown" in profile.metadata[IMPORT_NOTES]


def test_a_lawful_profile_stays_as_it_is_and_rounded_sums_are_no_error():
    for seed in range(20):
        profile = builders.random_profile(random.Random(seed))
        assert invariants.check(profile) == []
        times.check(profile)
        assert IMPORT_NOTES not in profile.metadata
    tree = profile.threads[0].tree
    tree.inclusive["time"] = array("d", [value * 0.9999 for value in tree.inclusive["time"]])
    times.check(profile)
    assert IMPORT_NOTES not in profile.metadata


def test_counters_may_be_below_zero():
    profile = builders.small_profile()
    (counter,) = (metric.name for metric in profile.metrics if metric.unit == "count")
    profile.threads[0].tree.exclusive[counter][1] = -5
    times.check(profile)
    assert profile.threads[0].tree.exclusive[counter][1] == -5
    assert IMPORT_NOTES not in profile.metadata
