"""TAU's profiles in XML, without Java."""

from __future__ import annotations

import pytest

from taupy.errors import FormatError
from taupy.formats import registry
from taupy.formats.registry import IMPORT_NOTES
from taupy.formats.tau import snapshot as tau_snapshot
from taupy.model import invariants
from taupy.model.profile import Metric
from tests.unit.formats import tau_files
from tests.unit.formats.comparing import one, paths, read, short_paths


def write(folder, name, text):
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_of_several_snapshots_the_last_is_the_profile(tmp_path):
    path = write(tmp_path, "snapshot.0.0.1.1", tau_files.SNAPSHOT)
    assert registry.recognised(path).name == "tau-xml"
    profile = one(tau_snapshot, path)
    (measured,) = profile.threads
    assert (measured.thread.node, measured.thread.context, measured.thread.thread) == (0, 0, 1)
    assert short_paths(profile, measured) == {
        ".TAU application": (1, 2, 50_500, 10_000),
        ".TAU application > main": (2, 0, 40_500, 40_500),
    }
    counts = [values[2]["PAPI_FP_OPS"] for values in paths(profile, measured).values()]
    assert counts == [(9, 0), (9, 9)]
    assert profile.metrics == [Metric("PAPI_FP_OPS", "count"), Metric("time", "ns")]
    assert profile.metadata["Hostname"] == "node<1>"
    assert "used the last of several" in profile.metadata[IMPORT_NOTES]
    assert [(event.name, event.unit, event.count) for event in measured.user_events] == [
        ("Heap", "KB", 2)
    ]
    assert invariants.check(profile) == []


def test_a_merged_file_has_all_processes_and_no_sums_over_them(tmp_path):
    profiles = read(tau_snapshot, write(tmp_path, "tauprofile.xml", tau_files.MERGED))
    times = {
        measured.thread.node: list(measured.tree.inclusive["time"])
        for profile in profiles
        for measured in profile.threads
    }
    assert times == {0: [5_000], 1: [6_000]}
    assert "omitted" in profiles[0].metadata[IMPORT_NOTES]


def test_a_folder_of_snapshots_is_one_trial(tmp_path):
    write(tmp_path, "snapshot.0.0.1.1", tau_files.SNAPSHOT)
    write(tmp_path, "snapshot.0.0.0.0", tau_files.SNAPSHOT.replace("0.0.1.1", "0.0.0.0"))
    assert registry.recognised(tmp_path).name == "tau-xml"
    (profile,) = read(tau_snapshot, tmp_path)
    assert [measured.thread.thread for measured in profile.threads] == [0, 1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</profile_xml>", "", "line 48: mismatched tag"),
        ("0 1 2 10 50.5 0 9", "0 1 2 10", "4 numbers in a row for 2 metrics"),
        ("0 1 2 10 50.5 0 9", "7 1 2 10 50.5 0 9", "routine 7 is not defined"),
        ("0 1 2 10 50.5 0 9", "0 1 x 10 50.5 0 9", "not a row of numbers"),
        ("0 2 7 1 4 50", "9 2 7 1 4 50", "user event 9 is not defined"),
        ('metrics="0 1 "', 'metrics="0 5 "', "metric 5 is not defined"),
        ('<thread id="0.0.1.1"', '<thread id="0"', "is not a thread"),
        ("<profile_xml>", '<!DOCTYPE a [<!ENTITY b "c">]><profile_xml>', "line 1"),
    ],
)
def test_what_is_not_as_it_should_be_is_refused_with_its_place(tmp_path, old, new, said):
    path = write(tmp_path, "snapshot.0.0.1.1", tau_files.SNAPSHOT.replace(old, new))
    with pytest.raises(FormatError, match=r"snapshot\.0\.0\.1\.1") as refused:
        read(tau_snapshot, path)
    assert said in str(refused.value)
