"""Samples at call paths by label: sums worked out by hand."""

from __future__ import annotations

import pytest

from taupy.model.profile import Timer
from taupy.profiledb.dimensions import WITHIN
from taupy.profiledb.sampled import BY, looks, peaks, sampled_by, waits_by
from taupy.profiledb.writer import add_profile
from tests.builders import call, event, host, profile_of

NET = Timer("Net [Net]", groups=("LAYER",), short="Net")
BODY = Timer("body [Linear]", groups=("LAYER",), short="body")
MAIN = Timer("main", "a.py", 1)
SYNC = Timer("cudaDeviceSynchronize", groups=("CUDA_API", "GPU_SYNC"))


@pytest.fixture
def trained(db):
    """main grows by 1 + 2, Net by 4, body in it by 8; 16 grew somewhere in Net; one sample of
    another thread and one of no call path; Net waits 30 ns for a GPU, main 5."""
    body = call(BODY, 1, 10, events=[event("grew", [8.0])])
    net = call(NET, 1, 10, [body, call(SYNC, 2, 30)],
               events=[event("grew", [4.0]), event("between", [16.0])])  # fmt: skip
    main = call(MAIN, 1, 10, [net, call(SYNC, 1, 5)], events=[event("grew", [1.0, 2.0])])
    other = call(MAIN, 1, 7, events=[event("grew", [32.0])])
    add_profile(db, profile_of(
        host(main, name="MainThread", events=[event("grew", [64.0])]), host(other, thread=1)
    ))  # fmt: skip
    return db


def told(db, by):
    apart = {"between": "(somewhere)"}
    sums = sampled_by(db, 1, ("grew", "between"), by, apart)
    return {
        label: (entry.count.get("grew", 0), sum(entry.own.values()), sum(entry.within.values()))
        for label, entry in sums.items()
    }


def test_a_sample_belongs_to_its_routine_and_lies_within_its_callers(trained):
    assert told(trained, "routine") == {
        "main [{a.py}{1}]": (3, 1 + 2 + 32, 3 + 4 + 8 + 16 + 32),
        "Net [Net]": (1, 4, 4 + 8 + 16),
        "body [Linear]": (1, 8, 8),
        "(somewhere)": (0, 16, 0),
        "(no routine)": (1, 64, 64),
    }


def test_what_no_layer_owns_lies_within_none(trained):
    assert told(trained, "layer") == {
        "Net": (1, 4, 4 + 8 + 16),
        "body": (1, 8, 8),
        "(no layer)": (4, 3 + 32 + 64, 3 + 32 + 64),
        "(somewhere)": (0, 16, 0),
    }


def test_a_thread_has_all_of_its_samples(trained):
    assert told(trained, "thread") == {
        "0.0.0 MainThread": (5, 3 + 4 + 8 + 64, 3 + 4 + 8 + 16 + 64),
        "0.0.1": (1, 32, 32),
        "(somewhere)": (0, 16, 0),
    }


@pytest.mark.parametrize("by", BY)
def test_own_totals_add_up_to_the_whole_by_every_dimension(trained, by):
    rows = told(trained, by).values()
    assert sum(own for _, own, _ in rows) == 127
    assert sum(count for count, _, _ in rows) == 6
    assert looks(trained, 1, ("grew",)) == (6, 111)
    assert looks(trained, 1, ("nothing",)) == (0, 0)


def test_all_dimensions_of_one_label_are_there():
    several = {"group"}
    of_gpus = {"kernel", "device", "kind"}
    assert {*BY} == {*WITHIN} - several - of_gpus | {"routine", "callpath"}


def test_waiting_for_a_gpu_belongs_to_the_caller(trained):
    assert waits_by(trained, 1, "GPU_SYNC", "routine") == {"Net [Net]": 30, "main [{a.py}{1}]": 5}
    assert waits_by(trained, 1, "GPU_SYNC", "layer") == {"Net": 30, "(no layer)": 5}
    assert waits_by(trained, 1, "NOTHING", "layer") == {}


def test_a_peak_has_its_routines_and_places(db):
    at = event("Resident Memory Peak", [1.0])
    add_profile(db, profile_of(host(call(MAIN, 1, 1, [call(NET, 1, 1, events=[at])]))))
    (peak,) = peaks(db, 1, "Resident Memory Peak")
    assert (peak.routines, peak.phase, peak.layer) == (["Net", "main"], "forward", "Net")
    assert peak.most == 1.0
