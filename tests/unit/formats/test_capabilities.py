"""What an export leaves out follows from what the format holds, and each writer keeps its word."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import get_args

import pytest

from taupy.formats import registry
from taupy.formats.capabilities import EVERYTHING, VALUES, Part, left_out
from taupy.model.profile import Samples
from taupy.model.progress import SILENT
from tests.builders import gpu_profile, line_times, small_profile, steps


def parts(profile, holds):
    return [part for part, _ in left_out(profile, frozenset(holds))]


def test_a_format_that_holds_everything_leaves_nothing_out():
    assert left_out(gpu_profile(), EVERYTHING) == []


def test_only_what_the_trial_has_is_reported_as_left_out():
    assert parts(small_profile(), VALUES | {"call paths", "metadata"}) == [
        "user events",
        "node metadata",
    ]
    assert "launches" in parts(gpu_profile(), ()) and "launches" not in parts(small_profile(), ())


def test_values_over_time_are_left_out_by_formats_without_moments():
    profile = small_profile()
    assert "samples" not in parts(profile, ())
    stamps = [array("q", [1]) for _ in range(3)]
    values = [array("d", [1.5]) for _ in range(3)]
    profile.threads[0].samples.append(Samples("power", "W", *stamps, *values))
    assert "samples" in parts(profile, ())


def test_steps_are_left_out_by_formats_that_have_none():
    profile = small_profile()
    assert "steps" not in parts(profile, ())
    profile.threads[0].steps = [steps([10])]
    assert parts(profile, EVERYTHING - {"steps"}) == ["steps"]


def test_times_of_lines_are_left_out_by_all_formats():
    profile = small_profile()
    assert "lines" not in parts(profile, ())
    profile.threads[0].lines = line_times(0)
    assert all(parts(profile, writer.holds).count("lines") == 1 for writer in registry.writers())


def test_further_metrics_are_named():
    (said,) = [words for part, words in left_out(gpu_profile(), EVERYTHING - {"metrics"})]
    assert said.startswith("metrics other than time: flop_fp32")


def test_a_note_says_which_formats_hold_it(tmp_path):
    notes = registry.exported(gpu_profile(), registry.writer("csv"), tmp_path / "flat.csv", SILENT)
    assert "not written: descriptions of GPUs; formats that hold them: chrome" in notes


@pytest.mark.parametrize(
    "format", [writer for writer in registry.writers() if writer.read], ids=lambda one: one.name
)
@pytest.mark.parametrize("made", [small_profile, gpu_profile])
def test_what_a_format_says_it_holds_comes_back(format, made, tmp_path):
    """A part that was written is there when the file is read again."""
    profile = made()
    target = tmp_path / f"x{(format.suffixes or ('',))[0]}"
    assert format.write is not None and format.read is not None
    format.write(profile, target, SILENT)
    (back,) = format.read(target, SILENT)
    written = format.holds & {part for part, _ in left_out(profile, frozenset())}
    came_back = {part for part, _ in left_out(back, frozenset())}
    # Of a single node TAU's files say metadata once for all.
    came_back |= {"node metadata"} & {part for part in written if "metadata" in came_back}
    assert written - came_back == _WRITTEN_FOR_OTHERS.get(format.name, set()) & written


# Viewers show these; taupy's reader sums them up.
_WRITTEN_FOR_OTHERS = {"perfetto": {"activities", "launches"}, "speedscope": {"activities"}}


def test_the_docs_say_which_format_holds_what():
    pages = Path(__file__).parents[3] / "docs/formats.md"
    for part in get_args(Part):
        names = ", ".join(
            f"`{writer.name}`" for writer in registry.writers() if part in writer.holds
        )
        assert f"| {part} | {names or 'a database only'} |" in pages.read_text("utf-8")
