"""`taupy memory`: when memory was largest, and where the program was then."""

from array import array
from dataclasses import replace

import pytest

from taupy.answers import memory
from taupy.model.sampled import KIB, PEAK, RESIDENT
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import event, samples, small_profile


@pytest.fixture
def notes(tmp_path):
    def notes(at_peak, least=500.0):
        """Of 100 KiB in the first second and `least` to 500 KiB in the next two."""
        profile = small_profile()
        (thread, *_) = profile.threads
        begun = int(profile.started_at * 1e9)
        thread.samples = [
            replace(
                samples(RESIDENT, KIB, [100.0, 500.0]),
                start_ns=array("q", [begun, begun + 1_000_000_000]),
                end_ns=array("q", [begun + 1_000_000_000, begun + 3_000_000_000]),
                minimum=array("d", [100.0, least]),
                maximum=array("d", [100.0, 500.0]),
            )
        ]
        thread.user_events += [replace(event(PEAK, [at_peak], KIB), row=2)]
        with ProfileDB.open(tmp_path / "taupy.db", create=True) as db:
            add_profile(db, profile)
            (view,) = memory.views(db, 1, memory.Options())
        return view.notes[:2]

    return notes


def test_the_largest_memory_has_its_moment_and_where_the_threads_were_then(notes):
    assert notes(500.0) == [
        "largest 500.0 KiB, 1.00 s after the start (100.0 KiB at first, 500.0 KiB at last)",
        "then the main thread was in f, called by f, <module>",
    ]


def test_of_several_looks_that_were_merged_the_moment_is_not_said(notes):
    assert notes(500.0, least=200.0)[0].startswith(
        "largest 500.0 KiB, between 1.00 s and 3.00 s after the start ("
    )


def test_what_was_larger_after_the_series_ended_is_the_largest(notes):
    first, second = notes(600.0)
    assert first == "largest 600.0 KiB (100.0 KiB at first, 500.0 KiB at last)"
    assert second.startswith("then the main thread was in f")


def test_where_threads_were_at_another_amount_is_said_of_that_amount(notes):
    assert notes(460.0)[1].startswith("at 460.0 KiB the main thread was in f")
